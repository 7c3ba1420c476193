//! [`Symbol`]: a value that only a call will know.

use crate::types::Type;

/// A tensor or number of a program that is turned into a graph: it has a type, and no value yet.
///
/// Lists, dictionaries and objects hold symbols as they hold any value. The number says which value of the graph
/// it is, to the one who makes the graph. Programs that run have no symbols.
#[derive(Debug)]
pub struct Symbol {
    /// The number.
    pub number: usize,
    /// The type: a tensor, a number, a truth value or text.
    pub ty: Type,
}

impl Symbol {
    /// Returns the name of the type, as TorchScript spells it.
    pub fn type_name(&self) -> &'static str {
        match self.ty {
            Type::Tensor => "Tensor",
            Type::Int => "int",
            Type::Float => "float",
            Type::Bool => "bool",
            Type::Str => "str",
            _ => "a value that is not known",
        }
    }
}
