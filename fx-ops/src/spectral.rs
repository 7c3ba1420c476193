//! Eigenvalues and singular values, and what follows from them: pseudo-inverses and ranks.
//!
//! Matrices are the last two axes, the others a batch that threads share. All is computed in f64 by Jacobi's rotations, each
//! matrix by one thread in a fixed order. Vectors are unique up to their sign only.

use fx_core::op::Flops::Unknown;
use fx_core::op::kind::{OperandType, OperandValue};
use fx_core::pointwise::{broadcast_dims, broadcast_shapes};
use fx_core::{Array, DType, Dim, Op, Result, Shape, Tensor, TensorType, bail, kernels};

use crate::check::{dense, sizes, slice, type_of, zeroed};
use crate::decompose::{decomposable, each_matrix, matrices, square};

/// The tables of this file.
pub static TABLES: &[&[Op]] = &[SPECTRAL];

kernels! {
    /// Eigenvalues and singular values.
    pub trait Spectral; pub static SPECTRAL;

    /// `(U, S, Vh)` with `x = U @ diag(S) @ Vh` for matrices `[.., m, n]`: orthonormal columns and rows, and the singular values
    /// in descending order. `U` is `[.., m, m]` and `Vh` `[.., n, n]`, or without `full_matrices` `[.., m, k]` and `[.., k, n]` for
    /// `k = min(m, n)`.
    #[flops = Unknown]
    linalg_svd(x: Tensor, full_matrices: Bool = true) -> (Tensor, Tensor, Tensor) = svd_type, svd;
    /// `(values, vectors)` of symmetric matrices: the eigenvalues in ascending order, and in the columns eigenvectors of length 1.
    /// Only the lower triangle is read, or with `UPLO` "U" the upper one.
    #[flops = Unknown]
    linalg_eigh(x: Tensor, uplo: Str = "L") -> (Tensor, Tensor) = eigen_type, eigen;
    /// The eigenvalues of `linalg_eigh`.
    #[flops = Unknown]
    linalg_eigvalsh(x: Tensor, uplo: Str = "L") =
        |x: &TensorType, triangle: &str| eigen_type(x, triangle).map(|(values, _)| values),
        |x: &Array, triangle: &str| eigen(x, triangle).map(|(values, _)| values);
    /// The pseudo-inverse of matrices: `[.., m, n]` becomes `[.., n, m]`.
    ///
    /// Singular values up to `atol`, or `rtol` times the greatest, count as 0. `rtol` is by default the greater size times the
    /// precision of the dtype, or 0 if `atol` is given. With `hermitian` only the lower triangle is read.
    #[flops = Unknown]
    linalg_pinv(x: Tensor; atol: OptOperand = None, rtol: OptOperand = None, hermitian: Bool = false) = pinv_type, pinv;
    /// The number of singular values that do not count as 0, which is as in `linalg_pinv`.
    #[flops = Unknown]
    linalg_matrix_rank(x: Tensor; atol: OptOperand = None, rtol: OptOperand = None, hermitian: Bool = false) =
        rank_type, rank;
}

fn batch_of(x: &TensorType) -> Result<(&[Dim], &Dim, &Dim)> {
    decomposable(x.dtype)?;
    match &x.shape[..] {
        [batch @ .., m, n] => Ok((batch, m, n)),
        _ => bail!(Shape, "expected matrices, got {x}"),
    }
}

fn batched<'a>(dtype: DType, batch: &'a [Dim], rest: impl IntoIterator<Item = &'a Dim>) -> TensorType {
    TensorType::new(dtype, batch.iter().chain(rest).collect::<Shape>())
}

fn array(data: Vec<f64>, ty: &TensorType) -> Result<Array> {
    Ok(Array::from_vec(data, &sizes(&ty.shape)?)?.cast(ty.dtype))
}

fn svd_type(x: &TensorType, full: bool) -> Result<(TensorType, TensorType, TensorType)> {
    let (batch, m, n) = batch_of(x)?;
    let k = m.min(n);
    let (columns, rows) = if full { (m, n) } else { (&k, &k) };
    Ok((
        batched(x.dtype, batch, [m, columns]),
        batched(x.dtype, batch, [&k]),
        batched(x.dtype, batch, [rows, n]),
    ))
}

