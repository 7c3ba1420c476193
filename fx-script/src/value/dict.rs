//! Dictionaries, which keep the order of insertion.

use std::collections::HashMap;
use std::sync::Arc;

use fx_core::{Result, err};

use super::cell::Footprint;
use super::{Cell, TensorRef, Text, Value};

/// A dictionary.
pub type Dict = Cell<Entries>;

/// A key of a dictionary.
#[derive(Clone, Debug)]
pub enum Key {
    /// A truth value.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A float, by its bits; both zeros are one.
    Float(u64),
    /// A complex number, by the bits of its parts.
    Complex(u64, u64),
    /// Text.
    Str(Arc<Text>),
    /// A tensor, by identity.
    Tensor(TensorRef),
}

fn float_bits(x: f64) -> u64 {
    if x == 0.0 { 0 } else { x.to_bits() }
}

impl Key {
    /// Makes a key of a value. Fails for values that are no keys.
    pub fn of(value: &Value) -> Result<Key> {
        Ok(match value {
            Value::Bool(x) => Key::Bool(*x),
            Value::Int(x) => Key::Int(*x),
            Value::Float(x) => Key::Float(float_bits(*x)),
            Value::Complex(parts) => Key::Complex(float_bits(parts.0), float_bits(parts.1)),
            Value::Str(text) => Key::Str(Arc::clone(text)),
            Value::Tensor(tensor) => Key::Tensor(Arc::clone(tensor)),
            other => {
                return Err(err!(Argument, "{} is no key of a dictionary", other.type_name())
                    .help("keys are str, int, float, bool, complex or Tensor"));
            }
        })
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Key) -> bool {
        match (self, other) {
            (Key::Bool(a), Key::Bool(b)) => a == b,
            (Key::Int(a), Key::Int(b)) => a == b,
            (Key::Float(a), Key::Float(b)) => a == b,
            (Key::Complex(a, b), Key::Complex(c, d)) => a == c && b == d,
            (Key::Str(a), Key::Str(b)) => ***a == ***b,
            (Key::Tensor(a), Key::Tensor(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }
}

impl Eq for Key {}

impl std::hash::Hash for Key {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        match self {
            Key::Bool(x) => x.hash(state),
            Key::Int(x) => x.hash(state),
            Key::Float(bits) => bits.hash(state),
            Key::Complex(re, im) => (re, im).hash(state),
            Key::Str(text) => text.as_bytes().hash(state),
            Key::Tensor(tensor) => Arc::as_ptr(tensor).hash(state),
        }
    }
}

/// The entries of a dictionary.
#[derive(Clone, Debug, Default)]
pub struct Entries {
    /// Keys and values in order; an erased one is `None`.
    entries: Vec<Option<(Value, Value)>>,
    places: HashMap<Key, usize>,
}

impl Footprint for Entries {
    fn bytes(&self) -> usize {
        self.entries.capacity() * size_of::<Option<(Value, Value)>>()
            + self.places.capacity() * size_of::<(Key, usize)>()
    }
}

impl Entries {
    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Returns whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Returns the entries in order.
    pub fn iter(&self) -> impl Iterator<Item = &(Value, Value)> {
        self.entries.iter().flatten()
    }

    /// Returns the value of a key.
    pub fn get(&self, key: &Key) -> Option<&Value> {
        self.places.get(key).and_then(|&at| self.entries[at].as_ref()).map(|(_, value)| value)
    }

    /// Sets the value of a key. Fails if the key is none.
    pub fn insert(&mut self, key: Value, value: Value) -> Result<()> {
        match self.places.entry(Key::of(&key)?) {
            std::collections::hash_map::Entry::Occupied(place) => {
                let entry =
                    self.entries[*place.get()].as_mut().expect("places are of entries that are there");
                entry.1 = value;
            }
            std::collections::hash_map::Entry::Vacant(place) => {
                place.insert(self.entries.len());
                self.entries.push(Some((key, value)));
            }
        }
        Ok(())
    }

    /// Erases a key and returns its entry.
    pub fn remove(&mut self, key: &Key) -> Option<(Value, Value)> {
        let at = self.places.remove(key)?;
        let entry = self.entries[at].take();
        while self.entries.last().is_some_and(Option::is_none) {
            self.entries.pop();
        }
        if self.entries.len() > 2 * self.places.len() + 8 {
            self.entries.retain(Option::is_some);
            for (at, entry) in self.entries.iter().enumerate() {
                let (key, _) = entry.as_ref().expect("only entries that are there were kept");
                self.places.insert(Key::of(key).expect("the key was one"), at);
            }
        }
        entry
    }

    /// Erases the entry that was inserted last and returns it.
    pub fn pop_last(&mut self) -> Option<(Value, Value)> {
        let key = self.entries.iter().rev().flatten().next()?.0.clone();
        self.remove(&Key::of(&key).ok()?)
    }
}

impl Value {
    /// Makes a dictionary; later entries of equal keys replace earlier ones. Fails if a key is none.
    pub fn dict(entries: impl IntoIterator<Item = (Value, Value)>) -> Result<Value> {
        let mut made = Entries::default();
        for (key, value) in entries {
            made.insert(key, value)?;
        }
        Ok(Value::Dict(Arc::new(Cell::new(made))))
    }
}
