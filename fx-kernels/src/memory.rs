//! Memory for results, and the error if there is not enough.

use fx_base::{Error, Result, err};

/// Allocates room for `numel` elements. Fails if there is not enough memory.
pub(crate) fn reserve<T: Copy>(numel: usize) -> Result<Vec<T>> {
    fx_simd::reserve(numel).map_err(|_| too_large::<T>(numel))
}

/// Allocates `numel` default elements. Fails if there is not enough memory.
#[cfg(feature = "linalg")]
pub(crate) fn zeros<T: Copy + Default>(numel: usize) -> Result<Vec<T>> {
    let mut out = reserve::<T>(numel)?;
    out.resize(numel, T::default());
    Ok(out)
}

/// Makes `numel` elements in blocks of `block`; a thread takes `at_once` of them or more. The blocks have
/// default values. Fails if there is not enough memory.
#[cfg(feature = "fft")]
pub(crate) fn blocks<T: Copy + Default + Send>(
    numel: usize,
    block: usize,
    at_once: usize,
    fill: &(dyn Fn(usize, &mut [T]) + Sync),
) -> Result<Vec<T>> {
    fx_simd::collect(numel, block, at_once, &|at, slots| slots.cleared(|out| fill(at, out)))
        .map_err(|_| too_large::<T>(numel))
}

fn too_large<T>(numel: usize) -> Error {
    err!(Limit, "cannot allocate {numel} elements of {}", std::any::type_name::<T>())
}
