//! A graph as a method: a statement a node, with closed sub-graphs written in place.

use std::collections::HashMap;

use super::names::{self, Names};
use super::rows::{self, How};
use super::value::{Scope, Ty, Value, float};
use crate::op::kind::Kind;
use crate::{
    Arg, DType, Error, Graph, GraphModule, Node, NodeId, Op, Result, SourceLoc, Target, Type, TypeTree, bail,
    err, ops,
};

/// What the methods `forward` of modules return, by the address of the module, which is its own while all are
/// borrowed.
#[derive(Default)]
pub(super) struct Signatures(HashMap<*const GraphModule, Ty>);

impl Signatures {
    pub(super) fn insert(&mut self, gm: &GraphModule, output: Ty) {
        self.0.insert(std::ptr::from_ref(gm), output);
    }
}

/// Where the user wrote a node, and the node as text.
pub(super) type Place = (SourceLoc, String);

/// A method.
pub(super) struct Method {
    /// Its code, indented as a member of a class.
    pub(super) text: String,
    /// Where the user wrote the statement of a line, for lines that are known.
    pub(super) places: Vec<(usize, Place)>,
    /// What it returns.
    pub(super) output: Ty,
    /// The version of the format from which on its operators mean what the graph means.
    pub(super) version: u32,
}

/// Writes a graph of a module as a method of `class`.
pub(super) fn method(
    gm: &GraphModule,
    method: &str,
    graph: &Graph,
    class: &str,
    signatures: &Signatures,
) -> Result<Method> {
    let mut writer = Writer {
        scope: Scope::default(),
        graph,
        module: gm,
        signatures,
        names: Names::default(),
        lines: String::new(),
        n_lines: 0,
        place: None,
        places: Vec::new(),
        indent: 2,
        updates: Vec::new(),
        version: 0,
    };
    let mut params = format!("self: {class}");
    for input in graph.inputs() {
        let ty = Ty::of(&tree_type(graph, &input.tree)?)?;
        let name = writer.names.fresh(&input.name);
        params += &format!(",\n    {name}: {ty}");
        writer.bind(&input.tree, &Value::new(name, ty))?;
    }
    let output = writer.body()?;
    for (path, value) in std::mem::take(&mut writer.updates) {
        writer.line(&format!("{} = {value}", names::path(&path)));
    }
    writer.line(&format!("return {}", output.text));
    let head = format!("  def {method}({params}) -> {}:\n", output.ty);
    let n_lines = head.matches('\n').count();
    let places = writer.places.into_iter().map(|(line, place)| (line + n_lines, place)).collect();
    Ok(Method { text: head + &writer.lines, places, output: output.ty, version: writer.version })
}

/// Returns the type of a structure of nodes.
fn tree_type(graph: &Graph, tree: &Arg) -> Result<TypeTree> {
    tree.try_flat_map(&mut |id| {
        let ty = graph.node(*id)?.ty().cloned();
        Ok(ty.unwrap_or(Arg::Leaf(Type::Any)))
    })
}

/// A call of an operation with all arguments in the order of its parameters.
pub(super) struct Call<'a> {
    pub(super) op: Op,
    args: Vec<Arg>,
    node: &'a Node,
}

impl Call<'_> {
    fn position(&self, name: &str) -> Result<usize> {
        let at = self.op.params.iter().position(|param| param.name == name);
        at.ok_or_else(|| err!(Argument, "{} has no parameter {name:?}", self.op.name))
    }

    /// Returns the argument for a parameter.
    pub(super) fn arg(&self, name: &str) -> Result<&Arg> {
        self.position(name).map(|at| &self.args[at])
    }

    /// Returns the argument for a parameter as code.
    pub(super) fn text(&self, writer: &Writer<'_>, name: &str) -> Result<String> {
        let at = self.position(name)?;
        let (param, arg) = (&self.op.params[at], &self.args[at]);
        match (param.name, arg) {
            ("reduction", Arg::Str(reduction)) => {
                let numbers = ["none", "mean", "sum"];
                let at = numbers.iter().position(|name| **name == **reduction);
                let at =
                    at.ok_or_else(|| err!(Unresolved, "PyTorch has no number for reduction {reduction:?}"))?;
                Ok(at.to_string())
            }
            _ => writer.scope.argument(arg, param.kind),
        }
    }

    /// Returns whether the argument for a parameter is true; a parameter that there is not is false.
    pub(super) fn is_true(&self, name: &str) -> bool {
        matches!(self.arg(name), Ok(Arg::Bool(true)))
    }

    /// Checks that parameters which the operator lacks have their default.
    pub(super) fn must_be_default(&self, names: &[&str]) -> Result<()> {
        for name in names {
            let at = self.position(name)?;
            if !self.op.params[at].default.is_some_and(|default| default.is(&self.args[at])) {
                bail!(Unresolved, "PyTorch's operator {} has no argument {name:?}", self.op.name);
            }
        }
        Ok(())
    }
}

