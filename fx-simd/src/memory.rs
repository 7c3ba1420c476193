//! New memory that is filled block by block, and copies.
//!
//! Invariant: safe code never reads memory without a value. It is handed out as [`UninitSlice`], which can only be
//! written.

use std::collections::TryReserveError;
use std::marker::PhantomData;
use std::mem::MaybeUninit;

use crate::{Work, parallel, reserve, widest};

/// The bytes that are copied or set at a time. Longer runs may become string instructions, which some
/// machines are slow at.
const RUN: usize = 2048;

/// Elements that must be written before they can be read.
///
/// Each method that gives [`Filled`] writes all of them. The lifetime stands for this very memory, so that no
/// other can be passed off as filled.
pub struct UninitSlice<'a, T> {
    slots: &'a mut [MaybeUninit<T>],
    this: PhantomData<fn(&'a ()) -> &'a ()>,
}

/// A function of a position, whose `at` is `#[inline(always)]`.
pub trait At<T> {
    /// Returns the element at a position.
    fn at(&self, i: usize) -> T;
}

/// The word that all elements of [`UninitSlice`] were written.
pub struct Filled<'a>(PhantomData<fn(&'a ()) -> &'a ()>);

impl<'a, T: Copy> UninitSlice<'a, T> {
    /// Takes elements that have values already.
    pub fn over(elements: &'a mut [T]) -> UninitSlice<'a, T> {
        // SAFETY: a `MaybeUninit<T>` is laid out as a `T`, and only values are ever written here.
        UninitSlice::new(unsafe { &mut *(std::ptr::from_mut(elements) as *mut [MaybeUninit<T>]) })
    }

    fn new(slots: &'a mut [MaybeUninit<T>]) -> UninitSlice<'a, T> {
        UninitSlice { slots, this: PhantomData }
    }

    /// Returns where the elements are.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn as_mut_ptr(&mut self) -> *mut T {
        self.slots.as_mut_ptr().cast()
    }

    /// Ends with the word that all elements were written.
    ///
    /// # Safety
    ///
    /// They were.
    #[cfg(target_arch = "x86_64")]
    pub(crate) unsafe fn filled(self) -> Filled<'a> {
        Filled(PhantomData)
    }

    /// Returns the number of elements.
    #[inline]
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Returns whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Writes what `f` gives for each position. Unlike a closure, `f` is inlined however long it is, so that
    /// the loop can be wide.
    #[inline(always)]
    pub fn each_of(self, f: impl At<T>) -> Filled<'a> {
        for i in 0..self.slots.len() {
            self.slots[i].write(f.at(i));
        }
        Filled(PhantomData)
    }

    /// As [`each_of`](Self::each_of), in as little code as there can be: one element at a time.
    #[inline]
    pub fn each_small(self, f: impl At<T>) -> Filled<'a> {
        for (i, slot) in self.slots.iter_mut().enumerate() {
            slot.write(f.at(std::hint::black_box(i)));
        }
        Filled(PhantomData)
    }

    /// Writes what `f`, a short closure, gives for each position.
    #[inline(always)]
    pub fn each(self, mut f: impl FnMut(usize) -> T) -> Filled<'a> {
        for i in 0..self.slots.len() {
            self.slots[i].write(f(i));
        }
        Filled(PhantomData)
    }

    /// Lets `f` write a run of `first` elements and further ones of `width`; it gets the position of each run.
    #[inline]
    pub fn runs(
        self,
        first: usize,
        width: usize,
        mut f: impl for<'b> FnMut(usize, UninitSlice<'b, T>) -> Filled<'b>,
    ) -> Filled<'a> {
        let (run, rest) = self.slots.split_at_mut(first.min(self.slots.len()));
        if !run.is_empty() {
            f(0, UninitSlice::new(run));
        }
        for (i, run) in rest.chunks_mut(width.max(1)).enumerate() {
            f(first + i * width.max(1), UninitSlice::new(run));
        }
        Filled(PhantomData)
    }

    /// Writes the same value everywhere.
    pub fn fill(self, x: T) -> Filled<'a> {
        struct Fill<'a, T>(&'a mut [MaybeUninit<T>], T);
        impl<T: Copy> Work for Fill<'_, T> {
            type Output = ();
            #[inline(always)]
            fn run(self) {
                self.0.fill(MaybeUninit::new(self.1));
            }
        }
        for run in self.slots.chunks_mut((RUN / size_of::<T>().max(1)).max(1)) {
            widest(Fill(run, x));
        }
        Filled(PhantomData)
    }

    /// Writes the elements of a slice.
    ///
    /// # Panics
    ///
    /// When the lengths differ.
    #[inline]
    pub fn copy(self, from: &[T]) -> Filled<'a> {
        assert_eq!(from.len(), self.slots.len(), "a copy is as long as its source");
        let run = (RUN / size_of::<T>().max(1)).max(1);
        for (from, to) in from.chunks(run).zip(self.slots.chunks_mut(run)) {
            to.write_copy_of_slice(from);
        }
        Filled(PhantomData)
    }
}

impl<'a, T: Copy + Default> UninitSlice<'a, T> {
    /// Writes default values, then lets `f` change them.
    pub fn cleared(self, f: impl FnOnce(&mut [T])) -> Filled<'a> {
        for run in self.slots.chunks_mut((RUN / size_of::<T>().max(1)).max(1)) {
            run.fill(MaybeUninit::new(T::default()));
        }
        // SAFETY: every element was written just now, and a `MaybeUninit<T>` is laid out as a `T`.
        f(unsafe { &mut *(std::ptr::from_mut(self.slots) as *mut [T]) });
        Filled(PhantomData)
    }
}

