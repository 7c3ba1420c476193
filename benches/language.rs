//! What the language costs: a trace, work on large graphs, and the interpreter's overhead a node.
//!
//! `cargo bench --bench language`; throughput is in nodes.
#![allow(missing_docs)]

use std::hint::black_box;
use std::time::Duration;

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use fx::nn::{AdaptiveAvgPool2d, BatchNorm2d, Conv2d, Linear, MaxPool2d, ReLU};
use fx::prelude::*;
use fx::{Arg, Graph, GraphModule};

/// A network like ResNet-50, all of leaf modules and residual sums; its channels are few, since only tracing
/// is timed.
#[derive(Module)]
struct ResNet {
    conv1: Conv2d,
    bn1: BatchNorm2d,
    relu: ReLU,
    maxpool: MaxPool2d,
    layers: Vec<Vec<Bottleneck>>,
    avgpool: AdaptiveAvgPool2d,
    fc: Linear,
}

impl ResNet {
    fn new() -> Self {
        let mut inputs = 8;
        let mut stage = |(stage, &blocks): (usize, &usize)| {
            let width = 2 << stage;
            let mut block = |i| {
                let stride = if i == 0 && stage > 0 { 2 } else { 1 };
                let block = Bottleneck::new(inputs, width, stride);
                inputs = 4 * width;
                block
            };
            (0..blocks).map(&mut block).collect()
        };
        let layers: Vec<Vec<Bottleneck>> = [3, 4, 6, 3].iter().enumerate().map(&mut stage).collect();
        ResNet {
            conv1: Conv2d::new(3, 8, 7).stride(2).padding(3).bias(false),
            bn1: BatchNorm2d::new(8),
            relu: ReLU,
            maxpool: MaxPool2d::new(3).stride(2).padding(1),
            layers,
            avgpool: AdaptiveAvgPool2d::new(1),
            fc: Linear::new(inputs, 10),
        }
    }
}

#[fx::forward]
impl ResNet {
    fn forward(&self, image: &Tensor) -> Tensor {
        let mut x = self.maxpool.call(&self.relu.call(&self.bn1.call(&self.conv1.call(image))));
        for block in self.layers.iter().flatten() {
            x = block.call(&x);
        }
        self.fc.call(&self.avgpool.call(&x).flatten(1, -1))
    }
}

/// Three convolutions beside the residual.
#[derive(Module)]
struct Bottleneck {
    conv1: Conv2d,
    bn1: BatchNorm2d,
    conv2: Conv2d,
    bn2: BatchNorm2d,
    conv3: Conv2d,
    bn3: BatchNorm2d,
    relu: ReLU,
    downsample: Option<Downsample>,
}

impl Bottleneck {
    fn new(inputs: usize, width: usize, stride: usize) -> Self {
        let outputs = 4 * width;
        Bottleneck {
            conv1: Conv2d::new(inputs, width, 1).bias(false),
            bn1: BatchNorm2d::new(width),
            conv2: Conv2d::new(width, width, 3).stride(stride).padding(1).bias(false),
            bn2: BatchNorm2d::new(width),
            conv3: Conv2d::new(width, outputs, 1).bias(false),
            bn3: BatchNorm2d::new(outputs),
            relu: ReLU,
            downsample: (inputs != outputs || stride > 1).then(|| Downsample {
                conv: Conv2d::new(inputs, outputs, 1).stride(stride).bias(false),
                bn: BatchNorm2d::new(outputs),
            }),
        }
    }
}

#[fx::forward]
impl Bottleneck {
    fn forward(&self, x: &Tensor) -> Tensor {
        let y = self.relu.call(&self.bn1.call(&self.conv1.call(x)));
        let y = self.relu.call(&self.bn2.call(&self.conv2.call(&y)));
        let y = self.bn3.call(&self.conv3.call(&y));
        let residual = match &self.downsample {
            Some(downsample) => downsample.call(x),
            None => x.clone(),
        };
        self.relu.call(&(y + residual))
    }
}

/// The residual in the shape of the result.
#[derive(Module)]
struct Downsample {
    conv: Conv2d,
    bn: BatchNorm2d,
}

#[fx::forward]
impl Downsample {
    fn forward(&self, x: &Tensor) -> Tensor {
        self.bn.call(&self.conv.call(x))
    }
}

