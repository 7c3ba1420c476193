//! What the language and the kernels of fx share: errors, the log, scalar mathematics and
//! places in memory. It depends on nothing.
#![forbid(unsafe_code)]

pub mod arena;
#[allow(clippy::eq_op, clippy::needless_range_loop, reason = "text for generated code")]
pub mod detection;
pub mod error;
#[allow(clippy::eq_op, reason = "text for generated code")]
pub mod fractional;
pub mod logging;
pub mod margin;
#[allow(
    clippy::approx_constant,
    reason = "coefficients of polynomials lie near the constants that they approximate"
)]
pub mod math;
pub mod math_source;
pub mod philox;
pub mod resampling;
#[allow(clippy::eq_op, clippy::needless_range_loop, reason = "loops that compilers vectorise")]
pub mod row;
pub mod sampling;
pub mod select;
pub mod special;

pub use error::{Error, ErrorKind, Result, SourceLoc};
