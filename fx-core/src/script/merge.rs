//! The ends of two sides become one: a `cond` for the values in which they differ.

use std::sync::Arc;

use super::flow::{Exit, Outcome, Pushes};
use super::items::{ListOps, failure};
use crate::ops::{cond, logical_not};
use crate::region::{refill, unpacked};
use crate::trace::{OpenRegion, apply_at};
use crate::{Arg, Array, Dim, Result, SourceLoc, Symbol, Tensor, Value, err};

/// A side that has ended: its sub-graph, and the values it ended with.
pub(super) struct Side {
    pub(super) region: OpenRegion,
    pub(super) outcome: Outcome,
}

/// The leaves in which two sides differ.
#[derive(Default)]
struct Outputs {
    pairs: Vec<(Tensor, Tensor)>,
}

/// A leaf after the branch: the same on both sides, or a result of the `cond`.
enum Merged {
    Same(Tensor),
    Output(usize),
}

/// A value after the branch.
struct Template {
    structure: Value,
    leaves: Vec<Merged>,
}

impl Outputs {
    fn join(&mut self, sides: [&Side; 2], name: &str, a: &Value, b: &Value) -> Result<Template> {
        if let Some(error) = failure(a).or(failure(b)) {
            return Err(error.clone());
        }
        if a.map(&mut |_| ()) != b.map(&mut |_| ()) {
            return Err(differ(name, a, b));
        }
        let mut leaves = Vec::new();
        for (a, b) in a.leaves().into_iter().zip(b.leaves()) {
            let is_outside = !sides.iter().any(|side| side.region.owns(a));
            if is_outside && a.identity() == b.identity() {
                leaves.push(Merged::Same(a.clone()));
            } else if let Some(error) = a.error().or(b.error()) {
                return Err(error.clone());
            } else {
                leaves.push(Merged::Output(self.output(a, b)));
            }
        }
        Ok(Template { structure: a.clone(), leaves })
    }

    fn output(&mut self, a: &Tensor, b: &Tensor) -> usize {
        let same = |(c, d): &(Tensor, Tensor)| c.identity() == a.identity() && d.identity() == b.identity();
        self.pairs.iter().position(same).unwrap_or_else(|| {
            self.pairs.push((a.clone(), b.clone()));
            self.pairs.len() - 1
        })
    }
}

impl Template {
    fn fill(&self, outputs: &[Value]) -> Result<Value> {
        let leaf = |leaf: &Merged| match leaf {
            Merged::Same(tensor) => Arg::Leaf(tensor.clone()),
            Merged::Output(i) => outputs[*i].clone(),
        };
        refill(&self.structure, &self.leaves.iter().map(leaf).collect::<Vec<_>>())
    }
}

fn differ(name: &str, a: &Value, b: &Value) -> crate::Error {
    let error = err!(Structure, "{name} is {a:?} if the condition holds, otherwise {b:?}");
    if a.leaves().is_empty() && b.leaves().is_empty() {
        return error.help(
            "while tracing, a number, text or flag has one value; make it a tensor: `fx::Tensor::new(..)`",
        );
    }
    error.help("give both sides the same structure of tensors; sizes alone may differ")
}

/// Where two sides are merged, and by what.
pub(super) struct Merging<'a> {
    /// The place of the branch.
    pub(super) place: &'a SourceLoc,
    pub(super) lists: Option<&'static ListOps>,
    pub(super) pushes: &'a Pushes,
}

