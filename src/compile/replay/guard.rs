//! [`Guard`]: what must hold for a call, so that it takes a path that was recorded.

use std::hash::Hasher;
use std::sync::Arc;

use rustc_hash::FxHasher;
use smallvec::SmallVec;

use super::path::{Source, Walk};
use crate::lazy::Relation;
use crate::{Array, Buffer, Dim, Scalar, SourceLoc, Symbol};

/// A size in terms of the symbols of a path, which are the sizes of its arguments in order.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Term {
    Is(i64),
    Symbol(u32),
    Expression { size: Dim, symbols: SmallVec<[(Symbol, u32); 2]> },
}

impl Term {
    /// Makes the term of a size. `None` if it has a symbol that is none of these.
    pub(super) fn new(size: &Dim, known: &[Symbol]) -> Option<Term> {
        let size = size.plain();
        let number = |symbol: &Symbol| known.iter().position(|other| other == symbol).map(|at| at as u32);
        if let Some(symbol) = size.as_symbol() {
            return number(symbol).map(Term::Symbol);
        }
        if size.is_known() {
            return size.known().map(Term::Is);
        }
        let symbols = size.symbols().into_iter().map(|symbol| Some((symbol.clone(), number(&symbol)?)));
        Some(Term::Expression { size: size.clone(), symbols: symbols.collect::<Option<_>>()? })
    }

    /// Returns the value; `None` if it has none, as a division by zero has.
    pub(super) fn value(&self, symbols: &[i64]) -> Option<i64> {
        match self {
            Term::Is(n) => Some(*n),
            Term::Symbol(at) => symbols.get(*at as usize).copied(),
            Term::Expression { size, symbols: known } => {
                let lookup = |symbol: &Symbol| {
                    let (_, at) = known.iter().find(|(other, _)| other == symbol)?;
                    symbols.get(*at as usize).copied()
                };
                size.eval(&lookup).ok()
            }
        }
    }
}

/// How two sizes compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sign {
    Equal,
    Differ,
    Less,
    NotLess,
}

/// What must hold for a call, so that it goes the same way as the recorded one.
#[derive(Clone, Debug)]
pub(super) enum Guard {
    /// A relation between sizes, on which a shape rule or Rust code decided.
    Sizes { left: Term, sign: Sign, right: Term, text: Arc<str>, at: Option<SourceLoc> },
    /// A value that Rust code read.
    Read { of: Source, value: Arc<Array>, what: &'static str, at: Option<SourceLoc> },
}

impl Guard {
    /// Makes the guard of a relation. `None` if it has a symbol that is none of these.
    pub(super) fn sizes(relation: &Relation, known: &[Symbol], at: Option<SourceLoc>) -> Option<Guard> {
        let (left, sign, right) = match relation {
            Relation::Equal(a, b) => (a, Sign::Equal, b),
            Relation::Differ(a, b) => (a, Sign::Differ, b),
            Relation::Less(a, b) => (a, Sign::Less, b),
            Relation::NotLess(a, b) => (a, Sign::NotLess, b),
        };
        let text = match (sign, left.is_known()) {
            (Sign::Equal, _) => format!("{} == {}", left.plain(), right.plain()),
            (Sign::Differ, _) => format!("{} != {}", left.plain(), right.plain()),
            // The symbol stands first.
            (Sign::Less, true) => format!("{} > {}", right.plain(), left.plain()),
            (Sign::Less, false) => format!("{} < {}", left.plain(), right.plain()),
            (Sign::NotLess, true) => format!("{} <= {}", right.plain(), left.plain()),
            (Sign::NotLess, false) => format!("{} >= {}", left.plain(), right.plain()),
        };
        let (left, right) = (Term::new(left, known)?, Term::new(right, known)?);
        Some(Guard::Sizes { left, sign, right, text: text.into(), at })
    }

    /// Returns whether both hold for the same calls, as far as their texts tell.
    pub(super) fn is_same(&self, other: &Guard) -> bool {
        match (self, other) {
            (Guard::Sizes { text, .. }, Guard::Sizes { text: other, .. }) => text == other,
            (Guard::Read { of, value, .. }, Guard::Read { of: other_of, value: other, .. }) => {
                of.is_same(other_of) && value.bits_eq(other)
            }
            _ => false,
        }
    }

