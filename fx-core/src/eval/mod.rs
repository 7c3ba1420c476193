//! Calls of graph modules: [`Eval`], with hooks, given values and a profile, and `GraphModule::call` on top of it.

mod bindings;
pub(crate) mod evaluator;
mod inputs;

use std::borrow::Cow;
use std::time::Duration;

pub(crate) use bindings::Bindings;
use evaluator::{Evaluator, HookFn};
pub(crate) use evaluator::{run_closed, run_prepared, run_with};
pub use inputs::Inputs;
use rustc_hash::FxHashMap;

use crate::graph_module::GraphModule;
use crate::interp::{Outcome, Run, interpret_with};
use crate::module::InputDecl;
use crate::{
    Arg, Error, Forward, Module, Node, NodeId, Result, SourceLoc, Tensor, Tree, Type, TypeTree, Value, bail,
    err,
};

/// Checks that sizes and numbers of a value are in the ranges of the symbols that a type has in their place.
///
/// Fails if one is not.
pub fn check_ranges(declared: &TypeTree, value: &Value) -> Result<()> {
    Bindings::default().bind(declared, value)
}

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
            name: self.module.name(),
            parts: self.module.parts(),
            hooks: self.hooks,
            profile: self.profile.then(Vec::new),
            ..Evaluator::default()
        };
        let run = Run { inputs, given: self.given, keep: &self.keep, only_kept: self.only_kept };
        let Outcome { output, kept } = interpret_with(graph, &schedule, &mut it, run)?;
        for (path, value) in std::mem::take(&mut it.updates) {
            self.module.store(&path, value)?;
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

impl GraphModule {
    /// Calls the graph with one tensor per argument. Fails as [`call_values`](Self::call_values) does, or if
    /// the result is not one tensor.
    #[track_caller]
    pub fn call(&self, args: &[Tensor]) -> Result<Tensor> {
        let args: Vec<Value> = args.iter().map(Value::from).collect();
        self.call_values(&args)?.try_into()
    }

    /// Calls the graph with a tuple of arguments of the structures that were traced, and restores the
    /// structure of the result. Fails as [`call_values`](Self::call_values) does, or if the result has
    /// another structure.
    #[track_caller]
    pub fn run<A: Tree, R: Tree>(&self, args: A) -> Result<R> {
        let value = args.to_value();
        let args = match &value {
            Arg::Tuple(items) => items.to_vec(),
            _ => vec![value],
        };
        R::from_value(&self.call_values(&args)?)
    }

    /// Calls the graph with one value per argument. Fails if the arguments do not fit the graph, or an
    /// operation fails; then no buffer is updated.
    #[track_caller]
    pub fn call_values(&self, args: &[Value]) -> Result<Value> {
        let source = SourceLoc::caller();
        // Errors of nodes have the line that the node came from; those of arguments get that of the call.
        self.evaluate(args).map_err(|error| match error.source_loc() {
            Some(_) => error,
            None => error.at(source),
        })
    }

    /// Calls the graph as [`call_values`](Self::call_values) does, for a caller whose line says nothing to the
    /// user. Fails as that does; an error of an argument has no source line.
    pub fn evaluate(&self, args: &[Value]) -> Result<Value> {
        let inputs = self.flatten_inputs(args)?;
        Ok(Eval::new(self).run_flat(inputs.into_owned())?.output)
    }

    /// Prepares an evaluation with hooks, given values or a profile.
    pub fn eval(&self) -> Eval<'_> {
        Eval::new(self)
    }

    /// Evaluates nodes given by name or module path, and nothing that they do not need. Fails as
    /// [`Eval::run`] does.
    pub fn extract(&self, names: &[&str], args: &[Value]) -> Result<Evaluated> {
        names.iter().fold(self.eval(), |eval, name| eval.record(name)).only_recorded().run(args)
    }

    /// Returns whether each argument is one tensor, and these are all of them, none failed.
    #[doc(hidden)]
    pub fn takes(&self, args: &[Tensor]) -> bool {
        let inputs = self.graph().inputs();
        let is_plain = |(input, arg): (&crate::Input, &Tensor)| {
            matches!(input.tree, Arg::Leaf(_)) && arg.error().is_none()
        };
        args.len() == inputs.len() && inputs.iter().zip(args).all(is_plain)
    }

    /// Matches arguments with the signature and returns the values of the placeholders.
    #[doc(hidden)]
    pub fn flatten_inputs<'a>(&self, args: &'a [Value]) -> Result<Cow<'a, [Value]>> {
        let inputs = self.graph().inputs();
        if args.len() != inputs.len() {
            let names: Vec<&str> = inputs.iter().map(|input| &*input.name).collect();
            let plural = if inputs.len() == 1 { "" } else { "s" };
            return Err(err!(
                Argument,
                "{} takes {} argument{plural}, got {}",
                self.name(),
                inputs.len(),
                args.len()
            )
            .help(format!("its arguments are ({})", names.join(", "))));
        }
        let is_plain = |(input, arg): (&crate::Input, &Value)| match (&input.tree, arg) {
            (Arg::Leaf(_), Arg::Leaf(tensor)) => tensor.error().is_none(),
            _ => false,
        };
        if inputs.iter().zip(args).all(is_plain) {
            return Ok(Cow::Borrowed(args));
        }
        let mut values = Vec::with_capacity(inputs.len());
        for (input, arg) in inputs.iter().zip(args) {
            flatten(self.graph(), &input.tree, arg, &mut values).map_err(|error| {
                let text = format!("argument {:?}: {}", input.name, error.message());
                Error::new(error.kind(), text).help("pass values of the structure that was traced")
            })?;
        }
        Ok(Cow::Owned(values))
    }
}

