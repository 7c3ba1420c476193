//! Results that variables hold at a read, and that nobody uses.

use std::cell::Cell;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use fx::compile::{Code, Explanation, compile, mutable};
use fx::prelude::*;
use fx::{Arg, GraphModule, Result, Tensor};

use super::{filled, same, vector};

/// Holds `a` and `b` in variables at the read, and needs `b` from the call on that `wants` says.
fn step(x: &Tensor, wants: bool) -> Result<Tensor> {
    let a = x * 2.0;
    let b = a.exp() + 1.0;
    let c = b.relu();
    let total = c.sum((), false).item::<f32>()?;
    Ok(if wants { b } else { x * f64::from(total) })
}

#[test]
fn results_that_nobody_uses_are_left_out_after_eight_runs() {
    let f = compile(|x: &Tensor| step(x, false));
    let x = filled(&[5]);
    let expected = step(&x, false);
    for _ in 0..8 {
        same(&f.call(std::slice::from_ref(&x)).map(Arg::Leaf), &expected.clone().map(Arg::Leaf));
    }
    assert_eq!(f.explain().segments[0].outputs.len(), 4);
    for _ in 0..8 {
        same(&f.call(std::slice::from_ref(&x)).map(Arg::Leaf), &expected.clone().map(Arg::Leaf));
    }
    assert_eq!(f.explain().segments[0].outputs, ["sum: f32[]"]);
    assert_eq!((f.counters().compiled, f.counters().narrowed, f.counters().hits), (2, 1, 14));
    assert!(f.explain().breaks.iter().all(|found| found.code == Code::C01), "{}", f.explain());
}

#[test]
fn a_steady_function_computes_them_always() {
    let f = compile(|x: &Tensor| step(x, false)).steady();
    for _ in 0..20 {
        f.call(&[filled(&[5])]).unwrap();
    }
    assert_eq!((f.counters().narrowed, f.explain().segments[0].outputs.len()), (0, 4));
}

#[test]
fn a_result_that_is_wanted_after_all_is_computed_by_its_operations_once() {
    let calls = AtomicU32::new(0);
    let f = compile(|x: &Tensor| step(x, calls.fetch_add(1, Ordering::Relaxed) >= 12));
    for call in 0..16 {
        let x = filled(&[3]);
        let got = f.call(std::slice::from_ref(&x));
        same(&got.map(Arg::Leaf), &step(&x, call >= 12).map(Arg::Leaf));
    }
    let breaks = f.explain().breaks;
    let wanted: Vec<_> = breaks.iter().filter(|found| found.code == Code::C17).collect();
    assert!(!wanted.is_empty(), "{breaks:?}");
    let outputs = &f.explain().segments[0].outputs;
    assert_eq!(outputs, &["add: f32[3]", "sum: f32[]"], "{}", f.explain());
}

#[test]
fn a_result_that_leaves_the_function_another_way_has_its_value() {
    let kept = Mutex::new(Vec::new());
    let mut calls = 0;
    let mut expected = Vec::new();
    let f = compile(mutable(|x: &Tensor| -> Result<Tensor> {
        calls += 1;
        let a = x * 2.0;
        let b = &a + 1.0;
        if b.amax((), false).item::<f32>()? > 100.0 {
            return Err(fx::err!(Check, "too large"));
        }
        if calls > 10 {
            kept.lock().unwrap().push(a);
        }
        Ok(x - 1.0)
    }));
    for call in 0..14 {
        let x = vector(&[call as f32, 1.0]);
        f.call(std::slice::from_ref(&x)).unwrap();
        if call >= 10 {
            expected.push((x * 2.0).to_vec::<f32>().unwrap());
        }
    }
    let kept: Vec<Vec<f32>> = kept.lock().unwrap().iter().map(|kept| kept.to_vec().unwrap()).collect();
    assert_eq!(kept, expected);
    assert!(f.call(&[vector(&[1e4])]).is_err());
}

#[test]
fn a_loop_is_narrowed_by_its_rounds() {
    let rounds = Cell::new(0);
    let f = compile(|x: &Tensor| -> Result<Tensor> {
        let mut x = x.clone();
        loop {
            let y = x.cos();
            let d = (&y - &x).abs();
            let worst = d.amax((), false);
            if worst.item::<f32>()? < 1e-4 {
                return Ok(y);
            }
            rounds.set(rounds.get() + 1);
            x = y;
        }
    });
    let x = filled(&[7]);
    let first = f.call(std::slice::from_ref(&x)).unwrap();
    assert!(rounds.get() > 10);
    for _ in 0..3 {
        f.call(std::slice::from_ref(&x)).unwrap().all_close(&first, 1e-6, 1e-6).unwrap();
    }
    let outputs = f.explain().segments.iter().map(|segment| segment.outputs.join(", ")).collect::<Vec<_>>();
    assert_eq!(outputs, ["cos: f32[7], amax: f32[]"], "{}", f.explain());
}

#[test]
fn an_error_in_operations_that_were_left_out_has_its_line() {
    // The result that nobody uses is an index that may be out of range.
    let f = compile(|x: &Tensor, at: &Tensor, wants: bool| -> Result<Tensor> {
        let picked = x.index_select(0, at);
        let y = x * 2.0;
        let total = y.sum((), false).item::<f32>()?;
        Ok(if wants { picked } else { y * f64::from(total) })
    });
    let (x, fine, bad) = (filled(&[4]), Tensor::new([1i64, 3]), Tensor::new([9i64]));
    for _ in 0..12 {
        let _: Tensor = f.run((x.clone(), fine.clone(), false)).unwrap();
    }
    let picked: Tensor = f.run((x.clone(), fine, true)).unwrap();
    assert_eq!(picked.to_vec::<f32>().unwrap().len(), 2);
    let error = f.run::<_, Tensor>((x, bad, true)).unwrap_err().to_string();
    assert!(error.contains("narrow.rs") && error.contains("out of range"), "{error}");
}

