//! `fx fuzz`: passes, rules and engines on random programs.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
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
    /// TorchScript programs on the virtual machine, and as graphs where they can be: with tensors, as PyTorch's
    /// TorchScript takes them, or without, as Python runs them
    #[arg(long, value_name = "DIALECT", num_args = 0..=1, default_missing_value = "torch")]
    #[arg(conflicts_with_all = ["passes", "rules", "engines"])]
    script: Option<Dialect>,
    /// The interpreter of Python that runs the TorchScript programs, too; for `torch` it must have PyTorch. A
    /// program that takes it longer than 20 seconds counts as refused
    #[arg(long, value_name = "PROGRAM", requires = "script")]
    python: Option<String>,
    /// Damaged TorchScript: random texts, and the archives `NAME.pt` of this folder. None may panic, or take
    /// longer than five seconds
    #[arg(long, value_name = "DIR", conflicts_with_all = ["passes", "rules", "engines", "script"])]
    damaged: Option<PathBuf>,
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

/// A language of random TorchScript programs.
#[derive(Clone, Copy, ValueEnum)]
enum Dialect {
    Python,
    Torch,
}

impl Fuzz {
    pub(crate) fn run(self) -> fx::Result<bool> {
        if let Some(dialect) = self.script {
            return self.run_scripts(dialect);
        }
        if let Some(folder) = &self.damaged {
            return self.run_damaged(folder);
        }
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
            compiled: self.passes.is_none() && !self.rules,
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
            paths.iter().for_each(|path| print(&format!("written to {}", path.display())));
        }
        Ok(summary.failures.is_empty())
    }

    fn run_damaged(&self, folder: &std::path::Path) -> fx::Result<bool> {
        use fx::fuzz::mutations;
        let io = |error: std::io::Error| fx::err!(Io, "cannot read {}: {error}", folder.display());
        let mut archives = Vec::new();
        for entry in std::fs::read_dir(folder).map_err(io)? {
            let path = entry.map_err(io)?.path();
            if path.extension().is_some_and(|extension| extension == "pt") {
                archives.push(path);
            }
        }
        archives.sort_unstable();
        let config = mutations::Config {
            seed: self.seed,
            count: self.count as u64,
            archives,
            slow: Some(std::time::Duration::from_secs(5)),
        };
        std::panic::set_hook(Box::new(|_| {}));
        let bar = std::sync::Mutex::new(Bar::new());
        let show = |done: u64| {
            if let (true, Ok(mut bar)) = (done.is_multiple_of(16), bar.try_lock()) {
                bar.show(done as usize, self.count, "programs");
            }
        };
        let summary = mutations::run(&config, &show)?;
        drop(bar);
        if self.json {
            let failures: Vec<Json> = summary
                .failures
                .iter()
                .map(
                    |failure| json!({"seed": failure.seed, "what": failure.what, "problem": failure.problem}),
                )
                .collect();
            print(&format!(
                "{:#}",
                json!({
                    "programs": summary.mutations, "ran": summary.ran, "graphs": summary.graphs,
                    "failures": failures,
                })
            ));
        } else {
            print(&summary.to_string());
        }
        Ok(summary.failures.is_empty())
    }

    fn run_scripts(self, dialect: Dialect) -> fx::Result<bool> {
        use fx::fuzz::script;
        let config = script::Config {
            seed: self.seed,
            count: self.count as u64,
            dialect: match dialect {
                Dialect::Python => script::Dialect::Python,
                Dialect::Torch => script::Dialect::Torch,
            },
            python: self.python,
        };
        std::panic::set_hook(Box::new(|_| {}));
        let bar = std::sync::Mutex::new(Bar::new());
        let show = |done: u64| {
            if let (true, Ok(mut bar)) = (done.is_multiple_of(16), bar.try_lock()) {
                bar.show(done as usize, self.count, "programs");
            }
        };
        let (summary, n_graphs) = script::run(&config, &show)?;
        drop(bar);
        let mut paths = Vec::new();
        for failure in &summary.failures {
            let path = self.out.join(format!("fuzz_{}.py", failure.seed));
            let lines = failure.problem.lines().map(|line| format!("# {line}\n")).collect::<String>();
            std::fs::write(&path, lines + &failure.text)
                .map_err(|error| fx::err!(Io, "cannot write {}: {error}", path.display()))?;
            paths.push(path);
        }
        if self.json {
            let failure = |(failure, path): (&script::Failure, &PathBuf)| json!({"seed": failure.seed, "problem": failure.problem, "file": path});
            let failures: Vec<Json> = summary.failures.iter().zip(&paths).map(failure).collect();
            print(&format!(
                "{:#}",
                json!({
                    "programs": summary.programs, "raised": summary.raised, "refused": summary.refused, "limited": summary.limited,
                    "graphs": n_graphs, "failures": failures,
                })
            ));
        } else {
            print(&format!("{n_graphs} programs are graphs, too"));
            print(&summary.to_string());
            paths.iter().for_each(|path| print(&format!("written to {}", path.display())));
        }
        Ok(summary.failures.is_empty())
    }
}
