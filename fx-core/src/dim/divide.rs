//! The rules of floor division and floor modulo.
//!
//! Every rule is an identity of integers wherever the written expression has a value. A rule that would drop a
//! divisor applies only if the divisor is provably not zero.

use super::compare::{is_at_least_zero, less};
use super::polynomial::{
    Atom, Function, Monomial, Term, add, build, floor_div as floor_div_wide, gcd, long_divide, multiply,
    negate, overflow, subtract,
};
use super::{Dim, Repr};
use crate::{Error, Result, err};

fn division_by_zero(left: &Dim, sign: &str) -> Error {
    err!(Shape, "division of a size by zero: {left} {sign} 0")
}

pub(super) fn floor_div(left: &Dim, right: &Dim) -> Result<Dim> {
    left.parts()?;
    right.parts()?;
    match (&left.0, &right.0) {
        (_, Repr::Const(0)) => Err(division_by_zero(left, "//")),
        (Repr::Const(a), Repr::Const(b)) => {
            let quotient = floor_div_wide(*a as i128, *b as i128).ok_or_else(overflow)?;
            i64::try_from(quotient).map(Dim::new).map_err(|_| overflow())
        }
        (_, Repr::Const(1)) => Ok(left.clone()),
        (_, Repr::Const(c)) if *c < 0 => floor_div(&checked(negate(left))?, &checked(negate(right))?),
        (_, Repr::Const(c)) => floor_div_by_number(left, *c),
        _ => floor_div_by_expression(left, right),
    }
}

pub(super) fn ceil_div(left: &Dim, right: &Dim) -> Result<Dim> {
    if let (Some(a), Some(b)) = (left.known(), right.known()) {
        let quotient = floor_div_wide(-(a as i128), b as i128).ok_or_else(|| division_by_zero(left, "//"))?;
        return i64::try_from(-quotient).map(Dim::new).map_err(|_| overflow());
    }
    if right.interval().at_least(1) {
        floor_div(&add(left, &subtract(right, &Dim::new(1))), right)
    } else {
        Ok(negate(&floor_div(&negate(left), right)?))
    }
}

pub(super) fn modulo(left: &Dim, right: &Dim) -> Result<Dim> {
    left.parts()?;
    right.parts()?;
    match (&left.0, &right.0) {
        (_, Repr::Const(0)) => Err(division_by_zero(left, "%")),
        (Repr::Const(a), Repr::Const(b)) => {
            let remainder = Function::Mod.apply(*a as i128, *b as i128).ok_or_else(overflow)?;
            i64::try_from(remainder).map(Dim::new).map_err(|_| overflow())
        }
        (_, Repr::Const(1 | -1)) => Ok(Dim::new(0)),
        (_, Repr::Const(c)) if *c < 0 => {
            checked(negate(&modulo(&checked(negate(left))?, &checked(negate(right))?)?))
        }
        (_, Repr::Const(c)) => modulo_by_number(left, *c),
        _ => modulo_by_expression(left, right),
    }
}

/// Turns a size that carries an error into that error.
fn checked(dim: Dim) -> Result<Dim> {
    dim.error().cloned().map_or(Ok(dim), Err)
}

/// Returns the greatest number that divides all of these terms and numbers.
fn content(terms: &[Term], numbers: impl IntoIterator<Item = i64>) -> i64 {
    let numbers = terms.iter().map(|term| term.coefficient).chain(numbers);
    i64::try_from(numbers.fold(0, gcd)).unwrap_or(1).max(1)
}

/// Divides exactly, except for the constant, which is rounded down.
fn scale_down(terms: &[Term], constant: i64, by: i64) -> Result<Dim> {
    let terms =
        terms.iter().map(|term| Term { coefficient: term.coefficient / by, ..term.clone() }).collect();
    build(terms, constant.div_euclid(by))
}

/// Returns `(a, b, k)` for an expression `a//b + k`.
fn as_quotient(dim: &Dim) -> Option<(&Dim, &Dim, i64)> {
    let (terms, constant) = dim.parts().ok()?;
    let [term] = terms else { return None };
    match term.as_atom()? {
        Atom::Call(call) if call.function == Function::FloorDiv => Some((&call.left, &call.right, constant)),
        _ => None,
    }
}

