//! The macros of fx-macros.

mod call;
mod module;
mod trace;
