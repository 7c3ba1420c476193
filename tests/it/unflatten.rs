//! The hierarchy of modules: traced graphs become modules that call modules, and flat graphs again.
#![allow(missing_docs)]

use std::path::Path;

use fx::prelude::*;
use fx::weights::Weights;
use fx::{Engine, GraphModule, OpCode, check, nn, pass};

#[derive(fx::Module)]
struct Block {
    norm: nn::LayerNorm,
    up: nn::Linear,
    down: nn::Linear,
}

#[fx::forward]
impl Block {
    fn forward(&self, x: &Tensor) -> Tensor {
        x + self.down.call(&self.up.call(&self.norm.call(x)).gelu())
    }
}

/// Scales by the number of its calls.
#[derive(fx::Module)]
struct Counter {
    calls: fx::Buffer,
}

#[fx::forward]
impl Counter {
    fn forward(&self, x: &Tensor) -> Tensor {
        let calls = self.calls.get() + 1.0;
        self.calls.set(&calls).unwrap();
        x * calls
    }
}

#[derive(fx::Module)]
struct Net {
    embed: nn::Linear,
    counter: Counter,
    blocks: Vec<Block>,
    /// Called twice.
    act: nn::Sequential,
    head: nn::Linear,
}

#[fx::forward]
impl Net {
    fn forward(&self, x: &Tensor) -> (Tensor, Tensor) {
        let mut h = self.counter.call(&self.embed.call(x));
        for block in &self.blocks {
            h = self.act.call(&block.call(&h));
        }
        (self.head.call(&h), h)
    }
}

fn net() -> Net {
    fx::with_generator(&fx::Generator::seeded(0), || {
        let block = || Block {
            norm: nn::LayerNorm::new(8),
            up: nn::Linear::new(8, 16),
            down: nn::Linear::new(16, 8),
        };
        Net {
            embed: nn::Linear::new(4, 8),
            counter: Counter { calls: fx::Buffer::new(fx::Tensor::new(0.0f32)) },
            blocks: vec![block(), block()],
            act: nn::Sequential::new().push(nn::ReLU {}).push(nn::Linear::new(8, 8)),
            head: nn::Linear::new(8, 2),
        }
    })
}

fn flat(leaves: bool) -> GraphModule {
    let net = net();
    let trace = fx::trace(&net).input("x", "f32[n, 4]");
    let trace = if leaves { trace } else { trace.leaf(|_, _| false) };
    trace.build().unwrap()
}

/// Whether two modules give the same bits in three calls, which update their buffers.
fn agree(a: &GraphModule, b: &GraphModule) {
    for i in 0..3 {
        let x = fx::with_generator(&fx::Generator::seeded(i), || fx::randn([3, 4]));
        let [a, b] = [a, b].map(|gm| check::tensors(&gm.call_values(&[fx::Value::from(&x)]).unwrap()));
        assert!(a.len() == 2 && a.iter().zip(&b).all(|(a, b)| a.bits_eq(b)), "call {i}");
    }
}

