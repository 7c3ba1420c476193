//! Nodes: the six opcodes with their payload, arguments, and typed metadata.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use crate::arg::Place;
use crate::{Arg, Op, SourceLoc, TypeTree};

/// A handle of a node in a [`Graph`](crate::Graph).
///
/// It stays valid until the node is erased, also in clones of the graph; a handle that was erased or belongs to an
/// unrelated graph is refused with an error of kind [`Stale`](crate::ErrorKind::Stale).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId {
    pub(crate) index: u32,
    pub(crate) stamp: u32,
}

impl fmt::Debug for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.index)
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.index)
    }
}

/// The six kinds of node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum OpCode {
    /// An input of the graph.
    Placeholder,
    /// Reads a parameter, buffer or constant.
    GetAttr,
    /// Calls an operation as a function.
    CallFunction,
    /// Calls a sub-module.
    CallModule,
    /// Calls an operation as a method of its first argument.
    CallMethod,
    /// Returns from the graph.
    Output,
}

impl OpCode {
    /// Returns torch.fx's word, such as `call_function`.
    pub const fn name(self) -> &'static str {
        match self {
            OpCode::Placeholder => "placeholder",
            OpCode::GetAttr => "get_attr",
            OpCode::CallFunction => "call_function",
            OpCode::CallModule => "call_module",
            OpCode::CallMethod => "call_method",
            OpCode::Output => "output",
        }
    }
}

impl fmt::Display for OpCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What a node does: its opcode together with what that opcode needs.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Target {
    /// An input of the graph.
    Placeholder,
    /// Reads the parameter, buffer or constant at a dotted path.
    GetAttr(Arc<str>),
    /// Calls an operation as a function.
    CallFunction(Op),
    /// Calls the sub-module at a dotted path.
    CallModule(Arc<str>),
    /// Calls an operation as a method of its first argument.
    CallMethod(Op),
    /// Returns from the graph.
    Output,
}

impl Target {
    /// Returns the opcode.
    pub fn opcode(&self) -> OpCode {
        match self {
            Target::Placeholder => OpCode::Placeholder,
            Target::GetAttr(_) => OpCode::GetAttr,
            Target::CallFunction(_) => OpCode::CallFunction,
            Target::CallModule(_) => OpCode::CallModule,
            Target::CallMethod(_) => OpCode::CallMethod,
            Target::Output => OpCode::Output,
        }
    }

    /// Returns the operation of a function or method call.
    pub fn op(&self) -> Option<Op> {
        match self {
            Target::CallFunction(op) | Target::CallMethod(op) => Some(*op),
            _ => None,
        }
    }

    /// Returns the dotted path of an attribute or module.
    pub fn path(&self) -> Option<&Arc<str>> {
        match self {
            Target::GetAttr(path) | Target::CallModule(path) => Some(path),
            _ => None,
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Placeholder => f.write_str("placeholder"),
            Target::Output => f.write_str("output"),
            Target::GetAttr(path) | Target::CallModule(path) => f.write_str(path),
            Target::CallFunction(op) | Target::CallMethod(op) => f.write_str(op.name),
        }
    }
}

/// One level of the module hierarchy in which a node was recorded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ModuleFrame {
    /// The dotted path from the root.
    pub path: Arc<str>,
    /// The type of the module.
    pub type_name: Arc<str>,
    /// Which call of this module it was, from 0.
    pub call: u32,
    /// Where the module was called.
    pub source: Option<SourceLoc>,
}

/// Why a node came to be: the pass that made it and the nodes that it stands for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Provenance {
    /// The pass, such as `fold_batch_norm`.
    pub pass: Arc<str>,
    /// The names of the nodes that were replaced.
    pub from: Vec<Arc<str>>,
}

/// A value that metadata of users can hold: any literal, nested.
pub type Literal = Arg<std::convert::Infallible>;

/// Typed facts about a node that do not change what it computes.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct NodeMeta {
    /// The type of its value, if known.
    pub ty: Option<Arc<TypeTree>>,
    /// The line of the user's program that recorded it.
    pub source: Option<SourceLoc>,
    /// The modules that it was recorded in, outermost first.
    pub stack: Option<Arc<[ModuleFrame]>>,
    rare: Option<Box<RareMeta>>,
}

