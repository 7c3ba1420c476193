//! Functions that promise to be pure.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};

use fx::compile::{Code, compile, mutable};
use fx::prelude::*;
use fx::{Arg, DType, Result, Tensor, Value, nn};

use super::{filled, vector};

fn elements(tensor: &Tensor) -> Vec<f32> {
    tensor.to_vec().unwrap()
}

#[test]
fn rust_code_runs_twice_and_a_new_outcome_once() {
    let runs = AtomicUsize::new(0);
    let f = compile(|x: &Tensor| -> Result<Tensor> {
        runs.fetch_add(1, Relaxed);
        let h = x * 2.0 + 1.0;
        Ok(if h.sum((), false).gt(0.0).to_bool()? { h.relu() * 3.0 } else { h.tanh() })
    })
    .pure();
    let (up, down) = (vector(&[1.0, 2.0]), vector(&[-3.0, -4.0]));
    let call = |x: &Tensor| f.call(std::slice::from_ref(x));
    for _ in 0..10 {
        assert_eq!(elements(&call(&up).unwrap()), [9.0, 15.0]);
    }
    assert_eq!(runs.load(Relaxed), 2);
    let before = f.counters().runs;
    let expected = (&down * 2.0 + 1.0).tanh();
    call(&down).unwrap().all_close(&expected, 1e-6, 1e-6).unwrap();
    // The first segment ran on the path, the second one in the Rust code.
    assert_eq!((runs.load(Relaxed), f.counters().runs - before), (3, 1));
    for _ in 0..4 {
        call(&down).unwrap().all_close(&expected, 1e-6, 1e-6).unwrap();
        assert_eq!(elements(&call(&up).unwrap()), [9.0, 15.0]);
    }
    assert_eq!(runs.load(Relaxed), 3);
    let told = f.explain();
    assert_eq!(told.paths.len(), 2);
    assert!(told.paths[0].guards.iter().any(|guard| guard.starts_with("`to_bool` reads true")), "{told}");
}

#[test]
fn comparisons_of_sizes_are_guards() {
    let runs = AtomicUsize::new(0);
    let f = compile(|x: &Tensor| {
        runs.fetch_add(1, Relaxed);
        if x.dim(0) > 8 { x * 2.0 } else { x + 1.0 }
    })
    .pure();
    for n in [4, 5, 9, 10, 3, 12, 7, 0, 1, 64] {
        let x = filled(&[n]);
        let expected = if n > 8 { &x * 2.0 } else { &x + 1.0 };
        assert_eq!(elements(&f.call(&[x]).unwrap()), elements(&expected), "{n}");
    }
    let guards: Vec<String> = f.explain().paths.iter().flat_map(|path| path.guards.clone()).collect();
    assert!(guards.contains(&"x0 <= 8".to_owned()) && guards.contains(&"x0 > 8".to_owned()), "{guards:?}");
    assert!(f.counters().compiled <= 4, "{}", f.explain());
    let before = runs.load(Relaxed);
    for n in [4, 5, 9, 10, 3, 12, 7, 0, 1, 64, 8, 11] {
        f.call(&[filled(&[n])]).unwrap();
    }
    assert_eq!(runs.load(Relaxed), before, "{}", f.explain());
}

#[test]
fn sizes_that_become_numbers_of_operations_stay_symbolic() {
    let runs = AtomicUsize::new(0);
    let f = compile(|x: &Tensor| {
        runs.fetch_add(1, Relaxed);
        let y = fx::cat([x, x], 1);
        y.reshape((x.dim(0), 2, x.dim(1))) * 0.5
    })
    .pure();
    for (n, m) in [(2, 3), (2, 3), (4, 5), (7, 1), (3, 3)] {
        f.call(&[filled(&[n, m])]).unwrap();
    }
    let before = runs.load(Relaxed);
    for (n, m) in [(5, 2), (1, 9), (3, 4)] {
        let x = filled(&[n, m]);
        let expected = fx::cat([&x, &x], 1).reshape((n as i64, 2, m as i64)) * 0.5;
        assert_eq!(elements(&f.call(&[x]).unwrap()), elements(&expected));
    }
    assert_eq!(runs.load(Relaxed), before, "{}", f.explain());
}

