//! Models without a finding: every kind would be a false alarm.

use std::collections::BTreeMap;

use fx::rng::{Generator, with_generator};
use fx::trace::Traceable;

use super::*;

fn random(shape: &[usize]) -> Tensor {
    let mut data = vec![0f32; shape.iter().product()];
    Generator::seeded(11).fill_normal_f32(&mut data);
    Tensor::from_vec(data, shape)
}

fn indices(n: i64, shape: &[usize]) -> Tensor {
    let numel = shape.iter().product::<usize>() as i64;
    Tensor::from_vec((0..numel).map(|i| (i * 7 + 3) % n).collect::<Vec<i64>>(), shape)
}

/// Asserts that a trace finds nothing at all, not even a note.
#[track_caller]
fn clean<T: Traceable<M>, M>(name: &str, function: T, examples: impl Tree) {
    let traced = with_generator(&Generator::seeded(3), || JitTrace::new(function, examples).inspect());
    let traced = traced.unwrap_or_else(|error| panic!("{name}: {error}"));
    assert!(traced.report.diagnostics.is_empty(), "{name}\n{}", traced.report);
    let differs = |check: &&Check| matches!(check.outcome, Outcome::Differs | Outcome::GraphRefuses(_));
    assert!(traced.report.checks.iter().find(differs).is_none(), "{name}\n{}", traced.report);
}

#[derive(Module)]
struct Mlp {
    first: nn::Linear,
    second: nn::Linear,
}

#[forward]
impl Mlp {
    fn forward(&self, x: &Tensor) -> Tensor {
        self.second.call(&self.first.call(x).relu())
    }
}

#[derive(Module)]
struct Cnn {
    conv: nn::Conv2d,
    norm: nn::BatchNorm2d,
    pool: nn::MaxPool2d,
    head: nn::Linear,
}

#[forward]
impl Cnn {
    fn forward(&self, x: &Tensor) -> Tensor {
        let x = self.pool.call(&self.norm.call(&self.conv.call(x)).relu());
        self.head.call(&x.mean([2, 3], false))
    }
}

#[derive(Module)]
struct Residual {
    conv: nn::Conv2d,
    norm: nn::GroupNorm,
}

#[forward]
impl Residual {
    fn forward(&self, x: &Tensor) -> Tensor {
        (self.norm.call(&self.conv.call(x)) + x).relu()
    }
}

#[derive(Module)]
struct Block {
    norm: nn::LayerNorm,
    attention: nn::MultiheadAttention,
    first: nn::Linear,
    second: nn::Linear,
}

#[forward]
impl Block {
    fn forward(&self, x: &Tensor) -> Tensor {
        let h = self.norm.call(x);
        let x = x + self.attention.call(&h, &h, &h, None);
        &x + self.second.call(&self.first.call(&x).gelu())
    }
}

#[derive(Module)]
struct Classifier {
    embedding: nn::Embedding,
    head: nn::Linear,
}

#[forward]
impl Classifier {
    fn forward(&self, ids: &Tensor) -> Tensor {
        self.head.call(&self.embedding.call(ids).mean(1, false)).softmax(-1)
    }
}

#[test]
fn modules_have_no_findings() {
    clean("mlp", &Mlp { first: nn::Linear::new(3, 8), second: nn::Linear::new(8, 2) }, (matrix(),));
    let cnn = Cnn {
        conv: nn::Conv2d::new(3, 4, 3),
        norm: nn::BatchNorm2d::new(4),
        pool: nn::MaxPool2d::new(2),
        head: nn::Linear::new(4, 2),
    };
    clean("cnn", &cnn, (random(&[2, 3, 8, 8]),));
    let residual = Residual { conv: nn::Conv2d::new(4, 4, 3).padding(1), norm: nn::GroupNorm::new(2, 4) };
    clean("residual", &residual, (random(&[2, 4, 6, 6]),));
    let block = Block {
        norm: nn::LayerNorm::new(8),
        attention: nn::MultiheadAttention::new(8, 2),
        first: nn::Linear::new(8, 16),
        second: nn::Linear::new(16, 8),
    };
    clean("transformer block", &block, (random(&[2, 5, 8]),));
    let classifier = Classifier { embedding: nn::Embedding::new(20, 6), head: nn::Linear::new(6, 3) };
    clean("classifier", &classifier, (indices(20, &[2, 5]),));
    clean("linear", &nn::Linear::new(3, 2), (matrix(),));
}

