//! Conditions: a bool decides at once, a symbol while the graph runs.

use crate::ops::{logical_and, logical_not, logical_or};
use crate::trace::{apply_as, decides_in_trace};
use crate::{Error, Parameter, Tensor};

/// What a condition says.
#[derive(Debug)]
pub enum Condition {
    /// It has a value.
    Known(bool),
    /// It is a symbol.
    Traced(Tensor),
    /// It is an error.
    Failed(Error),
}

/// A condition of a script: a bool, or a tensor of one element.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a condition",
    label = "expected a `bool` or a tensor of one element",
    note = "compare it, or reduce it with `any` or `all`"
)]
pub trait Test {
    /// Returns what the condition says.
    fn test(self) -> Condition;
}

impl Test for bool {
    fn test(self) -> Condition {
        Condition::Known(self)
    }
}
impl Test for &bool {
    fn test(self) -> Condition {
        Condition::Known(*self)
    }
}
impl Test for &Tensor {
    #[track_caller]
    fn test(self) -> Condition {
        if let Some(error) = self.error() {
            Condition::Failed(error.clone())
        } else if decides_in_trace(self) {
            Condition::Traced(self.clone())
        } else {
            self.to_bool().map_or_else(Condition::Failed, Condition::Known)
        }
    }
}
impl Test for Tensor {
    #[track_caller]
    fn test(self) -> Condition {
        (&self).test()
    }
}
impl Test for &Parameter {
    #[track_caller]
    fn test(self) -> Condition {
        (&**self).test()
    }
}
impl Test for Condition {
    fn test(self) -> Condition {
        self
    }
}

impl Condition {
    /// Returns what `!` makes of a condition.
    #[allow(clippy::should_implement_trait, reason = "only the macro calls it")]
    #[track_caller]
    pub fn not(self) -> Condition {
        match self {
            Condition::Known(x) => Condition::Known(!x),
            Condition::Traced(x) => Condition::Traced(apply_as(logical_not::OP, false, [x.into()])),
            failed => failed,
        }
    }

    /// Returns whether this condition decides an `and` (if it is false) or an `or` (if it is true) alone.
    pub fn is_known(&self, holds: bool) -> bool {
        matches!(self, Condition::Failed(_)) || matches!(self, Condition::Known(x) if *x == holds)
    }

    /// Returns this condition and the other one.
    #[track_caller]
    pub fn and(self, other: Condition) -> Condition {
        self.combine(other, false, logical_and::OP)
    }

    /// Returns this condition or the other one.
    #[track_caller]
    pub fn or(self, other: Condition) -> Condition {
        self.combine(other, true, logical_or::OP)
    }

    #[track_caller]
    fn combine(self, other: Condition, decisive: bool, op: crate::Op) -> Condition {
        match (self, other) {
            (Condition::Failed(error), _) | (_, Condition::Failed(error)) => Condition::Failed(error),
            (Condition::Known(x), _) | (_, Condition::Known(x)) if x == decisive => Condition::Known(x),
            (Condition::Known(_), other) | (other, Condition::Known(_)) => other,
            (Condition::Traced(first), Condition::Traced(second)) => {
                Condition::Traced(apply_as(op, false, [first.into(), second.into()]))
            }
        }
    }
}
