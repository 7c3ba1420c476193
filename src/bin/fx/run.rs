//! `fx run`: a program on the inputs of a file.

use std::path::{Path, PathBuf};

use clap::Args;
use fx::program::{self, Ran};
use fx::weights::Weights;

use crate::json;
use crate::output::{note_missing_compiler, print, print_as_is, print_json};
use crate::program::{Program, is_torchscript};
use crate::script::print_evaluation;

/// Run a program on the inputs of a file, and compare with the outputs that the file expects, if it does
///
/// A program of TorchScript that cannot be a graph runs in the virtual machine.
#[derive(Args)]
pub(crate) struct Run {
    #[command(flatten)]
    program: Program,
    /// A safetensors file with the tensors 0.in0, 0.in1, …, and perhaps 0.out0, …; 1.in0 begins a second set.
    /// A graph without inputs needs none
    #[arg(long, value_name = "FILE")]
    io: Option<PathBuf>,
    /// Of TorchScript: print the value of an expression, such as "self.forward(x, 16000)"; the tensors of the file
    /// of --io are known by their names
    #[arg(long, value_name = "CODE", conflicts_with_all = ["engine", "save", "json"])]
    call: Option<String>,
    /// Print after the value what each line of the program costs
    #[arg(long, requires = "call")]
    profile: bool,
    /// Of TorchScript: run nothing, but list all operators that fx lacks, with the lines that call them
    #[arg(long, conflicts_with_all = ["call", "io"])]
    dry: bool,
    /// What runs it
    #[arg(long, default_value = "eager")]
    engine: String,
    /// Write the outputs to this safetensors file, as 0.out0, …
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// Print a JSON array of the sets
    #[arg(long)]
    json: bool,
}

impl Run {
    pub(crate) fn run(self) -> fx::Result<bool> {
        note_missing_compiler(self.engine == "best");
        let engine = program::engine(&self.engine)?;
        let file = &self.program.file;
        let is_script = is_torchscript(file)?;
        if !is_script && (self.dry || self.call.is_some()) {
            return Err(fx::err!(Argument, "{} is no program of TorchScript", file.display())
                .help("leave out --dry and --call, and give inputs with --io"));
        }
        if self.dry {
            return dry(file);
        }
        let io = self.io.as_ref().map(Weights::open).transpose()?;
        if let Some(code) = &self.call {
            let program = fx::import::torchscript(file)?;
            let evaluate = if self.profile { program::profile } else { program::evaluate };
            print_evaluation(&evaluate(program, code, io.as_ref())?)?;
            return Ok(true);
        }
        let ran = match (is_script, io) {
            (true, Some(io)) => run_script(&self.program, &io, &engine)?,
            (false, Some(io)) => program::run(&self.program.open()?, &io, &engine)?,
            (false, None) => vec![program::run_without_inputs(&self.program.open()?, &engine)?],
            (true, None) => {
                return Err(fx::err!(Argument, "no inputs are given for {}", file.display()).help(
                    "give a safetensors file with the tensors 0.in0, 0.in1, … by --io FILE, or an expression by --call CODE",
                ));
            }
        };
        if let Some(path) = self.save {
            let named = |ran: &Ran| {
                let name = |i: usize| format!("{}.out{i}", ran.set);
                ran.outputs
                    .iter()
                    .enumerate()
                    .map(|(i, tensor)| (name(i), tensor.clone()))
                    .collect::<Vec<_>>()
            };
            fx::weights::save(path, &ran.iter().flat_map(named).collect::<Vec<_>>(), &[])?;
        }
        if self.json {
            print_json(ran.iter().map(json::ran_json).collect());
        } else {
            ran.iter().for_each(print_ran);
        }
        Ok(ran.iter().all(|ran| !matches!(ran.agrees, Some(Err(_)))))
    }
}

/// Runs a program of TorchScript, and says so if the virtual machine runs it.
fn run_script(program: &Program, io: &Weights, engine: &fx::check::Engine) -> fx::Result<Vec<Ran>> {
    let lowering = program.source.lowering(None);
    let run = program::run_torchscript(&program.file, &lowering, io, engine)?;
    if let Some(report) = &run.fallback {
        eprintln!("note: the virtual machine runs {}: {report}", program.file.display());
    }
    print_as_is(&run.printed);
    Ok(run.ran)
}

/// Lists the operators that fx lacks; fails if there are any.
fn dry(file: &Path) -> fx::Result<bool> {
    let lacking = program::lacking_operators(file)?;
    match lacking.len() {
        0 => print("fx has all operators of the program"),
        n => print(&format!("{}\nfx lacks {n} operators of the program", lacking.join("\n"))),
    }
    Ok(lacking.is_empty())
}

fn print_ran(ran: &Ran) {
    match &ran.agrees {
        Some(Ok(error)) => print(&format!("set {}: agrees, greatest error {error:.1e}", ran.set)),
        Some(Err(problem)) => print(&format!("set {}: {problem}", ran.set)),
        None => print(&format!("set {}:", ran.set)),
    }
    for (i, tensor) in ran.outputs.iter().enumerate() {
        print(&format!("  out{i}: {tensor:?}"));
        if ran.agrees.is_none() {
            tensor.to_string().lines().for_each(|line| print(&format!("    {line}")));
        }
    }
}
