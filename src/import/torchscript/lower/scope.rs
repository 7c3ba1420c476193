//! Closed sub-graphs while they are built: what they take from outside, and what they change.
//!
//! A sub-graph sees no nodes but its own. A node of a graph around it becomes an input when it is first used
//! ([`Lowerer::local`]), and so does the integer behind a size that its inputs do not tell. Before a sub-graph is
//! built, a [`Snapshot`] remembers everything that the program could change in it.

use std::collections::HashSet;
use std::sync::Arc;

use fx_script::value::{Dict, List, Object, TensorRef, Value};

use super::{Lowerer, Meaning, Step};
use crate::graph::NodeMap;
use crate::import::alias::View;
use crate::import::build::{Builder, Suspended};
use crate::{Arg, Dim, Graph, NodeId, Result, Type, TypeTree, err};

/// A sub-graph that is being built.
pub(super) struct Scope {
    /// The graph around it.
    outer: Suspended,
    /// Nodes of that graph, with the inputs that they are.
    captures: Vec<(NodeId, NodeId)>,
}

/// A sub-graph that was built.
pub(super) struct Inner {
    suspended: Suspended,
    captures: Vec<(NodeId, NodeId)>,
}

impl Inner {
    /// Returns the nodes that it takes from the graph around it.
    pub(super) fn captures(&self) -> impl Iterator<Item = NodeId> {
        self.captures.iter().map(|(outer, _)| *outer)
    }

    /// Returns the graph.
    pub(super) fn graph(&self) -> &Graph {
        &self.suspended.graph
    }

    /// Returns the closed graph, whose inputs after its own are `all`, nodes of the graph around it.
    pub(super) fn close(self, outer: &Graph, all: &[NodeId], output: Arg) -> Result<Arc<Graph>> {
        let mut inner = self.suspended.graph;
        inner.set_output(output)?;
        inner.eliminate_dead_code(|_| true);
        let captured: HashSet<NodeId> = self.captures.iter().map(|(_, input)| *input).collect();
        let mut graph = Graph::new(inner.name());
        let mut map = NodeMap::default();
        for input in inner.inputs() {
            let Some(&old) = input.tree.leaf() else {
                return Err(err!(Graph, "an input of a region is one node"));
            };
            if captured.contains(&old) {
                continue;
            }
            let new = graph.placeholder(&input.name)?;
            graph.meta_mut(new)?.ty = inner.node(old)?.meta().ty.clone();
            map.insert(old, Arg::Leaf(new));
        }
        for &node in all {
            let old = self.captures.iter().find(|(outer, _)| *outer == node).map(|(_, input)| *input);
            let name = match old {
                Some(old) => inner.node(old)?.name(),
                None => outer.node(node)?.name(),
            };
            let new = graph.placeholder(&free_name(&graph, name))?;
            graph.meta_mut(new)?.ty = outer.node(node)?.meta().ty.clone();
            if let Some(old) = old {
                map.insert(old, Arg::Leaf(new));
            }
        }
        let copied = graph.copy_graph(&inner, &mut map)?;
        graph.set_output(copied.output)?;
        Ok(Arc::new(graph))
    }
}

/// Returns a name that no input of a graph has.
fn free_name(graph: &Graph, name: &str) -> String {
    let is_taken = |name: &str| graph.inputs().iter().any(|input| &*input.name == name);
    if !is_taken(name) {
        return name.to_owned();
    }
    (1..).map(|i| format!("{name}_{i}")).find(|name| !is_taken(name)).expect("some number is free")
}

/// Something that changes.
#[derive(Clone)]
pub(super) enum CellRef {
    List(Arc<List>),
    Dict(Arc<Dict>),
    Object(Arc<Object>),
}

impl CellRef {
    fn address(&self) -> usize {
        match self {
            CellRef::List(list) => Arc::as_ptr(list) as usize,
            CellRef::Dict(dict) => Arc::as_ptr(dict) as usize,
            CellRef::Object(object) => Arc::as_ptr(object) as usize,
        }
    }

    /// Returns the content: items, attributes, or keys and values in turn.
    pub(super) fn content(&self) -> Vec<Value> {
        match self {
            CellRef::List(list) => list.read(Clone::clone),
            CellRef::Dict(dict) => dict
                .read(|entries| entries.iter().flat_map(|(key, item)| [key.clone(), item.clone()]).collect()),
            CellRef::Object(object) => object.slots.read(Clone::clone),
        }
    }

