//! The language of fx: tensors, graphs, tracing, interpretation, text and symbolic shapes.
#![forbid(unsafe_code)]

pub mod array;
pub mod dtype;
pub mod error;

pub use array::{Array, Sizes, Storage, Stored, Strides};
pub use dtype::{Category, DType, Element, Scalar};
pub use error::{Error, ErrorKind, Result, SourceLoc};
