//! The kernels of generated crates: loops over slices that name nothing but `core` and `math`. They are
//! compiled and tested here, and their text is written into crates that use them.
#![allow(dead_code, unreachable_pub, reason = "generated code calls them")]
#![allow(
    clippy::eq_op,
    clippy::needless_range_loop,
    clippy::too_many_arguments,
    reason = "loops that compilers vectorise"
)]

pub mod attention;
pub mod bits;
pub mod check;
pub mod conv;
pub mod copy;
pub mod count;
pub mod depthwise;
pub mod detect;
pub mod factor;
#[cfg(test)]
mod factor_tests;
pub mod fft;
#[cfg(test)]
mod float;
pub mod gemm;
pub mod grid;
pub mod half;
pub mod linalg;
pub mod lookup;
pub mod pack;
pub mod pool;
pub mod product;
pub mod random;
pub mod recurrent;
pub mod reduce;
pub mod resize;
pub mod rows;
pub mod scan;
mod simd;
pub mod sort;
#[cfg(test)]
mod tests;
pub mod threads;
mod tile;
mod walk;
mod window;
pub mod winograd;

use fx_core::portable::{detection, philox, resampling, sampling, select};
use fx_core::{math, row};
