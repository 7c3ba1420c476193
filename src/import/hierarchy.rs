//! The hierarchy of modules, restored from the module stacks of the nodes.
//!
//! A module whose nodes stand together, and are used by one call only, becomes a child graph module that one
//! node calls: what it needs of the outside are its arguments, what the outside needs of it its result. Its
//! own parameters and buffers move into it; those that something else reads too, or that the program updates,
//! stay outside and are passed. A module for which this is not possible is left inline, and its children are
//! restored where they stand.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use crate::graph::NodeMap;
use crate::{Arg, GraphModule, NodeId, OpCode, Result, Target, Type, TypeTree, ops};

/// Moves the nodes of each module into a graph module of its own. `kept` are paths of buffers that stay where they
/// are, beside those that the graph updates.
pub(super) fn restore(module: &mut GraphModule, kept: &BTreeSet<Arc<str>>) -> Result<()> {
    restore_below(module, kept, "", 0)
}

/// Returns a sentence for each module whose calls a graph has in line, with the reason.
pub(super) fn left_inline(module: &GraphModule) -> Vec<String> {
    let mut calls: BTreeMap<Arc<str>, BTreeSet<u32>> = BTreeMap::new();
    for (_, node) in module.graph().nodes().filter(|(_, node)| !matches!(node.target(), Target::GetAttr(_))) {
        for frame in node.meta().stack.iter().flat_map(|stack| stack.iter()) {
            calls.entry(frame.path.clone()).or_default().insert(frame.call);
        }
    }
    calls.retain(|path, _| !module.children().any(|(child, _)| *child == **path));
    let why = |calls: &BTreeSet<u32>| match calls.len() {
        1 => "its nodes stand between those of others, or give nothing that has a type".to_owned(),
        n => format!("it is called {n} times"),
    };
    calls.iter().map(|(path, calls)| format!("the module {path:?} is in line: {}", why(calls))).collect()
}

/// The nodes of one call of a module.
struct ModuleSpan {
    /// The path from the root of the program.
    path: Arc<str>,
    nodes: Vec<NodeId>,
}

/// Restores the modules at one level of the stacks; `prefix` is the path of `module`.
fn restore_below(
    module: &mut GraphModule,
    kept: &BTreeSet<Arc<str>>,
    prefix: &str,
    level: usize,
) -> Result<()> {
    if level >= crate::MAX_DEPTH {
        return Ok(());
    }
    let (spans, left) = spans(module, level);
    for span in spans {
        let child = carve(module, kept, &span, prefix)?;
        match child {
            Some(mut child) => {
                restore_below(&mut child, &BTreeSet::new(), &span.path, level + 1)?;
                let path = below(&span.path, prefix);
                module.add_submodule(path, child)?;
            }
            None => continue,
        }
    }
    // Modules inside one that stays inline, such as those of a module that is called twice.
    if left && level + 1 < crate::MAX_DEPTH {
        restore_below(module, kept, prefix, level + 1)?;
    }
    Ok(())
}

/// Returns a path as it is called below another.
fn below<'a>(path: &'a str, prefix: &str) -> &'a str {
    match prefix {
        "" => path,
        _ => path.strip_prefix(prefix).and_then(|rest| rest.strip_prefix('.')).unwrap_or(path),
    }
}

/// Returns the modules at a level that can be moved, and whether deeper stacks are left outside of them.
fn spans(module: &GraphModule, level: usize) -> (Vec<ModuleSpan>, bool) {
    let graph = module.graph();
    let mut runs: Vec<(Arc<str>, u32, Vec<NodeId>)> = Vec::new();
    let mut open = false;
    let mut deeper = false;
    for (id, node) in graph.nodes() {
        let is_step = match node.target() {
            Target::CallFunction(op) => *op != ops::set_buffer::OP,
            Target::CallMethod(_) | Target::CallModule(_) => true,
            _ => false,
        };
        if !is_step {
            open &= matches!(node.opcode(), OpCode::GetAttr);
            continue;
        }
        let stack = node.meta().stack.as_deref().unwrap_or_default();
        deeper |= stack.len() > level + 1;
        let Some(frame) = stack.get(level) else {
            open = false;
            continue;
        };
        match runs.last_mut() {
            Some((path, call, nodes)) if open && *path == frame.path && *call == frame.call => nodes.push(id),
            _ => runs.push((frame.path.clone(), frame.call, vec![id])),
        }
        open = true;
    }
    let mut count: HashMap<Arc<str>, usize> = HashMap::new();
    runs.iter().for_each(|(path, ..)| *count.entry(path.clone()).or_default() += 1);
    let n = runs.len();
    let free = |path: &str| {
        let inside = |other: &str| other.strip_prefix(path).is_some_and(|rest| rest.starts_with('.'));
        !module.children().any(|(other, _)| other == path || inside(other))
    };
    let spans: Vec<ModuleSpan> = runs
        .into_iter()
        .filter(|(path, ..)| count[path] == 1 && free(path))
        .map(|(path, _, nodes)| ModuleSpan { path, nodes })
        .collect();
    let left = deeper && spans.len() < n;
    (spans, left)
}

