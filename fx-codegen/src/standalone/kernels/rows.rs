//! Softmax of a row, and normalisations of channels.

use super::math::{self, Real};
use super::row::{max, sum, sum_squares};
use super::simd::simd;

/// Replaces a row by its softmax; a row of minus infinities gives NaN, or zeros if `masked`.
#[inline(always)]
pub fn softmax_row<T: Real>(row: &mut [T], masked: bool) {
    let greatest = max(row);
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
