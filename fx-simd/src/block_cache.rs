//! A cache of large blocks of memory: a freed block is kept for the next allocation.
//!
//! The system takes large blocks back at once and hands out fresh pages for the next ones. The first touch of
//! a fresh page takes about a microsecond, more than most operations need for the elements in it.
//!
//! Invariant: a block that is handed out has exactly the layout of its allocation, so its owner may free it.

use std::alloc::{Layout, dealloc};
use std::cell::Cell;
use std::collections::TryReserveError;
use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};

use crate::huge_pages;

/// Smaller blocks come from the allocator's own stock.
const SMALLEST: usize = 128 << 10;

/// Larger blocks take so long to fill that fresh pages do not matter as much.
const LARGEST: usize = 32 << 20;

/// How many bytes are kept at the most.
const LIMIT: usize = 64 << 20;

/// How much larger than asked for a block may be, as a divisor of its size.
const WASTE: usize = 4;

/// An allocation without an owner.
struct Block {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: nobody else has the memory.
unsafe impl Send for Block {}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: it was allocated by the global allocator with this layout, and nobody else has it.
        unsafe { dealloc(self.start.as_ptr(), self.layout) }
    }
}

/// The blocks, the oldest first.
static KEPT: Mutex<Vec<Block>> = Mutex::new(Vec::new());

thread_local! {
    static KEEPS: Cell<bool> = const { Cell::new(true) };
}

/// Calls a function on whose thread nothing is kept meanwhile: what it frees is much, and not needed again.
pub fn without_block_cache<R>(f: impl FnOnce() -> R) -> R {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            KEEPS.set(self.0);
        }
    }
    let _restore = Restore(KEEPS.replace(false));
    f()
}

/// Returns an empty vector with room for `n` elements. Fails if there is not enough memory.
pub fn reserve<T: Copy>(n: usize) -> Result<Vec<T>, TryReserveError> {
    if let Some(vec) = take(n) {
        return Ok(vec);
    }
    let mut vec = Vec::new();
    vec.try_reserve_exact(n)?;
    Ok(in_huge_pages(vec))
}

/// Asks the system for huge pages where a vector with much room has not been written yet, and returns it.
pub fn in_huge_pages<T>(mut vec: Vec<T>) -> Vec<T> {
    let bytes = vec.capacity().saturating_mul(size_of::<T>());
    if let Some(start) = NonNull::new(vec.as_mut_ptr().cast()) {
        huge_pages::ask_for_huge(start, bytes);
    }
    vec
}

/// Finds a kept block that has room for `n` elements and not much more.
fn take<T: Copy>(n: usize) -> Option<Vec<T>> {
    let wanted = Layout::array::<T>(n).ok().filter(|layout| (SMALLEST..=LARGEST).contains(&layout.size()))?;
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    let fits = |block: &Block| {
        let size = block.layout.size();
        block.layout.align() == wanted.align()
            && size.is_multiple_of(size_of::<T>())
            && (wanted.size()..=wanted.size() + wanted.size() / WASTE).contains(&size)
    };
    let at = kept.iter().rposition(fits)?;
    let block = std::mem::ManuallyDrop::new(kept.remove(at));
    drop(kept);
    let capacity = block.layout.size() / size_of::<T>();
    // SAFETY: the block has the size and alignment of `capacity` elements, it is ours alone, and no element
    // is claimed to be there.
    Some(unsafe { Vec::from_raw_parts(block.start.as_ptr().cast(), 0, capacity) })
}

/// Takes the memory of a vector that is no longer needed; it is freed if it is small or too much is kept already.
pub fn recycle<T: Copy>(vec: Vec<T>) {
    let Ok(layout) = Layout::array::<T>(vec.capacity()) else { return };
    // A thread that ends may have lost its mark.
    let keeps = KEEPS.try_with(Cell::get).unwrap_or(false);
    if !keeps || !(SMALLEST..=LARGEST).contains(&layout.size()) {
        return;
    }
    let mut vec = std::mem::ManuallyDrop::new(vec);
    let Some(start) = NonNull::new(vec.as_mut_ptr().cast()) else { return };
    let block = Block { start, layout };
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    kept.push(block);
    let mut bytes: usize = kept.iter().map(|block| block.layout.size()).sum();
    let mut n = 0;
    while bytes > LIMIT {
        bytes -= kept[n].layout.size();
        n += 1;
    }
    let freed: Vec<Block> = kept.drain(..n).collect();
    drop(kept);
    // The system is called without the lock.
    drop(freed);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One test, since the blocks are those of the process.
    #[test]
    fn blocks_are_handed_out_again_with_their_layout() {
        const N: usize = 1_234_560 / 8;
        let vec = vec![1.0f64; N];
        let start = vec.as_ptr() as usize;
        recycle(vec);
        assert!(take::<u32>(N * 2).is_none(), "another alignment");
        assert!(take::<u64>(N / 2).is_none(), "much too large");
        assert!(take::<u64>(N + 1).is_none(), "too small");
        let again = take::<i64>(N - 100).expect("it fits");
        assert_eq!((again.as_ptr() as usize, again.len(), again.capacity()), (start, 0, N));
        assert!(take::<i64>(N).is_none(), "it is given once");

        for _ in 0..10 {
            let blocks: Vec<Vec<u16>> = (0..8).map(|_| Vec::with_capacity(LARGEST / 2)).collect();
            blocks.into_iter().for_each(recycle);
            let kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
            assert!(kept.iter().map(|block| block.layout.size()).sum::<usize>() <= LIMIT);
        }
        without_block_cache(|| recycle(vec![7u16; SMALLEST]));
        assert!(take::<u16>(SMALLEST).is_none(), "nothing is kept");
        recycle(vec![0u8; SMALLEST - 1]);
        recycle(Vec::<u8>::new());
        recycle(vec![(); 5]);
        assert!(reserve::<u64>(usize::MAX / 8).is_err());
    }
}
