//! Kernels of normalisations that are no tapes: those of channels, and softmax along other axes than the last.

use std::marker::PhantomData;

use fx_core::{Arg, DType, NodeId, Op, Result, ops};

use super::{Lower, Lowered, Lowering};
use crate::engine::group_norm::GroupNormKernel;
use crate::engine::kernel::Kernel;
use crate::engine::operand::{Operand, OperandId};
use crate::engine::record::Instance;
use crate::engine::softmax::SoftmaxKernel;
use crate::fusible::LONGEST_ROW;
use crate::kernel::group_norm::GroupNorm;
use crate::kernel::softmax::Softmax;
use crate::ops::normalization::{batch_norm, group_norm, log_softmax, softmax};

pub(super) static TABLE: &[(Op, Lower)] = &[
    (batch_norm::OP, norm_of_channels),
    (group_norm::OP, norm_of_channels),
    (log_softmax::OP, softmax_of_axis),
    (softmax::OP, softmax_of_axis),
];

/// Makes a kernel of a normalisation of groups of channels, or of channels over a batch.
fn norm_of_channels(l: &mut Lowering<'_>, op: Op, bound: &[Arg], id: NodeId) -> Result<Option<Lowered>> {
    let (x, groups, weight, bias, eps) = match bound {
        [x, Arg::Int(groups), weight, bias, Arg::Float(eps)] if op == group_norm::OP => {
            (x, Some(*groups as usize), weight, bias, *eps)
        }
        [x, _, _, weight, bias, Arg::Bool(true), _, Arg::Float(eps)] if op == batch_norm::OP => {
            (x, None, weight, bias, *eps)
        }
        _ => return Ok(None),
    };
    let Some(x) = l.tensor(x) else { return Ok(None) };
    let Some(layout) = x.layout() else { return Ok(None) };
    if !matches!(x.dtype, DType::F32 | DType::F64) {
        return Ok(None);
    }
    let affine = [l.tensor(weight), l.tensor(bias)];
    let is_given = [weight, bias].map(|arg| !matches!(arg, Arg::None));
    let fits = |operand: &Operand| operand.dtype == x.dtype && operand.is_contiguous();
    if affine.each_ref().map(Option::is_some) != is_given || !affine.iter().flatten().all(fits) {
        return Ok(None);
    }
    if x.shape.len() < 2 {
        return Ok(None);
    }
    l.refuse_symbols(id);
    let out = l.result(x.dtype, l.shape_of(&x), layout)?;
    let (value, x) = (out.value, x.id);
    let affine = affine.map(|operand| operand.map(|operand| operand.id));
    let make = move |instance: &Instance| -> Result<Option<Box<dyn Kernel>>> {
        let x = instance.operand(x)?.clone();
        let [_, channels, plane @ ..] = &x.shape[..] else { return Ok(None) };
        let (channels, plane) = (*channels, plane.iter().product());
        let is_across = groups.is_none();
        let norm = GroupNorm { channels, plane, groups: groups.unwrap_or(channels), eps };
        let operand = |id: Option<OperandId>| id.map(|id| instance.operand(id).cloned()).transpose();
        let (affine, out) = ([operand(affine[0])?, operand(affine[1])?], value);
        let boxed = match x.dtype {
            DType::F32 => GroupNormKernel::<f32>::boxed,
            _ => GroupNormKernel::<f64>::boxed,
        };
        Ok(Some(boxed((norm, is_across), x, affine, layout, out)))
    };
    l.kernel(vec![value], id, make)?;
    Ok(Some(Lowered::Tensor(out)))
}

/// Makes a kernel of a softmax of what is no row of a tape.
fn softmax_of_axis(l: &mut Lowering<'_>, op: Op, bound: &[Arg], id: NodeId) -> Result<Option<Lowered>> {
    let [x, Arg::Int(axis), dtype] = bound else { return Ok(None) };
    let Some(x) = l.tensor(x) else { return Ok(None) };
    let is_same = matches!(dtype, Arg::None) || matches!(dtype, Arg::DType(dtype) if *dtype == x.dtype);
    let rank = x.shape.len();
    if !is_same || !matches!(x.dtype, DType::F32 | DType::F64) || rank == 0 {
        return Ok(None);
    }
    let (axis, log) = (ops::axis(*axis, rank)?, op == log_softmax::OP);
    if axis + 1 == rank && x.shape[axis] <= LONGEST_ROW {
        return Ok(None);
    }
    let mark = l.mark();
    let (x, layout) = l.without_gaps(x, id)?;
    let out = l.result(x.dtype, l.shape_of(&x), layout)?;
    let (value, x) = (out.value, x.id);
    // The axis as it lies in memory.
    let place = layout.place(axis, rank);
    let make = move |instance: &Instance| -> Result<Option<Box<dyn Kernel>>> {
        let x = instance.operand(x)?.clone();
        let lies: Vec<usize> = layout.arrange(&x.shape).into_iter().collect();
        let Some(softmax) = Softmax::along(&lies, place, log) else { return Ok(None) };
        Ok(Some(match x.dtype {
            DType::F64 => Box::new(SoftmaxKernel::<f64> { softmax, x, out: value, this: PhantomData }),
            DType::F32 => Box::new(SoftmaxKernel::<f32> { softmax, x, out: value, this: PhantomData }),
            _ => return Ok(None),
        }))
    };
    if !l.kernel(vec![value], id, make)? {
        l.rewind(&mark);
        return Ok(None);
    }
    Ok(Some(Lowered::Tensor(out)))
}
