//! [`Liveness`]: where each value is used last, and which values are alive between two nodes.

use super::Flow;
use crate::{Graph, NodeId};

/// Where values are made and used last, by position in program order. What the graph returns lives to the end.
#[derive(Clone, Debug)]
pub struct Liveness {
    flow: Flow,
    last_use: Vec<u32>,
}

impl Liveness {
    /// Finds the last uses of all values.
    pub fn new(graph: &Graph) -> Liveness {
        let flow = Flow::new(graph);
        let last_use = (0..flow.len()).map(|i| flow.users(i).last().copied().unwrap_or(i as u32)).collect();
        Liveness { flow, last_use }
    }

    /// Returns the edges on which this rests.
    pub fn flow(&self) -> &Flow {
        &self.flow
    }

    /// Returns the last user of a node, or the node itself if it has none; `None` if it is not in the graph.
    pub fn last_use(&self, id: NodeId) -> Option<NodeId> {
        Some(self.flow.id(self.last_use[self.flow.position(id)?] as usize))
    }

    /// Returns the values that are used last by a node, itself if nobody uses it: what can be freed after it
    /// has run.
    pub fn dies_at(&self, id: NodeId) -> Vec<NodeId> {
        let Some(at) = self.flow.position(id) else { return Vec::new() };
        let own = std::iter::once(at as u32);
        let values = self.flow.inputs(at).iter().copied().chain(own);
        values
            .filter(|i| self.last_use[*i as usize] as usize == at)
            .map(|i| self.flow.id(i as usize))
            .collect()
    }

    /// Returns the values that are made before a node and used by it or later, in program order.
    pub fn live_before(&self, id: NodeId) -> Vec<NodeId> {
        let Some(at) = self.flow.position(id) else { return Vec::new() };
        (0..at).filter(|i| self.last_use[*i] as usize >= at).map(|i| self.flow.id(i)).collect()
    }

    /// Returns the sum of a weight over the values that are alive before each position, and after the last.
    pub fn live_sums(&self, weight: impl Fn(NodeId) -> f64) -> Vec<f64> {
        let n = self.flow.len();
        let mut change = vec![0.0; n + 2];
        for i in 0..n {
            let weight = weight(self.flow.id(i));
            change[i + 1] += weight;
            change[self.last_use[i].max(i as u32) as usize + 1] -= weight;
        }
        let mut sum = 0.0;
        change.truncate(n + 1);
        change
            .into_iter()
            .map(|change| {
                sum += change;
                sum
            })
            .collect()
    }
}
