//! What the tests of this crate see of its inside. Not for direct use, and not stable.

pub use crate::fresh::{settle, symbols};
pub use crate::graph::journal::journal_weight;
pub use crate::graph::order::{NIL, Order};
pub use crate::names::{Claim, Namespace};
pub use crate::pass::edits;
pub use crate::text::layout;
