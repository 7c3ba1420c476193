//! Generalised universal functions ([gufuncs] of NumPy): operations on blocks of a known number of axes,
//! repeated over all axes before these.
//!
//! A signature such as `(k), (n, k), (n) -> (n)` tells the core axes of operands and results. The axes before
//! them are loop axes, which broadcast. The body is written once, for one block. [`gufunc!`](crate::gufunc!)
//! makes it the shape rule, the eager kernel, a step of plans with the pointwise operations behind it, and the
//! text of stand-alone crates.
//!
//! [gufuncs]: https://numpy.org/doc/stable/reference/c-api/generalized-ufuncs.html

mod data;
mod macros;
mod signature;

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use fx_simd::parallel;
use smallvec::SmallVec;

pub use data::{BlockElement, Data, DataMut};
#[doc(hidden)]
pub use macros::{OperandBlocks, ResultBlocks, dtype_of, next_size};

use crate::array::{Sizes, Strides, checked_numel, is_row_major};
use crate::op::ParamKind;
use crate::op::kind;
use crate::{Arg, Array, DType, Dim, Result, Tensor, TensorType, Value, bail, err};

/// The most operands, the most results, and the most parameters.
pub const MOST: usize = 8;

/// A core axis of an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CoreAxis {
    /// A size that is the same wherever this name stands.
    Named(&'static str),
    /// A size that is always the same.
    Known(usize),
}

/// An operand of a signature.
#[derive(Debug)]
pub struct CoreOperand {
    /// Its name.
    pub name: &'static str,
    /// Whether it may be left out.
    pub optional: bool,
    /// Its dtype; `None` for `T`, the floats of the call.
    pub dtype: Option<DType>,
    /// Its core axes.
    pub axes: &'static [CoreAxis],
}

/// A result of a signature.
#[derive(Debug)]
pub struct CoreResult {
    /// Its name in the body.
    pub name: &'static str,
    /// Its dtype; `None` for `T`.
    pub dtype: Option<DType>,
    /// Its core sizes, as they are written.
    pub sizes: &'static [&'static str],
}

impl CoreResult {
    /// Returns the number of its core axes.
    pub const fn rank(&self) -> usize {
        self.sizes.len()
    }
}

/// Blocks at equal distances, and what is the same for all of them.
#[derive(Debug)]
pub struct Blocks<'a> {
    /// How many blocks there are.
    pub n: usize,
    /// For each operand the elements from those of the first block on, and the distance between blocks; `None`
    /// if it is left out.
    pub operands: &'a [Option<(Data<'a>, usize)>],
    /// The sizes of the core axes of all operands, in the order of the signature.
    pub sizes: &'a [usize],
    /// The elements of a block of each result.
    pub lens: &'a [usize],
    /// The parameters.
    pub params: &'a [f64],
}

/// Computes blocks; the results have the elements of all of them.
pub type Kernel = fn(&Blocks<'_>, &mut [DataMut<'_>]);

/// A kernel for each dtype that `T` can be.
#[derive(Clone, Copy, Debug)]
pub struct Kernels {
    /// That of `f32`, in which halves are computed, too.
    pub f32: Kernel,
    /// That of `f64`.
    pub f64: Kernel,
}

/// The part of a row of the table of operations that its blocks are.
#[derive(Debug)]
pub struct GufuncDef {
    /// The name of the function in generated code.
    pub name: &'static str,
    /// The operands.
    pub operands: &'static [CoreOperand],
    /// The names of the parameters.
    pub params: &'static [&'static str],
    /// The results.
    pub results: &'static [CoreResult],
    /// The core sizes of each result, from those of all operands in the order of the signature.
    pub result_sizes: fn(&[Dim]) -> Vec<Vec<Dim>>,
    /// The axis of which parts can be computed by themselves: the first core axis of all results, and of the
    /// operands that have it.
    pub split: Option<&'static str>,
    /// What engines run.
    pub kernels: Kernels,
    /// The text of the body.
    pub body: &'static str,
}

/// A call of a gufunc: the operation with its parameters.
#[derive(Clone, Copy, Debug)]
pub struct GufuncCall {
    /// The operation.
    pub def: &'static GufuncDef,
    /// Which operands there are.
    pub present: [bool; MOST],
    /// The parameters, and zeros behind them.
    pub params: [f64; MOST],
}

/// The work of an operation on a block, from which a second thread pays: elements that are read or written.
const GRAIN: usize = 1 << 14;

