//! Proofs of equality and inequality: the canonical difference and its bounds, then the facts about each
//! function.

use super::polynomial::{Atom, Function, add, gcd, multiply, subtract};
use super::{Dim, Truth};

/// How many intermediate differences one proof may look at.
const FUEL: u32 = 24;
/// How many terms a difference may have for a proof to look into its functions.
const MAX_TERMS: usize = 12;

pub(super) fn same(left: &Dim, right: &Dim) -> Truth {
    if left.error().is_some() || right.error().is_some() {
        return Truth::Unknown;
    }
    if left == right {
        return Truth::Yes;
    }
    let difference = subtract(left, right);
    let Ok((terms, constant)) = difference.parts() else { return Truth::Unknown };
    if terms.is_empty() {
        return if constant == 0 { Truth::Yes } else { Truth::No };
    }
    let divisor = terms.iter().fold(0, |divisor, term| gcd(divisor, term.coefficient));
    if !constant.unsigned_abs().is_multiple_of(divisor)
        || less(left, right).is_yes()
        || less(right, left).is_yes()
    {
        return Truth::No;
    }
    Truth::Unknown
}

pub(super) fn less(left: &Dim, right: &Dim) -> Truth {
    if left.error().is_some() || right.error().is_some() {
        Truth::Unknown
    } else if is_at_least(&subtract(right, left), 1, &mut FUEL.clone()) {
        Truth::Yes
    } else if is_at_least(&subtract(left, right), 0, &mut FUEL.clone()) {
        Truth::No
    } else {
        Truth::Unknown
    }
}

/// Returns whether `dim >= 0` could be proven.
pub(super) fn is_at_least_zero(dim: &Dim) -> bool {
    is_at_least(dim, 0, &mut FUEL.clone())
}

/// Returns whether `difference >= bound` could be proven; never simplifies functions, so it cannot recurse
/// into them.
fn is_at_least(difference: &Dim, bound: i64, fuel: &mut u32) -> bool {
    if difference.error().is_some() || *fuel == 0 {
        return false;
    }
    *fuel -= 1;
    if difference.interval().at_least(bound) {
        return true;
    }
    let Ok((terms, _)) = difference.parts() else { return false };
    if terms.len() > MAX_TERMS {
        return false;
    }
    for term in terms {
        let [(Atom::Call(call), 1)] = term.monomial.0.as_slice() else { continue };
        let atom = Dim::atom(Atom::Call(call.clone()));
        let factor = Dim::new(term.coefficient);
        let replace = |by: &Dim| add(difference, &multiply(&factor, &subtract(by, &atom)));
        let (left, right) = (&call.left, &call.right);
        let positive = term.coefficient > 0;
        let proven = match call.function {
            Function::Min | Function::Max => {
                if (call.function == Function::Max) == positive {
                    is_at_least(&replace(left), bound, fuel) || is_at_least(&replace(right), bound, fuel)
                } else {
                    is_at_least(&replace(left), bound, fuel) && is_at_least(&replace(right), bound, fuel)
                }
            }
            Function::FloorDiv => match right.known() {
                // With `right*(left//right) == left - r` and `0 <= r < right`, look at the difference times
                // `right`.
                Some(divisor) if divisor > 0 => {
                    let rest = subtract(difference, &multiply(&factor, &atom));
                    let scaled = add(&multiply(&rest, right), &multiply(&factor, left));
                    let worst = Dim::new(if positive { divisor - 1 } else { 0 });
                    let scaled = subtract(&scaled, &multiply(&factor, &worst));
                    // `x >= bound` follows from `right*x > right*(bound - 1)`.
                    let least = subtract(&multiply(right, &Dim::new(bound - 1)), &Dim::new(-1));
                    is_at_least(&subtract(&scaled, &least), 0, fuel)
                }
                _ => {
                    !positive
                        && left.interval().at_least(0)
                        && right.interval().at_least(0)
                        && is_at_least(&replace(left), bound, fuel)
                }
            },
            Function::Mod => {
                !positive
                    && right.interval().at_least(0)
                    && (left.interval().at_least(0) && is_at_least(&replace(left), bound, fuel)
                        || is_at_least(&replace(&subtract(right, &Dim::new(1))), bound, fuel))
            }
        };
        if proven {
            return true;
        }
    }
    false
}
