//! Generated Rust for fx graphs.
//!
//! So far it writes the kernels of single operations: [`kernel::pointwise`] turns a row's scalar body into a loop over
//! slices that needs nothing but the standard library, and [`kernel::MATH`] is the mathematics that such loops call.

pub mod kernel;
