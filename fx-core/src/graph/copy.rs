//! Copying nodes between graphs, inlining, and structural comparison.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::Graph;
use super::sizes::Sizes;
use crate::node::{NodeId, OpCode};
use crate::{Arg, Result, bail, err};

/// What each node of one graph became in another.
pub type NodeMap = FxHashMap<NodeId, Arg>;

/// The result of [`Graph::copy_graph`].
#[derive(Debug, Clone)]
pub struct Copied {
    /// What the copied graph returned, in terms of this graph.
    pub output: Arg,
    /// The new nodes in program order.
    pub nodes: Vec<NodeId>,
}

impl Graph {
    /// Copies one node of `from` to the cursor, with its name hint and metadata; inputs are looked up in `map`,
    /// and the copy is entered there. A placeholder becomes a new argument.
    ///
    /// Symbols of sizes keep their names, so the two graphs should call the same size the same;
    /// [`copy_graph`](Self::copy_graph) finds out what they are here. Fails if the handle is stale or that of
    /// the output, or an input is not in `map`.
    pub fn copy_node(&mut self, from: &Graph, id: NodeId, map: &mut NodeMap) -> Result<NodeId> {
        self.copy_with(from, id, map, &Sizes::default())
    }

    fn copy_with(&mut self, from: &Graph, id: NodeId, map: &mut NodeMap, sizes: &Sizes) -> Result<NodeId> {
        let node = from.node(id)?;
        let translated = |arg: &Arg| match sizes.is_identity() {
            true => map_arg(from, arg, map),
            false => map_arg(from, &sizes.arg(arg)?, map),
        };
        let copy = match node.opcode() {
            OpCode::Placeholder => self.placeholder(node.name())?,
            OpCode::Output => return Err(err!(Graph, "an output cannot be copied").help("use `set_output`")),
            _ => {
                let args = node.args.iter().map(&translated).collect::<Result<Vec<_>>>()?;
                let kwargs = node
                    .kwargs
                    .iter()
                    .map(|(key, arg)| Ok((key.clone(), translated(arg)?)))
                    .collect::<Result<Vec<_>>>()?;
                self.create(node.target.clone(), args, kwargs, Some(node.name()))?
            }
        };
        let mut meta = node.meta.clone();
        if !sizes.is_identity() {
            meta.ty = node.ty().and_then(|ty| sizes.ty(ty)).map(Arc::new);
        }
        self.get_mut(copy).meta = meta;
        map.insert(id, Arg::Leaf(copy));
        Ok(copy)
    }

    /// Copies every node of `from` but placeholders and output to the cursor. `map` must say what each
    /// placeholder becomes; it is extended by what the other nodes become. Symbolic sizes of the placeholders
    /// become the sizes of the given values. On an error nothing is changed. Fails if a placeholder is not in
    /// `map`.
    pub fn copy_graph(&mut self, from: &Graph, map: &mut NodeMap) -> Result<Copied> {
        let mut added = Vec::new();
        let copied = self.copy_nodes(from, map, &mut added);
        if copied.is_err() {
            added.iter().for_each(|id| {
                map.remove(id);
            });
        }
        copied
    }

    fn copy_nodes(&mut self, from: &Graph, map: &mut NodeMap, added: &mut Vec<NodeId>) -> Result<Copied> {
        let sizes = Sizes::of_copy(from, self, map)?;
        self.names.reserve(from.len());
        map.reserve(from.len());
        added.reserve(from.len());
        self.transaction(|graph| {
            let mut nodes = Vec::new();
            for (id, node) in from.nodes() {
                match node.opcode() {
                    OpCode::Output => {}
                    _ if map.contains_key(&id) => {}
                    OpCode::Placeholder => {
                        bail!(
                            Argument,
                            "nothing is given for the placeholder %{} of the copied graph",
                            node.name()
                        )
                    }
                    _ => {
                        nodes.push(graph.copy_with(from, id, map, &sizes)?);
                        added.push(id);
                    }
                }
            }
            let output = map_arg(from, &sizes.arg(from.output())?, map)?;
            Ok(Copied { output, nodes })
        })
    }

    /// Returns the same graph with fresh storage: nodes in order, no free slots, all handles new. Fails if
    /// the graph is not sound.
    pub fn compacted(&self) -> Result<Graph> {
        let mut graph = Graph::new(&self.name);
        let mut map = NodeMap::default();
        graph.rename(graph.output, self.get(self.output).name())?;
        for input in &self.inputs {
            let names = input.tree.map(&mut |id| self.get(*id).shared_name().clone());
            let tree = graph.named_input(&input.name, &names)?;
            for (old, new) in input.tree.leaves().into_iter().zip(tree.leaves()) {
                graph.get_mut(*new).meta = self.get(*old).meta.clone();
                map.insert(*old, Arg::Leaf(*new));
            }
        }
        let copied = graph.copy_graph(self, &mut map)?;
        graph.set_output(copied.output)?;
        graph.get_mut(graph.output).meta = self.get(self.output).meta.clone();
        Ok(graph)
    }
}

/// Rewrites the nodes in `arg` by `map`; a node that is not in it is an error that names it.
fn map_arg(from: &Graph, arg: &Arg, map: &NodeMap) -> Result<Arg> {
    arg.try_flat_map(&mut |id| match map.get(id) {
        Some(arg) => Ok(arg.clone()),
        None => bail!(Argument, "nothing is given for %{}, which a copied node uses", from.node(*id)?.name()),
    })
}

/// Graphs are equal if they have the same name, signature, and nodes in the same order with the same names,
/// targets, arguments and metadata. Handles do not matter.
impl PartialEq for Graph {
    fn eq(&self, other: &Self) -> bool {
        if self.name != other.name || self.len() != other.len() || self.inputs.len() != other.inputs.len() {
            return false;
        }
        // A node is met before it is used, so one walk is enough.
        let mut partners: Vec<Option<NodeId>> = vec![None; self.slots.len()];
        let same_arg = |partners: &[Option<NodeId>], a: &Arg, b: &Arg| {
            a.eq_by(b, &|a: &NodeId, b: &NodeId| partners[a.index as usize] == Some(*b))
        };
        let same_nodes = self.nodes().zip(other.nodes()).all(|((id, a), (partner, b))| {
            partners[id.index as usize] = Some(partner);
            a.name == b.name
                && a.target == b.target
                && a.meta == b.meta
                && a.args.len() == b.args.len()
                && a.kwargs.len() == b.kwargs.len()
                && a.args.iter().zip(&b.args).all(|(a, b)| same_arg(&partners, a, b))
                && a.kwargs.iter().zip(&b.kwargs).all(|((k, a), (l, b))| k == l && same_arg(&partners, a, b))
        });
        let mut inputs = self.inputs.iter().zip(&other.inputs);
        same_nodes && inputs.all(|(a, b)| a.name == b.name && same_arg(&partners, &a.tree, &b.tree))
    }
}

/// Allows `Arc<Graph>` comparisons to name both sides in messages.
impl From<Graph> for Arg {
    fn from(graph: Graph) -> Self {
        Arc::new(graph).into()
    }
}
