//! Scaled dot product attention in a plan.

use fx_core::{Arg, DType, NodeId, Op, Result};

use super::{Lower, Lowered, Lowering};
use crate::engine::attention::{AttentionKernel, Options};
use crate::engine::kernel::Kernel;
use crate::engine::operand::Operand;
use crate::engine::record::Instance;
use crate::engine::step::Home;
use crate::ops::attention::scaled_dot_product_attention;

pub(super) static TABLE: &[(Op, Lower)] = &[(scaled_dot_product_attention::OP, attention)];

/// Makes a kernel of attention, which takes keys and values in parts.
fn attention(l: &mut Lowering<'_>, _: Op, bound: &[Arg], id: NodeId) -> Result<Option<Lowered>> {
    let result = l.attention_kernel(bound, id)?;
    if result.is_none() {
        for input in l.gm.graph().node(id)?.inputs().collect::<Vec<_>>() {
            l.settle(input, id)?;
        }
    }
    Ok(result)
}

impl Lowering<'_> {
    fn attention_kernel(&mut self, bound: &[Arg], id: NodeId) -> Result<Option<Lowered>> {
        let [
            q,
            k,
            v,
            mask,
            dropout,
            Arg::Bool(is_causal),
            scale,
            Arg::Bool(grouped),
            Arg::Bool(safe_softmax),
        ] = bound
        else {
            return Ok(None);
        };
        let Some((dtype, shape)) = self.typed(id)? else { return Ok(None) };
        let scale = match scale {
            Arg::None => None,
            arg => match arg.scalar() {
                Some(x) => Some(x.to_f64()),
                None => return Ok(None),
            },
        };
        let no_dropout = dropout.scalar().is_some_and(|p| p.to_f64() == 0.0);
        if !no_dropout || !matches!(dtype, DType::F32 | DType::F64) || shape.len() < 2 {
            return Ok(None);
        }
        let lowered = |arg: &Arg| arg.leaf().and_then(|id| self.env.get(id)).cloned();
        let Some(Lowered::Tensor(q)) = lowered(q) else { return Ok(None) };
        let mask = match (mask, lowered(mask)) {
            (Arg::None, _) => None,
            (_, Some(Lowered::Tensor(mask))) if mask.dtype == dtype || mask.dtype == DType::Bool => {
                Some(mask)
            }
            _ => return Ok(None),
        };
        let is_along_keys = |parts: &[Operand], axis: usize| axis + 2 == parts[0].shape.len();
        let parts: Vec<(Operand, Operand)> = match (lowered(k), lowered(v)) {
            (Some(Lowered::Tensor(k)), Some(Lowered::Tensor(v))) => vec![(k, v)],
            (Some(Lowered::Concat(k, k_axis)), Some(Lowered::Concat(v, v_axis)))
                if k.len() == v.len()
                    && is_along_keys(&k, k_axis)
                    && is_along_keys(&v, v_axis)
                    && k.iter().zip(&v).all(|(k, v)| k.shape[k_axis] == v.shape[v_axis]) =>
            {
                k.into_iter().zip(v).collect()
            }
            _ => return Ok(None),
        };
        if parts.iter().any(|(k, v)| k.dtype != dtype || v.dtype != dtype) || q.dtype != dtype {
            return Ok(None);
        }
        // The result lies with the heads inside, as what follows most often wants it.
        let (rank, mark) = (shape.len(), self.mark());
        let mut physical = shape.clone();
        if rank >= 3 {
            physical.swap(rank - 3, rank - 2);
        }
        let value = self.value(Home::Memory, dtype, physical.clone())?;
        let out = self.whole(value, physical)?;
        let out = match rank {
            0..3 => out,
            _ => {
                let mut order: Vec<usize> = (0..rank).collect();
                order.swap(rank - 3, rank - 2);
                self.permuted(&out, &order)?
            }
        };
        self.refuse_symbols(id);
        let options =
            Options { is_causal: *is_causal, scale, grouped: *grouped, safe_softmax: *safe_softmax };
        let (q, to) = (q.id, out.id);
        let parts: Vec<_> = parts.iter().map(|(k, v)| (k.id, v.id)).collect();
        let mask = mask.map(|mask| mask.id);
        let make = move |instance: &Instance| -> Result<Option<Box<dyn Kernel>>> {
            let part = |(k, v): &(_, _)| Ok((instance.operand(*k)?.clone(), instance.operand(*v)?.clone()));
            let parts = parts.iter().map(part).collect::<Result<Vec<_>>>()?;
            let mask = mask.map(|mask| instance.operand(mask)).transpose()?;
            let (q, out) = (instance.operand(q)?, instance.operand(to)?);
            Ok(match dtype {
                DType::F64 => AttentionKernel::<f64>::new(q, &parts, mask, options, out)
                    .map(|kernel| Box::new(kernel) as Box<dyn Kernel>),
                DType::F32 => AttentionKernel::<f32>::new(q, &parts, mask, options, out)
                    .map(|kernel| Box::new(kernel) as Box<dyn Kernel>),
                _ => None,
            })
        };
        if !self.kernel(vec![value], id, make)? {
            self.rewind(&mark);
            return Ok(None);
        }
        Ok(Some(Lowered::Tensor(out)))
    }
}
