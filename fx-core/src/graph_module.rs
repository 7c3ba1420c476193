//! [`GraphModule`]: a graph with the tensors and sub-modules that it refers to, which can be called.

use std::any::Any;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

pub(crate) use crate::eval::run_closed;
use rustc_hash::FxHashSet;

use crate::eval::{Eval, Evaluated};
use crate::folded::{Folded, Recipe};
use crate::fresh::symbols;
use crate::interp::Schedule;
use crate::module::{InputDecl, Visitor, VisitorMut};
use crate::trace::{Attr, AttrKind};
use crate::{
    Arg, Buffer, Error, Forward, Graph, Module, NodeId, OpCode, Parameter, Result, SourceLoc, Target, Tensor,
    Tree, Value, bail, err,
};

/// A tensor that a graph reads by path.
#[derive(Clone, Debug)]
pub enum Attribute {
    /// A trained tensor.
    Parameter(Parameter),
    /// State; a call may update it.
    Buffer(Buffer),
    /// A tensor that the traced function captured.
    Constant(Tensor),
}

impl Attribute {
    /// Returns the present value.
    pub fn tensor(&self) -> Tensor {
        match self {
            Attribute::Parameter(parameter) => parameter.tensor().clone(),
            Attribute::Buffer(buffer) => buffer.load(),
            Attribute::Constant(tensor) => tensor.clone(),
        }
    }
}

/// A graph with its attributes and sub-modules. It is a module itself, so it can be traced and be a child of
/// another.
///
/// A change takes effect with the next call: [`graph_mut`](Self::graph_mut) discards the prepared schedule.
pub struct GraphModule {
    name: String,
    graph: Graph,
    attributes: Attributes,
    children: Children,
    /// How folded constants were made.
    folded: Folded,
    schedule: OnceLock<Arc<Schedule>>,
}

impl Clone for GraphModule {
    /// Copies the graph; parameters and sub-modules share memory until one changes, buffers are independent.
    fn clone(&self) -> Self {
        GraphModule {
            name: self.name.clone(),
            graph: self.graph.clone(),
            attributes: self.attributes.clone(),
            children: self.children.iter().map(|(path, child)| (path.clone(), clone_child(child))).collect(),
            folded: self.folded.clone(),
            schedule: OnceLock::new(),
        }
    }
}

/// Attributes by path.
pub(crate) type Attributes = BTreeMap<Arc<str>, Attribute>;
/// Sub-modules by path.
pub(crate) type Children = BTreeMap<Arc<str>, Arc<dyn Forward>>;

/// What the paths of a graph refer to: nothing at all for a closed sub-graph.
#[derive(Clone, Copy, Default)]
pub(crate) struct Parts<'a> {
    attributes: Option<&'a Attributes>,
    children: Option<&'a Children>,
}

impl<'a> Parts<'a> {
    pub(crate) fn new(attributes: &'a Attributes, children: &'a Children) -> Self {
        Parts { attributes: Some(attributes), children: Some(children) }
    }

    /// Returns whether the graph is a closed sub-graph, which can refer to nothing.
    pub(crate) fn is_closed(&self) -> bool {
        self.attributes.is_none()
    }

    pub(crate) fn attribute(&self, path: &str) -> Option<&'a Attribute> {
        self.attributes.and_then(|attributes| attributes.get(path))
    }

    pub(crate) fn child(&self, path: &str) -> Option<&'a dyn Forward> {
        self.children.and_then(|children| children.get(path)).map(|child| &**child)
    }

    /// Returns whether a path is an attribute or a module already.
    pub(crate) fn is_taken(&self, path: &str) -> bool {
        self.attribute(path).is_some() || self.child(path).is_some()
    }

    /// Returns whether a call of the module has no effect.
    pub(crate) fn is_pure(&self, path: &str) -> bool {
        self.child(path).is_some_and(|child| child.as_module().is_pure())
    }

    /// Returns whether a node must be kept and keeps its place among others like it.
    pub(crate) fn has_effect(&self, node: &crate::Node) -> bool {
        !matches!(node.opcode(), OpCode::Placeholder | OpCode::Output)
            && crate::graph::is_impure(node, &|path| self.is_pure(path))
    }
}

