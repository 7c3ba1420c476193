//! A language model writes: it reads a prompt at once, then continues token by token from its cache.
//!
//! `cargo run --release --example glassllm`
#![allow(clippy::print_stdout, reason = "an example prints what it found")]

mod models;

use std::time::Instant;

use fx::Engine;
use fx::prelude::*;
use fx::trace::with_module;
use fx::weights::Weights;
use fx::{bail, err};
use models::glassllm::{Cache, GlassLlm, LAYERS, greedy, no_past};

/// How far scores may be from the reference.
const TOLERANCE: f64 = 1e-4;

fn main() -> Result<()> {
    let dir = models::data("glassllm");
    let model = GlassLlm::load(&Weights::open(dir.join("model.safetensors"))?)?;
    let tokenizer = Tokenizer::open(&dir.join("config.json"))?;
    let io = Weights::open(dir.join("io.safetensors"))?;
    println!("{model}\n");

    // One graph for both: the lengths of the input and of the cache are symbols.
    let cache = ("f32[1, 2, past, 32]", "f32[1, 2, past, 32]");
    let traced =
        fx::trace(&model).input("tokens", "i64[1, length]").input("past", vec![cache; LAYERS]).build()?;
    println!("the graph has {} nodes\n", traced.graph().len());

    let passage = io.require("passage_ids")?;
    let (eager, _) = model.forward(&passage, &no_past());
    let (scores, _): (Tensor, Vec<Cache>) = traced.run((passage, no_past()))?;
    models::compare("scores of a passage", &scores, &io.require("passage_logits")?, TOLERANCE)?;
    models::same_bits("scores of a passage", &scores, &eager)?;

    for i in 0..4 {
        let prompt = io.require(&format!("prompt.{i}"))?;
        let reference = io.require(&format!("greedy.{i}"))?.to_vec::<i64>()?;
        let start = Instant::now();
        let tokens = write(&prompt, reference.len(), |tokens, past| traced.run((tokens, past)))?;
        let micros = start.elapsed().as_secs_f64() * 1e6 / tokens.len() as f64;
        let by_hand = write(&prompt, reference.len(), |tokens, past| Ok(model.forward(&tokens, &past)))?;
        if tokens != reference || by_hand != reference {
            bail!(Check, "prompt {i}: the text differs from the reference");
        }
        let prompt = tokenizer.decode(&prompt.to_vec::<i64>()?)?;
        println!("\n[{prompt}]{}", tokenizer.decode(&tokens)?);
        println!("(equal to the reference; {micros:.0} µs a token)");
    }

    // The loop itself in the graph, beside a loop around the graph of one step, on the fused engine.
    let step = traced.compile(Engine::Fused)?;
    let whole = fx::trace(with_module(&model, |prompt: &Tensor, n: &Tensor| greedy(&model, prompt, n)))
        .input("x", "i64[length]")
        .input("y", "i64[]")
        .build()?
        .into_program(Engine::Fused)?;
    let (prompt, reference) = (io.require("prompt.0")?, io.require("greedy.0")?.to_vec::<i64>()?);
    let n = Tensor::new(reference.len() as i64);
    let around = || write(&prompt, reference.len(), |tokens, past| step.run((tokens, past)));
    let inside = || whole.run::<_, Tensor>((prompt.clone(), n.clone()))?.to_vec::<i64>();
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..21 {
        for (times, run) in times.iter_mut().zip([&around as &dyn Fn() -> Result<Vec<i64>>, &inside]) {
            let start = Instant::now();
            if run()? != reference {
                bail!(Check, "the fused engine writes another text");
            }
            times.push(start.elapsed().as_secs_f64() * 1e6 / reference.len() as f64);
        }
    }
    let [around, inside] = times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    });
    println!("\na loop around the graph: {around:.0} µs a token; the loop in the graph: {inside:.0} µs");
    Ok(())
}

/// Writes `n` tokens after a prompt, each the most likely one.
fn write(
    prompt: &Tensor,
    n: usize,
    step: impl Fn(Tensor, Vec<Cache>) -> Result<(Tensor, Vec<Cache>)>,
) -> Result<Vec<i64>> {
    let (mut tokens, mut past) = (prompt.unsqueeze(0), no_past());
    let mut written = Vec::new();
    while written.len() < n {
        let (scores, present) = step(tokens, past)?;
        tokens = scores.select(1, -1).argmax(-1, true);
        past = present;
        written.push(tokens.item::<i64>()?);
    }
    Ok(written)
}

/// The pieces of text that tokens stand for: four special ones, the characters, and each merge of two pieces.
struct Tokenizer(Vec<String>);

impl Tokenizer {
    fn open(path: &std::path::Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).map_err(|error| err!(Io, "{}: {error}", path.display()))?;
        let config: serde_json::Value =
            serde_json::from_str(&text).map_err(|error| err!(Parse, "{}: {error}", path.display()))?;
        let list = |name: &str| config["tokenizer"][name].as_array().cloned().unwrap_or_default();
        let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
        let special = std::iter::repeat_n(String::new(), 4);
        let merged = list("merges").into_iter().map(|pair| text(&pair[0]) + &text(&pair[1]));
        Ok(Tokenizer(special.chain(list("alphabet").iter().map(text)).chain(merged).collect()))
    }

    fn decode(&self, tokens: &[i64]) -> Result<String> {
        let piece = |token: &i64| usize::try_from(*token).ok().and_then(|token| self.0.get(token));
        let pieces: Option<Vec<&str>> = tokens.iter().map(|token| piece(token).map(String::as_str)).collect();
        Ok(pieces.ok_or_else(|| err!(Index, "a token is out of range"))?.concat().replace('▁', " "))
    }
}
