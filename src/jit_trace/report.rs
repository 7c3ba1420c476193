//! The report of a trace with examples: sizes, checks and diagnostics.

use std::fmt;

use super::diagnostic::{Diagnostic, Kind, Level, Variation};
use crate::trace::Place;
use crate::{Dim, Error};

/// What a trace with examples found. It prints as a table.
#[derive(Debug, Clone)]
pub struct Report {
    /// The name of the function.
    pub name: String,
    /// How many nodes the graph has.
    pub n_nodes: usize,
    /// The sizes of the arguments.
    pub sizes: Vec<Size>,
    /// The checks in order.
    pub checks: Vec<Check>,
    /// The diagnostics, the gravest first, then in program order.
    pub diagnostics: Vec<Diagnostic>,
}

/// One axis of an argument.
#[derive(Debug, Clone)]
pub struct Size {
    /// The argument, or the tensor in it.
    pub argument: String,
    /// The axis.
    pub axis: usize,
    /// The size of the example.
    pub value: i64,
    /// The size in the signature of the graph: a number, a symbol or an expression.
    pub size: Dim,
    /// The operation that needs this number or expression, where the axis has no symbol of its own.
    pub by: Option<Place>,
}

/// A check.
#[derive(Debug, Clone)]
pub struct Check {
    /// The arguments.
    pub input: Variation,
    /// What came out.
    pub outcome: Outcome,
}

/// What came out of a check.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Outcome {
    /// The graphs and the results are the same.
    Same,
    /// They differ; the diagnostics say how.
    Differs,
    /// The function itself refuses such arguments.
    Refused(Error),
    /// The graph refuses such arguments with an error, though the function takes them.
    GraphRefuses(Error),
}

impl Report {
    /// Returns the diagnostics of one kind.
    pub fn of(&self, kind: Kind) -> impl Iterator<Item = &Diagnostic> {
        self.diagnostics.iter().filter(move |diagnostic| diagnostic.kind() == kind)
    }

    /// Returns whether no diagnostic is a warning or denied.
    pub fn is_clean(&self) -> bool {
        self.diagnostics.iter().all(|diagnostic| diagnostic.level < Level::Warn)
    }

    /// Returns all denied diagnostics as one error. Fails with it if there are any.
    pub fn ok(&self) -> Result<(), Error> {
        let denied = self.diagnostics.iter().filter(|diagnostic| diagnostic.level == Level::Deny);
        let errors: Vec<Error> = denied.map(Diagnostic::to_error).collect();
        if errors.is_empty() { Ok(()) } else { Err(Error::many(errors)) }
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Size { argument, axis, value, size, by } = self;
        let shown = if size.is_known() { "fixed".to_owned() } else { size.to_string() };
        write!(f, "{argument}.{axis}  {value}  {shown}")?;
        match by {
            Some(place) => write!(f, "  by {} at {}", place.what, place.at),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.outcome {
            Outcome::Same => write!(f, "{}: the same", self.input),
            Outcome::Differs => write!(f, "{}: differs", self.input),
            Outcome::Refused(error) => {
                write!(f, "{}: refused by the function: {}", self.input, error.message())
            }
            Outcome::GraphRefuses(error) => {
                write!(f, "{}: refused by the graph: {}", self.input, error.message())
            }
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |level: Level| self.diagnostics.iter().filter(|found| found.level == level).count();
        writeln!(
            f,
            "{}: {} nodes, {} denied, {} warnings, {} notes",
            self.name,
            self.n_nodes,
            count(Level::Deny),
            count(Level::Warn),
            count(Level::Note)
        )?;
        if !self.sizes.is_empty() {
            writeln!(f, "sizes")?;
        }
        for size in &self.sizes {
            writeln!(f, "  {size}")?;
        }
        if !self.checks.is_empty() {
            writeln!(f, "checks")?;
        }
        for check in &self.checks {
            writeln!(f, "  {check}")?;
        }
        let shown: Vec<&Diagnostic> =
            self.diagnostics.iter().filter(|found| found.level > Level::Allow).collect();
        if !shown.is_empty() {
            writeln!(f, "diagnostics")?;
        }
        for found in shown {
            let place = found.at.to_string();
            writeln!(f, "  {:5} {:16} {place}  {}", found.level, found.kind(), found.finding)?;
            if found.level >= Level::Warn {
                writeln!(f, "        help: {}", found.finding.help())?;
            }
        }
        Ok(())
    }
}
