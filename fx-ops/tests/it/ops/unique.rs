//! Unique elements.

use fx_core::{Arg, Array, DType, Value};

use crate::testing::{call, tensor};

fn parts(name: &str, x: Value, dim: Option<i64>) -> Vec<Array> {
    let dim = dim.map_or(Arg::None, Arg::Int);
    let asked = [("return_inverse", Arg::Bool(true)), ("return_counts", Arg::Bool(true)), ("dim", dim)];
    let out = call(name, &[x], &asked).unwrap();
    out.leaves().into_iter().map(|tensor| tensor.array().unwrap().clone()).collect()
}

#[test]
fn zeros_are_equal_and_nans_are_not() {
    let out = parts("unique", tensor([f32::NAN, 0.0, 1.0, -0.0, f32::NAN, -1.0]), None);
    assert!(out[0].bits_eq(&[-1f32, 0.0, 1.0, f32::NAN, f32::NAN].into()));
    assert!(out[1].bits_eq(&[3i64, 1, 2, 1, 4, 0].into()));
    assert!(out[2].bits_eq(&[1i64, 2, 1, 1, 1].into()));
}

#[test]
fn sub_tensors_are_in_lexicographic_order() {
    let x = || tensor([[1i64, 1, -1], [2, 2, 5]]);
    let out = parts("unique", x(), Some(1));
    assert!(out[0].bits_eq(&[[-1i64, 1], [5, 2]].into()));
    assert!(out[1].bits_eq(&[1i64, 1, 0].into()) && out[2].bits_eq(&[1i64, 2].into()));
    let out = parts("unique_consecutive", x(), Some(-1));
    assert!(out[0].bits_eq(&[[1i64, -1], [2, 5]].into()) && out[2].bits_eq(&[2i64, 1].into()));
    let empty = Array::zeros(DType::F32, &[2, 0]).unwrap();
    assert!(call("unique", &[tensor(empty)], &[("dim", Arg::Int(0))]).is_err());
}
