//! `fx view`: a program as an HTML page.

use std::path::PathBuf;

use clap::Args;

use crate::output::write;
use crate::program::Program;

/// Write a page that shows a program, and what passes do to it, in a browser; it needs nothing else
#[derive(Args)]
pub(crate) struct View {
    #[command(flatten)]
    program: Program,
    /// The page
    #[arg(short, long, value_name = "FILE")]
    out: PathBuf,
    /// Run these passes, such as normalize,cse, and show each step; `default` is the pipeline for inference
    #[arg(long, value_name = "LIST")]
    passes: Option<String>,
}

impl View {
    pub(crate) fn run(self) -> fx::Result<bool> {
        let page = fx::program::view(&self.program.open()?, &self.program.stem(), self.passes.as_deref())?;
        write(&self.out, &page)?;
        Ok(true)
    }
}
