//! Indexing: `getitem` of tuples, lists, dictionaries and tensors, with PyTorch's meaning.
//!
//! `entry` reads an index, the same way for values and for types; `array` applies it to an array, `types` to
//! a type, `windows` to a window; `syntax` is the notation: [`Tensor::i`](crate::Tensor::i) and
//! [`s!`](crate::s). Integers, slices, `..` and new axes give views; tensors and lists of integers or bools gather
//! a copy.

mod array;
mod entry;
mod syntax;
mod types;
mod windows;

pub use array::{index_array, index_places};
pub use syntax::{IntoBound, IntoIndex, with_step};
pub use types::index_type;

use crate::op::kind::IntoValue;
use crate::{Arg, Result, Type, TypeTree, Value, bail, err, functions};

functions! {
    pub(super) static INDEX;

    /// The part of `x` that `index` names: an item of a tuple, list or dictionary, or elements of a tensor.
    #[class = Kernel(windows::windows)]
    getitem(x: Any, index: Any) = infer, eval;
}

/// Returns the item of a tuple, list or dictionary; `None` if `x` is something else.
fn item<'a, L>(x: &'a Arg<L>, index: &Arg<L>) -> Option<Result<&'a Arg<L>>> {
    match (x, index) {
        (Arg::Tuple(items) | Arg::List(items), Arg::Int(i)) => {
            let n = items.len() as i64;
            let at = if *i < 0 { i + n } else { *i };
            let item = usize::try_from(at).ok().and_then(|at| items.get(at));
            Some(item.ok_or_else(|| err!(Index, "index {i} is out of range for {n} items")))
        }
        (Arg::Dict(entries), Arg::Str(key)) => {
            Some(entries.get(key).ok_or_else(|| err!(Index, "there is no entry {key:?}")))
        }
        (Arg::Tuple(_) | Arg::List(_), Arg::Dim(_) | Arg::Leaf(_)) => None,
        (Arg::Tuple(_) | Arg::List(_) | Arg::Dict(_), _) => {
            Some(Err(err!(Index, "{} cannot be indexed with {}", x.kind_name(), index.kind_name())))
        }
        _ => None,
    }
}

/// Returns whether an index is an integer that is not known.
fn is_int(index: &TypeTree) -> bool {
    matches!(index, Arg::Int(_) | Arg::Dim(_) | Arg::Leaf(Type::Int))
}

/// Returns the type of any of these items, if they have one type.
fn one_type(items: &[TypeTree]) -> Result<TypeTree> {
    let mut types = items.iter().map(TypeTree::general);
    match types.next() {
        Some(first) if types.all(|ty| ty == first) => Ok(first),
        _ => Err(crate::op::unknown_type()),
    }
}

fn infer(x: &TypeTree, index: &TypeTree) -> Result<TypeTree> {
    if let Some(item) = item(x, index) {
        return item.cloned();
    }
    match x {
        Arg::Leaf(Type::Tensor(ty)) => index_type(ty, index),
        Arg::Leaf(Type::List(item)) if is_int(index) => Ok((**item).clone()),
        // The length of the list may be known when it runs.
        Arg::Tuple(items) | Arg::List(items) if is_int(index) => one_type(items),
        Arg::Leaf(Type::Any) => Err(crate::op::unknown_type()),
        other => bail!(Index, "{other} cannot be indexed"),
    }
}

fn eval(x: &Value, index: &Value) -> Result<Value> {
    if let Some(item) = item(x, index) {
        return item.cloned();
    }
    match x {
        Arg::Leaf(tensor) => index_array(tensor.array()?, index).map(IntoValue::into_value),
        other => bail!(Index, "{} cannot be indexed", other.kind_name()),
    }
}
