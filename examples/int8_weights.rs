//! Weights of 8 bits: one pattern replaces every linear map, and constant folding makes the weights.
//!
//! `cargo run --release --example int8_weights`
#![allow(clippy::print_stdout, reason = "an example prints what it found")]

mod models;

use fx::pass::{CONST_FOLD, DEAD_CODE, INLINE_LEAVES};
use fx::prelude::*;
use fx::{Engine, GraphModule, Passes};
use models::digits_mlp::DigitsMlp;

/// Quantizes the rows of a weight: the integers, and a scale for each row.
fn quantized(weight: &Tensor) -> (Tensor, Tensor) {
    let scales = weight.abs().amax(1, false) / 127.0;
    ((weight / scales.unsqueeze(1)).round(0).to(DType::I8), scales)
}

/// Replaces linear maps by products with weights of 8 bits; returns how many.
fn quantize_weights(gm: &mut GraphModule) -> Result<usize> {
    let replaced = fx::replace_pattern(
        gm,
        |x: &Tensor, weight: &Tensor, bias: &Tensor| fx::linear(x, weight, bias),
        |x: &Tensor, weight: &Tensor, bias: &Tensor| {
            let (weight, scales) = quantized(weight);
            x._weight_int8pack_mm(weight, scales) + bias
        },
    )?;
    // The integers take the place of the weights of which they were made.
    Passes::new().add_with(CONST_FOLD, [("freeze", true)])?.add(DEAD_CODE).run(gm)?;
    gm.delete_unused();
    Ok(replaced.len())
}

/// Returns the bytes of all parameters and constants.
fn bytes(gm: &GraphModule) -> Result<usize> {
    gm.attributes().map(|(_, attribute)| Ok(attribute.tensor().array()?.nbytes())).sum()
}

/// Two linear maps, as large as those of a language model.
#[derive(Module)]
struct FeedForward {
    up: fx::nn::Linear,
    down: fx::nn::Linear,
}

#[fx::forward]
impl FeedForward {
    fn forward(&self, x: &Tensor) -> Tensor {
        self.down.forward(&self.up.forward(x).silu())
    }
}

fn main() -> Result<()> {
    let dir = models::data("digits_mlp");
    let model = DigitsMlp::load(&Weights::open(dir.join("model.safetensors"))?)?;
    let mut floats = fx::trace(&model).input("pixels", "f32[batch, 64]").build()?;
    Passes::new().add(INLINE_LEAVES).run(&mut floats)?;
    let mut integers = floats.clone();
    println!("{} linear maps replaced\n{}", quantize_weights(&mut integers)?, integers.graph());

    let io = Weights::open(dir.join("io.safetensors"))?;
    let (pixels, labels) = (io.require("test_pixels_u8")?.to(DType::F32) / 16, io.require("test_labels")?);
    for (name, gm) in [("f32", &floats), ("i8", &integers)] {
        let scores = gm.call(std::slice::from_ref(&pixels))?;
        let right = scores.argmax(-1, false).eq(&labels).sum((), false).item::<i64>()?;
        println!("{name:3}  {:7} bytes  {right} of {} images are read rightly", bytes(gm)?, pixels.dim(0));
    }

    // One row at a time, as a language model works when it writes: the weights are read once, and take the time.
    let model = FeedForward { up: fx::nn::Linear::new(1024, 4096), down: fx::nn::Linear::new(4096, 1024) };
    let mut floats = fx::trace(&model).input("x", "f32[n, 1024]").build()?;
    Passes::new().add(INLINE_LEAVES).run(&mut floats)?;
    let mut integers = floats.clone();
    quantize_weights(&mut integers)?;
    let x = Tensor::new(vec![0.5f32; 1024]).reshape([1, 1024]);
    for (name, gm) in [("f32", &floats), ("i8", &integers)] {
        let program = gm.compile(Engine::Fused)?;
        let micros = models::micros(|| program.call(std::slice::from_ref(&x)))?;
        println!("{name:3}  {:8} bytes  {micros:.0} µs for one row", bytes(gm)?);
    }
    Ok(())
}
