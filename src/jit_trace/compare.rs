//! Comparisons of recordings and results.

use std::collections::HashMap;

use super::diagnostic::Finding;
use super::inspect::{Found, first_of};
use super::structure::{line_of, module_of};
use crate::graph_diff::{Change, Line, graph_diff};
use crate::trace::{Read, ReadKind};
use crate::{
    Arg, Attribute, DType, Error, GraphModule, NodeId, OpCode, Result, SourceLoc, Tensor, Type, TypeTree,
    Value,
};

/// Returns the first difference of two recordings of one function; `None` if they compute the same.
pub(super) fn difference(first: &GraphModule, second: &GraphModule) -> Result<Option<Change>> {
    let is_same =
        first.graph().to_string() == second.graph().to_string() && has_same_constants(first, second);
    if is_same { Ok(None) } else { Ok(graph_diff(first, second)?.changes.into_iter().next()) }
}

/// As [`difference`], for recordings with arguments of other types.
pub(super) fn difference_of_nodes(first: &GraphModule, second: &GraphModule) -> Result<Option<Change>> {
    Ok(first_of(graph_diff(first, second)?.changes))
}

fn has_same_constants(first: &GraphModule, second: &GraphModule) -> bool {
    first.attributes().all(|(path, attribute)| match (attribute, second.attribute(path)) {
        (Attribute::Constant(a), Ok(Attribute::Constant(b))) => a.bits_eq(b),
        (Attribute::Constant(_), _) => false,
        _ => true,
    })
}

/// Returns the lines of a change.
pub(super) fn lines(change: &Change) -> (Option<Line>, Option<Line>) {
    match change {
        Change::Changed { before, after } => (Some(before.clone()), Some(after.clone())),
        Change::Removed(line) => (Some(line.clone()), None),
        Change::Added(line) => (None, Some(line.clone())),
        Change::Inside { node, diff, .. } => match diff.changes.first() {
            Some(change) => lines(change),
            None => (Some(node.clone()), None),
        },
        Change::Signature { .. } | Change::Attribute { .. } => (None, None),
    }
}

/// Returns a change as the text of the first and of the second graph.
pub(super) fn texts(first: &GraphModule, second: &GraphModule, change: &Change) -> (String, String) {
    if let Change::Attribute { path, .. } = change {
        let text = |gm: &GraphModule| match gm.attr(path) {
            Ok(tensor) => short(&tensor),
            Err(_) => "nothing".to_owned(),
        };
        return (text(first), text(second));
    }
    let (a, b) = lines(change);
    let text = |line: Option<Line>| line.map_or_else(|| "nothing".to_owned(), |line| line.text);
    (text(a), text(b))
}

fn short(tensor: &Tensor) -> String {
    match tensor.array() {
        Ok(array) if array.shape().iter().product::<usize>() <= 8 => {
            array.to_string().split_whitespace().collect::<Vec<_>>().join(" ")
        }
        _ => format!("{tensor:?}"),
    }
}

/// Returns the line of the user's program that a change comes from.
pub(super) fn place(first: &GraphModule, second: &GraphModule, change: &Change) -> Option<SourceLoc> {
    if let Change::Attribute { path, .. } = change {
        let reader = first.graph().find_nodes(OpCode::GetAttr, Some(path)).first().copied()?;
        return line_of(first, reader);
    }
    let (a, b) = lines(change);
    let of = |gm: &GraphModule, line: &Line| {
        let written = || line.source.as_deref().and_then(location);
        written().or_else(|| gm.graph().find(&line.name).and_then(|id| line_of(gm, id)))
    };
    a.as_ref().and_then(|line| of(first, line)).or_else(|| b.as_ref().and_then(|line| of(second, line)))
}

/// Reads a location as it is written.
fn location(text: &str) -> Option<SourceLoc> {
    let mut parts = text.rsplitn(3, ':');
    let (column, line, file) = (parts.next()?, parts.next()?, parts.next()?);
    Some(SourceLoc::new(file, line.parse().ok()?, column.parse().ok()?))
}

/// Returns the line of the first node whose type is another in the second of two graphs of the same nodes.
pub(super) fn other_type(first: &GraphModule, second: &GraphModule) -> Option<SourceLoc> {
    let differs = first.graph().nodes().zip(second.graph().nodes()).find(|((_, a), (_, b))| a.ty() != b.ty());
    differs.and_then(|((id, _), _)| line_of(first, id))
}