#[derive(Clone, PartialEq, Default, Debug)]
struct RareMeta {
    provenance: Vec<Provenance>,
    tags: Vec<Arc<str>>,
    ext: BTreeMap<Arc<str>, Literal>,
}

impl NodeMeta {
    fn rare_mut(&mut self) -> &mut RareMeta {
        self.rare.get_or_insert_default()
    }

    fn drop_empty_rare(&mut self) {
        if self.rare.as_deref() == Some(&RareMeta::default()) {
            self.rare = None;
        }
    }

    /// Returns the passes that made this node, oldest first.
    pub fn provenance(&self) -> &[Provenance] {
        self.rare.as_ref().map_or(&[], |rare| &rare.provenance)
    }

    /// Adds a pass to the provenance.
    pub fn add_provenance(&mut self, provenance: Provenance) {
        let list = &mut self.rare_mut().provenance;
        if !list.contains(&provenance) {
            list.push(provenance);
        }
    }

    /// Adds passes to the provenance, as [`add_provenance`](Self::add_provenance) does one by one.
    pub(crate) fn extend_provenance(&mut self, new: impl IntoIterator<Item = Provenance>) {
        let list = &mut self.rare_mut().provenance;
        let key = |one: &Provenance| (one.pass.clone(), one.from.clone());
        let mut known: FxHashSet<_> = list.iter().map(key).collect();
        list.extend(new.into_iter().filter(|one| known.insert(key(one))));
        self.drop_empty_rare();
    }

    /// Returns the tags, in the order in which they were added.
    pub fn tags(&self) -> &[Arc<str>] {
        self.rare.as_ref().map_or(&[], |rare| &rare.tags)
    }

    /// Adds a tag, unless it is there.
    pub fn add_tag(&mut self, tag: impl Into<Arc<str>>) {
        let tag = tag.into();
        let tags = &mut self.rare_mut().tags;
        if !tags.contains(&tag) {
            tags.push(tag);
        }
    }

    /// Removes a tag; returns whether it was there.
    pub fn remove_tag(&mut self, tag: &str) -> bool {
        let Some(rare) = &mut self.rare else { return false };
        let before = rare.tags.len();
        rare.tags.retain(|t| &**t != tag);
        let removed = rare.tags.len() < before;
        self.drop_empty_rare();
        removed
    }

    /// Returns users' own facts by name.
    pub fn ext(&self) -> impl Iterator<Item = (&Arc<str>, &Literal)> {
        self.rare.iter().flat_map(|rare| &rare.ext)
    }

    /// Returns the user's fact `key`.
    pub fn get_ext(&self, key: &str) -> Option<&Literal> {
        self.rare.as_ref().and_then(|rare| rare.ext.get(key))
    }

    /// Sets the user's fact `key`; `None` removes it. It prints, parses and saves with the graph.
    pub fn set_ext(&mut self, key: impl Into<Arc<str>>, value: Option<Literal>) {
        match value {
            Some(value) => self.rare_mut().ext.insert(key.into(), value),
            None => self.rare.as_mut().and_then(|rare| rare.ext.remove(&key.into())),
        };
        self.drop_empty_rare();
    }

    /// Returns the dotted path of the innermost module, empty for the root.
    pub fn module_path(&self) -> &str {
        self.stack.as_ref().and_then(|stack| stack.last()).map_or("", |frame| &frame.path)
    }
}

/// Keyword arguments in the order in which they were given.
pub type Kwargs = SmallVec<[(Arc<str>, Arg); 1]>;

/// One step of a graph. Read it through [`Graph::node`](crate::Graph::node); change it through the graph.
#[derive(Clone, Debug)]
pub struct Node {
    pub(crate) name: Arc<str>,
    pub(crate) target: Target,
    pub(crate) args: SmallVec<[Arg; 2]>,
    pub(crate) kwargs: Kwargs,
    pub(crate) meta: NodeMeta,
    pub(crate) edges: Edges,
}