/// Merges two sides, outside of both of their sub-graphs: what happens after the branch to the variables of the
/// second side and to `value`. Fails if they differ in more than the values of tensors.
pub(super) fn merge(
    predicate: &Tensor,
    then: &Side,
    otherwise: &Side,
    value: Option<(&Value, &Value)>,
    is_asked: &dyn Fn(u32) -> bool,
    Merging { place, lists, pushes }: Merging<'_>,
) -> Result<(Outcome, Option<Value>)> {
    let sides = [then, otherwise];
    let (a, b) = (&then.outcome, &otherwise.outcome);
    let mut outputs = Outputs::default();
    let mut variables = Vec::new();
    for (id, name, first) in a.variables.iter().filter(|(id, ..)| is_asked(*id)) {
        if let Some((.., second)) = b.variables.iter().find(|(other, ..)| other == id) {
            let joined = outputs.join(sides, &format!("`{name}`"), first, second);
            variables.push((*id, *name, joined.map_err(|error| pushes.locate(*id, error))?));
        }
    }
    let value = value.map(|(a, b)| outputs.join(sides, "the value of `if`", a, b)).transpose()?;
    let known = sides.iter().flat_map(|side| side.region.outer_symbols()).collect();
    let absent = Absent { known, lists, place };
    let mut results = Vec::new();
    for exit in [a, b].into_iter().flat_map(|side| side.results.iter().map(|(exit, _)| *exit)) {
        if results.iter().any(|(other, _)| *other == exit) {
            continue;
        }
        let name = if exit == Exit::Return { "the result" } else { "the value of `break`" };
        let template = match (a.result(exit), b.result(exit)) {
            (Some(a), Some(b)) => outputs.join(sides, name, a, b)?,
            (Some(a), None) => outputs.join(sides, name, a, &absent.like(a)?)?,
            (None, Some(b)) => outputs.join(sides, name, &absent.like(b)?, b)?,
            (None, None) => continue,
        };
        results.push((exit, template));
    }
    let mut exits: Vec<Exit> = a.exits.iter().map(|(exit, _)| *exit).collect();
    exits.extend(
        b.exits.iter().map(|(exit, _)| *exit).filter(|exit| !exits.contains(exit)).collect::<Vec<_>>(),
    );
    let flags: Vec<(Exit, Flag)> = exits
        .into_iter()
        .map(|exit| {
            let flag = match (a.flag(exit), b.flag(exit)) {
                (Taken::Always, Taken::Always) => Flag::Always,
                (Taken::Always, Taken::Never) => Flag::If,
                (Taken::Never, Taken::Always) => Flag::IfNot,
                (a, b) => Flag::Output(outputs.output(&a.tensor(), &b.tensor())),
            };
            (exit, flag)
        })
        .collect();
    let found = emit(predicate, sides, &outputs, place)?;
    let taken = |flag: Flag| -> Result<Option<Tensor>> {
        Ok(match flag {
            Flag::Always => None,
            Flag::If => Some(predicate.clone()),
            Flag::IfNot => Some(Tensor::try_from(apply_at(
                logical_not::OP,
                false,
                &[predicate.into()],
                &[],
                place.clone(),
            )?)?),
            Flag::Output(i) => Some(Tensor::try_from(found[i].clone())?),
        })
    };
    let merged = Outcome {
        variables: variables
            .into_iter()
            .map(|(id, name, template)| Ok((id, name, template.fill(&found)?)))
            .collect::<Result<_>>()?,
        exits: flags.into_iter().map(|(exit, flag)| Ok((exit, taken(flag)?))).collect::<Result<_>>()?,
        leaves: a.leaves && b.leaves,
        results: results
            .into_iter()
            .map(|(exit, template)| Ok((exit, template.fill(&found)?)))
            .collect::<Result<_>>()?,
    };
    Ok((merged, value.map(|template| template.fill(&found)).transpose()?))
}

/// Whether an exit is taken after a branch.
enum Flag {
    Always,
    If,
    IfNot,
    Output(usize),
}

/// Whether a side takes an exit.
pub(super) enum Taken {
    Never,
    Always,
    If(Tensor),
}

impl Taken {
    pub(super) fn tensor(self) -> Tensor {
        match self {
            Taken::Never => Tensor::new(crate::Array::scalar(false)),
            Taken::Always => Tensor::new(crate::Array::scalar(true)),
            Taken::If(tensor) => tensor,
        }
    }
}

