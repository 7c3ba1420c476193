//! Planted programs: each kind of diagnostic in several variants, with the line and column of the user's token.
//!
//! A comment `// NAME: token` names the token on the next line at which a diagnostic must be.

mod clean;
mod comparisons;
mod issues;
mod methods;
mod options;
mod reads;
mod state;
mod structure;

use fx::jit_trace::*;
use fx::prelude::*;

/// Returns the line and column of the token that a comment names.
fn place(source: &str, marker: &str) -> (u32, u32) {
    let lines: Vec<&str> = source.lines().collect();
    let comment = format!("// {marker}: ");
    let at = lines.iter().position(|line| line.trim_start().starts_with(&comment)).expect("a marker");
    let token = lines[at].trim_start().trim_start_matches(&comment);
    let column = lines[at + 1].find(token).expect("the token is on the next line");
    (at as u32 + 2, column as u32 + 1)
}

/// Asserts that a kind is found at the token that a comment names, and at no place of ours.
#[track_caller]
fn finds(traced: &Traced, kind: Kind, source: &str, marker: &str) {
    let (line, column) = place(source, marker);
    let found: Vec<_> = traced.report.of(kind).map(|found| (found.at.line, found.at.column)).collect();
    assert!(found.contains(&(line, column)), "{kind} at {line}:{column}, got {found:?}\n{}", traced.report);
    assert!(
        traced.report.of(kind).all(|found| found.at.file().contains("it/jit_trace")),
        "a place of ours\n{}",
        traced.report
    );
}

/// Asserts that a kind is not found.
#[track_caller]
fn finds_no(traced: &Traced, kind: Kind) {
    assert!(traced.report.of(kind).next().is_none(), "{kind} is found\n{}", traced.report);
}

fn matrix() -> Tensor {
    Tensor::new([[1.0f32, -2.0, 3.0], [0.5, 4.0, -1.0], [2.0, 2.5, -3.0], [1.5, 0.25, 6.0]])
}

fn vector() -> Tensor {
    Tensor::new([0.5f32, 2.0, 1.0])
}
