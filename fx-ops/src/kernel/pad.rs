//! Borders around arrays of any dtype.
//!
//! Each axis is in pieces that come from neighbours in the input; the last one that has a border is copied in
//! runs, with the axes after it.

use fx_core::array::{Sizes, build_blocks, checked_numel, dispatch_dtype};
use fx_core::pointwise::held;
use fx_core::{Array, Result, Scalar, Stored, bail};
use fx_simd::parallel;
use smallvec::SmallVec;

use super::chunks::PARALLEL;

/// What a border is made of.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Mode {
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
/// Fails when a size would be negative, or a border takes more than the axis has.
pub(crate) fn pad_array(x: &Array, pairs: &[[i64; 2]], mode: Mode) -> Result<Array> {
    let filling = match mode {
        Mode::Constant(value) => held(value, x.dtype())?,
        _ => Scalar::Int(0),
    };
    Padding::new(x.shape(), pairs, mode)?.of_array(x, filling)
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
    /// Adds borders.
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

    /// Moves axes on by some positions; what leaves at the end comes back at the start.
    pub(crate) fn rolled(shape: &[usize], shifts: &[i64]) -> Result<Padding> {
        Padding::of(shape.iter().zip(shifts).map(|(&size, &shift)| Axis::rolled(size, shift)).collect())
    }

    /// Reverses some axes.
    pub(crate) fn reversed(shape: &[usize], is_reversed: &[bool]) -> Result<Padding> {
        let axis = |(&size, &is_reversed): (&usize, &bool)| match is_reversed {
            true => Axis::reversed(size),
            false => Axis::kept(size),
        };
        Padding::of(shape.iter().zip(is_reversed).map(axis).collect())
    }

    fn of(mut axes: Vec<Axis>) -> Result<Padding> {
        let shape: Sizes = axes.iter().map(|axis| axis.size).collect();
        let n = axes.iter().rposition(|axis| *axis != Axis::kept(axis.old)).map_or(0, |last| last + 1);
        axes.truncate(n);
        let (numel, inner) = (checked_numel(&shape)?, shape[n..].iter().product());
        Ok(Padding { shape, numel, axes, inner })
    }

    /// Makes an array.
    pub(crate) fn of_array(&self, x: &Array, filling: Scalar) -> Result<Array> {
        if self.numel == 0 {
            return Array::zeros(x.dtype(), &self.shape);
        }
        if self.axes.is_empty() {
            return Ok(x.clone());
        }
        let x = x.contiguous()?;
        dispatch_dtype!(x.dtype(), T => {
            let (x, fill): (&[T], T) = (x.as_slice().unwrap_or(&[]), T::from_scalar(filling));
            let out = build_blocks(self.numel, BLOCK, self.at_once(), &|at, out| self.copy(x, fill, at, out))?;
            Array::from_vec(out, &self.shape)
        })
    }

    /// Returns the blocks of a task.
    fn at_once(&self) -> usize {
        if self.numel < PARALLEL { self.numel } else { 2 }
    }

    /// Stores all elements.
    pub(crate) fn run<T: Copy + Send + Sync>(&self, x: &[T], fill: T, out: &mut [T]) {
        parallel::chunks(out, BLOCK, self.at_once(), |i, out| self.copy(x, fill, i * BLOCK, out));
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
#[derive(PartialEq)]
struct Axis {
    size: usize,
    old: usize,
    pieces: SmallVec<[Piece; 3]>,
}

/// Positions of an axis that come one after the other.
#[derive(Clone, Copy, PartialEq)]
struct Piece {
    len: usize,
    from: From,
}

#[derive(Clone, Copy, PartialEq)]
enum From {
    /// The filling.
    Nowhere,
    /// The positions from this one on, each so many after the one before: 1, 0 or -1.
    Line(usize, isize),
}

impl From {
    fn at(self, i: usize) -> Option<usize> {
        match self {
            From::Nowhere => None,
            From::Line(first, step) => Some(first.wrapping_add_signed(step * i as isize)),
        }
    }
}

impl Axis {
    fn new(size: usize, old: usize, pair: [i64; 2], mode: Mode) -> Result<Axis> {
        let [before, after] = pair.map(|n| usize::try_from(n).unwrap_or(0).min(size));
        let at = |i: usize| source(i as i64 - pair[0], old, pair, mode);
        // The borders may meet when elements are taken away at the other end.
        let n = (size - before).saturating_sub(after);
        let mut axis = Axis { size, old, pieces: SmallVec::new() };
        for i in 0..before {
            axis.push(at(i)?);
        }
        if n > 0 {
            let first = usize::try_from(-pair[0]).unwrap_or(0);
            axis.pieces.push(Piece { len: n, from: From::Line(first, 1) });
        }
        for i in before + n..size {
            axis.push(at(i)?);
        }
        Ok(axis)
    }

    /// Adds a position, to the last piece if it is its next one.
    fn push(&mut self, from: Option<usize>) {
        if let Some(last) = self.pieces.last_mut() {
            if let (1, From::Line(first, _), Some(at)) = (last.len, last.from, from)
                && at.abs_diff(first) <= 1
            {
                last.from = From::Line(first, at as isize - first as isize);
            }
            if last.from.at(last.len) == from {
                last.len += 1;
                return;
            }
        }
        let from = from.map_or(From::Nowhere, |at| From::Line(at, 1));
        self.pieces.push(Piece { len: 1, from });
    }

    fn kept(size: usize) -> Axis {
        Axis::of(size, &[(size, From::Line(0, 1))])
    }

    fn rolled(size: usize, shift: i64) -> Axis {
        let first = (-i128::from(shift)).rem_euclid(size.max(1) as i128) as usize;
        Axis::of(size, &[(size - first, From::Line(first, 1)), (first, From::Line(0, 1))])
    }

    fn reversed(size: usize) -> Axis {
        Axis::of(size, &[(size, From::Line(size.saturating_sub(1), -1))])
    }

    fn of(size: usize, pieces: &[(usize, From)]) -> Axis {
        let pieces = pieces.iter().filter(|(len, _)| *len > 0);
        Axis { size, old: size, pieces: pieces.map(|&(len, from)| Piece { len, from }).collect() }
    }

    fn source(&self, mut at: usize) -> Option<usize> {
        for piece in &self.pieces {
            match at.checked_sub(piece.len) {
                None => return piece.from.at(at),
                Some(rest) => at = rest,
            }
        }
        None
    }
}

/// The elements of a block.
const BLOCK: usize = 1 << 12;

/// Copies a part of a row of blocks of `inner` elements, from a position on.
fn copy_part<T: Copy>(
    row: &[T],
    (axis, inner): (&Axis, usize),
    mut start: usize,
    fill: T,
    mut out: &mut [T],
) {
    for piece in &axis.pieces {
        let len = piece.len * inner;
        if start >= len {
            start -= len;
            continue;
        }
        let (part, rest) = out.split_at_mut((len - start).min(out.len()));
        copy_piece(row, piece.from, inner, start, fill, part);
        if rest.is_empty() {
            return;
        }
        (out, start) = (rest, 0);
    }
}

/// Copies a part of a piece, from a position of it on.
fn copy_piece<T: Copy>(row: &[T], from: From, inner: usize, start: usize, fill: T, mut out: &mut [T]) {
    match from {
        From::Nowhere => out.fill(fill),
        From::Line(first, 1) => fx_simd::copy(&row[first * inner + start..][..out.len()], out),
        From::Line(first, step) if inner == 1 => {
            if step == 0 {
                return out.fill(row[first]);
            }
            let (end, n) = (first + 1 - start, out.len());
            out.iter_mut().zip(row[end - n..end].iter().rev()).for_each(|(out, &x)| *out = x);
        }
        From::Line(first, step) => {
            let (mut block, mut skip) = (start / inner, start % inner);
            while !out.is_empty() {
                let at = first.wrapping_add_signed(step * block as isize) * inner + skip;
                let (part, rest) = out.split_at_mut((inner - skip).min(out.len()));
                part.copy_from_slice(&row[at..][..part.len()]);
                (out, block, skip) = (rest, block + 1, 0);
            }
        }
    }
}
