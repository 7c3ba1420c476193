//! Kernels of recurrent networks: a product and the steps for each layer.

use fx_core::math::Real;
use fx_core::{Arg, Array, DType, Element, Graph, NodeId, Op, Result, TensorType};

use super::{Lower, Lowered, Lowering, type_of};
use crate::engine::kernel::Kernel;
use crate::engine::operand::{Operand, OperandId, ValueId};
use crate::engine::packed_weights::Packed;
use crate::engine::record::{Instance, Size};
use crate::engine::recurrent::{Call, Direction, State, StepsKernel, network_of};
use crate::engine::step::Home;
use crate::kernel::gemm::GemmElement;
use crate::kernel::recurrent::StateWeight;
use crate::ops::linalg::linear;
use crate::ops::recurrent::{Network, gru, lstm};

pub(super) static TABLE: &[(Op, Lower)] = &[(gru::OP, network), (lstm::OP, network)];

/// Makes kernels of a recurrent network whose weights are constants.
fn network(l: &mut Lowering<'_>, op: Op, bound: &[Arg], id: NodeId) -> Result<Option<Lowered>> {
    let Some(Call { network, tensors, params }) = network_of(op, bound) else { return Ok(None) };
    let tensors = l.operands(&Arg::list(tensors.iter().cloned()));
    let (Some(mut tensors), Some(params)) = (tensors, l.operands(params)) else { return Ok(None) };
    let states = tensors.split_off(1);
    let Some(x) = tensors.pop() else { return Ok(None) };
    let dtype = x.dtype;
    let types = |operands: &[Operand]| operands.iter().map(type_of).collect::<Vec<TensorType>>();
    let (state_types, param_types) = (types(&states), types(&params));
    let has_types = network.infer(
        &type_of(&x),
        &state_types.iter().collect::<Vec<_>>(),
        &param_types.iter().collect::<Vec<_>>(),
    );
    if has_types.is_err() {
        // The operation says what is wrong.
        return Ok(None);
    }
    match dtype {
        DType::F32 => l.layers::<f32>(network, x, states, &params, id),
        DType::F64 => l.layers::<f64>(network, x, states, &params, id),
        _ => Ok(None),
    }
}

/// What a layer needs in one direction.
struct Parts<T: 'static> {
    gates: OperandId,
    weight: Packed<StateWeight<T>>,
    bias: Option<OperandId>,
}

impl<T> Parts<T> {
    fn of(&self, instance: &Instance) -> Result<Direction<T>> {
        Ok(Direction {
            gates: instance.operand(self.gates)?.clone(),
            weight: self.weight.clone(),
            bias: self.bias.map(|bias| instance.operand(bias).cloned()).transpose()?,
        })
    }
}