fn clone_child(child: &Arc<dyn Forward>) -> Arc<dyn Forward> {
    Arc::from(dyn_clone::clone_box(&**child))
}

impl GraphModule {
    /// Makes a graph module without attributes.
    pub fn new(name: &str, graph: Graph) -> Self {
        GraphModule {
            name: name.to_owned(),
            graph,
            attributes: BTreeMap::new(),
            children: BTreeMap::new(),
            folded: Folded::default(),
            schedule: OnceLock::new(),
        }
    }

    pub(crate) fn from_trace(
        name: &str,
        graph: Graph,
        attrs: BTreeMap<Arc<str>, Attr>,
        children: BTreeMap<Arc<str>, Arc<dyn Forward>>,
    ) -> Self {
        let attribute = |attr: Attr| match attr.kind {
            AttrKind::Parameter => Attribute::Parameter(Parameter::new(attr.tensor)),
            AttrKind::Buffer => Attribute::Buffer(Buffer::new(attr.tensor)),
            AttrKind::TransientBuffer => Attribute::Buffer(Buffer::transient(attr.tensor)),
            AttrKind::Constant => Attribute::Constant(attr.tensor),
        };
        let attributes = attrs.into_iter().map(|(path, attr)| (path, attribute(attr))).collect();
        GraphModule { attributes, children, ..GraphModule::new(name, graph) }
    }

    /// Returns the name, that of the traced module's type.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the graph.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Returns the graph for changing, and discards the prepared schedule.
    pub fn graph_mut(&mut self) -> &mut Graph {
        self.schedule = OnceLock::new();
        &mut self.graph
    }

    /// Returns the graph alone.
    pub fn into_graph(self) -> Graph {
        self.graph
    }

    /// Replaces the graph.
    pub fn set_graph(&mut self, graph: Graph) {
        *self.graph_mut() = graph;
    }

    /// Splits into the graph and the tables of what its paths refer to.
    pub(crate) fn split(&mut self) -> (&mut Graph, &mut Attributes, &mut Children) {
        self.schedule = OnceLock::new();
        (&mut self.graph, &mut self.attributes, &mut self.children)
    }

