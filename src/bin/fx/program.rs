//! A program in a file, as most commands take it.

use std::path::PathBuf;

use clap::Args;
use fx::{GraphModule, program};

/// A program in a file.
#[derive(Args)]
pub(crate) struct Program {
    /// fx text, a saved module, or an archive that torch.export.save wrote
    file: PathBuf,
    /// A safetensors file with the tensors that fx text reads by path
    #[arg(long, value_name = "FILE")]
    weights: Option<PathBuf>,
}

impl Program {
    pub(crate) fn open(&self) -> fx::Result<GraphModule> {
        program::open(&self.file, self.weights.as_deref())
    }

    /// Returns the name of the file without its ending.
    pub(crate) fn stem(&self) -> String {
        self.file.file_stem().unwrap_or_default().to_string_lossy().into_owned()
    }
}

/// The error of a command that needs a program and was given none.
pub(crate) fn no_program() -> fx::Error {
    fx::err!(Argument, "no program is given")
        .help("give a file after the name, or `list` instead of the name")
}
