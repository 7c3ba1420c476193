//! Stands in for `eigen` in a build without the feature `linalg`: every decomposition is an error.

use fx_base::{Error, Result, err};

use super::gemm::GemmElement;

/// A float of which matrices are decomposed: `f32` or `f64`.
pub trait Decomposed: GemmElement + Into<f64> {}
impl Decomposed for f32 {}
impl Decomposed for f64 {}

/// Where singular vectors are stored.
pub struct Vectors<'a, T> {
    /// Where the left vectors would be stored.
    pub left: &'a mut [T],
    /// The number of columns of the matrix of left vectors.
    pub columns: usize,
    /// Where the right vectors would be stored.
    pub right: &'a mut [T],
}

fn absent(what: &str) -> Error {
    err!(Unresolved, "this build of fx does not compute {what}")
        .help("enable the feature `linalg` of tensor-fx")
}

/// Fails, since this build has no eigenvalues.
pub fn eigenvalues<T: Decomposed>(_: &mut [T], _: usize, _: &mut [T], _: Option<&mut [T]>) -> Result<()> {
    Err(absent("eigenvalues"))
}

/// Fails, since this build has no singular values.
pub fn singular_values<T: Decomposed>(
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