/// Applies `n` operations in a chain, in turn a negation and a sum.
fn chain(x: &Tensor, n: usize) -> Tensor {
    let mut y = x.clone();
    for i in 0..n {
        y = if i % 2 == 0 { -&y } else { &y + x };
    }
    y
}

fn trace(c: &mut Criterion) {
    let mut group = c.benchmark_group("trace");
    let model = ResNet::new();
    let spec = "f32[batch, 3, 64, 64]";
    let nodes = fx::symbolic_trace(&model).unwrap().graph().len();
    fx::trace(&model).input("image", spec).build().unwrap();
    group.throughput(Throughput::Elements(nodes as u64));
    group.bench_function(format!("resnet of {nodes} nodes"), |b| {
        b.iter(|| fx::symbolic_trace(black_box(&model)).unwrap());
    });
    group.bench_function(format!("resnet of {nodes} nodes, with spec"), |b| {
        b.iter(|| fx::trace(black_box(&model)).input("image", spec).build().unwrap());
    });

    group.throughput(Throughput::Elements(10_000));
    let closure = |x: &Tensor| chain(x, 10_000);
    group.bench_function("10000 pointwise operations", |b| b.iter(|| fx::symbolic_trace(closure).unwrap()));
    group.bench_function("10000 pointwise operations, with spec", |b| {
        b.iter(|| fx::trace(closure).input("x", "f32[n, 64]").build().unwrap());
    });
    group.finish();
}

/// Builds a graph of about `n` nodes: a chain of `neg` and `add`, or, if `dead`, a result that uses none of it.
fn build(n: usize, dead: bool) -> Graph {
    let registry = fx::registry();
    let (neg, add) = (registry.find("neg").unwrap(), registry.find("add").unwrap());
    let mut graph = Graph::new("main");
    let x = graph.placeholder("x").unwrap();
    let mut last = x;
    for i in 0..n {
        last = match i % 2 {
            0 => graph.call_function(neg, [Arg::Leaf(last)]),
            _ => graph.call_function(add, [Arg::Leaf(last), Arg::Leaf(x)]),
        }
        .unwrap();
    }
    graph.set_output(Arg::Leaf(if dead { x } else { last })).unwrap();
    graph
}

fn graph(c: &mut Criterion) {
    let registry = fx::registry();
    let mut group = c.benchmark_group("graph");
    for n in [50_000, 100_000] {
        let graph = build(n, false);
        let dead = build(n, true);
        let text = graph.to_text();
        assert!(graph.lint().is_empty());
        group.throughput(Throughput::Elements(n as u64));
        group.bench_function(BenchmarkId::new("build", n), |b| b.iter(|| build(n, false)));
        group.bench_function(BenchmarkId::new("lint", n), |b| b.iter(|| black_box(&graph).lint()));
        group.bench_function(BenchmarkId::new("print", n), |b| b.iter(|| black_box(&graph).to_text()));
        group.bench_function(BenchmarkId::new("parse", n), |b| {
            b.iter(|| Graph::parse(black_box(&text), &registry).unwrap());
        });
        group.bench_function(BenchmarkId::new("clone", n), |b| b.iter(|| black_box(&graph).clone()));
        group.bench_function(BenchmarkId::new("remove dead code", n), |b| {
            let remove = |mut graph: Graph| {
                assert_eq!(graph.eliminate_dead_code(|_| true), n);
                graph
            };
            b.iter_batched(|| dead.clone(), remove, BatchSize::PerIteration);
        });
    }
    group.finish();
}

/// The difference between the two is the interpreter's overhead.
fn interpreter(c: &mut Criterion) {
    const NODES: usize = 1000;
    let mut group = c.benchmark_group("interpreter");
    group.throughput(Throughput::Elements(NODES as u64));
    let x = Tensor::new([1f32, -2.0, 3.0, -4.0]);
    let gm: GraphModule = fx::symbolic_trace(|x: &Tensor| chain(x, NODES)).unwrap();
    assert!(gm.call(std::slice::from_ref(&x)).unwrap().bits_eq(&chain(&x, NODES)));
    group.bench_function("1000 operations, eager", |b| b.iter(|| chain(black_box(&x), NODES)));
    group.bench_function("1000 operations, by graph", |b| {
        b.iter(|| gm.call(std::slice::from_ref(black_box(&x))).unwrap());
    });
    group.finish();
}

criterion_group! {
    name = language;
    config = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2));
    targets = trace, graph, interpreter
}
criterion_main!(language);
