//! Views of a user: the rule of their windows is what engines and crates read.

use fx::opcheck::{self, Sample};
use fx::prelude::*;
use fx::standalone::CrateOptions;
use fx::window::{Window, WindowCall};
use fx::{Arg, Array, Dim, Engine, TensorType, Value};

use crate::standalone::reproduces;

fx::kernels! {
    /// Views of a user.
    pub trait OwnViews; pub static OWN_VIEWS;

    /// Every second row.
    #[class = View(every_second)]
    every_second_row(x: Tensor) = half_type, half_array;
    /// The same, with a rule that begins at the second row.
    #[class = View(from_the_second)]
    begins_late(x: Tensor) = half_type, half_array;
    /// The same, with a rule that reaches far past the end.
    #[class = View(past_the_end)]
    reaches_past_the_end(x: Tensor) = half_type, half_array;
    /// The same without a rule.
    #[class = View]
    without_a_rule(x: Tensor) = half_type, half_array;
}

fn half_type(x: &TensorType) -> Result<TensorType> {
    if x.rank() == 0 {
        fx::bail!(Shape, "expected rows, got {x}");
    }
    let mut ty = x.clone();
    ty.shape.dims_mut()[0] = x.shape[0].ceil_div(&Dim::new(2));
    Ok(ty)
}

fn half_array(x: &Array) -> Result<Array> {
    x.slice_axis(0, 0, x.shape().first().copied().unwrap_or(0), 2)
}

fn every_second(call: &mut WindowCall<'_>) -> Result<Option<Arg<Window>>> {
    let n = call.shape()?[0].clone();
    Ok(Some(Arg::Leaf(call.window(0)?.slice(0, &Dim::new(0), n, &Dim::new(2)))))
}

fn from_the_second(call: &mut WindowCall<'_>) -> Result<Option<Arg<Window>>> {
    let x = call.window(0)?;
    let n = call.shape()?[0].clone();
    call.require(&x.shape[0] - 2);
    let x = call.window(0)?;
    Ok(Some(Arg::Leaf(x.slice(0, &Dim::new(1), n, &Dim::new(2)))))
}

fn past_the_end(call: &mut WindowCall<'_>) -> Result<Option<Arg<Window>>> {
    let (x, n) = (call.window(0)?, call.shape()?[0].clone());
    Ok(Some(Arg::Leaf(x.slice(0, &(&x.shape[0] * 1_000_000), n, &Dim::new(2)))))
}

#[test]
fn a_rule_that_reaches_past_its_operand_reads_nothing_there() {
    for spec in ["f32[n, 3]", "f32[6, 3]"] {
        let f = |x: &Tensor| (x * 2.0).reaches_past_the_end() + 1.0;
        let gm = fx::trace(f).input("x", spec).build().unwrap();
        let program = gm.compile(Engine::Fused).unwrap();
        for n in [6, 6, 4, 1, 0].into_iter().filter(|n| spec.contains('n') || *n == 6) {
            let x = fx::arange(0, n * 3, 1).to(DType::F32).reshape((n, 3));
            let args = [Value::from(&x)];
            let (got, expected) = (program.evaluate(&args).unwrap(), gm.evaluate(&args).unwrap());
            assert!(got.leaf().unwrap().bits_eq(expected.leaf().unwrap()), "{spec} {n}");
        }
    }
}

#[test]
fn a_rule_is_checked_against_the_kernel() {
    let check = |op| {
        let sample = Sample::parse("f32[6, 4]").unwrap();
        opcheck::check_on(op, &[sample]).unwrap().ok().map_err(|error| error.message().to_owned())
    };
    check(every_second_row::OP).unwrap();
    let error = check(begins_late::OP).unwrap_err();
    let expected =
        "windows: (f32[6, 4]): expected elements where the rule of the view says, got other elements at 4";
    assert!(error.contains(expected), "{error}");
    let error = check(without_a_rule::OP).unwrap_err();
    assert!(error.contains("name it in the row: `#[class = View(rule)]`"), "{error}");
}

#[test]
fn engines_and_crates_read_a_view_without_a_copy() {
    let f = |x: &Tensor, y: &Tensor| x.transpose(0, 1).every_second_row().matmul(y) + 1.0;
    let gm = fx::trace(f).input("x", "f32[n, m]").input("y", "f32[n, 3]").build().unwrap();
    let args = |n: i64, m: i64| -> Vec<Value> {
        let x = fx::arange(0, n * m, 1).to(DType::F32).reshape((n, m));
        [x, fx::ones([n, 3])].iter().map(Value::from).collect()
    };
    for engine in [Engine::Fused, Engine::Native] {
        let program = gm.compile(engine).unwrap();
        for (n, m) in [(4, 6), (5, 7), (1, 1), (3, 2), (0, 5), (2, 0)] {
            let (args, expected) = (args(n, m), gm.evaluate(&args(n, m)).unwrap());
            let got = program.evaluate(&args).unwrap();
            assert!(got.leaf().unwrap().bits_eq(expected.leaf().unwrap()), "{engine:?} {n} {m}");
        }
    }
    let program = gm.compile(Engine::Fused).unwrap();
    program.evaluate(&args(4, 6)).unwrap();
    // One step: the product, whose left operand is the view of the transposed input.
    let text = program.fused().unwrap().describe();
    assert!(text.starts_with("1 steps,") && !text.contains("evaluate"), "{text}");
    let options = CrateOptions::new().record(&args(4, 6)).record(&args(5, 7)).record(&args(1, 1));
    reproduces(&gm, "views_of_users", options);
}
