//! Reductions, scans and orderings along axes.
//!
//! `fold` cuts reductions into pieces, whose loops are in `kernel::fold`; `sums` has the
//! sums and what is made of them; `min_max` minima and maxima; `order` sorting and scans; `rank` and `quantiles`
//! elements by their place in the order; `difference` what compares or joins neighbours.

mod difference;
pub(crate) mod fold;
pub(crate) mod min_max;
mod order;
mod quantiles;
mod rank;
mod sums;

pub use difference::*;
pub use min_max::*;
pub use order::*;
pub use quantiles::*;
pub use rank::*;
pub(crate) use sums::Spread;
pub use sums::*;

use fx_core::array::Sizes;
use fx_core::op::kind::IntVec;
use fx_core::{Array, DType, Dim, Element, Op, Result, TensorType};

use self::fold::Lines;
use crate::ops::infer::{as_slice, mask, reduced, typed};

/// The tables of this file.
pub(super) static TABLES: &[&[Op]] = &[SUMS, MIN_MAX, ORDERS, RANKS, QUANTILES, DIFFERENCES];

/// Returns the type after a reduction over axes.
fn reduced_type(x: &TensorType, dim: &Option<IntVec>, keepdim: bool, dtype: DType) -> Result<TensorType> {
    let mask = mask(as_slice(dim), x.rank())?;
    typed(dtype, reduced(&x.shape, &mask, keepdim, Dim::new(1)))
}

/// Makes the result of a reduction from its elements, which are in the order of the remaining axes.
fn reduced_array<T: Element>(data: Vec<T>, x: &Array, mask: &[bool], keepdim: bool) -> Result<Array> {
    let shape: Sizes = reduced(x.shape(), mask, keepdim, 1);
    Array::from_vec(data, &shape)
}
