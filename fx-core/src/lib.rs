//! The language of fx: tensors, graphs, tracing, interpretation, text and symbolic shapes.
//!
//! Reading order: [`tensor`] (values, for model code), [`mod@trace`] (from code to graph), [`arg`], [`node`],
//! [`graph`], [`op`] (the row of an operation), [`interp`] (meanings of graphs), [`text`].
#![forbid(unsafe_code)]

pub mod __private;
#[doc(hidden)]
pub mod __test;
pub mod analysis;
pub mod arg;
pub mod array;
mod attribute;
pub mod blocks;
pub mod dim;
pub mod dtype;
pub mod eval;
mod folded;
mod fresh;
pub mod graph;
pub mod graph_module;
pub mod gufunc;
pub mod infer;
mod inline;
pub mod interp;
#[doc(hidden)]
pub mod lazy;
pub mod lint;
pub mod loops;
mod members;
mod methods;
pub mod module;
pub mod names;
pub mod native;
pub mod node;
pub mod op;
pub mod ops;
pub mod pass;
/// Code that generated crates contain as text.
pub mod portable {
    pub use fx_base::{detection, fractional, margin, philox, resampling, sampling, select};
}
pub mod pointwise;
pub mod region;
pub mod rewrite;
pub mod rng;
pub mod rowwise;
mod script;
mod specialize;
pub mod splitting;
pub mod tensor;
#[doc(hidden)]
pub mod testing;
pub mod text;
pub mod trace;
pub mod transform;
pub mod tree;
pub mod types;
mod unflatten;
pub mod window;

pub use arg::{Arg, Entries, Items, MAX_DEPTH, Slice};
pub use array::{Array, Sizes, Storage, Stored, Strides};
pub use attribute::Attribute;
pub use dim::{Dim, Symbol, Truth};
pub use dtype::{Category, DType, Element, Scalar};
#[doc(inline)]
pub use fx_base::{
    Error, ErrorKind, Result, SourceLoc, bail, err, error, logging, math, math_source, row, special,
};
pub use graph::{Graph, Input};
pub use graph_module::GraphModule;
pub use interp::{Interpreter, NodeRef, interpret};
pub use lint::{Violation, ViolationKind};
pub use members::Members;
pub use module::{Buffer, Forward, Module, Parameter, StateCell};
pub use node::{Kwargs, Literal, ModuleFrame, Node, NodeId, NodeMeta, OpCode, Provenance, Target};
pub use op::{Class, Effects, Flops, Given, Kind, Op, OpDef, Param, Registry, ToArg};
pub use pass::{Context, Pass, Passes};
pub use rewrite::{Match, Pattern, Rule, Rules, replace_pattern};
pub use splitting::split_module;
pub use tensor::{Tensor, Value};
pub use trace::{InputSpec, symbolic_trace, trace};
pub use transform::Rebuild;
pub use tree::Tree;
pub use types::{Shape, TensorType, Type, TypeTree};
pub use unflatten::LeftInline;
