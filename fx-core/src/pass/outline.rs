//! Outlining: nodes become a sub-module that is a graph module, the inverse of inlining.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::{Context, Pass, PassOption};
use crate::graph::NodeMap;
use crate::node::{NodeId, OpCode, Provenance, Target};
use crate::{Arg, Attribute, Forward, Graph, GraphModule, Result, Type, TypeTree, bail, err, op, ops};

/// Makes a graph module of each module of a type.
pub const OUTLINE: Pass = Pass {
    name: "outline",
    doc: "Makes a sub-module of the nodes that were recorded in one call of a module, for the modules of a type or at a path. What \
          has effects, or is not in one piece, stays.",
    options: &[PassOption {
        name: "module",
        default: op::Default::Str(""),
        doc: "the type, such as Bottleneck, or the path of the modules",
    }],
    run,
    ..Pass::BASE
};

fn run(gm: &mut GraphModule, cx: &mut Context) -> Result<()> {
    let wanted = cx.text("module")?.to_owned();
    if wanted.is_empty() {
        return Err(err!(Argument, "which modules are to be outlined is not said")
            .help("write outline(module=TYPE) or outline(module=PATH)"));
    }
    let mut calls: BTreeMap<(Arc<str>, u32), Vec<NodeId>> = BTreeMap::new();
    for (id, node) in gm.graph().nodes() {
        let stack = node.meta().stack.as_deref().unwrap_or_default();
        let is_wanted = |frame: &&crate::ModuleFrame| *frame.type_name == *wanted || *frame.path == *wanted;
        if let (Some(frame), false) = (stack.iter().find(is_wanted), node.opcode() == OpCode::GetAttr) {
            calls.entry((frame.path.clone(), frame.call)).or_default().push(id);
        }
    }
    for ((path, call), nodes) in calls {
        if !cx.allow(|| format!("outline call {call} of {path}")) {
            return Ok(());
        }
        if let Err(error) = outline(gm, &nodes, &path) {
            cx.rewrites.take_back();
            cx.note(format!("{path} stays: {}", error.message()));
        }
    }
    Ok(())
}

/// Makes a sub-module at `path`, or at a free path like it, of nodes, and replaces them by a call; returns
/// the call.
///
/// Parameters and constants that only these nodes read move into the sub-module; other values from outside
/// become its inputs, in the order in which they are used. It returns what others use, as a tuple if that is
/// not one value. Nodes with effects, and nodes between which others lie that need them and that they need,
/// are an error; nothing is changed then. Fails if the nodes cannot run together, because a node between them
/// needs one and is needed by another.
pub fn outline(gm: &mut GraphModule, nodes: &[NodeId], path: &str) -> Result<NodeId> {
    let plan = Plan::new(gm, nodes, true)?;
    let child = plan.child(gm, path)?;
    if let Some(violation) = child.lint().into_iter().next() {
        return Err(violation.into());
    }
    let is_free = |path: &str| !gm.parts().is_taken(path);
    let free = std::iter::once(path.to_owned())
        .chain((1..).map(|i| format!("{path}_{i}")))
        .find(|path| is_free(path));
    let free = free.ok_or_else(|| err!(Limit, "no path is free"))?;
    let types = plan.types(gm.graph())?;
    let call = |graph: &mut Graph, args: Vec<Arg>| graph.call_module(&free, args);
    let call = gm.graph_mut().transaction(|graph| plan.replace(graph, OUTLINE.name, call, &types))?;
    let (_, attributes, children) = gm.split();
    for path in &plan.moved {
        attributes.remove(path);
    }
    children.insert(Arc::from(free), Arc::new(child) as Arc<dyn Forward>);
    let unused: Vec<Arc<str>> = plan
        .children
        .iter()
        .filter(|path| gm.graph().find_nodes(OpCode::CallModule, Some(path)).is_empty())
        .cloned()
        .collect();
    unused.iter().for_each(|path| drop(gm.split().2.remove(path)));
    Ok(call)
}

/// Makes a closed sub-graph of nodes, and replaces them by a call of [`fused`](ops::fused) with it; returns
/// the call.
///
/// The nodes see no attributes and call no modules, and all else is as for [`outline`]: values from outside
/// become operands in the order in which they are used, the sub-graph returns what others use, as a tuple if
/// that is not one value, and nodes with effects, or between which others lie that need them and that they
/// need, are an error that changes nothing. `pass` is the name in the provenance. Fails as [`outline`] does.
pub fn enclose(gm: &mut GraphModule, nodes: &[NodeId], name: &str, pass: &'static str) -> Result<NodeId> {
    let plan = Plan::new(gm, nodes, false)?;
    let types = plan.types(gm.graph())?;
    let body: Arg = Arc::new(plan.body(gm.graph(), name)?).into();
    let call =
        |graph: &mut Graph, args: Vec<Arg>| graph.call_function(ops::fused::OP, [body, Arg::list(args)]);
    gm.graph_mut().transaction(|graph| plan.replace(graph, pass, call, &types))
}