/// The edges of a node. Each edge is in the `inputs` of one node and in the `users` of another, with the position
/// of the other entry, so that no edge is ever searched for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Edges {
    /// Distinct inputs in the order of their first use, with holes where an input went.
    pub(crate) inputs: SmallVec<[Edge; 2]>,
    /// How many of the inputs are holes.
    pub(crate) holes: u32,
    /// Each user once, in no particular order.
    pub(crate) users: SmallVec<[Edge; 2]>,
    /// Where each input is among the arguments; made when a node with many inputs gets another one.
    pub(crate) places: Places,
}

/// One end of an edge: the node at the other end, and the position of the edge there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Edge {
    pub(crate) node: NodeId,
    pub(crate) back: u32,
}

impl Edge {
    /// The place of an edge that went.
    pub(crate) const HOLE: Edge = Edge { node: NodeId { index: u32::MAX, stamp: 0 }, back: u32::MAX };
}

/// The position of each input among the `inputs` of a node, and its places in the arguments.
pub(crate) type PlacesOf = FxHashMap<NodeId, (u32, SmallVec<[Place; 1]>)>;

/// An index that is made when it is needed; a clone has none.
#[derive(Debug, Default)]
pub(crate) struct Places(pub(crate) Option<Box<PlacesOf>>);

impl Clone for Places {
    fn clone(&self) -> Self {
        Places(None)
    }
}

impl Node {
    /// Returns the name, unique in the graph.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the name as a shared string.
    pub fn shared_name(&self) -> &Arc<str> {
        &self.name
    }

    /// Returns what the node does.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Returns the opcode.
    pub fn opcode(&self) -> OpCode {
        self.target.opcode()
    }

    /// Returns the operation of a function or method call.
    pub fn op(&self) -> Option<Op> {
        self.target.op()
    }

    /// Returns the positional arguments; those of an output are the one returned value.
    pub fn args(&self) -> &[Arg] {
        &self.args
    }

    /// Returns the keyword arguments.
    pub fn kwargs(&self) -> &[(Arc<str>, Arg)] {
        &self.kwargs
    }

    /// Returns the distinct nodes that this one uses, in order of first use.
    pub fn inputs(&self) -> impl ExactSizeIterator<Item = NodeId> + '_ {
        let edges = self.edges.inputs.iter().filter(|edge| **edge != Edge::HOLE);
        Counted {
            left: self.edges.inputs.len() - self.edges.holes as usize,
            nodes: edges.map(|edge| edge.node),
        }
    }

    /// Returns how many nodes use this one.
    pub fn n_users(&self) -> usize {
        self.edges.users.len()
    }

    /// Returns the nodes that use this one, each once, in no particular order.
    pub(crate) fn users(&self) -> impl ExactSizeIterator<Item = NodeId> + '_ {
        self.edges.users.iter().map(|edge| edge.node)
    }

    /// Returns the facts about the node.
    pub fn meta(&self) -> &NodeMeta {
        &self.meta
    }

    /// Returns the type of its value, if known.
    pub fn ty(&self) -> Option<&TypeTree> {
        self.meta.ty.as_deref()
    }

    /// Returns every argument, positional first.
    pub fn all_args(&self) -> impl Iterator<Item = &Arg> {
        self.args.iter().chain(self.kwargs.iter().map(|(_, arg)| arg))
    }

    /// Returns the sub-graphs among the arguments, at any nesting.
    pub fn subgraphs(&self) -> Vec<&Arc<crate::Graph>> {
        let mut graphs = Vec::new();
        for arg in self.all_args() {
            arg.walk(&mut |arg| {
                if let Arg::Graph(graph) = arg {
                    graphs.push(graph);
                }
            });
        }
        graphs
    }
}

/// An iterator whose length is known from elsewhere.
struct Counted<I> {
    nodes: I,
    left: usize,
}

impl<I: Iterator> Iterator for Counted<I> {
    type Item = I::Item;

    fn next(&mut self) -> Option<I::Item> {
        let next = self.nodes.next();
        self.left -= usize::from(next.is_some());
        next
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl<I: Iterator> ExactSizeIterator for Counted<I> {}