/// Makes `numel` elements; `fill` gets the position of a block, and the block to be filled.
///
/// Blocks have `block` elements, but the last one may have fewer. A task takes `at_once` blocks or more; if
/// there are no more than that, all work stays on this thread. An allocation that fails is an error. Fails if
/// there is not enough memory.
pub fn collect<T: Copy + Send>(
    numel: usize,
    block: usize,
    at_once: usize,
    fill: &(dyn for<'a> Fn(usize, UninitSlice<'a, T>) -> Filled<'a> + Sync),
) -> Result<Vec<T>, TryReserveError> {
    collect_with(numel, block, at_once, &|| (), &|(), at, slots| fill(at, slots))
}

/// A function that fills a block, from its position on, with the help of a scratch value.
pub type FillWith<'f, S, T> = dyn for<'a> Fn(&mut S, usize, UninitSlice<'a, T>) -> Filled<'a> + Sync + 'f;

/// As [`collect`]; each thread makes itself a scratch value first. Fails as [`collect`] does.
pub fn collect_with<T: Copy + Send, S>(
    numel: usize,
    block: usize,
    at_once: usize,
    scratch: &(dyn Fn() -> S + Sync),
    fill: &FillWith<'_, S, T>,
) -> Result<Vec<T>, TryReserveError> {
    let mut out = reserve(numel)?;
    extend_with(&mut out, numel, block, at_once, scratch, fill);
    Ok(out)
}

/// Appends `numel` elements, for which there is room, as [`collect`] makes them.
///
/// # Panics
///
/// When the capacity does not suffice.
pub fn extend<T: Copy + Send>(
    out: &mut Vec<T>,
    numel: usize,
    block: usize,
    at_once: usize,
    fill: &(dyn for<'a> Fn(usize, UninitSlice<'a, T>) -> Filled<'a> + Sync),
) {
    extend_with(out, numel, block, at_once, &|| (), &|(), at, slots| fill(at, slots));
}

fn extend_with<T: Copy + Send, S>(
    out: &mut Vec<T>,
    numel: usize,
    block: usize,
    at_once: usize,
    scratch: &(dyn Fn() -> S + Sync),
    fill: &FillWith<'_, S, T>,
) {
    let block = block.max(1);
    let slots = &mut out.spare_capacity_mut()[..numel];
    parallel::chunks_with(slots, block, at_once, scratch, |scratch, i, slots| {
        fill(scratch, i * block, UninitSlice::new(slots));
    });
    // SAFETY: there was room for `numel` more, and `Filled` says that each block of them was written.
    unsafe { out.set_len(out.len() + numel) };
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

/// Asks for the line of an address to be brought into the first cache. It need not be there.
#[inline(always)]
pub fn prefetch_line(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads nothing and never faults.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// Asks for the line of an address to be brought into the second cache, as [`prefetch_line`] into the first.
#[inline(always)]
pub fn prefetch_line_later(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        // SAFETY: a prefetch reads nothing and never faults.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(at.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// Returns the pointer, of which the compiler no longer knows how it was computed. It keeps such a pointer in
/// a register of its own, where it would compute it anew from others.
#[inline(always)]
#[allow(clippy::pointers_in_nomem_asm_block, unused_mut, reason = "nothing is read through it")]
pub fn opaque<T>(mut pointer: *const T) -> *const T {
    #[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
    // SAFETY: there is no instruction.
    unsafe {
        std::arch::asm!("/* {0} */", inout(reg) pointer, options(pure, nomem, nostack, preserves_flags))
    };
    pointer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_cover_all_elements() {
        for numel in [0, 1, 7, 1000, 5003] {
            let out = collect(numel, 16, 3, &|at, out| {
                out.cleared(|out| {
                    assert!(out.iter().all(|&x| x == 0));
                    out.iter_mut().enumerate().for_each(|(i, x)| *x = at + i);
                })
            });
            assert_eq!(out.expect("it fits into memory"), (0..numel).collect::<Vec<_>>());
        }
        assert!(collect(usize::MAX / 8, 16, 3, &|_, out| out.fill(1u64)).is_err());
    }

    #[test]
    fn elements_are_appended() {
        let mut out = Vec::with_capacity(5000);
        out.extend([1u32, 2, 3]);
        extend(&mut out, 4000, 1500, 1, &|at, out| out.each(|i| (at + i) as u32));
        assert!(out.iter().copied().eq([1, 2, 3].into_iter().chain(0..4000)));
    }

    #[test]
    fn slots_are_filled_in_every_way() {
        let from: Vec<u16> = (0..5000).collect();
        let make = |fill: &(dyn for<'a> Fn(usize, UninitSlice<'a, u16>) -> Filled<'a> + Sync)| {
            collect(5000, 1500, 1, fill).expect("it fits into memory")
        };
        assert_eq!(make(&|at, out| out.each(|i| (at + i) as u16)), from);
        assert_eq!(
            make(&|at, out| {
                let n = out.len();
                out.copy(&from[at..at + n])
            }),
            from
        );
        assert_eq!(make(&|_, out| out.fill(7)), [7; 5000]);
        assert_eq!(
            make(&|at, out| out.runs(5, 11, |start, out| out.each(|i| (at + start + i) as u16))),
            from
        );
        let mut old = [1, 2, 3];
        UninitSlice::over(&mut old).each(|i| i as u8);
        assert_eq!(old, [0, 1, 2]);
    }

    #[test]
    fn copies_are_whole() {
        let from: Vec<u8> = (0..5000).map(|i| i as u8).collect();
        let mut to = vec![0; 5000];
        copy(&from, &mut to);
        assert_eq!(from, to);
    }
}
