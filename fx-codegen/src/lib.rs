//! Generated Rust for fx graphs.
//!
//! [`readable`] writes a graph module as Rust for people. [`kernel`] writes single operations as loops that
//! need nothing but the standard library. [`native`] compiles the loops of plans by rustc, and loads them.

mod expression;
pub mod kernel;
pub mod native;
pub mod readable;
pub mod standalone;

pub use native::Native;
pub use readable::{Code, GraphCode};
