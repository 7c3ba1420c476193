//! Scaled dot-product attention.

use super::gemm::{Fused, Matrix, Sizes, Start, gemm};
use super::rows::softmax_row;
use super::simd::simd;
use super::threads::split_outer;

/// An operand `[batch, heads, length, width]` with the distances of its elements.
#[derive(Clone, Copy)]
pub struct Heads<'a, T> {
    /// The elements.
    pub data: &'a [T],
    /// The distances along the axes.
    pub strides: [usize; 4],
}

impl<'a, T> Heads<'a, T> {
    fn matrix(&self, batch: usize, head: usize) -> Matrix<'a, T> {
        let [b, h, row, column] = self.strides;
        Matrix { data: &self.data[batch * b + head * h..], row, column }
    }
}

/// The sizes of attention.
#[derive(Clone, Copy)]
pub struct Sizing {
    /// The size of the batch.
    pub batch: usize,
    /// The number of heads.
    pub heads: usize,
    /// How many heads share keys and values.
    pub shared: usize,
    /// The number of queries.
    pub queries: usize,
    /// The number of keys.
    pub keys: usize,
    /// The elements of a query.
    pub width: usize,
    /// The elements of a value.
    pub values: usize,
}

/// What may be attended to.
#[derive(Clone, Copy)]
pub enum Mask<'a, T> {
    /// Everything.
    All,
    /// Keys that are not after the query.
    Causal,
    /// Keys where there is true.
    Bool(Heads<'a, bool>),
    /// Everything, with these numbers added to the scores.
    Bias(Heads<'a, T>),
}

/// Returns how many elements [`attention`] needs: the scores of a head, and what two products need.
pub const fn work(queries: usize, keys: usize, width: usize) -> usize {
    let (a, b) = (super::gemm::work(queries, width), super::gemm::work(queries, keys));
    queries * keys + if a > b { a } else { b }
}

/// Computes `softmax(query * key^T * scale + mask) * value`; a query that sees no key gives zeros if `safe`, else
/// NaN.
#[allow(clippy::too_many_arguments, reason = "the sizes of a kernel are its arguments")]
pub fn attention<T: Fused>(
    sizes: Sizing,
    query: Heads<'_, T>,
    key: Heads<'_, T>,
    value: Heads<'_, T>,
    mask: Mask<'_, T>,
    scale: f64,
    safe: bool,
    work: &mut [T],
    out: &mut [T],
) {
    let Sizing { heads, shared, queries, width, values, .. } = sizes;
    // No query sees a key beyond its own position.
    let keys = match mask {
        Mask::Causal => sizes.keys.min(queries),
        _ => sizes.keys,
    };
    let size = queries * values;
    if size == 0 {
        return;
    }
    let operations = (queries * keys).saturating_mul(width + values);
    split_outer(operations, size, out, work, |i, out, work| {
        let (scores, work) = work.split_at_mut(queries * keys);
        let (batch, head) = (i / heads, i % heads);
        let key = key.matrix(batch, head / shared);
        let key = Matrix { row: key.column, column: key.row, ..key };
        let first = Sizes { m: queries, n: keys, k: width };
        gemm(first, query.matrix(batch, head), key, Start::Zero, work, scores);
        weigh(scores, width, keys, batch, head, mask, scale, safe);
        let scores = Matrix { data: scores, row: keys, column: 1 };
        let second = Sizes { m: queries, n: values, k: keys };
        gemm(second, scores, value.matrix(batch, head / shared), Start::Zero, work, out);
    });
}

simd! {
    /// Makes weights of scores.
    fn weigh<T: Fused>(scores: &mut [T], width: usize, keys: usize, batch: usize, head: usize, mask: Mask<'_, T>, scale: f64, safe: bool) {
        if keys == 0 {
            return;
        }
        // Queries without elements have scores of 0, whatever the scale.
        let scale = T::from_f64(if width == 0 { 1.0 } else { scale });
        let never = T::ZERO - T::INFINITY;
        for (query, row) in scores.chunks_exact_mut(keys).enumerate() {
            for x in row.iter_mut() {
                *x = *x * scale;
            }
            match mask {
                Mask::All => {}
                Mask::Causal => {
                    let after = (query + 1).min(keys);
                    row[after..].fill(never);
                }
                Mask::Bool(mask) => {
                    let [b, h, q, k] = mask.strides;
                    let mask = &mask.data[batch * b + head * h + query * q..];
                    for (i, x) in row.iter_mut().enumerate() {
                        *x = if mask[i * k] { *x } else { *x + never };
                    }
                }
                Mask::Bias(mask) => {
                    let [b, h, q, k] = mask.strides;
                    let mask = &mask.data[batch * b + head * h + query * q..];
                    for (i, x) in row.iter_mut().enumerate() {
                        *x = *x + mask[i * k];
                    }
                }
            }
            softmax_row(row, safe);
        }
    }
}
