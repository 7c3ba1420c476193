//! [`Kernel`]: what the steps of a plan run.

use fx_core::Result;

use super::operand::{Bases, ValueId};
use super::tape::Tape;

/// A step that computes values from values.
pub(crate) trait Kernel: Send + Sync {
    /// Refuses operands whose elements it cannot take, such as integers that name no row of a table.
    ///
    /// # Safety
    ///
    /// The bases are those of the plan that the kernel belongs to: its operands can be read.
    unsafe fn check(&self, _bases: Bases<'_>) -> Result<()> {
        Ok(())
    }

    /// Computes the results.
    ///
    /// # Safety
    ///
    /// As for [`check`](Self::check), which took the operands; nobody else has the results.
    unsafe fn run(&self, bases: Bases<'_>);

    /// Returns the values that it reads.
    fn reads(&self) -> Vec<ValueId>;

    /// Returns pairs of a value that is read and one that may be written to the same memory.
    fn reuses(&self) -> Vec<(ValueId, ValueId)> {
        Vec::new()
    }

    /// Says that a result takes the memory of a value that it reads.
    fn reuse(&mut self, _from: ValueId, _by: ValueId) {}

    /// Returns the tape that it runs, if it has one.
    fn tape(&mut self) -> Option<&mut Tape> {
        None
    }

    /// Returns the arithmetic operations that one thread does in a nanosecond, roughly.
    fn flops(&self) -> f64 {
        2.0
    }

    /// Says what it does.
    fn describe(&self) -> String;
}

/// Roughly the arithmetic operations that one thread does in a nanosecond in products of large tiles.
pub(crate) const PRODUCT_FLOPS: f64 = 150.0;
