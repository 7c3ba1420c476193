//! Transactions: a journal of inverse edits, applied backwards on failure.
//!
//! An edit may put another graph in the place of the one under edit. The journal stays with its graph: if that is
//! dropped, the transaction keeps it (`Rescue`), and puts it back when the edit fails.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::{Graph, Input, NIL};
use crate::arg::Place;
use crate::names::{Claim, Namespace};
use crate::node::{Kwargs, Node, NodeId, NodeMeta, Target};
use crate::{Arg, Error, Result, err};

/// The inverse of one edit.
pub(super) enum Undo {
    Create(NodeId, Claim),
    Erase {
        id: NodeId,
        node: Box<Node>,
        next: Option<NodeId>,
    },
    Args {
        id: NodeId,
        args: SmallVec<[Arg; 2]>,
        kwargs: Kwargs,
    },
    /// The input `old` of `user` was exchanged at these places.
    Input {
        user: NodeId,
        old: NodeId,
        places: SmallVec<[Place; 1]>,
    },
    Target {
        id: NodeId,
        target: Target,
    },
    Meta {
        id: NodeId,
        meta: Box<NodeMeta>,
    },
    Move {
        id: NodeId,
        next: Option<NodeId>,
    },
    Rename {
        id: NodeId,
        old: Arc<str>,
        claim: Claim,
    },
    Names {
        names: Box<Namespace<NodeId>>,
        old: Vec<(NodeId, Arc<str>)>,
    },
    AddInput,
    RemoveInput {
        position: usize,
        input: Input,
    },
    LastPlaceholder(Option<NodeId>),
    Cursor(NodeId),
    Name(Arc<str>),
}

/// Holds a graph that was dropped during its transaction.
type Rescue = Mutex<Option<Graph>>;

/// Edits since the outermost transaction began.
#[derive(Default)]
pub(super) struct Journal {
    pub(super) edits: Vec<Undo>,
    /// Where the transactions began, outermost first.
    starts: Vec<usize>,
    /// The edit that has the facts about a node as they were before.
    metas: FxHashMap<NodeId, usize>,
    /// That of the outermost transaction, while it runs.
    rescue: Weak<Rescue>,
}

impl Journal {
    pub(super) fn push(&mut self, undo: Undo) {
        if let Undo::Meta { id, .. } = &undo {
            self.metas.insert(*id, self.edits.len());
        }
        self.edits.push(undo);
    }

    /// Returns whether the facts about a node are kept since the innermost transaction began.
    pub(super) fn has_meta(&self, id: NodeId) -> bool {
        let start = self.starts.last().copied().unwrap_or(0);
        self.metas.get(&id).is_some_and(|at| {
            *at >= start && matches!(self.edits.get(*at), Some(Undo::Meta { id: other, .. }) if *other == id)
        })
    }

    /// Returns whether this is the journal of the transactions that have `rescue`.
    fn is_of(&self, rescue: &Arc<Rescue>) -> bool {
        std::ptr::eq(self.rescue.as_ptr(), Arc::as_ptr(rescue))
    }
}

impl Graph {
    /// Runs `edit`. Fails with its error; then, or if it panics, all of its changes are undone.
    ///
    /// Transactions nest. The cost is proportional to the number of edits, not to the size of the graph. `edit`
    /// may assign another graph to its argument; a failure undoes the assignment too. If `edit` fails after it
    /// moved the graph out of its argument, nothing can be undone, and the error says so.
    pub fn transaction<T>(&mut self, edit: impl FnOnce(&mut Graph) -> Result<T>) -> Result<T> {
        let mut guard = Transaction::begin(self);
        let result = edit(&mut guard);
        match result {
            Ok(value) => {
                guard.committed = true;
                Ok(value)
            }
            Err(error) => match guard.roll_back() {
                true => Err(error),
                false => Err(moved_out(&error)),
            },
        }
    }
}

fn moved_out(error: &Error) -> Error {
    let text = format!(
        "{}; the graph was moved out of its transaction, so that nothing was undone",
        error.message()
    );
    err!(Graph, "{text}").help("edit a clone, and assign it to the graph when the edit has succeeded")
}

/// Rolls back when dropped, unless committed.
struct Transaction<'a> {
    graph: &'a mut Graph,
    rescue: Arc<Rescue>,
    start: usize,
    cursor: NodeId,
    depth: u8,
    last_placeholder: Option<NodeId>,
    committed: bool,
}

