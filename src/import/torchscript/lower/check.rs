//! Errors that the program raises: a branch that raises becomes a check of its condition.

use super::{Lowerer, Step};
use crate::{Arg, DType, NodeId};

impl Lowerer<'_> {
    /// Adds a check that a condition holds, or that it does not.
    pub(super) fn check(&mut self, condition: NodeId, expected: bool, message: &str) -> Step<()> {
        let condition = match expected {
            true => condition,
            false => self.row("logical_not", [Arg::Leaf(condition)])?,
        };
        self.row("check", [Arg::Leaf(condition), Arg::str(message)])?;
        Ok(())
    }

    /// Adds a check that always fails.
    pub(super) fn fail(&mut self, message: &str) -> Step<()> {
        let never = self.row_with(
            "full",
            vec![Arg::list([]), Arg::Bool(false)],
            &[("dtype", Arg::DType(DType::Bool))],
        )?;
        self.check(never, true, message)
    }
}
