//! Convolutions of images with windows of 3 by 3 elements, one apart, by Winograd's minimal filtering
//! F(2x2, 3x3): 16 multiplications for 4 results instead of 36. See A. Lavin and S. Gray, Fast Algorithms for
//! Convolutional Neural Networks, CVPR 2016.
//!
//! Tiles of 4 by 4 elements of the input, 2 apart, are transformed, and so are the kernels. Then each of the 16
//! places in a tile is a product over the channels, and its sums, transformed back, are 2 by 2 results. An infinity
//! in the input makes NaN of the tiles that it lies in.
//!
//! Kernels are transformed in the cache, each time that they are needed: that takes less time than to read what it
//! makes from memory, which is 16 ninths as much.

use super::conv::Conv;
use super::gemm::{Fused, InOrder, Matrix, Sizes, Start, WIDEST, tiles};
use super::simd::simd;
use super::threads::split;
use super::window::{Enclosed, Window};

/// The places in a tile.
const PLACES: usize = 16;
/// The elements of a kernel.
const TAPS: usize = 9;
/// The transformed elements of the input at a time.
const BLOCK: usize = 1 << 17;
/// The fewest tiles at a time, if there are so many.
const FEWEST: usize = 64;
/// The transformed elements of kernels at a time, if a tile of a product needs no more.
const KERNELS: usize = 3 << 15;
/// The elements that are transformed at a time.
const LANES: usize = 8;

/// Returns how far apart the elements of two places lie, of which there are `n` each: no power of two, for those
/// of all places would have the same few lines of a cache.
const fn apart(n: usize) -> usize {
    n.next_multiple_of(WIDEST / 2) + WIDEST / 2
}

/// Returns how far apart the tiles of two channels lie, of which a block has `n`.
const fn channel_apart(n: usize) -> usize {
    PLACES * apart(n) + WIDEST
}

/// Returns how many lines of tiles a block has, all as many but perhaps the last.
const fn block(inputs: usize, lines: usize, line: usize) -> usize {
    let (most, fewest) = (BLOCK / (PLACES * inputs * line), FEWEST.div_ceil(line));
    let most = if most < fewest { fewest } else { most };
    lines.div_ceil(lines.div_ceil(most))
}

/// Returns how many channels of the result are computed at a time.
const fn channels(inputs: usize) -> usize {
    if PLACES * 24 * inputs <= KERNELS { 24 } else { 12 }
}

/// Returns how many elements the copy of a channel has that a block reads.
const fn copied(lines: usize, line: usize) -> usize {
    4 * (lines + 1) * (line + 1) + WIDEST
}

/// Returns how many elements [`conv`] needs for so many channels of input and a result of these sizes.
pub const fn work(inputs: usize, height: usize, width: usize) -> usize {
    if height * width == 0 {
        return 0;
    }
    let line = width.div_ceil(2);
    let lines = block(inputs, height.div_ceil(2), line);
    let channel = channel_apart(lines * line);
    let rows = channels(inputs);
    let kernels = PLACES * apart(rows * inputs);
    copied(lines, line) + (inputs + rows + 1) * channel + WIDEST + kernels + super::gemm::work(rows, inputs)
}

/// Neighbouring elements.
type Vector<T> = [T; LANES];

#[inline(always)]
fn vector<T: Fused>(x: &[T], at: usize) -> Vector<T> {
    let mut vector = [T::ZERO; LANES];
    vector.copy_from_slice(&x[at..][..LANES]);
    vector
}

#[inline(always)]
fn add<T: Fused>(mut a: Vector<T>, b: Vector<T>) -> Vector<T> {
    for i in 0..LANES {
        a[i] = a[i] + b[i];
    }
    a
}

#[inline(always)]
fn sub<T: Fused>(mut a: Vector<T>, b: Vector<T>) -> Vector<T> {
    for i in 0..LANES {
        a[i] = a[i] - b[i];
    }
    a
}

/// Transforms four elements of an input.
#[inline(always)]
fn forth<T: Fused>([a, b, c, d]: [Vector<T>; 4]) -> [Vector<T>; 4] {
    [sub(a, c), add(b, c), sub(c, b), sub(b, d)]
}

/// Transforms four sums back.
#[inline(always)]
fn back<T: Fused>([a, b, c, d]: [Vector<T>; 4]) -> [Vector<T>; 2] {
    [add(add(a, b), c), sub(sub(b, c), d)]
}