    pub(super) fn holds(&self, walk: &Walk<'_>) -> bool {
        match self {
            Guard::Sizes { left, sign, right, .. } => {
                let (Some(a), Some(b)) = (left.value(&walk.symbols), right.value(&walk.symbols)) else {
                    return false;
                };
                match sign {
                    Sign::Equal => a == b,
                    Sign::Differ => a != b,
                    Sign::Less => a < b,
                    Sign::NotLess => a >= b,
                }
            }
            Guard::Read { of, value, .. } => walk.with(of, |array| array.bits_eq(value)).unwrap_or(false),
        }
    }

    /// Returns the line of the user's program.
    pub(super) fn at(&self) -> Option<&SourceLoc> {
        match self {
            Guard::Sizes { at, .. } | Guard::Read { at, .. } => at.as_ref(),
        }
    }

    /// Says in words why the guard does not hold.
    pub(super) fn reason(&self, walk: &Walk<'_>) -> String {
        match self {
            Guard::Sizes { left, text, right, .. } => {
                let value = |term: &Term| {
                    term.value(&walk.symbols).map_or_else(|| "undefined".to_owned(), |n| n.to_string())
                };
                match (left, right) {
                    (Term::Is(_), _) => format!("{text} does not hold, it is {}", value(right)),
                    (_, Term::Is(_)) => format!("{text} does not hold, it is {}", value(left)),
                    _ => format!("{text} does not hold, they are {} and {}", value(left), value(right)),
                }
            }
            Guard::Read { of, value, what, .. } => {
                let got = walk.array(of).map_or_else(|| "nothing".to_owned(), |array| array.to_string());
                format!("`{what}` read {value}, got {got}")
            }
        }
    }

    /// Returns what is compared with one value, if the guard is such a comparison.
    pub(super) fn key(&self) -> Option<Key<'_>> {
        match self {
            Guard::Sizes { left: Term::Symbol(at), sign: Sign::Equal, right: Term::Is(_), .. } => {
                Some(Key::Size(*at))
            }
            Guard::Read { of, .. } => Some(Key::Read(of)),
            Guard::Sizes { .. } => None,
        }
    }

    /// Hashes the value that is expected.
    pub(super) fn hash_expected(&self, hasher: &mut FxHasher) {
        match self {
            Guard::Sizes { right: Term::Is(n), .. } => hasher.write_i64(*n),
            Guard::Sizes { .. } => {}
            Guard::Read { value, .. } => hash_array(value, hasher),
        }
    }
}

impl std::fmt::Display for Guard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Guard::Sizes { text, .. } => f.write_str(text),
            Guard::Read { value, what, at, .. } => {
                write!(f, "`{what}` reads {value}")?;
                at.as_ref().map_or(Ok(()), |at| write!(f, " at {at}"))
            }
        }
    }
}

/// What guards of several paths compare with one value each.
#[derive(Clone, Copy, Debug)]
pub(super) enum Key<'a> {
    Size(u32),
    Read(&'a Source),
}

impl Key<'_> {
    pub(super) fn is_same(&self, other: &Key<'_>) -> bool {
        match (self, other) {
            (Key::Size(a), Key::Size(b)) => a == b,
            (Key::Read(a), Key::Read(b)) => a.is_same(b),
            _ => false,
        }
    }

    /// Hashes the value in a call as [`Guard::hash_expected`] hashes the expected one.
    pub(super) fn hash_value(&self, walk: &Walk<'_>, hasher: &mut FxHasher) {
        match self {
            Key::Size(at) => hasher.write_i64(walk.symbols.get(*at as usize).copied().unwrap_or(-1)),
            Key::Read(of) => {
                if let Some(array) = walk.array(of) {
                    hash_array(&array, hasher);
                }
            }
        }
    }
}

fn hash_array(array: &Array, hasher: &mut FxHasher) {
    for scalar in array.iter_scalars() {
        match scalar {
            Scalar::Bool(x) => hasher.write_u8(u8::from(x)),
            Scalar::Int(x) => hasher.write_i64(x),
            Scalar::Float(x) => hasher.write_u64(x.to_bits()),
        }
    }
}

/// The most elements of a tensor whose values may choose a path.
const MOST_READ: usize = 16;

/// Returns whether the value of a tensor may choose a path: a few bools or integers.
pub(super) fn may_choose(array: &Array) -> bool {
    !array.dtype().is_float() && array.numel() <= MOST_READ
}

/// Returns the value of a buffer.
pub(super) fn value_of(buffer: &Buffer) -> Option<Arc<Array>> {
    buffer.load().shared_array().cloned()
}
