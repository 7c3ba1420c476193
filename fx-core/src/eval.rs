//! Evaluation: the interpreter of tensors, with hooks, buffer updates and symbolic sizes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rustc_hash::FxHashMap;

use crate::graph_module::GraphModule;
use crate::interp::{Interpreter, NodeRef, Outcome, Run, interpret, interpret_with};
use crate::node::OpCode;
use crate::{
    Arg, Dim, Graph, Node, NodeId, Op, Result, Symbol, Tensor, TensorType, Type, TypeTree, Value, bail, err,
};

/// The values of symbolic sizes, bound by the shapes that arrive. In a graph that is traced again they may be
/// sizes of the outer trace.
#[derive(Default, Debug, Clone)]
pub(crate) struct Bindings {
    known: FxHashMap<Arc<str>, Dim>,
    /// Symbols of the outer trace without a known shape, by the axis at which a symbol stands alone.
    unread: Vec<(Arc<str>, Tensor, i64)>,
    /// Sizes that tell no symbol and have symbols that are not bound yet, with what they are.
    unchecked: Vec<(Dim, Dim)>,
}

impl Bindings {
    pub(crate) fn get(&self, symbol: &Symbol) -> Option<Dim> {
        self.known.get(symbol.name()).cloned()
    }

    /// Returns the value of a size, if all its symbols are bound.
    fn value(&mut self, dim: &Dim) -> Option<Dim> {
        for symbol in dim.symbols() {
            if self.get(&symbol).is_none() {
                let (name, tensor, axis) = self.unread.iter().find(|(name, ..)| **name == *symbol.name())?;
                let (name, size) = (name.clone(), tensor.dim(*axis));
                self.known.insert(name, size);
            }
        }
        Some(dim.substitute(&|symbol| self.get(symbol)))
    }

    /// Binds the symbols of a declared type to the sizes of a value, and checks everything that is known.
    pub(crate) fn bind(&mut self, declared: &TypeTree, value: &Value) -> Result<()> {
        match (declared, value) {
            (Arg::Leaf(Type::Tensor(ty)), Arg::Leaf(tensor)) => {
                if let Ok(array) = tensor.array() {
                    if array.dtype() != ty.dtype || array.rank() != ty.rank() {
                        bail!(Shape, "expected {ty}, got {}", array.describe());
                    }
                    for (dim, &size) in ty.shape.iter().zip(array.shape()) {
                        if dim.known() != Some(size as i64) {
                            self.bind_dim(dim, &Dim::from(size)).map_err(|error| {
                                err!(Shape, "expected {ty}, got {}: {}", array.describe(), error.message())
                            })?;
                        }
                    }
                    return Ok(());
                }
                match tensor.ty() {
                    Ok(got) => self.bind_tensor(ty, &got),
                    Err(_) => {
                        for (axis, dim) in ty.shape.iter().enumerate() {
                            if let Some(symbol) = dim.as_symbol() {
                                self.unread.push((Arc::from(symbol.name()), tensor.clone(), axis as i64));
                            }
                        }
                        Ok(())
                    }
                }
            }
            (Arg::Dim(dim), Arg::Int(n)) => self.bind_dim(dim, &Dim::new(*n)),
            (Arg::Dim(dim), Arg::Dim(size)) => self.bind_dim(dim, size),
            (Arg::Tuple(a) | Arg::List(a), Arg::Tuple(b) | Arg::List(b)) => {
                a.iter().zip(b.iter()).try_for_each(|(a, b)| self.bind(a, b))
            }
            (Arg::Dict(a), Arg::Dict(b)) => {
                a.iter().try_for_each(|(key, a)| b.get(key).map_or(Ok(()), |b| self.bind(a, b)))
            }
            _ => Ok(()),
        }
    }

    fn bind_tensor(&mut self, ty: &TensorType, got: &TensorType) -> Result<()> {
        if got.dtype != ty.dtype || got.rank() != ty.rank() {
            bail!(Shape, "expected {ty}, got {got}");
        }
        ty.shape.iter().zip(got.shape.iter()).try_for_each(|(dim, size)| {
            self.bind_dim(dim, size)
                .map_err(|error| err!(Shape, "expected {ty}, got {got}: {}", error.message()))
        })
    }

