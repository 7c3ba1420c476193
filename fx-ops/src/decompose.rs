//! Decompositions of matrices and what follows from them: solutions, inverses, determinants, singular values.
//!
//! Matrices are the last two axes, the others a batch that threads share. All is computed in f64, each matrix by one
//! thread in a fixed order.

use fx_core::array::checked_numel;
use fx_core::op::unknown_type;
use fx_core::pointwise::{broadcast_dims, broadcast_shapes};
use fx_core::{Array, DType, Op, Result, Shape, TensorType, Truth, bail, err, kernels};
use rayon::prelude::*;

use crate::check::{dense, same_dtype, slice, type_of, zeroed};
use crate::infer::expect_same;

/// The tables of this file.
pub static TABLES: &[&[Op]] = &[DECOMPOSITIONS];

kernels! {
    /// Decompositions of matrices.
    pub trait Decompositions; pub static DECOMPOSITIONS;

    /// The lower triangle `L` with `x = L @ L.T` for symmetric positive definite matrices, or with `upper` its transpose.
    ///
    /// Only the lower triangle of `x` is read. Another matrix is an error.
    linalg_cholesky(x: Tensor; upper: Bool = false) =
        |x: &TensorType, _upper| square(x), cholesky;
    /// The determinant of square matrices: `[.., n, n]` becomes `[..]`.
    linalg_det(x: Tensor) = det_type, det;
    /// Sign and logarithm of the magnitude of the determinant; 0 and minus infinity for singular matrices.
    linalg_slogdet(x: Tensor) -> (fx_core::Tensor, fx_core::Tensor) =
        |x: &TensorType| det_type(x).map(|ty| (ty.clone(), ty)), slogdet;
    /// The inverse of square matrices. A singular one is an error.
    linalg_inv(x: Tensor) = square, inverse;
    /// The `y` with `x @ y = other`, or without `left` with `y @ x = other`, for square matrices `x`.
    ///
    /// `other` is of matrices, or of vectors if its shape is that of `x` without the last axis. Batches broadcast. A singular
    /// matrix is an error.
    linalg_solve(x: Tensor, other: Tensor; left: Bool = true) = solve_type, solve;
    /// The singular values of matrices in descending order: `[.., m, n]` becomes `[.., min(m, n)]`.
    linalg_svdvals(x: Tensor) = singular_type, singular_values;
}

/// Refuses dtypes other than f32 and f64.
pub(crate) fn decomposable(dtype: DType) -> Result<()> {
    if !matches!(dtype, DType::F32 | DType::F64) {
        return Err(err!(DType, "expected f32 or f64, got {dtype}").help("convert the operand with `to`"));
    }
    Ok(())
}

pub(crate) fn square(x: &TensorType) -> Result<TensorType> {
    decomposable(x.dtype)?;
    let [.., rows, columns] = &x.shape[..] else { bail!(Shape, "expected square matrices, got {x}") };
    expect_same(rows, columns, "the columns of a square matrix")?;
    Ok(x.clone())
}

