//! `fx conformance`: operators beside PyTorch.

use std::path::PathBuf;

use clap::Args;
use fx::{conformance, program};

use crate::json;
use crate::output::{Bar, print, print_json};

/// Run operator reference cases
#[derive(Args)]
pub(crate) struct Conformance {
    /// The folder with NAME.json and NAME.safetensors, or with a folder ops of them
    dir: PathBuf,
    /// Only this operator, by PyTorch's name or that of the row; pad* is a prefix; may be repeated
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Run each case on this engine too, as a program of one call; may be repeated
    #[arg(long, value_name = "NAME")]
    engine: Vec<String>,
    /// List every failure, and how often the shape rule knows no type
    #[arg(long)]
    verbose: bool,
    /// Print a JSON array of the operators
    #[arg(long, conflicts_with = "verbose")]
    json: bool,
}

impl Conformance {
    pub(crate) fn run(self) -> fx::Result<bool> {
        let only: Vec<&str> = self.only.iter().map(String::as_str).collect();
        let engines = program::engines(&self.engine)?;
        let mut bar = Bar::new();
        let report = conformance::run_with(&self.dir, &only, &engines, &mut |done, all, name| {
            bar.show(done, all, name);
        })?;
        drop(bar);
        if self.json {
            print_json(report.ops.iter().map(json::op_json).collect());
        } else if self.verbose {
            report.ops.iter().for_each(print_operator);
            print(&format!("{} passed, {} failed", report.passed(), report.failed()));
        } else {
            print(&report.to_string());
        }
        Ok(report.failed() == 0)
    }
}

fn print_operator(op: &conformance::OpReport) {
    let untyped = match op.untyped {
        0 => String::new(),
        n => format!("  {n} without a type from the shape rule"),
    };
    print(&format!("{}  {}/{}{untyped}", op.name, op.passed(), op.total));
    op.failures.iter().for_each(|failure| print(&format!("  {failure}")));
}
