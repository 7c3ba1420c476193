//! How long the native engine takes to make programs ready, and how its calls compare with those of the fused
//! engine.
//!
//! `cargo run --release --example compile_times -- [DIR]...`, where a DIR holds `NAME.pt2` with
//! `NAME.io.safetensors`, or the weights of one of the models of the examples, `model.safetensors`, and is
//! named as the model. The models that come with the repository are always there.
#![allow(clippy::print_stdout, reason = "an example prints what it found")]

mod models;

use std::path::{Path, PathBuf};

use fx::prelude::*;
use fx::weights::Weights;
use fx::{Engine, GraphModule, Value, bench, check};
use models::digits_cnn::DigitsCnn;
use models::efficientnet_lite0::EfficientNetLite0;
use models::glassllm::{GlassLlm, HEAD, KV_HEADS, LAYERS};
use models::minilm::MiniLm;
use models::silero_vad::SileroVad;

fn main() -> Result<()> {
    let mut dirs: Vec<PathBuf> = ["digits", "silero_vad", "glassllm"].map(models::data).into();
    dirs.extend(std::env::args().skip(1).map(PathBuf::from));
    println!(
        "| program | nodes | tapes | functions | Rust, kB | rustc, s | load, ms | fused, ms | native / fused |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    for dir in dirs {
        match dir.join("model.safetensors").is_file() {
            true => {
                if let Some((name, gm)) = model(&dir)? {
                    row(&name, &gm, &fx::pass::sample_inputs(&gm, 0)?)?;
                }
            }
            false => {
                for file in check::files(&dir)? {
                    let gm = fx::import::pt2(&file)?;
                    let io = Weights::open(file.with_extension("io.safetensors"))?;
                    let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
                    row(&name, &gm, &check::inputs(&gm, &io, 0)?)?;
                }
            }
        }
    }
    let gm = long(5000)?;
    row("5,000 nodes", &gm, &fx::pass::sample_inputs(&gm, 0)?)
}

/// Prints the line of a program.
fn row(name: &str, gm: &GraphModule, args: &[Value]) -> Result<()> {
    let bench::Compiling { cold, warm, .. } = bench::compiling(gm, args)?;
    let timings = bench::measure(gm, args, &[Engine::Fused, Engine::Native], 9)?;
    let [fused, native] = [0, 1].map(|i| timings[i].median());
    println!(
        "| {name} | {} | {} | {} | {:.0} | {:.2} | {:.1} | {:.3} | {:.2} |",
        gm.graph().expanded_len(),
        cold.bodies,
        cold.functions,
        cold.source as f64 / 1e3,
        cold.compiling.as_secs_f64(),
        warm.loading.as_secs_f64() * 1e3,
        fused / 1e6,
        native / fused
    );
    Ok(())
}

/// Traces the model whose weights are in a folder.
fn model(dir: &Path) -> Result<Option<(String, GraphModule)>> {
    let name = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let weights = Weights::open(dir.join("model.safetensors"))?;
    let gm = match name.as_str() {
        "digits" | "digits_cnn" => {
            fx::trace(&DigitsCnn::load(&weights)?).input("image", "f32[1, 1, 8, 8]").build()?
        }
        "silero_vad" => fx::trace(&SileroVad::load(&weights)?)
            .input("window", "f32[1, 576]")
            .input("state", ("f32[1, 128]", "f32[1, 128]"))
            .build()?,
        "glassllm" => {
            let half = format!("f32[1, {KV_HEADS}, 64, {HEAD}]");
            let cache = (half.as_str(), half.as_str());
            fx::trace(&GlassLlm::load(&weights)?)
                .input("tokens", "i64[1, 16]")
                .input("past", vec![cache; LAYERS])
                .build()?
        }
        "efficientnet_lite0" => {
            fx::trace(&EfficientNetLite0::load(&weights)?).input("image", "f32[1, 3, 224, 224]").build()?
        }
        "minilm" => {
            let spec = "i64[1, 32]";
            fx::trace(&MiniLm::load(&weights)?)
                .input("input_ids", spec)
                .input("attention_mask", spec)
                .input("token_type_ids", spec)
                .build()?
        }
        _ => return Ok(None),
    };
    Ok(Some((name, gm)))
}

/// A program of many nodes, no two parts of which are alike: pointwise chains between operations on rows.
fn long(n: usize) -> Result<GraphModule> {
    fx::trace(|x: &Tensor| {
        let (mut values, mut state) = (vec![x.clone()], 1u64);
        let mut below = |n: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % n
        };
        for i in 1..=n {
            let last = &values[i - 1];
            let other = &values[i - 1 - below(8).min(i - 1)];
            let value = match below(12) {
                _ if i % 40 == 0 => last.softmax(-1),
                0 => last.relu(),
                1 => last.tanh(),
                2 => last.sigmoid(),
                3 => last.gelu(),
                4..7 => last + other,
                7..9 => last * other,
                9 => last - other,
                10 => last.maximum(other),
                _ => last * 0.75,
            };
            values.push(value);
        }
        values.swap_remove(n)
    })
    .input("x", "f32[16, 64]")
    .build()
}
