//! Tracing: what is recorded, and the lines of errors.

use expect_test::{Expect, expect};
use fx_core::Array;
use fx_core::trace::*;
use fx_core::{Arg, Error, Graph, Result, Tensor, Value};
use fx_core::{Buffer, GraphModule, ops, symbolic_trace, trace};

fn text(gm: &GraphModule) -> String {
    gm.graph().to_string()
}

fn check(gm: &Result<GraphModule>, expected: Expect) {
    match gm {
        Ok(gm) => expected.assert_eq(&text(gm)),
        Err(error) => expected.assert_eq(&error.to_string().replace(&*error_place(error), "HERE")),
    }
}

fn error_place(error: &Error) -> String {
    error.source_loc().map_or("no place".into(), ToString::to_string)
}

#[test]
fn operators_become_functions_and_numbers_stay_on_their_side() {
    let gm = symbolic_trace(|x: &Tensor| 2.0 - (x + 1) * x);
    check(
        &gm,
        expect![[r#"
            graph main(%x) {
              %add = add(%x, 1)
              %mul = mul(%add, %x)
              %sub = sub(2.0, %mul)
              return %sub
            }
        "#]],
    );
    let x = Tensor::new([1.0f32, 2.0]);
    assert_eq!(gm.unwrap().call(&[x]).unwrap().to_vec::<f32>().unwrap(), [0.0, -4.0]);
}

#[test]
fn closures_mix_borrowed_tensors_with_values() {
    let f = |x: &Tensor, rate: f64, y: &Tensor| x * rate + y;
    check(
        &symbolic_trace(f),
        expect![[r#"
        argument "y": the value of a float is not known before tracing  at HERE
          help: fix it, for example with `.constant("rate", 0.5)`, or pass a tensor"#]],
    );
    check(
        &trace(f).constant("y", 0.5).build(),
        expect![[r#"
        graph main(%x, y = 0.5, %z) {
          %mul = mul(%x, 0.5)
          %add = add(%mul, %z)
          return %add
        }
    "#]],
    );
}

#[test]
fn a_captured_tensor_is_one_shared_constant() {
    let w = Tensor::new([1.0f32, 2.0, 3.0]);
    let gm = trace(|x: &Tensor| (x + &w, x * w.clone())).input("x", "f32[n, 3]").build();
    check(
        &gm,
        expect![[r#"
            graph main(%x: f32[n, 3]) -> (f32[n, 3], f32[n, 3]) {
              %_tensor_constant0: f32[3] = self._tensor_constant0
              %add: f32[n, 3] = add(%x, %_tensor_constant0)
              %mul: f32[n, 3] = mul(%x, %_tensor_constant0)
              return (%add, %mul)
            }
        "#]],
    );
    let gm = gm.unwrap();
    assert!(gm.attr("_tensor_constant0").unwrap().array().unwrap().shares_storage(w.array().unwrap()));
    let add = gm.graph().find("add").unwrap();
    assert_eq!(gm.graph().node(add).unwrap().ty().unwrap().to_string(), "f32[n, 3]");
}

#[test]
fn shape_errors_are_found_while_tracing() {
    let w = Tensor::new([1.0f32, 2.0, 3.0]);
    let gm = trace(|x: &Tensor| x + &w).input("x", "f32[n, 4]").build();
    check(
        &gm,
        expect![[r#"
        cannot broadcast [n, 4] with [3]  in add(%x: f32[n, 4], f32[3])  at HERE
          help: sizes must be equal or 1, aligned at the last axis; add axes with `unsqueeze`"#]],
    );
    assert!(error_place(&gm.unwrap_err()).contains("it/trace.rs:"));
}

#[test]
fn all_errors_are_returned_at_once_and_flow_through_later_operations() {
    let w = Tensor::new([1.0f32, 2.0, 3.0]);
    let error = trace(|x: &Tensor| ((x + &w) * 2.0, x & 1.5)).input("x", "f32[n, 4]").build().unwrap_err();
    assert_eq!(error.related().len(), 2, "{error}");
}

#[test]
fn sizes_without_specs_are_recorded_with_their_arithmetic() {
    let gm = symbolic_trace(|x: &Tensor| x + (x.dim(0) * 2 + x.dim(-1)));
    check(
        &gm,
        expect![[r#"
            graph main(%x) {
              %size = size(%x, 0)
              %size_1 = size(%x, -1)
              %mul: int = mul(%size, 2)
              %add: int = add(%mul, %size_1)
              %add_1 = add(%x, %add)
              return %add_1
            }
        "#]],
    );
    let x = Tensor::new([[0.0f32, 1.0, 2.0]]);
    assert_eq!(gm.unwrap().call(&[x]).unwrap().to_vec::<f32>().unwrap(), [5.0, 6.0, 7.0]);
}

#[test]
fn sizes_with_specs_are_expressions_bound_on_each_call() {
    let gm = trace(|x: &Tensor| x + x.dim(0) * 2).input("x", "i64[n]").build();
    check(
        &gm,
        expect![[r#"
            graph main(%x: i64[n]) -> i64[n] {
              %add: i64[n] = add(%x, <2*n>)
              return %add
            }
        "#]],
    );
    let gm = gm.unwrap();
    for n in [0usize, 1, 5] {
        let got = gm.call(&[Tensor::new(vec![0i64; n])]).unwrap().to_vec::<i64>().unwrap();
        assert_eq!(got, vec![2 * n as i64; n]);
    }
}

#[test]
fn branches_are_closed_and_captures_become_operands() {
    let w = Tensor::new([10.0f32]);
    let gm = symbolic_trace(|x: &Tensor| {
        let y = x * 2.0;
        ops::cond(x, |x: Tensor| x + &w, |x: Tensor| x * &y, x.clone())
    });
    check(
        &gm,
        expect![[r#"
            graph main(%x) {
              %mul = mul(%x, 2.0)
              %_tensor_constant0: f32[1] = self._tensor_constant0
              %cond = cond(%x, @then, @otherwise, [%x, %_tensor_constant0, %mul])
              return %cond
            }

            graph then(%arg0, %captured0: f32[1], %captured1) {
              %add = add(%arg0, %captured0)
              return %add
            }

            graph otherwise(%arg0, %captured0: f32[1], %captured1) {
              %mul_1 = mul(%arg0, %captured1)
              return %mul_1
            }
        "#]],
    );
    let gm = gm.unwrap();
    assert_eq!(gm.call(&[Tensor::new([3.0f32])]).unwrap().to_vec::<f32>().unwrap(), [13.0]);
    assert_eq!(gm.call(&[Tensor::new([0.0f32])]).unwrap().to_vec::<f32>().unwrap(), [0.0]);
}

#[test]
fn a_loop_runs_until_its_test_fails() {
    let f = |x: &Tensor| {
        let limit = x - x + 100;
        ops::while_loop(
            |(a, _): &(Tensor, Tensor)| lt(a, &limit),
            |(a, n)| (a * 2, n + 1),
            (x.clone(), x - x),
        )
    };
    fn lt(a: &Tensor, b: &Tensor) -> Tensor {
        ops::lt(a, b)
    }
    let eager = f(&Tensor::new(3i64));
    let gm = trace(f).input("x", "i64[]").build().unwrap();
    let (a, n): (Tensor, Tensor) = gm.run((Tensor::new(3i64),)).unwrap();
    assert_eq!((a.item::<i64>().unwrap(), n.item::<i64>().unwrap()), (192, 6));
    assert!(a.bits_eq(&eager.0) && n.bits_eq(&eager.1));
}

#[test]
fn a_loop_whose_body_changes_a_type_is_refused_at_run_time_too() {
    let widens = |x: &Tensor| ops::while_loop(|a: &Tensor| ops::lt(a, 9), |a| a * 2.5, x.clone());
    let eager = widens(&Tensor::new(3i64)).ok().unwrap_err();
    let traced = trace(widens).input("x", "i64[]").build().unwrap_err();
    for error in [eager, traced] {
        assert!(error.message().contains("the body of while_loop gives"), "{error}");
    }
}

#[test]
fn a_graph_module_traced_again_is_the_same_graph() {
    let w = Tensor::new([1.0f32, 2.0]);
    let first = trace(|x: &Tensor| (x * x.dim(0), x + &w)).input("x", "f32[n, 2]").build().unwrap();
    let second = trace(&first).input("x", "f32[n, 2]").build().unwrap();
    assert_eq!(text(&first), text(&second));
    let unspecified = symbolic_trace(&first).unwrap();
    let x = Tensor::new([[1.0f32, 2.0], [3.0, 4.0], [5.0, 6.0]]);
    let run = |gm: &GraphModule| gm.run::<_, (Tensor, Tensor)>((x.clone(),)).unwrap();
    let (a, b) = (run(&first), run(&unspecified));
    assert!(a.0.bits_eq(&b.0) && a.1.bits_eq(&b.1));
}

#[test]
fn specialised_arguments_are_checked_on_each_call() {
    let f = |x: Tensor, double: bool| if double { x * 2.0 } else { x };
    let missing = symbolic_trace(f).unwrap_err();
    assert!(missing.to_string().contains("argument \"y\": the value of a bool is not known"), "{missing}");
    let gm = trace(f).constant("y", true).build().unwrap();
    let x = Tensor::new([1.0f32]);
    let y: Tensor = gm.run((x.clone(), true)).unwrap();
    assert_eq!(y.item::<f32>().unwrap(), 2.0);
    let error = gm.run::<_, Tensor>((x, false)).unwrap_err();
    assert!(error.message().contains("specialised to true, got false"), "{error}");
    let unknown = trace(f).constant("z", true).build().unwrap_err();
    assert!(unknown.message().contains("no argument \"z\""));
}

#[test]
fn symbols_of_two_traces_do_not_mix() {
    let outer = symbolic_trace(|x: &Tensor| {
        let inner = symbolic_trace(|y: &Tensor| y + x);
        assert!(inner.unwrap_err().to_string().contains("two traces are mixed"));
        x + 1
    });
    assert!(outer.is_ok());
    let kept = std::cell::RefCell::new(None);
    symbolic_trace(|x: &Tensor| {
        *kept.borrow_mut() = Some(x + 1.0);
        x.clone()
    })
    .unwrap();
    let late = kept.borrow().clone().unwrap() + 1.0;
    assert!(late.error().unwrap().message().contains("trace"), "{late:?}");
}

#[test]
fn a_panicking_function_leaves_no_active_trace_and_no_memory() {
    let held = std::panic::catch_unwind(|| {
        let _ = symbolic_trace(|x: &Tensor| -> Tensor {
            let _w = x + &Tensor::new([1.0f32]);
            panic!("the user's");
        });
    });
    assert!(held.is_err());
    assert!(!is_tracing());
    assert!((Tensor::new([1.0f32]) + 1.0).array().is_ok());
}

#[test]
fn a_finished_trace_is_freed() {
    let mut array = Array::from(vec![1.0f32; 8]);
    let before = array.as_slice::<f32>().unwrap().as_ptr();
    let gm = symbolic_trace(|x: &Tensor| x + Tensor::new(array.clone())).unwrap();
    assert!(gm.attributes().next().is_some(), "the graph module has the array, too");
    drop(gm);
    // An array that another one shares is copied before it is written.
    assert_eq!(array.get_mut::<f32>().unwrap().as_ptr(), before);
}

#[test]
fn eight_threads_trace_the_same_text() {
    let one = || {
        let w = Tensor::new([1.0f32]);
        text(&symbolic_trace(|x: &Tensor| (0..200).fold(x.clone(), |y, i| (y + i) * &w)).unwrap())
    };
    let expected = one();
    let texts: Vec<String> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(one)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(texts.iter().all(|text| *text == expected));
}

#[test]
fn control_flow_on_a_symbol_says_what_helps() {
    let error = symbolic_trace(|x: &Tensor| -> Result<Tensor> {
        if x.to_bool()? { Ok(x + 1) } else { Ok(x.clone()) }
    })
    .unwrap_err();
    assert!(error.advice().unwrap().contains("fx::cond"), "{error}");
    assert_eq!(error.kind(), fx_core::ErrorKind::Trace);
}

#[test]
fn updates_of_buffers_appear_when_the_call_has_succeeded() {
    let mut graph = Graph::new("main");
    let x = graph.placeholder("x").unwrap();
    let state = graph.get_attr("state").unwrap();
    let sum = graph.call_function(ops::add::OP, [x.into(), state.into()]).unwrap();
    graph.call_function(ops::set_buffer::OP, [Arg::str("state"), sum.into()]).unwrap();
    let again = graph.get_attr("state").unwrap();
    graph.set_output(Arg::tuple([sum.into(), again.into()])).unwrap();
    let mut gm = GraphModule::new("Counter", graph);
    gm.set_attribute("state", fx_core::Attribute::Buffer(Buffer::new(Tensor::new([1.0f32])))).unwrap();
    let x = Tensor::new([2.0f32]);
    let (sum, read): (Tensor, Tensor) = gm.run((x.clone(),)).unwrap();
    assert_eq!((sum.item::<f32>().unwrap(), read.item::<f32>().unwrap()), (3.0, 1.0));
    assert_eq!(gm.attr("state").unwrap().item::<f32>().unwrap(), 3.0);
    assert_eq!(gm.graph().len(), gm.clone().graph_mut().eliminate_dead_code(|_| true) + 6);
    let traced_again = symbolic_trace(&gm).unwrap();
    let (sum, _): (Tensor, Tensor) = traced_again.run((x,)).unwrap();
    assert_eq!(sum.item::<f32>().unwrap(), 5.0);
    assert_eq!(traced_again.attr("state").unwrap().item::<f32>().unwrap(), 5.0);
    assert_eq!(gm.attr("state").unwrap().item::<f32>().unwrap(), 3.0);
}

#[test]
fn hooks_record_replace_and_skip() {
    let gm = symbolic_trace(|x: &Tensor| ((x + 1.0) * 10.0) - x).unwrap();
    let x = Value::from(Tensor::new([1.0f32]));
    let run = gm
        .eval()
        .record("mul")
        .replace("add", |_, _| Ok(Tensor::new([5.0f32]).into()))
        .run(std::slice::from_ref(&x))
        .unwrap();
    let item = |value: &Value| value.leaf().unwrap().item::<f32>().unwrap();
    assert_eq!((item(&run.output), item(run.recorded("mul").unwrap())), (49.0, 50.0));
    let run = gm.eval().given("mul", Tensor::new([7.0f32])).profiled().run(std::slice::from_ref(&x)).unwrap();
    assert_eq!(item(&run.output), 6.0);
    assert!(run.profile.iter().all(|(name, _)| name != "add"));
    let run = gm.extract(&["add"], std::slice::from_ref(&x)).unwrap();
    assert_eq!(item(run.recorded("add").unwrap()), 2.0);
    assert!(matches!(run.output, Arg::None));
    assert!(gm.extract(&["ad"], &[x]).unwrap_err().to_string().contains("did you mean \"add\""));
}
