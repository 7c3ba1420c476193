//! What `fx::compile` costs beside what it saves: calls that hit, and first calls.
//!
//! `cargo bench --bench compile`. Each group has what it is compared with.
#![allow(missing_docs)]

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use fx::prelude::*;
use fx::{Engine, GraphModule, nn};

const OPERATIONS: usize = 1000;

fn chain(x: &Tensor) -> Tensor {
    let mut x = x.clone();
    for _ in 0..OPERATIONS / 2 {
        x = (x * 0.5).relu();
    }
    x
}

/// A backend that computes nothing: what is left is the work of following.
struct Nothing;

impl fx::compile::Backend for Nothing {
    fn name(&self) -> &str {
        "nothing"
    }

    fn prepare(&self, module: GraphModule) -> fx::Result<Box<dyn fx::compile::Executable>> {
        struct Same(usize);
        impl fx::compile::Executable for Same {
            fn call(&self, args: &[fx::Value]) -> fx::Result<fx::Value> {
                Ok(fx::Arg::tuple(vec![args[0].clone(); self.0]))
            }
        }
        let outputs = module.graph().output().items().map_or(1, <[_]>::len);
        Ok(Box::new(Same(outputs)))
    }
}

/// Following an operation beside tracing it and running it eagerly.
fn operations(c: &mut Criterion) {
    let mut group = c.benchmark_group("1000 operations");
    group.throughput(criterion::Throughput::Elements(OPERATIONS as u64));
    let x = Tensor::new([1.0f32, 2.0, 3.0, 4.0]);
    let f = fx::compile(chain).backend(Nothing);
    f.call(std::slice::from_ref(&x)).unwrap();
    group.bench_function("follow", |b| b.iter(|| f.call(black_box(std::slice::from_ref(&x))).unwrap()));
    let g = fx::compile(chain).backend(Nothing).verify(0);
    (0..3).for_each(|_| _ = g.call(std::slice::from_ref(&x)).unwrap());
    group.bench_function("replay", |b| b.iter(|| g.call(black_box(std::slice::from_ref(&x))).unwrap()));
    group.bench_function("eager", |b| b.iter(|| chain(black_box(&x))));
    group.sample_size(20).bench_function("trace", |b| {
        b.iter(|| fx::trace(chain).input("x", "f32[4]").build().unwrap());
    });
    group.finish();
}

/// A call of a function of few operations beside its program alone.
fn calls(c: &mut Criterion) {
    let mut group = c.benchmark_group("call");
    let straight = |x: &Tensor, y: &Tensor, z: &Tensor| (x * y + z).relu();
    let args: Vec<Tensor> = (0..3).map(|i| fx::full([8], i).to(fx::DType::F32)).collect();
    let specs = |name: &str| (name.to_owned(), "f32[8]".to_owned());
    let gm = ["x", "y", "z"].map(specs).iter().fold(fx::trace(straight), |t, (n, s)| t.input(n, s.as_str()));
    let program = gm.build().unwrap().into_program(Engine::Fused).unwrap();
    let follow = fx::compile(straight);
    let pure = fx::compile(straight).verify(0);
    (0..3).for_each(|_| _ = (follow.call(&args).unwrap(), pure.call(&args).unwrap()));
    group.bench_function("program", |b| b.iter(|| program.call(black_box(&args)).unwrap()));
    group.bench_function("pure", |b| b.iter(|| pure.call(black_box(&args)).unwrap()));
    group.bench_function("follow", |b| b.iter(|| follow.call(black_box(&args)).unwrap()));
    group.bench_function("eager", |b| b.iter(|| straight(&args[0], &args[1], black_box(&args[2]))));
    group.finish();

    // Paths that differ in a number of an argument: the one that is sought was found last, or not.
    let mut group = c.benchmark_group("paths");
    for n in [1i64, 4, 64] {
        let f = fx::compile(|x: &Tensor, n: i64| x + n).verify(0);
        let call = |n: i64| f.run::<_, Tensor>((args[0].clone(), n)).unwrap();
        (0..n).for_each(|n| (0..3).for_each(|_| _ = call(n)));
        let mut at = 0;
        group.bench_function(BenchmarkId::from_parameter(n), |b| {
            b.iter(|| {
                at = (at + 1) % n;
                call(at)
            });
        });
    }
    group.finish();
}

