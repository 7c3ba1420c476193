//! Splitting by size: consecutive nodes up to a limit.

use rustc_hash::FxHashSet;

use super::{Split, Splitter, plan};
use crate::analysis::ParameterCount;
use crate::{Attribute, GraphModule, NodeId, Result, Target, bail};

/// The most that a part holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartSize {
    /// This many nodes that compute.
    Nodes(usize),
    /// Parameters of this many bytes. A node whose own parameters take more has a part of its own, and a parameter that
    /// several parts use counts in each.
    ParameterBytes(u64),
}

/// Splits a module into parts of consecutive nodes, each as large as the limit allows: `submod_0`, `submod_1`, …
pub fn split_by_size(gm: &GraphModule, most: PartSize) -> Result<Split> {
    if matches!(most, PartSize::Nodes(0)) {
        bail!(Argument, "expected a part of at least one node");
    }
    let graph = gm.graph();
    let (mut part, mut nodes, mut bytes) = (0usize, 0usize, 0u64);
    let mut held: FxHashSet<NodeId> = FxHashSet::default();
    let mut held_modules: FxHashSet<String> = FxHashSet::default();
    Splitter::default().split(gm, |at| {
        if plan::follows(graph, at.node) || plan::stores(at.node) {
            return part;
        }
        let reads =
            |id: &NodeId| graph.node(*id).is_ok_and(|node| matches!(node.target(), Target::GetAttr(_)));
        let attributes: Vec<NodeId> = at.node.inputs().filter(reads).collect();
        let size_of = |id: &NodeId| match graph.node(*id).map(|node| node.target()) {
            Ok(Target::GetAttr(path)) => match gm.attribute(path) {
                Ok(Attribute::Parameter(parameter)) => ParameterCount::of(parameter).bytes,
                _ => 0,
            },
            _ => 0,
        };
        let module = match at.node.target() {
            Target::CallModule(path) => gm.child(path).ok().map(|child| (path.to_string(), child)),
            _ => None,
        };
        let of_module =
            |module: &Option<(String, &dyn crate::Forward)>, held: &FxHashSet<String>| match module {
                Some((path, child)) if !held.contains(path) => {
                    crate::analysis::count_parameters(child.as_module()).bytes
                }
                _ => 0,
            };
        let new = |held: &FxHashSet<NodeId>| {
            attributes.iter().filter(|id| !held.contains(id)).map(size_of).sum::<u64>()
        };
        let more = new(&held) + of_module(&module, &held_modules);
        let full = match most {
            PartSize::Nodes(n) => nodes >= n,
            PartSize::ParameterBytes(n) => nodes > 0 && more > 0 && bytes + more > n,
        };
        if full {
            part += 1;
            (nodes, bytes) = (0, 0);
            held.clear();
            held_modules.clear();
        }
        nodes += 1;
        bytes += new(&held) + of_module(&module, &held_modules);
        held.extend(attributes);
        held_modules.extend(module.map(|(path, _)| path));
        part
    })
}
