//! Values of a program from structures of tensors and numbers in Rust, and back.

use fx_core::{Arg, MAX_DEPTH, Result, Tensor, Tree, err};

use super::Value;
use crate::host;

impl Value {
    /// Makes a value of a structure of tensors, numbers, texts, lists and tuples; a map is a dictionary with
    /// texts as keys, a dtype its number.
    ///
    /// Fails if a part has no counterpart in TorchScript, such as a symbolic size, or a tensor has no elements
    /// yet, since it is a symbol of a trace.
    pub fn of(tree: &impl Tree) -> Result<Value> {
        from_arg(&tree.to_value())
    }

    /// Returns the structure of tensors and numbers that the value is. Fails if it is of another type.
    pub fn to<T: Tree>(&self) -> Result<T> {
        T::from_value(&self.to_arg()?)
    }

    /// Returns the value as graph modules take it; a member of an enumeration is its value.
    ///
    /// Fails for objects, devices, complex numbers, futures, and dictionaries whose keys are no texts.
    pub fn to_arg(&self) -> Result<fx_core::Value> {
        to_arg(self, 0)
    }
}

fn to_arg(value: &Value, depth: usize) -> Result<fx_core::Value> {
    if depth >= MAX_DEPTH {
        return Err(err!(Limit, "containers nest deeper than {MAX_DEPTH} levels"));
    }
    let items = |items: &[Value]| {
        items.iter().map(|item| to_arg(item, depth + 1)).collect::<Result<Vec<fx_core::Value>>>()
    };
    Ok(match value {
        Value::None => Arg::None,
        Value::Bool(x) => Arg::Bool(*x),
        Value::Int(x) => Arg::Int(*x),
        Value::Float(x) => Arg::Float(*x),
        Value::Str(text) => Arg::str(&***text),
        Value::Tensor(tensor) if tensor.is_complex() => {
            return Err(err!(DType, "a complex tensor has no dtype in Rust")
                .help("return `torch.view_as_real` of it"));
        }
        Value::Tensor(tensor) => Arg::Leaf(Tensor::from(tensor.array()?)),
        Value::List(_) => Arg::list(items(&value.to_items()?)?),
        Value::Tuple(tuple) => Arg::tuple(items(&tuple.items)?),
        Value::Dict(dict) => {
            let entries = dict.read(Clone::clone);
            let entries = entries.iter().map(|(key, value)| match key {
                Value::Str(key) => Ok((&***key, to_arg(value, depth + 1)?)),
                _ => Err(err!(
                    Structure,
                    "expected a dictionary whose keys are texts, got {}",
                    key.type_name()
                )),
            });
            Arg::dict(entries.collect::<Result<Vec<_>>>()?)
        }
        Value::Enum(member) => to_arg(&member.value, depth + 1)?,
        other => return Err(err!(Structure, "a value of type {} stays in the program", other.type_name())),
    })
}

fn from_arg(arg: &fx_core::Value) -> Result<Value> {
    Ok(match arg {
        Arg::None => Value::None,
        Arg::Bool(x) => Value::Bool(*x),
        Arg::Int(x) => Value::Int(*x),
        Arg::Float(x) => Value::Float(*x),
        Arg::Str(text) => Value::str(&**text),
        Arg::DType(dtype) => Value::Int(host::code_of(*dtype, false)),
        Arg::Leaf(tensor) => Value::tensor(tensor.array()?.clone())?,
        Arg::List(items) => Value::list(items.iter().map(from_arg).collect::<Result<_>>()?),
        Arg::Tuple(items) => Value::tuple(items.iter().map(from_arg).collect::<Result<Vec<_>>>()?),
        Arg::Dict(entries) => {
            let entries = entries.iter().map(|(key, value)| Ok((Value::str(&**key), from_arg(value)?)));
            Value::dict(entries.collect::<Result<Vec<_>>>()?)?
        }
        Arg::Failed(error) => return Err(error.clone()),
        other => return Err(err!(Structure, "TorchScript has no value for {}", other.kind_name())),
    })
}
