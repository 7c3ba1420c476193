//! Convolutions over up to three axes.
//!
//! The input is enclosed in its padding first, and parted by the strides ([`Enclosed`]). So a convolution is a
//! product of its weights with rows that lie in this copy, each where a position of the windows begins; windows
//! that would cross the border are computed, too, and not kept.

use core::ops::Range;

use super::gemm::{
    Columns, Fused, InOrder, Matrix, Packed, Right, Rows, SUMS, Sizes, Start, WIDEST, gemm, place, tiles,
};
use super::simd::simd;
use super::threads::{split, split_outer};
pub use super::window::Window;
use super::window::{Enclosed, enclose, inside, phases, product};

/// The geometry of a convolution of `[batch, channels, ..]`.
#[derive(Clone, Copy)]
pub struct Conv {
    /// The number of groups of channels.
    pub groups: usize,
    /// The channels of the input in a group.
    pub inputs: usize,
    /// The channels of the result in a group.
    pub outputs: usize,
    /// Its windows.
    pub window: Window,
}

/// The rows of a convolution in the copy of its input: those of the positions of a window, for each channel.
#[derive(Clone, Copy)]
struct Taps<'a> {
    /// Where the elements at each position begin.
    places: &'a [i64],
    /// The position of the next row.
    tap: usize,
    /// Where the channel of the next row begins, and how many elements one has.
    from: usize,
    channel: usize,
}

impl Rows for Taps<'_> {
    #[inline(always)]
    fn next(&mut self) -> usize {
        let at = self.from + self.places[self.tap] as usize;
        self.tap += 1;
        if self.tap == self.places.len() {
            (self.tap, self.from) = (0, self.from + self.channel);
        }
        at
    }
}

/// The copy of an input as a right operand.
#[derive(Clone, Copy)]
struct Windows<'a, T> {
    data: &'a [T],
    places: &'a [i64],
    channel: usize,
}

impl<'a, T: Fused> Right<T> for Windows<'a, T> {
    type Rows = Taps<'a>;

    #[inline(always)]
    fn part<'s>(
        &'s self,
        _sizes: Sizes,
        rows: Range<usize>,
        columns: Range<usize>,
        _room: &'s mut [T],
    ) -> (&'s [T], Taps<'a>) {
        let (first, tap) = (rows.start / self.places.len(), rows.start % self.places.len());
        let taps = Taps { places: self.places, tap, from: 0, channel: self.channel };
        (&self.data[first * self.channel + columns.start..], taps)
    }

    fn columns(self, _k: usize, from: usize) -> Self {
        Windows { data: &self.data[from..], ..self }
    }
}

/// Leaves out the windows that cross the border.
#[derive(Clone, Copy)]
struct Kept(Enclosed);

impl Columns for Kept {
    #[inline(always)]
    fn run(self, column: usize, most: usize) -> (Option<usize>, usize) {
        let ([_, height, row], [_, lines, line]) = (self.0.window.output, self.0.sizes);
        let (at, x) = (column / line, column % line);
        let (z, y) = (at / lines, at % lines);
        match y < height && x < row {
            true => (Some((z * height + y) * row + x), (row - x).min(most)),
            false => (None, (line - x).min(most)),
        }
    }
}

/// Returns how many elements [`conv`] needs for a copy of so many channels, and for all windows of one.
pub const fn work(
    inputs: usize,
    output: [usize; 3],
    kernel: [usize; 3],
    stride: [usize; 3],
    dilation: [usize; 3],
) -> usize {
    let (az, z) = phases(output[0], kernel[0], stride[0], dilation[0]);
    let (ay, y) = phases(output[1], kernel[1], stride[1], dilation[1]);
    let (ax, x) = phases(output[2], kernel[2], stride[2], dilation[2]);
    (inputs * (az * ay * ax) + 1) * (z * y * x) + WIDEST + SUMS
}

/// Convolves with windows of one element, none of which is left out; `work` holds what [`super::gemm::work`] says
/// for `[outputs, inputs] * [inputs, output]`.
pub fn pointwise<T: Fused>(
    conv: Conv,
    x: &[T],
    weight: &[T],
    bias: Option<&[T]>,
    work: &mut [T],
    out: &mut [T],
) {
    let Conv { groups, inputs, outputs, window } = conv;
    let sizes = Sizes { m: outputs, n: product(window.output), k: inputs };
    let (x_size, out_size) = (inputs * sizes.n, outputs * sizes.n);
    if out_size == 0 {
        return;
    }
    split_outer(out_size.saturating_mul(inputs), out_size, out, work, |i, out, work| {
        let group = i % groups;
        let weight = Matrix { data: &weight[group * outputs * inputs..], row: inputs, column: 1 };
        let start = bias.map_or(Start::Zero, |bias| Start::Rows(&bias[group * outputs..]));
        let x = Matrix { data: &x[i * x_size..][..x_size], row: sizes.n, column: 1 };
        gemm(sizes, weight, x, start, work, out);
    });
}

