//! Operators: known values are computed now, containers are changed now, everything else becomes nodes.

use std::sync::Arc;

use fx_script::host::{self, Output};
use fx_script::value::Value;
use fx_script::vm::Operators;

use super::{Lowerer, Meaning, Step, Stop};
use crate::ErrorKind;
use crate::import::alias::View;
use crate::script::AtenOperators;

/// The most text that a known value may be.
const MAX_TEXT: usize = 1 << 20;

/// Operators that take containers as they are, whatever is in them.
const STRUCTURAL: &[&str] = &[
    "append",
    "extend",
    "add_",
    "add",
    "mul",
    "mul_",
    "insert",
    "pop",
    "Delete",
    "clear",
    "reverse",
    "copy",
    "list",
    "slice",
    "len",
    "__getitem__",
    "select",
    "_set_item",
    "keys",
    "values",
    "items",
    "get",
    "setdefault",
    "update",
    "popitem",
    "dict",
    "Size",
];

/// Operators that take any value as it is.
const TRANSPARENT: &[&str] = &[
    "prim::unchecked_cast",
    "prim::unchecked_unwrap_optional",
    "aten::_unwrap_optional",
    "prim::TupleIndex",
    "aten::wait",
    "aten::__is__",
    "aten::__isnot__",
];

/// Operators on tensors that share memory with a known tensor or write to it: these are left to the graph.
const SHARING: &[&str] = &[
    "detach",
    "data",
    "contiguous",
    "clone",
    "copy_",
    "fill_",
    "zero_",
    "set_",
    "unbind",
    "split",
    "chunk",
    "detach_",
    "split_with_sizes",
    "cpu",
];

/// Returns the name of an operator without its library and overload.
pub(super) fn base(name: &str) -> &str {
    let base = name.rsplit("::").next().unwrap_or(name);
    base.split('.').next().unwrap_or(base)
}

