//! Overloads that write to an argument.

use fx::__test::import::{is_out, is_target, without};

#[test]
fn overloads_and_targets_are_told_from_others() {
    assert!(is_out("out") && is_out("Tensor_out") && is_out("dim_max") && !is_out("Tensor"));
    assert_eq!(without("clamp", "Tensor_out"), "Tensor");
    assert_eq!(without("max", "out"), "other");
    assert_eq!(without("add", "out"), "");
    // The bounds of `clamp` have the names of what `aminmax` writes.
    assert!(is_target("aminmax", "out", "max") && !is_target("clamp", "out", "max"));
    assert!(is_target("var_mean", "correction_out", "out1") && !is_target("pool", "out", "output_size"));
    assert!(is_target("gelu_backward", "grad_input", "grad_input"));
}
