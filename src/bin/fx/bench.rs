//! `fx bench`: the time of a program on each engine.

use std::path::PathBuf;

use clap::Args;
use fx::weights::Weights;
use fx::{Compile, GraphModule, Value, check};

use crate::output::{print, write};
use crate::program::{Source, no_program};

/// Measure a program on engines, side by side
#[derive(Args)]
pub(crate) struct Bench {
    /// fx text, a saved module, or an archive that torch.export.save or torch.jit.save wrote
    file: Option<PathBuf>,
    #[command(flatten)]
    source: Source,
    /// A safetensors file with the inputs 0.in0, 0.in1, …; random ones otherwise
    #[arg(long, value_name = "FILE")]
    io: Option<PathBuf>,
    /// Only this engine; may be repeated
    #[arg(long, value_name = "NAME")]
    engine: Vec<fx::Engine>,
    /// How many threads, instead of one for each core
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// The samples of each engine, of 8 ms
    #[arg(long, value_name = "N", default_value_t = 25)]
    samples: usize,
    /// Say what each step takes, each line of the source and each module; of the fused engine, or of --engine
    #[arg(long)]
    profile: bool,
    /// Write the steps as a trace for chrome://tracing or Perfetto
    #[arg(long, value_name = "FILE")]
    chrome_trace: Option<PathBuf>,
    /// Say how long the native engine takes to make it ready: compiled, and loaded from the cache
    #[arg(long)]
    compile: bool,
    /// Measure the program as a crate, too, which cargo builds
    #[arg(long = "crate")]
    as_crate: bool,
    /// Answer the lines of a driver that measures several engines side by side
    #[arg(long)]
    worker: bool,
}

impl Bench {
    pub(crate) fn run(self) -> fx::Result<bool> {
        if let Some(threads) = self.threads.or_else(|| std::env::var("BENCH_THREADS").ok()?.parse().ok()) {
            fx::bench::threads(threads)?;
        }
        if self.worker {
            let engine = self.engine.first().copied().unwrap_or(fx::Engine::Fused);
            fx::bench::serve(std::io::stdin().lock(), std::io::stdout().lock(), engine)?;
            return Ok(true);
        }
        let Some(file) = &self.file else { return Err(no_program()) };
        let gm = self.source.open_for(file, self.io.as_deref())?;
        let Some(path) = &self.io else {
            self.measure(&gm, &fx::pass::sample_inputs(&gm, 0)?)?;
            return Ok(true);
        };
        let io = Weights::open(path)?;
        let measured = self.measure(&gm, &check::inputs(&gm, &io, 0)?);
        measured.map_err(|error| error.in_file(io.origin(), Some("input set 0")))?;
        Ok(true)
    }

    fn measure(&self, gm: &GraphModule, args: &[Value]) -> fx::Result<()> {
        if self.compile {
            print(&format!("{}\n", fx::bench::compiling(gm, args)?));
            return Ok(());
        }
        if self.profile || self.chrome_trace.is_some() {
            let engine = self.engine.first().copied().unwrap_or(fx::Engine::Fused);
            let profile = fx::profile(&gm.compile(engine)?, args, self.samples)?;
            if let Some(path) = &self.chrome_trace {
                write(path, &profile.to_chrome_trace())?;
            }
            if self.profile {
                print(&profile.to_string());
            }
            return Ok(());
        }
        let available = fx::Engine::available();
        let engines = if self.engine.is_empty() { &available } else { &self.engine };
        for timing in fx::bench::measure(gm, args, engines, self.samples)? {
            print(&format!("{timing}\n"));
        }
        if self.as_crate {
            print(&format!("{}\n", fx::bench::measure_crate(gm, args, self.samples)?));
        }
        Ok(())
    }
}
