//! Distances between the rows of matrices.

use fx_core::array::checked_numel;
use fx_core::math::Real;
use fx_core::op::Flops::Rule;
use fx_core::pointwise::{broadcast_dims, broadcast_shapes};
use fx_core::{Array, Dim, Op, Result, Shape, TensorType, bail, kernels};
use fx_simd::{Work, widest};

use crate::kernel::chunks::{fill, fill_rows};
use crate::ops::check::{dense, float_only, in_float, same_dtype, same_size, sizes, slice, type_of, wide};
use crate::ops::flops;

/// The tables of this file.
pub(super) static TABLES: &[&[Op]] = &[DISTANCES];

kernels! {
    /// Distances between rows.
    pub trait Distances; pub static DISTANCES;

    /// The `p`-norms of the differences of all rows: `[.., m, d], [.., n, d]` gives `[.., m, n]`, over
    /// broadcast leading axes.
    ///
    /// `compute_mode` is accepted, and every mode computes the differences, which is exact.
    #[flops = Rule(flops::distances)]
    cdist(x: Tensor, x2: Tensor, p: Float = 2.0; compute_mode: Str = "use_mm_for_euclid_dist_if_necessary")
        = cdist_type, cdist_kernel;
    /// The `p`-norms of the differences of rows `i < j` of `[n, d]`, row by row: `[n (n - 1) / 2]`.
    #[flops = Rule(flops::distances)]
    pdist(x: Tensor, p: Float = 2.0) = pdist_type, pdist_kernel;
}

fn order(p: Option<f64>) -> Result<()> {
    if p.is_some_and(|p| p.is_nan() || p < 0.0) {
        bail!(Argument, "expected a p of at least 0, got {}", p.unwrap_or(0.0));
    }
    Ok(())
}

fn cdist_type(x: &TensorType, other: &TensorType, p: Option<f64>, mode: &str) -> Result<TensorType> {
    float_only(x.dtype)?;
    same_dtype("a second operand", x.dtype, other.dtype)?;
    order(p)?;
    let modes =
        ["use_mm_for_euclid_dist_if_necessary", "use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist"];
    if !modes.contains(&mode) {
        bail!(Argument, "expected a compute_mode among {modes:?}, got {mode:?}");
    }
    let ([batch @ .., m, d], [batch_b @ .., n, d_b]) = (&x.shape[..], &other.shape[..]) else {
        bail!(Shape, "expected matrices of rows, got {x} and {other}");
    };
    same_size("rows of", d, d_b)?;
    let batch = broadcast_dims([batch, batch_b].into_iter())?;
    Ok(TensorType::new(x.dtype, batch.iter().chain([m, n]).collect::<Shape>()))
}

/// Returns the `p`-norm of the difference of two rows, which `gap` has room for.
fn apart<T: Real>(a: &[T], b: &[T], p: f64, gap: &mut [T]) -> T {
    gap.iter_mut().zip(a.iter().zip(b)).for_each(|(gap, (&a, &b))| *gap = a - b);
    crate::ops::normalization::norm(gap, p)
}

fn cdist_kernel(x: &Array, other: &Array, p: f64, mode: &str) -> Result<Array> {
    let ty = cdist_type(&type_of(x), &type_of(other), Some(p), mode)?;
    let shape = sizes(&ty.shape)?;
    checked_numel(&shape)?;
    let (m, n) = (shape[shape.len() - 2], shape[shape.len() - 1]);
    let d = x.shape()[x.rank() - 1];
    let wide = wide(x.dtype());
    let batch =
        broadcast_shapes([&x.shape()[..x.rank() - 2], &other.shape()[..other.rank() - 2]].into_iter())?;
    let spread = |x: &Array, rows: usize| dense(&x.broadcast_to(&[&batch[..], &[rows, d]].concat())?, wide);
    let (a, mut b) = (spread(x, m)?, spread(other, n)?);
    if p == 2.0 {
        b = b.transpose(b.rank() - 1, b.rank() - 2)?.contiguous()?;
    }
    in_float!(wide, T => {
        let (a, b) = (slice::<T>(&a), slice::<T>(&b));
        let n_rows = batch.iter().product::<usize>() * m;
        let out = fill_rows::<T>(n_rows, n, n.saturating_mul(d.max(1)), |i, out| {
            let row = &a[i * d..][..d];
            let others = &b[i / m * n * d..][..n * d];
            if p == 2.0 {
                return widest(Euclidean { row, others, n, first: 0, out });
            }
            let mut gap = vec![T::ZERO; d];
            for (j, out) in out.iter_mut().enumerate() {
                *out = apart(row, &others[j * d..][..d], p, &mut gap);
            }
        })?;
        Ok(Array::from_vec(out, &shape)?.cast(ty.dtype))
    })
}

