//! [`Tape`]: pointwise operations and operations on rows, one after the other on a block of elements that stays in the first cache.
//!
//! A tape walks over a *domain* of elements in row-major order, in units: blocks of elements, or whole rows if it reduces them. For each
//! unit it runs its instructions, each of which reads and writes registers of as many elements. The instructions are the block
//! kernels of the rows, so that a fused group has the bits that its operations have one by one.

pub(crate) mod build;

use std::cell::RefCell;

use fx_core::array::Cast;
use fx_core::math::Real;
use fx_core::pointwise::Block;
use fx_core::{DType, Element};
use fx_simd::{Slots, parallel};
use smallvec::SmallVec;

use super::Kernel;
use super::operand::{Bases, ValueId, Walk};
use crate::kernel::rows;

/// Where an instruction finds or puts elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Spot {
    /// A register: its first byte in the scratch memory.
    Register(u32),
    /// An operand from outside.
    Load(u16),
    /// A number, repeated.
    Number(u16),
    /// A result.
    Store(u16),
}

/// An operand from outside, walked along the domain, or along its rows.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    pub(crate) value: ValueId,
    pub(crate) offset: usize,
    pub(crate) walk: Walk,
    pub(crate) size: usize,
    /// Whether there is one element for each row.
    pub(crate) per_row: bool,
    /// The register for elements that are not read in place.
    pub(crate) register: u32,
    /// Whether the result takes the memory of this operand, so that it must be read before anything is written.
    pub(crate) is_overwritten: bool,
}

/// A result, in row-major order.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    pub(crate) value: ValueId,
    pub(crate) size: usize,
    pub(crate) per_row: bool,
}

/// A block kernel with its parameters.
#[derive(Clone)]
pub(crate) enum Map {
    Bool(Block<bool>, SmallVec<[bool; 2]>),
    U8(Block<u8>, SmallVec<[u8; 2]>),
    I8(Block<i8>, SmallVec<[i8; 2]>),
    I32(Block<i32>, SmallVec<[i32; 2]>),
    I64(Block<i64>, SmallVec<[i64; 2]>),
    F32(Block<f32>, SmallVec<[f32; 2]>),
    F64(Block<f64>, SmallVec<[f64; 2]>),
}

/// Converts elements from one address to another.
pub(crate) type Convert = unsafe fn(*const u8, *mut u8, usize);

/// An operation on whole rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum RowKind {
    Softmax,
    LogSoftmax,
    /// Weight and bias follow the row, if there are any.
    LayerNorm {
        eps: f64,
        weight: bool,
        bias: bool,
    },
    RmsNorm {
        eps: f64,
        weight: bool,
    },
    Sum,
    Mean,
    Amax,
    Amin,
}

impl RowKind {
    /// Returns whether it gives one element a row.
    pub(crate) fn reduces(self) -> bool {
        matches!(self, RowKind::Sum | RowKind::Mean | RowKind::Amax | RowKind::Amin)
    }
}

#[derive(Clone)]
pub(crate) enum Action {
    Map(Map),
    Convert(Convert),
    /// Repeats the one element of a row.
    Repeat(usize),
    /// Copies elements of a size in bytes.
    Copy(usize),
    Row(RowKind, DType),
}

/// One step of a tape.
#[derive(Clone)]
pub(crate) struct Instruction {
    pub(crate) action: Action,
    pub(crate) inputs: SmallVec<[Spot; 4]>,
    pub(crate) output: Spot,
    /// Whether it works on the one element that there is for each row.
    pub(crate) per_row: bool,
}

/// A program over blocks of elements.
pub(crate) struct Tape {
    /// The elements of the domain.
    pub(crate) numel: usize,
    /// The elements of a row, after which a unit ends; `numel` if there are no rows.
    pub(crate) row: usize,
    /// The most elements of a unit.
    pub(crate) unit: usize,
    pub(crate) loads: Vec<Load>,
    pub(crate) stores: Vec<Store>,
    /// The numbers, each repeated for a whole unit.
    pub(crate) numbers: Vec<Vec<u64>>,
    pub(crate) instructions: Vec<Instruction>,
    /// The bytes of all registers.
    pub(crate) scratch: usize,
}

/// The work, in elements times instructions, from which a second thread pays.
const GRAIN: usize = 1 << 15;

impl Tape {
    /// Returns about how much work an element is, in additions.
    fn weight(&self) -> usize {
        self.instructions.len().max(1) * 2
    }

