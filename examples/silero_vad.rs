//! Streaming speech detection: ten seconds of speech, 32 ms at a time, with the state handed from call to call.
//!
//! `cargo run --release --example silero_vad`
#![allow(clippy::print_stdout, reason = "an example prints what it found")]

mod models;

use std::time::Instant;

use fx::prelude::*;
use fx::weights::Weights;
use models::silero_vad::{HIDDEN, SileroVad};

/// How far probabilities may be from PyTorch's.
const TOLERANCE: f64 = 2e-5;

type State = (Tensor, Tensor);

fn main() -> Result<()> {
    let dir = models::data("silero_vad");
    let model = SileroVad::load(&Weights::open(dir.join("model.safetensors"))?)?;
    println!("{model}\n");

    // The state is a tuple of two tensors; so is the result. The graph keeps that structure.
    let state = ("f32[batch, 128]", "f32[batch, 128]");
    let traced = fx::trace(&model).input("window", "f32[batch, 576]").input("state", state).build()?;
    println!("{}", traced.graph());

    let io = Weights::open(dir.join("io.safetensors"))?;
    let windows = io.require("windows")?;

    let start = Instant::now();
    let eager = listen(&windows, |window, state| Ok(model.forward(window, state)))?;
    println!("eager:  {:.0} µs a window of 32 ms", start.elapsed().as_secs_f64() * 1e6 / eager.len() as f64);

    let start = Instant::now();
    let probabilities = listen(&windows, |window, state| traced.run((window.clone(), state.clone())))?;
    println!("traced: {:.0} µs a window of 32 ms", start.elapsed().as_secs_f64() * 1e6 / eager.len() as f64);

    let (probabilities, eager) = (fx::cat(probabilities, 0), fx::cat(eager, 0));
    models::compare("probabilities", &probabilities, &io.require("probabilities")?, TOLERANCE)?;
    models::same_bits("probabilities", &probabilities, &eager)?;

    let spoken = probabilities.to_vec::<f32>()?;
    println!("{} of {} windows hold speech:", spoken.iter().filter(|p| **p > 0.5).count(), spoken.len());
    println!("{}", spoken.iter().map(|p| if *p > 0.5 { '#' } else { '.' }).collect::<String>());
    Ok(())
}

/// Returns the probability of speech in each window, in order: each call gets the state that the call before
/// returned.
fn listen(
    windows: &Tensor,
    step: impl Fn(&Tensor, &State) -> Result<(Tensor, State)>,
) -> Result<Vec<Tensor>> {
    let zeros = Tensor::from_vec(vec![0f32; HIDDEN], &[1, HIDDEN]);
    let mut state = (zeros.clone(), zeros);
    let mut probabilities = Vec::new();
    for window in windows.iter()? {
        let (probability, next) = step(&window.unsqueeze(0), &state)?;
        probabilities.push(probability);
        state = next;
    }
    Ok(probabilities)
}
