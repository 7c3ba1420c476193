//! [`Tree`]: Rust types that a traced function may take and return, and their structure.
//!
//! Tuples, `Vec`, arrays, `Option`, string-keyed maps and `#[derive(Tree)]` structs, nested, with tensors at
//! the leaves. The structure becomes part of the graph and is restored on every call.

use std::collections::{BTreeMap, HashMap};

use crate::{Arg, DType, Dim, Error, Result, Scalar, Tensor, Value, bail, err};

/// A structure of tensors and plain values.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an argument or result of a traced function",
    label = "not a tensor, number, tuple, list, option or map of them",
    note = "derive `Tree` for a struct of tensors"
)]
pub trait Tree: Sized {
    /// Returns the structure, with a leaf for each tensor, if the type alone determines it; the error says
    /// what is missing.
    fn structure() -> Result<Arg<()>>;

    /// Returns whether [`from_value`](Tree::from_value) takes a symbol, [`Arg::Dim`], where it takes an integer.
    ///
    /// A pure compiled function gives such arguments symbols: calls that differ only in integers whose values its
    /// Rust code does not ask for take one path.
    fn takes_symbols() -> bool {
        false
    }

    /// Returns the structure with its values.
    fn to_value(&self) -> Value;

    /// Restores the structure; an error names the expected and the actual structure.
    fn from_value(value: &Value) -> Result<Self>;

    /// Restores the structure, as [`from_value`](Tree::from_value) does, from a value that nobody needs any more.
    /// Fails as that does.
    fn from_owned(value: Value) -> Result<Self> {
        Self::from_value(&value)
    }

    /// Returns a structure of this type that carries `error` wherever it can.
    fn failed(error: &Error) -> Self;
}

fn wrong<T, L>(expected: &str, value: &Arg<L>) -> Result<T> {
    if let Arg::Failed(error) = value {
        return Err(error.clone());
    }
    bail!(Structure, "expected {expected}, got {}", value.kind_name())
}

/// The error of a type whose structure depends on the value. Fails always.
pub fn open_structure<T>(what: &str) -> Result<T> {
    Err(err!(Structure, "{what} is not known before tracing")
        .help("give the input a spec, such as `.input(\"xs\", [\"f32[3]\", \"f32[4]\"])`, or a constant"))
}

impl Tree for Tensor {
    fn structure() -> Result<Arg<()>> {
        Ok(Arg::Leaf(()))
    }
    fn takes_symbols() -> bool {
        true
    }
    fn to_value(&self) -> Value {
        Arg::Leaf(self.clone())
    }
    fn from_value(value: &Value) -> Result<Self> {
        match value {
            Arg::Leaf(tensor) => Ok(tensor.clone()),
            Arg::Bool(_) | Arg::Int(_) | Arg::Float(_) => {
                Ok(Tensor::from_scalar(value.scalar().expect("a number")))
            }
            Arg::Dim(_) if let Some(n) = integer(value) => Ok(Tensor::from_scalar(Scalar::Int(n))),
            _ => wrong("a tensor", value),
        }
    }
    #[inline]
    fn from_owned(value: Value) -> Result<Self> {
        match value {
            Arg::Leaf(tensor) => Ok(tensor),
            value => Self::from_value(&value),
        }
    }
    fn failed(error: &Error) -> Self {
        Tensor::failed(error.clone())
    }
}

/// Anything, as it is.
impl Tree for Value {
    fn structure() -> Result<Arg<()>> {
        open_structure("the structure of a dynamic value")
    }
    fn to_value(&self) -> Value {
        self.clone()
    }
    fn from_value(value: &Value) -> Result<Self> {
        Ok(value.clone())
    }
    fn from_owned(value: Value) -> Result<Self> {
        Ok(value)
    }
    fn failed(error: &Error) -> Self {
        Arg::Failed(error.clone())
    }
}

macro_rules! literals {
    ($($ty:ty, $what:literal, |$v:ident| $read:expr, |$x:ident| $make:expr;)*) => {
        $(impl Tree for $ty {
            fn structure() -> Result<Arg<()>> {
                Err(err!(Structure, "the value of {} is not known before tracing", $what)
                    .help("fix it, for example with `.constant(\"rate\", 0.5)`, or pass a tensor"))
            }
            fn takes_symbols() -> bool {
                true
            }
            fn to_value(&self) -> Value {
                let $x = self;
                $make
            }
            fn from_value(value: &Value) -> Result<Self> {
                let $v = value;
                let read: Option<Self> = $read;
                read.map_or_else(|| wrong($what, value), Ok)
            }
            fn failed(_: &Error) -> Self {
                Self::default()
            }
        })*
    };
}
/// Returns the value of an integer. A size that a compiled function observes is a number from here on.
fn integer(value: &Value) -> Option<i64> {
    match value {
        Arg::Int(x) => Some(*x),
        Arg::Dim(size) => crate::lazy::follower()?.size(size),
        _ => None,
    }
}

