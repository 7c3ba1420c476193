//! Single behaviours of compiled functions.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use fx::compile::{Code, Counters, Dynamic, Limit, Stance, backend, compile, mutable, with_stance};
use fx::prelude::*;
use fx::{Arg, DType, Engine, Generator, Result, Tensor, err, manual_seed};

use super::{filled, vector};

#[test]
fn an_argument_that_is_not_used_has_no_guard() {
    let f = compile(|x: &Tensor, _y: &Tensor| x + 1.0);
    f.call(&[vector(&[1.0]), vector(&[1.0])]).unwrap();
    f.call(&[vector(&[1.0]), vector(&[1.0, 2.0])]).unwrap();
    assert_eq!(f.counters().compiled, 1);
}

#[test]
fn results_have_the_same_bits_on_every_call() {
    let f = compile(|x: &Tensor| (x.exp() * 0.3 + x).tanh().softmax(-1));
    let x = filled(&[5, 7]);
    let first = f.call(std::slice::from_ref(&x)).unwrap();
    for _ in 0..2 {
        assert!(f.call(std::slice::from_ref(&x)).unwrap().bits_eq(&first));
    }
}

#[test]
fn an_error_of_shape_is_that_of_eager_code_also_on_a_hit() {
    let function = |x: &Tensor, y: &Tensor| (x * 2.0 + y).relu();
    let f = compile(function);
    f.call(&[vector(&[1.0, 2.0]), vector(&[1.0, 2.0])]).unwrap();
    f.call(&[vector(&[1.0, 2.0]), vector(&[1.0, 2.0])]).unwrap();
    let bad = [vector(&[1.0, 2.0]), vector(&[1.0, 2.0, 3.0])];
    let expected = function(&bad[0], &bad[1]).ok().unwrap_err();
    let got = f.call(&bad).unwrap_err();
    assert_eq!(got.to_string(), expected.to_string());
    assert_eq!(got.source_loc(), expected.source_loc());
    f.call(&[vector(&[1.0, 2.0]), vector(&[1.0, 2.0])]).unwrap();
}

#[test]
fn an_error_in_data_has_the_line_of_its_operation() {
    let function = |x: &Tensor, at: &Tensor| x.index_select(0, at) * 2.0;
    let f = compile(function);
    let x = vector(&[1.0, 2.0]);
    f.call(&[x.clone(), Tensor::new([1i64, 0])]).unwrap();
    let bad = [x.clone(), Tensor::new([1i64, 5])];
    let expected = function(&bad[0], &bad[1]).ok().unwrap_err();
    let got = f.call(&bad).unwrap_err();
    assert_eq!(got.to_string(), expected.to_string());
    assert_eq!(f.call(&[x, Tensor::new([0i64, 1])]).unwrap().to_vec::<f32>().unwrap(), [2.0, 4.0]);
    assert!(f.explain().breaks.is_empty(), "{}", f.explain());
}

#[derive(Module)]
struct Counting {
    total: Buffer,
}

#[forward]
impl Counting {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.total.set(&(self.total.get() + x.sum((), false)))?;
        let seen = self.total.get();
        if x.max().item::<f32>()? > 10.0 {
            return Err(err!(Argument, "too large"));
        }
        Ok(x * seen)
    }
}

#[test]
fn a_failed_call_changes_no_buffer() {
    let module = Counting { total: Buffer::new(Tensor::new(0.0f32)) };
    let f = compile(&module);
    let result = f.call(&[vector(&[1.0, 2.0])]).unwrap();
    assert_eq!(result.to_vec::<f32>().unwrap(), [3.0, 6.0]);
    assert!(f.call(&[vector(&[11.0, 2.0])]).unwrap_err().message().contains("too large"));
    assert_eq!(module.total.get().item::<f32>().unwrap(), 3.0);
    f.call(&[vector(&[1.0, 1.0])]).unwrap();
    assert_eq!(module.total.get().item::<f32>().unwrap(), 5.0);
}

