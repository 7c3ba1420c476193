//! `fx codegen`: a program as Rust.

use std::path::PathBuf;

use clap::Args;
use fx::weights::Weights;
use fx::{CrateOptions, GraphCode, ToCrate, program};

use crate::output::{print, write};
use crate::program::Program;

/// Write a program as Rust: a Cargo crate that needs no other crate, or code for people over the public API
#[derive(Args)]
pub(crate) struct Codegen {
    #[command(flatten)]
    program: Program,
    /// Write code for people: a struct for each module, a statement for each node
    #[arg(long)]
    readable: bool,
    /// The folder for the crate, or the file for readable code, instead of the output
    #[arg(short, long, value_name = "PATH", required_unless_present = "readable")]
    out: Option<PathBuf>,
    /// Write the tensors, which readable code loads, to this safetensors file
    #[arg(long, value_name = "FILE", requires = "readable")]
    save_weights: Option<PathBuf>,
    /// The name of the crate; that of the file if none is given
    #[arg(long, conflicts_with = "readable")]
    name: Option<String>,
    /// A safetensors file with inputs and what is expected, for the test of the crate, as `fx run` takes it
    #[arg(long, value_name = "FILE", conflicts_with = "readable")]
    io: Option<PathBuf>,
    /// Put the weights into the code, which then needs no standard library and allocates nothing
    #[arg(long, conflicts_with = "readable")]
    bake: bool,
    /// Take the sizes of the first inputs as known
    #[arg(long, conflicts_with = "readable")]
    fixed: bool,
}

impl Codegen {
    pub(crate) fn run(self) -> fx::Result<bool> {
        match self.readable {
            true => self.readable()?,
            false => self.package()?,
        }
        Ok(true)
    }

    fn readable(&self) -> fx::Result<()> {
        let gm = self.program.open()?;
        let code = gm.code()?;
        match &self.out {
            Some(out) => write(out, code.text())?,
            None => print(code.text()),
        }
        match &self.save_weights {
            Some(path) => program::save_weights(&gm, path),
            None => Ok(()),
        }
    }

    fn package(&self) -> fx::Result<()> {
        let gm = self.program.open_for(self.io.as_deref())?;
        let mut options = match &self.name {
            Some(name) => CrateOptions::new().name(name),
            None => CrateOptions::new().named_after(&self.program.stem()),
        };
        if let Some(io) = &self.io {
            options = options.io(&gm, &Weights::open(io)?)?;
        }
        if self.fixed {
            options = options.fixed();
        }
        if self.bake {
            options = options.baked();
        }
        let out = self.out.as_ref().ok_or_else(|| fx::err!(Argument, "expected --out DIR"))?;
        gm.to_package(&options)?.write(out)
    }
}
