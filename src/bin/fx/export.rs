//! `fx export`: a program as an archive of PyTorch.

use std::path::PathBuf;

use clap::Args;
use fx::export::ToTorchScript as _;

use crate::program::Program;

/// Write a program as an archive that PyTorch loads
#[derive(Args)]
pub(crate) struct Export {
    #[command(flatten)]
    program: Program,
    /// Write TorchScript, which `torch.jit.load` reads
    #[arg(long, value_name = "FILE")]
    torchscript: Option<PathBuf>,
    /// Write a saved module, which `fx::load` reads
    #[arg(long, value_name = "FILE")]
    saved: Option<PathBuf>,
}

impl Export {
    pub(crate) fn run(&self) -> fx::Result<bool> {
        if self.torchscript.is_none() && self.saved.is_none() {
            return Err(fx::err!(Argument, "no format is given")
                .help("name the file: `--torchscript model.pt`, or `--saved model.fx`"));
        }
        let gm = self.program.open()?;
        if let Some(path) = &self.torchscript {
            gm.to_torchscript(path)?;
        }
        if let Some(path) = &self.saved {
            fx::save(&gm, path)?;
        }
        Ok(true)
    }
}
