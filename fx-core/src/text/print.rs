//! Printing: a graph, then its sub-graphs in the order in which they are first mentioned, each once.

use std::collections::VecDeque;
use std::fmt::{self, Write};
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::meta;
use crate::arg::write_str;
use crate::{Arg, Dim, Graph, Node, NodeId, Result, Symbol, Target, Type, TypeTree};

/// What writes the name of a sub-graph.
pub(super) type WriteGraph<'a> = dyn FnMut(&Arc<Graph>, &mut dyn Write) -> fmt::Result + 'a;

/// Prints the text format; the alternate form `{:#}` has the metadata of nodes, from which the graph is restored.
impl fmt::Display for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let full = f.alternate();
        let mut names = SubgraphNames::new(self.name());
        write_graph(self, self.name(), full, &mut names, f)?;
        while let Some((graph, label)) = names.queue.pop_front() {
            f.write_char('\n')?;
            write_graph(&graph, &label, full, &mut names, f)?;
        }
        Ok(())
    }
}

impl Graph {
    /// Returns the text from which [`Graph::parse`] restores the graph with its metadata and sub-graphs.
    pub fn to_text(&self) -> String {
        format!("{self:#}")
    }
}

impl Graph {
    /// Returns the node as one line of the text format. Fails if `id` is stale.
    pub fn format_node(&self, id: NodeId) -> Result<String> {
        self.node(id)?;
        Ok(format_node(self, id))
    }
}

/// Returns a node as one line of the text format, without metadata.
pub(super) fn format_node(graph: &Graph, id: NodeId) -> String {
    let mut out = String::new();
    if let Ok(node) = graph.node(id) {
        write_node(graph, node, &mut |graph, f| write!(f, "@{}", graph.name()), &mut out)
            .expect("writing to a string cannot fail");
    }
    out
}

/// Unique names of sub-graphs, and those that are still to be printed.
pub(super) struct SubgraphNames {
    labels: FxHashMap<*const Graph, Arc<str>>,
    used: FxHashSet<Arc<str>>,
    counts: FxHashMap<Arc<str>, usize>,
    pub(super) queue: VecDeque<(Arc<Graph>, Arc<str>)>,
}

impl SubgraphNames {
    pub(super) fn new(main: &str) -> Self {
        SubgraphNames {
            labels: FxHashMap::default(),
            used: FxHashSet::from_iter([Arc::from(main)]),
            counts: FxHashMap::default(),
            queue: VecDeque::new(),
        }
    }

    /// Returns the unique name of a sub-graph, which is queued when it is first named.
    pub(super) fn label(&mut self, graph: &Arc<Graph>) -> Arc<str> {
        if let Some(label) = self.labels.get(&Arc::as_ptr(graph)) {
            return label.clone();
        }
        let mut label: Arc<str> = Arc::from(graph.name());
        if self.used.contains(&label) {
            let count = self.counts.entry(label.clone()).or_default();
            while self.used.contains(&label) {
                *count += 1;
                label = Arc::from(format!("{}_{count}", graph.name()));
            }
        }
        self.used.insert(label.clone());
        self.labels.insert(Arc::as_ptr(graph), label.clone());
        self.queue.push_back((graph.clone(), label.clone()));
        label
    }
}

fn write_graph(
    graph: &Graph,
    label: &str,
    full: bool,
    names: &mut SubgraphNames,
    f: &mut dyn Write,
) -> fmt::Result {
    write!(f, "graph {label}")?;
    if label != graph.name() {
        write!(f, " as {}", graph.name())?;
    }
    write_symbols(graph, full, f)?;
    let subgraph = &mut |graph: &Arc<Graph>, f: &mut dyn Write| write!(f, "@{}", names.label(graph));
    f.write_str("(")?;
    for (i, input) in graph.inputs().iter().enumerate() {
        f.write_str(if i > 0 { ", " } else { "" })?;
        write_input(graph, &input.name, &input.tree, subgraph, f)?;
    }
    f.write_str(")")?;
    if let Some(ty) = output_type(graph) {
        f.write_str(" -> ")?;
        write_type(&ty, subgraph, f)?;
    }
    f.write_str(" {\n")?;
    for (_, node) in graph.nodes() {
        let is_input = *node.target() == Target::Placeholder;
        let has_meta = full && meta::is_printed(node);
        if is_input && !has_meta {
            continue;
        }
        f.write_str("  ")?;
        if is_input {
            write!(f, "%{}", node.name())?
        } else {
            write_node(graph, node, subgraph, f)?
        }
        if has_meta {
            f.write_char(' ')?;
            meta::write(node, subgraph, f)?;
        }
        f.write_char('\n')?;
    }
    f.write_str("}\n")
}

