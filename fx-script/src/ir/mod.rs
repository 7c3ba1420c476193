//! [`Program`]: functions in static single assignment with regions, between text and bytecode.
//!
//! A [`Function`] owns its values by number; operations lie in regions, and `if`, `loop` and `fork` own
//! regions. A region sees the values of the regions around it. Lists, dictionaries, objects and tensors are
//! references, so operations have effects and keep their order. [`verify()`] checks the invariants, `Display`
//! prints text, and [`parse`] reads it: `parse(print(program)) == program`.

mod build;
mod canonicalize;
mod parse;
mod print;
mod verify;

use std::collections::HashMap;
use std::sync::Arc;

use fx_core::SourceLoc;

use crate::types::Type;

pub use build::Builder;
pub use canonicalize::canonicalize;
pub use parse::parse;
pub use verify::verify;

/// The functions of a program, methods of classes among them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Program {
    functions: Vec<Function>,
    by_name: HashMap<Arc<str>, usize>,
}

impl Program {
    /// Adds a function, which replaces one of the same name.
    pub fn insert(&mut self, function: Function) {
        match self.by_name.get(&function.name) {
            Some(&at) => self.functions[at] = function,
            None => {
                self.by_name.insert(function.name.clone(), self.functions.len());
                self.functions.push(function);
            }
        }
    }

    /// Returns a function by its qualified name, such as `__torch__.nets.Encoder.forward`.
    pub fn get(&self, name: &str) -> Option<&Function> {
        self.by_name.get(name).map(|&at| &self.functions[at])
    }

    /// Returns the functions in the order in which they were added.
    pub fn functions(&self) -> &[Function] {
        &self.functions
    }
}

/// The number of a value in its function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ValueId(pub u32);

impl ValueId {
    /// Returns the place in [`Function::values`].
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// What is known of a value.
#[derive(Debug, Clone, PartialEq)]
pub struct ValueInfo {
    /// Its type.
    pub ty: Type,
    /// The name of the variable, for people.
    pub name: Option<Arc<str>>,
}

/// A function or method.
#[derive(Debug, Clone, PartialEq)]
pub struct Function {
    /// The qualified name.
    pub name: Arc<str>,
    /// All values, parameters first.
    pub values: Vec<ValueInfo>,
    /// The code; its results are what the function returns, its parameters those of the function.
    pub body: Region,
    /// The type of the one result.
    pub returns: Type,
}

/// A list of operations with parameters and results.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Region {
    /// The parameters.
    pub params: Vec<ValueId>,
    /// The operations in order.
    pub operations: Vec<Operation>,
    /// What the region gives to the operation that owns it.
    pub results: Vec<ValueId>,
}

/// An operation.
#[derive(Debug, Clone, PartialEq)]
pub struct Operation {
    /// What it does.
    pub instruction: Instruction,
    /// Its arguments.
    pub operands: Vec<ValueId>,
    /// Its results.
    pub results: Vec<ValueId>,
    /// Its regions: two of `if`, one of `loop` and `fork`, else none.
    pub regions: Vec<Region>,
    /// The user's place.
    pub source: Option<SourceLoc>,
}

/// What an operation does.
#[derive(Debug, Clone, PartialEq)]
pub enum Instruction {
    /// Gives a constant.
    Constant(Constant),
    /// Calls an operator: `aten::add.Tensor`. All arguments of the schema are given, in its order.
    Call(Arc<str>),
    /// Calls a function by its qualified name.
    Function(Arc<str>),
    /// Calls a method of the class that the first operand turns out to have.
    Method(Arc<str>),
    /// Makes an object whose attributes are not set.
    New(Arc<str>),
    /// Reads an attribute.
    GetAttr(Arc<str>),
    /// Sets an attribute of the first operand to the second.
    SetAttr(Arc<str>),
    /// Makes a tuple.
    Tuple,
    /// Makes a named tuple of a class.
    NamedTuple(Arc<str>),
    /// Makes a list.
    List,
    /// Makes a dictionary of keys and values in turn.
    Dict,
    /// Takes the item of a tuple, counted from the end if negative.
    Item(i64),
    /// Gives the items of a tuple, or of a list of as many.
    Unpack,
    /// Gives whether a value has one of these types.
    IsInstance(Vec<Type>),
    /// Gives its operand as a value of a narrower type, without a test.
    Cast,
    /// Gives a value that is never used.
    Uninitialized,
    /// Runs the first region if the operand is true, else the second; the results are those of the region.
    If,
    /// Runs a region at most as often as the first operand says, while the second is true. Further operands are
    /// carried. The region takes the number of the round and the carried values; it gives whether to go on and
    /// the next carried values, which are the results at the end.
    Loop,
    /// Runs its region as a task; the result is its future.
    Fork,
}

/// A constant.
#[derive(Debug, Clone)]
pub enum Constant {
    /// Nothing.
    None,
    /// A truth value.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A float.
    Float(f64),
    /// A complex number: real and imaginary part.
    Complex(f64, f64),
    /// Text.
    Str(Arc<str>),
    /// A device by name.
    Device(Arc<str>),
    /// A member of an enumeration: qualified name of the class, name of the member.
    Enum(Arc<str>, Arc<str>),
    /// A constant that the archive holds, by its name: `c0` for `CONSTANTS.c0`.
    Stored(Arc<str>),
}

/// Floats are equal if their bits are.
impl PartialEq for Constant {
    fn eq(&self, other: &Constant) -> bool {
        match (self, other) {
            (Constant::None, Constant::None) => true,
            (Constant::Bool(a), Constant::Bool(b)) => a == b,
            (Constant::Int(a), Constant::Int(b)) => a == b,
            (Constant::Float(a), Constant::Float(b)) => a.to_bits() == b.to_bits(),
            (Constant::Complex(a, b), Constant::Complex(c, d)) => {
                a.to_bits() == c.to_bits() && b.to_bits() == d.to_bits()
            }
            (Constant::Str(a), Constant::Str(b))
            | (Constant::Device(a), Constant::Device(b))
            | (Constant::Stored(a), Constant::Stored(b)) => a == b,
            (Constant::Enum(a, b), Constant::Enum(c, d)) => a == c && b == d,
            _ => false,
        }
    }
}
