//! Softmax and normalisation of rows that lie one after the other.
//!
//! A row is reduced in interleaved sums that are added as a tree, whichever thread has it.

use fx_base::math::{self, Real};
use fx_simd::parallel;

use super::call_real;
use super::lanes::{TINY, fold, joined, last, tree};

/// The interleaved sums of exponentials that are stored: one vector, for exponentials take longer than the
/// additions wait for each other.
const LANES: usize = 16;

/// The rows that are worked on stage by stage, so that what waits at the end of a row meanwhile lets others go on.
const ROWS: usize = 16;

/// As many rows that are not short are enough.
const FEW_ROWS: usize = 4;

/// The bytes of rows that stay in the first cache between stages.
const STAGE: usize = 1 << 13;

/// The elements below which a second thread does not pay.
const GRAIN: usize = 1 << 13;

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

/// Returns the greatest element of a row, NaN if there is one.
pub fn row_greatest<T: Real>(row: &[T]) -> T {
    call_real::<T, greatest_body, _>(row)
}

/// Returns the least element of a row, NaN if there is one.
pub fn row_least<T: Real>(row: &[T]) -> T {
    call_real::<T, least_body, _>(row)
}

fx_simd::wide! {
    fn greatest_body[T: Real](row: &[T]) -> T {
        extreme(row, -T::INFINITY, |a, b| if b > a { b } else { a })
    }

    fn least_body[T: Real](row: &[T]) -> T {
        extreme(row, T::INFINITY, |a, b| if b < a { b } else { a })
    }
}

/// Combines the elements of a row, of which NaN wins.
#[inline(always)]
fn extreme<T: Real>(row: &[T], start: T, join: impl Fn(T, T) -> T) -> T {
    let found = fold(row, start, |x| x, join);
    // NaN times zero is NaN, and so is infinity, which then must be looked for.
    let sum = sum(row, |x| x * T::ZERO);
    let is_nan = |x: &T| x.partial_cmp(x).is_none();
    if is_nan(&sum) { row.iter().copied().find(is_nan).unwrap_or(found) } else { found }
}

/// Calls `f` with some rows of `x` and of `out` at a time, in parallel where it pays.
fn for_each_rows<T: Real>(x: &[T], out: &mut [T], width: usize, f: impl Fn(&[T], &mut [T]) + Sync) {
    assert_eq!(x.len(), out.len(), "each row has its result");
    if out.is_empty() || width == 0 {
        return;
    }
    let piece = stage::<T>(width) * width;
    parallel::chunks(out, piece, GRAIN.div_ceil(piece), |i, out| f(&x[i * piece..][..out.len()], out));
}

/// Returns how many rows are worked on stage by stage.
#[inline(always)]
fn stage<T>(width: usize) -> usize {
    (STAGE / (width * size_of::<T>())).clamp(1, if width < TINY { ROWS } else { FEW_ROWS })
}

/// Calls `f` for every row of `out` with its number, in parallel where it pays.
pub fn for_each_row<T: Send>(out: &mut [T], width: usize, f: impl Fn(usize, &mut [T]) + Sync) {
    if out.is_empty() || width == 0 {
        return;
    }
    let at_once = GRAIN.div_ceil(width);
    parallel::chunks(out, width, at_once, f);
}

/// Replaces a row by its softmax; a row of minus infinities gives NaN, or zeros if `masked`.
pub fn softmax_row<T: Real>(row: &mut [T], masked: bool) {
    call_real::<T, softmax_body, _>((row, masked));
}

fx_simd::wide! {
    /// Stores the softmax of rows of `width` elements of `x`.
    pub fn softmax_of_rows[T: Real]((x, out, width): (&[T], &mut [T], usize)) {
        let rows = stage::<T>(width);
        for (x, out) in x.chunks(rows * width).zip(out.chunks_mut(rows * width)) {
            let mut factors = [T::ZERO; ROWS];
            for (greatest, x) in factors.iter_mut().zip(x.chunks_exact(width)) {
                *greatest = maximum(x);
            }
            for (factor, (x, out)) in factors.iter_mut().zip(x.chunks_exact(width).zip(out.chunks_exact_mut(width))) {
                *factor = T::ONE / exponentials_of(x, out, *factor, rows * width);
            }
            for (&factor, out) in factors.iter().zip(out.chunks_exact_mut(width)) {
                for x in out {
                    *x = *x * factor;
                }
            }
        }
    }

    fn softmax_body[T: Real]((row, masked): (&mut [T], bool)) {
        let greatest = maximum(row);
        if masked && greatest == -T::INFINITY && row.iter().all(|&x| x == greatest) {
            return row.fill(T::ZERO);
        }
        let scale = T::ONE / exponentials(row, greatest);
        for x in row {
            *x = *x * scale;
        }
    }
}

