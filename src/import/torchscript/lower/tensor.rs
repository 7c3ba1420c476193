//! Operators on tensors: questions that types answer, and calls that become nodes by the table of `aten`.

use std::sync::Arc;

use fx_script::host::{code_of, dtype_of};
use fx_script::schema::{self as signatures, Default as ParamDefault, Parameter, Schema};
use fx_script::types::Type;
use fx_script::value::{Device, Symbol, TensorCell, Value};

use super::number::Number;
use super::{Lowerer, Meaning, Step, Stop};
use crate::import::alias::{Origin, View};
use crate::import::aten;
use crate::import::build::{Attempt, Builder, Entry, Out};
use crate::import::makes_complex;
use crate::import::schema::{
    self, Argument, Float, Named, NamedArgument, OptionalTensor, SymBoolArgument, SymFloatArgument,
    SymIntArgument, Table,
};
use crate::import::single;
use crate::ops::axis;
use crate::{Arg, Array, DType, Dim, NodeId, TypeTree, err};

/// What an operator gave.
enum Raw {
    Nothing,
    Tensor(View),
    Arg(Arg),
    Many(Vec<Raw>),
}

/// The arguments of a call, and the values that they name.
#[derive(Default)]
struct Arguments {
    named: Vec<NamedArgument>,
    entries: Vec<(String, Entry)>,
}

impl Arguments {
    fn name(&mut self, entry: Entry) -> String {
        let name = format!("t{}", self.entries.len());
        self.entries.push((name.clone(), entry));
        name
    }
}

