//! Operands, block by block: whole, broadcast in runs, by rows, or gathered.

use fx_simd::{Filled, UninitSlice};
use half::{bf16, f16};
use smallvec::SmallVec;

use super::numbers::item;
use super::{Compute, Gather, Kernel};
use crate::array::{BLOCK, Cast, Strided, Strides, build_tasks_with, convert};
use crate::op::kind::OperandValue;
use crate::{Array, DType, Element, Result, Scalar, Sizes};

/// Where the blocks of an operand come from.
pub(super) enum Source<'a, T> {
    /// Contiguous, of the computed type and of the shape of the result.
    Slice(&'a [T]),
    /// The same number everywhere.
    Splat(T),
    /// Of the computed type.
    Rows(Rows<'a, T>),
    /// Gathered and converted from a position on, or only converted.
    Gather(Gather<'a, T>),
}

/// A broadcast operand of the shape of the result.
pub(super) struct Rows<'a, T> {
    data: &'a [T],
    /// The strides along the result's axes.
    strides: Strides,
}

impl<T> Rows<'_, T> {
    /// Returns how many of the last axes are walked as one, with a step of 0 or 1.
    fn plain_axes(&self, shape: &[usize]) -> usize {
        let axes = || shape.iter().zip(&self.strides).rev();
        let same = axes().take_while(|&(&size, &stride)| size == 1 || stride == 0).count();
        let mut step = 1;
        let dense = axes().take_while(|&(&size, &stride)| {
            let fits = size == 1 || stride == step;
            step *= size as isize;
            fits
        });
        same.max(dense.count())
    }

    /// Returns where the elements at an index along the first axes begin.
    fn place(&self, index: &[usize]) -> usize {
        index.iter().zip(&self.strides).map(|(&i, &stride)| i as isize * stride).sum::<isize>() as usize
    }

    /// Returns the step, 0 or 1, along the last `n_plain` axes.
    fn step(&self, shape: &[usize], n_plain: usize) -> isize {
        let plain = shape.iter().zip(&self.strides).rev().take(n_plain);
        plain.into_iter().find(|(size, _)| **size > 1).map_or(0, |(_, &stride)| stride)
    }
}

/// The shortest run along which operands are read in place rather than gathered.
const SHORTEST_RUN: usize = 32;

/// Runs shorter than this are joined, so that the kernel need not be called for each.
const LONG_RUN: usize = 512;

/// Bytes of buffers and repeated numbers that may be read again and again beside what streams through the
/// fastest cache.
const RESIDENT: usize = 12 << 10;

impl<'a, T: Compute> Source<'a, T> {
    /// Returns `len` copies of a number that is the same everywhere.
    pub(super) fn splat(&self, len: usize) -> Vec<T> {
        match self {
            Source::Splat(x) => vec![*x; len],
            _ => Vec::new(),
        }
    }

    /// Finds where the blocks of an operand come from; one element is taken as it is if `is_wide`, else as
    /// what `dtype` makes of it.
    pub(super) fn new(
        operand: &OperandValue<'a>,
        shape: &[usize],
        dtype: DType,
        is_wide: bool,
    ) -> Result<Self> {
        let array = match operand {
            OperandValue::Array(array) if array.numel() != 1 => *array,
            _ => return Ok(Source::Splat(only(operand, dtype, is_wide)?)),
        };
        if array.shape() == shape
            && let Some(data) = array.as_slice::<T>()
        {
            return Ok(Source::Slice(data));
        }
        let wide = array.broadcast_to(shape)?;
        if array.dtype() == T::DTYPE {
            let (data, strides) = (array.data::<T>()?, Strides::from_slice(wide.strides()));
            return Ok(Source::Rows(Rows { data, strides }));
        }
        Ok(Source::Gather(T::gather(array, &wide, dtype)?))
    }
}

/// Returns a number, or the only element of an array, which is taken as it is if `is_wide`, else as what `dtype`
/// makes of it.
pub(super) fn only<T: Compute>(operand: &OperandValue<'_>, dtype: DType, is_wide: bool) -> Result<T> {
    Ok(T::from_scalar(match operand {
        OperandValue::Scalar(x) => *x,
        OperandValue::Array(array) => item(array, dtype, is_wide)?,
    }))
}