    /// Returns what the paths of the graph refer to.
    pub(crate) fn parts(&self) -> Parts<'_> {
        Parts::new(&self.attributes, &self.children)
    }

    /// Returns a copy that shares sub-modules and buffers with this one, to return to if an edit fails.
    pub(crate) fn snapshot(&self) -> GraphModule {
        let share = |attribute: &Attribute| match attribute {
            Attribute::Buffer(buffer) => Attribute::Buffer(buffer.share()),
            other => other.clone(),
        };
        GraphModule {
            name: self.name.clone(),
            graph: self.graph.clone(),
            attributes: self.attributes.iter().map(|(path, value)| (path.clone(), share(value))).collect(),
            children: self.children.clone(),
            folded: self.folded.clone(),
            schedule: OnceLock::new(),
        }
    }

    pub(crate) fn schedule(&self) -> Result<Arc<Schedule>> {
        if let Some(schedule) = self.schedule.get() {
            return Ok(schedule.clone());
        }
        let schedule = Arc::new(Schedule::new(&self.graph)?);
        Ok(self.schedule.get_or_init(|| schedule).clone())
    }

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

    /// Matches arguments with the signature and returns the values of the placeholders.
    #[doc(hidden)]
    pub fn flatten_inputs<'a>(&self, args: &'a [Value]) -> Result<Cow<'a, [Value]>> {
        let inputs = self.graph.inputs();
        if args.len() != inputs.len() {
            let names: Vec<&str> = inputs.iter().map(|input| &*input.name).collect();
            return Err(err!(Argument, "{} takes {} arguments, got {}", self.name, inputs.len(), args.len())
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
            flatten(&input.tree, arg, &mut values).map_err(|error| {
                let text = format!("argument {:?}: {}", input.name, error.message());
                Error::new(error.kind(), text).help("pass values of the structure that was traced")
            })?;
        }
        Ok(Cow::Owned(values))
    }

    /// Returns the present value of the attribute at a path. Fails if there is none.
    pub fn attr(&self, path: &str) -> Result<Tensor> {
        self.attribute(path).map(Attribute::tensor)
    }

    /// Returns the attribute at a path. Fails if there is none; the error names similar ones.
    pub fn attribute(&self, path: &str) -> Result<&Attribute> {
        self.attributes.get(path).ok_or_else(|| {
            let similar = crate::names::suggest(path, self.attributes.keys().map(|key| &**key));
            err!(Unresolved, "{} has no attribute {path:?}", self.name).help(similar)
        })
    }

    /// Returns every attribute by path.
    pub fn attributes(&self) -> impl ExactSizeIterator<Item = (&str, &Attribute)> {
        self.attributes.iter().map(|(path, attribute)| (&**path, attribute))
    }

    /// Adds or replaces an attribute; constants that were folded from it are made anew. Fails if the path is
    /// not valid or that of a sub-module.
    pub fn set_attribute(&mut self, path: &str, attribute: Attribute) -> Result<()> {
        check_path(path)?;
        if self.children.contains_key(path) {
            bail!(Graph, "{path:?} is a sub-module");
        }
        self.folded.remove(path);
        self.attributes.insert(Arc::from(path), attribute);
        self.folded.refresh_from(path, &mut self.attributes);
        Ok(())
    }

    /// Forgets the recipes of folded constants: they no longer follow their sources, which can be removed.
    pub fn freeze(&mut self) {
        self.folded = Folded::default();
    }

    /// Returns how the constant at a path was folded, if it was.
    pub fn recipe(&self, path: &str) -> Option<&Recipe> {
        self.folded.get(path)
    }

    /// Returns whether a constant is folded from the attribute at a path.
    pub(crate) fn is_folded_from(&self, path: &str) -> bool {
        self.folded.has_source(path)
    }

    /// Makes folded constants anew whose sources have changed; needed after a buffer was stored to through a
    /// handle of its own.
    pub fn refresh_folded(&mut self) {
        self.folded.refresh(&mut self.attributes);
    }

    pub(crate) fn set_recipe(&mut self, path: &str, recipe: Recipe) {
        self.folded.insert(path, recipe);
    }

    /// Removes an attribute. Fails if a node reads it, or there is none.
    pub fn remove_attribute(&mut self, path: &str) -> Result<Attribute> {
        if let Some(node) = self.reader_of(OpCode::GetAttr, path) {
            bail!(Graph, "the attribute {path:?} is read by %{node}");
        }
        self.attribute(path)?;
        self.folded.remove(path);
        self.attributes.remove(path).ok_or_else(|| err!(Unresolved, "no attribute {path:?}"))
    }

    fn reader_of(&self, opcode: OpCode, path: &str) -> Option<&str> {
        let reads = |id: NodeId| self.graph.node(id).ok().map(|node| node.name());
        self.graph.find_nodes(opcode, Some(path)).first().copied().and_then(reads)
    }

    #[doc(hidden)]
    pub fn store_buffer(&self, path: &str, value: Tensor) -> Result<()> {
        match self.attribute(path)? {
            Attribute::Buffer(buffer) => {
                buffer.store(value);
                Ok(())
            }
            _ => bail!(Graph, "{path:?} is updated, but it is not a buffer"),
        }
    }

    /// Returns the sub-module at a path. Fails if there is none; the error names similar ones.
    pub fn child(&self, path: &str) -> Result<&dyn Forward> {
        self.children.get(path).map(|child| &**child).ok_or_else(|| {
            let similar = crate::names::suggest(path, self.children.keys().map(|key| &**key));
            err!(Unresolved, "{} has no sub-module {path:?}", self.name).help(similar)
        })
    }

    /// Returns the sub-module at a path, which others may share.
    pub(crate) fn shared_child(&self, path: &str) -> Option<Arc<dyn Forward>> {
        self.children.get(path).cloned()
    }

    /// Returns every sub-module by path.
    pub fn children(&self) -> impl ExactSizeIterator<Item = (&str, &dyn Forward)> {
        self.children.iter().map(|(path, child)| (&**path, &**child))
    }

    /// Adds or replaces a sub-module. Fails if the path is not valid or that of an attribute.
    pub fn add_submodule(&mut self, path: &str, module: impl Forward) -> Result<()> {
        self.add_shared_submodule(path, Arc::new(module))
    }

    /// Adds or replaces a sub-module that others may share. Fails as [`add_submodule`](Self::add_submodule)
    /// does.
    pub fn add_shared_submodule(&mut self, path: &str, module: Arc<dyn Forward>) -> Result<()> {
        check_path(path)?;
        if self.attributes.contains_key(path) {
            bail!(Graph, "{path:?} is an attribute");
        }
        self.children.insert(Arc::from(path), module);
        Ok(())
    }

    /// Removes a sub-module. Fails if a node calls it, or there is none.
    pub fn delete_submodule(&mut self, path: &str) -> Result<()> {
        if let Some(node) = self.reader_of(OpCode::CallModule, path) {
            bail!(Graph, "the sub-module {path:?} is called by %{node}");
        }
        self.child(path)?;
        self.children.remove(path);
        Ok(())
    }

    /// Removes the sub-modules that no node calls and the attributes that no node reads or updates; returns
    /// their paths.
    pub fn delete_unused(&mut self) -> Vec<String> {
        let mut used: FxHashSet<Arc<str>> = FxHashSet::default();
        for (_, node) in self.graph.nodes() {
            used.extend(node.target().path().cloned());
            if let (Target::CallFunction(op), Some(Arg::Str(path))) = (node.target(), node.args().first())
                && op.effects.state
            {
                used.insert(path.clone());
            }
        }
        // A folded constant that is in use needs what it is made from.
        for (path, recipe) in self.folded.iter() {
            if used.contains(path) {
                used.extend(recipe.sources().map(Arc::from));
            }
        }
        let unused = |path: &Arc<str>| !used.contains(path);
        let paths: Vec<Arc<str>> =
            self.children.keys().chain(self.attributes.keys()).filter(|path| unused(path)).cloned().collect();
        for path in &paths {
            self.children.remove(path);
            self.attributes.remove(path);
            self.folded.remove(path);
        }
        paths.into_iter().map(|path| path.to_string()).collect()
    }

    /// Replaces the call of a sub-module that is a [`GraphModule`] by its nodes; returns the new nodes. Fails
    /// if `id` does not call a graph module, or the call does not fit it.
    pub fn inline(&mut self, id: NodeId) -> Result<Vec<NodeId>> {
        let node = self.graph.node(id)?;
        let Target::CallModule(path) = node.target().clone() else {
            bail!(Graph, "%{} does not call a sub-module", node.name());
        };
        let child = self.child(&path)?.as_module().as_any().downcast_ref::<GraphModule>();
        let Some(child) = child.cloned() else {
            return Err(err!(Graph, "the sub-module {path:?} is not a graph module")
                .help("trace it first: `symbolic_trace(&module)`"));
        };
        let args = node.args().to_vec();
        let mut map = crate::graph::NodeMap::default();
        if args.len() != child.graph.inputs().len() {
            bail!(
                Argument,
                "%{} passes {} arguments, expected {}",
                node.name(),
                args.len(),
                child.graph.inputs().len()
            );
        }
        for (input, arg) in child.graph.inputs().iter().zip(&args) {
            map_input(&input.tree, arg, &mut map)?;
        }
        self.schedule = OnceLock::new();
        let mut inner = child.graph.clone();
        for inner_id in inner.ids() {
            let target = inner.node(inner_id)?.target().clone();
            if let Some(inner_path) = target.path() {
                inner.set_path(inner_id, &format!("{path}.{inner_path}"))?;
            }
            if target.op() == Some(crate::ops::set_buffer::OP) {
                let node = inner.node(inner_id)?;
                let mut bound = crate::ops::set_buffer::OP.bind(node.args(), node.kwargs())?;
                if let Some(Arg::Str(buffer)) = bound.first() {
                    bound[0] = Arg::str(format!("{path}.{buffer}"));
                }
                inner.set_all_args(inner_id, bound.into(), Default::default())?;
            }
        }
        let insert = |graph: &mut Graph, map: &mut crate::graph::NodeMap| {
            graph.transaction(|graph| {
                let copied = graph.inserting_before(id, |graph| graph.copy_graph(&inner, map))??;
                graph.replace_all_uses(id, copied.output.clone())?;
                graph.erase(id)?;
                Ok(copied.nodes)
            })
        };
        let new = match insert(&mut self.graph, &mut map) {
            // What the sizes in the module are is said by the types of the arguments.
            Err(error) if error.kind() == crate::ErrorKind::UnknownType => {
                let any = vec![Arg::Leaf(crate::Type::Any); self.graph.placeholders().len()];
                self.propagate_types(&any).map_err(|_| error)?;
                insert(&mut self.graph, &mut map)?
            }
            new => new?,
        };
        for (inner_path, attribute) in &child.attributes {
            self.attributes.insert(Arc::from(format!("{path}.{inner_path}")), attribute.clone());
        }
        for (inner_path, grandchild) in &child.children {
            self.children.insert(Arc::from(format!("{path}.{inner_path}")), clone_child(grandchild));
        }
        if self.reader_of(OpCode::CallModule, &path).is_none() {
            self.children.remove(&*path);
        }
        self.settle_sizes(&new)?;
        Ok(new)
    }

    /// Types nodes that came from elsewhere anew if there are sizes in their types that no input tells: their
    /// names stood for sizes of another graph.
    pub(crate) fn settle_sizes(&mut self, new: &[NodeId]) -> Result<()> {
        let graph = &self.graph;
        let ty = |id: &NodeId| graph.node(*id).ok().and_then(crate::Node::ty);
        let of_inputs: FxHashSet<crate::Symbol> =
            graph.placeholders().iter().filter_map(ty).flat_map(symbols).collect();
        let is_new =
            |id: &&NodeId| ty(id).is_some_and(|ty| symbols(ty).iter().any(|x| !of_inputs.contains(x)));
        let unsettled: Vec<NodeId> = new.iter().filter(is_new).copied().collect();
        if unsettled.is_empty() {
            return Ok(());
        }
        let n_inputs = graph.placeholders().len();
        for id in unsettled {
            self.graph.meta_mut(id)?.ty = None;
        }
        let Ok(found) = self.infer(&vec![Arg::Leaf(crate::Type::Any); n_inputs]) else { return Ok(()) };
        for (id, ty) in found.into_iter().filter(|(_, ty)| ty.is_complete()) {
            self.graph.meta_mut(id)?.ty = Some(std::sync::Arc::new(ty));
        }
        Ok(())
    }
}

