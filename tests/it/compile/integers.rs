//! Integers of operations that follow from no size: positions, lengths and counts that Rust code computes.

use fx::compile::{Code, compile};
use fx::prelude::*;
use fx::{Arg, Generator, Op, SourceLoc, Value, with_generator};

use super::{filled, same, vector};

#[test]
fn a_loop_over_rows_with_a_read_uses_its_graphs_for_every_row() {
    let f = compile(|x: &Tensor| -> Result<Tensor> {
        let mut total = fx::zeros(3);
        for i in 0..x.dim(0).known().expect("eager") {
            let row = x.select(0, i);
            if row.sum((), false).item::<f32>()? > 0.0 {
                total += row * 2.0;
            }
        }
        Ok(total)
    });
    for n in [5, 9, 30, 2, 0, 1, 40] {
        let x = filled(&[n, 3]);
        let mut expected = fx::zeros(3);
        for i in 0..n as i64 {
            let row = x.select(0, i);
            if row.sum((), false).item::<f32>().unwrap() > 0.0 {
                expected += row * 2.0;
            }
        }
        f.call(&[x]).unwrap().all_close(&expected, 1e-5, 1e-6).unwrap();
    }
    let told = f.explain();
    assert!(told.counters.compiled <= 12 && told.segments.len() <= 6, "{told}");
}

#[test]
fn a_position_is_an_argument_of_the_graph_from_its_second_value_on() {
    let f = compile(|table: &Tensor, position: i64, length: i64| {
        table.narrow(0, position, length).exp() + table.select(0, position + length - 1)
    });
    let table = filled(&[64, 4]);
    for position in 0..50 {
        let length = 1 + position * position % 7;
        let got: Tensor = f.run((table.clone(), position, length)).unwrap();
        let expected = table.narrow(0, position, length).exp() + table.select(0, position + length - 1);
        got.all_close(&expected, 1e-5, 1e-6).unwrap();
    }
    let told = f.explain();
    assert!(told.counters.compiled <= 4, "{told}");
    let inputs = &told.segments.last().unwrap().inputs;
    assert!(
        inputs.contains(&"start: int".to_owned()) && inputs.contains(&"length: int".to_owned()),
        "{told}"
    );
    // An error is that of eager code, also on a hit, and the next call works.
    let at = SourceLoc::caller();
    let error = f.run::<_, Tensor>((table.clone(), 60, 5)).unwrap_err();
    let eager = table.narrow(0, 60, 5);
    assert_eq!(error.message(), eager.error().unwrap().message());
    assert!(error.source_loc().unwrap().file() == at.file());
    f.run::<_, Tensor>((table, 60, 4)).unwrap();
}

#[test]
fn integers_may_count_from_the_end_or_change_their_sign() {
    let f = compile(|x: &Tensor, from_end: i64, shift: i64| {
        x.select(0, from_end) + x.tril(shift) * 2.0 + x.slice(0, from_end, (), 1).sum(0, true)
    });
    let x = filled(&[7, 2]);
    for (from_end, shift) in [(-1, 2), (-3, -2), (-7, 0), (-2, 5), (-1, -9), (2, 1), (6, -1), (0, 0)] {
        let got: Tensor = f.run((x.clone(), from_end, shift)).unwrap();
        let expected = x.select(0, from_end) + x.tril(shift) * 2.0 + x.slice(0, from_end, (), 1).sum(0, true);
        got.all_close(&expected, 1e-5, 1e-6).unwrap();
    }
    assert!(f.counters().compiled <= 4, "{}", f.explain());
}

#[test]
fn sizes_out_of_data_are_arguments_of_the_graph_after_the_read() {
    let f = compile(|x: &Tensor| -> Result<Tensor> {
        let n = x.gt(0.0).sum((), false).item::<i64>()?;
        Ok(x.sort(0, true).0.narrow(0, 0, n).log().sum((), false) + fx::arange(0, n, 1).sum((), false))
    });
    for n in 1..40usize {
        let x = vector(&(0..n).map(|i| (i * 13 % 17) as f32 - 8.0).collect::<Vec<f32>>());
        let kept: Vec<f32> = x.to_vec::<f32>().unwrap().into_iter().filter(|x| *x > 0.0).collect();
        let k = kept.len();
        let expected = kept.iter().map(|x| x.ln()).sum::<f32>() + (k * k.saturating_sub(1) / 2) as f32;
        let got = f.call(&[x]).unwrap().item::<f32>().unwrap();
        assert!((got - expected).abs() <= 1e-4 * expected.abs().max(1.0), "{n}: {got}, expected {expected}");
    }
    assert!(f.counters().compiled <= 5, "{}", f.explain());
}

