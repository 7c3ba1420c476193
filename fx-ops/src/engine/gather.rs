//! Look-ups of a plan: the elements, or whole rows of them, that integers name along an axis.

use fx_core::array::Strides;
use fx_core::{DType, Error, Result};
use fx_simd::parallel;

use super::kernel::Kernel;
use super::operand::{Bases, Operand, ValueId, Walk};
use super::tape::copy_run;

/// How the integers are found that name the elements of a result.
#[derive(Clone, Copy)]
pub(crate) enum IndexKind {
    /// One for each element.
    Each,
    /// One for each sub-tensor beside the axis.
    SubTensors,
}

/// Elements of an operand that integers choose along an axis.
pub(crate) struct GatherKernel {
    /// Those at the first position, along the result.
    x: Walk,
    from: Operand,
    /// The distance and number of positions.
    step: usize,
    n: usize,
    /// The integers, along the result and by themselves.
    named: Walk,
    all: Walk,
    index: Operand,
    out: ValueId,
    numel: usize,
    refused: fn(i64, usize) -> Error,
}

/// The bytes that a thread copies at least.
const GRAIN: usize = 1 << 16;

impl GatherKernel {
    /// Makes the kernel; `None` if the operands do not fit together. `refused` says what is wrong with an integer.
    pub(crate) fn new(
        x: &Operand,
        axis: usize,
        index: &Operand,
        index_kind: IndexKind,
        out: ValueId,
        refused: fn(i64, usize) -> Error,
    ) -> Option<GatherKernel> {
        let (n, step) = (*x.shape.get(axis)?, *x.strides.get(axis)? as usize);
        let (before, after) = (0..axis, axis + 1..x.shape.len());
        let mut from = Operand { offset: x.offset, ..x.clone() };
        let mut named = index.clone();
        match index_kind {
            IndexKind::Each => {
                let fits = |other: usize| other == axis || index.shape[other] <= x.shape[other];
                if index.shape.len() != x.shape.len() || !(0..x.shape.len()).all(fits) {
                    return None;
                }
                from.shape = index.shape.clone();
                from.strides[axis] = 0;
            }
            IndexKind::SubTensors => {
                let zeros = |n: usize| std::iter::repeat_n(0, n);
                let shape =
                    x.shape[before.clone()].iter().chain(&*index.shape).chain(&x.shape[after.clone()]);
                from.shape = shape.copied().collect();
                let strides = x.strides[before.clone()].iter().copied().chain(zeros(index.shape.len()));
                from.strides = strides.chain(x.strides[after.clone()].iter().copied()).collect();
                let strides =
                    zeros(before.len()).chain(index.strides.iter().copied()).chain(zeros(after.len()));
                named.strides = strides.collect::<Strides>();
                named.shape = from.shape.clone();
            }
        }
        let numel = from.numel();
        let (x, named) = (from.walk(&from.shape).ok()?, named.walk(&from.shape).ok()?);
        let all = index.walk(&index.shape).ok()?;
        Some(GatherKernel { x, from, step, n, named, all, index: index.clone(), out, numel, refused })
    }

    pub(crate) fn numel(&self) -> usize {
        self.numel
    }

    /// Stores the elements from a flat position on, which all are named by integers in range.
    ///
    /// # Safety
    ///
    /// As [`Kernel::run`], and nobody else writes these elements.
    unsafe fn copy<I: Copy + Into<i64>>(&self, bases: Bases<'_>, start: usize, len: usize) {
        let size = self.from.dtype.size();
        let x = bases.at::<u8>(self.from.value, self.from.offset * size).cast_const();
        let index = bases.at::<I>(self.index.value, self.index.offset).cast_const();
        let out = bases.at::<u8>(self.out, start * size);
        let [x_step, index_step] = [&self.x, &self.named].map(Walk::step);
        let mut done = 0;
        while done < len {
            let ((place, left), (name, named)) =
                (self.x.locate(start + done), self.named.locate(start + done));
            let n = left.min(named).min(len - done);
            // SAFETY: the places lie in the operands, and the integers, which were checked, name positions of
            // the axis.
            unsafe {
                let first =
                    |i: usize| (*index.add(name + i * index_step)).into() as usize * self.step + place;
                let to = out.add(done * size);
                match (index_step, size) {
                    (0, _) => copy_run(x.add(first(0) * size), to, x_step, n, size),
                    (_, 1) => gather::<u8>(x, to, n, |i| first(i) + i * x_step),
                    (_, 2) => gather::<u16>(x, to, n, |i| first(i) + i * x_step),
                    (_, 4) => gather::<u32>(x, to, n, |i| first(i) + i * x_step),
                    _ => gather::<u64>(x, to, n, |i| first(i) + i * x_step),
                }
            }
            done += n;
        }
    }

    /// Returns the first of the integers that names no position.
    ///
    /// # Safety
    ///
    /// As [`Kernel::run`].
    unsafe fn bad<I: Copy + Into<i64>>(&self, bases: Bases<'_>) -> Option<i64> {
        let index = bases.at::<I>(self.index.value, self.index.offset).cast_const();
        let (step, n, mut at) = (self.all.step(), self.n as u64, 0);
        while at < self.index.numel() {
            let (place, left) = self.all.locate(at);
            // SAFETY: so many integers lie there. As unsigned numbers, negative ones are too large as well.
            let number = |i: usize| -> i64 { unsafe { *index.add(place + i * step) }.into() };
            let is_bad = (0..left).fold(false, |is_bad, i| is_bad | (number(i) as u64 >= n));
            if is_bad {
                return (0..left).map(number).find(|&i| i as u64 >= n);
            }
            at += left;
        }
        None
    }
}

/// Copies the elements at some places beside each other.
///
/// # Safety
///
/// They can be read, and `to` has room for them.
unsafe fn gather<T: Copy>(from: *const u8, to: *mut u8, n: usize, place: impl Fn(usize) -> usize) {
    let (from, to) = (from.cast::<T>(), to.cast::<T>());
    // SAFETY: the caller's promise.
    (0..n).for_each(|i| unsafe { *to.add(i) = *from.add(place(i)) });
}

impl Kernel for GatherKernel {
    unsafe fn check(&self, bases: Bases<'_>) -> Result<()> {
        // SAFETY: the caller's promise.
        let bad = match self.index.dtype {
            DType::I32 => unsafe { self.bad::<i32>(bases) },
            _ => unsafe { self.bad::<i64>(bases) },
        };
        bad.map_or(Ok(()), |bad| Err((self.refused)(bad, self.n)))
    }

    unsafe fn run(&self, bases: Bases<'_>) {
        let copy = |start: usize, len: usize| match self.index.dtype {
            // SAFETY: the plan gives this kernel its operands and its result, whose parts are disjoint.
            DType::I32 => unsafe { self.copy::<i32>(bases, start, len) },
            // SAFETY: as above.
            _ => unsafe { self.copy::<i64>(bases, start, len) },
        };
        let grain = GRAIN / self.from.dtype.size();
        if self.numel < 2 * grain {
            return copy(0, self.numel);
        }
        parallel::each(self.numel.div_ceil(grain), |task| {
            copy(task * grain, grain.min(self.numel - task * grain));
        });
    }

    fn reads(&self) -> Vec<ValueId> {
        vec![self.from.value, self.index.value]
    }

    fn describe(&self) -> String {
        format!("look up {} elements at {} of {} positions", self.numel, self.index.numel(), self.n)
    }
}
