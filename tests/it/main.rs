//! The integration tests: one binary, one module a concern.

mod errors;
mod rows;
mod ui;
