//! Functionalisation: a module with state becomes a pure function of its state and inputs.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::inline::trace_child;
use super::{Context, Pass, PassOption};
use crate::graph::NodeMap;
use crate::graph_module::map_input;
use crate::node::{NodeId, Target};
use crate::{Arg, Attribute, Graph, GraphModule, Result, Value, bail, op, ops};

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

/// Returns the pure function that a module is of its state and inputs, and what its state is; see [`FUNCTIONALIZE`].
pub fn functionalize(gm: &GraphModule, parameters: bool) -> Result<(GraphModule, State)> {
    let flat = Flat::of(gm)?;
    let mut state = State::default();
    let mut constants: Vec<(String, Attribute)> = Vec::new();
    for (path, attribute) in flat.attributes {
        match &attribute {
            Attribute::Parameter(_) if parameters => state.parameters.push(path.clone()),
            Attribute::Buffer(_) => state.buffers.push(path.clone()),
            _ => {
                constants.push((path, attribute));
                continue;
            }
        }
        state.values.insert(path, attribute.tensor());
    }
    let mut graph = Graph::new(gm.graph().name());
    let mut map = NodeMap::default();
    let mut given: BTreeMap<&str, NodeId> = BTreeMap::new();
    for (name, paths) in [("parameters", &state.parameters), ("buffers", &state.buffers)] {
        if paths.is_empty() {
            continue;
        }
        let taken = |name: &str| flat.graph.inputs().iter().any(|input| *input.name == *name);
        let name = free_name(name, taken);
        let structure = Arg::dict(paths.iter().map(|path| (path.as_str(), Arg::Leaf(()))));
        let tree = graph.structured_input(&name, &structure)?;
        for (path, id) in paths.iter().zip(tree.leaves()) {
            graph.meta_mut(*id)?.ty = Some(Arc::new(state.values[path].type_tree()?));
            given.insert(path, *id);
        }
    }
    for input in flat.graph.inputs() {
        let structure = input.tree.map(&mut |_| ());
        let tree = graph.structured_input(&input.name, &structure)?;
        for (old, new) in input.tree.leaves().into_iter().zip(tree.leaves()) {
            *graph.meta_mut(*new)? = flat.graph.node(*old)?.meta().clone();
            map.insert(*old, Arg::Leaf(*new));
        }
    }
    for (id, node) in flat.graph.nodes() {
        if let Target::GetAttr(path) = node.target()
            && let Some(input) = given.get(&**path)
        {
            map.insert(id, Arg::Leaf(*input));
        }
    }
    let copied = graph.copy_graph(&flat.graph, &mut map)?;
    let mut updates: Vec<(String, Arg)> = Vec::new();
    for (path, value) in &flat.updates {
        let value = value.try_flat_map(&mut |id| match map.get(id) {
            Some(value) => Ok(value.clone()),
            None => bail!(Graph, "the new value of the buffer {path:?} is lost"),
        })?;
        updates.push((path.clone(), value));
        state.updated.push(path.clone());
    }
    graph.set_output(Arg::tuple([copied.output, Arg::dict(updates)]))?;
    let mut new = GraphModule::new(gm.name(), graph);
    for (path, attribute) in constants {
        new.set_attribute(&path, attribute)?;
    }
    let any = vec![Arg::Leaf(crate::Type::Any); new.graph().placeholders().len()];
    if let Ok(types) = new.infer(&any) {
        let output = new.graph().output_node();
        if let Some((_, ty)) = types.into_iter().find(|(id, ty)| *id == output && ty.is_complete()) {
            new.graph_mut().meta_mut(output)?.ty = Some(Arc::new(ty));
        }
    }
    Ok((new, state))
}

fn free_name(hint: &str, taken: impl Fn(&str) -> bool) -> String {
    let names = std::iter::once(hint.to_owned()).chain((1..).map(|i| format!("{hint}_{i}")));
    names.into_iter().find(|name| !taken(name)).unwrap_or_else(|| hint.to_owned())
}

/// A program without sub-modules and without updates: what it would store stands beside it.
struct Flat {
    graph: Graph,
    /// What it reads, by path.
    attributes: BTreeMap<String, Attribute>,
    /// What buffers become, in the order of the updates; nodes of `graph`.
    updates: Vec<(String, Arg)>,
}

