//! `fx dump`: a TorchScript program as its hierarchy, its attributes with types, and its methods as code.

use std::path::PathBuf;

use clap::Args;

/// Print the modules, attributes and methods of a TorchScript program
#[derive(Args)]
pub(crate) struct Dump {
    /// An archive that torch.jit.save wrote
    file: PathBuf,
}

impl Dump {
    pub(crate) fn run(&self) -> fx::Result<bool> {
        print!("{}", fx::import::torchscript(&self.file)?);
        Ok(true)
    }
}
