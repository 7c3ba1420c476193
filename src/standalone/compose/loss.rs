//! Losses that stand-alone code computes by other operations.

use super::{Call, Composition, dtype_of, reduced, run, stays, with};
use crate::{Arg, DType, Op, Result, Value};

pub(super) static COMPOSITIONS: &[(Op, Composition)] = &[
    (crate::nll_loss::OP, |c| {
        let (x, dtype) = (wide(c.get("x")?)?, c.tensor("x")?.dtype()?);
        narrowed(of_classes(c, &x, 0.0)?, dtype)
    }),
    (crate::multi_margin_loss::OP, multi_margin),
    (crate::multilabel_margin_loss::OP, |c| {
        if matches!(c.get("reduction")?, Arg::Str(name) if &*name == "none") {
            return Err(stays());
        }
        let dtype = c.tensor("x")?.dtype()?;
        let (x, target) = (wide(c.get("x")?)?, c.get("target")?);
        let each = with(c.op, [x, target], [("reduction", Arg::Str("none".into()))])?;
        narrowed(reduced(c, each)?, dtype)
    }),
    (crate::cross_entropy::OP, |c| {
        let dtype = c.tensor("x")?.dtype()?;
        let smoothing = c.number("label_smoothing")?;
        let logs = run(crate::log_softmax::OP, [wide(c.get("x")?)?, Arg::Int(axis(c)?)])?;
        let loss = match c.tensor("target")?.dtype()?.is_float() {
            true => of_shares(c, &logs, smoothing)?,
            false => of_classes(c, &logs, smoothing)?,
        };
        narrowed(loss, dtype)
    }),
    (crate::binary_cross_entropy::OP, |c| {
        let dtype = c.tensor("x")?.dtype()?;
        let (x, target) = (wide(c.get("x")?)?, wide(c.get("target")?)?);
        let log = |x: Value| run(crate::clamp_min::OP, [x, Arg::Float(-100.0)]);
        let yes = log(run(crate::log::OP, [x.clone()])?)?;
        let no = log(run(crate::log1p::OP, [run(crate::neg::OP, [x])?])?)?;
        let no = run(crate::mul::OP, [run(crate::sub::OP, [target.clone(), Arg::Int(1)])?, no])?;
        let mut each = run(crate::sub::OP, [no, run(crate::mul::OP, [target, yes])?])?;
        if let weight @ Arg::Leaf(_) = c.get("weight")? {
            each = run(crate::mul::OP, [each, wide(weight)?])?;
        }
        narrowed(reduced(c, each)?, dtype)
    }),
];

/// Returns a tensor of halves in `f32`, any other as it is.
fn wide(x: Value) -> Result<Value> {
    match dtype_of(&x)? {
        DType::F16 | DType::BF16 => run(crate::to::OP, [x, Arg::DType(DType::F32)]),
        _ => Ok(x),
    }
}

/// Returns a loss in the dtype of the operands.
fn narrowed(loss: Value, dtype: DType) -> Result<Value> {
    if dtype_of(&loss)? == dtype { Ok(loss) } else { run(crate::to::OP, [loss, Arg::DType(dtype)]) }
}

/// Returns the axis of the classes.
fn axis(c: &Call<'_>) -> Result<i64> {
    Ok(i64::from(c.tensor("x")?.ty()?.rank() > 1))
}

/// Returns the number of classes.
fn classes(c: &Call<'_>) -> Result<i64> {
    let at = axis(c)? as usize;
    c.tensor("x")?.ty()?.shape.get(at).and_then(crate::Dim::known).ok_or_else(stays)
}

