//! Moving nodes: as late as their users allow, which keeps few values alive, or attributes to the front.

use super::{Context, Pass, each_graph};
use crate::node::{Node, OpCode};
use crate::{GraphModule, Result};

/// Moves values that are small to make next to their first user.
pub const SINK: Pass = Pass {
    name: "sink",
    doc: "Moves reads of attributes and calls without inputs to just before their first user, so that a value lives no longer than it must.",
    run: |gm, cx| {
        each_graph(gm, &mut |graph, parts| {
            let mut changed = false;
            for id in graph.ids().into_iter().rev() {
                let node = graph.node(id)?;
                if !is_source(node) || parts.has_effect(node) {
                    continue;
                }
                let Some(first) = graph.users(id)?.first().copied() else { continue };
                if graph.next(id)? == Some(first) || is_source(graph.node(first)?) {
                    continue;
                }
                // Others that were moved here already stay where they are.
                let mut before = graph.prev(first)?;
                while let Some(prev) = before.filter(|prev| *prev != id) {
                    let between = graph.node(prev)?;
                    if !is_source(between) || between.inputs().len() > 0 {
                        break;
                    }
                    before = graph.prev(prev)?;
                }
                if before == Some(id) {
                    continue;
                }
                if !cx.allow(|| format!("move %{}", node.name())) {
                    return Ok(changed);
                }
                graph.move_before(id, first)?;
                changed = true;
            }
            Ok(changed)
        })
    },
    ..Pass::BASE
};

/// Moves reads of attributes to the front.
pub const HOIST: Pass = Pass {
    name: "hoist",
    doc: "Moves reads of attributes to the front, in the order of the program, so that what follows is computation only.",
    run: hoist,
    ..Pass::BASE
};

/// Returns whether a node makes a value out of nothing.
fn is_source(node: &Node) -> bool {
    match node.opcode() {
        OpCode::GetAttr => true,
        OpCode::CallFunction => node.inputs().len() == 0 && node.subgraphs().is_empty(),
        _ => false,
    }
}

fn hoist(gm: &mut GraphModule, cx: &mut Context) -> Result<()> {
    each_graph(gm, &mut |graph, _| {
        let mut changed = false;
        let ids = graph.ids();
        let mut front = ids.iter().copied().find(|id| {
            graph.node(*id).is_ok_and(|node| !matches!(node.opcode(), OpCode::Placeholder | OpCode::GetAttr))
        });
        for id in ids {
            let (Some(at), node) = (front, graph.node(id)?) else { break };
            if node.opcode() != OpCode::GetAttr || graph.is_before(id, at)? {
                continue;
            }
            if !cx.allow(|| format!("move %{}", node.name())) {
                return Ok(changed);
            }
            graph.move_before(id, at)?;
            front = Some(at);
            changed = true;
        }
        Ok(changed)
    })
}
