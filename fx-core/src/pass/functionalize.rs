//! Functionalisation: a module with state becomes a pure function of its state and inputs.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::inline::trace_child;
use super::{Context, Pass, PassOption};
use crate::graph::NodeMap;
use crate::inline::map_input;
use crate::module::collect_buffers;
use crate::node::{Node, NodeId, Target};
use crate::{Arg, Attribute, Graph, GraphModule, OpCode, Result, Type, Value, bail, err, op, ops};

/// Makes a program a pure function.
pub const FUNCTIONALIZE: Pass = Pass {
    name: "functionalize",
    doc: "Makes a pure function of the program: its parameters and buffers, also those of sub-modules, become the arguments \
          `parameters` and `buffers`, dictionaries by path before the other arguments, and the result becomes \
          `(result, {path: new value})` with every buffer that is updated. Sub-modules are inlined; one that is called twice sees in the \
          second call what the first one stored. Constants stay attributes.",
    options: &[PassOption {
        name: "parameters",
        default: op::Default::Bool(true),
        doc: "take parameters as arguments too; else they stay attributes",
    }],
    resigns: true,
    run: |gm, cx| {
        let parameters = cx.flag("parameters")?;
        run(gm, cx, parameters)
    },
    ..Pass::BASE
};

fn run(gm: &mut GraphModule, cx: &mut Context, parameters: bool) -> Result<()> {
    if !cx.allow(|| "take the state as arguments".into()) {
        return Ok(());
    }
    let (new, state) = functionalize(gm, parameters)?;
    cx.note(format!(
        "{} parameters and {} buffers are arguments, {} buffers are updated",
        state.parameters.len(),
        state.buffers.len(),
        state.updated.len()
    ));
    *gm = new;
    Ok(())
}

/// The state of a module that became a function.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// The paths of the parameters that are arguments, in order.
    pub parameters: Vec<String>,
    /// The paths of the buffers that are arguments, in order.
    pub buffers: Vec<String>,
    /// The paths of the buffers that are updated, in the order of the dictionary that the function returns.
    pub updated: Vec<String>,
    /// The present values of parameters and buffers.
    values: BTreeMap<String, crate::Tensor>,
}

impl State {
    /// Returns the arguments of the function: the state as it was, and these inputs.
    pub fn arguments(&self, inputs: &[Value]) -> Vec<Value> {
        let dict = |paths: &[String]| {
            Arg::dict(paths.iter().map(|path| (path.as_str(), Arg::Leaf(self.values[path].clone()))))
        };
        let groups = [&self.parameters, &self.buffers];
        let state = groups.into_iter().filter(|paths| !paths.is_empty()).map(|paths| dict(paths));
        state.chain(inputs.iter().cloned()).collect()
    }
}

/// Returns a module as a pure function of its state and inputs, and the state; see [`FUNCTIONALIZE`]. Fails
/// if a sub-module cannot be inlined.
pub fn functionalize(gm: &GraphModule, parameters: bool) -> Result<(GraphModule, State)> {
    let gm = &*with_types(gm);
    let parts = FlatParts::of(gm)?;
    let mut state = State::default();
    let mut constants: Vec<(String, Attribute)> = Vec::new();
    let ties = ties(gm);
    for (path, attribute) in &parts.attributes {
        match attribute {
            // What is one state at several paths is one argument, of the first.
            Attribute::Buffer(_) if ties.contains_key(path) => continue,
            Attribute::State(_) => {
                return Err(err!(Graph, "the state {path:?} is no tensor, so that it cannot be an argument")
                    .help("make the numbers of the state tensors of rank 0 in buffers"));
            }
            Attribute::Parameter(_) if parameters => state.parameters.push(path.clone()),
            Attribute::Buffer(_) => state.buffers.push(path.clone()),
            _ => {
                constants.push((path.clone(), attribute.clone()));
                continue;
            }
        }
        state.values.insert(path.clone(), attribute.tensor());
    }
    let mut graph = Graph::new(gm.graph().name());
    let mut given: BTreeMap<String, NodeId> = BTreeMap::new();
    for (name, paths) in [("parameters", &state.parameters), ("buffers", &state.buffers)] {
        if paths.is_empty() {
            continue;
        }
        let taken = |name: &str| gm.graph().inputs().iter().any(|input| *input.name == *name);
        let name = free_name(name, taken);
        let structure = Arg::dict(paths.iter().map(|path| (path.as_str(), Arg::Leaf(()))));
        let tree = graph.structured_input(&name, &structure)?;
        for (path, id) in paths.iter().zip(tree.leaves()) {
            graph.meta_mut(*id)?.ty = Some(Arc::new(state.values[path].type_tree()?));
            given.insert(path.clone(), *id);
        }
    }
    for (path, first) in &ties {
        if let Some(id) = given.get(first) {
            given.insert(path.clone(), *id);
        }
    }
    let mut flat = Flat::of(gm, parts, graph, &given)?;
    let mut updates: Vec<(String, Arg)> = Vec::new();
    for (path, value) in flat.updates {
        state.updated.push(path.clone());
        updates.push((path, value));
    }
    let output = flat.graph.output().clone();
    flat.graph.set_output(Arg::tuple([output, Arg::dict(updates)]))?;
    let mut new = GraphModule::new(gm.name(), flat.graph);
    for (path, attribute) in constants {
        new.set_attribute(&path, attribute)?;
    }
    new.settle_sizes(&flat.from_children)?;
    let output = new.graph().output_node();
    let ty = crate::infer::type_of(new.graph(), new.graph().output());
    new.graph_mut().meta_mut(output)?.ty = ty.map(Arc::new);
    Ok((new, state))
}

