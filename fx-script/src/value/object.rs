//! Tuples, objects, members of enumerations, devices and futures.

use std::collections::HashMap;
use std::sync::Arc;

use fx_core::{Error, Result, err};

use super::{Cell, Value};

/// A tuple.
#[derive(Debug)]
pub struct Tuple {
    /// The items.
    pub items: Box<[Value]>,
    /// The class, if the tuple is a named one.
    pub named: Option<Arc<NamedTuple>>,
}

/// A class of named tuples.
#[derive(Debug, PartialEq, Eq)]
pub struct NamedTuple {
    /// The qualified name.
    pub name: String,
    /// The names of the items.
    pub fields: Vec<String>,
}

/// A class of objects.
#[derive(Debug)]
pub struct Class {
    /// The qualified name.
    pub name: String,
    slots: Vec<String>,
    places: HashMap<String, usize>,
}

impl Class {
    /// Makes a class with these attributes.
    pub fn new(name: impl Into<String>, slots: impl IntoIterator<Item = impl Into<String>>) -> Arc<Class> {
        let slots: Vec<String> = slots.into_iter().map(Into::into).collect();
        let places = slots.iter().enumerate().map(|(at, name)| (name.clone(), at)).collect();
        Arc::new(Class { name: name.into(), slots, places })
    }

    /// Returns the names of the attributes in order.
    pub fn slots(&self) -> &[String] {
        &self.slots
    }

    /// Returns the place of an attribute. Fails if the class has none of this name.
    pub fn slot(&self, name: &str) -> Result<usize> {
        self.places
            .get(name)
            .copied()
            .ok_or_else(|| err!(Unresolved, "the class {} has no attribute {name:?}", self.name))
    }
}

/// An instance of a class.
#[derive(Debug)]
pub struct Object {
    /// The class.
    pub class: Arc<Class>,
    /// The attributes, in the order of the class.
    pub slots: Arc<Cell<Vec<Value>>>,
}

impl Object {
    /// Makes an instance whose attributes are none yet.
    pub fn new(class: Arc<Class>) -> Arc<Object> {
        let slots = Arc::new(Cell::new(vec![Value::None; class.slots().len()]));
        Arc::new(Object { class, slots })
    }

    /// Returns an attribute. Fails if there is none of this name.
    pub fn get(&self, name: &str) -> Result<Value> {
        let at = self.class.slot(name)?;
        Ok(self.slots.read(|slots| slots[at].clone()))
    }

    /// Sets an attribute. Fails if there is none of this name.
    pub fn set(&self, name: &str, value: Value) -> Result<()> {
        let at = self.class.slot(name)?;
        // The old value is dropped after the cell is free again.
        let old = self.slots.edit(|slots| std::mem::replace(&mut slots[at], value));
        drop(old);
        Ok(())
    }
}

/// A member of an enumeration.
#[derive(Debug)]
pub struct EnumMember {
    /// The qualified name of the enumeration.
    pub class: String,
    /// The name of the member.
    pub name: String,
    /// Its value.
    pub value: Value,
}

/// A device. Whatever its name, fx computes on the processor.
#[derive(Debug, PartialEq, Eq)]
pub struct Device {
    /// Such as `cpu`.
    pub kind: String,
    /// The number of the device among its kind.
    pub index: Option<i64>,
}

impl Device {
    /// Reads `cpu` or `cuda:1`. Fails for text of another form.
    pub fn parse(text: &str) -> Result<Device> {
        let (kind, index) = match text.split_once(':') {
            Some((kind, index)) => (kind, Some(index)),
            None => (text, None),
        };
        let wrong = || err!(Argument, "expected a device such as \"cpu\" or \"cuda:0\", got {text:?}");
        if kind.is_empty() || !kind.bytes().all(|byte| byte.is_ascii_lowercase()) {
            return Err(wrong());
        }
        let index =
            index.map(|index| index.parse::<u16>().map(i64::from)).transpose().map_err(|_| wrong())?;
        Ok(Device { kind: kind.to_owned(), index })
    }
}

impl std::fmt::Display for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.index {
            Some(index) => write!(f, "{}:{index}", self.kind),
            None => f.write_str(&self.kind),
        }
    }
}

/// A forked call, which ran where it was forked. Its error comes when it is waited for.
#[derive(Debug)]
pub struct Future {
    /// What the call returned.
    pub result: Result<Value, Error>,
}
