//! The size of an axis as a recorded node, for traces without input specs.

use crate::op::kind::IntoValue;
use crate::{Arg, Array, Dim, Result, Scalar, TensorType, TypeTree, functions};

functions! {
    pub(super) static SIZE;

    /// The size of `x` along `dim`, an integer.
    size(x: Tensor, dim: Int) -> crate::Value = infer, eval;
}

fn infer(x: &TensorType, dim: Dim) -> Result<TypeTree> {
    let dim = dim.known().ok_or_else(crate::op::unknown_type)?;
    Ok(Arg::dim(x.shape[super::axis(dim, x.rank())?].clone()))
}

fn eval(x: &Array, dim: i64) -> Result<crate::Value> {
    Ok(Scalar::Int(x.shape()[super::axis(dim, x.rank())?] as i64).into_value())
}
