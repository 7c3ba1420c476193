//! Twelve programs, and how many graphs each of their calls makes and runs.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use fx::compile::{Counters, Function, compile, mutable};
use fx::prelude::*;
use fx::trace::Traceable;
use fx::{Arg, DType, Result, Tensor, Value, nn};

use super::{filled, vector};

/// Calls a compiled function and compares with the function itself; returns how many graphs the call made and
/// ran.
#[track_caller]
fn call<T: Traceable<M>, M>(compiled: &Function<T, M>, args: impl fx::Tree) -> (u64, u64) {
    let Arg::Tuple(args) = args.to_value() else { panic!("arguments are a tuple") };
    let before = compiled.counters();
    let expected = compiled.function().run(&args).and_then(fx::Value::into_result);
    let got = compiled.call_values(&args);
    super::same(&got, &expected);
    let Counters { compiled: made, runs, .. } = compiled.counters();
    (made - before.compiled, runs - before.runs)
}

#[test]
fn straight_code_is_one_graph_a_dtype() {
    let f = compile(|x: &Tensor, y: &Tensor| (x * 2.0 + y).relu());
    let (x, y) = (filled(&[8]), filled(&[8]));
    assert_eq!(call(&f, (x.clone(), y.clone())), (1, 1));
    assert_eq!(call(&f, (y.clone(), x.clone())), (0, 1));
    assert_eq!(call(&f, (x.to(DType::F64), y.clone())), (1, 1));
    let told = f.explain();
    assert_eq!(told.misses[1].reason, "input x: dtype f32, got f64");
    assert_eq!(call(&f, (x.clone(), x)), (0, 1));
}

#[test]
fn batch_sizes_share_a_graph_from_the_second_on() {
    let f = compile(|x: &Tensor| x.softmax(-1));
    assert_eq!(call(&f, (filled(&[4, 10]),)), (1, 1));
    assert_eq!(call(&f, (filled(&[7, 10]),)), (1, 1));
    for n in [1, 0, 64, 4] {
        assert_eq!(call(&f, (filled(&[n, 10]),)), (0, 1));
    }
    let told = f.explain();
    assert_eq!(told.segments.len(), 1);
    assert_eq!(told.segments[0].inputs, ["x: f32[x0, 10]"]);
    assert_eq!(told.misses[1].reason, "input x: size of axis 0 is 7, compiled for 4");
}

#[test]
fn a_branch_on_a_value_has_a_graph_for_each_side() {
    let f = compile(|x: &Tensor| -> Result<Tensor> {
        let h = x * 2.0 + 1.0;
        Ok(if h.sum((), false).item::<f32>()? > 0.0 { h.relu() * 3.0 } else { h.tanh() })
    });
    assert_eq!(call(&f, (vector(&[1.0, 2.0]),)), (2, 2));
    assert_eq!(call(&f, (vector(&[3.0, 5.0]),)), (0, 2));
    assert_eq!(call(&f, (vector(&[-3.0, -5.0]),)), (1, 2));
    assert_eq!(call(&f, (vector(&[-4.0, -7.0]),)), (0, 2));
    assert_eq!(call(&f, (vector(&[4.0, 7.0]),)), (0, 2));
    assert_eq!(f.explain().segments.len(), 3);
}

#[test]
fn a_loop_until_converged_is_one_graph_for_any_number_of_rounds() {
    let f = compile(|x: &Tensor| -> Result<Tensor> {
        let mut x = x.clone();
        while x.abs().max().item::<f32>()? > 1.0 {
            x *= 0.5;
        }
        Ok(x + 1.0)
    });
    assert_eq!(call(&f, (vector(&[2.0, -1.0]),)), (3, 3));
    for rounds in [7, 20, 30] {
        let largest = (1u64 << rounds) as f32;
        assert_eq!(call(&f, (vector(&[largest, -1.0]),)), (0, rounds + 2));
    }
    assert_eq!(call(&f, (vector(&[0.5, 0.25]),)), (0, 2));
}

#[test]
fn prints_happen_on_every_call_and_only_values_end_a_graph() {
    let printed = Mutex::new(Vec::new());
    let f = compile(|x: &Tensor| {
        printed.lock().unwrap().push(format!("shape {:?} {x:?}", x.shape().unwrap()));
        let h = x.exp();
        printed.lock().unwrap().push(format!("mean {}", h.mean((), false)));
        h + 1.0
    });
    // The function itself prints, too.
    assert_eq!(call(&f, (filled(&[3]),)), (2, 2));
    assert_eq!(call(&f, (filled(&[3]),)), (0, 2));
    let lines = printed.lock().unwrap();
    assert_eq!(lines.len(), 8);
    assert_eq!(lines[0..2], lines[2..4]);
    assert_eq!(lines[0], "shape [3] f32[3]");
}

