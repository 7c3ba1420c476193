//! Numbers and truth values that are not known: integers are sizes, whose arithmetic can often be decided; floats
//! and truth values are nodes of rank 0.

use fx_script::types::Type;
use fx_script::value::Value;

use super::{Lowerer, Meaning, Step, Stop};
use crate::dim::Truth;
use crate::{Arg, DType, Dim, NodeId, Symbol};

/// A number of the program.
#[derive(Clone)]
pub(super) enum Number {
    Int(Dim),
    Float(f64),
    FloatNode(NodeId),
    Bool(bool),
    BoolNode(NodeId),
}

impl Number {
    fn is_float(&self) -> bool {
        matches!(self, Number::Float(_) | Number::FloatNode(_))
    }
}

impl Lowerer<'_> {
    /// Returns a number; `None` for any other value.
    pub(super) fn number(&self, value: &Value) -> Option<Number> {
        Some(match value {
            Value::Int(x) => Number::Int(Dim::new(*x)),
            Value::Float(x) => Number::Float(*x),
            Value::Bool(x) => Number::Bool(*x),
            Value::Symbol(symbol) => match self.meaning(symbol) {
                Meaning::Int(dim) => Number::Int(dim.clone()),
                Meaning::Float(node) => Number::FloatNode(*node),
                Meaning::Bool(node) => Number::BoolNode(*node),
                _ => return None,
            },
            _ => return None,
        })
    }

    /// Returns an integer as a value, which is known if the size is.
    pub(super) fn int_value(&mut self, dim: Dim) -> Step<Value> {
        if let Some(error) = dim.error() {
            return Err(self.obstacle(error.message()));
        }
        Ok(match dim.known() {
            Some(n) => Value::Int(n),
            None => self.symbol(Type::Int, Meaning::Int(dim)),
        })
    }

    /// Gives the integers of the program the ranges that operators on tensors have told since the last time.
    pub(super) fn restrict_numbers(&mut self) {
        let found = self.builder().take_restricted();
        if found.is_empty() {
            return;
        }
        let restricted = |symbol: &Symbol| {
            let found = found.iter().rev().find(|other| *other == symbol)?;
            Some(Dim::symbol(found.clone()))
        };
        let known = self.meanings.iter_mut().filter_map(|meaning| match meaning {
            Meaning::Int(dim) => Some(dim),
            _ => None,
        });
        for dim in known.chain(self.dims.values_mut()) {
            *dim = dim.substitute(&restricted);
        }
    }

    fn float_value(&mut self, node: NodeId) -> Value {
        self.builder().note_number(node);
        self.symbol(Type::Float, Meaning::Float(node))
    }

    fn bool_value(&mut self, node: NodeId) -> Value {
        self.symbol(Type::Bool, Meaning::Bool(node))
    }

    /// Returns the integer that a node of rank 0 and dtype `i64` holds.
    pub(super) fn int_of_node(&mut self, node: NodeId) -> Step<Value> {
        let node = self.row("item", [Arg::Leaf(node)])?;
        let dim = self.builder().data_symbol(i64::MIN);
        self.builder().set_number(node, Arg::Dim(dim.clone()))?;
        self.int_value(dim)
    }

    fn scalar(&mut self, number: Arg, dtype: DType) -> Step<NodeId> {
        self.row_with("full", vec![Arg::list([]), number], &[("dtype", Arg::DType(dtype))])
    }

    /// Returns an integer as an argument.
    pub(super) fn dim_arg(&mut self, dim: &Dim) -> Step<Arg> {
        self.local_dim(dim)?;
        Ok(Arg::dim(dim.clone()))
    }

    /// Returns a number as a node of rank 0: of dtype `i64`, `f64` or `bool`.
    pub(super) fn number_node(&mut self, number: &Number) -> Step<NodeId> {
        match number {
            Number::Int(dim) => {
                let dim = self.dim_arg(dim)?;
                self.scalar(dim, DType::I64)
            }
            Number::Float(x) => {
                let node = self.scalar(Arg::Float(*x), DType::F64)?;
                self.builder().note_number(node);
                Ok(node)
            }
            Number::Bool(x) => self.scalar(Arg::Bool(*x), DType::Bool),
            Number::FloatNode(node) | Number::BoolNode(node) => self.local(*node),
        }
    }

    fn float_node(&mut self, number: &Number) -> Step<NodeId> {
        let node = match number {
            Number::Int(dim) => {
                let dim = self.dim_arg(dim)?;
                self.scalar(dim, DType::F64)?
            }
            Number::Bool(x) => self.scalar(Arg::Float(f64::from(u8::from(*x))), DType::F64)?,
            Number::BoolNode(node) => {
                let node = self.local(*node)?;
                self.row("to", [Arg::Leaf(node), Arg::DType(DType::F64)])?
            }
            // A number of the graph may be an input, which is no tensor of `f64`.
            Number::Float(_) | Number::FloatNode(_) => return self.number_node(number),
        };
        self.builder().note_number(node);
        Ok(node)
    }

    fn as_dim(&mut self, number: &Number) -> Step<Dim> {
        Ok(match number {
            Number::Int(dim) => dim.clone(),
            Number::Bool(x) => Dim::new(i64::from(*x)),
            Number::BoolNode(node) => {
                let node = self.local(*node)?;
                let whole = self.row("to", [Arg::Leaf(node), Arg::DType(DType::I64)])?;
                self.whole(whole)?
            }
            Number::Float(_) | Number::FloatNode(_) => {
                let node = self.float_node(number)?;
                let cut = self.row("trunc", [Arg::Leaf(node)])?;
                let whole = self.row("to", [Arg::Leaf(cut), Arg::DType(DType::I64)])?;
                self.whole(whole)?
            }
        })
    }

    fn whole(&mut self, node: NodeId) -> Step<Dim> {
        match self.int_of_node(node)? {
            Value::Int(n) => Ok(Dim::new(n)),
            Value::Symbol(symbol) => match self.meaning(&symbol) {
                Meaning::Int(dim) => Ok(dim.clone()),
                _ => Err(self.obstacle("an integer that is not known")),
            },
            other => Err(self.unknown("an integer", &other)),
        }
    }

    /// Returns the elements of a tensor as numbers in lists, whose depth and element are annotated.
    pub(super) fn list_of_numbers(&mut self, tensor: &Value, args: &[Value]) -> Step<Value> {
        const MOST: i64 = 1024;
        let [_, Value::Int(depth), Value::Int(element)] = args else {
            return Err(self.obstacle("the annotation of a list is not known"));
        };
        let node = self.node_of(tensor)?;
        let ty = self.tensor_type(node)?;
        let (kind, fits) = match element {
            0 => (Type::Int, ty.dtype == DType::I64),
            1 => (Type::Float, ty.dtype.is_float()),
            2 => (Type::Bool, ty.dtype == DType::Bool),
            _ => (Type::Complex, false),
        };
        if ty.rank() as i64 != *depth || !fits {
            return Err(Stop::Raised(format!("tolist() of {ty} gives no lists of {kind} of depth {depth}")));
        }
        match ty.shape.numel().known() {
            Some(n) if n <= MOST => self.lists_of(node, &kind),
            Some(n) => Err(self.obstacle(format!("a list of {n} numbers out of data has more than {MOST}"))),
            None => Err(self.obstacle(format!("the length of a list out of {ty} is not known"))),
        }
    }

    fn lists_of(&mut self, node: NodeId, kind: &Type) -> Step<Value> {
        let ty = self.tensor_type(node)?;
        let Some(n) = ty.shape.first().and_then(Dim::known) else {
            return self.number_of_tensor(node, Some(kind));
        };
        let mut items = Vec::new();
        for i in 0..n {
            let item = self.row("select", [Arg::Leaf(node), Arg::Int(0), Arg::Int(i)])?;
            items.push(self.lists_of(item, kind)?);
        }
        Ok(Value::list(items))
    }

    /// Returns the number that a tensor of one element holds, as its dtype says or as `wanted`.
    pub(super) fn number_of_tensor(&mut self, node: NodeId, wanted: Option<&Type>) -> Step<Value> {
        let ty = self.tensor_type(node)?;
        if ty.shape.numel().known().is_some_and(|n| n != 1) {
            return Err(Stop::Raised(format!(
                "a Tensor with {} elements cannot be converted to Scalar",
                ty.shape.numel()
            )));
        }
        let node = if ty.rank() == 0 { node } else { self.row("reshape", [Arg::Leaf(node), Arg::list([])])? };
        let dtype = ty.dtype;
        let kind = match wanted {
            Some(kind) => kind.clone(),
            None if dtype == DType::Bool => Type::Bool,
            None if dtype.is_float() => Type::Float,
            None => Type::Int,
        };
        match kind {
            Type::Bool if dtype == DType::Bool => Ok(self.bool_value(node)),
            Type::Bool => {
                let node = self.row("ne", [Arg::Leaf(node), Arg::Int(0)])?;
                Ok(self.bool_value(node))
            }
            Type::Float => {
                let node = match dtype {
                    DType::F64 => node,
                    _ => self.row("to", [Arg::Leaf(node), Arg::DType(DType::F64)])?,
                };
                Ok(self.float_value(node))
            }
            _ => {
                let node = if dtype.is_float() { self.row("trunc", [Arg::Leaf(node)])? } else { node };
                let node = match dtype {
                    DType::I64 => node,
                    _ => self.row("to", [Arg::Leaf(node), Arg::DType(DType::I64)])?,
                };
                self.int_of_node(node)
            }
        }
    }

    /// Computes an operator on numbers, some of which are not known; `None` if it is not one of these.
    pub(super) fn number_operator(&mut self, name: &str, args: &[Value]) -> Step<Option<Value>> {
        let base = name.rsplit("::").next().unwrap_or(name);
        let base = base.split('.').next().unwrap_or(base);
        if let (Some(a), Some(b)) = (args.first(), args.get(1))
            && let (Some(a), Some(b)) = (self.number(a), self.number(b))
        {
            return self.binary(base, args, &a, &b);
        }
        match (base, args) {
            ("eq" | "ne", [Value::List(a), Value::List(b)]) => {
                let equal = self.lists_equal(&a.read(Clone::clone), &b.read(Clone::clone))?;
                return match (base, equal) {
                    (_, None) => Ok(None),
                    ("ne", Some(equal)) => self.negated(&equal).map(Some),
                    (_, equal) => Ok(equal),
                };
            }
            ("min" | "max" | "sum", [Value::List(list)]) => {
                return self.reduced(base, &list.read(Clone::clone));
            }
            _ => {}
        }
        match args.first().and_then(|value| self.number(value)) {
            Some(x) => self.unary(base, &x),
            None => Ok(None),
        }
    }

    fn reduced(&mut self, base: &str, items: &[Value]) -> Step<Option<Value>> {
        let mut dims = Vec::new();
        for item in items {
            match self.number(item) {
                Some(Number::Int(dim)) => dims.push(dim),
                _ => return Ok(None),
            }
        }
        let reduced = match base {
            "sum" => Some(dims.iter().fold(Dim::new(0), |sum, dim| sum + dim)),
            "min" => dims.into_iter().reduce(|a, b| a.min(&b)),
            _ => dims.into_iter().reduce(|a, b| a.max(&b)),
        };
        reduced.map(|dim| self.int_value(dim)).transpose()
    }

    fn lists_equal(&mut self, a: &[Value], b: &[Value]) -> Step<Option<Value>> {
        if a.len() != b.len() {
            return Ok(Some(Value::Bool(false)));
        }
        let mut all = Value::Bool(true);
        for (a, b) in a.iter().zip(b) {
            let (Some(a), Some(b)) = (self.number(a), self.number(b)) else { return Ok(None) };
            let equal = self.compare("eq", &a, &b)?;
            if matches!(equal, Value::Bool(false)) {
                return Ok(Some(equal));
            }
            let (x, y) = (self.number(&all), self.number(&equal));
            if let (Some(x), Some(y)) = (x, y) {
                all = self.logical("__and__", &x, &y)?;
            }
        }
        Ok(Some(all))
    }

    fn binary(&mut self, base: &str, args: &[Value], a: &Number, b: &Number) -> Step<Option<Value>> {
        if matches!(base, "lt" | "le" | "gt" | "ge" | "eq" | "ne") {
            return self.compare(base, a, b).map(Some);
        }
        if matches!(base, "__and__" | "__or__" | "__xor__") {
            let is_bool = |x: &Number| matches!(x, Number::Bool(_) | Number::BoolNode(_));
            return if is_bool(a) && is_bool(b) { self.logical(base, a, b).map(Some) } else { Ok(None) };
        }
        if !a.is_float() && !b.is_float() && !matches!(base, "div" | "pow" | "atan2" | "fmod" | "log") {
            let (a, b) = (self.as_dim(a)?, self.as_dim(b)?);
            let by_zero = |this: &Self| this.raises_if_zero(&b);
            let result = match base {
                "add" => a + b,
                "sub" => a - b,
                "mul" => a * b,
                "floordiv" => {
                    by_zero(self)?;
                    a.floor_div(&b)
                }
                "remainder" => {
                    by_zero(self)?;
                    a.modulo(&b)
                }
                "min" => a.min(&b),
                "max" => a.max(&b),
                "__range_length" => return self.range_length(&a, &b, args).map(Some),
                "__derive_index" => {
                    let Some(Number::Int(step)) = args.get(2).and_then(|step| self.number(step)) else {
                        return Ok(None);
                    };
                    b + a * step
                }
                _ => return Ok(None),
            };
            return self.int_value(result).map(Some);
        }
        let row = match base {
            "add" => "add",
            "sub" => "sub",
            "mul" => "mul",
            "div" => "div",
            "pow" => "pow",
            "fmod" | "remainder" => "fmod",
            "atan2" => "atan2",
            "floordiv" => "div",
            // The second, unless the first is less or greater: NaN is neither.
            "min" => "lt",
            "max" => "gt",
            _ => return Ok(None),
        };
        let [a, b] = [self.float_node(a)?, self.float_node(b)?].map(Arg::Leaf);
        let mut node = self.row(row, [a.clone(), b.clone()])?;
        match base {
            "floordiv" => node = self.row("floor", [Arg::Leaf(node)])?,
            // The machine computes `fmod(b + fmod(a, b), b)`, which is NaN of an infinite divisor.
            "remainder" => {
                let sum = self.row("add", [b.clone(), Arg::Leaf(node)])?;
                node = self.row("fmod", [Arg::Leaf(sum), b])?;
            }
            "min" | "max" => node = self.row("where", [Arg::Leaf(node), a, b])?,
            _ => {}
        }
        Ok(Some(self.float_value(node)))
    }

    fn raises_if_zero(&self, divisor: &Dim) -> Step<()> {
        match divisor.known() {
            Some(0) => Err(Stop::Raised("integer division or modulo by zero".to_owned())),
            _ => Ok(()),
        }
    }

    fn range_length(&mut self, low: &Dim, high: &Dim, args: &[Value]) -> Step<Value> {
        let Some(&Value::Int(step)) = args.get(2) else {
            return Err(self.obstacle("the step of a range is not known"));
        };
        if step == 0 {
            return Err(Stop::Raised("range() arg 3 must not be zero".to_owned()));
        }
        let span = if step > 0 { high - low } else { low - high };
        let rounds = span.ceil_div(&Dim::new(step.saturating_abs()));
        self.int_value(rounds.max(&Dim::new(0)))
    }

    /// Compares two numbers; the result is known where sizes decide it.
    pub(super) fn compare(&mut self, base: &str, a: &Number, b: &Number) -> Step<Value> {
        if !a.is_float() && !b.is_float() {
            let known = |x: &Number| match x {
                Number::Int(dim) => Some(dim.clone()),
                Number::Bool(x) => Some(Dim::new(i64::from(*x))),
                _ => None,
            };
            if let (Some(a), Some(b)) = (known(a), known(b)) {
                let (truth, negated) = match base {
                    "lt" => (a.less(&b), false),
                    "le" => (a.less_equal(&b), false),
                    "gt" => (b.less(&a), false),
                    "ge" => (b.less_equal(&a), false),
                    "eq" => (a.same(&b), false),
                    _ => (a.same(&b), true),
                };
                if truth.is_yes() || truth.is_no() {
                    return Ok(Value::Bool(truth.is_yes() != negated));
                }
                debug_assert!(!matches!(truth, Truth::Yes | Truth::No));
            }
        }
        let (a, b) = match a.is_float() || b.is_float() {
            true => (self.float_node(a)?, self.float_node(b)?),
            false => (self.number_node(a)?, self.number_node(b)?),
        };
        let node = self.row(base, [Arg::Leaf(a), Arg::Leaf(b)])?;
        Ok(self.bool_value(node))
    }

    fn logical(&mut self, base: &str, a: &Number, b: &Number) -> Step<Value> {
        let (known, other) = match (a, b) {
            (Number::Bool(x), other) | (other, Number::Bool(x)) => (*x, other),
            _ => {
                let (a, b) = (self.number_node(a)?, self.number_node(b)?);
                let row = match base {
                    "__and__" => "logical_and",
                    "__or__" => "logical_or",
                    _ => "logical_xor",
                };
                let node = self.row(row, [Arg::Leaf(a), Arg::Leaf(b)])?;
                return Ok(self.bool_value(node));
            }
        };
        let other = match other {
            Number::Bool(x) => Value::Bool(*x),
            Number::BoolNode(node) => self.bool_value(*node),
            _ => return Err(self.obstacle("a truth value that is not known")),
        };
        match (base, known) {
            ("__and__", false) => Ok(Value::Bool(false)),
            ("__or__", true) => Ok(Value::Bool(true)),
            ("__xor__", true) => self.negated(&other),
            _ => Ok(other),
        }
    }

    fn negated(&mut self, value: &Value) -> Step<Value> {
        match self.number(value) {
            Some(Number::Bool(x)) => Ok(Value::Bool(!x)),
            Some(Number::BoolNode(node)) => {
                let node = self.local(node)?;
                let node = self.row("logical_not", [Arg::Leaf(node)])?;
                Ok(self.bool_value(node))
            }
            _ => Err(self.unknown("a truth value", value)),
        }
    }

    fn unary(&mut self, base: &str, x: &Number) -> Step<Option<Value>> {
        let row = match base {
            "__not__" => {
                let value = match x {
                    Number::Bool(x) => Value::Bool(*x),
                    Number::BoolNode(node) => self.bool_value(*node),
                    _ => return Ok(None),
                };
                return self.negated(&value).map(Some);
            }
            "Bool" => {
                let zero = if x.is_float() { Number::Float(0.0) } else { Number::Int(Dim::new(0)) };
                return match x {
                    Number::BoolNode(node) => Ok(Some(self.bool_value(*node))),
                    _ => self.compare("ne", x, &zero).map(Some),
                };
            }
            "Int" => {
                let dim = self.as_dim(x)?;
                return self.int_value(dim).map(Some);
            }
            "Float" => {
                let node = self.float_node(x)?;
                return Ok(Some(self.float_value(node)));
            }
            "neg" | "abs" if !x.is_float() => {
                let dim = self.as_dim(x)?;
                let negated = Dim::new(0) - &dim;
                return self.int_value(if base == "neg" { negated } else { dim.max(&negated) }).map(Some);
            }
            "floor" | "ceil" => {
                let node = self.float_node(x)?;
                let cut = self.row(base, [Arg::Leaf(node)])?;
                let whole = self.row("to", [Arg::Leaf(cut), Arg::DType(DType::I64)])?;
                return self.int_of_node(whole).map(Some);
            }
            "fabs" | "abs" => "abs",
            "neg" | "sqrt" | "exp" | "log" | "log10" | "log1p" | "expm1" | "sin" | "cos" | "tan" | "sinh"
            | "cosh" | "tanh" | "asin" | "acos" | "atan" | "asinh" | "acosh" | "atanh" | "erf" | "erfc"
            | "round" => base,
            _ => return Ok(None),
        };
        let node = self.float_node(x)?;
        let node = self.row(row, [Arg::Leaf(node)])?;
        Ok(Some(self.float_value(node)))
    }
}