impl Lowering<'_> {
    fn layers<T: GemmElement + Real + Element>(
        &mut self,
        network: Network,
        mut x: Operand,
        states: Vec<Operand>,
        params: &[Operand],
        id: NodeId,
    ) -> Result<Option<Lowered>> {
        self.refuse_symbols(id);
        let (mark, dtype) = (self.mark(), x.dtype);
        if network.batch_first {
            x = self.permuted(&x, &[1, 0, 2])?;
        }
        let hidden = states[0].shape[2];
        let params: Vec<&Operand> = params.iter().collect();
        let mut all = Vec::new();
        for before in states {
            let before = self.gapless(before, id)?;
            let shape = self.shape_of(&before);
            all.push((self.value(Home::Memory, dtype, shape.clone())?, before.id, shape));
        }
        let after: Vec<ValueId> = all.iter().map(|(after, ..)| *after).collect();
        let states: Vec<(OperandId, ValueId)> =
            all.iter().map(|(after, before, _)| (*before, *after)).collect();
        let layers = network.split(&params)?;
        let last = layers.len() / network.directions - 1;
        for (layer, weights) in layers.chunks(network.directions).enumerate() {
            let mut directions = Vec::new();
            for weights in weights {
                let Some(direction) = self.direction::<T>(network, &x, *weights, id)? else {
                    self.rewind(&mark);
                    return Ok(None);
                };
                directions.push(direction);
            }
            let width = network.directions * hidden;
            // What is returned lies as it is counted.
            let by_batch = network.batch_first && layer == last;
            let mut shape = self.shape_of(&x);
            shape.truncate(2);
            if by_batch {
                shape.swap(0, 1);
            }
            shape.push(Size::Known(width));
            let out = self.value(Home::Memory, dtype, shape.clone())?;
            let (of, states, cell) = (x.id, states.clone(), network.cell);
            let n_matrices = StateWeight::<T>::matrices(cell, x.shape[1]);
            let first = layer * network.directions;
            let make = move |instance: &Instance| -> Result<Option<Box<dyn Kernel>>> {
                let x = instance.operand(of)?;
                let (steps, batch) = (x.shape[0], x.shape[1]);
                // Weights are packed otherwise for one sequence.
                if StateWeight::<T>::matrices(cell, batch) != n_matrices {
                    return Ok(None);
                }
                let state = |(before, after): &(OperandId, ValueId)| {
                    Ok(State { before: instance.operand(*before)?.clone(), after: *after })
                };
                Ok(Some(Box::new(StepsKernel {
                    cell,
                    sizes: [steps, batch],
                    hidden,
                    first,
                    directions: directions.iter().map(|parts| parts.of(instance)).collect::<Result<_>>()?,
                    states: states.iter().map(state).collect::<Result<_>>()?,
                    out,
                    strides: if by_batch { (width, steps * width) } else { (batch * width, width) },
                })))
            };
            self.kernel([&[out], &after[..]].concat(), id, make)?;
            x = self.whole(out, shape)?;
        }
        let mut results = vec![Lowered::Tensor(x)];
        for (after, _, shape) in all {
            results.push(Lowered::Tensor(self.whole(after, shape)?));
        }
        Ok(Some(Lowered::Tuple(results)))
    }

    /// Makes the product of a layer's inputs in one direction, and packs the state's weight.
    fn direction<T: GemmElement + Element>(
        &mut self,
        network: Network,
        x: &Operand,
        weights: [Option<&Operand>; 4],
        id: NodeId,
    ) -> Result<Option<Parts<T>>> {
        let ([Some(w_ih), Some(w_hh), b_ih, b_hh], Some(tile)) = (weights, T::tile()) else {
            return Ok(None);
        };
        let Some(constant) = self.constant(w_hh.value).filter(|_| w_hh.is_contiguous()).cloned() else {
            return Ok(None);
        };
        let (cell, batch, hidden, at) = (network.cell, x.shape[1], w_hh.shape[1], w_hh.offset);
        let pack =
            move |array: Array| Ok(StateWeight::new(tile, cell, batch, hidden, &array.data::<T>()?[at..]));
        let matrices = StateWeight::<T>::matrices(cell, batch);
        let weight = self.packed_weights.promise(&constant, w_hh, matrices, &mut self.jobs, pack)?;
        let operands: Vec<Operand> = [x, w_ih].into_iter().chain(b_ih).cloned().collect();
        let mut body = Graph::new("gates");
        let inputs = (0..operands.len())
            .map(|i| Ok(Arg::Leaf(body.placeholder(&format!("x{i}"))?)))
            .collect::<Result<Vec<Arg>>>()?;
        let product = body.call_function(linear::OP, inputs)?;
        body.set_output(Arg::Leaf(product))?;
        let Some(gates) = self.group(&body, &operands, id)?.and_then(|mut results| results.pop()) else {
            return Ok(None);
        };
        let bias = b_hh.map(|bias| self.gapless(bias.clone(), id)).transpose()?;
        Ok(Some(Parts { gates: gates.id, weight, bias: bias.map(|bias| bias.id) }))
    }

    /// Copies an operand that has gaps.
    fn gapless(&mut self, x: Operand, id: NodeId) -> Result<Operand> {
        if x.is_contiguous() { Ok(x) } else { self.contiguous(&x, id) }
    }
}
