//! Views and rearrangements: the elements of one tensor under another shape, in another order, or some of them.
//!
//! `shape` changes shapes, `slicing` takes parts and repeats, `indexing` reads and writes by index tensors and
//! masks.

mod indexing;
mod shape;
mod slicing;
pub(crate) use indexing::out_of_range;
pub use indexing::*;
pub use shape::*;
pub use slicing::*;

use fx_core::Op;

/// The tables of this file.
pub(super) static TABLES: &[&[Op]] = &[SHAPES, COPIES, SLICING, INDEXING, WHERE];
