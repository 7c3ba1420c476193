//! Inlining: calls of modules become the nodes of their bodies.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Context, Pass};
use crate::node::{NodeId, Target};
use crate::{Forward, GraphModule, InputSpec, OpCode, Result, TypeTree, err, module, op, trace};

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
          attributes. A module that updates its buffers and is called twice, or shares them with other nodes, stays, since a \
          graph updates a buffer once.",
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
            let updates_twice = updates_shared_state(gm, &path, &nodes)?;
            if updates_twice && (is_graph || leaves) && is_chosen {
                match nodes.len() {
                    1 => cx.note(format!("{path} updates buffers that other nodes share: it stays")),
                    n => cx.note(format!("{path} is called {n} times and updates its buffers: it stays")),
                }
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

/// Returns whether the calls of a module share a buffer that is updated with each other, or with other nodes.
fn updates_shared_state(gm: &GraphModule, path: &str, calls: &[NodeId]) -> Result<bool> {
    if calls.len() > 1 && !gm.child(path)?.as_module().is_pure() {
        return Ok(true);
    }
    match calls.first() {
        Some(call) => Ok(gm.shares_updated_state(*call, path)?.is_some()),
        None => Ok(false),
    }
}

/// Replaces every call of a sub-module, which may be a leaf, by its body. Fails if the module updates its
/// buffers and is called more than once, or shares an updated buffer with other nodes.
pub fn inline_module(gm: &mut GraphModule, path: &str) -> Result<()> {
    let calls = gm.graph().find_nodes(OpCode::CallModule, Some(path));
    if updates_shared_state(gm, path, &calls)? {
        return Err(err!(
            Graph,
            "{path} updates buffers that other calls or nodes share, which a graph updates only once"
        )
        .help("leave them calls, or make the state arguments: `fx::pass::functionalize`"));
    }
    inline_calls(gm, path, &calls)
}

fn inline_calls(gm: &mut GraphModule, path: &str, calls: &[NodeId]) -> Result<()> {
    for id in calls {
        inline_call(gm, path, *id)?;
    }
    Ok(())
}

fn calls_remain(gm: &GraphModule, path: &str) -> bool {
    !gm.graph().find_nodes(OpCode::CallModule, Some(path)).is_empty()
}

/// Traces a sub-module with the types of the arguments of one of its calls.
pub(super) fn trace_child(gm: &GraphModule, path: &str, call: NodeId) -> Result<GraphModule> {
    let graph = gm.graph();
    let known = |arg: &crate::Arg| match arg.leaves().is_empty() {
        true => arg.try_flat_map(&mut |_| Ok(crate::Arg::None)).ok(),
        false => crate::infer::type_of(graph, arg),
    };
    let types: Vec<Option<TypeTree>> = graph.node(call)?.args().iter().map(known).collect();
    trace_call(gm.child(path)?, &types)
}

/// Traces a module through its leaves, with the types of its arguments as far as they are known; one without
/// a leaf is a literal.
pub(crate) fn trace_call(child: &dyn Forward, types: &[Option<TypeTree>]) -> Result<GraphModule> {
    let child: Box<dyn Forward> = dyn_clone::clone_box(child);
    let names: Vec<String> = child.inputs().into_iter().map(|input| input.name.into_owned()).collect();
    let mut builder = trace(&child).leaf(|_, _| false);
    for (name, ty) in names.iter().zip(types) {
        let Some(ty) = ty else { continue };
        builder = match ty.leaves().is_empty() {
            true => builder.constant(name, ty.try_flat_map(&mut |_| Ok(crate::Arg::None))?),
            false => builder.input(name, InputSpec::from(ty.clone())),
        };
    }
    builder.build()
}

/// Replaces one call of a sub-module by its body, and returns the new nodes; other calls stay.
pub(crate) fn inline_call(gm: &mut GraphModule, path: &str, call: NodeId) -> Result<Vec<NodeId>> {
    if gm.child(path)?.as_module().as_any().is::<GraphModule>() {
        return gm.inline(call);
    }
    let traced = module::ties::sharing_state(|| trace_child(gm, path, call))?;
    let original = gm.shared_child(path);
    gm.add_submodule(path, traced)?;
    let nodes = gm.inline(call)?;
    if let Some(original) = original.filter(|_| calls_remain(gm, path)) {
        gm.add_shared_submodule(path, original)?;
    }
    Ok(nodes)
}