#[test]
fn a_panic_leaves_the_function_usable() {
    let panics = AtomicBool::new(false);
    let kept = Mutex::new(Vec::new());
    let f = compile(|x: &Tensor| {
        let h = x * 2.0;
        if panics.load(Ordering::Relaxed) {
            kept.lock().unwrap().push(h.clone());
            std::panic::resume_unwind(Box::new("no"));
        }
        h + 1.0
    });
    f.call(&[vector(&[1.0])]).unwrap();
    panics.store(true, Ordering::Relaxed);
    assert!(catch_unwind(AssertUnwindSafe(|| f.call(&[vector(&[1.0])]))).is_err());
    assert!(!fx::is_compiling());
    panics.store(false, Ordering::Relaxed);
    assert_eq!(f.call(&[vector(&[2.0])]).unwrap().to_vec::<f32>().unwrap(), [5.0]);
    let kept = kept.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    assert_eq!(kept[0].to_vec::<f32>().unwrap(), [2.0]);
}

#[test]
fn random_operations_draw_as_eager_code_does() {
    let function = |x: &Tensor| {
        let a = x.dropout(0.5, true) + fx::rand([4]);
        let number = fx::rng::default_generator().uniform_f32();
        let _unused = fx::rand([3]);
        a * f64::from(number) + fx::randn([4])
    };
    let f = compile(function).backend(backend::eager());
    let x = filled(&[4]);
    for seed in 0..4 {
        let (a, b) = (Generator::seeded(seed), Generator::seeded(seed));
        for _ in 0..2 {
            let expected = fx::with_generator(&a, || function(&x));
            let got = fx::with_generator(&b, || f.call(std::slice::from_ref(&x))).unwrap();
            got.all_close(&expected, 1e-6, 1e-6).unwrap();
            assert_eq!(a.state(), b.state());
        }
    }
    manual_seed(0);
    let inner = compile(|x: &Tensor| {
        let a = fx::rand([2]);
        let own = Generator::seeded(9);
        let b = fx::with_generator(&own, || fx::rand([2]));
        (a + b) * x
    });
    let own = Generator::seeded(9);
    let b = fx::with_generator(&own, || fx::rand([2]));
    let outer = Generator::seeded(7);
    let a = fx::with_generator(&outer, || fx::rand([2]));
    let got = fx::with_generator(&Generator::seeded(7), || inner.call(&[vector(&[1.0, 1.0])])).unwrap();
    got.all_close(&(a + b), 1e-6, 0.0).unwrap();
}

#[test]
fn the_same_tensor_twice_is_no_special_case() {
    let f = compile(|x: &Tensor, y: &Tensor| x * y + x);
    let (x, y) = (vector(&[1.0, 2.0]), vector(&[3.0, 4.0]));
    assert_eq!(f.call(&[x.clone(), x.clone()]).unwrap().to_vec::<f32>().unwrap(), [2.0, 6.0]);
    assert_eq!(f.call(&[x, y]).unwrap().to_vec::<f32>().unwrap(), [4.0, 10.0]);
    assert_eq!(f.counters().compiled, 1);
}

#[test]
fn sizes_vary_together_and_then_apart() {
    let f = compile(|x: &Tensor, y: &Tensor| (x + y).exp());
    for (a, b) in [(4, 4), (7, 7), (3, 3), (5, 1), (6, 1), (1, 1), (0, 0), (9, 1), (1, 8)] {
        let (x, y) = (filled(&[a]), filled(&[b]));
        let got = f.call(&[x.clone(), y.clone()]).unwrap();
        got.all_close(&(x + y).exp(), 1e-5, 1e-6).unwrap();
    }
    let reshape = compile(|x: &Tensor| x.reshape((x.dim(0) * x.dim(1), -1)) + 1.0);
    for (a, b) in [(2, 3), (4, 5), (3, 7), (1, 1), (6, 2)] {
        let x = filled(&[a, b, 2]);
        assert_eq!(reshape.call(&[x]).unwrap().shape().unwrap().known().unwrap()[..], [a * b, 2]);
    }
    assert!(reshape.counters().compiled <= 3, "{}", reshape.explain());
}

#[test]
fn a_size_that_cannot_vary_stays_and_says_why() {
    let f = compile(|x: &Tensor, y: &Tensor| x + y);
    f.call(&[filled(&[4, 3]), filled(&[4, 3])]).unwrap();
    f.call(&[filled(&[5, 3]), filled(&[1, 3])]).unwrap();
    let told = f.explain();
    assert_eq!(told.counters.compiled, 2);
    assert_eq!(told.breaks[0].code, Code::C03);
    assert!(told.breaks[0].at.is_some());
}

