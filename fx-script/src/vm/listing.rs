//! Bytecode as text, for people.

use std::fmt::{self, Display, Formatter};

use super::code::{Code, Instruction as Ins, Register};

/// Lists the instructions of a function, each with its number and its place.
impl Display for Code {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let params: Vec<String> = self.params.iter().map(|param| format!("r{param}")).collect();
        writeln!(f, "func {:?}({}), {} registers", self.name, params.join(", "), self.frame.len())?;
        for (at, source) in self.sources.iter().enumerate() {
            write!(f, "  {at}: {}", self.shown(at))?;
            if let Some(source) = source {
                write!(f, "  at {source}")?;
            }
            f.write_str("\n")?;
        }
        Ok(())
    }
}

impl Code {
    /// Returns an instruction as text.
    pub(super) fn shown(&self, at: usize) -> String {
        match self.instructions[at] {
            Ins::Copy { to, from } => format!("r{to} = copy r{from}"),
            Ins::Move { to, from } => format!("r{to} = move r{from}"),
            Ins::Jump { to } => format!("jump {to}"),
            Ins::JumpUnless { test, to } => format!("jump {to} unless r{test}"),
            Ins::JumpUnlessTest { to, site, .. } => format!("jump {to} unless {}", self.call(site)),
            Ins::First { limit, number, done, .. } => format!("r{number} = first of r{limit} else {done}"),
            Ins::Next { limit, number, head, .. } => format!("r{number} = next of r{limit} to {head}"),
            Ins::Again { head } => format!("next to {head}"),
            Ins::Arithmetic { site, .. }
            | Ins::Test { site, .. }
            | Ins::Append { site, .. }
            | Ins::GetItem { site, .. }
            | Ins::Run { site } => {
                let results = list(&self.sites[site as usize].results);
                format!("{results}{}{}", if results.is_empty() { "" } else { " = " }, self.call(site))
            }
            Ins::Fork { to, end, .. } => format!("r{to} = fork, end {end}"),
            Ins::EndTask => "end of task".to_owned(),
            Ins::Return { from } => format!("return r{from}"),
        }
    }

    fn call(&self, site: u32) -> String {
        let site = &self.sites[site as usize];
        format!("{}({})", site.operation, list(&site.args))
    }

    /// Returns the registers that an instruction writes.
    pub(super) fn written(&self, at: usize) -> &[Register] {
        match &self.instructions[at] {
            Ins::Copy { to, .. } | Ins::Move { to, .. } | Ins::Fork { to, .. } => std::slice::from_ref(to),
            Ins::First { number, .. } | Ins::Next { number, .. } => std::slice::from_ref(number),
            Ins::Arithmetic { site, .. }
            | Ins::Test { site, .. }
            | Ins::Append { site, .. }
            | Ins::GetItem { site, .. }
            | Ins::Run { site } => &self.sites[*site as usize].results,
            Ins::Jump { .. }
            | Ins::JumpUnless { .. }
            | Ins::JumpUnlessTest { .. }
            | Ins::Again { .. }
            | Ins::EndTask
            | Ins::Return { .. } => &[],
        }
    }
}

fn list(registers: &[Register]) -> String {
    registers.iter().map(|register| format!("r{register}")).collect::<Vec<_>>().join(", ")
}
