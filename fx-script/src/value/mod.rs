//! [`Value`]: what a register of the virtual machine holds.
//!
//! Numbers and truth values are unboxed. Lists, dictionaries, objects and tensors are references: a copy of the
//! value is another name of the same thing. All else is immutable. Mutable parts lie in [`cell::Cell`]s, which
//! remember what they were when a call began ([`transaction`]).

pub mod cell;
mod convert;
mod dict;
mod display;
mod equality;
mod object;
mod symbol;
mod tensor;
pub mod transaction;

use std::sync::Arc;

pub use cell::Cell;
pub use dict::{Dict, Entries, Key};
pub(crate) use display::general as general_text;
pub use display::{float_text, shown};
pub use equality::{is_same, values_equal};
pub use object::{Class, Device, EnumMember, Future, NamedTuple, Object, Tuple};
pub use symbol::Symbol;
pub use tensor::{Geometry, Storages, TensorCell, TensorRef};

use fx_core::{Result, err};

/// A value of a running program.
#[derive(Clone, Debug, Default)]
pub enum Value {
    /// Nothing.
    #[default]
    None,
    /// A truth value.
    Bool(bool),
    /// An integer of 64 bits.
    Int(i64),
    /// A float of 64 bits.
    Float(f64),
    /// A complex number: real and imaginary part.
    Complex(Arc<(f64, f64)>),
    /// Text.
    Str(Arc<Text>),
    /// A tensor: a view of a storage.
    Tensor(TensorRef),
    /// A list.
    List(Arc<List>),
    /// A dictionary in order of insertion.
    Dict(Arc<Dict>),
    /// A tuple, named or not.
    Tuple(Arc<Tuple>),
    /// An instance of a class; a module is one.
    Object(Arc<Object>),
    /// A member of an enumeration.
    Enum(Arc<EnumMember>),
    /// A device.
    Device(Arc<Device>),
    /// The outcome of a forked call.
    Future(Arc<Future>),
    /// A value that only a call will know; programs that run have none.
    Symbol(Arc<Symbol>),
}

/// Text, whose memory counts.
#[derive(Debug)]
pub struct Text(Box<str>);

impl Text {
    /// Makes text.
    pub fn new(text: impl Into<Box<str>>) -> Arc<Text> {
        let text = text.into();
        transaction::grow(text.len());
        Arc::new(Text(text))
    }
}

impl Drop for Text {
    fn drop(&mut self) {
        transaction::shrink(self.0.len());
    }
}

impl std::ops::Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

/// A list of values.
pub type List = Cell<Vec<Value>>;

impl Value {
    /// Makes text.
    pub fn str(text: impl Into<Box<str>>) -> Value {
        Value::Str(Text::new(text))
    }

    /// Makes a list.
    pub fn list(items: Vec<Value>) -> Value {
        Value::List(Arc::new(Cell::new(items)))
    }

    /// Makes a list of integers.
    pub fn ints(items: impl IntoIterator<Item = i64>) -> Value {
        Value::list(items.into_iter().map(Value::Int).collect())
    }

    /// Makes a tuple.
    pub fn tuple(items: impl Into<Box<[Value]>>) -> Value {
        Value::Tuple(Arc::new(Tuple { items: items.into(), named: None }))
    }

    /// Makes a complex number.
    pub fn complex(re: f64, im: f64) -> Value {
        Value::Complex(Arc::new((re, im)))
    }

    /// Returns the name of the type, as TorchScript spells it.
    pub fn type_name(&self) -> &str {
        match self {
            Value::None => "NoneType",
            Value::Bool(_) => "bool",
            Value::Int(_) => "int",
            Value::Float(_) => "float",
            Value::Complex(_) => "complex",
            Value::Str(_) => "str",
            Value::Tensor(_) => "Tensor",
            Value::List(_) => "List",
            Value::Dict(_) => "Dict",
            Value::Tuple(tuple) => tuple.named.as_ref().map_or("Tuple", |named| &named.name),
            Value::Object(object) => &object.class.name,
            Value::Enum(member) => &member.class,
            Value::Device(_) => "Device",
            Value::Future(_) => "Future",
            Value::Symbol(symbol) => symbol.type_name(),
        }
    }

