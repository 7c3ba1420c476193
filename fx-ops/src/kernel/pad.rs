//! Borders around arrays of any dtype.
//!
//! Each axis has a table of where its positions come from; the last one that has a border is copied in runs, with the axes after it.

use fx_core::array::{Sizes, build_blocks, checked_numel, dispatch_dtype};
use fx_core::{Array, Result, Scalar, Stored, bail};
use fx_simd::parallel;

use super::chunks::PARALLEL;

/// What a border is made of.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Mode {
    /// One number.
    Constant(Scalar),
    /// The elements mirrored at the border element.
    Reflect,
    /// The border element.
    Replicate,
    /// The elements from the other end.
    Circular,
}

/// Adds `pairs[axis]` positions before and after each axis; negative numbers take away.
///
/// # Errors
///
/// When a size would be negative, or a border takes more than the axis has.
pub fn pad_array(x: &Array, pairs: &[[i64; 2]], mode: Mode) -> Result<Array> {
    let padding = Padding::new(x.shape(), pairs, mode)?;
    if padding.numel == 0 {
        return Array::zeros(x.dtype(), &padding.shape);
    }
    let x = x.contiguous()?;
    dispatch_dtype!(x.dtype(), T => {
        let fill = match mode {
            Mode::Constant(value) => T::from_scalar(value),
            _ => T::default(),
        };
        let x: &[T] = x.as_slice().unwrap_or(&[]);
        let at_once = if padding.numel < PARALLEL { padding.numel } else { 2 };
        let out = build_blocks(padding.numel, BLOCK, at_once, &|at, out| padding.copy(x, fill, at, out))?;
        Array::from_vec(out, &padding.shape)
    })
}

/// Where the elements of a result come from, axis by axis, for arrays of one shape.
pub(crate) struct Padding {
    pub(crate) shape: Sizes,
    pub(crate) numel: usize,
    /// The axes, up to the last one that has a border.
    axes: Vec<Axis>,
    /// The elements of the axes after it.
    inner: usize,
}

impl Padding {
    /// Makes the tables for arrays of a shape.
    pub(crate) fn new(old: &[usize], pairs: &[[i64; 2]], mode: Mode) -> Result<Padding> {
        let mut shape = Sizes::new();
        for (&old, &[before, after]) in old.iter().zip(pairs) {
            let size = (old as i64).checked_add(before).and_then(|size| size.checked_add(after));
            let Some(size) = size.and_then(|size| usize::try_from(size).ok()) else {
                bail!(
                    Shape,
                    "expected a padding that leaves a size of at least 0, got {before} and {after} for {old}"
                );
            };
            shape.push(size);
        }
        if checked_numel(&shape)? == 0 {
            return Ok(Padding { shape, numel: 0, axes: Vec::new(), inner: 1 });
        }
        let axes = shape.iter().zip(pairs).zip(old);
        Padding::of(
            axes.map(|((&size, &pair), &old)| Axis::new(size, old, pair, mode)).collect::<Result<_>>()?,
        )
    }

    /// Makes the tables for arrays whose axes are moved on by some positions; what leaves at the end comes back at the start.
    pub(crate) fn rolled(shape: &[usize], shifts: &[i64]) -> Result<Padding> {
        Padding::of(shape.iter().zip(shifts).map(|(&size, &shift)| Axis::rolled(size, shift)).collect())
    }

    /// Makes the tables for arrays of which some axes are reversed.
    pub(crate) fn reversed(shape: &[usize], is_reversed: &[bool]) -> Result<Padding> {
        let axis = |(&size, &is_reversed): (&usize, &bool)| match is_reversed {
            true => Axis { before: (0..size).rev().map(Some).collect(), n: 0, ..Axis::rolled(size, 0) },
            false => Axis::rolled(size, 0),
        };
        Padding::of(shape.iter().zip(is_reversed).map(axis).collect())
    }

    fn of(mut axes: Vec<Axis>) -> Result<Padding> {
        let shape: Sizes = axes.iter().map(|axis| axis.size).collect();
        let is_kept = |axis: &Axis| axis.n == axis.old && axis.n == axis.size;
        let n = axes.iter().rposition(|axis| !is_kept(axis)).map_or(0, |last| last + 1);
        axes.truncate(n);
        let (numel, inner) = (checked_numel(&shape)?, shape[n..].iter().product());
        Ok(Padding { shape, numel, axes, inner })
    }

    /// Stores all elements.
    pub(crate) fn run<T: Copy + Send + Sync>(&self, x: &[T], fill: T, out: &mut [T]) {
        let at_once = if self.numel < PARALLEL { self.numel } else { 2 };
        parallel::chunks(out, BLOCK, at_once, |i, out| self.copy(x, fill, i * BLOCK, out));
    }

