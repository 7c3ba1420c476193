//! [`GraphModule`]: a graph with the tensors and sub-modules that it refers to, which can be called.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use rustc_hash::FxHashSet;

use crate::attribute::{Attribute, Attributes, Children, Parts};
use crate::folded::{Folded, Recipe};
use crate::infer;
use crate::interp::Schedule;
use crate::methods;
use crate::module::{Visitor, VisitorMut, ties};
use crate::{Forward, Graph, Module, NodeId, OpCode, Result, Tensor, TypeTree, Value, bail, err};

/// A graph with its attributes and sub-modules. It is a module itself, so it can be traced and be a child of
/// another.
///
/// A change takes effect with the next call: [`graph_mut`](Self::graph_mut) discards the prepared schedule.
pub struct GraphModule {
    name: String,
    graph: Graph,
    /// The graphs of the methods beside `forward`, which is `graph`.
    methods: BTreeMap<Arc<str>, Graph>,
    attributes: Attributes,
    children: Children,
    /// How folded constants were made.
    folded: Folded,
    schedule: OnceLock<Arc<Schedule>>,
}

impl Clone for GraphModule {
    /// Copies the graph; parameters and sub-modules share memory until one changes, buffers are independent. A
    /// sub-module or a buffer that several paths share is shared by these paths in the copy too.
    fn clone(&self) -> Self {
        ties::keeping_ties(|| GraphModule {
            name: self.name.clone(),
            graph: self.graph.clone(),
            methods: self.methods.clone(),
            attributes: self.attributes.clone(),
            children: self
                .children
                .iter()
                .map(|(path, child)| (path.clone(), ties::copy_shared(child)))
                .collect(),
            folded: self.folded.clone(),
            schedule: OnceLock::new(),
        })
    }
}

impl GraphModule {
    /// Makes a graph module without attributes.
    pub fn new(name: &str, graph: Graph) -> Self {
        GraphModule {
            name: name.to_owned(),
            graph,
            methods: BTreeMap::new(),
            attributes: BTreeMap::new(),
            children: BTreeMap::new(),
            folded: Folded::default(),
            schedule: OnceLock::new(),
        }
    }

