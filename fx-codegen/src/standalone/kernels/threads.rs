//! Large work on several threads.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// The operations from which another thread pays, which takes some 20 microseconds to start.
const GRAIN: usize = 1 << 21;

static MOST: AtomicUsize = AtomicUsize::new(0);

/// Sets how many threads a call may use, at first as many as there are processors. No result depends on it.
pub fn set_threads(n: usize) {
    MOST.store(n.max(1), Ordering::Relaxed);
}

/// Returns how many threads a call may use.
pub fn threads() -> usize {
    if MOST.load(Ordering::Relaxed) == 0 {
        set_threads(std::thread::available_parallelism().map_or(1, usize::from));
    }
    MOST.load(Ordering::Relaxed)
}

/// Returns among how many threads so many operations are shared.
pub fn shares(operations: usize) -> usize {
    if operations < 2 * GRAIN { 1 } else { threads().min(operations / GRAIN) }
}

/// Calls `f` with the number of a unit, `out` from this one on, and room to work in: with all units of `size`
/// elements, or if they take many operations, with a part of them on each thread. A unit takes `operations`.
pub fn split<T: Send, R: Copy + Send>(
    operations: usize,
    size: usize,
    out: &mut [T],
    room: &mut [R],
    f: impl Fn(usize, &mut [T], &mut [R]) + Sync,
) {
    let units = out.len() / size.max(1);
    let n = shares(operations.saturating_mul(units)).min(units);
    if n < 2 {
        return f(0, out, room);
    }
    let each = units.div_ceil(n);
    let parts = Mutex::new(out.chunks_mut(each * size).enumerate());
    let work = |room: &mut [R]| {
        loop {
            let next = parts.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some((i, part)) = next else { return };
            f(i * each, part, room);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..n {
            let (mut room, work) = (room.to_vec(), &work);
            // Where no thread can be had, this one does its part.
            _ = std::thread::Builder::new().spawn_scoped(scope, move || work(&mut room));
        }
        work(room);
    });
}

/// Calls `f` with each unit, as [`split`] does with parts, if units are too small to be split themselves.
pub fn split_outer<T: Send, R: Copy + Send>(
    operations: usize,
    size: usize,
    out: &mut [T],
    room: &mut [R],
    f: impl Fn(usize, &mut [T], &mut [R]) + Sync,
) {
    let operations = if shares(operations) > 1 { 0 } else { operations };
    split(operations, size, out, room, |first, out, room| {
        out.chunks_exact_mut(size).zip(first..).for_each(|(out, i)| f(i, out, room));
    });
}
