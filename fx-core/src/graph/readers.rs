//! An index of the nodes that have a path: it finds the readers of an attribute and the callers of a module
//! at once.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::node::{NodeId, Target};

/// The `get_attr` and `call_module` nodes by path, in no order.
#[derive(Clone, Default)]
pub(super) struct Readers {
    by_path: FxHashMap<Arc<str>, Of>,
}

/// The nodes of one path, of which there are many only rarely.
#[derive(Clone)]
enum Of {
    One(NodeId),
    Many(FxHashSet<NodeId>),
}

impl Readers {
    pub(super) fn add(&mut self, target: &Target, id: NodeId) {
        let Some(path) = target.path() else { return };
        match self.by_path.get_mut(path) {
            None => drop(self.by_path.insert(path.clone(), Of::One(id))),
            Some(Of::Many(nodes)) => drop(nodes.insert(id)),
            Some(of) => {
                if let Of::One(first) = *of {
                    *of = Of::Many(FxHashSet::from_iter([first, id]));
                }
            }
        }
    }

    pub(super) fn remove(&mut self, target: &Target, id: NodeId) {
        let Some(path) = target.path() else { return };
        let is_last = match self.by_path.get_mut(path) {
            None => false,
            Some(Of::One(only)) => *only == id,
            Some(Of::Many(nodes)) => {
                nodes.remove(&id);
                nodes.is_empty()
            }
        };
        if is_last {
            self.by_path.remove(path);
        }
    }

    /// Returns whether the node is among those of the path.
    pub(super) fn has(&self, path: &str, id: NodeId) -> bool {
        match self.by_path.get(path) {
            None => false,
            Some(Of::One(only)) => *only == id,
            Some(Of::Many(nodes)) => nodes.contains(&id),
        }
    }

    pub(super) fn of(&self, path: &str) -> impl Iterator<Item = NodeId> {
        let (one, many) = match self.by_path.get(path) {
            None => (None, None),
            Some(Of::One(only)) => (Some(*only), None),
            Some(Of::Many(nodes)) => (None, Some(nodes)),
        };
        one.into_iter().chain(many.into_iter().flatten().copied())
    }

    /// Returns how many nodes are in the index.
    pub(super) fn len(&self) -> usize {
        let count = |of: &Of| match of {
            Of::One(_) => 1,
            Of::Many(nodes) => nodes.len(),
        };
        self.by_path.values().map(count).sum()
    }
}
