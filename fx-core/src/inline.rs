//! Inlining of one call: the nodes of a sub-module take the place of its call.

use std::sync::Arc;

use rustc_hash::FxHashSet;

use crate::fresh::symbols;
use crate::graph::NodeMap;
use crate::module::collect_buffers;
use crate::{
    Arg, ErrorKind, Graph, GraphModule, Module, ModuleFrame, Node, NodeId, OpCode, Result, SourceLoc, Symbol,
    Target, Type, bail, err, ops,
};

impl GraphModule {
    /// Replaces the call of a sub-module that is a [`GraphModule`] by its nodes; returns the new nodes. The new
    /// attributes share the buffers of the sub-module.
    ///
    /// Fails if `id` does not call a graph module, or the call does not fit it; or if the sub-module updates a
    /// buffer that another node reads or updates, because a graph updates a buffer once, at the end of its call.
    pub fn inline(&mut self, id: NodeId) -> Result<Vec<NodeId>> {
        let node = self.graph().node(id)?;
        let Target::CallModule(path) = node.target().clone() else {
            bail!(Graph, "%{} does not call a sub-module", node.name());
        };
        let child = self.child(&path)?.as_module().as_any().downcast_ref::<GraphModule>();
        let Some(mut child) = child.map(GraphModule::snapshot) else {
            return Err(err!(Graph, "the sub-module {path:?} is not a graph module")
                .help("trace it first: `symbolic_trace(&module)`"));
        };
        let args = node.args().to_vec();
        let stack = (node.meta().stack.clone(), node.meta().source.clone());
        if let Some(other) = self.shares_updated_state(id, &path)? {
            let (name, other) = (node.name(), self.graph().node(other)?.name());
            return Err(err!(
                Graph,
                "%{name} updates buffers that %{other} shares, which a graph updates only once"
            )
            .help("leave them calls, or make the state arguments: `fx::pass::functionalize`"));
        }
        let mut map = NodeMap::default();
        if args.len() != child.graph().inputs().len() {
            bail!(
                Argument,
                "%{} passes {} arguments, expected {}",
                node.name(),
                args.len(),
                child.graph().inputs().len()
            );
        }
        for (input, arg) in child.graph().inputs().iter().zip(&args) {
            map_input(&input.tree, arg, &mut map)?;
        }
        let mut inner = child.graph().clone();
        for inner_id in inner.ids() {
            let target = inner.node(inner_id)?.target().clone();
            if let Some(inner_path) = target.path() {
                inner.set_path(inner_id, &format!("{path}.{inner_path}"))?;
            }
            if let Some(op) = target.op().filter(|op| ops::is_store(*op)) {
                let node = inner.node(inner_id)?;
                let mut bound = op.bind(node.args(), node.kwargs())?;
                if let Some(Arg::Str(buffer)) = bound.first() {
                    bound[0] = Arg::str(format!("{path}.{buffer}"));
                }
                inner.set_all_args(inner_id, bound.into(), Default::default())?;
            }
        }
        let insert = |graph: &mut Graph, map: &mut NodeMap| {
            graph.transaction(|graph| {
                let copied = graph.inserting_before(id, |graph| graph.copy_graph(&inner, map))??;
                graph.replace_all_uses(id, copied.output.clone())?;
                graph.erase(id)?;
                Ok(copied.nodes)
            })
        };
        let new = match insert(self.graph_mut(), &mut map) {
            // What the sizes in the module are is said by the types of the arguments.
            Err(error) if error.kind() == ErrorKind::UnknownType => {
                let any = vec![Arg::Leaf(Type::Any); self.graph().placeholders().len()];
                self.propagate_types(&any).map_err(|_| error)?;
                insert(self.graph_mut(), &mut map)?
            }
            new => new?,
        };
        self.nest_stacks(&path, child.name(), stack, &new)?;
        let (graph, attributes, children) = self.split();
        let (_, inner_attributes, inner_children) = child.split();
        for (inner_path, attribute) in std::mem::take(inner_attributes) {
            attributes.insert(Arc::from(format!("{path}.{inner_path}")), attribute);
        }
        for (inner_path, grandchild) in std::mem::take(inner_children) {
            children.insert(Arc::from(format!("{path}.{inner_path}")), grandchild);
        }
        if graph.find_nodes(OpCode::CallModule, Some(&path)).is_empty() {
            children.remove(&*path);
        }
        self.settle_sizes(&new)?;
        Ok(new)
    }

