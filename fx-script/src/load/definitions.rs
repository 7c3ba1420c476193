//! The classes of a program, with the values that the text gives their members and attributes.

use std::collections::BTreeMap;
use std::sync::Arc;

use fx_core::Result;

use super::literal::literal;
use crate::ast::Expr;
use crate::types::{Class, ClassTable};
use crate::value::Value;

/// The classes of a program, by qualified name.
#[derive(Debug, Clone, Default)]
pub struct Definitions {
    /// The classes.
    pub classes: ClassTable,
    /// The values of the members of enumerations, by class and name of the member.
    members: BTreeMap<Arc<str>, Vec<(Arc<str>, Value)>>,
    /// The values of final attributes, by class and name.
    finals: BTreeMap<Arc<str>, Vec<(Arc<str>, Value)>>,
}

impl Definitions {
    /// Evaluates the literals of classes. `constants` are what literals may refer to.
    ///
    /// Fails if the value of a member or final attribute is no literal.
    pub fn of(classes: ClassTable, constants: &[Value]) -> Result<Definitions> {
        let mut definitions = Definitions::default();
        for class in classes.iter() {
            definitions.add_values(class, constants)?;
        }
        definitions.classes = classes;
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
        let value = |expr: &Expr| literal(expr, &class.source, constants);
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
