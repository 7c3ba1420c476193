//! The command line of fx: a file a command, which has its arguments and prints its result. The work is done by
//! functions of the library.
#![allow(clippy::print_stdout, reason = "the output of the command line")]

mod bench;
mod bisect;
mod check;
mod codegen;
mod conformance;
mod diff;
mod dot;
mod dump;
mod explain;
mod export;
mod fuzz;
mod json;
mod lint;
mod ops;
mod output;
mod pass;
mod print;
mod program;
mod report;
mod run;
mod script;
mod summary;
mod table;
mod view;

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
    Print(print::Print),
    Table(table::Table),
    Lint(lint::Lint),
    Dot(dot::Dot),
    View(view::View),
    Codegen(codegen::Codegen),
    Run(run::Run),
    Check(check::Check),
    Conformance(conformance::Conformance),
    Pass(pass::Pass),
    Dump(dump::Dump),
    Explain(explain::Explain),
    Export(export::Export),
    Bench(bench::Bench),
    Script(script::Script),
    Report(report::Report),
    Summary(summary::Summary),
    Diff(diff::Diff),
    Bisect(bisect::Bisect),
    Fuzz(fuzz::Fuzz),
    Ops(ops::Ops),
}

impl Command {
    /// Runs the command; returns whether what it checked holds.
    fn run(self) -> fx::Result<bool> {
        match self {
            Command::Print(command) => command.run(),
            Command::Table(command) => command.run(),
            Command::Lint(command) => command.run(),
            Command::Dot(command) => command.run(),
            Command::View(command) => command.run(),
            Command::Codegen(command) => command.run(),
            Command::Run(command) => command.run(),
            Command::Check(command) => command.run(),
            Command::Conformance(command) => command.run(),
            Command::Pass(command) => command.run(),
            Command::Dump(command) => command.run(),
            Command::Explain(command) => command.run(),
            Command::Export(command) => command.run(),
            Command::Bench(command) => command.run(),
            Command::Script(command) => command.run(),
            Command::Report(command) => command.run(),
            Command::Summary(command) => command.run(),
            Command::Diff(command) => command.run(),
            Command::Bisect(command) => command.run(),
            Command::Fuzz(command) => command.run(),
            Command::Ops(command) => command.run(),
        }
    }
}

/// Fails if a variable of the environment names what there is not.
fn check_environment() -> fx::Result<()> {
    fx::logging::check()?;
    let known = fx::pass::all();
    for name in fx::logging::limited_passes()? {
        if !known.iter().any(|pass| pass.name == name) {
            let names: Vec<&str> = known.iter().map(|pass| pass.name).collect();
            return Err(fx::err!(Argument, "FX_OPT_LIMIT: there is no pass {name:?}")
                .help(format!("the passes are {}", names.join(", "))));
        }
    }
    Ok(())
}

fn main() -> ExitCode {
    let command = Cli::parse().command;
    match check_environment().and_then(|()| command.run()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}