#[test]
fn modules_become_graph_modules_with_their_own_parameters_and_state() {
    let mut gm = flat(true);
    let left = gm.unflatten().unwrap();
    assert!(left.is_empty() && gm.lint().is_empty(), "{left:?} {:?}", gm.lint());
    expect_test::expect![[r#"
        module Net
          module act: Sequential
          module blocks.0: Block
          module blocks.1: Block
          module counter: Counter
          module embed: Linear
          module head: Linear
        method forward
          graph main(%x: f32[n, 4]) -> (f32[n, 2], f32[n, 8]) {
            %embed: f32[n, 8] = self.embed(%x)
            %counter: f32[n, 8] = self.counter(%embed)
            %blocks_0: f32[n, 8] = self.blocks.0(%counter)
            %act: f32[n, 8] = self.act(%blocks_0)
            %blocks_1: f32[n, 8] = self.blocks.1(%act)
            %act_4: f32[n, 8] = self.act(%blocks_1)
            %head: f32[n, 2] = self.head(%act_4)
            return (%head, %act_4)
          }

        module act
          module 0: ReLU
          module 1: Linear
        method forward
          graph main(%blocks_0: f32[n, 8]) -> f32[n, 8] {
            %act_0: f32[n, 8] = self.0(%blocks_0)
            %act_1: f32[n, 8] = self.1(%act_0)
            return %act_1
          }

        module blocks.0
          module down: Linear
          module norm: LayerNorm
          module up: Linear
        method forward
          graph main(%counter: f32[n, 8]) -> f32[n, 8] {
            %blocks_0_norm: f32[n, 8] = self.norm(%counter)
            %blocks_0_up: f32[n, 16] = self.up(%blocks_0_norm)
            %gelu: f32[n, 16] = %blocks_0_up.gelu()
            %blocks_0_down: f32[n, 8] = self.down(%gelu)
            %add_1: f32[n, 8] = add(%counter, %blocks_0_down)
            return %add_1
          }

        module blocks.1
          module down: Linear
          module norm: LayerNorm
          module up: Linear
        method forward
          graph main(%act: f32[n, 8]) -> f32[n, 8] {
            %blocks_1_norm: f32[n, 8] = self.norm(%act)
            %blocks_1_up: f32[n, 16] = self.up(%blocks_1_norm)
            %gelu_1: f32[n, 16] = %blocks_1_up.gelu()
            %blocks_1_down: f32[n, 8] = self.down(%gelu_1)
            %add_2: f32[n, 8] = add(%act, %blocks_1_down)
            return %add_2
          }

        module counter
          buffer calls: f32[]
        method forward
          graph main(%embed: f32[n, 8]) -> f32[n, 8] {
            %calls: f32[] = self.calls
            %add: f32[] = add(%calls, 1.0)
            %mul: f32[n, 8] = mul(%embed, %add)
            %set_buffer = set_buffer("calls", %add)
            return %mul
          }
    "#]]
    .assert_eq(&gm.dump());
    agree(&flat(true), &gm);
}

#[test]
fn leaves_that_were_traced_through_become_modules_again() {
    let mut gm = flat(false);
    assert!(gm.graph().find_nodes(OpCode::CallModule, None).is_empty());
    let parameters = gm.attributes().len();
    let left = gm.unflatten().unwrap();
    assert!(left.is_empty() && gm.lint().is_empty(), "{left:?} {:?}", gm.lint());
    assert_eq!((parameters, gm.attributes().len()), (19, 0));
    let children: Vec<&str> = gm.children().map(|(path, _)| path).collect();
    assert_eq!(children, ["act", "blocks.0", "blocks.1", "counter", "embed", "head"]);
    agree(&flat(false), &gm);
    let copy = gm.clone();
    for engine in [Engine::Eager, Engine::Fused] {
        let x = fx::ones([2, 4]);
        let compiled = gm.compile(engine).unwrap();
        for _ in 0..2 {
            let args = [fx::Value::from(&x)];
            let got = check::tensors(&compiled.call_values(&args).unwrap());
            let wanted = check::tensors(&copy.clone().call_values(&args).unwrap());
            assert_eq!(got.len(), wanted.len());
        }
    }
}

#[test]
fn flat_and_hierarchical_forms_become_each_other() {
    for leaves in [true, false] {
        let mut gm = flat(leaves);
        gm.unflatten().unwrap();
        // New nodes get other numbers.
        let dump = |gm: &GraphModule| gm.dump().replace(|c: char| c.is_ascii_digit(), "");
        let once = dump(&gm);
        pass::INLINE.apply(&mut gm).unwrap();
        let calls = gm.graph().find_nodes(OpCode::CallModule, None).len();
        assert_eq!(calls, if leaves { 12 } else { 0 });
        assert!(gm.lint().is_empty(), "{:?}", gm.lint());
        // A module that is called twice reads its parameters twice.
        let steps = |gm: &GraphModule| {
            gm.graph().nodes().filter(|(_, node)| node.opcode() != OpCode::GetAttr).count()
        };
        assert_eq!(steps(&gm), steps(&flat(leaves)), "{}", gm.graph());
        agree(&flat(leaves), &gm);
        gm.unflatten().unwrap();
        assert_eq!(dump(&gm), once);
    }
}

#[test]
fn methods_share_the_modules_that_they_call() {
    let net = net();
    let traced = fx::jit_trace::trace_module(&net)
        .method(
            "forward",
            |x: &Tensor| net.head.call(&net.blocks[0].call(&net.embed.call(x))),
            (fx::ones([3, 4]),),
        )
        .method("features", |x: &Tensor| net.blocks[0].call(&net.embed.call(x)), (fx::ones([3, 4]),))
        .build()
        .unwrap();
    let flat = traced.into_module().unwrap();
    let mut gm = flat.clone();
    let left = gm.unflatten().unwrap();
    assert!(left.is_empty() && gm.lint().is_empty(), "{left:?} {:?}", gm.lint());
    let x = fx::ones([5, 4]);
    for method in ["forward", "features"] {
        let method = (gm.method(method).unwrap(), flat.method(method).unwrap());
        assert!(method.0.graph().to_string().contains("self.blocks.0(%embed)"), "{}", method.0.graph());
        let [a, b] = [method.0, method.1].map(|gm| gm.call(std::slice::from_ref(&x)).unwrap());
        assert!(a.bits_eq(&b));
    }
}

#[test]
fn a_buffer_that_others_read_stays_outside() {
    let counter = Counter { calls: fx::Buffer::new(fx::Tensor::new(0.0f32)) };
    let seen = |x: &Tensor| counter.call(x) + counter.calls.get();
    let flat = || {
        let gm = fx::trace(fx::trace::with_module(&counter, seen)).input("x", "f32[3]").build().unwrap();
        gm.clone()
    };
    let mut gm = flat();
    gm.unflatten().unwrap();
    assert!(gm.lint().is_empty(), "{:?}", gm.lint());
    let reference = flat();
    for _ in 0..3 {
        let [a, b] = [&gm, &reference].map(|gm| gm.call(&[fx::ones([3])]).unwrap());
        assert!(a.bits_eq(&b), "{gm}");
    }
}

#[test]
fn a_module_takes_a_list_as_an_argument_also_one_of_unknown_type() {
    let text = |ty: &str| {
        format!(
            "graph main(%x: f32[4]) {{
                %parts{ty} = chunk(%x, 2)
                %first = getitem(%parts, 0) #{{stack: [(\"block\", \"Block\", 0)]}}
                %out = exp(%first) #{{stack: [(\"block\", \"Block\", 0)]}}
                %joined = cat(%parts, 0) #{{stack: [(\"join\", \"Join\", 0)]}}
                return [%out, %joined]
            }}"
        )
    };
    let args = [fx::Value::from(&fx::Tensor::new([1.0f32, 2.0, 3.0, 4.0]))];
    for ty in [": [f32[2], f32[2]]", ""] {
        let flat = GraphModule::new("Net", fx::Graph::parse(&text(ty), &fx::registry()).unwrap());
        let mut gm = flat.clone();
        assert!(gm.unflatten().unwrap().is_empty());
        assert_eq!(gm.graph().find_nodes(OpCode::CallModule, None).len(), 2);
        let wanted = check::tensors(&flat.call_values(&args).unwrap());
        for engine in [Engine::Eager, Engine::Fused] {
            let got = gm.compile(engine).unwrap().call_values(&args).unwrap();
            let got = check::tensors(&got);
            assert!(got.len() == 2 && got.iter().zip(&wanted).all(|(a, b)| a.bits_eq(b)), "{engine:?} {gm}");
        }
    }
}

