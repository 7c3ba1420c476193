//! The members of the traced module, by identity: which tensor is a parameter, which cell a buffer, which
//! address a module.
//!
//! Every trace makes this table, and most paths in it are never asked for; so all paths are written one after
//! another in one string, and become strings of their own only for nodes.

use std::any::TypeId;
use std::collections::hash_map::Entry;
use std::ops::Range;

use rustc_hash::FxHashMap;

use super::address;
use crate::module::Visitor;
use crate::tensor::Repr;
use crate::{Attribute, Buffer, Module, Parameter, Tensor};

/// Identifies a module by address and type: a struct and its first field have the same address.
type ModuleKey = (usize, TypeId);

/// A place in the string of all paths.
type Place = Range<usize>;

/// What the members of the traced module are, by identity.
#[derive(Default)]
pub(super) struct Members {
    paths: String,
    attrs: FxHashMap<usize, (Place, Attribute)>,
    buffers: FxHashMap<usize, Place>,
    /// The numbers of the first and the last module at an address.
    modules: FxHashMap<ModuleKey, (usize, usize)>,
    entries: Vec<ModulePath>,
}

/// Where a sub-module is.
struct ModulePath {
    path: Place,
    /// The next of the modules at the same address, of which there are several only if they have no data.
    next: Option<usize>,
}

impl Members {
    /// Enters every member below `root`; of several paths to one member the first counts.
    pub(super) fn of(root: &dyn Module) -> Self {
        let mut walk = Walk { members: Members::with_room(), prefix: 0..0 };
        root.visit(&mut walk);
        walk.members
    }

    /// Has room for a model of common size, whose tables then do not grow step by step.
    fn with_room() -> Self {
        const ROOM: usize = 200;
        let mut members = Members {
            paths: String::with_capacity(16 * ROOM),
            entries: Vec::with_capacity(ROOM),
            ..Members::default()
        };
        members.attrs.reserve(ROOM);
        members.buffers.reserve(ROOM);
        members.modules.reserve(ROOM);
        members
    }

    /// Returns the attribute whose memory this is, with its path.
    pub(super) fn attr(&self, address: usize) -> Option<(&str, &Attribute)> {
        self.attrs.get(&address).map(|(place, attribute)| (self.text(place), attribute))
    }

    /// Returns whether an attribute has this path.
    pub(super) fn has_attr(&self, path: &str) -> bool {
        self.attrs.values().any(|(place, _)| self.text(place) == path)
    }

    /// Returns the path of a buffer.
    pub(super) fn buffer(&self, buffer: &Buffer) -> Option<&str> {
        self.buffers.get(&buffer.address()).map(|place| self.text(place))
    }

    /// Returns the number of a module, the first of those at its address.
    pub(super) fn module(&self, module: &dyn Module) -> Option<usize> {
        self.modules.get(&key_of(module)).map(|(first, _)| *first)
    }

    /// Returns how many modules there are; their numbers are below.
    pub(super) fn n_modules(&self) -> usize {
        self.entries.len()
    }

    /// Returns the number of the next module at the same address.
    pub(super) fn next_module(&self, number: usize) -> Option<usize> {
        self.entries[number].next
    }

    /// Returns the path of a module.
    pub(super) fn module_path(&self, number: usize) -> &str {
        self.text(&self.entries[number].path)
    }

    fn text(&self, place: &Place) -> &str {
        &self.paths[place.clone()]
    }

    /// Writes the path of a member of the module at `prefix`.
    fn append(&mut self, prefix: &Place, name: &str) -> Place {
        let start = self.paths.len();
        if !prefix.is_empty() {
            self.paths.extend_from_within(prefix.clone());
            self.paths.push('.');
        }
        self.paths.push_str(name);
        start..self.paths.len()
    }

    fn enter_attr(&mut self, tensor: &Tensor, place: Place, attribute: impl FnOnce() -> Attribute) {
        if let Repr::Value(array) = &tensor.0 {
            self.attrs.entry(address(array)).or_insert_with(|| (place, attribute()));
        }
    }
}

fn key_of(module: &dyn Module) -> ModuleKey {
    let any = module.as_any();
    (std::ptr::from_ref(any).cast::<()>() as usize, any.type_id())
}

struct Walk {
    members: Members,
    prefix: Place,
}

impl<'a> Visitor<'a> for Walk {
    fn parameter(&mut self, name: &str, parameter: &'a Parameter) {
        let place = self.members.append(&self.prefix, name);
        self.members.enter_attr(parameter.tensor(), place, || Attribute::Parameter(parameter.clone()));
    }

    fn buffer(&mut self, name: &str, buffer: &'a Buffer) {
        let place = self.members.append(&self.prefix, name);
        self.members.buffers.entry(buffer.address()).or_insert(place);
    }

    fn constant(&mut self, name: &str, tensor: &'a Tensor) {
        let place = self.members.append(&self.prefix, name);
        self.members.enter_attr(tensor, place, || Attribute::Constant(tensor.clone()));
    }

    fn module(&mut self, name: &str, module: &'a dyn Module) {
        let path = self.members.append(&self.prefix, name);
        let Members { modules, entries, .. } = &mut self.members;
        let number = entries.len();
        let is_new = match modules.entry(key_of(module)) {
            Entry::Vacant(slot) => {
                slot.insert((number, number));
                true
            }
            Entry::Occupied(mut slot) if size_of_val(module) == 0 => {
                entries[slot.get().1].next = Some(number);
                slot.get_mut().1 = number;
                true
            }
            Entry::Occupied(_) => false,
        };
        if is_new {
            entries.push(ModulePath { path: path.clone(), next: None });
        }
        let prefix = std::mem::replace(&mut self.prefix, path);
        module.visit(self);
        self.prefix = prefix;
    }
}
