//! Running results along the middle axis of `[outer, n, inner]`.

use super::math::{self, Real};

/// Combines each element with the result before it, the first one with `start`.
pub fn scan<T: Copy>(x: &[T], n: usize, inner: usize, start: T, f: impl Fn(T, T) -> T, out: &mut [T]) {
    if n == 0 || inner == 0 {
        return;
    }
    for (x, out) in x.chunks_exact(n * inner).zip(out.chunks_exact_mut(n * inner)) {
        for at in 0..n * inner {
            let before = if at < inner { start } else { out[at - inner] };
            out[at] = f(before, x[at]);
        }
    }
}

/// Computes the logarithms of the running sums of exponentials; sums are kept in `f64`.
pub fn logcumsumexp<T: Real>(x: &[T], n: usize, inner: usize, out: &mut [T]) {
    if n == 0 || inner == 0 {
        return;
    }
    for start in (0..x.len()).step_by(n * inner) {
        for i in start..start + inner {
            let mut sum = f64::NEG_INFINITY;
            for at in (i..i + n * inner).step_by(inner) {
                let x = x[at].to_f64();
                let (low, high) = if x != x || sum < x { (sum, x) } else { (x, sum) };
                let is_end = low == high && high - high != 0.0;
                sum = if is_end || high != high { high } else { high + math::log1p(math::exp(low - high)) };
                out[at] = T::from_f64(sum);
            }
        }
    }
}

/// Finds the running extremum of the middle axis and where it is: the last of equal ones, and of NaNs, which
/// nothing is better than. `better(x, best)` says whether `x` takes the place of `best`.
pub fn extrema<T: Copy + PartialOrd>(
    x: &[T],
    n: usize,
    inner: usize,
    better: impl Fn(T, T) -> bool,
    out: &mut [T],
    index: &mut [i64],
) {
    if n == 0 || inner == 0 {
        return;
    }
    for start in (0..x.len()).step_by(n * inner) {
        for i in start..start + inner {
            let mut best = 0;
            for at in 0..n {
                let (element, old) = (x[i + at * inner], x[i + best * inner]);
                if element != element || old == old && better(element, old) {
                    best = at;
                }
                out[i + at * inner] = x[i + best * inner];
                index[i + at * inner] = best as i64;
            }
        }
    }
}