/// Sweeps of rotations after which a matrix counts as diagonal; quadratic convergence needs about ten.
const SWEEPS: usize = 60;

/// The decomposition of one matrix: singular values, and left and right vectors as rows.
struct Decomposed {
    values: Vec<f64>,
    left: Vec<Vec<f64>>,
    right: Vec<Vec<f64>>,
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Applies a rotation to two rows.
fn turn(rows: &mut [Vec<f64>], p: usize, q: usize, cosine: f64, sine: f64) {
    let (upper, lower) = rows.split_at_mut(q);
    for (x, y) in upper[p].iter_mut().zip(&mut lower[0]) {
        (*x, *y) = (cosine * *x - sine * *y, sine * *x + cosine * *y);
    }
}

fn identity(n: usize) -> Vec<Vec<f64>> {
    (0..n).map(|i| (0..n).map(|j| f64::from(u8::from(i == j))).collect()).collect()
}

/// Rotates the columns of a matrix with `m >= n` until they are orthogonal.
fn decompose_tall(a: &[f64], m: usize, n: usize, full: bool) -> Decomposed {
    let mut left: Vec<Vec<f64>> = (0..n).map(|j| (0..m).map(|i| a[i * n + j]).collect()).collect();
    let mut right = identity(n);
    for _ in 0..SWEEPS {
        let mut is_done = true;
        for p in 0..n {
            for q in p + 1..n {
                let (alpha, beta, gamma) =
                    (dot(&left[p], &left[p]), dot(&left[q], &left[q]), dot(&left[p], &left[q]));
                if gamma == 0.0 || gamma.abs() <= 1e-16 * (alpha * beta).sqrt() || gamma.is_nan() {
                    continue;
                }
                is_done &= gamma.abs() <= 1e-15 * (alpha * beta).sqrt();
                let zeta = (beta - alpha) / (2.0 * gamma);
                let tangent = 1f64.copysign(zeta) / (zeta.abs() + zeta.hypot(1.0));
                let cosine = 1.0 / tangent.hypot(1.0);
                turn(&mut left, p, q, cosine, cosine * tangent);
                turn(&mut right, p, q, cosine, cosine * tangent);
            }
        }
        if is_done {
            break;
        }
    }
    let lengths: Vec<f64> = left.iter().map(|row| dot(row, row).sqrt()).collect();
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|&a, &b| lengths[b].total_cmp(&lengths[a]));
    let values: Vec<f64> = order.iter().map(|&i| lengths[i]).collect();
    let greatest = values.first().copied().unwrap_or(0.0);
    let mut vectors: Vec<Vec<f64>> = Vec::new();
    for (&i, &value) in order.iter().zip(&values) {
        // The direction of what is nothing but rounding is chosen below.
        if value <= greatest * 1e-300 || value == 0.0 {
            break;
        }
        vectors.push(left[i].iter().map(|x| x / value).collect());
    }
    complete(&mut vectors, m, if full { m } else { n });
    let right = order.into_iter().map(|i| std::mem::take(&mut right[i])).collect();
    Decomposed { values, left: vectors, right }
}

/// Adds orthonormal vectors until there are `count`.
fn complete(vectors: &mut Vec<Vec<f64>>, size: usize, count: usize) {
    let mut axis = 0;
    while vectors.len() < count && axis < size {
        let mut new: Vec<f64> = (0..size).map(|i| f64::from(u8::from(i == axis))).collect();
        axis += 1;
        // Twice, for what rounding leaves.
        for _ in 0..2 {
            for other in vectors.iter() {
                let along = dot(other, &new);
                new.iter_mut().zip(other).for_each(|(x, y)| *x -= along * y);
            }
        }
        let length = dot(&new, &new).sqrt();
        if length > 0.5 / (size as f64).sqrt() {
            vectors.push(new.into_iter().map(|x| x / length).collect());
        }
    }
}

