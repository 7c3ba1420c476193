//! What the macros of fx-macros name in generated code. Not for direct use, and not stable.

pub use std;

pub use crate::module::load::{FromWeights, Skipped, WeightSource, join};
pub use crate::module::{Field, InputDecl, Visitor, VisitorMut, display_tree};
pub use crate::op::{Default, wrong_arity};
pub use crate::trace::{call_module, call_wrapped, infer_by_tracing};
pub use crate::tree::{self, open_structure};
pub use crate::{
    Arg, Class, Effects, Error, ErrorKind, Forward, Kind, Module, Op, OpDef, Param, Result, Tensor, Tree, TypeTree, Value,
};