pub(super) struct Writer<'a> {
    pub(super) scope: Scope,
    graph: &'a Graph,
    module: &'a GraphModule,
    signatures: &'a Signatures,
    names: Names,
    lines: String,
    n_lines: usize,
    /// The place of the present node.
    place: Option<Place>,
    /// The places of lines, by their number.
    places: Vec<(usize, Place)>,
    /// The depth of the present statement, in steps of two spaces.
    indent: usize,
    /// The buffers that are set at the end: reads see them as they were when the call began.
    updates: Vec<(String, String)>,
    version: u32,
}

impl<'a> Writer<'a> {
    /// Writes a statement.
    pub(super) fn line(&mut self, text: &str) {
        if let Some(place) = &self.place {
            self.places.push((self.n_lines, place.clone()));
        }
        self.n_lines += 1;
        self.lines.extend(std::iter::repeat_n("  ", self.indent));
        self.lines.push_str(text);
        self.lines.push('\n');
    }

    /// Writes an assignment; returns the name.
    pub(super) fn assign(&mut self, wanted: &str, value: Value) -> Value {
        let name = self.names.fresh(wanted);
        self.line(&format!("{name} = {}", value.text));
        Value::new(name, value.ty)
    }

    /// Returns a value as a test of `if`, `while` and `assert`.
    pub(super) fn test(&self, value: &Value) -> String {
        if value.ty == Ty::Bool { value.text.clone() } else { format!("bool({})", value.text) }
    }

    /// Returns the dtype of an argument, if it is known.
    pub(super) fn dtype(&self, arg: &Arg) -> Option<DType> {
        let node = self.graph.node(*arg.leaf()?).ok()?;
        node.ty()?.tensor().map(|ty| ty.dtype)
    }

    /// Returns the number of axes of an argument. Fails if it is not known.
    pub(super) fn rank(&self, arg: &Arg) -> Result<usize> {
        let node = arg.leaf().map(|id| self.graph.node(*id)).transpose()?;
        let ty = node.and_then(|node| node.ty()?.tensor());
        ty.map(|ty| ty.rank()).ok_or_else(|| {
            err!(Argument, "the number of axes of an operand is not known")
                .help("trace with the types of the inputs")
        })
    }

    /// Writes a call of an operator in a form where `{name}` is the argument for a parameter.
    pub(super) fn format(&self, call: &Call<'_>, form: &str) -> Result<Value> {
        let mut text = String::new();
        let mut rest = form;
        while let Some((before, after)) = rest.split_once('{') {
            let (name, after) = after.split_once('}').expect("forms have closed braces");
            text += before;
            text += &call.text(self, name)?;
            rest = after;
        }
        text += rest;
        self.typed(call, text)
    }

    /// Returns code with the type of the result of a call.
    pub(super) fn typed(&self, call: &Call<'_>, text: String) -> Result<Value> {
        let ty = match (call.node.ty(), call.op.returns) {
            (Some(ty), _) => Ty::of(ty)?,
            (None, "Vec<Tensor>") => Ty::List(Box::new(Ty::Tensor)),
            (None, returns) => match returns.matches("Tensor").count() {
                0 | 1 => Ty::Tensor,
                n => Ty::Tuple(vec![Ty::Tensor; n]),
            },
        };
        Ok(Value::new(text, ty))
    }

