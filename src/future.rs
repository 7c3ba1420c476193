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

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::slice::from_ref;
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

    fn tree(depth: u32) -> i64 {
        if depth == 0 {
            return 1;
        }
        let left: Vec<Future<i64>> = (0..2).map(|_| fork(move || tree(depth - 1))).collect();
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
        assert!(failed.wait().unwrap_err().to_string().contains("src/future.rs"));
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
        gm.call(from_ref(&x)).unwrap().all_close(&expected, 1e-6, 1e-6).unwrap();
        let f = crate::compile(both);
        for _ in 0..3 {
            f.call(from_ref(&x)).unwrap().all_close(&expected, 1e-6, 1e-6).unwrap();
        }
        assert_eq!((f.counters().compiled, f.explain().breaks.len()), (1, 0));
    }

    /// A fork within a fork, captures of both, a structure with a number, and a fork that nobody waits for.
    fn nested(x: &Tensor) -> Tensor {
        let y = x * 2.0;
        let outer = fork({
            let (x, y) = (x.clone(), y.clone());
            move || {
                let inner = fork({
                    let y = y.clone();
                    move || (y.relu(), 3i64, vec![y.exp()])
                });
                let (a, n, rest) = inner.wait();
                (a * n + &x, rest[0].clone())
            }
        });
        let _lost = fork(|| crate::ones([2]));
        let z = y + 1.0;
        let (a, b) = outer.wait();
        a + b * z
    }

    #[test]
    fn a_fork_in_a_trace_is_a_node_that_a_pass_takes_apart() -> Result<()> {
        let mut gm = crate::trace(nested).input("x", "f32[n]").build()?;
        let text = gm.graph().to_string();
        expect_test::expect![[r#"
            graph main(%x: f32[n]) -> f32[n] {
              %mul: f32[n] = mul(%x, 2.0)
              %fork: [f32[n], f32[n]] = fork(@fork, [%mul, %x])
              %fork_1: f32[2] = fork(@fork_1, [])
              %add: f32[n] = add(%mul, 1.0)
              %wait: [f32[n], f32[n]] = wait(%fork)
              %getitem: f32[n] = getitem(%wait, 0)
              %getitem_1: f32[n] = getitem(%wait, 1)
              %mul_1: f32[n] = mul(%getitem_1, %add)
              %add_1: f32[n] = add(%getitem, %mul_1)
              return %add_1
            }

            graph fork(%mul: f32[n], %x: f32[n]) -> [f32[n], f32[n]] {
              %fork: [f32[n], f32[n]] = fork(@fork_2, [%mul])
              %wait: [f32[n], f32[n]] = wait(%fork)
              %getitem: f32[n] = getitem(%wait, 0)
              %getitem_1: f32[n] = getitem(%wait, 1)
              %mul_1: f32[n] = mul(%getitem, 3)
              %add: f32[n] = add(%mul_1, %x)
              return [%add, %getitem_1]
            }

            graph fork_1 as fork() -> f32[2] {
              %ones: f32[2] = ones([2])
              return %ones
            }

            graph fork_2 as fork(%mul: f32[n]) -> [f32[n], f32[n]] {
              %relu: f32[n] = %mul.relu()
              %exp: f32[n] = %mul.exp()
              return [%relu, %exp]
            }
        "#]]
        .assert_eq(&text);
        assert_eq!(crate::parse(&text)?.to_string(), text);
        let x = Tensor::new([1.0f32, -2.0, 0.5]);
        let expected = nested(&x);
        assert_eq!(gm.call(from_ref(&x))?.to_vec::<f32>()?, expected.to_vec::<f32>()?);
        for engine in crate::Engine::ALL {
            gm.compile(*engine)?.call(from_ref(&x))?.all_close(&expected, 1e-6, 1e-6)?;
        }
        let path = std::env::temp_dir().join(format!("fx-forks-{}.pt", std::process::id()));
        gm.to_torchscript(&path)?;
        let again = crate::import::TorchScript::new(&path).input("x", "f32[n]").load()?.into_module()?;
        assert_eq!(again.call(from_ref(&x))?.to_vec::<f32>()?, expected.to_vec::<f32>()?);
        std::fs::remove_file(&path).unwrap();
        gm.to_package(&crate::CrateOptions::new())?;
        crate::pass::Passes::parse("inline_forks, dead_code", &crate::pass::all())?.run(&mut gm)?;
        expect_test::expect![[r#"
            graph main(%x: f32[n]) -> f32[n] {
              %mul: f32[n] = mul(%x, 2.0)
              %relu: f32[n] = %mul.relu()
              %exp: f32[n] = %mul.exp()
              %mul_2: f32[n] = mul(%relu, 3)
              %add_2: f32[n] = add(%mul_2, %x)
              %add: f32[n] = add(%mul, 1.0)
              %mul_1: f32[n] = mul(%exp, %add)
              %add_1: f32[n] = add(%add_2, %mul_1)
              return %add_1
            }
        "#]]
        .assert_eq(&gm.graph().to_string());
        assert_eq!(gm.call(from_ref(&x))?.to_vec::<f32>()?, expected.to_vec::<f32>()?);
        Ok(())
    }

    #[test]
    fn random_forks_stay_and_draw_the_numbers_of_eager_code() -> Result<()> {
        let f = |x: &Tensor| {
            let first = fork(|| crate::rand([3]));
            let second = fork({
                let x = x.clone();
                move || crate::rand([3]) + x
            });
            first.wait() - second.wait() + crate::rand([3])
        };
        let gm = crate::trace(f).input("x", "f32[3]").build()?;
        let x = Tensor::new([1.0f32, -2.0, 0.5]);
        let seeded = |run: &dyn Fn() -> Result<Tensor>| {
            crate::with_generator(&crate::Generator::seeded(7), || run()?.to_vec::<f32>())
        };
        let expected = seeded(&|| Ok(f(&x)))?;
        assert_eq!(seeded(&|| gm.call(from_ref(&x)))?, expected);
        for engine in crate::Engine::ALL {
            let program = gm.compile(*engine)?;
            assert_eq!(seeded(&|| program.call(from_ref(&x)))?, expected, "{engine:?}");
        }
        Ok(())
    }

    #[test]
    fn an_error_in_a_traced_fork_has_its_line() {
        let error = crate::trace(|x: &Tensor| {
            let x = x.clone();
            fork(move || x.reshape((4, 4))).wait()
        })
        .input("x", "f32[3]")
        .build()
        .unwrap_err();
        assert!(
            error.to_string().contains("src/future.rs") && error.to_string().contains("reshape"),
            "{error}"
        );
    }
}
