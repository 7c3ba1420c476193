//! Decompositions of matrices and what follows from them: solutions, inverses, determinants, singular values.
//!
//! Matrices are the last two axes, the others a batch that threads share. All is computed in the dtype of the
//! operand.

use fx_core::array::checked_numel;
use fx_core::math::Real;
use fx_core::op::Flops::{Rule, Unknown};
use fx_core::op::unknown_type;
use fx_core::pointwise::{broadcast_dims, broadcast_shapes};
use fx_core::{Array, DType, Element, Op, Result, Shape, TensorType, Truth, bail, err, kernels};
use fx_simd::parallel;

use crate::kernel::eigen;
use crate::kernel::lu::{self, solve_lu};
use crate::ops::check::{in_float, same_dtype, slice, type_of, zeroed};
use crate::ops::flops;
use crate::ops::infer::expect_same;

/// The tables of this file.
pub(super) static TABLES: &[&[Op]] = &[DECOMPOSITIONS];

kernels! {
    /// Decompositions of matrices.
    pub trait Decompositions; pub static DECOMPOSITIONS;

    /// The lower triangle `L` with `x = L @ L.T` for symmetric positive definite matrices, or with `upper`
    /// its transpose.
    ///
    /// Only the lower triangle of `x` is read. Another matrix is an error.
    #[flops = Rule(flops::cholesky)]
    linalg_cholesky(x: Tensor; upper: Bool = false) =
        |x: &TensorType, _upper| check_square(x), cholesky;
    /// The determinant of square matrices: `[.., n, n]` becomes `[..]`.
    #[flops = Rule(flops::elimination)]
    linalg_det(x: Tensor) = det_type, det;
    /// Sign and logarithm of the magnitude of the determinant; 0 and minus infinity for singular matrices.
    #[flops = Rule(flops::elimination)]
    linalg_slogdet(x: Tensor) -> (fx_core::Tensor, fx_core::Tensor) =
        |x: &TensorType| det_type(x).map(|ty| (ty.clone(), ty)), slogdet;
    /// The inverse of square matrices. A singular one is an error.
    #[flops = Rule(flops::inverse)]
    linalg_inv(x: Tensor) = check_square, inverse;
    /// The `y` with `x @ y = other`, or without `left` with `y @ x = other`, for square matrices `x`.
    ///
    /// `other` is of matrices, or of vectors if its shape is that of `x` without the last axis. Batches
    /// broadcast. A singular matrix is an error.
    #[flops = Rule(flops::solve)]
    linalg_solve(x: Tensor, other: Tensor; left: Bool = true) = solve_type, solve;
    /// The singular values of matrices in descending order: `[.., m, n]` becomes `[.., min(m, n)]`.
    #[flops = Unknown]
    linalg_svdvals(x: Tensor) = singular_type, singular_values;
}

/// Refuses dtypes other than f32 and f64.
pub(crate) fn decomposable(dtype: DType) -> Result<()> {
    if !matches!(dtype, DType::F32 | DType::F64) {
        return Err(err!(DType, "expected f32 or f64, got {dtype}").help("convert the operand with `to`"));
    }
    Ok(())
}

pub(crate) fn check_square(x: &TensorType) -> Result<TensorType> {
    decomposable(x.dtype)?;
    let [.., rows, columns] = &x.shape[..] else { bail!(Shape, "expected square matrices, got {x}") };
    expect_same(rows, columns, "the columns of a square matrix")?;
    Ok(x.clone())
}

fn det_type(x: &TensorType) -> Result<TensorType> {
    check_square(x)?;
    Ok(TensorType::new(x.dtype, x.shape[..x.rank() - 2].iter().collect::<Shape>()))
}

fn singular_type(x: &TensorType) -> Result<TensorType> {
    decomposable(x.dtype)?;
    let [batch @ .., m, n] = &x.shape[..] else { bail!(Shape, "expected matrices, got {x}") };
    Ok(TensorType::new(x.dtype, batch.iter().chain([&m.min(n)]).collect::<Shape>()))
}

/// Returns whether the right side is of vectors.
fn is_vector(x: &TensorType, other: &TensorType) -> Result<bool> {
    let expected = &x.shape[..x.rank() - 1];
    if other.rank() == 1 || other.rank() != expected.len() {
        return Ok(other.rank() == 1);
    }
    let same = || expected.iter().zip(&other.shape[..]).map(|(a, b)| a.same(b));
    match same().any(Truth::is_no) {
        true => Ok(false),
        false if same().all(Truth::is_yes) => Ok(true),
        false => Err(unknown_type()),
    }
}