fn keeps_its_promise(told: &Explanation) -> bool {
    told.breaks.iter().all(|found| found.code != Code::C07) && !told.paths.is_empty()
}

#[test]
fn a_path_computes_what_it_uses() {
    let f = compile(|x: &Tensor| step(x, false)).verify(0);
    let x = filled(&[5]);
    let expected = step(&x, false);
    for _ in 0..5 {
        same(&f.call(std::slice::from_ref(&x)).map(Arg::Leaf), &expected.clone().map(Arg::Leaf));
    }
    assert_eq!(f.explain().segments[0].outputs, ["sum: f32[]"], "{}", f.explain());
    assert_eq!((f.counters().narrowed, keeps_its_promise(&f.explain())), (1, true), "{}", f.explain());
}

#[test]
fn a_path_that_needs_what_others_do_not_goes_on_in_the_rust_code_once() {
    let runs = AtomicU32::new(0);
    let f = compile(|x: &Tensor| -> Result<Tensor> {
        runs.fetch_add(1, Ordering::Relaxed);
        let a = x * 2.0;
        let b = a.exp() + 1.0;
        let is_large = b.sum((), false).gt(100.0).to_bool()?;
        Ok(if is_large { b.relu() - a } else { x * 3.0 })
    })
    .verify(0);
    let (small, large) = (filled(&[4]), &filled(&[4]) + 5.0);
    let expected = |x: &Tensor| {
        let a = x * 2.0;
        let b = a.exp() + 1.0;
        if b.sum((), false).gt(100.0).to_bool().unwrap() { b.relu() - a } else { x * 3.0 }
    };
    for x in [&small, &small, &small, &large, &large, &large, &large, &small, &large] {
        same(&f.call(std::slice::from_ref(x)).map(Arg::Leaf), &Ok(Arg::Leaf(expected(x))));
    }
    assert!(keeps_its_promise(&f.explain()), "{}", f.explain());
    let before = runs.load(Ordering::Relaxed);
    for x in [&large, &small, &large] {
        same(&f.call(std::slice::from_ref(x)).map(Arg::Leaf), &Ok(Arg::Leaf(expected(x))));
    }
    assert_eq!(runs.load(Ordering::Relaxed), before, "{}", f.explain());
}

#[test]
fn a_step_whose_results_nobody_uses_stays_a_step_of_its_path() {
    let f = compile(|x: &Tensor, n: i64| {
        let a = x.abs();
        let b = x + 2.0;
        if n == 0 {
            drop(a);
            fx::compile::cut();
            return x * 3.0;
        }
        fx::compile::cut();
        drop(b);
        a
    })
    .verify(2);
    let x = filled(&[4]);
    for n in [0, 1].repeat(6) {
        let got: Tensor = f.run((x.clone(), n)).unwrap();
        assert!(got.bits_eq(&if n == 0 { &x * 3.0 } else { x.abs() }), "{}", f.explain());
    }
    assert!(keeps_its_promise(&f.explain()), "{}", f.explain());
    assert_eq!(f.counters().narrowed, 1, "{}", f.explain());
}

#[test]
fn an_operation_that_runs_by_itself_takes_what_a_program_left_out() {
    let text = "\
graph main(%x: u8[n], %y: f32[n]) -> [f32[n], f32[n]] {
  %both: [u8[n], f32[n]] = for_loop(2, @same, [%x, %y], [])
  %first: u8[n] = getitem(%both, 0)
  %second: f32[n] = getitem(%both, 1)
  %for_loop: [list(u8[n]), u8[n]] = for_loop(4, @step, [[], %first], [%second, %y])
  return [%second, %y]
}
graph same(%i: int, %a: u8[n], %b: f32[n]) -> [u8[n], f32[n]] {
  return [%a, %b]
}
graph step(%i: int, %rows: list(u8[n]), %a: u8[n], %b: f32[n], %c: f32[n]) -> [list(u8[n]), u8[n]] {
  %count: i64[] = full([], 3, dtype=i64)
  %for_loop: [list(u8[n]), u8[n], f32[n]] = for_loop(%count, @inner, [[], %a, %c], [])
  %rows_of: list(u8[n]) = getitem(%for_loop, 0)
  %row: u8[n] = list_get(%rows_of, -1)
  %list_push: list(u8[n]) = list_push(%rows, %row)
  return [%list_push, %row]
}
graph inner(%i: int, %rows: list(u8[n]), %a: u8[n], %b: f32[n]) -> [list(u8[n]), u8[n], f32[n]] {
  %rms_norm: f32[n] = rms_norm(%b, [<n>], eps=1e-5)
  %list_push: list(u8[n]) = list_push(%rows, %a)
  return [%list_push, %a, %b]
}
";
    let gm = GraphModule::new("main", fx::parse(text).unwrap());
    for n in [1, 3] {
        let f = compile(&gm).pure();
        let args = [Arg::Leaf(filled(&[n]).to(fx::DType::U8)), Arg::Leaf(filled(&[n]))];
        let expected = gm.call_values(&args);
        for _ in 0..12 {
            same(&f.call_values(&args), &expected);
        }
    }
}
