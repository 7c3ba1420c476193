//! Random TorchScript programs, with the operators on tensors, and as graphs.

use std::cell::Cell;
use std::sync::Arc;

use fx_script::emit::Unit;
use fx_script::fuzz::ARGUMENTS;
use fx_script::load::{Program, Session};
use fx_script::source::Source;
use fx_script::value::Value;

pub use fx_script::fuzz::{Case, Config, Dialect, Failure, Summary};

use crate::import::TorchScript;
use crate::script::{AtenOperators, declared};
use crate::{GraphModule, Registry, Result, bail};

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

/// Returns whether a program can be a graph: `run`, whose tensors are all known, or `main`, whose tensors are
/// inputs. Fails if a graph has another outcome than the virtual machine.
fn agrees_as_graph(case: &Case, expected: &str, registry: &Registry) -> Result<bool> {
    let source = Source::new("program.py", case.text());
    let mut program = Program::from_text(&source)?;
    program.enter("run")?;
    let returns = Unit::of(&program)?.emit("run")?.returns;
    let lowered = TorchScript::from_program(program).registry(registry).load()?;
    let is_graph = match lowered.into_module() {
        Ok(gm) => {
            compare(&gm, &[], expected, &mut |value| declared(&value, &returns))?;
            true
        }
        Err(_) => false,
    };
    Ok(with_inputs(&source, registry)? || is_graph)
}

/// Checks the graph of `main` for the arguments that a program gives it; returns whether it is one. Fails as
/// [`agrees_as_graph`] does.
fn with_inputs(source: &Arc<Source>, registry: &Registry) -> Result<bool> {
    let operators = AtenOperators::new(registry.clone());
    let mut session = Session::new(Program::from_text(source)?, &operators)?;
    if !session.program().definitions.functions.contains_key(ARGUMENTS) {
        return Ok(false);
    }
    let mut arguments = || session.call_function(ARGUMENTS, Vec::new(), Vec::new())?.to_items();
    let (args, given) = (arguments()?, arguments()?);
    // Dictionaries whose keys are numbers are no inputs of graphs.
    let Ok(inputs) = given.iter().map(Value::to_arg).collect::<Result<Vec<_>>>() else { return Ok(false) };
    let result = session.call_function("main", args.clone(), Vec::new());
    let printed = session.take_output();
    let mut program = Program::from_text(source)?;
    program.enter("main")?;
    let unit = Unit::of(&program)?;
    let (signature, returns) = (unit.signature("main")?, unit.emit("main")?.returns);
    let lowered = TorchScript::from_program(program).registry(registry).args(&given).load()?;
    let written: Vec<usize> = lowered
        .report()
        .written_inputs
        .iter()
        .filter_map(|name| signature.parameters.iter().position(|(own, ..)| **own == **name))
        .collect();
    let Ok(gm) = lowered.into_module() else { return Ok(false) };
    let with_written = |result: Value, written: Vec<Value>| match written.is_empty() {
        true => result,
        false => Value::tuple([result, Value::tuple(written)]),
    };
    let result =
        result.map(|value| with_written(value, written.iter().map(|&at| args[at].clone()).collect()));
    let expected = fx_script::fuzz::outcome(result, &printed)?;
    compare(&gm, &inputs, &expected, &mut |value| {
        if written.is_empty() {
            return declared(&value, &returns);
        }
        let [result, written] = &value.to_items()?[..] else { bail!(Structure, "expected a pair") };
        Ok(with_written(declared(result, &returns)?, written.to_items()?))
    })?;
    Ok(true)
}

/// Compares what engines do with a graph with the outcome of the virtual machine.
fn compare(
    gm: &GraphModule,
    args: &[crate::Value],
    expected: &str,
    declared: &mut dyn FnMut(Value) -> Result<Value>,
) -> Result<()> {
    for name in ["eager", "fused", "compile", "pure"] {
        let result = crate::program::evaluate_by(gm, args, name);
        let result = result.and_then(|value| declared(Value::of(&value)?));
        let got = fx_script::fuzz::outcome(result, "")?;
        // What a graph prints goes to the output of the process.
        let text = expected.split(" printed ").next().unwrap_or_default();
        if got.split(" printed ").next() != Some(text) {
            bail!(
                Check,
                "the graph on {name} gives another outcome: {expected} becomes {got}\n{}",
                gm.graph().to_text()
            );
        }
    }
    Ok(())
}