/// A branch on a value, which takes two programs.
fn branches(c: &mut Criterion) {
    let mut group = c.benchmark_group("branch");
    let branch = |x: &Tensor| -> fx::Result<Tensor> {
        let h = x * 2.0 + 1.0;
        Ok(if h.sum((), false).gt(0.0).to_bool()? { h.relu() * 3.0 } else { h.tanh() })
    };
    let x = fx::ones([8]);
    let args = std::slice::from_ref(&x);
    let (follow, pure) = (fx::compile(branch), fx::compile(branch).verify(0));
    (0..3).for_each(|_| _ = (follow.call(args).unwrap(), pure.call(args).unwrap()));
    group.bench_function("pure", |b| b.iter(|| pure.call(black_box(args)).unwrap()));
    group.bench_function("follow", |b| b.iter(|| follow.call(black_box(args)).unwrap()));
    group.bench_function("eager", |b| b.iter(|| branch(black_box(&x)).unwrap()));
    group.finish();

    let mut group = c.benchmark_group("loop of 20 rounds");
    let settle = |x: &Tensor| -> fx::Result<Tensor> {
        let mut x = x.clone();
        while x.abs().max().gt(1.0).to_bool()? {
            x *= 0.5;
        }
        Ok(x + 1.0)
    };
    let x = fx::full([64], 1 << 20).to(fx::DType::F32);
    let args = std::slice::from_ref(&x);
    let (follow, pure) = (fx::compile(settle), fx::compile(settle).verify(0));
    (0..3).for_each(|_| _ = (follow.call(args).unwrap(), pure.call(args).unwrap()));
    group.bench_function("pure", |b| b.iter(|| pure.call(black_box(args)).unwrap()));
    group.bench_function("follow", |b| b.iter(|| follow.call(black_box(args)).unwrap()));
    group.bench_function("eager", |b| b.iter(|| settle(black_box(&x)).unwrap()));
    group.finish();
}

#[derive(Module)]
struct Mlp {
    a: nn::Linear,
    b: nn::Linear,
}

#[forward]
impl Mlp {
    fn forward(&self, x: &Tensor) -> Tensor {
        self.b.call(&self.a.call(x).relu())
    }
}

#[derive(Module)]
struct Deep {
    layers: Vec<nn::Linear>,
}

#[forward]
impl Deep {
    fn forward(&self, x: &Tensor) -> Tensor {
        let mut x = x.clone();
        for layer in &self.layers {
            x = layer.call(&x).relu();
        }
        x
    }
}

/// Modules: weights are constants, so the program is that of the traced module.
fn modules(c: &mut Criterion) {
    let mlp = Mlp { a: nn::Linear::new(784, 256), b: nn::Linear::new(256, 10) };
    module(c, "mlp 784-256-10", &mlp, &[fx::ones([1, 784])]);
    let deep = Deep { layers: (0..88).map(|_| nn::Linear::new(256, 256)).collect() };
    module(c, "175 modules", &deep, &[fx::ones([16, 256])]);
}

#[derive(Module)]
struct Block {
    norm_1: nn::LayerNorm,
    qkv: nn::Linear,
    projection: nn::Linear,
    norm_2: nn::LayerNorm,
    up: nn::Linear,
    down: nn::Linear,
}

#[forward]
impl Block {
    /// One token after those whose keys and values are given.
    fn forward(&self, x: &Tensor, keys: &Tensor, values: &Tensor) -> Tensor {
        let heads = |t: &Tensor| t.reshape((HEADS as i64, 1, -1));
        let qkv = self.qkv.call(&self.norm_1.call(x)).chunk(3, -1);
        let keys = fx::cat(&[keys.clone(), heads(&qkv[1])], 1);
        let values = fx::cat(&[values.clone(), heads(&qkv[2])], 1);
        let attended = heads(&qkv[0]).scaled_dot_product_attention(&keys, &values, (), 0.0, false);
        let x = x + self.projection.call(&attended.reshape((1, -1)));
        let hidden = self.up.call(&self.norm_2.call(&x)).gelu();
        x + self.down.call(&hidden)
    }
}

