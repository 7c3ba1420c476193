//! Identity and equality, as Python has them.

use std::sync::Arc;

use fx_core::{Result, bail};

use super::Value;

/// How deep values may be nested where they are compared or printed.
pub(super) const MAX_NESTING: usize = 200;

/// Returns whether two values are one: `a is b`. Numbers and text are one if they are equal.
pub fn is_same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::None, Value::None) => true,
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (Value::Int(a), Value::Int(b)) => a == b,
        (Value::Float(a), Value::Float(b)) => a == b,
        (Value::Complex(a), Value::Complex(b)) => a == b,
        (Value::Str(a), Value::Str(b)) => ***a == ***b,
        (Value::Tensor(a), Value::Tensor(b)) => Arc::ptr_eq(a, b),
        (Value::List(a), Value::List(b)) => Arc::ptr_eq(a, b),
        (Value::Dict(a), Value::Dict(b)) => Arc::ptr_eq(a, b),
        (Value::Tuple(a), Value::Tuple(b)) => Arc::ptr_eq(a, b),
        (Value::Object(a), Value::Object(b)) => Arc::ptr_eq(a, b),
        (Value::Enum(a), Value::Enum(b)) => a.class == b.class && a.name == b.name,
        (Value::Device(a), Value::Device(b)) => a == b,
        (Value::Future(a), Value::Future(b)) => Arc::ptr_eq(a, b),
        (Value::Symbol(a), Value::Symbol(b)) => Arc::ptr_eq(a, b),
        _ => false,
    }
}

/// Returns whether two values are equal: `a == b`. Tensors in containers are equal if all elements are. Fails if
/// values are nested too deep.
pub fn values_equal(a: &Value, b: &Value) -> Result<bool> {
    equal_at(a, b, 0)
}

fn equal_at(a: &Value, b: &Value, depth: usize) -> Result<bool> {
    if depth > MAX_NESTING {
        bail!(Limit, "values are nested deeper than {MAX_NESTING} where they are compared");
    }
    let items = |a: &[Value], b: &[Value]| -> Result<bool> {
        if a.len() != b.len() {
            return Ok(false);
        }
        for (a, b) in a.iter().zip(b) {
            if !equal_at(a, b, depth + 1)? {
                return Ok(false);
            }
        }
        Ok(true)
    };
    Ok(match (a, b) {
        (Value::Complex(_), _) | (_, Value::Complex(_)) => match (a.to_complex(), b.to_complex()) {
            (Ok(a), Ok(b)) => a == b,
            _ => false,
        },
        (Value::Float(_), _) | (_, Value::Float(_)) => match (a.to_float(), b.to_float()) {
            (Ok(a), Ok(b)) => a == b,
            _ => false,
        },
        (Value::Int(_) | Value::Bool(_), Value::Int(_) | Value::Bool(_)) => a.to_int()? == b.to_int()?,
        (Value::Tensor(a), Value::Tensor(b)) => {
            let (a, b) = (a.array()?, b.array()?);
            a.shape() == b.shape() && a.iter_scalars().zip(b.iter_scalars()).all(|(a, b)| a == b)
        }
        (Value::List(a), Value::List(b)) if !Arc::ptr_eq(a, b) => {
            let (a, b) = (a.read(Clone::clone), b.read(Clone::clone));
            items(&a, &b)?
        }
        (Value::Dict(a), Value::Dict(b)) if !Arc::ptr_eq(a, b) => {
            let (a, b) = (a.read(Clone::clone), b.read(Clone::clone));
            if a.len() != b.len() {
                return Ok(false);
            }
            for (key, value) in a.iter() {
                match b.get(&super::Key::of(key)?) {
                    Some(other) if equal_at(value, other, depth + 1)? => {}
                    _ => return Ok(false),
                }
            }
            true
        }
        (Value::Tuple(a), Value::Tuple(b)) => items(&a.items, &b.items)?,
        _ => is_same(a, b),
    })
}
