//! `fx::opcheck` over every built-in row, and over rows that lie.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicI64, Ordering};

use fx::opcheck::{self, Sample};
use fx::prelude::*;
use fx::{Array, TensorType};

#[test]
fn every_built_in_row_is_truthful() {
    let mut failures = String::new();
    for op in fx::registry().iter() {
        match fx::opcheck::check(op) {
            Ok(report) if report.findings.is_empty() => {}
            Ok(report) => writeln!(failures, "{report}").unwrap(),
            Err(error) => writeln!(failures, "{}: {error}", op.name).unwrap(),
        }
    }
    assert!(failures.is_empty(), "\n{failures}");
}

fx::kernels! {
    /// Rows that do not tell the truth, each in another way.
    pub trait Liars; pub static LIARS;

    /// The rule keeps the dtype, the kernel does not.
    wrong_dtype(x: Tensor) = same_type, to_f64;
    /// The rule fixes the first size to that of the samples.
    wrong_on_symbols(x: Tensor) = fixed_type, same_array;
    /// The kernel does not think of empty tensors.
    panics_when_empty(x: Tensor) = same_type, first_everywhere;
    /// The kernel reads the clock of its calls.
    counts_calls(x: Tensor) = counter_type, count;
    /// The rule takes integers, the kernel does not.
    rule_takes_too_much(x: Tensor) = same_type, only_floats;
}

static CALLS: AtomicI64 = AtomicI64::new(0);

fn same_type(x: &TensorType) -> Result<TensorType> {
    Ok(x.clone())
}

fn same_array(x: &Array) -> Result<Array> {
    Ok(x.clone())
}

fn to_f64(x: &Array) -> Result<Array> {
    Ok(x.cast(DType::F64))
}

fn counter_type(_: &TensorType) -> Result<TensorType> {
    Ok(TensorType::new(DType::I64, fx::Shape::default()))
}

fn count(_: &Array) -> Result<Array> {
    Ok(Array::scalar(CALLS.fetch_add(1, Ordering::Relaxed)))
}

fn fixed_type(x: &TensorType) -> Result<TensorType> {
    let mut shape = x.shape.clone();
    if let Some(first) = shape.dims_mut().first_mut() {
        *first = fx::Dim::new(first.known().unwrap_or(4));
    }
    Ok(TensorType::new(x.dtype, shape))
}

fn first_everywhere(x: &Array) -> Result<Array> {
    let first = x.iter_scalars().next().expect("nobody thought of this");
    Array::full(x.dtype(), x.shape(), first)
}

fn only_floats(x: &Array) -> Result<Array> {
    if !x.dtype().is_float() {
        fx::bail!(DType, "expected floats, got {}", x.dtype());
    }
    Ok(x.clone())
}

#[test]
fn rows_that_lie_are_found_out() {
    let found = |op: fx::Op| -> Vec<String> {
        let samples = [Sample::parse("f32[4, 3]").unwrap(), Sample::parse("f32[5, 3]").unwrap()];
        let report = opcheck::check_on(op, &samples).unwrap();
        assert!(report.ok().is_err_and(|error| error.message().contains(op.name)));
        report.findings.iter().map(ToString::to_string).collect()
    };
    let cases = [
        (wrong_dtype::OP, "shape rule: (f32[4, 3]): expected f64[4, 3], got"),
        (wrong_on_symbols::OP, "shape rule: (f32[5, 3]): expected f32[5, 3], got"),
        (
            panics_when_empty::OP,
            "sizes: (f32[0, 3]): expected a result, got panicked: nobody thought of this",
        ),
        (counts_calls::OP, "determinism: (f32[4, 3]): expected the same bits in a second run, got others"),
        (
            rule_takes_too_much::OP,
            "dtypes: (i64[4, 3]): expected an error of the rule too, got the kernel's: expected floats, got i64",
        ),
    ];
    for (op, expected) in cases {
        let found = found(op);
        assert!(found.iter().any(|line| line.starts_with(expected)), "{}: {found:#?}", op.name);
    }
}

#[fx::wrap]
/// A user's composite.
fn centred(x: &Tensor, scale: f64) -> Tensor {
    (x - x.mean(-1, true)) * scale
}

#[test]
fn users_rows_are_checked_on_guessed_and_on_given_samples() {
    let sample = Sample::parse("f32[2, 7], 0.5").unwrap();
    assert_eq!(sample.to_string(), "f32[2, 7], 0.5");
    opcheck::check_on(centred::OP, &[sample]).unwrap().ok().unwrap();
    let error = Sample::parse("f32[2, 7] 0.5").unwrap_err();
    assert!(error.message().contains("expected ,"), "{error}");
    let needs_text = opcheck::check(fx::set_buffer::OP);
    assert!(needs_text.is_ok(), "{needs_text:?}");
}
