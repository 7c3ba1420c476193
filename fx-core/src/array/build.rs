//! Making elements block by block, in parallel where it pays.
//!
//! Invariant: work is cut by its size alone, so the number of threads changes nothing.

use fx_simd::{Filled, UninitSlice};

use crate::{Element, Error, Result, err};

/// The number of elements of a block.
pub const BLOCK: usize = 2048;

/// The number of blocks that a thread takes at least; work on fewer stays on the calling thread.
const AT_ONCE: usize = 8;

/// Makes `numel` elements; `fill` gets the position of a block and the block, of [`BLOCK`] elements or fewer.
/// Fails if there is not enough memory.
pub fn build<T: Element>(numel: usize, fill: impl Fn(usize, &mut [T]) + Sync) -> Result<Vec<T>> {
    build_blocks(numel, BLOCK, AT_ONCE, &fill)
}

/// As [`build`], for a `fill` that does not read the block, so that the block is not cleared. Fails as
/// [`build`] does.
pub fn build_slots<T: Element>(
    numel: usize,
    fill: impl for<'a> Fn(usize, UninitSlice<'a, T>) -> Filled<'a> + Sync,
) -> Result<Vec<T>> {
    fx_simd::collect(numel, BLOCK, AT_ONCE, &fill).map_err(|_| too_large::<T>(numel))
}

/// Appends `numel` elements, for which there is room, as [`build_slots`] makes them.
pub(crate) fn extend_slots<T: Element>(
    out: &mut Vec<T>,
    numel: usize,
    fill: impl for<'a> Fn(usize, UninitSlice<'a, T>) -> Filled<'a> + Sync,
) {
    fx_simd::extend(out, numel, BLOCK, AT_ONCE, &fill);
}

/// As [`build_slots`]; each thread makes itself a scratch value first. Fails as [`build`] does.
pub fn build_slots_with<T: Element, S>(
    numel: usize,
    scratch: impl Fn() -> S + Sync,
    fill: impl for<'a> Fn(&mut S, usize, UninitSlice<'a, T>) -> Filled<'a> + Sync,
) -> Result<Vec<T>> {
    fx_simd::collect_with(numel, BLOCK, AT_ONCE, &scratch, &fill).map_err(|_| too_large::<T>(numel))
}

/// As [`build_slots_with`], for a `fill` that cuts what a thread takes at once into blocks itself. Fails as
/// [`build`] does.
pub fn build_tasks_with<T: Element, S>(
    numel: usize,
    scratch: impl Fn() -> S + Sync,
    fill: impl for<'a> Fn(&mut S, usize, UninitSlice<'a, T>) -> Filled<'a> + Sync,
) -> Result<Vec<T>> {
    fx_simd::collect_with(numel, BLOCK * AT_ONCE, 1, &scratch, &fill).map_err(|_| too_large::<T>(numel))
}

/// Makes `numel` elements in blocks of `block`; a thread takes `at_once` of them or more. The blocks have
/// default values. Fails as [`build`] does.
pub fn build_blocks<T: Element>(
    numel: usize,
    block: usize,
    at_once: usize,
    fill: &(dyn Fn(usize, &mut [T]) + Sync),
) -> Result<Vec<T>> {
    fx_simd::collect(numel, block, at_once, &|at, slots| slots.cleared(|out| fill(at, out)))
        .map_err(|_| too_large::<T>(numel))
}

/// As [`build_blocks`], for a `fill` that does not read the block, so that the block is not cleared. Fails as
/// [`build`] does.
pub fn build_slot_blocks<T: Element>(
    numel: usize,
    block: usize,
    at_once: usize,
    fill: &(dyn for<'a> Fn(usize, UninitSlice<'a, T>) -> Filled<'a> + Sync),
) -> Result<Vec<T>> {
    fx_simd::collect(numel, block, at_once, fill).map_err(|_| too_large::<T>(numel))
}

pub(super) fn too_large<T: Element>(numel: usize) -> Error {
    err!(Limit, "cannot allocate {numel} elements of {}", T::DTYPE)
}
