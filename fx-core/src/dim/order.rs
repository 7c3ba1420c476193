//! The comparison operators of [`Dim`] with sizes and numbers.
//!
//! A comparison that holds for some values of the symbols only has no answer in a plain trace: it is an error of
//! the trace, and `false`. While a function is recorded with examples, the values at hand decide.

use std::cmp::Ordering;

use super::{Dim, Truth, observed};
use crate::SourceLoc;

/// Decides `left < right`; `shown` is the comparison as the user wrote it.
fn is_less(left: &Dim, right: &Dim, shown: (&Dim, &str, &Dim), at: SourceLoc) -> Option<bool> {
    let text = || shown.0.shown(shown.1, shown.2);
    match observed::decide(left, right, &text, observed::Comparison::Less, at.clone()) {
        Truth::Yes => Some(true),
        Truth::No => Some(false),
        Truth::Unknown => {
            crate::trace::note_undecided(&text(), at);
            None
        }
    }
}

/// Sizes are in the order of their numbers. A comparison that depends on the values of symbols is `None` or
/// `false`, and an error of the trace in which it happens.
impl PartialOrd for Dim {
    #[track_caller]
    fn partial_cmp(&self, other: &Dim) -> Option<Ordering> {
        let at = SourceLoc::caller();
        if is_less(self, other, (self, "<", other), at.clone())? {
            return Some(Ordering::Less);
        }
        let is_greater = is_less(other, self, (self, ">", other), at)?;
        Some(if is_greater { Ordering::Greater } else { Ordering::Equal })
    }

    #[track_caller]
    fn lt(&self, other: &Dim) -> bool {
        is_less(self, other, (self, "<", other), SourceLoc::caller()) == Some(true)
    }

    #[track_caller]
    fn le(&self, other: &Dim) -> bool {
        is_less(other, self, (self, "<=", other), SourceLoc::caller()) == Some(false)
    }

    #[track_caller]
    fn gt(&self, other: &Dim) -> bool {
        is_less(other, self, (self, ">", other), SourceLoc::caller()) == Some(true)
    }

    #[track_caller]
    fn ge(&self, other: &Dim) -> bool {
        is_less(self, other, (self, ">=", other), SourceLoc::caller()) == Some(false)
    }
}

impl PartialEq<i64> for Dim {
    #[track_caller]
    fn eq(&self, other: &i64) -> bool {
        *self == Dim::new(*other)
    }
}

impl PartialOrd<i64> for Dim {
    #[track_caller]
    fn partial_cmp(&self, other: &i64) -> Option<Ordering> {
        self.partial_cmp(&Dim::new(*other))
    }

    #[track_caller]
    fn lt(&self, other: &i64) -> bool {
        *self < Dim::new(*other)
    }

    #[track_caller]
    fn le(&self, other: &i64) -> bool {
        *self <= Dim::new(*other)
    }

    #[track_caller]
    fn gt(&self, other: &i64) -> bool {
        *self > Dim::new(*other)
    }

    #[track_caller]
    fn ge(&self, other: &i64) -> bool {
        *self >= Dim::new(*other)
    }
}