impl Lowerer<'_> {
    /// Returns the tensor that a value is.
    pub(super) fn view_of(&mut self, value: &Value) -> Step<View> {
        let symbol = match value {
            Value::Symbol(symbol) => Arc::clone(symbol),
            Value::Tensor(tensor) => match self.lift(&Arc::clone(tensor))? {
                Value::Symbol(symbol) => symbol,
                other => return Err(self.unknown("a tensor", &other)),
            },
            other => return Err(self.obstacle(format!("expected a tensor, got {}", other.type_name()))),
        };
        match self.meaning(&symbol).clone() {
            Meaning::Tensor(view) => Ok(view),
            Meaning::Attribute(at) => {
                let view = self.attribute_view(at)?;
                self.meanings[symbol.number] = Meaning::Tensor(view.clone());
                Ok(view)
            }
            Meaning::Uninitialized => Err(self.obstacle("a value is used that was never set")),
            _ => Err(self.obstacle(format!("expected a tensor, got {}", symbol.type_name()))),
        }
    }

    /// Returns the present value of a tensor, in the graph that is being built.
    pub(super) fn node_of(&mut self, value: &Value) -> Step<NodeId> {
        let view = self.view_of(value)?;
        self.present(&view)
    }

    /// Returns the present value of a view, in the graph that is being built.
    pub(super) fn present(&mut self, view: &View) -> Step<NodeId> {
        let view = self.local_view(view, false)?;
        let node = self.builder().current(&view);
        self.attempt(node, "a view")
    }

    fn is_tensor(&self, value: Option<&Value>) -> bool {
        match value {
            Some(Value::Tensor(_)) => true,
            Some(Value::Symbol(symbol)) => symbol.ty == Type::Tensor,
            _ => false,
        }
    }

    /// Answers what a program asks of a tensor, and makes tensors of numbers; `None` if it is something else.
    pub(super) fn question(&mut self, name: &str, base: &str, args: &[Value]) -> Step<Option<Value>> {
        if matches!(base, "tensor" | "as_tensor" | "scalar_tensor" | "NumToTensor")
            && !self.is_tensor(args.first())
        {
            return self.tensor_of(args).map(Some);
        }
        if base == "result_type" {
            return self.result_type(name, args).map(Some);
        }
        if base == "as_tensor" && args.get(1).is_none_or(|dtype| matches!(dtype, Value::None)) {
            return Ok(args.first().cloned());
        }
        let Some(tensor) = args.first().filter(|_| self.is_tensor(args.first())) else { return Ok(None) };
        let tensor = &self.as_lifted(tensor);
        // A conversion of what is known to be an integer.
        if matches!(base, "Int" | "IntImplicit" | "item" | "ScalarImplicit")
            && let Some(dim) = self.dim_of(tensor)
        {
            return self.int_value(dim).map(Some);
        }
        let wanted = match base {
            "Int" | "IntImplicit" => Some(Type::Int),
            "Float" | "FloatImplicit" => Some(Type::Float),
            "Bool" | "is_nonzero" => Some(Type::Bool),
            "item" | "ScalarImplicit" => None,
            "tolist" => return self.list_of_numbers(tensor, args).map(Some),
            _ => return self.fact(name, base, tensor, args),
        };
        let node = self.node_of(tensor)?;
        self.number_of_tensor(node, wanted.as_ref()).map(Some)
    }

    /// Answers what the type of a tensor tells.
    fn fact(&mut self, name: &str, base: &str, tensor: &Value, args: &[Value]) -> Step<Option<Value>> {
        const FACTS: &[&str] = &[
            "size",
            "dim",
            "numel",
            "len",
            "dtype",
            "is_floating_point",
            "is_complex",
            "device",
            "layout",
            "requires_grad",
            "requires_grad_",
            "is_contiguous",
            "stride",
            "storage_offset",
            "cpu",
            "cuda",
            "ndim",
        ];
        let is_flag = name.starts_with("prim::is_");
        if !is_flag && (!FACTS.contains(&base) || name.ends_with(".names")) {
            return Ok(None);
        }
        let view = self.view_of(tensor)?;
        let node = self.present(&view)?;
        let ty = self.tensor_type(node)?;
        let known_axis = |value: Option<&Value>| match value {
            Some(Value::Int(n)) => {
                axis(*n, ty.rank()).map(Some).map_err(|error| Stop::Raised(error.message().to_owned()))
            }
            _ => Ok(None),
        };
        Ok(Some(match base {
            _ if is_flag => Value::Bool(base == "is_cpu"),
            "size" => match known_axis(args.get(1))? {
                Some(at) => self.int_value(ty.shape[at].clone())?,
                None if args.len() > 1 => return Err(self.obstacle("the axis of a size is not known")),
                None => {
                    let sizes = ty.shape.iter().map(|dim| self.int_value(dim.clone()));
                    Value::list(sizes.collect::<Step<_>>()?)
                }
            },
            "dim" | "ndim" => Value::Int(ty.rank() as i64),
            "numel" => self.int_value(ty.shape.numel())?,
            "len" => match ty.shape.first() {
                Some(dim) => self.int_value(dim.clone())?,
                None => return Err(Stop::Raised("len() of a 0-d tensor".to_owned())),
            },
            "dtype" => Value::Int(code_of(ty.dtype, false)),
            "is_floating_point" => Value::Bool(ty.dtype.is_float()),
            "is_complex" | "requires_grad" => Value::Bool(false),
            "device" => Value::Device(Arc::new(Device { kind: "cpu".to_owned(), index: None })),
            "layout" => Value::Int(0),
            "is_contiguous" => Value::Bool(self.builder().is_contiguous(&view)),
            "stride" | "storage_offset" => {
                if !view.is_dense() {
                    return Err(self.obstacle("the strides of a view are not known"));
                }
                if base == "storage_offset" && !view.is_whole() {
                    return Err(self.obstacle("the place of a view in its storage is not known"));
                }
                let strides = row_major(&ty);
                match (base, known_axis(args.get(1))?) {
                    ("storage_offset", _) => Value::Int(0),
                    (_, Some(at)) => self.int_value(strides[at].clone())?,
                    (_, None) => {
                        let strides = strides.into_iter().map(|dim| self.int_value(dim));
                        Value::list(strides.collect::<Step<_>>()?)
                    }
                }
            }
            _ => tensor.clone(),
        }))
    }

    /// Makes a tensor of numbers, some of which are not known.
    fn tensor_of(&mut self, args: &[Value]) -> Step<Value> {
        let (mut sizes, mut items) = (Vec::new(), Vec::new());
        self.nested(&args[0], 0, &mut sizes, &mut items)?;
        let wanted = match args.get(1) {
            Some(Value::Int(code)) => Some(dtype_of(*code)?.0),
            _ => None,
        };
        let mut nodes = Vec::with_capacity(items.len());
        let mut inferred = DType::Bool;
        for item in &items {
            let node = match self.number(item) {
                Some(number) => {
                    inferred = match (&number, inferred) {
                        (Number::Float(_) | Number::FloatNode(_), _) => DType::F32,
                        (Number::Int(_), DType::Bool) => DType::I64,
                        (_, inferred) => inferred,
                    };
                    self.number_node(&number)?
                }
                None => {
                    let node = self.node_of(item)?;
                    let dtype = self.tensor_type(node)?.dtype;
                    inferred = if dtype.is_float() { DType::F32 } else { inferred.promote(dtype) };
                    self.row("reshape", [Arg::Leaf(node), Arg::list([])])?
                }
            };
            nodes.push(node);
        }
        let dtype = wanted.unwrap_or(inferred);
        let mut made = Vec::with_capacity(nodes.len());
        for node in nodes {
            made.push(self.row("to", [Arg::Leaf(node), Arg::DType(dtype)])?);
        }
        let whole = match (&*sizes, &*made) {
            ([], [one]) => *one,
            _ => {
                let stacked = self.row("stack", [Arg::list(made.into_iter().map(Arg::Leaf)), Arg::Int(0)])?;
                match sizes.len() {
                    1 => stacked,
                    _ => self.row("reshape", [Arg::Leaf(stacked), Arg::ints(sizes)])?,
                }
            }
        };
        let value = self.fresh(whole);
        if let (Value::Symbol(symbol), [item], DType::I64) = (&value, &*items, dtype)
            && let Some(Number::Int(dim)) = self.number(item)
        {
            self.dims.insert(symbol.number, dim);
        }
        Ok(value)
    }

    /// Collects the numbers of nested lists, and the sizes of the lists.
    fn nested(
        &mut self,
        value: &Value,
        depth: usize,
        sizes: &mut Vec<i64>,
        items: &mut Vec<Value>,
    ) -> Step<()> {
        match value {
            Value::List(_) | Value::Tuple(_) => {
                let inner = value.to_items()?;
                match sizes.get(depth) {
                    None if depth >= 64 => return Err(self.obstacle("lists are nested deeper than 64")),
                    None => sizes.push(inner.len() as i64),
                    Some(&size) if size == inner.len() as i64 => {}
                    Some(size) => {
                        return Err(Stop::Raised(format!(
                            "expected sequence of length {size} at dim {depth} (got {})",
                            inner.len()
                        )));
                    }
                }
                inner.iter().try_for_each(|item| self.nested(item, depth + 1, sizes, items))
            }
            item if depth == sizes.len() => {
                items.push(self.as_lifted(item));
                Ok(())
            }
            _ => Err(Stop::Raised("expected lists of the same depth".to_owned())),
        }
    }

    /// Returns the dtype of a sum. Tensors are stood for by empty ones of their dtype.
    fn result_type(&mut self, name: &str, args: &[Value]) -> Step<Value> {
        let mut stand_ins = Vec::new();
        for arg in args {
            stand_ins.push(match (self.is_tensor(Some(arg)), self.number(arg)) {
                (true, _) => {
                    let node = self.node_of(arg)?;
                    let ty = self.tensor_type(node)?;
                    let sizes: &[usize] = if ty.rank() == 0 { &[] } else { &[0] };
                    Value::Tensor(TensorCell::of(Array::full(ty.dtype, sizes, crate::Scalar::Bool(false))?)?)
                }
                (_, Some(Number::Int(_))) => Value::Int(0),
                (_, Some(Number::Float(_) | Number::FloatNode(_))) => Value::Float(0.0),
                (_, Some(_)) => Value::Bool(false),
                (_, None) => arg.clone(),
            });
        }
        let Some(row) = fx_script::host::find(name) else {
            return Err(self.obstacle(format!("there is no {name}")));
        };
        let refs: Vec<&Value> = stand_ins.iter().collect();
        Ok(row(&mut fx_script::host::Output::new(0), &refs)?)
    }

    /// Adds a call of an operator on tensors to the graph.
    pub(super) fn tensor_operator(&mut self, name: &str, base: &str, args: &[Value]) -> Step<Value> {
        let Some(schema) = signatures::get(name) else {
            return Err(self.obstacle(format!("fx has no operator {name}")));
        };
        if schema.parameters.len() != args.len() {
            return Err(self.obstacle(format!("{name} takes a number that is not known")));
        }
        let is_true = |name: &str| {
            let at = schema.parameters.iter().position(|parameter| &*parameter.name == name);
            matches!(at.and_then(|at| args.get(at)), Some(Value::Bool(true)))
        };
        if makes_complex(base, args.iter().any(is_complex), false, is_true("return_complex")) {
            return Err(self.obstacle_with(
                format!("{name} gives complex numbers"),
                None,
                Some("the virtual machine has complex tensors; graphs have pairs of reals"),
            ));
        }
        let first = match args.first().filter(|_| self.is_tensor(args.first())) {
            Some(tensor) => Some(self.view_of(tensor)?),
            None => None,
        };
        let is_dense = first.as_ref().is_none_or(|view| self.builder().is_contiguous(view));
        if base == "contiguous" && is_dense {
            return Ok(args[0].clone());
        }
        let mut arguments = Arguments::default();
        for (parameter, arg) in schema.parameters.iter().zip(args) {
            self.argument(schema, parameter, arg, &mut arguments)?;
        }
        let parts = match has_parts(schema) {
            true => Some(self.count_parts(base, args)?),
            false => None,
        };
        let raw = self.call_operator(name, arguments, schema, parts)?;
        self.remember_dim(base, args, &raw);
        let written = schema.parameters.iter().position(|parameter| parameter.is_written);
        match (written, raw) {
            (Some(at), Raw::Tensor(view)) => {
                let target = self.as_lifted(&args[at]);
                if let Value::Symbol(symbol) = &target {
                    self.meanings[symbol.number] = Meaning::Tensor(view);
                }
                Ok(target)
            }
            (None, Raw::Tensor(view))
                if !view.is_whole() && first.is_some_and(|first| self.copies(base, &first, &view)) =>
            {
                let node = self.builder().current(&view);
                let node = self.attempt(node, name)?;
                Ok(self.fresh(node))
            }
            (_, raw) => self.value_of_raw(raw, schema),
        }
    }

    /// Remembers the integer that a tensor of rank 0 holds, where traced programs compute sizes as tensors.
    fn remember_dim(&mut self, base: &str, args: &[Value], raw: &Raw) {
        let Raw::Tensor(_) = raw else { return };
        let is_scaled = matches!(base, "add" | "sub") && !matches!(args.get(2), None | Some(Value::Int(1)));
        if is_scaled {
            return;
        }
        let mut known = args.iter().map(|arg| self.dim_of(arg));
        let dim = match (base, known.next().flatten(), known.next().flatten()) {
            ("add", Some(a), Some(b)) => a + b,
            ("sub", Some(a), Some(b)) => a - b,
            ("mul", Some(a), Some(b)) => a * b,
            ("floor_divide", Some(a), Some(b)) => a.floor_div(&b),
            ("remainder", Some(a), Some(b)) => a.modulo(&b),
            ("neg", Some(a), _) => Dim::new(0) - a,
            ("detach" | "clone" | "alias", Some(a), _) => a,
            _ => return,
        };
        // The value that is made next has this number.
        self.dims.insert(self.meanings.len(), dim);
    }

    fn value_of_raw(&mut self, raw: Raw, schema: &Schema) -> Step<Value> {
        Ok(match raw {
            Raw::Nothing | Raw::Arg(Arg::None) => Value::None,
            Raw::Tensor(view) => self.symbol(Type::Tensor, Meaning::Tensor(view)),
            Raw::Arg(Arg::Bool(x)) => Value::Bool(x),
            Raw::Arg(Arg::Int(x)) => Value::Int(x),
            Raw::Arg(Arg::Float(x)) => Value::Float(x),
            Raw::Arg(Arg::Dim(dim)) => self.int_value(dim)?,
            Raw::Arg(Arg::Leaf(node)) => {
                let ty = self.builder().graph.node(node)?.ty().cloned();
                match (ty, schema.returns.as_deref()) {
                    (Some(Arg::Leaf(crate::Type::Tensor(_))), Some([Type::Tensor])) => self.fresh(node),
                    (Some(Arg::Leaf(crate::Type::Tensor(_))), Some([wanted])) => {
                        self.number_of_tensor(node, Some(wanted))?
                    }
                    (Some(Arg::Leaf(crate::Type::Bool)), _) => self.symbol(Type::Bool, Meaning::Bool(node)),
                    (Some(Arg::Leaf(crate::Type::Float)), _) => {
                        self.builder().note_number(node);
                        self.symbol(Type::Float, Meaning::Float(node))
                    }
                    _ => {
                        return Err(self.obstacle(format!("the result of {} is no tensor", schema.full_name)));
                    }
                }
            }
            Raw::Arg(other) => {
                return Err(self.obstacle(format!("{} gives {}", schema.full_name, other.kind_name())));
            }
            Raw::Many(parts) => {
                let is_list = has_parts(schema);
                let n = schema.returns.as_ref().map_or(0, Vec::len);
                let mut items = Vec::with_capacity(parts.len());
                for part in parts {
                    items.push(self.value_of_raw(part, schema)?);
                }
                if is_list {
                    return Ok(Value::list(items));
                }
                // A use of what is not computed is an error.
                while items.len() < n {
                    items.push(self.symbol(Type::Tensor, Meaning::Uninitialized));
                }
                Value::tuple(items)
            }
        })
    }

    fn call_operator(
        &mut self,
        name: &str,
        arguments: Arguments,
        schema: &Schema,
        parts: Option<usize>,
    ) -> Step<Raw> {
        let outputs = match parts {
            Some(n) => {
                let named = |i| Named { name: format!("p{i}") };
                vec![Argument::AsTensors((0..n).map(named).collect())]
            }
            None => Vec::new(),
        };
        let node = schema::Node {
            target: format!("torch.ops.{}", name.replace("::", ".")),
            inputs: arguments.named,
            outputs,
            metadata: Table::default(),
            name: None,
        };
        let source = schema::Graph {
            inputs: Vec::new(),
            outputs: Vec::new(),
            nodes: vec![node],
            tensor_values: Table::default(),
            sym_int_values: Table::default(),
            sym_bool_values: Table::default(),
            sym_float_values: Table::default(),
        };
        let builder = self.builder.take().expect("calls of operators do not nest");
        let mut inner = builder.resume(self.registry, self.symbols, &source);
        let n_results = schema.returns.as_ref().map_or(0, Vec::len);
        let result = import(&mut inner, &source, &arguments.entries, n_results, has_parts(schema));
        self.builder = Some(inner.resume(self.registry, self.symbols, self.empty));
        self.restrict_numbers();
        self.attempt(result, name)
    }

    /// Writes an argument as an archive of `torch.export` has it.
    fn argument(
        &mut self,
        schema: &Schema,
        parameter: &Parameter,
        value: &Value,
        out: &mut Arguments,
    ) -> Step<()> {
        let is_memory =
            matches!(&*parameter.name, "layout" | "memory_format" | "device" | "pin_memory" | "generator");
        if is_memory || parameter.default.as_ref().is_some_and(|default| is_default(value, default)) {
            return Ok(());
        }
        let arg = match value {
            Value::None | Value::Device(_) => return Ok(()),
            Value::Int(code) if parameter.name.ends_with("dtype") => match dtype_of(*code)? {
                (dtype, false) => Argument::AsScalarType(single::code(dtype)),
                (_, true) => {
                    return Err(self.obstacle(format!("{} makes a complex tensor", schema.full_name)));
                }
            },
            Value::Bool(x) => Argument::AsBool(*x),
            Value::Int(x) => Argument::AsInt(*x),
            Value::Float(x) => Argument::AsFloat(Float(*x)),
            Value::Str(text) => Argument::AsString((***text).to_owned()),
            Value::Tensor(_) => Argument::AsTensor(self.named_tensor(value, parameter.is_written, out)?),
            Value::Symbol(symbol) => self.symbol_argument(symbol, value, parameter, out)?,
            Value::List(_) | Value::Tuple(_) => {
                self.list_argument(schema, parameter, &value.to_items()?, out)?
            }
            other => {
                return Err(self.obstacle(format!(
                    "{} does not take {}",
                    schema.full_name,
                    other.type_name()
                )));
            }
        };
        out.named.push(NamedArgument { name: parameter.name.to_string(), arg });
        Ok(())
    }

    fn symbol_argument(
        &mut self,
        symbol: &Symbol,
        value: &Value,
        parameter: &Parameter,
        out: &mut Arguments,
    ) -> Step<Argument> {
        Ok(match self.meaning(symbol).clone() {
            Meaning::Int(dim) => {
                let dim = self.dim_arg(&dim)?;
                Argument::AsSymInt(SymIntArgument::AsName(out.name(Entry::Value(dim))))
            }
            Meaning::Float(node) => {
                let node = self.local(node)?;
                Argument::AsSymFloat(SymFloatArgument::AsName(out.name(Entry::Value(Arg::Leaf(node)))))
            }
            Meaning::Bool(node) => {
                let node = self.local(node)?;
                Argument::AsSymBool(SymBoolArgument::AsName(out.name(Entry::Value(Arg::Leaf(node)))))
            }
            _ => Argument::AsTensor(self.named_tensor(value, parameter.is_written, out)?),
        })
    }

    fn named_tensor(&mut self, value: &Value, is_written: bool, out: &mut Arguments) -> Step<Named> {
        let view = self.view_of(value)?;
        if is_written {
            self.check_write(value, &view)?;
        }
        let view = self.local_view(&view, is_written)?;
        Ok(Named { name: out.name(Entry::Tensor(view)) })
    }

    /// Refuses a write to a tensor of which it is not known what else it is.
    fn check_write(&mut self, value: &Value, view: &View) -> Step<()> {
        if let Some(names) = self.frozen.get(&view.storage).cloned() {
            let reason =
                format!("{} is written to, and a condition says which tensor it is", self.name_of(value));
            return Err(self.obstacle_with(
                reason,
                Some(names),
                Some("clone the tensor before it is written to"),
            ));
        }
        if let Value::Symbol(symbol) = value
            && self.dims.contains_key(&symbol.number)
        {
            self.dims.clear();
        }
        let written = self.attributes.iter().find(|attribute| {
            attribute.overlaps.is_some()
                && attribute.view.as_ref().is_some_and(|own| own.storage == view.storage)
        });
        let Some(other) =
            written.and_then(|attribute| Some((attribute, &self.attributes[attribute.overlaps?])))
        else {
            return Ok(());
        };
        let names = (other.0.path.clone(), other.1.path.clone());
        Err(self.obstacle_with(
            "a tensor is written to that is another view of the memory of a second one",
            Some(names),
            Some("give each buffer memory of its own"),
        ))
    }

    fn list_argument(
        &mut self,
        schema: &Schema,
        parameter: &Parameter,
        items: &[Value],
        out: &mut Arguments,
    ) -> Step<Argument> {
        let items: Vec<Value> = items.iter().map(|item| self.as_lifted(item)).collect();
        if items.iter().any(|item| self.is_tensor(Some(item))) {
            let mut tensors = Vec::with_capacity(items.len());
            for item in &items {
                tensors.push(match item {
                    Value::None => None,
                    item => Some(self.named_tensor(item, parameter.is_written, out)?),
                });
            }
            if tensors.iter().all(Option::is_some) {
                return Ok(Argument::AsTensors(tensors.into_iter().flatten().collect()));
            }
            let optional = tensors.into_iter().map(|tensor| match tensor {
                Some(tensor) => OptionalTensor::AsTensor(tensor),
                None => OptionalTensor::AsNone(serde::de::IgnoredAny),
            });
            return Ok(Argument::AsOptionalTensors(optional.collect()));
        }
        let wrong = |this: &Self, item: &Value| {
            this.obstacle(format!(
                "{} does not take a list with {} in it",
                schema.full_name,
                item.type_name()
            ))
        };
        let has_symbol = items.iter().any(|item| matches!(item, Value::Symbol(_)));
        Ok(match items.first() {
            Some(Value::None) => {
                let none = items.iter().map(|_| OptionalTensor::AsNone(serde::de::IgnoredAny));
                Argument::AsOptionalTensors(none.collect())
            }
            Some(Value::Str(_)) => {
                let texts = items.iter().map(|item| Ok(item.to_str()?.to_owned()));
                Argument::AsStrings(texts.collect::<crate::Result<_>>()?)
            }
            Some(Value::Bool(_)) if !has_symbol => {
                Argument::AsBools(items.iter().map(Value::to_bool).collect::<crate::Result<_>>()?)
            }
            _ if has_symbol => {
                let mut numbers = Vec::with_capacity(items.len());
                for item in &items {
                    numbers.push(match self.number(item) {
                        Some(Number::Int(dim)) => match dim.known() {
                            Some(n) => SymIntArgument::AsInt(n),
                            None => {
                                let dim = self.dim_arg(&dim)?;
                                SymIntArgument::AsName(out.name(Entry::Value(dim)))
                            }
                        },
                        _ => return Err(wrong(self, item)),
                    });
                }
                Argument::AsSymInts(numbers)
            }
            Some(Value::Float(_)) => {
                let floats = items.iter().map(|item| item.to_float().map(Float));
                Argument::AsFloats(floats.collect::<crate::Result<_>>()?)
            }
            _ => match items.iter().find(|item| item.to_int().is_err()) {
                Some(item) => return Err(wrong(self, item)),
                None => Argument::AsInts(items.iter().map(Value::to_int).collect::<crate::Result<_>>()?),
            },
        })
    }

    /// Returns how many tensors an operator gives that cuts one.
    fn count_parts(&mut self, base: &str, args: &[Value]) -> Step<usize> {
        // What takes a list of tensors gives as many.
        if let Some(Value::List(list)) = args.first() {
            return Ok(list.read(Vec::len));
        }
        let node = self.node_of(args.first().unwrap_or(&Value::None))?;
        let ty = self.tensor_type(node)?;
        let unknown =
            |this: &Self| this.obstacle(format!("the number of tensors that {base} gives is not known"));
        let size_of = |this: &Self, value: Option<&Value>, default: i64| -> Step<i64> {
            let at = match value {
                Some(Value::Int(at)) => *at,
                None => default,
                _ => return Err(unknown(this)),
            };
            let at = axis(at, ty.rank()).map_err(|error| Stop::Raised(error.message().to_owned()))?;
            ty.shape[at].known().ok_or_else(|| unknown(this))
        };
        let listed = match args.get(1) {
            Some(Value::List(list)) => Some(list.read(Vec::len)),
            _ => None,
        };
        let n = match (base, listed) {
            ("unbind" | "unbind_copy", _) => size_of(self, args.get(1), 0)?,
            ("tensor_split" | "hsplit" | "vsplit" | "dsplit", Some(n)) => n as i64 + 1,
            ("tensor_split" | "hsplit" | "vsplit" | "dsplit", None) => match args.get(1) {
                Some(Value::Int(n)) => *n,
                _ => return Err(unknown(self)),
            },
            ("where" | "nonzero_numpy", _) => ty.rank().max(1) as i64,
            (_, Some(n)) => n as i64,
            ("split" | "unsafe_split" | "split_copy", None) => {
                match (args.get(1), size_of(self, args.get(2), 0)?) {
                    (Some(Value::Int(size)), whole) if *size > 0 => ((whole + size - 1) / size).max(1),
                    (Some(Value::Int(0)), 0) => 1,
                    _ => return Err(Stop::Raised("split expects sizes of parts of at least 1".to_owned())),
                }
            }
            ("chunk" | "unsafe_chunk", None) => match (args.get(1), size_of(self, args.get(2), 0)?) {
                (Some(Value::Int(n)), 0) if *n > 0 => *n,
                (Some(Value::Int(n)), whole) if *n > 0 => {
                    let size = (whole + n - 1) / n;
                    (whole + size - 1) / size
                }
                _ => return Err(Stop::Raised("chunk expects `chunks` to be greater than 0".to_owned())),
            },
            _ => return Err(unknown(self)),
        };
        usize::try_from(n).map_err(|_| unknown(self))
    }
}

