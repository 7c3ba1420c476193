//! The models of the examples, as a user writes them, and what the examples share.
#![allow(dead_code, unreachable_pub, reason = "every example takes what it needs")]
#![allow(clippy::print_stdout, reason = "what is compared is printed")]

pub mod digits_cnn;
pub mod digits_mlp;
pub mod efficientnet_lite0;
pub mod glassllm;
pub mod minilm;
pub mod silero_vad;

use std::path::{Path, PathBuf};
use std::time::Instant;

use fx::prelude::*;
use fx::{bail, err};

/// Returns the folder of a model that comes with the repository.
pub fn data(model: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/data").join(model)
}

/// Returns the folder after `--model`; without one, an error that says how to get the files.
pub fn model_argument(how: &str) -> Result<PathBuf> {
    let mut args = std::env::args().skip_while(|arg| arg != "--model").skip(1);
    match args.next().map(PathBuf::from) {
        Some(dir) if dir.join("model.safetensors").is_file() => Ok(dir),
        Some(dir) => Err(err!(Load, "there is no model.safetensors in {}", dir.display()).help(how)),
        None => Err(err!(Argument, "expected --model DIR").help(how)),
    }
}

/// Prints how far a result is from the reference, and fails if an element is off by more than `tolerance`.
pub fn compare(what: &str, got: &Tensor, reference: &Tensor, tolerance: f64) -> Result<()> {
    got.all_close(reference, 0.0, tolerance)?;
    let difference = (got - reference).abs().max().item::<f32>()?;
    println!("{what}: {got:?}, off by at most {difference:.1e} (allowed {tolerance:.0e})");
    Ok(())
}

/// Fails unless the traced graph gives the same bits as the eager program.
pub fn same_bits(what: &str, traced: &Tensor, eager: &Tensor) -> Result<()> {
    if !traced.bits_eq(eager) {
        traced.all_close(eager, 0.0, 0.0)?;
        bail!(Check, "{what}: the traced graph and the eager program differ");
    }
    println!("{what}: the traced graph gives the same bits");
    Ok(())
}

/// Returns the median time of a call in microseconds.
pub fn micros(call: impl Fn() -> Result<Tensor>) -> Result<f64> {
    let mut times = Vec::new();
    for _ in 0..201 {
        let start = Instant::now();
        call()?;
        times.push(start.elapsed().as_secs_f64() * 1e6);
    }
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}
