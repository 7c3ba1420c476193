//! Common subexpression elimination: a repeated computation is done once.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHasher};

use super::{Context, Pass, each_graph};
use crate::attribute::Parts;
use crate::node::{Node, NodeId, Provenance, Target};
use crate::{Arg, Graph, GraphModule, Result};

/// Merges nodes that compute the same.
pub const CSE: Pass = Pass {
    name: "cse",
    doc: "Merges nodes that compute the same value. Calls are the same if their arguments are by schema, however they are \
          spelled, and in either order for commutative operations; literals by type and bits. Nodes with effects are never merged.",
    run,
    ..Pass::BASE
};

fn run(gm: &mut GraphModule, cx: &mut Context) -> Result<()> {
    each_graph(gm, &mut |graph, parts| merge(graph, parts, cx))
}

/// A node that others were merged into: their names and tags.
#[derive(Default)]
struct Merged {
    names: Vec<Arc<str>>,
    tags: Vec<Arc<str>>,
}

fn merge(graph: &mut Graph, parts: Parts<'_>, cx: &mut Context) -> Result<bool> {
    let mut merged: FxHashMap<NodeId, Merged> = FxHashMap::default();
    merge_nodes(graph, parts, cx, &mut merged)?;
    let changed = !merged.is_empty();
    for (id, Merged { names, tags }) in merged {
        let meta = graph.meta_mut(id)?;
        tags.into_iter().for_each(|tag| meta.add_tag(tag));
        meta.extend_provenance(
            names.into_iter().map(|name| Provenance { pass: "cse".into(), from: vec![name] }),
        );
    }
    Ok(changed)
}

fn merge_nodes(
    graph: &mut Graph,
    parts: Parts<'_>,
    cx: &mut Context,
    merged: &mut FxHashMap<NodeId, Merged>,
) -> Result<()> {
    let mut seen: FxHashMap<u64, Vec<(NodeId, Vec<Arg>)>> = FxHashMap::default();
    for id in graph.ids() {
        let node = graph.node(id)?;
        if matches!(node.target(), Target::Placeholder | Target::Output) || parts.has_effect(node) {
            continue;
        }
        let args = arguments(graph, node)?;
        let candidates = seen.entry(key(node.target(), &args)).or_default();
        let first = candidates.iter().find(|(first, other)| {
            *other == args && graph.node(*first).is_ok_and(|first| is_same(first, node))
        });
        let Some((first, _)) = first else {
            candidates.push((id, args));
            continue;
        };
        let (first, name) = (*first, node.shared_name().clone());
        if !cx.allow(|| format!("merge %{name} into %{}", graph.node(first).map_or("?", Node::name))) {
            return Ok(());
        }
        let into = merged.entry(first).or_default();
        into.names.push(name);
        into.tags.extend(node.meta().tags().iter().cloned());
        graph.replace_all_uses(id, first)?;
        graph.erase(id)?;
    }
    Ok(())
}

/// Returns the arguments in the one way in which they are compared.
fn arguments(graph: &Graph, node: &Node) -> Result<Vec<Arg>> {
    let Some(op) = node.op() else { return Ok(node.args().to_vec()) };
    let mut bound = op.canonical(node.args(), node.kwargs())?;
    if op.can_swap(&bound) {
        let is_later = match (&bound[0], &bound[1]) {
            (Arg::Leaf(a), Arg::Leaf(b)) => graph.position(*a) > graph.position(*b),
            (Arg::Leaf(_), _) => false,
            (_, Arg::Leaf(_)) => true,
            _ => false,
        };
        if is_later {
            bound.swap(0, 1);
        }
    }
    Ok(bound)
}

fn key(target: &Target, args: &[Arg]) -> u64 {
    let mut hasher = FxHasher::default();
    match target.op() {
        Some(op) => op.hash(&mut hasher),
        None => target.hash(&mut hasher),
    }
    args.iter().for_each(|arg| arg.hash_by(&mut hasher, &mut |id, hasher| id.hash(hasher)));
    hasher.finish()
}

/// Returns whether two nodes with the same arguments compute the same. Sizes that depend on data have a name
/// of their own at each node, by which later nodes know them: such nodes stay.
fn is_same(a: &Node, b: &Node) -> bool {
    let is_target = match (a.op(), b.op()) {
        (None, None) => a.target() == b.target(),
        (a, b) => a == b,
    };
    is_target && (a.ty() == b.ty() || b.ty().is_none_or(|ty| crate::fresh::symbols(ty).is_empty()))
}
