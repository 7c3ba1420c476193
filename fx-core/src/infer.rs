//! Shape propagation: the types of all nodes from the types of the inputs, with symbolic sizes, without computing.

use std::sync::Arc;

use crate::attribute::Parts;
use crate::interp::{Interpreter, NodeRef, Run, Schedule, interpret, interpret_with};
use crate::{Arg, Graph, NodeId, Op, Result, Target, Type, TypeTree, bail, err};

/// The interpreter of types.
#[derive(Default)]
struct Infer<'a> {
    parts: Parts<'a>,
    found: Vec<(NodeId, TypeTree)>,
    names: crate::fresh::Names,
}

impl Infer<'_> {
    /// Sizes that depend on data keep the symbols that the node was recorded with.
    fn settle(&mut self, node: NodeRef<'_>, ty: TypeTree, args: &[TypeTree]) -> TypeTree {
        let (names, found) = (&mut self.names, &self.found);
        let mut name = || names.next(node.graph, found.iter().map(|(_, ty)| ty));
        crate::fresh::settle(ty, args, node.node.ty(), &mut name)
    }
}

impl Interpreter for Infer<'_> {
    type Leaf = Type;

    fn placeholder(&mut self, node: NodeRef<'_>, input: TypeTree) -> Result<TypeTree> {
        Ok(match (&input, node.node.ty()) {
            (Arg::Leaf(Type::Any), Some(declared)) => declared.clone(),
            _ => input,
        })
    }

    fn get_attr(&mut self, _node: NodeRef<'_>, path: &Arc<str>) -> Result<TypeTree> {
        match self.parts.attribute(path) {
            Some(attribute) => attribute.type_tree(),
            None if self.parts.is_closed() => bail!(Graph, "a closed sub-graph reads the attribute {path:?}"),
            None => bail!(Unresolved, "there is no attribute {path:?}"),
        }
    }

    fn call_function(&mut self, node: NodeRef<'_>, op: Op, args: &[TypeTree]) -> Result<TypeTree> {
        if let Some(ty) = op.infer(args)? {
            return Ok(self.settle(node, ty, args));
        }
        Ok(node.node.ty().cloned().unwrap_or(Arg::Leaf(Type::Any)))
    }

    fn call_module(&mut self, node: NodeRef<'_>, path: &Arc<str>, args: &[TypeTree]) -> Result<TypeTree> {
        let child = match self.parts.child(path) {
            Some(child) => child,
            None if self.parts.is_closed() => bail!(Graph, "a closed sub-graph calls the module {path:?}"),
            None => bail!(Unresolved, "there is no sub-module {path:?}"),
        };
        if !args.iter().all(TypeTree::is_complete) {
            return Ok(Arg::Leaf(Type::Any));
        }
        let ty = crate::trace::infer_module(child, args)?.unwrap_or(Arg::Leaf(Type::Any));
        Ok(self.settle(node, ty, args))
    }

    fn after(&mut self, node: NodeRef<'_>, value: TypeTree) -> Result<TypeTree> {
        self.found.push((node.id, value.clone()));
        Ok(value)
    }
}

/// Returns the type of a closed graph's result.
pub(crate) fn infer_graph(graph: &Graph, inputs: &[TypeTree]) -> Result<TypeTree> {
    let n = graph.placeholders().len();
    if n != inputs.len() {
        bail!(Argument, "the sub-graph @{} takes {n} operands, got {}", graph.name(), inputs.len());
    }
    let mut it = Infer::default();
    interpret(graph, &mut it, inputs.to_vec())
}

