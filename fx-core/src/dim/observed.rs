//! Sizes that are an expression and have a value at hand, and the observer who learns what the values decide.
//!
//! While a function is recorded with examples, Rust code gets *observed* sizes: arithmetic keeps expression
//! and value, a comparison uses the value, and [`Dim::known`] gives the number and loses the expression. The
//! observer is told of each such use. Shape rules never see an observed size; a question between
//! expressions that they cannot decide is answered with the values of the observer of the thread.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use super::{Dim, Repr, Symbol, Truth, compare};
use crate::SourceLoc;

/// Who knows the values of symbols, and learns what they decide.
pub trait Observer: Send + Sync {
    /// Returns the value of a symbol.
    fn value(&self, symbol: &Symbol) -> Option<i64>;

    /// Learns that a shape rule relied on a relation between sizes.
    fn relied_on(&self, relation: Relation);

    /// Learns that Rust code used the value of a size.
    fn used(&self, size: &Dim, value: i64, how: SizeUse, at: SourceLoc);

    /// Learns that the values decided a comparison of Rust code.
    fn decided(&self, _relation: Relation, _at: SourceLoc) {}
}

/// How Rust code used the value of a size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SizeUse {
    /// As a number.
    Number,
    /// In a comparison, as text.
    Comparison(String),
}

/// A relation between sizes that the values decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Relation {
    /// Two sizes are equal.
    Equal(Dim, Dim),
    /// Two sizes are not equal.
    Differ(Dim, Dim),
    /// The first is less than the second.
    Less(Dim, Dim),
    /// The first is not less than the second.
    NotLess(Dim, Dim),
}

/// A size with a value at hand.
pub(super) struct Observed {
    pub(super) size: Dim,
    value: i64,
    observer: Arc<dyn Observer>,
}

impl Observed {
    /// Returns the value of another size, which its own value or the observer tells.
    fn value_of(&self, size: &Dim) -> Option<i64> {
        size.value_at_hand().or_else(|| size.eval(&|symbol| self.observer.value(symbol)).ok())
    }
}

thread_local! {
    static OBSERVER: RefCell<Option<Arc<dyn Observer>>> = const { RefCell::new(None) };
    static IS_OBSERVED: Cell<bool> = const { Cell::new(false) };
}

/// Runs `f` while `observer` answers the questions of shape rules on this thread; also a panic restores the
/// one before.
pub fn with_observer<T>(observer: Arc<dyn Observer>, f: impl FnOnce() -> T) -> T {
    struct Restore(Option<Arc<dyn Observer>>);
    impl Drop for Restore {
        fn drop(&mut self) {
            IS_OBSERVED.set(self.0.is_some());
            OBSERVER.set(self.0.take());
        }
    }
    let _restore = Restore(OBSERVER.replace(Some(observer)));
    IS_OBSERVED.set(true);
    f()
}

fn observer() -> Option<Arc<dyn Observer>> {
    if IS_OBSERVED.get() { OBSERVER.with_borrow(Clone::clone) } else { None }
}

fn values(observer: &dyn Observer, left: &Dim, right: &Dim) -> Option<(i64, i64)> {
    let value = |dim: &Dim| dim.eval(&|symbol| observer.value(symbol)).ok();
    Some((value(left)?, value(right)?))
}

/// Decides by the values whether two sizes are equal.
pub(super) fn same(left: &Dim, right: &Dim) -> Truth {
    let Some(observer) = observer() else { return Truth::Unknown };
    let Some((a, b)) = values(&*observer, left, right) else { return Truth::Unknown };
    let pair = (left.clone(), right.clone());
    let (relation, truth) = match a == b {
        true => (Relation::Equal(pair.0, pair.1), Truth::Yes),
        false => (Relation::Differ(pair.0, pair.1), Truth::No),
    };
    observer.relied_on(relation);
    truth
}

/// Decides by the values whether a size is less than another.
pub(super) fn less(left: &Dim, right: &Dim) -> Truth {
    let Some(observer) = observer() else { return Truth::Unknown };
    let Some((a, b)) = values(&*observer, left, right) else { return Truth::Unknown };
    let pair = (left.clone(), right.clone());
    let (relation, truth) = match a < b {
        true => (Relation::Less(pair.0, pair.1), Truth::Yes),
        false => (Relation::NotLess(pair.0, pair.1), Truth::No),
    };
    observer.relied_on(relation);
    truth
}