    /// Names the leaves of a structure, which is a value.
    fn bind(&mut self, tree: &Arg, value: &Value) -> Result<()> {
        match tree {
            Arg::Leaf(id) => self.define(*id, value.clone()),
            Arg::Tuple(items) | Arg::List(items) => {
                items.iter().zip(0..).try_for_each(|(item, at)| self.bind(item, &value.item(at)?))
            }
            Arg::Dict(entries) => entries.iter().try_for_each(|(key, item)| {
                let Ty::Dict(ty) = &value.ty else { return Ok(()) };
                if **ty == Ty::Any {
                    return Err(err!(Argument, "TorchScript takes no dictionary of values of several types")
                        .help("pass the values one by one, or in a tuple"));
                }
                let text = format!("{}[{}]", value.text, names::text(key));
                self.bind(item, &Value::new(text, (**ty).clone()))
            }),
            // The graph was made for this literal.
            _ => Ok(()),
        }
    }

    /// Takes an expression as the value of a node; sizes that are new symbols are known from it.
    fn define(&mut self, id: NodeId, value: Value) -> Result<()> {
        let node = self.graph.node(id)?;
        let mut learn = |symbol: &crate::Symbol, text: String| {
            self.scope.symbols.entry((symbol.name().to_owned(), symbol.owner())).or_insert(text);
        };
        match node.ty() {
            Some(Arg::Dim(dim)) => {
                if let Some(symbol) = dim.as_symbol() {
                    learn(symbol, value.text.clone());
                }
            }
            Some(ty) => {
                for (axis, dim) in ty.tensor().iter().flat_map(|ty| ty.shape.iter().enumerate()) {
                    if let Some(symbol) = dim.as_symbol() {
                        learn(symbol, format!("torch.size({}, {axis})", value.text));
                    }
                }
            }
            None => {}
        }
        self.scope.nodes.insert(id, value);
        Ok(())
    }

    /// Writes all nodes of the present graph; returns its output.
    fn body(&mut self) -> Result<Value> {
        let graph = self.graph;
        let outer = self.place.take();
        for (id, node) in graph.nodes() {
            let placed = |error: Error| {
                let error = match &node.meta().source {
                    Some(source) => error.at(source.clone()),
                    None => error,
                };
                error.in_context(|| graph.format_node(id).unwrap_or_default())
            };
            let place = node.meta().source.clone();
            self.place = place.map(|place| (place, graph.format_node(id).unwrap_or_default()));
            let value = match node.target() {
                Target::Placeholder | Target::Output => continue,
                Target::GetAttr(path) => {
                    self.module.attribute(path).map_err(placed)?;
                    Some(Value::new(names::path(path), Ty::Tensor))
                }
                Target::CallModule(path) => Some(self.call_module(path, node).map_err(placed)?),
                Target::CallFunction(op) | Target::CallMethod(op) => self.call(*op, node).map_err(placed)?,
            };
            if let Some(value) = value {
                let name = self.assign(node.name(), value);
                self.define(id, name)?;
            }
        }
        self.place = outer;
        self.scope.value(graph.output())
    }

    /// Writes a closed graph in place of a call of it; returns its output.
    fn inline(&mut self, graph: &'a Graph, operands: &[Value]) -> Result<Value> {
        let placeholders = graph.placeholders();
        if placeholders.len() != operands.len() {
            bail!(Graph, "{} takes {} operands, got {}", graph.name(), placeholders.len(), operands.len());
        }
        let outer = std::mem::replace(&mut self.graph, graph);
        let nodes = std::mem::take(&mut self.scope.nodes);
        let symbols = self.scope.symbols.clone();
        let written = placeholders
            .into_iter()
            .zip(operands)
            .try_for_each(|(id, operand)| self.define(id, operand.clone()))
            .and_then(|()| self.body());
        self.graph = outer;
        self.scope = Scope { nodes, symbols };
        written
    }

    fn call_module(&mut self, path: &str, node: &Node) -> Result<Value> {
        let child = self.module.child(path)?;
        let child = child.as_module().as_any().downcast_ref::<GraphModule>();
        let output = child.and_then(|child| self.signatures.0.get(&std::ptr::from_ref(child)));
        let output = output.ok_or_else(|| err!(Argument, "the sub-module {path:?} is not a graph"))?.clone();
        let mut args = Vec::new();
        for arg in node.args() {
            args.push(self.scope.value(arg)?.text);
        }
        for (name, arg) in node.kwargs() {
            args.push(format!("{name}={}", self.scope.value(arg)?.text));
        }
        let args: String = args.iter().map(|arg| format!("{arg}, ")).collect();
        Ok(Value::new(format!("({}).forward({args})", names::path(path)), output))
    }