/// Replaces the elements of a row by `exp(x - greatest)`, and returns their sum.
#[inline(always)]
fn exponentials<T: Real>(row: &mut [T], greatest: T) -> T {
    let mut lanes = [T::ZERO; LANES];
    let (blocks, rest) = row.as_chunks_mut::<LANES>();
    for block in blocks {
        for x in &mut *block {
            *x = T::exp_below(*x - greatest);
        }
        lanes = joined(lanes, *block, &|a, b| a + b);
    }
    if !rest.is_empty() {
        rest.iter_mut().for_each(|x| *x = T::exp_below(*x - greatest));
        lanes = joined(lanes, last(rest, T::ZERO, |x| x), &|a, b| a + b);
    }
    tree(lanes, |a, b| a + b)
}

/// As [`exponentials`], of the elements of `x`. Those that are `ahead` of them are fetched meanwhile, since
/// this takes longer than reading.
#[inline(always)]
fn exponentials_of<T: Real>(x: &[T], row: &mut [T], greatest: T, ahead: usize) -> T {
    let mut lanes = [T::ZERO; LANES];
    let (blocks, rest) = row.as_chunks_mut::<LANES>();
    let (x_blocks, x_rest) = x.as_chunks::<LANES>();
    for (block, x) in blocks.iter_mut().zip(x_blocks) {
        fx_simd::prefetch_line(x.as_ptr().wrapping_add(ahead).cast());
        let mut exponentials = [T::ZERO; LANES];
        for i in 0..LANES {
            exponentials[i] = T::exp_below(x[i] - greatest);
        }
        *block = exponentials;
        lanes = joined(lanes, exponentials, &|a, b| a + b);
    }
    if !rest.is_empty() {
        rest.iter_mut().zip(x_rest).for_each(|(out, &x)| *out = T::exp_below(x - greatest));
        lanes = joined(lanes, last(rest, T::ZERO, |x| x), &|a, b| a + b);
    }
    tree(lanes, |a, b| a + b)
}

/// Stores the softmax of rows of `width` elements of `x`.
pub fn softmax<T: Real>(x: &[T], out: &mut [T], width: usize) {
    for_each_rows(x, out, width, |x, out| call_real::<T, softmax_of_rows, _>((x, out, width)));
}

/// Returns the sum of `exp(x - greatest)`.
#[inline(always)]
fn exponential_sum<T: Real>(row: &[T], greatest: T) -> T {
    fold(row, T::ZERO, |x| T::exp_below(x - greatest), |a, b| a + b)
}

/// Returns the logarithm of the sum of the exponentials of a row.
pub fn log_sum_exp<T: Real>(row: &[T]) -> T {
    call_real::<T, log_sum_exp_row, _>(row)
}

fx_simd::wide! {
    fn log_sum_exp_row[T: Real](row: &[T]) -> T {
        let greatest = maximum(row);
        if greatest == T::INFINITY || greatest == -T::INFINITY {
            // NaN is not a maximum.
            let nan = row.iter().find(|x| x.partial_cmp(x).is_none());
            return nan.copied().unwrap_or(greatest);
        }
        greatest + math::log(exponential_sum(row, greatest))
    }
}

/// Stores the logarithm of the softmax of rows of `width` elements of `x`.
pub fn log_softmax<T: Real>(x: &[T], out: &mut [T], width: usize) {
    for_each_rows(x, out, width, |x, out| call_real::<T, log_softmax_of_rows, _>((x, out, width)));
}

fx_simd::wide! {
    /// As [`log_softmax`], on this thread.
    pub fn log_softmax_of_rows[T: Real]((x, out, width): (&[T], &mut [T], usize)) {
        let rows = stage::<T>(width);
        for (x, out) in x.chunks(rows * width).zip(out.chunks_mut(rows * width)) {
            let (mut greatest, mut logs) = ([T::ZERO; ROWS], [T::ZERO; ROWS]);
            for (greatest, x) in greatest.iter_mut().zip(x.chunks_exact(width)) {
                *greatest = maximum(x);
            }
            for (log, (&greatest, x)) in logs.iter_mut().zip(greatest.iter().zip(x.chunks_exact(width))) {
                *log = exponential_sum(x, greatest);
            }
            for (&greatest, (&sum, (x, out))) in
                greatest.iter().zip(logs.iter().zip(x.chunks_exact(width).zip(out.chunks_exact_mut(width))))
            {
                let log = math::log(sum);
                for (out, &x) in out.iter_mut().zip(x) {
                    *out = (x - greatest) - log;
                }
            }
        }
    }
}

/// Returns mean and variance (over the number of elements) of a row, in two passes.
pub fn moments<T: Real>(row: &[T]) -> (T, T) {
    call_real::<T, moments_body, _>(row)
}