impl Dim {
    /// Makes a size whose value is at hand.
    #[doc(hidden)]
    pub fn observed(size: Dim, value: i64, observer: &Arc<dyn Observer>) -> Dim {
        match size.0 {
            Repr::Expr(_) => {
                Dim(Repr::Observed(Arc::new(Observed { size, value, observer: observer.clone() })))
            }
            _ => size,
        }
    }

    /// Returns the size without the value at hand.
    #[doc(hidden)]
    pub fn plain(&self) -> &Dim {
        match &self.0 {
            Repr::Observed(observed) => &observed.size,
            _ => self,
        }
    }

    /// Returns whether this size is 1 by its value at hand and gives way to `other`, which is not.
    pub(crate) fn is_one_beside(&self, other: &Dim) -> bool {
        let Some(observer) = observer() else { return false };
        let gives_way = matches!(values(&*observer, self, other), Some((1, n)) if n != 1);
        if gives_way {
            observer.relied_on(Relation::Equal(self.clone(), Dim::new(1)));
        }
        gives_way
    }

    /// Returns the number of a size with a value at hand, and tells its observer.
    pub(super) fn use_number(&self, at: SourceLoc) -> Option<i64> {
        let Repr::Observed(observed) = &self.0 else { return self.constant() };
        observed.observer.used(&observed.size, observed.value, SizeUse::Number, at);
        Some(observed.value)
    }

    /// Writes a comparison.
    pub(super) fn shown(&self, sign: &str, other: &Dim) -> String {
        format!("{} {sign} {}", self.plain(), other.plain())
    }

    pub(crate) fn value_at_hand(&self) -> Option<i64> {
        match &self.0 {
            Repr::Observed(observed) => Some(observed.value),
            _ => self.constant(),
        }
    }
}

/// Applies a function to two sizes; the value at hand goes along.
pub(super) fn lift(function: impl Fn(&Dim, &Dim) -> Dim, left: &Dim, right: &Dim) -> Dim {
    let ((Repr::Observed(observed), _) | (_, Repr::Observed(observed))) = (&left.0, &right.0) else {
        return function(left, right);
    };
    let size = function(left.plain(), right.plain());
    let value = match (observed.value_of(left), observed.value_of(right)) {
        (Some(a), Some(b)) => function(&Dim::new(a), &Dim::new(b)).constant(),
        _ => None,
    };
    match value {
        Some(value) => Dim::observed(size, value, &observed.observer),
        None => size,
    }
}

/// A comparison of two sizes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Comparison {
    Same,
    Less,
}

impl Comparison {
    /// Returns the answer for all values of the symbols.
    fn prove(self, left: &Dim, right: &Dim) -> Truth {
        match self {
            Comparison::Same => compare::same(left, right),
            Comparison::Less => compare::less(left, right),
        }
    }

    fn relation(self, left: &Dim, right: &Dim, holds: bool) -> Relation {
        let (left, right) = (left.plain().clone(), right.plain().clone());
        match (self, holds) {
            (Comparison::Same, true) => Relation::Equal(left, right),
            (Comparison::Same, false) => Relation::Differ(left, right),
            (Comparison::Less, true) => Relation::Less(left, right),
            (Comparison::Less, false) => Relation::NotLess(left, right),
        }
    }
}

/// Decides a comparison of Rust code, which reads as `text`. A proof for all values of the symbols answers it;
/// the values at hand decide otherwise, and the observer learns so.
pub(super) fn decide(
    left: &Dim,
    right: &Dim,
    text: &dyn Fn() -> String,
    comparison: Comparison,
    at: SourceLoc,
) -> Truth {
    let truth = comparison.prove(left.plain(), right.plain());
    let ((Repr::Observed(observed), _) | (_, Repr::Observed(observed))) = (&left.0, &right.0) else {
        return truth;
    };
    if truth != Truth::Unknown {
        return truth;
    }
    let (Some(a), Some(b)) = (observed.value_of(left), observed.value_of(right)) else {
        return Truth::Unknown;
    };
    let text = text();
    for dim in [left, right] {
        if let Repr::Observed(side) = &dim.0 {
            let how = SizeUse::Comparison(text.clone());
            observed.observer.used(&side.size, side.value, how, at.clone());
        }
    }
    let answer = comparison.prove(&Dim::new(a), &Dim::new(b));
    observed.observer.decided(comparison.relation(left, right, answer.is_yes()), at);
    answer
}

/// Decides equality of Rust code, where at least one side is observed.
pub(super) fn equal(left: &Dim, right: &Dim, at: SourceLoc) -> bool {
    left.plain() == right.plain()
        || decide(left, right, &|| left.shown("==", right), Comparison::Same, at).is_yes()
}