/// Rounds a number to what `dtype` can hold.
fn round_to(x: Scalar, dtype: DType) -> Scalar {
    match (x, dtype) {
        (Scalar::Float(x), DType::F16) => Scalar::Float(f16::from_f32(x as f32).to_f64()),
        (Scalar::Float(x), DType::BF16) => Scalar::Float(bf16::from_f32(x as f32).to_f64()),
        (x, _) => x,
    }
}

/// Returns a function that fills a block with the converted elements from a position of the broadcast view on.
pub(super) fn gather<'a, S: Element + Cast<T>, T: Compute>(
    data: &'a [S],
    wide: &Array,
    dtype: DType,
) -> Gather<'a, T> {
    let round = matches!(dtype, DType::F16 | DType::BF16) && S::DTYPE != dtype;
    let (shape, strides, offset): (Sizes, Vec<isize>, usize) =
        (wide.shape().into(), wide.strides().to_vec(), wide.offset());
    let dense = wide.is_contiguous();
    Box::new(move |start, out| {
        if dense {
            convert(&data[offset + start..], UninitSlice::over(out));
        } else {
            let view = Strided { data, shape: &shape, strides: &strides, offset };
            let mut block = [S::default(); BLOCK];
            let block = &mut block[..out.len()];
            view.block(start, block);
            convert(block, UninitSlice::over(out));
        }
        if round {
            for x in out {
                *x = T::from_scalar(round_to(x.to_scalar(), dtype));
            }
        }
    })
}

/// The operands of a computation.
pub(super) struct Operands<'s, 'a, T> {
    sources: &'s [Source<'a, T>],
    splats: &'s [Vec<T>],
    shape: &'s [usize],
    /// How many of the last axes every broadcast operand walks as one; 0 if broadcast operands are to be gathered.
    n_plain: usize,
    /// The number of elements along these axes.
    run: usize,
    /// Whether short runs are joined in buffers.
    joins: bool,
    /// Whether all operands but the first are numbers, passed as such.
    numbers: bool,
    /// How many elements are computed at a time.
    part: usize,
}

