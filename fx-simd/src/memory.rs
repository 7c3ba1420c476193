//! New memory that is filled block by block, and copies.
//!
//! Invariant: safe code never sees memory without a value. A block gets default values right before it is handed out, so that it
//! is in the first cache when it is written; memory is thus crossed once.

use std::collections::TryReserveError;
use std::mem::MaybeUninit;

use crate::parallel;

/// The bytes that are copied or set at a time. Longer runs may become string instructions, which some machines are slow at.
const RUN: usize = 2048;

/// Makes `numel` elements; `fill` gets the position of a block, and the block with default values.
///
/// Blocks have `block` elements, but the last one may have fewer. A task takes `at_once` blocks or more; if there are no more
/// than that, all work stays on this thread. An allocation that fails is an error.
pub fn collect<T: Copy + Default + Send>(
    numel: usize,
    block: usize,
    at_once: usize,
    fill: &(dyn Fn(usize, &mut [T]) + Sync),
) -> Result<Vec<T>, TryReserveError> {
    let mut out = Vec::new();
    out.try_reserve_exact(numel)?;
    let block = block.max(1);
    let slots = &mut out.spare_capacity_mut()[..numel];
    parallel::chunks(slots, block, at_once, |i, slots| fill(i * block, cleared(slots)));
    // SAFETY: the capacity is at least `numel`, and the blocks that `cleared` wrote cover all of these elements.
    unsafe { out.set_len(numel) };
    Ok(out)
}

/// Writes default values.
fn cleared<T: Copy + Default>(slots: &mut [MaybeUninit<T>]) -> &mut [T] {
    for run in slots.chunks_mut((RUN / size_of::<T>().max(1)).max(1)) {
        run.fill(MaybeUninit::new(T::default()));
    }
    // SAFETY: every element was written just now, and a `MaybeUninit<T>` is laid out as a `T`.
    unsafe { &mut *(std::ptr::from_mut(slots) as *mut [T]) }
}

/// Copies elements between slices of equal length.
///
/// # Panics
///
/// When the lengths differ.
#[inline]
pub fn copy<T: Copy>(from: &[T], to: &mut [T]) {
    assert_eq!(from.len(), to.len(), "a copy is as long as its source");
    let run = (RUN / size_of::<T>().max(1)).max(1);
    for (from, to) in from.chunks(run).zip(to.chunks_mut(run)) {
        to.copy_from_slice(from);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_cover_all_elements() {
        for numel in [0, 1, 7, 1000, 5003] {
            let out = collect(numel, 16, 3, &|at, out: &mut [usize]| {
                assert!(out.iter().all(|&x| x == 0));
                out.iter_mut().enumerate().for_each(|(i, x)| *x = at + i);
            });
            assert_eq!(out.expect("it fits into memory"), (0..numel).collect::<Vec<_>>());
        }
        assert!(collect(usize::MAX / 8, 16, 3, &|_, _: &mut [u64]| {}).is_err());
    }

    #[test]
    fn copies_are_whole() {
        let from: Vec<u8> = (0..5000).map(|i| i as u8).collect();
        let mut to = vec![0; 5000];
        copy(&from, &mut to);
        assert_eq!(from, to);
    }
}
