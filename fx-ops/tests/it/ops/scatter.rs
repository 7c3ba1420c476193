//! Scattering.

use fx_core::Arg;

use crate::testing::{call1, tensor};

#[test]
fn the_first_element_replaces_what_takes_no_part() {
    let args = |reduce: &str| {
        [tensor([9i64, 9, 9]), Arg::Int(0), tensor([0i64, 0, 2]), tensor([4i64, -5, 1]), Arg::str(reduce)]
    };
    let alone = |reduce| {
        let out =
            crate::testing::call("scatter_reduce", &args(reduce), &[("include_self", Arg::Bool(false))]);
        out.unwrap().leaf().unwrap().array().unwrap().clone()
    };
    assert!(alone("mean").bits_eq(&[-1i64, 9, 1].into()));
    assert!(alone("amin").bits_eq(&[-5i64, 9, 1].into()));
    assert!(alone("prod").bits_eq(&[-20i64, 9, 1].into()));
    assert!(call1("scatter_reduce", &args("amax")).unwrap().bits_eq(&[9i64, 9, 9].into()));
}

#[test]
fn unknown_reductions_are_refused() {
    let x = || tensor([1f32]);
    let error = call1("scatter_reduce", &[x(), Arg::Int(0), tensor([0i64]), x(), Arg::str("max")]);
    assert!(error.unwrap_err().message().starts_with("expected \"sum\", \"prod\""));
}