fn solve_type(x: &TensorType, other: &TensorType, left: bool) -> Result<TensorType> {
    check_square(x)?;
    same_dtype("a right side", x.dtype, other.dtype)?;
    let batch = &x.shape[..x.rank() - 2];
    let n = &x.shape[x.rank() - 1];
    if is_vector(x, other)? {
        if !left {
            bail!(Argument, "expected a right side of matrices for left = false, got {other}");
        }
        let [batch_b @ .., rows] = &other.shape[..] else { bail!(Shape, "expected vectors, got {other}") };
        expect_same(n, rows, "the size of the right side")?;
        let shape = broadcast_dims([batch, batch_b].into_iter())?;
        return Ok(TensorType::new(x.dtype, shape.iter().chain([n]).collect::<Shape>()));
    }
    let [batch_b @ .., rows, columns] = &other.shape[..] else {
        bail!(Shape, "expected a right side of matrices or vectors, got {other}");
    };
    expect_same(n, if left { rows } else { columns }, "the size of the right side")?;
    let shape = broadcast_dims([batch, batch_b].into_iter())?;
    Ok(TensorType::new(x.dtype, shape.iter().chain([rows, columns]).collect::<Shape>()))
}

/// The multiply-adds below which a second thread does not pay.
pub(crate) const GRAIN: usize = 1 << 15;

/// Runs `run` on each matrix with its room in the result; matrices are `from` and results `to` elements.
pub(crate) fn each_matrix<T: Element>(
    x: &[T],
    from: usize,
    to: usize,
    batch: usize,
    work: usize,
    run: impl Fn(&[T], &mut [T]) -> Result<()> + Sync,
) -> Result<Vec<T>> {
    let numel = batch.checked_mul(to).ok_or_else(|| err!(Limit, "a result does not fit into memory"))?;
    let mut out = zeroed::<T>(numel)?;
    if to == 0 {
        return Ok(out);
    }
    let at_once = GRAIN.div_ceil(work.max(1));
    try_chunks(&mut out, to, at_once, |i, out| run(&x[i * from..][..from], out))?;
    Ok(out)
}

/// Calls `run` for each matrix of `size` elements. The error of the first one that fails is returned,
/// whichever thread finds one first.
pub(crate) fn try_chunks<T: Send>(
    out: &mut [T],
    size: usize,
    at_once: usize,
    run: impl Fn(usize, &mut [T]) -> Result<()> + Sync,
) -> Result<()> {
    let mut results = vec![Ok(()); out.len() / size];
    parallel::chunk_pairs((out, size), (&mut results, 1), at_once, |i, out, result| result[0] = run(i, out));
    results.into_iter().collect()
}

/// Returns the elements in row-major order, and the sizes of batch, rows and columns.
pub(crate) fn matrices(x: &Array) -> Result<(Array, usize, usize, usize)> {
    let (rows, columns) = (x.shape()[x.rank() - 2], x.shape()[x.rank() - 1]);
    Ok((x.contiguous()?, x.shape()[..x.rank() - 2].iter().product(), rows, columns))
}

/// Stores in `out`, n by m, the solution of `a @ out = b` for a decomposed `a`.
fn solve_with<T: Real>(a: &[T], n: usize, rows: &[usize], b: &[T], m: usize, out: &mut [T]) -> Result<()> {
    if let Some(k) = (0..n).find(|&k| a[k * n + k] == T::ZERO) {
        return Err(err!(Argument, "expected an invertible matrix, got a singular one")
            .help(format!("pivot {k} of {n} is zero")));
    }
    for (i, &row) in rows.iter().enumerate() {
        out[i * m..][..m].copy_from_slice(&b[row * m..][..m]);
    }
    solve_lu(a, n, out, m);
    Ok(())
}

fn cholesky(x: &Array, upper: bool) -> Result<Array> {
    check_square(&type_of(x))?;
    let (data, batch, n, _) = matrices(x)?;
    let out = in_float!(x.dtype(), T => {
        let out = each_matrix::<T>(slice(&data), n * n, n * n, batch, n * n * n, |a, l| {
            l.copy_from_slice(a);
            lu::cholesky(l, n).map_err(|order| {
                err!(Argument, "expected a positive definite matrix")
                    .help(format!("the leading minor of order {order} is not positive definite"))
            })
        })?;
        Array::from_vec(out, x.shape())
    })?;
    if upper { out.transpose(x.rank() - 2, x.rank() - 1)?.contiguous() } else { Ok(out) }
}

/// Returns for each matrix what `run` makes of its pivots and the sign of its permutation.
fn from_pivots<const N: usize>(x: &Array, run: impl Fn(&[f64], f64) -> [f64; N] + Sync) -> Result<Vec<f64>> {
    let (data, batch, n, _) = matrices(x)?;
    in_float!(x.dtype(), T => {
        let data = slice::<T>(&data);
        let mut out = zeroed::<f64>(checked_numel(&[batch, N])?)?;
        parallel::chunks(&mut out, N, GRAIN.div_ceil((n * n * n).max(1)), |i, out| {
            let mut a = data[i * n * n..][..n * n].to_vec();
            let mut sign = 1.0;
            lu::decompose(&mut a, n, n, true, |k, row| if k != row { sign = -sign });
            let pivots: Vec<f64> = (0..n).map(|k| Real::to_f64(a[k * n + k])).collect();
            out.copy_from_slice(&run(&pivots, sign));
        });
        Ok(out)
    })
}

