//! Eigenvalues and singular values of one matrix, by faer.
//!
//! Invariant: all runs on the calling thread, so that the number of threads does not change a bit. With two
//! threads faer is no faster up to 1000 rows.

use faer::dyn_stack::{MemBuffer, MemStack, StackReq};
use faer::linalg::evd::{self, ComputeEigenvectors, SelfAdjointEvdParams};
use faer::linalg::svd::{self, ComputeSvdVectors, SvdParams};
use faer::traits::RealField;
use faer::{Auto, Par, Spec};
use faer::{diag::DiagMut, mat::MatMut, mat::MatRef};
use fx_base::{Result, err};

use super::gemm::{GemmElement, transposed};
use crate::memory::zeros;

/// A float of which matrices are decomposed: `f32` or `f64`.
pub trait Decomposed: GemmElement + RealField + Into<f64> {}
impl Decomposed for f32 {}
impl Decomposed for f64 {}

/// The size from which matrices are divided and conquered; smaller ones are left to QR steps.
const DIVIDED: usize = 48;

/// Divides the elements by a number that it returns, so that no square of theirs leaves the range of the
/// dtype. Returns none where an element is not finite.
fn scale<T: Decomposed>(a: &mut [T]) -> Option<T> {
    if a.iter().any(|x| !x.is_finite()) {
        return None;
    }
    let most = a.iter().fold(T::zero(), |most, x| most.max(x.abs()));
    let least = T::min_positive_value().sqrt() / T::epsilon();
    if most == T::zero() || most > least && most < least.recip() {
        return Some(T::one());
    }
    a.iter_mut().for_each(|x| *x /= most);
    Some(most)
}

fn scratch(size: StackReq) -> Result<MemBuffer> {
    MemBuffer::try_new(size).map_err(|_| err!(Limit, "a decomposition does not fit into memory"))
}

/// Stores the eigenvalues of the symmetric `a`, n by n, in ascending order, and in the columns of `vectors`,
/// if it is given, eigenvectors of length 1. Where an element is not finite, all is NaN. Elements of `a`
/// change. Fails if there is not enough memory, or if the values do not converge.
pub fn eigenvalues<T: Decomposed>(
    a: &mut [T],
    n: usize,
    values: &mut [T],
    vectors: Option<&mut [T]>,
) -> Result<()> {
    let Some(most) = scale(a) else {
        values.fill(T::nan());
        vectors.into_iter().for_each(|vectors| vectors.fill(T::nan()));
        return Ok(());
    };
    if n == 0 {
        return Ok(());
    }
    let wanted = if vectors.is_some() { ComputeEigenvectors::Yes } else { ComputeEigenvectors::No };
    let params = SelfAdjointEvdParams { recursion_threshold: DIVIDED, ..Auto::<T>::auto() };
    let params: Spec<SelfAdjointEvdParams, T> = params.into();
    let mut memory = scratch(evd::self_adjoint_evd_scratch::<T>(n, wanted, Par::Seq, params))?;
    let mut columns = zeros::<T>(if vectors.is_some() { n * n } else { 0 })?;
    evd::self_adjoint_evd(
        MatRef::from_column_major_slice(a, n, n),
        DiagMut::from_slice_mut(values),
        vectors.is_some().then(|| MatMut::from_column_major_slice_mut(&mut columns, n, n)),
        Par::Seq,
        MemStack::new(&mut memory),
        params,
    )
    .map_err(|_| err!(Argument, "the eigenvalues of a matrix do not converge"))?;
    values.iter_mut().for_each(|value| *value *= most);
    if let Some(vectors) = vectors {
        vectors.copy_from_slice(&transposed(&columns, n, n, n));
    }
    Ok(())
}

/// Where singular vectors are stored: the left ones in the columns of a matrix, m by `columns`, the right
/// ones in the rows of another, of `n` columns. There are as many of both as of values, or as many as the
/// matrix has rows and columns.
pub struct Vectors<'a, T> {
    /// Where the left vectors are stored.
    pub left: &'a mut [T],
    /// The number of columns of the matrix of left vectors.
    pub columns: usize,
    /// Where the right vectors are stored.
    pub right: &'a mut [T],
}

/// Stores the singular values of `a`, m by n, in descending order, and singular vectors, if they are wanted.
/// Where an element is not finite, all is NaN. Elements of `a` change. Fails if there is not enough memory, or if
/// the values do not converge.
pub fn singular_values<T: Decomposed>(
    a: &mut [T],
    (m, n): (usize, usize),
    values: &mut [T],
    vectors: Option<Vectors<'_, T>>,
) -> Result<()> {
    let Some(most) = scale(a) else {
        values.fill(T::nan());
        if let Some(Vectors { left, right, .. }) = vectors {
            left.fill(T::nan());
            right.fill(T::nan());
        }
        return Ok(());
    };
    if a.is_empty() {
        if let Some(Vectors { left, columns, right }) = vectors {
            left.iter_mut().step_by(columns + 1).for_each(|x| *x = T::one());
            right.iter_mut().step_by(n + 1).for_each(|x| *x = T::one());
        }
        return Ok(());
    }
    let params = SvdParams { recursion_threshold: DIVIDED, ..Auto::<T>::auto() };
    let params: Spec<SvdParams, T> = params.into();
    let wanted = match &vectors {
        None => ComputeSvdVectors::No,
        Some(vectors) if vectors.columns == m && vectors.right.len() == n * n => ComputeSvdVectors::Full,
        Some(_) => ComputeSvdVectors::Thin,
    };
    let mut memory = scratch(svd::svd_scratch::<T>(n, m, wanted, wanted, Par::Seq, params))?;
    let (columns, right) = match vectors {
        None => (None, None),
        Some(Vectors { left, columns, right }) => {
            (Some((zeros::<T>(m * columns)?, columns, left)), Some(right))
        }
    };
    let (mut columns, mut right) = (columns, right);
    // Rows are the columns of the transpose, so that its left vectors are the right ones.
    svd::svd(
        MatRef::from_column_major_slice(a, n, m),
        DiagMut::from_slice_mut(values),
        right.as_mut().map(|rows| MatMut::from_column_major_slice_mut(rows, n, rows.len() / n)),
        columns.as_mut().map(|(turned, columns, _)| MatMut::from_column_major_slice_mut(turned, m, *columns)),
        Par::Seq,
        MemStack::new(&mut memory),
        params,
    )
    .map_err(|_| err!(Argument, "the singular values of a matrix do not converge"))?;
    values.iter_mut().for_each(|value| *value *= most);
    if let Some((turned, columns, left)) = columns {
        left.copy_from_slice(&transposed(&turned, columns, m, m));
    }
    Ok(())
}
