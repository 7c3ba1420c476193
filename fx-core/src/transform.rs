//! Making graphs from graphs: [`Rebuild`], sub-graphs between nodes, and continuing a graph with tensor operators.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::graph::NodeMap;
use crate::interp::{Interpreter, NodeRef, interpret};
use crate::node::{NodeId, OpCode, Target};
use crate::trace::Snippet;
use crate::{Arg, Attribute, Dim, Graph, GraphModule, Op, Result, Tensor, Tree, err};

/// The interpreter whose values are nodes of a new graph: torch.fx's `Transformer`.
///
/// As it is, it copies. A pass wraps it, handles the nodes that it cares about, and passes the others on:
///
/// ```ignore
/// struct ReluToGelu(Rebuild);
/// impl Interpreter for ReluToGelu {
///     type Leaf = NodeId;
///     fn call_function(&mut self, node: NodeRef<'_>, op: Op, args: &[Arg]) -> Result<Arg> {
///         self.0.call_function(node, if op == fx::relu::OP { fx::gelu::OP } else { op }, args)
///     }
///     // get_attr and call_module: pass on
/// }
/// ```
#[derive(Debug)]
pub struct Rebuild {
    graph: Graph,
}

impl Rebuild {
    /// Begins a new graph with the name of `old`.
    pub fn new(old: &Graph) -> Self {
        let mut graph = Graph::default();
        graph.set_name(old.name()).expect("a graph's name is valid");
        Rebuild { graph }
    }

    /// Returns the new graph as far as it is, for adding nodes at its end.
    pub fn graph_mut(&mut self) -> &mut Graph {
        &mut self.graph
    }

    /// Interprets `old` with `it`, which wraps the `Rebuild` that `get` returns, and returns the new graph.
    /// Fails with the first error of the interpreter.
    pub fn run<I: Interpreter<Leaf = NodeId>>(
        old: &Graph,
        it: &mut I,
        get: impl Fn(&mut I) -> &mut Rebuild,
    ) -> Result<Graph> {
        let mut inputs: Vec<Arg> = Vec::new();
        for input in old.inputs() {
            let graph = &mut get(it).graph;
            let tree = graph.structured_input(&input.name, &input.tree.map(&mut |_| ()))?;
            for (from, to) in input.tree.leaves().into_iter().zip(tree.leaves()) {
                graph.rename(*to, old.node(*from)?.name())?;
                *graph.meta_mut(*to)? = old.node(*from)?.meta().clone();
                inputs.push(Arg::Leaf(*to));
            }
        }
        let output = interpret(old, it, inputs)?;
        let mut graph = std::mem::take(&mut get(it).graph);
        graph.set_output(output)?;
        Ok(graph)
    }

    /// Copies `old`, node by node. Fails if the graph is not sound.
    pub fn copy(old: &Graph) -> Result<Graph> {
        Rebuild::run(old, &mut Rebuild::new(old), |it| it)
    }

    /// Adds a node with the name and metadata of `node`.
    fn add(
        &mut self,
        node: NodeRef<'_>,
        target: Target,
        args: Vec<Arg>,
        kwargs: Vec<(Arc<str>, Arg)>,
    ) -> Result<Arg> {
        let id = self.graph.create(target, args, kwargs, Some(node.node.name()))?;
        *self.graph.meta_mut(id)? = node.node.meta().clone();
        Ok(Arg::Leaf(id))
    }
}

impl Interpreter for Rebuild {
    type Leaf = NodeId;

    fn get_attr(&mut self, node: NodeRef<'_>, path: &Arc<str>) -> Result<Arg> {
        self.add(node, Target::GetAttr(path.clone()), Vec::new(), Vec::new())
    }

    fn call_function(&mut self, node: NodeRef<'_>, op: Op, args: &[Arg]) -> Result<Arg> {
        let (args, kwargs) = op.spell(args);
        let is_method = node.node.opcode() == OpCode::CallMethod && !args.is_empty();
        let target = if is_method { Target::CallMethod(op) } else { Target::CallFunction(op) };
        self.add(node, target, args, kwargs)
    }

    fn call_module(&mut self, node: NodeRef<'_>, path: &Arc<str>, args: &[Arg]) -> Result<Arg> {
        self.add(node, Target::CallModule(path.clone()), args.to_vec(), Vec::new())
    }

    fn dim(&mut self, dim: &Dim) -> Result<Arg> {
        Ok(Arg::Dim(dim.clone()))
    }
}

impl GraphModule {
    /// Returns the node of this name, or the last node of the module with this dotted path. Fails if there is
    /// none.
    pub fn find(&self, name: &str) -> Result<NodeId> {
        let graph = self.graph();
        if let Some(id) = graph.find(name) {
            return Ok(id);
        }
        let of_module = graph.nodes().rev().find(|(_, node)| {
            let stack = node.meta().stack.as_deref().unwrap_or_default();
            stack.iter().any(|frame| &*frame.path == name)
                || matches!(node.target(), Target::CallModule(path) if &**path == name)
        });
        of_module.map_or_else(|| graph.find_or_err(name), |(id, _)| Ok(id))
    }

