//! Copying strided elements into row-major order.

use std::iter::repeat_n;

use super::layout::{Sizes, StridedIndex, checked_numel, coalesce, row_major};
use super::{Runs, build, build_blocks, build_slots, try_vec};
use crate::{Element, Result};

/// The number of elements above which threads share the work.
const PARALLEL: usize = 1 << 15;

/// The side of the tiles in which a transposed pair of axes is copied.
const TILE: usize = 32;

/// Returns the elements at `offset + index · strides` in row-major order of the index.
///
/// Strides may be negative. All positions must lie in `data`.
pub(super) fn gather<T: Element>(
    data: &[T],
    shape: &[usize],
    strides: &[isize],
    offset: usize,
) -> Result<Vec<T>> {
    let numel = checked_numel(shape)?;
    let mut out = try_vec(if numel < PARALLEL { numel } else { 0 })?;
    if numel == 0 {
        return Ok(out);
    }
    let (sizes, [strides]) = coalesce(shape, [strides]);
    if strides[..] == [1] {
        return build_slots(numel, |at, out| {
            let len = out.len();
            out.copy(&data[offset + at..][..len])
        });
    }
    if let Some(axis) = transposed_axis(&sizes, &strides) {
        return bands(data, numel, &sizes, &strides, offset, axis);
    }
    if numel >= PARALLEL {
        let view = Strided { data, shape: &sizes, strides: &strides, offset };
        return build(numel, |at, out| view.block(at, out));
    }
    let runs = Runs::new(&sizes, [(&strides, offset)]);
    let (len, [stride]) = (runs.run_len(), runs.run_strides());
    match stride {
        1 => runs.for_each(|[at]| out.extend_from_slice(&data[at..at + len])),
        0 => runs.for_each(|[at]| out.extend(repeat_n(data[at], len))),
        2.. => {
            let step = stride as usize;
            runs.for_each(|[at]| out.extend(data[at..=at + (len - 1) * step].iter().step_by(step)));
        }
        _ => {
            let step = stride.unsigned_abs();
            runs.for_each(|[at]| {
                out.extend(data[at - (len - 1) * step..=at].iter().rev().step_by(step));
            });
        }
    }
    Ok(out)
}

/// A strided view of elements.
pub(crate) struct Strided<'a, T> {
    pub(crate) data: &'a [T],
    pub(crate) shape: &'a [usize],
    pub(crate) strides: &'a [isize],
    pub(crate) offset: usize,
}

impl<T: Element> Strided<'_, T> {
    /// Fills `out` with the elements from the position `start` in row-major order on.
    pub(crate) fn block(&self, start: usize, out: &mut [T]) {
        let Strided { data, shape, strides, offset } = *self;
        let rank = shape.len();
        let mut index = Sizes::from_elem(0, rank);
        let mut rest = start;
        for axis in (0..rank).rev() {
            index[axis] = rest % shape[axis];
            rest /= shape[axis];
        }
        let mut at = index
            .iter()
            .zip(strides)
            .fold(offset, |at, (&i, &s)| at.wrapping_add_signed(s.wrapping_mul(i as isize)));
        let Some(last) = rank.checked_sub(1) else {
            return out.fill(data[at]);
        };
        let mut filled = 0;
        while filled < out.len() {
            let len = (shape[last] - index[last]).min(out.len() - filled);
            let run = &mut out[filled..filled + len];
            match strides[last] {
                0 => run.fill(data[at]),
                1 => fx_simd::copy(&data[at..at + len], run),
                -1 => {
                    let from = data[..=at].iter().rev();
                    run.iter_mut().zip(from).for_each(|(o, &x)| *o = x);
                }
                step @ 2.. => {
                    let from = data[at..].iter().step_by(step as usize);
                    run.iter_mut().zip(from).for_each(|(o, &x)| *o = x);
                }
                step => run.iter_mut().enumerate().for_each(|(i, o)| {
                    *o = data[at.wrapping_add_signed(step.wrapping_mul(i as isize))];
                }),
            }
            filled += len;
            at = at.wrapping_add_signed(strides[last].wrapping_mul(len as isize));
            index[last] += len;
            for axis in (1..rank).rev() {
                if index[axis] < shape[axis] {
                    break;
                }
                at = at.wrapping_add_signed(strides[axis].wrapping_mul(shape[axis] as isize).wrapping_neg());
                index[axis] = 0;
                index[axis - 1] += 1;
                at = at.wrapping_add_signed(strides[axis - 1]);
            }
        }
    }
}

