//! Softmax and normalisations of rows: `n` elements that lie beside each other.

use super::math::{self, Real};
use super::simd::simd;
use super::sum::{sum, sum_squares};
use super::threads::split;

/// The most elements of a chunk that is worked on at once.
const LANES: usize = 16;

/// Returns the greatest element, or NaN if there is one.
#[inline(always)]
pub fn greatest<T: Real>(x: &[T]) -> T {
    let mut lanes = [T::ZERO - T::INFINITY; LANES];
    let (chunks, rest) = x.as_chunks::<LANES>();
    for chunk in chunks {
        for (lane, &x) in lanes.iter_mut().zip(chunk) {
            *lane = if x > *lane || x != x { x } else { *lane };
        }
    }
    let mut best = T::ZERO - T::INFINITY;
    for &x in lanes.iter().chain(rest) {
        best = if x > best || x != x { x } else { best };
    }
    best
}

/// What an element of a row counts for, beside an addition.
const COST: usize = 8;

/// Calls `f` with rows and their results: all of them, or parts on several threads.
fn each<T: Real + Send + Sync>(x: &[T], n: usize, out: &mut [T], f: impl Fn(&[T], &mut [T]) + Sync) {
    if n > 0 {
        split(n * COST, n, out, &mut [(); 0], |row, out, _| f(&x[row * n..][..out.len()], out));
    }
}

/// Computes `exp(x) / sum(exp(x))` of each row.
pub fn softmax<T: Real + Send + Sync>(x: &[T], n: usize, out: &mut [T]) {
    each(x, n, out, |x, out| softmax_rows(x, n, out));
}

/// Computes `x - log(sum(exp(x)))` of each row.
pub fn log_softmax<T: Real + Send + Sync>(x: &[T], n: usize, out: &mut [T]) {
    each(x, n, out, |x, out| log_softmax_rows(x, n, out));
}

/// Normalises each row, then applies a weight and a bias for each of its elements.
pub fn layer_norm<T: Real + Send + Sync>(
    x: &[T],
    n: usize,
    weight: Option<&[T]>,
    bias: Option<&[T]>,
    eps: f64,
    out: &mut [T],
) {
    each(x, n, out, |x, out| layer_norm_rows(x, n, weight, bias, eps, out));
}

/// Divides each row by the root of the mean of its squares, then applies a weight for each of its elements.
pub fn rms_norm<T: Real + Send + Sync>(x: &[T], n: usize, weight: Option<&[T]>, eps: f64, out: &mut [T]) {
    each(x, n, out, |x, out| rms_norm_rows(x, n, weight, eps, out));
}

simd! {
    fn softmax_rows<T: Real>(x: &[T], n: usize, out: &mut [T]) {
        for (x, out) in x.chunks_exact(n).zip(out.chunks_exact_mut(n)) {
            out.copy_from_slice(x);
            softmax_row(out, false);
        }
    }
}

/// Replaces a row by its softmax; a row of minus infinities gives NaN, or zeros if `masked`.
#[inline(always)]
pub fn softmax_row<T: Real>(row: &mut [T], masked: bool) {
    let greatest = greatest(row);
    if masked && greatest == T::ZERO - T::INFINITY {
        return row.fill(T::ZERO);
    }
    for x in row.iter_mut() {
        *x = math::exp(*x - greatest);
    }
    let factor = T::ONE / sum(row);
    for x in row {
        *x = *x * factor;
    }
}

simd! {
    fn log_softmax_rows<T: Real>(x: &[T], n: usize, out: &mut [T]) {
        for (x, out) in x.chunks_exact(n).zip(out.chunks_exact_mut(n)) {
            let greatest = greatest(x);
            for (out, &x) in out.iter_mut().zip(x) {
                *out = math::exp(x - greatest);
            }
            let log = math::log(sum(out)) + greatest;
            for (out, &x) in out.iter_mut().zip(x) {
                *out = x - log;
            }
        }
    }
}

/// Multiplies a row by weights and adds biases, where there are any.
#[inline(always)]
fn affine<T: Real>(row: &mut [T], weight: Option<&[T]>, bias: Option<&[T]>) {
    if let Some(weight) = weight {
        for (x, &weight) in row.iter_mut().zip(weight) {
            *x = *x * weight;
        }
    }
    if let Some(bias) = bias {
        for (x, &bias) in row.iter_mut().zip(bias) {
            *x = *x + bias;
        }
    }
}

/// Brings a row to mean 0 and variance 1.
#[inline(always)]
fn standardise<T: Real>(x: &[T], eps: f64, out: &mut [T]) {
    let n = x.len() as f64;
    let mean = T::from_f64(sum(x).to_f64() / n);
    for (out, &x) in out.iter_mut().zip(x) {
        *out = x - mean;
    }
    let factor = math::rsqrt(T::from_f64(sum_squares(out).to_f64() / n + eps));
    for out in out {
        *out = *out * factor;
    }
}

simd! {
    fn layer_norm_rows<T: Real>(x: &[T], n: usize, weight: Option<&[T]>, bias: Option<&[T]>, eps: f64, out: &mut [T]) {
        for (x, out) in x.chunks_exact(n).zip(out.chunks_exact_mut(n)) {
            standardise(x, eps, out);
            affine(out, weight, bias);
        }
    }
}

simd! {
    fn rms_norm_rows<T: Real>(x: &[T], n: usize, weight: Option<&[T]>, eps: f64, out: &mut [T]) {
        for (x, out) in x.chunks_exact(n).zip(out.chunks_exact_mut(n)) {
            let factor = math::rsqrt(T::from_f64(sum_squares(x).to_f64() / n as f64 + eps));
            for (out, &x) in out.iter_mut().zip(x) {
                *out = x * factor;
            }
            affine(out, weight, None);
        }
    }
}

simd! {
    /// Normalises groups of channels of `[batch, channels, inner]`, then applies a weight and a bias for each
    /// channel.
    pub fn group_norm<T: Real>(
        x: &[T], channels: usize, inner: usize, groups: usize, weight: Option<&[T]>, bias: Option<&[T]>, eps: f64, out: &mut [T],
    ) {
        let n = channels / groups * inner;
        if n == 0 {
            return;
        }
        for (x, out) in x.chunks_exact(n).zip(out.chunks_exact_mut(n)) {
            standardise(x, eps, out);
        }
        for (i, row) in out.chunks_exact_mut(inner).enumerate() {
            let weight = weight.map_or(T::ONE, |weight| weight[i % channels]);
            let bias = bias.map_or(T::ZERO, |bias| bias[i % channels]);
            for x in row {
                *x = *x * weight + bias;
            }
        }
    }
}

simd! {
    /// Applies the running statistics, weights and biases of each channel of `[batch, channels, inner]`.
    pub fn batch_norm<T: Real>(
        x: &[T], inner: usize, mean: &[T], var: &[T], weight: Option<&[T]>, bias: Option<&[T]>, eps: f64, out: &mut [T],
    ) {
        if inner == 0 {
            return;
        }
        let channels = mean.len();
        for (i, (x, out)) in x.chunks_exact(inner).zip(out.chunks_exact_mut(inner)).enumerate() {
            let c = i % channels;
            let factor = math::rsqrt(var[c] + T::from_f64(eps)) * weight.map_or(T::ONE, |weight| weight[c]);
            let shift = bias.map_or(T::ZERO, |bias| bias[c]) - mean[c] * factor;
            for (out, &x) in out.iter_mut().zip(x) {
                *out = x * factor + shift;
            }
        }
    }
}