fx_simd::wide! {
    fn moments_body[T: Real](row: &[T]) -> (T, T) {
        let n = T::from_f64(row.len() as f64);
        let mean = sum(row, |x| x) / n;
        (mean, sum(row, |x| (x - mean) * (x - mean)) / n)
    }
}

/// The factors and terms of the elements of a row, after it is normalised.
type Affine<'a, T> = [Option<&'a [T]>; 2];

/// Stores `(x - mean) / sqrt(variance + eps)` of rows of `width` elements of `x`, times weight, plus bias,
/// element by element.
pub fn layer_norm<T: Real>(x: &[T], out: &mut [T], width: usize, weight_and_bias: Affine<'_, T>, eps: f64) {
    let run = |x: &[T], out: &mut [T]| {
        call_real::<T, layer_norm_of_rows, _>((x, out, width, weight_and_bias, eps));
    };
    for_each_rows(x, out, width, run);
}

/// Stores `x / sqrt(mean of squares + eps)` of rows of `width` elements of `x`, times weight.
pub fn rms_norm<T: Real>(x: &[T], out: &mut [T], width: usize, weight: Option<&[T]>, eps: f64) {
    let run = |x: &[T], out: &mut [T]| {
        call_real::<T, rms_norm_of_rows, _>((x, out, width, weight, eps));
    };
    for_each_rows(x, out, width, run);
}

fx_simd::wide! {
    /// As [`layer_norm`], on this thread.
    pub fn layer_norm_of_rows[T: Real](
        (x, out, width, weight_and_bias, eps): (&[T], &mut [T], usize, Affine<'_, T>, f64)
    ) {
        let (rows, n, eps) = (stage::<T>(width), T::from_f64(width as f64), T::from_f64(eps));
        for (x, out) in x.chunks(rows * width).zip(out.chunks_mut(rows * width)) {
            let (mut means, mut scales) = ([T::ZERO; ROWS], [T::ZERO; ROWS]);
            for (mean, x) in means.iter_mut().zip(x.chunks_exact(width)) {
                *mean = sum(x, |x| x) / n;
            }
            for (scale, (&mean, x)) in scales.iter_mut().zip(means.iter().zip(x.chunks_exact(width))) {
                *scale = sum(x, |x| (x - mean) * (x - mean)) / n;
            }
            for (&mean, (&variance, (x, out))) in
                means.iter().zip(scales.iter().zip(x.chunks_exact(width).zip(out.chunks_exact_mut(width))))
            {
                let scale = T::ONE / math::sqrt(variance + eps);
                affine(x, out, |x| (x - mean) * scale, weight_and_bias);
            }
        }
    }

    /// As [`rms_norm`], on this thread.
    pub fn rms_norm_of_rows[T: Real](
        (x, out, width, weight, eps): (&[T], &mut [T], usize, Option<&[T]>, f64)
    ) {
        let (rows, n, eps) = (stage::<T>(width), T::from_f64(width as f64), T::from_f64(eps));
        for (x, out) in x.chunks(rows * width).zip(out.chunks_mut(rows * width)) {
            let mut squares = [T::ZERO; ROWS];
            for (square, x) in squares.iter_mut().zip(x.chunks_exact(width)) {
                *square = sum(x, |x| x * x) / n;
            }
            for (&square, (x, out)) in squares.iter().zip(x.chunks_exact(width).zip(out.chunks_exact_mut(width))) {
                let scale = T::ONE / math::sqrt(square + eps);
                affine(x, out, |x| x * scale, [weight, None]);
            }
        }
    }
}

/// Stores a row after `map`, times weight, plus bias.
#[inline(always)]
fn affine<T: Real>(x: &[T], out: &mut [T], map: impl Fn(T) -> T, [weight, bias]: Affine<'_, T>) {
    let row = out.iter_mut().zip(x);
    match (weight, bias) {
        (Some(weight), Some(bias)) => {
            row.zip(weight.iter().zip(bias)).for_each(|((out, &x), (&w, &b))| *out = map(x) * w + b);
        }
        (Some(weight), None) => row.zip(weight).for_each(|((out, &x), &w)| *out = map(x) * w),
        (None, Some(bias)) => row.zip(bias).for_each(|((out, &x), &b)| *out = map(x) + b),
        (None, None) => row.for_each(|(out, &x)| *out = map(x)),
    }
}

/// Replaces each row by `scale * x + shift`, where the row's number gives both.
pub fn scale_rows<T: Real>(out: &mut [T], width: usize, factors: impl Fn(usize) -> (T, T) + Sync) {
    for_each_row(out, width, |i, row| {
        call_real::<T, scale_row, _>((row, factors(i)));
    });
}

fx_simd::wide! {
    fn scale_row[T: Real]((row, (scale, shift)): (&mut [T], (T, T))) {
        row.iter_mut().for_each(|x| *x = *x * scale + shift);
    }
}
