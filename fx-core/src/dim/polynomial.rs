//! The canonical form: a sum of integer coefficients times monomials of atoms, plus a constant.
//!
//! Invariants of [`Expr`]: at least one term; terms strictly descending in graded lexicographic order (which
//! products respect, so that long division terminates); no coefficient is zero; neither coefficients nor
//! the constant are `i64::MIN` (so that every one can be negated and printed); within the limits below.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use smallvec::SmallVec;

use super::interval::Interval;
use super::{Dim, Repr, Symbol};
use crate::{Error, Result, bail, err};

/// The greatest number of terms of a sum.
const MAX_TERMS: usize = 256;
/// The greatest number of products of terms that one multiplication computes.
const MAX_PRODUCTS: usize = 16 * MAX_TERMS;
/// The greatest number of atoms in an expression, those inside of others included.
const MAX_SIZE: u64 = 1024;
/// The greatest depth of functions inside of functions.
const MAX_DEPTH: u32 = 32;

pub(super) struct Expr {
    pub(super) terms: Vec<Term>,
    pub(super) constant: i64,
    pub(super) interval: Interval,
    depth: u32,
    size: u64,
}

#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Term {
    pub(super) monomial: Monomial,
    pub(super) coefficient: i64,
}

/// A product of powers of distinct atoms in ascending order; powers are at least 1.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub(super) struct Monomial(pub(super) SmallVec<[(Atom, u32); 2]>);

#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) enum Atom {
    Symbol(Symbol),
    Call(Arc<Call>),
}

