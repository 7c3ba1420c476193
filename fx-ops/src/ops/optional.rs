//! Values that may be absent, and equality of values of the host.

use fx_core::op::unknown_type;
use fx_core::{Arg, Op, Result, Tensor, Type, TypeTree, Value, bail, err, functions};

use super::numbers::same_number;

/// The tables of this family.
pub static TABLES: &[&[Op]] = &[OPTIONAL];

functions! {
    pub static OPTIONAL;

    /// Whether an optional value is absent.
    is_none(x: Any) -> Value = infer_is_none, eval_is_none;

    /// The value of an optional one. Fails with `message` if it is absent.
    unwrap(x: Any, message: Str = "the value is none") -> Value = infer_unwrap, eval_unwrap;

    /// Whether two values of the host are equal, as Python's `==`: numbers by value, text, and lists, tuples and
    /// dictionaries of them item by item. Not defined for tensors.
    value_eq(x: Any, y: Any) -> Value = infer_eq, |x: &Value, y: &Value| equal(x, y).map(Arg::Bool);
}

fn infer_is_none(x: &TypeTree) -> Result<TypeTree> {
    Ok(match x {
        Arg::Leaf(Type::Optional(_)) => Arg::Leaf(Type::Bool),
        Arg::Leaf(Type::Any) => return Err(unknown_type()),
        other => Arg::Bool(matches!(other, Arg::None)),
    })
}

fn eval_is_none(x: &Value) -> Result<Value> {
    Ok(Arg::Bool(matches!(x, Arg::None)))
}

fn infer_unwrap(x: &TypeTree, _message: &str) -> Result<TypeTree> {
    match x {
        Arg::Leaf(Type::Optional(inner)) => Ok((**inner).clone()),
        // What is absent fails when it runs.
        Arg::None => Err(unknown_type()),
        other => Ok(other.clone()),
    }
}

fn eval_unwrap(x: &Value, message: &str) -> Result<Value> {
    match x {
        Arg::None => Err(err!(Check, "{message}").help("test the value with `is_none` first")),
        value => Ok(value.clone()),
    }
}

fn infer_eq(x: &TypeTree, y: &TypeTree) -> Result<TypeTree> {
    for ty in [x, y] {
        if let Some(tensor) = ty.leaves().into_iter().find_map(Type::tensor) {
            return Err(no_tensor(&tensor.to_string()));
        }
    }
    let is_known = |ty: &TypeTree| ty.leaves().is_empty() && ty.error().is_none();
    if is_known(x) && is_known(y) {
        let literal = |ty: &TypeTree| -> Result<Value> { ty.try_flat_map(&mut |_| Ok(Arg::None)) };
        return equal(&literal(x)?, &literal(y)?).map(Arg::Bool);
    }
    Ok(Arg::Leaf(Type::Bool))
}

fn no_tensor(got: &str) -> fx_core::Error {
    err!(Argument, "expected values of the host, got {got}").help("compare tensors with `eq` or `equal`")
}

/// Returns whether two values are equal. Fails for tensors.
pub(crate) fn equal(x: &Value, y: &Value) -> Result<bool> {
    let all = |x: &[Value], y: &[Value]| -> Result<bool> {
        if x.len() != y.len() {
            return Ok(false);
        }
        for (x, y) in x.iter().zip(y) {
            if !equal(x, y)? {
                return Ok(false);
            }
        }
        Ok(true)
    };
    match (x, y) {
        (Arg::Leaf(tensor), _) | (_, Arg::Leaf(tensor)) => {
            let tensor: &Tensor = tensor;
            bail!(Argument, "expected values of the host, got {tensor:?}")
        }
        (Arg::Tuple(x), Arg::Tuple(y)) | (Arg::List(x), Arg::List(y)) => all(x, y),
        (Arg::Dict(x), Arg::Dict(y)) => {
            if x.len() != y.len() {
                return Ok(false);
            }
            for (key, x) in x.iter() {
                match y.get(key) {
                    Some(y) if equal(x, y)? => {}
                    _ => return Ok(false),
                }
            }
            Ok(true)
        }
        (x, y) => Ok(match (x.scalar(), y.scalar()) {
            (Some(x), Some(y)) => same_number(x, y),
            _ => x.same_literal(y),
        }),
    }
}
