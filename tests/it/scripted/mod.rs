//! `#[fx::script]`: control flow of Rust that becomes regions of a graph.

pub(crate) mod decoding;
pub(crate) mod examples;
mod exits;
mod host;
mod lists;
mod random;
mod refusals;
mod traces;

use fx::pass::Passes;
use fx::prelude::*;
use fx::trace::{TraceBuilder, Traceable};
use fx::{GraphModule, Value};

/// Traces a scripted function and checks that nothing is wrong with its graph.
fn graph<T: Traceable<M>, M>(trace: TraceBuilder<T, M>) -> GraphModule {
    let gm = trace.without_sources().build().unwrap();
    assert!(gm.lint().is_empty(), "{:?}", gm.lint());
    gm
}

/// Returns what a trace says against a scripted function.
fn refused<T: Traceable<M>, M>(trace: TraceBuilder<T, M>) -> String {
    let error = trace.without_sources().build().expect_err("the trace is refused");
    let help = error.advice().map(|help| format!("\nhelp: {help}")).unwrap_or_default();
    format!("{}{help}", error.message())
}

/// Checks that a graph, also after the default passes and on the fused engine, computes what an eager call
/// does.
fn agrees(gm: &GraphModule, args: &[Value], eager: &impl Tree) {
    let expected = fx::check::tensors(&eager.to_value());
    let same = |on: &str, found: fx::Result<Value>| {
        let found =
            fx::check::tensors(&found.unwrap_or_else(|error| panic!("{on}: {error}\n{}", gm.graph())));
        assert_eq!(found.len(), expected.len(), "{on}");
        for (found, expected) in found.iter().zip(&expected) {
            let same = found.all_close(expected, 1e-6, 1e-6);
            same.unwrap_or_else(|error| panic!("{on}: {error}\n{}", gm.graph()));
        }
    };
    same("the graph", gm.call_values(args));
    let mut optimized = gm.clone();
    Passes::parse(fx::pass::DEFAULT, &fx::pass::all()).unwrap().run(&mut optimized).unwrap();
    same("the optimized graph", optimized.call_values(args));
    same("the fused engine", gm.compile(fx::Engine::Fused).unwrap().call_values(args));
}

/// Returns `n` numbers from -2.5 on.
fn numbers(n: usize) -> Tensor {
    Tensor::from_vec((0..n).map(|i| i as f32 - 2.5).collect(), &[n])
}

/// Returns a flag.
fn flag(value: bool) -> Tensor {
    Tensor::new(fx::Array::scalar(value))
}
