//! The interpreter of tensors, which knows nothing of graph modules but the tables of their paths.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;

use super::bindings::Bindings;
use crate::attribute::Parts;
use crate::interp::{Interpreter, NodeRef, Run, Schedule, interpret, interpret_with};
use crate::{
    Arg, Attribute, Dim, Error, Graph, Node, NodeId, NodeMeta, Op, OpCode, Result, SourceLoc, Tensor, Type,
    TypeTree, Value, bail, err,
};

/// What is called with a node and its value; what it returns takes the value's place.
pub(super) type HookFn<'a> = Box<dyn FnMut(&Node, Value) -> Result<Value> + 'a>;

/// The interpreter of tensors.
#[derive(Default)]
pub(super) struct Evaluator<'a> {
    /// The name of the graph module, for messages.
    pub(super) name: &'a str,
    /// What the paths of the graph refer to.
    pub(super) parts: Parts<'a>,
    /// What a closed graph reads, in the order of the paths.
    pub(super) given: &'a [(Arc<str>, Tensor)],
    pub(super) bindings: Bindings,
    /// The new values of buffers and state, by path.
    pub(super) updates: BTreeMap<Arc<str>, Value>,
    pub(super) hooks: FxHashMap<NodeId, Vec<HookFn<'a>>>,
    /// The time of each node, if that is asked for.
    pub(super) profile: Option<Vec<(String, Duration)>>,
    pub(super) started: Option<Instant>,
}

impl Evaluator<'_> {
    /// Binds the sizes that depend on data to those of a result.
    fn bind_free(&mut self, node: &Node, value: &Value) -> Result<()> {
        match node.ty() {
            Some(ty) if has_free_symbols(ty, &self.bindings) => self.bindings.bind(ty, value),
            _ => Ok(()),
        }
    }

    fn start(&mut self) {
        if self.profile.is_some() {
            self.started = Some(Instant::now());
        }
    }
}

impl Interpreter for Evaluator<'_> {
    type Leaf = Tensor;

    fn placeholder(&mut self, node: NodeRef<'_>, input: Value) -> Result<Value> {
        self.start();
        if let Some(ty) = node.node.ty() {
            self.bindings.bind(ty, &input).map_err(|error| {
                Error::new(error.kind(), format!("argument {:?}: {}", node.node.name(), error.message()))
            })?;
        }
        Ok(input)
    }

    fn get_attr(&mut self, _node: NodeRef<'_>, path: &Arc<str>) -> Result<Value> {
        self.start();
        match self.parts.attribute(path) {
            Some(attribute) => {
                if let Some(symbol) = crate::trace::symbol_for(attribute) {
                    return symbol.map(Arg::Leaf);
                }
                if let Attribute::State(state) = attribute {
                    if crate::trace::is_tracing() {
                        return Err(untraced(path));
                    }
                    return Ok(state.load());
                }
                Ok(Arg::Leaf(match attribute {
                    // While the graph module is traced again, a buffer is read as a symbol.
                    Attribute::Buffer(buffer) => buffer.get(),
                    attribute => attribute.tensor(),
                }))
            }
            None if self.parts.is_closed() => {
                match self.given.binary_search_by(|(other, _)| other.cmp(path)) {
                    Ok(at) => Ok(Arg::Leaf(self.given[at].1.clone())),
                    Err(_) => bail!(Graph, "a closed sub-graph reads the attribute {path:?}"),
                }
            }
            None => Err(self.parts.no_attribute(self.name, path)),
        }
    }

    fn call_function(&mut self, node: NodeRef<'_>, op: Op, args: &[Value]) -> Result<Value> {
        self.start();
        if crate::ops::is_store(op)
            && let [Arg::Str(path), value] = args
            && !self.parts.is_closed()
        {
            if crate::trace::is_tracing()
                && let (Some(Attribute::Buffer(buffer)), Arg::Leaf(value)) =
                    (self.parts.attribute(path), value)
                && let Some(recorded) = crate::trace::write_buffer(buffer, value)
            {
                return recorded.map(|()| Arg::None);
            }
            if crate::trace::is_tracing()
                && let Some(attribute @ Attribute::State(_)) = self.parts.attribute(path)
            {
                // Where only types are asked for, state stays.
                return if crate::trace::symbol_for(attribute).is_some() {
                    Ok(Arg::None)
                } else {
                    Err(untraced(path))
                };
            }
            self.updates.insert(path.clone(), value.clone());
            return Ok(Arg::None);
        }
        let is_method = node.node.opcode() == OpCode::CallMethod;
        let meta = node.node.meta();
        let value = if crate::trace::is_tracing() {
            crate::trace::with_origin(meta, || call(op, is_method, args, meta))?
        } else {
            call(op, is_method, args, meta)?
        };
        self.bind_free(node.node, &value)?;
        Ok(value)
    }

    fn call_with(&mut self, node: NodeRef<'_>, op: Op, args: &mut [Value]) -> Result<Value> {
        let Some(eval) =
            op.eval_in_place.filter(|_| !crate::trace::is_tracing() && !crate::lazy::is_following())
        else {
            return self.call_function(node, op, args);
        };
        self.start();
        let value = eval(args)?;
        self.bind_free(node.node, &value)?;
        Ok(value)
    }

    fn call_module(&mut self, node: NodeRef<'_>, path: &Arc<str>, args: &[Value]) -> Result<Value> {
        self.start();
        let child = match self.parts.child(path) {
            Some(child) => child,
            None if self.parts.is_closed() => bail!(Graph, "a closed sub-graph calls the module {path:?}"),
            None => return Err(self.parts.no_child(self.name, path)),
        };
        let value = if crate::trace::is_tracing() {
            crate::trace::with_origin(node.node.meta(), || crate::trace::call_child(child, args))?
        } else {
            crate::trace::run_module(child, args)?
        };
        self.bind_free(node.node, &value)?;
        Ok(value)
    }

    fn dim(&mut self, dim: &Dim) -> Result<Value> {
        match self.bindings.value(dim) {
            Some(value) => Ok(Arg::dim(value)),
            None => Err(dim
                .eval(&|symbol| self.bindings.get(symbol)?.known())
                .err()
                .unwrap_or_else(|| err!(Unresolved, "the size {dim} is not known"))),
        }
    }

    fn after(&mut self, node: NodeRef<'_>, mut value: Value) -> Result<Value> {
        if let (Some(profile), Some(started)) = (&mut self.profile, self.started.take()) {
            profile.push((node.node.name().to_owned(), started.elapsed()));
        }
        if !self.hooks.is_empty()
            && let Some(hooks) = self.hooks.get_mut(&node.id)
        {
            for hook in hooks {
                value = hook(node.node, value)?;
            }
        }
        Ok(value)
    }
}

