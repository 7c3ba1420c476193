//! What rewriting costs: rules over large graphs, large patterns, and each pass as the graph doubles.
//!
//! `cargo bench --bench rewrite`; throughput is in nodes.
#![allow(missing_docs)]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use fx::prelude::*;
use fx::rewrite::{Rule, Rules};
use fx::{Arg, Attribute, DType, Graph, GraphModule, Scalar, TensorType, nn, pass};

/// A program of `n` nodes with types, in which every eighth node can be simplified or is computed twice.
fn program(n: usize) -> GraphModule {
    let body = move |x: &Tensor| {
        let mut y = x.clone();
        for i in 0..n / 8 {
            let a = &y * (i as f64 + 0.5);
            let b = a.relu();
            let c = -(-&b);
            let d = (&b + 1.5) + (&b + 1.5);
            y = c + d;
        }
        y
    };
    fx::trace(body).input("x", "f32[n, 8]").without_sources().build().unwrap()
}

/// A network of about `n` nodes: blocks of a normalised linear map, every second with a weight to compute
/// from others, and every fourth a call of a module before it.
fn network(n: usize) -> GraphModule {
    let mut gm = GraphModule::new("Network", Graph::new("main"));
    let tensor =
        |shape: &[usize]| Tensor::from(fx::Array::full(DType::F32, shape, Scalar::Float(0.5)).unwrap());
    let registry = fx::registry();
    let op = |name: &str| registry.get(name).unwrap();
    let mut x = gm.graph_mut().placeholder("x").unwrap();
    let ty: TensorType = "f32[n, 8]".parse().unwrap();
    gm.graph_mut().meta_mut(x).unwrap().ty = Some(Arc::new(ty.into()));
    for i in 0..n / 16 {
        if i % 4 == 3 {
            let path = format!("fc{i}");
            gm.add_submodule(&path, nn::Linear::new(8, 8)).unwrap();
            x = gm.graph_mut().call_module(&path, [Arg::Leaf(x)]).unwrap();
        }
        let mut read = |name: &str, shape: &[usize]| {
            let path = format!("blocks.{i}.{name}");
            let value = match name {
                "mean" | "var" => Attribute::Buffer(Buffer::new(tensor(shape))),
                _ => Attribute::Parameter(Parameter::new(tensor(shape))),
            };
            gm.set_attribute(&path, value).unwrap();
            Arg::Leaf(gm.graph_mut().get_attr(&path).unwrap())
        };
        let [w, bias] = [read("w", &[8, 8]), read("bias", &[8])];
        let norm = [read("mean", &[8]), read("var", &[8]), read("weight", &[8]), read("shift", &[8])];
        let graph = gm.graph_mut();
        let mut call = |name: &str, args: Vec<Arg>| Arg::Leaf(graph.call_function(op(name), args).unwrap());
        let w = if i % 2 == 0 { call("mul", vec![w, Arg::Float(2.0)]) } else { w };
        let y = call("linear", vec![Arg::Leaf(x), w, bias]);
        let y = call("batch_norm", [vec![y], norm.to_vec()].concat());
        let y = call("relu", vec![y]);
        let y = call("dropout", vec![y, Arg::Float(0.5), Arg::Bool(false)]);
        let y = call("add", vec![y, Arg::Leaf(x)]);
        x = *y.leaf().unwrap();
    }
    gm.graph_mut().set_output(Arg::Leaf(x)).unwrap();
    gm.propagate_types(&[Arg::Leaf(fx::Type::Any)]).unwrap();
    gm
}

/// A hundred rules of which two match in [`program`].
fn rules() -> Rules {
    let built_in = fx::rules::all().map(|rule| rule.rule().unwrap());
    let more = (0..30).map(|i| {
        let factor = f64::from(i) + 0.25;
        let pattern = move |x: &Tensor, y: &Tensor| (x * factor).relu() - y;
        Rule::new(&format!("rule_{i}"), pattern, |x: &Tensor, y: &Tensor| x + y).unwrap()
    });
    Rules::new(built_in.chain(more))
}

