//! The items that code of fx-macros names. Not for direct use, and not stable.

pub use fx_simd::{At, Filled, UninitSlice, Work, widest_256_or, widest_or};
pub use std;

pub use crate::module::load::{FromWeights, Skipped, WeightSource, join};
pub use crate::module::{Field, InputDecl, Visitor, VisitorMut, display_tree};
pub use crate::op::{Default, wrong_arity};
pub use crate::pointwise::fused_affine::{Body, FusedAffine};
pub use crate::trace::{ModuleCall, call_module, call_wrapped, infer_by_tracing, result_as};
pub use crate::tree::{self, open_structure};
pub use crate::{
    Arg, Class, Effects, Error, ErrorKind, Forward, Kind, Module, Op, OpDef, Param, Result, SourceLoc,
    Tensor, Tree, TypeTree, Value,
};

/// The runtime of `#[fx::script]`.
pub mod script {
    pub use crate::script::*;
}

use crate::{bail, err};

/// Returns the arguments of `function`, which takes `N`. Fails if there are more or fewer.
pub fn arguments<'a, const N: usize>(function: &str, values: &'a [Value]) -> Result<&'a [Value; N]> {
    values.try_into().map_err(|_| {
        let plural = if N == 1 { "" } else { "s" };
        err!(Argument, "{function} takes {N} argument{plural}, got {}", values.len())
    })
}

/// Restores an argument. Fails if it has another structure, which the error says with the name of the
/// argument, or with the error that the value carries.
pub fn argument<T: Tree>(name: &str, value: &Value) -> Result<T> {
    T::from_value(value).map_err(|error| match value.error() {
        Some(carried) if carried.same(&error) => error,
        _ => {
            let mut out = Error::new(error.kind(), format!("argument {name:?}: {}", error.message()));
            if let Some(source) = error.source_loc() {
                out = out.at(source.clone());
            }
            if let Some(context) = error.context() {
                out = out.in_context(|| context.to_owned());
            }
            if let Some(help) = error.advice() {
                out = out.help(help);
            }
            out.in_module(error.module().unwrap_or_default())
        }
    })
}

/// Returns the value of a borrowed list.
pub fn list<T: Tree>(items: &[T]) -> Value {
    Arg::list(items.iter().map(T::to_value))
}

/// Returns the value of a result. Fails with the error that the result carries.
pub fn result<R: Tree>(result: &R) -> Result<Value> {
    let value = result.to_value();
    match value.error() {
        Some(error) => Err(error.clone()),
        None => Ok(value),
    }
}

/// Returns the items of a tuple struct of `N` fields. Fails if there are more or fewer, or the value is no
/// tuple.
pub fn items<'a, const N: usize>(value: &'a Value, type_name: &str) -> Result<&'a [Value; N]> {
    match (value.items(), value) {
        (Some(items), _) => match items.try_into() {
            Ok(items) => Ok(items),
            Err(_) => bail!(Structure, "expected {type_name} with {N} fields, got {}", items.len()),
        },
        (None, Arg::Failed(error)) => Err(error.clone()),
        (None, other) => bail!(Structure, "expected {type_name} with {N} fields, got {}", other.kind_name()),
    }
}
