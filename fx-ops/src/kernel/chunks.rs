//! Filling new buffers in parallel: work is cut by its size alone, so the number of threads changes nothing.

use fx_core::array::{build, build_blocks, build_slot_blocks, try_vec};
use fx_core::{Element, Result};

pub(crate) use fx_kernels::PARALLEL;

/// Allocates `numel` default elements; a request that memory cannot hold is an error.
pub(crate) fn blank<T: Element>(numel: usize) -> Result<Vec<T>> {
    let mut out = try_vec::<T>(numel)?;
    out.resize(numel, T::default());
    Ok(out)
}

/// Makes `numel` elements; `fill` gets the position of a chunk and the chunk.
pub(crate) fn fill<T: Element>(numel: usize, fill: impl Fn(usize, &mut [T]) + Sync) -> Result<Vec<T>> {
    build(numel, fill)
}

/// Makes `n_rows` rows of `width` elements, each of which costs `cost` steps.
pub(crate) fn fill_rows<T: Element>(
    n_rows: usize,
    width: usize,
    cost: usize,
    fill: impl Fn(usize, &mut [T]) + Sync,
) -> Result<Vec<T>> {
    let numel = n_rows * width;
    let width = width.max(1);
    let serial = n_rows.saturating_mul(cost) < PARALLEL;
    let at_once = if serial { n_rows } else { (PARALLEL / 8).div_ceil(cost.max(1)) };
    build_blocks(numel, width, at_once, &|at, row| fill(at / width, row))
}

/// Makes `n_rows` rows of `width` elements, each a copy of what `row` gives.
pub(crate) fn copy_rows<'a, T: Element>(
    n_rows: usize,
    width: usize,
    row: impl Fn(usize) -> &'a [T] + Sync,
) -> Result<Vec<T>> {
    let (numel, width) = (n_rows * width, width.max(1));
    let group = (PARALLEL / 16).div_ceil(width);
    let at_once = if numel < PARALLEL { n_rows } else { (PARALLEL / 8).div_ceil(group * width) };
    build_slot_blocks(numel, group * width, at_once, &|at, slots| {
        slots.runs(width, width, |start, slots| slots.copy(row((at + start) / width)))
    })
}

/// As [`fill_rows`], for two results of the same shape.
pub(crate) fn fill_row_pairs<T: Element, U: Element>(
    n_rows: usize,
    width: usize,
    cost: usize,
    fill: impl Fn(usize, &mut [T], &mut [U]) + Sync,
) -> Result<(Vec<T>, Vec<U>)> {
    let (mut a, mut b) = (blank(n_rows * width)?, blank(n_rows * width)?);
    if width == 0 {
        return Ok((a, b));
    }
    let serial = n_rows.saturating_mul(cost) < PARALLEL;
    let at_once = if serial { n_rows } else { (PARALLEL / 8).div_ceil(cost.max(1)) };
    fx_simd::parallel::chunk_pairs((&mut a, width), (&mut b, width), at_once, fill);
    Ok((a, b))
}
