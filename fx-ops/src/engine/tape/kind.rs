//! Which operations tapes do, and how: by the calls and the types of their operands.

use std::ops::Range;

use fx_core::op::kind::OperandType;
use fx_core::pointwise::{PointwiseDef, result_dtype_of_types};
use fx_core::{Arg, DType, Dim, TensorType};

use super::RowKind;
use crate::ops::reduce::Spread;

/// The longest row that is kept in registers.
pub(crate) const LONGEST_ROW: usize = 1 << 16;

/// Returns the operation on rows that a call is, and over how many of the last axes of its first operand,
/// which is of type `x`.
pub(crate) fn row_kind(op: fx_core::Op, bound: &[Arg], x: &TensorType) -> Option<(RowKind, usize)> {
    if !matches!(x.dtype, DType::F32 | DType::F64) || x.rank() == 0 {
        return None;
    }
    let rank = x.rank();
    let same_dtype =
        |arg: &Arg| matches!(arg, Arg::None) || matches!(arg, Arg::DType(dtype) if *dtype == x.dtype);
    let is_last = |arg: &Arg| matches!(arg, Arg::Int(axis) if *axis == -1 || *axis == rank as i64 - 1);
    let float = |arg: &Arg| match arg {
        Arg::Float(x) => Some(*x),
        Arg::Int(x) => Some(*x as f64),
        _ => None,
    };
    match (op.name, bound) {
        ("softmax", [_, dim, dtype])
            if op == crate::ops::norm::softmax::OP && is_last(dim) && same_dtype(dtype) =>
        {
            Some((RowKind::Softmax, 1))
        }
        ("log_softmax", [_, dim, dtype])
            if op == crate::ops::norm::log_softmax::OP && is_last(dim) && same_dtype(dtype) =>
        {
            Some((RowKind::LogSoftmax, 1))
        }
        ("layer_norm", [_, shape, weight, bias, eps]) if op == crate::ops::norm::layer_norm::OP => {
            let n = shape.items().map_or(1, <[Arg]>::len);
            let [weight, bias] = [weight, bias].map(|arg| !matches!(arg, Arg::None));
            (n > 0).then_some((RowKind::LayerNorm { eps: float(eps)?, weight, bias }, n))
        }
        ("rms_norm", [_, shape, weight, eps]) if op == crate::ops::norm::rms_norm::OP => {
            let n = shape.items().map_or(1, <[Arg]>::len);
            let default = if x.dtype == DType::F64 { f64::EPSILON } else { f64::from(f32::EPSILON) };
            let eps = if matches!(eps, Arg::None) { default } else { float(eps)? };
            (n > 0).then_some((RowKind::RmsNorm { eps, weight: !matches!(weight, Arg::None) }, n))
        }
        _ => {
            let (kind, axes) = match Spread::of(op, bound) {
                Some(spread) if op == crate::ops::reduce::var::OP || op == crate::ops::reduce::std::OP => {
                    (RowKind::Spread(spread), neighbours(&bound[1], rank)?)
                }
                _ => reduction(op, bound, x)?,
            };
            (axes.end == rank).then_some((kind, axes.len()))
        }
    }
}

/// Returns the reduction over axes before the last ones that a call is, and these axes of its operand, which
/// is of type `x`.
pub(crate) fn column_kind(op: fx_core::Op, bound: &[Arg], x: &TensorType) -> Option<(RowKind, Range<usize>)> {
    reduction(op, bound, x).filter(|(_, axes)| axes.end < x.rank())
}

/// The fewest columns that are reduced by a kernel of a plan.
const FEWEST_COLUMNS: i64 = 16;

/// Returns whether a call reduces axes before the last ones, and enough columns for a kernel of a plan, as
/// far as that is known.
pub(crate) fn has_columns(op: fx_core::Op, bound: &[Arg], x: &TensorType) -> bool {
    column_kind(op, bound, x).is_some_and(|(_, axes)| are_columns(&x.shape[axes.end..]))
}

/// Returns whether axes of these sizes have enough columns for a kernel of a plan, as far as that is known.
pub(crate) fn are_columns(sizes: &[Dim]) -> bool {
    let columns = sizes.iter().try_fold(1i64, |n, dim| n.checked_mul(dim.bounds().1?));
    columns.is_none_or(|n| n >= FEWEST_COLUMNS)
}

