//! The arena of a graph's nodes, in chunks, so that growing moves no node and large graphs need no huge block
//! of memory.

use std::ops::{Index, IndexMut};

use crate::node::Node;

/// The number of slots of every chunk but the last.
const CHUNK: usize = 64;

/// A place for a node: free, or taken by the node whose handles have this stamp.
#[derive(Clone)]
pub(super) struct Slot {
    pub(super) stamp: u32,
    pub(super) node: Option<Node>,
}

/// A list of slots that only grows. Every chunk but the last is full.
#[derive(Clone, Default)]
pub(super) struct Slots {
    chunks: Vec<Vec<Slot>>,
}

impl Slots {
    pub(super) fn len(&self) -> usize {
        self.chunks.last().map_or(0, |last| (self.chunks.len() - 1) * CHUNK + last.len())
    }

    pub(super) fn get(&self, index: u32) -> Option<&Slot> {
        self.chunks.get(index as usize / CHUNK)?.get(index as usize % CHUNK)
    }

    pub(super) fn push(&mut self, slot: Slot) {
        match self.chunks.last_mut() {
            Some(last) if last.len() < CHUNK => last.push(slot),
            first_or_full => {
                // A small graph has one small chunk.
                let capacity = if first_or_full.is_none() { 8 } else { CHUNK };
                let mut chunk = Vec::with_capacity(capacity);
                chunk.push(slot);
                self.chunks.push(chunk);
            }
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Slot> {
        self.chunks.iter().flatten()
    }
}

impl Index<u32> for Slots {
    type Output = Slot;
    fn index(&self, index: u32) -> &Slot {
        &self.chunks[index as usize / CHUNK][index as usize % CHUNK]
    }
}

impl IndexMut<u32> for Slots {
    fn index_mut(&mut self, index: u32) -> &mut Slot {
        &mut self.chunks[index as usize / CHUNK][index as usize % CHUNK]
    }
}
