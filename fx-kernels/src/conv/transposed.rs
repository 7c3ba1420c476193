//! Transposed convolution: GEMM, then folding the columns back into the output.
//!
//! A task owns some output channels of one group and adds the columns of all input positions to them in
//! order, so that each output element is summed in an order that the shapes fix.

use fx_simd::parallel;

use super::super::gemm::{GemmElement, gemm};
use super::{Geometry, SCRATCH};

impl Geometry {
    pub(super) fn transposed<T: GemmElement>(
        &self,
        x: &[T],
        weight: &[T],
        bias: Option<&[T]>,
        out: &mut [T],
    ) {
        let (in_size, size, kernel) = (self.in_size(), self.out_size(), self.kernel_size());
        let wanted = (SCRATCH / kernel.saturating_mul(in_size)).clamp(1, self.c_out.div_ceil(4));
        let at_once = (1..=wanted).rev().find(|n| self.c_out.is_multiple_of(*n)).unwrap_or(1);
        let tasks_per_group = self.c_out / at_once;
        let block = (SCRATCH / kernel).max(1).min(in_size);
        parallel::chunks_with(out, at_once * size, 1, Vec::new, |columns, task, out| {
            let (i, first) = (task / tasks_per_group, task % tasks_per_group * at_once);
            let group = i % self.groups;
            for (channel, row) in out.chunks_mut(size).enumerate() {
                row.fill(bias.map_or(T::zero(), |bias| bias[group * self.c_out + first + channel]));
            }
            let rows = at_once * kernel;
            // The weight of the group is [c_in, c_out * kernel]; these are the columns of our channels.
            let row_length = self.c_out * kernel;
            let weight = &weight[(group * self.c_in * row_length + first * kernel).min(weight.len())..];
            let x = &x[i * self.c_in * in_size..][..self.c_in * in_size];
            columns.resize(rows * block, T::zero());
            for start in (0..in_size).step_by(block) {
                let count = block.min(in_size - start);
                let (one, zero) = (T::one(), T::zero());
                let x = &x[start.min(x.len())..];
                gemm(
                    rows,
                    self.c_in,
                    count,
                    one,
                    weight,
                    (1, row_length),
                    x,
                    (in_size, 1),
                    zero,
                    columns,
                    (count, 1),
                );
                self.fold(columns, start..start + count, out);
            }
        });
    }

    /// Adds the columns of the input positions `range` to the outputs that they reach.
    fn fold<T: GemmElement>(&self, columns: &[T], range: std::ops::Range<usize>, out: &mut [T]) {
        let (count, kernel) = (range.len(), self.kernel_size());
        let [_, height, width] = self.output;
        for (channel, out) in out.chunks_mut(self.out_size()).enumerate() {
            self.taps(|tap, [td, th, tw]| {
                let line = &columns[(channel * kernel + tap) * count..][..count];
                Geometry::pieces(range.clone(), self.input, |at, [id, ih], piece| {
                    let (Some(d), Some(h)) = (self.target(0, id, td), self.target(1, ih, th)) else { return };
                    let row = &mut out[(d * height + h) * width..][..width];
                    for (&value, column) in line[at..].iter().zip(piece) {
                        if let Some(w) = self.target(2, column, tw) {
                            row[w] = row[w] + value;
                        }
                    }
                });
            });
        }
    }

    /// Returns the output position that element `tap` of the kernel at input position `at` reaches.
    fn target(&self, dim: usize, at: usize, tap: usize) -> Option<usize> {
        let position = (at * self.stride[dim] + tap * self.dilation[dim]).checked_sub(self.padding[dim])?;
        (position < self.output[dim]).then_some(position)
    }
}
