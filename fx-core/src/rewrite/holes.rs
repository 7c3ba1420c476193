//! What a pattern can say besides operations: captures, alternatives, attributes, modules, and literals that
//! may vary.
//!
//! Captures and their like are rows that are recorded as any other and that [`Pattern`](super::Pattern)
//! understands; they compute nothing. A literal that may vary is written as a number that stands for it: a
//! NaN or an integer near the least one, which no program uses. So it can be given wherever a number can, and
//! must not be calculated with.

use std::any::TypeId;
use std::sync::{Arc, Mutex, PoisonError};

use crate::op::kind::TensorsType;
use crate::{Arg, Array, Module, Result, Tensor, Type, TypeTree, Value, bail, functions};

functions! {
    pub static MARKERS;

    /// Names a value of a pattern, so that conditions and replacements can ask for it.
    capture(x: Any, name: Str) = infer_capture, eval_capture;

    /// In a pattern, any one of several values: the first that matches.
    any_of(options: Tensors) = infer_any_of, eval_any_of;

    /// In a pattern, a parameter, buffer or constant that the graph reads.
    attr(name: Str) = infer_attr, eval_attr;

    /// In a pattern, a call of a module of a type, by its number.
    module_call(ty: Int, name: Str, args: Tensors) = infer_module, eval_module;
}

fn infer_capture(_x: &TypeTree, _name: &str) -> Result<TypeTree> {
    Ok(Arg::Leaf(Type::Any))
}
fn infer_any_of(_options: TensorsType<'_>) -> Result<TypeTree> {
    Ok(Arg::Leaf(Type::Any))
}
fn infer_attr(_name: &str) -> Result<TypeTree> {
    Ok(Arg::Leaf(Type::Any))
}
fn infer_module(_ty: crate::Dim, _name: &str, _args: TensorsType<'_>) -> Result<TypeTree> {
    Ok(Arg::Leaf(Type::Any))
}

fn only_in_patterns<T>(name: &str) -> Result<T> {
    bail!(Trace, "{name} has a meaning in patterns only")
}
fn eval_capture(_x: &Value, _name: &str) -> Result<Value> {
    only_in_patterns("capture")
}
fn eval_any_of(_options: smallvec::SmallVec<[&Array; 4]>) -> Result<Value> {
    only_in_patterns("any_of")
}
fn eval_attr(_name: &str) -> Result<Value> {
    only_in_patterns("attr")
}
fn eval_module(_ty: i64, _name: &str, _args: smallvec::SmallVec<[&Array; 4]>) -> Result<Value> {
    only_in_patterns("module")
}

/// In a pattern, a call of any module of type `M` with one argument, captured as `name`.
#[track_caller]
pub fn module<M: Module>(name: &str, x: &Tensor) -> Tensor {
    module_call(intern(LiteralHole::Module(ModuleType::of::<M>())) as i64, name, [x])
}

/// In a pattern, any number as a literal or as a constant of rank 0; in a replacement, the number that was found.
pub fn number(name: &str) -> f64 {
    float(LiteralHole::Number(Arc::from(name)))
}

/// In a pattern, any integer literal; in a replacement, the integer that was found.
pub fn integer(name: &str) -> i64 {
    INT_TAG + intern(LiteralHole::Integer(Arc::from(name))) as i64
}

/// In a pattern, this number, as an integer or float literal or as a constant of rank 0.
pub fn exactly(value: f64) -> f64 {
    within(value, 0.0)
}

/// In a pattern, a number that is this one as far as the dtype goes in which it is used: programs write the
/// root of 2 with more or fewer digits. `0.7978845608` is near to the root of 2/π among elements of `f32`,
/// not among those of `f64`, nor where the type of the call that uses it is not known.
///
/// A literal may differ by the [rounding unit](crate::DType::epsilon) of the dtype, and by 1e-5 at most; a
/// constant may also be what the number is in the constant's own dtype, unless that is the coarser one of the
/// two.
pub fn near(value: f64) -> f64 {
    float(LiteralHole::Near(value))
}

/// In a pattern, a number that differs from this one by at most `tolerance` times its magnitude.
pub fn within(value: f64, tolerance: f64) -> f64 {
    float(LiteralHole::Within { value, tolerance })
}

/// The type of a module that a pattern matches.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ModuleType {
    pub(super) id: TypeId,
    pub(super) name: &'static str,
}

impl ModuleType {
    fn of<M: Module>() -> Self {
        let name = std::any::type_name::<M>();
        ModuleType { id: TypeId::of::<M>(), name: name.rsplit("::").next().unwrap_or(name) }
    }
}

/// What a number in a pattern stands for.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum LiteralHole {
    Number(Arc<str>),
    Integer(Arc<str>),
    Within { value: f64, tolerance: f64 },
    Near(f64),
    Module(ModuleType),
}

impl LiteralHole {
    /// Returns the name under which the value is captured.
    pub(super) fn name(&self) -> Option<&Arc<str>> {
        match self {
            LiteralHole::Number(name) | LiteralHole::Integer(name) => Some(name),
            _ => None,
        }
    }
}

impl std::fmt::Display for LiteralHole {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            LiteralHole::Number(name) => write!(f, "a number ({name})"),
            LiteralHole::Integer(name) => write!(f, "an integer ({name})"),
            LiteralHole::Within { value, tolerance: 0.0 } => write!(f, "{value}"),
            LiteralHole::Within { value, .. } | LiteralHole::Near(value) => write!(f, "about {value}"),
            LiteralHole::Module(ty) => f.write_str(ty.name),
        }
    }
}

/// A quiet NaN whose payload no arithmetic makes.
const FLOAT_TAG: u64 = 0x7ffc_f8f8_0000_0000;
const INT_TAG: i64 = i64::MIN + 0x00f8_f8f8_0000_0000;
/// How many there can be.
const CAPACITY: u64 = 1 << 32;

/// Every wildcard that was ever made, each once. Those of a program are few: they are written in its source.
static TABLE: Mutex<Vec<LiteralHole>> = Mutex::new(Vec::new());

fn intern(hole: LiteralHole) -> usize {
    let mut table = TABLE.lock().unwrap_or_else(PoisonError::into_inner);
    table.iter().position(|other| *other == hole).unwrap_or_else(|| {
        table.push(hole);
        table.len() - 1
    })
}

fn float(hole: LiteralHole) -> f64 {
    f64::from_bits(FLOAT_TAG | intern(hole) as u64)
}

fn by_number(index: u64) -> Option<LiteralHole> {
    let table = TABLE.lock().unwrap_or_else(PoisonError::into_inner);
    table.get(usize::try_from(index).ok()?).cloned()
}

/// Returns the module type with a number.
pub(super) fn module_type(index: i64) -> Option<ModuleType> {
    match by_number(u64::try_from(index).ok()?) {
        Some(LiteralHole::Module(ty)) => Some(ty),
        _ => None,
    }
}

/// Returns what a literal stands for, if it is not itself.
pub(super) fn hole<L>(arg: &Arg<L>) -> Option<LiteralHole> {
    match arg {
        Arg::Float(x) if x.to_bits() & !(CAPACITY - 1) == FLOAT_TAG => by_number(x.to_bits() - FLOAT_TAG),
        Arg::Int(x) if (INT_TAG..INT_TAG + CAPACITY as i64).contains(x) => by_number((x - INT_TAG) as u64),
        _ => None,
    }
}