/// Returns how many elements [`few`] needs for so many windows, each of `k` elements, of which it brings so many into
/// order.
pub const fn few_work(n: usize, outputs: usize, k: usize, unfolded: usize) -> usize {
    unfolded + n * outputs + super::gemm::work(n, k)
}

/// Convolves for one group and so few windows that tiles have channels side by side. `work` holds what [`few_work`]
/// says; windows of one element, none of which is left out, lie in order.
pub fn few<T: Fused>(
    conv: Conv,
    x: &[T],
    weight: Packed<'_, T>,
    bias: Option<&[T]>,
    work: &mut [T],
    out: &mut [T],
) {
    let Conv { inputs, outputs, window, .. } = conv;
    let (n, size, taps) = (product(window.output), inputs * product(window.input), product(window.kernel));
    let sizes = Sizes { m: n, n: outputs, k: inputs * taps };
    if n * outputs == 0 {
        return;
    }
    let is_in_order = taps == 1 && window.stride == [1; 3] && window.padding == [0; 3];
    let start = bias.map_or(Start::Zero, Start::Columns);
    split_outer((n * outputs).saturating_mul(sizes.k), n * outputs, out, work, |i, out, work| {
        let (unfolded, work) = work.split_at_mut(if is_in_order { 0 } else { n * sizes.k });
        let x = &x[i * size..][..size];
        let columns = match is_in_order {
            true => x,
            false => {
                unfold(window, inputs, x, unfolded);
                unfolded
            }
        };
        if n == 1 {
            return gemm(sizes, Matrix { data: columns, row: sizes.k, column: 1 }, weight, start, work, out);
        }
        let (by_window, work) = work.split_at_mut(n * outputs);
        gemm(sizes, Matrix { data: columns, row: 1, column: n }, weight, start, work, by_window);
        for (channel, out) in out.chunks_exact_mut(n).enumerate() {
            out.iter_mut().enumerate().for_each(|(i, out)| *out = by_window[i * outputs + channel]);
        }
    });
}

simd! {
    /// Lays the elements at each position of the windows side by side: a row for each, of all windows.
    fn unfold<T: Fused>(window: Window, inputs: usize, x: &[T], rows: &mut [T]) {
        let Window { input, kernel, output, stride, padding, .. } = window;
        let (n, taps, size) = (product(output), product(kernel), product(input));
        for tap in 0..taps {
            let shift = window.shift(tap);
            let bounds = |axis: usize| inside(input[axis], output[axis], stride[axis], padding[axis], shift[axis]);
            let ((z0, z1), (y0, y1), (x0, x1)) = (bounds(0), bounds(1), bounds(2));
            let is_whole = (z1 - z0) * (y1 - y0) * (x1 - x0) == n;
            for channel in 0..inputs {
                let row = &mut rows[(channel * taps + tap) * n..][..n];
                if !is_whole {
                    row.fill(T::ZERO);
                }
                if x0 == x1 {
                    continue;
                }
                let x = &x[channel * size..][..size];
                for z in z0..z1 {
                    for y in y0..y1 {
                        let plane = (z * stride[0] + shift[0] - padding[0]) * input[1];
                        let line = (plane + y * stride[1] + shift[1] - padding[1]) * input[2];
                        let x = &x[line + x0 * stride[2] + shift[2] - padding[2]..];
                        let out = &mut row[(z * output[1] + y) * output[2]..][x0..x1];
                        for (i, out) in out.iter_mut().enumerate() {
                            *out = x[i * stride[2]];
                        }
                    }
                }
            }
        }
    }
}

simd! {
    /// Convolves the copy of one channel into one; `all` has room for all windows.
    fn depthwise<T: Fused>(
        enclosed: Enclosed, places: &[i64], weight: &[T], start: T, x: &[T], all: &mut [T], out: &mut [T],
    ) {
        enclosed.join((places, weight), start, x, all, out, |sum, x, weight| weight.multiply_add(x, sum));
    }
}