/// The programs that PyTorch has exported keep what they compute, become flat again, and are written as code.
#[test]
fn imported_programs_keep_their_results() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/zoo");
    let (mut programs, mut modules) = (0, 0);
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let io = path.with_extension("io.safetensors");
        if path.extension().is_none_or(|ext| ext != "pt2") || !io.exists() {
            continue;
        }
        let Ok(flat) = fx::import::pt2(&path) else { continue };
        let mut gm = flat.clone();
        gm.unflatten().unwrap();
        assert!(gm.lint().is_empty(), "{}: {:?}", path.display(), gm.lint());
        let args = check::inputs(&flat, &Weights::open(io).unwrap(), 0).unwrap();
        let run = |gm: &GraphModule| {
            let generator = fx::Generator::seeded(0);
            check::tensors(&fx::with_generator(&generator, || gm.clone().call_values(&args)).unwrap())
        };
        let wanted = run(&flat);
        let same = |gm: &GraphModule| {
            let got = run(gm);
            assert!(
                got.len() == wanted.len() && got.iter().zip(&wanted).all(|(a, b)| a.bits_eq(b)),
                "{}: {gm}",
                path.display()
            );
        };
        same(&gm);
        programs += 1;
        modules += gm.children().len();
        pass::INLINE.apply(&mut gm).unwrap();
        assert!(gm.graph().find_nodes(OpCode::CallModule, None).is_empty(), "{}", path.display());
        same(&gm);
    }
    assert!(programs > 20 && modules > 20, "{programs} programs, {modules} modules");
}

