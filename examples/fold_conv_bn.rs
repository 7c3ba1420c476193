//! Folding the batch norms of EfficientNet-Lite0 into its convolutions: the speed before and after, and how
//! far scores move.
//!
//! `cargo run --release --example fold_conv_bn -- --model DIR`; `efficientnet_lite0` says where DIR comes from.
#![allow(clippy::print_stdout, reason = "an example prints what it found")]

mod models;

use std::time::Instant;

use fx::pass::{DEAD_CODE, FOLD_BATCH_NORM, REMOVE_IDENTITIES};
use fx::prelude::*;
use fx::weights::Weights;
use fx::{GraphModule, Passes};
use models::efficientnet_lite0::EfficientNetLite0;

/// How far scores may move.
const TOLERANCE: f64 = 1e-4;
const ROUNDS: usize = 15;

fn main() -> Result<()> {
    let dir = models::model_argument("`cargo run --example efficientnet_lite0` says how to get the weights")?;
    let model = EfficientNetLite0::load(&Weights::open(dir.join("model.safetensors"))?)?;
    let before = fx::trace(&model).input("image", "f32[batch, 3, 224, 224]").build()?;
    let mut after = before.clone();
    let passes = Passes::new().add(REMOVE_IDENTITIES).add(FOLD_BATCH_NORM).add(DEAD_CODE);
    println!("{}", passes.run(&mut after)?);
    println!("{} nodes became {}", before.graph().len(), after.graph().len());

    let io = Weights::open(dir.join("io.safetensors"))?;
    let images = io.require("input")?;
    let (old, new) =
        (before.call(std::slice::from_ref(&images))?, after.call(std::slice::from_ref(&images))?);
    models::compare("scores", &new, &old, TOLERANCE)?;
    models::compare("PyTorch's scores", &new, &io.require("logits")?, TOLERANCE)?;

    // In turns, so that both see the same machine.
    let image = images.narrow(0, 0, 1);
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        for (gm, times) in [&before, &after].into_iter().zip(&mut times) {
            times.push(milliseconds(gm, &image)?);
        }
    }
    let [old, new] = times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        times[ROUNDS / 2]
    });
    println!(
        "one image: {old:.2} ms before, {new:.2} ms after, {:.2} times as fast (medians of {ROUNDS})",
        old / new
    );
    Ok(())
}

fn milliseconds(gm: &GraphModule, image: &Tensor) -> Result<f64> {
    let start = Instant::now();
    gm.call(std::slice::from_ref(image))?;
    Ok(start.elapsed().as_secs_f64() * 1e3)
}
