//! The steps of a recurrent layer, each of which needs the state that the one before has left.
//!
//! The units of the state are dealt out in as many parts as there are threads, whose weights stay in their
//! caches from step to step. No element depends on how many there are. A part computes the gates of a few
//! units, whose weights lie side by side, and then these units, so that sums stay in the first cache.

use std::ops::Range;

use fx_base::math::{self, Real};
use fx_simd::parallel;

use super::gemm::{GemmElement, Next, Operands, Output, Tile, TileEpilogue, pack, work};

/// What a unit computes from its gates.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Cell {
    /// Gates for input, forgetting, the new value and the output.
    Lstm,
    /// Gates for resetting, updating and the new value.
    Gru,
}

impl Cell {
    /// Returns how many gates it has.
    pub fn gates(self) -> usize {
        match self {
            Cell::Lstm => 4,
            Cell::Gru => 3,
        }
    }
}

/// The state's weight of a layer in one direction, in the order in which steps read it.
///
/// A sliver is for as many units as a tile has columns; units that are missing from the last one have zeros.
/// Its rows are for the elements of the state: those of one gate after those of another or, for a single
/// sequence, beside each other.
pub struct StateWeight<T: 'static> {
    tile: &'static Tile<T>,
    /// What a step computes.
    pub cell: Cell,
    /// The elements of a state.
    pub hidden: usize,
    /// How many matrices a sliver is cut into: one for each gate, or one of all gates.
    matrices: usize,
    slivers: Vec<T>,
}

impl<T: GemmElement> StateWeight<T> {
    /// Returns how many matrices a sliver is cut into, for a number of sequences at a time.
    pub fn matrices(cell: Cell, batch: usize) -> usize {
        if batch == 1 { 1 } else { cell.gates() }
    }

    /// Packs a weight `[gates * hidden, hidden]` for steps of this many sequences at a time.
    ///
    /// # Panics
    ///
    /// When the weight is too short.
    pub fn new(
        tile: &'static Tile<T>,
        cell: Cell,
        batch: usize,
        hidden: usize,
        weight: &[T],
    ) -> StateWeight<T> {
        let (cols, len) = (tile.cols, hidden * cell.gates() * tile.cols);
        let matrices = StateWeight::<T>::matrices(cell, batch);
        let gates_beside = cell.gates() / matrices;
        let mut slivers = fx_simd::in_huge_pages(vec![T::zero(); hidden.div_ceil(cols) * len]);
        parallel::chunks(&mut slivers, len, PACK.div_ceil(len.max(1)), |i, sliver| {
            let first = i * cols;
            for (matrix, out) in sliver.chunks_mut(len / matrices).enumerate() {
                for gate in 0..gates_beside {
                    let row = (matrix * gates_beside + gate) * hidden + first;
                    let (count, width) = (cols.min(hidden - first), gates_beside * cols);
                    pack(&weight[row * hidden..], (hidden, 1), count, width, &mut out[gate * cols..]);
                }
            }
        });
        StateWeight { tile, cell, hidden, matrices, slivers }
    }

    fn n_slivers(&self) -> usize {
        self.hidden.div_ceil(self.tile.cols)
    }
}

/// The elements from which a second thread packs, too.
const PACK: usize = 1 << 15;

/// The steps of one layer in one direction.
pub struct Steps<'a, T: 'static> {
    /// What is multiplied by the state.
    pub weight: &'a StateWeight<T>,
    /// One element for each gate of each unit, which is added to the product with the state.
    pub bias: Option<&'a [T]>,
    /// How many steps there are, and how many sequences at a time.
    pub sizes: [usize; 2],
    /// From the last step to the first.
    pub reverse: bool,
    /// The inputs' part of the gates, `[steps, batch, gates * hidden]`.
    pub gates: &'a [T],
    /// How many threads share a step, at most.
    pub threads: usize,
}

/// Where steps find and leave states.
struct States<'a, T> {
    /// Before the first step, `[batch, hidden]`.
    first: Output<'a, T>,
    /// After each step, `[steps, batch, hidden]`.
    outputs: Output<'a, T>,
    /// The distance of sequences in `outputs`.
    stride: usize,
    /// The states of an LSTM's cells, `[batch, hidden]`.
    cells: Output<'a, T>,
}

