//! Which calls can be parts of fused kernels, and as what: by their arguments and the types of their operands.
//!
//! The pass `fuse` makes groups by these facts, and the engine makes kernels of groups by the same ones.

use std::ops::Range;

use fx_core::op::kind::IntVec;
use fx_core::pointwise::{Argument, PointwiseCall, PointwiseDef};
use fx_core::rowwise::{RowCall, without_leaves};
use fx_core::{Arg, DType, Dim, NodeId, Op, Result, Scalar, TensorType};
use smallvec::SmallVec;

use crate::kernel::conv::ConvSpec;
use crate::ops::conv::{conv1d, conv2d, conv3d, convolution, each};
use crate::ops::linalg::{addmm, bmm, linear, matmul, mm};

/// A reduction of floats that is computed over any neighbouring axes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reduction {
    Sum,
    Mean,
    Amax,
    Amin,
}

/// Returns whether a call can be the anchor of a group: a matrix product or a convolution of floats, or a gufunc
/// with one result of floats.
pub(crate) fn is_anchor(
    op: Op,
    bound: &[Arg],
    ty: impl Fn(&Arg) -> Option<TensorType>,
    out: &TensorType,
) -> bool {
    matches!(out.dtype, DType::F32 | DType::F64)
        && (is_product(op, bound, &ty) || is_convolution(op, bound, &ty) || is_gufunc(op, bound, &ty))
}

/// Returns whether a call is a gufunc with one result that can be a step of a plan.
fn is_gufunc(op: Op, bound: &[Arg], ty: impl Fn(&Arg) -> Option<TensorType>) -> bool {
    let Some(def) = op.gufunc else { return false };
    let is_fine = |arg: &Arg| match arg {
        Arg::None => true,
        arg => ty(arg).is_some_and(|ty| !is_half(ty.dtype)),
    };
    def.results.len() == 1 && def.call(bound).is_some() && bound[..def.operands.len()].iter().all(is_fine)
}

/// Returns whether a call is a product of matrices, perhaps with a sum.
pub(crate) fn is_product(op: Op, bound: &[Arg], ty: impl Fn(&Arg) -> Option<TensorType>) -> bool {
    let rank = |arg: &Arg| ty(arg).map_or(0, |ty| ty.rank());
    match bound {
        [x, weight, _] if op == linear::OP => rank(weight) == 2 && rank(x) >= 1,
        [a, b] if op == matmul::OP => rank(a) >= 2 && rank(b) >= 2,
        [_, _] => op == mm::OP || op == bmm::OP,
        [_, _, _, beta, alpha] if op == addmm::OP => {
            [beta, alpha].iter().all(|x| x.scalar().is_some_and(|x| x.to_f64() == 1.0))
        }
        _ => false,
    }
}

/// What a call of a convolution says besides its operands.
pub(crate) fn spec_of(op: Op, bound: &[Arg]) -> Option<ConvSpec> {
    let rank = match () {
        () if op == conv1d::OP => 1,
        () if op == conv2d::OP => 2,
        () if op == conv3d::OP => 3,
        () if op == convolution::OP => 0,
        () => return None,
    };
    let (stride, padding, dilation, groups) = match bound {
        [_, _, _, stride, padding, dilation, groups] if rank > 0 => (stride, padding, dilation, groups),
        [_, _, _, stride, padding, dilation, Arg::Bool(false), _, groups] if rank == 0 => {
            (stride, padding, dilation, groups)
        }
        _ => return None,
    };
    let Arg::Int(groups) = groups else { return None };
    let padding = match padding {
        Arg::Str(text) if **text == *"valid" => IntVec::from_slice(&[0]),
        padding => ints(padding)?,
    };
    fn all<const N: usize>(
        stride: &[i64],
        padding: &[i64],
        dilation: &[i64],
        groups: usize,
    ) -> Result<ConvSpec> {
        let unsigned = |numbers: [i64; N]| numbers.map(|n| n as usize).to_vec();
        Ok(ConvSpec {
            stride: unsigned(each::<N>("stride", stride, 1)?),
            padding: unsigned(each::<N>("padding", padding, 0)?),
            dilation: unsigned(each::<N>("dilation", dilation, 1)?),
            groups,
            ..ConvSpec::new(N)
        })
    }
    let (stride, dilation, groups) = (ints(stride)?, ints(dilation)?, usize::try_from(*groups).ok()?);
    let rank = if rank == 0 { stride.len() } else { rank };
    match rank {
        1 => all::<1>(&stride, &padding, &dilation, groups),
        2 => all::<2>(&stride, &padding, &dilation, groups),
        3 => all::<3>(&stride, &padding, &dilation, groups),
        _ => return None,
    }
    .ok()
}

/// Returns whether a call is a convolution of a batch.
pub(crate) fn is_convolution(op: Op, bound: &[Arg], ty: impl Fn(&Arg) -> Option<TensorType>) -> bool {
    spec_of(op, bound)
        .is_some_and(|spec| bound.first().and_then(&ty).is_some_and(|x| x.rank() == spec.stride.len() + 2))
}

/// The longest row that is kept in registers.
pub(crate) const LONGEST_ROW: usize = 1 << 16;

/// Returns the row-wise call that a call is, and over how many of the last axes of its first operand, which is of
/// type `x`.
pub(crate) fn row_call<L>(op: Op, bound: &[Arg<L>], x: &TensorType) -> Option<(RowCall, usize)> {
    if !matches!(x.dtype, DType::F32 | DType::F64) {
        return None;
    }
    let leaves: SmallVec<[Arg<()>; 8]> = bound.iter().map(without_leaves).collect();
    let rowwise = (op.rows?)(&leaves, x)?;
    Some((rowwise.call, rowwise.last_axes(x.rank())?))
}

