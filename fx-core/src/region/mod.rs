//! Operations on closed sub-graphs: control flow, and groups that an engine computes as one kernel.
//!
//! [`trace::trace_region`](crate::trace::trace_region) makes the sub-graphs of closures; [`crate::ops`] lists
//! these operations.

mod control;
mod fusion;

pub(crate) use control::CONTROL;
pub use control::{cond, evaluate_control, sub_graph_operands, while_loop};
pub(crate) use fusion::FUSED;
pub use fusion::fused;