#[test]
fn each_changed_argument_is_one_miss_with_its_reason() {
    type Args = (Tensor, Vec<Tensor>, BTreeMap<String, Tensor>, Option<Tensor>, String, bool, i64, f64);
    let f = compile(
        |x: Tensor,
         xs: Vec<Tensor>,
         named: BTreeMap<String, Tensor>,
         rest: (Option<Tensor>, String, bool, i64, f64)| {
            let (mask, mode, flag, n, rate) = rest;
            let mut y = x * rate + n;
            for x in &xs {
                y += x;
            }
            for value in named.values() {
                y += value;
            }
            if let Some(mask) = mask {
                y *= mask;
            }
            if mode == "fast" || flag { y.relu() } else { y }
        },
    )
    .pure();
    let x = || vector(&[1.0, 2.0]);
    let base = || -> Args {
        let named = BTreeMap::from([("a".to_owned(), x())]);
        (x(), vec![x()], named, None, "exact".into(), false, 3, 0.5)
    };
    let call = |args: Args| {
        let (x, xs, named, mask, mode, flag, n, rate) = args;
        f.run::<_, Tensor>((x, xs, named, (mask, mode, flag, n, rate))).unwrap()
    };
    for _ in 0..4 {
        call(base());
    }
    assert_eq!(f.counters().misses, 1);
    type Change<'a> = &'a dyn Fn(&mut Args);
    let changes: [(&str, Change<'_>); 9] = [
        ("argument x: dtype f32, got f64", &|args| args.0 = args.0.to(DType::F64)),
        ("argument x: 1 axes, got 2", &|args| args.0 = args.0.reshape((1, 2))),
        ("argument y: 1 items, got 2", &|args| args.1.push(x())),
        ("argument z: keys a, got b", &|args| args.2 = BTreeMap::from([("b".to_owned(), x())])),
        ("argument x3[0]: none, got a tensor", &|args| args.3 = Some(x())),
        ("argument x3[1]: \"exact\", got \"fast\"", &|args| args.4 = "fast".into()),
        ("argument x3[2]: false, got true", &|args| args.5 = true),
        ("x3_3 == 3 does not hold, it is 4", &|args| args.6 = 4),
        ("argument x3[4]: 0.5, got 0.25", &|args| args.7 = 0.25),
    ];
    for (reason, change) in changes {
        let before = f.counters().misses;
        let mut args = base();
        change(&mut args);
        call(args);
        assert_eq!(f.counters().misses, before + 1, "{reason}");
        // The call before was one of the base, so the reason names what differs from it.
        assert_eq!(f.explain().misses.last().unwrap().reason, reason);
        call(base());
    }
    let f = compile(|x: &Tensor| x + 1.0).pure();
    for n in [2, 2, 3] {
        f.call(&[filled(&[n])]).unwrap();
    }
    let told = f.explain();
    assert_eq!(told.misses.last().unwrap().reason, "input x: size of axis 0 is 3, compiled for 2", "{told}");
}

#[test]
fn a_broken_promise_is_named_with_both_lines() {
    let calls = AtomicU32::new(0);
    let (first, line) = (|x: &Tensor| x * 2.0, line!());
    let others = |x: &Tensor| x + 5.0;
    let f = compile(|x: &Tensor| if calls.fetch_add(1, Relaxed) == 0 { first(x) } else { others(x) }).pure();
    let x = vector(&[1.0]);
    assert_eq!(elements(&f.call(std::slice::from_ref(&x)).unwrap()), [2.0]);
    for _ in 0..5 {
        assert_eq!(elements(&f.call(std::slice::from_ref(&x)).unwrap()), [6.0]);
    }
    let told = f.explain();
    let broken = told.breaks.iter().find(|found| found.code == Code::C07).unwrap();
    let place = |line: u32| format!("tests/it/compile/pure.rs:{line}:");
    assert!(broken.what.contains("recorded mul") && broken.what.contains("got add"), "{}", broken.what);
    assert!(broken.what.contains(&place(line)) && broken.what.contains(&place(line + 1)), "{}", broken.what);
    assert!(told.paths.is_empty());
    assert_eq!(calls.load(Relaxed), 6);
}

#[test]
fn a_number_that_changes_breaks_the_promise() {
    let calls = AtomicU32::new(0);
    let f = compile(|x: &Tensor| x * f64::from(calls.fetch_add(1, Relaxed))).pure();
    for n in 0..4 {
        assert_eq!(elements(&f.call(&[vector(&[1.0])]).unwrap()), [n as f32]);
    }
    let told = f.explain();
    let broken = told.breaks.iter().find(|found| found.code == Code::C07).unwrap();
    assert!(broken.what.contains("the number 0") && broken.what.contains("got 1"), "{}", broken.what);
}

#[test]
fn a_tensor_that_outlives_the_call_breaks_the_promise() {
    let seen = Mutex::new(Vec::new());
    let f = compile(|x: &Tensor| {
        let h = x.relu();
        seen.lock().unwrap().push(h.clone());
        h * 2.0
    })
    .pure();
    for n in 0..4 {
        f.call(&[vector(&[n as f32])]).unwrap();
    }
    let seen: Vec<f32> = seen.lock().unwrap().iter().flat_map(elements).collect();
    assert_eq!(seen, [0.0, 1.0, 2.0, 3.0]);
    assert!(f.explain().breaks.iter().any(|found| found.code == Code::C07 && found.at.is_some()));
}

#[test]
fn a_float_that_is_read_lets_the_rust_code_run() {
    let runs = AtomicUsize::new(0);
    let f = compile(|x: &Tensor| -> Result<Tensor> {
        runs.fetch_add(1, Relaxed);
        Ok(if x.sum((), false).item::<f32>()? > 0.0 { x * 2.0 } else { x - 1.0 })
    })
    .pure();
    for n in [1.0, 2.0, -3.0, 4.0, -1.0] {
        let expected = if n > 0.0 { n * 2.0 } else { n - 1.0 };
        assert_eq!(elements(&f.call(&[vector(&[n])]).unwrap()), [expected]);
    }
    assert_eq!(runs.load(Relaxed), 5);
    let told = f.explain();
    assert!(told.breaks.iter().any(|found| found.code == Code::C02 && found.what == "item"), "{told}");
}

#[test]
fn a_loop_with_a_bool_replays_any_number_of_rounds_that_was_seen() {
    let runs = AtomicUsize::new(0);
    let f = compile(|x: &Tensor| -> Result<Tensor> {
        runs.fetch_add(1, Relaxed);
        let mut x = x.clone();
        while x.abs().max().gt(1.0).to_bool()? {
            x *= 0.5;
        }
        Ok(x + 1.0)
    })
    .pure();
    for n in [1.0f32, 1.0, 2.0, 8.0, 4.0, 16.0] {
        f.call(&[vector(&[n])]).unwrap();
    }
    let before = runs.load(Relaxed);
    for n in [16.0f32, 1.0, 8.0, 2.0, 4.0, 15.0, 3.0] {
        let mut expected = n;
        while expected.abs() > 1.0 {
            expected *= 0.5;
        }
        assert_eq!(elements(&f.call(&[vector(&[n])]).unwrap()), [expected + 1.0]);
    }
    assert_eq!(runs.load(Relaxed), before, "{}", f.explain());
}

#[test]
fn sizes_of_data_are_symbols_of_the_path() {
    let runs = AtomicUsize::new(0);
    let f = compile(|x: &Tensor| {
        runs.fetch_add(1, Relaxed);
        let found = x.nonzero();
        if found.dim(0) > 2 { x * 2.0 } else { x - 1.0 }
    })
    .pure();
    let cases = [vec![1.0, 0.0, 2.0], vec![1.0, 1.0, 1.0], vec![0.0, 0.0, 0.0], vec![5.0, 1.0, 2.0]];
    for _ in 0..3 {
        for case in &cases {
            let many = case.iter().filter(|x| **x != 0.0).count() > 2;
            let expected: Vec<f32> = case.iter().map(|x| if many { x * 2.0 } else { x - 1.0 }).collect();
            assert_eq!(elements(&f.call(&[vector(case)]).unwrap()), expected);
        }
    }
    let told = f.explain();
    assert_eq!(runs.load(Relaxed), 2, "{told}");
    assert_eq!(told.paths[1].guards, ["nonzero_0 > 2"]);
    assert_eq!(told.misses[1].reason, "nonzero_0 <= 2 does not hold, it is 3");
}

#[derive(Module)]
struct Counted {
    steps: Buffer,
    norm: nn::BatchNorm1d,
}

#[forward]
impl Counted {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let steps = self.steps.get() + 1;
        self.steps.set(&steps)?;
        let y = self.norm.call(x);
        Ok(if self.steps.get().item::<i64>()? > 3 { y * 2.0 } else { y })
    }
}

