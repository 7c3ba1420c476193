//! Algorithms whose loop is in the graph: greedy decoding of a language model with its growing cache, beam search,
//! a recurrent network, Newton's method. Each is one program on every engine.

use fx::prelude::*;
use fx::trace::with_module;
use fx::{Engine, GraphModule, Value};

use crate::models::zoo;
use crate::models::zoo::glassllm::{GlassLlm, greedy};

fn on_engines(gm: &GraphModule, args: &[Value], check: impl Fn(&str, Value)) {
    check("interpreted", gm.call_values(args).unwrap());
    for engine in [Engine::Eager, Engine::Fused, Engine::Native] {
        let program = gm.compile(engine).unwrap();
        check(engine.name(), program.call_values(args).unwrap());
    }
}

/// Returns the greedy decoding of a language model as a graph, and prompts with the tokens that follow.
pub(crate) fn greedy_graph() -> (GraphModule, Vec<(Tensor, Tensor)>) {
    let open = |file: &str| fx::weights::Weights::open(zoo::data("glassllm").join(file)).unwrap();
    let model = GlassLlm::load(&open("model.safetensors")).unwrap();
    let io = open("io.safetensors");
    let gm = fx::trace(with_module(&model, |prompt: &Tensor, n: &Tensor| greedy(&model, prompt, n)))
        .input("x", "i64[length]")
        .input("y", "i64[]")
        .build()
        .unwrap();
    let set = |i: usize| {
        let tensor = |name: &str| io.require(&format!("{name}.{i}")).unwrap();
        let reference = tensor("greedy").to_vec::<i64>().unwrap();
        (tensor("prompt"), Tensor::new(reference[..20.min(reference.len())].to_vec()))
    };
    (gm, (0..2).map(set).collect())
}

#[test]
fn greedy_decoding_with_its_loop_in_the_graph() {
    let (gm, sets) = greedy_graph();
    for (i, (prompt, reference)) in sets.iter().enumerate() {
        let reference = reference.to_vec::<i64>().unwrap();
        let args = [Value::from(prompt), Value::from(&Tensor::new(reference.len() as i64))];
        on_engines(&gm, &args, |engine, written| {
            let written = Tensor::try_from(written).unwrap().to_vec::<i64>().unwrap();
            assert_eq!(written, reference, "prompt {i}, {engine}");
        });
    }
}

/// Keeps the `k` likeliest sequences of tokens by a table of transitions, `[v, v]`, for `n` steps.
#[fx::script]
pub(crate) fn beam(table: &Tensor, first: &Tensor, n: &Tensor) -> (Tensor, Tensor) {
    let k = first.dim(0);
    let v = table.dim(1);
    let (mut sequences, mut scores) = (first.unsqueeze(1), fx::zeros([1]) * first);
    for step in 0..n {
        let last = sequences.select(1, -1);
        let next = table.index_select(0, &last).log_softmax(-1) + scores.unsqueeze(1);
        // All sequences begin alike, so the first step takes the best ones of one of them.
        let next = if step.eq(0) { next.narrow(0, 0, 1) } else { next };
        let (best, at) = next.flatten(0, -1).topk(k.clone(), -1, true, true);
        let (from, token) = (at.floor_divide(&v), at.remainder(&v));
        sequences = fx::cat([&sequences.index_select(0, &from), &token.unsqueeze(1)], 1);
        scores = best;
    }
    (sequences, scores)
}

#[test]
fn a_beam_search_in_one_graph() {
    let gm =
        fx::trace(beam).input("x", "f32[v, v]").input("y", "i64[k]").input("z", "i64[]").build().unwrap();
    let v = 11;
    let table = Tensor::from_vec((0..v * v).map(|i| ((i * 37 + 11) % 29) as f32 * 0.3).collect(), &[v, v]);
    for (k, n) in [(1, 0i64), (1, 5), (3, 1), (4, 7)] {
        let first = Tensor::new(vec![2i64; k]);
        let (sequences, scores) = beam(&table, &first, &Tensor::new(n));
        assert_eq!(sequences.shape().unwrap().to_string(), format!("[{k}, {}]", n + 1));
        let args = [Value::from(&table), Value::from(&first), Value::from(&Tensor::new(n))];
        on_engines(&gm, &args, |engine, found| {
            let (a, b): (Tensor, Tensor) = Tree::from_value(&found).unwrap();
            assert_eq!(a.to_vec::<i64>().unwrap(), sequences.to_vec::<i64>().unwrap(), "{engine}, {k}, {n}");
            b.all_close(&scores, 1e-5, 1e-5).unwrap_or_else(|error| panic!("{engine}, {k}, {n}: {error}"));
        });
    }
}
