//! Buffers of the fused engine.

use super::*;

#[test]
fn buffers_are_updated_when_a_call_has_succeeded() {
    let mut gm = GraphModule::new(
        "Counter",
        fx::parse(
            "graph main(%x: f32[2]) {
                %count = self.count
                %next = add(%count, %x)
                %set = set_buffer(\"count\", %next)
                %y = mul(%count, 10)
                return %y
            }",
        )
        .unwrap(),
    );
    gm.set_attribute("count", Attribute::Buffer(Buffer::new(Tensor::new([1.0f32, 2.0])))).unwrap();
    let program = gm.compile(Engine::Fused).unwrap();
    let x = Tensor::new([0.5f32, 0.25]);
    for expected in [[10.0, 20.0], [15.0, 22.5], [20.0, 25.0]] {
        assert_eq!(program.call(std::slice::from_ref(&x)).unwrap().to_vec::<f32>().unwrap(), expected);
    }
    assert_eq!(gm.attr("count").unwrap().to_vec::<f32>().unwrap(), [1.0, 2.0], "its buffers are its own");
}

#[test]
fn buffers_of_modules_are_updated_whatever_is_known_of_types() {
    #[derive(Module)]
    struct Counter {
        count: Buffer,
    }
    #[fx::forward]
    impl Counter {
        fn forward(&self, x: &Tensor) -> Tensor {
            let next = self.count.get() + x.sum((), false);
            drop(self.count.set(&next));
            x * next
        }
    }
    #[derive(Module)]
    struct Outer {
        first: Counter,
        second: Counter,
    }
    #[fx::forward]
    impl Outer {
        fn forward(&self, x: &Tensor) -> Tensor {
            self.second.call(&self.first.call(x).relu())
        }
    }
    let counter = || Counter { count: Buffer::new(Tensor::new(0f32)) };
    let model = Outer { first: counter(), second: counter() };
    let typed = fx::trace(&model).input("x", "f32[n]").build().unwrap();
    let leaves = fx::trace(&model).leaf(|module, _| module.type_name() == "Counter");
    for gm in [typed, fx::symbolic_trace(&model).unwrap(), leaves.build().unwrap()] {
        let program = gm.compile(Engine::Fused).unwrap();
        for n in [2, 3, 2] {
            let x = numbers(&[n], 3);
            let x = std::slice::from_ref(&x);
            let (expected, got) = (gm.call(x).unwrap(), program.call(x).unwrap());
            assert_eq!(bits(&got), bits(&expected));
        }
    }
}

#[test]
fn what_depends_on_buffers_that_stay_is_computed_once() {
    let mut gm = program(
        "graph main(%x: f32[n, 6, 5, 7]) {
            %mean: f32[6] = self.mean
            %var: f32[6] = self.var
            %w: f32[6] = self.weight
            %table: f32[4, 6] = self.table
            %index: i64[7] = self.index
            %at = floor(%x)
            %y = batch_norm(%at, %mean, %var, %w)
            %z = relu(%y)
            %rows = index_select(%table, 0, %index)
            %bias = transpose(%rows, 0, 1)
            %first = reshape(%bias, [6, 1, 7])
            %sum = add(%z, %first)
            return %sum
        }",
    );
    let mut buffer = |path: &str, tensor: Tensor| {
        gm.set_attribute(path, Attribute::Buffer(Buffer::new(tensor))).unwrap();
    };
    buffer("mean", numbers(&[6], 3));
    buffer("var", numbers(&[6], 4).exp());
    buffer("index", Tensor::from_vec(vec![3i64, 0, 1, 1, 2, 3, 0], &[7]));
    for n in [0, 1, 4] {
        agree(&gm, &values(&[numbers(&[n, 6, 5, 7], 1) * 5.0]), false);
    }
    let program = gm.compile(Engine::Fused).unwrap();
    program.call(&[numbers(&[2, 6, 5, 7], 1)]).unwrap();
    let plan = program.fused().unwrap().describe();
    assert!(plan.starts_with("1 steps, ") && !plan.contains("evaluate"), "{plan}");
    // A buffer that a call updates is not what it was.
    let updated = fx::parse(
        "graph main(%x: f32[6]) {
            %mean: f32[6] = self.mean
            %twice = mul(%mean, 2)
            %y = add(%x, %twice)
            %set = set_buffer(\"mean\", %y)
            return %y
        }",
    );
    let mut gm = GraphModule::new("M", updated.unwrap());
    gm.set_attribute("mean", Attribute::Buffer(Buffer::new(numbers(&[6], 3)))).unwrap();
    let program = gm.clone().compile(Engine::Fused).unwrap();
    for _ in 0..3 {
        let x = [numbers(&[6], 5)];
        assert_eq!(bits(&program.call(&x).unwrap()), bits(&gm.call(&x).unwrap()));
    }
}