#[test]
fn buffers_are_read_and_stored_on_each_call() {
    let mut model = Counted {
        steps: Buffer::new(Tensor::from_scalar(fx::Scalar::Int(0))),
        norm: nn::BatchNorm1d::new(2),
    };
    model.norm.train();
    let eager = model.clone();
    let f = compile(&model).pure();
    for n in 0..8 {
        let x = filled(&[3, 2]) * (n as f64 + 1.0);
        let (got, expected) = (f.call(std::slice::from_ref(&x)).unwrap(), eager.forward(&x).unwrap());
        got.all_close(&expected, 1e-5, 1e-5).unwrap();
        assert_eq!(model.steps.get().item::<i64>().unwrap(), n + 1);
    }
    let told = f.explain();
    assert!(told.breaks.iter().all(|found| found.code != Code::C07), "{told}");
}

#[test]
fn random_operations_of_a_path_draw_as_eager_code_does() {
    let f = compile(|x: &Tensor| -> Result<Tensor> {
        let y = x + fx::rand([3]);
        Ok(if y.sum((), false).gt(1.5).to_bool()? { y + fx::rand([3]) } else { y })
    })
    .pure();
    let x = vector(&[0.0, 0.0, 0.0]);
    let eager = |x: &Tensor| {
        let y = x + fx::rand([3]);
        if y.sum((), false).gt(1.5).to_bool().unwrap() { y + fx::rand([3]) } else { y }
    };
    let seeded = |f: &dyn Fn() -> Vec<Vec<f32>>| {
        let generator = fx::Generator::seeded(7);
        fx::rng::with_generator(&generator, f)
    };
    let got = seeded(&|| (0..20).map(|_| elements(&f.call(std::slice::from_ref(&x)).unwrap())).collect());
    let expected = seeded(&|| (0..20).map(|_| elements(&eager(&x))).collect());
    assert_eq!(got, expected);
}