/// The multiply-adds of a step from which a second thread pays.
const GRAIN: usize = 1 << 16;

impl<T: GemmElement + Real> Steps<'_, T> {
    /// Runs over the steps; writes each new state to `out`, in which steps and sequences are `strides` apart,
    /// and leaves the last ones in `h` and `c`.
    ///
    /// # Panics
    ///
    /// When a slice is too short, or states overlap in `out`.
    pub fn run(&self, h: &mut [T], c: &mut [T], out: &mut [T], strides: (usize, usize)) {
        let ([steps, batch], hidden) = (self.sizes, self.weight.hidden);
        if steps == 0 || batch == 0 || hidden == 0 {
            return;
        }
        let apart =
            |outer: usize, inner: usize, n: usize| inner >= hidden && outer >= (n - 1) * inner + hidden;
        let is_distinct = apart(strides.0, strides.1, batch) || apart(strides.1, strides.0, steps);
        assert!(is_distinct, "states overlap in the output");
        let len = (steps - 1) * strides.0 + (batch - 1) * strides.1 + hidden;
        assert!(out.len() >= len, "the output is too short");
        // SAFETY: the output is borrowed, and was found to have room for states that are distinct.
        unsafe { self.run_at(h, c, out.as_mut_ptr(), strides) }
    }

    /// As [`run`](Self::run), with the address of the output: others may write what lies between these states.
    ///
    /// # Safety
    ///
    /// The output has room for the states, which do not overlap, and nobody else has these.
    ///
    /// # Panics
    ///
    /// When a slice is too short.
    pub unsafe fn run_at(&self, h: &mut [T], c: &mut [T], out: *mut T, strides: (usize, usize)) {
        let ([steps, batch], &StateWeight { cell, hidden, .. }) = (self.sizes, self.weight);
        let width = cell.gates() * hidden;
        let has_cell = cell == Cell::Lstm;
        assert!(
            self.gates.len() >= steps * batch * width && self.bias.is_none_or(|bias| bias.len() >= width)
        );
        assert!(h.len() >= batch * hidden, "there is a state for each sequence");
        assert!(batch == 1 || self.weight.matrices > 1, "the weight was packed for one sequence");
        assert!(!has_cell || c.len() >= batch * hidden, "an LSTM has a state of its cells");
        if steps == 0 || batch == 0 || hidden == 0 {
            return;
        }
        let states = States {
            first: Output::new(h, (hidden, 1)),
            outputs: Output::starting(out, strides),
            stride: strides.1,
            cells: Output::new(c, (hidden, 1)),
        };
        let slivers = self.weight.n_slivers();
        let is_large = work(batch, width, hidden) >= GRAIN;
        let most = if is_large { self.threads.clamp(1, parallel::STAGE_PARTS) } else { 1 };
        let n = most.min(slivers);
        parallel::stages(steps, n, |step, part| {
            let slivers = slivers * part / n..slivers * (part + 1) / n;
            // SAFETY: the slices were found to be long enough, parts have disjoint units, and a step is over
            // before the next one begins.
            unsafe { self.part(step, slivers, &states) };
        });
        let last = self.place(steps - 1);
        for item in 0..batch {
            // SAFETY: the state has room for each sequence, and the output is another one, which is complete.
            unsafe {
                std::ptr::copy_nonoverlapping(
                    states.outputs.at(last, item),
                    states.first.at(item, 0),
                    hidden,
                );
            }
        }
    }

    /// Returns the place of a step in the sequence.
    fn place(&self, step: usize) -> usize {
        if self.reverse { self.sizes[0] - 1 - step } else { step }
    }

    /// Computes the units of some slivers in a step.
    ///
    /// # Safety
    ///
    /// The states have room for the sizes, those before this step are complete, and nobody else has these
    /// units of this step.
    unsafe fn part(&self, step: usize, slivers: Range<usize>, states: &States<'_, T>) {
        let (batch, tile) = (self.sizes[1], self.weight.tile);
        let len = tile.rows.min(batch) * self.weight.cell.gates() * tile.cols;
        T::with_scratch(len, |sums| {
            for i in 0..slivers.len() {
                // To and fro: what the step before has read last is still in the cache.
                let sliver = if step.is_multiple_of(2) { slivers.start + i } else { slivers.end - 1 - i };
                for first in (0..batch).step_by(tile.rows) {
                    let items = first..(first + tile.rows).min(batch);
                    // SAFETY: the caller's promise.
                    unsafe { self.units(step, sliver, items, states, sums) };
                }
            }
        });
    }

    /// Computes the units of a sliver for no more sequences than a tile has rows.
    ///
    /// # Safety
    ///
    /// As for [`part`](Self::part).
    unsafe fn units(
        &self,
        step: usize,
        sliver: usize,
        items: Range<usize>,
        states: &States<'_, T>,
        sums: &mut [T],
    ) {
        let ([_, batch], &StateWeight { tile, cell, hidden, matrices, .. }) = (self.sizes, self.weight);
        let (n_gates, cols, first) = (cell.gates(), tile.cols, sliver * tile.cols);
        let (width, n) = (n_gates * cols, cols.min(hidden - first));
        let before = |item: usize| match step {
            0 => states.first.at(item, 0),
            _ => states.outputs.at(self.place(step - 1), item),
        };
        let sums = &mut sums[..items.len() * width];
        for sums in sums.chunks_exact_mut(width) {
            for (gate, sums) in sums.chunks_exact_mut(cols).enumerate() {
                match self.bias {
                    Some(bias) => sums[..n].copy_from_slice(&bias[gate * hidden + first..][..n]),
                    None => sums.fill(T::zero()),
                }
            }
        }
        let (columns, len) = (width / matrices, hidden * width);
        for matrix in 0..matrices {
            let weights = &self.weight.slivers[sliver * len + matrix * (len / matrices)..];
            let operands = Operands {
                a: before(items.start).cast_const(),
                a_strides: (if step == 0 { hidden } else { states.stride }, 1),
                b: weights.as_ptr(),
                b_stride: columns,
                b_tile: cols,
                alpha: T::one(),
                beta: T::one(),
                c: sums[matrix * columns..].as_mut_ptr(),
                c_strides: (width, 1),
                epilogue: TileEpilogue::NONE,
                next: Next::nothing(weights.as_ptr()),
            };
            // SAFETY: the states before have `hidden` elements, which nobody writes in this step; each matrix
            // has as many rows, of all gates only if there is one sequence, and the sums are ours.
            unsafe { tile.run(items.len(), columns, hidden, &operands) };
        }
        for (item, sums) in items.zip(sums.chunks_exact(width)) {
            let place = self.place(step);
            let gates = &self.gates[(place * batch + item) * n_gates * hidden..][..n_gates * hidden];
            let gates: [&[T]; 4] = std::array::from_fn(|gate| match gate < n_gates {
                true => &gates[gate * hidden + first..][..n],
                false => &[],
            });
            let sums: [&[T]; 4] =
                std::array::from_fn(|gate| if gate < n_gates { &sums[gate * cols..][..n] } else { &[] });
            // SAFETY: these units of the states are this thread's, and those before are complete.
            let (old, new) = unsafe {
                (
                    std::slice::from_raw_parts(before(item).wrapping_add(first).cast_const(), n),
                    std::slice::from_raw_parts_mut(states.outputs.at(place, item).wrapping_add(first), n),
                )
            };
            match cell {
                Cell::Lstm => {
                    // SAFETY: as above.
                    let c = unsafe { std::slice::from_raw_parts_mut(states.cells.at(item, first), n) };
                    fx_simd::call::<lstm_step, _>((gates, sums, new, c));
                }
                Cell::Gru => fx_simd::call::<gru_step, _>((gates, sums, old, new)),
            }
        }
    }
}

fx_simd::wide! {
    /// Computes new states from the inputs' and the state's part of the gates.
    pub fn lstm_step[T: Real]((x, s, h, c): ([&[T]; 4], [&[T]; 4], &mut [T], &mut [T])) {
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
    pub fn gru_step[T: Real]((x, s, old, h): ([&[T]; 4], [&[T]; 4], &[T], &mut [T])) {
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