#[test]
fn captured_state_is_right_on_every_call() {
    let (calls, seen) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let f = compile(|x: &Tensor| {
        calls.fetch_add(1, Ordering::Relaxed);
        let h = x.relu();
        seen.lock().unwrap().push(h.clone());
        h * 2.0
    });
    for i in 0..3 {
        f.call(&[vector(&[i as f32, -1.0])]).unwrap();
    }
    assert_eq!(calls.load(Ordering::Relaxed), 3);
    let seen = seen.lock().unwrap();
    let values: Vec<Vec<f32>> = seen.iter().map(|tensor| tensor.to_vec().unwrap()).collect();
    assert_eq!(values, [[0.0, 0.0], [1.0, 0.0], [2.0, 0.0]]);

    let mut log = Vec::new();
    let g = compile(mutable(|x: &Tensor| {
        log.push(x.dim(0));
        x + 1
    }));
    for n in [2, 3, 2] {
        g.call(&[filled(&[n])]).unwrap();
    }
    drop(g);
    assert_eq!(log, [2, 3, 2]);
}

#[test]
fn ndarray_between_two_graphs() {
    let f = compile(|x: &Tensor| -> Result<Tensor> {
        let a = (x + 1.0).to_array::<f32>()?;
        Ok(Tensor::from(a.mapv(|x| x.sqrt().floor())) * x)
    });
    assert_eq!(call(&f, (vector(&[3.0, 8.0]),)), (2, 2));
    assert_eq!(call(&f, (vector(&[0.0, 24.0]),)), (0, 2));
    assert_eq!(call(&f, (vector(&[99.0, 0.5]),)), (0, 2));
}

#[test]
fn a_number_is_an_input_from_its_second_value_on() {
    let f = compile(|w: Tensor, g: Tensor, step: i64, rate: f64| {
        let _ = step % 100 == 0;
        w - g * (rate / (1.0 + step as f64))
    });
    let (w, g) = (filled(&[6]), filled(&[6]));
    assert_eq!(call(&f, (w.clone(), g.clone(), 0i64, 0.1)), (1, 1));
    assert_eq!(call(&f, (w.clone(), g.clone(), 1i64, 0.1)), (1, 1));
    for step in 2..100i64 {
        assert_eq!(call(&f, (w.clone(), g.clone(), step, 0.1)), (0, 1));
    }
    let told = f.explain();
    assert_eq!(told.misses[1].reason, "number of operation 0: 0.1, got 0.05");
}

#[test]
fn closures_borrow_some_tensors_and_own_other_arguments() {
    let f = compile(|x: &Tensor, rate: f64, bias: Option<Tensor>, y: &Tensor| {
        let z = x * rate + y;
        if let Some(bias) = bias { z + bias } else { z }
    });
    let (x, y) = (filled(&[6]), filled(&[6]));
    assert_eq!(call(&f, (x.clone(), 0.5, None::<Tensor>, y.clone())), (1, 1));
    assert_eq!(call(&f, (x.clone(), 0.5, None::<Tensor>, y.clone())), (0, 1));
    assert_eq!(call(&f, (x.clone(), 0.5, Some(y.clone()), y.clone())), (1, 1));

    let mut rates = Vec::new();
    let f = compile(mutable(|x: &Tensor, rate: f64| {
        rates.push(rate);
        x * rate
    }));
    let result: Tensor = f.run((x.clone(), 2.0)).unwrap();
    assert_eq!(result.to_vec::<f32>().unwrap(), (&x * 2.0).to_vec::<f32>().unwrap());
    let error = f.call(&[x]).unwrap_err().to_string();
    assert!(error.contains("expected 2 arguments, got 1"), "{error}");
    drop(f);
    assert_eq!(rates, [2.0]);
}

