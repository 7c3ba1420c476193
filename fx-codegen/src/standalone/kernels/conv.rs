//! Convolutions over up to three axes; those with fewer have sizes of 1 in front.

use super::gemm::{Fused, Matrix, Operand, Sizes, Start, gemm, packed};
use super::simd::simd;

/// The geometry of a convolution of `[batch, channels, ..]`; sizes of axes are those of depth, height and width.
#[derive(Clone, Copy)]
pub struct Conv {
    /// The size of the batch.
    pub batch: usize,
    /// The number of groups of channels.
    pub groups: usize,
    /// The channels of the input in a group.
    pub inputs: usize,
    /// The channels of the result in a group.
    pub outputs: usize,
    /// The sizes of the input.
    pub input: [usize; 3],
    /// The sizes of the kernel.
    pub kernel: [usize; 3],
    /// The sizes of the result.
    pub output: [usize; 3],
    /// The distance between windows.
    pub stride: [usize; 3],
    /// The zeros before the input.
    pub padding: [usize; 3],
    /// The distance between the elements of a window.
    pub dilation: [usize; 3],
}

const fn product([a, b, c]: [usize; 3]) -> usize {
    a * b * c
}

/// The windows of one group of channels as a matrix: a row for each element of a window, a column for each window.
struct Windows<'a, T> {
    conv: Conv,
    x: &'a [T],
}

impl<T: Fused> Operand<T> for Windows<'_, T> {
    #[inline(always)]
    fn pack(&self, row: usize, from: usize, out: &mut [T]) {
        let Conv { input, kernel, output, stride, padding, dilation, .. } = self.conv;
        let width = output[2];
        let shift = [
            row / (kernel[1] * kernel[2]) % kernel[0] * dilation[0],
            row / kernel[2] % kernel[1] * dilation[1],
            row % kernel[2] * dilation[2],
        ];
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

/// Convolves; `work` holds what [`super::gemm::work`] says for `[outputs, inputs * kernel] * [inputs * kernel, output]`.
pub fn conv<T: Fused>(conv: Conv, x: &[T], weight: &[T], bias: Option<&[T]>, work: &mut [T], out: &mut [T]) {
    let Conv { groups, inputs, outputs, input, kernel, output, stride, padding, .. } = conv;
    let sizes = Sizes { m: outputs, n: product(output), k: inputs * product(kernel) };
    if inputs == 1 && outputs == 1 {
        return depthwise(conv, x, weight, bias, out);
    }
    let is_plain = product(kernel) == 1 && stride == [1; 3] && padding == [0; 3];
    let (x_size, out_size) = (inputs * product(input), outputs * sizes.n);
    if sizes.m * sizes.n == 0 {
        return;
    }
    for (i, out) in out.chunks_exact_mut(out_size).enumerate() {
        let group = i % groups;
        let x = &x[i * x_size..][..x_size];
        let weight = Matrix { data: &weight[group * outputs * sizes.k..], row: sizes.k, column: 1 };
        let start = bias.map_or(Start::Zero, |bias| Start::Rows(&bias[group * outputs..]));
        if is_plain {
            gemm(sizes, weight, Matrix { data: x, row: sizes.n, column: 1 }, start, work, out);
        } else {
            packed(sizes, weight, &Windows { conv, x }, start, work, out, sizes.n);
        }
    }
}

/// Returns the first window in which an element of the kernel lies inside of the input, and the first after it in which it does not.
#[inline(always)]
fn inside(input: usize, output: usize, stride: usize, padding: usize, shift: usize) -> (usize, usize) {
    let from = padding.saturating_sub(shift).div_ceil(stride);
    let to = (input + padding).saturating_sub(shift).div_ceil(stride).min(output);
    (from.min(to), to)
}

simd! {
    /// Convolves each channel with a kernel of its own.
    pub fn depthwise<T: Fused>(conv: Conv, x: &[T], weight: &[T], bias: Option<&[T]>, out: &mut [T]) {
        let Conv { groups, input, kernel, output, stride, padding, dilation, .. } = conv;
        let (x_size, out_size, taps) = (product(input), product(output), product(kernel));
        if out_size == 0 {
            return;
        }
        for (i, out) in out.chunks_exact_mut(out_size).enumerate() {
            let channel = i % groups;
            let x = &x[i * x_size..][..x_size];
            let weight = &weight[channel * taps..][..taps];
            out.fill(bias.map_or(T::ZERO, |bias| bias[channel]));
            for (tap, &weight) in weight.iter().enumerate() {
                let shift = [
                    tap / (kernel[1] * kernel[2]) * dilation[0],
                    tap / kernel[2] % kernel[1] * dilation[1],
                    tap % kernel[2] * dilation[2],
                ];
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

simd! {
    /// Computes the transposed convolution: each element of the input adds a window to the result. In `conv`, `input` are the sizes of
    /// the input of this operation, whose weights are `[groups * inputs, outputs, ..]`.
    pub fn transposed<T: Fused>(conv: Conv, x: &[T], weight: &[T], bias: Option<&[T]>, out: &mut [T]) {
        let Conv { groups, inputs, outputs, input, kernel, output, stride, padding, dilation, .. } = conv;
        let (x_size, out_size, taps) = (product(input), product(output), product(kernel));
        if out_size == 0 {
            return;
        }
        for (i, out) in out.chunks_exact_mut(out_size).enumerate() {
            let channel = i % (groups * outputs);
            let (batch, group) = (i / (groups * outputs), channel / outputs);
            out.fill(bias.map_or(T::ZERO, |bias| bias[channel]));
            for c in group * inputs..(group + 1) * inputs {
                let x = &x[(batch * groups * inputs + c) * x_size..][..x_size];
                let weight = &weight[(c * outputs + channel % outputs) * taps..][..taps];
                for (tap, &weight) in weight.iter().enumerate() {
                    let shift = [
                        tap / (kernel[1] * kernel[2]) * dilation[0],
                        tap / kernel[2] % kernel[1] * dilation[1],
                        tap % kernel[2] * dilation[2],
                    ];
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
