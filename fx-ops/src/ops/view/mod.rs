//! Views and rearrangements: the elements of one tensor under another shape, in another order, or some of them.
//!
//! `shape` changes shapes, `part` takes parts and repeats, `pick` reads and writes by index tensors and masks.

mod part;
mod pick;
mod shape;
#[cfg(test)]
mod tests;

pub use part::*;
pub(crate) use pick::out_of_range;
pub use pick::*;
pub use shape::*;

use fx_core::Op;

/// The tables of this file.
pub(super) static TABLES: &[&[Op]] = &[SHAPES, COPIES, PARTS, PICKS, WHERE];
