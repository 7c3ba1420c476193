//! Stands in for `spectral` in a build without the feature `linalg`: every decomposition is an error.

use fx_core::{Element, Error, Result, err};

use super::gemm::GemmElement;

/// A float of which matrices are decomposed: `f32` or `f64`.
pub(crate) trait Decomposed: GemmElement + Element + Into<f64> {}
impl Decomposed for f32 {}
impl Decomposed for f64 {}

/// Where singular vectors are stored.
pub(crate) struct Vectors<'a, T> {
    pub(crate) left: &'a mut [T],
    pub(crate) columns: usize,
    pub(crate) right: &'a mut [T],
}

fn absent(what: &str) -> Error {
    err!(Unresolved, "this build of fx does not compute {what}")
        .help("enable the feature `linalg` of tensor-fx")
}

pub(crate) fn eigenvalues<T: Decomposed>(
    _: &mut [T],
    _: usize,
    _: &mut [T],
    _: Option<&mut [T]>,
) -> Result<()> {
    Err(absent("eigenvalues"))
}

pub(crate) fn singular_values<T: Decomposed>(
    _: &mut [T],
    _: (usize, usize),
    _: &mut [T],
    vectors: Option<Vectors<'_, T>>,
) -> Result<()> {
    if let Some(Vectors { left, columns, right }) = vectors {
        let _ = (left, columns, right);
    }
    Err(absent("singular values"))
}
