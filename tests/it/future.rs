//! Forks and futures.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::slice::from_ref;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};

use fx::prelude::*;
use fx::{Future, fork};
use fx::{Result, Tensor};

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
        let generator = fx::Generator::seeded(3);
        fx::with_generator(&generator, || {
            let each = (0..5).map(|_| {
                fork(|| {
                    let inner = fork(|| fx::rand([3]).to_vec::<f32>().unwrap());
                    let mut own = fx::rand([2]).to_vec::<f32>().unwrap();
                    own.extend(inner.wait());
                    own
                })
            });
            let each: Vec<Future<Vec<f32>>> = each.collect();
            let mut all: Vec<f32> = each.into_iter().flat_map(Future::wait).collect();
            all.extend(fx::rand([1]).to_vec::<f32>().unwrap());
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
    let failed: Future<Result<Tensor>> = fork(|| Tensor::new([1.0f32, 2.0]).reshape((3, 3)).settled().ok());
    let panicked = fork(|| -> i32 { panic!("no") });
    let fine = fork(|| 7);
    assert_eq!(fine.wait(), 7);
    assert!(failed.wait().unwrap_err().to_string().contains("it/future.rs"));
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
    let gm = fx::symbolic_trace(both).unwrap();
    gm.call(from_ref(&x)).unwrap().all_close(&expected, 1e-6, 1e-6).unwrap();
    let f = fx::compile(both);
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
    let _lost = fork(|| fx::ones([2]));
    let z = y + 1.0;
    let (a, b) = outer.wait();
    a + b * z
}

#[test]
fn a_fork_in_a_trace_is_a_node_that_a_pass_takes_apart() -> Result<()> {
    let mut gm = fx::trace(nested).input("x", "f32[n]").build()?;
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
    assert_eq!(fx::parse(&text)?.to_string(), text);
    let x = Tensor::new([1.0f32, -2.0, 0.5]);
    let expected = nested(&x);
    assert_eq!(gm.call(from_ref(&x))?.to_vec::<f32>()?, expected.to_vec::<f32>()?);
    for engine in fx::Engine::ALL {
        gm.compile(*engine)?.call(from_ref(&x))?.all_close(&expected, 1e-6, 1e-6)?;
    }
    let path = std::env::temp_dir().join(format!("fx-forks-{}.pt", std::process::id()));
    gm.to_torchscript(&path)?;
    let again = fx::import::TorchScript::new(&path).input("x", "f32[n]").load()?.into_module()?;
    assert_eq!(again.call(from_ref(&x))?.to_vec::<f32>()?, expected.to_vec::<f32>()?);
    std::fs::remove_file(&path).unwrap();
    gm.to_package(&fx::CrateOptions::new())?;
    fx::pass::Passes::parse("inline_forks, dead_code", &fx::pass::all())?.run(&mut gm)?;
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
        let first = fork(|| fx::rand([3]));
        let second = fork({
            let x = x.clone();
            move || fx::rand([3]) + x
        });
        first.wait() - second.wait() + fx::rand([3])
    };
    let gm = fx::trace(f).input("x", "f32[3]").build()?;
    let x = Tensor::new([1.0f32, -2.0, 0.5]);
    let seeded = |run: &dyn Fn() -> Result<Tensor>| {
        fx::with_generator(&fx::Generator::seeded(7), || run()?.to_vec::<f32>())
    };
    let expected = seeded(&|| Ok(f(&x)))?;
    assert_eq!(seeded(&|| gm.call(from_ref(&x)))?, expected);
    for engine in fx::Engine::ALL {
        let program = gm.compile(*engine)?;
        assert_eq!(seeded(&|| program.call(from_ref(&x)))?, expected, "{engine:?}");
    }
    Ok(())
}

#[test]
fn an_error_in_a_traced_fork_has_its_line() {
    let error = fx::trace(|x: &Tensor| {
        let x = x.clone();
        fork(move || x.reshape((4, 4))).wait()
    })
    .input("x", "f32[3]")
    .build()
    .unwrap_err();
    assert!(error.to_string().contains("it/future.rs") && error.to_string().contains("reshape"), "{error}");
}
