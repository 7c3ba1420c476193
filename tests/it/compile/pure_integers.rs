//! Integers among the arguments of pure functions: one path for all values, unless Rust code asks for them.

use std::collections::BTreeMap;

use fx::compile::{Code, compile};
use fx::prelude::*;
use fx::{Arg, GraphModule, Value};

use super::integers::{apply, for_each_integer, with_integer};
use super::{filled, same};

/// A step with a table: some rows from a position on.
fn step(table: &Tensor, at: Dim) -> Tensor {
    table.narrow(0, at.clone(), 3).exp() * 2.0 + table.select(0, &at + 2)
}

#[test]
fn a_position_has_one_path() {
    let f = compile(step).pure();
    let table = filled(&[64, 4]);
    for at in 0..60 {
        let got: Tensor = f.run((table.clone(), Dim::new(at))).unwrap();
        got.all_close(&step(&table, Dim::new(at)), 1e-5, 1e-6).unwrap();
    }
    let told = f.explain();
    assert_eq!(told.paths.len(), 1, "{told}");
    assert_eq!(told.paths[0].arguments, "f32[_, _], int");
    assert!(told.counters.compiled <= 3 && told.counters.misses <= 3, "{told}");
    // An error is that of eager code, and the next call hits.
    let error = f.run::<_, Tensor>((table.clone(), Dim::new(62))).unwrap_err();
    assert_eq!(error.message(), table.narrow(0, 62, 3).error().unwrap().message());
    let misses = f.counters().misses;
    f.run::<_, Tensor>((table, Dim::new(61))).unwrap();
    assert_eq!(f.counters().misses, misses, "{}", f.explain());
}

#[test]
fn a_comparison_of_integers_chooses_a_path() {
    let function = |x: &Tensor, at: Dim| if at > 8 { x * 2.0 } else { x.narrow(0, at, 2) };
    let f = compile(function).pure();
    let x = filled(&[16]);
    for at in [1, 2, 12, 9, 3, 8, 100, 0, 5, 9] {
        let got: Tensor = f.run((x.clone(), Dim::new(at))).unwrap();
        assert!(got.bits_eq(&function(&x, Dim::new(at))), "{at}");
    }
    let told = f.explain();
    assert_eq!(told.paths.len(), 2, "{told}");
    let guards: Vec<&String> = told.paths.iter().flat_map(|path| &path.guards).collect();
    assert!(guards.contains(&&"y <= 8".to_owned()) && guards.contains(&&"y > 8".to_owned()), "{told}");
}

#[test]
fn a_number_that_rust_code_gets_has_a_path_for_each_value() {
    let f = compile(|x: &Tensor, n: i64, scale: f64| (0..n).fold(x * scale, |x, _| x.exp() * 0.5)).pure();
    let x = filled(&[3]);
    for n in [0, 3, 1, 3, 0, 1, 2, 3] {
        let got: Tensor = f.run((x.clone(), n, 2.0)).unwrap();
        let expected = (0..n).fold(&x * 2.0, |x, _| x.exp() * 0.5);
        got.all_close(&expected, 1e-5, 1e-6).unwrap();
    }
    let told = f.explain();
    assert_eq!(told.paths.len(), 4, "{told}");
    assert!(told.paths.iter().any(|path| path.guards[0] == "y == 3"), "{told}");
    assert!(told.misses.iter().any(|miss| miss.reason.contains("does not hold, it is")), "{told}");
}

#[derive(Clone, Tree)]
struct Step {
    x: Tensor,
    at: Dim,
    sizes: Vec<Dim>,
    named: BTreeMap<String, usize>,
}

#[test]
fn integers_within_structures_are_symbols() {
    let function = |step: Step, (a, b): (Dim, i32)| -> (Tensor, Dim, Vec<Dim>) {
        let total: usize = step.named.values().sum();
        let y = step.x.narrow(0, step.at.clone(), 2) * f64::from(b) + total as f64;
        (y, step.at + a, step.sizes.iter().map(|size| size * 2).collect())
    };
    let f = compile(function).pure();
    let make = |at: i64| Step {
        x: filled(&[9, 2]),
        at: Dim::new(at),
        sizes: vec![Dim::new(at + 1), Dim::new(3 * at)],
        named: BTreeMap::from([("a".to_owned(), 3), ("b".to_owned(), 4)]),
    };
    for at in [0, 1, 5, 3, 7, 2, 4, 6] {
        let (y, next, sizes): (Tensor, Dim, Vec<Dim>) = f.run((make(at), (Dim::new(10 - at), 2))).unwrap();
        let (expected, ..) = function(make(at), (Dim::new(10 - at), 2));
        y.all_close(&expected, 1e-6, 1e-6).unwrap();
        assert_eq!(next, Dim::new(10));
        assert_eq!(sizes, [Dim::new(2 * at + 2), Dim::new(6 * at)]);
    }
    let told = f.explain();
    assert_eq!(told.paths.len(), 1, "{told}");
    assert!(told.counters.misses <= 3, "{told}");
    // Another structure is another path, and so is another number that Rust code got.
    let mut other = make(1);
    other.sizes.pop();
    other.named.insert("b".to_owned(), 5);
    let (y, ..): (Tensor, Dim, Vec<Dim>) = f.run((other.clone(), (Dim::new(1), 2))).unwrap();
    y.all_close(&function(other, (Dim::new(1), 2)).0, 1e-6, 1e-6).unwrap();
    assert_eq!(f.explain().paths.len(), 2);
}

