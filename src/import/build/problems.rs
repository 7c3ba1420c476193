//! Everything that is wrong with a program, gathered and told at once: unknown operators with the lines where
//! they occur first.

use std::collections::BTreeMap;

use super::shorten;
use crate::{Error, ErrorKind, Registry, Result, err};

/// How many errors are reported, and lines for an unknown operator.
const MAX_REPORTED: usize = 20;

/// Everything that is wrong with a program.
#[derive(Default)]
pub(in crate::import) struct Problems {
    /// Missing operations by target: what is missing, and the lines.
    unknown: BTreeMap<String, (String, Vec<String>, usize)>,
    errors: Vec<Error>,
    n_errors: usize,
}

impl Problems {
    pub(in crate::import) fn error(&mut self, error: Error) {
        self.n_errors += 1;
        if self.errors.len() < MAX_REPORTED {
            self.errors.push(error);
        }
    }

    pub(super) fn unknown(&mut self, target: &str, row: &str, place: String) {
        let (_, places, n) =
            self.unknown.entry(target.to_owned()).or_insert_with(|| (row.to_owned(), Vec::new(), 0));
        *n += 1;
        if places.len() < MAX_REPORTED && !places.contains(&place) {
            places.push(place);
        }
    }

    /// Returns one error that lists everything.
    pub(in crate::import) fn finish(self, registry: &Registry) -> Result<()> {
        let mut errors = self.errors;
        if !self.unknown.is_empty() {
            let mut message = format!("{} unknown operators", self.unknown.len());
            if self.unknown.len() == 1 {
                "an unknown operator".clone_into(&mut message);
            }
            let mut rows = Vec::new();
            for (i, (target, (row, places, n))) in self.unknown.iter().enumerate() {
                let sign = if i == 0 { ':' } else { ';' };
                message.push_str(&format!("{sign} {} at {}", shorten(target), places.join(", ")));
                if *n > places.len() {
                    message.push_str(&format!(" ({n} calls)"));
                }
                rows.push(row.as_str());
            }
            rows.sort_unstable();
            rows.dedup();
            let similar = match rows.as_slice() {
                [row] => crate::names::suggest(row, registry.iter().map(|op| op.name)),
                _ => String::new(),
            };
            let similar = if similar.starts_with("did") { format!("; {similar}") } else { String::new() };
            let mut help = format!("give rows called {} to `Pt2::registry`{similar}", rows.join(", "));
            if self.unknown.keys().any(|target| target.starts_with("torch._functorch.")) {
                "call `program = program.run_decompositions()` before saving, which writes vmap out"
                    .clone_into(&mut help);
            }
            let error = Error::new(ErrorKind::Unresolved, message).help(help);
            errors.insert(0, error);
        }
        if self.n_errors > MAX_REPORTED {
            errors.push(err!(Load, "{} more errors", self.n_errors - MAX_REPORTED));
        }
        if errors.is_empty() { Ok(()) } else { Err(Error::many(errors)) }
    }
}