    fn wrong(&self, expected: &str) -> fx_core::Error {
        err!(Argument, "expected {expected}, got {}", self.type_name())
    }

    /// Returns an integer; a truth value is one. Fails for any other value.
    pub fn to_int(&self) -> Result<i64> {
        match self {
            Value::Int(x) => Ok(*x),
            Value::Bool(x) => Ok(i64::from(*x)),
            other => Err(other.wrong("int")),
        }
    }

    /// Returns a number as a float. Fails for any other value.
    pub fn to_float(&self) -> Result<f64> {
        match self {
            Value::Float(x) => Ok(*x),
            Value::Int(x) => Ok(*x as f64),
            Value::Bool(x) => Ok(f64::from(u8::from(*x))),
            other => Err(other.wrong("float")),
        }
    }

    /// Returns a number as real and imaginary part. Fails for any other value.
    pub fn to_complex(&self) -> Result<(f64, f64)> {
        match self {
            Value::Complex(parts) => Ok(**parts),
            Value::Int(_) | Value::Bool(_) | Value::Float(_) => Ok((self.to_float()?, 0.0)),
            other => Err(other.wrong("complex")),
        }
    }

    /// Returns a truth value. Fails for any other value.
    pub fn to_bool(&self) -> Result<bool> {
        match self {
            Value::Bool(x) => Ok(*x),
            other => Err(other.wrong("bool")),
        }
    }

    /// Returns text. Fails for any other value.
    pub fn to_str(&self) -> Result<&str> {
        match self {
            Value::Str(text) => Ok(text),
            other => Err(other.wrong("str")),
        }
    }

    /// Returns a list. Fails for any other value.
    pub fn to_list(&self) -> Result<&Arc<List>> {
        match self {
            Value::List(list) => Ok(list),
            other => Err(other.wrong("List")),
        }
    }

    /// Returns a dictionary. Fails for any other value.
    pub fn to_dict(&self) -> Result<&Arc<Dict>> {
        match self {
            Value::Dict(dict) => Ok(dict),
            other => Err(other.wrong("Dict")),
        }
    }

    /// Returns a tensor. Fails for any other value.
    pub fn to_tensor(&self) -> Result<&TensorRef> {
        match self {
            Value::Tensor(tensor) => Ok(tensor),
            other => Err(other.wrong("Tensor")),
        }
    }

    /// Returns an object. Fails for any other value.
    pub fn to_object(&self) -> Result<&Arc<Object>> {
        match self {
            Value::Object(object) => Ok(object),
            other => Err(other.wrong("an object")),
        }
    }

    /// Returns the items of a list or tuple. Fails for any other value.
    pub fn to_items(&self) -> Result<Vec<Value>> {
        match self {
            Value::List(list) => Ok(list.read(Clone::clone)),
            Value::Tuple(tuple) => Ok(tuple.items.to_vec()),
            other => Err(other.wrong("List")),
        }
    }

    /// Returns integers of a list or tuple; a single one is a list of one. Fails for any other value.
    pub fn to_ints(&self) -> Result<Vec<i64>> {
        match self {
            Value::Int(x) => Ok(vec![*x]),
            Value::List(list) => list.read(|items| items.iter().map(Value::to_int).collect()),
            Value::Tuple(tuple) => tuple.items.iter().map(Value::to_int).collect(),
            other => Err(other.wrong("List[int]")),
        }
    }
}

impl From<bool> for Value {
    fn from(x: bool) -> Value {
        Value::Bool(x)
    }
}

impl From<i64> for Value {
    fn from(x: i64) -> Value {
        Value::Int(x)
    }
}

impl From<f64> for Value {
    fn from(x: f64) -> Value {
        Value::Float(x)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::str(text)
    }
}

impl From<String> for Value {
    fn from(text: String) -> Value {
        Value::str(text)
    }
}

impl From<fx_core::Scalar> for Value {
    fn from(x: fx_core::Scalar) -> Value {
        match x {
            fx_core::Scalar::Bool(x) => Value::Bool(x),
            fx_core::Scalar::Int(x) => Value::Int(x),
            fx_core::Scalar::Float(x) => Value::Float(x),
        }
    }
}