    /// Computes the whole domain.
    ///
    /// # Safety
    ///
    /// The loads can be read and the stores written in full, by nobody else; a store shares memory with a load only if that is marked
    /// [`is_overwritten`](Load::is_overwritten) and of the same elements.
    unsafe fn run_all(&self, bases: Bases<'_>) {
        if self.numel == 0 {
            return;
        }
        let per_row = self.row.div_ceil(self.unit);
        let n_units = self.numel / self.row * per_row;
        let at_once = (GRAIN / 2 / (self.row.min(self.unit) * self.weight())).max(1);
        let run = |units: std::ops::Range<usize>| {
            with_scratch(self.scratch, |scratch| {
                for i in units {
                    let at = i / per_row * self.row + i % per_row * self.unit;
                    let len = self.unit.min(self.row - i % per_row * self.unit);
                    // SAFETY: the caller's promise.
                    unsafe { self.unit(bases, scratch, at, len) };
                }
            });
        };
        if self.numel * self.weight() < GRAIN || n_units <= at_once {
            return run(0..n_units);
        }
        parallel::each(n_units.div_ceil(at_once), |task| {
            run(task * at_once..((task + 1) * at_once).min(n_units));
        });
    }

    /// Computes the elements `columns` of some rows of a domain that is not cut otherwise, on this thread.
    ///
    /// # Safety
    ///
    /// As for [`run_all`](Self::run_all), for these elements.
    pub(crate) unsafe fn run_part(
        &self,
        bases: Bases<'_>,
        rows: std::ops::Range<usize>,
        columns: std::ops::Range<usize>,
    ) {
        with_scratch(self.scratch, |scratch| {
            for row in rows {
                for first in columns.clone().step_by(self.unit) {
                    let len = self.unit.min(columns.end - first);
                    // SAFETY: the caller's promise.
                    unsafe { self.unit(bases, scratch, row * self.row + first, len) };
                }
            }
        });
    }

    /// Runs the instructions on the `len` elements from a flat position on, which lie in one row.
    ///
    /// # Safety
    ///
    /// As for [`run_all`](Self::run_all), for these elements; `scratch` has the bytes that the tape asks for, and is aligned to 64.
    unsafe fn unit(&self, bases: Bases<'_>, scratch: *mut u8, at: usize, len: usize) {
        let loads: SmallVec<[*const u8; 8]> = self
            .loads
            .iter()
            .map(|load| {
                let (at, len) = if load.per_row { (at / self.row, 1) } else { (at, len) };
                // SAFETY: the caller's promise.
                unsafe { load.find(bases, scratch, at, len) }
            })
            .collect();
        let stores: SmallVec<[*mut u8; 4]> = self
            .stores
            .iter()
            .map(|store| {
                let at = if store.per_row { at / self.row } else { at };
                bases.at::<u8>(store.value, at * store.size)
            })
            .collect();
        let input = |spot: Spot| -> *const u8 {
            match spot {
                Spot::Register(at) => scratch.wrapping_add(at as usize),
                Spot::Load(i) => loads[i as usize],
                Spot::Number(i) => self.numbers[i as usize].as_ptr().cast(),
                Spot::Store(i) => stores[i as usize],
            }
        };
        for instruction in &self.instructions {
            let len = if instruction.per_row { 1 } else { len };
            let inputs: SmallVec<[*const u8; 4]> =
                instruction.inputs.iter().map(|&spot| input(spot)).collect();
            let out = input(instruction.output).cast_mut();
            // SAFETY: inputs and output hold `len` elements of the types of the instruction (a row reads `len` elements and may
            // write one), and an output is no input: registers are given anew for each result that is alive, and a load that
            // shares memory with a store was copied into a register.
            unsafe { instruction.action.run(&inputs, out, len) };
        }
    }
}

impl Kernel for Tape {
    unsafe fn run(&self, bases: Bases<'_>) {
        // SAFETY: the caller's promise.
        unsafe { self.run_all(bases) }
    }

    fn reads(&self) -> Vec<ValueId> {
        self.loads.iter().map(|load| load.value).collect()
    }

