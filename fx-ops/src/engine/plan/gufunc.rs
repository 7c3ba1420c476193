//! Operations on blocks in a plan.

use fx_core::gufunc::{GufuncCall, GufuncDef};
use fx_core::{Arg, DType, NodeId, Result, TypeTree};
use smallvec::SmallVec;

use super::kernels::Epilogues;
use super::{Lowered, Lowering, known};
use crate::engine::gufunc::{GufuncKernel, has_dense_core};
use crate::engine::kernel::Kernel;
use crate::engine::operand::{Layout, Operand, OperandId, ValueId};
use crate::engine::record::Instance;
use crate::fusible::is_half;

impl Lowering<'_> {
    /// Makes a kernel of a gufunc alone; `None` if it computes halves, or if its sizes are not known.
    pub(super) fn blocks(
        &mut self,
        def: &'static GufuncDef,
        bound: &[Arg],
        id: NodeId,
    ) -> Result<Option<Lowered>> {
        let Some(call) = def.call(bound) else { return Ok(None) };
        let given = bound[..def.operands.len()].iter().filter(|arg| !matches!(arg, Arg::None));
        let Some(operands) = given.map(|arg| self.tensor(arg)).collect::<Option<Vec<Operand>>>() else {
            return Ok(None);
        };
        let Some(ty) = self.gm.graph().node(id)?.ty().cloned() else { return Ok(None) };
        let items = |ty: &TypeTree| match ty {
            Arg::Tuple(items) => items.to_vec(),
            one => vec![one.clone()],
        };
        let (types, symbolic) = (items(&ty), self.symbolic(id).map(items));
        let known: Option<Vec<(DType, _)>> = types.iter().map(|ty| known(Some(ty))).collect();
        let Some(known) = known.filter(|_| !operands.iter().any(|x| is_half(x.dtype))) else {
            return Ok(None);
        };
        self.refuse_symbols(id);
        let mark = self.mark();
        let mut results = Vec::new();
        for (i, (dtype, sizes)) in known.iter().enumerate() {
            let symbolic = symbolic.as_ref().and_then(|types| types.get(i));
            let shape = self.shape(symbolic, sizes);
            results.push(self.result(*dtype, shape, Layout::RowMajor)?);
        }
        let writes = results.iter().map(|result| result.value).collect();
        if !self.gufunc(call, operands, &results, Epilogues::default(), writes, id)? {
            self.rewind(&mark);
            return Ok(None);
        }
        let mut results: Vec<Lowered> = results.into_iter().map(Lowered::Tensor).collect();
        Ok(Some(match ty {
            Arg::Tuple(_) => Lowered::Tuple(results),
            _ => results.remove(0),
        }))
    }

    /// Makes the kernel of a gufunc; returns whether there is one.
    pub(super) fn gufunc(
        &mut self,
        call: GufuncCall,
        mut operands: Vec<Operand>,
        results: &[Operand],
        epilogues: Epilogues,
        writes: Vec<ValueId>,
        id: NodeId,
    ) -> Result<bool> {
        for (i, x) in operands.iter_mut().enumerate() {
            if !has_dense_core(&call, i, x) {
                *x = self.contiguous(x, id)?;
            }
        }
        let operands: SmallVec<[OperandId; 4]> = operands.iter().map(|x| x.id).collect();
        let results: SmallVec<[OperandId; 2]> = results.iter().map(|result| result.id).collect();
        let make = move |instance: &Instance| -> Result<Option<Box<dyn Kernel>>> {
            let operands =
                operands.iter().map(|id| instance.operand(*id).cloned()).collect::<Result<Vec<_>>>()?;
            let results = results.iter().map(|id| {
                let result = instance.operand(*id)?;
                Ok((result.value, result.dtype, result.shape.clone()))
            });
            let results = results.collect::<Result<Vec<_>>>()?;
            let Some((_, tape)) = epilogues.of(instance)? else { return Ok(None) };
            let kernel = GufuncKernel::new(call, operands, &results, tape);
            Ok(kernel.map(|kernel| Box::new(kernel) as Box<dyn Kernel>))
        };
        self.kernel(writes, id, make)
    }
}
