//! What the tests of this crate see of its inside. Not for direct use, and not stable.

pub use crate::compile::report::listed;
pub use crate::script::check::case::{Callee, Case};
pub use crate::view::family::{FAMILIES, Families, TABLES, position};
pub use fx_ops::families;

pub mod import {
    pub use crate::import::alias::is_viewable;
    pub use crate::import::metadata::{module_stack, source};
    pub use crate::import::out::{is_out, is_target, without};
    pub use crate::import::pytree::parse;
    pub use crate::import::symbols::Symbols;
}