#[test]
fn results_keep_their_structure_and_numbers() {
    let f = compile(|x: &Tensor| {
        let n = x.dim(0).known().unwrap_or(0);
        (x + 1.0, vec![x.clone(), x * 2.0], n)
    })
    .pure();
    for n in [2, 2, 2, 3, 3, 2] {
        let x = filled(&[n]);
        let (a, b, size): (Tensor, Vec<Tensor>, i64) = f.run((x.clone(),)).unwrap();
        assert_eq!((elements(&a), elements(&b[1])), (elements(&(&x + 1.0)), elements(&(&x * 2.0))));
        assert_eq!((elements(&b[0]), size), (elements(&x), n as i64));
    }
}

#[test]
fn an_error_in_data_is_that_of_the_rust_code() {
    let f = compile(|x: &Tensor, at: &Tensor| x.index_select(0, at) * 2.0).pure();
    let x = vector(&[1.0, 2.0, 3.0]);
    for _ in 0..4 {
        assert_eq!(elements(&f.call(&[x.clone(), Tensor::new([2i64, 0])]).unwrap()), [6.0, 2.0]);
    }
    let error = f.call(&[x.clone(), Tensor::new([5i64, 0])]).unwrap_err();
    assert!(error.source_loc().is_some_and(|at| at.to_string().contains("pure.rs")), "{error}");
    assert_eq!(elements(&f.call(&[x, Tensor::new([1i64, 0])]).unwrap()), [4.0, 2.0]);
}

