//! Random TorchScript programs, with the operators on tensors, and as graphs.

use std::cell::Cell;

use fx_script::emit::Unit;
use fx_script::load::Program;
use fx_script::source::Source;
use fx_script::value::Value;

pub use fx_script::fuzz::{Case, Config, Dialect, Failure, Summary};

use crate::import::TorchScript;
use crate::script::{AtenOperators, declared};
use crate::{Registry, Result, bail};

/// Runs random programs on the virtual machine and compares them with what their printed texts do, with the graphs
/// that they are, and with Python or PyTorch if `config` names an interpreter. `done` hears how many are done.
/// Returns the findings, and how many of the programs are graphs.
///
/// Fails if the interpreter does not start or ends.
pub fn run(config: &Config, done: &dyn Fn(u64)) -> Result<(Summary, u64)> {
    let registry = crate::registry();
    let operators = AtenOperators::new(registry.clone());
    let n_graphs = Cell::new(0u64);
    let law = &mut |case: &Case, expected: &str| {
        if agrees_as_graph(case, expected, &registry)? {
            n_graphs.set(n_graphs.get() + 1);
        }
        Ok(())
    };
    let summary = fx_script::fuzz::run(config, &operators, law, done)?;
    Ok((summary, n_graphs.get()))
}

/// Returns whether a program can be a graph. Fails if the graph has another outcome than the virtual machine.
fn agrees_as_graph(case: &Case, expected: &str, registry: &Registry) -> Result<bool> {
    let mut program = Program::from_text(&Source::new("program.py", case.text()))?;
    program.enter("run")?;
    let returns = Unit::of(&program)?.emit("run")?.returns;
    let lowered = TorchScript::from_program(program).registry(registry).load()?;
    let Ok(gm) = lowered.into_module() else { return Ok(false) };
    let result = gm.call_values(&[]).and_then(|value| declared(&Value::of(&value)?, &returns));
    let got = fx_script::fuzz::outcome(result, "")?;
    if got != expected {
        bail!(Check, "the graph gives another outcome: {expected} becomes {got}\n{}", gm.graph().to_text());
    }
    Ok(true)
}

#[cfg(test)]
mod tests;
