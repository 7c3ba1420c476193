//! Inlining of forks: the body of a `fork` becomes part of the graph, and its `wait` goes.

use std::sync::Arc;

use super::unroll_loops::replace_call;
use super::{Context, Pass, each_graph};
use crate::attribute::Parts;
use crate::graph::NodeMap;
use crate::node::{NodeId, OpCode, Provenance};
use crate::region::draws;
use crate::{Arg, ErrorKind, Graph, GraphModule, Result, ops};

/// Inlines forks.
pub const INLINE_FORKS: Pass = Pass {
    name: "inline_forks",
    doc: "Replaces each `fork` by its body, and each `wait` by what it waits for. Engines run independent nodes at the same time anyway. \
          Where a body draws random numbers, all forks stay, since each has a generator of its own.",
    run,
    ..Pass::BASE
};

fn run(gm: &mut GraphModule, cx: &mut Context) -> Result<()> {
    if has_random_fork(gm.graph()) {
        return Ok(());
    }
    each_graph(gm, &mut |graph, parts| {
        let mut changed = false;
        for id in graph.ids() {
            let Some(op) = graph.node(id).ok().and_then(|node| node.op()) else { continue };
            if op == ops::fork::OP {
                changed |= inline(graph, parts, id, cx)?;
            } else if op == ops::wait::OP {
                let node = graph.node(id)?;
                let future = op.bind(node.args(), node.kwargs())?.remove(0);
                let is_fork = future.leaf().is_some_and(|future| {
                    graph.node(*future).is_ok_and(|node| node.op() == Some(ops::fork::OP))
                });
                let name = node.shared_name().clone();
                if !is_fork && cx.allow(|| format!("remove %{name}")) {
                    changed |= replace_call(graph, id, future)?;
                }
            }
        }
        Ok(changed)
    })
}

/// Returns whether a graph has a fork whose body draws random numbers.
fn has_random_fork(graph: &Graph) -> bool {
    graph.nodes().any(|(_, node)| {
        let bodies = node.subgraphs();
        let is_random = node.op() == Some(ops::fork::OP) && bodies.iter().any(|body| draws(body));
        is_random || bodies.iter().any(|body| has_random_fork(body))
    })
}

fn inline(graph: &mut Graph, parts: Parts<'_>, id: NodeId, cx: &mut Context) -> Result<bool> {
    let node = graph.node(id)?;
    let name = node.shared_name().clone();
    let bound = ops::fork::OP.bind(node.args(), node.kwargs())?;
    let [Arg::Graph(body), operands] = &bound[..] else { return Ok(false) };
    let Some(operands) = operands.items() else { return Ok(false) };
    let placeholders = body.placeholders();
    if placeholders.len() != operands.len() || !cx.allow(|| format!("inline %{name}")) {
        return Ok(false);
    }
    let mut map = NodeMap::default();
    map.extend(placeholders.into_iter().zip(operands.iter().cloned()));
    let copied = match graph.inserting_before(id, |graph| graph.copy_graph(body, &mut map))? {
        Ok(copied) => copied,
        // It computes with a size of an operand whose type is not known here.
        Err(error) if error.kind() == ErrorKind::UnknownType => return Ok(false),
        Err(error) => return Err(error),
    };
    for (inner, node) in body.nodes() {
        if matches!(node.opcode(), OpCode::Placeholder | OpCode::Output) {
            continue;
        }
        if let Some(Arg::Leaf(new)) = map.get(&inner) {
            let provenance = Provenance { pass: "inline_forks".into(), from: vec![Arc::clone(&name)] };
            // A call that fails fails when the program runs.
            let ty = crate::infer::infer_node(graph, parts, *new).ok().flatten();
            let meta = graph.meta_mut(*new)?;
            // What the copy knew of its type stays where its operands tell less.
            if let Some(ty) = ty {
                meta.ty = Some(Arc::new(ty));
            }
            meta.add_provenance(provenance);
        }
    }
    // The result of a `wait` is that of the body, too.
    for user in graph.users(id)?.to_vec() {
        if graph.node(user)?.op() == Some(ops::wait::OP) {
            replace_call(graph, user, copied.output.clone())?;
        }
    }
    replace_call(graph, id, copied.output)
}