/// Whether an operator gives one list of tensors.
fn has_parts(schema: &Schema) -> bool {
    matches!(schema.returns.as_deref(), Some([Type::List(item)]) if **item == Type::Tensor)
}

fn row_major(ty: &crate::TensorType) -> Vec<Dim> {
    let mut strides = Vec::with_capacity(ty.rank());
    let mut stride = Dim::new(1);
    for size in ty.shape.iter().rev() {
        strides.push(stride.clone());
        stride = &stride * size;
    }
    strides.reverse();
    strides
}

fn is_default(value: &Value, default: &ParamDefault) -> bool {
    match (value, default) {
        (Value::Bool(a), ParamDefault::Bool(b)) => a == b,
        (Value::Int(a), ParamDefault::Int(b)) => a == b,
        (Value::Float(a), ParamDefault::Float(b)) => a.to_bits() == b.to_bits(),
        (Value::Str(a), ParamDefault::Str(b)) => ***a == **b,
        _ => false,
    }
}

/// Imports the one call of a graph.
fn import<'b>(
    builder: &mut Builder<'b>,
    source: &'b schema::Graph,
    entries: &'b [(String, Entry)],
    n_results: usize,
    is_list: bool,
) -> Attempt<Raw> {
    for (name, entry) in entries {
        builder.define(name, entry.clone())?;
    }
    let out = aten::import(builder, &source.nodes[0])?;
    raw(builder, out, n_results, is_list)
}

