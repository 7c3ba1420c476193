//! Which instructions of a tape are one pass over the elements of a chunk.
//!
//! A sum before a function of one operand, and a product and a sum after it, are done in its loop (see
//! [`fused_affine`](fx_core::pointwise::fused_affine)), and so are sums and products without a
//! function. What is between has no register then.

use fx_core::pointwise::fused_affine::{self, FusedAffine, Minus, Term};
use fx_simd::{Arithmetic, UninitSlice};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::{Action, Instruction, Location, Map};

/// What an instruction is in a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Before,
    Function,
    Factor,
    After,
    /// The only one.
    Alone,
}

/// Neighbouring instructions that run as one.
pub(super) struct FusedRange {
    pub(super) instructions: std::ops::Range<usize>,
    roles: SmallVec<[Role; 4]>,
}

/// What runs over a chunk at once.
pub(crate) enum Loop {
    /// An instruction.
    One(usize),
    /// Several of them.
    Fused(Box<FusedLoop>),
}

/// A function of `f32` elements with what is around it.
pub(crate) struct FusedLoop {
    function: fused_affine::Kernel,
    params: SmallVec<[f32; 2]>,
    x: Location,
    before: Option<(Location, Option<Minus>)>,
    factor: Option<Location>,
    after: Option<(Location, Option<Minus>)>,
    output: Location,
}

/// Who writes and reads each register of instructions that write each one once, and which are in a part.
struct Flow<'a, F> {
    instructions: &'a [Instruction],
    writers: FxHashMap<u32, usize>,
    readers: FxHashMap<u32, SmallVec<[usize; 2]>>,
    is_result: F,
    is_taken: Vec<bool>,
}

impl Instruction {
    /// Returns the operation of two operands that this is, if it is one.
    fn arithmetic(&self) -> Option<Arithmetic> {
        let op = self.def?.arithmetic()?;
        let is_plain = match &self.action {
            Action::Map(Map::F32(_, params)) => params.iter().all(|&x| x == 1.0),
            _ => false,
        };
        (is_plain && !self.per_row && self.inputs.len() == 2).then_some(op)
    }

    fn is_sum(&self) -> bool {
        matches!(self.arithmetic(), Some(Arithmetic::Add | Arithmetic::Sub))
    }

    fn is_product(&self) -> bool {
        matches!(self.arithmetic(), Some(Arithmetic::Mul))
    }

    /// Returns the function of one operand that this is, with its parameters, if it has a kernel with others
    /// around.
    fn function(&self) -> Option<(fused_affine::Kernel, &SmallVec<[f32; 2]>)> {
        match &self.action {
            Action::Map(Map::F32(_, params)) if !self.per_row => Some((self.def?.fused_affine()?, params)),
            _ => None,
        }
    }

    /// Returns the other operand of one that has a value, and which one a difference subtracts.
    fn beside(&self, value: Location) -> (Location, Option<Minus>) {
        let is_difference = self.arithmetic() == Some(Arithmetic::Sub);
        let (other, minus) = match self.inputs[0] == value {
            true => (self.inputs[1], Minus::Right),
            false => (self.inputs[0], Minus::Left),
        };
        (other, is_difference.then_some(minus))
    }
}

impl<F: Fn(u32) -> bool> Flow<'_, F> {
    /// Returns the only reader, once, of what an instruction writes and nobody else sees, if it is in no part yet.
    fn next(&self, i: usize) -> Option<usize> {
        let Location::Register(out) = self.instructions[i].output else { return None };
        match self.readers.get(&out)?[..] {
            [reader] if !(self.is_result)(out) && !self.is_taken[reader] => Some(reader),
            _ => None,
        }
    }

    /// Returns the sum before a function that can be in its part.
    fn before(&self, i: usize) -> Option<usize> {
        let Location::Register(given) = self.instructions[i].inputs[0] else { return None };
        let before = *self.writers.get(&given)?;
        let is_fine =
            !self.is_taken[before] && self.instructions[before].is_sum() && self.next(before) == Some(i);
        is_fine.then_some(before)
    }

    /// Appends the product, unless there is one, and the sum that follow a part.
    fn follow(&self, part: &mut SmallVec<[(usize, Role); 4]>) {
        let next = |part: &[(usize, Role)]| part.last().and_then(|(i, _)| self.next(*i));
        if part.iter().all(|(_, role)| *role != Role::Factor)
            && let Some(product) = next(part).filter(|&i| self.instructions[i].is_product())
        {
            part.push((product, Role::Factor));
        }
        if let Some(sum) = next(part).filter(|&i| self.instructions[i].is_sum()) {
            part.push((sum, Role::After));
        }
    }

    /// Returns the part that an instruction is in, of which it is the function or the first.
    fn part(&self, i: usize) -> SmallVec<[(usize, Role); 4]> {
        let instruction = &self.instructions[i];
        let mut part = SmallVec::new();
        if instruction.function().is_some() {
            part.extend(self.before(i).map(|before| (before, Role::Before)));
            part.push((i, Role::Function));
        } else if instruction.is_sum() {
            part.push((i, Role::Before));
        } else if instruction.is_product() {
            part.push((i, Role::Factor));
        } else {
            part.push((i, Role::Alone));
            return part;
        }
        self.follow(&mut part);
        if part.len() == 1 {
            part[0].1 = Role::Alone;
        }
        part
    }
}

