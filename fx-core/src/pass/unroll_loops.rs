//! Loop unrolling: a `for_loop` with a small known number of rounds becomes its rounds.

use std::sync::Arc;

use super::{Context, Pass, PassOption, each_graph};
use crate::attribute::Parts;
use crate::graph::NodeMap;
use crate::node::{NodeId, OpCode, Provenance};
use crate::{Arg, ErrorKind, Graph, GraphModule, Result, op, ops};

/// Unrolls loops.
pub const UNROLL_LOOPS: Pass = Pass {
    name: "unroll_loops",
    doc: "Replaces a `for_loop` by its rounds, if their number is known and at most `max`. The numbers of the rounds are then \
          literals, so that what they select is known, too.",
    options: &[
        PassOption { name: "max", default: op::Default::Int(8), doc: "loops with more rounds stay" },
        PassOption {
            name: "max_nodes",
            default: op::Default::Int(4096),
            doc: "loops stay whose rounds would be more nodes than this",
        },
    ],
    run,
    ..Pass::BASE
};

fn run(gm: &mut GraphModule, cx: &mut Context) -> Result<()> {
    let limits = (cx.int("max")?, cx.int("max_nodes")?);
    each_graph(gm, &mut |graph, parts| {
        let mut changed = false;
        for id in graph.ids() {
            // An unrolled loop takes the nodes along that read its results.
            if graph.node(id).is_ok_and(|node| node.op() == Some(ops::for_loop::OP)) {
                changed |= unroll(graph, parts, id, limits, cx)?;
            }
        }
        Ok(changed)
    })
}

fn unroll(
    graph: &mut Graph,
    parts: Parts<'_>,
    id: NodeId,
    (max, max_nodes): (i64, i64),
    cx: &mut Context,
) -> Result<bool> {
    let op = ops::for_loop::OP;
    let node = graph.node(id)?;
    let name = node.shared_name().clone();
    let bound = op.bind(node.args(), node.kwargs())?;
    let [Arg::Int(n), Arg::Graph(body), carried, captured] = &bound[..] else { return Ok(false) };
    let (Some(carried), Some(captured)) = (carried.items(), captured.items()) else { return Ok(false) };
    let n = (*n).max(0);
    let size = i64::try_from(body.len()).unwrap_or(i64::MAX);
    let placeholders = body.placeholders();
    let fits = placeholders.len() == 1 + carried.len() + captured.len();
    if n > max || n.saturating_mul(size) > max_nodes || !fits || !cx.allow(|| format!("unroll %{name}")) {
        return Ok(false);
    }
    let mut current: Vec<Arg> = carried.to_vec();
    let mut copies: Vec<NodeId> = Vec::new();
    // A call that fails for a number that is now known fails when the program runs, as it did in the loop.
    let leave = |graph: &mut Graph, copies: &[NodeId]| -> Result<bool> {
        copies.iter().rev().try_for_each(|copy| graph.erase(*copy))?;
        Ok(false)
    };
    for round in 0..n {
        let mut map = NodeMap::default();
        let args = [Arg::Int(round)].into_iter().chain(current.clone()).chain(captured.iter().cloned());
        map.extend(placeholders.iter().copied().zip(args));
        let copied = match graph.inserting_before(id, |graph| graph.copy_graph(body, &mut map))? {
            Ok(copied) => copied,
            // It computes with a size of an operand whose type is not known here.
            Err(error) if error.kind() == ErrorKind::UnknownType => return leave(graph, &copies),
            Err(error) => return Err(error),
        };
        for (inner, node) in body.nodes() {
            if matches!(node.opcode(), OpCode::Placeholder | OpCode::Output) {
                continue;
            }
            let Some(Arg::Leaf(new)) = map.get(&inner) else { continue };
            copies.push(*new);
            let Ok(ty) = crate::infer::infer_node(graph, parts, *new) else { return leave(graph, &copies) };
            let meta = graph.meta_mut(*new)?;
            // What the copy knew of its type stays where its operands tell less.
            if let Some(ty) = ty {
                meta.ty = Some(Arc::new(ty));
            }
            meta.add_provenance(Provenance { pass: "unroll_loops".into(), from: vec![name.clone()] });
        }
        current = match copied.output.items() {
            Some(items) if items.len() == carried.len() => items.to_vec(),
            _ => crate::bail!(Structure, "the body of for_loop returns a list of {} values", carried.len()),
        };
    }
    if replace_call(graph, id, Arg::list(current))? { Ok(true) } else { leave(graph, &copies) }
}

/// Puts the result in the place of a call, and erases the call; a node that takes an item of the call becomes the
/// item. Returns whether it was possible: a reader may not accept the type of the result.
pub(super) fn replace_call(graph: &mut Graph, id: NodeId, result: Arg) -> Result<bool> {
    let mut replaced: Vec<(NodeId, Arg)> = Vec::new();
    for user in graph.users(id)?.to_vec() {
        let node = graph.node(user)?;
        if let (Some(op), [Arg::Leaf(_), Arg::Int(item)], Some(items)) =
            (node.op(), node.args(), result.items())
            && op == ops::getitem::OP
            && let Some(value) = usize::try_from(*item).ok().and_then(|item| items.get(item)).cloned()
        {
            replaced.push((user, value));
        }
    }
    replaced.push((id, result));
    for (node, value) in &replaced {
        for reader in
            graph.users(*node)?.iter().filter(|reader| !replaced.iter().any(|(node, _)| node == *reader))
        {
            if !crate::infer::accepts(graph, *reader, *node, value)? {
                return Ok(false);
            }
        }
    }
    for (node, value) in replaced {
        graph.replace_all_uses(node, value)?;
        graph.erase(node)?;
    }
    Ok(true)
}