    /// Sets the content. Fails if a key of a dictionary is none.
    pub(super) fn set_content(&self, content: Vec<Value>) -> Result<()> {
        match self {
            CellRef::List(list) => list.edit(|items| *items = content),
            CellRef::Object(object) => object.slots.edit(|slots| *slots = content),
            CellRef::Dict(dict) => {
                let pairs = content.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone()));
                let made = Value::dict(pairs)?.to_dict()?.read(Clone::clone);
                dict.edit(|entries| *entries = made);
            }
        }
        Ok(())
    }

    /// Returns the name of an attribute, or the place of an item.
    pub(super) fn place(&self, at: usize) -> String {
        match self {
            CellRef::Object(object) => format!("the attribute {:?}", object.class.slots()[at]),
            CellRef::List(_) => format!("item {at} of a list"),
            CellRef::Dict(_) => "an entry of a dictionary".to_owned(),
        }
    }
}

/// Everything that the program can change, as it was.
#[derive(Clone)]
pub(super) struct Snapshot {
    pub(super) cells: Vec<CellRef>,
    pub(super) contents: Vec<Vec<Value>>,
    /// The value and the version of each storage.
    pub(super) storages: Vec<(NodeId, u32)>,
    meanings: Vec<Meaning>,
    frame: Vec<Option<Value>>,
    depth: (usize, usize),
}

impl Snapshot {
    /// Returns whether something was reachable.
    pub(super) fn has(&self, cell: &CellRef) -> bool {
        self.cells.iter().any(|other| other.address() == cell.address())
    }
}

impl Lowerer<'_> {
    /// Begins a closed sub-graph.
    pub(super) fn enter(&mut self, name: &str) {
        let outer = self.builder().swap(Suspended::new(name));
        self.scopes.push(Scope { outer, captures: Vec::new() });
    }

    /// Goes on with a sub-graph that was left.
    pub(super) fn reenter(&mut self, inner: Inner) {
        let outer = self.builder().swap(inner.suspended);
        self.scopes.push(Scope { outer, captures: inner.captures });
    }

    /// Goes back to the graph around the sub-graph.
    pub(super) fn leave(&mut self) -> Inner {
        let scope = self.scopes.pop().expect("a sub-graph was entered");
        let suspended = self.builder().swap(scope.outer);
        Inner { suspended, captures: scope.captures }
    }

    /// Builds in one of the graphs around the present one, counted from the outermost.
    pub(super) fn at_level<T>(&mut self, level: usize, f: impl FnOnce(&mut Builder<'_>) -> T) -> T {
        if level == self.scopes.len() {
            return f(self.builder());
        }
        let outer = std::mem::replace(&mut self.scopes[level].outer, Suspended::new(""));
        let present = self.builder().swap(outer);
        let result = f(self.builder());
        self.scopes[level].outer = self.builder().swap(present);
        result
    }

    /// Returns the node that a node of this graph, or of one around it, is in this graph.
    pub(super) fn local(&mut self, node: NodeId) -> Step<NodeId> {
        if self.builder().graph.contains(node) {
            return Ok(node);
        }
        self.capture(self.scopes.len(), node)
    }

    fn capture(&mut self, level: usize, node: NodeId) -> Step<NodeId> {
        let Some(above) = level.checked_sub(1) else {
            return Err(self.obstacle("a value of another branch is used"));
        };
        let outer = match self.scopes[above].outer.graph.contains(node) {
            true => node,
            false => self.capture(above, node)?,
        };
        if let Some((_, inner)) = self.scopes[above].captures.iter().find(|(known, _)| *known == outer) {
            return Ok(*inner);
        }
        let known = self.scopes[above].outer.graph.node(outer)?;
        let (name, ty) = (known.name().to_owned(), known.ty().cloned());
        let is_number = self.builder().is_number(outer);
        let inner = self.at_level(level, |builder| -> Result<NodeId> {
            let inner = builder.graph.placeholder(&free_name(&builder.graph, &name))?;
            if let Some(ty) = ty {
                builder.declare(inner, ty)?;
            }
            if is_number {
                builder.note_number(inner);
            }
            Ok(inner)
        })?;
        self.scopes[above].captures.push((outer, inner));
        Ok(inner)
    }

    /// Makes a size one of this graph: its symbols are told by inputs of the sub-graph.
    pub(super) fn local_dim(&mut self, dim: &Dim) -> Step<()> {
        for symbol in dim.symbols() {
            self.capture_symbol(self.scopes.len(), symbol.name())?;
        }
        Ok(())
    }

    fn capture_symbol(&mut self, level: usize, symbol: &str) -> Step<()> {
        if self.at_level(level, |builder| builder.knows_size(symbol)) {
            return Ok(());
        }
        if level == 0 {
            return Err(
                self.obstacle(format!("the size {symbol} is computed in a branch or loop, and used outside"))
            );
        }
        self.capture_symbol(level - 1, symbol)?;
        let outer = &self.scopes[level - 1].outer;
        let source = match outer.data_size(symbol) {
            Some((node, _)) => Some(node),
            None => outer.graph.placeholders().into_iter().find(|&node| {
                outer.graph.node(node).ok().and_then(crate::Node::ty).is_some_and(|ty| mentions(ty, symbol))
            }),
        };
        match source {
            Some(node) => self.capture(level, node).map(|_| ()),
            None => Err(self.obstacle(format!("the size {symbol} is not known in the branch"))),
        }
    }

    /// Returns a tensor with its nodes in this graph.
    pub(super) fn local_view(&mut self, view: &View, is_written: bool) -> Step<View> {
        if self.scopes.is_empty() {
            return Ok(view.clone());
        }
        let storage = &self.builder().storages[view.storage];
        let (value, is_present) = (storage.value, storage.version == view.version);
        if is_written || !is_present {
            let value = self.local(value)?;
            self.builder().storages[view.storage].value = value;
        }
        if !is_present {
            return Ok(view.clone());
        }
        let node = self.local(view.node)?;
        Ok(View { node, ..view.clone() })
    }

    /// Remembers everything that the program can change.
    pub(super) fn snapshot(&mut self) -> Step<Snapshot> {
        self.read_attributes()?;
        let mut pending: Vec<Value> = self.roots.clone();
        pending.extend(self.frames.iter().flatten().flatten().cloned());
        let (cells, tensors) = reachable(pending);
        // A branch could write to a known tensor: it becomes one of the graph.
        for tensor in tensors {
            if !tensor.is_complex() {
                self.lift(&tensor)?;
            }
        }
        let contents = cells.iter().map(CellRef::content).collect();
        Ok(Snapshot {
            cells,
            contents,
            storages: self.storage_states(),
            meanings: self.meanings.clone(),
            frame: self.frame().clone(),
            depth: (self.frames.len(), self.modules.len()),
        })
    }

    fn storage_states(&mut self) -> Vec<(NodeId, u32)> {
        self.builder().storages.iter().map(|storage| (storage.value, storage.version)).collect()
    }

    /// Remembers what the things of a snapshot are now.
    pub(super) fn after(&mut self, before: &Snapshot) -> Snapshot {
        let n = before.storages.len();
        let mut storages = self.storage_states();
        storages.truncate(n);
        Snapshot {
            cells: before.cells.clone(),
            contents: before.cells.iter().map(CellRef::content).collect(),
            storages,
            meanings: self.meanings[..before.meanings.len()].to_vec(),
            frame: self.frame().clone(),
            depth: before.depth,
        }
    }

    /// Makes everything what it was. What was made since stays.
    pub(super) fn restore(&mut self, before: &Snapshot) -> Step<()> {
        self.frames.truncate(before.depth.0);
        if self.modules.len() > before.depth.1 {
            self.modules.truncate(before.depth.1);
            self.stack = Some(self.modules.clone().into());
        }
        for (cell, content) in before.cells.iter().zip(&before.contents) {
            if !unchanged(&cell.content(), content) {
                cell.set_content(content.clone())?;
            }
        }
        for (storage, &(value, version)) in self.builder().storages.iter_mut().zip(&before.storages) {
            (storage.value, storage.version) = (value, version);
        }
        self.meanings[..before.meanings.len()].clone_from_slice(&before.meanings);
        self.frame().clone_from(&before.frame);
        Ok(())
    }
}