fn flatten(graph: &crate::Graph, tree: &Arg, value: &Value, out: &mut Vec<Value>) -> Result<()> {
    match (tree, value) {
        (_, Arg::Failed(error)) => Err(error.clone()),
        (Arg::Leaf(_), Arg::Leaf(tensor)) => {
            out.push(Arg::Leaf(tensor.clone().ok()?));
            Ok(())
        }
        (Arg::Leaf(_), Arg::Bool(_) | Arg::Int(_) | Arg::Float(_) | Arg::Dim(_)) => {
            out.push(value.clone());
            Ok(())
        }
        (Arg::Tuple(a), Arg::Tuple(b)) | (Arg::List(a), Arg::List(b)) => {
            if a.len() != b.len() {
                bail!(Structure, "expected {} items, got {}", a.len(), b.len());
            }
            a.iter().zip(b.iter()).try_for_each(|(a, b)| flatten(graph, a, b, out))
        }
        (Arg::Dict(a), Arg::Dict(b)) => {
            if let Some((key, _)) = b.iter().find(|(key, _)| a.get(key).is_none()) {
                bail!(Structure, "the entry {key:?} was not there when the graph was traced");
            }
            a.iter().try_for_each(|(key, a)| match b.get(key) {
                Some(b) => flatten(graph, a, b, out),
                None => bail!(Structure, "the entry {key:?} is missing"),
            })
        }
        (Arg::Leaf(id), other) => {
            // A placeholder without a type takes values of any structure.
            if let Some(declared) = graph.node(*id)?.ty()
                && !takes(declared, other)
            {
                bail!(Structure, "expected {declared}, got {}", other.kind_name());
            }
            out.push(other.clone());
            Ok(())
        }
        (literal, value) => {
            let number = match value {
                // A size that a compiled function observes is a number from here on.
                Arg::Dim(size) => crate::lazy::follower().and_then(|follower| follower.size(size)),
                _ => None,
            };
            if literal.same_literal(&number.map_or_else(|| value.clone(), Arg::Int)) {
                return Ok(());
            }
            bail!(Structure, "the graph was specialised to {literal}, got {value}")
        }
    }
}

/// Returns whether a placeholder of this type takes a value, by the structure of that; tensors and numbers are
/// taken everywhere.
fn takes(declared: &TypeTree, value: &Value) -> bool {
    match (declared, value) {
        (Arg::Leaf(Type::Optional(_)), _) => true,
        (Arg::Leaf(Type::List(_)), value) => matches!(value, Arg::List(_)),
        (Arg::Leaf(Type::Str), value) => matches!(value, Arg::Str(_)),
        (Arg::Leaf(_), value) => {
            matches!(value, Arg::Leaf(_) | Arg::Bool(_) | Arg::Int(_) | Arg::Float(_) | Arg::Dim(_))
        }
        (Arg::Tuple(a), Arg::Tuple(b)) | (Arg::List(a), Arg::List(b)) => {
            a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| takes(a, b))
        }
        (Arg::Dict(a), Arg::Dict(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| takes(a, b)))
        }
        (literal, value) => literal.same_literal(value),
    }
}

impl Forward for GraphModule {
    fn inputs(&self) -> Vec<InputDecl> {
        let graph = self.graph();
        let is_integer = |tree: &Arg| {
            let ty = tree.leaf().and_then(|id| graph.node(*id).ok()?.ty());
            matches!(ty, Some(Arg::Dim(_) | Arg::Leaf(Type::Int)))
        };
        let decl = |input: &crate::Input| InputDecl {
            name: input.name.to_string().into(),
            structure: Ok(input.tree.map(&mut |_| ())),
            takes_symbols: is_integer(&input.tree),
        };
        graph.inputs().iter().map(decl).collect()
    }

    fn output(&self) -> Result<Arg<()>> {
        self.graph().output().try_flat_map(&mut |_| Ok(Arg::Leaf(())))
    }

    fn forward_values(&self, args: &[Value]) -> Result<Value> {
        self.evaluate(args)
    }

    fn as_module(&self) -> &dyn Module {
        self
    }

    fn as_module_mut(&mut self) -> &mut dyn Module {
        self
    }
}