fn decomposed(a: &[f64], m: usize, n: usize, full: bool) -> Option<Decomposed> {
    if a.iter().any(|x| !x.is_finite()) {
        return None;
    }
    if m >= n {
        return Some(decompose_tall(a, m, n, full));
    }
    let turned: Vec<f64> = (0..n * m).map(|i| a[i % m * n + i / m]).collect();
    let Decomposed { values, left, right } = decompose_tall(&turned, n, m, full);
    Some(Decomposed { values, left: right, right: left })
}

fn svd(x: &Array, full: bool) -> Result<(Array, Array, Array)> {
    let (u_ty, s_ty, v_ty) = svd_type(&type_of(x), full)?;
    let (data, batch, m, n) = matrices(&x.cast(DType::F64))?;
    let k = m.min(n);
    let (columns, rows) = if full { (m, n) } else { (k, k) };
    fx_core::array::checked_numel(&[batch, m, columns])?;
    fx_core::array::checked_numel(&[batch, rows, n])?;
    let total = m * columns + k + rows * n;
    let packed = each_matrix(slice(&data), m * n, total, batch, 16 * m * n * k.max(1), |a, out| {
        let Some(Decomposed { values, left, right }) = decomposed(a, m, n, full) else {
            out.fill(f64::NAN);
            return Ok(());
        };
        let (u, rest) = out.split_at_mut(m * columns);
        let (s, v) = rest.split_at_mut(k);
        for (j, vector) in left.iter().take(columns).enumerate() {
            vector.iter().enumerate().for_each(|(i, &x)| u[i * columns + j] = x);
        }
        s.copy_from_slice(&values);
        for (vector, row) in right.iter().zip(v.chunks_mut(n.max(1))) {
            row.copy_from_slice(vector);
        }
        Ok(())
    })?;
    let part = |from: usize, len: usize| -> Vec<f64> {
        packed.chunks_exact(total.max(1)).flat_map(|matrix| &matrix[from..from + len]).copied().collect()
    };
    Ok((
        array(part(0, m * columns), &u_ty)?,
        array(part(m * columns, k), &s_ty)?,
        array(part(m * columns + k, rows * n), &v_ty)?,
    ))
}

fn eigen_type(x: &TensorType, triangle: &str) -> Result<(TensorType, TensorType)> {
    square(x)?;
    if !["L", "U", "l", "u"].contains(&triangle) {
        bail!(Argument, "expected the triangle \"L\" or \"U\", got {triangle:?}");
    }
    let (batch, n, _) = batch_of(x)?;
    Ok((batched(x.dtype, batch, [n]), x.clone()))
}

/// Returns the eigenvalues of a symmetric matrix in ascending order, and the vectors as rows.
fn eigen_of(a: &mut [f64], n: usize) -> (Vec<f64>, Vec<Vec<f64>>) {
    let mut vectors = identity(n);
    for _ in 0..SWEEPS {
        let off: f64 = (0..n * n).filter(|i| i / n != i % n).map(|i| a[i] * a[i]).sum();
        let on: f64 = (0..n).map(|i| a[i * n + i] * a[i * n + i]).sum();
        if off == 0.0 || off <= 1e-36 * on {
            break;
        }
        for p in 0..n {
            for q in p + 1..n {
                let gamma = a[p * n + q];
                if gamma == 0.0 {
                    continue;
                }
                let zeta = (a[q * n + q] - a[p * n + p]) / (2.0 * gamma);
                let tangent = 1f64.copysign(zeta) / (zeta.abs() + zeta.hypot(1.0));
                let cosine = 1.0 / tangent.hypot(1.0);
                let sine = cosine * tangent;
                for k in 0..n {
                    let (x, y) = (a[k * n + p], a[k * n + q]);
                    (a[k * n + p], a[k * n + q]) = (cosine * x - sine * y, sine * x + cosine * y);
                }
                for k in 0..n {
                    let (x, y) = (a[p * n + k], a[q * n + k]);
                    (a[p * n + k], a[q * n + k]) = (cosine * x - sine * y, sine * x + cosine * y);
                }
                (a[p * n + q], a[q * n + p]) = (0.0, 0.0);
                turn(&mut vectors, p, q, cosine, sine);
            }
        }
    }
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|&i, &j| a[i * n + i].total_cmp(&a[j * n + j]));
    let values = order.iter().map(|&i| a[i * n + i]).collect();
    (values, order.into_iter().map(|i| std::mem::take(&mut vectors[i])).collect())
}