#[test]
fn a_value_of_any_kind_is_what_the_call_gave() {
    let function = |x: &Tensor, at: Value| -> Result<Tensor> {
        match at {
            Arg::Int(at) => Ok(x.select(0, at)),
            other => Err(fx::err!(Argument, "expected an integer, got {}", other.kind_name())),
        }
    };
    let f = compile(function).pure();
    let x = filled(&[5, 2]);
    for at in [0, 1, 2, 0, 1, 4] {
        let got: Tensor = f.run((x.clone(), Arg::Int(at))).unwrap();
        assert!(got.bits_eq(&x.select(0, at)));
    }
}

#[test]
fn a_tensor_made_of_an_integer_depends_on_it() {
    let f = compile(|x: &Tensor, y: &Tensor| x * y + 1.0).pure();
    let x = filled(&[4]);
    for n in [3, 2, 3, 5, 2] {
        let got = f.call_values(&[Arg::Leaf(x.clone()), Arg::Int(n)]).unwrap();
        let expected = &x * Tensor::from_scalar(fx::Scalar::Int(n)) + 1.0;
        got.leaf().unwrap().all_close(&expected, 1e-6, 1e-6).unwrap();
    }
}

/// Compares results; of errors, the messages and files.
fn is_alike(got: Result<Value>, expected: Result<Value>) {
    match (got, expected) {
        (Err(got), Err(expected)) => {
            assert_eq!(got.message(), expected.message());
            assert_eq!(got.source_loc().unwrap().file(), file!());
        }
        (got, expected) => same(&got, &expected),
    }
}

fn traced() -> GraphModule {
    fx::trace(step).input("x", "f32[n, 4]").input("y", "<at>").dim("at", 0, Some(30)).build().unwrap()
}

#[test]
fn a_graph_with_an_integer_has_one_path() {
    let gm = traced();
    let f = compile(&gm).pure();
    for (n, at) in [(9, 2), (9, 6), (3, 0), (40, 30), (40, 3), (12, 7)] {
        let table = filled(&[n, 4]);
        let got: Tensor = f.run((table.clone(), at)).unwrap();
        got.all_close(&step(&table, Dim::new(at)), 1e-5, 1e-6).unwrap();
    }
    let told = f.explain();
    assert_eq!(told.paths.len(), 1, "{told}");
    // What the graph refuses, its compiled form refuses.
    for (n, at) in [(50, 31), (9, -1), (9, 8)] {
        let table = filled(&[n, 4]);
        is_alike(f.run((table.clone(), at)), gm.run((table, at)));
    }
    // So it is with sizes.
    let rows = fx::trace(|x: &Tensor| x.exp()).input("x", "f32[n]").dim("n", 2, Some(4)).build().unwrap();
    let f = compile(&rows).pure();
    for n in [2, 3, 4, 5, 1, 0, 2] {
        let x = filled(&[n]);
        is_alike(f.run((x.clone(),)), rows.run((x,)));
    }
    // Sizes that the graph calls equal are equal in each call.
    let pair = fx::trace(|x: &Tensor, y: &Tensor| x.sum((), false) + y.sum((), false));
    let pair = pair.input("x", "f32[n, m]").input("y", "f32[n + 1]").build().unwrap();
    let f = compile(&pair).pure();
    for (n, m, k) in [(2, 3, 3), (3, 3, 4), (4, 1, 5), (4, 1, 6), (4, 1, 4), (7, 2, 8)] {
        let (x, y) = (filled(&[n, m]), filled(&[k]));
        is_alike(f.run((x.clone(), y.clone())), pair.run((x, y)));
    }
    let fixed = fx::trace(step).input("x", "f32[9, 4]").constant("y", 3).build().unwrap();
    let f = compile(&fixed).pure();
    let table = filled(&[9, 4]);
    for at in [3, 3, 4, 3] {
        is_alike(f.run((table.clone(), at)), fixed.run((table.clone(), at)));
    }
}

#[test]
fn each_integer_of_each_row_may_be_a_symbol_of_a_path() {
    const CHANGES: [i64; 7] = [0, 1, 0, 2, -1, 1, 3];
    for_each_integer(|op, args, at| {
        let greater = |change: Dim| with_integer(args, at, |n| Arg::dim(&change + n)).expect("it is there");
        let f = compile(|change: Dim| -> Result<Value> { apply(op, &greater(change)) }).pure();
        for change in CHANGES {
            let got: Result<Value> = f.run((change,));
            match (&got, &apply(op, &greater(Dim::new(change)))) {
                // The arguments that an error shows are those of its call.
                (Err(got), Err(expected)) => assert_eq!(got.kind(), expected.kind()),
                (got, expected) => same(got, expected),
            }
        }
        let told = f.explain();
        let failed = |found: &fx::compile::Break| matches!(found.code, Code::C07 | Code::C13);
        assert!(!told.breaks.iter().any(failed), "{} {at}: {told}", op.name);
    });
}