/// Writes an error as the line of a graph.
pub(super) fn line_of_error(error: &Error) -> Line {
    let source = error.source_loc().map(ToString::to_string);
    Line { name: String::new(), text: format!("an error, {}", error.message()), source }
}

/// Returns whether two reads are one that saw the same.
pub(super) fn sees_same(a: &Read, b: &Read) -> bool {
    a.at == b.at && a.what == b.what && a.seen == b.seen && a.fingerprint == b.fingerprint
}

/// Returns whether a finding is that of a read.
pub(super) fn is_of_read(finding: &Finding) -> bool {
    matches!(finding, Finding::FrozenNumber { .. } | Finding::DataBranch { .. })
}

/// Returns whether two findings at one place are those of the same read.
pub(super) fn is_same_read(a: &Finding, b: &Finding) -> bool {
    match (a, b) {
        (
            Finding::FrozenSize { size: a, comparison: x, .. },
            Finding::FrozenSize { size: b, comparison: y, .. },
        ) => x == y && (x.is_some() || a == b),
        (Finding::FrozenRandom { .. }, _) => is_of_read(b),
        _ => a.kind() == b.kind(),
    }
}

/// Notes in the findings of reads which other values a check saw.
pub(super) fn note_other_values(found: &mut [Found], first: &[Read], second: &[Read]) {
    for (a, b) in first.iter().zip(second) {
        if a.at != b.at || sees_same(a, b) {
            continue;
        }
        for found in found.iter_mut().filter(|found| found.at == a.at) {
            match &mut found.finding {
                Finding::FrozenNumber { other: other @ None, .. } if a.seen != b.seen => {
                    *other = Some(b.seen.clone());
                }
                Finding::DataBranch { both_seen, .. } if a.what == ReadKind::Truth => *both_seen = true,
                _ => {}
            }
        }
    }
}

/// Returns the first line that makes several nodes, of another number in the second graph, with its module
/// and both numbers.
pub(super) fn repeated_line(
    first: &GraphModule,
    second: &GraphModule,
) -> Option<(SourceLoc, Option<String>, usize, usize)> {
    let count = |gm: &GraphModule| {
        let mut counts: HashMap<SourceLoc, usize> = HashMap::new();
        for (_, node) in gm.graph().nodes() {
            if let Some(source) = &node.meta().source {
                *counts.entry(source.clone()).or_default() += 1;
            }
        }
        counts
    };
    let (a, b) = (count(first), count(second));
    first.graph().nodes().chain(second.graph().nodes()).find_map(|(_, node)| {
        let source = node.meta().source.as_ref()?;
        let (n, other) = (a.get(source).copied().unwrap_or(0), b.get(source).copied().unwrap_or(0));
        (n != other && n.max(other) > 1).then(|| (source.clone(), module_of(node), n, other))
    })
}

/// How three recordings with the same arguments differ.
pub(super) struct Drift {
    first: String,
    second: String,
    is_state: bool,
}

impl Drift {
    /// Compares three recordings. Other operations, other integers, and numbers that change by one rule from
    /// each to the next are a state; other numbers are not determined.
    pub(super) fn of(
        first: &GraphModule,
        second: &GraphModule,
        third: &GraphModule,
        change: &Change,
        of_third: Option<&Change>,
    ) -> Drift {
        let (a, b) = texts(first, second, change);
        let is_state = match change {
            Change::Attribute { path, .. } => {
                let numbers = |gm: &GraphModule| gm.attr(path).ok().and_then(|tensor| numbers_of(&tensor));
                match (numbers(first), numbers(second), numbers(third)) {
                    (Some(a), Some(b), Some(c)) => follow_a_rule(&a, &b, &c),
                    _ => true,
                }
            }
            Change::Changed { .. } => {
                let c = of_third.map_or_else(String::new, |change| texts(first, third, change).1);
                let (a, b, c) = (literals(&a), literals(&b), literals(&c));
                let differ = a.iter().zip(&b).any(|(a, b)| a != b);
                let integral = a.iter().zip(&b).all(|(a, b)| a == b || a.fract() == 0.0 && b.fract() == 0.0);
                !differ || a.len() != b.len() || integral || follow_a_rule(&a, &b, &c)
            }
            _ => true,
        };
        Drift { first: a, second: b, is_state }
    }