#[test]
fn control_flow_of_tensors_keeps_sizes() {
    let f = compile(|x: &Tensor| {
        let n = x.dim(0);
        fx::cond(
            x.sum((), false).gt(0.0),
            |x| x.reshape((n.clone(), 1)).sum(1, false),
            |x| x - 1.0,
            x.clone(),
        )
    })
    .pure();
    for n in [2, 2, 3, 3, 4, 2, 3] {
        let x = filled(&[n]);
        let expected = if elements(&x.sum((), false))[0] > 0.0 { x.clone() } else { &x - 1.0 };
        assert_eq!(elements(&f.call(&[x]).unwrap()), elements(&expected));
    }
}

#[test]
fn closures_that_change_what_they_capture_are_refused() {
    let mut n = 0;
    let f = compile(mutable(|x: &Tensor| {
        n += 1;
        x + 1.0
    }))
    .pure();
    let error = f.call(&[vector(&[1.0])]).unwrap_err().to_string();
    assert!(error.contains("cannot be pure"), "{error}");
}

#[test]
fn checks_are_as_often_as_asked_for() {
    let runs = AtomicUsize::new(0);
    let f = compile(|x: &Tensor| {
        runs.fetch_add(1, Relaxed);
        x + 1.0
    })
    .verify(5);
    for _ in 0..12 {
        f.call(&[vector(&[1.0])]).unwrap();
    }
    // The first call, and the calls 2, 7 and 12.
    assert_eq!(runs.load(Relaxed), 4);
}

#[test]
fn graph_modules_and_captured_tensors_replay() {
    let gm = fx::symbolic_trace(|x: &Tensor| (x + 1.0).relu()).unwrap();
    let w = vector(&[2.0, 3.0]);
    let f = compile(|x: &Tensor| -> Result<Tensor> {
        Ok(gm.call(std::slice::from_ref(x))? * &w + Tensor::new([1.0f32, 1.0]))
    })
    .pure();
    for n in 0..5 {
        let x = vector(&[n as f32, -5.0]);
        assert_eq!(elements(&f.call(&[x]).unwrap()), [(n as f32 + 1.0) * 2.0 + 1.0, 1.0]);
    }
    assert!(f.explain().breaks.iter().all(|found| found.code != Code::C07), "{}", f.explain());
    let unused: Value = Arg::None;
    assert!(f.call_values(&[unused]).is_err());
}

#[test]
fn threads_replay_and_record_at_once() {
    for round in 0..40 {
        let f = compile(|x: &Tensor, n: i64| -> Result<Tensor> {
            let y = x * n;
            Ok(if y.sum((), false).gt(0.0).to_bool()? { y + 1.0 } else { y - 1.0 })
        })
        .verify(3);
        std::thread::scope(|scope| {
            for thread in 0..8u32 {
                let f = &f;
                scope.spawn(move || {
                    for call in 0..6u32 {
                        let size = 1 + ((thread + call + round) % 3) as usize;
                        let n = i64::from((thread * 7 + call) % 4) - 1;
                        let y = filled(&[size]) * n;
                        let positive = elements(&y.sum((), false))[0] > 0.0;
                        let expected = if positive { y + 1.0 } else { y - 1.0 };
                        let got: Tensor = f.run((filled(&[size]), n)).unwrap();
                        got.all_close(&expected, 1e-6, 1e-6).unwrap();
                    }
                });
            }
        });
        let told = f.explain();
        assert_eq!(told.counters.calls, 48);
        assert!(told.breaks.iter().all(|found| found.code != Code::C07), "{told}");
    }
}