fn det(x: &Array) -> Result<Array> {
    let ty = det_type(&type_of(x))?;
    let out = from_pivots(x, |pivots, sign| [pivots.iter().fold(sign, |product, x| product * x)])?;
    Ok(Array::from_vec(out, &crate::ops::check::sizes(&ty.shape)?)?.cast(x.dtype()))
}

fn slogdet(x: &Array) -> Result<(Array, Array)> {
    let ty = det_type(&type_of(x))?;
    let shape = crate::ops::check::sizes(&ty.shape)?;
    let pairs = from_pivots(x, |pivots, sign| {
        let signs = pivots
            .iter()
            .fold(sign, |sign, &x| if x == 0.0 || x.is_nan() { sign * x } else { sign * x.signum() });
        [signs, pivots.iter().map(|x| x.abs().ln()).sum()]
    })?;
    let half = |i: usize| -> Result<Array> {
        Ok(Array::from_vec::<f64>(pairs.iter().skip(i).step_by(2).copied().collect(), &shape)?
            .cast(x.dtype()))
    };
    Ok((half(0)?, half(1)?))
}

fn inverse(x: &Array) -> Result<Array> {
    check_square(&type_of(x))?;
    let (data, batch, n, _) = matrices(x)?;
    in_float!(x.dtype(), T => {
        let mut identity = zeroed::<T>(checked_numel(&[n, n])?)?;
        identity.iter_mut().step_by(n + 1).for_each(|x| *x = 1.0);
        let out = each_matrix::<T>(slice(&data), n * n, n * n, batch, n * n * n, |a, out| {
            let mut a = a.to_vec();
            let (rows, _) = lu::lu(&mut a, n);
            solve_with(&a, n, &rows, &identity, n, out)
        })?;
        Array::from_vec(out, x.shape())
    })
}

fn solve(x: &Array, other: &Array, left: bool) -> Result<Array> {
    let (x_ty, other_ty) = (type_of(x), type_of(other));
    solve_type(&x_ty, &other_ty, left)?;
    if is_vector(&x_ty, &other_ty)? {
        let column = other.unsqueeze(other.rank())?;
        let out = solve(x, &column, true)?;
        return out.squeeze(out.rank() - 1);
    }
    if !left {
        let swap = |x: &Array| x.transpose(x.rank() - 2, x.rank() - 1);
        return swap(&solve(&swap(x)?, &swap(other)?, true)?)?.contiguous();
    }
    let split = |x: &Array| (x.shape()[..x.rank() - 2].to_vec(), x.shape()[x.rank() - 2..].to_vec());
    let ((batch_x, tail_x), (batch_b, tail_b)) = (split(x), split(other));
    let batch = broadcast_shapes([&batch_x[..], &batch_b[..]].into_iter())?;
    let spread = |x: &Array, tail: &[usize]| x.broadcast_to(&[&batch[..], tail].concat())?.contiguous();
    let (a, b) = (spread(x, &tail_x)?, spread(other, &tail_b)?);
    let (n, m) = (tail_b[0], tail_b[1]);
    let systems: usize = batch.iter().product();
    in_float!(x.dtype(), T => {
        // Both sides of a system lie one after the other, so that threads take them together.
        let (a, b) = (slice::<T>(&a), slice::<T>(&b));
        let mut out = zeroed::<T>(checked_numel(&[systems, n, m])?)?;
        let run = |i: usize, out: &mut [T]| {
            let mut a = a[i * n * n..][..n * n].to_vec();
            let (rows, _) = lu::lu(&mut a, n);
            solve_with(&a, n, &rows, &b[i * n * m..][..n * m], m, out)
        };
        if !out.is_empty() {
            let at_once = GRAIN.div_ceil((n * n * (n + m)).max(1));
            try_chunks(&mut out, n * m, at_once, run)?;
        }
        Array::from_vec(out, &[&batch[..], &tail_b[..]].concat())
    })
}

fn singular_values(x: &Array) -> Result<Array> {
    let ty = singular_type(&type_of(x))?;
    let (data, batch, m, n) = matrices(x)?;
    let k = m.min(n);
    in_float!(x.dtype(), T => {
        let out = each_matrix::<T>(slice(&data), m * n, k, batch, 4 * m * n * k, |a, out| {
            eigen::singular_values(&mut a.to_vec(), (m, n), out, None)
        })?;
        Array::from_vec(out, &crate::ops::check::sizes(&ty.shape)?)
    })
}