/// Divides a quotient once more: `(a//b + k)//d == (a + k*b)//(b*d)` for a positive `d`.
fn floor_div_quotient(left: &Dim, right: &Dim) -> Option<Dim> {
    let (inner, divisor, constant) = as_quotient(left)?;
    let inner = add(inner, &multiply(divisor, &Dim::new(constant)));
    floor_div(&inner, &multiply(divisor, right)).ok()
}

fn floor_div_by_number(left: &Dim, divisor: i64) -> Result<Dim> {
    let (terms, constant) = left.parts()?;
    if let Some(quotient) = only_quotient(left, divisor) {
        return Ok(Dim::new(quotient));
    }
    let (whole, rest): (Vec<Term>, Vec<Term>) =
        terms.iter().cloned().partition(|term| term.coefficient % divisor == 0);
    let whole = scale_down(&whole, constant, divisor)?;
    let constant = constant.rem_euclid(divisor);
    if rest.is_empty() {
        return checked(whole);
    }
    let common = content(&rest, [divisor]);
    let rest = scale_down(&rest, constant, common)?;
    let divisor = divisor / common;
    let right = Dim::new(divisor);
    let quotient = match only_quotient(&rest, divisor) {
        Some(quotient) => Dim::new(quotient),
        None => floor_div_quotient(&rest, &right)
            .unwrap_or_else(|| Dim::opaque(Function::FloorDiv, &rest, &right)),
    };
    checked(add(&whole, &quotient))
}

/// Returns the quotient by a positive number, if all values have the same.
fn only_quotient(left: &Dim, divisor: i64) -> Option<i64> {
    let interval = left.interval();
    let (low, high) = (interval.low?.div_euclid(divisor), interval.high?.div_euclid(divisor));
    (low == high).then_some(low)
}

fn modulo_by_number(left: &Dim, divisor: i64) -> Result<Dim> {
    let right = Dim::new(divisor);
    if let Some(quotient) = only_quotient(left, divisor) {
        return checked(subtract(left, &multiply(&Dim::new(quotient), &right)));
    }
    let (terms, constant) = left.parts()?;
    let mut reduced = Dim::new(0);
    let mut rest = Vec::new();
    for term in terms {
        let coefficient = term.coefficient.rem_euclid(divisor);
        if coefficient == 0 {
            continue;
        }
        match inner_modulo(term, divisor) {
            Some(inner) => reduced = add(&reduced, &multiply(inner, &Dim::new(coefficient))),
            None => rest.push(Term { coefficient, ..term.clone() }),
        }
    }
    let constant = constant.rem_euclid(divisor);
    if reduced != Dim::new(0) {
        return modulo(&add(&reduced, &build(rest, constant)?), &right);
    }
    if rest.is_empty() {
        return Ok(Dim::new(constant));
    }
    let common = content(&rest, [divisor]);
    if common > 1 {
        let inner = modulo(&scale_down(&rest, constant, common)?, &Dim::new(divisor / common))?;
        return checked(add(&multiply(&inner, &Dim::new(common)), &Dim::new(constant % common)));
    }
    let rest = build(rest, constant)?;
    match only_quotient(&rest, divisor) {
        Some(quotient) => checked(subtract(&rest, &multiply(&Dim::new(quotient), &right))),
        None => checked(Dim::opaque(Function::Mod, &rest, &right)),
    }
}

/// Returns `a` for a term `k*(a % m)` where `m` is a multiple of `divisor`, so that `a` will do.
fn inner_modulo(term: &Term, divisor: i64) -> Option<&Dim> {
    match term.monomial.0.as_slice() {
        [(Atom::Call(call), 1)] if call.function == Function::Mod => {
            call.right.known().is_some_and(|modulus| modulus % divisor == 0).then_some(&call.left)
        }
        _ => None,
    }
}

/// A division or modulo by an expression after the steps that both share.
enum Reduced {
    /// The value of `left // right` (or of `left % right`) is known by these two.
    Exact { quotient: Dim, remainder: Dim },
    /// `left // right == whole + rest // divisor`, and `left % right == factor * (rest % divisor)`.
    Rest { whole: Dim, rest: Dim, divisor: Dim, factor: Dim },
}

