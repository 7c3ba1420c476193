//! Making elements block by block, in parallel where it pays.
//!
//! Invariant: work is cut by its size alone, so the number of threads changes nothing.

use crate::{Element, Result, err};

/// The number of elements of a block.
pub const BLOCK: usize = 1024;

/// The number of blocks that a thread takes at least; work on fewer stays on the calling thread.
const AT_ONCE: usize = 32;

/// Makes `numel` elements; `fill` gets the position of a block and the block, of [`BLOCK`] elements or fewer.
pub fn build<T: Element>(numel: usize, fill: impl Fn(usize, &mut [T]) + Sync) -> Result<Vec<T>> {
    build_blocks(numel, BLOCK, AT_ONCE, &fill)
}

/// Makes `numel` elements in blocks of `block`; a thread takes `at_once` of them or more. The blocks have default values.
pub fn build_blocks<T: Element>(
    numel: usize,
    block: usize,
    at_once: usize,
    fill: &(dyn Fn(usize, &mut [T]) + Sync),
) -> Result<Vec<T>> {
    fx_simd::collect(numel, block, at_once, fill)
        .map_err(|_| err!(Limit, "cannot allocate {numel} elements of {}", T::DTYPE))
}
