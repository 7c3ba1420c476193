//! Softmax and normalisation of rows that lie one after the other.
//!
//! A row is reduced in `LANES` interleaved sums that are added as a tree, whichever thread has it.

use fx_core::math::{self, Real};
use fx_simd::parallel;

use super::lanes::{fold, joined, last, tree};

/// The interleaved sums of exponentials of a row: one vector, for exponentials take longer than the additions wait for each other.
const LANES: usize = 16;

/// The rows whose softmax is computed stage by stage, so that what waits at the end of a row meanwhile lets others go on.
const ROWS: usize = 16;

/// The bytes of rows that stay in a cache between stages.
const STAGE: usize = 1 << 16;

/// The elements below which a second thread does not pay.
const GRAIN: usize = 1 << 13;

/// Rows shorter than this are combined in fewer lanes.
const SHORT: usize = 512;

/// Returns the sum of a row after `map`.
#[inline(always)]
pub fn sum<T: Real>(row: &[T], map: impl Fn(T) -> T) -> T {
    let join = |a, b| a + b;
    if row.len() < SHORT {
        fold::<T, 16>(row, T::ZERO, map, join)
    } else {
        fold::<T, 64>(row, T::ZERO, map, join)
    }
}

/// Returns the maximum of a row, minus infinity for an empty one; NaN does not count.
#[inline(always)]
fn maximum<T: Real>(row: &[T]) -> T {
    fold::<T, LANES>(row, -T::INFINITY, |x| x, |a, b| if b > a { b } else { a })
}

/// Returns the greatest element of a row, NaN if there is one.
pub fn row_greatest<T: Real>(row: &[T]) -> T {
    fx_simd::call::<greatest_body, _>(row)
}

/// Returns the least element of a row, NaN if there is one.
pub fn row_least<T: Real>(row: &[T]) -> T {
    fx_simd::call::<least_body, _>(row)
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
    let found = if row.len() < SHORT {
        fold::<T, 32>(row, start, |x| x, join)
    } else {
        fold::<T, 256>(row, start, |x| x, join)
    };
    // NaN times zero is NaN, and so is infinity, which then must be looked for.
    let sum = sum(row, |x| x * T::ZERO);
    let is_nan = |x: &T| x.partial_cmp(x).is_none();
    if is_nan(&sum) { row.iter().copied().find(is_nan).unwrap_or(found) } else { found }
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
    fx_simd::call::<softmax_body, _>((row, masked));
}