fn reduce(left: &Dim, right: &Dim) -> Result<Reduced> {
    let nonzero = !right.interval().contains(0);
    let single = matches!(right.parts()?, ([_], 0));
    let mut whole = Dim::new(0);
    let mut rest = left.clone();
    if nonzero {
        if lies_below(left, right) {
            return Ok(Reduced::Exact { quotient: whole, remainder: rest });
        }
        // A division that grows beyond the limits proves nothing.
        let (quotient, remainder) = long_divide(left, right).unwrap_or_else(|_| (Dim::new(0), left.clone()));
        if remainder == Dim::new(0) || lies_below(&remainder, right) {
            return Ok(Reduced::Exact { quotient, remainder });
        }
        if single {
            (whole, rest) = (quotient, remainder);
        }
    }
    let (common, factor) = common_factor(&rest, right, nonzero && single)?;
    let (rest, divisor) = (cancel(&rest, &common, factor)?, cancel(right, &common, factor)?);
    let mut factor = Dim::new(factor);
    if !common.0.is_empty() {
        factor = multiply(&factor, &build(vec![Term { monomial: common, coefficient: 1 }], 0)?);
    }
    Ok(Reduced::Rest { whole, rest, divisor, factor })
}

/// Returns whether `0 <= left < right` could be proven.
fn lies_below(left: &Dim, right: &Dim) -> bool {
    is_at_least_zero(left) && less(left, right).is_yes()
}

/// Returns the monomial and the number that divide all terms of both; of the monomial only atoms that cannot
/// be zero.
fn common_factor(left: &Dim, right: &Dim, nonzero: bool) -> Result<(Monomial, i64)> {
    let ((left, left_constant), (right, right_constant)) = (left.parts()?, right.parts()?);
    let all: Vec<Term> = left.iter().chain(right).cloned().collect();
    let number = content(&all, [left_constant, right_constant]);
    let mut common = Monomial::default();
    if left_constant == 0 && right_constant == 0 {
        common = right[0].monomial.clone();
        all.iter().for_each(|term| common.intersect(&term.monomial));
        common.0.retain(|(atom, _)| nonzero || !atom.interval().contains(0));
    }
    Ok((common, number))
}

fn cancel(dim: &Dim, common: &Monomial, number: i64) -> Result<Dim> {
    let (terms, constant) = dim.parts()?;
    let mut constant = constant / number;
    let mut quotients = Vec::with_capacity(terms.len());
    for term in terms {
        let monomial = term.monomial.divide(common).expect("a common factor divides every term");
        let coefficient = term.coefficient / number;
        if monomial.0.is_empty() {
            constant += coefficient;
        } else {
            quotients.push(Term { monomial, coefficient });
        }
    }
    build(quotients, constant)
}

fn leading_is_negative(dim: &Dim) -> Result<bool> {
    Ok(dim.parts()?.0.first().is_some_and(|term| term.coefficient < 0))
}

fn floor_div_by_expression(left: &Dim, right: &Dim) -> Result<Dim> {
    if leading_is_negative(right)? {
        return floor_div(&checked(negate(left))?, &checked(negate(right))?);
    }
    let (whole, rest, divisor) = match reduce(left, right)? {
        Reduced::Exact { quotient, .. } => return checked(quotient),
        Reduced::Rest { whole, rest, divisor, .. } => (whole, rest, divisor),
    };
    let quotient = if rest != *left || divisor != *right {
        floor_div(&rest, &divisor)?
    } else {
        let atom = Dim::opaque(Function::FloorDiv, &rest, &divisor);
        match atom.interval().only().filter(|_| !divisor.interval().contains(0)) {
            Some(only) => Dim::new(only),
            None => Some(&rest)
                .filter(|_| divisor.interval().at_least(1))
                .and_then(|rest| floor_div_quotient(rest, &divisor))
                .unwrap_or(atom),
        }
    };
    checked(add(&whole, &quotient))
}

fn modulo_by_expression(left: &Dim, right: &Dim) -> Result<Dim> {
    if leading_is_negative(right)? {
        return checked(negate(&modulo(&checked(negate(left))?, &checked(negate(right))?)?));
    }
    match reduce(left, right)? {
        Reduced::Exact { remainder, .. } => checked(remainder),
        Reduced::Rest { rest, divisor, factor, .. } => {
            let remainder = if rest != *left || divisor != *right {
                modulo(&rest, &divisor)?
            } else {
                Dim::opaque(Function::Mod, &rest, &divisor)
            };
            checked(multiply(&factor, &remainder))
        }
    }
}
