//! Softmax and normalisation of rows that lie one after the other.
//!
//! A row is reduced in `LANES` interleaved sums that are added as a tree, whichever thread has it.

use fx_core::math::{self, Real};
use rayon::prelude::*;

/// The interleaved sums of a row.
const LANES: usize = 32;

/// The elements below which a second thread does not pay.
const GRAIN: usize = 1 << 15;

/// Combines the elements of a row, after `map`, lane by lane.
#[inline(always)]
fn fold<T: Real>(row: &[T], start: T, map: impl Fn(T) -> T, join: impl Fn(T, T) -> T) -> T {
    let mut lanes = [start; LANES];
    let (blocks, rest) = row.as_chunks::<LANES>();
    for block in blocks {
        for (lane, &x) in lanes.iter_mut().zip(block) {
            *lane = join(*lane, map(x));
        }
    }
    for (lane, &x) in lanes.iter_mut().zip(rest) {
        *lane = join(*lane, map(x));
    }
    let mut width = LANES / 2;
    while width > 0 {
        for i in 0..width {
            lanes[i] = join(lanes[i], lanes[i + width]);
        }
        width /= 2;
    }
    lanes[0]
}

/// Returns the sum of a row after `map`.
#[inline(always)]
pub fn sum<T: Real>(row: &[T], map: impl Fn(T) -> T) -> T {
    fold(row, T::ZERO, map, |a, b| a + b)
}

/// Returns the maximum of a row, minus infinity for an empty one; NaN does not count.
#[inline(always)]
fn maximum<T: Real>(row: &[T]) -> T {
    fold(row, -T::INFINITY, |x| x, |a, b| if b > a { b } else { a })
}

/// Calls `f` for every row of `out` with its number, in parallel where it pays.
pub fn for_each_row<T: Send>(out: &mut [T], width: usize, f: impl Fn(usize, &mut [T]) + Sync) {
    if out.is_empty() || width == 0 {
        return;
    }
    let at_once = GRAIN.div_ceil(width);
    if out.len() / width <= at_once {
        out.chunks_mut(width).enumerate().for_each(|(i, row)| f(i, row));
    } else {
        out.par_chunks_mut(width).enumerate().with_min_len(at_once).for_each(|(i, row)| f(i, row));
    }
}

/// Replaces a row by its softmax; a row of minus infinities gives NaN, or zeros if `masked`.
pub fn softmax_row<T: Real>(row: &mut [T], masked: bool) {
    fx_simd::call(softmax_body, (row, masked));
}

#[inline(always)]
fn softmax_body<T: Real>((row, masked): (&mut [T], bool)) {
    let greatest = maximum(row);
    if masked && greatest == -T::INFINITY && row.iter().all(|&x| x == greatest) {
        return row.fill(T::ZERO);
    }
    row.iter_mut().for_each(|x| *x = math::exp(*x - greatest));
    let scale = T::ONE / sum(row, |x| x);
    row.iter_mut().for_each(|x| *x = *x * scale);
}

/// Replaces rows by their softmax.
pub fn softmax<T: Real>(out: &mut [T], width: usize) {
    for_each_row(out, width, |_, row| softmax_row(row, false));
}

/// Replaces rows by the logarithm of their softmax.
pub fn log_softmax<T: Real>(out: &mut [T], width: usize) {
    for_each_row(out, width, |_, row| fx_simd::call(log_softmax_row, row));
}

#[inline(always)]
fn log_softmax_row<T: Real>(row: &mut [T]) {
    let greatest = maximum(row);
    let log = math::log(sum(row, |x| math::exp(x - greatest)));
    row.iter_mut().for_each(|x| *x = (*x - greatest) - log);
}

/// Returns mean and variance (over the number of elements) of a row, in two passes.
pub fn moments<T: Real>(row: &[T]) -> (T, T) {
    fx_simd::call(moments_body, row)
}

#[inline(always)]
fn moments_body<T: Real>(row: &[T]) -> (T, T) {
    let n = T::from_f64(row.len() as f64);
    let mean = sum(row, |x| x) / n;
    (mean, sum(row, |x| (x - mean) * (x - mean)) / n)
}

/// Replaces rows by `(x - mean) / sqrt(variance + eps)`, times weight, plus bias, element by element.
pub fn layer_norm<T: Real>(out: &mut [T], width: usize, weight: Option<&[T]>, bias: Option<&[T]>, eps: f64) {
    for_each_row(out, width, |_, row| fx_simd::call(layer_norm_row, (row, [weight, bias], eps)));
}

#[inline(always)]
fn layer_norm_row<T: Real>((row, [weight, bias], eps): (&mut [T], [Option<&[T]>; 2], f64)) {
    let (mean, variance) = moments_body(row);
    let scale = T::ONE / math::sqrt(variance + T::from_f64(eps));
    row.iter_mut().for_each(|x| *x = (*x - mean) * scale);
    affine(row, weight, bias);
}

/// Replaces rows by `x / sqrt(mean of squares + eps)`, times weight.
pub fn rms_norm<T: Real>(out: &mut [T], width: usize, weight: Option<&[T]>, eps: f64) {
    for_each_row(out, width, |_, row| fx_simd::call(rms_norm_row, (row, weight, eps)));
}

#[inline(always)]
fn rms_norm_row<T: Real>((row, weight, eps): (&mut [T], Option<&[T]>, f64)) {
    let square = sum(row, |x| x * x) / T::from_f64(row.len() as f64);
    let scale = T::ONE / math::sqrt(square + T::from_f64(eps));
    row.iter_mut().for_each(|x| *x = *x * scale);
    affine(row, weight, None);
}

#[inline(always)]
fn affine<T: Real>(row: &mut [T], weight: Option<&[T]>, bias: Option<&[T]>) {
    if let Some(weight) = weight {
        row.iter_mut().zip(weight).for_each(|(x, &w)| *x = *x * w);
    }
    if let Some(bias) = bias {
        row.iter_mut().zip(bias).for_each(|(x, &b)| *x = *x + b);
    }
}

/// Replaces each row by `scale * x + shift`, where the row's number gives both.
pub fn scale_rows<T: Real>(out: &mut [T], width: usize, factors: impl Fn(usize) -> (T, T) + Sync) {
    for_each_row(out, width, |i, row| {
        fx_simd::call(scale_row, (row, factors(i)));
    });
}

#[inline(always)]
fn scale_row<T: Real>((row, (scale, shift)): (&mut [T], (T, T))) {
    row.iter_mut().for_each(|x| *x = *x * scale + shift);
}
