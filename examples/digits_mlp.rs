//! The smallest model: weights alone determine it, so `load` makes it.
//!
//! `cargo run --release --example digits_mlp`
#![allow(clippy::print_stdout, reason = "an example prints what it found")]

mod models;

use fx::prelude::*;
use models::digits_mlp::DigitsMlp;

/// How far scores may be from PyTorch's.
const TOLERANCE: f64 = 1e-4;

fn main() -> Result<()> {
    let dir = models::data("digits_mlp");
    let model = DigitsMlp::load(&Weights::open(dir.join("model.safetensors"))?)?;
    let traced = fx::trace(&model).input("pixels", "f32[batch, 64]").build()?;
    println!("{model}\n\n{}", traced.graph());

    let io = Weights::open(dir.join("io.safetensors"))?;
    let pixels = io.require("test_pixels_u8")?.to(DType::F32) / 16;
    let eager = model.forward(&pixels);
    let scores = traced.call(std::slice::from_ref(&pixels))?;
    models::compare("scores", &scores, &io.require("test_logits")?, TOLERANCE)?;
    models::same_bits("scores", &scores, &eager)?;

    let right = scores.argmax(-1, false).eq(io.require("test_labels")?).sum((), false).item::<i64>()?;
    println!("{right} of {} images are read rightly", pixels.dim(0));
    Ok(())
}
