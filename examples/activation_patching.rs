//! Why does the model say that? One activation after the other is taken from another prompt, to see which
//! brings its answer.
//!
//! Two prompts that end alike are run, and the residual stream of each layer is recorded. Then the second
//! prompt runs again and again, each time with the activation of one layer at one token replaced by that of
//! the first prompt: where the answer of the first prompt comes back, the model keeps what decides it.
//!
//! `cargo run --release --example activation_patching`
#![allow(clippy::print_stdout, reason = "an example prints what it found")]

mod models;

use fx::prelude::*;
use fx::weights::Weights;
use fx::{GraphModule, Value, bail, err};
use models::glassllm::{GlassLlm, LAYERS, no_past};

fn main() -> Result<()> {
    let dir = models::data("glassllm");
    let model = GlassLlm::load(&Weights::open(dir.join("model.safetensors"))?)?;
    let pieces = pieces(&dir.join("config.json"))?;
    let cache = ("f32[1, 2, past, 32]", "f32[1, 2, past, 32]");
    let traced =
        fx::trace(&model).input("tokens", "i64[1, length]").input("past", vec![cache; LAYERS]).build()?;

    // The residual stream after each block is the sum of the block's two parts: the last `add` that it recorded.
    let streams: Vec<String> = (0..LAYERS).map(|layer| stream(&traced, layer)).collect::<Result<_>>()?;
    println!("the residual streams are {}\n", streams.join(", "));

    // Two places of the passage, cut to the same length.
    let passage = Weights::open(dir.join("io.safetensors"))?.require("passage_ids")?;
    let (source, target) = (passage.narrow(1, 20, 6), passage.narrow(1, 40, 6));
    let text = |tokens: &Tensor| -> Result<Vec<String>> {
        tokens.to_vec::<i64>()?.iter().map(|token| piece(&pieces, *token)).collect()
    };

    let source_run = run(&traced, &source, &streams, None)?;
    let target_run = run(&traced, &target, &streams, None)?;
    let (answer, other) = (source_run.best()?, target_run.best()?);
    println!("{:?} goes on with {:?}", text(&source)?.concat(), piece(&pieces, answer)?);
    println!("{:?} goes on with {:?}\n", text(&target)?.concat(), piece(&pieces, other)?);
    if answer == other {
        bail!(Check, "both prompts go on alike: there is nothing to explain");
    }

    // How much of the first answer comes back: 0 is the second prompt as it is, 1 the first one.
    let lead = |run: &Run| -> Result<f32> { Ok(run.score(answer)? - run.score(other)?) };
    let (low, high) = (lead(&target_run)?, lead(&source_run)?);
    print!("{:18}", "patched token");
    (0..LAYERS).for_each(|layer| print!("  layer {layer}"));
    println!();
    let mut best = (f32::NEG_INFINITY, 0, 0);
    for (at, token) in text(&target)?.iter().enumerate() {
        print!("{at}: {:15}", format!("{token:?}"));
        for layer in 0..LAYERS {
            let patch = Patch { layer, at: at as i64, from: &source_run.recorded[layer] };
            let share = (lead(&run(&traced, &target, &streams, Some(patch))?)? - low) / (high - low);
            print!("  {share:7.2}");
            if share > best.0 {
                best = (share, at, layer);
            }
        }
        println!();
    }
    let (share, at, layer) = best;
    println!("\nthe most comes back with layer {layer} at token {at}: {:.0} %", share * 100.0);

    // After the last block only the last token is read, so all of the answer must come back with it.
    let last = Patch { layer: LAYERS - 1, at: 5, from: &source_run.recorded[LAYERS - 1] };
    if run(&traced, &target, &streams, Some(last))?.best()? != answer {
        bail!(Check, "the last activation does not decide the answer");
    }
    Ok(())
}

/// An activation that takes the place of another.
struct Patch<'a> {
    layer: usize,
    at: i64,
    from: &'a Tensor,
}

/// The scores of the next token, and the recorded activations.
struct Run {
    scores: Tensor,
    recorded: Vec<Tensor>,
}

impl Run {
    fn best(&self) -> Result<i64> {
        self.scores.argmax(-1, false).item::<i64>()
    }

    fn score(&self, token: i64) -> Result<f32> {
        self.scores.select(0, token).item::<f32>()
    }
}

/// Runs the model with one activation replaced, perhaps, by a hook on its node.
fn run(gm: &GraphModule, tokens: &Tensor, streams: &[String], patch: Option<Patch<'_>>) -> Result<Run> {
    let mut eval = streams.iter().fold(gm.eval(), |eval, name| eval.record(name));
    if let Some(Patch { layer, at, from }) = patch {
        eval = eval.replace(&streams[layer], move |_, value| {
            let own: Tensor = value.try_into()?;
            let patched = own.select_scatter(from.select(1, at), 1, at);
            Ok(patched.ok()?.into())
        });
    }
    let ran = eval.run(&[tokens.into(), no_past().to_value()])?;
    let (scores, _): (Tensor, Vec<models::glassllm::Cache>) = fx::Tree::from_value(&ran.output)?;
    let tensors = ran.recorded.into_iter().map(|(_, value): (String, Value)| value.try_into());
    Ok(Run { scores: scores.select(1, -1).select(0, 0), recorded: tensors.collect::<Result<_>>()? })
}

/// Returns the name of the node that gives what a block returns.
fn stream(gm: &GraphModule, layer: usize) -> Result<String> {
    let path = format!("blocks.{layer}");
    let mut adds = gm.graph().nodes().filter(|(_, node)| {
        node.meta().module_path() == path && node.op().is_some_and(|op| op.name == "add")
    });
    let last = adds.next_back().ok_or_else(|| err!(Check, "{path} adds nothing"))?;
    Ok(last.1.name().to_owned())
}

/// Reads the pieces of text that tokens stand for.
fn pieces(path: &std::path::Path) -> Result<Vec<String>> {
    let text = std::fs::read_to_string(path).map_err(|error| err!(Io, "{}: {error}", path.display()))?;
    let config: serde_json::Value =
        serde_json::from_str(&text).map_err(|error| err!(Parse, "{}: {error}", path.display()))?;
    let list = |name: &str| config["tokenizer"][name].as_array().cloned().unwrap_or_default();
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let merged = list("merges").into_iter().map(|pair| text(&pair[0]) + &text(&pair[1]));
    Ok(std::iter::repeat_n(String::new(), 4).chain(list("alphabet").iter().map(text)).chain(merged).collect())
}

fn piece(pieces: &[String], token: i64) -> Result<String> {
    let piece = usize::try_from(token).ok().and_then(|token| pieces.get(token));
    Ok(piece.ok_or_else(|| err!(Index, "a token is out of range"))?.replace('▁', " "))
}
