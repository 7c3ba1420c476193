//! The steps of a recurrent layer, each of which needs the state that the one before has left.
//!
//! The units of the state are dealt out in as many parts as there are threads, whose weights stay in their caches from step to step. No
//! element depends on how many there are.

use std::ops::Range;

use fx_core::math::{self, Real};
use fx_simd::parallel;

use super::gemm::{Finish, GemmElement, Operands, Output, Tile, pack};

/// What a unit computes from its gates.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cell {
    /// Gates for input, forgetting, the new value and the output.
    Lstm,
    /// Gates for resetting, updating and the new value.
    Gru,
}

impl Cell {
    /// Returns how many gates it has.
    pub(crate) fn gates(self) -> usize {
        match self {
            Cell::Lstm => 4,
            Cell::Gru => 3,
        }
    }
}

/// The steps of one layer in one direction.
pub(crate) struct Steps<'a, T> {
    /// What the units compute.
    pub(crate) cell: Cell,
    /// How many steps there are, and how many sequences at a time.
    pub(crate) sizes: [usize; 2],
    /// The units of the state.
    pub(crate) hidden: usize,
    /// From the last step to the first.
    pub(crate) reverse: bool,
    /// The inputs' part of the gates, `[steps, batch, gates * hidden]`.
    pub(crate) gates: &'a [T],
    /// The state's weight, `[gates * hidden, hidden]`, and bias.
    pub(crate) weight: &'a [T],
    /// One element for each gate of each unit.
    pub(crate) bias: Option<&'a [T]>,
}

/// The bytes of weights from which a second thread pays.
const GRAIN: usize = 1 << 18;

impl<T: GemmElement + Real> Steps<'_, T> {
    /// Runs over the steps; writes each new state to `out`, whose rows are `(stride, offset)`, and leaves the last ones in `h` and `c`.
    ///
    /// # Panics
    ///
    /// When a slice is too short.
    pub(crate) fn run(
        &self,
        tile: &'static Tile<T>,
        h: &mut [T],
        c: &mut [T],
        out: &mut [T],
        place: (usize, usize),
    ) {
        let ([steps, batch], hidden) = (self.sizes, self.hidden);
        let width = self.cell.gates() * hidden;
        let has_cell = self.cell == Cell::Lstm;
        assert!(self.gates.len() >= steps * batch * width && self.weight.len() >= width * hidden);
        assert!(self.bias.is_none_or(|bias| bias.len() >= width) && h.len() >= batch * hidden);
        assert!(!has_cell || c.len() >= batch * hidden, "an LSTM has a state of its cells");
        let rows = steps * batch;
        assert!(rows == 0 || out.len() >= (rows - 1) * place.0 + place.1 + hidden, "the output is too short");
        if rows == 0 || hidden == 0 {
            return;
        }
        // The states before and after a step, in turn.
        let mut other = vec![T::zero(); batch * hidden];
        let states = [Output::new(h, (hidden, 1)), Output::new(&mut other, (hidden, 1))];
        let cells = Output::new(c, (hidden, 1));
        let outputs = Output::new(&mut out[place.1..], (place.0, 1));
        let slivers = hidden.div_ceil(tile.cols);
        let is_large = width * hidden * size_of::<T>() >= GRAIN && steps > 4;
        let n = if is_large { rayon::current_num_threads().min(slivers) } else { 1 };
        let units = |at: usize| (slivers * at / n * tile.cols).min(hidden);
        let mut parts: Vec<Part<T>> = (0..n).map(|i| Part::new(self, tile, units(i)..units(i + 1))).collect();
        for step in 0..steps {
            let [before, after] = [&states[step % 2], &states[(step + 1) % 2]];
            let place = if self.reverse { steps - 1 - step } else { step };
            parallel::chunks(&mut parts, 1, 1, |_, parts| {
                for part in parts {
                    // SAFETY: parts have disjoint units, and a step is over before the next one begins.
                    unsafe { part.step(self, tile, place, [before, after, &cells, &outputs]) };
                }
            });
        }
        if steps % 2 == 1 {
            h[..batch * hidden].copy_from_slice(&other);
        }
    }
}

/// Some units of the state, which a thread has in its cache for all steps.
struct Part<T> {
    units: Range<usize>,
    /// The gate, the first unit and the number of units of each sliver of weights.
    slivers: Vec<(usize, usize, usize)>,
    packed: Vec<T>,
    sums: Vec<T>,
}

