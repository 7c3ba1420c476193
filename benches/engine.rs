//! What the engines take for single kernels and small networks: eager, fused, and native where there is a
//! Rust compiler; and what the first sizes of a program take, new ones, and those that it knows.
//!
//! `cargo bench --bench engine -- FILTER`. Throughput is in bytes that must be moved where memory is the
//! limit, and in floating-point operations ("elements") where arithmetic is. `RAYON_NUM_THREADS` sets the
//! number of threads; the programs are those of the peer benchmarks ([BENCH_PEERS.md](../BENCH_PEERS.md))
//! that need no file, and some convolutions.
#![allow(missing_docs)]

use std::time::Duration;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use fx::prelude::*;
use fx::{Attribute, Engine, GraphModule, Value};

/// A name, the least work of a call, and the program.
type Case = (&'static str, Throughput, &'static str);

const CASES: &[Case] = &[
    (
        "pointwise",
        Throughput::Bytes(3 * 4_000_000),
        "graph main(%x: f32[1000000], %z: f32[1000000]) {
            %t = add(%x, %z)
            %s = sigmoid(%t)
            %u = mul(%t, %s)
            %v = tanh(%u)
            %w = mul(%v, %x)
            %y = add(%w, %z)
            return %y
        }",
    ),
    (
        "bias, gelu and residual",
        Throughput::Bytes(3 * 4 * 512 * 3072),
        "graph main(%x: f32[512, 3072], %z: f32[512, 3072]) {
            %bias: f32[3072] = self.bias
            %t = add(%x, %bias)
            %u = gelu(%t)
            %y = add(%u, %z)
            return %y
        }",
    ),
    (
        "softmax of rows",
        Throughput::Bytes(2 * 4 * 512 * 1024),
        "graph main(%x: f32[512, 1024]) {
            %y = softmax(%x, -1)
            return %y
        }",
    ),
    (
        "layer_norm",
        Throughput::Bytes(2 * 4 * 512 * 768),
        "graph main(%x: f32[512, 768]) {
            %w: f32[768] = self.w
            %b: f32[768] = self.b
            %y = layer_norm(%x, [768], %w, %b)
            return %y
        }",
    ),
    (
        "sum of columns",
        Throughput::Bytes(4 * 4096 * 1024),
        "graph main(%x: f32[4096, 1024]) {
            %y = sum(%x, [0])
            return %y
        }",
    ),
    (
        "sum of rows",
        Throughput::Bytes(4 * 4096 * 1024),
        "graph main(%x: f32[4096, 1024]) {
            %y = sum(%x, [1])
            return %y
        }",
    ),
    (
        "sum, greatest and least of rows",
        Throughput::Bytes(4 * 4096 * 1024),
        "graph main(%x: f32[4096, 1024]) {
            %a = sum(%x, -1)
            %b = amax(%x, -1)
            %c = amin(%x, -1)
            return (%a, %b, %c)
        }",
    ),
    (
        "four towers",
        Throughput::Elements(2 * 12 * 32 * 128 * 128),
        "graph main(%x: f32[32, 128]) {
            %wa0: f32[128, 128] = self.wa0
            %pa0 = linear(%x, %wa0)
            %qa0 = relu(%pa0)
            %wa1: f32[128, 128] = self.wa1
            %pa1 = linear(%qa0, %wa1)
            %qa1 = relu(%pa1)
            %wa2: f32[128, 128] = self.wa2
            %pa2 = linear(%qa1, %wa2)
            %qa2 = relu(%pa2)
            %wb0: f32[128, 128] = self.wb0
            %pb0 = linear(%x, %wb0)
            %qb0 = relu(%pb0)
            %wb1: f32[128, 128] = self.wb1
            %pb1 = linear(%qb0, %wb1)
            %qb1 = relu(%pb1)
            %wb2: f32[128, 128] = self.wb2
            %pb2 = linear(%qb1, %wb2)
            %qb2 = relu(%pb2)
            %wc0: f32[128, 128] = self.wc0
            %pc0 = linear(%x, %wc0)
            %qc0 = relu(%pc0)
            %wc1: f32[128, 128] = self.wc1
            %pc1 = linear(%qc0, %wc1)
            %qc1 = relu(%pc1)
            %wc2: f32[128, 128] = self.wc2
            %pc2 = linear(%qc1, %wc2)
            %qc2 = relu(%pc2)
            %wd0: f32[128, 128] = self.wd0
            %pd0 = linear(%x, %wd0)
            %qd0 = relu(%pd0)
            %wd1: f32[128, 128] = self.wd1
            %pd1 = linear(%qd0, %wd1)
            %qd1 = relu(%pd1)
            %wd2: f32[128, 128] = self.wd2
            %pd2 = linear(%qd1, %wd2)
            %qd2 = relu(%pd2)
            return (%qa2, %qb2, %qc2, %qd2)
        }",
    ),
    (
        "product by a vector",
        Throughput::Bytes(4 * 4096 * 4096),
        "graph main(%x: f32[1, 4096]) {
            %w: f32[4096, 4096] = self.w
            %y = linear(%x, %w)
            return %y
        }",
    ),
    (
        "product and gelu",
        Throughput::Elements(2 * 128 * 384 * 1536),
        "graph main(%x: f32[128, 384]) {
            %w: f32[1536, 384] = self.w
            %b: f32[1536] = self.b
            %t = linear(%x, %w, %b)
            %y = gelu(%t)
            return %y
        }",
    ),
    (
        "product",
        Throughput::Elements(2 * 1024 * 1024 * 1024),
        "graph main(%x: f32[1024, 1024]) {
            %w: f32[1024, 1024] = self.w
            %y = matmul(%x, %w)
            return %y
        }",
    ),
    (
        "convolution 3x3",
        Throughput::Elements(2 * 9 * 64 * 64 * 56 * 56),
        "graph main(%x: f32[1, 64, 56, 56]) {
            %w: f32[64, 64, 3, 3] = self.w
            %b: f32[64] = self.b
            %t = conv2d(%x, %w, %b, padding=1)
            %y = relu(%t)
            return %y
        }",
    ),
    (
        "convolution 3x3, stride 2",
        Throughput::Elements(2 * 9 * 64 * 128 * 28 * 28),
        "graph main(%x: f32[1, 64, 56, 56]) {
            %w: f32[128, 64, 3, 3] = self.w
            %y = conv2d(%x, %w, padding=1, stride=2)
            return %y
        }",
    ),
    (
        "convolution 1x1",
        Throughput::Elements(2 * 96 * 576 * 14 * 14),
        "graph main(%x: f32[1, 96, 14, 14]) {
            %w: f32[576, 96, 1, 1] = self.w
            %t = conv2d(%x, %w)
            %y = relu6(%t)
            return %y
        }",
    ),
    (
        "depthwise convolution",
        Throughput::Bytes(2 * 4 * 144 * 56 * 56),
        "graph main(%x: f32[1, 144, 56, 56]) {
            %w: f32[144, 1, 3, 3] = self.w
            %t = conv2d(%x, %w, padding=1, groups=144)
            %y = relu6(%t)
            return %y
        }",
    ),
    (
        "attention",
        Throughput::Elements(4 * 12 * 128 * 128 * 32),
        "graph main(%q: f32[1, 12, 128, 32], %k: f32[1, 12, 128, 32], %v: f32[1, 12, 128, 32]) {
            %y = scaled_dot_product_attention(%q, %k, %v)
            return %y
        }",
    ),
    (
        "lstm",
        Throughput::Elements(64 * 2 * 2 * 512 * 1024),
        "graph main(%x: f32[1, 64, 256], %h: f32[2, 1, 256], %c: f32[2, 1, 256]) {
            %w1: f32[1024, 256] = self.w1
            %u1: f32[1024, 256] = self.u1
            %b1: f32[1024] = self.b1
            %w2: f32[1024, 256] = self.w2
            %u2: f32[1024, 256] = self.u2
            %b2: f32[1024] = self.b2
            %y = lstm(%x, %h, %c, [%w1, %u1, %b1, %b1, %w2, %u2, %b2, %b2], num_layers=2, batch_first=true)
            %out = getitem(%y, 0)
            return %out
        }",
    ),
    (
        "tiny network",
        Throughput::Elements(2 * (16 * 32 + 32 * 16 + 16 * 4)),
        "graph main(%x: f32[1, 16]) {
            %w1: f32[32, 16] = self.w1
            %w2: f32[16, 32] = self.w2
            %w3: f32[4, 16] = self.w3
            %a = linear(%x, %w1)
            %b = relu(%a)
            %c = linear(%b, %w2)
            %d = relu(%c)
            %y = linear(%d, %w3)
            return %y
        }",
    ),
];

