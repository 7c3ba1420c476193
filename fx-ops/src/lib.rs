//! (in construction)

pub mod kernel;