/// What a block does between its layers; no module.
trait Activation: Clone + Send + Sync + 'static {
    fn apply(x: &Tensor) -> Tensor;
}

#[derive(Clone)]
struct Relu;

impl Activation for Relu {
    fn apply(x: &Tensor) -> Tensor {
        x.relu()
    }
}

#[derive(fx::Module)]
struct Marked<A: Activation> {
    layer: nn::Linear,
    #[module(skip)]
    marker: std::marker::PhantomData<A>,
}

#[fx::forward]
impl<A: Activation> Marked<A> {
    fn forward(&self, x: &Tensor) -> Tensor {
        A::apply(&self.layer.call(x))
    }
}

/// A module with marked blocks, a field of any type, and one of its own kind.
#[derive(fx::Module)]
struct Nested<A: Activation, M: fx::Module + Clone> {
    blocks: Vec<Marked<A>>,
    pair: (Option<M>, [Marked<A>; 1]),
    inner: Option<Box<Nested<Relu, M>>>,
    last: M,
}

#[fx::forward]
impl<A: Activation, M: fx::Module + Clone> Nested<A, M> {
    fn forward(&self, x: &Tensor) -> Tensor {
        let x = self.blocks.iter().fold(x.clone(), |x, block| block.call(&x));
        let x = self.pair.1[0].call(&x);
        match &self.inner {
            Some(inner) => inner.blocks[0].call(&x),
            None => x,
        }
    }
}

#[test]
fn a_parameter_that_marks_a_module_need_not_be_one() {
    let block = || Marked::<Relu> { layer: nn::Linear::new(4, 4), marker: std::marker::PhantomData };
    let nested =
        |inner| Nested { blocks: vec![block()], pair: (None, [block()]), inner, last: nn::Linear::new(4, 2) };
    let net: Nested<Relu, nn::Linear> = nested(Some(Box::new(nested(None))));
    let gm = fx::trace(&net).input("x", "f32[n, 4]").build().unwrap();
    assert_eq!(gm.graph().find_nodes(OpCode::CallModule, None).len(), 3);
    let x = fx::ones([3, 4]);
    assert!(gm.call(std::slice::from_ref(&x)).unwrap().bits_eq(&net.clone().call(&x)), "{net}");
}