/// Reads a program and gives it small weights.
fn program(text: &str) -> GraphModule {
    let mut gm = GraphModule::new("main", fx::parse(text).unwrap());
    let graph = gm.graph().clone();
    for (_, node) in graph.nodes() {
        if let (Some(path), Some(ty)) = (node.target().path(), node.ty().and_then(fx::TypeTree::tensor)) {
            let shape = ty.shape.known().unwrap();
            let data = (0..shape.iter().product()).map(|i: usize| ((i * 37) % 101) as f32 * 1e-3 - 0.05);
            let weight = Tensor::from_vec(data.collect(), &shape);
            gm.set_attribute(path, Attribute::Parameter(Parameter::new(weight))).unwrap();
        }
    }
    gm
}

fn engines(c: &mut Criterion) {
    for (name, work, text) in CASES {
        let mut group = c.benchmark_group(*name);
        group.sample_size(30).warm_up_time(Duration::from_millis(300)).throughput(work.clone());
        group.measurement_time(Duration::from_secs(1));
        let gm = program(text);
        let args = fx::pass::sample_inputs(&gm, 0).unwrap();
        for engine in Engine::available() {
            let program = gm.compile(engine).unwrap();
            group.bench_function(engine.name(), |b| b.iter(|| program.call_values(&args).unwrap()));
        }
        group.finish();
    }
}

