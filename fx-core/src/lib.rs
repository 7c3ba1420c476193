//! The language of fx: tensors, graphs, tracing, interpretation, text and symbolic shapes.
#![forbid(unsafe_code)]

pub mod dtype;
pub mod error;
/// Scalar mathematics that compilers vectorise, generic over f32 and f64.
pub mod math;
pub mod math_source;
pub mod rng;

pub use dtype::{Category, DType, Element, Scalar};
pub use error::{Error, ErrorKind, Result, SourceLoc};
