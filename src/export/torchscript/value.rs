//! Values in TorchScript: expressions with their types, and arguments as expressions.

use std::collections::HashMap;

use super::names;
use crate::dim::Step;
use crate::op::kind::Kind;
use crate::{Arg, DType, Dim, NodeId, Result, Type, TypeTree, bail, err};

/// A type of TorchScript.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Ty {
    Tensor,
    Int,
    Float,
    Bool,
    Str,
    None,
    Tuple(Vec<Ty>),
    List(Box<Ty>),
    Dict(Box<Ty>),
    Any,
}

impl Ty {
    /// Returns the type of a value of this type in a graph.
    pub(super) fn of(ty: &TypeTree) -> Result<Ty> {
        let all = |items: &[TypeTree]| items.iter().map(Ty::of).collect::<Result<Vec<_>>>();
        Ok(match ty {
            Arg::Leaf(Type::Tensor(_) | Type::Any) => Ty::Tensor,
            Arg::Leaf(Type::Int) | Arg::Int(_) | Arg::Dim(_) | Arg::DType(_) => Ty::Int,
            Arg::Leaf(Type::Float) | Arg::Float(_) => Ty::Float,
            Arg::Leaf(Type::Bool) | Arg::Bool(_) => Ty::Bool,
            Arg::Str(_) => Ty::Str,
            Arg::None => Ty::None,
            Arg::Tuple(items) => Ty::Tuple(all(items)?),
            Arg::List(items) => Ty::list(all(items)?),
            Arg::Dict(entries) => {
                let values = entries.iter().map(|(_, ty)| Ty::of(ty)).collect::<Result<Vec<_>>>()?;
                Ty::dict(values)
            }
            other => bail!(Argument, "TorchScript has no type for {}", other.kind_name()),
        })
    }

    /// Returns the type of a list of these items: a tuple if they differ, since lists have items of one type.
    pub(super) fn list(items: Vec<Ty>) -> Ty {
        match items.first() {
            Some(first) if items.iter().all(|item| item == first) => Ty::List(Box::new(first.clone())),
            Some(_) => Ty::Tuple(items),
            None => Ty::List(Box::new(Ty::Tensor)),
        }
    }

    /// Returns the type of a dictionary of these values; of several types, any value is one of them.
    pub(super) fn dict(values: Vec<Ty>) -> Ty {
        let first = values.first().cloned().unwrap_or(Ty::Tensor);
        let is_one = values.iter().all(|value| *value == first);
        Ty::Dict(Box::new(if is_one { first } else { Ty::Any }))
    }

    /// Returns whether it is a number of the host.
    pub(super) fn is_number(&self) -> bool {
        matches!(self, Ty::Int | Ty::Float | Ty::Bool)
    }
}

/// The type as code.
impl std::fmt::Display for Ty {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Ty::Tensor => f.write_str("Tensor"),
            Ty::Int => f.write_str("int"),
            Ty::Float => f.write_str("float"),
            Ty::Bool => f.write_str("bool"),
            Ty::Str => f.write_str("str"),
            Ty::None => f.write_str("NoneType"),
            Ty::Any => f.write_str("Any"),
            Ty::List(item) => write!(f, "List[{item}]"),
            Ty::Dict(value) => write!(f, "Dict[str, {value}]"),
            Ty::Tuple(items) if items.is_empty() => f.write_str("Tuple[()]"),
            Ty::Tuple(items) => {
                let items: Vec<String> = items.iter().map(Ty::to_string).collect();
                write!(f, "Tuple[{}]", items.join(", "))
            }
        }
    }
}

/// An expression and its type.
#[derive(Clone, Debug)]
pub(super) struct Value {
    pub(super) text: String,
    pub(super) ty: Ty,
}

impl Value {
    pub(super) fn new(text: impl Into<String>, ty: Ty) -> Value {
        Value { text: text.into(), ty }
    }

