//! Tests of fx-macros. They are here because a test of the package of the macros would compile this crate a second
//! time, with the features of macros.

extern crate fx_core as fx;

mod call;
mod module;
mod trace;
