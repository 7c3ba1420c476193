//! Executors: which plans they make, and that all of them compute what the module does.

use std::sync::atomic::{AtomicUsize, Ordering};

use expect_test::expect;
use fx::executor::{Executor, FusionStrategy, PlanKind};
use fx::prelude::*;
use fx::{Arg, DType, Engine, GraphModule, Result, Tensor, Value, nn};

fn filled(shape: &[usize]) -> Tensor {
    let n: usize = shape.iter().product();
    Tensor::from_vec((0..n).map(|i| ((i * 7 + 3) % 11) as f32 * 0.25 - 1.0).collect::<Vec<f32>>(), shape)
}

/// Calls the executor, and compares with the module.
#[track_caller]
fn check(executor: &Executor, gm: &GraphModule, args: &[Value]) {
    match (executor.call_values(args), gm.call_values(args)) {
        (Ok(got), Ok(expected)) => {
            assert_eq!(got.leaves().len(), expected.leaves().len());
            for (got, expected) in got.leaves().into_iter().zip(expected.leaves()) {
                got.all_close(expected, 1e-5, 1e-6).unwrap();
            }
        }
        (Err(got), Err(expected)) => assert_eq!(got.message(), expected.message()),
        (got, expected) => panic!("got {got:?}, expected {expected:?}"),
    }
}

fn kinds(executor: &Executor) -> Vec<PlanKind> {
    let state = executor.debug_state();
    state.structures.iter().flat_map(|structure| structure.plans.iter().map(|plan| plan.kind)).collect()
}

#[test]
fn plans_are_static_then_dynamic() {
    let gm = fx::symbolic_trace(|x: &Tensor, y: &Tensor| (x + y).relu().sum(-1, false)).unwrap();
    let executor = Executor::new(gm.clone());
    for n in [2, 2, 3, 5, 7, 1, 0, 64] {
        check(&executor, &gm, &[Arg::Leaf(filled(&[n, 4])), Arg::Leaf(filled(&[n, 4]))]);
    }
    assert_eq!(kinds(&executor), [PlanKind::Static, PlanKind::Static, PlanKind::Dynamic]);
    let state = executor.debug_state();
    let plans = &state.structures[0].plans;
    assert_eq!(plans[2].inputs, ["x: f32[x0, 4]", "y: f32[x0, 4]"]);
    assert_eq!(plans[1].reason, "input x: size of axis 0 is 3, planned for 2");
    assert_eq!((plans[0].hits, plans[2].hits, state.calls), (1, 4, 8));
    // Sizes that varied together and now differ: the second has one row, which is repeated.
    check(&executor, &gm, &[Arg::Leaf(filled(&[6, 4])), Arg::Leaf(filled(&[1, 4]))]);
    assert_eq!(kinds(&executor).len(), 4);
}

#[test]
fn each_structure_has_plans_of_its_own() {
    let gm = fx::symbolic_trace(|x: &Tensor| x * 2 + 1).unwrap();
    let executor = Executor::new(gm.clone());
    let dtypes = [DType::F32, DType::F64, DType::I64, DType::F16, DType::I8, DType::BF16];
    for round in 0..2 {
        for dtype in dtypes {
            for shape in [&[3][..], &[3, 2], &[], &[1, 1, 5]] {
                check(&executor, &gm, &[Arg::Leaf(filled(shape).to(dtype))]);
            }
        }
        let state = executor.debug_state();
        assert_eq!(state.structures.len(), 24);
        let hits: u64 = state.structures.iter().map(|structure| structure.plans[0].hits).sum();
        assert_eq!(hits, 24 * round);
    }
    assert_eq!(executor.debug_state().structures[1].plans[0].reason, "argument x: 1 axes, got 2");
}

#[test]
fn a_strategy_says_how_many_plans_of_each_kind_there_are() {
    let gm = fx::symbolic_trace(|x: &Tensor| x.exp()).unwrap();
    let strategy = FusionStrategy::new([(PlanKind::Static, 3), (PlanKind::Dynamic, 1)]);
    let executor = Executor::new(gm.clone()).strategy(strategy);
    let call = |a: usize, b: usize| check(&executor, &gm, &[Arg::Leaf(filled(&[a, b]))]);
    // Rows vary, then columns, then both.
    for (a, b) in [(2, 3), (3, 3), (4, 3), (5, 3), (6, 3), (6, 4), (7, 9), (1, 1), (0, 8)] {
        call(a, b);
    }
    let expected = [PlanKind::Static, PlanKind::Static, PlanKind::Static, PlanKind::Open];
    assert_eq!(kinds(&executor), expected);
    assert_eq!(executor.debug_state().structures[0].plans[3].inputs, ["x: f32[x0, x1]"]);
    let never = Executor::new(gm.clone()).strategy(FusionStrategy::new([(PlanKind::Static, 100)]));
    for n in 1..=20 {
        check(&never, &gm, &[Arg::Leaf(filled(&[n]))]);
        check(&never, &gm, &[Arg::Leaf(filled(&[n]))]);
    }
    assert_eq!(kinds(&never).len(), 20);
    assert!(never.debug_state().structures[0].plans.iter().all(|plan| plan.hits == 1));
}