struct Plan {
    /// The nodes in program order, with the reads of attributes that move along.
    nodes: Vec<NodeId>,
    inputs: Vec<NodeId>,
    outputs: Vec<NodeId>,
    /// The attributes that move.
    moved: Vec<Arc<str>>,
    /// The sub-modules that are called.
    children: Vec<Arc<str>>,
}

impl Plan {
    /// Finds what goes in and out; reads of attributes may move along.
    fn new(gm: &GraphModule, nodes: &[NodeId], moves_attributes: bool) -> Result<Plan> {
        let graph = gm.graph();
        let mut inside: FxHashSet<NodeId> = nodes.iter().copied().collect();
        let mut children = Vec::new();
        for id in nodes {
            let node = graph.node(*id)?;
            if matches!(node.opcode(), OpCode::Placeholder | OpCode::Output) {
                bail!(Graph, "%{} is an {}, which cannot be outlined", node.name(), node.opcode());
            }
            if gm.parts().has_effect(node) {
                return Err(err!(Graph, "%{} has an effect", node.name()).help("leave it outside"));
            }
            if let Target::CallModule(path) = node.target() {
                children.push(path.clone());
            }
        }
        // Reads of attributes move in, if all who read and use them do.
        let mut moved = Vec::new();
        let reads: Vec<NodeId> = nodes
            .iter()
            .flat_map(|id| graph.node(*id).map(|node| node.inputs().collect::<Vec<_>>()).unwrap_or_default())
            .collect();
        for id in reads.into_iter().chain(nodes.iter().copied()).filter(|_| moves_attributes) {
            let Target::GetAttr(path) = graph.node(id)?.target() else { continue };
            let readers = graph.find_nodes(OpCode::GetAttr, Some(path));
            let is_ours = |reader: &NodeId| {
                graph.node(*reader).is_ok_and(|node| node.users().all(|user| inside.contains(&user)))
            };
            let is_value = matches!(gm.attribute(path), Ok(Attribute::Parameter(_) | Attribute::Constant(_)));
            let is_source = gm.is_folded_from(path);
            if is_value && !is_source && gm.recipe(path).is_none() && readers.iter().all(is_ours) {
                inside.extend(readers);
                moved.push(path.clone());
            } else {
                inside.remove(&id);
            }
        }
        moved.sort_unstable();
        moved.dedup();
        let mut all: Vec<NodeId> = inside.iter().copied().collect();
        all.sort_unstable_by_key(|id| graph.position(*id));
        let (mut inputs, mut outputs) = (Vec::new(), Vec::new());
        for id in &all {
            let node = graph.node(*id)?;
            for input in node.inputs() {
                if !inside.contains(&input) && !inputs.contains(&input) {
                    inputs.push(input);
                }
            }
            if node.users().any(|user| !inside.contains(&user)) {
                outputs.push(*id);
            }
        }
        let is_untyped = |id: &NodeId| graph.node(*id).is_ok_and(|node| node.ty().is_none());
        let mut inferred: FxHashMap<NodeId, TypeTree> = FxHashMap::default();
        if inputs.iter().any(is_untyped) {
            let any = vec![Arg::Leaf(Type::Any); graph.placeholders().len()];
            inferred.extend(gm.infer(&any).unwrap_or_default());
        }
        for id in &inputs {
            let node = graph.node(*id)?;
            if node.ty().or(inferred.get(id)).is_some_and(|ty| !matches!(ty, Arg::Leaf(_))) {
                let name = node.name();
                return Err(err!(Graph, "%{name}, which the nodes use, is not one tensor or number")
                    .help("outline the node that takes it apart with the others, or leave both outside"));
            }
        }
        if outputs.is_empty() {
            bail!(Graph, "nobody uses what the nodes compute");
        }
        Ok(Plan { nodes: all, inputs, outputs, moved, children })
    }

    fn types(&self, graph: &Graph) -> Result<Vec<TypeTree>> {
        let ty = |id: &NodeId| Ok(graph.node(*id)?.ty().cloned().unwrap_or(Arg::Leaf(Type::Any)));
        self.outputs.iter().map(ty).collect()
    }