/// Returns the buffers that are one with another, by path, with the first path of that.
fn ties(gm: &GraphModule) -> BTreeMap<String, String> {
    let mut first: FxHashMap<usize, String> = FxHashMap::default();
    let mut ties = BTreeMap::new();
    let mut buffers = collect_buffers(gm);
    buffers.sort_by(|a, b| a.0.cmp(&b.0));
    for (path, buffer) in buffers {
        match first.entry(buffer.address()) {
            Entry::Occupied(known) => drop(ties.insert(path, known.get().clone())),
            Entry::Vacant(new) => drop(new.insert(path)),
        }
    }
    ties
}

/// Infers types, if one is missing that a module is called with: they say what the sizes in the module are.
fn with_types(gm: &GraphModule) -> Cow<'_, GraphModule> {
    let graph = gm.graph();
    let is_untyped = |id: NodeId| graph.node(id).is_ok_and(|node| node.ty().is_none());
    let mut calls = graph.nodes().filter(|(_, node)| node.opcode() == OpCode::CallModule);
    if calls.any(|(_, node)| node.inputs().any(is_untyped)) {
        let mut typed = gm.clone();
        let any = vec![Arg::Leaf(Type::Any); graph.placeholders().len()];
        if typed.propagate_types(&any).is_ok() {
            return Cow::Owned(typed);
        }
    }
    Cow::Borrowed(gm)
}

fn free_name(hint: &str, taken: impl Fn(&str) -> bool) -> String {
    let names = std::iter::once(hint.to_owned()).chain((1..).map(|i| format!("{hint}_{i}")));
    names.into_iter().find(|name| !taken(name)).unwrap_or_else(|| hint.to_owned())
}

/// What has to be known of a program before it can be flattened: what its sub-modules are, flattened, and
/// what all read.
struct FlatParts {
    /// The sub-modules by the node that calls them.
    children: FxHashMap<NodeId, Flat>,
    /// What the program and its sub-modules read and update, by path.
    attributes: BTreeMap<String, Attribute>,
}

impl FlatParts {
    fn of(gm: &GraphModule) -> Result<FlatParts> {
        let mut parts = FlatParts { children: FxHashMap::default(), attributes: BTreeMap::new() };
        let mut read = |path: &str| -> Result<()> {
            if !parts.attributes.contains_key(path) {
                parts.attributes.insert(path.to_owned(), gm.attribute(path)?.clone());
            }
            Ok(())
        };
        let mut calls = Vec::new();
        for (id, node) in gm.graph().nodes() {
            match node.target() {
                Target::GetAttr(path) => read(path)?,
                Target::CallFunction(op) if *op == ops::set_buffer::OP => read(&update_of(node)?.0)?,
                Target::CallModule(path) => calls.push((id, path)),
                _ => {}
            }
        }
        for (id, path) in calls {
            let child = gm.child(path)?.as_module().as_any().downcast_ref::<GraphModule>();
            let traced;
            let child = match child {
                Some(child) => with_types(child),
                None => {
                    traced = trace_child(gm, path, id)?;
                    Cow::Borrowed(&traced)
                }
            };
            let child = &*child;
            let mut inner = FlatParts::of(child)?;
            for (name, attribute) in std::mem::take(&mut inner.attributes) {
                parts.attributes.entry(format!("{path}.{name}")).or_insert(attribute);
            }
            let graph = Graph::new(child.graph().name());
            parts.children.insert(id, Flat::of(child, inner, graph, &BTreeMap::new())?);
        }
        Ok(parts)
    }
}

/// Returns the path and the new value of an update of a buffer.
fn update_of(node: &Node) -> Result<(Arc<str>, Arg)> {
    let mut bound = ops::set_buffer::OP.bind(node.args(), node.kwargs())?;
    match (bound.pop(), bound.pop(), bound.is_empty()) {
        (Some(value), Some(Arg::Str(path)), true) => Ok((path, value)),
        _ => bail!(Argument, "an update of a buffer needs its path and value"),
    }
}

