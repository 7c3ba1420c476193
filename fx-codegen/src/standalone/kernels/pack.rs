//! Weights in the order in which products read them.

use super::gemm::Matrix;
use super::math::Real;
use super::simd::width;

/// Brings `b[k, n]` into order: columns that a tile has side by side follow each other row by row.
pub fn packed<T: Real>(n: usize, k: usize, b: Matrix<'_, T>) -> Vec<T> {
    let width = width::<T>();
    let mut out = vec![T::ZERO; n.next_multiple_of(width) * k];
    for (i, panel) in out.chunks_exact_mut((width * k).max(1)).enumerate() {
        let columns = i * width..n.min((i + 1) * width);
        for (p, row) in panel.chunks_exact_mut(width).enumerate() {
            for (out, j) in row.iter_mut().zip(columns.clone()) {
                *out = b.data[p * b.row + j * b.column];
            }
        }
    }
    out
}