/// Convolves; `work` holds what [`work`] says, and `places` has room for each position of a window.
pub fn conv<T: Fused>(
    conv: Conv,
    x: &[T],
    weight: &[T],
    bias: Option<&[T]>,
    work: &mut [T],
    places: &mut [i64],
    out: &mut [T],
) {
    let Conv { groups, inputs, outputs, window } = conv;
    let (x_size, n, taps) = (product(window.input), product(window.output), product(window.kernel));
    let out_size = outputs * n;
    if out_size == 0 {
        return;
    }
    let enclosed = Enclosed::new(window);
    let places = enclosed.places(places);
    let channel = enclosed.len();
    let wide = Sizes { m: outputs, n: enclosed.windows(), k: inputs * taps };
    split_outer(out_size.saturating_mul(wide.k), out_size, out, work, |i, out, work| {
        let group = i % groups;
        let (sums, work) = work.split_at_mut(SUMS);
        let (all, work) = work.split_at_mut(product(enclosed.sizes));
        enclose(enclosed, T::ZERO, inputs, &x[i * inputs * x_size..], work);
        if [inputs, outputs] == [1, 1] {
            let start = bias.map_or(T::ZERO, |bias| bias[group]);
            return depthwise(enclosed, places, &weight[group * taps..][..taps], start, work, all, out);
        }
        let weight = Matrix { data: &weight[group * outputs * wide.k..], row: wide.k, column: 1 };
        let start = bias.map_or(Start::Zero, |bias| Start::Rows(&bias[group * outputs..]));
        let x = Windows { data: &*work, places, channel };
        match outputs {
            1 if enclosed.is_exact() => tiles(wide, weight, x, InOrder, n, start, sums, out),
            // To take what is kept out of the only row at the end is quicker than to do so tile by tile.
            1 => {
                tiles(wide, weight, x, InOrder, wide.n, start, sums, &mut all[..wide.n]);
                enclosed.keep(all, out);
            }
            _ => place(wide, weight, x, Kept(enclosed), n, start, sums, out),
        }
    });
}

/// Convolves no channels: each result is the bias of its channel, of which there are `channels` with `n` elements.
pub fn biases<T: Fused>(channels: usize, n: usize, bias: Option<&[T]>, out: &mut [T]) {
    if n > 0 {
        for (i, out) in out.chunks_exact_mut(n).enumerate() {
            out.fill(bias.map_or(T::ZERO, |bias| bias[i % channels]));
        }
    }
}

/// Computes the transposed convolution: each element of the input adds a window to the result. In `conv`,
/// `input` are the sizes of the input of this operation, whose weights are `[groups * inputs, outputs, ..]`.
pub fn transposed<T: Fused>(conv: Conv, x: &[T], weight: &[T], bias: Option<&[T]>, out: &mut [T]) {
    let Window { input, kernel, output, .. } = conv.window;
    if product(output) > 0 {
        let operations = (conv.inputs * product(input)).saturating_mul(product(kernel));
        split(operations, product(output), out, &mut [(); 0], |first, out, _| {
            transposed_from(first, conv, x, weight, bias, out);
        });
    }
}

simd! {
    /// Computes the channels of all images from one on.
    fn transposed_from<T: Fused>(
        first: usize, conv: Conv, x: &[T], weight: &[T], bias: Option<&[T]>, out: &mut [T],
    ) {
        let Conv { groups, inputs, outputs, window } = conv;
        let Window { input, kernel, output, stride, padding, .. } = window;
        let (x_size, out_size, taps) = (product(input), product(output), product(kernel));
        for (i, out) in (first..).zip(out.chunks_exact_mut(out_size)) {
            let channel = i % (groups * outputs);
            let (batch, group) = (i / (groups * outputs), channel / outputs);
            out.fill(bias.map_or(T::ZERO, |bias| bias[channel]));
            for c in group * inputs..(group + 1) * inputs {
                let x = &x[(batch * groups * inputs + c) * x_size..][..x_size];
                let weight = &weight[(c * outputs + channel % outputs) * taps..][..taps];
                for (tap, &weight) in weight.iter().enumerate() {
                    let shift = window.shift(tap);
                    // What convolution reads, its transpose writes.
                    let bounds = |axis: usize| inside(output[axis], input[axis], stride[axis], padding[axis], shift[axis]);
                    let ((z0, z1), (y0, y1), (x0, x1)) = (bounds(0), bounds(1), bounds(2));
                    for (z, y) in (z0..z1).flat_map(|z| (y0..y1).map(move |y| (z, y))) {
                        let x = &x[(z * input[1] + y) * input[2]..][x0..x1];
                        if x.is_empty() {
                            continue;
                        }
                        let line = (z * stride[0] + shift[0] - padding[0]) * output[1] + y * stride[1] + shift[1] - padding[1];
                        let out = &mut out[line * output[2] + x0 * stride[2] + shift[2] - padding[2]..];
                        for (out, &x) in out.iter_mut().step_by(stride[2]).zip(x) {
                            *out = *out + weight * x;
                        }
                    }
                }
            }
        }
    }
}