impl Flat {
    fn of(gm: &GraphModule) -> Result<Flat> {
        let old = gm.graph();
        let mut flat =
            Flat { graph: Graph::new(old.name()), attributes: BTreeMap::new(), updates: Vec::new() };
        let mut map = NodeMap::default();
        for input in old.inputs() {
            let structure = input.tree.map(&mut |_| ());
            let tree = flat.graph.structured_input(&input.name, &structure)?;
            for (old_id, new) in input.tree.leaves().into_iter().zip(tree.leaves()) {
                *flat.graph.meta_mut(*new)? = old.node(*old_id)?.meta().clone();
                map.insert(*old_id, Arg::Leaf(*new));
            }
        }
        for (id, node) in old.nodes() {
            match node.target() {
                Target::Placeholder => {}
                Target::Output => {
                    let output = node.args()[0].try_flat_map(&mut |id| match map.get(id) {
                        Some(arg) => Ok(arg.clone()),
                        None => bail!(Graph, "a result is lost"),
                    })?;
                    flat.graph.set_output(output)?;
                }
                Target::CallModule(path) => {
                    let args = node.args().iter();
                    let args: Vec<Arg> = args
                        .map(|arg| arg.try_flat_map(&mut |id| Ok(map.get(id).cloned().unwrap_or(Arg::None))))
                        .collect::<Result<_>>()?;
                    let value = flat.call(gm, id, path, &args)?;
                    map.insert(id, value);
                }
                Target::CallFunction(op) if *op == ops::set_buffer::OP => {
                    let bound = op.bind(node.args(), node.kwargs())?;
                    let [Arg::Str(path), value] = &bound[..] else {
                        bail!(Argument, "an update of a buffer needs its path and value")
                    };
                    let value =
                        value.try_flat_map(&mut |id| Ok(map.get(id).cloned().unwrap_or(Arg::None)))?;
                    flat.attributes.entry(path.to_string()).or_insert(gm.attribute(path)?.clone());
                    flat.update(path, value);
                    map.insert(id, Arg::None);
                }
                target => {
                    if let Target::GetAttr(path) = target {
                        let attribute = gm.attribute(path)?.clone();
                        flat.attributes.entry(path.to_string()).or_insert(attribute);
                    }
                    flat.graph.copy_node(old, id, &mut map)?;
                }
            }
        }
        Ok(flat)
    }

    /// Enters the new value of a buffer; the last one stays.
    fn update(&mut self, path: &str, value: Arg) {
        match self.updates.iter_mut().find(|(other, _)| other == path) {
            Some((_, old)) => *old = value,
            None => self.updates.push((path.to_owned(), value)),
        }
    }

    /// Puts what a call of a sub-module computes into the graph; buffers that an earlier call updated are read as updated.
    fn call(&mut self, gm: &GraphModule, id: NodeId, path: &str, args: &[Arg]) -> Result<Arg> {
        let child = gm.child(path)?.as_module().as_any().downcast_ref::<GraphModule>();
        let child = match child {
            Some(child) => Flat::of(child)?,
            None => Flat::of(&trace_child(gm, path, id)?)?,
        };
        let mut map = NodeMap::default();
        if child.graph.inputs().len() != args.len() {
            bail!(Argument, "{path} takes {} arguments, got {}", child.graph.inputs().len(), args.len());
        }
        for (input, arg) in child.graph.inputs().iter().zip(args) {
            map_input(&input.tree, arg, &mut map)?;
        }
        let mut inner = child.graph;
        for inner_id in inner.ids() {
            let Target::GetAttr(name) = inner.node(inner_id)?.target().clone() else { continue };
            let full = format!("{path}.{name}");
            match self.updates.iter().find(|(other, _)| *other == full) {
                Some((_, value)) => drop(map.insert(inner_id, value.clone())),
                None => inner.set_path(inner_id, &full)?,
            }
        }
        let copied = self.graph.copy_graph(&inner, &mut map)?;
        for (name, attribute) in child.attributes {
            self.attributes.entry(format!("{path}.{name}")).or_insert(attribute);
        }
        for (name, value) in child.updates {
            let value = value.try_flat_map(&mut |id| Ok(map.get(id).cloned().unwrap_or(Arg::None)))?;
            self.update(&format!("{path}.{name}"), value);
        }
        Ok(copied.output)
    }
}
