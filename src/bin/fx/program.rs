//! A program in a file, as most commands take it.

use std::path::{Path, PathBuf};

use clap::Args;
use fx::GraphModule;
use fx::program::{self, Kind, Lowering};

/// A program in a file.
#[derive(Args)]
pub(crate) struct Program {
    /// fx text, a saved module, or an archive that torch.export.save or torch.jit.save wrote
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) source: Source,
}

impl Program {
    pub(crate) fn open(&self) -> fx::Result<GraphModule> {
        self.source.open(&self.file)
    }

    /// Opens the program; one of TorchScript is lowered for the first call of a file, if nothing else is said.
    pub(crate) fn open_for(&self, io: Option<&Path>) -> fx::Result<GraphModule> {
        self.source.open_for(&self.file, io)
    }

    /// Returns the name of the file without its ending.
    pub(crate) fn stem(&self) -> String {
        self.file.file_stem().unwrap_or_default().to_string_lossy().into_owned()
    }
}

/// What a file does not say by itself.
#[derive(Args)]
pub(crate) struct Source {
    /// A safetensors file with the tensors that fx text reads by path
    #[arg(long, value_name = "FILE")]
    weights: Option<PathBuf>,
    /// Of TorchScript: the type or the value of an argument, such as x=f32[n, 3] or rate=16000; may be repeated
    #[arg(long, value_name = "NAME=TYPE", value_parser = input)]
    input: Vec<(String, String)>,
    /// Of TorchScript: a safetensors file with the tensors 0.in0, 0.in1, … of a call, whose types arguments have
    #[arg(long, value_name = "FILE", conflicts_with = "input")]
    example: Option<PathBuf>,
    /// Of TorchScript: the method, instead of forward
    #[arg(long, value_name = "NAME")]
    method: Option<String>,
}

impl Source {
    pub(crate) fn open(&self, file: &Path) -> fx::Result<GraphModule> {
        self.open_for(file, None)
    }

    pub(crate) fn open_for(&self, file: &Path, io: Option<&Path>) -> fx::Result<GraphModule> {
        program::open_with(file, self.weights.as_deref(), &self.lowering(io))
    }

    /// Returns what a program of TorchScript is lowered for; `io` is an example if there is no other.
    pub(crate) fn lowering(&self, io: Option<&Path>) -> Lowering {
        let io = io.filter(|_| self.input.is_empty());
        Lowering {
            method: self.method.clone(),
            inputs: self.input.clone(),
            example: self.example.as_deref().or(io).map(Path::to_owned),
        }
    }
}

/// Returns whether a file is a program of TorchScript.
pub(crate) fn is_torchscript(file: &Path) -> fx::Result<bool> {
    Ok(Kind::of(file)? == Kind::TorchScript)
}

/// Reads `NAME=TYPE`.
fn input(text: &str) -> Result<(String, String), String> {
    let (name, spec) = text.split_once('=').ok_or("expected NAME=TYPE, such as x=f32[n, 3]")?;
    Ok((name.trim().to_owned(), spec.trim().to_owned()))
}

/// The error of a command that needs a program and was given none.
pub(crate) fn no_program() -> fx::Error {
    fx::err!(Argument, "no program is given")
        .help("give a file after the name, or `list` instead of the name")
}