#[test]
fn recurrent_layers_have_no_findings() {
    let cell = nn::LSTMCell::new(3, 2);
    clean("lstm cell", |x: &Tensor| cell.forward(x, None), (matrix(),));
    let lstm = nn::LSTM::new(3, 2);
    clean("lstm", |x: &Tensor| lstm.forward(x, None), (random(&[5, 2, 3]),));
    let cell = nn::GRUCell::new(3, 2);
    clean("gru cell", |x: &Tensor, h: &Tensor| cell.forward(x, Some(h)), (matrix(), random(&[4, 2])));
}

#[test]
fn functions_have_no_findings() {
    clean("softmax", |x: &Tensor| x.softmax(-1), (matrix(),));
    clean("batch of one", |x: &Tensor| x.softmax(-1), (random(&[1, 3]),));
    clean("normalise", |x: &Tensor| (x - x.mean(-1, true)) / (x.var(-1, 1, true) + 1e-5).sqrt(), (matrix(),));
    clean("flatten", |x: &Tensor| x.reshape((x.dim(0), -1)), (random(&[2, 3, 4]),));
    clean("concatenate", |x: &Tensor, y: &Tensor| fx::cat([x, y], 0), (matrix(), random(&[2, 3])));
    clean(
        "attention",
        |q: &Tensor, k: &Tensor, v: &Tensor| {
            let scores = q.matmul(k.transpose(-2, -1)) / 2.0;
            scores.softmax(-1).matmul(v)
        },
        (random(&[2, 5, 4]), random(&[2, 6, 4]), random(&[2, 6, 3])),
    );
    clean("choice", |x: &Tensor| fx::where_(x.gt(0.0), x * 2.0, x.abs()), (matrix(),));
    clean("top", |x: &Tensor| x.topk(2, -1, true, true), (matrix(),));
    clean("gather", |x: &Tensor, i: &Tensor| x.gather(1, i), (matrix(), indices(3, &[4, 2])));
    clean("cumulative", |x: &Tensor| x.cumsum(0) / x.dim(0), (matrix(),));
    clean("product", |x: &Tensor, y: &Tensor| fx::einsum("bi,bj->bij", [x, y]), (matrix(), random(&[4, 2])));
    clean("window", |x: &Tensor| x.narrow(0, 1, x.dim(0) - 1) - x.narrow(0, 0, x.dim(0) - 1), (matrix(),));
    let linear = nn::Linear::new(4, 6);
    let gated = |x: &Tensor| {
        let halves = linear.forward(x).chunk(2, -1);
        &halves[0] * halves[1].sigmoid()
    };
    clean("gated", gated, (random(&[3, 4]),));
    clean("drawn", |x: &Tensor| x + x.rand_like() * 0.1, (matrix(),));
    clean(
        "branch",
        |x: &Tensor| fx::cond(x.sum((), false).gt(0.0), |x: Tensor| x.relu(), |x: Tensor| x.abs(), x.clone()),
        (matrix(),),
    );
    clean(
        "loop",
        |x: &Tensor| fx::while_loop(|x: &Tensor| x.abs().max().gt(1.0), |x: Tensor| x * 0.5, x.clone()),
        (matrix(),),
    );
    let map: BTreeMap<String, Tensor> = [("a".to_owned(), matrix()), ("b".to_owned(), vector())].into();
    clean("map", |m: BTreeMap<String, Tensor>| &m["a"] * &m["b"], (map,));
    clean("list", |xs: Vec<Tensor>| fx::stack(&xs, 0).sum(0, false), (vec![matrix(), random(&[4, 3])],));
    let fixed = [1.0f32, 2.0, 3.0];
    clean("small constant", |x: &Tensor| x * Tensor::new(fixed), (matrix(),));
}
