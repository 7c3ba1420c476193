//! The kernels: loops on contiguous or strided slices, which know nothing of tensors.
//!
//! Invariant: a kernel's result has the same bits for any number of threads, for work is cut by its
//! shape alone and each output element is reduced in a fixed order.

pub mod attention;
pub mod conv;
#[cfg_attr(not(feature = "linalg"), path = "eigen_absent.rs")]
pub mod eigen;
#[cfg_attr(not(feature = "fft"), path = "fft_absent.rs")]
pub mod fft;
pub mod fold;
pub mod gemm;
pub mod group_norm;
pub mod householder;
pub mod interpolate;
#[doc(hidden)]
pub mod lanes;
pub mod lu;
#[cfg(any(feature = "linalg", feature = "fft"))]
mod memory;
pub mod pool;
pub mod radix_sort;
pub mod recurrent;
pub mod rows;
pub mod select;
pub mod softmax;

/// The number of elements below which work stays on the calling thread.
pub const PARALLEL: usize = 1 << 16;

/// Calls a function on elements of `T`, f32 or f64, in the widest vectors of f32 and in those of 256 bits of f64,
/// which is rarely hot.
#[inline]
pub fn call_real<T, F: fx_simd::Wide<A>, A>(arguments: A) -> F::Output {
    if const { size_of::<T>() > 4 } {
        fx_simd::call_256::<F, A>(arguments)
    } else {
        fx_simd::call::<F, A>(arguments)
    }
}
