//! A step for each element along the first axis: written out where there are few, else a `while_loop` over an
//! index.
//!
//! `scan`, `map` and recurrences without a row of their own are made of it.

use super::build::{Attempt, Builder, Entry};
use crate::{Arg, DType, Dim, TensorType, err, ops};

/// The most steps that are written out.
const MAX_WRITTEN_OUT: i64 = 128;

/// What a loop goes over.
pub(super) struct Steps {
    /// How many there are.
    pub(super) n: Dim,
    /// Whether the last element comes first.
    pub(super) reverse: bool,
    /// What a step hands to the next.
    pub(super) carried: Vec<Arg>,
    /// What is given to the steps element by element.
    pub(super) xs: Vec<Arg>,
    /// What every step is given.
    pub(super) captured: Vec<Arg>,
}

/// One step: from what is carried, the elements and what is captured to what is carried on and the results of
/// the step.
pub(super) type Step<'s, 'a> =
    &'s mut dyn FnMut(&mut Builder<'a>, Vec<Arg>, Vec<Arg>, Vec<Arg>) -> Attempt<(Vec<Arg>, Vec<Arg>)>;

/// Returns what the last step carries on, and the results of all steps, stacked along a first axis.
pub(super) fn run<'a>(
    builder: &mut Builder<'a>,
    steps: Steps,
    step: Step<'_, 'a>,
) -> Attempt<(Vec<Arg>, Vec<Arg>)> {
    match steps.n.known() {
        Some(n) if (1..=MAX_WRITTEN_OUT).contains(&n) => written_out(builder, steps, n, step),
        _ => looped(builder, steps, step),
    }
}

fn written_out<'a>(
    builder: &mut Builder<'a>,
    steps: Steps,
    n: i64,
    step: Step<'_, 'a>,
) -> Attempt<(Vec<Arg>, Vec<Arg>)> {
    let mut carried = steps.carried;
    let mut results: Vec<Vec<Arg>> = Vec::new();
    for i in 0..n {
        let at = if steps.reverse { n - 1 - i } else { i };
        let mut xs = Vec::new();
        for x in &steps.xs {
            xs.push(Arg::Leaf(builder.call("select", [x.clone(), Arg::Int(0), Arg::Int(at)])?));
        }
        let (next, ys) = step(builder, carried, xs, steps.captured.clone())?;
        carried = next;
        results.push(ys);
    }
    if steps.reverse {
        results.reverse();
    }
    let n_results = results.first().map_or(0, Vec::len);
    let mut stacked = Vec::new();
    for i in 0..n_results {
        let parts = Arg::list(results.iter().map(|ys| ys[i].clone()));
        stacked.push(Arg::Leaf(builder.call("stack", [parts, Arg::Int(0)])?));
    }
    Ok((carried, stacked))
}

fn looped<'a>(builder: &mut Builder<'a>, steps: Steps, step: Step<'_, 'a>) -> Attempt<(Vec<Arg>, Vec<Arg>)> {
    let Steps { n, reverse, carried, xs, captured } = steps;
    let (n_carried, n_xs) = (carried.len(), xs.len());
    let index = number(builder, 0)?;
    let mut outer = [vec![index], carried].concat();

    // The types of the results are those of a step.
    let mut types: Vec<TensorType> = Vec::new();
    let all = [outer.clone(), xs.clone(), captured.clone()].concat();
    builder.region("step", &[], &all, |builder, entries| {
        let args = values(builder, entries)?;
        let (next, ys) = one(builder, &args, n_carried, n_xs, step)?;
        for y in &ys {
            let node = y.leaf().ok_or_else(|| err!(Load, "expected tensors as the results of a step"))?;
            types.push(builder.tensor_type(*node)?);
        }
        Ok(Arg::list(next))
    })?;
    for ty in &types {
        let sizes = Arg::list(std::iter::once(&n).chain(ty.shape.iter()).map(|dim| Arg::dim(dim.clone())));
        let full = builder.row("full")?;
        let results = builder.emit(full, vec![sizes, Arg::Int(0)], &[("dtype", Arg::DType(ty.dtype))])?;
        outer.push(Arg::Leaf(results));
    }

    let n_outer = outer.len();
    let captured = [xs, captured].concat();
    let all = [outer.clone(), captured.clone()].concat();
    let count = Arg::dim(n.clone());
    let test = builder.region("test", &[], &all, |builder, entries| {
        let args = values(builder, entries)?;
        builder.call("lt", [args[0].clone(), count.clone()]).map(Arg::Leaf)
    })?;
    let body = builder.region("body", &[], &all, |builder, entries| {
        let args = values(builder, entries)?;
        let i = args[0].clone();
        let at = if reverse {
            let last = Arg::dim(n.clone() - Dim::new(1));
            Arg::Leaf(builder.call("rsub", [i.clone(), last])?)
        } else {
            i.clone()
        };
        let mut inner = vec![at.clone()];
        inner.extend(args[1..=n_carried].iter().cloned());
        inner.extend(args[n_outer..].iter().cloned());
        let (next, ys) = one(builder, &inner, n_carried, n_xs, step)?;
        let mut out = vec![Arg::Leaf(builder.call("add", [i, Arg::Int(1)])?)];
        out.extend(next);
        for (results, y) in args[1 + n_carried..n_outer].iter().zip(ys) {
            let index = Arg::list([at.clone()]);
            out.push(Arg::Leaf(builder.call("index_put", [results.clone(), index, y])?));
        }
        Ok(Arg::list(out))
    })?;
    let row = builder.row(ops::while_loop::OP.name)?;
    let args = vec![test.into(), body.into(), Arg::list(outer), Arg::list(captured)];
    let node = builder.emit(row, args, &[])?;
    let mut parts = Vec::new();
    for i in 1..n_outer {
        parts.push(Arg::Leaf(builder.call("getitem", [Arg::Leaf(node), Arg::Int(i as i64)])?));
    }
    let results = parts.split_off(n_carried);
    Ok((parts, results))
}

/// Takes the elements at an index, `args[0]`, and makes a step.
fn one<'a>(
    builder: &mut Builder<'a>,
    args: &[Arg],
    n_carried: usize,
    n_xs: usize,
    step: Step<'_, 'a>,
) -> Attempt<(Vec<Arg>, Vec<Arg>)> {
    let (carried, rest) = args[1..].split_at(n_carried);
    let (xs, captured) = rest.split_at(n_xs);
    let mut elements = Vec::new();
    for x in xs {
        let index = Arg::tuple([args[0].clone()]);
        elements.push(Arg::Leaf(builder.call("getitem", [x.clone(), index])?));
    }
    step(builder, carried.to_vec(), elements, captured.to_vec())
}

fn values<'a>(builder: &mut Builder<'a>, entries: Vec<Entry>) -> Attempt<Vec<Arg>> {
    entries.into_iter().map(|entry| builder.present(entry)).collect()
}

fn number(builder: &mut Builder<'_>, n: i64) -> Attempt<Arg> {
    let full = builder.row("full")?;
    let dtype = Arg::DType(DType::I64);
    builder.emit(full, vec![Arg::list([]), Arg::Int(n)], &[("dtype", dtype)]).map(Arg::Leaf)
}