    /// Returns the graph that computes `outputs` from `inputs`, both given by node name or module path.
    ///
    /// The inputs become its arguments under the names of their nodes. One output is returned as it is,
    /// several as a dictionary. Fails if the outputs need something else that names it. Effects that no
    /// output needs are left out.
    pub fn between(&self, inputs: &[&str], outputs: &[&str]) -> Result<GraphModule> {
        let inputs = inputs.iter().map(|name| self.find(name)).collect::<Result<Vec<_>>>()?;
        let outputs: Vec<(&str, NodeId)> =
            outputs.iter().map(|name| Ok((*name, self.find(name)?))).collect::<Result<_>>()?;
        let (old, mut graph, mut map) = (self.graph(), Graph::default(), NodeMap::default());
        for id in &inputs {
            let node = old.node(*id)?;
            let new = graph.placeholder(node.name())?;
            graph.meta_mut(new)?.ty = node.meta().ty.clone();
            map.insert(*id, Arg::Leaf(new));
        }
        let mut needed: BTreeSet<NodeId> = BTreeSet::new();
        let mut stack: Vec<NodeId> = outputs.iter().map(|(_, id)| *id).collect();
        while let Some(id) = stack.pop() {
            if map.contains_key(&id) || !needed.insert(id) {
                continue;
            }
            let node = old.node(id)?;
            if node.opcode() == OpCode::Placeholder {
                return Err(err!(Graph, "the outputs need %{}, which is not among the inputs", node.name())
                    .help("add it to the inputs, or an input that stands before what needs it"));
            }
            stack.extend(node.inputs());
        }
        for id in old.ids().into_iter().filter(|id| needed.contains(id)) {
            graph.copy_node(old, id, &mut map)?;
        }
        let value = |id: &NodeId| map.get(id).cloned().ok_or_else(|| err!(Graph, "an output was not copied"));
        let output = match &outputs[..] {
            [(_, id)] => value(id)?,
            several => Arg::dict(
                several.iter().map(|(name, id)| Ok((*name, value(id)?))).collect::<Result<Vec<_>>>()?,
            ),
        };
        graph.set_output(output)?;
        let mut gm = self.clone();
        gm.set_graph(graph);
        gm.delete_unused();
        Ok(gm)
    }

    /// Returns the graph that gives the values of nodes, by node name or module path, instead of the output.
    /// Fails if a name resolves to no node.
    pub fn features(&self, names: &[&str]) -> Result<GraphModule> {
        let graph = self.graph();
        let mut gm = self.clone();
        let entries = names
            .iter()
            .map(|name| Ok((*name, Arg::Leaf(self.find(name)?))))
            .collect::<Result<Vec<(&str, Arg)>>>()?;
        // Handles belong to one graph, so the copy is edited by name.
        let mut copy = Rebuild::copy(graph)?;
        let entries = entries.into_iter().map(|(name, arg)| {
            let id = arg.leaf().copied().ok_or_else(|| err!(Graph, "no node"))?;
            Ok((name, Arg::Leaf(copy.find_or_err(graph.node(id)?.name())?)))
        });
        let output = Arg::dict(entries.collect::<Result<Vec<_>>>()?);
        copy.set_output(output)?;
        copy.eliminate_dead_code(|path| self.child(path).is_ok_and(|child| child.as_module().is_pure()));
        gm.set_graph(copy);
        gm.delete_unused();
        Ok(gm)
    }

    /// Continues the graph with tensor operators: `f` receives the values of `inputs` as symbols; its
    /// operations are inserted before the node `before`. Returns the result of `f` in terms of the graph.
    ///
    /// Captured tensors become attributes. Fails, and changes nothing, if `f` fails or a handle is stale.
    pub fn append<R: Tree>(
        &mut self,
        before: NodeId,
        inputs: &[NodeId],
        f: impl FnOnce(&[Tensor]) -> R,
    ) -> Result<Arg> {
        let graph = self.graph();
        let types = inputs.iter().map(|id| Ok(graph.node(*id)?.ty().cloned())).collect::<Result<Vec<_>>>()?;
        let Snippet { graph: mut new, attrs } =
            crate::trace::trace_snippet(&types, |args| f(args).to_value())?;
        let mut added = Vec::new();
        let mut moved = Vec::new();
        for (path, attr) in attrs {
            let readers = new.find_nodes(OpCode::GetAttr, Some(&path));
            let is_it = |(_, old): &(&str, &Attribute)| {
                !matches!(old, Attribute::State(_)) && same_value(&old.tensor(), &attr.tensor())
            };
            if let Some((path, _)) = self.attributes().find(is_it) {
                moved.push((readers, path.to_owned()));
                continue;
            }
            let free = (0..).map(|i| format!("_tensor_constant{i}")).find(|path| {
                self.attribute(path).is_err() && !added.iter().any(|(other, _): &(String, _)| other == path)
            });
            let free = free.expect("some number is free");
            moved.push((readers, free.clone()));
            added.push((free, Attribute::Constant(attr.tensor())));
        }
        for (readers, path) in moved {
            readers.into_iter().try_for_each(|id| new.set_path(id, &path))?;
        }
        let mut map = NodeMap::default();
        for (placeholder, input) in new.placeholders().into_iter().zip(inputs) {
            map.insert(placeholder, Arg::Leaf(*input));
        }
        let copied = self.graph_mut().transaction(|graph| {
            graph.inserting_before(before, |graph| graph.copy_graph(&new, &mut map))?
        })?;
        for (path, attribute) in added {
            self.set_attribute(&path, attribute)?;
        }
        Ok(copied.output)
    }
}

fn same_value(a: &Tensor, b: &Tensor) -> bool {
    matches!((a.array(), b.array()), (Ok(a), Ok(b)) if std::ptr::eq(a, b))
}