    /// Copies the nodes into a graph of their own.
    fn body(&self, old: &Graph, name: &str) -> Result<Graph> {
        let (mut graph, mut map) = (Graph::new(name), NodeMap::default());
        for id in &self.inputs {
            let node = old.node(*id)?;
            let new = graph.placeholder(node.name())?;
            graph.meta_mut(new)?.ty = node.meta().ty.clone();
            map.insert(*id, Arg::Leaf(new));
        }
        for id in &self.nodes {
            graph.copy_node(old, *id, &mut map)?;
        }
        let value = |id: &NodeId| map.get(id).cloned().ok_or_else(|| err!(Graph, "an output was not copied"));
        let mut outputs = self.outputs.iter().map(value).collect::<Result<Vec<_>>>()?;
        graph.set_output(if outputs.len() == 1 { outputs.remove(0) } else { Arg::tuple(outputs) })?;
        Ok(graph)
    }

    fn child(&self, gm: &GraphModule, path: &str) -> Result<GraphModule> {
        let inner = |outer: &str| match outer.strip_prefix(path).and_then(|rest| rest.strip_prefix('.')) {
            Some(rest) => rest.to_owned(),
            None => outer.to_owned(),
        };
        let mut graph = self.body(gm.graph(), "main")?;
        for id in graph.ids() {
            if let Some(path) = graph.node(id)?.target().path().cloned() {
                graph.set_path(id, &inner(&path))?;
            }
        }
        let mut child = GraphModule::new(path, graph);
        for path in &self.moved {
            child.set_attribute(&inner(path), gm.attribute(path)?.clone())?;
        }
        for path in &self.children {
            let module =
                gm.shared_child(path).ok_or_else(|| err!(Unresolved, "there is no sub-module {path:?}"))?;
            child.add_shared_submodule(&inner(path), module)?;
        }
        Ok(child)
    }

    fn replace(
        &self,
        graph: &mut Graph,
        pass: &'static str,
        call: impl FnOnce(&mut Graph, Vec<Arg>) -> Result<NodeId>,
        types: &[TypeTree],
    ) -> Result<NodeId> {
        let inside: FxHashSet<NodeId> = self.nodes.iter().copied().collect();
        let mut at: Option<NodeId> = None;
        for output in &self.outputs {
            for user in graph.users(*output)? {
                let is_first = at.is_none_or(|at| graph.position(user) < graph.position(at));
                if !inside.contains(&user) && is_first {
                    at = Some(user);
                }
            }
        }
        let at = at.ok_or_else(|| err!(Graph, "nobody uses what the nodes compute"))?;
        self.move_inputs(graph, &inside, at)?;
        let args: Vec<Arg> = self.inputs.iter().map(|id| Arg::Leaf(*id)).collect();
        let call = graph.inserting_before(at, |graph| call(graph, args))??;
        let from =
            self.nodes.iter().filter_map(|id| Some(graph.node(*id).ok()?.shared_name().clone())).collect();
        let provenance = Provenance { pass: pass.into(), from };
        graph.meta_mut(call)?.add_provenance(provenance.clone());
        let several = types.len() > 1;
        let ty = if several { Arg::tuple(types.iter().cloned()) } else { types[0].clone() };
        graph.meta_mut(call)?.ty = ty.is_complete().then(|| Arc::new(ty));
        for (i, (output, ty)) in self.outputs.iter().zip(types).enumerate() {
            let new = match several {
                false => call,
                true => {
                    let args = [Arg::Leaf(call), Arg::Int(i as i64)];
                    let item =
                        graph.inserting_before(at, |graph| graph.call_function(ops::getitem::OP, args))??;
                    let meta = graph.meta_mut(item)?;
                    meta.add_provenance(provenance.clone());
                    meta.ty = ty.is_complete().then(|| Arc::new(ty.clone()));
                    item
                }
            };
            graph.replace_uses_where(*output, new, |user| !inside.contains(&user))?;
        }
        for id in self.nodes.iter().rev() {
            graph.erase(*id)?;
        }
        Ok(call)
    }

    /// Moves inputs that come after the place of the call before it.
    fn move_inputs(&self, graph: &mut Graph, inside: &FxHashSet<NodeId>, at: NodeId) -> Result<()> {
        let limit = graph.position(at);
        let mut seen = FxHashSet::default();
        let mut stack = self.inputs.clone();
        while let Some(id) = stack.pop() {
            if graph.position(id) < limit || !seen.insert(id) {
                continue;
            }
            let node = graph.node(id)?;
            if inside.contains(&id) {
                return Err(err!(Graph, "%{} is needed by a value that the nodes need in turn", node.name())
                    .help("outline that value, too"));
            }
            if crate::graph::is_impure(node, &|_| false) {
                bail!(Graph, "%{} would have to be computed earlier", node.name());
            }
            stack.extend(node.inputs());
        }
        let mut moved: Vec<NodeId> = seen.into_iter().collect();
        moved.sort_unstable_by_key(|id| graph.position(*id));
        moved.into_iter().try_for_each(|id| graph.move_before(id, at))
    }
}