fn raw(builder: &mut Builder<'_>, out: Out, n_results: usize, is_list: bool) -> Attempt<Raw> {
    Ok(match out {
        Out::Nothing => Raw::Nothing,
        Out::View(view) => Raw::Tensor(view),
        Out::Value(arg) => Raw::Arg(arg),
        Out::Many(parts) => {
            let parts = parts.into_iter().map(|part| raw(builder, part, 1, false));
            let mut parts = parts.collect::<Attempt<Vec<_>>>()?;
            if !is_list && n_results == 1 && parts.len() == 1 { parts.remove(0) } else { Raw::Many(parts) }
        }
        Out::Node(node) => {
            let ty = builder.graph.node(node)?.ty().cloned();
            match ty {
                Some(TypeTree::Leaf(crate::Type::Tensor(_))) => {
                    Raw::Tensor(builder.fresh(node, Origin::Local))
                }
                Some(ty) if ty.items().is_some() => {
                    let n = ty.items().map_or(0, <[_]>::len);
                    let mut parts = Vec::with_capacity(n);
                    for i in 0..n {
                        let part = builder.call("getitem", [Arg::Leaf(node), Arg::Int(i as i64)])?;
                        parts.push(raw(builder, Out::Node(part), 1, false)?);
                    }
                    if !is_list && n_results == 1 && parts.len() == 1 {
                        parts.remove(0)
                    } else {
                        Raw::Many(parts)
                    }
                }
                Some(Arg::Dim(dim)) => Raw::Arg(Arg::Dim(dim)),
                Some(_) => Raw::Arg(Arg::Leaf(node)),
                None => {
                    let name = builder.graph.node(node)?.name().to_owned();
                    return Err(err!(Load, "the type of %{name} is not known").into());
                }
            }
        }
    })
}

/// Whether a known value is complex.
fn is_complex(value: &Value) -> bool {
    match value {
        Value::Complex(_) => true,
        Value::Tensor(tensor) => tensor.is_complex(),
        _ => false,
    }
}
