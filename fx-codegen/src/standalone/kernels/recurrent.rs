//! Recurrent layers, step by step.

use super::gemm::{Fused, Matrix, Sizes, Start, gemm};
use super::math;
use super::simd::simd;

/// The sizes of a layer.
#[derive(Clone, Copy)]
pub struct Layer {
    /// The number of steps.
    pub steps: usize,
    /// The size of the batch.
    pub batch: usize,
    /// The elements of an input.
    pub inputs: usize,
    /// The elements of the state.
    pub hidden: usize,
    /// How many gates a cell has, 4 for LSTM, 3 for GRU, 1 for a plain cell.
    pub gates: usize,
    /// Whether it walks from the last step to the first.
    pub reverse: bool,
}

/// The weights of a layer.
#[derive(Clone, Copy)]
pub struct Weights<'a, T> {
    /// For inputs.
    pub input: &'a [T],
    /// For the state.
    pub state: &'a [T],
    /// The biases for inputs.
    pub input_bias: Option<&'a [T]>,
    /// The biases for the state.
    pub state_bias: Option<&'a [T]>,
}

/// Returns how many elements a layer needs: gates of the input and of the state of one step, and what
/// products need.
pub const fn work(batch: usize, inputs: usize, hidden: usize, gates: usize) -> usize {
    let (a, b) =
        (super::gemm::work(batch, gates * hidden, inputs), super::gemm::work(batch, gates * hidden, hidden));
    2 * batch * gates * hidden + if a > b { a } else { b }
}

/// Where the steps of a sequence lie: the distance of steps and of sequences of the batch, and the first element.
#[derive(Clone, Copy)]
pub struct Steps {
    /// The distance between steps.
    pub step: usize,
    /// The distance between the sequences of a batch.
    pub row: usize,
}

/// Runs a layer. `h`, and `c` for LSTM, hold the state before, and then after; `cell` computes the next state
/// of a batch from the gates of input and state.
#[allow(clippy::too_many_arguments, reason = "the sizes of a kernel are its arguments")]
pub fn layer<T: Fused>(
    sizes: Layer,
    weights: Weights<'_, T>,
    x: &[T],
    x_steps: Steps,
    h: &mut [T],
    c: &mut [T],
    work: &mut [T],
    out: &mut [T],
    out_steps: Steps,
    cell: impl Fn(&[T], &[T], usize, &mut [T], &mut [T]),
) {
    let Layer { steps, batch, inputs, hidden, gates, reverse } = sizes;
    let width = gates * hidden;
    let (from_input, work) = work.split_at_mut(batch * width);
    let (from_state, work) = work.split_at_mut(batch * width);
    let product =
        |x: Matrix<'_, T>, weight: &[T], bias: Option<&[T]>, k: usize, work: &mut [T], out: &mut [T]| {
            let start = bias.map_or(Start::Zero, Start::Columns);
            let weight = Matrix { data: weight, row: 1, column: k };
            gemm(Sizes { m: batch, n: width, k }, x, weight, start, work, out);
        };
    for step in 0..steps {
        let step = if reverse { steps - 1 - step } else { step };
        let x = Matrix { data: &x[step * x_steps.step..], row: x_steps.row, column: 1 };
        product(x, weights.input, weights.input_bias, inputs, work, from_input);
        let state = Matrix { data: &*h, row: hidden, column: 1 };
        product(state, weights.state, weights.state_bias, hidden, work, from_state);
        cell(from_input, from_state, hidden, h, c);
        for (b, h) in h.chunks_exact(hidden).enumerate() {
            out[step * out_steps.step + b * out_steps.row..][..hidden].copy_from_slice(h);
        }
    }
}

simd! {
    /// Computes the next state of LSTM cells.
    pub fn lstm<T: Fused>(from_input: &[T], from_state: &[T], hidden: usize, h: &mut [T], c: &mut [T]) {
        let rows = from_input.chunks_exact(4 * hidden).zip(from_state.chunks_exact(4 * hidden));
        for ((x, s), (h, c)) in rows.zip(h.chunks_exact_mut(hidden).zip(c.chunks_exact_mut(hidden))) {
            for i in 0..hidden {
                let gate = |k: usize| x[k * hidden + i] + s[k * hidden + i];
                let (input, forget, output) = (math::sigmoid(gate(0)), math::sigmoid(gate(1)), math::sigmoid(gate(3)));
                c[i] = forget * c[i] + input * math::tanh(gate(2));
                h[i] = output * math::tanh(c[i]);
            }
        }
    }
}

simd! {
    /// Computes the next state of GRU cells.
    pub fn gru<T: Fused>(from_input: &[T], from_state: &[T], hidden: usize, h: &mut [T], _c: &mut [T]) {
        let rows = from_input.chunks_exact(3 * hidden).zip(from_state.chunks_exact(3 * hidden));
        for ((x, s), h) in rows.zip(h.chunks_exact_mut(hidden)) {
            for i in 0..hidden {
                let reset = math::sigmoid(x[i] + s[i]);
                let update = math::sigmoid(x[hidden + i] + s[hidden + i]);
                let new = math::tanh(x[2 * hidden + i] + reset * s[2 * hidden + i]);
                h[i] = new + update * (h[i] - new);
            }
        }
    }
}

simd! {
    /// Computes the next state of plain cells with `tanh`.
    pub fn tanh<T: Fused>(from_input: &[T], from_state: &[T], _hidden: usize, h: &mut [T], _c: &mut [T]) {
        for (h, (&x, &s)) in h.iter_mut().zip(from_input.iter().zip(from_state)) {
            *h = math::tanh(x + s);
        }
    }
}

simd! {
    /// Computes the next state of plain cells with `relu`.
    pub fn relu<T: Fused>(from_input: &[T], from_state: &[T], _hidden: usize, h: &mut [T], _c: &mut [T]) {
        for (h, (&x, &s)) in h.iter_mut().zip(from_input.iter().zip(from_state)) {
            let x = x + s;
            *h = if x < T::ZERO { T::ZERO } else { x };
        }
    }
}
