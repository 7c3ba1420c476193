//! The classes and functions of a program, with the values that the text gives their members and attributes.

use std::collections::BTreeMap;
use std::sync::Arc;

use fx_core::Result;

use super::literal::literal_with;
use crate::ast::{Expr, Function};
use crate::emit::{Global, Unit, global_constant, scope_of};
use crate::source::Source;
use crate::types::{Class, ClassTable};
use crate::value::Value;

/// A function with the text that it is in.
#[derive(Debug, Clone)]
pub struct FunctionDef {
    /// The function.
    pub function: Arc<Function>,
    /// The text.
    pub source: Arc<Source>,
}

/// The classes and functions of a program, by qualified name.
#[derive(Debug, Clone, Default)]
pub struct Definitions {
    /// The classes.
    pub classes: ClassTable,
    /// The functions that are no methods.
    pub functions: BTreeMap<Arc<str>, FunctionDef>,
    /// The imports and constants of texts, by qualified name.
    pub(crate) globals: BTreeMap<Arc<str>, Global>,
    /// The values of the members of enumerations, by class and name of the member.
    members: BTreeMap<Arc<str>, Vec<(Arc<str>, Value)>>,
    /// The values of final attributes, by class and name.
    finals: BTreeMap<Arc<str>, Vec<(Arc<str>, Value)>>,
}

impl Definitions {
    /// Takes the definitions of a unit, and evaluates the literals of classes. `constants` are what literals
    /// may refer to.
    ///
    /// Fails if the value of a member or final attribute is no literal.
    pub fn of(unit: &Unit, constants: &[Value]) -> Result<Definitions> {
        let (classes, globals) = (unit.classes.clone(), unit.globals().clone());
        let mut definitions = Definitions { classes, globals, ..Definitions::default() };
        for class in unit.classes.iter() {
            definitions.add_values(class, constants)?;
        }
        for name in unit.function_names() {
            let owner = name.rsplit_once('.').map_or("", |(owner, _)| owner);
            if unit.classes.get(owner).is_none()
                && let Some((source, function)) = unit.function(name)
            {
                let definition = FunctionDef { function: function.clone(), source: source.clone() };
                definitions.functions.insert(name.clone(), definition);
            }
        }
        Ok(definitions)
    }

    /// Returns the same definitions with other classes and functions. Fails if the value of a final attribute is
    /// no literal.
    pub(super) fn replaced(
        &self,
        classes: ClassTable,
        functions: BTreeMap<Arc<str>, FunctionDef>,
        constants: &[Value],
    ) -> Result<Definitions> {
        let globals = self.globals.clone();
        let mut definitions = Definitions { classes, functions, globals, ..Definitions::default() };
        let classes: Vec<Arc<Class>> = definitions.classes.iter().cloned().collect();
        classes.iter().try_for_each(|class| definitions.add_values(class, constants))?;
        Ok(definitions)
    }

    /// Returns the members of an enumeration with their values.
    pub fn members(&self, class: &str) -> &[(Arc<str>, Value)] {
        self.members.get(class).map_or(&[], Vec::as_slice)
    }

    /// Returns the value of a final attribute.
    pub fn final_value(&self, class: &str, name: &str) -> Option<&Value> {
        self.finals.get(class)?.iter().find(|(own, _)| &**own == name).map(|(_, value)| value)
    }

    fn add_values(&mut self, class: &Class, constants: &[Value]) -> Result<()> {
        let scope = scope_of(&class.name);
        let globals = |name: &str| global_constant(&self.globals, scope, name);
        let value = |expr: &Expr| literal_with(expr, &class.source, constants, &globals);
        let members = class.members.iter().map(|member| Ok((member.name.clone(), value(&member.value)?)));
        let members = members.collect::<Result<Vec<_>>>()?;
        if !members.is_empty() {
            self.members.insert(class.name.clone(), members);
        }
        let mut finals = Vec::new();
        for attribute in class.attributes.iter().filter(|attribute| attribute.is_final) {
            if let Some(expr) = &attribute.value {
                finals.push((attribute.name.clone(), value(expr)?));
            }
        }
        if !finals.is_empty() {
            self.finals.insert(class.name.clone(), finals);
        }
        Ok(())
    }
}