    /// Binds the symbols of a declared type to the sizes of another, and checks everything that is known.
    pub(crate) fn bind_type(&mut self, declared: &TypeTree, given: &TypeTree) -> Result<()> {
        match (declared, given) {
            (Arg::Leaf(Type::Tensor(ty)), Arg::Leaf(Type::Tensor(got))) => self.bind_tensor(ty, got),
            (Arg::Dim(dim), Arg::Int(n)) => self.bind_dim(dim, &Dim::new(*n)),
            (Arg::Dim(dim), Arg::Dim(size)) => self.bind_dim(dim, size),
            (Arg::Tuple(a) | Arg::List(a), Arg::Tuple(b) | Arg::List(b)) => {
                a.iter().zip(b.iter()).try_for_each(|(a, b)| self.bind_type(a, b))
            }
            (Arg::Leaf(Type::Tensor(ty)), other) if !matches!(other, Arg::Leaf(Type::Any)) => {
                bail!(Structure, "expected {ty}, got {other}")
            }
            _ => Ok(()),
        }
    }

    fn bind_dim(&mut self, dim: &Dim, size: &Dim) -> Result<()> {
        let n_known = self.known.len();
        self.bind_one(dim, size)?;
        if self.known.len() > n_known {
            for (dim, size) in std::mem::take(&mut self.unchecked) {
                self.bind_dim(&dim, &size)?;
            }
        }
        Ok(())
    }

    fn bind_one(&mut self, dim: &Dim, size: &Dim) -> Result<()> {
        let free: Vec<Symbol> =
            dim.symbols().into_iter().filter(|symbol| self.get(symbol).is_none()).collect();
        if let (Some(symbol), [_]) = (dim.as_symbol(), &free[..])
            && !size.is_known()
        {
            self.known.insert(Arc::from(symbol.name()), size.clone());
            return Ok(());
        }
        let rest = dim.substitute(&|symbol| self.get(symbol));
        if free.is_empty() && rest.same(size).is_yes() {
            return Ok(());
        }
        let Some(size_known) = size.known() else {
            if free.is_empty() && rest.same(size).is_no() {
                bail!(Shape, "{dim} cannot be {size}");
            }
            return Ok(());
        };
        if let Some(known) = rest.known() {
            if known == size_known {
                return Ok(());
            }
            if dim.is_known() {
                bail!(Shape, "a size is {size}, expected {known}");
            }
            bail!(Shape, "{dim} is {known} by the other sizes, got {size}");
        }
        if let Some((symbol, value)) = rest.solve(size_known) {
            if value < symbol.min() || symbol.max().is_some_and(|max| value > max) {
                let max = symbol.max().map_or(String::new(), |max| max.to_string());
                bail!(Shape, "{} is {value}, outside of its range {}..={max}", symbol.name(), symbol.min());
            }
            self.known.insert(Arc::from(symbol.name()), Dim::new(value));
        } else if rest.linear().is_some() {
            bail!(Shape, "no {dim} is {size}");
        } else {
            self.unchecked.push((dim.clone(), size.clone()));
        }
        Ok(())
    }
}

type HookFn<'a> = Box<dyn FnMut(&Node, Value) -> Result<Value> + 'a>;

/// One evaluation of a graph module, to be configured: hooks, given values, wanted values, a profile.
///
/// ```ignore
/// let run = gm.eval().replace("layers_1", |_, h| Ok((&h * 0.0).into())).record("relu").run(&[x.into()])?;
/// ```
#[must_use = "call `run` to evaluate"]
pub struct Eval<'a> {
    module: &'a GraphModule,
    hooks: FxHashMap<NodeId, Vec<HookFn<'a>>>,
    given: FxHashMap<NodeId, Value>,
    keep: Vec<NodeId>,
    only_kept: bool,
    profile: bool,
    problem: Result<()>,
}

/// The result of an evaluation with [`Eval`].
#[derive(Debug)]
pub struct Evaluated {
    /// What the graph returned; `Arg::None` if only recorded values were asked for.
    pub output: Value,
    /// The recorded values by node name, in the order in which they were asked for.
    pub recorded: Vec<(String, Value)>,
    /// The time of each node, if a profile was asked for, in program order.
    pub profile: Vec<(String, Duration)>,
}

