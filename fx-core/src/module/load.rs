//! Building modules from named weights.
//!
//! [`FromWeights`] is derived with `Module`, field by field. Its type parameter keeps the derived `where`
//! clauses generic, so that a struct with a layer that cannot be built from weights alone (a convolution
//! needs its stride) still compiles, and only a call of `load` on it is refused.

use std::collections::BTreeMap;

use super::{Buffer, Parameter};
use crate::{Result, Tensor, bail};

/// Named tensors, such as a safetensors file.
pub trait WeightSource {
    /// Returns the tensor at a dotted path.
    fn get(&self, path: &str) -> Result<Option<Tensor>>;

    /// Returns the distinct names that directly follow `prefix` and a dot, in order.
    fn children(&self, prefix: &str) -> Vec<String>;

    /// Returns the tensor at a dotted path; that it is missing is an error that names similar paths.
    fn require(&self, path: &str) -> Result<Tensor>;
}

/// A part of a model that weights alone determine.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be built from weights alone",
    note = "it has settings that weights do not hold; make it with `new` and fill it with `load_state_dict`"
)]
pub trait FromWeights<W: WeightSource + ?Sized>: Sized {
    /// Builds it from the weights below `path`.
    fn from_weights(weights: &W, path: &str) -> Result<Self>;
}

/// The value of a field marked `#[module(skip)]`: its type's default.
#[diagnostic::on_unimplemented(
    message = "the skipped field of type `{Self}` has no default, so the struct cannot be built from weights alone"
)]
pub trait Skipped<W: ?Sized>: Sized {
    /// Returns the default.
    fn skipped() -> Self;
}

impl<T: Default, W: ?Sized> Skipped<W> for T {
    fn skipped() -> Self {
        T::default()
    }
}

/// Appends a name to a dotted path.
pub fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

impl<W: WeightSource + ?Sized> FromWeights<W> for Parameter {
    fn from_weights(weights: &W, path: &str) -> Result<Self> {
        weights.require(path).map(Parameter::new)
    }
}

impl<W: WeightSource + ?Sized> FromWeights<W> for Buffer {
    fn from_weights(weights: &W, path: &str) -> Result<Self> {
        weights.require(path).map(Buffer::new)
    }
}

impl<W: WeightSource + ?Sized, T: FromWeights<W>> FromWeights<W> for Option<T> {
    fn from_weights(weights: &W, path: &str) -> Result<Self> {
        if weights.get(path)?.is_none() && weights.children(path).is_empty() {
            return Ok(None);
        }
        T::from_weights(weights, path).map(Some)
    }
}

impl<W: WeightSource + ?Sized, T: FromWeights<W>> FromWeights<W> for Vec<T> {
    fn from_weights(weights: &W, path: &str) -> Result<Self> {
        let names = weights.children(path);
        let mut out = Vec::new();
        for i in 0..names.len() {
            if !names.contains(&i.to_string()) {
                bail!(Load, "{path:?} holds {names:?}, expected the numbers 0 to {}", names.len() - 1);
            }
            out.push(T::from_weights(weights, &join(path, &i.to_string()))?);
        }
        Ok(out)
    }
}

impl<W: WeightSource + ?Sized, T: FromWeights<W>, const N: usize> FromWeights<W> for [T; N] {
    fn from_weights(weights: &W, path: &str) -> Result<Self> {
        let items: Vec<T> =
            (0..N).map(|i| T::from_weights(weights, &join(path, &i.to_string()))).collect::<Result<_>>()?;
        items.try_into().or_else(|_| bail!(Load, "expected {N} entries at {path:?}"))
    }
}

impl<W: WeightSource + ?Sized, T: FromWeights<W>> FromWeights<W> for BTreeMap<String, T> {
    fn from_weights(weights: &W, path: &str) -> Result<Self> {
        let keys = weights.children(path);
        keys.into_iter().map(|key| Ok((key.clone(), T::from_weights(weights, &join(path, &key))?))).collect()
    }
}

impl<W: WeightSource + ?Sized, T: FromWeights<W>> FromWeights<W> for Box<T> {
    fn from_weights(weights: &W, path: &str) -> Result<Self> {
        T::from_weights(weights, path).map(Box::new)
    }
}

macro_rules! tuples {
    ($($t:ident)*; $($i:tt)*) => {
        impl<W: WeightSource + ?Sized, $($t: FromWeights<W>),*> FromWeights<W> for ($($t,)*) {
            fn from_weights(weights: &W, path: &str) -> Result<Self> {
                Ok(($($t::from_weights(weights, &join(path, stringify!($i)))?,)*))
            }
        }
    };
}
tuples!(A; 0);
tuples!(A B; 0 1);
tuples!(A B C; 0 1 2);
tuples!(A B C D; 0 1 2 3);