/// Returns a matrix of which one triangle is that of both.
fn symmetric(a: &[f64], n: usize, lower: bool) -> Vec<f64> {
    let at = |i: usize, j: usize| if (i >= j) == lower { a[i * n + j] } else { a[j * n + i] };
    (0..n * n).map(|k| at(k / n, k % n)).collect()
}

fn eigen(x: &Array, triangle: &str) -> Result<(Array, Array)> {
    let (values_ty, vectors_ty) = eigen_type(&type_of(x), triangle)?;
    let lower = triangle.eq_ignore_ascii_case("L");
    let (data, batch, n, _) = matrices(&x.cast(DType::F64))?;
    let packed = each_matrix(slice(&data), n * n, n + n * n, batch, 16 * n * n * n, |a, out| {
        let mut a = symmetric(a, n, lower);
        if a.iter().any(|x| !x.is_finite()) {
            out.fill(f64::NAN);
            return Ok(());
        }
        let (values, vectors) = eigen_of(&mut a, n);
        out[..n].copy_from_slice(&values);
        for (j, vector) in vectors.iter().enumerate() {
            vector.iter().enumerate().for_each(|(i, &x)| out[n + i * n + j] = x);
        }
        Ok(())
    })?;
    let part = |from: usize, len: usize| -> Vec<f64> {
        packed
            .chunks_exact((n + n * n).max(1))
            .flat_map(|matrix| &matrix[from..from + len])
            .copied()
            .collect()
    };
    Ok((array(part(0, n), &values_ty)?, array(part(n, n * n), &vectors_ty)?))
}

/// Returns the sizes of a tolerance.
fn tolerance_dims<'a>(tolerance: &Option<OperandType<'a>>) -> &'a [Dim] {
    match tolerance {
        Some(OperandType::Tensor(ty)) => &ty.shape,
        _ => &[],
    }
}

fn pinv_type(
    x: &TensorType,
    atol: Option<OperandType<'_>>,
    rtol: Option<OperandType<'_>>,
    hermitian: bool,
) -> Result<TensorType> {
    let (batch, m, n) = batch_of(x)?;
    if hermitian {
        square(x)?;
    }
    let shape = broadcast_dims([batch, tolerance_dims(&atol), tolerance_dims(&rtol)].into_iter())?;
    Ok(TensorType::new(x.dtype, shape.iter().chain([n, m]).collect::<Shape>()))
}

fn rank_type(
    x: &TensorType,
    atol: Option<OperandType<'_>>,
    rtol: Option<OperandType<'_>>,
    hermitian: bool,
) -> Result<TensorType> {
    let ty = pinv_type(x, atol, rtol, hermitian)?;
    Ok(TensorType::new(DType::I64, ty.shape[..ty.rank() - 2].iter().collect::<Shape>()))
}

/// Matrices spread over a batch, with the limit up to which singular values count as 0 of each.
struct Limited {
    data: Array,
    batch: Vec<usize>,
    m: usize,
    n: usize,
    atol: Option<Array>,
    rtol: Option<Array>,
    precision: f64,
}