impl Lowerer<'_> {
    /// Computes an operator.
    pub(super) fn operator(&mut self, name: &str, args: &[Value]) -> Step<Value> {
        let args: Vec<Value> = args.iter().map(|arg| self.as_lifted(arg)).collect();
        match name {
            "prim::RaiseException" => return Err(self.raised(&args)),
            "prim::Print" => {
                return Err(self.obstacle_with(
                    "the program prints",
                    None,
                    Some("printed text belongs to the program that runs, not to its graph"),
                ));
            }
            _ => {}
        }
        let base = base(name);
        let is_known = !args.iter().any(|arg| self.has_symbol(arg, 0));
        let row = host::find(name);
        if let Some(row) = row {
            let has_tensor = matches!(args.first(), Some(Value::Tensor(_)));
            let computed = is_known && !(has_tensor && SHARING.contains(&base));
            if computed || TRANSPARENT.contains(&name) || self.is_structural(name, base, &args)? {
                let args: Vec<&Value> = args.iter().collect();
                let result = row(&mut Output::new(MAX_TEXT), &args);
                return result.map_err(|error| match error.kind() {
                    ErrorKind::Limit => self.obstacle(error.message()),
                    _ => Stop::Raised(error.message().to_owned()),
                });
            }
            if base == "IfThenElse" && args.len() == 3 {
                return match &args[0] {
                    Value::Bool(chosen) => Ok(args[if *chosen { 1 } else { 2 }].clone()),
                    _ => Err(self.obstacle("a value is chosen by a condition that is not known")),
                };
            }
        }
        if is_known && let Some(value) = self.folded(name, base, &args)? {
            return Ok(value);
        }
        if let Some(value) = self.question(name, base, &args)? {
            return Ok(value);
        }
        if row.is_some()
            && let Some(value) = self.number_operator(name, &args)?
        {
            return Ok(value);
        }
        self.tensor_operator(name, base, &args)
    }

    /// Returns a known tensor that is one of the graph as that.
    pub(super) fn as_lifted(&self, value: &Value) -> Value {
        match value {
            Value::Tensor(tensor) => match self.lifted.get(&(Arc::as_ptr(tensor) as usize)) {
                Some((_, symbol)) => symbol.clone(),
                None => value.clone(),
            },
            other => other.clone(),
        }
    }

    /// Whether a value is not known, or something in it.
    pub(super) fn has_symbol(&self, value: &Value, depth: usize) -> bool {
        // Deeper values are refused where they are used.
        if depth > 64 {
            return true;
        }
        match value {
            Value::Symbol(_) => true,
            Value::Tensor(tensor) => self.lifted.contains_key(&(Arc::as_ptr(tensor) as usize)),
            Value::List(list) => list.read(|items| items.iter().any(|item| self.has_symbol(item, depth + 1))),
            Value::Tuple(tuple) => tuple.items.iter().any(|item| self.has_symbol(item, depth + 1)),
            Value::Dict(dict) => {
                dict.read(|entries| entries.iter().any(|(_, item)| self.has_symbol(item, depth + 1)))
            }
            _ => false,
        }
    }

    /// Whether an operator changes or reads a container, whatever is in it.
    fn is_structural(&self, name: &str, base: &str, args: &[Value]) -> Step<bool> {
        let is_container =
            |value: Option<&Value>| matches!(value, Some(Value::List(_) | Value::Dict(_) | Value::Tuple(_)));
        let is_dict = matches!(args.first(), Some(Value::Dict(_)));
        let is_structural = match base {
            "__contains__" => is_dict,
            "mul" if name.ends_with(".right_") => is_container(args.get(1)),
            "add" => name == "aten::add.t" && is_container(args.first()),
            "dict" if args.is_empty() => true,
            _ => STRUCTURAL.contains(&base) && is_container(args.first()),
        };
        if !is_structural {
            return Ok(false);
        }
        // Places and keys must be known.
        let places: &[Value] = match base {
            "insert" | "pop" | "Delete" | "__getitem__" | "select" | "_set_item" | "__contains__" | "get"
            | "setdefault" | "mul" => args.get(1..2).unwrap_or_default(),
            "slice" => args.get(1..).unwrap_or_default(),
            _ => &[],
        };
        match places.iter().find(|place| matches!(place, Value::Symbol(_))) {
            Some(place) if is_dict => {
                Err(self.obstacle(format!("the key {} of a dictionary is not known", self.name_of(place))))
            }
            Some(place) => {
                Err(self.obstacle(format!("the place {} in a list is not known", self.name_of(place))))
            }
            None => Ok(true),
        }
    }

    fn raised(&self, args: &[Value]) -> Stop {
        let message = match args.first() {
            Some(message) => match fx_script::value::shown(message) {
                Ok(message) => message,
                Err(_) => return self.obstacle("the message of an error is not known"),
            },
            None => String::new(),
        };
        match args.get(1) {
            Some(Value::Str(class)) => Stop::Raised(format!("{}: {message}", &***class)),
            _ => Stop::Raised(format!("RuntimeError: {message}")),
        }
    }

    /// Computes an operator on known tensors of rank 0, such as the sizes that traced programs compute with;
    /// `None` if it has to be a node.
    fn folded(&mut self, name: &str, base: &str, args: &[Value]) -> Step<Option<Value>> {
        let is_scalar = |value: &Value| match value {
            Value::Tensor(tensor) => tensor.shape().is_empty() && !tensor.is_complex(),
            Value::None | Value::Bool(_) | Value::Int(_) | Value::Float(_) => true,
            _ => false,
        };
        const PURE: &[&str] = &[
            "add",
            "sub",
            "rsub",
            "mul",
            "div",
            "floor_divide",
            "remainder",
            "neg",
            "abs",
            "floor",
            "ceil",
            "round",
            "trunc",
            "pow",
            "sqrt",
            "minimum",
            "maximum",
            "eq",
            "ne",
            "lt",
            "le",
            "gt",
            "ge",
            "to",
            "clamp",
        ];
        let has_tensor = args.iter().any(|arg| matches!(arg, Value::Tensor(_)));
        if !has_tensor || !PURE.contains(&base) || !args.iter().all(is_scalar) {
            return Ok(None);
        }
        let operators = AtenOperators::new(self.registry.clone());
        let refs: Vec<&Value> = args.iter().collect();
        match operators.prepare(name).and_then(|operator| operator.call(&refs)) {
            // A result that is an operand shares its memory.
            Ok(Value::Tensor(result)) => {
                let shares = args.iter().any(|arg| {
                    matches!(arg, Value::Tensor(own) if own.storage_id() == result.storage_id() && !Arc::ptr_eq(own, &result))
                });
                Ok((!shares).then_some(Value::Tensor(result)))
            }
            _ => Ok(None),
        }
    }

    /// Returns the integer that a tensor of rank 0 is known to hold.
    pub(super) fn dim_of(&self, value: &Value) -> Option<crate::Dim> {
        match value {
            Value::Int(n) => Some(crate::Dim::new(*n)),
            Value::Symbol(symbol) => match self.meaning(symbol) {
                Meaning::Int(dim) => Some(dim.clone()),
                _ => self.dims.get(&symbol.number).cloned(),
            },
            Value::Tensor(tensor) if tensor.shape().is_empty() && tensor.dtype() == crate::DType::I64 => {
                match tensor.item() {
                    Ok(Value::Int(n)) => Some(crate::Dim::new(n)),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// Returns whether an operator that gives the elements of a tensor in other sizes has copied them.
    pub(super) fn copies(&mut self, base: &str, of: &View, result: &View) -> bool {
        match base {
            "contiguous" | "ravel" => !self.builder().is_contiguous(of),
            "reshape" | "flatten" | "reshape_as" => {
                let builder = self.builder();
                let sizes = builder.tensor_type(result.node).map(|ty| ty.shape.to_vec());
                sizes.is_ok_and(|sizes| !builder.is_viewable(of, &sizes))
            }
            _ => false,
        }
    }
}
