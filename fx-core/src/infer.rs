//! Shape propagation: the types of all nodes from the types of the inputs, with symbolic sizes, without computing.

use std::sync::Arc;

use crate::graph_module::GraphModule;
use crate::interp::{Interpreter, NodeRef, Run, Schedule, interpret, interpret_with};
use crate::{Arg, Graph, NodeId, Op, Result, Type, TypeTree, bail, err};

/// The interpreter of types.
#[derive(Default)]
struct Infer<'a> {
    module: Option<&'a GraphModule>,
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
        match self.module {
            Some(module) => module.attr(path)?.type_tree(),
            None => bail!(Graph, "a closed sub-graph reads the attribute {path:?}"),
        }
    }

    fn call_function(&mut self, node: NodeRef<'_>, op: Op, args: &[TypeTree]) -> Result<TypeTree> {
        if let Some(ty) = op.infer(args)? {
            return Ok(self.settle(node, ty, args));
        }
        Ok(node.node.ty().cloned().unwrap_or(Arg::Leaf(Type::Any)))
    }

    fn call_module(&mut self, node: NodeRef<'_>, path: &Arc<str>, args: &[TypeTree]) -> Result<TypeTree> {
        let Some(module) = self.module else { bail!(Graph, "a closed sub-graph calls the module {path:?}") };
        let child = module.child(path)?;
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

impl GraphModule {
    /// Returns the type of every node from the types of the placeholders, in program order; nothing is computed.
    ///
    /// An input of [`Type::Any`] takes the placeholder's declared type. A node whose type cannot be known gets `Any`.
    pub fn infer(&self, inputs: &[TypeTree]) -> Result<Vec<(NodeId, TypeTree)>> {
        let graph = self.graph();
        let n = graph.placeholders().len();
        if n != inputs.len() {
            bail!(Argument, "the graph has {n} placeholders, got {} types", inputs.len());
        }
        let mut it = Infer { module: Some(self), ..Infer::default() };
        let schedule = Schedule::new(graph)?;
        interpret_with(graph, &schedule, &mut it, Run::new(inputs.to_vec()))?;
        Ok(it.found)
    }

    /// Enters the type of every node into its metadata, as [`infer`](Self::infer) finds it.
    pub fn propagate_types(&mut self, inputs: &[TypeTree]) -> Result<()> {
        let found = self.infer(inputs)?;
        let graph = self.graph_mut();
        for (id, ty) in found {
            let known = ty.is_complete();
            graph.meta_mut(id).map_err(|_| err!(Graph, "a node vanished"))?.ty = known.then(|| Arc::new(ty));
        }
        Ok(())
    }
}
