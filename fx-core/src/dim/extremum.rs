//! The rules of `min` and `max`: nested ones are one set of operands, of which the dominated are dropped.

use super::compare::less;
use super::polynomial::{Atom, Function};
use super::{Dim, Repr};
use crate::Result;

/// Computes `min` or `max`; the result nests to the right in ascending order of the operands.
pub(super) fn extremum(function: Function, left: &Dim, right: &Dim) -> Result<Dim> {
    if let (Repr::Const(a), Repr::Const(b)) = (&left.0, &right.0) {
        return Ok(Dim::new(if function == Function::Min { *a.min(b) } else { *a.max(b) }));
    }
    left.parts()?;
    right.parts()?;
    let mut operands: Vec<Dim> = Vec::new();
    for operand in flatten(function, left).into_iter().chain(flatten(function, right)) {
        if operands.iter().any(|other| replaces(function, other, &operand)) {
            continue;
        }
        operands.retain(|other| !replaces(function, &operand, other));
        operands.push(operand);
    }
    operands.sort_by(Dim::order);
    let nested =
        operands.iter().rev().cloned().reduce(|rest, operand| Dim::opaque(function, &operand, &rest));
    nested.map_or_else(|| Ok(left.clone()), |dim| dim.error().cloned().map_or(Ok(dim), Err))
}

fn flatten(function: Function, dim: &Dim) -> Vec<Dim> {
    let mut operands = Vec::new();
    let mut rest = dim;
    while let Some(Atom::Call(call)) = rest.as_atom()
        && call.function == function
    {
        operands.push(call.left.clone());
        rest = &call.right;
    }
    operands.push(rest.clone());
    operands
}

/// Returns whether `loser` is of no consequence beside `winner`; of two equal ones the simpler wins.
fn replaces(function: Function, winner: &Dim, loser: &Dim) -> bool {
    let dominates = |winner: &Dim, loser: &Dim| match function {
        Function::Min => less(loser, winner).is_no(),
        _ => less(winner, loser).is_no(),
    };
    dominates(winner, loser) && (winner.order(loser).is_le() || !dominates(loser, winner))
}