#[test]
fn forks_of_a_pure_function_are_replayed() {
    let runs = std::sync::Arc::new(AtomicUsize::new(0));
    let held = runs.clone();
    let f = compile(move |x: &Tensor| {
        let (a, b, held) = (x.clone(), x.clone(), held.clone());
        let left = fx::fork(move || {
            held.fetch_add(1, Relaxed);
            a.exp()
        });
        let right = fx::fork(move || b * 2.0);
        left.wait() + right.wait()
    })
    .verify(0);
    for n in 0..5 {
        let x = vector(&[n as f32, 0.5]);
        let got = f.call(std::slice::from_ref(&x)).unwrap();
        got.all_close(&(x.exp() + &x * 2.0), 1e-6, 1e-6).unwrap();
    }
    assert_eq!(runs.load(Relaxed), 2, "{}", f.explain());
}

#[test]
fn a_replayed_call_leaves_the_generator_as_its_rust_code_does() {
    let forked = |x: &Tensor| {
        let (a, b) = (x.clone(), x.clone());
        fx::fork(move || a.exp()).wait() + fx::fork(move || b * 2.0).wait()
    };
    let run = |f: &dyn Fn(&Tensor) -> Tensor| {
        let draw = || fx::fork(|| fx::rand([2]).to_vec::<f32>().unwrap()).wait();
        let generator = fx::Generator::seeded(7);
        fx::rng::with_generator(&generator, || {
            (0..5).map(|_| (elements(&f(&vector(&[1.0, 2.0]))), draw())).collect::<Vec<_>>()
        })
    };
    let f = compile(forked).verify(0);
    assert_eq!(run(&|x| f.call(std::slice::from_ref(x)).unwrap()), run(&forked));
    assert!(f.explain().counters.calls == 5 && f.explain().breaks.is_empty(), "{}", f.explain());
}

#[test]
fn random_operations_of_another_generator_let_the_rust_code_run() {
    let other = fx::Generator::seeded(9);
    let draw = |x: &Tensor| x + fx::rng::with_generator(&other, || fx::rand([3]));
    let forked = |x: &Tensor| {
        let y = x.clone();
        fx::fork(move || y + fx::rand([3])).wait()
    };
    let x = vector(&[0.0, 0.0, 0.0]);
    let run = |f: &dyn Fn(&Tensor) -> Tensor| {
        other.seed(9);
        let generator = fx::Generator::seeded(7);
        fx::rng::with_generator(&generator, || (0..6).map(|_| elements(&f(&x))).collect::<Vec<_>>())
    };
    let (f, g) = (compile(draw).pure(), compile(forked).pure());
    assert_eq!(run(&|x| f.call(std::slice::from_ref(x)).unwrap()), run(&draw));
    assert_eq!(run(&|x| g.call(std::slice::from_ref(x)).unwrap()), run(&forked));
    for told in [f.explain(), g.explain()] {
        assert!(told.breaks.iter().any(|found| found.code == Code::C16), "{told}");
    }
}

/// Counts to a limit, and reads each count.
fn counting(x: Tensor, limit: Tensor) -> Result<Tensor> {
    let mut x = x;
    while x.lt(&limit).to_bool()? {
        x += 1.0;
    }
    Ok(x)
}