    fn reuses(&self) -> Vec<(ValueId, ValueId)> {
        let is_once = |value: ValueId| self.loads.iter().filter(|load| load.value == value).count() == 1;
        let whole =
            |load: &&Load| !load.per_row && load.offset == 0 && load.walk.is_dense() && is_once(load.value);
        let mut pairs = Vec::new();
        for store in self.stores.iter().filter(|store| !store.per_row) {
            let fits = |load: &&Load| load.size == store.size;
            pairs.extend(self.loads.iter().filter(whole).filter(fits).map(|load| (load.value, store.value)));
        }
        pairs
    }

    fn reuse(&mut self, from: ValueId) {
        for load in self.loads.iter_mut().filter(|load| load.value == from) {
            load.is_overwritten = true;
        }
    }

    fn describe(&self) -> String {
        let rows = if self.row == self.numel { String::new() } else { format!(" in rows of {}", self.row) };
        format!(
            "{} steps over {} elements{rows}, {} at a time",
            self.instructions.len(),
            self.numel,
            self.unit
        )
    }
}

impl Load {
    /// Returns the address of some elements, which are copied into the register if they are not neighbours.
    unsafe fn find(&self, bases: Bases<'_>, scratch: *mut u8, at: usize, len: usize) -> *const u8 {
        let base = bases.at::<u8>(self.value, self.offset * self.size).cast_const();
        let (place, left) = self.walk.locate(at);
        let from = base.wrapping_add(place * self.size);
        if !self.is_overwritten && (len == 1 || (self.walk.step() == 1 && left >= len)) {
            return from;
        }
        let to = scratch.wrapping_add(self.register as usize);
        // SAFETY: the caller's promise, and the register has room for a unit.
        unsafe {
            match self.size {
                1 => self.gather::<u8>(base.cast(), to.cast(), at, len),
                2 => self.gather::<u16>(base.cast(), to.cast(), at, len),
                4 => self.gather::<u32>(base.cast(), to.cast(), at, len),
                _ => self.gather::<u64>(base.cast(), to.cast(), at, len),
            }
        }
        to
    }

    unsafe fn gather<T: Copy>(&self, base: *const T, to: *mut T, at: usize, len: usize) {
        let step = self.walk.step();
        let mut done = 0;
        while done < len {
            let (place, left) = self.walk.locate(at + done);
            let n = left.min(len - done);
            // SAFETY: the run lies in the operand, and the register has room for it.
            unsafe {
                let (from, to) = (base.add(place), std::slice::from_raw_parts_mut(to.add(done), n));
                match step {
                    0 => to.fill(*from),
                    1 => std::ptr::copy_nonoverlapping(from, to.as_mut_ptr(), n),
                    _ => to.iter_mut().enumerate().for_each(|(i, to)| *to = *from.add(i * step)),
                }
            }
            done += n;
        }
    }
}

impl Action {
    /// # Safety
    ///
    /// Each input holds `len` elements of its type, or as many as the action reads, and `out` has room for as many as it writes; they
    /// do not overlap.
    unsafe fn run(&self, inputs: &[*const u8], out: *mut u8, len: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Action::Map(map) => map.run(inputs, out, len),
                Action::Convert(convert) => convert(inputs[0], out, len),
                Action::Repeat(size) => match size {
                    1 => repeat::<u8>(inputs[0], out, len),
                    2 => repeat::<u16>(inputs[0], out, len),
                    4 => repeat::<u32>(inputs[0], out, len),
                    _ => repeat::<u64>(inputs[0], out, len),
                },
                Action::Copy(size) => std::ptr::copy_nonoverlapping(inputs[0], out, len * size),
                Action::Row(kind, DType::F64) => row::<f64>(*kind, inputs, out, len),
                Action::Row(kind, _) => row::<f32>(*kind, inputs, out, len),
            }
        }
    }
}

impl Map {
    unsafe fn run(&self, inputs: &[*const u8], out: *mut u8, len: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Map::Bool(block, params) => map(*block, params, inputs, out, len),
                Map::U8(block, params) => map(*block, params, inputs, out, len),
                Map::I8(block, params) => map(*block, params, inputs, out, len),
                Map::I32(block, params) => map(*block, params, inputs, out, len),
                Map::I64(block, params) => map(*block, params, inputs, out, len),
                Map::F32(block, params) => map(*block, params, inputs, out, len),
                Map::F64(block, params) => map(*block, params, inputs, out, len),
            }
        }
    }
}