/// Returns the outer axis along which neighbours lie closest, if they lie closer than along the last axis.
fn transposed_axis(sizes: &[usize], strides: &[isize]) -> Option<usize> {
    let (&inner, outer) = strides.split_last()?;
    if inner <= 1 {
        return None;
    }
    let axis = (0..outer.len())
        .filter(|&axis| outer[axis] > 0 && sizes[axis] >= 4)
        .min_by_key(|&axis| outer[axis])?;
    (outer[axis] < inner).then_some(axis)
}

/// Copies bands of indices of `axis`, which lie together in the result, in parallel and each as
/// [`copy_tiles`] does it.
fn bands<T: Element>(
    data: &[T],
    numel: usize,
    sizes: &[usize],
    strides: &[isize],
    offset: usize,
    axis: usize,
) -> Result<Vec<T>> {
    let (outer, n) = (&sizes[..axis], sizes[axis]);
    let width: usize = sizes[axis + 1..].iter().product();
    // Whole groups if they are small, else bands that are not so high that there are but few.
    let height = match n * width {
        0..PARALLEL => n,
        _ => [TILE, TILE / 2].into_iter().find(|height| height * width * 4 <= numel).unwrap_or(TILE / 4),
    };
    let at_once = PARALLEL.div_ceil(height * width);
    build_blocks(numel, height * width, at_once, &|at, mut out| {
        let mut row = at / width;
        while !out.is_empty() {
            let (mut group, i) = (row / n, row % n);
            let mut from = offset.wrapping_add_signed(strides[axis].wrapping_mul(i as isize));
            for (&size, &stride) in outer.iter().zip(strides).rev() {
                from = from.wrapping_add_signed(stride.wrapping_mul((group % size) as isize));
                group /= size;
            }
            let height = (n - i).min(out.len() / width);
            let (band, rest) = out.split_at_mut(height * width);
            let mut sizes = Sizes::from_slice(&sizes[axis..]);
            sizes[0] = height;
            copy_tiles(data, band, &sizes, &strides[axis..], from);
            (out, row) = (rest, row + height);
        }
    })
}

/// Copies tile by tile over the first and the last axis, through a buffer, so that each cache line of either
/// side is touched once even when a large power of two separates neighbours.
fn copy_tiles<T: Element>(data: &[T], out: &mut [T], sizes: &[usize], strides: &[isize], offset: usize) {
    let axis = 0;
    let out_strides = row_major(sizes);
    let last = sizes.len() - 1;
    let (rows, columns) = (sizes[axis], sizes[last]);
    let (row_step, column_step) = (strides[axis] as usize, strides[last] as usize);
    let out_step = out_strides[axis] as usize;
    let mut outer = sizes.to_vec();
    (outer[axis], outer[last]) = (1, 1);
    let mut tile = [[T::default(); TILE]; TILE];
    for [from, to] in StridedIndex::new(&outer, [(strides, offset), (&out_strides, 0)]) {
        for row_start in (0..rows).step_by(TILE) {
            let height = TILE.min(rows - row_start);
            for column_start in (0..columns).step_by(TILE) {
                let width = TILE.min(columns - column_start);
                let corner = from + row_start * row_step + column_start * column_step;
                let to_corner = to + row_start * out_step + column_start;
                if row_step == 1 {
                    let (from, to) = (&data[corner..], &mut out[to_corner..]);
                    fx_simd::transpose(from, column_step, to, out_step, height, width);
                    continue;
                }
                for (column, line) in tile.iter_mut().enumerate().take(width) {
                    let source = &data[corner + column * column_step..];
                    let elements = source.iter().step_by(row_step);
                    line[..height].iter_mut().zip(elements).for_each(|(x, &y)| *x = y);
                }
                for row in 0..height {
                    let line = &mut out[to_corner + row * out_step..][..width];
                    line.iter_mut().zip(&tile).for_each(|(x, column)| *x = column[row]);
                }
            }
        }
    }
}
