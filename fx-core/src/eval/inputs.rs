//! [`Inputs`]: the arguments of a call.

use std::borrow::Cow;

use crate::{Arg, Tensor, Value};

/// The arguments of a call: one tensor each, or values of any kind.
#[derive(Clone, Copy, Debug)]
pub enum Inputs<'a> {
    /// Each argument is a tensor.
    Tensors(&'a [Tensor]),
    /// Each argument is a value of any kind.
    Values(&'a [Value]),
}

impl<'a> Inputs<'a> {
    /// Returns how many there are.
    pub fn len(self) -> usize {
        match self {
            Inputs::Tensors(tensors) => tensors.len(),
            Inputs::Values(values) => values.len(),
        }
    }

    /// Returns whether there is none.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Returns an argument that is a tensor.
    pub fn tensor(self, at: usize) -> Option<&'a Tensor> {
        match self {
            Inputs::Tensors(tensors) => tensors.get(at),
            Inputs::Values(values) => values.get(at)?.leaf(),
        }
    }

    /// Returns an argument that is an integer.
    pub fn int(self, at: usize) -> Option<i64> {
        match self {
            Inputs::Values(values) => match values.get(at) {
                Some(Arg::Int(n)) => Some(*n),
                _ => None,
            },
            Inputs::Tensors(_) => None,
        }
    }

    /// Returns an argument.
    pub fn value(self, at: usize) -> Option<Value> {
        match self {
            Inputs::Tensors(tensors) => tensors.get(at).map(Value::from),
            Inputs::Values(values) => values.get(at).cloned(),
        }
    }

    /// Returns all arguments.
    pub fn values(self) -> Cow<'a, [Value]> {
        match self {
            Inputs::Tensors(tensors) => tensors.iter().map(Value::from).collect(),
            Inputs::Values(values) => Cow::Borrowed(values),
        }
    }
}
