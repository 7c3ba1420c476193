//! Resizing: sums of elements times weights, along one axis after the other.

use super::math::Real;
use super::resampling::{Mode, Resampling, byte_lines};
use super::simd::simd;

simd! {
    /// Computes each element along the middle axis of `[outer, n, inner]` from those at `from`, each times its
    /// weight; those of element `i` are `starts[i]..starts[i + 1]`.
    pub fn along<T: Real>(x: &[T], n: usize, inner: usize, starts: &[i64], from: &[i64], weights: &[T], out: &mut [T]) {
        let made = starts.len() - 1;
        if n * inner == 0 || made == 0 {
            return;
        }
        for (x, out) in x.chunks_exact(n * inner).zip(out.chunks_exact_mut(made * inner)) {
            for (out, part) in out.chunks_exact_mut(inner).zip(starts.windows(2)) {
                let taps = part[0] as usize..part[1] as usize;
                for (tap, (&from, &weight)) in from[taps.clone()].iter().zip(&weights[taps]).enumerate() {
                    let x = &x[from as usize * inner..][..inner];
                    for (out, &x) in out.iter_mut().zip(x) {
                        *out = if tap == 0 { x * weight } else { *out + x * weight };
                    }
                }
            }
        }
    }
}

/// As [`along`], of images of bytes, with weights in units of `2^-shift`.
pub fn along_bytes(
    x: &[u8],
    n: usize,
    inner: usize,
    starts: &[i64],
    from: &[i64],
    weights: &[i64],
    shift: u32,
    out: &mut [u8],
) {
    let made = starts.len() - 1;
    if n * inner == 0 || made == 0 {
        return;
    }
    for (x, out) in x.chunks_exact(n * inner).zip(out.chunks_exact_mut(made * inner)) {
        byte_lines(x, inner, starts, from, weights, shift, out);
    }
}

/// The elements whose positions and weights are found at once, and the most of them that make one element.
const TILE: usize = 64;
const MOST: usize = 4;

simd! {
    /// Computes each of `output` elements along the middle axis of `[outer, input, inner]`, whose positions and
    /// weights are found here.
    pub fn resample<T: Real>(
        x: &[T], input: usize, output: usize, inner: usize, how: Resampling, out: &mut [T],
    ) {
        if out.is_empty() {
            return;
        }
        if how.is_identity(input, output) {
            return out.copy_from_slice(x);
        }
        if how.antialias || how.mode == Mode::Area {
            // Filters of any width: one after the other, each over all lines.
            for at in 0..output {
                let mut is_first = true;
                how.taps(at, input, output, |from, weight| {
                    let weight = T::from_f64(weight);
                    for (x, out) in x.chunks_exact(input * inner).zip(out.chunks_exact_mut(output * inner)) {
                        add(&x[from * inner..][..inner], weight, is_first, &mut out[at * inner..][..inner]);
                    }
                    is_first = false;
                });
            }
            return;
        }
        for start in (0..output).step_by(TILE) {
            let n = TILE.min(output - start);
            let mut taps = [(0, T::ZERO); TILE * MOST];
            let mut n_taps = 0;
            for at in start..start + n {
                how.taps(at, input, output, |from, weight| {
                    taps[n_taps] = (from, T::from_f64(weight));
                    n_taps += 1;
                });
            }
            let each = n_taps / n;
            for (x, out) in x.chunks_exact(input * inner).zip(out.chunks_exact_mut(output * inner)) {
                let out = &mut out[start * inner..][..n * inner];
                for (out, taps) in out.chunks_exact_mut(inner).zip(taps[..n_taps].chunks_exact(each)) {
                    for (tap, &(from, weight)) in taps.iter().enumerate() {
                        add(&x[from * inner..][..inner], weight, tap == 0, out);
                    }
                }
            }
        }
    }
}

/// Adds a line times its weight to the result, or begins with it.
#[inline(always)]
fn add<T: Real>(x: &[T], weight: T, is_first: bool, out: &mut [T]) {
    for (out, &x) in out.iter_mut().zip(x) {
        *out = if is_first { x * weight } else { *out + x * weight };
    }
}

/// As [`resample`], of the nearest elements of any type.
pub fn nearest<T: Copy>(x: &[T], input: usize, output: usize, inner: usize, how: Resampling, out: &mut [T]) {
    if out.is_empty() {
        return;
    }
    for (x, out) in x.chunks_exact(input * inner).zip(out.chunks_exact_mut(output * inner)) {
        for (at, out) in out.chunks_exact_mut(inner).enumerate() {
            how.taps(at, input, output, |from, _| out.copy_from_slice(&x[from * inner..][..inner]));
        }
    }
}
