//! Convolutions whose groups have one channel, of planes that are smaller than a vector: channels lie side by side
//! while they are convolved.

use core::ops::Range;

use super::conv::Conv;
use super::gemm::Fused;
use super::simd::simd;
use super::threads::split_outer;
use super::window::{Window, product};

/// How many channels lie side by side.
const SIDE: usize = 16;
/// How many elements of each channel are moved at a time.
const PART: usize = 32;

/// Returns how many elements [`conv`] needs for planes of so many elements and results.
pub const fn work(input: usize, output: usize) -> usize {
    (input + output) * SIDE
}

/// Brings the kernels of so many channels into the order in which [`conv`] reads them: side by side.
pub fn side_by_side<T: Fused>(channels: usize, weight: &[T]) -> Vec<T> {
    let taps = weight.len() / channels.max(1);
    let mut out = vec![T::ZERO; channels.next_multiple_of(SIDE) * taps];
    for (channel, kernel) in weight.chunks_exact(taps.max(1)).enumerate() {
        let (block, lane) = (channel / SIDE * SIDE * taps, channel % SIDE);
        for (tap, &x) in kernel.iter().enumerate() {
            out[block + tap * SIDE + lane] = x;
        }
    }
    out
}

/// Convolves each channel with a kernel of its own; `weight` is what [`side_by_side`] makes, and `room` holds what
/// [`work`] says.
pub fn conv<T: Fused>(conv: Conv, x: &[T], weight: &[T], bias: Option<&[T]>, room: &mut [T], out: &mut [T]) {
    let Conv { groups: channels, window, .. } = conv;
    let (input, output) = (product(window.input), product(window.output));
    let size = channels * output;
    if size == 0 {
        return;
    }
    let operations = size.saturating_mul(product(window.kernel));
    split_outer(operations, size, out, room, |image, out, room| {
        let x = &x[image * channels * input..][..channels * input];
        convolve(window, x, weight, bias, room, out);
    });
}

/// The windows along an axis that begin at a position: which elements of the kernel lie inside of the input.
#[inline(always)]
fn inside(window: &Window, axis: usize, at: usize) -> Range<usize> {
    let (step, from) = (window.dilation[axis], at * window.stride[axis]);
    let (before, left) = (
        window.padding[axis].saturating_sub(from),
        (window.input[axis] + window.padding[axis]).saturating_sub(from),
    );
    match step {
        1 => before..left.min(window.kernel[axis]),
        _ => before.div_ceil(step)..left.div_ceil(step).min(window.kernel[axis]),
    }
}

/// Returns where the element of a kernel lies in the input, along an axis.
#[inline(always)]
fn place(window: &Window, axis: usize, at: usize, tap: usize) -> usize {
    at * window.stride[axis] + tap * window.dilation[axis] - window.padding[axis]
}

simd! {
    /// Convolves the channels of an image.
    fn convolve<T: Fused>(window: Window, x: &[T], weight: &[T], bias: Option<&[T]>, room: &mut [T], out: &mut [T]) {
        let (input, output, taps) = (product(window.input), product(window.output), product(window.kernel));
        let (from, to) = room[..work(input, output)].split_at_mut(input * SIDE);
        for (block, out) in out.chunks_mut(SIDE * output).enumerate() {
            let first = block * SIDE;
            let channels = out.len() / output;
            let x = &x[first * input..][..channels * input];
            for (part, from) in from.chunks_mut(PART * SIDE).enumerate() {
                for (lane, x) in x.chunks_exact(input).enumerate() {
                    for (&x, from) in x[part * PART..].iter().zip(from.as_chunks_mut::<SIDE>().0) {
                        from[lane] = x;
                    }
                }
            }
            let mut start = [T::ZERO; SIDE];
            if let Some(bias) = bias {
                start[..channels].copy_from_slice(&bias[first..][..channels]);
            }
            let (weight, _) = weight[first * taps..][..SIDE * taps].as_chunks::<SIDE>();
            let (from, _) = from.as_chunks::<SIDE>();
            let mut results = to.as_chunks_mut::<SIDE>().0.iter_mut();
            for z in 0..window.output[0] {
                let planes = inside(&window, 0, z);
                for y in 0..window.output[1] {
                    let lines = inside(&window, 1, y);
                    for (x, to) in (0..window.output[2]).zip(&mut results) {
                        let columns = inside(&window, 2, x);
                        let mut sums = start;
                        for kz in planes.clone() {
                            let plane = place(&window, 0, z, kz) * window.input[1];
                            for ky in lines.clone() {
                                let line = (plane + place(&window, 1, y, ky)) * window.input[2];
                                let tap = (kz * window.kernel[1] + ky) * window.kernel[2];
                                for kx in columns.clone() {
                                    let x = &from[line + place(&window, 2, x, kx)];
                                    let weight = &weight[tap + kx];
                                    for lane in 0..SIDE {
                                        sums[lane] = weight[lane].multiply_add(x[lane], sums[lane]);
                                    }
                                }
                            }
                        }
                        *to = sums;
                    }
                }
            }
            for (part, to) in to.chunks(PART * SIDE).enumerate() {
                for (lane, out) in out.chunks_exact_mut(output).enumerate() {
                    for (out, to) in out[part * PART..].iter_mut().zip(to.as_chunks::<SIDE>().0) {
                        *out = to[lane];
                    }
                }
            }
        }
    }
}
