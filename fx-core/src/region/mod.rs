//! Operations on closed sub-graphs: control flow, and groups that an engine computes as one kernel.
//!
//! [`trace::trace_region`](crate::trace::trace_region) makes the sub-graphs of closures; [`crate::ops`] lists
//! these operations.

mod control;
mod counted_loop;
mod fusion;
mod join;
mod task;

pub(crate) use control::{CONTROL, refill, unpacked};
pub use control::{cond, evaluate_control, operand_lists, sub_graph_inputs, while_loop};
pub use counted_loop::for_loop;
pub(crate) use fusion::FUSED;
pub use fusion::fused;
pub(crate) use join::Fixpoint;
pub use join::{CarriedTypes, join_types};
pub(crate) use task::{TASKS, draws};
pub use task::{fork, wait};