literals! {
    bool, "a bool", |v| match v { Arg::Bool(x) => Some(*x), _ => None }, |x| Arg::Bool(*x);
    i64, "an integer", |v| integer(v), |x| Arg::Int(*x);
    i32, "an integer", |v| integer(v).and_then(|x| x.try_into().ok()), |x| Arg::from(*x);
    usize, "a size", |v| integer(v).and_then(|x| x.try_into().ok()), |x| Arg::from(*x);
    f64, "a float", |v| match v { Arg::Float(x) => Some(*x), v => integer(v).map(|x| x as f64) }, |x| Arg::Float(*x);
    f32, "a float", |v| match v { Arg::Float(x) => Some(*x as f32), v => integer(v).map(|x| x as f32) }, |x| Arg::from(*x);
    String, "a string", |v| match v { Arg::Str(x) => Some(x.to_string()), _ => None }, |x| Arg::str(x.as_str());
}

impl Tree for DType {
    fn structure() -> Result<Arg<()>> {
        Err(err!(Structure, "the value of a dtype is not known before tracing")
            .help("fix it, for example with `.constant(\"dtype\", DType::F32)`"))
    }
    fn takes_symbols() -> bool {
        true
    }
    fn to_value(&self) -> Value {
        Arg::DType(*self)
    }
    fn from_value(value: &Value) -> Result<Self> {
        match value {
            Arg::DType(x) => Ok(*x),
            _ => wrong("a dtype", value),
        }
    }
    fn failed(_: &Error) -> Self {
        DType::F32
    }
}

/// An integer that may be a symbol, such as a position.
impl Tree for Dim {
    fn structure() -> Result<Arg<()>> {
        Err(err!(Structure, "the value of an integer is not known before tracing")
            .help("make it a symbol with `.input(\"at\", \"<at>\")`, or fix it with `.constant(\"at\", 3)`"))
    }
    fn takes_symbols() -> bool {
        true
    }
    fn to_value(&self) -> Value {
        Arg::dim(self.clone())
    }
    fn from_value(value: &Value) -> Result<Self> {
        match value {
            Arg::Int(n) => Ok(Dim::new(*n)),
            Arg::Dim(size) => Ok(Dim::clone(size)),
            _ => wrong("an integer", value),
        }
    }
    fn failed(error: &Error) -> Self {
        Dim::failed(error.clone())
    }
}

impl Tree for () {
    fn structure() -> Result<Arg<()>> {
        Ok(Arg::tuple([]))
    }
    fn takes_symbols() -> bool {
        true
    }
    fn to_value(&self) -> Value {
        Arg::tuple([])
    }
    fn from_value(value: &Value) -> Result<Self> {
        match value {
            Arg::None => Ok(()),
            Arg::Tuple(items) if items.is_empty() => Ok(()),
            _ => wrong("nothing", value),
        }
    }
    fn failed(_: &Error) -> Self {}
}

macro_rules! tuples {
    ($n:literal: $($t:ident)*; $($i:tt)*) => {
        impl<$($t: Tree),*> Tree for ($($t,)*) {
            fn structure() -> Result<Arg<()>> {
                Ok(Arg::tuple([$($t::structure()?),*]))
            }
            fn takes_symbols() -> bool {
                true $(&& $t::takes_symbols())*
            }
            fn to_value(&self) -> Value {
                Arg::tuple([$(self.$i.to_value()),*])
            }
            fn from_value(value: &Value) -> Result<Self> {
                match value.items() {
                    Some(items) if items.len() == $n => Ok(($($t::from_value(&items[$i])?,)*)),
                    Some(items) => bail!(Structure, "expected a tuple of {}, got {}", $n, items.len()),
                    None => wrong(concat!("a tuple of ", $n), value),
                }
            }
            fn failed(error: &Error) -> Self {
                ($($t::failed(error),)*)
            }
        }
    };
}
tuples!(1: A; 0);
tuples!(2: A B; 0 1);
tuples!(3: A B C; 0 1 2);
tuples!(4: A B C D; 0 1 2 3);
tuples!(5: A B C D E; 0 1 2 3 4);
tuples!(6: A B C D E F; 0 1 2 3 4 5);
tuples!(7: A B C D E F G; 0 1 2 3 4 5 6);
tuples!(8: A B C D E F G H; 0 1 2 3 4 5 6 7);

impl<T: Tree> Tree for Vec<T> {
    fn structure() -> Result<Arg<()>> {
        open_structure("the length of a Vec")
    }
    fn takes_symbols() -> bool {
        T::takes_symbols()
    }
    fn to_value(&self) -> Value {
        Arg::list(self.iter().map(T::to_value))
    }
    fn from_value(value: &Value) -> Result<Self> {
        match value.items() {
            Some(items) => items.iter().map(T::from_value).collect(),
            None => wrong("a list", value),
        }
    }
    fn failed(error: &Error) -> Self {
        vec![T::failed(error)]
    }
}