impl<T: GemmElement + Real> Part<T> {
    fn new(steps: &Steps<'_, T>, tile: &Tile<T>, units: Range<usize>) -> Self {
        let (hidden, n_gates, n) = (steps.hidden, steps.cell.gates(), units.len());
        let slivers = (0..n_gates).flat_map(|gate| {
            (0..n).step_by(tile.cols).map(move |from| (gate, from, tile.cols.min(n - from)))
        });
        let slivers: Vec<(usize, usize, usize)> = slivers.collect();
        let mut packed = vec![T::zero(); slivers.len() * tile.cols * hidden];
        for (&(gate, from, count), sliver) in slivers.iter().zip(packed.chunks_mut(tile.cols * hidden)) {
            let rows = &steps.weight[(gate * hidden + units.start + from) * hidden..];
            pack(rows, (hidden, 1), count, tile.cols, sliver);
        }
        let sums = vec![T::zero(); steps.sizes[1] * n_gates * n];
        Part { units, slivers, packed, sums }
    }

    /// Computes the units of a step from the states before; writes those after, the cells and the output.
    ///
    /// # Safety
    ///
    /// The outputs have room for the sizes, nobody else writes these units, and nobody writes the states before.
    unsafe fn step(
        &mut self,
        steps: &Steps<'_, T>,
        tile: &Tile<T>,
        place: usize,
        [before, after, cells, outputs]: [&Output<'_, T>; 4],
    ) {
        let Part { units, slivers, packed, sums } = self;
        let ([_, batch], hidden, n_gates, n) = (steps.sizes, steps.hidden, steps.cell.gates(), units.len());
        for sums in sums.chunks_exact_mut(n_gates * n) {
            for (gate, sums) in sums.chunks_exact_mut(n).enumerate() {
                match steps.bias {
                    Some(bias) => sums.copy_from_slice(&bias[gate * hidden..][units.clone()]),
                    None => sums.fill(T::zero()),
                }
            }
        }
        let c = Output::new(sums, (n_gates * n, 1));
        for (&(gate, from, count), sliver) in slivers.iter().zip(packed.chunks(tile.cols * hidden)) {
            for row in (0..batch).step_by(tile.rows) {
                let operands = Operands {
                    a: before.at(row, 0).cast_const(),
                    a_strides: (hidden, 1),
                    b: sliver.as_ptr(),
                    b_stride: tile.cols,
                    alpha: T::one(),
                    beta: T::one(),
                    c: c.at(row, gate * n + from),
                    c_strides: (n_gates * n, 1),
                    finish: Finish::NONE,
                };
                // SAFETY: the state has `batch` rows of `hidden` elements, which nobody writes in this step, and the sums are ours.
                unsafe { tile.run(tile.rows.min(batch - row), count, hidden, &operands) };
            }
        }
        for (item, sums) in sums.chunks_exact(n_gates * n).enumerate() {
            let row = place * batch + item;
            let gates = &steps.gates[row * n_gates * hidden..][..n_gates * hidden];
            let gates: [&[T]; 4] = std::array::from_fn(|gate| match gate < n_gates {
                true => &gates[gate * hidden..][units.clone()],
                false => &[],
            });
            let sums: [&[T]; 4] =
                std::array::from_fn(|gate| if gate < n_gates { &sums[gate * n..][..n] } else { &[] });
            // SAFETY: these units of the states and of the output are this thread's.
            let (old, new, out) = unsafe {
                (
                    std::slice::from_raw_parts(before.at(item, units.start).cast_const(), n),
                    std::slice::from_raw_parts_mut(after.at(item, units.start), n),
                    std::slice::from_raw_parts_mut(outputs.at(row, units.start), n),
                )
            };
            match steps.cell {
                Cell::Lstm => {
                    // SAFETY: as above.
                    let c = unsafe { std::slice::from_raw_parts_mut(cells.at(item, units.start), n) };
                    fx_simd::call::<lstm_step, _>((gates, sums, &mut *new, c));
                }
                Cell::Gru => fx_simd::call::<gru_step, _>((gates, sums, old, &mut *new)),
            }
            out.copy_from_slice(new);
        }
    }
}

fx_simd::wide! {
    /// Computes new states from the inputs' and the state's part of the gates.
    pub(crate) fn lstm_step[T: Real]((x, s, h, c): ([&[T]; 4], [&[T]; 4], &mut [T], &mut [T])) {
        let n = h.len();
        // Closures of arrays would not become wide.
        let (xi, xf, xg, xo) = (&x[0][..n], &x[1][..n], &x[2][..n], &x[3][..n]);
        let (si, sf, sg, so) = (&s[0][..n], &s[1][..n], &s[2][..n], &s[3][..n]);
        let c = &mut c[..n];
        for j in 0..n {
            let (input, forget) = (math::sigmoid(xi[j] + si[j]), math::sigmoid(xf[j] + sf[j]));
            let (new, output) = (math::tanh(xg[j] + sg[j]), math::sigmoid(xo[j] + so[j]));
            c[j] = forget * c[j] + input * new;
            h[j] = output * math::tanh(c[j]);
        }
    }

    /// As `lstm_step`, for the three gates of a GRU.
    pub(crate) fn gru_step[T: Real]((x, s, old, h): ([&[T]; 4], [&[T]; 4], &[T], &mut [T])) {
        let n = h.len();
        let (xr, xu, xn) = (&x[0][..n], &x[1][..n], &x[2][..n]);
        let (sr, su, sn) = (&s[0][..n], &s[1][..n], &s[2][..n]);
        let old = &old[..n];
        for j in 0..n {
            let (reset, update) = (math::sigmoid(xr[j] + sr[j]), math::sigmoid(xu[j] + su[j]));
            let new = math::tanh(xn[j] + reset * sn[j]);
            h[j] = new + update * (old[j] - new);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(len: usize, seed: usize) -> Vec<f64> {
        (0..len).map(|i| ((i * 31 + seed * 17) % 101) as f64 / 101.0 - 0.5).collect()
    }

    /// The definition, unit by unit.
    fn naive(steps: &Steps<'_, f64>, h: &mut Vec<f64>, c: &mut [f64]) -> Vec<f64> {
        let ([n_steps, batch], hidden) = (steps.sizes, steps.hidden);
        let n = steps.cell.gates();
        let mut out = vec![0.0; n_steps * batch * hidden];
        for step in 0..n_steps {
            let step = if steps.reverse { n_steps - 1 - step } else { step };
            let mut next = h.clone();
            for (item, unit) in (0..batch).flat_map(|item| (0..hidden).map(move |unit| (item, unit))) {
                let x = |gate: usize| steps.gates[((step * batch + item) * n + gate) * hidden + unit];
                let s = |gate: usize| {
                    let row = gate * hidden + unit;
                    let sum: f64 =
                        (0..hidden).map(|k| steps.weight[row * hidden + k] * h[item * hidden + k]).sum();
                    sum + steps.bias.map_or(0.0, |bias| bias[row])
                };
                let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
                let at = item * hidden + unit;
                next[at] = match steps.cell {
                    Cell::Lstm => {
                        let new = (x(2) + s(2)).tanh();
                        c[at] = sigmoid(x(1) + s(1)) * c[at] + sigmoid(x(0) + s(0)) * new;
                        sigmoid(x(3) + s(3)) * c[at].tanh()
                    }
                    Cell::Gru => {
                        let (reset, update) = (sigmoid(x(0) + s(0)), sigmoid(x(1) + s(1)));
                        let new = (x(2) + reset * s(2)).tanh();
                        (1.0 - update) * new + update * h[at]
                    }
                };
                out[step * batch * hidden + at] = next[at];
            }
            *h = next;
        }
        out
    }

    #[test]
    fn any_number_of_threads_takes_the_steps_of_the_definition() {
        let Some(tile) = crate::kernel::gemm::tile_f64() else { return };
        let sizes = [(0, 2, 5), (1, 1, 1), (3, 2, 7), (6, 13, 17), (5, 1, 33), (8, 2, 160), (7, 1, 200)];
        for (i, (n_steps, batch, hidden)) in sizes.into_iter().enumerate() {
            for cell in [Cell::Lstm, Cell::Gru] {
                let width = cell.gates() * hidden;
                let gates = numbers(n_steps * batch * width, 1);
                let (weight, bias) = (numbers(width * hidden, 2), numbers(width, 3));
                let bias = (i % 3 > 0).then_some(&bias[..]);
                let (sizes, reverse) = ([n_steps, batch], i % 2 == 1);
                let steps = Steps { cell, sizes, hidden, reverse, gates: &gates, weight: &weight, bias };
                let start = (numbers(batch * hidden, 4), numbers(batch * hidden, 5));
                let (mut h, mut c) = start.clone();
                let expected = naive(&steps, &mut h, &mut c);
                let mut first: Option<Vec<f64>> = None;
                for threads in [1, 2, 3] {
                    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                    let (mut got_h, mut got_c) = start.clone();
                    // The output has a column before and after.
                    let stride = hidden + 2;
                    let mut out = vec![9.0; n_steps * batch * stride];
                    pool.install(|| steps.run(tile, &mut got_h, &mut got_c, &mut out, (stride, 1)));
                    let rows = out.chunks(stride).flat_map(|row| row[1..=hidden].to_vec());
                    let got: Vec<f64> = rows.chain(got_h).chain(got_c).collect();
                    let expected = expected.iter().chain(&h).chain(&c);
                    assert!(
                        got.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12),
                        "{n_steps} {hidden}"
                    );
                    assert!(out.chunks(stride).all(|row| row[0] == 9.0 && row[hidden + 1] == 9.0));
                    assert_eq!(first.get_or_insert(got.clone()), &got, "threads change a bit");
                }
            }
        }
    }
}
