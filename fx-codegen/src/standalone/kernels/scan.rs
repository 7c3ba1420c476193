//! Running results along the middle axis of `[outer, n, inner]`.

/// Combines each element with the result before it.
pub fn scan<T: Copy>(x: &[T], n: usize, inner: usize, f: impl Fn(T, T) -> T, out: &mut [T]) {
    if n == 0 || inner == 0 {
        return;
    }
    for (x, out) in x.chunks_exact(n * inner).zip(out.chunks_exact_mut(n * inner)) {
        out[..inner].copy_from_slice(&x[..inner]);
        for at in inner..n * inner {
            out[at] = f(out[at - inner], x[at]);
        }
    }
}