unsafe fn map<T: Copy>(block: Block<T>, params: &[T], inputs: &[*const u8], out: *mut u8, len: usize) {
    // SAFETY: the caller promises `len` elements of `T` at each input, and room for as many results.
    unsafe {
        let input = |from: &*const u8| std::slice::from_raw_parts(from.cast::<T>(), len);
        let inputs: SmallVec<[&[T]; 4]> = inputs.iter().map(input).collect();
        match block {
            Block::Same(kernel) => {
                kernel(&inputs, params, Slots::over(std::slice::from_raw_parts_mut(out.cast(), len)));
            }
            Block::Bool(kernel) => {
                kernel(&inputs, params, Slots::over(std::slice::from_raw_parts_mut(out.cast(), len)));
            }
        }
    }
}

unsafe fn repeat<T: Copy>(from: *const u8, out: *mut u8, len: usize) {
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts_mut(out.cast::<T>(), len).fill(*from.cast::<T>()) }
}

unsafe fn row<T: Real>(kind: RowKind, inputs: &[*const u8], out: *mut u8, len: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        let input = |i: usize| std::slice::from_raw_parts(inputs[i].cast::<T>(), len);
        if kind.reduces() {
            let x = input(0);
            *out.cast::<T>() = match kind {
                RowKind::Sum => rows::row_sum(x),
                RowKind::Mean => rows::row_sum(x) / T::from_f64(len as f64),
                RowKind::Amax => rows::row_greatest(x),
                _ => rows::row_least(x),
            };
            return;
        }
        std::ptr::copy_nonoverlapping(inputs[0].cast::<T>(), out.cast(), len);
        let row = std::slice::from_raw_parts_mut(out.cast::<T>(), len);
        match kind {
            RowKind::Softmax => rows::softmax_row(row, false),
            RowKind::LogSoftmax => rows::log_softmax_of_row(row),
            RowKind::LayerNorm { eps, weight, bias } => {
                let weight_of = weight.then(|| input(1));
                rows::layer_norm_of_row(row, [weight_of, bias.then(|| input(1 + usize::from(weight)))], eps);
            }
            RowKind::RmsNorm { eps, weight } => rows::rms_norm_of_row(row, weight.then(|| input(1)), eps),
            _ => unreachable!("reductions were done above"),
        }
    }
}

/// Returns the function that converts between two dtypes that are computed in.
pub(crate) fn converter(from: DType, to: DType) -> Option<Convert> {
    unsafe fn convert<S: Cast<D>, D: Element>(from: *const u8, to: *mut u8, len: usize) {
        // SAFETY: the caller promises `len` elements at both.
        unsafe {
            let from = std::slice::from_raw_parts(from.cast::<S>(), len);
            fx_core::array::convert(from, Slots::over(std::slice::from_raw_parts_mut(to.cast::<D>(), len)));
        }
    }
    macro_rules! to {
        ($from:ty) => {
            match to {
                DType::Bool => convert::<$from, bool>,
                DType::U8 => convert::<$from, u8>,
                DType::I8 => convert::<$from, i8>,
                DType::I32 => convert::<$from, i32>,
                DType::I64 => convert::<$from, i64>,
                DType::F32 => convert::<$from, f32>,
                DType::F64 => convert::<$from, f64>,
                DType::F16 | DType::BF16 => return None,
            }
        };
    }
    Some(match from {
        DType::Bool => to!(bool),
        DType::U8 => to!(u8),
        DType::I8 => to!(i8),
        DType::I32 => to!(i32),
        DType::I64 => to!(i64),
        DType::F32 => to!(f32),
        DType::F64 => to!(f64),
        DType::F16 | DType::BF16 => return None,
    })
}

/// Bytes in lines of a cache.
#[repr(align(64))]
#[derive(Clone, Copy)]
struct Line(#[allow(dead_code, reason = "it is memory")] [u8; 64]);

/// Lends scratch memory of some bytes, which the thread keeps for the next time; a use inside of a use gets memory of its own.
fn with_scratch<R>(bytes: usize, f: impl FnOnce(*mut u8) -> R) -> R {
    thread_local! {
        static KEPT: RefCell<Vec<Line>> = const { RefCell::new(Vec::new()) };
    }
    let mut lines = KEPT.take();
    let n = bytes.div_ceil(size_of::<Line>());
    if lines.len() < n {
        lines.resize(n, Line([0; 64]));
    }
    let result = f(lines.as_mut_ptr().cast());
    KEPT.replace(lines);
    result
}