/// Brings instructions that can run as one side by side, of instructions whose registers are each written
/// once, and tells the parts.
pub(super) fn join(instructions: &mut Vec<Instruction>, is_result: impl Fn(u32) -> bool) -> Vec<FusedRange> {
    let n = instructions.len();
    let mut flow = Flow {
        instructions,
        writers: FxHashMap::default(),
        readers: FxHashMap::default(),
        is_result,
        is_taken: vec![false; n],
    };
    for (i, instruction) in flow.instructions.iter().enumerate() {
        for &input in &instruction.inputs {
            if let Location::Register(register) = input {
                flow.readers.entry(register).or_default().push(i);
            }
        }
        if let Location::Register(register) = instruction.output {
            flow.writers.insert(register, i);
        }
    }
    let is_function = |i: &usize| flow.instructions[*i].function().is_some();
    let (functions, others): (Vec<usize>, Vec<usize>) = (0..n).partition(is_function);
    let mut found: Vec<SmallVec<[(usize, Role); 4]>> = Vec::new();
    for i in functions.into_iter().chain(others) {
        if !flow.is_taken[i] {
            let part = flow.part(i);
            part.iter().for_each(|&(i, _)| flow.is_taken[i] = true);
            found.push(part);
        }
    }
    // All that a part reads was written before its last instruction.
    found.sort_by_key(|part| part.last().map(|(i, _)| *i));
    let mut ordered = Vec::with_capacity(n);
    let mut parts = Vec::with_capacity(found.len());
    for part in found {
        let start = ordered.len();
        ordered.extend(part.iter().map(|(i, _)| instructions[*i].clone()));
        let roles = part.into_iter().map(|(_, role)| role).collect();
        parts.push(FusedRange { instructions: start..ordered.len(), roles });
    }
    *instructions = ordered;
    parts
}

impl Loop {
    /// Returns how a part runs, whose spots are where elements are found.
    pub(super) fn new(part: &FusedRange, instructions: &[Instruction]) -> Loop {
        let first = part.instructions.start;
        if part.roles[..] == [Role::Alone] {
            return Loop::One(first);
        }
        let mut fused = FusedLoop {
            function: fused_affine::identity,
            params: SmallVec::new(),
            x: instructions[first].inputs[0],
            before: None,
            factor: None,
            after: None,
            output: instructions[part.instructions.end - 1].output,
        };
        // The value so far; the first instruction's left operand is where it begins.
        let mut value = fused.x;
        for (instruction, role) in instructions[part.instructions.clone()].iter().zip(&part.roles) {
            match role {
                Role::Before => fused.before = Some(instruction.beside(value)),
                Role::Factor => fused.factor = Some(instruction.beside(value).0),
                Role::After => fused.after = Some(instruction.beside(value)),
                Role::Function => {
                    if let Some((kernel, params)) = instruction.function() {
                        (fused.function, fused.params) = (kernel, params.clone());
                    }
                }
                Role::Alone => {}
            }
            value = instruction.output;
        }
        Loop::Fused(Box::new(fused))
    }
}

impl FusedLoop {
    /// Computes the elements of a chunk.
    ///
    /// # Safety
    ///
    /// There are `len` elements at each spot that is read, and room for as many at the output, which is none
    /// of them.
    pub(super) unsafe fn run(&self, place: impl Fn(Location) -> *const u8, len: usize) {
        // SAFETY: the caller's promise.
        let elements = |spot| unsafe { std::slice::from_raw_parts(place(spot).cast::<f32>(), len) };
        let term = |(spot, minus)| Term { elements: elements(spot), minus };
        let fused_affine = FusedAffine {
            x: elements(self.x),
            before: self.before.map(term),
            factor: self.factor.map(elements),
            after: self.after.map(term),
        };
        // SAFETY: the caller's promise.
        let out = unsafe { std::slice::from_raw_parts_mut(place(self.output).cast_mut().cast(), len) };
        (self.function)(&fused_affine, &self.params, UninitSlice::over(out));
    }
}
