//! Operations recognised from parts that overflow, underflow or divide by subnormal numbers.
//!
//! Where the parts give infinities, zeros or NaN, the operations may give finite numbers. So these rules apply
//! only if the user asks for the pass `stabilize`.

use fx_core::rewrite::{any_of, capture, exactly, integer};
use fx_core::{Tensor, rules, symbolic_trace};

use super::fusion::{flag, is_coarse, is_wide, plain_softplus};
use crate::ops::normalization::{log_softmax, softmax};
use crate::ops::pointwise::*;
use crate::ops::reduce::{logsumexp, sum};

rules! {
    /// Operations that stay finite where their parts do not.
    pub static STABLE;

    /// Multiplication by a reciprocal, which is infinite for subnormal divisors.
    mul_reciprocal: |x: &Tensor, y: &Tensor| x * reciprocal(y) => |x: &Tensor, y: &Tensor| x / y;
    /// `log(1 + exp(x))`.
    softplus: |x: &Tensor| any_of([log(exp(x) + exactly(1.0)), log1p(exp(x))]) => |x: &Tensor| plain_softplus(x),
        when "x is not of f64, where it shows that softplus is linear above 20" is_coarse;
    /// `log(sigmoid(x))`.
    log_of_sigmoid: |x: &Tensor| log(sigmoid(x)) => |x: &Tensor| logsigmoid(x), when "x is of f32 or f64" is_wide;
    /// `exp(x) / sum(exp(x))`.
    exp_over_sum: |x: &Tensor| {
        let e = exp(x);
        &e / sum(&e, integer("d"), true)
    } => |x: &Tensor| softmax(x, integer("d")), when "x is of f32 or f64" is_wide;
    /// The logarithm of a softmax, of which an infinite operand makes NaN.
    log_softmax: |x: &Tensor| x - logsumexp(x, integer("d"), true) => |x: &Tensor| log_softmax(x, integer("d")),
        when "x is of f32 or f64" is_wide;
    /// The logarithm of a softmax.
    log_of_softmax: |x: &Tensor| log(softmax(x, integer("d"))) => |x: &Tensor| log_softmax(x, integer("d")),
        when "x is of f32 or f64" is_wide;
    /// The logarithm of a sum of exponentials.
    logsumexp: |x: &Tensor| capture(log(capture(sum(exp(x), 0, true), "s")), "y"), build |m| {
        let (Some(axes), Some(keep)) = (m.ints("s.dim"), flag(m, "s.keepdim")) else { return Ok(None) };
        symbolic_trace(move |x: &Tensor| logsumexp(x, axes.clone(), keep)).map(Some)
    }, free "s.dim", free "s.keepdim", when "x is of f32 or f64" is_wide;
}
