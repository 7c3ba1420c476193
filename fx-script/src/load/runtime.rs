//! What values refer to while a program runs: the classes of its objects, its named tuples and its enumerations.

use std::collections::HashMap;
use std::sync::Arc;

use super::Definitions;
use crate::types::ClassKind;
use crate::value::{Class, EnumMember, NamedTuple};

/// The classes of a program as values have them, each once.
#[derive(Debug, Clone, Default)]
pub struct Runtime {
    /// The classes of objects, by qualified name. All attributes have a slot, in the order of the class.
    pub classes: HashMap<Arc<str>, Arc<Class>>,
    /// The named tuples, by qualified name.
    pub named_tuples: HashMap<Arc<str>, Arc<NamedTuple>>,
    /// The members of enumerations, by class and name.
    pub enums: HashMap<(Arc<str>, Arc<str>), Arc<EnumMember>>,
}

impl Runtime {
    /// Makes the classes of all definitions.
    pub fn of(definitions: &Definitions) -> Runtime {
        let mut runtime = Runtime::default();
        for class in definitions.classes.iter() {
            let names = class.attributes.iter().map(|attribute| attribute.name.to_string());
            let name = class.name.clone();
            match class.kind {
                ClassKind::Class | ClassKind::Module => {
                    runtime.classes.insert(name.clone(), Class::new(name.to_string(), names));
                }
                ClassKind::NamedTuple => {
                    let named = NamedTuple { name: name.to_string(), fields: names.collect() };
                    runtime.named_tuples.insert(name, Arc::new(named));
                }
                ClassKind::Enum => {
                    for (member, value) in definitions.members(&name) {
                        let made = EnumMember {
                            class: name.to_string(),
                            name: member.to_string(),
                            value: value.clone(),
                        };
                        runtime.enums.insert((name.clone(), member.clone()), Arc::new(made));
                    }
                }
                ClassKind::Interface | ClassKind::ModuleInterface => {}
            }
        }
        runtime
    }
}
