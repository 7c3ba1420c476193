//! Selection and sorting, which generated crates do by the same text.

pub use fx_base::select::*;
