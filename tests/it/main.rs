//! The integration tests: one binary, one module a concern.

mod allocations;
mod cli;
mod compile;
mod compile_attribute;
mod compile_report;
mod compiled;
mod compiled_models;
mod conformance;
mod costs;
mod declared;
mod dependencies;
mod edit;
mod engine;
mod errors;
mod executor;
mod export;
mod files;
mod future;
mod fuzz;
mod fuzz_mutations;
mod fuzz_script;
mod generated;
mod graph_diff;
mod gufunc;
mod host_values;
mod import;
mod import_alias;
mod import_metadata;
mod import_out;
mod import_pytree;
mod import_symbols;
mod import_torchscript;
mod integers;
mod jit_trace;
mod methods;
mod models;
mod native;
mod opcheck;
mod ops;
mod passes;
mod profile;
mod rows;
mod rowwise;
mod rustc;
mod saved;
mod script_check;
mod script_operators;
mod script_text;
mod scripted;
mod splits;
mod standalone;
mod tidy;
mod torchscript;
mod ui;
mod unflatten;
mod view;
mod view_family;
mod windows;

/// Says on standard error that a test did not run, and how it would; the harness does not capture this.
fn skipped(what: &str, how: &str) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr(), "SKIPPED: {what}; {how}");
}