impl<'s, 'a, T: Compute> Operands<'s, 'a, T> {
    pub(super) fn new(sources: &'s [Source<'a, T>], splats: &'s [Vec<T>], shape: &'s [usize]) -> Self {
        let rows = sources.iter().filter_map(|source| match source {
            Source::Rows(rows) => Some(rows.plain_axes(shape)),
            _ => None,
        });
        let n_plain = rows.min().unwrap_or(0);
        let run = shape[shape.len() - n_plain..].iter().product();
        let n_plain = if run < SHORTEST_RUN { 0 } else { n_plain };
        let repeats =
            |source: &Source<'_, T>| matches!(source, Source::Rows(rows) if rows.step(shape, n_plain) == 0);
        let joins = run < if sources.iter().any(repeats) { BLOCK } else { LONG_RUN };
        let numbers = matches!(sources, [_, _, _, ..])
            && sources[1..].iter().all(|source| matches!(source, Source::Splat(_)));
        let is_resident = |source: &&Source<'_, T>| match source {
            Source::Slice(_) => false,
            Source::Rows(_) => joins || n_plain == 0 || repeats(source),
            Source::Splat(_) => !numbers,
            Source::Gather(_) => true,
        };
        let n_resident = sources.iter().filter(is_resident).count();
        let mut part = BLOCK;
        while n_resident * part * size_of::<T>() > RESIDENT && part > LONG_RUN {
            part /= 2;
        }
        Operands { sources, splats, shape, n_plain, run, joins, numbers, part }
    }

    /// Computes all elements.
    pub(super) fn build<O: Element>(
        &self,
        numel: usize,
        params: &[T],
        kernel: Kernel<T, O>,
    ) -> Result<Vec<O>> {
        build_tasks_with(
            numel,
            || self.scratch(numel),
            |scratch, at, out| self.block(scratch, at, params, kernel, out),
        )
    }

    /// Makes buffers for the operands that are not read in place.
    pub(super) fn scratch(&self, numel: usize) -> Vec<T> {
        let n_buffers =
            self.sources.iter().filter(|x| matches!(x, Source::Gather(_) | Source::Rows(_))).count();
        vec![T::default(); n_buffers * numel.min(BLOCK)]
    }

    /// Computes the elements from a position on.
    pub(super) fn block<'b, O: Element>(
        &self,
        scratch: &mut [T],
        at: usize,
        params: &[T],
        kernel: Kernel<T, O>,
        out: UninitSlice<'b, O>,
    ) -> Filled<'b> {
        if self.joins && self.n_plain > 0 {
            let mut walks = self.walks(at);
            return out.runs(self.part, self.part, |start, out| {
                kernel(&self.joined(at + start, out.len(), &mut walks, scratch), params, out)
            });
        }
        if out.len() > self.part {
            return out.runs(self.part, self.part, |start, out| {
                self.block(scratch, at + start, params, kernel, out)
            });
        }
        if self.n_plain == 0 {
            return kernel(&self.at(at, out.len(), None, scratch), params, out);
        }
        let mut walk = Walk::of(self, self.rows(), at);
        let first = self.run - at % self.run;
        out.runs(first, self.run, |start, out| {
            let xs = self.at(at + start, out.len(), Some(&walk), scratch);
            let filled = kernel(&xs, params, out);
            drop(xs);
            walk.next_run(self, self.rows());
            filled
        })
    }

    /// Returns the `len` elements of each operand from a position on; those that `walk` leads lie in one run.
    fn at<'b>(
        &'b self,
        at: usize,
        len: usize,
        walk: Option<&Walk>,
        scratch: &'b mut [T],
    ) -> SmallVec<[&'b [T]; 4]> {
        let mut buffers = scratch.chunks_mut(len.max(1));
        let mut buffer = || buffers.next().map_or(&mut [][..], |block| block);
        let mut xs = SmallVec::new();
        let mut n_rows = 0;
        for (i, (source, splat)) in self.sources.iter().zip(self.splats).enumerate() {
            xs.push(match source {
                Source::Slice(data) => &data[at..at + len],
                Source::Splat(_) if self.numbers && i > 0 => &splat[..1],
                Source::Splat(_) => &splat[..len],
                Source::Rows(Rows { data, strides }) => match walk {
                    Some(walk) => {
                        let (place, step) = walk.places[n_rows];
                        n_rows += 1;
                        if step == 0 {
                            let block = buffer();
                            UninitSlice::over(block).fill(data[place]);
                            block
                        } else {
                            &data[place..place + len]
                        }
                    }
                    None => {
                        let block = buffer();
                        Strided { data, shape: self.shape, strides, offset: 0 }.block(at, block);
                        block
                    }
                },
                Source::Gather(fill) => {
                    let block = buffer();
                    fill(at, block);
                    block
                }
            });
        }
        xs
    }

    /// Returns the `len` elements of each operand from a position on, where those of short runs are joined in
    /// buffers; `walks` are there, one for each broadcast operand, and go on.
    fn joined<'b>(
        &'b self,
        at: usize,
        len: usize,
        walks: &mut [Runs<'_>],
        scratch: &'b mut [T],
    ) -> SmallVec<[&'b [T]; 4]> {
        let mut buffers = scratch.chunks_mut(len.max(1));
        let mut buffer = || buffers.next().map_or(&mut [][..], |block| block);
        let mut walks = walks.iter_mut();
        let mut xs = SmallVec::new();
        for (i, (source, splat)) in self.sources.iter().zip(self.splats).enumerate() {
            xs.push(match source {
                Source::Slice(data) => &data[at..at + len],
                Source::Splat(_) if self.numbers && i > 0 => &splat[..1],
                Source::Splat(_) => &splat[..len],
                Source::Rows(rows) => {
                    let block = buffer();
                    if let Some(walk) = walks.next() {
                        fx_simd::call_256::<join, _>((rows.data, walk, &mut *block));
                    }
                    block
                }
                Source::Gather(fill) => {
                    let block = buffer();
                    fill(at, block);
                    block
                }
            });
        }
        xs
    }

    /// Returns where each broadcast operand is read for the element at a position and those after it.
    fn walks(&self, at: usize) -> SmallVec<[Runs<'_>; 2]> {
        let outer = self.shape.len() - self.n_plain;
        let walk = |rows: &'s Rows<'a, T>| {
            let Walk { index, places } = Walk::of(self, [rows], at);
            let (place, step) = places[0];
            let (shape, strides) = (&self.shape[..outer], &rows.strides[..outer]);
            Runs {
                shape,
                strides,
                index,
                place,
                step: step as usize,
                run: self.run,
                left: self.run - at % self.run,
            }
        };
        self.rows().map(walk).collect()
    }

    /// Returns the broadcast operands.
    fn rows(&self) -> impl Iterator<Item = &'s Rows<'a, T>> {
        self.sources.iter().filter_map(|source| match source {
            Source::Rows(rows) => Some(rows),
            _ => None,
        })
    }
}