/// Composes the loss of targets that are classes, from the logarithms of their shares.
fn of_classes(c: &Call<'_>, logs: &Value, smoothing: f64) -> Result<Value> {
    let axis = Arg::Int(axis(c)?);
    let target = run(crate::to::OP, [c.get("target")?, Arg::DType(DType::I64)])?;
    let ignored = run(crate::eq::OP, [target.clone(), c.get("ignore_index")?])?;
    let counted = |x: Value| run(crate::masked_fill::OP, [x, ignored.clone(), Arg::Int(0)]);
    let class = counted(target)?;
    let at = run(crate::unsqueeze::OP, [class.clone(), axis.clone()])?;
    let picked = run(crate::gather::OP, [logs.clone(), axis.clone(), at])?;
    let picked = run(crate::neg::OP, [run(crate::squeeze::OP, [picked, axis.clone()])?])?;
    let weight = match c.get("weight")? {
        weight @ Arg::Leaf(_) => Some(wide(weight)?),
        _ => None,
    };
    let own = match &weight {
        Some(weight) => run(crate::take::OP, [weight.clone(), class])?,
        None => run(crate::ones_like::OP, [picked.clone()])?,
    };
    let mut each = run(crate::mul::OP, [picked, own.clone()])?;
    if smoothing > 0.0 {
        let all = match weight {
            Some(weight) => run(crate::mul::OP, [logs.clone(), along_classes(c, weight)?])?,
            None => logs.clone(),
        };
        let all = run(crate::neg::OP, [run(crate::sum::OP, [all, axis])?])?;
        let share = Arg::Float(smoothing / classes(c)? as f64);
        let rest = run(crate::mul::OP, [each, Arg::Float(1.0 - smoothing)])?;
        each = run(crate::add::OP, [rest, run(crate::mul::OP, [all, share])?])?;
    }
    let each = counted(each)?;
    match c.get("reduction")? {
        Arg::Str(kind) if *kind == *"mean" => {
            let total = run(crate::sum::OP, [counted(own)?])?;
            run(crate::div::OP, [run(crate::sum::OP, [each])?, total])
        }
        _ => reduced(c, each),
    }
}

/// Composes the loss of targets that are shares of all classes.
fn of_shares(c: &Call<'_>, logs: &Value, smoothing: f64) -> Result<Value> {
    let mut target = wide(c.get("target")?)?;
    if smoothing > 0.0 {
        let kept = run(crate::mul::OP, [target, Arg::Float(1.0 - smoothing)])?;
        target = run(crate::add::OP, [kept, Arg::Float(smoothing / classes(c)? as f64)])?;
    }
    if let weight @ Arg::Leaf(_) = c.get("weight")? {
        target = run(crate::mul::OP, [target, along_classes(c, wide(weight)?)?])?;
    }
    let each = run(crate::mul::OP, [target, logs.clone()])?;
    reduced(c, run(crate::neg::OP, [run(crate::sum::OP, [each, Arg::Int(axis(c)?)])?])?)
}

/// Returns a weight for each class, to be multiplied with the operand.
fn along_classes(c: &Call<'_>, weight: Value) -> Result<Value> {
    let behind = c.tensor("x")?.ty()?.rank() as i64 - 1 - axis(c)?;
    let shape = std::iter::once(-1).chain((0..behind).map(|_| 1));
    with(crate::reshape::OP, [weight, Arg::ints(shape)], [])
}

/// Composes the loss of the margins between the score of the right class and those of the others.
fn multi_margin(c: &Call<'_>) -> Result<Value> {
    let (scores, target) = (c.tensor("x")?, c.tensor("target")?);
    let (dtype, ty) = (scores.dtype()?, scores.ty()?);
    let (2, 1, p @ (1.0 | 2.0)) = (ty.rank(), target.ty()?.rank(), c.number("p")?) else {
        return Err(stays());
    };
    let n_classes = ty.shape[1].known().filter(|n| *n > 0).ok_or_else(stays)?;
    let target = run(crate::to::OP, [Arg::Leaf(target), Arg::DType(DType::I64)])?;
    let (x, at) = (wide(Arg::Leaf(scores))?, run(crate::unsqueeze::OP, [target.clone(), Arg::Int(1)])?);
    let own = run(crate::gather::OP, [x.clone(), Arg::Int(1), at.clone()])?;
    let gap = run(crate::add::OP, [run(crate::rsub::OP, [own, c.get("margin")?])?, x])?;
    let is_above = run(crate::gt::OP, [gap.clone(), Arg::Float(0.0)])?;
    let mut loss = if p == 2.0 { run(crate::mul::OP, [gap.clone(), gap])? } else { gap };
    if let weight @ Arg::Leaf(_) = c.get("weight")? {
        let weight = run(crate::index_select::OP, [wide(weight)?, Arg::Int(0), target])?;
        loss = run(crate::mul::OP, [loss, run(crate::unsqueeze::OP, [weight, Arg::Int(1)])?])?;
    }
    let classes = run(crate::arange::OP, [Arg::Int(0), Arg::Int(n_classes)])?;
    // A weight that is not finite counts for losses only.
    let counts = run(crate::logical_and::OP, [is_above, run(crate::ne::OP, [at, classes])?])?;
    let others = run(crate::where_::OP, [counts, loss, Arg::Float(0.0)])?;
    let sums = run(crate::sum::OP, [others, Arg::Int(1)])?;
    narrowed(reduced(c, run(crate::div::OP, [sums, Arg::Int(n_classes)])?)?, dtype)
}
