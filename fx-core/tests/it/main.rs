//! Tests of fx-core, and of fx-macros. They are outside of the crates: with tests inside of it, fx-core would be
//! compiled a second time, and a test of the package of the macros would compile it with the features of macros.

extern crate fx_core as fx;

mod analysis;
mod array;
mod array_compact;
mod array_elements;
mod blocks;
mod dim;
mod fresh;
mod graph;
mod graph_order;
mod graph_surgery;
mod lint;
mod macros;
mod module;
mod names;
mod ops_index;
mod pass;
mod pointwise_numbers;
mod rewrite;
mod rng;
mod rng_mt19937;
mod splitting;
mod text;
mod trace;
mod transform;
mod window;
