//! Normalisation: every call in one spelling.

use std::sync::Arc;

use super::{Context, Pass, each_graph};
use crate::node::Target;
use crate::{Arg, GraphModule, Result};

/// Spells every call in one way.
pub const NORMALIZE: Pass = Pass {
    name: "normalize",
    doc: "Spells every call in one way: as a function; required arguments by position, others by name and only where they \
          differ from their default; one axis as a list of one; the literal of a commutative operation second.",
    run,
    ..Pass::BASE
};

fn run(gm: &mut GraphModule, cx: &mut Context) -> Result<()> {
    each_graph(gm, &mut |graph, _| {
        let mut changed = false;
        for id in graph.ids() {
            let node = graph.node(id)?;
            let Some(op) = node.op() else { continue };
            let mut bound = op.canonical(node.args(), node.kwargs())?;
            if op.can_swap(&bound) && bound[0].leaves().is_empty() && matches!(bound[1], Arg::Leaf(_)) {
                bound.swap(0, 1);
            }
            let (args, kwargs) = op.spell(&bound);
            let is_method = matches!(node.target(), Target::CallMethod(_));
            let same = |a: &[(Arc<str>, Arg)], b: &[(Arc<str>, Arg)]| {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.0 == b.0 && a.1 == b.1)
            };
            let is_spelled = node.args() == args && same(node.kwargs(), &kwargs);
            if is_spelled && !is_method {
                continue;
            }
            if !cx.allow(|| format!("spell %{}", node.name())) {
                return Ok(changed);
            }
            if is_method {
                graph.method_to_function(id)?;
            }
            if !is_spelled {
                graph.set_all_args(id, args.into(), kwargs.into())?;
            }
            changed = true;
        }
        Ok(changed)
    })
}