#[derive(Module)]
struct Decoder {
    blocks: Vec<Block>,
    norm: nn::LayerNorm,
    head: nn::Linear,
}

#[forward]
impl Decoder {
    fn forward(&self, x: &Tensor, keys: &Tensor, values: &Tensor) -> Tensor {
        let mut x = x.clone();
        for (layer, block) in self.blocks.iter().enumerate() {
            x = block.call(&x, &keys.select(0, layer as i64), &values.select(0, layer as i64));
        }
        self.head.call(&self.norm.call(&x))
    }
}

const HEADS: usize = 12;

/// A step of a decoder of the size of GPT-2, after 64 tokens.
fn decoder(c: &mut Criterion) {
    const WIDTH: usize = 768;
    let block = |_| Block {
        norm_1: nn::LayerNorm::new(WIDTH),
        qkv: nn::Linear::new(WIDTH, 3 * WIDTH),
        projection: nn::Linear::new(WIDTH, WIDTH),
        norm_2: nn::LayerNorm::new(WIDTH),
        up: nn::Linear::new(WIDTH, 4 * WIDTH),
        down: nn::Linear::new(4 * WIDTH, WIDTH),
    };
    let norm = nn::LayerNorm::new(WIDTH);
    let model = Decoder { blocks: (0..12).map(block).collect(), norm, head: nn::Linear::new(WIDTH, 50257) };
    let cache = fx::ones([12, HEADS as i64, 64, (WIDTH / HEADS) as i64]);
    module(c, "step of GPT-2", &model, &[fx::ones([1, WIDTH as i64]), cache.clone(), cache]);
}

fn module<M: Forward + 'static>(c: &mut Criterion, name: &str, model: &M, args: &[Tensor]) {
    let mut group = c.benchmark_group(name);
    let names = ["x", "keys", "values"];
    let traced = names.iter().zip(args).fold(fx::trace(model), |t, (n, x)| t.input(n, x.ty().unwrap()));
    let program = traced.build().unwrap().into_program(Engine::Fused).unwrap();
    let (follow, pure) = (fx::compile(model), fx::compile(model).verify(0));
    (0..3).for_each(|_| _ = (follow.call(args).unwrap(), pure.call(args).unwrap(), program.call(args)));
    group.bench_function("program", |b| b.iter(|| program.call(black_box(args)).unwrap()));
    group.bench_function("pure", |b| b.iter(|| pure.call(black_box(args)).unwrap()));
    group.bench_function("follow", |b| b.iter(|| follow.call(black_box(args)).unwrap()));
    group.finish();
}

/// A first call beside tracing and compiling for known types.
fn first_calls(c: &mut Criterion) {
    let mut group = c.benchmark_group("first call of 1000 operations");
    group.sample_size(10);
    let x = Tensor::new([1.0f32, 2.0, 3.0, 4.0]);
    let args = std::slice::from_ref(&x);
    group.bench_function("trace and compile", |b| {
        b.iter(|| {
            let gm = fx::trace(chain).input("x", "f32[4]").build().unwrap();
            gm.into_program(Engine::Fused).unwrap().call(args).unwrap()
        });
    });
    group.bench_function("fx::compile", |b| b.iter(|| fx::compile(chain).call(args).unwrap()));
    group.bench_function("fx::compile, pure", |b| b.iter(|| fx::compile(chain).pure().call(args).unwrap()));
    group.finish();
}