/// A network of two layers.
const MLP: &str = "graph main(%x: f32[n, 16]) {
    %w1: f32[32, 16] = self.w1
    %w2: f32[16, 32] = self.w2
    %a = linear(%x, %w1)
    %b = relu(%a)
    %y = linear(%b, %w2)
    return %y
}";

/// Writes an encoder of four layers, for sequences of any length.
fn encoder() -> String {
    let mut text = "graph main(%x0: f32[2, n, 128]) {\n".to_owned();
    for i in 0..4 {
        let head = |name: &str| {
            format!(
                "%{name}{i} = linear(%x{i}, %w{name}{i}, %b{name}{i})
                %{name}s{i} = reshape(%{name}{i}, [2, <n>, 4, 32])
                %{name}h{i} = transpose(%{name}s{i}, 1, 2)\n"
            )
        };
        for (name, shape) in [
            ("wq", "128, 128"),
            ("wk", "128, 128"),
            ("wv", "128, 128"),
            ("wo", "128, 128"),
            ("up", "512, 128"),
            ("down", "128, 512"),
            ("bq", "128"),
            ("bk", "128"),
            ("bv", "128"),
            ("bu", "512"),
            ("norm", "128"),
        ] {
            text += &format!("%{name}{i}: f32[{shape}] = self.{name}{i}\n");
        }
        text += &["q", "k", "v"].map(head).concat();
        text += &format!(
            "%a{i} = scaled_dot_product_attention(%qh{i}, %kh{i}, %vh{i})
            %at{i} = transpose(%a{i}, 1, 2)
            %ar{i} = reshape(%at{i}, [2, <n>, 128])
            %o{i} = linear(%ar{i}, %wo{i})
            %r{i} = add(%o{i}, %x{i})
            %m{i} = layer_norm(%r{i}, [128], %norm{i})
            %u{i} = linear(%m{i}, %up{i}, %bu{i})
            %g{i} = gelu(%u{i})
            %d{i} = linear(%g{i}, %down{i})
            %s{i} = add(%d{i}, %m{i})
            %x{} = layer_norm(%s{i}, [128], %norm{i})\n",
            i + 1
        );
    }
    text + "return %x4\n}"
}

/// What new sizes cost: a program's first, which it plans, others, to which it binds that plan, and sizes
/// that it finds among 64.
fn sizes(c: &mut Criterion) {
    for (name, text, shape) in [("mlp", MLP.to_owned(), [1, 0, 16]), ("encoder", encoder(), [2, 0, 128])] {
        let gm = program(&text);
        let mut group = c.benchmark_group(format!("sizes of an {name}"));
        group
            .sample_size(30)
            .warm_up_time(Duration::from_millis(300))
            .measurement_time(Duration::from_secs(1));
        let input = |n: usize| {
            let shape = shape.map(|size| if size == 0 { n } else { size });
            let shape = if shape[0] == 1 { &shape[1..] } else { &shape };
            [Value::from(&Tensor::from_vec(vec![0.5f32; shape.iter().product()], shape))]
        };
        let first = input(190);
        group.bench_function("planned", |b| {
            let new = || gm.compile(Engine::Fused).unwrap();
            let plan = |program: fx::Program| {
                program.fused().unwrap().prepare(&first).unwrap();
                program
            };
            b.iter_batched(new, plan, BatchSize::LargeInput);
        });
        for (name, n_sizes) in [("bound", 100), ("found", 64)] {
            let program = gm.compile(Engine::Fused).unwrap();
            let inputs: Vec<_> = (140..140 + n_sizes).map(input).collect();
            let mut next = inputs.iter().cycle();
            group.bench_function(name, |b| {
                b.iter(|| program.fused().unwrap().prepare(next.next().unwrap()).unwrap());
            });
        }
        group.finish();
    }
}

criterion_group!(benches, engines, sizes);
criterion_main!(benches);
