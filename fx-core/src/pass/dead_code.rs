//! Dead-code elimination.

use super::{Context, Pass, each_graph};
use crate::fresh::NamedSizes;
use crate::{GraphModule, Result};

/// Removes nodes whose results are not used.
pub const DEAD_CODE: Pass = Pass {
    name: "dead_code",
    doc: "Removes nodes that nobody uses and that have no effect. Inputs stay: they are the signature; so does what finds out \
          a size that a later argument names.",
    run,
    ..Pass::BASE
};

fn run(gm: &mut GraphModule, cx: &mut Context) -> Result<()> {
    each_graph(gm, &mut |graph, parts| {
        let mut changed = false;
        let mut named = NamedSizes::default();
        for id in graph.ids().into_iter().rev() {
            let node = graph.node(id)?;
            let is_fixed = matches!(node.opcode(), crate::OpCode::Placeholder | crate::OpCode::Output);
            if node.n_users() > 0 || is_fixed || parts.has_effect(node) || named.has_of(graph, node) {
                named.note(node);
                continue;
            }
            if !cx.allow(|| format!("erase %{}", node.name())) {
                break;
            }
            graph.erase(id)?;
            changed = true;
        }
        Ok(changed)
    })
}