/// A walk from run to run.
struct Walk {
    /// The index of the run along the other axes.
    index: Sizes,
    /// For each broadcast operand the place of the run's next element, and the step along the run.
    places: SmallVec<[(usize, isize); 4]>,
}

impl Walk {
    /// Starts at a position of the result; `rows` are operands.
    fn of<'r, T: Compute>(
        operands: &Operands<'_, '_, T>,
        rows: impl IntoIterator<Item = &'r Rows<'r, T>>,
        at: usize,
    ) -> Walk {
        let outer = &operands.shape[..operands.shape.len() - operands.n_plain];
        let (mut rest, inner) = (at / operands.run, at % operands.run);
        let mut index = Sizes::from_elem(0, outer.len());
        for (i, &size) in index.iter_mut().zip(outer).rev() {
            *i = rest % size;
            rest /= size;
        }
        let places = rows.into_iter().map(|rows| {
            let step = rows.step(operands.shape, operands.n_plain);
            (rows.place(&index) + inner * step as usize, step)
        });
        let places = places.collect();
        Walk { index, places }
    }

    /// Goes to the start of the next run.
    fn next_run<'r, T: Compute>(
        &mut self,
        operands: &Operands<'_, '_, T>,
        rows: impl IntoIterator<Item = &'r Rows<'r, T>>,
    ) {
        next_index(&mut self.index, operands.shape);
        for (rows, (place, _)) in rows.into_iter().zip(&mut self.places) {
            *place = rows.place(&self.index);
        }
    }
}

/// Goes to the next index in row-major order, after the last to the first.
#[inline(always)]
fn next_index(index: &mut Sizes, shape: &[usize]) {
    for (i, &size) in index.iter_mut().zip(shape).rev() {
        *i += 1;
        if *i < size {
            break;
        }
        *i = 0;
    }
}

/// The runs of a broadcast operand, one after the other.
struct Runs<'s> {
    /// The other axes, and the operand's strides along them.
    shape: &'s [usize],
    strides: &'s [isize],
    /// The index of the run along these axes.
    index: Sizes,
    /// Where the next element is.
    place: usize,
    /// 0 if a run is one element, repeated; 1 if it is of neighbours.
    step: usize,
    /// How many elements a run has.
    run: usize,
    /// How many of them are to come.
    left: usize,
}

impl Runs<'_> {
    /// Goes on by some elements of this run, and to the next run at its end.
    #[inline(always)]
    fn advance(&mut self, len: usize) {
        self.left -= len;
        self.place += self.step * len;
        if self.left > 0 {
            return;
        }
        self.left = self.run;
        let begin = self.place - self.step * self.run;
        if let (Some(i), Some(&size), Some(&stride)) =
            (self.index.last_mut(), self.shape.last(), self.strides.last())
            && *i + 1 < size
        {
            *i += 1;
            self.place = begin.wrapping_add_signed(stride);
            return;
        }
        next_index(&mut self.index, self.shape);
        let places = self.index.iter().zip(self.strides).map(|(&i, &stride)| i as isize * stride);
        self.place = places.sum::<isize>() as usize;
    }
}

fx_simd::wide! {
    /// Fills a buffer with the elements of an operand from where `walk` is, run by run.
    fn join[T: Copy]((data, walk, buffer): (&[T], &mut Runs<'_>, &mut [T])) {
        let mut rest = buffer;
        while !rest.is_empty() {
            let len = walk.left.min(rest.len());
            let (part, others) = rest.split_at_mut(len);
            match walk.step {
                0 => part.fill(data[walk.place]),
                _ => part.copy_from_slice(&data[walk.place..][..len]),
            }
            walk.advance(len);
            rest = others;
        }
    }
}