/// Two threads that call one function at once, each the whole number of times.
fn threads(c: &mut Criterion) {
    const CALLS: usize = 1000;
    let mut group = c.benchmark_group("1000 calls on each thread");
    let x = fx::ones([8]);
    let args = std::slice::from_ref(&x);
    let straight = |x: &Tensor| (x * 2.0 + 1.0).relu();
    let (follow, pure) = (fx::compile(straight), fx::compile(straight).verify(0));
    (0..3).for_each(|_| _ = (follow.call(args).unwrap(), pure.call(args).unwrap()));
    let many = |f: &(dyn Fn() + Sync), threads: usize| {
        std::thread::scope(|scope| {
            (0..threads).for_each(|_| _ = scope.spawn(|| (0..CALLS).for_each(|_| f())));
        });
    };
    for n in [1, 2] {
        group.bench_function(BenchmarkId::new("pure", n), |b| {
            b.iter(|| many(&|| _ = pure.call(black_box(args)).unwrap(), n));
        });
        group.bench_function(BenchmarkId::new("follow", n), |b| {
            b.iter(|| many(&|| _ = follow.call(black_box(args)).unwrap(), n));
        });
    }
    group.finish();
}

/// The executor of a graph of unknown types, which finds a static or a dynamic plan, beside the plan alone.
fn executors(c: &mut Criterion) {
    let mut group = c.benchmark_group("executor");
    let gm = fx::symbolic_trace(|x: &Tensor, y: &Tensor, z: &Tensor| (x * y + z).relu()).unwrap();
    let args: Vec<Tensor> = (0..3).map(|i| fx::full([8], i).to(fx::DType::F32)).collect();
    let types: Vec<_> = args.iter().map(|arg| arg.ty().unwrap().into()).collect();
    let program = gm.specialize(&types).unwrap().into_program(Engine::Fused).unwrap();
    let plans = |sizes: &[i64]| {
        let executor = fx::Executor::new(gm.clone());
        for n in sizes {
            let args: Vec<Tensor> = (0..3).map(|_| fx::ones([*n])).collect();
            executor.call(&args).unwrap();
        }
        executor
    };
    let (first, dynamic) = (plans(&[8]), plans(&[6, 7, 8]));
    group.bench_function("program", |b| b.iter(|| program.call(black_box(&args)).unwrap()));
    group.bench_function("static", |b| b.iter(|| first.call(black_box(&args)).unwrap()));
    group.bench_function("dynamic", |b| b.iter(|| dynamic.call(black_box(&args)).unwrap()));
    group.finish();
}

/// A loop on a tensor whose rounds are in the graph, or on the virtual machine; and a graph of 1,000 operations.
fn scripts(c: &mut Criterion) {
    #[fx::script]
    fn settle(x: &Tensor) -> Tensor {
        let mut x = x.clone();
        while x.abs().max().gt(1.0) {
            x = x * 0.5;
        }
        x + 1.0
    }
    let text =
        "def settle(x):\n    while bool(x.abs().max() > 1.0):\n        x = x * 0.5\n    return x + 1.0\n";
    let mut group = c.benchmark_group("loop of 20 rounds, one program");
    let x = fx::full([64], 1 << 20).to(fx::DType::F32);
    let args = std::slice::from_ref(&x);
    let program =
        fx::trace(settle).input("x", "f32[n]").build().unwrap().into_program(Engine::Fused).unwrap();
    let mut machine = fx::script(text).unwrap();
    group.bench_function("graph on Fused", |b| b.iter(|| program.call(black_box(args)).unwrap()));
    group.bench_function("virtual machine", |b| {
        b.iter(|| machine.call("settle", (black_box(&x).clone(),)).unwrap());
    });
    group.finish();

    let mut group = c.benchmark_group("graph of 1000 operations");
    let x = Tensor::new([1.0f32, 2.0, 3.0, 4.0]);
    let args = std::slice::from_ref(&x);
    let gm = fx::trace(chain).input("x", "f32[4]").build().unwrap();
    let eager = gm.compile(Engine::Eager).unwrap();
    let program = gm.into_program(Engine::Fused).unwrap();
    group.bench_function("call on Fused", |b| b.iter(|| program.call(black_box(args)).unwrap()));
    group.bench_function("call on Eager", |b| b.iter(|| eager.call(black_box(args)).unwrap()));
    group.sample_size(10).bench_function("jit_trace with its checks", |b| {
        b.iter(|| fx::jit_trace(chain, (black_box(&x).clone(),)).unwrap());
    });
    group.finish();
}

criterion_group!(
    benches,
    scripts,
    executors,
    operations,
    calls,
    branches,
    modules,
    decoder,
    first_calls,
    threads
);
criterion_main!(benches);
