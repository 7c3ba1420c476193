//! `fx check`: the programs of a folder beside PyTorch.

use std::path::PathBuf;

use clap::Args;
use fx::{check, program};

use crate::json;
use crate::output::{Bar, note_missing_compiler, print, print_json};

/// Compare every program of a folder with PyTorch: each NAME.pt2 with the outputs in NAME.io.safetensors, and each
/// NAME.pt with the calls in NAME.json
///
/// A program of TorchScript runs in the virtual machine, and as graphs where it can be lowered: on the engines
/// eager, fused and native, and as the functions compile and pure.
#[derive(Args)]
pub(crate) struct Check {
    /// The folder
    dir: PathBuf,
    /// Only this engine; may be repeated
    #[arg(long, value_name = "NAME")]
    engine: Vec<String>,
    /// Run what each pass and each rule makes of the programs, by itself
    #[arg(long, conflicts_with = "engine")]
    each_pass: bool,
    /// Print a JSON array of the programs
    #[arg(long)]
    json: bool,
}

impl Check {
    pub(crate) fn run(self) -> fx::Result<bool> {
        let is_best = |name: &String| *name == "best";
        note_missing_compiler(match self.engine.is_empty() {
            true => !self.each_pass,
            false => self.engine.iter().any(is_best),
        });
        let engines: Vec<check::Engine> = match self.engine.is_empty() {
            true if self.each_pass => check::each_pass()?,
            true => check::engines(),
            false => program::engines(&self.engine)?,
        };
        let mut bar = Bar::new();
        let mut show = |done: usize, all: usize, name: &str| bar.show(done, all, name);
        let scripts = match self.each_pass {
            true => Vec::new(),
            false => fx::script::cases(&self.dir)?,
        };
        let has_exported = scripts.is_empty() || check::files(&self.dir).is_ok();
        let exported = has_exported.then(|| check::dir_with(&self.dir, &engines, &mut show)).transpose()?;
        let script = match scripts.is_empty() {
            true => None,
            false => {
                note_without_scripts(&self.engine);
                Some(fx::script::check_folder(&self.dir, &runtimes(&engines), &mut show)?)
            }
        };
        drop(bar);
        if self.json {
            let exported = exported.iter().flat_map(|report| report.programs.iter().map(json::program_json));
            let scripts = script.iter().flat_map(|report| report.programs.iter().map(json::script_json));
            print_json(exported.chain(scripts).collect());
        } else {
            exported.iter().for_each(|report| print(&report.to_string()));
            script.iter().for_each(|report| print(&report.to_string()));
        }
        let failed =
            exported.map_or(0, |report| report.failed()) + script.map_or(0, |report| report.failed());
        Ok(failed == 0)
    }
}

/// Prints a note if an engine is wanted that runs exported programs only.
fn note_without_scripts(wanted: &[String]) {
    let is_other = |name: &&String| name.parse::<fx::script::Runtime>().is_err();
    let others: Vec<&str> = wanted.iter().filter(is_other).map(String::as_str).collect();
    if !others.is_empty() {
        eprintln!(
            "note: programs of TorchScript run in the virtual machine, and not on {}",
            others.join(", ")
        );
    }
}

/// Returns what runs graphs of TorchScript among these.
fn runtimes(engines: &[check::Engine]) -> Vec<fx::script::Runtime> {
    engines.iter().filter_map(|engine| engine.name().parse().ok()).collect()
}
