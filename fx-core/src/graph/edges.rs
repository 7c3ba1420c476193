//! The edges between nodes: entering them, removing them, and exchanging one input for another.
//!
//! The cost of exchanging an input is proportional to the number of its places, also in a node with many inputs.
//! An index has these places, the new input overwrites the old, and the journal records the places instead of a
//! copy of the arguments.

use rustc_hash::FxHashSet;
use smallvec::SmallVec;

use super::{Graph, Undo};
use crate::Arg;
use crate::arg::Place;
use crate::node::{Edge, Node, NodeId, PlacesOf};

/// The most inputs that are searched one by one.
const FEW: usize = 16;

impl Graph {
    /// Enters `id` among the users of its inputs, and updates the nesting depth.
    pub(super) fn link_inputs(&mut self, id: NodeId) {
        let mut inputs: SmallVec<[Edge; 2]> = SmallVec::new();
        let mut depth = 0;
        let mut expanded = 0u64;
        let mut seen = FxHashSet::default();
        for arg in self.get(id).all_args() {
            arg.walk(&mut |arg| match arg {
                Arg::Leaf(input) => {
                    let is_new = if inputs.len() < FEW {
                        !inputs.iter().any(|other| other.node == *input)
                    } else {
                        if inputs.len() == FEW && seen.is_empty() {
                            seen.extend(inputs.iter().map(|other| other.node));
                        }
                        seen.insert(*input)
                    };
                    if is_new {
                        inputs.push(Edge { node: *input, back: 0 });
                    }
                }
                Arg::Graph(graph) => {
                    depth = depth.max(1 + graph.depth() as u8);
                    expanded = expanded.saturating_add(graph.expanded_len());
                }
                _ => {}
            });
        }
        for (slot, input) in inputs.iter_mut().enumerate() {
            input.back = self.add_user(input.node, Edge { node: id, back: slot as u32 });
        }
        let edges = &mut self.get_mut(id).edges;
        edges.inputs = inputs;
        edges.holes = 0;
        edges.places.0 = None;
        self.depth = self.depth.max(depth);
        self.expanded = self.expanded.saturating_add(expanded);
    }

    /// Removes `id` from the users of its inputs.
    pub(super) fn unlink_inputs(&mut self, id: NodeId) {
        let expanded: u64 = self.get(id).subgraphs().iter().map(|graph| graph.expanded_len()).sum();
        self.expanded = self.expanded.saturating_sub(expanded);
        let edges = &mut self.get_mut(id).edges;
        edges.holes = 0;
        edges.places.0 = None;
        for input in std::mem::take(&mut edges.inputs) {
            if input != Edge::HOLE {
                self.remove_user(input);
            }
        }
    }

    /// Returns the position of a new user among the users of `input`.
    fn add_user(&mut self, input: NodeId, user: Edge) -> u32 {
        let users = &mut self.get_mut(input).edges.users;
        users.push(user);
        (users.len() - 1) as u32
    }

    /// Removes a user, given as its entry for this input.
    fn remove_user(&mut self, input: Edge) {
        let users = &mut self.get_mut(input.node).edges.users;
        users.swap_remove(input.back as usize);
        if let Some(moved) = users.get(input.back as usize).copied() {
            self.get_mut(moved.node).edges.inputs[moved.back as usize].back = input.back;
        }
    }

