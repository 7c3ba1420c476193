//! The vocabulary of fx: op rows, kernels, neural-network modules, weights.

// Derives of this crate name `::fx`, as those of users do.
extern crate fx_core as fx;

pub mod engine;
mod fusible;
mod kernel;
pub mod nn;
pub mod ops;
pub mod pass;
pub mod rules;
pub mod weights;

pub use fx_simd::parallel::with_threads;
pub use ops::{families, registry, tables};
