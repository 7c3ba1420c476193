//! [`PerThread`]: something that each thread has of its own, so that threads do not wait for each other's lines of
//! cache.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Copies of `T`, in lines of cache of their own. A thread always takes the same copy; threads share copies only
/// if there are more than twice as many as processors.
#[derive(Debug)]
pub struct PerThread<T>(Box<[Padded<T>]>);

/// Two lines: processors fetch them in pairs.
#[repr(align(128))]
#[derive(Debug, Default)]
struct Padded<T>(T);

/// Returns the number of this thread.
fn number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static NUMBER: usize = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    NUMBER.with(|number| *number)
}

impl<T: Default> Default for PerThread<T> {
    fn default() -> PerThread<T> {
        static COPIES: LazyLock<usize> = LazyLock::new(|| {
            let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
            (2 * processors).next_power_of_two().min(128)
        });
        PerThread((0..*COPIES).map(|_| Padded::default()).collect())
    }
}

impl<T> PerThread<T> {
    /// Returns the copy of this thread.
    pub fn own(&self) -> &T {
        // The number of copies is a power of two.
        &self.0[number() & (self.0.len() - 1)].0
    }

    /// Returns all copies.
    pub fn all(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|padded| &padded.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_keeps_its_copy_and_other_threads_have_others() {
        let counts = PerThread::<AtomicUsize>::default();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let own = counts.own();
                    own.fetch_add(100, Ordering::Relaxed);
                    assert!(std::ptr::eq(own, counts.own()));
                });
            }
        });
        let seen: Vec<usize> = counts.all().map(|n| n.load(Ordering::Relaxed)).collect();
        assert_eq!(seen.iter().sum::<usize>(), 800);
        assert!(seen.iter().all(|n| *n < 800), "{seen:?}");
    }
}