impl Evaluated {
    /// Returns the recorded value of a node.
    pub fn recorded(&self, name: &str) -> Option<&Value> {
        self.recorded.iter().find(|(other, _)| other == name).map(|(_, value)| value)
    }
}

impl<'a> Eval<'a> {
    pub(crate) fn new(module: &'a GraphModule) -> Self {
        Eval {
            module,
            hooks: FxHashMap::default(),
            given: FxHashMap::default(),
            keep: Vec::new(),
            only_kept: false,
            profile: false,
            problem: Ok(()),
        }
    }

    fn with(mut self, name: &str, f: impl FnOnce(&mut Self, NodeId)) -> Self {
        match self.module.find(name) {
            Ok(id) => f(&mut self, id),
            Err(error) if self.problem.is_ok() => self.problem = Err(error),
            Err(_) => {}
        }
        self
    }

    /// Calls `hook` with the value of a node, given by name or module path; its result takes the place of the
    /// value.
    pub fn replace(self, name: &str, hook: impl FnMut(&Node, Value) -> Result<Value> + 'a) -> Self {
        self.with(name, |this, id| this.hooks.entry(id).or_default().push(Box::new(hook)))
    }

    /// Keeps the value of a node, given by name or module path.
    pub fn record(self, name: &str) -> Self {
        self.with(name, |this, id| this.keep.push(id))
    }

    /// Takes the value of a node as given; what only it needs is not computed.
    pub fn given(self, name: &str, value: impl Into<Value>) -> Self {
        let value = value.into();
        self.with(name, |this, id| {
            this.given.insert(id, value);
        })
    }

    /// Computes the recorded values only, and not the output.
    pub fn only_recorded(mut self) -> Self {
        self.only_kept = true;
        self
    }

    /// Measures the time of each node.
    pub fn profiled(mut self) -> Self {
        self.profile = true;
        self
    }

    /// Evaluates with one value per argument of the graph. Fails if a name resolves to no node, the arguments
    /// do not fit the graph, a hook fails, or an operation does.
    pub fn run(self, args: &[Value]) -> Result<Evaluated> {
        self.problem.clone()?;
        let inputs = self.module.flatten_inputs(args)?;
        self.run_flat(inputs.into_owned())
    }

    pub(crate) fn run_flat(self, inputs: Vec<Value>) -> Result<Evaluated> {
        let (graph, schedule) = (self.module.graph(), self.module.schedule()?);
        let mut it = Evaluator {
            module: Some(self.module),
            hooks: self.hooks,
            profile: self.profile.then(Vec::new),
            started: None,
            ..Evaluator::default()
        };
        let run = Run { inputs, given: self.given, keep: &self.keep, only_kept: self.only_kept };
        let Outcome { output, kept } = interpret_with(graph, &schedule, &mut it, run)?;
        for (path, value) in std::mem::take(&mut it.updates) {
            self.module.store_buffer(&path, value)?;
        }
        let names =
            self.keep.iter().map(|id| Ok(graph.node(*id)?.name().to_owned())).collect::<Result<Vec<_>>>()?;
        Ok(Evaluated {
            output: output.unwrap_or(Arg::None),
            recorded: names.into_iter().zip(kept).collect(),
            profile: it.profile.unwrap_or_default(),
        })
    }
}

/// The interpreter of tensors.
#[derive(Default)]
struct Evaluator<'a> {
    module: Option<&'a GraphModule>,
    /// What a graph without a module reads, in the order of the paths.
    given: &'a [(Arc<str>, Tensor)],
    bindings: Bindings,
    updates: BTreeMap<Arc<str>, Tensor>,
    hooks: FxHashMap<NodeId, Vec<HookFn<'a>>>,
    profile: Option<Vec<(String, Duration)>>,
    started: Option<std::time::Instant>,
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
            self.started = Some(std::time::Instant::now());
        }
    }
}

