//! Transactions: a journal of inverse edits, applied backwards on failure.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use smallvec::SmallVec;

use super::{Graph, Input, NIL};
use crate::names::{Claim, Namespace};
use crate::node::{Kwargs, Node, NodeId, NodeMeta, Target};
use crate::{Arg, Result};

/// The inverse of one edit.
pub(super) enum Undo {
    Create(NodeId, Claim),
    Erase { id: NodeId, node: Box<Node>, next: Option<NodeId> },
    Args { id: NodeId, args: SmallVec<[Arg; 2]>, kwargs: Kwargs },
    Target { id: NodeId, target: Target },
    Meta { id: NodeId, meta: Box<NodeMeta> },
    Move { id: NodeId, next: Option<NodeId> },
    Rename { id: NodeId, old: Arc<str>, claim: Claim },
    Names { names: Box<Namespace<NodeId>>, old: Vec<(NodeId, Arc<str>)> },
    Inputs(Vec<Input>),
    LastPlaceholder(Option<NodeId>),
    Cursor(NodeId),
    Name(Arc<str>),
}

/// Edits since the outermost transaction began.
#[derive(Default)]
pub(super) struct Journal {
    edits: Vec<Undo>,
    transactions: usize,
}

impl Journal {
    pub(super) fn push(&mut self, undo: Undo) {
        self.edits.push(undo);
    }
}

impl Graph {
    /// Runs `edit`. Fails with its error; then, or if it panics, all of its changes are undone.
    ///
    /// Transactions nest. The cost is proportional to the number of edits, not to the size of the graph.
    pub fn transaction<T>(&mut self, edit: impl FnOnce(&mut Graph) -> Result<T>) -> Result<T> {
        let mut guard = Transaction::begin(self);
        let result = edit(&mut guard);
        if result.is_ok() {
            guard.commit();
        }
        result
    }
}

/// Rolls back when dropped, unless committed.
struct Transaction<'a> {
    graph: &'a mut Graph,
    start: usize,
    cursor: NodeId,
    depth: u8,
    last_placeholder: Option<NodeId>,
    committed: bool,
}

impl<'a> Transaction<'a> {
    fn begin(graph: &'a mut Graph) -> Self {
        let journal = graph.journal.get_or_insert_default();
        journal.transactions += 1;
        let start = journal.edits.len();
        let (cursor, depth, last_placeholder) = (graph.cursor, graph.depth, graph.last_placeholder);
        Transaction { start, cursor, depth, last_placeholder, graph, committed: false }
    }

    fn commit(mut self) {
        self.committed = true;
    }
}

impl Deref for Transaction<'_> {
    type Target = Graph;
    fn deref(&self) -> &Graph {
        self.graph
    }
}

impl DerefMut for Transaction<'_> {
    fn deref_mut(&mut self) -> &mut Graph {
        self.graph
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        let mut journal = self.graph.journal.take().unwrap_or_default();
        if !self.committed {
            for undo in journal.edits.drain(self.start.min(journal.edits.len())..).rev() {
                self.graph.undo(undo);
            }
            self.graph.cursor = self.cursor;
            self.graph.depth = self.depth;
            self.graph.last_placeholder = self.last_placeholder;
        }
        journal.transactions = journal.transactions.saturating_sub(1);
        self.graph.journal = (journal.transactions > 0).then_some(journal);
    }
}

impl Graph {
    fn undo(&mut self, undo: Undo) {
        match undo {
            Undo::Create(id, claim) => {
                self.unlink_inputs(id);
                self.order.unlink(id.index);
                let node = self.slots[id.index].node.take().expect("a created node is live when undone");
                self.names.undo(&node.name, claim);
                self.readers.remove(&node.target, id);
                self.free.push(id.index);
            }
            Undo::Erase { id, node, next } => {
                let at = self.free.iter().rposition(|&index| index == id.index);
                self.free.swap_remove(at.expect("the slot of an erased node is free when undone"));
                self.names.set(&node.name, id);
                self.readers.add(&node.target, id);
                self.slots[id.index] = super::Slot { stamp: id.stamp, node: Some(*node) };
                self.order.insert_before(id.index, next.map_or(NIL, |next| next.index));
                self.link_inputs(id);
            }
            Undo::Args { id, args, kwargs } => {
                self.unlink_inputs(id);
                let node = self.get_mut(id);
                node.args = args;
                node.kwargs = kwargs;
                self.link_inputs(id);
            }
            Undo::Target { id, target } => drop(self.exchange_target(id, target)),
            Undo::Meta { id, meta } => self.get_mut(id).meta = *meta,
            Undo::Move { id, next } => {
                self.order.unlink(id.index);
                self.order.insert_before(id.index, next.map_or(NIL, |next| next.index));
            }
            Undo::Rename { id, old, claim } => {
                let new = std::mem::replace(&mut self.get_mut(id).name, old.clone());
                self.names.undo(&new, claim);
                self.names.set(&old, id);
            }
            Undo::Names { names, old } => {
                self.names = *names;
                for (id, name) in old {
                    self.get_mut(id).name = name;
                }
            }
            Undo::Inputs(inputs) => self.inputs = inputs,
            Undo::LastPlaceholder(last) => self.last_placeholder = last,
            Undo::Cursor(cursor) => self.cursor = cursor,
            Undo::Name(name) => self.name = name,
        }
    }
}
