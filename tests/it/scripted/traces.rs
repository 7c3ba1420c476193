//! Scripts in all kinds of traces, and scripts that call scripts.

use fx::prelude::*;

use super::{agrees, graph, numbers};

#[fx::script]
fn clip(x: &Tensor, limit: f64) -> Tensor {
    let mut x = x.clone();
    while x.norm(2.0, (), false).gt(limit) {
        x = x * 0.5;
    }
    x
}

#[fx::script]
fn running(x: &Tensor) -> Tensor {
    let (mut sum, mut out) = (fx::zeros_like(&x.i(0)), vec![]);
    for row in x {
        sum = clip(&(sum + row), 3.0);
        if sum.mean((), false).lt(0.0) {
            sum = sum.relu();
        }
        out.push(sum.clone());
    }
    fx::stack(&out, 0)
}

#[test]
fn a_script_calls_a_script() {
    let gm = graph(fx::trace(running).input("x", "f32[n, 3]"));
    let x = numbers(12).reshape((4, 3));
    agrees(&gm, &[x.clone().into()], &running(&x));
}

#[test]
fn a_trace_with_an_example_keeps_the_control_flow() {
    let x = numbers(12).reshape((4, 3));
    let traced = fx::jit_trace(running, (x.clone(),)).unwrap();
    assert!(traced.report.is_clean(), "{}", traced.report);
    for x in [x, numbers(21).reshape((7, 3)) * 2.0] {
        traced.call(std::slice::from_ref(&x)).unwrap().all_close(&running(&x), 1e-6, 1e-6).unwrap();
    }
}

#[fx::script]
fn last_positive(x: &Tensor) -> Tensor {
    let mut y = x.i(0);
    for row in x {
        if row.sum((), false).gt(0.0) {
            y = row;
        }
    }
    y
}

#[test]
fn a_trace_without_types() {
    let gm = fx::symbolic_trace(last_positive).unwrap();
    assert!(gm.lint().is_empty(), "{:?}", gm.lint());
    for x in [numbers(12).reshape((4, 3)), numbers(10).reshape((5, 2)) * 30.0] {
        let y = gm.call(std::slice::from_ref(&x)).unwrap();
        y.all_close(&last_positive(&x), 1e-6, 1e-6).unwrap();
    }
}

#[test]
fn a_failed_operation_ends_an_eager_call() {
    #[fx::script]
    fn wrong(x: &Tensor) -> Tensor {
        let mut y = x.clone();
        while (&y + Tensor::new([1.0f32; 7])).sum((), false).gt(0.0) {
            y = y - 1.0;
        }
        y
    }
    let error = wrong(&numbers(3)).ok().unwrap_err();
    assert!(error.message().starts_with("cannot broadcast"), "{error}");
    let error = fx::trace(wrong).input("x", "f32[3]").build().unwrap_err();
    assert!(error.message().starts_with("cannot broadcast"), "{error}");
}