    /// Puts `new`, which contains no other argument, in the places of the input `old` of `user`. The caller has
    /// checked that `user` may use it.
    pub(super) fn exchange_input(&mut self, user: NodeId, old: NodeId, new: &Arg) {
        let node = self.get_mut(user);
        if node.edges.places.0.is_none() && node.edges.inputs.len() > FEW {
            node.edges.places.0 = Some(Box::new(index(node)));
        }
        let (slot, places) = match &mut node.edges.places.0 {
            Some(of) => of.remove(&old).expect("the index has every input"),
            None => {
                let slot = node.edges.inputs.iter().position(|edge| edge.node == old);
                (slot.expect("it is an input") as u32, places_of(node, old))
            }
        };
        for place in &places {
            put_at(node, place, new.clone());
        }
        let entry = std::mem::replace(&mut node.edges.inputs[slot as usize], Edge::HOLE);
        self.remove_user(entry);
        let other = new.leaf().and_then(|new| self.slot_of(user, *new));
        match (new, other) {
            (Arg::Leaf(new), Some(other)) => {
                // The one edge is where the first of both was.
                let (first, last) = (slot.min(other), slot.max(other));
                let inputs = &mut self.get_mut(user).edges.inputs;
                let entry = std::mem::replace(&mut inputs[other as usize], Edge::HOLE);
                inputs[first as usize] = entry;
                debug_assert!(first == last || inputs[last as usize] == Edge::HOLE);
                self.get_mut(*new).edges.users[entry.back as usize].back = first;
                self.note_places(user, *new, first, &places);
                self.get_mut(user).edges.holes += 1;
            }
            (Arg::Leaf(new), None) => {
                let back = self.add_user(*new, Edge { node: user, back: slot });
                self.get_mut(user).edges.inputs[slot as usize] = Edge { node: *new, back };
                self.note_places(user, *new, slot, &places);
            }
            _ => self.get_mut(user).edges.holes += 1,
        }
        self.close_holes(user);
        self.log(|| Undo::Input { user, old, places });
    }

    /// Returns the position of `input` among the inputs of `user`, if it is one.
    fn slot_of(&self, user: NodeId, input: NodeId) -> Option<u32> {
        let edges = &self.get(user).edges;
        match &edges.places.0 {
            Some(of) => of.get(&input).map(|(slot, _)| *slot),
            None => edges.inputs.iter().position(|edge| edge.node == input).map(|slot| slot as u32),
        }
    }

    fn note_places(&mut self, user: NodeId, input: NodeId, slot: u32, places: &[Place]) {
        if let Some(of) = &mut self.get_mut(user).edges.places.0 {
            let entry = of.entry(input).or_default();
            entry.0 = slot;
            entry.1.extend(places.iter().cloned());
        }
    }

    /// Closes the holes among the inputs, of many inputs only when half of them are holes.
    fn close_holes(&mut self, user: NodeId) {
        let edges = &mut self.get_mut(user).edges;
        if edges.holes == 0 || (edges.places.0.is_some() && (edges.holes as usize) * 2 < edges.inputs.len()) {
            return;
        }
        edges.holes = 0;
        edges.inputs.retain(|edge| *edge != Edge::HOLE);
        for slot in 0..edges.inputs.len() {
            let edges = &mut self.get_mut(user).edges;
            let Edge { node: input, back } = edges.inputs[slot];
            if let Some(entry) = edges.places.0.as_mut().and_then(|of| of.get_mut(&input)) {
                entry.0 = slot as u32;
            }
            self.get_mut(input).edges.users[back as usize].back = slot as u32;
        }
    }

    /// Puts `old` back where it was exchanged. The edges of `user` are not made anew.
    pub(super) fn restore_input(&mut self, user: NodeId, old: NodeId, places: &[Place]) {
        let node = self.get_mut(user);
        for place in places {
            put_at(node, place, Arg::Leaf(old));
        }
    }
}

/// Calls `f` with every input of a node and its place among the arguments, positional ones first.
fn for_each_place(node: &Node, f: &mut dyn FnMut(NodeId, &Place)) {
    let mut place = Place::new();
    for (at, arg) in node.all_args().enumerate() {
        place.push(at as u32);
        arg.for_each_place(&mut place, &mut |input, place| f(*input, place));
        place.pop();
    }
}

fn places_of(node: &Node, input: NodeId) -> SmallVec<[Place; 1]> {
    let mut places = SmallVec::new();
    for_each_place(node, &mut |other, place| {
        if other == input {
            places.push(place.clone());
        }
    });
    places
}

fn index(node: &Node) -> PlacesOf {
    let mut of = PlacesOf::default();
    for (slot, edge) in node.edges.inputs.iter().enumerate() {
        if *edge != Edge::HOLE {
            of.insert(edge.node, (slot as u32, SmallVec::new()));
        }
    }
    for_each_place(node, &mut |input, place| of.entry(input).or_default().1.push(place.clone()));
    of
}

fn put_at(node: &mut Node, place: &[u32], new: Arg) {
    let (first, rest) = place.split_first().expect("a place begins with the argument");
    let (at, n_args) = (*first as usize, node.args.len());
    match at.checked_sub(n_args) {
        None => node.args[at].put_at(rest, new),
        Some(at) => node.kwargs[at].1.put_at(rest, new),
    }
}
