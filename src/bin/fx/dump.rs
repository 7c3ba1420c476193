//! `fx dump`: a TorchScript program as its hierarchy, its attributes with types, and its methods as code.

use std::path::PathBuf;

use clap::Args;

use crate::output::print;

/// Print the modules, attributes and methods of a TorchScript program
#[derive(Args)]
pub(crate) struct Dump {
    /// An archive that torch.jit.save wrote
    file: PathBuf,
    /// Print what is left when attributes that nothing changes are constants, and what nothing uses is gone
    #[arg(long)]
    freeze: bool,
    /// A method or attribute that stays beside forward; may be repeated
    #[arg(long, value_name = "NAME", requires = "freeze")]
    keep: Vec<String>,
}

impl Dump {
    pub(crate) fn run(&self) -> fx::Result<bool> {
        let mut program = fx::import::torchscript(&self.file)?;
        if self.freeze {
            program.freeze(&self.keep.iter().map(String::as_str).collect::<Vec<_>>())?;
        }
        print(&program.to_string());
        Ok(true)
    }
}
