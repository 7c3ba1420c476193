//! [`Registry`]: the operations by name, for parsers and importers.

use std::collections::BTreeMap;

use super::Op;
use crate::{Result, err};

/// A set of operations by name; an ordinary value, nothing is registered behind the scenes.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    ops: BTreeMap<&'static str, Op>,
    /// How a user adds operations here.
    advice: Option<&'static str>,
}

impl Registry {
    /// Makes a registry of the operations that fx-core itself needs, behind operators and control flow.
    pub fn core() -> Self {
        let mut registry = Registry::default();
        for table in crate::ops::TABLES {
            for op in *table {
                registry.ops.insert(op.name, *op);
            }
        }
        registry
    }

    /// Adds a table of operations. Fails if another operation has one of the names.
    pub fn add(&mut self, table: &[Op]) -> Result<()> {
        for op in table {
            match self.ops.get(op.name) {
                Some(other) if other != op => {
                    return Err(err!(Argument, "there are two operations called {:?}", op.name)
                        .help("give your own operation another name"));
                }
                _ => self.ops.insert(op.name, *op),
            };
        }
        Ok(())
    }

    /// Returns the registry with another table. Fails as [`add`](Registry::add) does.
    pub fn with(mut self, table: &[Op]) -> Result<Self> {
        self.add(table)?;
        Ok(self)
    }

    /// Returns the registry with a sentence for the error of an unknown operation: how the user adds operations.
    #[must_use]
    pub fn advising(mut self, advice: &'static str) -> Self {
        self.advice = Some(advice);
        self
    }

    /// Returns the operation called `name`.
    pub fn get(&self, name: &str) -> Option<Op> {
        self.ops.get(name).copied()
    }

    /// Returns the operation called `name`. Fails if there is none; the error names similar ones.
    pub fn find(&self, name: &str) -> Result<Op> {
        self.get(name).ok_or_else(|| {
            let similar = crate::names::suggest(name, self.ops.keys().copied());
            let help = match self.advice {
                Some(advice) if similar.ends_with('?') => format!("{similar} {advice}"),
                Some(advice) => format!("{similar}; {advice}"),
                None => similar,
            };
            err!(Unresolved, "unknown operation {name:?}").help(help)
        })
    }

    /// Returns every operation, by name.
    pub fn iter(&self) -> impl Iterator<Item = Op> + '_ {
        self.ops.values().copied()
    }
}
