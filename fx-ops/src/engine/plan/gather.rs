//! Look-ups in a plan: embeddings, and elements and sub-tensors at positions along an axis.

use fx_core::{Arg, DType, Error, NodeId, Op, Result, ops};

use super::{Lower, Lowered, Lowering};
use crate::engine::gather::{GatherKernel, IndexKind};
use crate::engine::kernel::Kernel;
use crate::engine::record::Instance;
use crate::engine::step::Home;
use crate::ops::embedding::{embedding, not_in_table};
use crate::ops::view::{gather, index_select, out_of_range};

pub(super) static TABLE: &[(Op, Lower)] =
    &[(embedding::OP, look_up), (gather::OP, look_up), (index_select::OP, look_up)];

/// Makes a kernel of a look-up by integers.
fn look_up(l: &mut Lowering<'_>, op: Op, bound: &[Arg], id: NodeId) -> Result<Option<Lowered>> {
    let (x, dim, index, index_kind, refused) = match bound {
        [index, weight, _, Arg::None, _] if op == embedding::OP => {
            (weight, 0, index, IndexKind::SubTensors, not_in_table as fn(i64, usize) -> Error)
        }
        [x, Arg::Int(dim), index] if op == index_select::OP => {
            (x, *dim, index, IndexKind::SubTensors, out_of_range as _)
        }
        [x, Arg::Int(dim), index] if op == gather::OP => (x, *dim, index, IndexKind::Each, out_of_range as _),
        _ => return Ok(None),
    };
    let (Some(x), Some(index)) = (l.tensor(x), l.tensor(index)) else { return Ok(None) };
    let Some((dtype, shape)) = l.typed(id)? else { return Ok(None) };
    if x.shape.is_empty() || !matches!(index.dtype, DType::I32 | DType::I64) {
        return Ok(None);
    }
    l.refuse_symbols(id);
    let (axis, mark) = (ops::axis(dim, x.shape.len())?, l.mark());
    let out = l.value(Home::Memory, dtype, shape.clone())?;
    let result = l.whole(out, shape)?;
    let (x, index) = (x.id, index.id);
    let make = move |instance: &Instance| -> Result<Option<Box<dyn Kernel>>> {
        let (x, index) = (instance.operand(x)?, instance.operand(index)?);
        let numel = instance.values[out as usize].numel;
        let kernel = GatherKernel::new(x, axis, index, index_kind, out, refused);
        let kernel = kernel.filter(|kernel| kernel.numel() == numel);
        Ok(kernel.map(|kernel| Box::new(kernel) as Box<dyn Kernel>))
    };
    if !l.kernel(vec![out], id, make)? {
        l.rewind(&mark);
        return Ok(None);
    }
    Ok(Some(Lowered::Tensor(result)))
}
