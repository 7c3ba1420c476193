//! What compiled functions tell of themselves, as text.

use expect_test::{ExpectFile, expect_file};
use fx::compile::{Explanation, backend, compile};
use fx::prelude::*;
use fx::{DType, Result, Tensor};

use super::{filled, vector};

/// Compares an explanation, without its times.
fn check(told: &Explanation, expected: &ExpectFile) {
    let text = told.to_string();
    let mut masked = String::new();
    for line in text.lines() {
        let words = line.split(' ').collect::<Vec<_>>();
        let is_time = |at: usize| words.get(at + 1).is_some_and(|unit| unit.starts_with("us"));
        let shown = (0..words.len()).map(|at| if is_time(at) { "_" } else { words[at] });
        masked += &(shown.collect::<Vec<_>>().join(" ") + "\n");
    }
    expected.assert_eq(&masked);
    let json: serde_json::Value = serde_json::from_str(&told.to_json()).unwrap();
    assert_eq!(json["segments"].as_array().unwrap().len(), told.segments.len());
    assert_eq!(json["misses"].as_array().unwrap().len(), told.misses.len());
}

#[test]
fn a_branch_on_a_value() {
    let f = compile(|x: &Tensor| -> Result<Tensor> {
        let h = x * 2.0 + 1.0;
        Ok(if h.sum((), false).item::<f32>()? > 0.0 { h.relu() * 3.0 } else { h.tanh() })
    });
    for x in [[1.0, 2.0], [-3.0, -5.0], [3.0, 5.0]] {
        f.call(&[vector(&x)]).unwrap();
    }
    f.call(&[filled(&[3]).to(DType::F64)]).unwrap_err();
    check(&f.explain(), &expect_file!["told/branch.txt"]);
}

#[test]
fn a_pure_function_with_sizes() {
    let f = compile(|x: &Tensor| -> Result<Tensor> {
        let h = if x.dim(0) > 8 { x * 2.0 } else { x + 1.0 };
        Ok(if h.sum((), false).gt(0.0).to_bool()? { h.relu() } else { h.tanh() })
    })
    .pure();
    for x in [filled(&[4]) + 2.0, filled(&[5]) + 2.0, filled(&[9]), filled(&[4]) - 3.0, filled(&[7]) + 2.0] {
        f.call(&[x]).unwrap();
    }
    check(&f.explain(), &expect_file!["told/pure.txt"]);
}

#[test]
fn sizes_that_vary_and_a_backend_that_fails() {
    let f = compile(|x: &Tensor, rate: f64| {
        let found = x.nonzero();
        (x.softmax(-1) * rate, found)
    })
    .backend(backend::failing(backend::FailWhen::Prepare, fx::err!(Check, "no such kernel")));
    for (n, rate) in [(2, 0.5), (3, 0.5), (3, 0.25)] {
        f.run::<_, (Tensor, Tensor)>((filled(&[n, 2]), rate)).unwrap();
    }
    check(&f.explain(), &expect_file!["told/backend.txt"]);
}
