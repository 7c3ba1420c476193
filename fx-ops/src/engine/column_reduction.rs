//! Reductions over axes before the last ones, of what a tape computes: each row of the domain is joined to a
//! result row while it is in the cache.
//!
//! Invariant: which rows are joined in which order depends on sizes alone, so that the number of threads
//! changes no bit.

use std::ops::Range;

use fx_core::math::Real;
use fx_core::{DType, Result};
use fx_simd::parallel;
use smallvec::SmallVec;

use super::kernel::Kernel;
use super::operand::{Bases, ValueId};
use super::tape::{Chunk, GRAIN, Tape, with_scratch};
use crate::fusible::Reduction;
use crate::kernel::fold::{Number, Sum, join_lines};
use crate::ops::reduce::min_max::{Greatest, Least, Ordered};

/// The elements of the part of a row that a task joins: its result stays in the second cache.
const WIDE: usize = 1 << 14;
/// The columns that are joined together of rows that are read where they lie.
const TILE: usize = 1 << 10;
/// Rows that are joined one after the other; such results are joined in turn, which keeps the rounding error
/// of sums small.
const ROWS: usize = 128;
/// The tasks that keep some threads busy, and the fewest rows of each.
const TASKS: usize = 32;
const FEWEST_ROWS: usize = 64;

/// The three axes of a domain of which the middle one is reduced.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Columns {
    pub(crate) outer: usize,
    pub(crate) n: usize,
    pub(crate) inner: usize,
}

impl Columns {
    /// Returns into how many blocks, each with a result of its own, the middle axis is cut.
    fn blocks(self) -> usize {
        let Columns { outer, n, inner } = self;
        if n.saturating_mul(inner).saturating_mul(outer) < 2 * GRAIN {
            return 1;
        }
        (TASKS / (outer * inner.div_ceil(WIDE)).max(1)).clamp(1, n.div_ceil(FEWEST_ROWS).max(1))
    }

    /// Returns the elements of the results of all blocks; none if there is one block, whose result is that of
    /// the kernel.
    pub(crate) fn partial_len(self) -> usize {
        match self.blocks() {
            1 => 0,
            blocks => self.outer * blocks * self.inner,
        }
    }
}

/// A result: what the tape stores, joined.
pub(crate) struct ReducedStore {
    pub(crate) kind: Reduction,
    pub(crate) dtype: DType,
    /// The number of the store.
    pub(crate) store: usize,
    pub(crate) out: ValueId,
    /// Where the results of blocks are.
    pub(crate) partial: ValueId,
}

/// A tape of which some results are reduced.
pub(crate) struct ColumnKernel {
    tape: Tape,
    columns: Columns,
    reduced: Vec<ReducedStore>,
}

impl ColumnKernel {
    pub(crate) fn new(tape: Tape, columns: Columns, reduced: Vec<ReducedStore>) -> Self {
        ColumnKernel { tape, columns, reduced }
    }

    /// Computes some columns of rows of the domain, and joins them to the elements at these places.
    ///
    /// # Safety
    ///
    /// As [`Kernel::run`]; there is a place for each result, with room for so many columns.
    unsafe fn join_rows(
        &self,
        bases: Bases<'_>,
        scratch: *mut u8,
        lines: Range<usize>,
        columns: Range<usize>,
        places: &[*mut u8],
    ) {
        let (inner, chunk) = (self.columns.inner, self.tape.chunk);
        // What is only copied is read where it lies, all rows in one go.
        let copied = self.tape.copied();
        let (at_once, most) = match copied {
            Some(_) => (ROWS, TILE),
            None => ((chunk / inner).max(1), chunk.min(inner)),
        };
        for line in lines.clone().step_by(at_once) {
            let rows = at_once.min(lines.end - line);
            for column in columns.clone().step_by(most) {
                let len = most.min(columns.end - column);
                let part = Chunk::new(line, column, len * rows, rows);
                if copied.is_none() {
                    // SAFETY: the caller's promise.
                    unsafe { self.tape.chunk(bases, scratch, part) };
                }
                for (reduced, &place) in self.reduced.iter().zip(places) {
                    let (from, step): (*const u8, usize) = match copied {
                        Some(load) => {
                            let at = load.offset + line * inner + column;
                            (bases.at(load.value, at * load.size), inner)
                        }
                        None => (self.tape.stored(reduced.store, bases, scratch, part), len),
                    };
                    let to = place.wrapping_add((column - columns.start) * reduced.dtype.size());
                    // SAFETY: so many rows are there, or the tape has left them there.
                    unsafe { reduced.join(from, (rows, step), to, len) };
                }
            }
        }
    }