#[test]
fn a_whole_function_refuses_reads_on_every_call() {
    let f = compile(|x: &Tensor| -> Result<Tensor> {
        Ok(if x.sum((), false).item::<f32>()? > 0.0 { x.relu() } else { x.tanh() })
    })
    .whole();
    for _ in 0..2 {
        let error = f.call(&[vector(&[1.0])]).unwrap_err();
        assert!(error.message().starts_with("C10: `item` reads a value"), "{error}");
        assert!(error.source_loc().unwrap().file().ends_with("behaviour.rs"));
    }
    // Also if the code goes on without the value.
    let g = compile(|x: &Tensor| {
        let _ = (x + 1.0).to_vec::<f32>();
        x + 2.0
    })
    .whole();
    assert!(g.call(&[vector(&[1.0])]).unwrap_err().message().starts_with("C10"));
    let h = compile(|x: &Tensor| (x + 1.0).exp()).whole();
    h.call(&[vector(&[1.0])]).unwrap();
}

#[test]
fn backends_count_and_fail() {
    let (counting, counter) = backend::counting();
    let f = compile(|x: &Tensor| x.exp() + 1.0).backend(counting);
    for _ in 0..3 {
        f.call(&[vector(&[0.0])]).unwrap();
    }
    assert_eq!((counter.prepared(), counter.calls()), (1, 3));
    for when in [backend::FailWhen::Prepare, backend::FailWhen::Call] {
        let f =
            compile(|x: &Tensor| x.exp() + 1.0).backend(backend::failing(when, err!(Graph, "out of order")));
        for _ in 0..3 {
            assert_eq!(f.call(&[vector(&[0.0])]).unwrap().to_vec::<f32>().unwrap(), [2.0]);
        }
        let told = f.explain();
        assert_eq!(told.breaks.len(), 1);
        assert_eq!((told.breaks[0].code, told.breaks[0].count), (Code::C13, 1));
    }
    let unknown = compile(|x: &Tensor| x.exp()).backend("nobody");
    let error = unknown.call(&[vector(&[0.0])]).unwrap_err();
    assert!(error.message().starts_with("there is no backend \"nobody\""), "{error}");
    assert!(error.advice().unwrap().contains("fused"));
}

#[test]
fn a_differential_backend_names_the_wrong_operation() {
    struct Wrong;
    impl backend::Backend for Wrong {
        fn name(&self) -> &str {
            "wrong"
        }
        fn prepare(&self, mut module: fx::GraphModule) -> Result<Box<dyn backend::Executable>> {
            let exps: Vec<_> =
                module.graph().nodes().filter(|(_, node)| node.name() == "exp").map(|(id, _)| id).collect();
            for id in exps {
                let graph = module.graph_mut();
                let arg = graph.node(id)?.args()[0].clone();
                let sin = graph.inserting_before(id, |graph| graph.call_function(fx::sin::OP, [arg]))??;
                graph.replace_all_uses(id, sin)?;
            }
            Engine::Eager.prepare(module)
        }
    }
    let folder = std::env::temp_dir().join(format!("fx-differential-{}", std::process::id()));
    let f = compile(|x: &Tensor| (x * 2.0).exp() + 1.0)
        .backend(backend::differential(Wrong, backend::eager(), 1e-4, 1e-5).reproduce(&folder));
    assert_eq!(f.call(&[vector(&[0.0])]).unwrap().to_vec::<f32>().unwrap(), [2.0]);
    let told = f.explain();
    assert_eq!(told.breaks[0].code, Code::C18);
    assert!(told.breaks[0].what.contains("%exp"), "{}", told.breaks[0]);
    let path = folder.join("wrong_exp.fx");
    assert!(told.breaks[0].what.contains(&format!("fx run {}", path.display())), "{}", told.breaks[0]);
    let graph = fx::parse(&std::fs::read_to_string(path).unwrap()).unwrap();
    let names: Vec<&str> =
        graph.nodes().filter(|(_, node)| node.op().is_some()).map(|(_, node)| node.name()).collect();
    assert_eq!(names, ["exp"]);
    assert!(folder.join("wrong_exp.io.safetensors").exists());
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn stances_hold_on_their_thread_for_a_while() {
    let f = compile(|x: &Tensor| x.exp() + 1.0);
    let x = [vector(&[0.0, 0.0])];
    with_stance(Stance::ForceEager, || f.call(&x)).unwrap();
    with_stance(Stance::EagerOnMiss, || f.call(&x)).unwrap();
    let error = with_stance(Stance::FailOnMiss, || f.call(&x)).unwrap_err();
    assert!(error.message().contains("nothing is compiled yet"), "{error}");
    assert_eq!(f.counters().compiled, 0);
    f.call(&x).unwrap();
    with_stance(Stance::FailOnMiss, || f.call(&x)).unwrap();
    let error = with_stance(Stance::FailOnMiss, || f.call(&[vector(&[0.0])])).unwrap_err();
    let text = "and the stance forbids to compile: input x: size of axis 0 is 1, compiled for 2";
    assert!(error.message().ends_with(text), "{error}");
    let g = compile(|x: &Tensor| x.exp());
    with_stance(Stance::EagerThenCompile(3), || {
        for i in 0..5u64 {
            g.call(&x).unwrap();
            assert_eq!(g.counters().compiled, u64::from(i >= 3));
        }
    });
}

#[test]
fn threads_that_call_first_at_once_compile_once() {
    for _ in 0..20 {
        let f = compile(|x: &Tensor| (x * 2.0).exp().sum(-1, false));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let x = filled(&[3, 4]);
                    let got = f.call(std::slice::from_ref(&x)).unwrap();
                    got.all_close(&(x * 2.0).exp().sum(-1, false), 1e-5, 1e-6).unwrap();
                });
            }
        });
        assert_eq!(f.counters().compiled, 1);
    }
}

