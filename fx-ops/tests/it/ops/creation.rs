//! Factories.

use fx_core::{Arg, DType, Value};

use crate::testing::{call, call1, tensor};

#[test]
fn ranges_are_those_of_pytorch() {
    let range = |args: &[Value]| call1("arange", args).unwrap();
    assert!(range(&[Arg::Int(3)]).bits_eq(&[0i64, 1, 2].into()));
    assert!(range(&[Arg::Int(5), Arg::Int(0), Arg::Int(-2)]).bits_eq(&[5i64, 3, 1].into()));
    assert!(range(&[Arg::Float(0.5), Arg::Int(2)]).bits_eq(&[0.5f32, 1.5].into()));
    let zero_step = call1("arange", &[Arg::Int(0), Arg::Int(5), Arg::Int(0)]);
    assert_eq!(zero_step.unwrap_err().message(), "expected a step other than 0, got 0");
    assert!(call1("arange", &[Arg::Int(i64::MIN), Arg::Int(i64::MAX)]).is_err());
    let line = call1("linspace", &[Arg::Float(0.0), Arg::Float(1.0), Arg::Int(5)]).unwrap();
    assert!(line.bits_eq(&[0.0f32, 0.25, 0.5, 0.75, 1.0].into()));
}

#[test]
fn dtypes_follow_the_value() {
    let full = |value| call1("full", &[Arg::ints([2]), value]).unwrap();
    assert!(full(Arg::Bool(true)).bits_eq(&[true, true].into()));
    assert!(full(Arg::Int(7)).bits_eq(&[7i64, 7].into()));
    assert!(full(Arg::Float(0.5)).bits_eq(&[0.5f32, 0.5].into()));
    let ones = call("ones_like", &[tensor([1i64, 2])], &[("dtype", Arg::DType(DType::F64))]).unwrap();
    assert_eq!(ones.leaf().unwrap().dtype().unwrap(), DType::F64);
    let hot = call1("one_hot", &[tensor([2i64, 0])]).unwrap();
    assert!(hot.bits_eq(&[[0i64, 0, 1], [1, 0, 0]].into()));
    assert!(call1("zeros", &[Arg::ints([1 << 40, 1 << 40])]).is_err());
    assert!(call1("zeros", &[Arg::ints([-1])]).is_err());
}