impl GufuncDef {
    /// Returns the call that arguments in schema order are; `None` if a parameter is no number.
    pub fn call<L>(&'static self, args: &[Arg<L>]) -> Option<GufuncCall> {
        let (operands, params) = args.split_at_checked(self.operands.len())?;
        let mut call = GufuncCall { def: self, present: [false; MOST], params: [0.0; MOST] };
        for (present, arg) in call.present.iter_mut().zip(operands) {
            *present = !matches!(arg, Arg::None);
        }
        for (param, arg) in call.params.iter_mut().zip(params) {
            *param = arg.scalar()?.to_f64();
        }
        Some(call)
    }

    /// Computes the results. Fails as [`infer`](Self::infer) does.
    pub fn eval(&'static self, args: &[Value]) -> Result<Value> {
        let operands = args.iter().take(self.operands.len());
        let operands = operands
            .map(<kind::OptTensor as ParamKind>::value)
            .collect::<Result<SmallVec<[Option<&Array>; MOST]>>>()?;
        let types: SmallVec<[Option<TensorType>; MOST]> =
            operands.iter().map(|x| x.map(|x| TensorType::new(x.dtype(), x.shape()))).collect();
        let types: SmallVec<[Option<&TensorType>; MOST]> = types.iter().map(Option::as_ref).collect();
        let results = self.results_of(&types)?;
        let Some(call) = self.call(args) else {
            bail!(Argument, "{}: a parameter is not a number", self.name);
        };
        let float = self.float(&types).unwrap_or(DType::F32);
        let wide = if float == DType::F64 { DType::F64 } else { DType::F32 };
        let mut arrays: SmallVec<[Array; MOST]> = SmallVec::new();
        for (x, operand) in operands.iter().zip(self.operands) {
            let Some(x) = x else { continue };
            let x = if operand.dtype.is_none() { x.cast(wide) } else { (*x).clone() };
            let loops = x.rank() - operand.axes.len();
            let is_dense = is_row_major(&x.shape()[loops..], &x.strides()[loops..])
                && x.strides().iter().all(|&stride| stride >= 0);
            arrays.push(if is_dense { x } else { x.contiguous()? });
        }
        let sizes = |ty: &TensorType| -> Result<Sizes> {
            ty.shape.known().map(|sizes| sizes.iter().copied().collect()).ok_or_else(unknown)
        };
        let shapes = results.iter().map(sizes).collect::<Result<SmallVec<[Sizes; MOST]>>>()?;
        let wide_of = |ty: &TensorType| if ty.dtype == float { wide } else { ty.dtype };
        let shape_of = |x: &Array| (Sizes::from_slice(x.shape()), Strides::from_slice(x.strides()));
        let laid_out: SmallVec<[(Sizes, Strides); MOST]> = arrays.iter().map(shape_of).collect();
        let Some(loops) = Loops::new(&call, &laid_out, &shapes) else {
            bail!(Shape, "{}: the operands do not fit together", self.name);
        };
        let data = arrays.iter().map(Data::of).collect::<Result<SmallVec<[Data<'_>; MOST]>>>()?;
        let mut arrays = results.iter().zip(&shapes).map(|(ty, shape)| Array::zeros(wide_of(ty), shape));
        let mut made = arrays.by_ref().collect::<Result<SmallVec<[Array; MOST]>>>()?;
        let all: Option<SmallVec<[DataMut<'_>; MOST]>> = made.iter_mut().map(DataMut::of).collect();
        call.run_all(&loops, wide, &data, all.ok_or_else(unknown)?);
        let values = made.into_iter().zip(&results);
        let mut values: Vec<Value> =
            values.map(|(array, ty)| Arg::Leaf(Tensor::from(array.cast(ty.dtype)))).collect();
        Ok(match values.len() {
            1 => values.remove(0),
            _ => Arg::tuple(values),
        })
    }
}

/// Checks a signature while it is compiled.
#[doc(hidden)]
pub const fn check(
    operands: &[CoreOperand],
    results: &[CoreResult],
    params: &[&str],
    split: Option<&'static str>,
) {
    assert!(operands.len() <= MOST, "a gufunc has at most 8 operands");
    assert!(results.len() <= MOST, "a gufunc has at most 8 results");
    assert!(params.len() <= MOST, "a gufunc has at most 8 parameters");
    let (mut has_float, mut i) = (false, 0);
    while i < operands.len() {
        has_float |= operands[i].dtype.is_none();
        i += 1;
    }
    i = 0;
    while i < results.len() {
        assert!(has_float || results[i].dtype.is_some(), "a result of T needs an operand of T");
        if let Some(split) = split {
            let is_first = !results[i].sizes.is_empty() && are_equal(results[i].sizes[0], split);
            assert!(is_first, "the axis of #[split] is the first of all results");
        }
        i += 1;
    }
    let Some(split) = split else { return };
    let mut is_named = false;
    i = 0;
    while i < operands.len() {
        let (axes, mut axis) = (operands[i].axes, 0);
        while axis < axes.len() {
            if let CoreAxis::Named(name) = axes[axis]
                && are_equal(name, split)
            {
                assert!(axis == 0, "the axis of #[split] is the first of the operands that have it");
                is_named |= !operands[i].optional;
            }
            axis += 1;
        }
        i += 1;
    }
    assert!(is_named, "the axis of #[split] is one of an operand that is always there");
}

const fn are_equal(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut i = 0;
    while i < a.len() && i < b.len() && a[i] == b[i] {
        i += 1;
    }
    i == a.len() && i == b.len()
}

fn unknown() -> crate::Error {
    err!(Graph, "the sizes of a result are not known")
}

/// How blocks follow each other in the operands of a call.
#[derive(Clone, Debug)]
pub struct Loops {
    /// The loop axes, neighbours that are walked as one joined.
    shape: Sizes,
    /// The distances along them, for each operand that there is.
    strides: SmallVec<[Strides; MOST]>,
    /// The core sizes of all operands of the signature, in order.
    sizes: SmallVec<[usize; 8]>,
    /// The elements of a block of each result.
    lens: SmallVec<[usize; MOST]>,
    n: usize,
    work: usize,
    split: Option<Split>,
}

/// How a block is cut in parts.
#[derive(Clone, Debug)]
struct Split {
    size: usize,
    /// How many parts there are, and the size of all but the last.
    parts: usize,
    part: usize,
    /// Which of the sizes it is.
    at: SmallVec<[usize; 4]>,
    /// The elements of each operand that there is, for each position along the axis; 0 if the operand is not cut.
    steps: SmallVec<[usize; MOST]>,
}

impl Loops {
    /// Returns how the blocks of operands of these sizes and strides follow each other, which give results of
    /// these sizes. The core axes of the operands lie in row-major order. `None` if operands and results do not
    /// fit together.
    pub fn new(call: &GufuncCall, operands: &[(Sizes, Strides)], results: &[Sizes]) -> Option<Loops> {
        let def = call.def;
        let mut given = operands.iter();
        let (mut sizes, mut walks) = (SmallVec::new(), Vec::new());
        let (mut work, mut known) = (0usize, Vec::new());
        for (operand, present) in def.operands.iter().zip(call.present) {
            if !present {
                // Sizes that an absent operand alone names are those of no block.
                sizes.extend(operand.axes.iter().map(|axis| match axis {
                    CoreAxis::Known(n) => *n,
                    CoreAxis::Named(name) => {
                        known.iter().find(|(other, _)| other == name).map_or(0, |(_, n)| *n)
                    }
                }));
                continue;
            }
            let (shape, strides) = given.next()?;
            let at = shape.len().checked_sub(operand.axes.len())?;
            for (axis, &n) in operand.axes.iter().zip(&shape[at..]) {
                let expected = match axis {
                    CoreAxis::Known(n) => *n,
                    CoreAxis::Named(name) => match known.iter().find(|(other, _)| other == name) {
                        Some((_, n)) => *n,
                        None => {
                            known.push((*name, n));
                            n
                        }
                    },
                };
                if n != expected {
                    return None;
                }
            }
            sizes.extend(shape[at..].iter().copied());
            work += checked_numel(&shape[at..]).ok()?;
            walks.push((&shape[..at], &strides[..at]));
        }
        let (first, core) = (results.first()?, def.results.first()?);
        let loops = &first[..first.len().checked_sub(core.rank())?];
        let mut lens: SmallVec<[usize; MOST]> = SmallVec::new();
        for (shape, core) in results.iter().zip(def.results) {
            let at = shape.len().checked_sub(core.rank())?;
            if shape[..at] != *loops {
                return None;
            }
            lens.push(checked_numel(&shape[at..]).ok()?);
        }
        work += lens.iter().sum::<usize>();
        let strides = walks.iter().map(|(shape, strides)| broadcast(shape, strides, loops));
        let strides: SmallVec<[Strides; MOST]> = strides.collect::<Option<_>>()?;
        let (shape, strides) = joined(loops, &strides);
        let (n, work) = (checked_numel(loops).ok()?, work.max(1));
        let split = Split::new(call, &sizes, n, work);
        Some(Loops { n, shape, strides, sizes, lens, work, split })
    }

    /// Returns how many blocks there are.
    pub fn blocks(&self) -> usize {
        self.n
    }

    /// Returns the parts in which all is computed, those of one axis one after the other.
    pub fn tasks(&self) -> Vec<Task> {
        if let Some(split) = &self.split {
            let part = |p: usize| p * split.part..split.size.min((p + 1) * split.part);
            let blocks = |p: usize| {
                (0..self.n).map(move |block| Task { blocks: block..block + 1, part: Some(part(p)) })
            };
            return (0..split.parts).flat_map(blocks).collect();
        }
        let grain = GRAIN.div_ceil(self.work);
        let task = |first: usize| Task { blocks: first..self.n.min(first + grain), part: None };
        (0..self.n).step_by(grain).map(task).collect()
    }

    /// Returns which elements of a result a task computes.
    pub fn range(&self, task: &Task, result: usize) -> Range<usize> {
        let len = self.lens[result];
        let (first, last) = (task.blocks.start * len, task.blocks.end * len);
        match (&task.part, &self.split) {
            (Some(part), Some(split)) => {
                let step = len / split.size.max(1);
                first + part.start * step..first + part.end * step
            }
            _ => first..last,
        }
    }

    /// Returns the elements of a block of each result.
    pub fn lens(&self) -> &[usize] {
        &self.lens
    }

    /// Calls `f` with runs of blocks that are equally far apart: the first, how many, and where the first begins
    /// in each operand.
    fn runs(&self, blocks: Range<usize>, mut f: impl FnMut(usize, usize, &[usize])) {
        let inner = self.shape.last().copied().unwrap_or(1).max(1);
        let mut places: SmallVec<[usize; MOST]> = SmallVec::new();
        let mut at = blocks.start;
        while at < blocks.end {
            let (mut rest, column) = (at / inner, at % inner);
            let n = (inner - column).min(blocks.end - at);
            places.clear();
            places.extend(self.strides.iter().map(|s| column * s.last().map_or(0, |&s| s as usize)));
            for axis in (0..self.shape.len().saturating_sub(1)).rev() {
                let index = rest % self.shape[axis];
                rest /= self.shape[axis];
                for (place, strides) in places.iter_mut().zip(&self.strides) {
                    *place += index * strides[axis] as usize;
                }
            }
            f(at, n, &places);
            at += n;
        }
    }
}

/// Some blocks, or a part of one.
#[derive(Clone, Debug)]
pub struct Task {
    /// The blocks.
    pub blocks: Range<usize>,
    /// The positions along the axis that is cut, if it is.
    pub part: Option<Range<usize>>,
}

/// The most parts in which the blocks of a call are cut to be shared among threads.
const PARTS: usize = 64;

/// The work of a part that stays in the cache while blocks use it one after the other.
const CACHED: usize = 1 << 18;

impl Split {
    /// Returns how blocks are cut, if that pays: if there are few, or large ones.
    fn new(call: &GufuncCall, sizes: &[usize], n: usize, work: usize) -> Option<Split> {
        let name = call.def.split?;
        let (mut at, mut steps, mut size) = (SmallVec::new(), SmallVec::new(), 0);
        let mut first = 0;
        for (operand, present) in call.def.operands.iter().zip(call.present) {
            let axes = &sizes[first..first + operand.axes.len()];
            let is_cut = operand.axes.first() == Some(&CoreAxis::Named(name));
            if is_cut {
                at.push(first);
            }
            if present {
                steps.push(if is_cut { axes[1..].iter().product() } else { 0 });
            }
            if is_cut && present {
                size = axes[0];
            }
            first += operand.axes.len();
        }
        let shared = (PARTS / n.max(1)).min(work / GRAIN);
        let cached = if n > 1 { work / CACHED } else { 0 };
        let parts = shared.max(cached).min(size);
        if parts < 2 || n == 0 {
            return None;
        }
        let part = size.div_ceil(parts);
        Some(Split { size, parts: size.div_ceil(part), part, at, steps })
    }
}

/// Returns the strides of an operand along the loop axes to which it broadcasts; `None` if it does not.
fn broadcast(shape: &[usize], strides: &[isize], loops: &[usize]) -> Option<Strides> {
    let missing = loops.len().checked_sub(shape.len())?;
    let mut all = Strides::from_elem(0, missing);
    for ((&size, &stride), &wanted) in shape.iter().zip(strides).zip(&loops[missing..]) {
        match size {
            1 => all.push(0),
            _ if size == wanted => all.push(stride),
            _ => return None,
        }
    }
    Some(all)
}

/// Joins neighbouring axes that every operand walks as one, and drops those of one element.
fn joined(shape: &[usize], strides: &[Strides]) -> (Sizes, SmallVec<[Strides; MOST]>) {
    let mut sizes = Sizes::new();
    let mut all: SmallVec<[Strides; MOST]> = strides.iter().map(|_| Strides::new()).collect();
    for (axis, &size) in shape.iter().enumerate().filter(|(_, size)| **size != 1) {
        let continues = |(joined, strides): (&Strides, &Strides)| {
            joined.last().is_some_and(|&outer| strides[axis].checked_mul(size as isize) == Some(outer))
        };
        match sizes.last_mut() {
            Some(outer) if all.iter().zip(strides).all(continues) => {
                *outer *= size;
                all.iter_mut().for_each(|joined| _ = joined.pop());
            }
            _ => sizes.push(size),
        }
        all.iter_mut().zip(strides).for_each(|(joined, strides)| joined.push(strides[axis]));
    }
    (sizes, all)
}

impl GufuncCall {
    /// Computes some blocks, or a part of one, on this thread. `T` is of the dtype `float`; `operands` are those
    /// that there are, from their first elements on; `results` have the [elements](Loops::range) of this task.
    pub fn run(
        &self,
        loops: &Loops,
        float: DType,
        operands: &[Data<'_>],
        task: &Task,
        results: &mut [DataMut<'_>],
    ) {
        let kernel = if float == DType::F64 { self.def.kernels.f64 } else { self.def.kernels.f32 };
        let (mut sizes, mut lens) = (loops.sizes.clone(), loops.lens.clone());
        let mut skipped: SmallVec<[usize; MOST]> = SmallVec::from_elem(0, operands.len());
        if let (Some(part), Some(split)) = (&task.part, &loops.split) {
            split.at.iter().for_each(|&at| sizes[at] = part.len());
            lens.iter_mut().for_each(|len| *len = *len / split.size.max(1) * part.len());
            skipped = split.steps.iter().map(|step| step * part.start).collect();
        }
        let start = task.blocks.start;
        loops.runs(task.blocks.clone(), |first, n, places| {
            let step = |strides: &Strides| strides.last().map_or(0, |&stride| stride as usize);
            let steps = loops.strides.iter().map(step);
            let places = places.iter().zip(&skipped).map(|(place, skipped)| place + skipped);
            let mut given = operands.iter().zip(places).zip(steps);
            let mut all: SmallVec<[Option<(Data<'_>, usize)>; MOST]> = SmallVec::new();
            for present in self.present.iter().take(self.def.operands.len()) {
                let next = if *present { given.next() } else { None };
                all.push(next.map(|((data, place), step)| (data.from(place), step)));
            }
            let mut parts: SmallVec<[DataMut<'_>; MOST]> = SmallVec::new();
            for (result, len) in results.iter_mut().zip(&lens) {
                parts.push(result.range((first - start) * len..(first - start + n) * len));
            }
            let blocks = Blocks { n, operands: &all, sizes: &sizes, lens: &lens, params: &self.params };
            kernel(&blocks, &mut parts);
        });
    }

    /// Computes all blocks, on several threads where that pays.
    fn run_all(
        &self,
        loops: &Loops,
        float: DType,
        operands: &[Data<'_>],
        results: SmallVec<[DataMut<'_>; MOST]>,
    ) {
        let mut tasks = loops.tasks();
        // The elements of results are dealt out as they lie.
        tasks.sort_by_key(|task| (task.blocks.start, task.part.as_ref().map_or(0, |part| part.start)));
        let mut rest = results;
        let mut parts = Vec::with_capacity(tasks.len());
        for task in tasks {
            let (mut part, mut others) = (SmallVec::<[DataMut<'_>; MOST]>::new(), SmallVec::new());
            for (i, result) in rest.into_iter().enumerate() {
                let (front, back) = result.split(loops.range(&task, i).len());
                part.push(front);
                others.push(back);
            }
            rest = others;
            parts.push(Mutex::new((task, part)));
        }
        let run = |i: usize| {
            let mut part = parts[i].lock().unwrap_or_else(PoisonError::into_inner);
            let (task, results) = &mut *part;
            self.run(loops, float, operands, task, results);
        };
        match parts.len() {
            0 | 1 => (0..parts.len()).for_each(run),
            n => parallel::each(n, run),
        }
    }
}

// Operations are rows, which are compared by address.
impl PartialEq for GufuncCall {
    fn eq(&self, other: &GufuncCall) -> bool {
        std::ptr::eq(self.def, other.def)
            && self.present == other.present
            && self.params.map(f64::to_bits) == other.params.map(f64::to_bits)
    }
}