    /// Returns the part at a position of a tuple or list.
    pub(super) fn item(&self, index: i64) -> Result<Value> {
        let ty = match &self.ty {
            Ty::List(item) => (**item).clone(),
            Ty::Tuple(items) => {
                let n = items.len() as i64;
                let at = if index < 0 { index + n } else { index };
                let item = usize::try_from(at).ok().and_then(|at| items.get(at));
                item.cloned().ok_or_else(|| err!(Index, "there is no item {index} of {n}"))?
            }
            other => bail!(Argument, "expected a tuple or list, got {other}"),
        };
        Ok(Value::new(format!("{}[{index}]", self.text), ty))
    }
}

/// The expressions of nodes and of symbols of sizes.
#[derive(Clone, Debug, Default)]
pub(super) struct Scope {
    pub(super) nodes: HashMap<NodeId, Value>,
    pub(super) symbols: HashMap<(String, u64), String>,
}

impl Scope {
    pub(super) fn node(&self, id: NodeId) -> Result<&Value> {
        self.nodes.get(&id).ok_or_else(|| err!(Graph, "the node {id} is used before it is written"))
    }

    /// Returns a size as an expression.
    pub(super) fn dim(&self, dim: &Dim) -> Result<String> {
        dim.fold(&mut |step: Step<'_, String>| {
            Ok(match step {
                Step::Const(n) => n.to_string(),
                Step::Symbol(symbol) => {
                    let key = (symbol.name().to_owned(), symbol.owner());
                    let found = self.symbols.get(&key).cloned();
                    found.ok_or_else(|| {
                        err!(
                            Argument,
                            "the size {} is no size of an input, so that TorchScript cannot compute it",
                            symbol.name()
                        )
                        .help("pass the size as an input, or fix it with `specialize`")
                    })?
                }
                Step::Add(a, b) => format!("torch.add({a}, {b})"),
                Step::Mul(a, b) => format!("torch.mul({a}, {b})"),
                Step::FloorDiv(a, b) => format!("torch.floordiv({a}, {b})"),
                Step::Mod(a, b) => format!("torch.remainder({a}, {b})"),
                Step::Min(a, b) => format!("ops.prim.min({a}, {b})"),
                Step::Max(a, b) => format!("ops.prim.max({a}, {b})"),
            })
        })
    }

    /// Returns an argument as an expression.
    pub(super) fn value(&self, arg: &Arg) -> Result<Value> {
        Ok(match arg {
            Arg::None => Value::new("None", Ty::None),
            Arg::Bool(true) => Value::new("True", Ty::Bool),
            Arg::Bool(false) => Value::new("False", Ty::Bool),
            Arg::Int(n) => Value::new(n.to_string(), Ty::Int),
            Arg::Float(x) => Value::new(float(*x), Ty::Float),
            Arg::Str(text) => Value::new(names::text(text), Ty::Str),
            Arg::DType(dtype) => Value::new(dtype_code(*dtype).to_string(), Ty::Int),
            Arg::Dim(dim) => Value::new(self.dim(dim)?, Ty::Int),
            Arg::Leaf(id) => self.node(*id)?.clone(),
            Arg::Tuple(items) => {
                let items = self.values(items)?;
                let text = match &items[..] {
                    [one] => format!("({},)", one.text),
                    items => format!("({})", join(items)),
                };
                Value::new(text, Ty::Tuple(items.into_iter().map(|item| item.ty).collect()))
            }
            Arg::List(items) => {
                let items = self.values(items)?;
                let text = join(&items);
                let ty = Ty::list(items.into_iter().map(|item| item.ty).collect());
                match ty {
                    Ty::Tuple(_) => Value::new(format!("({text})"), ty),
                    _ if text.is_empty() => Value::new("annotate(List[Tensor], [])", ty),
                    _ => Value::new(format!("[{text}]"), ty),
                }
            }
            Arg::Dict(entries) => {
                let pairs = entries.iter().map(|(key, arg)| Ok((names::text(key), self.value(arg)?)));
                let pairs = pairs.collect::<Result<Vec<_>>>()?;
                let text: Vec<String> =
                    pairs.iter().map(|(key, value)| format!("{key}: {}", value.text)).collect();
                let ty = Ty::dict(pairs.into_iter().map(|(_, value)| value.ty).collect());
                let text = format!("{{{}}}", text.join(", "));
                match &ty {
                    Ty::Dict(value) if **value == Ty::Any => {
                        Value::new(format!("annotate({ty}, {text})"), ty)
                    }
                    _ => Value::new(text, ty),
                }
            }
            Arg::Failed(error) => return Err(error.clone()),
            other => bail!(Argument, "TorchScript has no value for {}", other.kind_name()),
        })
    }

    fn values(&self, items: &[Arg]) -> Result<Vec<Value>> {
        items.iter().map(|item| self.value(item)).collect()
    }

    /// Returns an argument as an expression for a parameter of a kind.
    pub(super) fn argument(&self, arg: &Arg, kind: Kind) -> Result<String> {
        let value = match (kind, arg) {
            (Kind::Float | Kind::OptFloat, Arg::Int(n)) => Value::new(float(*n as f64), Ty::Float),
            (Kind::Tensors, Arg::Leaf(_)) => {
                let list = self.value(arg)?;
                // A list that control flow gives is a tuple here.
                let Ty::Tuple(items) = &list.ty else { return Ok(list.text) };
                let items: Vec<String> = (0..items.len()).map(|i| format!("{}[{i}]", list.text)).collect();
                return Ok(format!("[{}]", items.join(", ")));
            }
            (Kind::Axes | Kind::Ints | Kind::OptInts | Kind::Shape, Arg::Int(_) | Arg::Dim(_)) => {
                return Ok(format!("[{}]", self.value(arg)?.text));
            }
            (Kind::Axes | Kind::Ints | Kind::OptInts | Kind::Shape, Arg::Tuple(items) | Arg::List(items)) => {
                return Ok(match join(&self.values(items)?) {
                    text if text.is_empty() => "annotate(List[int], [])".to_owned(),
                    text => format!("[{text}]"),
                });
            }
            _ => self.value(arg)?,
        };
        Ok(value.text)
    }

    /// Returns an index of a tensor as code between brackets.
    pub(super) fn index(&self, index: &Arg) -> Result<String> {
        let one = |arg: &Arg| -> Result<String> {
            Ok(match arg {
                Arg::Ellipsis => "...".to_owned(),
                Arg::Slice(slice) => {
                    let part = |arg: &Arg| match arg {
                        Arg::None => Ok(String::new()),
                        arg => self.value(arg).map(|value| value.text),
                    };
                    let [start, stop, step] = slice.parts();
                    match step {
                        Arg::None => format!("{}:{}", part(start)?, part(stop)?),
                        step => format!("{}:{}:{}", part(start)?, part(stop)?, part(step)?),
                    }
                }
                Arg::List(_) => format!("torch.tensor({})", self.value(arg)?.text),
                arg => self.value(arg)?.text,
            })
        };
        match index {
            Arg::Tuple(items) => {
                let parts = items.iter().map(one).collect::<Result<Vec<_>>>()?;
                Ok(if parts.is_empty() { "...".to_owned() } else { parts.join(", ") })
            }
            arg => one(arg),
        }
    }
}

fn join(items: &[Value]) -> String {
    items.iter().map(|item| item.text.as_str()).collect::<Vec<_>>().join(", ")
}

/// Returns a float as a literal, which always has a point or an exponent.
pub(super) fn float(x: f64) -> String {
    if x.is_nan() {
        return "nan".to_owned();
    }
    if x.is_infinite() {
        return if x > 0. { "inf".to_owned() } else { "-inf".to_owned() };
    }
    let text = format!("{x:?}");
    match text.strip_suffix(".0") {
        Some(whole) => format!("{whole}."),
        None => text,
    }
}

/// Returns PyTorch's number for a dtype.
pub(super) fn dtype_code(dtype: DType) -> u32 {
    match dtype {
        DType::U8 => 0,
        DType::I8 => 1,
        DType::I32 => 3,
        DType::I64 => 4,
        DType::F16 => 5,
        DType::F32 => 6,
        DType::F64 => 7,
        DType::Bool => 11,
        DType::BF16 => 15,
    }
}