/// Moves a span into a graph module and calls it; `None` if it gives nothing to the outside.
fn carve(
    module: &mut GraphModule,
    kept: &BTreeSet<Arc<str>>,
    span: &ModuleSpan,
    prefix: &str,
) -> Result<Option<GraphModule>> {
    let path = below(&span.path, prefix).to_owned();
    if path.is_empty() || path == prefix {
        return Ok(None);
    }
    let graph = module.graph();
    let inside: HashSet<NodeId> = span.nodes.iter().copied().collect();
    let updated: HashSet<Arc<str>> = graph
        .find_nodes(OpCode::CallFunction, Some(ops::set_buffer::OP.name))
        .into_iter()
        .filter_map(|id| match graph.node(id).ok()?.args().first()? {
            Arg::Str(path) => Some(path.clone()),
            _ => None,
        })
        .collect();
    // What the span needs, in order of first use: attributes of its own move in, everything else is passed.
    let (mut own, mut passed): (Vec<(NodeId, Arc<str>)>, Vec<NodeId>) = (Vec::new(), Vec::new());
    let mut seen = HashSet::new();
    for &id in &span.nodes {
        for input in graph.node(id)?.inputs().collect::<Vec<_>>() {
            if inside.contains(&input) || !seen.insert(input) {
                continue;
            }
            let node = graph.node(input)?;
            let all_inside = graph.users(input)?.iter().all(|user| inside.contains(user));
            match node.target() {
                Target::GetAttr(attr)
                    if all_inside
                        && !updated.contains(attr)
                        && !kept.contains(attr)
                        && attr.starts_with(&format!("{path}.")) =>
                {
                    own.push((input, attr.clone()));
                }
                _ => passed.push(input),
            }
        }
    }
    let mut results = Vec::new();
    for &id in &span.nodes {
        if graph.users(id)?.iter().any(|user| !inside.contains(user)) {
            results.push(id);
        }
    }
    if results.is_empty() || results.iter().any(|id| graph.node(*id).is_ok_and(|node| node.ty().is_none())) {
        return Ok(None);
    }
    // A size that depends on data is bound where it is computed; a span that hands it on by name only is
    // left inline.
    let mut child = crate::Graph::new("main");
    let mut map = NodeMap::default();
    for &id in &passed {
        let node = graph.node(id)?;
        let placeholder = child.placeholder(node.name())?;
        child.meta_mut(placeholder)?.ty = node.meta().ty.clone();
        map.insert(id, Arg::Leaf(placeholder));
    }
    let mut attributes = Vec::new();
    for (id, attr) in &own {
        let inner = attr[path.len() + 1..].to_owned();
        let node = graph.node(*id)?;
        let read = child.get_attr(&inner)?;
        child.meta_mut(read)?.ty = node.meta().ty.clone();
        map.insert(*id, Arg::Leaf(read));
        attributes.push((attr.clone(), inner));
    }
    for &id in &span.nodes {
        child.copy_node(graph, id, &mut map)?;
    }
    let output = |id: &NodeId| map.get(id).cloned().unwrap_or(Arg::None);
    child.set_output(match results.as_slice() {
        [one] => output(one),
        several => Arg::tuple(several.iter().map(output)),
    })?;
    let type_name = graph
        .node(span.nodes[0])?
        .meta()
        .stack
        .iter()
        .flat_map(|stack| stack.iter())
        .find(|frame| frame.path == span.path)
        .map_or("Module", |frame| &*frame.type_name)
        .to_owned();
    let mut inner = GraphModule::new(&type_name, child);
    if !inner.lint().iter().all(|violation| violation.kind == crate::ViolationKind::Path) {
        return Ok(None);
    }
    for (attr, name) in &attributes {
        inner.set_attribute(name, module.attribute(attr)?.clone())?;
    }
    replace(module, span, &path, &passed, &results)?;
    for (id, _) in &own {
        module.graph_mut().erase(*id)?;
    }
    for (attr, _) in &attributes {
        module.remove_attribute(attr)?;
    }
    Ok(Some(inner))
}

/// Puts one call in the place of a span.
fn replace(
    module: &mut GraphModule,
    span: &ModuleSpan,
    path: &str,
    passed: &[NodeId],
    results: &[NodeId],
) -> Result<()> {
    let graph = module.graph_mut();
    let last = *span.nodes.last().unwrap_or(&results[0]);
    let meta = graph.node(span.nodes[0])?.meta().clone();
    let outer = meta
        .stack
        .as_ref()
        .map(|stack| stack.iter().take_while(|frame| frame.path != span.path).cloned().collect::<Vec<_>>());
    let types: Vec<Option<Arc<TypeTree>>> =
        results.iter().map(|id| Ok(graph.node(*id)?.meta().ty.clone())).collect::<Result<_>>()?;
    let call = graph.inserting_after(last, |graph| -> Result<Vec<NodeId>> {
        let call = graph.call_module(path, passed.iter().map(|id| Arg::Leaf(*id)))?;
        let mut nodes = vec![call];
        if results.len() > 1 {
            for i in 0..results.len() {
                let args = [Arg::Leaf(call), Arg::Int(i as i64)];
                nodes.push(graph.call_function(ops::getitem::OP, args)?);
            }
        }
        Ok(nodes)
    })??;
    for node in &call {
        let entry = graph.meta_mut(*node)?;
        entry.source = meta.source.clone();
        entry.stack = outer.clone().filter(|stack| !stack.is_empty()).map(Arc::from);
    }
    let parts = if results.len() > 1 { &call[1..] } else { &call[..] };
    for ((part, old), ty) in parts.iter().zip(results).zip(&types) {
        graph.meta_mut(*part)?.ty = ty.clone();
        let inside = &span.nodes;
        graph.replace_uses_where(*old, Arg::Leaf(*part), |user| !inside.contains(&user))?;
    }
    if results.len() > 1 {
        let whole = types.iter().map(|ty| ty.as_deref().cloned().unwrap_or(Arg::Leaf(Type::Any)));
        graph.meta_mut(call[0])?.ty = Some(Arc::new(Arg::tuple(whole)));
    }
    for id in span.nodes.iter().rev() {
        graph.erase(*id)?;
    }
    Ok(())
}
