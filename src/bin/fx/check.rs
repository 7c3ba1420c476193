//! `fx check`: the programs of a folder beside PyTorch.

use std::path::PathBuf;

use clap::Args;
use fx::{check, program};

use crate::json;
use crate::output::{Bar, note_missing_compiler, print_json};

/// Compare every NAME.pt2 of a folder with the outputs in NAME.io.safetensors
#[derive(Args)]
pub(crate) struct Check {
    /// The folder
    dir: PathBuf,
    /// Only this engine; may be repeated
    #[arg(long, value_name = "NAME")]
    engine: Vec<String>,
    /// Run what each pass and each rule makes of the programs, by itself
    #[arg(long, conflicts_with = "engine")]
    each_pass: bool,
    /// Print a JSON array of the programs
    #[arg(long)]
    json: bool,
}

impl Check {
    pub(crate) fn run(self) -> fx::Result<bool> {
        let is_best = |name: &String| *name == "best";
        note_missing_compiler(match self.engine.is_empty() {
            true => !self.each_pass,
            false => self.engine.iter().any(is_best),
        });
        let engines: Vec<check::Engine> = match self.engine.is_empty() {
            true if self.each_pass => check::each_pass()?,
            true => check::engines(),
            false => program::engines(&self.engine)?,
        };
        let mut bar = Bar::new();
        let report = check::dir_with(&self.dir, &engines, &mut |done, all, name| bar.show(done, all, name))?;
        drop(bar);
        if self.json {
            print_json(report.programs.iter().map(json::program_json).collect());
        } else {
            println!("{report}");
        }
        Ok(report.failed() == 0)
    }
}
