//! `fx diff`: the difference of two programs.

use std::path::PathBuf;

use clap::Args;
use fx::program;

use crate::json;
use crate::output::print;

/// Compare two programs by what they compute, whatever names, order and spelling; fails if they differ
#[derive(Args)]
pub(crate) struct Diff {
    /// fx text, or an archive that torch.export.save wrote
    before: PathBuf,
    /// The other
    after: PathBuf,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

impl Diff {
    pub(crate) fn run(self) -> fx::Result<bool> {
        let diff = fx::graph_diff(&program::open(self.before, None)?, &program::open(self.after, None)?)?;
        print(&if self.json { format!("{:#}", json::diff_json(&diff)) } else { diff.to_string() });
        Ok(diff.is_same())
    }
}
