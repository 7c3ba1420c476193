//! The types of a program as text, for people.

use std::fmt::{self, Write as _};

use super::Unit;
use crate::ir;

/// Lists the attributes of classes and the signatures of functions, and the values of functions if wanted.
pub(super) fn listing(unit: &Unit, program: &ir::Program, with_values: bool) -> String {
    let mut out = String::new();
    write(&mut out, unit, program, with_values).expect("strings take all text");
    out
}

fn write(out: &mut String, unit: &Unit, program: &ir::Program, with_values: bool) -> fmt::Result {
    for class in unit.classes.iter() {
        writeln!(out, "class {}", class.name)?;
        for attribute in &class.attributes {
            writeln!(out, "  {}: {}", attribute.name, attribute.declared)?;
        }
    }
    for function in program.functions() {
        write!(out, "def {}(", function.name)?;
        for (i, param) in function.body.params.iter().enumerate() {
            let info = &function.values[param.index()];
            write!(out, "{}", if i > 0 { ", " } else { "" })?;
            if let Some(name) = &info.name {
                write!(out, "{name}: ")?;
            }
            write!(out, "{}", info.ty)?;
        }
        writeln!(out, ") -> {}", function.returns)?;
        if with_values {
            for (number, info) in function.values.iter().enumerate() {
                let name = info.name.as_ref().map_or(String::new(), |name| format!("{name}."));
                writeln!(out, "  %{name}{number}: {}", info.ty)?;
            }
        }
    }
    Ok(())
}