fx_simd::wide! {
    /// Stores the softmax of rows of `width` elements of `x`.
    pub(crate) fn softmax_of_rows[T: Real]((x, out, width): (&[T], &mut [T], usize)) {
        let rows = (STAGE / (width * size_of::<T>())).clamp(1, ROWS);
        for (x, out) in x.chunks(rows * width).zip(out.chunks_mut(rows * width)) {
            let mut factors = [T::ZERO; ROWS];
            for (greatest, x) in factors.iter_mut().zip(x.chunks_exact(width)) {
                *greatest = maximum(x);
            }
            for (factor, (x, out)) in factors.iter_mut().zip(x.chunks_exact(width).zip(out.chunks_exact_mut(width))) {
                *factor = T::ONE / exponentials_of(x, out, *factor);
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

/// As [`exponentials`], of the elements of `x`.
#[inline(always)]
fn exponentials_of<T: Real>(x: &[T], row: &mut [T], greatest: T) -> T {
    let mut lanes = [T::ZERO; LANES];
    let (blocks, rest) = row.as_chunks_mut::<LANES>();
    let (x_blocks, x_rest) = x.as_chunks::<LANES>();
    for (block, x) in blocks.iter_mut().zip(x_blocks) {
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

/// Replaces rows by their softmax.
pub fn softmax<T: Real>(out: &mut [T], width: usize) {
    for_each_row(out, width, |_, row| softmax_row(row, false));
}

/// Returns the sum of `exp(x - greatest)`.
#[inline(always)]
fn exponential_sum<T: Real>(row: &[T], greatest: T) -> T {
    fold::<T, LANES>(row, T::ZERO, |x| T::exp_below(x - greatest), |a, b| a + b)
}

/// Returns the logarithm of the sum of the exponentials of a row.
pub fn log_sum_exp<T: Real>(row: &[T]) -> T {
    fx_simd::call::<log_sum_exp_row, _>(row)
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

/// Replaces rows by the logarithm of their softmax.
pub fn log_softmax<T: Real>(out: &mut [T], width: usize) {
    for_each_row(out, width, |_, row| fx_simd::call::<log_softmax_row, _>(row));
}

/// Replaces a row by the logarithm of its softmax.
pub fn log_softmax_of_row<T: Real>(row: &mut [T]) {
    fx_simd::call::<log_softmax_row, _>(row);
}

/// Replaces a row by `(x - mean) / sqrt(variance + eps)`, times weight, plus bias.
pub fn layer_norm_of_row<T: Real>(row: &mut [T], weight_and_bias: [Option<&[T]>; 2], eps: f64) {
    fx_simd::call::<layer_norm_row, _>((row, weight_and_bias, eps));
}

/// Replaces a row by `x / sqrt(mean of squares + eps)`, times weight.
pub fn rms_norm_of_row<T: Real>(row: &mut [T], weight: Option<&[T]>, eps: f64) {
    fx_simd::call::<rms_norm_row, _>((row, weight, eps));
}

fx_simd::wide! {
    fn log_softmax_row[T: Real](row: &mut [T]) {
        let greatest = maximum(row);
        let log = math::log(exponential_sum(row, greatest));
        for x in row {
            *x = (*x - greatest) - log;
        }
    }
}

/// Returns mean and variance (over the number of elements) of a row, in two passes.
pub fn moments<T: Real>(row: &[T]) -> (T, T) {
    fx_simd::call::<moments_body, _>(row)
}

fx_simd::wide! {
    fn moments_body[T: Real](row: &[T]) -> (T, T) {
        let n = T::from_f64(row.len() as f64);
        let mean = sum(row, |x| x) / n;
        (mean, sum(row, |x| (x - mean) * (x - mean)) / n)
    }
}

/// Replaces rows by `(x - mean) / sqrt(variance + eps)`, times weight, plus bias, element by element.
pub fn layer_norm<T: Real>(out: &mut [T], width: usize, weight: Option<&[T]>, bias: Option<&[T]>, eps: f64) {
    for_each_row(out, width, |_, row| fx_simd::call::<layer_norm_row, _>((row, [weight, bias], eps)));
}

fx_simd::wide! {
    fn layer_norm_row[T: Real]((row, [weight, bias], eps): (&mut [T], [Option<&[T]>; 2], f64)) {
        let (mean, variance) = <moments_body as fx_simd::Wide<_>>::run(row);
        let scale = T::ONE / math::sqrt(variance + T::from_f64(eps));
        match (weight, bias) {
            (Some(weight), Some(bias)) => {
                for ((x, &w), &b) in row.iter_mut().zip(weight).zip(bias) {
                    *x = (*x - mean) * scale * w + b;
                }
            }
            _ => {
                row.iter_mut().for_each(|x| *x = (*x - mean) * scale);
                affine(row, weight, bias);
            }
        }
    }
}

/// Replaces rows by `x / sqrt(mean of squares + eps)`, times weight.
pub fn rms_norm<T: Real>(out: &mut [T], width: usize, weight: Option<&[T]>, eps: f64) {
    for_each_row(out, width, |_, row| fx_simd::call::<rms_norm_row, _>((row, weight, eps)));
}

fx_simd::wide! {
    fn rms_norm_row[T: Real]((row, weight, eps): (&mut [T], Option<&[T]>, f64)) {
        let square = sum(row, |x| x * x) / T::from_f64(row.len() as f64);
        let scale = T::ONE / math::sqrt(square + T::from_f64(eps));
        row.iter_mut().for_each(|x| *x = *x * scale);
        affine(row, weight, None);
    }
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
        fx_simd::call::<scale_row, _>((row, factors(i)));
    });
}

fx_simd::wide! {
    fn scale_row[T: Real]((row, (scale, shift)): (&mut [T], (T, T))) {
        row.iter_mut().for_each(|x| *x = *x * scale + shift);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn softmax_is_as_exact_as_the_differences(
            row in prop::collection::vec(-60f32..60.0, 1..100), offset in prop::sample::select(vec![0f32, 1000.0, -1e6]),
        ) {
            let row: Vec<f32> = row.into_iter().map(|x| x + offset).collect();
            let greatest = f64::from(row.iter().copied().fold(f32::NEG_INFINITY, f32::max));
            let exponentials: Vec<f64> = row.iter().map(|&x| (f64::from(x) - greatest).exp()).collect();
            let sum: f64 = exponentials.iter().sum();
            let (mut got, mut also) = (row.clone(), vec![0.0; row.len()]);
            softmax_row(&mut got, false);
            fx_simd::call::<softmax_of_rows, _>((&row[..], &mut also[..], row.len()));
            prop_assert_eq!(&got, &also);
            for ((&x, got), e) in row.iter().zip(got).zip(exponentials) {
                let (want, relative) = (e / sum, 4e-7 + 1e-7 * (greatest - f64::from(x)));
                // Subnormals are rounded twice.
                prop_assert!((f64::from(got) - want).abs() < relative * want + 1.5e-45, "{} of {}", got, x);
            }
        }
    }

    #[test]
    fn softmax_of_extremes() {
        let softmax = |row: &[f32]| {
            let (mut got, mut also) = (row.to_vec(), vec![0.0; row.len()]);
            softmax_row(&mut got, false);
            fx_simd::call::<softmax_of_rows, _>((row, &mut also[..], row.len()));
            assert!(
                got.iter().zip(&also).all(|(a, b)| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan())
            );
            got
        };
        let (least, most, inf) = (f32::MIN, f32::MAX, f32::INFINITY);
        assert_eq!(softmax(&[least; 4]), [0.25; 4]);
        assert_eq!(softmax(&[most, most, least]), [0.5, 0.5, 0.0]);
        assert_eq!(softmax(&[least, 5.0, least, 5.0]), [0.0, 0.5, 0.0, 0.5]);
        assert_eq!(softmax(&[-inf, 0.0, -inf]), [0.0, 1.0, 0.0]);
        assert_eq!(softmax(&[-3e38, 1.0]), [0.0, 1.0]);
        assert!(softmax(&[-inf; 3]).iter().all(|x| x.is_nan()));
        assert!(softmax(&[inf, 0.0])[0].is_nan());
        // NaN wins, whatever its bits are.
        for bits in [0x7fc0_0000, 0xffc0_0000, 0x7fc0_0001, 0x7fff_ffff] {
            assert!(softmax(&[0.0, f32::from_bits(bits), 1.0]).iter().all(|x| x.is_nan()), "{bits:x}");
        }
        assert_eq!(softmax(&[0.0, -100.0])[1], (-100f64).exp() as f32, "a subnormal");
    }
}