/// Writes the ranges of the symbols whose range is not that of a size.
fn write_symbols(graph: &Graph, full: bool, f: &mut dyn Write) -> fmt::Result {
    let mut found: Vec<Symbol> = Vec::new();
    let mut seen: FxHashSet<Symbol> = FxHashSet::default();
    let mut dim = |dim: &Dim| {
        if !dim.is_known() {
            for symbol in dim.symbols() {
                if (symbol.min() != 0 || symbol.max().is_some()) && seen.insert(symbol.clone()) {
                    found.push(symbol);
                }
            }
        }
    };
    for input in graph.inputs() {
        dims_of(&input.tree, &mut dim);
    }
    for (_, node) in graph.nodes() {
        if full || *node.target() != Target::Output {
            node.ty().into_iter().for_each(|ty| type_dims(ty, &mut dim));
        }
        node.all_args().for_each(|arg| dims_of(arg, &mut dim));
        if full {
            node.meta().ext().for_each(|(_, value)| dims_of(value, &mut dim));
        }
    }
    for (i, symbol) in found.iter().enumerate() {
        write!(f, "{}{symbol}: {}", if i > 0 { ", " } else { "<" }, symbol.range())?;
    }
    f.write_str(if found.is_empty() { "" } else { ">" })
}

fn dims_of<L>(arg: &Arg<L>, dim: &mut dyn FnMut(&Dim)) {
    arg.walk(&mut |arg| {
        if let Arg::Dim(found) = arg {
            dim(found);
        }
    });
}

fn type_dims(ty: &TypeTree, dim: &mut dyn FnMut(&Dim)) {
    ty.walk(&mut |arg| match arg {
        Arg::Dim(found) => dim(found),
        Arg::Leaf(Type::Tensor(ty)) => ty.shape.iter().for_each(&mut *dim),
        _ => {}
    });
}

fn write_input(
    graph: &Graph,
    name: &str,
    tree: &Arg,
    subgraph: &mut WriteGraph<'_>,
    f: &mut dyn Write,
) -> fmt::Result {
    let node_name = tree.leaf().and_then(|id| graph.node(*id).ok()).map(Node::name);
    if node_name != Some(name) {
        write_name(name, crate::names::is_identifier(name), f)?;
        f.write_str(if tree.leaves().is_empty() { " = " } else { ": " })?;
    }
    // Types and trees both may hold sub-graphs, so the one writer of their names is lent in turn.
    let subgraph = std::cell::RefCell::new(subgraph);
    tree.write(
        f,
        &mut |id, f| {
            let node = graph.node(*id).map_err(|_| fmt::Error)?;
            write!(f, "%{}", node.name())?;
            write_annotation(node, &mut **subgraph.borrow_mut(), f)
        },
        &mut |graph, f| (subgraph.borrow_mut())(graph, f),
    )
}

/// Writes a word as it is, if it may stand alone, or else in quotes.
pub(super) fn write_name(name: &str, alone: bool, f: &mut dyn Write) -> fmt::Result {
    if alone { f.write_str(name) } else { write_str(name, f) }
}

fn write_annotation(node: &Node, subgraph: &mut WriteGraph<'_>, f: &mut dyn Write) -> fmt::Result {
    match node.ty() {
        Some(ty) => {
            f.write_str(": ")?;
            write_type(ty, subgraph, f)
        }
        None => Ok(()),
    }
}

