//! `fx fuzz`: passes, rules and engines on random programs.

use std::path::PathBuf;

use clap::Args;
use serde_json::{Value as Json, json};

use crate::output::{Bar, print};

/// Run passes and rules on random programs and compare what the programs do; fails if one does something else
#[derive(Args)]
pub(crate) struct Fuzz {
    /// The first seed
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// How many programs
    #[arg(long, default_value_t = 1000)]
    count: usize,
    /// These passes only, as one pipeline, such as normalize,cse; `default` is the pipeline for inference
    #[arg(long, value_name = "LIST")]
    passes: Option<String>,
    /// The rules only, one by one
    #[arg(long, conflicts_with = "passes")]
    rules: bool,
    /// Only engines, not passes and rules
    #[arg(long, conflicts_with_all = ["passes", "rules"])]
    engines: bool,
    /// The folder for programs that fail
    #[arg(long, value_name = "DIR", default_value = ".")]
    out: PathBuf,
    /// How many threads; as many as there are cores, if 0
    #[arg(long, default_value_t = 0)]
    threads: usize,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

impl Fuzz {
    pub(crate) fn run(self) -> fx::Result<bool> {
        let passes = match (&self.passes, self.rules) {
            (Some(text), _) if text == "default" => vec![fx::pass::DEFAULT.to_owned()],
            (Some(text), _) => vec![text.clone()],
            (None, true) => Vec::new(),
            (None, false) if self.engines => Vec::new(),
            (None, false) => fx::fuzz::every_pass(),
        };
        let config = fx::fuzz::Config {
            seed: self.seed,
            count: self.count,
            rules: self.passes.is_none() && !self.engines,
            engines: if self.passes.is_none() && !self.rules {
                fx::Engine::available().into_iter().filter(|engine| *engine != fx::Engine::Eager).collect()
            } else {
                Vec::new()
            },
            own: Vec::new(),
            passes,
            threads: self.threads,
        };
        // Whatever panics is caught and reported as a failure.
        std::panic::set_hook(Box::new(|_| {}));
        let bar = std::sync::Mutex::new(Bar::new());
        let show = |done: usize| {
            if let (true, Ok(mut bar)) = (done.is_multiple_of(16), bar.try_lock()) {
                bar.show(done, self.count, "programs");
            }
        };
        let summary = fx::fuzz::run(&config, &show)?;
        drop(bar);
        let paths =
            summary.failures.iter().map(|failure| failure.save(&self.out)).collect::<fx::Result<Vec<_>>>()?;
        if self.json {
            let failure = |(failure, path): (&fx::fuzz::Failure, &PathBuf)| json!({"what": failure.what, "seed": failure.seed, "problem": failure.problem, "file": path});
            let failures: Vec<Json> = summary.failures.iter().zip(&paths).map(failure).collect();
            print(&format!(
                "{:#}",
                json!({
                    "programs": summary.programs, "nodes": summary.nodes, "with": summary.with,
                    "comparisons": summary.comparisons, "skipped": summary.skipped, "passes": summary.passes,
                    "rules": summary.rules, "operations": summary.operations, "failures": failures,
                })
            ));
        } else {
            print(&summary.to_string());
            paths.iter().for_each(|path| println!("written to {}", path.display()));
        }
        Ok(summary.failures.is_empty())
    }
}
