//! Special functions, and the rest of [`math`](crate::math); one text with it in generated code.

pub use crate::math::*;
include!("gamma.rs");
include!("bessel.rs");
include!("polynomials.rs");

#[cfg(test)]
mod tests;