#[test]
fn a_lazy_tensor_on_other_threads_has_its_value() {
    let f = compile(|x: &Tensor| {
        let h = x * 2.0;
        let (a, b) = rayon::join(|| h.exp(), || (&h + 1.0).to_vec::<f32>().map(|x| x[0]));
        a * f64::from(b.unwrap())
    });
    for _ in 0..3 {
        assert_eq!(f.call(&[vector(&[0.0])]).unwrap().to_vec::<f32>().unwrap(), [1.0]);
    }
}

#[test]
fn a_mutable_function_that_calls_itself_is_refused() {
    type Inner = Box<dyn Fn(&Tensor) -> Tensor + Send + Sync>;
    let inner: Arc<OnceLock<Inner>> = Arc::default();
    let (again, mut n) = (inner.clone(), 0);
    let f = Arc::new(compile(mutable(move |x: &Tensor| {
        n += 1;
        match again.get() {
            Some(again) => again(x),
            None => x + n,
        }
    })));
    assert_eq!(f.call(&[vector(&[0.0])]).unwrap().to_vec::<f32>().unwrap(), [1.0]);
    let itself = Arc::downgrade(&f);
    let call = move |x: &Tensor| {
        let f = itself.upgrade().expect("it is called");
        f.call(std::slice::from_ref(x)).unwrap_or_else(Tensor::failed)
    };
    assert!(inner.set(Box::new(call)).is_ok());
    assert!(f.call(&[vector(&[0.0])]).unwrap_err().message().starts_with("C12"));
}

#[test]
fn compiled_functions_inside_of_compiled_functions_are_inlined() {
    let inner = compile(|x: &Tensor| x.exp() + 1.0);
    let outer = compile(|x: &Tensor| inner.call(&[x * 2.0]).map(|y| y * 3.0));
    assert_eq!(outer.call(&[vector(&[0.0])]).unwrap().to_vec::<f32>().unwrap(), [6.0]);
    assert_eq!((outer.counters().compiled, inner.counters().compiled), (1, 0));
    fn down(x: Tensor, n: u32) -> Tensor {
        if n == 0 { x } else { down(x + 1.0, n - 1) }
    }
    let deep = compile(|x: &Tensor| down(x.clone(), 100));
    assert_eq!(deep.call(&[vector(&[0.0])]).unwrap().to_vec::<f32>().unwrap(), [100.0]);
    let graph = fx::trace(|x: &Tensor| inner.call(std::slice::from_ref(x))).build().unwrap();
    assert_eq!(graph.graph().nodes().filter(|(_, node)| node.op().is_some()).count(), 2);
}

#[test]
fn code_without_compilation_reads_its_operands() {
    let seen = AtomicUsize::new(0);
    let f = compile(|x: &Tensor| {
        let h = x * 2.0;
        seen.fetch_add(usize::from(fx::is_compiling()), Ordering::Relaxed);
        let eager = fx::without_compile(|| &h + 1.0);
        assert!(eager.as_lazy().is_none());
        eager * h
    });
    for _ in 0..2 {
        assert_eq!(f.call(&[vector(&[1.0])]).unwrap().to_vec::<f32>().unwrap(), [6.0]);
    }
    assert_eq!(seen.into_inner(), 2);
}

