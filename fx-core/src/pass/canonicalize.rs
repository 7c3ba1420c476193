//! The canonical form: graphs that differ only in spelling, order and names become equal.

use std::borrow::Cow;

use rustc_hash::FxHashMap;

use super::{Context, NORMALIZE, Pass, each_graph};
use crate::attribute::Parts;
use crate::node::{Node, NodeId, OpCode, Target};
use crate::{Arg, Graph, GraphModule, Result};

/// Brings a graph into canonical form.
pub const CANONICALIZE: Pass = Pass {
    name: "canonicalize",
    doc: "Gives graphs that differ only in spelling, order of independent nodes and names the same text: calls are normalised; \
          nodes stand in the order in which effects and the result need them; operands of commutative operations stand in that \
          order; names are made from operations. What is computed twice is computed once, what nobody uses is removed. Names \
          of inputs stay.",
    run,
    ..Pass::BASE
};

fn run(gm: &mut GraphModule, cx: &mut Context) -> Result<()> {
    (NORMALIZE.run)(gm, cx)?;
    (super::CSE.run)(gm, cx)?;
    (super::DEAD_CODE.run)(gm, cx)?;
    each_graph(gm, &mut |graph, parts| {
        if cx.rewrites.is_exhausted() {
            return Ok(false);
        }
        let shapes = shapes(graph)?;
        let mut changed = order_operands(graph, &shapes)?;
        changed |= order_nodes(graph, parts)?;
        changed |= graph.rename_all(&mut base_name);
        if changed {
            cx.allow(|| format!("arrange the graph {}", graph.name()));
        }
        Ok(changed)
    })
}

/// Returns a number for each node that depends on its computation only, not on names and order.
fn shapes(graph: &Graph) -> Result<FxHashMap<NodeId, u64>> {
    use std::hash::{Hash, Hasher};
    let mut shapes: FxHashMap<NodeId, u64> = FxHashMap::default();
    let mut n_inputs = 0u64;
    for (id, node) in graph.nodes() {
        let mut hasher = rustc_hash::FxHasher::default();
        match node.target() {
            Target::Placeholder => {
                n_inputs += 1;
                n_inputs.hash(&mut hasher);
            }
            Target::CallFunction(op) | Target::CallMethod(op) => op.name.hash(&mut hasher),
            Target::GetAttr(path) | Target::CallModule(path) => path.hash(&mut hasher),
            Target::Output => {}
        }
        let hash = |arg: &Arg| {
            let mut hasher = rustc_hash::FxHasher::default();
            arg.hash_by(&mut hasher, &mut |id, hasher| shapes[id].hash(hasher));
            hasher.finish()
        };
        let mut hashes: Vec<u64> = node.args().iter().map(hash).collect();
        if node
            .op()
            .is_some_and(|op| op.bind(node.args(), node.kwargs()).is_ok_and(|bound| op.can_swap(&bound)))
        {
            hashes[..2].sort_unstable();
        }
        hashes.hash(&mut hasher);
        for (key, arg) in node.kwargs() {
            (key, hash(arg)).hash(&mut hasher);
        }
        let value = hasher.finish();
        shapes.insert(id, value);
    }
    Ok(shapes)
}

/// Puts the operands of commutative calls in an order that depends on what they compute only; returns whether
/// that is another order.
fn order_operands(graph: &mut Graph, shapes: &FxHashMap<NodeId, u64>) -> Result<bool> {
    let mut changed = false;
    for id in graph.ids() {
        let node = graph.node(id)?;
        let Some(op) = node.op() else { continue };
        let [Arg::Leaf(a), Arg::Leaf(b), ..] = *node.args() else { continue };
        let swaps = op.can_swap(&op.bind(node.args(), node.kwargs())?);
        if swaps && shapes[&a] > shapes[&b] {
            let mut args = node.args().to_vec();
            args.swap(0, 1);
            graph.set_args(id, args)?;
            changed = true;
        }
    }
    Ok(changed)
}

/// Puts nodes in the order in which a depth-first walk from the effects, in their order, and from the result
/// finishes them; returns whether that is another order.
fn order_nodes(graph: &mut Graph, parts: Parts<'_>) -> Result<bool> {
    let mut roots: Vec<NodeId> = Vec::new();
    for (id, node) in graph.nodes() {
        if node.opcode() != OpCode::Placeholder && (node.opcode() == OpCode::Output || parts.has_effect(node))
        {
            roots.push(id);
        }
    }
    let mut order = Vec::with_capacity(graph.len());
    // Whether the inputs of a node were looked at.
    let mut state: FxHashMap<NodeId, bool> = FxHashMap::default();
    for root in roots {
        let mut stack = vec![root];
        while let Some(id) = stack.last().copied() {
            match state.get(&id) {
                Some(true) => drop(stack.pop()),
                Some(false) => {
                    state.insert(id, true);
                    stack.pop();
                    order.push(id);
                }
                None => {
                    state.insert(id, false);
                    let inputs: Vec<NodeId> = graph.node(id)?.inputs().collect();
                    let is_new = |id: &NodeId| !state.contains_key(id);
                    stack.extend(inputs.into_iter().rev().filter(is_new));
                }
            }
        }
    }
    // From behind, so that the users of a node are where they belong when it is moved.
    let mut next = graph.output_node();
    let mut changed = false;
    for id in order.into_iter().rev() {
        if matches!(graph.node(id)?.opcode(), OpCode::Placeholder | OpCode::Output) {
            continue;
        }
        if graph.next(id)? != Some(next) {
            graph.move_before(id, next)?;
            changed = true;
        }
        next = id;
    }
    Ok(changed)
}

/// Returns the operation, module or attribute after which a node is named; inputs keep their names.
fn base_name(node: &Node) -> Option<Cow<'_, str>> {
    match node.target() {
        Target::Placeholder => None,
        Target::CallFunction(op) | Target::CallMethod(op) => Some(Cow::Borrowed(op.name)),
        Target::GetAttr(path) | Target::CallModule(path) => Some(Cow::Owned(crate::names::snake_case(path))),
        Target::Output => Some(Cow::Borrowed("output")),
    }
}
