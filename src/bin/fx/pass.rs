//! `fx pass`: a program changed by passes.

use std::path::PathBuf;

use clap::Args;
use fx::program;

use crate::output::print;
use crate::program::{Source, no_program};

/// Change a program by passes, check it after each, and print it
#[derive(Args)]
pub(crate) struct Pass {
    /// The passes, such as normalize,cse or repeat(simplify,dead_code); `default` is the pipeline for
    /// inference; `list` lists all
    passes: String,
    /// fx text, a saved module, or an archive that torch.export.save or torch.jit.save wrote
    file: Option<PathBuf>,
    #[command(flatten)]
    source: Source,
    /// Compare this many runs on generated inputs before and after each pass
    #[arg(long, value_name = "N", default_value_t = 0)]
    compare: usize,
    /// Print what each pass did instead of the program
    #[arg(long)]
    report: bool,
    /// Print the difference that each pass makes instead of the program
    #[arg(long)]
    diff: bool,
}

impl Pass {
    pub(crate) fn run(self) -> fx::Result<bool> {
        let Some(file) = self.file else {
            if self.passes != "list" {
                return Err(no_program());
            }
            print(&program::list_passes());
            return Ok(true);
        };
        let mut passes = program::passes(&self.passes)?;
        if self.compare > 0 {
            passes = passes.compare_runs(self.compare, 0);
        }
        if self.diff {
            passes = passes.keep_diffs();
        }
        let mut gm = self.source.open(&file)?;
        let report = passes.run(&mut gm)?;
        print(&if self.report || self.diff { report.to_string() } else { gm.graph().to_text() });
        Ok(true)
    }
}
