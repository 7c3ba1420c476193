//! The main job: a model as a Rust struct, its graph, and the graph's answers on real handwritten digits.
//!
//! `cargo run --release --example digits`
#![allow(clippy::print_stdout, reason = "an example prints what it found")]

mod models;

use std::time::Instant;

use fx::prelude::*;
use fx::weights::Weights;
use models::digits_cnn::DigitsCnn;

/// How far scores may be from PyTorch's.
const TOLERANCE: f64 = 1e-4;

fn main() -> Result<()> {
    // A model is a struct with a method `forward`; weights are found by the names of its fields.
    let dir = models::data("digits");
    let model = DigitsCnn::load(&Weights::open(dir.join("model.safetensors"))?)?;
    println!("{model}\n");

    // Tracing runs `forward` once with symbols. The batch is any size; shapes are known all the same.
    let traced = fx::trace(&model).input("image", "f32[batch, 1, 8, 8]").build()?;
    println!("{}", traced.graph());
    println!("{}", traced.graph().tabular());

    let io = Weights::open(dir.join("io.safetensors"))?;
    let images = io.require("images")?.to(DType::F32).unsqueeze(1) / 16;
    let labels = io.require("labels")?;

    // The same program twice: as Rust, on values, and as a graph.
    let eager = model.forward(&images);
    let scores = traced.call(std::slice::from_ref(&images))?;
    models::compare("scores", &scores, &io.require("logits")?, TOLERANCE)?;
    models::same_bits("scores", &scores, &eager)?;

    println!("\nengine    accuracy  µs an image  µs of 360 together  ms to compile");
    for engine in fx::Engine::available() {
        let start = Instant::now();
        let program = traced.compile(engine)?;
        let compile = start.elapsed().as_secs_f64() * 1e3;
        let call = |images: &Tensor| program.call(std::slice::from_ref(images));

        let scores = call(&images)?;
        models::compare(engine.name(), &scores, &io.require("logits")?, TOLERANCE)?;
        let right = scores.argmax(-1, false).eq(&labels);
        let accuracy = 100.0 * right.to(DType::F64).mean((), false).item::<f64>()?;

        let image = images.narrow(0, 0, 1);
        let (alone, together) = (models::micros(|| call(&image))?, models::micros(|| call(&images))? / 360.0);
        println!("{:8} {accuracy:>8.1}%  {alone:>11.1}  {together:>18.2}  {compile:>13.1}", engine.name());
    }
    Ok(())
}
