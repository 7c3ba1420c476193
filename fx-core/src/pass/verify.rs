//! The checks of the driver after a pass.

use super::Pass;
use super::sample::sample_inputs;
use crate::lint::{Violation, agrees};
use crate::module::collect_buffers;
use crate::node::OpCode;
use crate::rng::{Generator, with_generator};
use crate::{Arg, Buffer, Graph, GraphModule, Result, Tensor, Type, TypeTree, Value, bail, err};

/// What is checked after each pass.
#[derive(Clone, Copy, Debug)]
pub(super) struct Checks {
    pub(super) lint: bool,
    pub(super) types: bool,
    /// How many runs are compared, from which seed, and within which tolerance for passes that are not exact.
    pub(super) runs: Option<(usize, u64, f64)>,
}

/// What is known of a module before a pass.
pub(super) struct Before {
    pub(super) graph: Graph,
    /// The type of the result, as far as it can be known.
    ty: Option<TypeTree>,
    /// The inputs and outcomes of runs.
    runs: Vec<(Vec<Value>, u64, Result<Outcome>)>,
}

/// What a run gives: the result, and the buffers after it.
struct Outcome {
    output: Value,
    buffers: Vec<(String, Tensor)>,
}

impl Before {
    pub(super) fn new(gm: &GraphModule, checks: &Checks) -> Result<Before> {
        let ty = if checks.types { output_type(gm) } else { None };
        let mut runs = Vec::new();
        if let Some((n, seed, _)) = checks.runs.filter(|_| !prints(gm.graph())) {
            for i in 0..n as u64 {
                let inputs = sample_inputs(gm, seed + i)?;
                let outcome = run(gm, &inputs, seed + i);
                runs.push((inputs, seed + i, outcome));
            }
        }
        Ok(Before { graph: gm.graph().clone(), ty, runs })
    }

    /// Returns how many runs can be compared: those that did not fail before the pass.
    pub(super) fn n_runs(&self) -> usize {
        self.runs.iter().filter(|(_, _, outcome)| outcome.is_ok()).count()
    }

    /// Checks what became of the module, which had the violations `old`; an error is what a pass broke.
    pub(super) fn check(
        &self,
        after: &GraphModule,
        checks: &Checks,
        pass: &Pass,
        old: &dyn Fn() -> Vec<Violation>,
    ) -> Result<()> {
        let (exact, retypes) = (pass.exact, pass.retypes);
        let signature = |graph: &Graph| -> Vec<(String, String)> {
            let shape = |tree: &Arg| tree.map(&mut |_| "tensor").to_string();
            graph.inputs().iter().map(|input| (input.name.to_string(), shape(&input.tree))).collect()
        };
        if !pass.resigns && signature(&self.graph) != signature(after.graph()) {
            bail!(Structure, "the signature changed");
        }
        if checks.lint {
            let mut violations = after.lint();
            // What was wrong before is not the fault of the pass.
            if !violations.is_empty() {
                let old = old();
                violations.retain(|violation| !old.contains(violation));
            }
            if let Some(first) = violations.into_iter().next() {
                return Err(first.into());
            }
        }
        if pass.resigns {
            return Ok(());
        }
        if let (true, false, Some(before)) = (checks.types, retypes, &self.ty) {
            // A size that depends on data may be found out, and one that is known may be computed now.
            let is_same = |ty: &TypeTree| {
                agrees(before, ty, &data_sizes(&self.graph, before))
                    || agrees(ty, before, &data_sizes(after.graph(), ty))
            };
            match output_type(after) {
                Some(ty) if !is_same(&ty) => {
                    bail!(DType, "the type of the result was {before}, it is {ty} now")
                }
                _ => {}
            }
        }
        let tolerance = checks.runs.map_or(0.0, |(_, _, tolerance)| tolerance);
        for (inputs, seed, before) in &self.runs {
            let Ok(before) = before else { continue };
            let outcome = run(after, inputs, *seed)?;
            compare(&before.output, &outcome.output, exact, retypes, tolerance, "the result")?;
            for (path, value) in &before.buffers {
                if let Some((_, new)) = outcome.buffers.iter().find(|(other, _)| other == path) {
                    let (old, new) = (Arg::Leaf(value.clone()), Arg::Leaf(new.clone()));
                    compare(&old, &new, exact, retypes, tolerance, &format!("the buffer {path}"))?;
                }
            }
        }
        Ok(())
    }
}