/// Writes a type; what failed to be inferred is printed as unknown.
pub(super) fn write_type(ty: &TypeTree, subgraph: &mut WriteGraph<'_>, f: &mut dyn Write) -> fmt::Result {
    ty.write(
        f,
        &mut |leaf, f| match leaf {
            Type::Tensor(ty) if ty.shape.iter().any(|dim| dim.error().is_some()) => f.write_str("any"),
            Type::Tensor(ty) => {
                f.write_str(ty.dtype.name())?;
                f.write_char('[')?;
                for (i, dim) in ty.shape.iter().enumerate() {
                    f.write_str(if i > 0 { ", " } else { "" })?;
                    match dim.as_symbol() {
                        Some(symbol) if symbol.owner() == 0 => f.write_str(symbol.name())?,
                        _ => write!(f, "{dim}")?,
                    }
                }
                f.write_char(']')
            }
            leaf => write!(f, "{leaf}"),
        },
        subgraph,
    )
}

/// Returns the type of what the graph returns, unless nothing is known of it.
pub(super) fn output_type(graph: &Graph) -> Option<TypeTree> {
    let mut known = false;
    let ty = graph.output().try_flat_map(&mut |id| {
        let ty = graph.node(*id)?.ty().cloned();
        known |= ty.is_some();
        Ok(ty.unwrap_or(Arg::Leaf(Type::Any)))
    });
    ty.ok().filter(|ty| known && ty.error().is_none())
}

/// Writes one node without its metadata.
pub(super) fn write_node(
    graph: &Graph,
    node: &Node,
    subgraph: &mut WriteGraph<'_>,
    f: &mut dyn Write,
) -> fmt::Result {
    if *node.target() == Target::Output {
        f.write_str("return ")?;
        return write_arg(graph, &node.args()[0], subgraph, f);
    }
    f.write_char('%')?;
    f.write_str(node.name())?;
    write_annotation(node, subgraph, f)?;
    let mut args = node.args();
    match node.target() {
        Target::Placeholder | Target::Output => return Ok(()),
        Target::GetAttr(path) => {
            f.write_str(" = self.")?;
            return write_path(path, f);
        }
        Target::CallModule(path) => {
            f.write_str(" = self.")?;
            write_path(path, f)?;
        }
        Target::CallFunction(op) => {
            f.write_str(" = ")?;
            write_name(op.name, is_word(op.name) && op.name != "self", f)?;
        }
        Target::CallMethod(op) => {
            f.write_str(" = ")?;
            match args.split_first() {
                Some((receiver @ Arg::Leaf(_), rest)) => {
                    write_arg(graph, receiver, subgraph, f)?;
                    args = rest;
                }
                Some((receiver, rest)) => {
                    f.write_char('(')?;
                    write_arg(graph, receiver, subgraph, f)?;
                    f.write_char(')')?;
                    args = rest;
                }
                None => {}
            }
            f.write_char('.')?;
            write_name(op.name, is_word(op.name), f)?;
        }
    }
    f.write_char('(')?;
    let mut separator = "";
    for arg in args {
        f.write_str(separator)?;
        write_arg(graph, arg, subgraph, f)?;
        separator = ", ";
    }
    for (key, arg) in node.kwargs() {
        f.write_str(separator)?;
        write_name(key, is_word(key), f)?;
        f.write_char('=')?;
        write_arg(graph, arg, subgraph, f)?;
        separator = ", ";
    }
    f.write_char(')')
}

fn write_arg(graph: &Graph, arg: &Arg, subgraph: &mut WriteGraph<'_>, f: &mut dyn Write) -> fmt::Result {
    let mut leaf = |id: &NodeId, f: &mut dyn Write| {
        f.write_char('%')?;
        f.write_str(graph.node(*id).map_err(|_| fmt::Error)?.name())
    };
    match arg {
        Arg::Leaf(id) => leaf(id, f),
        _ => arg.write(f, &mut leaf, subgraph),
    }
}

fn write_path(path: &str, f: &mut dyn Write) -> fmt::Result {
    write_name(path, path.split('.').all(is_segment), f)
}

/// Returns whether `text` is letters, digits and underscores.
fn is_segment(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b == b'_' || b.is_ascii_alphanumeric())
}

/// Returns whether `text` is a word of the format: a segment that does not begin with a digit.
pub(super) fn is_word(text: &str) -> bool {
    is_segment(text) && !text.starts_with(|c: char| c.is_ascii_digit())
}
