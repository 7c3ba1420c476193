//! The operators on numbers, text, lists and dictionaries: one row each, for all its overloads.
//!
//! A row looks at the kinds of its arguments, so that the overloads of one operator share it. Integers have 64
//! bits and wrap; `//` and `%` round down; text counts in characters.

mod containers;
mod format;
mod numbers;
mod program;
mod tensors;
mod text;

use std::collections::HashMap;
use std::sync::OnceLock;

use fx_core::{Result, err};

use crate::value::Value;

pub use tensors::{code_of, dtype_of};

/// A row: takes all arguments of the schema and returns the result; several results are a tuple.
pub type HostFunction = fn(&mut Output, &[&Value]) -> Result<Value>;

/// An operator, its overloads with spaces between (`-` is the one without name), and its function.
type Row = (&'static str, &'static str, HostFunction);

/// Finds the function of an operator such as `aten::add.int`; `None` if it has none, as those on tensors.
pub fn find(name: &str) -> Option<HostFunction> {
    table().get(name).copied()
}

/// Returns the names of the operators that have a function, in no order.
pub fn names() -> impl Iterator<Item = &'static str> {
    table().keys().map(String::as_str)
}

fn table() -> &'static HashMap<String, HostFunction> {
    static TABLE: OnceLock<HashMap<String, HostFunction>> = OnceLock::new();
    TABLE.get_or_init(|| {
        let tables = [numbers::TABLE, text::TABLE, containers::TABLE, program::TABLE, tensors::TABLE];
        let mut table = HashMap::new();
        for (name, overloads, function) in tables.into_iter().flatten() {
            for overload in overloads.split_whitespace() {
                let full = if overload == "-" { (*name).to_owned() } else { format!("{name}.{overload}") };
                let old = table.insert(full, *function);
                debug_assert!(old.is_none(), "{name}.{overload} has two rows");
            }
        }
        table
    })
}

/// The text that a program prints.
#[derive(Debug)]
pub struct Output {
    text: String,
    limit: usize,
}

impl Output {
    /// Makes an output that takes at most `limit` bytes.
    pub fn new(limit: usize) -> Output {
        Output { text: String::new(), limit }
    }

    /// Returns the text and begins anew.
    pub fn take(&mut self) -> String {
        std::mem::take(&mut self.text)
    }

    fn print(&mut self, line: &str) -> Result<()> {
        if self.text.len() + line.len() > self.limit {
            return Err(err!(Limit, "the program prints more than {} bytes", self.limit)
                .help("raise `Limits::output`, or take the output more often"));
        }
        self.text.push_str(line);
        Ok(())
    }
}

/// Returns an argument. Fails if it is missing.
fn arg<'a>(args: &[&'a Value], at: usize) -> Result<&'a Value> {
    args.get(at).copied().ok_or_else(|| err!(Argument, "the argument {at} is missing"))
}
