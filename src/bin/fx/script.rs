//! `fx script`: a text of TorchScript, read and printed in its canonical form.

use std::path::PathBuf;

use clap::Args;
use fx::torchscript::{parse, print, source::Source};

/// Check the syntax of TorchScript and print it in its canonical form
#[derive(Args)]
pub(crate) struct Script {
    /// A text of functions and classes
    file: PathBuf,
}

impl Script {
    pub(crate) fn run(&self) -> fx::Result<bool> {
        let path = self.file.display();
        let text = std::fs::read_to_string(&self.file)
            .map_err(|error| fx::err!(Io, "cannot read {path}: {error}"))?;
        let file = parse::file(&Source::new(path.to_string(), text))?;
        print!("{}", print::file(&file));
        Ok(true)
    }
}
