//! Generated Rust for fx graphs.
//!
//! [`readable`] writes a graph module as Rust for people. [`kernel`] writes single operations as loops that need nothing but the standard
//! library.

pub mod kernel;
pub mod readable;

pub use readable::{Code, GraphCode};
