//! `fx run`: a program on the inputs of a file.

use std::path::PathBuf;

use clap::Args;
use fx::program;
use fx::weights::Weights;

use crate::json;
use crate::output::{note_missing_compiler, print_json};
use crate::program::Program;

/// Run a program on the inputs of a file, and compare with the outputs that the file expects, if it does
#[derive(Args)]
pub(crate) struct Run {
    #[command(flatten)]
    program: Program,
    /// A safetensors file with the tensors 0.in0, 0.in1, …, and perhaps 0.out0, …; 1.in0 begins a second set
    #[arg(long, value_name = "FILE")]
    io: PathBuf,
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
        let ran = program::run(&self.program.open()?, &Weights::open(self.io)?, &engine)?;
        if let Some(path) = self.save {
            let named = |ran: &program::Ran| {
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

fn print_ran(ran: &program::Ran) {
    match &ran.agrees {
        Some(Ok(error)) => println!("set {}: agrees, greatest error {error:.1e}", ran.set),
        Some(Err(problem)) => println!("set {}: {problem}", ran.set),
        None => println!("set {}:", ran.set),
    }
    for (i, tensor) in ran.outputs.iter().enumerate() {
        println!("  out{i}: {tensor:?}");
        if ran.agrees.is_none() {
            tensor.to_string().lines().for_each(|line| println!("    {line}"));
        }
    }
}