impl Interpreter for Evaluator<'_> {
    type Leaf = Tensor;

    fn placeholder(&mut self, node: NodeRef<'_>, input: Value) -> Result<Value> {
        self.start();
        if let Some(ty) = node.node.ty() {
            self.bindings
                .bind(ty, &input)
                .map_err(|error| err!(Shape, "argument {:?}: {}", node.node.name(), error.message()))?;
        }
        Ok(input)
    }

    fn get_attr(&mut self, _node: NodeRef<'_>, path: &Arc<str>) -> Result<Value> {
        self.start();
        match self.module {
            Some(module) => {
                let attribute = module.attribute(path)?;
                if let Some(symbol) = crate::trace::symbol_for(attribute) {
                    return symbol.map(Arg::Leaf);
                }
                Ok(Arg::Leaf(match attribute {
                    // While the graph module is traced again, a buffer is read as a symbol.
                    crate::Attribute::Buffer(buffer) => buffer.get(),
                    attribute => attribute.tensor(),
                }))
            }
            None => match self.given.binary_search_by(|(other, _)| other.cmp(path)) {
                Ok(at) => Ok(Arg::Leaf(self.given[at].1.clone())),
                Err(_) => bail!(Graph, "a closed sub-graph reads the attribute {path:?}"),
            },
        }
    }

    fn call_function(&mut self, node: NodeRef<'_>, op: Op, args: &[Value]) -> Result<Value> {
        self.start();
        if op.effects.state
            && let [Arg::Str(path), Arg::Leaf(value)] = args
            && op == crate::ops::set_buffer::OP
        {
            if let (true, Some(module)) = (crate::trace::is_tracing(), self.module)
                && let crate::Attribute::Buffer(buffer) = module.attribute(path)?
                && let Some(recorded) = crate::trace::write_buffer(buffer, value)
            {
                return recorded.map(|()| Arg::None);
            }
            self.updates.insert(path.clone(), value.clone());
            return Ok(Arg::None);
        }
        let is_method = node.node.opcode() == OpCode::CallMethod;
        let value = if crate::trace::is_tracing() {
            crate::trace::with_origin(node.node.meta(), || call(op, is_method, args))?
        } else {
            call(op, is_method, args)?
        };
        self.bind_free(node.node, &value)?;
        Ok(value)
    }

    fn call_module(&mut self, node: NodeRef<'_>, path: &Arc<str>, args: &[Value]) -> Result<Value> {
        self.start();
        let Some(module) = self.module else { bail!(Graph, "a closed sub-graph calls the module {path:?}") };
        let child = module.child(path)?;
        let value = if crate::trace::is_tracing() {
            crate::trace::with_origin(node.node.meta(), || crate::trace::call_child(child, args))?
        } else {
            let value = child.forward_values(args)?;
            if let Some(error) = failure(&value) {
                return Err(error);
            }
            value
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

/// Runs an operation on values, or records it where one of them is a symbol of an outer trace.
fn call(op: Op, is_method: bool, args: &[Value]) -> Result<Value> {
    let mut symbolic = false;
    for arg in args {
        arg.for_each_leaf(&mut |tensor| symbolic |= tensor.is_symbolic());
    }
    if symbolic || crate::trace::is_tracing() {
        return crate::trace::apply(op, is_method, args, &[]);
    }
    let value = (op.eval)(args)?;
    match value.error() {
        Some(error) => Err(error.clone()),
        None => Ok(value),
    }
}

/// Returns the first error in a value, as modules return it whose operators failed.
fn failure(value: &Value) -> Option<crate::Error> {
    let mut found = None;
    value.walk(&mut |arg| {
        let error = match arg {
            Arg::Failed(error) => Some(error),
            Arg::Leaf(tensor) => tensor.error(),
            _ => None,
        };
        if let (None, Some(error)) = (&found, error) {
            found = Some(error.clone());
        }
    });
    found
}

/// Evaluates a closed sub-graph on operands.
pub(crate) fn run_closed(graph: &Graph, args: &[Value]) -> Result<Value> {
    let mut it = Evaluator::default();
    interpret(graph, &mut it, args.to_vec())
}

/// Evaluates a graph without inputs that reads the attributes `given`, in the order of their paths.
pub(crate) fn run_with(graph: &Graph, given: &[(Arc<str>, Tensor)]) -> Result<Value> {
    let mut it = Evaluator { given, ..Evaluator::default() };
    interpret(graph, &mut it, Vec::new())
}