    /// Writes a call of an operation; returns its value if it has one.
    fn call(&mut self, op: Op, node: &'a Node) -> Result<Option<Value>> {
        let args = op.bind(node.args(), node.kwargs())?;
        if op == ops::set_buffer::OP {
            let Arg::Str(path) = &args[0] else { bail!(Argument, "expected the path of a buffer") };
            let value = self.scope.value(&args[1])?.text;
            self.updates.push((path.to_string(), value));
            return Ok(None);
        }
        if op == ops::cond::OP {
            return self.branch(&args, node).map(Some);
        }
        if op == ops::while_loop::OP {
            return self.repeat(&args, node).map(Some);
        }
        if op == ops::wait::OP {
            return self.scope.value(&args[0]).map(Some);
        }
        // Independent work runs side by side in any case.
        if let ("fused" | "fork", [Arg::Graph(_), operands]) = (op.name, &args[..]) {
            let operands = self.operands(operands)?;
            let graph = subgraph(node, 0)?;
            return self.inline(graph, &operands).map(Some);
        }
        if crate::registry().get(op.name) != Some(op) {
            return Err(err!(Unresolved, "PyTorch has no operator {:?}", op.name).help(
                "replace it with operations that PyTorch has, such as by a rewrite rule or `decompose`",
            ));
        }
        self.version = self.version.max(rows::version(op.name));
        let call = Call { op, args, node };
        if let Some(schema) = crate::library::schema_of(op) {
            let name = schema.name.replace("::", ".");
            return self.plain(&call, &format!("ops.{name}"), Given::NoDefaults).map(Some);
        }
        let operands = self.numbers(&call)?;
        if let Some(operands) = operands {
            return rows::number(&call, &operands).map(Some);
        }
        match rows::find(op.name) {
            Some(How::Write(write)) => write(self, &call),
            Some(How::Name(name)) => self.plain(&call, name, Given::NoDefaults),
            Some(How::All) => self.plain(&call, &format!("torch.{}", op.name), Given::All),
            Some(How::Positional(name, params)) => {
                let rest = op.params.iter().map(|param| param.name).filter(|name| !params.contains(name));
                call.must_be_default(&rest.collect::<Vec<_>>())?;
                let args = params.iter().map(|name| call.text(self, name)).collect::<Result<Vec<_>>>()?;
                self.typed(&call, format!("{name}({})", args.join(", ")))
            }
            None => self.plain(&call, &format!("torch.{}", op.name), Given::NoDefaults),
        }
        .map(Some)
    }

    /// Returns the operands of a pointwise operation if all are numbers of the host.
    fn numbers(&self, call: &Call<'_>) -> Result<Option<Vec<Value>>> {
        let mut operands = Vec::new();
        for (param, arg) in call.op.params.iter().zip(&call.args) {
            if param.kind != Kind::Operand && param.kind.is_tensor() {
                return Ok(None);
            }
            if param.kind == Kind::Operand {
                let value = self.scope.value(arg)?;
                if !value.ty.is_number() {
                    return Ok(None);
                }
                operands.push(value);
            }
        }
        Ok(if operands.is_empty() { None } else { Some(operands) })
    }

    /// Writes a call whose arguments have PyTorch's names: tensors first by position, the rest by name.
    fn plain(&mut self, call: &Call<'_>, function: &str, given: Given) -> Result<Value> {
        let mut parts = Vec::new();
        let mut by_name = false;
        let operand_dtype = call.args.iter().find_map(|arg| self.dtype(arg));
        for (at, (param, arg)) in call.op.params.iter().zip(&call.args).enumerate() {
            let is_default = param.default.is_some_and(|default| default.is(arg));
            let is_absent = matches!(arg, Arg::None) && param.default.is_some();
            if is_absent || is_default && given == Given::NoDefaults {
                by_name = true;
                continue;
            }
            let mut text = call.text(self, param.name)?;
            if let (Kind::Operand, &Arg::Float(x)) = (param.kind, arg)
                && operand_dtype != Some(DType::F64)
            {
                text = float(in_f32(x));
            }
            if param.kind == Kind::Operand {
                let value = self.scope.value(arg)?;
                // A truth value is an int to operators that take numbers.
                let is_taken = rows::takes_number(call.op.name, at) && value.ty != Ty::Bool;
                if value.ty.is_number() && !is_taken {
                    text = rows::tensor_of(&value, operand_dtype);
                }
            }
            by_name |= at > 0 && (param.keyword_only || !param.kind.is_tensor());
            parts.push(if by_name { format!("{}={text}", param.name) } else { text });
        }
        self.typed(call, format!("{function}({})", parts.join(", ")))
    }

