//! Tests of fx-ops. They are outside of the crate, which would be compiled a second time for tests inside of it;
//! `weights_hostile` is a binary of its own because it watches the global allocator.

extern crate fx_core as fx;

mod nn;
mod numeric;
mod ops;
// Bodies as they are written exist beside tuned kernels in debug builds.
#[cfg(debug_assertions)]
mod rowwise;
mod testing;
mod weights;
