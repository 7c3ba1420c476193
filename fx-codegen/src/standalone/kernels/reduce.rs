//! Reductions of the middle axis of `[outer, n, inner]`.

use super::math::Real;
use super::row::{max, min, sum};
use super::simd::simd;

/// Combines the elements along the axis, one after the other.
#[inline(always)]
pub fn fold<T: Copy, A: Copy>(
    x: &[T],
    n: usize,
    inner: usize,
    start: A,
    f: impl Fn(A, T) -> A,
    out: &mut [A],
) {
    out.fill(start);
    if n == 0 || inner == 0 {
        return;
    }
    for (x, out) in x.chunks_exact(n * inner).zip(out.chunks_exact_mut(inner)) {
        for x in x.chunks_exact(inner) {
            for (out, &x) in out.iter_mut().zip(x) {
                *out = f(*out, x);
            }
        }
    }
}

simd! {
    /// Sums, and multiplies the sums by `scale`.
    pub fn sums<T: Real>(x: &[T], n: usize, inner: usize, scale: f64, out: &mut [T]) {
        if inner == 1 && n > 0 {
            for (x, out) in x.chunks_exact(n).zip(out.iter_mut()) {
                *out = sum(x);
            }
        } else {
            fold(x, n, inner, T::ZERO, |sum, x| sum + x, out);
        }
        if scale != 1.0 {
            for out in out {
                *out = T::from_f64(out.to_f64() * scale);
            }
        }
    }
}

simd! {
    /// Finds the greatest elements; NaN if there is one.
    pub fn maxima<T: Real>(x: &[T], n: usize, inner: usize, out: &mut [T]) {
        if inner == 1 && n > 0 {
            for (x, out) in x.chunks_exact(n).zip(out.iter_mut()) {
                *out = max(x);
            }
        } else {
            fold(x, n, inner, T::ZERO - T::INFINITY, |best, x| if x > best || x != x { x } else { best }, out);
        }
    }
}

simd! {
    /// Finds the least elements; NaN if there is one.
    pub fn minima<T: Real>(x: &[T], n: usize, inner: usize, out: &mut [T]) {
        if inner == 1 && n > 0 {
            for (x, out) in x.chunks_exact(n).zip(out.iter_mut()) {
                *out = min(x);
            }
        } else {
            fold(x, n, inner, T::INFINITY, |best, x| if x < best || x != x { x } else { best }, out);
        }
    }
}

/// Finds the first position of the best element, where `better(x, best)` says whether `x` is better.
pub fn positions<T: Copy>(x: &[T], n: usize, inner: usize, better: impl Fn(T, T) -> bool, out: &mut [i64]) {
    if n == 0 || inner == 0 {
        return;
    }
    for (x, out) in x.chunks_exact(n * inner).zip(out.chunks_exact_mut(inner)) {
        for (i, out) in out.iter_mut().enumerate() {
            let mut best = 0;
            for at in 1..n {
                if better(x[at * inner + i], x[best * inner + i]) {
                    best = at;
                }
            }
            *out = best as i64;
        }
    }
}
