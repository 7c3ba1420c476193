//! Convolutions over up to three axes.

use super::gemm::{Fused, Matrix, Operand, Sizes, Start, gemm, packed};
use super::simd::simd;
use super::threads::{split, split_outer};
pub use super::window::Window;
use super::window::product;

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

/// The windows of one group of channels as a matrix: a row for each element of a window, a column for each window.
struct Windows<'a, T> {
    window: Window,
    x: &'a [T],
}

impl<T: Fused> Operand<T> for Windows<'_, T> {
    #[inline(always)]
    fn pack(&self, row: usize, from: usize, out: &mut [T]) {
        let Window { input, kernel, output, stride, padding, .. } = self.window;
        let (width, shift) = (output[2], self.window.shift(row));
        let channel = &self.x[row / product(kernel) * product(input)..];
        let mut at = from;
        let mut rest = out;
        while !rest.is_empty() {
            let (z, y, x) = (at / width / output[1], at / width % output[1], at % width);
            let (part, next) = rest.split_at_mut((width - x).min(rest.len()));
            at += part.len();
            rest = next;
            let z = (z * stride[0] + shift[0]).wrapping_sub(padding[0]);
            let y = (y * stride[1] + shift[1]).wrapping_sub(padding[1]);
            if z >= input[0] || y >= input[1] {
                part.fill(T::ZERO);
                continue;
            }
            let line = &channel[(z * input[1] + y) * input[2]..][..input[2]];
            let first = (x * stride[2] + shift[2]).wrapping_sub(padding[2]);
            if stride[2] == 1 && first < line.len() && first + part.len() <= line.len() {
                part.copy_from_slice(&line[first..first + part.len()]);
                continue;
            }
            for (i, out) in part.iter_mut().enumerate() {
                *out = line.get(first.wrapping_add(i * stride[2])).copied().unwrap_or(T::ZERO);
            }
        }
    }
}

/// Convolves; `work` holds what [`super::gemm::work`] says for `[outputs, inputs * kernel] * [inputs *
/// kernel, output]`.
pub fn conv<T: Fused>(conv: Conv, x: &[T], weight: &[T], bias: Option<&[T]>, work: &mut [T], out: &mut [T]) {
    let Conv { groups, inputs, outputs, window } = conv;
    let Window { input, kernel, output, stride, padding, .. } = window;
    let sizes = Sizes { m: outputs, n: product(output), k: inputs * product(kernel) };
    if inputs == 1 && outputs == 1 {
        return depthwise(conv, x, weight, bias, out);
    }
    let is_plain = product(kernel) == 1 && stride == [1; 3] && padding == [0; 3];
    let (x_size, out_size) = (inputs * product(input), outputs * sizes.n);
    if sizes.m * sizes.n == 0 {
        return;
    }
    split_outer(out_size.saturating_mul(sizes.k), out_size, out, work, |i, out, work| {
        let group = i % groups;
        let x = &x[i * x_size..][..x_size];
        let weight = Matrix { data: &weight[group * outputs * sizes.k..], row: sizes.k, column: 1 };
        let start = bias.map_or(Start::Zero, |bias| Start::Rows(&bias[group * outputs..]));
        if is_plain {
            gemm(sizes, weight, Matrix { data: x, row: sizes.n, column: 1 }, start, work, out);
        } else {
            packed(sizes, weight, &Windows { window, x }, start, work, out);
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

/// Returns the first window in which an element of the kernel lies inside of the input, and the first after
/// it in which it does not.
#[inline(always)]
fn inside(input: usize, output: usize, stride: usize, padding: usize, shift: usize) -> (usize, usize) {
    let from = padding.saturating_sub(shift).div_ceil(stride);
    let to = (input + padding).saturating_sub(shift).div_ceil(stride).min(output);
    (from.min(to), to)
}

/// Convolves each channel with a kernel of its own.
pub fn depthwise<T: Fused>(conv: Conv, x: &[T], weight: &[T], bias: Option<&[T]>, out: &mut [T]) {
    let (size, taps) = (product(conv.window.output), product(conv.window.kernel));
    if size > 0 {
        split(size.saturating_mul(taps), size, out, &mut [(); 0], |first, out, _| {
            depthwise_from(first, conv, x, weight, bias, out);
        });
    }
}

simd! {
    /// Convolves the channels of all images from one on.
    fn depthwise_from<T: Fused>(
        first: usize, conv: Conv, x: &[T], weight: &[T], bias: Option<&[T]>, out: &mut [T],
    ) {
        let Conv { groups, window, .. } = conv;
        let Window { input, kernel, output, stride, padding, .. } = window;
        let (x_size, out_size, taps) = (product(input), product(output), product(kernel));
        for (i, out) in (first..).zip(out.chunks_exact_mut(out_size)) {
            let channel = i % groups;
            let x = &x[i * x_size..][..x_size];
            let weight = &weight[channel * taps..][..taps];
            out.fill(bias.map_or(T::ZERO, |bias| bias[channel]));
            for (tap, &weight) in weight.iter().enumerate() {
                let shift = window.shift(tap);
                let bounds = |axis: usize| inside(input[axis], output[axis], stride[axis], padding[axis], shift[axis]);
                let ((z0, z1), (y0, y1), (x0, x1)) = (bounds(0), bounds(1), bounds(2));
                for (z, y) in (z0..z1).flat_map(|z| (y0..y1).map(move |y| (z, y))) {
                    let line = (z * stride[0] + shift[0] - padding[0]) * input[1] + y * stride[1] + shift[1] - padding[1];
                    let out = &mut out[(z * output[1] + y) * output[2]..][x0..x1];
                    if out.is_empty() {
                        continue;
                    }
                    let from = &x[line * input[2] + x0 * stride[2] + shift[2] - padding[2]..];
                    if stride[2] == 1 {
                        for (out, &x) in out.iter_mut().zip(from) {
                            *out = *out + weight * x;
                        }
                    } else {
                        for (out, &x) in out.iter_mut().zip(from.iter().step_by(stride[2])) {
                            *out = *out + weight * x;
                        }
                    }
                }
            }
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