/// Returns what can change of what values lead to, and the known tensors among it.
pub(super) fn reachable(mut pending: Vec<Value>) -> (Vec<CellRef>, Vec<TensorRef>) {
    let mut cells: Vec<CellRef> = Vec::new();
    let mut tensors: Vec<TensorRef> = Vec::new();
    let mut seen: HashSet<usize> = HashSet::new();
    while let Some(value) = pending.pop() {
        let cell = match value {
            Value::List(list) => CellRef::List(list),
            Value::Dict(dict) => CellRef::Dict(dict),
            Value::Object(object) => CellRef::Object(object),
            Value::Tuple(tuple) => {
                pending.extend(tuple.items.iter().cloned());
                continue;
            }
            Value::Future(future) => {
                pending.extend(future.result.iter().cloned());
                continue;
            }
            Value::Tensor(tensor) => {
                tensors.push(tensor);
                continue;
            }
            _ => continue,
        };
        if seen.insert(cell.address()) {
            pending.extend(cell.content());
            cells.push(cell);
        }
    }
    (cells, tensors)
}

/// Whether a type tells the value of a symbol.
fn mentions(ty: &TypeTree, symbol: &str) -> bool {
    let is = |dim: &Dim| dim.as_symbol().is_some_and(|own| own.name() == symbol);
    match ty {
        Arg::Leaf(Type::Tensor(ty)) => ty.shape.iter().any(is),
        Arg::Dim(dim) => is(dim),
        _ => false,
    }
}

/// Whether two contents are the same things.
pub(super) fn unchanged(a: &[Value], b: &[Value]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
}

/// Whether two values are one thing; floats are by their bits.
pub(super) fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Float(a), Value::Float(b)) => a.to_bits() == b.to_bits(),
        _ => fx_script::value::is_same(a, b),
    }
}
