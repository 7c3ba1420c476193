//! Checks of what holds by construction, for [`lint`](crate::lint) and tests: a finding here is a bug of ours.

use std::sync::Arc;

use rustc_hash::FxHashSet;

use super::{Graph, NIL};
use crate::lint::ViolationKind::{self, Name, Order, Signature, Structure};
use crate::node::{Edge, Node, NodeId, OpCode};

/// Receives a finding: its kind, its node if it has one, and a sentence.
pub(crate) type Report<'a> = dyn FnMut(ViolationKind, Option<NodeId>, String) + 'a;

impl Graph {
    /// Reports every broken invariant; returns whether the nodes can be walked at all.
    pub(crate) fn check_invariants(&self, report: &mut Report<'_>) -> bool {
        if !self.check_order(report) {
            return false;
        }
        let mut edges = 0;
        let mut users = 0;
        let mut head = true;
        for (id, node) in self.nodes() {
            if node.opcode() == OpCode::Placeholder {
                if !head {
                    report(Structure, Some(id), "a placeholder comes after another node".into());
                }
            } else {
                head = false;
            }
            if (node.opcode() == OpCode::Output) != (id == self.output) {
                report(Structure, Some(id), "a graph has exactly one output".into());
            }
            if node.opcode() == OpCode::Output && (node.args.len() != 1 || !node.kwargs.is_empty()) {
                report(Structure, Some(id), format!("expected one returned value, got {}", node.args.len()));
            }
            if self.names.get(&node.name) != Some(id) {
                report(Name, Some(id), "the name is that of another node".into());
            }
            if !crate::names::is_identifier(&node.name) {
                report(Name, Some(id), "the name is not an identifier".into());
            }
            edges += node.inputs().len();
            users += node.n_users();
            self.check_edges(id, node, report);
        }
        if edges != users {
            report(Structure, None, format!("{edges} inputs but {users} users"));
        }
        if self.names.len() != self.len() {
            report(Name, None, format!("{} names for {} nodes", self.names.len(), self.len()));
        }
        let with_path: Vec<_> =
            self.nodes().filter_map(|(id, node)| Some((id, node.target().path()?))).collect();
        let is_found = |(id, path): &(NodeId, &Arc<str>)| self.readers.has(path, *id);
        if with_path.len() != self.readers.len() || !with_path.iter().all(is_found) {
            report(Structure, None, "the index of paths is not that of the nodes".into());
        }
        if self.order.last() != self.output.index {
            report(Structure, Some(self.output), "the output is not last".into());
        }
        if !self.contains(self.cursor) || self.get(self.cursor).opcode() == OpCode::Placeholder {
            report(Structure, None, "the cursor is not before a node".into());
        }
        self.check_signature(report);
        true
    }

    fn check_order(&self, report: &mut Report<'_>) -> bool {
        let (mut at, mut prev, mut count) = (self.order.first(), NIL, 0);
        while at != NIL {
            let live = self.slots.get(at).is_some_and(|slot| slot.node.is_some());
            let increasing = prev == NIL || self.order.label(prev) < self.order.label(at);
            if !live || self.order.prev(at) != prev || !increasing || count == self.len() {
                report(Structure, None, "the program order is broken".into());
                return false;
            }
            (prev, at, count) = (at, self.order.next(at), count + 1);
        }
        let live = self.slots.iter().filter(|slot| slot.node.is_some()).count();
        if count != self.len() || live != count || self.order.last() != prev || !self.contains(self.output) {
            report(Structure, None, format!("{count} nodes in order, {live} in the graph"));
            return false;
        }
        true
    }

    fn check_edges(&self, id: NodeId, node: &Node, report: &mut Report<'_>) {
        let mut used: Vec<NodeId> = Vec::with_capacity(node.inputs().len());
        for arg in node.all_args() {
            arg.for_each_leaf(&mut |input| used.push(*input));
            if let Some(error) = arg.error() {
                report(Structure, Some(id), format!("an argument is an error: {}", error.message()));
            }
        }
        let edges = node.edges.inputs.iter().enumerate().filter(|(_, edge)| **edge != Edge::HOLE);
        for (slot, Edge { node: input, back }) in edges {
            match self.node(*input) {
                Err(_) => report(Order, Some(id), format!("the input {input} is not in the graph")),
                Ok(input_node) => {
                    if self.order.label(input.index) >= self.order.label(id.index) {
                        report(
                            Order,
                            Some(id),
                            format!("%{} is used before it is defined", input_node.name()),
                        );
                    }
                    if input_node.edges.users.get(*back as usize)
                        != Some(&Edge { node: id, back: slot as u32 })
                    {
                        report(
                            Structure,
                            Some(id),
                            format!("%{} does not know this user", input_node.name()),
                        );
                    }
                }
            }
        }
        let mut seen = FxHashSet::default();
        used.retain(|input| seen.insert(*input));
        if !used.iter().copied().eq(node.inputs()) {
            report(Structure, Some(id), "the inputs are not those of the arguments".into());
        }
    }

    fn check_signature(&self, report: &mut Report<'_>) {
        let mut leaves = self.inputs.iter().flat_map(|input| input.tree.leaves());
        let mut last = None;
        for id in self.placeholders() {
            if leaves.next() != Some(&id) {
                report(Signature, Some(id), "the placeholder is not where the signature has it".into());
            }
            last = Some(id);
        }
        if let Some(id) = leaves.next() {
            report(Signature, None, format!("the signature has {id}, which is no placeholder"));
        }
        if last != self.last_placeholder {
            report(Signature, None, "the last placeholder is another node".into());
        }
        let mut names: Vec<&str> = self.inputs.iter().map(|input| &*input.name).collect();
        names.sort_unstable();
        if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            report(Signature, None, format!("two arguments are called {:?}", pair[0]));
        }
    }
}
