//! Analyses of graphs: dependencies, lifetimes of values, and costs.
//!
//! All of them number the nodes by their place in program order, which is a topological order: [`Flow`] holds
//! the edges as two flat tables, and the others walk over these once or a few times. None of them changes a
//! graph.

mod cost;
mod dominators;
mod flow;
mod liveness;
mod memory;
mod reach;
mod summary;
pub use cost::{Cost, Costs, ParameterCount, Sizes, count_parameters};
pub use dominators::Dominators;
pub use flow::Flow;
pub use liveness::Liveness;
pub use memory::Peak;
pub use reach::{BitSet, Reach};
pub use summary::{ModuleRow, Summary};