impl<T: Tree, const N: usize> Tree for [T; N] {
    fn structure() -> Result<Arg<()>> {
        Ok(Arg::list((0..N).map(|_| T::structure()).collect::<Result<Vec<_>>>()?))
    }
    fn takes_symbols() -> bool {
        T::takes_symbols()
    }
    fn to_value(&self) -> Value {
        Arg::list(self.iter().map(T::to_value))
    }
    fn from_value(value: &Value) -> Result<Self> {
        let Some(items) = value.items() else { return wrong("a list", value) };
        let values: Vec<T> = items.iter().map(T::from_value).collect::<Result<_>>()?;
        values.try_into().or_else(|_| bail!(Structure, "expected a list of {N}, got {}", items.len()))
    }
    fn failed(error: &Error) -> Self {
        std::array::from_fn(|_| T::failed(error))
    }
}

impl<T: Tree> Tree for Option<T> {
    fn structure() -> Result<Arg<()>> {
        open_structure("whether an Option is given")
    }
    fn takes_symbols() -> bool {
        T::takes_symbols()
    }
    fn to_value(&self) -> Value {
        self.as_ref().map_or(Arg::None, T::to_value)
    }
    fn from_value(value: &Value) -> Result<Self> {
        if matches!(value, Arg::None) { Ok(None) } else { T::from_value(value).map(Some) }
    }
    fn failed(error: &Error) -> Self {
        Some(T::failed(error))
    }
}

impl<T: Tree> Tree for Box<T> {
    fn structure() -> Result<Arg<()>> {
        T::structure()
    }
    fn takes_symbols() -> bool {
        T::takes_symbols()
    }
    fn to_value(&self) -> Value {
        T::to_value(self)
    }
    fn from_value(value: &Value) -> Result<Self> {
        T::from_value(value).map(Box::new)
    }
    fn failed(error: &Error) -> Self {
        Box::new(T::failed(error))
    }
}

/// A function that can fail is traced like one that cannot; its error ends the trace.
impl<T: Tree> Tree for Result<T> {
    fn structure() -> Result<Arg<()>> {
        T::structure()
    }
    fn takes_symbols() -> bool {
        T::takes_symbols()
    }
    fn to_value(&self) -> Value {
        match self {
            Ok(value) => value.to_value(),
            Err(error) => Arg::Failed(error.clone()),
        }
    }
    fn from_value(value: &Value) -> Result<Self> {
        Ok(T::from_value(value))
    }
    fn failed(error: &Error) -> Self {
        Err(error.clone())
    }
}

/// Keys are ordered.
impl<T: Tree> Tree for BTreeMap<String, T> {
    fn structure() -> Result<Arg<()>> {
        open_structure("the keys of a map")
    }
    fn takes_symbols() -> bool {
        T::takes_symbols()
    }
    fn to_value(&self) -> Value {
        Arg::dict(self.iter().map(|(key, value)| (key.as_str(), value.to_value())))
    }
    fn from_value(value: &Value) -> Result<Self> {
        match value {
            Arg::Dict(entries) => {
                entries.iter().map(|(key, value)| Ok((key.to_string(), T::from_value(value)?))).collect()
            }
            _ => wrong("a dictionary", value),
        }
    }
    fn failed(_: &Error) -> Self {
        BTreeMap::new()
    }
}

/// As a [`BTreeMap`]: the structure has its keys in order.
impl<T: Tree, S: std::hash::BuildHasher + Default> Tree for HashMap<String, T, S> {
    fn structure() -> Result<Arg<()>> {
        open_structure("the keys of a map")
    }
    fn takes_symbols() -> bool {
        T::takes_symbols()
    }
    fn to_value(&self) -> Value {
        let sorted: BTreeMap<&String, &T> = self.iter().collect();
        Arg::dict(sorted.into_iter().map(|(key, value)| (key.as_str(), value.to_value())))
    }
    fn from_value(value: &Value) -> Result<Self> {
        Ok(BTreeMap::from_value(value)?.into_iter().collect())
    }
    fn failed(_: &Error) -> Self {
        HashMap::default()
    }
}

/// Reads field `name` of a struct; used by `#[derive(Tree)]`.
#[doc(hidden)]
pub fn field<T: Tree>(value: &Value, type_name: &str, name: &str) -> Result<T> {
    match value {
        Arg::Dict(entries) => match entries.get(name) {
            Some(field) => T::from_value(field),
            None => bail!(Structure, "expected {type_name} with the field {name:?}, got none of that name"),
        },
        _ => wrong(&format!("the struct {type_name}"), value),
    }
}
