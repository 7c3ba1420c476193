//! Stands in for `fft` in a build without the feature `fft`: every transform is an error.

use fx_base::math::Real;
use fx_base::{Error, Result, err};

/// A float that is transformed.
pub trait Float: Real {}
impl Float for f32 {}
impl Float for f64 {}

fn absent() -> Error {
    err!(Unresolved, "this build of fx has no Fourier transforms")
        .help("enable the feature `fft` of tensor-fx")
}

/// Fails, since this build has no Fourier transforms.
pub fn pairs_to_pairs<T: Float>(_: &[T], _: usize, _: bool, _: T) -> Result<Vec<T>> {
    Err(absent())
}

/// Fails, since this build has no Fourier transforms.
pub fn reals_to_pairs<T: Float>(
    _: usize,
    _: usize,
    _: usize,
    _: T,
    _: impl Fn(usize, &mut [T]) + Sync,
) -> Result<Vec<T>> {
    Err(absent())
}

/// Fails, since this build has no Fourier transforms.
pub fn pairs_to_reals<T: Float>(
    _: usize,
    _: usize,
    _: T,
    _: impl Fn(usize, &mut [[T; 2]]) + Sync,
) -> Result<Vec<T>> {
    Err(absent())
}
