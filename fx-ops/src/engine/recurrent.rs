//! Recurrent layers of a plan: the steps, after the inputs' part of the gates, which is a product of its own.

use fx_core::math::Real;
use fx_core::{Arg, Op};
use fx_simd::parallel;

use super::kernel::Kernel;
use super::operand::{Bases, Operand, ValueId};
use super::packed_weights::Packed;
use crate::kernel::gemm::GemmElement;
use crate::kernel::recurrent::{Cell, StateWeight, Steps};
use crate::ops::recurrent::{Network, gru, lstm};

/// A call of a recurrent network.
pub(crate) struct Call<'a> {
    pub(crate) network: Network,
    /// The inputs and the states before the first step: that of the cells only if there is one.
    pub(crate) tensors: &'a [Arg],
    pub(crate) params: &'a Arg,
}

/// Returns the network that a call runs.
pub(crate) fn network_of(op: Op, bound: &[Arg]) -> Option<Call<'_>> {
    let (cell, n_states) = match () {
        () if op == lstm::OP => (Cell::Lstm, 2),
        () if op == gru::OP => (Cell::Gru, 1),
        () => return None,
    };
    let (tensors, rest) = bound.split_at_checked(1 + n_states)?;
    let [
        params,
        Arg::Bool(has_biases),
        Arg::Int(layers),
        dropout,
        Arg::Bool(train),
        Arg::Bool(bidirectional),
        Arg::Bool(batch_first),
    ] = rest
    else {
        return None;
    };
    let dropout = dropout.scalar().map(|p| p.to_f64());
    let layers = (*layers).into();
    let network =
        Network::new(cell, *has_biases, &layers, dropout, *train, *bidirectional, *batch_first).ok()?;
    Some(Call { network, tensors, params })
}

/// A layer in one direction.
pub(crate) struct Direction<T: 'static> {
    /// The inputs' part of the gates, with their bias, without gaps.
    pub(crate) gates: Operand,
    pub(crate) weight: Packed<StateWeight<T>>,
    /// Without gaps.
    pub(crate) bias: Option<Operand>,
}

/// The states of the same kind of all layers and directions, without gaps.
#[derive(Clone)]
pub(crate) struct State {
    pub(crate) before: Operand,
    pub(crate) after: ValueId,
}

/// The steps of a layer in all its directions.
pub(crate) struct StepsKernel<T: 'static> {
    pub(crate) cell: Cell,
    /// How many steps there are, and how many sequences at a time.
    pub(crate) sizes: [usize; 2],
    pub(crate) hidden: usize,
    /// The number of the first direction among those of all layers.
    pub(crate) first: usize,
    pub(crate) directions: Vec<Direction<T>>,
    pub(crate) states: Vec<State>,
    /// The states after each step, those of all directions side by side.
    pub(crate) out: ValueId,
    /// The distance of steps and of sequences there.
    pub(crate) strides: (usize, usize),
}

/// The multiply-adds of a direction from which it pays to compute both at the same time.
const DIRECTION: usize = 1 << 19;

impl<T: GemmElement + Real> Kernel for StepsKernel<T> {
    unsafe fn run(&self, bases: Bases<'_>) {
        let ([steps, batch], hidden) = (self.sizes, self.hidden);
        let (n, one, n_gates) = (self.directions.len(), batch * hidden, self.cell.gates() * hidden);
        // SAFETY: the plan gives this kernel its operands, which have no gaps, and its results alone.
        let read = |x: &Operand, from: usize, len: usize| unsafe {
            std::slice::from_raw_parts(bases.at::<T>(x.value, x.offset + from).cast_const(), len)
        };
        let run = |i: usize, threads: usize| {
            let direction = &self.directions[i];
            let at = (self.first + i) * one;
            let [h, c] = std::array::from_fn(|kind| match self.states.get(kind) {
                Some(state) => {
                    // SAFETY: as above; each direction has states of its own.
                    let after =
                        unsafe { std::slice::from_raw_parts_mut(bases.at::<T>(state.after, at), one) };
                    after.copy_from_slice(read(&state.before, at, one));
                    after
                }
                None => &mut [],
            });
            let steps = Steps {
                weight: &direction.weight,
                bias: direction.bias.as_ref().map(|bias| read(bias, 0, n_gates)),
                sizes: self.sizes,
                reverse: i == 1,
                gates: read(&direction.gates, 0, steps * batch * n_gates),
                threads,
            };
            // SAFETY: the output has a part for each direction, beside those of the others.
            unsafe { steps.run_at(h, c, bases.at::<T>(self.out, i * hidden), self.strides) };
        };
        let threads = parallel::threads();
        let work = (steps * batch).saturating_mul(n_gates).saturating_mul(hidden);
        match threads > 1 && n > 1 && work >= DIRECTION {
            true => parallel::each_whole(n, |i| run(i, threads.div_ceil(n))),
            false => (0..n).for_each(|i| run(i, threads)),
        }
    }

    fn reads(&self) -> Vec<ValueId> {
        let directions = self.directions.iter().flat_map(|direction| {
            [&direction.gates].into_iter().chain(&direction.bias).map(|operand| operand.value)
        });
        directions.chain(self.states.iter().map(|state| state.before.value)).collect()
    }

    fn describe(&self) -> String {
        let ([steps, batch], hidden) = (self.sizes, self.hidden);
        let name = match self.cell {
            Cell::Lstm => "lstm",
            Cell::Gru => "gru",
        };
        let directions = if self.directions.len() > 1 { ", both directions" } else { "" };
        format!("{steps} steps of {name} [{batch}, {hidden}], packed weights{directions}")
    }
}