    /// Joins the rows of a block, as far as they are in some columns.
    ///
    /// # Safety
    ///
    /// As [`Kernel::run`]; nobody else has these columns of the results of this block.
    unsafe fn block(&self, bases: Bases<'_>, scratch: *mut u8, [outer, block]: [usize; 2], first: usize) {
        let Columns { n, inner, .. } = self.columns;
        let blocks = self.columns.blocks();
        let width = WIDE.min(inner - first);
        let height = n.div_ceil(blocks);
        // Never empty, for blocks have many more rows than there are blocks.
        let rows = block * height..((block + 1) * height).min(n);
        // Results of some rows, behind the memory of the tape.
        let mut sums = self.tape.scratch.next_multiple_of(64);
        let places = self.reduced.iter().map(|reduced| {
            let place = sums;
            sums += (width * reduced.dtype.size()).next_multiple_of(64);
            scratch.wrapping_add(place)
        });
        let places: SmallVec<[*mut u8; 4]> = places.collect();
        for start in rows.clone().step_by(ROWS) {
            let some = start..(start + ROWS).min(rows.end);
            for (reduced, &place) in self.reduced.iter().zip(&places) {
                // SAFETY: the scratch memory has room for the results.
                unsafe { reduced.clear(place, width) };
            }
            let lines = outer * n + some.start..outer * n + some.end;
            // SAFETY: the caller's promise.
            unsafe { self.join_rows(bases, scratch, lines, first..first + width, &places) };
            for (reduced, &place) in self.reduced.iter().zip(&places) {
                let to = reduced.result(bases, &self.columns, [outer, block], first);
                // SAFETY: the caller's promise.
                unsafe {
                    if start == rows.start {
                        reduced.clear(to, width);
                    }
                    reduced.join(place.cast_const(), (1, width), to, width);
                    if blocks == 1 && some.end == rows.end {
                        reduced.finish(to, width, n);
                    }
                }
            }
        }
    }
}

/// What a plan promises.
const NOT_JOINED: &str = "a plan joins rows of f32 and f64 only";

impl ReducedStore {
    /// Returns where the result of a block is, from a column on.
    fn result(
        &self,
        bases: Bases<'_>,
        columns: &Columns,
        [outer, block]: [usize; 2],
        first: usize,
    ) -> *mut u8 {
        let (value, line) = match columns.blocks() {
            1 => (self.out, outer),
            blocks => (self.partial, outer * blocks + block),
        };
        bases.at(value, (line * columns.inner + first) * self.dtype.size())
    }

    /// # Safety
    ///
    /// `to` has room for so many elements, as in all these functions.
    unsafe fn clear(&self, to: *mut u8, width: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            match self.dtype {
                DType::F64 => start(self.kind, std::slice::from_raw_parts_mut(to.cast::<f64>(), width)),
                DType::F32 => start(self.kind, std::slice::from_raw_parts_mut(to.cast::<f32>(), width)),
                dtype => unreachable!("{NOT_JOINED}, got {dtype}"),
            }
        }
    }

    /// Joins some rows, one or more, which begin a step apart.
    unsafe fn join(&self, from: *const u8, rows: (usize, usize), to: *mut u8, width: usize) {
        unsafe fn call<T: Number + Ordered>(
            kind: Reduction,
            from: *const u8,
            (n, step): (usize, usize),
            to: *mut u8,
            width: usize,
        ) {
            // SAFETY: the caller's promise.
            let (from, to) = unsafe {
                (
                    std::slice::from_raw_parts(from.cast::<T>(), (n - 1) * step + width),
                    std::slice::from_raw_parts_mut(to.cast::<T>(), width),
                )
            };
            join_rows(kind, from, (n, step), to);
        }
        // SAFETY: the caller's promise.
        unsafe {
            match self.dtype {
                DType::F64 => call::<f64>(self.kind, from, rows, to, width),
                DType::F32 => call::<f32>(self.kind, from, rows, to, width),
                dtype => unreachable!("{NOT_JOINED}, got {dtype}"),
            }
        }
    }

    /// Makes means of sums over `n` rows.
    unsafe fn finish(&self, to: *mut u8, width: usize, n: usize) {
        unsafe fn call<T: Real>(to: *mut u8, width: usize, n: usize) {
            // SAFETY: the caller's promise.
            let to = unsafe { std::slice::from_raw_parts_mut(to.cast::<T>(), width) };
            let n = T::from_f64(n as f64);
            to.iter_mut().for_each(|x| *x = *x / n);
        }
        if self.kind == Reduction::Mean {
            // SAFETY: the caller's promise.
            unsafe {
                match self.dtype {
                    DType::F64 => call::<f64>(to, width, n),
                    DType::F32 => call::<f32>(to, width, n),
                    dtype => unreachable!("{NOT_JOINED}, got {dtype}"),
                }
            }
        }
    }
}

