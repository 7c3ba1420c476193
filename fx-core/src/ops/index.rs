//! Indexing: `getitem` of tuples, lists, dictionaries and tensors.

use std::ops::{Range, RangeFrom, RangeFull, RangeTo};

use crate::op::kind::IntoValue;
use crate::{Arg, Array, Dim, Result, Tensor, TensorType, Type, TypeTree, Value, bail, err, functions};

functions! {
    pub(super) static INDEX;

    /// The part of `x` that `index` names: an item of a tuple, list or dictionary, or elements of a tensor.
    getitem(x: Any, index: Any) = infer, eval;
}

fn item<'a, L>(x: &'a Arg<L>, index: &Arg<L>) -> Option<Result<&'a Arg<L>>> {
    match (x, index) {
        (Arg::Tuple(items) | Arg::List(items), Arg::Int(i)) => {
            let n = items.len() as i64;
            let at = if *i < 0 { i + n } else { *i };
            Some(
                items
                    .get(at as usize)
                    .filter(|_| at >= 0)
                    .ok_or_else(|| err!(Index, "index {i} is out of range for {n} items")),
            )
        }
        (Arg::Dict(entries), Arg::Str(key)) => {
            Some(entries.get(key).ok_or_else(|| err!(Index, "there is no entry {key:?}")))
        }
        (Arg::Tuple(_) | Arg::List(_) | Arg::Dict(_), _) => {
            Some(Err(err!(Index, "{} cannot be indexed with {}", x.kind_name(), index.kind_name())))
        }
        _ => None,
    }
}

fn infer(x: &TypeTree, index: &TypeTree) -> Result<TypeTree> {
    if let Some(item) = item(x, index) {
        return item.cloned();
    }
    match x {
        Arg::Leaf(Type::Tensor(ty)) => index_type(ty, index).map(TypeTree::from),
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

/// Returns the type of the elements of a tensor that an index names.
pub fn index_type(x: &TensorType, index: &TypeTree) -> Result<TensorType> {
    let _ = (x, index);
    Err(crate::op::unknown_type())
}

/// Returns the elements of an array that an index names.
pub fn index_array(x: &Array, index: &Value) -> Result<Array> {
    match index {
        Arg::Tuple(items) if items.len() == 1 => index_array(x, &items[0]),
        Arg::Int(i) => x.select(0, *i as usize),
        _ => bail!(Index, "this index is in construction"),
    }
}

/// One entry of an index: what may stand between the commas of `x.i((.., 0, 1..))`.
pub trait IntoIndex {
    /// Converts it.
    fn into_index(self) -> Value;
}

impl IntoIndex for i64 {
    fn into_index(self) -> Value {
        Arg::Int(self)
    }
}
impl IntoIndex for RangeFull {
    fn into_index(self) -> Value {
        Arg::Ellipsis
    }
}
impl IntoIndex for Range<i64> {
    fn into_index(self) -> Value {
        Arg::slice(Arg::Int(self.start), Arg::Int(self.end), Arg::None)
    }
}
impl IntoIndex for RangeFrom<i64> {
    fn into_index(self) -> Value {
        Arg::slice(Arg::Int(self.start), Arg::None, Arg::None)
    }
}
impl IntoIndex for RangeTo<i64> {
    fn into_index(self) -> Value {
        Arg::slice(Arg::None, Arg::Int(self.end), Arg::None)
    }
}
impl IntoIndex for &Tensor {
    fn into_index(self) -> Value {
        Arg::Leaf(self.clone())
    }
}
impl IntoIndex for Dim {
    fn into_index(self) -> Value {
        Arg::dim(self)
    }
}
