//! Functions with `#[fx::compile]`, as a user writes them.

use std::sync::atomic::{AtomicUsize, Ordering};

use fx::prelude::*;

/// Halves until all is small.
#[fx::compile]
fn settle(x: &Tensor, rate: f64) -> fx::Result<Tensor> {
    let mut x = x.clone();
    while x.abs().max().item::<f32>()? > 1.0 {
        x *= rate;
    }
    Ok(x + 1.0)
}

#[derive(Tree, Clone)]
struct State {
    mean: Tensor,
    n: i64,
}

static RUNS: AtomicUsize = AtomicUsize::new(0);

fn ran() {
    RUNS.fetch_add(1, Ordering::Relaxed);
}

#[fx::compile(pure)]
fn update(state: State, xs: &[Tensor], mask: Option<&Tensor>, mode: &str) -> (State, Tensor) {
    ran();
    let mut sum = xs[0].clone();
    for x in &xs[1..] {
        sum += x;
    }
    if let Some(mask) = mask {
        sum *= mask;
    }
    let sum = if mode == "half" { sum * 0.5 } else { sum };
    (State { mean: &state.mean * 0.9 + &sum * 0.1, n: state.n }, sum)
}

#[fx::compile(whole)]
fn whole(x: &Tensor) -> Tensor {
    if x.sum((), false).gt(0.0).to_bool().unwrap_or(false) { x * 2.0 } else { x - 1.0 }
}

#[fx::compile(backend = "eager")]
fn fact(n: i64, x: &Tensor) -> Tensor {
    if n <= 1 { x.clone() } else { fact(n - 1, x) * n }
}

#[test]
fn names_of_arguments_and_of_the_function_are_in_the_report() {
    let x = Tensor::new([8.0f32, -2.0]);
    assert_eq!(settle(&x, 0.5).unwrap().to_vec::<f32>().unwrap(), [2.0, 0.75]);
    let compiled = settle::compiled().counters().compiled;
    assert_eq!(settle(&Tensor::new([64.0f32, 1.0]), 0.5).unwrap().numel().unwrap(), 2);
    assert_eq!(settle::compiled().counters().compiled, compiled);
    let told = settle::compiled().explain();
    assert_eq!(told.name, "settle");
    assert!(
        told.at.as_ref().is_some_and(|at| at.to_string().starts_with("tests/it/compile_attribute.rs:8:"))
    );
    assert!(told.segments[0].inputs[0].starts_with("x: f32[2]"), "{told}");
    let error = settle(&Tensor::new(["a"; 0].map(|_| 0.0f32)), 0.5).unwrap_err();
    assert!(error.source_loc().is_some_and(|at| at.file().ends_with("compile_attribute.rs")), "{error}");
}

#[test]
fn borrowed_optional_and_structured_arguments_replay() {
    let x = || Tensor::new([1.0f32, 2.0]);
    let mut state = State { mean: Tensor::new([0.0f32, 0.0]), n: 7 };
    for _ in 0..10 {
        let (new, sum) = update(state, &[x(), x()], Some(&x()), "half");
        assert_eq!(sum.to_vec::<f32>().unwrap(), [1.0, 4.0]);
        state = new;
    }
    assert_eq!((RUNS.load(Ordering::Relaxed), state.n), (2, 7));
    let (_, sum) = update(state.clone(), &[x()], None, "");
    assert_eq!(sum.to_vec::<f32>().unwrap(), [1.0, 2.0]);
    assert_eq!(RUNS.load(Ordering::Relaxed), 3);
    assert_eq!(update::compiled().explain().paths.len(), 2);
}

#[test]
fn a_read_in_a_whole_function_is_an_error_that_the_result_carries() {
    let error = whole(&Tensor::new([1.0f32])).to_vec::<f32>().unwrap_err().to_string();
    assert!(error.contains("C10") && error.contains("compile_attribute.rs"), "{error}");
}

#[test]
fn compiled_functions_call_themselves_and_are_traced_through() {
    let x = Tensor::new([1.0f32, 2.0]);
    assert_eq!(fact(5, &x).to_vec::<f32>().unwrap(), [120.0, 240.0]);
    assert_eq!(fact::compiled().explain().segments.len(), 1);
    let gm = fx::symbolic_trace(|x: &Tensor| fact(3, x)).unwrap();
    assert_eq!(gm.call(&[x]).unwrap().to_vec::<f32>().unwrap(), [6.0, 12.0]);
}
