//! The language of fx: tensors, graphs, tracing, interpretation, text and symbolic shapes.
#![forbid(unsafe_code)]

pub mod dim;
pub mod dtype;
pub mod error;

pub use dim::{Dim, Symbol, Truth};
pub use dtype::{Category, DType, Element, Scalar};
pub use error::{Error, ErrorKind, Result, SourceLoc};
