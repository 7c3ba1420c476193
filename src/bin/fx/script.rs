//! `fx script`: a text of TorchScript, checked, printed, and run.

use std::path::PathBuf;

use clap::Args;
use fx::program;
use fx::torchscript::load::Program;
use fx::torchscript::{parse, source::Source};
use fx::weights::Weights;

use crate::output::{print, print_as_is};

/// Check a text of TorchScript and print it in its canonical form, or run it
#[derive(Args)]
pub(crate) struct Script {
    /// A text of functions and classes
    file: PathBuf,
    /// Print the functions as typed SSA instead
    #[arg(long, conflicts_with = "run")]
    ir: bool,
    /// Print the value of an expression instead, such as "newton(torch.tensor([4.0, 9.0]), 1e-6)"
    #[arg(long, value_name = "CODE")]
    run: Option<String>,
    /// A safetensors file, whose tensors the expression knows by their names
    #[arg(long, value_name = "FILE", requires = "run")]
    io: Option<PathBuf>,
}

impl Script {
    pub(crate) fn run(&self) -> fx::Result<bool> {
        let Some(code) = &self.run else {
            let script = fx::script_file(&self.file)?;
            print(&if self.ir { script.ir()?.to_string() } else { script.code() });
            return Ok(true);
        };
        let path = self.file.display();
        let text = std::fs::read_to_string(&self.file)
            .map_err(|error| fx::err!(Io, "cannot read {path}: {error}"))?;
        let program = Program::from_file(&parse::file(&Source::new(path.to_string(), text))?)?;
        let io = self.io.as_ref().map(Weights::open).transpose()?;
        let (value, printed) = program::evaluate(program, code, io.as_ref())?;
        print_as_is(&printed);
        print(&fx::torchscript::value::shown(&value)?);
        Ok(true)
    }
}