#[test]
fn a_cut_makes_a_loop_one_graph() {
    let f = compile(|x: Tensor, n: i64| {
        let mut x = x.clone();
        for _ in 0..n {
            x = x * 0.5 + 1.0;
            fx::cut();
        }
        x
    });
    for n in [3i64, 10, 1, 40] {
        let _: Tensor = f.run((vector(&[1.0]), n)).unwrap();
    }
    assert_eq!(f.counters().compiled, 1);
}

#[test]
fn sizes_that_depend_on_data_run_by_themselves() {
    let function = |x: &Tensor| {
        let at = x.gt(0.0).nonzero();
        at.to(DType::F32) * 2.0
    };
    let f = compile(function);
    for x in [vector(&[1.0, -1.0, 2.0]), vector(&[1.0, 1.0, 2.0]), vector(&[-1.0, -1.0, -2.0])] {
        f.call(std::slice::from_ref(&x)).unwrap().all_close(&function(&x), 0.0, 0.0).unwrap();
    }
    assert_eq!(f.explain().breaks[0].code, Code::C14);
}

#[test]
fn control_flow_of_tensors_works_inside() {
    let f = compile(|x: &Tensor| {
        let y = fx::cond(x.sum((), false).gt(0.0), |x: Tensor| x.relu(), |x: Tensor| x.abs(), x.clone());
        fx::while_loop(|x: &Tensor| x.max().lt(10.0), |x: Tensor| x * 2.0 + 1.0, y)
    });
    assert_eq!(f.call(&[vector(&[-1.0, 0.5])]).unwrap().to_vec::<f32>().unwrap(), [15.0, 11.0]);
    assert_eq!(f.call(&[vector(&[1.0, -0.5])]).unwrap().to_vec::<f32>().unwrap(), [15.0, 7.0]);
}

#[test]
fn evictions_keep_the_bytes_below_the_limit() {
    let most = 1 << 18;
    let f = compile(|x: &Tensor| (x * 2.0).softmax(-1).matmul(fx::ones([1000, 4])))
        .dynamic(Dynamic::Never)
        .limit(100, Limit::Evict)
        .limit_bytes(most);
    for n in 1..20 {
        let y = f.call(&[filled(&[n, 1000])]).unwrap();
        assert_eq!(y.dim(0).known(), Some(n as i64));
        // A graph alone may hold more than the limit.
        assert!(
            f.bytes() < most || f.graphs().len() == 1,
            "{} bytes in {} graphs",
            f.bytes(),
            f.graphs().len()
        );
    }
    assert!(f.bytes() > 0 && f.explain().breaks.iter().any(|found| found.code == Code::C08));
    f.reset();
    assert_eq!(f.bytes(), 0);
    let g = compile(|x: &Tensor| (x * 2.0).softmax(-1).matmul(fx::ones([1000, 4])))
        .dynamic(Dynamic::Never)
        .limit(100, Limit::Error)
        .limit_bytes(1);
    g.call(&[filled(&[1, 1000])]).unwrap();
    let error = g.call(&[filled(&[2, 1000])]).unwrap_err();
    assert!(error.message().contains("C08") && error.message().contains("has graphs of"), "{error}");
}

#[test]
fn limits_evict_or_fail_or_run_by_operations() {
    let call = |limit| {
        let f = compile(|x: Tensor, n: i64| {
            (0..n).fold(x.clone(), |x, i| if i % 2 == 0 { x.relu() } else { x.exp() })
        })
        .limit(3, limit);
        let results: Vec<Result<Tensor>> = (1..6i64).map(|n| f.run((vector(&[0.5]), n))).collect();
        (results, f.explain())
    };
    let (results, told) = call(Limit::Evict);
    assert!(results.iter().all(Result::is_ok));
    assert_eq!(told.segments.len(), 3);
    let (results, told) = call(Limit::Eager);
    assert!(results.iter().all(Result::is_ok));
    assert_eq!((told.segments.len(), told.counters.compiled), (3, 3));
    assert_eq!(told.breaks[0].code, Code::C08);
    let (results, _) = call(Limit::Error);
    let error = results[3].as_ref().unwrap_err();
    assert!(error.message().starts_with("C08: closure has 3 graphs, which is its limit"), "{error}");
}

