//! The schemas of operators, and the overload that a call means.
//!
//! `schemas.txt` has the schemas of PyTorch 2.15 in the order in which its TorchScript loader tries them.
//! [`resolve`] follows that order: a first round without implicit conversions, a second with them.

mod overload;
mod read;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

use fx_core::{Result, err};

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
    let schemas: Vec<Schema> =
        include_str!("schemas.txt").lines().filter_map(|line| read::schema(line).ok()).collect();
    let mut overloads: HashMap<Arc<str>, Vec<usize>> = HashMap::new();
    let mut by_full_name = HashMap::new();
    for (index, schema) in schemas.iter().enumerate() {
        overloads.entry(schema.name.clone()).or_default().push(index);
        by_full_name.insert(schema.full_name.clone(), index);
    }
    Table { schemas, overloads, by_full_name }
});

/// The operators of libraries, which [`define`] adds.
static DEFINED: RwLock<Vec<&'static Schema>> = RwLock::new(Vec::new());

fn defined(is_wanted: impl Fn(&Schema) -> bool) -> Vec<&'static Schema> {
    let defined = DEFINED.read().unwrap_or_else(PoisonError::into_inner);
    defined.iter().copied().filter(|schema| is_wanted(schema)).collect()
}

/// Returns the overloads of an operator such as `aten::add` in the order of resolution; none if it is unknown.
pub fn overloads(name: &str) -> impl Iterator<Item = &'static Schema> {
    let table = &*TABLE;
    let known = table.overloads.get(name).into_iter().flatten().map(|&index| &table.schemas[index]);
    known.chain(defined(|schema| *schema.name == *name))
}

/// Returns the schema of a full name such as `aten::add.Tensor`.
pub fn get(full_name: &str) -> Option<&'static Schema> {
    let known = TABLE.by_full_name.get(full_name).map(|&index| &TABLE.schemas[index]);
    known.or_else(|| defined(|schema| *schema.full_name == *full_name).pop())
}

/// Returns what to do where a program calls an operator that there is not.
pub fn advice(name: &str) -> String {
    let space = name.split_once("::").map_or("", |(space, _)| space);
    let prefix = format!("{space}::");
    let mine = defined(|schema| schema.name.starts_with(&prefix));
    if !mine.is_empty() {
        return fx_core::names::suggest(name, mine.iter().map(|schema| &*schema.name));
    }
    match space {
        "aten" | "prim" | "prims" => "PyTorch does not have it either".to_owned(),
        _ => format!("define it before: fx::library(\"{name}(Tensor x) -> Tensor\", kernel).register()"),
    }
}

/// How long the text of a schema may be.
const MAX_LENGTH: usize = 4096;

impl Schema {
    /// Reads a schema, such as `mylib::scale(Tensor x, float k=2.0, *, bool relu=False) -> Tensor`.
    ///
    /// Fails if the text is no schema, with the column of what cannot be read.
    pub fn parse(text: &str) -> Result<Schema> {
        let text = text.trim();
        let at = match text.len() {
            0..=MAX_LENGTH => match read::schema(text) {
                Ok(schema) => return Ok(schema),
                Err(at) => at,
            },
            _ => MAX_LENGTH,
        };
        let (before, rest) = text.split_at_checked(at).unwrap_or((text, ""));
        let column = before.chars().count() + 1;
        let rest: String = rest.chars().take(24).collect();
        let found = if rest.is_empty() { "the end".to_owned() } else { format!("{rest:?}") };
        let text: String = text.chars().take(120).collect();
        Err(err!(Argument, "the schema {text:?} cannot be read from column {column} on, at {found}")
            .help("a schema is written like \"mylib::scale(Tensor x, float k=2.0) -> Tensor\""))
    }
}

/// Adds the operator of a library, so that programs find it as `torch.ops.mylib.scale`. It is never freed.
///
/// Fails if there is an operator of this full name.
pub fn define(schema: Schema) -> Result<&'static Schema> {
    let mut defined = DEFINED.write().unwrap_or_else(PoisonError::into_inner);
    let is_known = TABLE.by_full_name.contains_key(&schema.full_name)
        || defined.iter().any(|other| other.full_name == schema.full_name);
    if is_known {
        return Err(err!(Argument, "there is an operator {} already", schema.full_name)
            .help("define it once, such as in a `LazyLock`, or give it another name"));
    }
    let schema: &'static Schema = Box::leak(Box::new(schema));
    defined.push(schema);
    Ok(schema)
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
