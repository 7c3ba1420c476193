//! The integration tests: one binary, one module a concern.

mod allocations;
mod cli;
mod compile_attribute;
mod compiled;
mod compiled_models;
mod conformance;
mod costs;
mod dependencies;
mod edit;
mod engine;
mod errors;
mod export;
mod files;
mod fuzz;
mod generated;
mod graph_diff;
mod gufunc;
mod host_values;
mod import;
mod methods;
mod models;
mod native;
mod opcheck;
mod ops;
mod passes;
mod rows;
mod rowwise;
mod rustc;
mod saved;
mod scripted;
mod splits;
mod standalone;
mod tidy;
mod torchscript;
mod ui;
mod unflatten;
mod view;
mod windows;

/// Says on standard error that a test did not run, and how it would; the harness does not capture this.
fn skipped(what: &str, how: &str) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr(), "SKIPPED: {what}; {how}");
}