fn matching(c: &mut Criterion) {
    let mut group = c.benchmark_group("rules");
    group.sample_size(10).measurement_time(Duration::from_secs(3));
    let rules = rules();
    assert!(rules.iter().len() >= 100);
    for n in [25_000, 50_000, 100_000] {
        let gm = program(n);
        group.throughput(Throughput::Elements(n as u64));
        group.bench_function(BenchmarkId::new("100 rules to a fixed point", n), |b| {
            b.iter_batched(
                || gm.clone(),
                |mut gm| rules.run(&mut gm).unwrap().applied(),
                BatchSize::PerIteration,
            )
        });
    }
    let chain = |n: usize| move |x: &Tensor| (0..n / 2).fold(x.clone(), |y, _| (-y) * 2.0);
    let long = Rule::new("long", chain(10_000), |x: &Tensor| x.clone()).unwrap();
    let gm = fx::trace(chain(100_000)).without_sources().build().unwrap();
    group.throughput(Throughput::Elements(100_000));
    group.bench_function("a pattern of 10000 nodes, ten times", |b| {
        b.iter_batched(
            || gm.clone(),
            |mut gm| assert_eq!(fx::rewrite::replace(&mut gm, &long).unwrap().len(), 10),
            BatchSize::PerIteration,
        )
    });
    group.finish();
}

fn passes(c: &mut Criterion) {
    each_pass(c, "passes", program);
}

fn passes_of_network(c: &mut Criterion) {
    each_pass(c, "passes of a network", network);
}

/// Every pass alone, without checks, each a line for 50,000 and for 100,000 nodes.
fn each_pass(c: &mut Criterion, name: &str, program: fn(usize) -> GraphModule) {
    let mut group = c.benchmark_group(name);
    group.sample_size(10).measurement_time(Duration::from_secs(1)).warm_up_time(Duration::from_millis(200));
    for n in [50_000, 100_000] {
        let gm = program(n);
        group.throughput(Throughput::Elements(n as u64));
        for pass in pass::all() {
            let text = if pass.name == "outline" { "outline(module=Block)" } else { pass.name };
            let alone = fx::Passes::parse(text, &pass::all()).unwrap().unchecked();
            group.bench_function(BenchmarkId::new(pass.name, n), |b| {
                b.iter_batched(
                    || gm.clone(),
                    |mut gm| black_box(alone.run(&mut gm).unwrap()),
                    BatchSize::PerIteration,
                )
            });
        }
    }
    group.finish();
}

/// Splitting and its analyses, as the graph doubles.
fn splitting(c: &mut Criterion) {
    use fx::analysis::{Costs, Dominators, Flow, Liveness, Sizes};
    use fx::splitting::pipeline::{Balance, Pipeline};
    use fx::splitting::{PartSize, partition, split_by_size};

    let mut group = c.benchmark_group("splitting");
    group.sample_size(10).measurement_time(Duration::from_secs(1)).warm_up_time(Duration::from_millis(200));
    let taken = partition::names(["mul", "add", "relu"]);
    for n in [50_000, 100_000] {
        let gm = program(n);
        group.throughput(Throughput::Elements(n as u64));
        group.bench_function(BenchmarkId::new("dominators and liveness", n), |b| {
            b.iter(|| {
                let flow = Flow::new(gm.graph());
                (Dominators::new(&flow), Dominators::post(&flow), Liveness::new(gm.graph()))
            })
        });
        group.bench_function(BenchmarkId::new("costs", n), |b| {
            b.iter(|| Costs::new(&gm, &Sizes::new()).unwrap())
        });
        let partitioner = partition::Partitioner::default();
        group.bench_function(BenchmarkId::new("propose partitions", n), |b| {
            b.iter(|| partitioner.propose(&gm, &taken))
        });
        group.bench_function(BenchmarkId::new("fuse partitions", n), |b| {
            let proposal = partitioner.propose(&gm, &taken);
            b.iter(|| partitioner.fuse(&gm, &proposal).unwrap())
        });
        group.bench_function(BenchmarkId::new("parts of 100 nodes", n), |b| {
            b.iter(|| split_by_size(&gm, PartSize::Nodes(100)).unwrap())
        });
        group.bench_function(BenchmarkId::new("eight stages", n), |b| {
            b.iter(|| Pipeline::new(8).balance(Balance::Nodes).cut(&gm).unwrap())
        });
    }
    group.finish();
}

criterion_group!(benches, matching, passes, passes_of_network, splitting);
criterion_main!(benches);
