//! Shape propagation, and removal of nodes that known shapes make superfluous.

use std::sync::Arc;

use rustc_hash::FxHashSet;

use super::{Context, Pass, each_graph};
use crate::{Arg, GraphModule, Result, Symbol, Type, TypeTree, ops};

/// Enters the type of every node.
pub const SHAPE_PROP: Pass = Pass {
    name: "shape_prop",
    doc: "Enters dtype and shape of every node, from the types of the inputs; nothing is computed.",
    run: propagate,
    ..Pass::BASE
};

/// Replaces sizes that are known by literals.
pub const SIMPLIFY_SIZES: Pass = Pass {
    name: "simplify_sizes",
    doc: "Replaces `size` nodes by the size, a number or an expression of symbols, where types are known.",
    after: &["shape_prop"],
    run: sizes,
    ..Pass::BASE
};

fn propagate(gm: &mut GraphModule, cx: &mut Context) -> Result<()> {
    let inputs = vec![Arg::Leaf(Type::Any); gm.graph().placeholders().len()];
    let found = gm.infer(&inputs)?;
    let (graph, _, _) = gm.split();
    graph.transaction(|graph| {
        for (id, ty) in found {
            let node = graph.node(id)?;
            let ty = ty.is_complete().then(|| Arc::new(ty));
            if node.meta().ty == ty || ty.is_none() {
                continue;
            }
            if !cx.allow(|| format!("type %{}", node.name())) {
                break;
            }
            graph.meta_mut(id)?.ty = ty;
        }
        Ok(())
    })
}

fn sizes(gm: &mut GraphModule, cx: &mut Context) -> Result<()> {
    each_graph(gm, &mut |graph, _| {
        let mut changed = false;
        // Other symbols are bound by nodes, which the literal would not keep alive, or by nothing in this graph.
        let mut of_inputs: FxHashSet<Symbol> = FxHashSet::default();
        for id in graph.placeholders() {
            if let Some(ty) = graph.node(id)?.ty() {
                crate::lint::bind(&mut of_inputs, ty);
            }
        }
        for id in graph.ids() {
            let node = graph.node(id)?;
            if node.op() != Some(ops::size::OP) {
                continue;
            }
            let bound = ops::size::OP.bind(node.args(), node.kwargs())?;
            let [Arg::Leaf(x), Arg::Int(axis)] = bound[..] else { continue };
            let Some(ty) = graph.node(x)?.ty().and_then(TypeTree::tensor) else { continue };
            let Some(size) = ops::axis(axis, ty.rank()).ok().map(|axis| ty.shape[axis].clone()) else {
                continue;
            };
            if !size.symbols().iter().all(|symbol| of_inputs.contains(symbol)) {
                continue;
            }
            if !cx.allow(|| format!("replace %{} by {size}", node.name())) {
                return Ok(changed);
            }
            graph.replace_all_uses(id, Arg::dim(size))?;
            graph.erase(id)?;
            changed = true;
        }
        Ok(changed)
    })
}