    /// Makes a graph module with the tables of its paths.
    pub(crate) fn from_parts(name: &str, graph: Graph, attributes: Attributes, children: Children) -> Self {
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

    pub(crate) fn method_table(&self) -> &BTreeMap<Arc<str>, Graph> {
        &self.methods
    }

    pub(crate) fn method_table_mut(&mut self) -> &mut BTreeMap<Arc<str>, Graph> {
        &mut self.methods
    }

    /// Returns the graphs of all methods, `forward` first.
    pub(crate) fn graphs(&self) -> impl Iterator<Item = &Graph> {
        std::iter::once(&self.graph).chain(self.methods.values())
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
    #[doc(hidden)]
    pub fn snapshot(&self) -> GraphModule {
        GraphModule {
            name: self.name.clone(),
            graph: self.graph.clone(),
            methods: self.methods.clone(),
            attributes: self.attributes.iter().map(|(path, value)| (path.clone(), value.share())).collect(),
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

    /// Returns the present value of the attribute at a path. Fails if there is none.
    pub fn attr(&self, path: &str) -> Result<Tensor> {
        self.attribute(path).map(Attribute::tensor)
    }

    /// Returns the attribute at a path. Fails if there is none; the error names similar ones.
    pub fn attribute(&self, path: &str) -> Result<&Attribute> {
        self.attributes.get(path).ok_or_else(|| self.parts().no_attribute(&self.name, path))
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
        self.graphs().find_map(|graph| {
            let reads = |id: NodeId| graph.node(id).ok().map(|node| node.name());
            graph.find_nodes(opcode, Some(path)).first().copied().and_then(reads)
        })
    }

    #[doc(hidden)]
    pub fn store(&self, path: &str, value: Value) -> Result<()> {
        self.attribute(path)?.store(path, value)
    }

    /// Returns the sub-module at a path. Fails if there is none; the error names similar ones.
    pub fn child(&self, path: &str) -> Result<&dyn Forward> {
        self.parts().child(path).ok_or_else(|| self.parts().no_child(&self.name, path))
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

    /// Shares state with another graph module: buffers and sub-modules that both have at a path become those of
    /// the other. A clone of either has a state of its own.
    pub fn share_state(&mut self, other: &GraphModule) {
        for (path, attribute) in &mut self.attributes {
            if let (Attribute::Buffer(buffer), Some(Attribute::Buffer(shared))) =
                (attribute, other.attributes.get(path))
            {
                *buffer = shared.share();
            }
        }
        for (path, child) in &mut self.children {
            if let Some(shared) = other.children.get(path) {
                *child = shared.clone();
            }
        }
        self.folded.refresh(&mut self.attributes);
    }

    /// Removes the sub-modules that no node of a method calls and the attributes that none reads or updates;
    /// returns their paths.
    pub fn delete_unused(&mut self) -> Vec<String> {
        let mut used: FxHashSet<Arc<str>> = self.graphs().flat_map(methods::used_paths).collect();
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

    /// Returns the type of one node from the recorded types of its inputs; `None` if it cannot be known, or
    /// if it has a size that depends on data and thus needs a name. Fails if `id` is stale, or the types
    /// contradict the operation.
    pub fn infer_node(&self, id: NodeId) -> Result<Option<TypeTree>> {
        infer::infer_node(&self.graph, self.parts(), id)
    }

    /// Returns the type of every node from the types of the placeholders, in program order; nothing is computed.
    ///
    /// An input of [`Type::Any`](crate::Type::Any) takes the placeholder's declared type. A node whose type
    /// cannot be known gets `Any`. Fails if the types contradict the placeholders or an operation.
    pub fn infer(&self, inputs: &[TypeTree]) -> Result<Vec<(NodeId, TypeTree)>> {
        infer::infer_all(&self.graph, self.parts(), inputs)
    }

    /// Enters the type of every node into its metadata, as [`infer`](Self::infer) finds it. Fails as
    /// [`infer`](Self::infer) does.
    pub fn propagate_types(&mut self, inputs: &[TypeTree]) -> Result<()> {
        let (graph, attributes, children) = self.split();
        infer::propagate(graph, Parts::new(attributes, children), inputs)
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
                Attribute::State(_) => {}
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
                Attribute::Constant(_) | Attribute::State(_) => {}
            }
        }
        // A module at several paths is visited at the first, and stays one.
        let mut first_of: BTreeMap<usize, Arc<str>> = BTreeMap::new();
        let mut tied: Vec<(Arc<str>, Arc<str>)> = Vec::new();
        for (path, child) in &self.children {
            let first =
                first_of.entry(Arc::as_ptr(child).cast::<()>() as usize).or_insert_with(|| path.clone());
            if first != path {
                tied.push((path.clone(), first.clone()));
            }
        }
        tied.iter().for_each(|(path, _)| drop(self.children.remove(path)));
        for (path, child) in &mut self.children {
            if Arc::get_mut(child).is_none() {
                *child = ties::sharing_state(|| Arc::from(dyn_clone::clone_box(&**child)));
            }
            if let Some(child) = Arc::get_mut(child) {
                visitor.module(path, child.as_module_mut());
            }
        }
        for (path, first) in tied {
            let child = self.children[&first].clone();
            self.children.insert(path, child);
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
        self.graphs().flat_map(Graph::nodes).all(|(_, node)| {
            matches!(node.opcode(), OpCode::Placeholder | OpCode::Output)
                || !crate::graph::is_impure(node, &child_is_pure)
        })
    }
}

impl std::fmt::Debug for GraphModule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "GraphModule({}, {} nodes)", self.name, self.graph.len())
    }
}
