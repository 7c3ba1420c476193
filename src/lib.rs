//! fx captures tensor programs written as ordinary Rust as a graph that people can read, change, print as
//! Rust and run.
//!
//! This crate is the façade: everything of `fx-core` (the language) and `fx-ops` (the vocabulary) at one
//! level, with the traits that model code needs in [`prelude`].

extern crate self as fx;

/// The README and the guide, whose code `cargo test --doc` runs.
#[cfg(doctest)]
mod documents {
    macro_rules! documents {
        ($($(#[$meta:meta])* $name:ident: $path:literal)*) => {
            $($(#[$meta])* #[doc = include_str!(concat!("../", $path))] struct $name;)*
        };
    }
    documents! {
        #[cfg(feature = "import")]
        Readme: "README.md"
        Tracing: "docs/guide/tracing.md"
        Script: "docs/guide/script.md"
        Compile: "docs/guide/compile.md"
        Modules: "docs/guide/modules.md"
        Graphs: "docs/guide/graphs.md"
        Rewriting: "docs/guide/rewriting.md"
        Interpreters: "docs/guide/interpreters.md"
        Splitting: "docs/guide/splitting.md"
        Operations: "docs/guide/operations.md"
        Code: "docs/guide/code.md"
        #[cfg(feature = "import")]
        Pytorch: "docs/guide/pytorch.md"
        #[cfg(feature = "import")]
        TorchScript: "docs/guide/torchscript.md"
        Engine: "docs/engine.md"
    }
}

#[doc(hidden)]
pub mod __private;
#[doc(hidden)]
pub mod __test;
pub mod bench;
pub mod bisect;
pub mod build;
pub mod check;
pub mod compile;
pub mod conformance;
mod engine;
pub mod executor;
pub mod export;
mod future;
pub mod fuzz;
pub mod graph_diff;
pub mod import;
pub mod jit_trace;
pub mod library;
pub mod opcheck;
/// Passes, and the driver that runs and verifies them.
pub mod pass {
    pub use fx_core::pass::*;
    pub use fx_ops::pass::*;
}
pub mod prelude;
mod profile;
pub mod program;
pub mod reference;
pub mod reproduce;
pub mod saved;
pub mod script;
mod signature;
pub mod standalone;
pub mod view;
mod zip_file;

pub use compile::{compile, cut, is_compiling, without_compile};
pub use engine::{Compile, Engine, Program};
pub use executor::Executor;
pub use future::{Future, fork, fork_with};
pub use fx_codegen::{Code, GraphCode, Native, readable};
pub use fx_core::ops::*;
pub use fx_core::rng::{Generator, manual_seed, with_generator};
pub use fx_core::*;
pub use fx_macros::{Module, Tree, compile, forward, script, wrap};
pub use fx_ops::ops::functions::*;
pub use fx_ops::{nn, rules, weights, with_threads};
pub use fx_script as torchscript;
pub use graph_diff::graph_diff;
pub use jit_trace::{JitTrace, jit_trace};
pub use library::{Library, library, registry};
pub use profile::{Profile, ProfiledStep, profile};
pub use saved::{load, save};
pub use script::{script, script_file};
pub use standalone::{CrateOptions, ToCrate};

/// How operations of the user's are added to text.
const OWN_OPERATIONS: &str = "operations of your own are given to `fx::Graph::parse`";

/// Reads a graph of built-in operations from text, as `Display` writes it. [`Graph::parse`] takes operations
/// of your own too. Fails with everything that is wrong in the text, each with its line and column.
///
/// ```
/// let gm = fx::trace(|x: &fx::Tensor| x * 2).build()?;
/// assert_eq!(fx::parse(&gm.graph().to_string())?.to_string(), gm.graph().to_string());
/// # Ok::<(), fx::Error>(())
/// ```
pub fn parse(text: &str) -> Result<Graph> {
    Graph::parse(text, &registry().advising(OWN_OPERATIONS))
}
