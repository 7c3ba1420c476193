//! A program for people: the hierarchy with types, and the methods as code.

use std::collections::BTreeSet;
use std::fmt::{self, Write as _};
use std::sync::Arc;

use super::Program;
use crate::print;
use crate::types::{Class, Type};
use crate::value::{Object, Value};

/// Prints the modules with their attributes and types, then each class once with its methods as code. Names
/// of classes are without what makes them unique.
impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut classes = Vec::new();
        let mut seen = BTreeSet::new();
        self.object(f, "", &self.root, 0, &mut classes, &mut seen)?;
        for class in classes {
            if class.methods.is_empty() {
                continue;
            }
            write!(f, "\nclass {}:\n", unmangled(&class.name))?;
            for method in &class.methods {
                for line in unmangled(&print::function(method)).lines() {
                    writeln!(f, "  {line}")?;
                }
            }
        }
        Ok(())
    }
}

impl Program {
    fn object(
        &self,
        f: &mut fmt::Formatter<'_>,
        name: &str,
        object: &Arc<Object>,
        depth: usize,
        classes: &mut Vec<Arc<Class>>,
        seen: &mut BTreeSet<String>,
    ) -> fmt::Result {
        let indent = "  ".repeat(depth);
        let label = if name.is_empty() { String::new() } else { format!("{name}: ") };
        writeln!(f, "{indent}{label}{}", unmangled(&object.class.name))?;
        let Some(class) = self.definitions.classes.get(&object.class.name) else { return Ok(()) };
        if seen.insert(object.class.name.clone()) {
            classes.push(class.clone());
        }
        for attribute in &class.attributes {
            let Ok(value) = object.get(&attribute.name) else { continue };
            if let Value::Object(child) = &value {
                self.object(f, &attribute.name, child, depth + 1, classes, seen)?;
                continue;
            }
            let mut line = format!("{indent}  {}: {}", attribute.name, shown_type(&attribute.declared));
            let is_one_of = |names: &[Arc<str>]| names.contains(&attribute.name);
            if is_one_of(&class.parameters) {
                line += ", parameter";
            } else if is_one_of(&class.buffers) {
                line += ", buffer";
            } else if attribute.is_final {
                line += ", final";
            }
            match &value {
                Value::Tensor(tensor) => {
                    let _ = write!(line, " = {}{:?}", tensor.dtype(), tensor.shape().as_slice());
                }
                value => {
                    let text = crate::value::shown(value).unwrap_or_default();
                    let short: String = text.chars().take(60).collect();
                    let more = if short.len() < text.len() { "..." } else { "" };
                    let _ = write!(line, " = {short}{more}");
                }
            }
            writeln!(f, "{line}")?;
        }
        Ok(())
    }
}

fn shown_type(ty: &Type) -> String {
    unmangled(&ty.to_string())
}

/// Returns text without the parts of names that make classes unique, and without the first part of all names.
fn unmangled(text: &str) -> String {
    const MANGLE: &str = "___torch_mangle_";
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(MANGLE) {
        out += before;
        let digits = after.bytes().take_while(u8::is_ascii_digit).count();
        rest = after[digits..].strip_prefix('.').unwrap_or(&after[digits..]);
    }
    out += rest;
    out.replace("__torch__.", "")
}