#[test]
fn a_function_that_compiles_in_every_call_stops() {
    let f = compile(|x: Tensor, p: f64| x.leaky_relu(p)).dynamic(Dynamic::Never);
    for i in 0..40 {
        let _: Tensor = f.run((vector(&[-1.0]), f64::from(i))).unwrap();
    }
    let told = f.explain();
    assert!(told.counters.compiled <= 17, "{told}");
    assert!(told.breaks.iter().any(|found| found.code == Code::C09), "{told}");
}

#[test]
fn a_dtype_that_varies_is_named() {
    let f = compile(|x: &Tensor| x.exp() + 1.0);
    for dtype in [DType::F32, DType::F64, DType::F32, DType::F64] {
        assert_eq!(f.call(&[vector(&[0.0]).to(dtype)]).unwrap().dtype().unwrap(), dtype);
    }
    assert_eq!(f.explain().misses.len(), 2);
}

#[test]
fn options_after_the_first_call_are_refused() {
    let f = compile(|x: &Tensor| x.exp());
    f.call(&[vector(&[0.0])]).unwrap();
    let error = f.whole().call(&[vector(&[0.0])]).unwrap_err();
    assert_eq!(error.message(), "options of a compiled function are set before its first call");
}

#[test]
fn a_tensor_of_an_earlier_call_is_an_input() {
    let last: Mutex<Option<Tensor>> = Mutex::new(None);
    let f = compile(|x: &Tensor| {
        let h = x + 1.0;
        let before = last.lock().unwrap().replace(h.clone());
        match before {
            Some(before) => h * before,
            None => h,
        }
    });
    let results: Vec<f32> =
        (0..4).map(|i| f.call(&[vector(&[i as f32])]).unwrap().to_vec::<f32>().unwrap()[0]).collect();
    assert_eq!(results, [1.0, 2.0, 6.0, 12.0]);
    assert_eq!(f.counters().compiled, 2);
}

#[test]
fn graph_modules_can_be_compiled() {
    let gm = fx::trace(|x: &Tensor| x.exp() * 2.0).build().unwrap();
    let f = compile(&gm);
    assert_eq!(f.call(&[vector(&[0.0])]).unwrap().to_vec::<f32>().unwrap(), [2.0]);
    let typed =
        fx::trace(|x: &Tensor| x.reshape((x.dim(0), -1)) * 2.0).input("x", "f32[n, 3, 4]").build().unwrap();
    let g = compile(&typed);
    for n in [2, 5, 1] {
        assert_eq!(g.call(&[filled(&[n, 3, 4])]).unwrap().shape().unwrap().known().unwrap()[..], [n, 12]);
    }
    assert_eq!(
        g.counters(),
        Counters { calls: 3, hits: 1, misses: 2, compiled: 2, loaded: 0, narrowed: 0, runs: 3, reads: 0 }
    );
}

#[test]
fn results_that_are_used_first_in_a_later_call_are_compiled_again() {
    let kept = Mutex::new(Vec::new());
    let f = compile(|x: Tensor, keep: bool| {
        let h = x.exp();
        if keep {
            kept.lock().unwrap().push(h.clone());
        }
        h + 1.0
    });
    for keep in [false, false, true, true, false] {
        let _: Tensor = f.run((vector(&[0.0]), keep)).unwrap();
    }
    assert_eq!(f.counters().compiled, 2);
    assert_eq!(f.explain().breaks[0].code, Code::C17);
    assert_eq!(kept.lock().unwrap()[1].to_vec::<f32>().unwrap(), [1.0]);
}

#[test]
fn structures_and_several_results_of_one_operation() {
    let function = |x: &Tensor| {
        let parts = x.split(2, 0);
        let (values, at) = parts[0].topk(1, -1, true, true);
        Arg::list([Arg::Leaf(values * 2.0), Arg::Leaf(at), Arg::Leaf(&parts[1] + 1.0)])
    };
    let f = compile(function);
    for _ in 0..2 {
        let x = filled(&[4, 3]);
        super::same(&f.call_values(&[Arg::Leaf(x.clone())]), &Ok(function(&x)));
    }
    assert_eq!(f.counters().compiled, 1);
}