#[test]
fn loops_of_many_rounds_are_paths_of_many_steps() {
    let f = compile(counting).pure();
    let call = |n: usize| {
        let y: Tensor = f.run((Tensor::new(0.0f32), Tensor::new(n as f32))).unwrap();
        assert_eq!(elements(&y), [n as f32]);
    };
    for n in [9000, 9000, 9000, 12_000, 12_000, 0, 100, 100, 9000] {
        call(n);
    }
    let told = f.explain();
    assert_eq!(
        (told.paths.len(), told.breaks.iter().any(|found| found.code == Code::C08)),
        (4, false),
        "{told}"
    );
    assert!(told.to_string().len() < 1 << 20, "{}", told.to_string().len());
    drop(f);
}

#[test]
fn a_call_of_too_many_steps_for_a_path_is_followed() {
    let rounds = AtomicUsize::new(0);
    let f = compile(|x: Tensor, limit: Tensor| {
        rounds.fetch_add(1, Relaxed);
        counting(x, limit)
    })
    .pure();
    for _ in 0..3 {
        let y: Tensor = f.run((Tensor::new(0.0f32), Tensor::new(20_000.0f32))).unwrap();
        assert_eq!(elements(&y), [20_000.0]);
    }
    let told = f.explain();
    assert!(told.breaks.iter().any(|found| found.code == Code::C08), "{told}");
    assert_eq!(rounds.load(Relaxed), 3, "{told}");
}

#[test]
fn a_call_that_leaves_its_path_computes_what_was_let_go_again() {
    let runs = AtomicUsize::new(0);
    let f = compile(|x: Tensor, limit: Tensor| -> Result<(Tensor, Tensor)> {
        runs.fetch_add(1, Relaxed);
        // Positions by data: an operation that runs by itself.
        let found = x.gt(0.5).nonzero();
        let (first, mut x) = (x.clone(), x);
        while x.max().lt(&limit).to_bool()? {
            x = &x + &first;
        }
        Ok((x, found))
    })
    .verify(0);
    let x = Tensor::from_vec((0..1 << 20).map(|i| (i % 2) as f32).collect::<Vec<_>>(), &[1 << 20]);
    for (n, followed) in [(9.0f32, 1), (9.0, 2), (9.0, 2), (15.0, 3), (15.0, 3), (4.0, 4), (15.0, 4)] {
        let (y, found): (Tensor, Tensor) = f.run((x.clone(), Tensor::new(n))).unwrap();
        assert!(y.bits_eq(&(&x * n)) && found.array().unwrap().shape() == [1 << 19, 1], "{n}");
        assert_eq!(runs.load(Relaxed), followed, "{}", f.explain());
    }
}

#[test]
fn a_call_that_leaves_its_path_draws_nothing_again() {
    let settle = |x: &Tensor, limit: &Tensor| -> Result<(Tensor, Tensor)> {
        let (first, mut x, mut noise) = (x.clone(), x.clone(), Tensor::new([0.0f32, 0.0]));
        while x.max().lt(limit).to_bool()? {
            x = &x + &first;
            // The sum is large, and a result of its own step. It is let go of once the numbers are drawn.
            if x.min().lt(0.0).to_bool()? {
                break;
            }
            noise += x.max() * fx::rand([2]);
        }
        Ok((x, noise))
    };
    let runs = AtomicUsize::new(0);
    let f = compile(|x: Tensor, limit: Tensor| {
        runs.fetch_add(1, Relaxed);
        settle(&x, &limit)
    })
    .verify(0);
    let x = Tensor::from_vec((0..1 << 20).map(|i| (i % 2) as f32).collect::<Vec<_>>(), &[1 << 20]);
    for (seed, (n, followed)) in (0..).zip([(9.0f32, 1), (9.0, 2), (9.0, 2), (15.0, 3), (15.0, 3), (21.0, 4)])
    {
        let limit = Tensor::new(n);
        fx::manual_seed(seed);
        let (y, noise): (Tensor, Tensor) = f.run((x.clone(), limit.clone())).unwrap();
        fx::manual_seed(seed);
        let expected = settle(&x, &limit).unwrap();
        assert!(y.bits_eq(&expected.0), "{n}");
        noise.all_close(&expected.1, 1e-5, 1e-6).unwrap();
        assert_eq!(runs.load(Relaxed), followed, "{}", f.explain());
    }
}

