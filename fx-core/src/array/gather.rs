//! Copying strided elements into row-major order.

use std::iter::repeat_n;

use super::layout::{StridedIndex, checked_numel, coalesce, row_major};
use super::{Runs, try_vec};
use crate::{Element, Result};

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
    let mut out = try_vec(numel)?;
    if numel == 0 {
        return Ok(out);
    }
    let (sizes, [strides]) = coalesce(shape, [strides]);
    if let Some(axis) = transposed_axis(&sizes, &strides) {
        out.resize(numel, T::default());
        copy_tiles(data, &mut out, &sizes, &strides, offset, axis);
        return Ok(out);
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

/// Copies tile by tile over `axis` and the last axis, through a buffer, so that each cache line of either
/// side is touched once even when a large power of two separates neighbours.
fn copy_tiles<T: Element>(
    data: &[T],
    out: &mut [T],
    sizes: &[usize],
    strides: &[isize],
    offset: usize,
    axis: usize,
) {
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
                for (column, line) in tile.iter_mut().enumerate().take(width) {
                    let source = &data[corner + column * column_step..];
                    if row_step == 1 {
                        line[..height].copy_from_slice(&source[..height]);
                    } else {
                        line[..height]
                            .iter_mut()
                            .zip(source.iter().step_by(row_step))
                            .for_each(|(x, &y)| *x = y);
                    }
                }
                let corner = to + row_start * out_step + column_start;
                for row in 0..height {
                    let line = &mut out[corner + row * out_step..][..width];
                    line.iter_mut().zip(&tile).for_each(|(x, column)| *x = column[row]);
                }
            }
        }
    }
}
