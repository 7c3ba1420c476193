//! An index of the nodes that have a path: it finds the readers of an attribute and the callers of a module
//! at once.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::node::{NodeId, Target};

/// The `get_attr` and `call_module` nodes by path, in no order.
#[derive(Clone, Default)]
pub(super) struct Readers {
    by_path: FxHashMap<Arc<str>, SmallVec<[NodeId; 1]>>,
}

impl Readers {
    pub(super) fn add(&mut self, target: &Target, id: NodeId) {
        if let Some(path) = target.path() {
            self.by_path.entry(path.clone()).or_default().push(id);
        }
    }

    pub(super) fn remove(&mut self, target: &Target, id: NodeId) {
        let Some(path) = target.path() else { return };
        if let Some(nodes) = self.by_path.get_mut(path) {
            nodes.retain(|other| *other != id);
            if nodes.is_empty() {
                self.by_path.remove(path);
            }
        }
    }

    pub(super) fn of(&self, path: &str) -> &[NodeId] {
        self.by_path.get(path).map_or(&[], |nodes| nodes)
    }

    /// Returns how many nodes are in the index.
    pub(super) fn len(&self) -> usize {
        self.by_path.values().map(|nodes| nodes.len()).sum()
    }
}