#[derive(PartialEq, Eq, Hash)]
pub(super) struct Call {
    pub(super) function: Function,
    pub(super) left: Dim,
    pub(super) right: Dim,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Function {
    FloorDiv,
    Mod,
    Min,
    Max,
}

impl Function {
    /// Computes; `None` for an overflow or a division by zero.
    pub(super) fn apply(self, left: i128, right: i128) -> Option<i128> {
        match self {
            Function::FloorDiv => floor_div(left, right),
            Function::Mod => {
                let remainder = left.checked_rem(right)?;
                Some(if remainder != 0 && (remainder < 0) != (right < 0) {
                    remainder + right
                } else {
                    remainder
                })
            }
            Function::Min => Some(left.min(right)),
            Function::Max => Some(left.max(right)),
        }
    }
}

/// Divides, rounding towards minus infinity; `None` for an overflow or a division by zero.
pub(super) fn floor_div(left: i128, right: i128) -> Option<i128> {
    let quotient = left.checked_div(right)?;
    Some(if left % right != 0 && (left < 0) != (right < 0) { quotient - 1 } else { quotient })
}

/// Returns the greatest common divisor; that with 0 is the other number.
pub(super) fn gcd(a: u64, b: i64) -> u64 {
    let (mut a, mut b) = (a, b.unsigned_abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

pub(super) fn overflow() -> Error {
    err!(Shape, "a size overflows the range of i64")
}

impl Atom {
    pub(super) fn interval(&self) -> Interval {
        match self {
            Atom::Symbol(symbol) => {
                Interval { low: Some(symbol.min()).filter(|min| *min != i64::MIN), high: symbol.max() }
            }
            Atom::Call(call) => Interval::of_call(call.function, call.left.interval(), call.right.interval()),
        }
    }
}

impl Monomial {
    fn degree(&self) -> u64 {
        self.0.iter().map(|(_, power)| *power as u64).sum()
    }

    fn multiply(&self, other: &Monomial) -> Result<Monomial> {
        let mut product = SmallVec::with_capacity(self.0.len() + other.0.len());
        let (mut left, mut right) = (self.0.iter().peekable(), other.0.iter().peekable());
        while let (Some(a), Some(b)) = (left.peek(), right.peek()) {
            match a.0.order(&b.0) {
                Ordering::Less => product.extend(left.next().cloned()),
                Ordering::Greater => product.extend(right.next().cloned()),
                Ordering::Equal => {
                    let power = a.1.checked_add(b.1).ok_or_else(too_large)?;
                    product.push((a.0.clone(), power));
                    left.next();
                    right.next();
                }
            }
        }
        product.extend(left.cloned());
        product.extend(right.cloned());
        Ok(Monomial(product))
    }

    /// Returns the monomial that times `divisor` is this one.
    pub(super) fn divide(&self, divisor: &Monomial) -> Option<Monomial> {
        let mut quotient = SmallVec::new();
        let mut divisors = divisor.0.iter().peekable();
        for (atom, power) in &self.0 {
            match divisors.next_if(|(divisor, _)| divisor == atom) {
                Some((_, by)) if by > power => return None,
                Some((_, by)) if by == power => {}
                Some((_, by)) => quotient.push((atom.clone(), power - by)),
                None => quotient.push((atom.clone(), *power)),
            }
        }
        divisors.next().is_none().then_some(Monomial(quotient))
    }

    /// Keeps what divides `other` too.
    pub(super) fn intersect(&mut self, other: &Monomial) {
        for (atom, power) in &mut self.0 {
            let theirs = other.0.iter().find(|(theirs, _)| theirs == atom).map_or(0, |(_, power)| *power);
            *power = (*power).min(theirs);
        }
        self.0.retain(|(_, power)| *power > 0);
    }

    pub(super) fn interval(&self) -> Interval {
        self.0
            .iter()
            .map(|(atom, power)| atom.interval().power(*power))
            .reduce(Interval::multiply)
            .unwrap_or(Interval::point(1))
    }
}

/// The orders that sort canonical forms say nothing about values, and are not `Ord`, whose `min` and `max` would
/// hide those of `Dim` and `Symbol`.
impl Monomial {
    /// Graded lexicographic order, the greatest monomial first.
    fn order(&self, other: &Self) -> Ordering {
        other.degree().cmp(&self.degree()).then_with(|| {
            for ((a, a_power), (b, b_power)) in self.0.iter().zip(&other.0) {
                let order = a.order(b).then(b_power.cmp(a_power));
                if order != Ordering::Equal {
                    return order;
                }
            }
            self.0.len().cmp(&other.0.len())
        })
    }
}

impl Atom {
    fn order(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Atom::Symbol(a), Atom::Symbol(b)) => a.key().cmp(&b.key()),
            (Atom::Symbol(_), Atom::Call(_)) => Ordering::Less,
            (Atom::Call(_), Atom::Symbol(_)) => Ordering::Greater,
            (Atom::Call(a), Atom::Call(b)) if Arc::ptr_eq(a, b) => Ordering::Equal,
            (Atom::Call(a), Atom::Call(b)) => a
                .function
                .cmp(&b.function)
                .then_with(|| a.left.order(&b.left))
                .then_with(|| a.right.order(&b.right)),
        }
    }
}

impl Dim {
    /// Orders canonical forms: numbers first, then by terms.
    pub(super) fn order(&self, other: &Dim) -> Ordering {
        let (Ok((a, a_constant)), Ok((b, b_constant))) = (self.parts(), other.parts()) else {
            return self.error().is_some().cmp(&other.error().is_some());
        };
        for (a, b) in a.iter().zip(b) {
            let order = a.monomial.order(&b.monomial).then(a.coefficient.cmp(&b.coefficient));
            if order != Ordering::Equal {
                return order;
            }
        }
        a.len().cmp(&b.len()).then(a_constant.cmp(&b_constant))
    }
}

impl PartialEq for Expr {
    fn eq(&self, other: &Self) -> bool {
        self.constant == other.constant && self.terms == other.terms
    }
}
impl Eq for Expr {}
impl Hash for Expr {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.constant.hash(state);
        self.terms.hash(state);
    }
}

impl Dim {
    /// Returns the terms and the constant.
    pub(super) fn parts(&self) -> Result<(&[Term], i64)> {
        match &self.0 {
            Repr::Const(n) => Ok((&[], *n)),
            Repr::Expr(expr) => Ok((&expr.terms, expr.constant)),
            Repr::Failed(error) => Err(error.clone()),
            Repr::Observed(observed) => observed.size.parts(),
        }
    }

    pub(super) fn depth(&self) -> u32 {
        if let Repr::Expr(expr) = &self.plain().0 { expr.depth } else { 0 }
    }

    fn size(&self) -> u64 {
        if let Repr::Expr(expr) = &self.plain().0 { expr.size } else { 1 }
    }