/// Says what the placeholders of an input become, by the structure of the argument.
pub(crate) fn map_input(tree: &Arg, arg: &Arg, map: &mut crate::graph::NodeMap) -> Result<()> {
    match (tree, arg) {
        (Arg::Leaf(id), arg) => {
            map.insert(*id, arg.clone());
            Ok(())
        }
        (Arg::Tuple(a), Arg::Tuple(b)) | (Arg::List(a), Arg::List(b)) if a.len() == b.len() => {
            a.iter().zip(b.iter()).try_for_each(|(a, b)| map_input(a, b, map))
        }
        (Arg::Dict(a), Arg::Dict(b)) if a.len() == b.len() => {
            a.iter().try_for_each(|(key, a)| match b.get(key) {
                Some(b) => map_input(a, b, map),
                None => bail!(Structure, "no entry {key:?} is given"),
            })
        }
        (a, b) if a == b => Ok(()),
        (a, b) => bail!(Structure, "expected the structure {a}, got {b}"),
    }
}

fn flatten(tree: &Arg, value: &Value, out: &mut Vec<Value>) -> Result<()> {
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
            a.iter().zip(b.iter()).try_for_each(|(a, b)| flatten(a, b, out))
        }
        (Arg::Dict(a), Arg::Dict(b)) => {
            if let Some((key, _)) = b.iter().find(|(key, _)| a.get(key).is_none()) {
                bail!(Structure, "the entry {key:?} was not there when the graph was traced");
            }
            a.iter().try_for_each(|(key, a)| match b.get(key) {
                Some(b) => flatten(a, b, out),
                None => bail!(Structure, "the entry {key:?} is missing"),
            })
        }
        (Arg::Leaf(_), other) => bail!(Structure, "expected a tensor, got {}", other.kind_name()),
        (literal, value) => {
            if literal.same_literal(value) {
                return Ok(());
            }
            bail!(Structure, "the graph was specialised to {literal}, got {value}")
        }
    }
}

