//! The language of fx: tensors, graphs, tracing, interpretation, text and symbolic shapes.
#![forbid(unsafe_code)]

#[doc(hidden)]
pub mod __private;
pub mod arg;
pub mod array;
pub mod dim;
pub mod dtype;
pub mod error;
pub mod graph;
pub mod module;
pub mod names;
pub mod node;
pub mod op;
pub mod ops;
pub mod pointwise;
pub mod tensor;
pub mod text;
pub mod trace;
pub mod tree;
pub mod types;

pub use arg::{Arg, Entries, Items, MAX_DEPTH, Slice};
pub use array::{Array, Sizes, Storage, Stored, Strides};
pub use dim::{Dim, Symbol, Truth};
pub use dtype::{Category, DType, Element, Scalar};
pub use error::{Error, ErrorKind, Result, SourceLoc};
pub use graph::{Graph, Input};
pub use module::{Buffer, Forward, Module, Parameter};
pub use node::{Kwargs, Literal, ModuleFrame, Node, NodeId, NodeMeta, OpCode, Provenance, Target};
pub use op::{Class, Effects, Kind, Op, OpDef, Param, Registry, ToArg};
pub use tensor::{Tensor, Value};
pub use tree::Tree;
pub use types::{Shape, TensorType, Type, TypeTree};