    pub(super) fn atom(atom: Atom) -> Dim {
        let monomial = Monomial(SmallVec::from_iter([(atom, 1)]));
        build(vec![Term { monomial, coefficient: 1 }], 0).unwrap_or_else(Dim::failed)
    }

    /// Makes the atom of a function that no rule simplifies; an operand's error becomes that of the whole.
    pub(super) fn opaque(function: Function, left: &Dim, right: &Dim) -> Dim {
        match left.error().or(right.error()) {
            Some(error) => Dim::failed(error.clone()),
            None => {
                Dim::atom(Atom::Call(Arc::new(Call { function, left: left.clone(), right: right.clone() })))
            }
        }
    }

    /// Returns the atom, if the size is one.
    pub(super) fn as_atom(&self) -> Option<&Atom> {
        let Repr::Expr(expr) = &self.plain().0 else { return None };
        let [term] = expr.terms.as_slice() else { return None };
        if expr.constant != 0 { None } else { term.as_atom() }
    }
}

impl Term {
    /// Returns the atom, if the term is one.
    pub(super) fn as_atom(&self) -> Option<&Atom> {
        match self.monomial.0.as_slice() {
            [(atom, 1)] if self.coefficient == 1 => Some(atom),
            _ => None,
        }
    }
}

fn too_large() -> Error {
    err!(Limit, "a symbolic size has more than {MAX_TERMS} terms, {MAX_SIZE} symbols or {MAX_DEPTH} levels")
        .help("make some of the sizes known numbers")
}

/// Makes the size from terms that are sorted, distinct and not zero.
pub(super) fn build(terms: Vec<Term>, constant: i64) -> Result<Dim> {
    if terms.is_empty() {
        return Ok(Dim::new(constant));
    }
    let mut interval = Interval::point(constant);
    let (mut depth, mut size) = (0, 1u64);
    if terms.len() > MAX_TERMS {
        return Err(too_large());
    }
    if constant == i64::MIN {
        return Err(overflow());
    }
    for term in &terms {
        if term.coefficient == i64::MIN {
            return Err(overflow());
        }
        for (atom, power) in &term.monomial.0 {
            let mut one = 1;
            if let Atom::Call(call) = atom {
                depth = depth.max(1 + call.left.depth().max(call.right.depth()));
                one = 1 + call.left.size() + call.right.size();
            }
            size += one * *power as u64;
        }
        if size > MAX_SIZE || depth > MAX_DEPTH {
            return Err(too_large());
        }
        interval = interval.add(term.monomial.interval().multiply(Interval::point(term.coefficient)));
    }
    Ok(Dim(Repr::Expr(Arc::new(Expr { terms, constant, interval, depth, size }))))
}

/// Makes the size from terms in any order.
fn build_unsorted(mut terms: Vec<Term>, constant: i64) -> Result<Dim> {
    terms.sort_unstable_by(|a, b| a.monomial.order(&b.monomial));
    let mut distinct: Vec<Term> = Vec::with_capacity(terms.len());
    for term in terms {
        match distinct.last_mut() {
            Some(last) if last.monomial == term.monomial => {
                last.coefficient = last.coefficient.checked_add(term.coefficient).ok_or_else(overflow)?;
            }
            _ => distinct.push(term),
        }
    }
    distinct.retain(|term| term.coefficient != 0);
    build(distinct, constant)
}

pub(super) fn add(left: &Dim, right: &Dim) -> Dim {
    match (&left.0, &right.0) {
        (Repr::Const(a), Repr::Const(b)) => {
            a.checked_add(*b).map_or_else(|| Dim::failed(overflow()), Dim::new)
        }
        (_, Repr::Const(0)) => left.clone(),
        (Repr::Const(0), _) => right.clone(),
        _ => try_add(left, right).unwrap_or_else(Dim::failed),
    }
}