#[test]
fn what_cannot_be_for_all_sizes_says_so() {
    // The number of elements is fixed.
    let gm = fx::symbolic_trace(|x: &Tensor| x.reshape((2, 6)) + 1.0).unwrap();
    let strategy = FusionStrategy::new([(PlanKind::Static, 1), (PlanKind::Dynamic, 1)]);
    let executor = Executor::new(gm.clone()).strategy(strategy);
    for shape in [[12, 1], [6, 2], [3, 4], [4, 3], [1, 12]] {
        check(&executor, &gm, &[Arg::Leaf(filled(&shape))]);
    }
    let state = executor.debug_state();
    let plans = &state.structures[0].plans;
    for plan in &plans[1..] {
        assert!(plan.kind != PlanKind::Static || plan.note.is_some(), "{state}");
    }
    // A shape that does not fit is the error of the module.
    check(&executor, &gm, &[Arg::Leaf(filled(&[5, 2]))]);
}

#[test]
fn modules_share_their_buffers_and_weights_in_all_plans() {
    let mut norm = nn::BatchNorm1d::new(3);
    norm.train();
    let gm = fx::symbolic_trace(&norm).unwrap();
    let (executor, eager) = (Executor::new(gm.clone()), gm.clone());
    for n in [4, 5, 6, 7, 4] {
        check(&executor, &eager, &[Arg::Leaf(filled(&[n, 3]))]);
    }
    let buffers = |gm: &GraphModule| {
        let each = gm.attributes().map(|(path, attribute)| (path.to_owned(), attribute.tensor()));
        each.collect::<Vec<_>>()
    };
    for ((path, got), (_, expected)) in buffers(executor.graph_module()).into_iter().zip(buffers(&eager)) {
        got.all_close(&expected, 1e-5, 1e-6).unwrap_or_else(|error| panic!("{path}: {error}"));
    }
}

#[test]
fn numbers_lists_and_absent_arguments() {
    let gm = fx::trace(|xs: Vec<Tensor>, n: i64, y: Option<Tensor>| {
        let sum = &xs[0] * n + &xs[1];
        match y {
            Some(y) => sum + y,
            None => sum,
        }
    })
    .input("x", fx::InputSpec::list(["f32[a]", "f32[a]"]))
    .constant("y", 3)
    .input("z", fx::InputSpec::none())
    .build()
    .unwrap();
    let executor = Executor::new(gm.clone());
    for (size, n) in [(2, 3), (3, 3), (4, 3), (4, 5), (4, 3), (5, 5)] {
        let xs = Arg::list([filled(&[size]), filled(&[size])].map(Arg::Leaf));
        check(&executor, &gm, &[xs, Arg::Int(n), Arg::None]);
    }
    let error = executor.call_values(&[Arg::None, Arg::Int(1), Arg::None]).unwrap_err().to_string();
    assert!(error.contains("argument \"x\"") && error.contains("it/executor.rs"), "{error}");
    let error = executor.call(&[filled(&[2])]).unwrap_err().to_string();
    assert!(error.contains("takes 3 arguments, got 1"), "{error}");
}

#[test]
fn an_integer_is_a_symbol_of_a_plan() {
    let step = |x: &Tensor, at: fx::Dim| x.narrow(0, at.clone(), 2).exp() + x.select(0, at);
    let gm =
        fx::trace(step).input("x", "f32[n, 4]").input("y", "<at>").dim("at", 0, Some(20)).build().unwrap();
    let executor = Executor::new(gm.clone());
    for (n, at) in [(9, 1), (9, 2), (9, 5), (9, 0), (9, 7), (4, 1), (30, 20), (12, 3)] {
        check(&executor, &gm, &[Value::from(&filled(&[n, 4])), Arg::Int(at)]);
    }
    let told = executor.debug_state();
    assert_eq!(told.structures.len(), 1, "{told}");
    let plans = &told.structures[0].plans;
    assert!(plans.len() <= 4, "{told}");
    assert_eq!(plans[1].reason, "input y is 2, planned for 1");
    assert_eq!(plans.last().unwrap().inputs, ["x: f32[n, 4]", "y: <at>"]);
    for (n, at) in [(50, 21), (9, -1), (9, 8)] {
        let args = [Value::from(&filled(&[n, 4])), Arg::Int(at)];
        let (got, expected) = (executor.call_values(&args), gm.call_values(&args));
        assert_eq!(got.unwrap_err().message(), expected.unwrap_err().message());
    }
}

