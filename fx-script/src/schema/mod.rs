//! The schemas of operators, and the overload that a call means.
//!
//! `schemas.txt` has the schemas of PyTorch 2.15 in the order in which its TorchScript loader tries them.
//! [`resolve`] follows that order: a first round without implicit conversions, a second with them.

mod overload;
mod read;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, LazyLock};

use crate::types::Type;

pub use self::overload::{Call, Conversion, Slot, resolve};

/// The schema of an operator.
#[derive(Debug, Clone, PartialEq)]
pub struct Schema {
    /// The name without overload: `aten::add`.
    pub name: Arc<str>,
    /// The name with overload: `aten::add.Tensor`, or the name alone.
    pub full_name: Arc<str>,
    /// The parameters in order.
    pub parameters: Vec<Parameter>,
    /// Whether any number of arguments may follow.
    pub is_variadic: bool,
    /// The types of the results; `None` if they depend on the call.
    pub returns: Option<Vec<Type>>,
    /// The names of the results, where they have names: `values`, `indices`.
    pub result_names: Vec<Arc<str>>,
    /// Whether a result may be an argument, a view of one, or an item of one.
    pub shares_memory: bool,
}

/// A parameter of an operator.
#[derive(Debug, Clone, PartialEq)]
pub struct Parameter {
    /// The name.
    pub name: Arc<str>,
    /// The type; type variables are [`Type::Var`].
    pub declared: Type,
    /// The length of a list that a single item stands for: 2 of `int[2]`.
    pub length: Option<u32>,
    /// Whether it is given by name only.
    pub keyword_only: bool,
    /// The default.
    pub default: Option<Default>,
    /// Whether the operator writes to the argument.
    pub is_written: bool,
}

/// The default of a parameter.
#[derive(Debug, Clone, PartialEq)]
pub enum Default {
    /// `None`.
    None,
    /// A truth value.
    Bool(bool),
    /// An int.
    Int(i64),
    /// A float.
    Float(f64),
    /// A text.
    Str(Arc<str>),
    /// A list of ints or floats.
    List(Vec<Default>),
}

/// All schemas.
struct Table {
    schemas: Vec<Schema>,
    /// The places of the overloads of a name, in order.
    overloads: HashMap<Arc<str>, Vec<usize>>,
    by_full_name: HashMap<Arc<str>, usize>,
}

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    let schemas: Vec<Schema> = include_str!("schemas.txt").lines().filter_map(read::schema).collect();
    let mut overloads: HashMap<Arc<str>, Vec<usize>> = HashMap::new();
    let mut by_full_name = HashMap::new();
    for (index, schema) in schemas.iter().enumerate() {
        overloads.entry(schema.name.clone()).or_default().push(index);
        by_full_name.insert(schema.full_name.clone(), index);
    }
    Table { schemas, overloads, by_full_name }
});

/// Returns the overloads of an operator such as `aten::add` in the order of resolution; none if it is unknown.
pub fn overloads(name: &str) -> impl Iterator<Item = &'static Schema> {
    let table = &*TABLE;
    table.overloads.get(name).into_iter().flatten().map(|&index| &table.schemas[index])
}

/// Returns the schema of a full name such as `aten::add.Tensor`.
pub fn get(full_name: &str) -> Option<&'static Schema> {
    TABLE.by_full_name.get(full_name).map(|&index| &TABLE.schemas[index])
}

/// Prints as `aten::add.Scalar(Tensor self, number other, number alpha)`.
impl fmt::Display for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}(", self.full_name)?;
        for (index, parameter) in self.parameters.iter().enumerate() {
            write!(f, "{}{} {}", if index > 0 { ", " } else { "" }, parameter.declared, parameter.name)?;
        }
        f.write_str(if self.is_variadic { ", ...)" } else { ")" })
    }
}
