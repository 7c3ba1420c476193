//! Copies of strided tensors, and moves by a table of positions.

use super::walk::rows;

/// Copies elements from one layout to another.
pub fn copy<T: Copy, const R: usize>(
    shape: [usize; R],
    from: &[T],
    from_strides: [usize; R],
    to: &mut [T],
    to_strides: [usize; R],
) {
    if R == 0 {
        to[0] = from[0];
        return;
    }
    let (n, step, to_step) = (shape[R - 1], from_strides[R - 1], to_strides[R - 1]);
    rows(shape, [from_strides, to_strides], |[at, to_at]| match (step, to_step) {
        (1, 1) => to[to_at..to_at + n].copy_from_slice(&from[at..at + n]),
        (0, 1) => to[to_at..to_at + n].fill(from[at]),
        _ => {
            let from = &from[at..];
            let to = &mut to[to_at..];
            for i in 0..n {
                to[i * to_step] = from[i * step];
            }
        }
    });
}

/// Sets every element.
pub fn fill<T: Copy>(value: T, out: &mut [T]) {
    out.fill(value);
}

/// Takes the elements at these positions.
pub fn take<T: Copy>(from: &[T], positions: &[i64], out: &mut [T]) {
    for (out, &at) in out.iter_mut().zip(positions) {
        *out = from[at as usize];
    }
}

/// Takes the elements at these positions, and `other` at negative ones.
pub fn take_or<T: Copy>(from: &[T], positions: &[i64], other: T, out: &mut [T]) {
    for (out, &at) in out.iter_mut().zip(positions) {
        *out = if at < 0 { other } else { from[at as usize] };
    }
}

/// Writes `start`, `start + step`, and so on.
pub fn arange<T: Copy + core::ops::Add<Output = T>>(start: T, step: T, out: &mut [T]) {
    let mut x = start;
    for out in out {
        *out = x;
        x = x + step;
    }
}

/// Adds two tensors.
pub fn add<T: Copy + core::ops::Add<Output = T>>(x: &[T], y: &[T], out: &mut [T]) {
    for (out, (&x, &y)) in out.iter_mut().zip(x.iter().zip(y)) {
        *out = x + y;
    }
}

/// Repeats each of `n` positions of an axis as often as its element says; one number is that of all. `outer` and
/// `inner` are the sizes before and behind the axis.
pub fn repeated<T: Copy>(x: &[T], repeats: &[i64], [outer, n, inner]: [usize; 3], out: &mut [T]) {
    if inner == 0 {
        return;
    }
    let mut to = out.chunks_exact_mut(inner);
    for (i, row) in x.chunks_exact(inner).take(outer * n).enumerate() {
        let times = if repeats.len() == 1 { repeats[0] } else { repeats[i % n] };
        for _ in 0..times {
            if let Some(to) = to.next() {
                to.copy_from_slice(row);
            }
        }
    }
}
