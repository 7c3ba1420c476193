//! The operations, by family.

mod compose;
mod creation;
mod detection;
mod division;
mod eigen;
mod fft;
mod fft_complex;
mod fractional_max_pool;
mod histogram;
mod host;
mod index_write;
mod interpolate;
mod linalg_factor;
mod linalg_solve;
mod margin_loss;
mod numbers;
mod quantized;
mod random;
mod reduce;
mod reduce_bits;
mod rules;
mod scatter;
mod search;
mod unique;
mod view;

use std::collections::BTreeSet;

use fx_core::Registry;

#[test]
fn names_are_distinct() {
    let rows = || fx_ops::tables().flatten();
    let core = Registry::core();
    let names: BTreeSet<&str> = rows().map(|op| op.name).chain(core.iter().map(|op| op.name)).collect();
    assert_eq!(names.len(), core.iter().count() + rows().count());
    assert_eq!(fx_ops::registry().iter().count(), names.len());
    assert_eq!(names.len(), 599);
}

#[test]
fn every_rule_compiles_and_names_are_distinct() {
    let mut names: Vec<&str> = fx_ops::rules::all().map(|rule| rule.name).collect();
    for rule in fx_ops::rules::all() {
        rule.rule().unwrap_or_else(|error| panic!("{error}"));
    }
    names.sort_unstable();
    assert!(names.windows(2).all(|pair| pair[0] != pair[1]));
    assert!(names.len() >= 40, "{}", names.len());
}
