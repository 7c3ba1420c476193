//! Matrix products of integers, which wrap.

use super::gemm::{Matrix, Sizes};

/// Computes the products of batches of matrices that lie `a_steps` and `b_steps` apart; `term` adds the product
/// of two elements to a sum.
pub fn product<T: Copy + Default, const R: usize>(
    batch: [usize; R],
    sizes: Sizes,
    a: Matrix<'_, T>,
    a_steps: [usize; R],
    b: Matrix<'_, T>,
    b_steps: [usize; R],
    term: impl Fn(T, T, T) -> T,
    out: &mut [T],
) {
    let Sizes { m, n, k } = sizes;
    if m * n == 0 {
        return;
    }
    for (i, out) in out.chunks_exact_mut(m * n).enumerate() {
        let (mut rest, mut a_at, mut b_at) = (i, 0, 0);
        for axis in (0..R).rev() {
            a_at += rest % batch[axis] * a_steps[axis];
            b_at += rest % batch[axis] * b_steps[axis];
            rest /= batch[axis];
        }
        for (at, out) in out.iter_mut().enumerate() {
            let (row, column) = (a_at + at / n * a.row, b_at + at % n * b.column);
            let terms = (0..k).map(|k| (a.data[row + k * a.column], b.data[column + k * b.row]));
            *out = terms.fold(T::default(), |sum, (a, b)| term(sum, a, b));
        }
    }
}