impl Limited {
    fn new(
        x: &Array,
        atol: Option<OperandValue<'_>>,
        rtol: Option<OperandValue<'_>>,
        hermitian: bool,
    ) -> Result<Limited> {
        let (m, n) = (x.shape()[x.rank() - 2], x.shape()[x.rank() - 1]);
        let shape_of = |x: &Option<OperandValue<'_>>| match x {
            Some(OperandValue::Array(x)) => x.shape().to_vec(),
            _ => Vec::new(),
        };
        let own = x.shape()[..x.rank() - 2].to_vec();
        let shapes = [own, shape_of(&atol), shape_of(&rtol)];
        let batch = broadcast_shapes(shapes.iter().map(Vec::as_slice))?.to_vec();
        let spread = |limit: Option<OperandValue<'_>>| -> Result<Option<Array>> {
            Ok(match limit {
                None => None,
                Some(OperandValue::Array(x)) => Some(dense(&x.broadcast_to(&batch)?, DType::F64)?),
                Some(OperandValue::Scalar(x)) => {
                    Some(dense(&Array::scalar(x.to_f64()).broadcast_to(&batch)?, DType::F64)?)
                }
            })
        };
        let (atol, rtol) = (spread(atol)?, spread(rtol)?);
        let precision = if x.dtype() == DType::F32 { f64::from(f32::EPSILON) } else { f64::EPSILON };
        let mut data = dense(&x.broadcast_to(&[&batch[..], &[m, n]].concat())?, DType::F64)?;
        if hermitian {
            let whole = slice::<f64>(&data).chunks(n * n).flat_map(|a| symmetric(a, n, true)).collect();
            data = Array::from_vec(whole, &[&batch[..], &[n, n]].concat())?;
        }
        Ok(Limited { data, batch, m, n, atol, rtol, precision })
    }

    /// Runs a function on each matrix, with its values, vectors and limit.
    fn each(&self, to: usize, run: impl Fn(Option<Decomposed>, f64, &mut [f64]) + Sync) -> Result<Vec<f64>> {
        let (m, n) = (self.m, self.n);
        let count: usize = self.batch.iter().product();
        let numbers: Vec<f64> = (0..count).map(|i| i as f64).collect();
        let data = slice::<f64>(&self.data);
        each_matrix(&numbers, 1, to, count, 16 * m * n * m.min(n).max(1), |number, out| {
            let i = number[0] as usize;
            let found = decomposed(&data[i * m * n..][..m * n], m, n, false);
            let greatest = found.as_ref().and_then(|found| found.values.first()).copied().unwrap_or(0.0);
            let at = |limit: &Option<Array>| limit.as_ref().map(|limit| slice::<f64>(limit)[i]);
            let (atol, rtol) = (at(&self.atol), at(&self.rtol));
            let default =
                if atol.is_some_and(|atol| atol > 0.0) { 0.0 } else { m.max(n) as f64 * self.precision };
            run(found, atol.unwrap_or(0.0).max(rtol.unwrap_or(default) * greatest), out);
            Ok(())
        })
    }
}

fn pinv(
    x: &Array,
    atol: Option<OperandValue<'_>>,
    rtol: Option<OperandValue<'_>>,
    hermitian: bool,
) -> Result<Array> {
    batch_of(&type_of(x))?;
    if hermitian {
        square(&type_of(x))?;
    }
    let all = Limited::new(x, atol, rtol, hermitian)?;
    let (m, n) = (all.m, all.n);
    let out = all.each(m * n, |found, limit, out| {
        let Some(Decomposed { values, left, right }) = found else {
            out.fill(f64::NAN);
            return;
        };
        for ((value, u), v) in values.iter().zip(&left).zip(&right) {
            if *value <= limit {
                continue;
            }
            for (row, &v) in out.chunks_mut(m).zip(v) {
                row.iter_mut().zip(u).for_each(|(x, u)| *x += v / value * u);
            }
        }
    })?;
    let shape = [&all.batch[..], &[n, m]].concat();
    Ok(Array::from_vec(if m * n == 0 { zeroed(0)? } else { out }, &shape)?.cast(x.dtype()))
}

fn rank(
    x: &Array,
    atol: Option<OperandValue<'_>>,
    rtol: Option<OperandValue<'_>>,
    hermitian: bool,
) -> Result<Array> {
    batch_of(&type_of(x))?;
    if hermitian {
        square(&type_of(x))?;
    }
    let all = Limited::new(x, atol, rtol, hermitian)?;
    let out = all.each(1, |found, limit, out| {
        let values = found.map(|found| found.values).unwrap_or_default();
        out[0] = values.iter().filter(|value| **value > limit).count() as f64;
    })?;
    Ok(Array::from_vec(out, &all.batch)?.cast(DType::I64))
}

