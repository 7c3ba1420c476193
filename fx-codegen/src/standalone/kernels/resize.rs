//! Resizing: sums of elements times weights, along one axis after the other.

use super::math::Real;
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
