//! Making elements block by block, in parallel where it pays.
//!
//! Invariant: work is cut by its size alone, so the number of threads changes nothing. Each block is made in the first cache
//! and moved to its place, so memory is written once and need not be cleared before.

use rayon::prelude::*;

use super::try_vec;
use crate::{Element, Result, err};

/// The number of elements of a block.
pub const BLOCK: usize = 1024;

/// The number of elements above which threads share the work.
const PARALLEL: usize = 1 << 15;

/// The number of blocks that a thread takes at least.
const AT_ONCE: usize = 8;

/// Makes `numel` elements; `fill` gets the position of a block and the block, of [`BLOCK`] elements or fewer.
pub fn build<T: Element>(numel: usize, fill: impl Fn(usize, &mut [T]) + Sync) -> Result<Vec<T>> {
    build_with(numel, || (), |(), at, out| fill(at, out))
}

/// As [`build`], with scratch memory that `init` makes and blocks of one thread share.
pub fn build_with<T: Element, S>(
    numel: usize,
    init: impl Fn() -> S + Sync + Send,
    fill: impl Fn(&mut S, usize, &mut [T]) + Sync,
) -> Result<Vec<T>> {
    if numel < PARALLEL {
        let mut out = try_vec::<T>(numel)?;
        out.resize(numel, T::default());
        let mut scratch = init();
        out.chunks_mut(BLOCK).enumerate().for_each(|(i, block)| fill(&mut scratch, i * BLOCK, block));
        return Ok(out);
    }
    let whole = numel / BLOCK;
    let mut blocks: Vec<[T; BLOCK]> = Vec::new();
    blocks
        .try_reserve_exact(numel.div_ceil(BLOCK))
        .map_err(|_| err!(Limit, "cannot allocate {numel} elements of {}", T::DTYPE))?;
    let make = |scratch: &mut S, i: usize| {
        let mut block = [T::default(); BLOCK];
        fill(scratch, i * BLOCK, &mut block);
        block
    };
    blocks.par_extend((0..whole).into_par_iter().with_min_len(AT_ONCE).map_init(&init, make));
    let mut out = blocks.into_flattened();
    if out.len() < numel {
        let mut block = [T::default(); BLOCK];
        let rest = &mut block[..numel - out.len()];
        fill(&mut init(), out.len(), rest);
        out.extend_from_slice(rest);
    }
    Ok(out)
}
