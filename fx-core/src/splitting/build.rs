//! The sub-modules and the outer graph, made from a plan.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::plan::{Ready, ReadyPart, Step, require};
use super::{Part, Split, Splitter};
use crate::graph::NodeMap;
use crate::node::{NodeId, OpCode, Provenance, Target};
use crate::{Arg, Dim, Forward, Graph, GraphModule, Kwargs, Node, Result, Type, TypeTree, bail, err, ops};

/// Makes the modules.
pub(super) fn build(ready: Ready, splitter: &Splitter) -> Result<Split> {
    let Ready { mut gm, parts, steps } = ready;
    let mut done = Vec::with_capacity(parts.len());
    let mut modules: Vec<Arc<dyn Forward>> = Vec::with_capacity(parts.len());
    let mut taken: BTreeMap<String, ()> = BTreeMap::new();
    for part in &parts {
        let wanted = format!("{}_{}", splitter.prefix, path_part(&part.key));
        let is_free = |path: &str, taken: &BTreeMap<String, ()>| {
            let below = format!("{path}.");
            let hides = |other: &str| other == path || other.starts_with(&below);
            !taken.contains_key(path)
                && !gm.attributes().any(|(other, _)| hides(other))
                && !gm.children().any(|(other, _)| hides(other))
        };
        let mut path = wanted.clone();
        let mut i = 0;
        while !is_free(&path, &taken) {
            i += 1;
            path = format!("{wanted}_{i}");
        }
        taken.insert(path.clone(), ());
        modules.push(Arc::new(child(&gm, part, &path)?));
        let name = |id: &NodeId| gm.graph().node(*id).map(|node| node.shared_name().clone());
        done.push(Part {
            path: Arc::from(path),
            key: part.key.clone(),
            nodes: part.nodes.iter().map(name).collect::<Result<_>>()?,
            moved: part.attributes.iter().chain(&part.children).cloned().collect(),
        });
    }
    let graph = outer(gm.graph(), &parts, &done, &steps, &splitter.provenance)?;
    gm.set_graph(graph);
    let (_, attributes, children) = gm.split();
    for part in &parts {
        part.attributes.iter().for_each(|path| drop(attributes.remove(path)));
        part.children.iter().for_each(|path| drop(children.remove(path)));
    }
    for (part, module) in done.iter().zip(modules) {
        children.insert(part.path.clone(), module);
    }
    Ok(Split { module: gm, parts: done })
}

/// Makes a key a part of a path.
fn path_part(key: &str) -> String {
    key.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}

/// Adds an input for a value of this type; returns what it is in the graph.
pub(crate) fn input_for(graph: &mut Graph, name: &str, ty: Option<&TypeTree>) -> Result<Arg> {
    let taken = |name: &str| graph.inputs().iter().any(|input| &*input.name == name);
    let mut free = name.to_owned();
    let mut i = 0;
    while taken(&free) {
        i += 1;
        free = format!("{name}_{i}");
    }
    let Some(ty) = ty else { return graph.structured_input(&free, &Arg::Leaf(())) };
    let tree = graph.structured_input(&free, &ty.structure()?)?;
    for (id, ty) in tree.leaves().into_iter().zip(ty.inputs()) {
        graph.meta_mut(*id)?.ty = ty.is_complete().then(|| Arc::new(ty.clone()));
    }
    Ok(tree)
}

/// Makes the sub-module of a part.
fn child(gm: &GraphModule, part: &ReadyPart, path: &str) -> Result<GraphModule> {
    let old = gm.graph();
    let (mut graph, mut map) = (Graph::new("main"), NodeMap::default());
    for symbol in &part.sizes {
        let ty: TypeTree = Arg::dim(Dim::symbol(symbol.clone()));
        input_for(&mut graph, symbol.name(), Some(&ty))?;
    }
    for id in &part.inputs {
        let node = old.node(*id)?;
        let tree = input_for(&mut graph, node.name(), node.ty())?;
        map.insert(*id, tree);
    }
    for id in &part.nodes {
        graph.copy_node(old, *id, &mut map)?;
    }
    let value = |id: &NodeId| map.get(id).cloned().ok_or_else(|| err!(Graph, "an output was not copied"));
    let mut outputs = part.outputs.iter().map(value).collect::<Result<Vec<_>>>()?;
    graph.set_output(match outputs.len() {
        0 => Arg::None,
        1 => outputs.remove(0),
        _ => Arg::tuple(outputs),
    })?;
    let mut child = GraphModule::new(path, graph);
    let mut modules = Vec::new();
    for id in &part.nodes {
        if let Target::CallModule(path) = old.node(*id)?.target() {
            modules.push(path.clone());
        }
    }
    let (_, attributes, children) = child.split();
    for path in &part.attributes {
        attributes.insert(path.clone(), require(gm, path)?);
    }
    for path in modules {
        let Some(module) = gm.shared_child(&path) else {
            bail!(Unresolved, "there is no sub-module {path:?}")
        };
        children.insert(path, module);
    }
    Ok(child)
}

