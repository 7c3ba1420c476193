//! [`fork`]: work that runs beside what follows, and gives its result where it is waited for.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::compile::is_compiling;
use crate::rng::{default_generator, with_generator};
use crate::trace::{apply_at, is_tracing, trace_region};
use crate::{Result, SourceLoc, Tree, Value, ops};

/// Runs a function on the thread pool, beside what follows. [`wait`](Future::wait) returns its result.
///
/// The result has the same bits for any number of threads: the function draws random numbers from a generator of
/// its own ([`Generator::fork`](crate::Generator::fork)). A future that is waited for before a thread is free runs
/// where it is waited for, so forks within forks end with one thread, too. In a traced
/// function, a fork is a node with a sub-graph, which the pass `inline_forks` takes apart: engines run what is
/// independent at the same time. In a compiled function, it runs at once, with the operations around it.
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
#[track_caller]
pub fn fork<T: Tree + Send + 'static>(function: impl FnOnce() -> T + Send + 'static) -> Future<T> {
    if is_tracing() {
        let source = SourceLoc::caller();
        return match record(function, &source) {
            Ok(recorded) => Future(Arc::new(Task::new(State::Recorded(recorded)))),
            Err(error) => Future(Arc::new(Task::new(State::Done(Ok(T::failed(&error.at(source))))))),
        };
    }
    let generator = default_generator().fork();
    let function = move || with_generator(&generator, function);
    if is_compiling() {
        let outcome = catch_unwind(AssertUnwindSafe(function));
        return Future(Arc::new(Task::new(State::Done(outcome))));
    }
    let task = Arc::new(Task::new(State::Waiting(Box::new(function))));
    rayon::spawn({
        let task = task.clone();
        move || task.start()
    });
    Future(task)
}

/// Runs a function of operands as [`fork`] does: `fork_with(|x: Tensor| x.exp(), x.clone())`.
#[track_caller]
pub fn fork_with<A: Send + 'static, T: Tree + Send + 'static>(
    function: impl FnOnce(A) -> T + Send + 'static,
    operands: A,
) -> Future<T> {
    fork(move || function(operands))
}

/// A fork in a trace: what the function returned, with symbols of its sub-graph as tensors, and the node.
struct Recorded {
    returned: Value,
    node: Option<Value>,
}

/// Records a function as a sub-graph of the trace of this thread. Fails if the function does.
fn record<T: Tree>(function: impl FnOnce() -> T, source: &SourceLoc) -> Result<Recorded> {
    let mut returned = Value::None;
    let region = trace_region("fork", &[], |_| {
        returned = function().to_value();
        Ok(match &returned.leaves()[..] {
            [one] => Value::Leaf((*one).clone()),
            leaves => Value::list(leaves.iter().map(|leaf| Value::Leaf((*leaf).clone()))),
        })
    })?;
    if returned.leaves().is_empty() {
        return Ok(Recorded { returned, node: None });
    }
    let args = [Arc::new(region.graph).into(), Value::list(region.captures)];
    let node = apply_at(ops::fork::OP, false, &args, &[], source.clone())?;
    Ok(Recorded { returned, node: Some(node) })
}

impl Recorded {
    /// Records the wait, and returns the result. Fails if its parts cannot be recorded.
    fn wait<T: Tree>(&self, source: &SourceLoc) -> Result<T> {
        let Some(node) = &self.node else { return T::from_value(&self.returned) };
        let all = apply_at(ops::wait::OP, false, std::slice::from_ref(node), &[], source.clone())?;
        let n = self.returned.leaves().len();
        let mut at = 0;
        T::from_value(&self.returned.try_flat_map(&mut |_| {
            at += 1;
            match n {
                1 => Ok(all.clone()),
                _ => {
                    apply_at(ops::getitem::OP, false, &[all.clone(), Value::Int(at - 1)], &[], source.clone())
                }
            }
        })?)
    }
}

/// The result of a function that [`fork`] runs. Dropped without a wait, the function may run or not.
#[must_use = "wait for the result"]
pub struct Future<T>(Arc<Task<T>>);

struct Task<T> {
    state: Mutex<State<T>>,
    ended: Condvar,
}

type Outcome<T> = std::thread::Result<T>;

enum State<T> {
    /// No thread has begun.
    Waiting(Box<dyn FnOnce() -> T + Send>),
    Running,
    Done(Outcome<T>),
    /// It is a node of a trace.
    Recorded(Recorded),
    /// Nobody wants the result any more.
    Gone,
}

impl<T> Task<T> {
    fn new(state: State<T>) -> Task<T> {
        Task { state: Mutex::new(state), ended: Condvar::new() }
    }

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

impl<T: Tree> Future<T> {
    /// Returns the result, as soon as it is there. A panic of the function goes on here.
    #[track_caller]
    pub fn wait(self) -> T {
        let source = SourceLoc::caller();
        self.0.start();
        loop {
            let mut state = self.0.lock();
            match std::mem::replace(&mut *state, State::Gone) {
                State::Done(Ok(value)) => return value,
                State::Recorded(recorded) => {
                    drop(state);
                    return recorded.wait(&source).unwrap_or_else(|error| T::failed(&error.at(source)));
                }
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
}

impl<T> Future<T> {
    /// Returns whether the result is there.
    pub fn is_done(&self) -> bool {
        matches!(*self.0.lock(), State::Done(_) | State::Recorded(_))
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