/// What stands in the place of values that a side or a round does not have.
pub(super) struct Absent<'a> {
    /// The symbols that have a value outside.
    pub(super) known: Vec<Symbol>,
    pub(super) lists: Option<&'static ListOps>,
    pub(super) place: &'a SourceLoc,
}

impl Absent<'_> {
    /// Returns a value of the structure and dtypes of another one, which nothing reads. Sizes that have no
    /// value outside are 0. Fails if dtype or rank of a tensor are not known.
    pub(super) fn like(&self, value: &Value) -> Result<Value> {
        value.try_flat_map(&mut |tensor: &Tensor| {
            let ty = tensor.type_tree()?;
            let ty = ty.tensor().ok_or_else(|| {
                err!(Trace, "a tensor whose type is not known leaves a branch or loop on a tensor by `return` or `break`")
                    .help("give the inputs of the trace specs, such as `.input(\"x\", \"f32[n, 3]\")`")
            })?;
            let is_known = |dim: &Dim| dim.symbols().iter().all(|symbol| self.known.contains(symbol));
            let full = self.lists.filter(|_| ty.shape.iter().any(|dim| !dim.is_known() && is_known(dim)));
            let Some(ops) = full else {
                let size = |dim: &Dim| dim.known().and_then(|n| usize::try_from(n).ok()).unwrap_or(0);
                let sizes: Vec<usize> = ty.shape.iter().map(size).collect();
                return Ok(Arg::Leaf(Array::zeros(ty.dtype, &sizes)?.into()));
            };
            let sizes = ty.shape.iter().map(|dim| if is_known(dim) { dim.clone() } else { Dim::from(0) });
            let args = [Arg::list(sizes.map(Value::from)), Arg::Int(0)];
            apply_at(ops.full, false, &args, &[("dtype", Arg::DType(ty.dtype))], self.place.clone())
        })
    }
}

/// Records the `cond` of two sides and returns its results.
fn emit(predicate: &Tensor, sides: [&Side; 2], outputs: &Outputs, place: &SourceLoc) -> Result<Vec<Value>> {
    let pick = |take: fn(&(Tensor, Tensor)) -> &Tensor| -> Value {
        match &outputs.pairs[..] {
            [pair] => Arg::Leaf(take(pair).clone()),
            pairs => Arg::list(pairs.iter().map(|pair| Arg::Leaf(take(pair).clone()))),
        }
    };
    let regions =
        [sides[0].region.close(pick(|pair| &pair.0))?, sides[1].region.close(pick(|pair| &pair.1))?];
    let has_effects = regions.iter().any(|region| !region.graph.is_pure());
    if outputs.pairs.is_empty() && !has_effects {
        return Ok(Vec::new());
    }
    let mut all: Vec<(Value, String)> = Vec::new();
    for region in &regions {
        for (value, name) in region.used(&[], &[])? {
            if !all.iter().any(|(other, _)| is_same(other, &value)) {
                all.push((value, name));
            }
        }
    }
    let [then, otherwise] = &regions;
    let then = then.rearranged(&[], &[], &all, &is_same)?;
    let otherwise = otherwise.rearranged(&[], &[], &all, &is_same)?;
    let operands = Arg::list(all.into_iter().map(|(value, _)| value));
    let args = [predicate.into(), Arc::new(then).into(), Arc::new(otherwise).into(), operands];
    let out = apply_at(cond::OP, false, &args, &[], place.clone())?;
    match &outputs.pairs[..] {
        [] => Ok(Vec::new()),
        [_] => Ok(vec![out]),
        pairs => {
            let structure = Arg::list(pairs.iter().map(|(a, _)| Arg::Leaf(a.clone())));
            let list = unpacked(&structure, &out, place)?;
            Ok(list.items().unwrap_or_default().to_vec())
        }
    }
}

/// Returns whether two operands are the same value or symbol.
pub(super) fn is_same(a: &Value, b: &Value) -> bool {
    matches!((a, b), (Arg::Leaf(a), Arg::Leaf(b)) if a.identity() == b.identity())
}
