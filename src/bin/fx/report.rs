//! `fx report`: what compiled functions did, as an HTML page.

use std::path::PathBuf;

use clap::Args;

use crate::output::write;

/// Write a page that shows the events of compiled functions, from the file trace.jsonl of a run with FX_TRACE
#[derive(Args)]
pub(crate) struct Report {
    /// The file trace.jsonl
    file: PathBuf,
    /// The page
    #[arg(short, long, value_name = "FILE")]
    out: PathBuf,
}

impl Report {
    pub(crate) fn run(self) -> fx::Result<bool> {
        let name = self.file.display();
        let lines = std::fs::read_to_string(&self.file)
            .map_err(|error| fx::err!(Io, "cannot read {name}: {error}"))?;
        let page =
            fx::compile::report_page(&lines).map_err(|error| error.in_file(&name.to_string(), None))?;
        write(&self.out, &page)?;
        Ok(true)
    }
}
