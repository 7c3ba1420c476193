//! The attributes of classes that a user wrote: what `__init__` assigns to `self`.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use fx_core::{Error, Result};

use super::unit::Unit;
use crate::types::{Attribute, ClassKind, Type};

/// The most times that the constructors of all classes are tried, one waiting for the attributes of another.
const MAX_ROUNDS: usize = 64;

/// The attributes that constructors have assigned so far, by class.
pub(super) type Inferred = BTreeMap<Arc<str>, Vec<Attribute>>;

impl Unit {
    /// Declares the attributes that constructors assign to `self`, with the types of their first values.
    ///
    /// Fails with the errors of all constructors.
    pub fn infer_attributes(&mut self) -> Result<()> {
        let classes = self.classes.iter().filter(|class| class.kind == ClassKind::Class);
        let mut waiting: VecDeque<Arc<str>> = classes
            .filter(|class| class.method("__init__").is_some())
            .map(|class| class.name.clone())
            .collect();
        *self.inferred.borrow_mut() = Some(Inferred::new());
        let mut errors = Vec::new();
        for _ in 0..MAX_ROUNDS {
            errors.clear();
            let before = waiting.len();
            for _ in 0..before {
                let Some(class) = waiting.pop_front() else { break };
                if let Err(error) = self.emit(&format!("{class}.__init__")) {
                    errors.push(error);
                    waiting.push_back(class);
                }
            }
            if waiting.is_empty() || waiting.len() == before {
                break;
            }
        }
        // Functions were emitted with classes that lacked attributes.
        self.forget_emitted();
        let inferred = self.inferred.borrow_mut().take().unwrap_or_default();
        if !waiting.is_empty() {
            return Err(Error::many(errors));
        }
        for (name, attributes) in inferred {
            if let Some(class) = self.classes.get(&name) {
                let mut class = (**class).clone();
                class.attributes.extend(attributes);
                self.classes.insert(class);
            }
        }
        Ok(())
    }

    /// Returns an attribute of the class of a type, also one that a constructor has just assigned.
    pub(super) fn attribute(&self, ty: &Type, name: &str) -> Option<Attribute> {
        let class = self.classes.of(ty)?;
        if let Some(attribute) = class.attribute(name) {
            return Some(attribute.clone());
        }
        let inferred = self.inferred.borrow();
        let attributes = inferred.as_ref()?.get(&class.name)?;
        attributes.iter().find(|attribute| &*attribute.name == name).cloned()
    }

    /// Declares an attribute that `__init__` of a class assigns to an object of this class; returns whether it
    /// is one of a constructor that is being read.
    pub(super) fn declare(&self, function: &str, ty: &Type, name: &str, declared: &Type) -> bool {
        let (Some(class), Some(inferred)) = (self.classes.of(ty), &mut *self.inferred.borrow_mut()) else {
            return false;
        };
        if function.strip_suffix(".__init__") != Some(&*class.name) || class.method(name).is_some() {
            return false;
        }
        inferred.entry(class.name.clone()).or_default().push(Attribute {
            name: name.into(),
            declared: declared.clone(),
            is_final: false,
            value: None,
        });
        true
    }
}