/// Makes the graph that calls the parts.
fn outer(old: &Graph, parts: &[ReadyPart], done: &[Part], steps: &[Step], pass: &Arc<str>) -> Result<Graph> {
    let (mut graph, mut map) = (Graph::new(old.name()), NodeMap::default());
    for input in old.inputs() {
        let names = input.tree.try_rewrite(&mut |arg| {
            Ok(match arg {
                Arg::Leaf(id) => Some(Arg::Leaf(old.node(*id)?.shared_name().clone())),
                _ => None,
            })
        })?;
        let tree = graph.named_input(&input.name, &names)?;
        for (id, new) in input.tree.leaves().into_iter().zip(tree.leaves()) {
            *graph.meta_mut(*new)? = old.node(*id)?.meta().clone();
            map.insert(*id, Arg::Leaf(*new));
        }
    }
    for step in steps {
        match step {
            Step::Node(id) => {
                let opcode = old.node(*id)?.opcode();
                if !matches!(opcode, OpCode::Placeholder | OpCode::Output) {
                    graph.copy_node(old, *id, &mut map)?;
                }
            }
            Step::Part(i) => call(&mut graph, old, &parts[*i], &done[*i], &mut map, pass)?,
        }
    }
    let output = old.output().try_flat_map(&mut |id| match map.get(id) {
        Some(arg) => Ok(arg.clone()),
        None => bail!(Graph, "%{} was not made", old.node(*id)?.name()),
    })?;
    graph.set_output(output)?;
    let (from, to) = (old.output_node(), graph.output_node());
    graph.rename(to, old.node(from)?.name())?;
    *graph.meta_mut(to)? = old.node(from)?.meta().clone();
    Ok(graph)
}

/// Adds the call of a part, and enters what its outputs are.
fn call(
    graph: &mut Graph,
    old: &Graph,
    part: &ReadyPart,
    done: &Part,
    map: &mut NodeMap,
    pass: &Arc<str>,
) -> Result<()> {
    let mut args: Vec<Arg> = part.sizes.iter().map(|symbol| Arg::dim(Dim::symbol(symbol.clone()))).collect();
    for id in &part.inputs {
        match map.get(id) {
            Some(arg) => args.push(arg.clone()),
            None => bail!(Graph, "%{} is needed before it is made", old.node(*id)?.name()),
        }
    }
    let call = graph.call_module(&done.path, args)?;
    let ty = |id: &NodeId| old.node(*id).ok().and_then(Node::ty).cloned().unwrap_or(Arg::Leaf(Type::Any));
    let whole = match &part.outputs[..] {
        [] => Arg::None,
        [one] => ty(one),
        all => Arg::tuple(all.iter().map(ty)),
    };
    let meta = graph.meta_mut(call)?;
    meta.ty = whole.is_complete().then(|| Arc::new(whole));
    meta.add_provenance(Provenance { pass: pass.clone(), from: done.nodes.clone() });
    for (i, id) in part.outputs.iter().enumerate() {
        let value = match part.outputs.len() {
            1 => call,
            _ => {
                let node = old.node(*id)?;
                let target = Target::CallFunction(ops::getitem::OP);
                let args = [Arg::Leaf(call), Arg::Int(i as i64)];
                let item = graph.create(target, args, Kwargs::new(), Some(node.name()))?;
                let meta = graph.meta_mut(item)?;
                meta.ty = node.meta().ty.clone();
                meta.source = node.meta().source.clone();
                meta.add_provenance(Provenance {
                    pass: pass.clone(),
                    from: vec![node.shared_name().clone()],
                });
                item
            }
        };
        map.insert(*id, Arg::Leaf(value));
    }
    Ok(())
}

/// Puts the nodes of a part back in the place of its call, and its attributes and modules at the paths that
/// they had.
pub(super) fn inline_part(gm: &mut GraphModule, part: &Part) -> Result<()> {
    let calls = gm.graph().find_nodes(OpCode::CallModule, Some(&part.path));
    let [call] = calls[..] else {
        bail!(Graph, "{} is called {} times, expected once", part.path, calls.len());
    };
    let items: Vec<NodeId> = gm.graph().users(call)?;
    let new = gm.inline(call)?;
    // Items of the tuple that the part returned are what stands in it.
    let graph = gm.graph_mut();
    for item in items {
        let args = graph.node(item)?.args();
        if let (Some(op), [Arg::Tuple(values), Arg::Int(i)]) = (graph.node(item)?.op(), args)
            && op == ops::getitem::OP
        {
            let Some(value) = usize::try_from(*i).ok().and_then(|i| values.get(i)).cloned() else { continue };
            let name = graph.node(item)?.shared_name().clone();
            graph.replace_all_uses(item, value.clone())?;
            graph.erase(item)?;
            if let Arg::Leaf(id) = value {
                graph.rename(id, &name)?;
            }
        }
    }
    let prefix = format!("{}.", part.path);
    let mut restored = Vec::new();
    for id in new {
        let Some(path) = gm.graph().node(id)?.target().path().cloned() else { continue };
        let Some(old) = path.strip_prefix(&prefix) else { continue };
        let is_own = part.moved.iter().any(|moved| &**moved == old);
        if is_own || gm.parts().child(old).is_some() {
            gm.graph_mut().set_path(id, old)?;
            restored.push((path.clone(), Arc::<str>::from(old)));
        }
    }
    let (_, attributes, children) = gm.split();
    for (path, old) in restored {
        if let Some(attribute) = attributes.remove(&path) {
            attributes.entry(old).or_insert(attribute);
        } else if let Some(child) = children.remove(&path) {
            children.entry(old).or_insert(child);
        }
    }
    Ok(())
}
