//! [`fork`]: work that runs beside what follows, and gives its result where it is waited for.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::compile::is_compiling;
use crate::rng::{default_generator, with_generator};
use crate::trace::is_tracing;

/// Runs a function on the thread pool, beside what follows. [`wait`](Future::wait) returns its result.
///
/// The result has the same bits for any number of threads: the function draws random numbers from a generator of
/// its own ([`Generator::fork`](crate::Generator::fork)). A future that is waited for before a thread is free runs
/// where it is waited for, so forks within forks end with one thread, too. In a function that is traced or
/// compiled, the function runs at once, and its operations are recorded with the others; engines run what is
/// independent at the same time.
///
/// ```
/// use fx::prelude::*;
///
/// let (x, w) = (fx::ones([4, 4]), fx::eye(4, 4));
/// let left = fx::fork({
///     let (x, w) = (x.clone(), w.clone());
///     move || x.matmul(&w).sum((), false).item::<f32>()
/// });
/// let right = x.exp().sum((), false).item::<f32>()?;
/// assert!(left.wait()? < right);
/// # Ok::<(), fx::Error>(())
/// ```
pub fn fork<T: Send + 'static>(function: impl FnOnce() -> T + Send + 'static) -> Future<T> {
    let generator = default_generator().fork();
    let function = move || with_generator(&generator, function);
    if is_tracing() || is_compiling() {
        let outcome = catch_unwind(AssertUnwindSafe(function));
        return Future(Arc::new(Task { state: Mutex::new(State::Done(outcome)), ended: Condvar::new() }));
    }
    let state = Mutex::new(State::Waiting(Box::new(function)));
    let task = Arc::new(Task { state, ended: Condvar::new() });
    rayon::spawn({
        let task = task.clone();
        move || task.start()
    });
    Future(task)
}

/// The result of a function that [`fork`] runs. Dropped without a wait, the function may run or not.
#[must_use = "wait for the result"]
pub struct Future<T>(Arc<Task<T>>);

struct Task<T> {
    state: Mutex<State<T>>,
    ended: Condvar,
}

type Outcome<T> = Result<T, Box<dyn Any + Send>>;

enum State<T> {
    /// No thread has begun.
    Waiting(Box<dyn FnOnce() -> T + Send>),
    Running,
    Done(Outcome<T>),
    /// Nobody wants the result any more.
    Gone,
}

impl<T> Task<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs the function, if no thread has begun.
    fn start(&self) {
        let mut state = self.lock();
        if !matches!(*state, State::Waiting(_)) {
            return;
        }
        let State::Waiting(function) = std::mem::replace(&mut *state, State::Running) else { return };
        drop(state);
        let outcome = catch_unwind(AssertUnwindSafe(function));
        let mut state = self.lock();
        if let State::Running = *state {
            *state = State::Done(outcome);
        }
        self.ended.notify_all();
    }
}

