//! Borders around arrays of any dtype.
//!
//! Each axis has a table of where its positions come from; the last axis is copied in runs.

use fx_core::array::{Sizes, build_blocks, checked_numel, dispatch_dtype};
use fx_core::{Array, Element, Result, Scalar, Stored, bail};

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
    let mut shape = Sizes::new();
    for (axis, &[before, after]) in pairs.iter().enumerate() {
        let old = x.shape()[axis];
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
        return Array::zeros(x.dtype(), &shape);
    }
    let x = x.contiguous()?;
    dispatch_dtype!(x.dtype(), T => {
        let fill = match mode {
            Mode::Constant(value) => T::from_scalar(value),
            _ => T::default(),
        };
        let axes: Vec<Axis> = (shape.iter().zip(pairs).zip(x.shape()))
            .map(|((&size, &pair), &old)| Axis::new(size, old, pair, mode))
            .collect::<Result<_>>()?;
        Array::from_vec(copy::<T>(x.as_slice().unwrap_or(&[]), &axes, fill)?, &shape)
    })
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

fn copy<T: Element>(x: &[T], axes: &[Axis], fill: T) -> Result<Vec<T>> {
    let Some((last, outer)) = axes.split_last() else { return Ok(x.to_vec()) };
    let numel = axes.iter().map(|axis| axis.size).product::<usize>();
    let at_once = if numel < PARALLEL { numel } else { 2 };
    build_blocks(numel, BLOCK, at_once, &|mut at, mut out| {
        while !out.is_empty() {
            let (mut line, start) = (at / last.size, at % last.size);
            let len = (last.size - start).min(out.len());
            let (part, rest) = out.split_at_mut(len);
            // Which row it is, the last axis first.
            let (mut row, mut step) = (Some(0), 1);
            for axis in outer.iter().rev() {
                row = row.zip(axis.source(line % axis.size)).map(|(row, at)| row + at * step);
                line /= axis.size;
                step *= axis.old;
            }
            match row {
                Some(row) => copy_part(&x[row * last.old..][..last.old], last, start, fill, part),
                None => part.fill(fill),
            }
            (out, at) = (rest, at + len);
        }
    })
}

/// Copies a part of a row, from a position of the axis on.
fn copy_part<T: Copy>(row: &[T], axis: &Axis, start: usize, fill: T, out: &mut [T]) {
    let (from, to) = (axis.before.len(), axis.before.len() + axis.n);
    let end = start + out.len();
    let (before, others) = out.split_at_mut(from.clamp(start, end) - start);
    let (middle, after) = others.split_at_mut(to.clamp(start, end) - from.clamp(start, end));
    for (i, out) in before.iter_mut().enumerate() {
        *out = axis.before[start + i].map_or(fill, |at| row[at]);
    }
    if !middle.is_empty() {
        let first = axis.first + start.saturating_sub(from);
        middle.copy_from_slice(&row[first..][..middle.len()]);
    }
    let skipped = start.saturating_sub(to);
    for (out, at) in after.iter_mut().zip(&axis.after[skipped..]) {
        *out = at.map_or(fill, |at| row[at]);
    }
}