#[test]
fn paths_that_share_a_module_share_its_state_on_every_engine() {
    let counter = fx::parse(
        "graph main(%x: f32[1]) {
            %state = self.state
            %sum = add(%state, %x)
            %set = set_buffer(\"state\", %sum)
            return %sum
        }",
    )
    .unwrap();
    let mut child = GraphModule::new("Counter", counter);
    child.set_attribute("state", Attribute::Buffer(Buffer::new(Tensor::new([0f32])))).unwrap();
    let graph = fx::parse(
        "graph main(%x: f32[1]) {
            %a = self.a(%x)
            %b = self.b(%a)
            return %b
        }",
    );
    let mut gm = GraphModule::new("Tied", graph.unwrap());
    let child = std::sync::Arc::new(child);
    gm.add_shared_submodule("a", child.clone()).unwrap();
    gm.add_shared_submodule("b", child).unwrap();

    let x = [Tensor::new([1f32])];
    let two_calls =
        |call: &dyn Fn() -> Tensor| [call(), call()].map(|result| result.to_vec::<f32>().unwrap()[0]);
    for engine in [Engine::Eager, Engine::Fused] {
        let program = gm.compile(engine).unwrap();
        assert_eq!(two_calls(&|| program.call(&x).unwrap()), [2.0, 6.0]);
    }
    let mut inlined = gm.clone();
    fx::pass::INLINE.apply(&mut inlined).unwrap();
    fx::pass::compare_runs(&gm, &inlined, 3, 1, 0.0).unwrap();
    assert_eq!(two_calls(&|| inlined.call(&x).unwrap()), [2.0, 6.0]);
    assert_eq!(two_calls(&|| gm.clone().call(&x).unwrap()), [2.0, 2.0], "the state of the original stayed");
    assert_eq!(two_calls(&|| gm.call(&x).unwrap()), [2.0, 6.0]);
}

#[test]
fn results_of_a_group_that_no_kernel_reads_lie_apart() {
    // Statistics that move twice; a normalisation by those of the batch does not read them.
    let text = "\
graph main(%x: f32[2, 4, 3], %mean: f32[4], %var: f32[4]) -> (f32[2, 4, 3], f32[4], f32[4]) {
  %rows: f32[4, 2, 3] = transpose(%x, 0, 1)
  %flat: f32[4, 6] = flatten(%rows, start_dim=1)
  %m: f32[4] = mean(%flat, dim=1)
  %m_part: f32[4] = mul(%m, 0.1)
  %v: f32[4] = var(%flat, dim=1)
  %v_part: f32[4] = mul(%v, 0.1)
  %mean_old: f32[4] = mul(%mean, 0.9)
  %mean_1: f32[4] = add(%mean_old, %m_part)
  %var_old: f32[4] = mul(%var, 0.9)
  %var_1: f32[4] = add(%var_old, %v_part)
  %y: f32[2, 4, 3] = batch_norm(%x, %mean_1, %var_1, training=true)
  %m_again: f32[4] = mean(%flat, dim=1)
  %m_more: f32[4] = mul(%m_again, 0.1)
  %v_again: f32[4] = var(%flat, dim=1)
  %v_more: f32[4] = mul(%v_again, 0.1)
  %mean_mid: f32[4] = mul(%mean_1, 0.9)
  %mean_2: f32[4] = add(%mean_mid, %m_more)
  %var_mid: f32[4] = mul(%var_1, 0.9)
  %var_2: f32[4] = add(%var_mid, %v_more)
  return (%y, %mean_2, %var_2)
}
";
    let gm = GraphModule::new("main", fx::parse(text).unwrap());
    let x = fx::with_generator(&fx::Generator::seeded(7), || fx::randn([2, 4, 3]));
    let args = [&x, &fx::zeros([4]), &fx::ones([4])].map(fx::Value::from);
    let expected = gm.call_values(&args).unwrap();
    let got = gm.compile(Engine::Fused).unwrap().call_values(&args).unwrap();
    for (got, expected) in got.leaves().into_iter().zip(expected.leaves()) {
        got.all_close(expected, 1e-6, 1e-6).unwrap();
    }
}