/// A program without sub-modules and without updates: what it would store stands beside it.
struct Flat {
    graph: Graph,
    /// What buffers become, in the order of the updates; nodes of `graph`.
    updates: Vec<(String, Arg)>,
    /// The nodes that stood in sub-modules.
    from_children: Vec<NodeId>,
    /// The buffers that are one with another.
    ties: BTreeMap<String, String>,
}

impl Flat {
    /// Continues `graph` by the inputs and nodes of a program; attributes are read from what is `given` for them.
    fn of(
        gm: &GraphModule,
        mut parts: FlatParts,
        graph: Graph,
        given: &BTreeMap<String, NodeId>,
    ) -> Result<Flat> {
        let old = gm.graph();
        let mut flat = Flat { graph, updates: Vec::new(), from_children: Vec::new(), ties: ties(gm) };
        let mut map = NodeMap::default();
        map.reserve(old.len());
        for input in old.inputs() {
            let structure = input.tree.map(&mut |_| ());
            let tree = flat.graph.structured_input(&input.name, &structure)?;
            for (old_id, new) in input.tree.leaves().into_iter().zip(tree.leaves()) {
                *flat.graph.meta_mut(*new)? = old.node(*old_id)?.meta().clone();
                map.insert(*old_id, Arg::Leaf(*new));
            }
        }
        let mapped = |map: &NodeMap, arg: &Arg| {
            arg.try_flat_map(&mut |id| match map.get(id) {
                Some(arg) => Ok(arg.clone()),
                None => bail!(Graph, "%{} is used before it is made", old.node(*id)?.name()),
            })
        };
        for (id, node) in old.nodes() {
            match node.target() {
                Target::Placeholder => {}
                Target::Output => flat.graph.set_output(mapped(&map, &node.args()[0])?)?,
                Target::CallModule(path) => {
                    let args = node.args().iter().map(|arg| mapped(&map, arg)).collect::<Result<Vec<_>>>()?;
                    let Some(child) = parts.children.remove(&id) else {
                        bail!(Graph, "%{} was not flattened", node.name())
                    };
                    let value = flat.call(child, path, &args, given)?;
                    map.insert(id, value);
                }
                Target::CallFunction(op) if *op == ops::set_buffer::OP => {
                    let (path, value) = update_of(node)?;
                    flat.update(&path, mapped(&map, &value)?);
                    map.insert(id, Arg::None);
                }
                Target::GetAttr(path) if given.contains_key(&**path) => {
                    map.insert(id, Arg::Leaf(given[&**path]));
                }
                _ => drop(flat.graph.copy_node(old, id, &mut map)?),
            }
        }
        Ok(flat)
    }

    /// Enters the new value of a buffer; the last one stays.
    fn update(&mut self, path: &str, value: Arg) {
        let path = self.ties.get(path).map_or(path, String::as_str);
        match self.updates.iter_mut().find(|(other, _)| other == path) {
            Some((_, old)) => *old = value,
            None => self.updates.push((path.to_owned(), value)),
        }
    }

    /// Puts what a sub-module computes into the graph; buffers that an earlier call updated are read as updated.
    fn call(
        &mut self,
        child: Flat,
        path: &str,
        args: &[Arg],
        given: &BTreeMap<String, NodeId>,
    ) -> Result<Arg> {
        let mut map = NodeMap::default();
        if child.graph.inputs().len() != args.len() {
            bail!(Argument, "{path} takes {} arguments, got {}", child.graph.inputs().len(), args.len());
        }
        for (input, arg) in child.graph.inputs().iter().zip(args) {
            map_input(&input.tree, arg, &mut map)?;
        }
        let mut inner = child.graph;
        for inner_id in inner.ids() {
            let Target::GetAttr(name) = inner.node(inner_id)?.target() else { continue };
            let full = format!("{path}.{name}");
            let full = self.ties.get(&full).cloned().unwrap_or(full);
            let updated =
                self.updates.iter().find(|(other, _)| *other == full).map(|(_, value)| value.clone());
            match updated.or_else(|| given.get(&full).map(|id| Arg::Leaf(*id))) {
                Some(value) => drop(map.insert(inner_id, value)),
                None => inner.set_path(inner_id, &full)?,
            }
        }
        let copied = self.graph.copy_graph(&inner, &mut map)?;
        self.from_children.extend(copied.nodes);
        for (name, value) in child.updates {
            let value = value.try_flat_map(&mut |id| Ok(map.get(id).cloned().unwrap_or(Arg::None)))?;
            self.update(&format!("{path}.{name}"), value);
        }
        Ok(copied.output)
    }
}
