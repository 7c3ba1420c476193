//! Searches, and sizes that depend on data.

use fx_core::{Arg, DType, Symbol, TensorType};

use crate::testing::{call, call1, tensor};

#[test]
fn places_are_before_or_after_equal_elements() {
    let args = || [tensor([1f32, 2.0, 2.0, f32::NAN]), tensor([2f32, f32::NAN, 0.5, f32::INFINITY])];
    assert!(call1("searchsorted", &args()).unwrap().bits_eq(&[1i64, 4, 0, 4].into()));
    let out = call("searchsorted", &args(), &[("side", Arg::str("right")), ("out_int32", Arg::Bool(true))]);
    assert!(out.unwrap().leaf().unwrap().array().unwrap().bits_eq(&[4i32, 4, 0, 4].into()));
    let both = [("side", Arg::str("left")), ("right", Arg::Bool(true))];
    assert!(call("searchsorted", &args(), &both).is_err());
    let sorter = [("sorter", tensor([9i64, 0, 1, 2]))];
    assert!(call("searchsorted", &args(), &sorter).is_err());
}

#[test]
fn sizes_that_depend_on_data_are_bounded_symbols() {
    let registry = fx_ops::registry();
    let x = TensorType::new(DType::F32, [2usize, 3].as_slice());
    let ty = registry.get("nonzero").unwrap().infer(&[x.into(), Arg::Bool(false)]).unwrap().unwrap();
    let rows = &ty.tensor().unwrap().shape[0];
    assert!(rows.as_symbol().is_some_and(Symbol::is_fresh));
    assert_eq!(rows.bounds(), (0, Some(6)));
    let none = call1("nonzero", &[tensor(0f32)]).unwrap();
    assert_eq!(none.shape(), [0, 0]);
}