#[test]
fn options_lists_and_strings_need_no_guards() {
    let f = compile(|xs: Vec<Tensor>, mask: Option<Tensor>, mode: String| {
        let mut s = xs[0].clone();
        for x in &xs[1..] {
            s += x;
        }
        if let Some(m) = mask {
            s *= m;
        }
        match &*mode {
            "fast" => s.tanh(),
            _ => s.erf(),
        }
    });
    let x = || filled(&[4]);
    let calls: Vec<(Vec<Tensor>, Option<Tensor>, String)> = vec![
        (vec![x()], None, "fast".into()),
        (vec![x(), x()], None, "fast".into()),
        (vec![x(), x(), x()], Some(x()), "exact".into()),
        (vec![x()], Some(x()), "other".into()),
        (vec![x()], None, "exact".into()),
    ];
    for args in &calls {
        assert_eq!(call(&f, args.clone()), (1, 1));
    }
    for args in calls.iter().rev() {
        assert_eq!(call(&f, args.clone()), (0, 1));
    }
    let map: BTreeMap<String, Tensor> = [("a".to_owned(), x()), ("b".to_owned(), x())].into();
    let g = compile(|map: BTreeMap<String, Tensor>| map.values().fold(Tensor::new(0.0f32), |sum, x| sum + x));
    assert_eq!(call(&g, (map.clone(),)), (1, 1));
    assert_eq!(call(&g, (map,)), (0, 1));
}

#[test]
fn modules_have_constants_buffers_and_random_numbers() {
    fx::manual_seed(3);
    let norm = nn::BatchNorm1d::new(4);
    let (compiled, eager) = (norm.clone(), norm);
    let f = compile(&compiled);
    for i in 0..5 {
        let x = filled(&[3, 4]) * (i as f64 + 1.0);
        let expected = (&eager).run(&[Arg::Leaf(x.clone())]);
        super::same(&f.call_values(&[Arg::Leaf(x)]), &expected);
    }
    assert_eq!(f.counters().compiled, 1);
    drop(f);
    let buffers = |module: &nn::BatchNorm1d| -> Vec<Tensor> {
        fx::module::collect_buffers(module).into_iter().map(|(_, buffer)| buffer.get()).collect()
    };
    for (a, b) in buffers(&compiled).iter().zip(&buffers(&eager)) {
        a.all_close(b, 1e-5, 1e-6).unwrap();
    }
}

#[test]
fn a_growing_cache_and_a_branch_on_its_size() {
    let f = compile(|x: &Tensor, cache: &Tensor| {
        let c = fx::cat([cache, x], 1);
        let t = c.dim(1);
        if t > 16 { (c.narrow(1, 0, 8) * 2.0, c) } else { (&c * (1.0 / t.known().unwrap() as f64), c) }
    });
    let x = filled(&[2, 1, 3]);
    assert_eq!(call(&f, (x.clone(), filled(&[2, 5, 3]))), (1, 1));
    assert_eq!(call(&f, (x.clone(), filled(&[2, 6, 3]))), (1, 1));
    for t in 7..16 {
        assert_eq!(call(&f, (x.clone(), filled(&[2, t, 3]))), (0, 1), "{t}");
    }
    assert_eq!(call(&f, (x.clone(), filled(&[2, 16, 3]))), (1, 1));
    assert_eq!(call(&f, (x.clone(), filled(&[2, 17, 3]))), (1, 1));
    for t in 18..30 {
        assert_eq!(call(&f, (x.clone(), filled(&[2, t, 3]))), (0, 1), "{t}");
    }
    assert_eq!(call(&f, (x, filled(&[2, 9, 3]))), (0, 1));
}

#[test]
fn three_branches_need_seven_graphs_at_most() {
    let f = compile(|x: &Tensor| -> Result<Tensor> {
        let mut h = x * 1.5;
        for i in 0..3i64 {
            let bit = x.i(i).item::<f32>()? > 0.0;
            h = match (i, bit) {
                (0, true) => h.relu(),
                (0, false) => h.tanh(),
                (1, true) => h.exp(),
                (1, false) => h.abs(),
                (_, true) => h.sin(),
                (_, false) => h.cos(),
            };
        }
        Ok(h)
    });
    for _ in 0..2 {
        for bits in 0..8 {
            let sign = |i: u32| if bits >> i & 1 == 1 { 0.5 } else { -0.5 };
            call(&f, (vector(&[sign(0), sign(1), sign(2)]),));
        }
    }
    let segments = f.explain().segments.len();
    assert!(segments <= 7, "{segments}: {}", f.explain());
}

/// A value of any structure is returned as it is.
#[test]
fn results_keep_their_structure() {
    let f = compile(|x: &Tensor| -> Value {
        Arg::dict([("sum", Arg::Leaf(x.sum((), false))), ("n", Arg::Int(3)), ("none", Arg::None)])
    });
    assert_eq!(call(&f, (filled(&[3]),)), (1, 1));
    assert_eq!(call(&f, (filled(&[3]),)), (0, 1));
}
