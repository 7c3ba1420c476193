//! `fx bisect`: the pass, and its change, that makes results wrong.

use std::path::PathBuf;

use clap::Args;
use fx::bisect::{Reference, bisect};
use fx::weights::Weights;

use crate::output::print;
use crate::program::Program;

/// Find the pass, and of its changes the one, that makes a program give other results; fails if there is one
#[derive(Args)]
pub(crate) struct Bisect {
    #[command(flatten)]
    program: Program,
    /// The passes, as `fx pass` takes them
    #[arg(long, value_name = "LIST", default_value = "default")]
    passes: String,
    /// A safetensors file with inputs, and perhaps what is expected, as `fx run` takes it
    #[arg(long, value_name = "FILE")]
    io: Option<PathBuf>,
    /// How many runs on generated inputs are compared, if no file is given
    #[arg(long, value_name = "N", default_value_t = 3)]
    runs: usize,
    /// The seed of generated inputs
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// How far results of generated inputs may be off, relative to the greatest magnitude
    #[arg(long, default_value_t = 1e-4)]
    tolerance: f64,
}

impl Bisect {
    pub(crate) fn run(self) -> fx::Result<bool> {
        let passes = fx::program::passes(&self.passes)?;
        let gm = self.program.open_for(self.io.as_deref())?;
        let io = self.io.map(Weights::open).transpose()?;
        let reference = match &io {
            Some(io) => Reference::File(io),
            None => Reference::Runs { n: self.runs, seed: self.seed, tolerance: self.tolerance },
        };
        let culprit = bisect(&gm, &passes, reference)?;
        print(&culprit.as_ref().map_or_else(|| "no pass changes the results".into(), ToString::to_string));
        Ok(culprit.is_none())
    }
}