#[test]
fn the_least_and_the_greatest_integers_are_like_others() {
    let f = compile(|x: &Tensor, end: i64| x.slice(0, (), end, 1).exp() + x.tril(end).sum((), false));
    let x = filled(&[5, 2]);
    for end in [2, 3, i64::MAX, i64::MIN, -1, i64::MIN + 1, 0, i64::MAX - 1, i64::MIN, 4] {
        let got: Result<Value> = f.run((x.clone(), end));
        let eager = x.slice(0, (), end, 1).exp() + x.tril(end).sum((), false);
        same(&got, &eager.ok().map(|tensor| Value::from(&tensor)));
    }
}

#[test]
fn an_integer_that_no_rule_takes_as_a_symbol_stays_and_says_why() {
    let f = compile(|x: &Tensor, axis: i64| x.softmax(axis));
    let x = filled(&[2, 3, 4]);
    for axis in [0, 1, 2, 1, 0, -1] {
        let got: Tensor = f.run((x.clone(), axis)).unwrap();
        got.all_close(&x.softmax(axis), 1e-5, 1e-6).unwrap();
    }
    let told = f.explain();
    assert_eq!(told.counters.compiled, 4, "{told}");
    assert!(told.breaks.iter().any(|found| found.code == Code::C03), "{told}");
}

#[test]
fn a_saved_function_keeps_its_integers() {
    let function = |x: &Tensor, at: i64, shift: i64| x.select(0, at) * 2.0 + x.tril(shift).sum(0, false);
    let f = compile(function);
    let x = filled(&[9, 2]);
    for (at, shift) in [(1, 1), (2, -1), (5, 3)] {
        f.run::<_, Tensor>((x.clone(), at, shift)).unwrap();
    }
    let path = std::env::temp_dir().join(format!("fx-integers-{}.fxc", std::process::id()));
    f.save(&path).unwrap();
    let loaded = compile(function).load(&path);
    std::fs::remove_file(&path).unwrap();
    let g = loaded.unwrap();
    for (at, shift) in [(0, -4), (8, 0), (3, 100)] {
        let got: Tensor = g.run((x.clone(), at, shift)).unwrap();
        let expected = x.select(0, at) * 2.0 + x.tril(shift).sum(0, false);
        got.all_close(&expected, 1e-5, 1e-6).unwrap();
    }
    assert_eq!(g.counters().misses, 0, "{}", g.explain());
}

/// Returns the arguments with another integer at a place among all integers; `None` if there are fewer.
pub(super) fn with_integer(args: &[Value], at: usize, change: impl Fn(i64) -> Value) -> Option<Vec<Value>> {
    let mut seen = 0;
    let args = args.iter().map(|arg| {
        arg.try_rewrite(&mut |arg: &Value| {
            Ok(match arg {
                Arg::Int(n) => {
                    seen += 1;
                    (seen == at + 1).then(|| change(*n))
                }
                Arg::Leaf(tensor) => Some(Arg::Leaf(tensor.clone())),
                _ => None,
            })
        })
        .unwrap()
    });
    let args = args.collect();
    (seen > at).then_some(args)
}

/// Visits each integer of the samples of each row: the operation, its arguments, and which of the integers it is.
pub(super) fn for_each_integer(mut visit: impl FnMut(Op, &[Value], usize)) {
    let computes = |op: &Op| !op.effects.state && !op.effects.host;
    for op in fx::registry().iter().filter(computes) {
        for sample in fx::opcheck::samples(op).unwrap() {
            let Ok(args) = op.bind(&sample.args, &sample.kwargs) else { continue };
            let args: Vec<Value> = args.into_iter().collect();
            (0..)
                .take_while(|at| with_integer(&args, *at, Arg::Int).is_some())
                .for_each(|at| visit(op, &args, at));
        }
    }
}

/// Applies an operation to arguments in schema order, with the same random numbers each time.
pub(super) fn apply(op: Op, args: &[Value]) -> Result<Value> {
    let (args, kwargs) = op.spell(args);
    let kwargs: Vec<(&str, Value)> = kwargs.iter().map(|(key, arg)| (&**key, arg.clone())).collect();
    with_generator(&Generator::seeded(3), || fx::trace::apply(op, false, &args, &kwargs))
}

#[test]
fn each_integer_of_each_row_may_vary() {
    const CHANGES: [i64; 9] = [0, 1, 0, 2, -1, 1, 3, -2, -4];
    for_each_integer(|op, args, at| {
        let changed =
            |change: i64| with_integer(args, at, |n| Arg::Int(n.wrapping_add(change))).expect("it is there");
        let f = compile(|change: i64| -> Result<Value> { apply(op, &changed(change)) });
        for change in CHANGES {
            let got: Result<Value> = f.run((change,));
            same(&got, &apply(op, &changed(change)));
        }
        let told = f.explain();
        let failed = |found: &fx::compile::Break| found.code == Code::C13;
        assert!(!told.breaks.iter().any(failed), "{} {at}: {told}", op.name);
    });
}
