//! Specialisation: a graph module for inputs of given types, in which symbolic sizes are the numbers that the
//! types tell.

use std::sync::Arc;

use crate::eval::Bindings;
use crate::{Arg, Error, Graph, GraphModule, Node, Result, Type, TypeTree, bail};

impl GraphModule {
    /// Returns a copy for placeholders of these types, one each: symbolic sizes that they tell are numbers in
    /// arguments and types.
    ///
    /// [`Type::Any`] stands for the declared type. Fails if a type contradicts the declared one, or if its
    /// symbols may have values that do; the error names the argument or size. Parameters, buffers and sub-modules
    /// are those of this module.
    pub fn specialize(&self, inputs: &[TypeTree]) -> Result<GraphModule> {
        let placeholders = self.graph().placeholders();
        if placeholders.len() != inputs.len() {
            bail!(Argument, "the graph has {} placeholders, got {} types", placeholders.len(), inputs.len());
        }
        let mut bindings = Bindings::default();
        let mut types = Vec::with_capacity(inputs.len());
        for (id, given) in placeholders.iter().zip(inputs) {
            let node = self.graph().node(*id)?;
            let declared = node.ty();
            if let Some(declared) = declared {
                bindings.bind_type(declared, given).map_err(|error| {
                    Error::new(error.kind(), format!("argument {:?}: {}", node.name(), error.message()))
                })?;
            }
            types.push(match (given, declared) {
                (Arg::Leaf(Type::Any), Some(declared)) => declared.clone(),
                (given, _) => given.clone(),
            });
        }
        bindings.check_decided()?;
        let mut special = self.snapshot();
        substitute(special.graph_mut(), &bindings)?;
        special.propagate_types(&types)?;
        Ok(special)
    }
}

/// Writes numbers in the place of sizes, also in the groups of an engine, which take no sizes as operands.
fn substitute(graph: &mut Graph, bindings: &Bindings) -> Result<()> {
    for id in graph.ids() {
        let node = graph.node(id)?;
        if !has_sizes(node) {
            continue;
        }
        let mut known = |arg: &Arg| {
            arg.try_rewrite(&mut |arg| match arg {
                Arg::Leaf(id) => Ok(Some(Arg::Leaf(*id))),
                Arg::Dim(dim) => Ok(Some(Arg::dim(dim.substitute(&|symbol| bindings.get(symbol))))),
                Arg::Graph(group) => {
                    let mut group = Graph::clone(group);
                    substitute(&mut group, bindings)?;
                    Ok(Some(Arg::Graph(Arc::new(group))))
                }
                _ => Ok(None),
            })
        };
        let args = node.args().iter().map(&mut known).collect::<Result<Vec<Arg>>>()?;
        let kwargs = node.kwargs().iter().map(|(key, arg)| Ok((key.clone(), known(arg)?)));
        let kwargs = kwargs.collect::<Result<Vec<(Arc<str>, Arg)>>>()?;
        graph.set_args(id, args)?;
        graph.set_kwargs(id, kwargs)?;
    }
    Ok(())
}

/// Returns whether a size is among the arguments, or within the group that the node runs. The sub-graphs of
/// control flow have sizes of their own.
fn has_sizes(node: &Node) -> bool {
    let mut found = false;
    let is_group = node.op() == Some(crate::ops::fused::OP);
    node.all_args().for_each(|arg| {
        arg.walk(&mut |arg| {
            found |= match arg {
                Arg::Dim(_) => true,
                Arg::Graph(group) => is_group && group.nodes().any(|(_, node)| has_sizes(node)),
                _ => false,
            }
        })
    });
    found
}
