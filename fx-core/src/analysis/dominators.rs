//! [`Dominators`]: which nodes every path from the inputs, or to the results, goes through.
//!
//! Positions are a topological order, so one walk finds the immediate dominator of each node as the nearest
//! common ancestor of those of its inputs. Ancestors are found by jump pointers (Myers' skew-binary links),
//! so that long graphs take `O(edges * log(nodes))`.

use super::Flow;
use crate::NodeId;

/// The root of the tree: before all inputs, or after all results.
const ROOT: u32 = 0;

/// A tree of immediate dominators; its root stands for no node.
#[derive(Clone, Debug)]
pub struct Dominators {
    ids: Vec<NodeId>,
    flow: Flow,
    /// By position + 1; 0 is the root.
    parent: Vec<u32>,
    jump: Vec<u32>,
    depth: Vec<u32>,
}

impl Dominators {
    /// Finds the nodes through which every path from an input or other source to a node goes.
    pub fn new(flow: &Flow) -> Dominators {
        Dominators::build(flow, (0..flow.len()).collect(), |flow, i| flow.inputs(i))
    }

    /// Finds the nodes through which every path from a node to the output or another end goes.
    pub fn post(flow: &Flow) -> Dominators {
        Dominators::build(flow, (0..flow.len()).rev().collect(), |flow, i| flow.users(i))
    }

    fn build(flow: &Flow, order: Vec<usize>, before: fn(&Flow, usize) -> &[u32]) -> Dominators {
        let n = flow.len();
        let mut tree = Dominators {
            ids: flow.ids().to_vec(),
            flow: flow.clone(),
            parent: vec![ROOT; n + 1],
            jump: vec![ROOT; n + 1],
            depth: vec![0; n + 1],
        };
        for i in order {
            let common = before(flow, i).iter().map(|input| input + 1).reduce(|a, b| tree.common(a, b));
            tree.attach(i as u32 + 1, common.unwrap_or(ROOT));
        }
        tree
    }

    fn attach(&mut self, node: u32, parent: u32) {
        let (node, p) = (node as usize, parent as usize);
        self.parent[node] = parent;
        self.depth[node] = self.depth[p] + 1;
        let (one, two) = (self.jump[p] as usize, self.jump[self.jump[p] as usize] as usize);
        let equal_steps = self.depth[p] - self.depth[one] == self.depth[one] - self.depth[two];
        self.jump[node] = if equal_steps && p != 0 { two as u32 } else { parent };
    }

    /// Returns the nearest common ancestor.
    fn common(&self, mut a: u32, mut b: u32) -> u32 {
        if self.depth[a as usize] < self.depth[b as usize] {
            std::mem::swap(&mut a, &mut b);
        }
        a = self.at_depth(a, self.depth[b as usize]);
        while a != b {
            let (jump_a, jump_b) = (self.jump[a as usize], self.jump[b as usize]);
            (a, b) = if jump_a == jump_b {
                (self.parent[a as usize], self.parent[b as usize])
            } else {
                (jump_a, jump_b)
            };
        }
        a
    }

    /// Returns the ancestor at a depth, which is not below the node's own.
    fn at_depth(&self, mut node: u32, depth: u32) -> u32 {
        while self.depth[node as usize] > depth {
            let jump = self.jump[node as usize];
            node = if self.depth[jump as usize] >= depth { jump } else { self.parent[node as usize] };
        }
        node
    }

    /// Returns the nearest node through which every path goes; `None` if there is none.
    pub fn immediate(&self, id: NodeId) -> Option<NodeId> {
        let parent = self.parent[self.flow.position(id)? + 1];
        parent.checked_sub(1).map(|position| self.ids[position as usize])
    }

    /// Returns whether every path of `b` goes through `a`; a node dominates itself.
    pub fn dominates(&self, a: NodeId, b: NodeId) -> bool {
        let (Some(a), Some(b)) = (self.flow.position(a), self.flow.position(b)) else { return false };
        let (a, b) = (a as u32 + 1, b as u32 + 1);
        let depth = self.depth[a as usize];
        depth <= self.depth[b as usize] && self.at_depth(b, depth) == a
    }

    /// Returns the nodes through which every path of `id` goes, the nearest first.
    pub fn chain(&self, id: NodeId) -> Vec<NodeId> {
        let mut chain = Vec::new();
        let mut next = self.immediate(id);
        while let Some(id) = next {
            chain.push(id);
            next = self.immediate(id);
        }
        chain
    }
}