#[test]
fn explanations_are_text_and_json() {
    let f = compile(|x: &Tensor| -> Result<Tensor> {
        let h = x * 2.0 + 1.0;
        Ok(if h.sum((), false).item::<f32>()? > 0.0 { h.relu() * 3.0 } else { h.tanh() })
    });
    for x in [1.0, 2.0, -3.0] {
        f.call(&[vector(&[x])]).unwrap();
    }
    let told = f.explain();
    let text = told.to_string();
    for part in [
        "follow, backend fused, 3 segments; 3 calls: 1 hit, 3 compilations",
        "C01 item at tests/it/compile/",
        "ends: read C01 `item`",
    ] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
    let json: serde_json::Value = serde_json::from_str(&told.to_json()).unwrap();
    assert_eq!(json["segments"].as_array().unwrap().len(), 3);
    assert_eq!(json["segments"][0]["code"], "C01");
}

#[test]
fn input_specs_make_sizes_vary_from_the_first_graph_on() {
    let f = compile(|x: &Tensor, y: &Tensor| (x + y).relu())
        .input("x", "f32[batch, 3]")
        .input("y", "f32[batch, 3]")
        .dim("batch", 1, Some(64));
    for n in [3, 1, 64, 7] {
        assert_eq!(f.call(&[filled(&[n, 3]), filled(&[n, 3])]).unwrap().numel().unwrap(), n as i64 * 3);
    }
    assert_eq!(f.counters().compiled, 1);
    assert_eq!(f.explain().segments[0].inputs, ["x: f32[batch, 3]", "y: f32[batch, 3]"]);
    let refused = |args: &[Tensor], why: &str| {
        let error = f.call(args).unwrap_err();
        assert!(error.message().contains(why), "{error}");
        assert!(error.source_loc().is_some_and(|at| at.file().ends_with("behaviour.rs")), "{error}");
    };
    refused(&[filled(&[65, 3]), filled(&[65, 3])], "batch is 65, outside of its range 1..=64");
    refused(&[filled(&[2, 3]), filled(&[3, 3])], "argument \"y\"");
    refused(&[filled(&[2, 4]), filled(&[2, 4])], "argument \"x\": expected f32[batch, 3]");
    refused(&[vector(&[1.0]), vector(&[1.0])], "argument \"x\"");
    assert_eq!(f.counters().compiled, 1);

    let g = compile(|x: &Tensor| x.reshape((x.dim(0), -1)).sum(1, false)).input("x", "f32[n, 2, 2]");
    for n in [3, 4, 1, 9, 2] {
        assert_eq!(g.call(&[filled(&[n, 2, 2])]).unwrap().numel().unwrap(), n as i64);
    }
    assert!(g.counters().compiled <= 2, "{}", g.explain());
}

#[test]
fn input_specs_that_cannot_hold_are_errors() {
    // The second operand has four rows, so the size can be nothing else.
    let y = filled(&[4, 2]);
    let f = compile(|x: &Tensor| x + &y).input("x", "f32[n, 2]");
    assert!(f.call(&[filled(&[4, 2])]).is_ok());
    let error = f.call(&[filled(&[1, 2])]).unwrap_err();
    assert!(error.message().starts_with("C03") && error.to_string().contains("behaviour.rs"), "{error}");

    let unknown = compile(|x: &Tensor| x + 1.0).input("z", "f32[n]");
    let error = unknown.call(&[filled(&[1])]).unwrap_err().to_string();
    assert!(error.contains("no argument \"z\"") && error.contains("its arguments are x"), "{error}");
    let bad = compile(|x: &Tensor| x + 1.0).input("x", "f32[n").call(&[filled(&[1])]).unwrap_err();
    assert!(bad.message().contains("missing ]"), "{bad}");
    let unused = compile(|x: &Tensor| x + 1.0).input("x", "f32[n]").dim("m", 0, None);
    assert!(unused.call(&[filled(&[1])]).unwrap_err().message().contains("no input spec uses"));
}

#[test]
fn input_specs_of_lists_and_of_pure_functions() {
    let f = compile(|xs: Vec<Tensor>| &xs[0] * &xs[1] + 1.0)
        .input("x", fx::InputSpec::list(["f32[n]", "f32[n]"]))
        .verify(0);
    for n in [2, 5, 1, 0, 3] {
        let xs = vec![filled(&[n]), filled(&[n])];
        let y: Tensor = f.run((xs,)).unwrap();
        assert_eq!(y.numel().unwrap(), n as i64);
    }
    assert_eq!(f.counters().compiled, 1, "{}", f.explain());
    let error = f.run::<_, Tensor>((vec![filled(&[2])],)).unwrap_err();
    assert!(error.message().contains("argument \"x\" is [tensor], its spec"), "{error}");
}