fn try_add(left: &Dim, right: &Dim) -> Result<Dim> {
    let ((left, left_constant), (right, right_constant)) = (left.parts()?, right.parts()?);
    let mut sum = Vec::with_capacity(left.len() + right.len());
    let (mut left, mut right) = (left.iter().peekable(), right.iter().peekable());
    while let (Some(a), Some(b)) = (left.peek(), right.peek()) {
        match a.monomial.order(&b.monomial) {
            Ordering::Less => sum.extend(left.next().cloned()),
            Ordering::Greater => sum.extend(right.next().cloned()),
            Ordering::Equal => {
                let coefficient = a.coefficient.checked_add(b.coefficient).ok_or_else(overflow)?;
                if coefficient != 0 {
                    sum.push(Term { monomial: a.monomial.clone(), coefficient });
                }
                left.next();
                right.next();
            }
        }
    }
    sum.extend(left.cloned());
    sum.extend(right.cloned());
    build(sum, left_constant.checked_add(right_constant).ok_or_else(overflow)?)
}

pub(super) fn negate(dim: &Dim) -> Dim {
    multiply(dim, &Dim::new(-1))
}

pub(super) fn subtract(left: &Dim, right: &Dim) -> Dim {
    match (&left.0, &right.0) {
        (Repr::Const(a), Repr::Const(b)) => {
            a.checked_sub(*b).map_or_else(|| Dim::failed(overflow()), Dim::new)
        }
        _ => add(left, &negate(right)),
    }
}

pub(super) fn multiply(left: &Dim, right: &Dim) -> Dim {
    match (&left.0, &right.0) {
        (Repr::Const(a), Repr::Const(b)) => {
            a.checked_mul(*b).map_or_else(|| Dim::failed(overflow()), Dim::new)
        }
        (_, Repr::Const(1)) => left.clone(),
        (Repr::Const(1), _) => right.clone(),
        _ => try_multiply(left, right).unwrap_or_else(Dim::failed),
    }
}

fn try_multiply(left: &Dim, right: &Dim) -> Result<Dim> {
    let ((left, left_constant), (right, right_constant)) = (left.parts()?, right.parts()?);
    if left.len() * right.len() > MAX_PRODUCTS {
        return Err(too_large());
    }
    let constant = left_constant.checked_mul(right_constant).ok_or_else(overflow)?;
    let mut product = Vec::with_capacity((left.len() + 1) * (right.len() + 1));
    for (terms, factor) in [(left, right_constant), (right, left_constant)] {
        if factor != 0 {
            for term in terms {
                let coefficient = term.coefficient.checked_mul(factor).ok_or_else(overflow)?;
                product.push(Term { monomial: term.monomial.clone(), coefficient });
            }
        }
    }
    for (a, b) in left.iter().flat_map(|a| right.iter().map(move |b| (a, b))) {
        let coefficient = a.coefficient.checked_mul(b.coefficient).ok_or_else(overflow)?;
        product.push(Term { monomial: a.monomial.multiply(&b.monomial)?, coefficient });
    }
    build_unsorted(product, constant)
}

/// Divides `left` by `right`, which is not a constant, term by term: `left == quotient*right + remainder`, where
/// no term of the remainder is a multiple of the first term of `right`.
pub(super) fn long_divide(left: &Dim, right: &Dim) -> Result<(Dim, Dim)> {
    let (right_terms, _) = right.parts()?;
    let Some(first) = right_terms.first() else {
        bail!(Argument, "expected a symbolic divisor, got {right}")
    };
    let mut rest = left.clone();
    let (mut quotient, mut remainder) = (Dim::new(0), Vec::new());
    for _ in 0..2 * MAX_TERMS {
        let (terms, constant) = rest.parts()?;
        let Some(term) = terms.first() else {
            return Ok((quotient, build(remainder, constant)?));
        };
        let divided =
            term.monomial.divide(&first.monomial).filter(|_| term.coefficient % first.coefficient == 0);
        match divided {
            Some(monomial) => {
                let coefficient = term.coefficient / first.coefficient;
                let part = if monomial.0.is_empty() {
                    Dim::new(coefficient)
                } else {
                    build(vec![Term { monomial, coefficient }], 0)?
                };
                rest = subtract(&rest, &multiply(&part, right));
                quotient = add(&quotient, &part);
            }
            None => {
                remainder.push(term.clone());
                rest = build(terms[1..].to_vec(), constant)?;
            }
        }
    }
    Err(too_large())
}
