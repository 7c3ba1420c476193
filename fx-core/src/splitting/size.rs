//! Splitting by size: consecutive nodes up to a limit.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Split, Splitter, plan};
use crate::analysis::{ParameterCount, count_parameters};
use crate::{Attribute, GraphModule, Node, Result, Target, bail};

/// The most that a part holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartSize {
    /// This many nodes that compute.
    Nodes(usize),
    /// Parameters of this many bytes. A node whose own parameters take more has a part of its own, and a
    /// parameter that several parts use counts in each.
    ParameterBytes(u64),
}

/// What the present part holds.
#[derive(Default)]
struct Held {
    nodes: usize,
    /// Bytes of parameters, by the path of the attribute or module.
    parameters: BTreeMap<Arc<str>, u64>,
}

impl Held {
    fn add(&mut self, parameters: Vec<(Arc<str>, u64)>) {
        self.nodes += 1;
        self.parameters.extend(parameters);
    }

    fn bytes(&self) -> u64 {
        self.parameters.values().sum()
    }
}

/// Splits a module into parts of consecutive nodes, each as large as the limit allows: `submod_0`,
/// `submod_1`, … Fails if the limit is less than one node.
pub fn split_by_size(gm: &GraphModule, most: PartSize) -> Result<Split> {
    if matches!(most, PartSize::Nodes(0)) {
        bail!(Argument, "expected a part of at least one node");
    }
    let graph = gm.graph();
    let (mut part, mut held) = (0usize, Held::default());
    Splitter::default().split(gm, |at| {
        if plan::follows(graph, at.node) || plan::stores(at.node) {
            return part;
        }
        let parameters = match most {
            PartSize::Nodes(_) => Vec::new(),
            PartSize::ParameterBytes(_) => parameters_of(gm, at.node),
        };
        let is_new = |(path, _): &&(Arc<str>, u64)| !held.parameters.contains_key(path);
        let more: u64 = parameters.iter().filter(is_new).map(|(_, bytes)| bytes).sum();
        let is_full = match most {
            PartSize::Nodes(n) => held.nodes >= n,
            PartSize::ParameterBytes(n) => held.nodes > 0 && more > 0 && held.bytes() + more > n,
        };
        if is_full {
            part += 1;
            held = Held::default();
        }
        held.add(parameters);
        part
    })
}

/// Returns the paths and bytes of the parameters that a node reads, or that the module has which it calls.
fn parameters_of(gm: &GraphModule, node: &Node) -> Vec<(Arc<str>, u64)> {
    let mut found = Vec::new();
    for input in node.inputs() {
        if let Ok(Target::GetAttr(path)) = gm.graph().node(input).map(Node::target)
            && let Ok(Attribute::Parameter(parameter)) = gm.attribute(path)
        {
            found.push((path.clone(), ParameterCount::of(parameter).bytes));
        }
    }
    if let Target::CallModule(path) = node.target()
        && let Ok(child) = gm.child(path)
    {
        found.push((path.clone(), count_parameters(child.as_module()).bytes));
    }
    found
}
