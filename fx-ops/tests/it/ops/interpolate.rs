//! Resizing.

use fx_core::{Arg, Array, DType, Value};

use crate::testing::{call, tensor};

fn values(mode: &str, kwargs: &[(&str, Value)]) -> Vec<f64> {
    let x = tensor(Array::from_vec(vec![1.0f64, 2.0, 4.0, 8.0], &[1, 1, 4]).unwrap());
    let kwargs = [&[("mode", Arg::str(mode))], kwargs].concat();
    call("interpolate", &[x], &kwargs).unwrap().leaf().unwrap().array().unwrap().to_vec().unwrap()
}

#[test]
fn sizes_and_scales_place_samples_as_pytorch_does() {
    let size = |n| ("size", Arg::Int(n));
    assert_eq!(values("nearest", &[size(2)]), [1.0, 4.0]);
    assert_eq!(values("nearest-exact", &[size(2)]), [2.0, 8.0]);
    assert_eq!(values("area", &[size(2)]), [1.5, 6.0]);
    assert_eq!(values("linear", &[size(2)]), [1.5, 6.0]);
    assert_eq!(values("linear", &[size(2), ("align_corners", Arg::Bool(true))]), [1.0, 8.0]);
    let scale = ("scale_factor", Arg::Float(1.7));
    assert_eq!(values("nearest", &[scale]).len(), 6);
}

#[test]
fn wrong_requests_are_errors() {
    let x = tensor(Array::zeros(DType::F32, &[1, 1, 4]).unwrap());
    let message = |kwargs: &[(&str, Value)]| {
        call("interpolate", std::slice::from_ref(&x), kwargs).unwrap_err().message().to_owned()
    };
    assert!(message(&[]).contains("neither"));
    assert!(message(&[("size", Arg::Int(0))]).contains("at least 1"));
    assert!(message(&[("size", Arg::Int(2)), ("mode", Arg::str("bicubic"))]).contains("2 spatial axes"));
    assert!(!message(&[("size", Arg::Int(1 << 62))]).is_empty());
}
