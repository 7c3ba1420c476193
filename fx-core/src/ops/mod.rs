//! The operations that the language itself needs: those behind operators and indexing, sizes, effects and, from
//! [`crate::region`], control flow.

mod arith;
mod effects;
mod index;
mod operators;
mod sizes;

pub use arith::*;
pub use effects::{check, is_store, print, set_buffer, set_state, with_printed};
pub use index::{IntoBound, IntoIndex, getitem, index_array, index_places, index_type, with_step};
pub use sizes::{item, size};

pub use crate::fresh::renewed;
use crate::region::{CONTROL, FUSED, TASKS};
pub use crate::region::{
    cond, evaluate_control, for_loop, fork, fused, join_types, operand_lists, sub_graph_inputs, wait,
    while_loop,
};
use crate::{Op, Result, err};

/// The tables of fx-core; see [`Registry::core`](crate::Registry::core).
pub static TABLES: &[&[Op]] =
    &[ARITHMETIC, COMPARISON, index::INDEX, sizes::SIZE, effects::EFFECTS, CONTROL, FUSED, TASKS];

/// Returns a possibly negative axis as a position. Fails if it is out of range.
pub fn axis(axis: i64, rank: usize) -> Result<usize> {
    let n = rank as i64;
    let position = if axis < 0 { axis.wrapping_add(n) } else { axis };
    if (0..n).contains(&position) {
        return Ok(position as usize);
    }
    let help =
        if rank == 0 { "the tensor has no axes".to_owned() } else { format!("axes are -{n}..={}", n - 1) };
    Err(err!(Axis, "axis {axis} is out of range for rank {rank}").help(help))
}
