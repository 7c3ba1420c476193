//! `fx diff`: the difference of two programs.

use std::path::PathBuf;

use crate::json;
use crate::output::print;
use crate::program::Source;
use clap::Args;

/// Compare two programs by what they compute, whatever names, order and spelling; fails if they differ
#[derive(Args)]
pub(crate) struct Diff {
    /// fx text, a saved module, or an archive that torch.export.save or torch.jit.save wrote
    before: PathBuf,
    /// The other
    after: PathBuf,
    #[command(flatten)]
    source: Source,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

impl Diff {
    pub(crate) fn run(self) -> fx::Result<bool> {
        let diff = fx::graph_diff(&self.source.open(&self.before)?, &self.source.open(&self.after)?)?;
        print(&if self.json { format!("{:#}", json::diff_json(&diff)) } else { diff.to_string() });
        Ok(diff.is_same())
    }
}
