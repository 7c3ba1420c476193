//! Scaled dot-product attention of one head, a block of queries at a time: the scores of a block stay in the
//! cache.

use fx_base::math::Real;
use num_traits::Float;

use super::gemm::{GemmElement, Strides, dot, gemm_by};
use super::rows;

/// The queries that one thread scores at a time.
pub const BLOCK: usize = 64;

/// Keys and values that follow each other.
#[derive(Clone, Copy)]
pub struct Part<'a, T> {
    /// The keys, from the first element on, with the strides of rows and columns.
    pub keys: (&'a [T], Strides),
    /// The values.
    pub values: (&'a [T], Strides),
    /// How many there are.
    pub len: usize,
}

/// What a query sees, with the strides along queries and keys.
#[derive(Clone, Copy)]
pub enum Mask<'a, T> {
    /// All keys.
    None,
    /// What is added to the scores.
    Add(&'a [T], Strides),
    /// Which keys take part.
    Keep(&'a [bool], Strides),
}

/// A head: its sizes and how its scores become weights.
#[derive(Clone, Debug)]
pub struct Head {
    /// The number of queries.
    pub queries: usize,
    /// The number of all keys.
    pub keys: usize,
    /// The length of queries and keys.
    pub depth: usize,
    /// The length of values.
    pub values: usize,
    /// The strides of the queries.
    pub q_strides: Strides,
    /// What the products are multiplied by.
    pub scale: f64,
    /// Whether query `i` sees keys up to `i` only.
    pub is_causal: bool,
    /// Whether a query that sees no key gives zeros, not NaN.
    pub safe_softmax: bool,
    /// What the weights that are not dropped are multiplied by.
    pub factor: f64,
}

impl Head {
    /// Stores the results of the queries from `first` on, [`BLOCK`] or as many as there are, in rows of
    /// `out`. `q` begins with the first query of all; `kept` says which weights are not dropped, in rows of
    /// all keys.
    pub fn block<T: GemmElement + Real>(
        &self,
        first: usize,
        q: &[T],
        parts: &[Part<'_, T>],
        mask: Mask<'_, T>,
        kept: Option<&[bool]>,
        out: &mut [T],
    ) {
        let count = BLOCK.min(self.queries - first);
        // Causal queries see no key beyond their own position.
        let keys = if self.is_causal { self.keys.min(first + count) } else { self.keys };
        if keys == 0 {
            return out.fill(T::ZERO);
        }
        let q = q.get(first * self.q_strides.0..).unwrap_or(&[]);
        T::with_scratch(count * keys, |scores| {
            let mut at = 0;
            for part in parts {
                let n = part.len.min(keys - at);
                self.score(count, n, q, part, &mut scores[at..], keys);
                at += n;
            }
            for (i, row) in scores.chunks_mut(keys).enumerate() {
                match mask {
                    Mask::None => {}
                    Mask::Add(mask, (rs, cs)) => {
                        let at = (first + i) * rs;
                        row.iter_mut().enumerate().for_each(|(j, x)| *x = *x + mask[at + j * cs]);
                    }
                    Mask::Keep(mask, (rs, cs)) => {
                        let at = (first + i) * rs;
                        // A sum, as PyTorch's: what is NaN stays NaN.
                        let hide = |(j, x): (usize, &mut T)| {
                            if !mask[at + j * cs] {
                                *x = *x - T::INFINITY;
                            }
                        };
                        row.iter_mut().enumerate().for_each(hide);
                    }
                }
                if self.is_causal && first + i + 1 < keys {
                    row[first + i + 1..].fill(-T::INFINITY);
                }
                rows::softmax_row(row, self.safe_softmax);
                if let Some(kept) = kept {
                    let factor = T::from_f64(self.factor);
                    let kept = &kept[(first + i) * self.keys..];
                    row.iter_mut()
                        .zip(kept)
                        .for_each(|(x, &kept)| *x = if kept { *x * factor } else { T::ZERO });
                }
            }
            let mut at = 0;
            for part in parts {
                let n = part.len.min(keys - at);
                if n == 0 {
                    continue;
                }
                let beta = if at == 0 { T::ZERO } else { T::ONE };
                let (values, strides) = part.values;
                let weights = &scores[at..];
                if count == 1 && strides.1 == 1 {
                    fx_simd::call::<weighted_sum, _>((
                        &weights[..n],
                        values,
                        strides.0,
                        at > 0,
                        &mut out[..self.values],
                    ));
                } else {
                    let (sizes, to) = ((count, n, self.values), (self.values, 1));
                    gemm_by(
                        false,
                        sizes.0,
                        sizes.1,
                        sizes.2,
                        T::ONE,
                        weights,
                        (keys, 1),
                        values,
                        strides,
                        beta,
                        out,
                        to,
                    );
                }
                at += n;
            }
        });
    }

    /// Stores the scores of `n` keys, in rows that are `keys` apart.
    fn score<T: GemmElement + Real>(
        &self,
        count: usize,
        n: usize,
        q: &[T],
        part: &Part<'_, T>,
        scores: &mut [T],
        keys: usize,
    ) {
        if n == 0 {
            return;
        }
        let scale = T::from_f64(self.scale);
        let (k, (rs, cs)) = part.keys;
        if count == 1 && cs == 1 && self.q_strides.1 == 1 {
            return fx_simd::call::<dots, _>((&q[..self.depth], k, rs, scale, &mut scores[..n]));
        }
        let (depth, strides) = (self.depth, self.q_strides);
        gemm_by(false, count, depth, n, scale, q, strides, k, (cs, rs), T::ZERO, scores, (keys, 1));
    }
}

/// The sums in which a dot product is added.
const LANES: usize = 16;

fx_simd::wide! {
    /// Stores the products of a query with keys that are `stride` apart, times `scale`.
    fn dots[T: GemmElement]((q, k, stride, scale, out): (&[T], &[T], usize, T, &mut [T])) {
        for (j, out) in out.iter_mut().enumerate() {
            let key = &k[j * stride..][..q.len()];
            *out = dot::<LANES, T>(q, key) * scale;
        }
    }

    /// Stores, or adds, the sum of values that are `stride` apart, each times its weight.
    fn weighted_sum[T: Float]((weights, v, stride, adds, out): (&[T], &[T], usize, bool, &mut [T])) {
        if !adds {
            out.fill(T::zero());
        }
        for (j, &weight) in weights.iter().enumerate() {
            let value = &v[j * stride..][..out.len()];
            for (out, &x) in out.iter_mut().zip(value) {
                *out = *out + weight * x;
            }
        }
    }
}
