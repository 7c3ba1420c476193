//! The integration tests: one binary, one module a concern.

mod conformance;
mod edit;
mod errors;
mod files;
mod import;
mod models;
mod rows;
mod ui;