/// Returns the reduction of floats over neighbouring axes that a call is.
fn reduction(op: fx_core::Op, bound: &[Arg], x: &TensorType) -> Option<(RowKind, Range<usize>)> {
    let [_, dim, _, rest @ ..] = bound else { return None };
    let same_dtype =
        |arg: &Arg| matches!(arg, Arg::None) || matches!(arg, Arg::DType(dtype) if *dtype == x.dtype);
    if !matches!(x.dtype, DType::F32 | DType::F64) || !rest.iter().all(same_dtype) {
        return None;
    }
    let kind = match () {
        () if op == crate::ops::reduce::sum::OP => RowKind::Sum,
        () if op == crate::ops::reduce::mean::OP => RowKind::Mean,
        () if op == crate::ops::reduce::amax::OP => RowKind::Amax,
        () if op == crate::ops::reduce::amin::OP => RowKind::Amin,
        () => return None,
    };
    Some((kind, neighbours(dim, x.rank())?))
}

/// Returns the axes that an argument names, in order and each once; none means all.
pub(crate) fn axes_of(dim: &Arg, rank: usize) -> Option<Vec<usize>> {
    let axis = |arg: &Arg| match arg {
        Arg::Int(axis) => fx_core::ops::axis(*axis, rank).ok(),
        _ => None,
    };
    let mut axes: Vec<usize> = match dim {
        Arg::None => (0..rank).collect(),
        Arg::Int(_) => vec![axis(dim)?],
        _ => dim.items()?.iter().map(axis).collect::<Option<_>>()?,
    };
    axes.sort_unstable();
    axes.dedup();
    Some(axes)
}

/// Returns the axes that an argument names, if these are neighbours.
fn neighbours(dim: &Arg, rank: usize) -> Option<Range<usize>> {
    let axes = axes_of(dim, rank)?;
    let range = *axes.first()?..*axes.last()? + 1;
    (axes.len() == range.len()).then_some(range)
}

/// Returns whether a dtype is only stored, and computed in `f32`.
pub(crate) fn is_half(dtype: DType) -> bool {
    matches!(dtype, DType::F16 | DType::BF16)
}

/// Returns mask and choices of a call that chooses between two operands element by element, in this order.
pub(crate) fn select_of(op: fx_core::Op, bound: &[Arg]) -> Option<[&Arg; 3]> {
    match bound {
        [mask, yes, no] if op == crate::ops::view::where_::OP => Some([mask, yes, no]),
        [no, mask, yes @ (Arg::Float(_) | Arg::Int(_))] if op == crate::ops::view::masked_fill::OP => {
            Some([mask, yes, no])
        }
        _ => None,
    }
}

/// Returns whether a choice can be an instruction, from the types of the operands and of the result.
pub(crate) fn is_select(args: [&Arg; 3], ty: impl Fn(&Arg) -> Option<TensorType>, out: &TensorType) -> bool {
    let is_fine = |arg: &Arg| match arg {
        Arg::Leaf(_) => ty(arg).is_some_and(|ty| !is_half(ty.dtype)),
        // A number is one that the dtype can hold.
        Arg::Int(_) | Arg::Float(_) | Arg::Bool(_) => out.dtype.is_float(),
        _ => false,
    };
    !is_half(out.dtype) && args.into_iter().all(is_fine)
}

/// Returns whether an operation of this dtype of result and these types of operands can be an instruction,
/// with the dtype in which it is computed.
pub(crate) fn map_dtype(def: &PointwiseDef, operands: &[OperandType<'_>]) -> Option<DType> {
    let any_half = operands.iter().any(|x| matches!(x, OperandType::Tensor(ty) if is_half(ty.dtype)));
    let all_numbers = operands.iter().all(|x| matches!(x, OperandType::Scalar(_)));
    if any_half || all_numbers {
        return None;
    }
    let dtype = def.compute_dtype(result_dtype_of_types(operands)).ok()?;
    (!is_half(dtype) && (def.check.is_none() || dtype.is_float())).then_some(dtype)
}
