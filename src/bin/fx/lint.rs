//! `fx lint`: everything that is wrong with a program.

use clap::Args;
use serde_json::json;

use crate::output::{print, print_json};
use crate::program::Program;

/// List everything that is wrong with a program; fails if there is anything
#[derive(Args)]
pub(crate) struct Lint {
    #[command(flatten)]
    program: Program,
    /// Print a JSON array of the violations
    #[arg(long)]
    json: bool,
}

impl Lint {
    pub(crate) fn run(self) -> fx::Result<bool> {
        let gm = self.program.open()?;
        // Text without weights has no tensors at its paths, which is no mistake in it.
        let has_tensors = gm.attributes().len() + gm.children().len() > 0;
        let found = if has_tensors { gm.lint() } else { gm.graph().lint() };
        if self.json {
            let violation = |violation: &fx::lint::Violation| {
                let source = violation.source.as_ref().map(ToString::to_string);
                json!({"node": violation.node, "message": violation.message, "source": source})
            };
            print_json(found.iter().map(violation).collect());
        } else {
            found.iter().for_each(|violation| print(&violation.to_string()));
        }
        Ok(found.is_empty())
    }
}