/// Compares what two programs with the same arguments do on `n` sets of inputs made from the types of the
/// first, from a seed: results and buffers, which may differ by `tolerance` of the greatest magnitude.
/// Returns how many runs were compared; those in which the first program fails are not. Fails if the programs
/// differ, or no inputs can be made.
pub fn compare_runs(
    before: &GraphModule,
    after: &GraphModule,
    n: usize,
    seed: u64,
    tolerance: f64,
) -> Result<usize> {
    let checks = Checks { lint: false, types: false, runs: Some((n, seed, tolerance)) };
    let known = Before::new(before, &checks)?;
    known.check(after, &checks, &Pass { exact: false, ..Pass::BASE }, &|| before.lint())?;
    Ok(known.n_runs())
}

/// Returns the type of the result for the declared types of the inputs; `None` if it cannot be inferred.
fn output_type(gm: &GraphModule) -> Option<TypeTree> {
    let inputs = vec![Arg::Leaf(Type::Any); gm.graph().placeholders().len()];
    let found = gm.infer(&inputs).ok()?;
    found.into_iter().find(|(id, _)| *id == gm.graph().output_node()).map(|(_, ty)| ty)
}

/// Returns the symbols of a type that no argument has: sizes that depend on data, which a pass may make known.
fn data_sizes(graph: &Graph, ty: &TypeTree) -> Vec<crate::Symbol> {
    let mut symbols = crate::fresh::symbols(ty);
    for (_, node) in graph.nodes().filter(|(_, node)| node.opcode() == OpCode::Placeholder) {
        let given = node.ty().map(crate::fresh::symbols).unwrap_or_default();
        symbols.retain(|symbol| !given.contains(symbol));
    }
    symbols
}

/// Returns whether running the graph writes to the world.
fn prints(graph: &Graph) -> bool {
    graph.nodes().any(|(_, node)| {
        node.op().is_some_and(|op| op.effects.host && op != crate::ops::check::OP)
            || node.opcode() != OpCode::Output && node.subgraphs().iter().any(|inner| prints(inner))
    })
}

/// Runs the module itself with a generator of its own, because a copy would hide faults of copies; restores
/// its buffers afterwards.
fn run(gm: &GraphModule, inputs: &[Value], seed: u64) -> Result<Outcome> {
    struct Restore<'a>(Vec<(&'a Buffer, Tensor)>);
    impl Drop for Restore<'_> {
        fn drop(&mut self) {
            self.0.drain(..).for_each(|(buffer, value)| buffer.store(value));
        }
    }
    let buffers = collect_buffers(gm);
    let _restore = Restore(buffers.iter().map(|(_, buffer)| (*buffer, buffer.load())).collect());
    let output = with_generator(&Generator::seeded(seed), || gm.evaluate(inputs))?;
    let buffers = buffers.iter().map(|(path, buffer)| (path.clone(), buffer.load())).collect();
    Ok(Outcome { output, buffers })
}

fn compare(
    before: &Value,
    after: &Value,
    exact: bool,
    retypes: bool,
    tolerance: f64,
    what: &str,
) -> Result<()> {
    let (a, b) = (before.leaves(), after.leaves());
    if a.len() != b.len() {
        bail!(Structure, "{what} had {} tensors, it has {} now", a.len(), b.len());
    }
    for (a, b) in a.into_iter().zip(b) {
        let (a, b) = (a.array()?, b.array()?);
        let b = if retypes { &b.cast(a.dtype()) } else { b };
        if exact && a.bits_eq(b) {
            continue;
        }
        let greatest =
            a.iter_scalars().map(|x| x.to_f64().abs()).filter(|x| x.is_finite()).fold(0.0, f64::max);
        let tolerance = if exact { 0.0 } else { tolerance };
        b.all_close(a, tolerance, tolerance * greatest)
            .map_err(|mismatch| err!(Check, "{what} differs: {mismatch}"))?;
    }
    if !before.eq_by(after, &|_, _| true) && before.leaves().is_empty() {
        bail!(Structure, "{what} was {before}, it is {after} now");
    }
    Ok(())
}
