//! The integration tests: one binary, one module a concern.

mod allocations;
mod cli;
mod compiled;
mod conformance;
mod costs;
mod dependencies;
mod edit;
mod engine;
mod errors;
mod files;
mod fuzz;
mod generated;
mod graph_diff;
mod import;
mod models;
mod native;
mod opcheck;
mod ops;
mod passes;
mod rows;
mod splits;
mod standalone;
mod ui;
mod view;
