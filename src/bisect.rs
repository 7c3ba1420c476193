//! The search for the change of a pass that makes results wrong.

use crate::pass::{Culprit, compare_runs};
use crate::weights::Weights;
use crate::{GraphModule, Passes, Result, Tensor, check, err};

/// How results are known to be right.
#[derive(Clone, Copy)]
pub enum Reference<'a> {
    /// By the inputs of a file and the outputs that it expects, as [`program::run`](crate::program::run)
    /// reads it; where it expects none, by those of the program before any pass.
    File(&'a Weights),
    /// By runs on inputs that are made from the types of the arguments, compared with the program before any pass.
    Runs {
        /// How many.
        n: usize,
        /// The seed of the inputs.
        seed: u64,
        /// How far results may be off, relative to the greatest magnitude.
        tolerance: f64,
    },
}

/// Finds the first pass, and of its changes the first one, that makes results wrong; `None` if all are right.
/// The program stays. Fails if the program does before any pass, or a pass fails.
pub fn bisect(gm: &GraphModule, passes: &Passes, reference: Reference<'_>) -> Result<Option<Culprit>> {
    match reference {
        Reference::Runs { n, seed, tolerance } => passes.bisect(gm, &|after| {
            let compared = compare_runs(gm, after, n, seed, tolerance)?;
            if compared == 0 {
                return Err(err!(
                    Check,
                    "no run can be compared: the program fails on all generated inputs, or prints"
                )
                .help("give inputs by a file"));
            }
            Ok(())
        }),
        Reference::File(io) => {
            let before = outputs(gm, io)?;
            passes.bisect(gm, &|after| {
                for (set, (got, before)) in outputs(after, io)?.iter().zip(&before).enumerate() {
                    match io.contains(&format!("{set}.out0")) {
                        true => drop(check::agree(got, io, set)?),
                        false => same(got, before)?,
                    }
                }
                Ok(())
            })
        }
    }
}

/// Runs a copy of the program on every input set of a file.
fn outputs(gm: &GraphModule, io: &Weights) -> Result<Vec<Vec<Tensor>>> {
    let mut sets = Vec::new();
    let copy = gm.clone();
    let runner: check::Runner = Box::new(move |args| copy.clone().evaluate(args));
    while io.contains(&format!("{}.in0", sets.len())) {
        sets.push(check::outputs(gm, &runner, io, sets.len())?);
    }
    if sets.is_empty() {
        return Err(
            err!(Load, "there is no input set in {}", io.origin()).help("the first input is called 0.in0")
        );
    }
    Ok(sets)
}

fn same(got: &[Tensor], before: &[Tensor]) -> Result<()> {
    if got.len() != before.len() {
        crate::bail!(Structure, "there were {} outputs, there are {} now", before.len(), got.len());
    }
    for (i, (got, before)) in got.iter().zip(before).enumerate() {
        let (a, b) = (got.array()?, before.array()?);
        let greatest =
            b.iter_scalars().map(|x| x.to_f64().abs()).filter(|x| x.is_finite()).fold(0.0, f64::max);
        a.all_close(b, check::RTOL, check::RTOL * greatest)
            .map_err(|mismatch| err!(Check, "output {i}: {mismatch}"))?;
    }
    Ok(())
}
