//! Bags of embeddings, and convolutions of one image and of integers.

use super::{Call, Composition, run, stays, with};
use crate::{Arg, DType, Op, Result, Tensor, Value};

pub(super) static COMPOSITIONS: &[(Op, Composition)] =
    &[(crate::embedding_bag::OP, embedding_bag), (crate::convolution::OP, of_integers)];

fn embedding_bag(c: &Call<'_>) -> Result<Value> {
    if let Arg::Leaf(offsets) = c.get("offsets")? {
        return bags(c, &offsets);
    }
    let (Arg::None, Arg::None) = (c.get("offsets")?, c.get("max_norm")?) else { return Err(stays()) };
    if c.op.params.iter().any(|param| param.name == "padding_idx")
        && !matches!(c.get("padding_idx")?, Arg::None)
    {
        return Err(stays());
    }
    let mut rows = run(crate::embedding::OP, [c.get("x")?, c.get("weight")?])?;
    if let Arg::Leaf(weights) = c.get("per_sample_weights")? {
        let weights = run(crate::unsqueeze::OP, [Arg::Leaf(weights), Arg::Int(-1)])?;
        rows = run(crate::mul::OP, [rows, weights])?;
    }
    let op = match c.get("mode")? {
        Arg::Str(mode) if *mode == *"sum" => crate::sum::OP,
        Arg::Str(mode) if *mode == *"mean" => crate::mean::OP,
        _ => crate::amax::OP,
    };
    run(op, [rows, Arg::Int(1)])
}

/// Sums, means or maxima of the bags that begin at offsets.
fn bags(c: &Call<'_>, offsets: &Tensor) -> Result<Value> {
    let is_plain = |name: &str| Ok::<_, crate::Error>(matches!(c.get(name)?, Arg::None));
    if !(is_plain("max_norm")? && is_plain("padding_idx")?) {
        return Err(stays());
    }
    let (x, weight, dtype) = (c.tensor("x")?, c.tensor("weight")?, c.tensor("weight")?.dtype()?);
    let mut n = offsets.ty()?.shape.first().cloned().ok_or_else(stays)?;
    let mut starts = Arg::Leaf(offsets.clone());
    if c.is("include_last_offset")? {
        n -= 1;
        starts = run(crate::narrow::OP, [starts, Arg::Int(0), Arg::Int(0), Arg::dim(n.clone())])?;
    }
    let (Some(count), Some(width)) = (x.ty()?.shape.first().cloned(), weight.ty()?.shape.get(1).cloned())
    else {
        return Err(stays());
    };
    let mut rows = run(crate::embedding::OP, [Arg::Leaf(x), Arg::Leaf(weight)])?;
    if let Arg::Leaf(weights) = c.get("per_sample_weights")? {
        rows = run(crate::mul::OP, [rows, run(crate::unsqueeze::OP, [Arg::Leaf(weights), Arg::Int(-1)])?])?;
    }
    // The bag of each row is the last one that begins at it or before. Bag 0 has what is before the first one.
    let numbers = run(crate::arange::OP, [Arg::Int(0), Arg::dim(count.clone())])?;
    let bag = with(crate::searchsorted::OP, [starts, numbers], [("right", Arg::Bool(true))])?;
    let zeros =
        |sizes: Vec<Value>| with(crate::zeros::OP, [Arg::list(sizes)], [("dtype", Arg::DType(dtype))]);
    let all = Arg::dim(&n + 1);
    let rest = |x: Value| run(crate::slice::OP, [x, Arg::Int(0), Arg::Int(1), Arg::None]);
    let out = zeros(vec![all.clone(), Arg::dim(width.clone())])?;
    let mode = c.get("mode")?;
    if matches!(&mode, Arg::Str(mode) if **mode == *"max") {
        let args = [out, Arg::Int(0), bag, rows, Arg::str("amax")];
        return rest(with(crate::index_reduce::OP, args, [("include_self", Arg::Bool(false))])?);
    }
    let sums = rest(run(crate::index_add::OP, [out, Arg::Int(0), bag.clone(), rows])?)?;
    if matches!(&mode, Arg::Str(mode) if **mode == *"sum") {
        return Ok(sums);
    }
    let ones = with(crate::ones_like::OP, [bag.clone()], [("dtype", Arg::DType(dtype))])?;
    let counts = rest(run(crate::index_add::OP, [zeros(vec![all])?, Arg::Int(0), bag, ones])?)?;
    let counts = run(crate::clamp_min::OP, [counts, Arg::Int(1)])?;
    run(crate::div::OP, [sums, run(crate::unsqueeze::OP, [counts, Arg::Int(-1)])?])
}

/// Writes a convolution of one input without a batch as that of a batch of one.
fn without_batch(c: &Call<'_>) -> Result<Value> {
    let (x, weight) = (c.tensor("x")?, c.tensor("weight")?);
    if x.ty()?.rank() + 1 != weight.ty()?.rank() {
        return Err(stays());
    }
    let batch = run(crate::unsqueeze::OP, [Arg::Leaf(x), Arg::Int(0)])?;
    let args = std::iter::once(batch).chain(c.args[1..].iter().cloned());
    run(crate::squeeze::OP, [run(c.op, args)?, Arg::Int(0)])
}

/// Writes a convolution of one input without a batch, or of integers.
pub(super) fn convolution(c: &Call<'_>) -> Result<Value> {
    match c.tensor("x")?.dtype()?.is_int() {
        true => of_integers(c),
        false => without_batch(c),
    }
}

/// Writes a convolution of integers as one in f64, as eager code computes it.
fn of_integers(c: &Call<'_>) -> Result<Value> {
    let dtype = c.tensor("x")?.dtype()?;
    if !dtype.is_int() {
        return Err(stays());
    }
    let wide = |arg: &Value| match arg {
        Arg::Leaf(_) => run(crate::to::OP, [arg.clone(), Arg::DType(DType::F64)]),
        arg => Ok(arg.clone()),
    };
    let sums = run(c.op, c.args.iter().map(wide).collect::<Result<Vec<Value>>>()?)?;
    run(crate::to::OP, [sums, Arg::DType(dtype)])
}
