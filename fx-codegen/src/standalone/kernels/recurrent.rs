//! Recurrent layers, step by step.

use super::gemm::{Fused, InOrder, Matrix, Right, Sizes, Start, gemm, place};
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
pub struct Weights<'a, T, B> {
    /// For inputs.
    pub input: B,
    /// For the state.
    pub state: B,
    /// The biases for inputs.
    pub input_bias: Option<&'a [T]>,
    /// The biases for the state.
    pub state_bias: Option<&'a [T]>,
}

/// Returns how many elements a layer needs: gates of all inputs, those of the state of one step, and what products
/// need.
pub const fn work(steps: usize, batch: usize, inputs: usize, hidden: usize, gates: usize) -> usize {
    let width = gates * hidden;
    let (a, b) = (super::gemm::work(steps, inputs), super::gemm::work(batch, hidden));
    (steps + 1) * batch * width + if a > b { a } else { b }
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
pub fn layer<'a, T: Fused, B: Right<T>>(
    sizes: Layer,
    weights: Weights<'a, T, B>,
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
    if steps * batch * width == 0 {
        return;
    }
    let (from_input, work) = work.split_at_mut(steps * batch * width);
    let (from_state, work) = work.split_at_mut(batch * width);
    let start = |bias: Option<&'a [T]>| bias.map_or(Start::Zero, Start::Columns);
    // The inputs of all steps at once, sequence by sequence.
    for b in 0..batch {
        let sizes = Sizes { m: steps, n: width, k: inputs };
        // Inputs without elements are at no place.
        let x = &x[(b * x_steps.row).min(x.len())..];
        let x = Matrix { data: x, row: x_steps.step, column: 1 };
        let (out, bias) = (&mut from_input[b * width..], start(weights.input_bias));
        match batch {
            1 => gemm(sizes, x, weights.input, bias, work, out),
            _ => place(sizes, x, weights.input, InOrder, batch * width, bias, work, out),
        }
    }
    for step in 0..steps {
        let step = if reverse { steps - 1 - step } else { step };
        let state = Matrix { data: &*h, row: hidden, column: 1 };
        let sizes = Sizes { m: batch, n: width, k: hidden };
        gemm(sizes, state, weights.state, start(weights.state_bias), work, from_state);
        cell(&from_input[step * batch * width..][..batch * width], from_state, hidden, h, c);
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
            let gate = |k: usize| (&x[k * hidden..][..hidden], &s[k * hidden..][..hidden]);
            let (input, forget, update, output) = (gate(0), gate(1), gate(2), gate(3));
            let (h, c) = (&mut h[..hidden], &mut c[..hidden]);
            for i in 0..hidden {
                let sum = |(x, s): (&[T], &[T])| x[i] + s[i];
                let kept = math::sigmoid(sum(forget)) * c[i];
                c[i] = kept + math::sigmoid(sum(input)) * math::tanh(sum(update));
                h[i] = math::sigmoid(sum(output)) * math::tanh(c[i]);
            }
        }
    }
}

simd! {
    /// Computes the next state of GRU cells.
    pub fn gru<T: Fused>(from_input: &[T], from_state: &[T], hidden: usize, h: &mut [T], _c: &mut [T]) {
        let rows = from_input.chunks_exact(3 * hidden).zip(from_state.chunks_exact(3 * hidden));
        for ((x, s), h) in rows.zip(h.chunks_exact_mut(hidden)) {
            let gate = |k: usize| (&x[k * hidden..][..hidden], &s[k * hidden..][..hidden]);
            let (reset, update, (x, s), h) = (gate(0), gate(1), gate(2), &mut h[..hidden]);
            for i in 0..hidden {
                let sum = |(x, s): (&[T], &[T])| x[i] + s[i];
                let new = math::tanh(x[i] + math::sigmoid(sum(reset)) * s[i]);
                h[i] = new + math::sigmoid(sum(update)) * (h[i] - new);
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
