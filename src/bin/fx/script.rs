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
    /// Print after the value what each line costs
    #[arg(long, requires = "run")]
    profile: bool,
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
        let evaluate = if self.profile { program::profile } else { program::evaluate };
        print_evaluation(&evaluate(program, code, io.as_ref())?)?;
        Ok(true)
    }
}

/// Prints what an expression printed, its value, and what each line cost if that was measured.
pub(crate) fn print_evaluation(evaluation: &program::Evaluation) -> fx::Result<()> {
    print_as_is(&evaluation.printed);
    print(&fx::torchscript::value::shown(&evaluation.value)?);
    if !evaluation.profile.lines.is_empty() {
        print(&evaluation.profile.to_string());
    }
    Ok(())
}
