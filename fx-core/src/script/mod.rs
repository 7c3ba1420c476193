//! The runtime of `#[fx::script]`: Rust control flow that may depend on symbols.
//!
//! The macro leaves the text of a function in place and puts calls of a [`Flow`] around each `if` and each
//! loop. A condition that has a value decides natively. A condition that is a symbol makes both sides of an
//! `if` run, one after the other, each within a sub-graph of its own; so does a loop with its body. Variables
//! get the values that the sub-graphs return.
//!
//! A side that leaves the function or the loop ends there. The other side goes on: what follows is recorded
//! within its sub-graph, until the function or the round ends ([`Flow`] calls this a fork). So nothing is
//! emitted twice.
//!
//! A list that every round of a recorded loop pushes to becomes one tensor, [`Items`] says how.

mod branch;
mod condition;
mod early;
mod flow;
mod grow;
mod items;
mod merge;
mod repeat;
mod rounds;
mod variable;

pub use branch::{Branch, Pair, PairOfAny, PairOfTrees};
pub use condition::{Condition, Test};
pub use early::{Early, Fallible};
pub use flow::{Exit, Flow};
pub use items::ListOps;
pub(crate) use items::{Items, join_items};
pub use repeat::{Repeat, Tested};
pub use rounds::{End, IntoRounds, Rounds, Until};
pub use variable::{Keep, OfAny, OfTree, Probe, Variable};

/// Begins a call of a scripted function, without operations on lists.
pub fn flow() -> Flow {
    Flow::default()
}
