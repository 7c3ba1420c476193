//! The command line of fx.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "fx", version, about = "Capture, inspect, rewrite and run tensor programs")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run operator reference cases
    Conformance {
        /// The folder with NAME.json and NAME.safetensors, or with a folder ops of them
        dir: PathBuf,
        /// Only this operator, by PyTorch's name or that of the row; pad* is a prefix; may be repeated
        #[arg(long, value_name = "NAME")]
        only: Vec<String>,
        /// List every failure, and how often the shape rule knows no type
        #[arg(long)]
        verbose: bool,
    },
    /// Run exported programs and compare with what PyTorch returned
    Check {
        /// The folder with NAME.pt2 and NAME.io.safetensors
        dir: PathBuf,
    },
}

fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs a command; returns whether what it checked holds.
#[allow(clippy::print_stdout, reason = "the output of the command line")]
fn run(command: Command) -> fx::Result<bool> {
    match command {
        Command::Conformance { dir, only, verbose } => {
            let only: Vec<&str> = only.iter().map(String::as_str).collect();
            let report = fx::conformance::run(&dir, &only)?;
            if verbose {
                for op in &report.ops {
                    let untyped = match op.untyped {
                        0 => String::new(),
                        n => format!("  {n} without a type from the shape rule"),
                    };
                    println!("{}  {}/{}{untyped}", op.name, op.passed(), op.total);
                    op.failures.iter().for_each(|failure| println!("  {failure}"));
                }
                println!("{} passed, {} failed", report.passed(), report.failed());
            } else {
                println!("{report}");
            }
            Ok(report.failed() == 0)
        }
        Command::Check { dir } => {
            let report = fx::check::dir(&dir, fx::check::ENGINES)?;
            println!("{report}");
            Ok(report.failed() == 0)
        }
    }
}