impl<'a> Transaction<'a> {
    fn begin(graph: &'a mut Graph) -> Self {
        let (cursor, depth, last_placeholder) = (graph.cursor, graph.depth, graph.last_placeholder);
        let journal = graph.journal.get_or_insert_default();
        let rescue = journal.rescue.upgrade().unwrap_or_else(|| {
            let rescue = Arc::default();
            // What a transaction left here from which the graph was moved out is of no use any more.
            **journal = Journal { rescue: Arc::downgrade(&rescue), ..Journal::default() };
            rescue
        });
        let start = journal.edits.len();
        journal.starts.push(start);
        Transaction { start, cursor, depth, last_placeholder, rescue, graph, committed: false }
    }

    /// Undoes the edits; returns whether the graph is here to do so.
    fn roll_back(&mut self) -> bool {
        self.committed = true;
        if !self.has_journal() {
            match self.rescue.lock().unwrap_or_else(PoisonError::into_inner).take() {
                Some(original) => drop(std::mem::replace(self.graph, original)),
                None => return false,
            }
        }
        let mut journal = self.graph.journal.take().expect("the graph has the journal of this transaction");
        self.graph.undo_all(journal.edits.drain(self.start..).rev());
        self.graph.journal = Some(journal);
        self.graph.cursor = self.cursor;
        self.graph.depth = self.depth;
        self.graph.last_placeholder = self.last_placeholder;
        true
    }

    fn has_journal(&self) -> bool {
        self.graph.journal.as_ref().is_some_and(|journal| journal.is_of(&self.rescue))
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
        if !self.committed {
            self.roll_back();
        }
        let end = |journal: &mut Journal| {
            journal.starts.pop();
            journal.starts.is_empty()
        };
        if self.has_journal() {
            if self.graph.journal.as_mut().is_some_and(|journal| end(journal)) {
                self.graph.journal = None;
            }
        } else if let Some(Graph { journal: Some(journal), .. }) =
            &mut *self.rescue.lock().unwrap_or_else(PoisonError::into_inner)
        {
            // A transaction around this one may still need the graph.
            end(journal);
        }
    }
}

/// A graph that is dropped during its transaction, since another was put in its place, goes to the transaction.
impl Drop for Graph {
    fn drop(&mut self) {
        let Some(journal) = self.journal.take() else { return };
        let Some(rescue) = journal.rescue.upgrade() else { return };
        let graph = Graph {
            name: self.name.clone(),
            slots: std::mem::take(&mut self.slots),
            free: std::mem::take(&mut self.free),
            order: std::mem::take(&mut self.order),
            names: std::mem::take(&mut self.names),
            readers: std::mem::take(&mut self.readers),
            inputs: std::mem::take(&mut self.inputs),
            output: self.output,
            last_placeholder: self.last_placeholder,
            cursor: self.cursor,
            depth: self.depth,
            expanded: self.expanded,
            stamps: self.stamps.clone(),
            journal: Some(journal),
        };
        *rescue.lock().unwrap_or_else(PoisonError::into_inner) = Some(graph);
    }
}

impl Graph {
    /// Undoes edits, the last first. Nodes whose inputs were exchanged get their edges anew once, at the end.
    fn undo_all(&mut self, edits: impl Iterator<Item = Undo>) {
        let mut unlinked = FxHashSet::default();
        for undo in edits {
            self.undo(undo, &mut unlinked);
        }
        for id in unlinked {
            self.link_inputs(id);
        }
    }

    fn undo(&mut self, undo: Undo, unlinked: &mut FxHashSet<NodeId>) {
        match undo {
            Undo::Create(id, claim) => {
                if !unlinked.remove(&id) {
                    self.unlink_inputs(id);
                }
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
            Undo::Input { user, old, places } => {
                if unlinked.insert(user) {
                    self.unlink_inputs(user);
                }
                self.restore_input(user, old, &places);
            }
            Undo::Args { id, args, kwargs } => {
                if !unlinked.remove(&id) {
                    self.unlink_inputs(id);
                }
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
            Undo::AddInput => drop(self.inputs.pop()),
            Undo::RemoveInput { position, input } => self.inputs.insert(position, input),
            Undo::LastPlaceholder(last) => self.last_placeholder = last,
            Undo::Cursor(cursor) => self.cursor = cursor,
            Undo::Name(name) => self.name = name,
        }
    }
}

/// Returns the number of arguments and places that the journal of a transaction holds: its memory.
pub fn journal_weight(graph: &Graph) -> usize {
    let leaves = |args: &[Arg]| args.iter().map(|arg| arg.leaves().len()).sum::<usize>();
    let weight = |undo: &Undo| match undo {
        Undo::Args { args, .. } => leaves(args),
        Undo::Input { places, .. } => places.len(),
        _ => 1,
    };
    graph.journal.as_ref().map_or(0, |journal| journal.edits.iter().map(weight).sum())
}
