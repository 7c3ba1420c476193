//! The integration tests: one binary, one module a concern.

mod conformance;
mod errors;
mod rows;
mod ui;