/// Columns whose sums are kept in registers.
const IM2COL: usize = 64;

/// Stores the distances of a row to columns from `first` on of `others`, which are columns of `n` elements.
struct Euclidean<'a, T> {
    row: &'a [T],
    others: &'a [T],
    n: usize,
    first: usize,
    out: &'a mut [T],
}

impl<T: Real> Work for Euclidean<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Euclidean { row, others, n, first, out } = self;
        for (block, out) in out.chunks_mut(IM2COL).enumerate() {
            let at = first + block * IM2COL;
            let mut sums = [T::ZERO; IM2COL];
            if out.len() == IM2COL {
                for (k, &x) in row.iter().enumerate() {
                    let (line, _) = others[k * n + at..].as_chunks::<IM2COL>();
                    for (sum, &y) in sums.iter_mut().zip(&line[0]) {
                        *sum = *sum + (x - y) * (x - y);
                    }
                }
            } else {
                for (k, &x) in row.iter().enumerate() {
                    for (sum, &y) in sums.iter_mut().zip(&others[k * n + at..][..out.len()]) {
                        *sum = *sum + (x - y) * (x - y);
                    }
                }
            }
            out.iter_mut().zip(sums).for_each(|(out, sum)| *out = Real::sqrt(sum));
        }
    }
}

fn pdist_type(x: &TensorType, p: Option<f64>) -> Result<TensorType> {
    float_only(x.dtype)?;
    order(p)?;
    let [n, _] = &x.shape[..] else { bail!(Shape, "expected rows [n, d], got {x}") };
    // The smallest number of pairs is that of no rows.
    let pairs = (n * (n - 1)).floor_div(&Dim::new(2));
    Ok(TensorType::new(x.dtype, [pairs].into_iter().collect::<Shape>()))
}

fn pdist_kernel(x: &Array, p: f64) -> Result<Array> {
    let ty = pdist_type(&type_of(x), Some(p))?;
    let (n, d) = (x.shape()[0], x.shape()[1]);
    let shape = sizes(&ty.shape)?;
    let wide = wide(x.dtype());
    let x = dense(x, wide)?;
    let columns = x.transpose(0, 1)?.contiguous()?;
    in_float!(wide, T => {
        let (x, columns) = (slice::<T>(&x), slice::<T>(&columns));
        // Where the pairs of a row begin.
        let start = |i: usize| i * (2 * n - i - 1) / 2;
        let out = fill(checked_numel(&shape)?, |at, out: &mut [T]| {
            let mut i = partition(n, |i| start(i) <= at) - 1;
            let mut j = i + 1 + at - start(i);
            let mut rest = out;
            let mut gap = vec![T::ZERO; d];
            while !rest.is_empty() {
                let (part, tail) = rest.split_at_mut((n - j).min(rest.len()));
                let row = &x[i * d..][..d];
                if p == 2.0 {
                    widest(Euclidean { row, others: columns, n, first: j, out: part });
                } else {
                    for (j, out) in (j..).zip(part) {
                        *out = apart(row, &x[j * d..][..d], p, &mut gap);
                    }
                }
                rest = tail;
                (i, j) = (i + 1, i + 2);
            }
        })?;
        Ok(Array::from_vec(out, &shape)?.cast(ty.dtype))
    })
}

/// Returns the first number below `n` for which `is_before` does not hold.
fn partition(n: usize, is_before: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, n);
    while low < high {
        let middle = low + (high - low) / 2;
        if is_before(middle) { low = middle + 1 } else { high = middle }
    }
    low
}