/// Returns the type of an argument from the recorded types of the nodes in it; `None` if one has none that is
/// complete.
pub(crate) fn type_of(graph: &Graph, arg: &Arg) -> Option<TypeTree> {
    let known = |id: &NodeId| graph.node(*id).ok().and_then(crate::Node::ty).filter(|ty| ty.is_complete());
    match arg {
        Arg::Leaf(id) => known(id).cloned(),
        _ => {
            let mut complete = true;
            arg.for_each_leaf(&mut |id| complete &= known(id).is_some());
            if !complete {
                return None;
            }
            arg.try_flat_map(&mut |id| Ok(known(id).cloned().unwrap_or(Arg::Leaf(Type::Any)))).ok()
        }
    }
}

/// Returns the type of one node from the recorded types of its inputs; `None` if it cannot be known, or if it
/// has a size that depends on data and thus needs a name.
pub(crate) fn infer_node(graph: &Graph, parts: Parts<'_>, id: NodeId) -> Result<Option<TypeTree>> {
    let node = graph.node(id)?;
    let types = |args: &[Arg]| args.iter().map(|arg| type_of(graph, arg)).collect::<Option<Vec<_>>>();
    let settled = |ty: TypeTree, args: &[TypeTree]| {
        Some(ty).filter(|ty| crate::fresh::new_symbols(ty, args).is_empty())
    };
    match node.target() {
        Target::GetAttr(path) => match parts.attribute(path) {
            Some(attribute) => attribute.type_tree().map(Some),
            None => Ok(node.ty().cloned()),
        },
        Target::CallFunction(op) | Target::CallMethod(op) => {
            let Some(types) = types(&op.bind(node.args(), node.kwargs())?) else { return Ok(None) };
            Ok(op.infer(&types)?.and_then(|ty| settled(ty, &types)))
        }
        Target::CallModule(path) => match (parts.child(path), types(node.args())) {
            (Some(child), Some(types)) => {
                Ok(crate::trace::infer_module(child, &types)?.and_then(|ty| settled(ty, &types)))
            }
            _ => Ok(None),
        },
        Target::Placeholder | Target::Output => Ok(node.ty().cloned()),
    }
}

/// Returns whether a call keeps its type when a value takes the place of one of its inputs: others may know a size
/// that depends on data by the name that it has there. Fails if the arguments do not fit the operation.
pub(crate) fn accepts(graph: &Graph, id: NodeId, input: NodeId, value: &Arg) -> Result<bool> {
    let node = graph.node(id)?;
    let Some(op) = node.op() else { return Ok(true) };
    let mut put = |leaf: &NodeId| Ok(if *leaf == input { value.clone() } else { Arg::Leaf(*leaf) });
    let mut types = Vec::new();
    for arg in op.bind(node.args(), node.kwargs())?.iter() {
        match type_of(graph, &arg.try_flat_map(&mut put)?) {
            Some(ty) => types.push(ty),
            None => return Ok(true),
        }
    }
    Ok(match op.infer(&types) {
        Ok(Some(ty)) => node.ty().is_none_or(|recorded| *recorded == ty),
        Ok(None) => true,
        Err(_) => false,
    })
}

/// Enters the type of every node into its metadata.
pub(crate) fn propagate(graph: &mut Graph, parts: Parts<'_>, inputs: &[TypeTree]) -> Result<()> {
    for (id, ty) in infer_all(graph, parts, inputs)? {
        let known = ty.is_complete();
        graph.meta_mut(id).map_err(|_| err!(Graph, "a node vanished"))?.ty = known.then(|| Arc::new(ty));
    }
    Ok(())
}

/// Returns the type of every node from the types of the placeholders.
pub(crate) fn infer_all(
    graph: &Graph,
    parts: Parts<'_>,
    inputs: &[TypeTree],
) -> Result<Vec<(NodeId, TypeTree)>> {
    let n = graph.placeholders().len();
    if n != inputs.len() {
        bail!(Argument, "the graph has {n} placeholders, got {} types", inputs.len());
    }
    let mut it = Infer { parts, ..Infer::default() };
    let schedule = Schedule::new(graph)?;
    interpret_with(graph, &schedule, &mut it, Run::new(inputs.to_vec()))?;
    Ok(it.found)
}