fn check_path(path: &str) -> Result<()> {
    let ok = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if path.is_empty() || !path.split('.').all(ok) {
        return Err(err!(Argument, "{path:?} is not a dotted path")
            .help("use names of letters, digits and underscores, separated by dots"));
    }
    Ok(())
}

impl Module for GraphModule {
    fn visit<'a>(&'a self, visitor: &mut dyn Visitor<'a>) {
        for (path, attribute) in &self.attributes {
            match attribute {
                Attribute::Parameter(parameter) => visitor.parameter(path, parameter),
                Attribute::Buffer(buffer) => visitor.buffer(path, buffer),
                Attribute::Constant(tensor) => visitor.constant(path, tensor),
            }
        }
        for (path, child) in &self.children {
            visitor.module(path, child.as_module());
        }
    }

    fn visit_mut(&mut self, visitor: &mut dyn VisitorMut) {
        for (path, attribute) in &mut self.attributes {
            match attribute {
                Attribute::Parameter(parameter) => visitor.parameter(path, parameter),
                Attribute::Buffer(buffer) => visitor.buffer(path, buffer),
                Attribute::Constant(_) => {}
            }
        }
        for (path, child) in &mut self.children {
            if Arc::get_mut(child).is_none() {
                *child = clone_child(child);
            }
            if let Some(child) = Arc::get_mut(child) {
                visitor.module(path, child.as_module_mut());
            }
        }
        self.folded.refresh(&mut self.attributes);
    }

    fn type_name(&self) -> &'static str {
        "GraphModule"
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn extra_repr(&self) -> String {
        format!("{}, {} nodes", self.name, self.graph.len())
    }

    fn is_pure(&self) -> bool {
        let child_is_pure = |path: &str| self.child(path).is_ok_and(|child| child.as_module().is_pure());
        self.graph.nodes().all(|(_, node)| {
            matches!(node.opcode(), OpCode::Placeholder | OpCode::Output)
                || !crate::graph::is_impure(node, &child_is_pure)
        })
    }
}

impl Forward for GraphModule {
    fn inputs(&self) -> Vec<InputDecl> {
        let decl = |input: &crate::Input| InputDecl {
            name: input.name.to_string().into(),
            structure: Ok(input.tree.map(&mut |_| ())),
        };
        self.graph.inputs().iter().map(decl).collect()
    }

    fn output(&self) -> Result<Arg<()>> {
        self.graph.output().try_flat_map(&mut |_| Ok(Arg::Leaf(())))
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

impl std::fmt::Debug for GraphModule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "GraphModule({}, {} nodes)", self.name, self.graph.len())
    }
}
