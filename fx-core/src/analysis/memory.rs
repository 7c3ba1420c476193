//! The most memory that the values of a run take at a time, by liveness.
//!
//! A value is freed after its last use, as the interpreter does; arguments are the caller's and stay. A view
//! keeps its base alive, and takes no memory itself. Parameters are not counted. A sub-module or sub-graph
//! adds its own need beyond its operands.

use super::cost::{Costs, bytes, is_view};
use crate::{Arg, Graph, Node, OpCode, TypeTree};

/// When most memory is taken by values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peak {
    /// The bytes of all values that are alive while the node runs, with its result.
    pub bytes: i64,
    /// The name of the node; inside of a sub-module, its name after that of the call and a slash.
    pub node: String,
    /// How many nodes have no type and were not counted.
    pub untyped: usize,
}

/// Returns the position of what a node's value is a view of.
fn viewed(costs: &Costs, node: &Node) -> Option<usize> {
    let args: Vec<TypeTree> = match node.op() {
        Some(op) if op == crate::ops::getitem::OP => {
            let leaf = |arg: &Arg| arg.map(&mut |_| crate::Type::Any);
            node.all_args().map(leaf).collect()
        }
        _ => Vec::new(),
    };
    if !is_view(node, &args) {
        return None;
    }
    costs.flow().position(node.inputs().next()?)
}

/// Enters the peak and the bytes of the inputs; leaves them unknown if a size is not a number.
pub(super) fn find_peak(graph: &Graph, costs: &mut Costs) {
    let n = costs.flow().len();
    let mut sizes = Vec::with_capacity(n);
    let mut untyped = 0;
    for (ty, (_, node)) in costs.types().iter().zip(graph.nodes()) {
        let is_value = !matches!(node.opcode(), OpCode::Output | OpCode::GetAttr);
        let size = match bytes(ty) {
            _ if !is_value => 0,
            Some(size) => match size.known() {
                Some(size) => size,
                None => return,
            },
            None => {
                untyped += 1;
                0
            }
        };
        sizes.push(size);
    }
    // Values that share memory, by the one that owns it, and where one of them is used last.
    let mut owner: Vec<usize> = (0..n).collect();
    let mut last_use: Vec<usize> = (0..n).collect();
    for (i, (_, node)) in graph.nodes().enumerate() {
        if let Some(of) = viewed(costs, node) {
            owner[i] = owner[of];
        }
        for input in costs.flow().inputs(i) {
            last_use[owner[*input as usize]] = i;
        }
        last_use[owner[i]] = i;
    }
    let input_bytes: i64 = graph
        .nodes()
        .zip(&sizes)
        .filter(|((_, node), _)| node.opcode() == OpCode::Placeholder)
        .map(|(_, size)| size)
        .sum();
    let mut live = input_bytes;
    let mut peak = Peak { bytes: live, node: String::new(), untyped };
    for (i, (_, node)) in graph.nodes().enumerate() {
        if node.opcode() == OpCode::Placeholder {
            if peak.node.is_empty() {
                peak.node = node.name().to_owned();
            }
            continue;
        }
        let own = if owner[i] == i { sizes[i] } else { 0 };
        let mut needed = own;
        let mut place = node.name().to_owned();
        for inner in costs.inner_at(i) {
            let (Some(peak), Some(inputs)) = (&inner.peak, inner.input_bytes) else { continue };
            if peak.bytes - inputs > needed {
                needed = peak.bytes - inputs;
                place = format!("{}/{}", node.name(), peak.node);
            }
        }
        if live + needed > peak.bytes || peak.node.is_empty() {
            peak.bytes = live + needed;
            peak.node = place;
        }
        live += own;
        let inputs = costs.flow().inputs(i).iter().map(|input| *input as usize);
        let mut ended: Vec<usize> = inputs.chain([i]).map(|value| owner[value]).collect();
        ended.sort_unstable();
        ended.dedup();
        for value in ended {
            let is_input = costs.types().len() > value && is_placeholder(graph, costs, value);
            if last_use[value] == i && !is_input {
                live -= sizes[value];
            }
        }
    }
    costs.input_bytes = Some(input_bytes);
    costs.peak = Some(peak);
}

fn is_placeholder(graph: &Graph, costs: &Costs, i: usize) -> bool {
    graph.node(costs.flow().id(i)).is_ok_and(|node| node.opcode() == OpCode::Placeholder)
}
