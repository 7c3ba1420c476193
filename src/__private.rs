//! The items that code of fx-macros names. Not for direct use, and not stable.

pub use fx_core::__private::*;

pub use crate::compile::{Compiled, call_compiled, compiled};

/// The runtime of `#[fx::script]`, with the operations on lists.
pub mod script {
    pub use fx_core::__private::script::*;
    use fx_ops::ops::functions as ops;

    /// Begins a call of a scripted function.
    pub fn flow() -> Flow {
        static LISTS: ListOps = ListOps {
            cat: ops::cat::OP,
            flatten: ops::flatten::OP,
            full: ops::full::OP,
            movedim: ops::movedim::OP,
            select_scatter: ops::select_scatter::OP,
            stack: ops::stack::OP,
        };
        Flow::with_lists(&LISTS)
    }
}
