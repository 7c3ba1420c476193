//! Numbers of the host as recorded nodes: the size of an axis, for traces without input specs, and the
//! element of a tensor.

use crate::op::kind::IntoValue;
use crate::{Arg, Array, Category, Dim, Result, Scalar, Symbol, TensorType, Type, TypeTree, bail, functions};

functions! {
    pub(super) static SIZE;

    /// The size of `x` along `dim`, an integer.
    size(x: Tensor, dim: Int) -> crate::Value = infer, eval;

    /// The one element of `x` as a number of the host: an integer, float or bool. As an integer it is a size
    /// that depends on data. Fails unless `x` has one element.
    item(x: Tensor) -> crate::Value = infer_item, eval_item;
}

fn infer(x: &TensorType, dim: Dim) -> Result<TypeTree> {
    let dim = dim.known().ok_or_else(crate::op::unknown_type)?;
    Ok(Arg::dim(x.shape[super::axis(dim, x.rank())?].clone()))
}

fn eval(x: &Array, dim: i64) -> Result<crate::Value> {
    Ok(Scalar::Int(x.shape()[super::axis(dim, x.rank())?] as i64).into_value())
}

fn infer_item(x: &TensorType) -> Result<TypeTree> {
    if x.shape.numel().known().is_some_and(|n| n != 1) {
        bail!(Shape, "item takes a tensor of one element, got {x}");
    }
    Ok(match x.dtype.category() {
        Category::Bool => Arg::Leaf(Type::Bool),
        Category::Int => Arg::dim(Dim::symbol(Symbol::fresh(0).ranged(i64::MIN, None))),
        _ => Arg::Leaf(Type::Float),
    })
}

fn eval_item(x: &Array) -> Result<crate::Value> {
    x.item().map(Arg::from)
}