/// Returns whether rows of so many of the last axes are known to be too long for registers.
pub(crate) fn are_long(x: &TensorType, axes: usize) -> bool {
    let row = x.shape[x.rank() - axes..].iter().try_fold(1i64, |n, dim| n.checked_mul(dim.known()?));
    row.is_some_and(|n| n > LONGEST_ROW as i64)
}

/// Returns the reduction over axes before the last ones that a call is, and these axes of its operand, which
/// is of type `x`.
pub(crate) fn column_reduction(op: Op, bound: &[Arg], x: &TensorType) -> Option<(Reduction, Range<usize>)> {
    reduction(op, bound, x).filter(|(_, axes)| axes.end < x.rank())
}

/// The fewest columns that are reduced by a kernel of a plan.
const FEWEST_COLUMNS: i64 = 16;

/// Returns whether a call reduces axes before the last ones, and enough columns for a kernel of a plan, as
/// far as that is known.
pub(crate) fn has_columns(op: Op, bound: &[Arg], x: &TensorType) -> bool {
    column_reduction(op, bound, x).is_some_and(|(_, axes)| are_columns(&x.shape[axes.end..]))
}

/// Returns whether axes of these sizes have enough columns for a kernel of a plan, as far as that is known.
pub(crate) fn are_columns(sizes: &[Dim]) -> bool {
    let columns = sizes.iter().try_fold(1i64, |n, dim| n.checked_mul(dim.bounds().1?));
    columns.is_none_or(|n| n >= FEWEST_COLUMNS)
}

/// Returns the reduction of floats over neighbouring axes that a call is.
pub(crate) fn reduction<L>(op: Op, bound: &[Arg<L>], x: &TensorType) -> Option<(Reduction, Range<usize>)> {
    let [_, dim, _, rest @ ..] = bound else { return None };
    let same_dtype =
        |arg: &Arg<L>| matches!(arg, Arg::None) || matches!(arg, Arg::DType(dtype) if *dtype == x.dtype);
    if !matches!(x.dtype, DType::F32 | DType::F64) || !rest.iter().all(same_dtype) {
        return None;
    }
    let kind = match () {
        () if op == crate::ops::reduce::sum::OP => Reduction::Sum,
        () if op == crate::ops::reduce::mean::OP => Reduction::Mean,
        () if op == crate::ops::reduce::amax::OP => Reduction::Amax,
        () if op == crate::ops::reduce::amin::OP => Reduction::Amin,
        () => return None,
    };
    Some((kind, neighbours(dim, x.rank())?))
}

/// Returns the axes that an argument names, in order and each once; none means all.
pub(crate) fn axes_of<L>(dim: &Arg<L>, rank: usize) -> Option<Vec<usize>> {
    let axis = |arg: &Arg<L>| match arg {
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
fn neighbours<L>(dim: &Arg<L>, rank: usize) -> Option<Range<usize>> {
    let axes = axes_of(dim, rank)?;
    let range = *axes.first()?..*axes.last()? + 1;
    (axes.len() == range.len()).then_some(range)
}

/// Returns whether a dtype is only stored, and computed in `f32`.
pub(crate) fn is_half(dtype: DType) -> bool {
    matches!(dtype, DType::F16 | DType::BF16)
}

/// Returns mask and choices of a call that chooses between two operands element by element, in this order.
pub(crate) fn select_of(op: Op, bound: &[Arg]) -> Option<[&Arg; 3]> {
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

/// Resolves a call of a row that can be an instruction. `ty` tells the types of tensors. Fails with the reason if
/// the call can be none.
pub(crate) fn map_call<'a>(
    def: &'static PointwiseDef,
    bound: &[Arg],
    ty: impl Fn(NodeId) -> Option<&'a TensorType>,
) -> Result<PointwiseCall, &'static str> {
    let n = def.operands.len();
    let mut arguments: SmallVec<[Argument; 4]> = SmallVec::new();
    for arg in &bound[..n] {
        arguments.push(match arg {
            Arg::None => Argument::Absent,
            Arg::Dim(_) => return Err("it takes a size that is not known"),
            Arg::Leaf(id) => Argument::from(ty(*id).ok_or("an operand is not a tensor of known type")?),
            arg => Argument::Known(arg.scalar().ok_or("an operand is no number")?),
        });
    }
    let params = bound[n..].iter().map(Arg::scalar).collect::<Option<SmallVec<[Scalar; 4]>>>();
    let params = params.ok_or("a parameter is not a number")?;
    if !arguments.iter().any(|argument| matches!(argument, Argument::Tensor { .. })) {
        return Err("all operands are numbers");
    }
    let has_halves =
        |argument: &Argument| matches!(argument, Argument::Tensor { dtype, .. } if is_half(*dtype));
    if arguments.iter().any(has_halves) {
        return Err("it is computed in half precision");
    }
    match def.resolve(&arguments, &params) {
        Ok(call) if is_half(call.dtype) => Err("it is computed in half precision"),
        Ok(call) if call.check().is_some() => Err("it checks its operands"),
        Ok(call) => Ok(call),
        Err(_) => Err("it has a number that its dtype cannot hold"),
    }
}

/// Returns an argument that is an integer or a list of them.
pub(crate) fn ints<L>(arg: &Arg<L>) -> Option<IntVec> {
    let int = |arg: &Arg<L>| match arg {
        Arg::Int(n) => Some(*n),
        _ => None,
    };
    match arg {
        Arg::Int(n) => Some(IntVec::from_slice(&[*n])),
        arg => arg.items()?.iter().map(int).collect(),
    }
}
