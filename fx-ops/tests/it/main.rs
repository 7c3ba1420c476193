//! Tests of fx-ops from outside; `weights_hostile` is a binary of its own because it watches the global allocator.

extern crate fx_core as fx;

mod numeric;
mod weights;