#[derive(Module)]
struct Switched {
    linear: fx::nn::Linear,
    norm: fx::nn::BatchNorm1d,
}

#[forward]
impl Switched {
    fn forward(&self, x: &Tensor) -> Tensor {
        self.norm.call(&self.linear.call(x))
    }
}

#[test]
fn a_module_of_the_function_can_be_changed_between_calls() {
    for is_pure in [false, true] {
        let mut model = Switched { linear: fx::nn::Linear::new(3, 2), norm: fx::nn::BatchNorm1d::new(2) };
        model.eval();
        let f = compile(fx::compile::owned(model.clone()));
        let mut f = if is_pure { f.verify(0) } else { f };
        let check = |f: &fx::compile::Function<_, _>, model: &Switched| {
            for n in 1..4 {
                let x = filled(&[4, 3]) * n;
                let got = f.call(std::slice::from_ref(&x)).unwrap();
                got.all_close(&model.forward(&x), 1e-5, 1e-5).unwrap();
            }
        };
        check(&f, &model);
        // The buffers of a clone are its own.
        f.module_mut().train();
        model.train();
        check(&f, &model);
        let before = f.counters().compiled;
        f.module_mut().eval();
        model.eval();
        check(&f, &model);
        // The code for inference is still there.
        assert_eq!(f.counters().compiled, before);
        let weight = filled(&[2, 3]) + 1.0;
        f.module_mut().linear.weight = fx::Parameter::new(weight.clone());
        model.linear.weight = fx::Parameter::new(weight);
        check(&f, &model);
        assert!(f.into_module().norm.call(&filled(&[4, 2])).numel().is_ok());
    }
}

#[test]
fn a_call_that_changes_to_a_graph_of_other_sizes_and_leaves_it_has_its_own_sizes() {
    let run = |x: &Tensor, mode: i64| {
        let h = x * 2.0 + 1.0;
        assert!(h.ty().unwrap().shape.known().is_some(), "{h:?}");
        match mode {
            0 => h.relu(),
            1 => h.tanh().exp(),
            _ => h.tanh().sigmoid(),
        }
    };
    let f = compile(run);
    // The graph of mode 1 is for all sizes, that of mode 0 for 4; mode 2 begins as the one, then as the other.
    for (n, mode) in [(4, 1), (5, 1), (4, 0), (4, 0), (4, 2), (4, 2), (6, 2), (4, 1)] {
        let x = filled(&[n]);
        let got: Tensor = f.run((x.clone(), mode)).unwrap();
        got.all_close(&run(&x, mode), 1e-6, 1e-6).unwrap();
    }
}

#[test]
fn a_wrong_number_of_arguments_is_an_error_at_the_call() {
    let sum = |x: &Tensor, y: &Tensor| x + y;
    for error in [compile(sum).call(&[filled(&[2])]), compile(sum).pure().call(&[filled(&[2])])] {
        let error = error.unwrap_err().to_string();
        assert!(error.contains("expected 2 arguments, got 1  at tests/it/compile/behaviour.rs:"), "{error}");
        assert!(error.contains("its arguments are (x, y)"), "{error}");
    }
}

#[test]
fn sub_graphs_act_in_order_on_every_call() {
    let text = r#"graph main(%x: f32[2], %go: bool[]) -> f32[2] {
        %before = print(%x, label="before")
        %y = exp(%x)
        %unused = cond(%go, @then, @otherwise, [%y])
        %z = add(%y, 1)
        return %z
    }
    graph then(%a: f32[2]) -> f32[2] {
        %said = print(%a, label="then")
        return %said
    }
    graph otherwise(%a: f32[2]) -> f32[2] {
        return %a
    }"#;
    let gm = fx::GraphModule::new("M", fx::Graph::parse(text, &fx::registry()).unwrap());
    for is_pure in [false, true] {
        let f = compile(&gm);
        let f = if is_pure { f.pure() } else { f };
        for go in [true, true, true, false, true] {
            let (result, printed) = fx::ops::with_printed(|| f.call(&[vector(&[0.0, 0.0]), Tensor::new(go)]));
            assert_eq!(result.unwrap().to_vec::<f32>().unwrap(), [2.0, 2.0]);
            let labels: Vec<&str> = printed.iter().map(|(label, _)| label.as_str()).collect();
            assert_eq!(labels, if go { vec!["before", "then"] } else { vec!["before"] });
        }
    }
}