fn det_type(x: &TensorType) -> Result<TensorType> {
    square(x)?;
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
    square(x)?;
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
const GRAIN: usize = 1 << 15;

/// Runs `run` on each matrix with its room in the result; matrices are `from` and results `to` elements.
pub(crate) fn each_matrix(
    x: &[f64],
    from: usize,
    to: usize,
    batch: usize,
    work: usize,
    run: impl Fn(&[f64], &mut [f64]) -> Result<()> + Sync,
) -> Result<Vec<f64>> {
    let numel = batch.checked_mul(to).ok_or_else(|| err!(Limit, "a result does not fit into memory"))?;
    let mut out = zeroed::<f64>(numel)?;
    if to == 0 {
        return Ok(out);
    }
    let at_once = GRAIN.div_ceil(work.max(1));
    let run = |(i, out): (usize, &mut [f64])| run(&x[i * from..][..from], out);
    if batch <= at_once {
        out.chunks_mut(to).enumerate().try_for_each(run)?;
    } else {
        // The first failing matrix is reported, whichever thread finds one first.
        let results: Vec<Result<()>> =
            out.par_chunks_mut(to).enumerate().with_min_len(at_once).map(run).collect();
        results.into_iter().collect::<Result<()>>()?;
    }
    Ok(out)
}

/// Returns the elements in f64, and the sizes of batch, rows and columns.
pub(crate) fn matrices(x: &Array) -> Result<(Array, usize, usize, usize)> {
    let (rows, columns) = (x.shape()[x.rank() - 2], x.shape()[x.rank() - 1]);
    Ok((dense(x, DType::F64)?, x.shape()[..x.rank() - 2].iter().product(), rows, columns))
}

/// Decomposes `a`, n by n, in place into unit lower and upper triangles of its permuted rows. Returns the row that is at
/// each place and the sign of the permutation; a pivot may be zero.
fn lu(a: &mut [f64], n: usize) -> (Vec<usize>, f64) {
    let mut rows: Vec<usize> = (0..n).collect();
    let mut sign = 1.0;
    for k in 0..n {
        let pivot =
            (k + 1..n).fold(k, |best, i| if a[i * n + k].abs() > a[best * n + k].abs() { i } else { best });
        if pivot != k {
            let (upper, lower) = a.split_at_mut(pivot * n);
            upper[k * n..][..n].swap_with_slice(&mut lower[..n]);
            rows.swap(k, pivot);
            sign = -sign;
        }
        let (upper, lower) = a.split_at_mut((k + 1) * n);
        let pivot_row = &upper[k * n..];
        if pivot_row[k] == 0.0 {
            continue;
        }
        for row in lower.chunks_mut(n) {
            let factor = row[k] / pivot_row[k];
            row[k] = factor;
            for (x, p) in row[k + 1..].iter_mut().zip(&pivot_row[k + 1..]) {
                *x -= factor * p;
            }
        }
    }
    (rows, sign)
}

/// Stores in `out`, n by m, the solution of `a @ out = b` for a decomposed `a`.
fn solve_lu(a: &[f64], n: usize, rows: &[usize], b: &[f64], m: usize, out: &mut [f64]) -> Result<()> {
    if let Some(k) = (0..n).find(|&k| a[k * n + k] == 0.0) {
        return Err(err!(Argument, "expected an invertible matrix, got a singular one")
            .help(format!("pivot {k} of {n} is zero")));
    }
    for (i, &row) in rows.iter().enumerate() {
        out[i * m..][..m].copy_from_slice(&b[row * m..][..m]);
    }
    for i in 0..n {
        let (above, rest) = out.split_at_mut(i * m);
        for k in 0..i {
            let factor = a[i * n + k];
            rest[..m].iter_mut().zip(&above[k * m..]).for_each(|(x, y)| *x -= factor * y);
        }
    }
    for i in (0..n).rev() {
        let (above, below) = out.split_at_mut((i + 1) * m);
        let row = &mut above[i * m..];
        for k in i + 1..n {
            let factor = a[i * n + k];
            row.iter_mut().zip(&below[(k - i - 1) * m..]).for_each(|(x, y)| *x -= factor * y);
        }
        row.iter_mut().for_each(|x| *x /= a[i * n + i]);
    }
    Ok(())
}

fn cholesky(x: &Array, upper: bool) -> Result<Array> {
    square(&type_of(x))?;
    let (data, batch, n, _) = matrices(x)?;
    let out = each_matrix(slice(&data), n * n, n * n, batch, n * n * n, |a, l| {
        for j in 0..n {
            let row = |l: &[f64], i: usize| -> f64 { (0..j).map(|k| l[i * n + k] * l[j * n + k]).sum() };
            let pivot = a[j * n + j] - row(l, j);
            if pivot <= 0.0 || pivot.is_nan() {
                return Err(err!(Argument, "expected a positive definite matrix")
                    .help(format!("the leading minor of order {} is not positive definite", j + 1)));
            }
            let pivot = pivot.sqrt();
            l[j * n + j] = pivot;
            for i in j + 1..n {
                l[i * n + j] = (a[i * n + j] - row(l, i)) / pivot;
            }
        }
        Ok(())
    })?;
    let out = Array::from_vec(out, x.shape())?.cast(x.dtype());
    if upper { out.transpose(x.rank() - 2, x.rank() - 1)?.contiguous() } else { Ok(out) }
}

/// Returns sign and logarithm of the magnitude of each determinant.
fn sign_and_log(x: &Array) -> Result<Vec<f64>> {
    let (data, batch, n, _) = matrices(x)?;
    each_matrix(slice(&data), n * n, 2, batch, n * n * n, |a, out| {
        let mut a = a.to_vec();
        let (_, sign) = lu(&mut a, n);
        let diagonal = || (0..n).map(|k| a[k * n + k]);
        out[0] = diagonal()
            .fold(sign, |sign, x| if x == 0.0 || x.is_nan() { sign * x } else { sign * x.signum() });
        out[1] = diagonal().map(|x| x.abs().ln()).sum();
        Ok(())
    })
}

fn det(x: &Array) -> Result<Array> {
    let ty = det_type(&type_of(x))?;
    let (data, batch, n, _) = matrices(x)?;
    let out = each_matrix(slice(&data), n * n, 1, batch, n * n * n, |a, out| {
        let mut a = a.to_vec();
        let (_, sign) = lu(&mut a, n);
        out[0] = (0..n).fold(sign, |product, k| product * a[k * n + k]);
        Ok(())
    })?;
    Ok(Array::from_vec(out, &crate::check::sizes(&ty.shape)?)?.cast(x.dtype()))
}

fn slogdet(x: &Array) -> Result<(Array, Array)> {
    let ty = det_type(&type_of(x))?;
    let shape = crate::check::sizes(&ty.shape)?;
    let pairs = sign_and_log(x)?;
    let half = |i: usize| -> Result<Array> {
        Ok(Array::from_vec::<f64>(pairs.iter().skip(i).step_by(2).copied().collect(), &shape)?
            .cast(x.dtype()))
    };
    Ok((half(0)?, half(1)?))
}

fn inverse(x: &Array) -> Result<Array> {
    square(&type_of(x))?;
    let (data, batch, n, _) = matrices(x)?;
    let mut identity = zeroed::<f64>(checked_numel(&[n, n])?)?;
    identity.iter_mut().step_by(n + 1).for_each(|x| *x = 1.0);
    let out = each_matrix(slice(&data), n * n, n * n, batch, n * n * n, |a, out| {
        let mut a = a.to_vec();
        let (rows, _) = lu(&mut a, n);
        solve_lu(&a, n, &rows, &identity, n, out)
    })?;
    Ok(Array::from_vec(out, x.shape())?.cast(x.dtype()))
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
    let spread =
        |x: &Array, tail: &[usize]| dense(&x.broadcast_to(&[&batch[..], tail].concat())?, DType::F64);
    let (a, b) = (spread(x, &tail_x)?, spread(other, &tail_b)?);
    let (n, m) = (tail_b[0], tail_b[1]);
    // Both sides of a system lie one after the other, so that threads take them together.
    let (a, b) = (slice::<f64>(&a), slice::<f64>(&b));
    let systems: usize = batch.iter().product();
    let numbers: Vec<f64> = (0..systems).map(|i| i as f64).collect();
    let out = each_matrix(&numbers, 1, n * m, systems, n * n * (n + m), |number, out| {
        let i = number[0] as usize;
        let mut a = a[i * n * n..][..n * n].to_vec();
        let (rows, _) = lu(&mut a, n);
        solve_lu(&a, n, &rows, &b[i * n * m..][..n * m], m, out)
    })?;
    Ok(Array::from_vec(out, &[&batch[..], &tail_b[..]].concat())?.cast(x.dtype()))
}

/// Sweeps of rotations after which a matrix counts as diagonal; quadratic convergence needs about ten.
const SWEEPS: usize = 60;

/// One-sided Jacobi: rotates pairs of rows until all are orthogonal; their lengths are the singular values.
fn singular_values(x: &Array) -> Result<Array> {
    let ty = singular_type(&type_of(x))?;
    let x = if x.shape()[x.rank() - 2] > x.shape()[x.rank() - 1] {
        x.transpose(x.rank() - 2, x.rank() - 1)?
    } else {
        x.clone()
    };
    let (data, batch, m, n) = matrices(&x)?;
    let out = each_matrix(slice(&data), m * n, m, batch, 8 * m * m * n, |a, out| {
        if a.iter().any(|x| !x.is_finite()) {
            out.fill(f64::NAN);
            return Ok(());
        }
        let mut a = a.to_vec();
        for _ in 0..SWEEPS {
            let mut is_done = true;
            for p in 0..m {
                for q in p + 1..m {
                    let (upper, lower) = a.split_at_mut(q * n);
                    is_done &= !rotate(&mut upper[p * n..][..n], &mut lower[..n]);
                }
            }
            if is_done {
                break;
            }
        }
        for (out, row) in out.iter_mut().zip(a.chunks(n.max(1))) {
            *out = row.iter().map(|x| x * x).sum::<f64>().sqrt();
        }
        out.sort_by(|a, b| b.total_cmp(a));
        Ok(())
    })?;
    Ok(Array::from_vec(out, &crate::check::sizes(&ty.shape)?)?.cast(ty.dtype))
}

/// Rotates two rows to be orthogonal; returns whether they were not.
fn rotate(p: &mut [f64], q: &mut [f64]) -> bool {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let (alpha, beta, gamma) = (dot(p, p), dot(q, q), dot(p, q));
    if gamma.abs() <= 1e-15 * (alpha * beta).sqrt() || gamma == 0.0 {
        return false;
    }
    let zeta = (beta - alpha) / (2.0 * gamma);
    let tangent = zeta.signum() / (zeta.abs() + zeta.hypot(1.0));
    let cosine = 1.0 / tangent.hypot(1.0);
    let sine = cosine * tangent;
    for (x, y) in p.iter_mut().zip(q) {
        (*x, *y) = (cosine * *x - sine * *y, sine * *x + cosine * *y);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn singular_values_of_a_known_matrix() {
        let x = Array::from_vec(vec![3.0f64, 0.0, 4.0, 5.0], &[2, 2]).unwrap();
        let values = singular_values(&x).unwrap().to_vec::<f64>().unwrap();
        assert!(
            (values[0] - 45f64.sqrt()).abs() < 1e-12 && (values[1] - 5f64.sqrt()).abs() < 1e-12,
            "{values:?}"
        );
        let flat = Array::from_vec(vec![0.0f64; 0], &[2, 0]).unwrap();
        assert_eq!(singular_values(&flat).unwrap().shape(), [0]);
    }

    #[test]
    fn a_batch_of_systems_gives_the_same_bits_for_any_number_of_threads() {
        let (batch, n) = (300, 9);
        let data: Vec<f32> = (0..batch * n * n).map(|i| ((i * 7919 % 1009) as f32).sin()).collect();
        let x = Array::from_vec(data, &[batch, n, n]).unwrap();
        let run = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| inverse(&x).unwrap())
        };
        assert!(run(1).bits_eq(&run(3)));
    }
}