    /// Puts the frames of a call before those of the nodes that it became. `stack` and `source` are those of the
    /// node that made the call.
    fn nest_stacks(
        &mut self,
        path: &Arc<str>,
        type_name: &str,
        (stack, source): (Option<Arc<[ModuleFrame]>>, Option<SourceLoc>),
        new: &[NodeId],
    ) -> Result<()> {
        let mut outer = stack.as_deref().unwrap_or_default().to_vec();
        if outer.last().is_none_or(|frame| frame.path != *path) {
            let frames =
                self.graph().nodes().flat_map(|(_, node)| node.meta().stack.iter().flat_map(|s| s.iter()));
            let earlier = frames.filter(|frame| frame.path == *path).map(|frame| frame.call + 1).max();
            let (path, type_name) = (path.clone(), Arc::from(type_name));
            outer.push(ModuleFrame { path, type_name, call: earlier.unwrap_or(0), source });
        }
        for id in new {
            let meta = self.graph_mut().meta_mut(*id)?;
            let inner = meta.stack.as_deref().unwrap_or_default().iter();
            let below = |frame: &ModuleFrame| ModuleFrame {
                path: Arc::from(format!("{path}.{}", frame.path)),
                ..frame.clone()
            };
            meta.stack = Some(outer.iter().cloned().chain(inner.map(below)).collect());
        }
        Ok(())
    }

    /// Returns another node that shares a buffer with the body of the sub-module, if one of both updates it.
    /// Calls in that body stay calls, so their buffers do not count.
    pub(crate) fn shares_updated_state(&self, call: NodeId, path: &str) -> Result<Option<NodeId>> {
        let (cells, updates) = state_of_body(self.child(path)?.as_module());
        if cells.is_empty() {
            return Ok(None);
        }
        let shares = |(id, node): &(NodeId, &Node)| match node.target() {
            _ if *id == call => false,
            Target::CallModule(other) => self.child(other).is_ok_and(|other| {
                let other = other.as_module();
                (updates || !other.is_pure())
                    && collect_buffers(other).iter().any(|(_, buffer)| cells.contains(&buffer.address()))
            }),
            Target::GetAttr(other) => updates && self.is_state(other, &cells),
            Target::CallFunction(op) if ops::is_store(*op) => {
                let bound = op.bind(node.args(), node.kwargs()).unwrap_or_default();
                matches!(bound.first(), Some(Arg::Str(other)) if self.is_state(other, &cells))
            }
            _ => false,
        };
        Ok(self.graph().nodes().find(shares).map(|(id, _)| id))
    }

    fn is_state(&self, path: &str, cells: &FxHashSet<usize>) -> bool {
        self.attribute(path).is_ok_and(|attribute| attribute.cell().is_some_and(|cell| cells.contains(&cell)))
    }

    /// Types nodes that came from elsewhere anew if there are sizes in their types that no input tells: their
    /// names stood for sizes of another graph.
    pub(crate) fn settle_sizes(&mut self, new: &[NodeId]) -> Result<()> {
        let graph = self.graph();
        let ty = |id: &NodeId| graph.node(*id).ok().and_then(Node::ty);
        let of_inputs: FxHashSet<Symbol> =
            graph.placeholders().iter().filter_map(ty).flat_map(symbols).collect();
        let is_new =
            |id: &&NodeId| ty(id).is_some_and(|ty| symbols(ty).iter().any(|x| !of_inputs.contains(x)));
        let unsettled: Vec<NodeId> = new.iter().filter(is_new).copied().collect();
        if unsettled.is_empty() {
            return Ok(());
        }
        let n_inputs = graph.placeholders().len();
        for id in unsettled {
            self.graph_mut().meta_mut(id)?.ty = None;
        }
        let Ok(found) = self.infer(&vec![Arg::Leaf(Type::Any); n_inputs]) else { return Ok(()) };
        for (id, ty) in found.into_iter().filter(|(_, ty)| ty.is_complete()) {
            self.graph_mut().meta_mut(id)?.ty = Some(Arc::new(ty));
        }
        Ok(())
    }
}

/// Returns the addresses of the buffers that the body of a module reads or updates outside of calls of graph
/// modules, and whether it updates one. The body of a leaf comes from a trace through all of its modules.
fn state_of_body(module: &dyn Module) -> (FxHashSet<usize>, bool) {
    let Some(gm) = module.as_any().downcast_ref::<GraphModule>() else {
        let buffers = collect_buffers(module);
        return (buffers.iter().map(|(_, buffer)| buffer.address()).collect(), !module.is_pure());
    };
    let updates = gm.graph().nodes().any(|(_, node)| node.op().is_some_and(ops::is_store));
    (gm.attributes().filter_map(|(_, attribute)| attribute.cell()).collect(), updates)
}

/// Says what the placeholders of an input become, by the structure of the argument.
pub(crate) fn map_input(tree: &Arg, arg: &Arg, map: &mut NodeMap) -> Result<()> {
    match (tree, arg) {
        (Arg::Leaf(id), arg) => {
            map.insert(*id, arg.clone());
            Ok(())
        }
        (Arg::Tuple(a), Arg::Tuple(b)) | (Arg::List(a), Arg::List(b)) if a.len() == b.len() => {
            a.iter().zip(b.iter()).try_for_each(|(a, b)| map_input(a, b, map))
        }
        (Arg::Dict(a), Arg::Dict(b)) if a.len() == b.len() => {
            a.iter().try_for_each(|(key, a)| match b.get(key) {
                Some(b) => map_input(a, b, map),
                None => bail!(Structure, "no entry {key:?} is given"),
            })
        }
        (a, b) if a == b => Ok(()),
        (a, b) => bail!(Structure, "expected the structure {a}, got {b}"),
    }
}