/// Transforms three elements of kernels.
#[inline(always)]
fn sharpen<T: Fused>([a, mut b, c]: [Vector<T>; 3]) -> [Vector<T>; 4] {
    let half = T::ONE / (T::ONE + T::ONE);
    let mut ends = add(a, c);
    for i in 0..LANES {
        (ends[i], b[i]) = (half * ends[i], half * b[i]);
    }
    [a, add(ends, b), sub(ends, b), c]
}

/// Brings `n` kernels into the order in which [`conv`] reads them: elements of the same place follow each other.
pub fn parted<T: Fused>(n: usize, weight: &[T]) -> Vec<T> {
    let row = apart(n);
    let mut out = vec![T::ZERO; TAPS * row];
    for (i, kernel) in weight.as_chunks::<TAPS>().0.iter().enumerate() {
        for (tap, &x) in kernel.iter().enumerate() {
            out[tap * row + i] = x;
        }
    }
    out
}

/// Returns rows of so many elements, a distance apart.
#[inline(always)]
fn rows<const N: usize, T>(x: &mut [T], apart: usize, len: usize) -> [&mut [T]; N] {
    let mut rows: [&mut [T]; N] = core::array::from_fn(|_| Default::default());
    for (row, x) in rows.iter_mut().zip(x.chunks_exact_mut(apart)) {
        *row = &mut x[..len];
    }
    rows
}

simd! {
    /// Transforms the tiles of some channels.
    fn into_tiles<T: Fused>(
        enclosed: Enclosed, x: &[T], plane: usize, skipped: usize, n: usize, copy: &mut [T], out: &mut [T],
    ) {
        let ([_, lines, line], [_, _, wide]) = (enclosed.window.output, enclosed.sizes);
        let mut places = [0; PLACES];
        for (tap, place) in places.iter_mut().enumerate() {
            *place = enclosed.place(tap);
        }
        for (i, out) in out.chunks_exact_mut(channel_apart(n)).enumerate() {
            enclosed.fill(T::ZERO, &x[i * plane..][skipped..plane], copy);
            let len = (lines - 1) * wide + line.next_multiple_of(LANES);
            let mut from = [&copy[..len]; PLACES];
            for (from, place) in from.iter_mut().zip(places) {
                *from = &copy[place..][..len];
            }
            let to: [&mut [T]; PLACES] = rows(out, apart(n), apart(n));
            // What is stored behind a line is overwritten by the next one.
            for (y, at) in (0..lines).flat_map(|y| (0..line).step_by(LANES).map(move |at| (y, at))) {
                let mut tile = [[[T::ZERO; LANES]; 4]; 4];
                for (i, line) in tile.iter_mut().enumerate() {
                    *line = forth([
                        vector(from[4 * i], y * wide + at),
                        vector(from[4 * i + 1], y * wide + at),
                        vector(from[4 * i + 2], y * wide + at),
                        vector(from[4 * i + 3], y * wide + at),
                    ]);
                }
                for j in 0..4 {
                    let places = forth([tile[0][j], tile[1][j], tile[2][j], tile[3][j]]);
                    for (i, place) in places.iter().enumerate() {
                        to[4 * i + j][y * line + at..][..LANES].copy_from_slice(place);
                    }
                }
            }
        }
    }
}

simd! {
    /// Transforms `n` of the kernels from one on, of which there are `all`.
    fn into_kernels<T: Fused>(weight: &[T], first: usize, all: usize, n: usize, out: &mut [T]) {
        let (all, len) = (apart(all), n.next_multiple_of(LANES));
        let out: [&mut [T]; PLACES] = rows(out, apart(n), len);
        for at in (0..len).step_by(LANES) {
            let mut lines = [[[T::ZERO; LANES]; 4]; 3];
            for (i, line) in lines.iter_mut().enumerate() {
                *line = sharpen([
                    vector(weight, 3 * i * all + first + at),
                    vector(weight, (3 * i + 1) * all + first + at),
                    vector(weight, (3 * i + 2) * all + first + at),
                ]);
            }
            for j in 0..4 {
                let places = sharpen([lines[0][j], lines[1][j], lines[2][j]]);
                for (i, place) in places.iter().enumerate() {
                    out[4 * i + j][at..][..LANES].copy_from_slice(place);
                }
            }
        }
    }
}

