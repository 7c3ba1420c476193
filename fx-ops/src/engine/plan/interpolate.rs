//! Resizing: a kernel for each axis.

use fx_core::{Arg, DType, NodeId, Op, Result};

use super::{Lower, Lowered, Lowering, type_of};
use crate::engine::interpolate::InterpolateKernel;
use crate::engine::kernel::Kernel;
use crate::engine::record::{Instance, Size};
use crate::kernel::interpolate::Resample;
use crate::ops::interpolate::{self, upsample_bilinear, upsample_nearest};

pub(super) static TABLE: &[(Op, Lower)] = &[
    (interpolate::interpolate::OP, resizing),
    (upsample_bilinear::OP, resizing),
    (upsample_nearest::OP, resizing),
];

fn resizing(l: &mut Lowering<'_>, op: Op, bound: &[Arg], id: NodeId) -> Result<Option<Lowered>> {
    let Some(x) = bound.first().and_then(|x| l.tensor(x)) else { return Ok(None) };
    let Some(now) = interpolate::Plan::of(op, bound, &type_of(&x)) else { return Ok(None) };
    let (Some((dtype, shape)), true) = (l.typed(id)?, matches!(x.dtype, DType::F32 | DType::F64)) else {
        return Ok(None);
    };
    let mark = l.mark();
    let (x, layout) = l.without_gaps(x, id)?;
    let (rank, given) = (x.shape.len(), x.id);
    let mut from = x;
    for axis in (2..rank).rev() {
        let (mut sizes, to) = (l.shape_of(&from), shape[axis]);
        if let (Size::Known(old), Size::Known(new)) = (&sizes[axis], &to)
            && now.axis(axis - 2).is_identity(*old, *new)
        {
            continue;
        }
        sizes[axis] = to;
        let out = l.result(dtype, sizes, layout)?;
        let (args, holes) = l.symbolic_args(bound, id)?;
        let (x, out_id, place) = (from.id, out.id, layout.place(axis, rank));
        let make = move |instance: &Instance| -> Result<Option<Box<dyn Kernel>>> {
            let args = instance.fill(&args, &holes)?;
            let Some(plan) = interpolate::Plan::of(op, &args, &type_of(instance.operand(given)?)) else {
                return Ok(None);
            };
            let (x, out) = (instance.operand(x)?.clone(), instance.operand(out_id)?.clone());
            let taps = plan.taps(axis - 2, x.shape[axis], out.shape[axis]);
            let inner = layout.arrange(&x.shape)[place + 1..].iter().product();
            let input = x.shape[axis];
            Ok(Some(match dtype {
                DType::F64 => {
                    Box::new(InterpolateKernel::<f64> { resample: Resample::new(taps, input, inner), x, out })
                }
                DType::F32 => {
                    Box::new(InterpolateKernel::<f32> { resample: Resample::new(taps, input, inner), x, out })
                }
                _ => return Ok(None),
            }))
        };
        if !l.kernel(vec![out.value], id, make)? {
            l.rewind(&mark);
            return Ok(None);
        }
        from = out;
    }
    if from.id == given {
        // Nothing changes.
        l.rewind(&mark);
        return Ok(None);
    }
    Ok(Some(Lowered::Tensor(from)))
}