#[test]
fn integers_of_operations_are_those_of_the_call() {
    let runs = AtomicUsize::new(0);
    let f = compile(|x: &Tensor, n: &Tensor| -> Result<(Tensor, Value)> {
        runs.fetch_add(1, Relaxed);
        let number = fx::num_int(n);
        let n: Dim = number.clone().try_into()?;
        Ok((
            fx::full([n.clone() + 1], 2.0) * x.sum((), false) + fx::zeros([x.dim(0) - n, Dim::new(1)]),
            number,
        ))
    })
    .pure();
    let call = |n: i64| -> (Tensor, i64) { f.run((filled(&[9]), Tensor::new(n))).unwrap() };
    for n in [2, 5, -1, 3, 2, 7] {
        let (full, number) = call(n);
        assert_eq!(
            (full.shape().unwrap().known().unwrap()[..].to_vec(), number),
            (vec![(9 - n) as usize, (n + 1) as usize], n)
        );
    }
    // From its second value on, the number is a symbol of the segment, so one path serves all.
    assert_eq!(runs.load(Relaxed), 2, "{}", f.explain());
}

#[test]
fn other_numbers_of_operations_choose_the_path_or_let_the_rust_code_run() {
    let runs = AtomicUsize::new(0);
    let f = compile(|x: &Tensor, rate: &Tensor, is_small: &Tensor| -> Result<Tensor> {
        runs.fetch_add(1, Relaxed);
        let y = if matches!(fx::num_bool(is_small), Arg::Bool(true)) { x + 1.0 } else { x - 1.0 };
        let rate = match fx::num_float(rate) {
            Arg::Float(rate) => rate,
            other => panic!("{other:?}"),
        };
        Ok(y * rate)
    })
    .pure();
    for (rate, is_small) in [(2.0, true), (3.0, true), (2.0, false), (2.0, true), (0.5, false), (3.0, true)] {
        let args = [vector(&[1.0]), Tensor::new(rate), Tensor::new(is_small)];
        assert_eq!(elements(&f.call(&args).unwrap()), [if is_small { 2.0 * rate as f32 } else { 0.0 }]);
    }
    assert_eq!(runs.load(Relaxed), 6);
}

#[test]
fn sizes_and_numbers_of_a_graph_end_no_segment() {
    let text = "graph main(%x: f32[n, m], %i: i64[]) {
        %k = item(%i)
        %n = size(%x, 0)
        %half = floor_divide(%n, 2)
        %more = add(%half, %k)
        %row = select(%x, 0, %k)
        %ones = full([%more, %n], 1.0)
        return (%ones, %row, %k, %half)
    }";
    let graph = fx::Graph::parse(text, &fx::registry()).unwrap();
    let gm = fx::GraphModule::new("M", graph);
    for is_pure in [false, true] {
        let f = compile(&gm);
        let f = if is_pure { f.pure() } else { f };
        for (n, m, i) in [(4, 3, 1), (4, 3, 0), (4, 3, 3), (6, 3, -2), (5, 2, 4), (1, 1, 0), (7, 1, 2)] {
            let args = [Arg::Leaf(filled(&[n, m])), Arg::Leaf(Tensor::new(i as i64))];
            let (got, expected) = (f.call_values(&args).unwrap(), gm.clone().evaluate(&args).unwrap());
            assert!(got.eq_by(&expected, &|a: &Tensor, b: &Tensor| a.bits_eq(b)), "{got:?} {expected:?}");
        }
        let breaks: Vec<String> = f.explain().breaks.iter().map(|at| at.to_string()).collect();
        assert!(breaks.iter().all(|at| !at.contains("C14") || at.contains("item")), "{breaks:?}");
    }
}
