//! Eigenvalues and singular values, and what follows from them: pseudo-inverses and ranks.
//!
//! Matrices are the last two axes, the others a batch that threads share. All is computed in the dtype of the
//! operand. Vectors are unique up to their sign only.

use fx_core::math::Real;
use fx_core::op::Flops::Unknown;
use fx_core::op::kind::{OperandType, OperandValue};
use fx_core::pointwise::{broadcast_dims, broadcast_shapes};
use fx_core::{Array, DType, Dim, Element, Op, Result, Shape, Tensor, TensorType, bail, kernels};

use crate::kernel::eigen::{Decomposed, Vectors, eigenvalues, singular_values};
use crate::kernel::gemm::gemm_by;
use crate::ops::check::{dense, in_float, sizes, slice, type_of, zeroed};
use crate::ops::linalg_factor::cut;
use crate::ops::linalg_solve::{GRAIN, check_square, decomposable, each_matrix, matrices, try_chunks};

/// The tables of this file.
pub(super) static TABLES: &[&[Op]] = &[EIGENVALUES];

kernels! {
    /// Eigenvalues and singular values.
    pub trait Eigenvalues; pub static EIGENVALUES;

    /// `(U, S, Vh)` with `x = U @ diag(S) @ Vh` for matrices `[.., m, n]`: orthonormal columns and rows, and
    /// the singular values in descending order. `U` is `[.., m, m]` and `Vh` `[.., n, n]`, or without
    /// `full_matrices` `[.., m, k]` and `[.., k, n]` for `k = min(m, n)`.
    #[flops = Unknown]
    linalg_svd(x: Tensor, full_matrices: Bool = true) -> (Tensor, Tensor, Tensor) = svd_type, singular;
    /// `(values, vectors)` of symmetric matrices: the eigenvalues in ascending order, and in the columns
    /// eigenvectors of length 1. Only the lower triangle is read, or with `UPLO` "U" the upper one.
    #[flops = Unknown]
    linalg_eigh(x: Tensor, uplo: Str = "L") -> (Tensor, Tensor) = eigen_type, eigen;
    /// The eigenvalues of `linalg_eigh`.
    #[flops = Unknown]
    linalg_eigvalsh(x: Tensor, uplo: Str = "L") =
        |x: &TensorType, triangle: &str| eigen_type(x, triangle).map(|(values, _)| values),
        eigenvalues_only;
    /// The pseudo-inverse of matrices: `[.., m, n]` becomes `[.., n, m]`.
    ///
    /// Singular values up to `atol`, or `rtol` times the greatest, count as 0. `rtol` is by default the
    /// greater size times the precision of the dtype, or 0 if `atol` is given. With `hermitian` only the
    /// lower triangle is read.
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

fn array<T: Element>(data: Vec<T>, ty: &TensorType) -> Result<Array> {
    Array::from_vec(data, &sizes(&ty.shape)?)
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

fn singular(x: &Array, full: bool) -> Result<(Array, Array, Array)> {
    let (u_ty, s_ty, v_ty) = svd_type(&type_of(x), full)?;
    let (data, batch, m, n) = matrices(x)?;
    let k = m.min(n);
    let (columns, rows) = if full { (m, n) } else { (k, k) };
    fx_core::array::checked_numel(&[batch, m, columns])?;
    fx_core::array::checked_numel(&[batch, rows, n])?;
    let sizes = [m * columns, k, rows * n];
    in_float!(x.dtype(), T => {
        let work = 16 * m * n * k.max(1);
        let packed = each_matrix::<T>(slice(&data), m * n, sizes.iter().sum(), batch, work, |a, out| {
            let (left, rest) = out.split_at_mut(m * columns);
            let (values, right) = rest.split_at_mut(k);
            singular_values(&mut a.to_vec(), (m, n), values, Some(Vectors { left, columns, right }))
        })?;
        let [u, s, v] = cut(&packed, sizes);
        Ok((array(u, &u_ty)?, array(s, &s_ty)?, array(v, &v_ty)?))
    })
}

fn eigen_type(x: &TensorType, triangle: &str) -> Result<(TensorType, TensorType)> {
    check_square(x)?;
    if !["L", "U", "l", "u"].contains(&triangle) {
        bail!(Argument, "expected the triangle \"L\" or \"U\", got {triangle:?}");
    }
    let (batch, n, _) = batch_of(x)?;
    Ok((batched(x.dtype, batch, [n]), x.clone()))
}

/// Returns a matrix of which one triangle is that of both.
fn symmetric<T: Copy>(a: &[T], n: usize, lower: bool) -> Vec<T> {
    let at = |i: usize, j: usize| if (i >= j) == lower { a[i * n + j] } else { a[j * n + i] };
    (0..n * n).map(|k| at(k / n, k % n)).collect()
}

fn eigen(x: &Array, triangle: &str) -> Result<(Array, Array)> {
    let (values_ty, vectors_ty) = eigen_type(&type_of(x), triangle)?;
    let lower = triangle.eq_ignore_ascii_case("L");
    let (data, batch, n, _) = matrices(x)?;
    in_float!(x.dtype(), T => {
        let packed = each_matrix::<T>(slice(&data), n * n, n + n * n, batch, 16 * n * n * n, |a, out| {
            let (values, vectors) = out.split_at_mut(n);
            eigenvalues(&mut symmetric(a, n, lower), n, values, Some(vectors))
        })?;
        let [values, vectors] = cut(&packed, [n, n * n]);
        Ok((array(values, &values_ty)?, array(vectors, &vectors_ty)?))
    })
}

fn eigenvalues_only(x: &Array, triangle: &str) -> Result<Array> {
    let (ty, _) = eigen_type(&type_of(x), triangle)?;
    let lower = triangle.eq_ignore_ascii_case("L");
    let (data, batch, n, _) = matrices(x)?;
    in_float!(x.dtype(), T => {
        let out = each_matrix::<T>(slice(&data), n * n, n, batch, 4 * n * n * n, |a, out| {
            eigenvalues(&mut symmetric(a, n, lower), n, out, None)
        })?;
        array(out, &ty)
    })
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
        check_square(x)?;
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
    hermitian: bool,
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
        batch_of(&type_of(x))?;
        if hermitian {
            check_square(&type_of(x))?;
        }
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
        let data = x.broadcast_to(&[&batch[..], &[m, n]].concat())?.contiguous()?;
        Ok(Limited { data, batch, m, n, hermitian, atol, rtol, precision })
    }

    /// Runs a function on a copy of each matrix and its limit as a function of the greatest value. The
    /// function stores `to` elements.
    fn each<T: Decomposed + Element, R: Element>(
        &self,
        to: usize,
        run: impl Fn(&mut [T], &dyn Fn(T) -> f64, &mut [R]) -> Result<()> + Sync,
    ) -> Result<Vec<R>> {
        let (m, n) = (self.m, self.n);
        let data = slice::<T>(&self.data);
        let mut out = zeroed::<R>(fx_core::array::checked_numel(&[self.count(), to])?)?;
        if to == 0 {
            return Ok(out);
        }
        let at_once = GRAIN.div_ceil((16 * m * n * m.min(n)).max(1));
        try_chunks(&mut out, to, at_once, |i, out| {
            let at = |limit: &Option<Array>| limit.as_ref().map(|limit| slice::<f64>(limit)[i]);
            let (atol, rtol) = (at(&self.atol), at(&self.rtol));
            let default =
                if atol.is_some_and(|atol| atol > 0.0) { 0.0 } else { m.max(n) as f64 * self.precision };
            let limit = |greatest: T| atol.unwrap_or(0.0).max(rtol.unwrap_or(default) * greatest.into());
            let a = &data[i * m * n..][..m * n];
            let mut a = if self.hermitian { symmetric(a, n, true) } else { a.to_vec() };
            run(&mut a, &limit, out)
        })?;
        Ok(out)
    }

    fn count(&self) -> usize {
        self.batch.iter().product()
    }
}

fn pinv(
    x: &Array,
    atol: Option<OperandValue<'_>>,
    rtol: Option<OperandValue<'_>>,
    hermitian: bool,
) -> Result<Array> {
    let all = Limited::new(x, atol, rtol, hermitian)?;
    let (m, n) = (all.m, all.n);
    let (k, shared) = (m.min(n), all.count() == 1);
    in_float!(x.dtype(), T => {
        let out = all.each::<T, T>(m * n, |a, limit, out| {
            let (mut values, mut left, mut right) = (zeroed::<T>(k)?, zeroed::<T>(m * k)?, zeroed::<T>(k * n)?);
            let vectors = Vectors { left: &mut left, columns: k, right: &mut right };
            singular_values(a, (m, n), &mut values, Some(vectors))?;
            let limit = limit(values[0]);
            for (row, &value) in right.chunks_exact_mut(n).zip(&values) {
                row.iter_mut().for_each(|x| *x = if Real::to_f64(value) <= limit { 0.0 } else { *x / value });
            }
            gemm_by(shared, n, k, m, 1.0, &right, (1, n), &left, (1, k), 0.0, out, (m, 1));
            Ok(())
        })?;
        Array::from_vec(out, &[&all.batch[..], &[n, m]].concat())
    })
}

fn rank(
    x: &Array,
    atol: Option<OperandValue<'_>>,
    rtol: Option<OperandValue<'_>>,
    hermitian: bool,
) -> Result<Array> {
    let all = Limited::new(x, atol, rtol, hermitian)?;
    in_float!(x.dtype(), T => {
        let out = all.each::<T, i64>(1, |a, limit, out| {
            let mut values = zeroed::<T>(all.m.min(all.n))?;
            singular_values(a, (all.m, all.n), &mut values, None)?;
            let limit = limit(values.first().copied().unwrap_or(0.0));
            out[0] = values.iter().filter(|&&value| Real::to_f64(value) > limit).count() as i64;
            Ok(())
        })?;
        Array::from_vec(out, &all.batch)
    })
}