    fn operands(&self, arg: &Arg) -> Result<Vec<Value>> {
        let Some(items) = arg.items() else { bail!(Argument, "expected a list of operands") };
        items.iter().map(|item| self.scope.value(item)).collect()
    }

    /// Writes `cond` as `if`.
    fn branch(&mut self, args: &[Arg], node: &'a Node) -> Result<Value> {
        let test = self.scope.value(&args[0])?;
        let operands = self.operands(&args[3])?;
        let test = self.test(&test);
        let name = self.names.fresh(node.name());
        let mut types = Vec::new();
        for (head, which) in [(format!("if {test}:"), 0), ("else:".to_owned(), 1)] {
            self.line(&head);
            self.indent += 1;
            let written = self.inline(subgraph(node, which)?, &operands);
            if let Ok(value) = &written {
                self.line(&format!("{name} = {}", value.text));
            }
            self.indent -= 1;
            types.push(written?.ty);
        }
        match &types[..] {
            [then, otherwise] if then == otherwise => Ok(Value::new(name, then.clone())),
            [then, otherwise] => {
                bail!(Argument, "the branches give {then} and {otherwise}, which TorchScript cannot join")
            }
            _ => bail!(Graph, "expected two branches"),
        }
    }

    /// Writes `while_loop` as `while`.
    fn repeat(&mut self, args: &[Arg], node: &'a Node) -> Result<Value> {
        let captured = self.operands(&args[3])?;
        let initial = self.operands(&args[2])?;
        let carried: Vec<Value> = initial
            .into_iter()
            .enumerate()
            .map(|(at, value)| self.assign(&format!("{}_{at}", node.name()), value))
            .collect();
        let all: Vec<Value> = carried.iter().chain(&captured).cloned().collect();
        let (test, body) = (subgraph(node, 0)?, subgraph(node, 1)?);
        let first = self.inline(test, &all)?;
        let go_on = Value::new(self.test(&first), Ty::Bool);
        let go_on = self.assign("go_on", go_on);
        self.line(&format!("while {}:", go_on.text));
        self.indent += 1;
        let next = self.inline(body, &all)?;
        let next = self.assign("next", next);
        for (at, value) in carried.iter().enumerate() {
            let item = next.item(at as i64)?;
            if item.ty != value.ty {
                bail!(
                    Argument,
                    "a carried value changes from {} to {}, which TorchScript cannot do",
                    value.ty,
                    item.ty
                );
            }
            self.line(&format!("{} = {}", value.text, item.text));
        }
        let again = self.inline(test, &all)?;
        let again = self.test(&again);
        self.line(&format!("{} = {again}", go_on.text));
        self.indent -= 1;
        let texts: String = carried.iter().map(|value| format!("{}, ", value.text)).collect();
        let types = carried.into_iter().map(|value| value.ty).collect();
        Ok(Value::new(format!("({})", texts.trim_end()), Ty::Tuple(types)))
    }
}

/// Which arguments a call is written with.
#[derive(Clone, Copy, PartialEq)]
enum Given {
    /// Without those that have the default of the operator.
    NoDefaults,
    All,
}

/// Returns a number that f32 rounds to its greatest one as that: PyTorch refuses numbers beyond.
fn in_f32(x: f64) -> f64 {
    let greatest = f64::from(f32::MAX);
    if x.abs() > greatest && (x as f32).is_finite() { greatest.copysign(x) } else { x }
}

/// Returns a sub-graph among the arguments of a node.
fn subgraph(node: &Node, which: usize) -> Result<&Graph> {
    let graph = node.subgraphs().get(which).map(|graph| &***graph);
    graph.ok_or_else(|| err!(Graph, "expected a sub-graph as argument of %{}", node.name()))
}