simd! {
    /// Transforms the sums of a channel back, of lines of so many tiles, and adds the bias.
    fn from_tiles<T: Fused>(
        sums: &mut [T], apart: usize, line: usize, bias: T, room: &mut [T], width: usize, out: &mut [T],
    ) {
        let len = apart - WIDEST / 2;
        let from: [&mut [T]; PLACES] = rows(sums, apart, len);
        let parts: [&mut [T]; 4] = rows(room, apart, len);
        for at in (0..len).step_by(LANES) {
            let mut columns = [[[T::ZERO; LANES]; 2]; 4];
            for (j, column) in columns.iter_mut().enumerate() {
                *column = back([
                    vector(from[j], at),
                    vector(from[4 + j], at),
                    vector(from[8 + j], at),
                    vector(from[12 + j], at),
                ]);
            }
            for i in 0..2 {
                let results = back([columns[0][i], columns[1][i], columns[2][i], columns[3][i]]);
                for (j, results) in results.iter().enumerate() {
                    parts[2 * i + j][at..][..LANES].copy_from_slice(results);
                }
            }
        }
        for (y, out) in out.chunks_exact_mut(width).enumerate() {
            let first = y / 2 * line;
            let (even, odd) = (&parts[2 * (y % 2)][first..][..line], &parts[2 * (y % 2) + 1][first..][..line]);
            let (pairs, last) = out.as_chunks_mut::<2>();
            for ((out, &even), &odd) in pairs.iter_mut().zip(even).zip(odd) {
                *out = [even + bias, odd + bias];
            }
            if let [last] = last {
                *last = even[width / 2] + bias;
            }
        }
    }
}

/// Convolves for one group; `weight` was [`parted`], and `work` holds what [`work`] says.
pub fn conv<T: Fused>(conv: Conv, x: &[T], weight: &[T], bias: Option<&[T]>, work: &mut [T], out: &mut [T]) {
    let Conv { inputs, outputs, window, .. } = conv;
    let ([_, height, width], [_, tall, wide]) = (window.output, window.input);
    let size = outputs * height * width;
    if size == 0 {
        return;
    }
    let (all, line) = (height.div_ceil(2), width.div_ceil(2));
    let (most, rows) = (block(inputs, all, line), channels(inputs));
    let plane = tall * wide;
    for (i, out) in out.chunks_exact_mut(size).enumerate() {
        let x = &x[i * inputs * plane..];
        for first in (0..all).step_by(most) {
            let lines = most.min(all - first);
            // The lines before the block are those of the image, behind its padding.
            let skipped = (2 * first).saturating_sub(window.padding[1]).min(tall);
            let enclosed = Enclosed::new(Window {
                input: [1, tall - skipped, wide],
                kernel: [1, 4, 4],
                output: [1, lines, line],
                stride: [1, 2, 2],
                padding: [0, window.padding[1].saturating_sub(2 * first), window.padding[2]],
                dilation: [1; 3],
            });
            let n = lines * line;
            let (places, channels) = (apart(n), channel_apart(n));
            let (copy, rest) = work.split_at_mut(copied(most, line));
            let (tiled, rest) = rest.split_at_mut(inputs * channels + WIDEST);
            let to = &mut tiled[..inputs * channels];
            split(8 * PLACES * n, channels, to, copy, |channel, out, copy| {
                let planes = &x[channel * plane..][..out.len() / channels * plane];
                into_tiles(enclosed, planes, plane, skipped * wide, n, copy, out);
            });
            let operations = (PLACES * n).saturating_mul(inputs);
            let tiled = &*tiled;
            split(operations, height * width, out, rest, |channel, out, room| {
                let (sums, room) = room.split_at_mut(rows * channels);
                let (parts, room) = room.split_at_mut(channels);
                for (i, out) in out.chunks_mut(rows * height * width).enumerate() {
                    let (channel, m) = (channel + i * rows, out.len() / (height * width));
                    let sums = &mut sums[..m * channels];
                    let row = apart(m * inputs);
                    let (kernels, room) = room.split_at_mut(PLACES * row);
                    into_kernels(weight, channel * inputs, outputs * inputs, m * inputs, kernels);
                    // The rows of a product are those of any thread, so that all threads add terms in one order.
                    let sizes = Sizes { m: rows, n: n.next_multiple_of(WIDEST / 2), k: inputs };
                    for place in 0..PLACES {
                        let a = Matrix { data: &kernels[place * row..], row: inputs, column: 1 };
                        let b = Matrix { data: &tiled[place * places..], row: channels, column: 1 };
                        let sums = &mut sums[place * places..];
                        tiles(sizes, a, b, InOrder, channels, Start::Zero, room, sums);
                    }
                    let results = sums.chunks_exact_mut(channels).zip(out.chunks_exact_mut(height * width));
                    for (channel, (sums, out)) in (channel..).zip(results) {
                        let bias = bias.map_or(T::ZERO, |bias| bias[channel]);
                        let out = &mut out[2 * first * width..(2 * (first + lines)).min(height) * width];
                        from_tiles(sums, places, line, bias, parts, width, out);
                    }
                }
            });
        }
    }
}