#[cfg(test)]
mod tests {
    use fx_core::{Arg, Value};

    use super::*;
    use crate::compose::Operand;
    use crate::testing::{call, call1, tensor};

    fn matrix(batch: usize, m: usize, n: usize) -> Array {
        let data: Vec<f64> = (0..batch * m * n).map(|i| ((i * 37 % 101) as f64 * 0.7).sin()).collect();
        Array::from_vec(data, &[batch, m, n]).unwrap()
    }

    fn parts(name: &str, args: &[Value]) -> Vec<Array> {
        let out = call(name, args, &[]).unwrap();
        out.leaves().into_iter().map(|part: &Tensor| part.array().unwrap().clone()).collect()
    }

    fn close(a: &Array, b: &Array) {
        assert_eq!(a.shape(), b.shape());
        let (a, b) = (a.to_vec::<f64>().unwrap(), b.to_vec::<f64>().unwrap());
        assert!(a.iter().zip(&b).all(|(a, b)| (a - b).abs() < 1e-12), "{a:?}\n{b:?}");
    }

    fn turned(x: &Array) -> Array {
        x.transpose(x.rank() - 2, x.rank() - 1).unwrap().contiguous().unwrap()
    }

    #[test]
    fn singular_vectors_rebuild_the_matrix_and_are_orthonormal() {
        for (m, n) in [(4, 4), (5, 3), (3, 5), (1, 3)] {
            let x = matrix(2, m, n);
            let [u, s, v] = &parts("linalg_svd", &[tensor(x.clone()), Arg::Bool(false)])[..] else {
                panic!()
            };
            let scaled = u.mul(&s.unsqueeze(1).unwrap()).unwrap();
            close(&scaled.matmul(v).unwrap(), &x);
            let [u, _, v] = &parts("linalg_svd", &[tensor(x)])[..] else { panic!() };
            for basis in [u, v] {
                let n = basis.shape()[1];
                let one: Vec<f64> =
                    (0..2 * n * n).map(|i| f64::from(u8::from(i % (n * n) % (n + 1) == 0))).collect();
                close(&basis.matmul(&turned(basis)).unwrap(), &Array::from_vec(one, &[2, n, n]).unwrap());
            }
        }
    }

    #[test]
    fn a_matrix_of_rank_one_has_a_pseudo_inverse() {
        let x = Array::from_vec(vec![1.0f64, 2.0, 2.0, 4.0, 3.0, 6.0], &[3, 2]).unwrap();
        assert_eq!(call1("linalg_matrix_rank", &[tensor(x.clone())]).unwrap().to_vec::<i64>().unwrap(), [1]);
        let y = call1("linalg_pinv", &[tensor(x.clone())]).unwrap();
        close(&x.matmul(&y).unwrap().matmul(&x).unwrap(), &x);
        let zero = tensor(Array::zeros(DType::F64, &[2, 3]).unwrap());
        let [u, _, v] = &parts("linalg_svd", &[zero])[..] else { panic!() };
        assert_eq!((u.shape(), v.shape()), (&[2, 2][..], &[3, 3][..]));
    }

    #[test]
    fn eigenvectors_rebuild_a_symmetric_matrix() {
        let x = matrix(2, 5, 5);
        let x = x.add(&turned(&x)).unwrap();
        for triangle in ["L", "U"] {
            let [values, vectors] = &parts("linalg_eigh", &[tensor(x.clone()), Arg::str(triangle)])[..]
            else {
                panic!()
            };
            let scaled = vectors.mul(&values.unsqueeze(1).unwrap()).unwrap();
            close(&scaled.matmul(&turned(vectors)).unwrap(), &x);
            let sorted = values.to_vec::<f64>().unwrap();
            assert!(sorted[..5].is_sorted() && sorted[5..].is_sorted());
        }
    }
}
