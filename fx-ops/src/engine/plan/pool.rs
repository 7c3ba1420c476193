//! Pooling, and means over the axes of an image.

use fx_core::{Arg, DType, NodeId, Op, Result};

use super::{Lower, Lowered, Lowering};
use crate::engine::kernel::Kernel;
use crate::engine::operand::Layout;
use crate::engine::pool::{PoolKernel, pool_of};
use crate::engine::record::Instance;
use crate::ops::pool::{
    adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d, avg_pool1d, avg_pool2d, avg_pool3d,
    max_pool1d, max_pool2d, max_pool3d,
};
use crate::ops::reduce::mean;

pub(super) static TABLE: &[(Op, Lower)] = &[
    (adaptive_avg_pool1d::OP, pooling),
    (adaptive_avg_pool2d::OP, pooling),
    (adaptive_avg_pool3d::OP, pooling),
    (avg_pool1d::OP, pooling),
    (avg_pool2d::OP, pooling),
    (avg_pool3d::OP, pooling),
    (max_pool1d::OP, pooling),
    (max_pool2d::OP, pooling),
    (max_pool3d::OP, pooling),
    (mean::OP, pooling),
];

/// Makes a kernel of a pooling of an operand whose channels lie last.
fn pooling(l: &mut Lowering<'_>, op: Op, bound: &[Arg], id: NodeId) -> Result<Option<Lowered>> {
    let Some(x) = bound.first().and_then(|x| l.tensor(x)) else { return Ok(None) };
    let Some((dtype, shape)) = l.typed(id)? else { return Ok(None) };
    // Tapes have means of rows.
    let is_of_rows = x.layout() != Some(Layout::ChannelsLast) && op == mean::OP;
    if !matches!(dtype, DType::F32 | DType::F64) || dtype != x.dtype || x.shape.len() < 3 || is_of_rows {
        return Ok(None);
    }
    if pool_of(op, bound, &x.shape, &l.instance.sizes(&shape)?).is_none() {
        return Ok(None);
    }
    let (x, layout) = l.without_gaps(x, id)?;
    let mut out = l.result(dtype, shape.clone(), layout)?;
    if out.shape.len() < x.shape.len() {
        out = l.whole(out.value, shape.clone())?;
    }
    let (x, value) = (x.id, out.value);
    let (args, holes) = l.symbolic_args(bound, id)?;
    let make = move |instance: &Instance| -> Result<Option<Box<dyn Kernel>>> {
        let (x, args) = (instance.operand(x)?.clone(), instance.fill(&args, &holes)?);
        let numel = instance.values[value as usize].numel;
        let Some(pool) = pool_of(op, &args, &x.shape, &instance.sizes(&shape)?) else { return Ok(None) };
        Ok(Some(match dtype {
            DType::F64 => Box::new(PoolKernel::<f64>::new(pool, (x, layout), value, numel)),
            DType::F32 => Box::new(PoolKernel::<f32>::new(pool, (x, layout), value, numel)),
            _ => return Ok(None),
        }))
    };
    l.kernel(vec![value], id, make)?;
    Ok(Some(Lowered::Tensor(out)))
}