    /// Returns the finding.
    pub(super) fn finding(self) -> Finding {
        let Drift { first, second, is_state } = self;
        if is_state {
            let what = format!(
                "the function keeps a state from call to call: {first} becomes {second} for the same arguments"
            );
            return Finding::StateLost { what };
        }
        Finding::Nondeterministic { first, second }
    }
}

fn numbers_of(tensor: &Tensor) -> Option<Vec<f64>> {
    crate::to(tensor, DType::F64).to_vec::<f64>().ok()
}

/// Returns whether numbers change by the same difference or the same factor from step to step.
fn follow_a_rule(a: &[f64], b: &[f64], c: &[f64]) -> bool {
    let close = |x: f64, y: f64| (x - y).abs() <= 1e-4 * x.abs().max(y.abs());
    if a.len() != b.len() || b.len() != c.len() {
        return true;
    }
    let steps = || a.iter().zip(b).zip(c).map(|((a, b), c)| (*a, *b, *c));
    steps().all(|(a, b, c)| close(b - a, c - b)) || steps().all(|(a, b, c)| close(b * b, a * c))
}

/// Returns the numbers among the arguments in a line of a graph.
fn literals(line: &str) -> Vec<f64> {
    let call = line.split_once('=').map_or(line, |(_, call)| call);
    let call = call.split_once("->").map_or(call, |(call, _)| call);
    call.split(['(', ')', ',', '[', ']', ' ', '=']).filter_map(|word| word.parse().ok()).collect()
}

/// A difference of two results.
pub(super) struct Difference {
    pub(super) output: usize,
    pub(super) how: String,
    pub(super) abs: Option<f64>,
}

/// Compares the result of the function with that of the graph.
pub(super) fn results(function: &Value, graph: &Value, rtol: f64, atol: f64) -> Option<Difference> {
    let structure = |value: &Value| value.map(&mut |_| ());
    let (expected, got) = (structure(function), structure(graph));
    if expected != got {
        let text = |tree: &Arg<()>| tree.map(&mut |()| "tensor").to_string();
        let how = format!("the function returns {}, the graph {}", text(&expected), text(&got));
        return Some(Difference { output: 0, how, abs: None });
    }
    function.leaves().into_iter().zip(graph.leaves()).enumerate().find_map(|(output, (a, b))| {
        let (a, b) = (a.array().ok()?, b.array().ok()?);
        let mismatch = b.all_close(a, rtol, atol).err()?;
        let abs = match &mismatch {
            crate::array::Mismatch::Value { max_abs_error, .. } => Some(*max_abs_error),
            _ => None,
        };
        Some(Difference { output, how: mismatch.to_string(), abs })
    })
}

fn output_node(gm: &GraphModule, output: usize) -> Option<NodeId> {
    gm.graph().output().leaves().get(output).map(|id| **id)
}

/// Returns the line that made a result.
pub(super) fn output_line(gm: &GraphModule, output: usize) -> Option<SourceLoc> {
    line_of(gm, output_node(gm, output)?)
}

/// Returns the first result of floats that has another dtype.
pub(super) fn output_of_other_dtype(gm: &GraphModule, dtype: DType) -> Option<(usize, DType)> {
    let leaves = gm.graph().output().leaves();
    leaves.into_iter().enumerate().find_map(|(i, id)| {
        let Some(Arg::Leaf(Type::Tensor(ty))) = gm.graph().node(*id).ok()?.ty() else { return None };
        (ty.dtype.is_float() && ty.dtype != dtype).then_some((i, ty.dtype))
    })
}

/// Returns the line of the operation that names the dtype of a result, on the way to it.
pub(super) fn conversion(gm: &GraphModule, output: usize) -> Option<SourceLoc> {
    let target = output_node(gm, output)?;
    let got = gm.graph().node(target).ok()?.ty().and_then(TypeTree::tensor)?.dtype;
    let (mut open, mut seen) = (vec![target], Vec::new());
    while let Some(id) = open.pop() {
        if seen.contains(&id) {
            continue;
        }
        seen.push(id);
        let node = gm.graph().node(id).ok()?;
        let names_it = node.all_args().any(|arg| matches!(arg, Arg::DType(dtype) if *dtype == got));
        if names_it && node.meta().source.is_some() {
            return node.meta().source.clone();
        }
        open.extend(node.inputs());
    }
    None
}
