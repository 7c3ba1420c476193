//! Inlining: calls of modules become what they compute.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Context, Pass};
use crate::node::{NodeId, Target};
use crate::{Forward, GraphModule, InputSpec, OpCode, Result, bail, op, trace};

/// Replaces calls of graph modules by their nodes.
pub const INLINE: Pass = Pass {
    name: "inline",
    doc: "Replaces every call of a sub-module that is a graph module by its nodes, at any depth.",
    run: |gm, cx| inline(gm, cx, false),
    ..Pass::BASE
};

/// Replaces calls of any module by their nodes.
pub const INLINE_LEAVES: Pass = Pass {
    name: "inline_leaves",
    doc: "Replaces every call of a sub-module, also of a leaf such as `Linear`, by what it computes; its parameters become \
          attributes. A module that updates its buffers and is called twice stays, since a graph updates a buffer once.",
    options: &[super::PassOption {
        name: "only",
        default: op::Default::Str(""),
        doc: "inline modules of this type only, such as Linear",
    }],
    run: |gm, cx| inline(gm, cx, true),
    ..Pass::BASE
};

fn inline(gm: &mut GraphModule, cx: &mut Context, leaves: bool) -> Result<()> {
    let only = if leaves { cx.text("only")?.to_owned() } else { String::new() };
    // Inlining may bring calls of modules below; those are looked at in the next round.
    loop {
        let mut calls: BTreeMap<Arc<str>, Vec<NodeId>> = BTreeMap::new();
        for (id, node) in gm.graph().nodes() {
            if let Target::CallModule(path) = node.target() {
                calls.entry(path.clone()).or_default().push(id);
            }
        }
        let mut any = false;
        for (path, nodes) in calls {
            let child = gm.child(&path)?;
            let is_graph = child.as_module().as_any().is::<GraphModule>();
            let is_chosen = only.is_empty() || child.as_module().type_name() == only;
            let updates_twice = nodes.len() > 1 && !child.as_module().is_pure();
            if updates_twice && (is_graph || leaves) && is_chosen {
                cx.note(format!("{path} is called {} times and updates its buffers: it stays", nodes.len()));
            }
            if !(is_graph || leaves) || !is_chosen || updates_twice {
                continue;
            }
            // A module is inlined everywhere or nowhere: its buffers are one.
            if !cx.allow(|| format!("inline {path}")) {
                return Ok(());
            }
            inline_calls(gm, &path, &nodes)?;
            any = true;
        }
        if !any {
            return Ok(());
        }
    }
}

/// Replaces every call of a sub-module, which may be a leaf, by what it computes. A module that updates its buffers can be
/// inlined only if it is called once.
pub fn inline_module(gm: &mut GraphModule, path: &str) -> Result<()> {
    let calls = gm.graph().find_nodes(OpCode::CallModule, Some(path));
    if calls.len() > 1 && !gm.child(path)?.as_module().is_pure() {
        bail!(Graph, "{path} is called {} times and updates its buffers", calls.len());
    }
    inline_calls(gm, path, &calls)
}

fn inline_calls(gm: &mut GraphModule, path: &str, calls: &[NodeId]) -> Result<()> {
    let is_graph = gm.child(path)?.as_module().as_any().is::<GraphModule>();
    for id in calls {
        if is_graph {
            gm.inline(*id)?;
            continue;
        }
        let traced = trace_child(gm, path, *id)?;
        let original = gm.shared_child(path);
        gm.add_submodule(path, traced)?;
        gm.inline(*id)?;
        if let Some(original) = original.filter(|_| calls_remain(gm, path)) {
            gm.add_shared_submodule(path, original)?;
        }
    }
    Ok(())
}

fn calls_remain(gm: &GraphModule, path: &str) -> bool {
    !gm.graph().find_nodes(OpCode::CallModule, Some(path)).is_empty()
}

/// Traces a sub-module with the types of the arguments of one of its calls.
pub(super) fn trace_child(gm: &GraphModule, path: &str, call: NodeId) -> Result<GraphModule> {
    let child: Box<dyn Forward> = dyn_clone::clone_box(gm.child(path)?);
    let graph = gm.graph();
    let names: Vec<String> = child.inputs().into_iter().map(|input| input.name.into_owned()).collect();
    let mut builder = trace(&child).leaf(|_, _| false);
    for (name, arg) in names.iter().zip(graph.node(call)?.args()) {
        if arg.leaves().is_empty() {
            let value = arg.try_flat_map(&mut |_| Ok(crate::Arg::None))?;
            builder = builder.constant(name, value);
        } else if let Some(ty) = crate::infer::type_of(graph, arg) {
            builder = builder.input(name, InputSpec::from(ty));
        }
    }
    builder.build()
}