impl<T> Future<T> {
    /// Returns the result, as soon as it is there. A panic of the function goes on here.
    pub fn wait(self) -> T {
        self.0.start();
        loop {
            let mut state = self.0.lock();
            match std::mem::replace(&mut *state, State::Gone) {
                State::Done(Ok(value)) => return value,
                State::Done(Err(panic)) => {
                    drop(state);
                    resume_unwind(panic);
                }
                other => *state = other,
            }
            if rayon::current_thread_index().is_some() {
                // A thread of the pool helps with other work meanwhile.
                drop(state);
                if rayon::yield_now() != Some(rayon::Yield::Executed) {
                    std::thread::yield_now();
                }
            } else {
                let _woken = self.0.ended.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    /// Returns whether the result is there.
    pub fn is_done(&self) -> bool {
        matches!(*self.0.lock(), State::Done(_))
    }
}

impl<T> Drop for Future<T> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        if matches!(*state, State::Waiting(_)) {
            *state = State::Gone;
        }
    }
}

impl<T> std::fmt::Debug for Future<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.is_done() { "Future(done)" } else { "Future" })
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, mpsc};

    use super::{Future, fork};
    use crate::prelude::*;
    use crate::{Result, Tensor};

    /// Runs a function in pools of 1, 2 and 8 threads, and on a thread outside of them; all agree.
    fn everywhere<T: PartialEq + std::fmt::Debug + Send>(function: impl Fn() -> T + Sync) -> T {
        let expected = function();
        for threads in [1, 2, 8] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            for _ in 0..20 {
                assert_eq!(pool.install(&function), expected, "{threads} threads");
            }
        }
        expected
    }

    fn tree(depth: u32) -> u64 {
        if depth == 0 {
            return 1;
        }
        let left: Vec<Future<u64>> = (0..2).map(|_| fork(move || tree(depth - 1))).collect();
        left.into_iter().rev().map(Future::wait).sum()
    }

    #[test]
    fn forks_within_forks_end_with_one_thread() {
        assert_eq!(everywhere(|| tree(8)), 256);
    }

    #[test]
    fn random_numbers_are_the_same_for_any_number_of_threads() {
        let bits = everywhere(|| {
            let generator = crate::Generator::seeded(3);
            crate::with_generator(&generator, || {
                let each = (0..5).map(|_| {
                    fork(|| {
                        let inner = fork(|| crate::rand([3]).to_vec::<f32>().unwrap());
                        let mut own = crate::rand([2]).to_vec::<f32>().unwrap();
                        own.extend(inner.wait());
                        own
                    })
                });
                let each: Vec<Future<Vec<f32>>> = each.collect();
                let mut all: Vec<f32> = each.into_iter().flat_map(Future::wait).collect();
                all.extend(crate::rand([1]).to_vec::<f32>().unwrap());
                all.iter().map(|x| x.to_bits()).collect::<Vec<u32>>()
            })
        });
        let mut distinct = bits.clone();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!((bits.len(), distinct.len()), (26, 26));
    }

    #[test]
    fn errors_and_panics_come_where_the_result_is_waited_for() {
        let failed: Future<Result<Tensor>> =
            fork(|| Tensor::new([1.0f32, 2.0]).reshape((3, 3)).settled().ok());
        let panicked = fork(|| -> i32 { panic!("no") });
        let fine = fork(|| 7);
        assert_eq!(fine.wait(), 7);
        assert!(failed.wait().unwrap_err().to_string().contains("src/fork.rs"));
        let panic = catch_unwind(AssertUnwindSafe(|| panicked.wait())).unwrap_err();
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"no"));
    }

    #[test]
    fn a_future_that_nobody_waits_for_keeps_nothing() {
        let count = Arc::new(AtomicUsize::new(0));
        // The pool is busy, so nothing has begun.
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        let (sender, receiver) = mpsc::channel::<()>();
        pool.install(|| {
            let held = count.clone();
            drop(fork(move || held.fetch_add(1, Ordering::Relaxed)));
            sender.send(()).unwrap();
        });
        receiver.recv().unwrap();
        pool.install(|| ());
        assert_eq!((count.load(Ordering::Relaxed), Arc::strong_count(&count)), (0, 1));
    }

    #[test]
    fn forks_are_traced_and_compiled_with_what_is_around_them() {
        let both = |x: &Tensor| {
            let (a, b) = (x.clone(), x.clone());
            let left = fork(move || a.exp());
            let right = fork(move || b * 2.0);
            left.wait() + right.wait()
        };
        let x = Tensor::new([1.0f32, 2.0]);
        let expected = both(&x);
        let gm = crate::symbolic_trace(both).unwrap();
        gm.call(std::slice::from_ref(&x)).unwrap().all_close(&expected, 1e-6, 1e-6).unwrap();
        let f = crate::compile(both);
        for _ in 0..3 {
            f.call(std::slice::from_ref(&x)).unwrap().all_close(&expected, 1e-6, 1e-6).unwrap();
        }
        assert_eq!((f.counters().compiled, f.explain().breaks.len()), (1, 0));
    }
}