    /// Stores some elements, from a position on.
    fn copy<T: Copy>(&self, x: &[T], fill: T, mut at: usize, mut out: &mut [T]) {
        let Some((last, outer)) = self.axes.split_last() else {
            return out.copy_from_slice(&x[at..][..out.len()]);
        };
        let (width, old) = (last.size * self.inner, last.old * self.inner);
        while !out.is_empty() {
            let (mut line, start) = (at / width, at % width);
            let len = (width - start).min(out.len());
            let (part, rest) = out.split_at_mut(len);
            // Which row it is, the last axis first.
            let (mut row, mut step) = (Some(0), 1);
            for axis in outer.iter().rev() {
                row = row.zip(axis.source(line % axis.size)).map(|(row, at)| row + at * step);
                line /= axis.size;
                step *= axis.old;
            }
            match row {
                Some(row) => copy_part(&x[row * old..][..old], (last, self.inner), start, fill, part),
                None => part.fill(fill),
            }
            (out, at) = (rest, at + len);
        }
    }
}

/// Returns the position that shows at `at`, which may lie outside.
fn source(at: i64, old: usize, [before, after]: [i64; 2], mode: Mode) -> Result<Option<usize>> {
    let n = old as i64;
    let is_circular = mode == Mode::Circular;
    if (0..if is_circular { n + after.min(0) } else { n }).contains(&at) {
        return Ok(Some(at as usize));
    }
    let at = match mode {
        Mode::Constant(_) => return Ok(None),
        Mode::Reflect => {
            if at < 0 {
                -at
            } else {
                2 * (n - 1) - at
            }
        }
        Mode::Replicate => at.clamp(0, (n - 1).max(0)),
        // What is taken away takes no part in the circle.
        Mode::Circular => {
            let period = n + before.min(0) + after.min(0);
            if at < 0 { at + period } else { at - period }
        }
    };
    if !(0..n).contains(&at) {
        bail!(Shape, "expected a padding that the size {old} has elements for");
    }
    Ok(Some(at as usize))
}

/// Where the positions of an axis come from.
struct Axis {
    size: usize,
    old: usize,
    /// What shows at the first positions; `None` is the filling.
    before: Vec<Option<usize>>,
    /// The positions after those are neighbours, from this one on.
    first: usize,
    n: usize,
    after: Vec<Option<usize>>,
}

impl Axis {
    fn new(size: usize, old: usize, pair: [i64; 2], mode: Mode) -> Result<Axis> {
        let [before, after] = pair.map(|n| usize::try_from(n).unwrap_or(0).min(size));
        let at = |i: usize| source(i as i64 - pair[0], old, pair, mode);
        // The borders may meet when elements are taken away at the other end.
        let n = (size - before).saturating_sub(after);
        Ok(Axis {
            size,
            old,
            before: (0..before).map(at).collect::<Result<_>>()?,
            first: usize::try_from(-pair[0]).unwrap_or(0),
            n,
            after: (before + n..size).map(at).collect::<Result<_>>()?,
        })
    }

    fn rolled(size: usize, shift: i64) -> Axis {
        let first = (-i128::from(shift)).rem_euclid(size.max(1) as i128) as usize;
        let (mut before, mut after) = (Vec::new(), Vec::new());
        // The longer part is that of neighbours.
        let (first, n) = if 2 * first <= size {
            after = (0..first).map(Some).collect();
            (first, size - first)
        } else {
            before = (first..size).map(Some).collect();
            (0, first)
        };
        Axis { size, old: size, before, first, n, after }
    }

    fn source(&self, at: usize) -> Option<usize> {
        match at.checked_sub(self.before.len()) {
            None => self.before[at],
            Some(at) if at < self.n => Some(self.first + at),
            Some(at) => self.after[at - self.n],
        }
    }
}

/// The elements of a block.
const BLOCK: usize = 1 << 12;

/// Copies a part of a row of blocks of `inner` elements, from a position on.
fn copy_part<T: Copy>(row: &[T], (axis, inner): (&Axis, usize), start: usize, fill: T, out: &mut [T]) {
    let (from, to) = (axis.before.len() * inner, (axis.before.len() + axis.n) * inner);
    let end = start + out.len();
    let (before, others) = out.split_at_mut(from.clamp(start, end) - start);
    let (middle, after) = others.split_at_mut(to.clamp(start, end) - from.clamp(start, end));
    copy_border(row, &axis.before, inner, start, fill, before);
    if !middle.is_empty() {
        let first = axis.first * inner + start.saturating_sub(from);
        middle.copy_from_slice(&row[first..][..middle.len()]);
    }
    copy_border(row, &axis.after, inner, start.saturating_sub(to), fill, after);
}

/// Copies a part of a border, from a position of it on.
fn copy_border<T: Copy>(
    row: &[T],
    border: &[Option<usize>],
    inner: usize,
    mut at: usize,
    fill: T,
    mut out: &mut [T],
) {
    while !out.is_empty() {
        let (block, first) = (at / inner, at % inner);
        let (part, rest) = out.split_at_mut((inner - first).min(out.len()));
        match border[block] {
            Some(block) => part.copy_from_slice(&row[block * inner + first..][..part.len()]),
            None => part.fill(fill),
        }
        at += part.len();
        out = rest;
    }
}