fn start<T: Real>(kind: Reduction, to: &mut [T]) {
    to.fill(match kind {
        Reduction::Amax => -T::INFINITY,
        Reduction::Amin => T::INFINITY,
        _ => T::ZERO,
    });
}

/// Joins rows, which begin a step apart, to `to`, which is as long as one.
fn join_rows<T: Number + Ordered>(kind: Reduction, from: &[T], (n, step): (usize, usize), to: &mut [T]) {
    match kind {
        Reduction::Amax => join_lines(Greatest::<T>::default(), from, step, n, to),
        Reduction::Amin => join_lines(Least::<T>::default(), from, step, n, to),
        _ => join_lines(Sum::<T>::default(), from, step, n, to),
    }
}

impl Kernel for ColumnKernel {
    unsafe fn run(&self, bases: Bases<'_>) {
        let Columns { outer, n, inner } = self.columns;
        let blocks = self.columns.blocks();
        let n_wide = inner.div_ceil(WIDE);
        let n_tasks = outer * blocks * n_wide;
        let bytes =
            self.reduced.iter().map(|reduced| (WIDE.min(inner) * reduced.dtype.size()).next_multiple_of(64));
        let scratch = self.tape.scratch.next_multiple_of(64) + bytes.sum::<usize>();
        let run = |tasks: Range<usize>| {
            with_scratch(scratch, |scratch| {
                for task in tasks {
                    let (line, wide) = (task / n_wide, task % n_wide);
                    // SAFETY: the caller's promise; tasks have blocks and columns of their own.
                    unsafe { self.block(bases, scratch, [line / blocks, line % blocks], wide * WIDE) };
                }
            });
        };
        let work = n.div_ceil(blocks) * WIDE.min(inner);
        let at_once = (GRAIN / 4).div_ceil(work.max(1)).max(1);
        if n_tasks <= at_once {
            run(0..n_tasks);
        } else {
            parallel::each(n_tasks.div_ceil(at_once), |task| {
                run(task * at_once..((task + 1) * at_once).min(n_tasks));
            });
        }
        if blocks == 1 {
            return;
        }
        for reduced in &self.reduced {
            for outer in 0..outer {
                let to = bases.at::<u8>(reduced.out, outer * inner * reduced.dtype.size());
                let from = reduced.result(bases, &self.columns, [outer, 0], 0);
                // SAFETY: the plan gives this kernel its results; those of all blocks are there.
                unsafe {
                    reduced.clear(to, inner);
                    reduced.join(from.cast_const(), (blocks, inner), to, inner);
                    reduced.finish(to, inner, n);
                }
            }
        }
    }

    fn reads(&self) -> Vec<ValueId> {
        self.tape.reads()
    }

    fn tape(&mut self) -> Option<&mut Tape> {
        self.tape.copied().is_none().then_some(&mut self.tape)
    }

    fn describe(&self) -> String {
        let Columns { outer, n, inner } = self.columns;
        format!(
            "{}, then {} reductions of {n} in [{outer}, {n}, {inner}]",
            self.tape.describe(),
            self.reduced.len()
        )
    }
}

/// Returns the lengths of the parts of a shape before, in and after some axes.
pub(crate) fn columns_of(shape: &[usize], axes: &Range<usize>) -> Result<Columns> {
    let product = |sizes: &[usize]| sizes.iter().product();
    match (shape.get(..axes.start), shape.get(axes.clone()), shape.get(axes.end..)) {
        (Some(outer), Some(n), Some(inner)) => {
            Ok(Columns { outer: product(outer), n: product(n), inner: product(inner) })
        }
        _ => fx_core::bail!(Shape, "{shape:?} has no axes {axes:?}"),
    }
}