fn untraced(path: &str) -> Error {
    err!(Trace, "the state {path:?} cannot be traced").help("inline the module instead: `fx::pass::INLINE`")
}

fn has_free_symbols(ty: &TypeTree, bindings: &Bindings) -> bool {
    let free =
        |dim: &Dim| !dim.is_known() && dim.symbols().iter().any(|symbol| bindings.get(symbol).is_none());
    match ty {
        Arg::Leaf(Type::Tensor(ty)) => ty.shape.iter().any(free),
        Arg::Dim(dim) => free(dim),
        Arg::Tuple(items) | Arg::List(items) => items.iter().any(|item| has_free_symbols(item, bindings)),
        _ => false,
    }
}

/// Runs an operation on values in schema order, or records it where one of them is a symbol of an outer trace.
fn call(op: Op, is_method: bool, args: &[Value], meta: &NodeMeta) -> Result<Value> {
    let mut symbolic = false;
    for arg in args {
        arg.for_each_leaf(&mut |tensor| symbolic |= tensor.is_symbolic());
    }
    if symbolic || crate::trace::is_tracing() || crate::lazy::is_following() {
        let (args, kwargs) = op.spell(args);
        let kwargs: Vec<(&str, Value)> = kwargs.iter().map(|(key, arg)| (&**key, arg.clone())).collect();
        let source = meta.source.clone().unwrap_or_else(SourceLoc::caller);
        return crate::trace::apply_at(op, is_method, &args, &kwargs, source);
    }
    let value = (op.eval)(args)?;
    match value.error() {
        Some(error) => Err(error.clone()),
        None => Ok(value),
    }
}

/// Evaluates a closed sub-graph on operands.
pub(crate) fn run_closed(graph: &Graph, args: &[Value]) -> Result<Value> {
    let mut it = Evaluator::default();
    interpret(graph, &mut it, args.to_vec())
}

/// Evaluates a prepared closed sub-graph on operands.
pub(crate) fn run_prepared(graph: &Graph, schedule: &Schedule, args: Vec<Value>) -> Result<Value> {
    let mut it = Evaluator::default();
    let outcome = interpret_with(graph, schedule, &mut it, Run::new(args))?;
    outcome.output.ok_or_else(|| err!(Graph, "the graph has no output"))
}

/// Evaluates a graph without inputs that reads the attributes `given`, in the order of their paths.
pub(crate) fn run_with(graph: &Graph, given: &[(Arc<str>, Tensor)]) -> Result<Value> {
    let mut it = Evaluator { given, ..Evaluator::default() };
    interpret(graph, &mut it, Vec::new())
}
