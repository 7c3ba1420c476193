//! Loop-invariant code motion: a value that is the same in each round of a loop is computed once before it.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::lift_constants::add_operand;
use super::{Context, Pass, each_graph};
use crate::attribute::Parts;
use crate::graph::NodeMap;
use crate::node::{Node, NodeId, OpCode, Provenance};
use crate::{Arg, Class, DType, Graph, GraphModule, Op, Result, ops};

/// Hoists loop invariants.
pub const HOIST_LOOPS: Pass = Pass {
    name: "hoist_loops",
    doc: "Moves what does not change from round to round out of `while_loop` and `for_loop`, where it is computed once and given to the loop. Out of \
          the body only what cannot fail, since a loop may have no round: element-wise operations, views and reductions of known types.",
    run,
    ..Pass::BASE
};

fn run(gm: &mut GraphModule, cx: &mut Context) -> Result<()> {
    each_graph(gm, &mut |graph, parts| {
        let mut changed = false;
        for id in graph.ids() {
            if let Some(op) = graph.node(id)?.op()
                && [ops::while_loop::OP, ops::for_loop::OP].contains(&op)
            {
                changed |= hoist(graph, parts, id, op, cx)?;
            }
        }
        Ok(changed)
    })
}

fn hoist(graph: &mut Graph, parts: Parts<'_>, id: NodeId, op: Op, cx: &mut Context) -> Result<bool> {
    let node = graph.node(id)?;
    let mut bound = op.bind(node.args(), node.kwargs())?;
    let [first, Arg::Graph(body), carried, captured] = &bound[..] else { return Ok(false) };
    // The body of a `for_loop` takes the number of the round first.
    let (test, n_first) = match first {
        Arg::Graph(test) => (Some(test), 0),
        _ => (None, 1),
    };
    let (Some(n_carried), Some(captured)) = (carried.items().map(<[Arg]>::len), captured.items()) else {
        return Ok(false);
    };
    let mut captured = captured.to_vec();
    let mut graphs: Vec<Graph> = test.into_iter().chain([body]).map(|graph| Graph::clone(graph)).collect();
    let n_graphs = graphs.len();
    let mut changed = false;
    for at in 0..n_graphs {
        // What each node that does not change is before the loop.
        let mut map = NodeMap::default();
        for (placeholder, outside) in
            graphs[at].placeholders().into_iter().skip(n_first + n_carried).zip(&captured)
        {
            map.insert(placeholder, outside.clone());
        }
        let mut hoisted: Vec<NodeId> = Vec::new();
        for inner in graphs[at].ids() {
            let node = graphs[at].node(inner)?;
            let is_fixed = matches!(node.opcode(), OpCode::Placeholder | OpCode::Output);
            if is_fixed || parts.has_effect(node) || !node.inputs().all(|input| map.contains_key(&input)) {
                continue;
            }
            // The test runs at least once, the body perhaps never.
            if node.n_users() == 0 || at + 1 == n_graphs && !cannot_fail(&graphs[at], node) || has_sizes(node)
            {
                continue;
            }
            if !cx.allow(|| format!("move %{} out of @{}", node.name(), graphs[at].name())) {
                break;
            }
            let name = node.shared_name().clone();
            let new = graph.inserting_before(id, |graph| graph.copy_node(&graphs[at], inner, &mut map))??;
            let ty = crate::infer::infer_node(graph, parts, new).ok().flatten();
            let meta = graph.meta_mut(new)?;
            meta.ty = ty.map(Arc::new);
            meta.add_provenance(Provenance { pass: "hoist_loops".into(), from: vec![name] });
            hoisted.push(inner);
        }
        let mut operands: FxHashMap<NodeId, NodeId> = FxHashMap::default();
        for inner in hoisted.iter().rev().copied() {
            let node = graphs[at].node(inner)?;
            if node.n_users() > 0 {
                let (name, ty) = (node.shared_name().clone(), node.meta().ty.clone());
                for (i, inside) in graphs.iter_mut().enumerate() {
                    let placeholder = add_operand(inside, &name)?;
                    inside.meta_mut(placeholder)?.ty = ty.clone();
                    if i == at {
                        operands.insert(inner, placeholder);
                    }
                }
                captured.push(map.get(&inner).cloned().unwrap_or(Arg::None));
                graphs[at].replace_all_uses(inner, operands[&inner])?;
            }
            graphs[at].erase(inner)?;
            changed = true;
        }
    }
    if !changed {
        return Ok(false);
    }
    bound[3] = Arg::list(captured);
    for (at, graph) in graphs.into_iter().rev().enumerate() {
        bound[1 - at] = graph.into();
    }
    let (args, kwargs) = op.spell(&bound);
    graph.set_all_args(id, args.into(), kwargs.into())?;
    Ok(true)
}

/// Returns whether a node computes something for every value of its operands' types.
fn cannot_fail(graph: &Graph, node: &Node) -> bool {
    let Some(op) = node.op() else { return false };
    let types = || node.inputs().filter_map(|input| graph.node(input).ok()?.ty()?.tensor());
    let is_known =
        node.ty().is_some_and(|ty| ty.tensor().is_some()) && types().count() == node.inputs().len();
    let is_fixed = || types().all(|ty| ty.shape.known().is_some());
    match op.class {
        // Integers may be divided by zero, shifted too far or raised to negative powers.
        Class::Pointwise(_) => {
            let is_plain = [ops::add::OP, ops::sub::OP, ops::mul::OP, ops::neg::OP].contains(&op);
            is_known && (is_plain || types().all(|ty| ty.dtype.is_float() || ty.dtype == DType::Bool))
        }
        Class::View | Class::Reduce => is_known && is_fixed(),
        _ => false,
    }
}

fn has_sizes(node: &Node) -> bool {
    let mut found = !node.subgraphs().is_empty();
    node.all_args().for_each(|arg| arg.walk(&mut |arg| found |= matches!(arg, Arg::Dim(_))));
    found
}