#[test]
fn an_integer_may_be_a_size_or_have_its_name() {
    let step = |x: &Tensor, at: fx::Dim| x.narrow(0, 0, at);
    for spec in ["<n>", "<x0>"] {
        let gm = fx::trace(step).input("x", "f32[n, 2]").input("y", spec).build().unwrap();
        let executor = Executor::new(gm.clone());
        for (n, at) in [(5, 5), (6, 6), (7, 7), (8, 8), (9, 4), (3, 3), (9, 2), (2, 1)] {
            check(&executor, &gm, &[Value::from(&filled(&[n, 2])), Arg::Int(at)]);
        }
    }
}

#[test]
fn sizes_that_the_graph_calls_equal_are_equal_in_every_plan() {
    let total = |x: &Tensor, y: &Tensor| x.sum((), false) + y.sum((), false);
    let gm = fx::trace(total).input("x", "f32[n]").input("y", "f32[n]").build().unwrap();
    let executor = Executor::new(gm.clone()).strategy(FusionStrategy::new([]));
    for n in 1..9 {
        check(&executor, &gm, &[Value::from(&filled(&[n])), Value::from(&filled(&[n]))]);
    }
    let args = [Value::from(&filled(&[5])), Value::from(&filled(&[6]))];
    let (got, expected) = (executor.call_values(&args), gm.call_values(&args));
    assert_eq!(got.unwrap_err().message(), expected.unwrap_err().message());
}

#[test]
fn the_limit_bounds_all_plans_together() {
    let gm = fx::symbolic_trace(|x: &Tensor| x - 1.0).unwrap();
    let strategy = FusionStrategy::new([(PlanKind::Static, 100)]);
    let executor = Executor::new(gm.clone()).strategy(strategy).limit(3);
    for n in [1, 2, 3, 1, 4, 1, 5] {
        check(&executor, &gm, &[Arg::Leaf(filled(&[n]))]);
    }
    let state = executor.debug_state();
    let sizes: Vec<&str> = state.structures[0].plans.iter().map(|plan| &*plan.inputs[0]).collect();
    assert_eq!((sizes, state.evicted), (vec!["x: f32[1]", "x: f32[4]", "x: f32[5]"], 2));
    executor.reset();
    assert!(executor.debug_state().structures.is_empty());
    executor.warm_up(&[Arg::Leaf(filled(&[9]))]).unwrap();
    assert_eq!((executor.debug_state().calls, kinds(&executor).len()), (0, 1));
}

#[test]
fn strict_fusion_names_operations_without_a_kernel() {
    let gm = fx::symbolic_trace(|x: &Tensor| (x * 2.0).msort() + 1.0).unwrap();
    let executor = Executor::new(gm).strict_fusion(true);
    let error = executor.call(&[filled(&[3])]).unwrap_err();
    assert!(error.message().starts_with("strict fusion: 1 operation without a kernel: msort"), "{error}");
    let fine = Executor::new(fx::symbolic_trace(|x: &Tensor| x.exp() + 1.0).unwrap()).strict_fusion(true);
    assert!(fine.call(&[filled(&[3])]).is_ok());
}

#[test]
fn threads_that_call_first_at_once_make_one_plan() {
    let gm = fx::symbolic_trace(|x: &Tensor| (x * 2.0).tanh()).unwrap();
    for _ in 0..50 {
        let executor = Executor::new(gm.clone());
        let right = AtomicUsize::new(0);
        let expected = executor.graph_module().call(&[filled(&[5])]).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let got = executor.call(&[filled(&[5])]).unwrap();
                    got.all_close(&expected, 1e-6, 1e-6).unwrap();
                    right.fetch_add(1, Ordering::Relaxed);
                });
            }
        });
        assert_eq!((right.load(Ordering::Relaxed), kinds(&executor).len()), (8, 1));
    }
}

#[test]
fn the_state_is_text() -> Result<()> {
    let executor = Executor::new(fx::symbolic_trace(|x: &Tensor| x * 2.0)?).engine(Engine::Eager);
    for n in [1, 2, 3] {
        executor.call(&[filled(&[n])])?;
    }
    let mut state = executor.debug_state();
    state.structures[0].plans.iter_mut().for_each(|plan| plan.time = std::time::Duration::ZERO);
    expect![[r#"
        main: engine eager, 3 plans, 3 calls, 0 evicted
          (f32[_])
            static (x: f32[1]): 0 hits, made in 0.0 us, because: first call
            static (x: f32[2]): 0 hits, made in 0.0 us, because: input x: size of axis 0 is 2, planned for 1
            dynamic (x: f32[x0]): 0 hits, made in 0.0 us, because: input x: size of axis 0 is 3, planned for 2
    "#]]
    .assert_eq(&state.to_string());
    Ok(())
}
