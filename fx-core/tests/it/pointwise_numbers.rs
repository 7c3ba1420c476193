//! Numbers in operations on tensors of other dtypes.

use fx_core::ops::{add, div, eq, mul};
use fx_core::pointwise::PointwiseDef;
use fx_core::pointwise::*;
use fx_core::{Array, DType, Scalar};
use fx_core::{Class, Tensor};
use half::f16;

fn def(op: fx_core::Op) -> &'static PointwiseDef {
    match op.class {
        Class::Pointwise(def) => def,
        _ => unreachable!("a pointwise row"),
    }
}

fn halves(x: impl IntoIterator<Item = f32>) -> Tensor {
    Array::from(x.into_iter().map(f16::from_f32).collect::<Vec<_>>()).into()
}

#[test]
fn factors_of_halves_are_as_exact_as_f32() {
    let x = halves([0.0, 1.0, 0.5]);
    let text = |x: Tensor| x.array().unwrap().iter_scalars().map(Scalar::to_f64).collect::<Vec<_>>();
    assert_eq!(text(mul(&x, -1e9)), [0.0, f64::NEG_INFINITY, f64::NEG_INFINITY]);
    assert_eq!(text(div(halves([65504.0]), 70000))[0], f16::from_f32(65504.0 / 70000.0).to_f64());
    // Sums take numbers as halves.
    assert_eq!(text(add(halves([-60000.0]), 70000.0, 1)), [f64::INFINITY]);
    // A tensor of one element is as exact; one of several is converted first.
    let wide: Tensor = Array::scalar(100_000i64).into();
    assert_eq!(text(mul(halves([0.01, 0.5]), &wide))[0], 1000.0);
    let wide: Tensor = Array::from(vec![100_000i64, 1]).into();
    assert_eq!(text(mul(halves([0.01, 0.5]), &wide))[0], f64::INFINITY);
}

#[test]
fn integers_wrap_numbers_that_they_cannot_be() {
    let x: Tensor = Array::from(vec![44i8, -128, 127]).into();
    let wide: Tensor = Array::scalar(300i64).into();
    for other in [eq(&x, 300), eq(&x, &wide)] {
        assert_eq!(other.array().unwrap().to_vec::<bool>().unwrap(), [true, false, false]);
    }
    let sum = add(&x, 300, 1);
    assert_eq!(sum.array().unwrap().to_vec::<i8>().unwrap(), [88, -84, -85]);
}

#[test]
fn parameters_and_numbers_that_do_not_fit_are_refused() {
    let add = def(add::OP);
    assert!(add.parameter(0, Scalar::Int(300), DType::I8).is_err());
    assert_eq!(add.parameter(0, Scalar::Int(-1), DType::U8).unwrap(), Scalar::Int(-1));
    assert_eq!(add.number(1, Scalar::Int(300), DType::I8).unwrap(), Scalar::Int(44));
    assert!(held(Scalar::Float(2.7), DType::U8).is_ok());
    assert!(held(Scalar::Float(256.0), DType::U8).is_err());
    assert!(held(Scalar::Float(f64::NAN), DType::I64).is_err());
}
