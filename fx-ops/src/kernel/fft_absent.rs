//! Stands in for `fourier` in a build without the feature `fft`: every transform is an error.

use fx_core::math::Real;
use fx_core::{Element, Error, Result, err};

/// A float that is transformed.
pub(crate) trait Float: Real + Element {}
impl Float for f32 {}
impl Float for f64 {}

fn absent() -> Error {
    err!(Unresolved, "this build of fx has no Fourier transforms")
        .help("enable the feature `fft` of tensor-fx")
}

pub(crate) fn pairs_to_pairs<T: Float>(_: &[T], _: usize, _: bool, _: T) -> Result<Vec<T>> {
    Err(absent())
}

pub(crate) fn reals_to_pairs<T: Float>(
    _: usize,
    _: usize,
    _: usize,
    _: T,
    _: impl Fn(usize, &mut [T]) + Sync,
) -> Result<Vec<T>> {
    Err(absent())
}

pub(crate) fn pairs_to_reals<T: Float>(
    _: usize,
    _: usize,
    _: T,
    _: impl Fn(usize, &mut [[T; 2]]) + Sync,
) -> Result<Vec<T>> {
    Err(absent())
}
