//! The command line of fx: arguments and output only; each command is a function of the library.
#![allow(clippy::print_stdout, reason = "the output of the command line")]

mod json;

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand, ValueEnum};
use fx::weights::Weights;
use fx::{CrateOptions, GraphCode, GraphModule, ToCrate, check, conformance, program};
use serde_json::{Value as Json, json};

#[derive(Parser)]
#[command(name = "fx", version, about = "Capture, inspect, rewrite and run tensor programs")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Print a program as text
    Print {
        #[command(flatten)]
        program: Program,
        /// In whose wording
        #[arg(long, value_enum, default_value_t = Style::Fx)]
        style: Style,
    },
    /// Print a program as a table, a line for each node
    Table {
        #[command(flatten)]
        program: Program,
        /// Print a JSON array of the nodes
        #[arg(long)]
        json: bool,
    },
    /// List everything that is wrong with a program; fails if there is anything
    Lint {
        #[command(flatten)]
        program: Program,
        /// Print a JSON array of the violations
        #[arg(long)]
        json: bool,
    },
    /// Print a program as a Graphviz graph
    Dot {
        #[command(flatten)]
        program: Program,
        /// Print a drawing in SVG instead, which needs no other program
        #[arg(long)]
        svg: bool,
    },
    /// Write a page that shows a program, and what passes do to it, in a browser; it needs nothing else
    View {
        #[command(flatten)]
        program: Program,
        /// The page
        #[arg(short, long, value_name = "FILE")]
        out: PathBuf,
        /// Run these passes, such as normalize,cse, and show each step; `default` is the pipeline for inference
        #[arg(long, value_name = "LIST")]
        passes: Option<String>,
    },
    /// Write a program as Rust: a Cargo crate that needs no other crate, or code for people over the public API
    Codegen {
        #[command(flatten)]
        program: Program,
        /// Write code for people: a struct for each module, a statement for each node
        #[arg(long)]
        readable: bool,
        /// The folder for the crate, or the file for readable code, instead of the output
        #[arg(short, long, value_name = "PATH", required_unless_present = "readable")]
        out: Option<PathBuf>,
        /// Write the tensors, which readable code loads, to this safetensors file
        #[arg(long, value_name = "FILE", requires = "readable")]
        save_weights: Option<PathBuf>,
        /// The name of the crate
        #[arg(long, conflicts_with = "readable")]
        name: Option<String>,
        /// A safetensors file with inputs and what is expected, for the test of the crate, as `fx run` takes it
        #[arg(long, value_name = "FILE", conflicts_with = "readable")]
        io: Option<PathBuf>,
        /// Put the weights into the code, which then needs no standard library and allocates nothing
        #[arg(long, conflicts_with = "readable")]
        bake: bool,
        /// Take the sizes of the first inputs as known
        #[arg(long, conflicts_with = "readable")]
        fixed: bool,
    },
    /// Run a program on the inputs of a file, and compare with the outputs that the file expects, if it does
    Run {
        #[command(flatten)]
        program: Program,
        /// A safetensors file with the tensors 0.in0, 0.in1, …, and perhaps 0.out0, …; 1.in0 begins a second set
        #[arg(long, value_name = "FILE")]
        io: PathBuf,
        /// What runs it
        #[arg(long, default_value = "eager")]
        engine: String,
        /// Write the outputs to this safetensors file, as 0.out0, …
        #[arg(long, value_name = "FILE")]
        save: Option<PathBuf>,
        /// Print a JSON array of the sets
        #[arg(long)]
        json: bool,
    },
    /// Compare every NAME.pt2 of a folder with the outputs in NAME.io.safetensors
    Check {
        /// The folder
        dir: PathBuf,
        /// Only this engine; may be repeated
        #[arg(long, value_name = "NAME")]
        engine: Vec<String>,
        /// Run what each pass and each rule makes of the programs, by itself
        #[arg(long, conflicts_with = "engine")]
        each_pass: bool,
        /// Print a JSON array of the programs
        #[arg(long)]
        json: bool,
    },
    /// Run operator reference cases
    Conformance {
        /// The folder with NAME.json and NAME.safetensors, or with a folder ops of them
        dir: PathBuf,
        /// Only this operator, by PyTorch's name or that of the row; pad* is a prefix; may be repeated
        #[arg(long, value_name = "NAME")]
        only: Vec<String>,
        /// Run each case on this engine too, as a program of one call; may be repeated
        #[arg(long, value_name = "NAME")]
        engine: Vec<String>,
        /// List every failure, and how often the shape rule knows no type
        #[arg(long)]
        verbose: bool,
        /// Print a JSON array of the operators
        #[arg(long, conflicts_with = "verbose")]
        json: bool,
    },
    /// Change a program by passes, check it after each, and print it
    Pass {
        /// The passes, such as normalize,cse or repeat(simplify,dead_code); `default` is the pipeline for
        /// inference; `list` lists all
        passes: String,
        /// fx text, or an archive that torch.export.save wrote
        file: Option<PathBuf>,
        /// A safetensors file with the tensors that fx text reads by path
        #[arg(long, value_name = "FILE")]
        weights: Option<PathBuf>,
        /// Compare this many runs on generated inputs before and after each pass
        #[arg(long, value_name = "N", default_value_t = 0)]
        compare: usize,
        /// Print what each pass did instead of the program
        #[arg(long)]
        report: bool,
        /// Print the difference that each pass makes instead of the program
        #[arg(long)]
        diff: bool,
    },
    /// Say where a rule matches a program, and where not and why; `list` lists the rules
    Explain {
        /// The rule
        #[arg(required_unless_present = "fusion")]
        rule: Option<String>,
        /// fx text, or an archive that torch.export.save wrote
        file: Option<PathBuf>,
        /// A safetensors file with the tensors that fx text reads by path
        #[arg(long, value_name = "FILE")]
        weights: Option<PathBuf>,
        /// Only at the node of this name
        #[arg(long, value_name = "NAME")]
        node: Option<String>,
        /// Say instead what the fused engine computes as one kernel in this program, and for each edge where
        /// it does not, why
        #[arg(long, value_name = "FILE", conflicts_with_all = ["rule", "file", "node"])]
        fusion: Option<PathBuf>,
    },
    /// Measure a program on engines, side by side
    Bench {
        /// fx text, or an archive that torch.export.save wrote
        file: Option<PathBuf>,
        /// A safetensors file with the tensors that fx text reads by path
        #[arg(long, value_name = "FILE")]
        weights: Option<PathBuf>,
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
        /// Say what each step of the fused engine takes
        #[arg(long)]
        profile: bool,
        /// Say how long the native engine takes to make it ready: compiled, and loaded from the cache
        #[arg(long)]
        compile: bool,
        /// Answer the lines of a driver that measures several engines side by side
        #[arg(long)]
        worker: bool,
    },
    /// Say what each module of a program costs: parameters, arithmetic, bytes moved, and when most memory is taken
    Summary {
        #[command(flatten)]
        program: Program,
        /// A number for a symbolic size; may be repeated
        #[arg(long, value_name = "NAME=N", value_parser = size)]
        size: Vec<(String, i64)>,
        /// Print JSON: the modules, and the peak of memory
        #[arg(long)]
        json: bool,
    },
    /// Compare two programs by what they compute, whatever names, order and spelling; fails if they differ
    Diff {
        /// fx text, or an archive that torch.export.save wrote
        before: PathBuf,
        /// The other
        after: PathBuf,
        /// Print a JSON object
        #[arg(long)]
        json: bool,
    },
    /// Find the pass, and of its changes the one, that makes a program give other results; fails if there is one
    Bisect {
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
    },
    /// Run passes and rules on random programs and compare what the programs do; fails if one does something else
    Fuzz(Fuzz),
    /// List the operations, or tell about one
    Ops {
        /// The operation
        name: Option<String>,
        /// Print the reference in Markdown
        #[arg(long, conflicts_with = "name")]
        markdown: bool,
        /// Check the row against its kernel, or all rows; fails if one is wrong
        #[arg(long, conflicts_with = "markdown")]
        check: bool,
    },
}

/// Random programs, and what is run on them.
#[derive(Args)]
struct Fuzz {
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

/// A program in a file.
#[derive(Args)]
struct Program {
    /// fx text, or an archive that torch.export.save wrote
    file: PathBuf,
    /// A safetensors file with the tensors that fx text reads by path
    #[arg(long, value_name = "FILE")]
    weights: Option<PathBuf>,
}

impl Program {
    fn open(&self) -> fx::Result<GraphModule> {
        program::open(&self.file, self.weights.as_deref())
    }
}

#[derive(Clone, Copy, ValueEnum)]
enum Style {
    /// fx text, which reads back
    Fx,
    /// The wording of torch.fx
    Torch,
}

fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

/// Runs a command; returns whether what it checked holds.
fn run(command: Command) -> fx::Result<bool> {
    match command {
        Command::Print { program, style } => {
            let gm = program.open()?;
            print(&match style {
                Style::Fx => gm.graph().to_text(),
                Style::Torch => gm.graph().to_torch_string(),
            });
            Ok(true)
        }
        Command::Table { program, json } => {
            let gm = program.open()?;
            if json {
                print_json(gm.graph().nodes().map(|(_, node)| json::node_json(node)).collect());
            } else {
                print(&gm.graph().tabular());
            }
            Ok(true)
        }
        Command::Lint { program, json } => lint(&program, json),
        Command::Dot { program, svg } => {
            let gm = program.open()?;
            print(&if svg { gm.graph().to_svg() } else { gm.graph().to_dot() });
            Ok(true)
        }
        Command::View { program, out, passes } => {
            let title = program.file.file_stem().unwrap_or_default().to_string_lossy();
            let page = program::view(&program.open()?, &title, passes.as_deref())?;
            std::fs::write(&out, page)
                .map_err(|error| fx::err!(Io, "cannot write {}: {error}", out.display()))?;
            Ok(true)
        }
        Command::Codegen { program, readable: true, out, save_weights, .. } => {
            let gm = program.open()?;
            let code = gm.code()?;
            match out {
                Some(out) => std::fs::write(&out, code.text())
                    .map_err(|error| fx::err!(Io, "cannot write {}: {error}", out.display()))?,
                None => print(code.text()),
            }
            if let Some(path) = save_weights {
                program::save_weights(&gm, &path)?;
            }
            Ok(true)
        }
        Command::Codegen { program, out, name, io, bake, fixed, .. } => {
            let gm = program.open()?;
            let stem = program.file.file_stem().unwrap_or_default().to_string_lossy();
            let mut options = CrateOptions::new().name(name.as_deref().unwrap_or(&stem));
            if let Some(io) = io {
                options = options.io(&gm, &Weights::open(io)?)?;
            }
            if fixed {
                options = options.fixed();
            }
            if bake {
                options = options.baked();
            }
            let out = out.ok_or_else(|| fx::err!(Argument, "expected --out DIR"))?;
            gm.to_package(&options)?.write(out)?;
            Ok(true)
        }
        Command::Run { program, io, engine, save, json } => {
            say_without_compiler(engine == "best");
            let engine = program::engine(&engine)?;
            let ran = program::run(&program.open()?, &Weights::open(io)?, &engine)?;
            if let Some(path) = save {
                let named = |ran: &program::Ran| {
                    let name = |i: usize| format!("{}.out{i}", ran.set);
                    ran.outputs
                        .iter()
                        .enumerate()
                        .map(|(i, tensor)| (name(i), tensor.clone()))
                        .collect::<Vec<_>>()
                };
                fx::weights::save(path, &ran.iter().flat_map(named).collect::<Vec<_>>(), &[])?;
            }
            if json {
                print_json(ran.iter().map(json::ran_json).collect());
            } else {
                ran.iter().for_each(print_ran);
            }
            Ok(ran.iter().all(|ran| !matches!(ran.agrees, Some(Err(_)))))
        }
        Command::Check { dir, engine, each_pass, json } => {
            let is_best = |name: &String| *name == "best";
            say_without_compiler(if engine.is_empty() { !each_pass } else { engine.iter().any(is_best) });
            let engines: Vec<check::Engine> = match engine.is_empty() {
                true if each_pass => check::each_pass()?,
                true => check::engines(),
                false => program::engines(&engine)?,
            };
            let mut bar = Bar::new();
            let report = check::dir_with(&dir, &engines, &mut |done, all, name| bar.show(done, all, name))?;
            drop(bar);
            if json {
                print_json(report.programs.iter().map(json::program_json).collect());
            } else {
                println!("{report}");
            }
            Ok(report.failed() == 0)
        }
        Command::Conformance { dir, only, engine, verbose, json } => {
            let only: Vec<&str> = only.iter().map(String::as_str).collect();
            let engines = program::engines(&engine)?;
            let mut bar = Bar::new();
            let report = conformance::run_with(&dir, &only, &engines, &mut |done, all, name| {
                bar.show(done, all, name);
            })?;
            drop(bar);
            if json {
                print_json(report.ops.iter().map(json::op_json).collect());
            } else if verbose {
                for op in &report.ops {
                    let untyped = match op.untyped {
                        0 => String::new(),
                        n => format!("  {n} without a type from the shape rule"),
                    };
                    println!("{}  {}/{}{untyped}", op.name, op.passed(), op.total);
                    op.failures.iter().for_each(|failure| println!("  {failure}"));
                }
                println!("{} passed, {} failed", report.passed(), report.failed());
            } else {
                println!("{report}");
            }
            Ok(report.failed() == 0)
        }
        Command::Pass { passes, file: None, .. } if passes == "list" => {
            print(&program::list_passes());
            Ok(true)
        }
        Command::Pass { file: None, .. } => Err(no_program()),
        Command::Pass { passes, file: Some(file), weights, compare, report, diff } => {
            let mut passes = program::passes(&passes)?;
            if compare > 0 {
                passes = passes.compare_runs(compare, 0);
            }
            if diff {
                passes = passes.keep_diffs();
            }
            let mut gm = program::open(file, weights.as_deref())?;
            let done = passes.run(&mut gm)?;
            print(&if report || diff { done.to_string() } else { gm.graph().to_text() });
            Ok(true)
        }
        Command::Explain { fusion: Some(file), weights, .. } => {
            print(&program::explain_fusion(&program::open(file, weights.as_deref())?)?);
            Ok(true)
        }
        Command::Explain { rule, file: None, .. } if rule.as_deref() == Some("list") => {
            print(&program::list_rules());
            Ok(true)
        }
        Command::Explain { file: None, .. } => Err(no_program()),
        Command::Explain { rule, file: Some(file), weights, node, .. } => {
            let gm = program::open(file, weights.as_deref())?;
            let (explanations, matches) = program::explain(&gm, &rule.unwrap_or_default(), node.as_deref())?;
            print(&explanations);
            Ok(matches > 0)
        }
        Command::Bench { file, weights, io, engine, threads, samples, profile, compile, worker } => {
            if let Some(threads) = threads.or_else(|| std::env::var("BENCH_THREADS").ok()?.parse().ok()) {
                fx::bench::threads(threads)?;
            }
            if worker {
                let engine = engine.first().copied().unwrap_or(fx::Engine::Fused);
                fx::bench::serve(std::io::stdin().lock(), std::io::stdout().lock(), engine)?;
                return Ok(true);
            }
            let Some(file) = file else { return Err(no_program()) };
            let gm = program::open(file, weights.as_deref())?;
            let args = match io.map(Weights::open).transpose()? {
                Some(io) => check::inputs(&gm, &io, 0)?,
                None => fx::pass::sample_inputs(&gm, 0)?,
            };
            if compile {
                print(&format!("{}\n", fx::bench::compiling(&gm, &args)?));
                return Ok(true);
            }
            if profile {
                print(&fx::bench::profile(&gm, &args, samples)?);
                return Ok(true);
            }
            let engines = if engine.is_empty() { fx::Engine::available() } else { engine };
            for timing in fx::bench::measure(&gm, &args, &engines, samples)? {
                print(&format!("{timing}\n"));
            }
            Ok(true)
        }
        Command::Summary { program, size, json } => {
            let (gm, sizes) = (program.open()?, size.into_iter().collect());
            let summary = fx::analysis::Summary::new(&gm, &sizes)?;
            let memory = program::fused_memory(&gm, &sizes)?;
            print(&if json {
                format!("{:#}", json::summary_json(&summary, memory))
            } else {
                summary.to_string()
            });
            if let (Some(memory), false) = (memory, json) {
                let [block, bound, arrays] = [memory.block, memory.bound, memory.arrays];
                print(&format!(
                    "memory of a fused call  {block} B for values, of which {bound} B at a time, and {arrays} B of results that kernels write\n"
                ));
            }
            Ok(true)
        }
        Command::Diff { before, after, json } => {
            let diff = fx::graph_diff(&program::open(before, None)?, &program::open(after, None)?)?;
            print(&if json { format!("{:#}", json::diff_json(&diff)) } else { diff.to_string() });
            Ok(diff.is_same())
        }
        Command::Bisect { program, passes, io, runs, seed, tolerance } => {
            let text = if passes == "default" { fx::pass::DEFAULT } else { &passes };
            let passes = fx::Passes::parse(text, &fx::pass::all())?;
            let io = io.map(Weights::open).transpose()?;
            let reference = match &io {
                Some(io) => fx::bisect::Reference::File(io),
                None => fx::bisect::Reference::Runs { n: runs, seed, tolerance },
            };
            let found = fx::bisect::bisect(&program.open()?, &passes, reference)?;
            print(&found.as_ref().map_or_else(|| "no pass changes the results".into(), ToString::to_string));
            Ok(found.is_none())
        }
        Command::Fuzz(options) => fuzz(&options),
        Command::Ops { name, check: true, .. } => check_ops(name.as_deref()),
        Command::Ops { name: Some(name), .. } => {
            print(&fx::reference::operation(fx::registry().find(&name)?));
            Ok(true)
        }
        Command::Ops { name: None, markdown, .. } => {
            print(&if markdown { fx::reference::markdown() } else { fx::reference::list() });
            Ok(true)
        }
    }
}

fn no_program() -> fx::Error {
    fx::err!(Argument, "no program is given")
        .help("give a file after the name, or `list` instead of the name")
}

/// Says that there is no compiler for the native engine, if one is asked for.
fn say_without_compiler(is_wanted: bool) {
    if let (true, Err(error)) = (is_wanted, fx::Native::shared().check()) {
        eprintln!("note: nothing runs on the native engine: {error}");
    }
}

fn fuzz(options: &Fuzz) -> fx::Result<bool> {
    let passes = match (&options.passes, options.rules) {
        (Some(text), _) if text == "default" => vec![fx::pass::DEFAULT.to_owned()],
        (Some(text), _) => vec![text.clone()],
        (None, true) => Vec::new(),
        (None, false) if options.engines => Vec::new(),
        (None, false) => fx::fuzz::every_pass(),
    };
    let config = fx::fuzz::Config {
        seed: options.seed,
        count: options.count,
        rules: options.passes.is_none() && !options.engines,
        engines: if options.passes.is_none() && !options.rules {
            fx::Engine::available().into_iter().filter(|engine| *engine != fx::Engine::Eager).collect()
        } else {
            Vec::new()
        },
        own: Vec::new(),
        passes,
        threads: options.threads,
    };
    // Whatever panics is caught and reported as a failure.
    std::panic::set_hook(Box::new(|_| {}));
    let bar = std::sync::Mutex::new(Bar::new());
    let show = |done: usize| {
        if let (true, Ok(mut bar)) = (done.is_multiple_of(16), bar.try_lock()) {
            bar.show(done, options.count, "programs");
        }
    };
    let summary = fx::fuzz::run(&config, &show)?;
    drop(bar);
    let paths =
        summary.failures.iter().map(|failure| failure.save(&options.out)).collect::<fx::Result<Vec<_>>>()?;
    if options.json {
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

fn check_ops(name: Option<&str>) -> fx::Result<bool> {
    let registry = fx::registry();
    let ops: Vec<fx::Op> = match name {
        Some(name) => vec![registry.find(name)?],
        None => registry.iter().collect(),
    };
    let (mut bar, mut wrong) = (Bar::new(), 0);
    for (i, op) in ops.iter().enumerate() {
        bar.show(i, ops.len(), op.name);
        let report = fx::opcheck::check(*op)?;
        if name.is_some() || !report.findings.is_empty() {
            bar.clear();
            println!("{report}");
        }
        wrong += usize::from(!report.findings.is_empty());
    }
    drop(bar);
    println!("{} passed, {wrong} failed", ops.len() - wrong);
    Ok(wrong == 0)
}

fn lint(program: &Program, json: bool) -> fx::Result<bool> {
    let gm = program.open()?;
    // Text without weights has no tensors at its paths, which is no mistake in it.
    let has_tensors = gm.attributes().len() + gm.children().len() > 0;
    let found = if has_tensors { gm.lint() } else { gm.graph().lint() };
    if json {
        let violation = |violation: &fx::lint::Violation| {
            let source = violation.source.as_ref().map(ToString::to_string);
            json!({"node": violation.node, "message": violation.message, "source": source})
        };
        print_json(found.iter().map(violation).collect());
    } else {
        found.iter().for_each(|violation| println!("{violation}"));
    }
    Ok(found.is_empty())
}

/// Reads `NAME=N`.
fn size(text: &str) -> Result<(String, i64), String> {
    let (name, n) = text.split_once('=').ok_or("expected NAME=N, such as batch=8")?;
    let n = n.trim().parse().map_err(|_| format!("expected a number after {name}=, got {n:?}"))?;
    Ok((name.trim().to_owned(), n))
}

fn print_ran(ran: &program::Ran) {
    match &ran.agrees {
        Some(Ok(error)) => println!("set {}: agrees, greatest error {error:.1e}", ran.set),
        Some(Err(problem)) => println!("set {}: {problem}", ran.set),
        None => println!("set {}:", ran.set),
    }
    for (i, tensor) in ran.outputs.iter().enumerate() {
        println!("  out{i}: {tensor:?}");
        if ran.agrees.is_none() {
            tensor.to_string().lines().for_each(|line| println!("    {line}"));
        }
    }
}

/// Prints text that may end in a line break already; a closed pipe ends the program in silence.
fn print(text: &str) {
    use std::io::Write;
    let mut out = std::io::stdout().lock();
    let line_break = if text.ends_with('\n') { "" } else { "\n" };
    if write!(out, "{text}{line_break}").and_then(|()| out.flush()).is_err() {
        std::process::exit(0);
    }
}

fn print_json(items: Vec<Json>) {
    print(&format!("{:#}", Json::Array(items)));
}

/// A progress bar on a terminal, nothing elsewhere.
struct Bar(bool);

impl Bar {
    fn new() -> Self {
        Bar(std::io::stderr().is_terminal())
    }

    fn show(&mut self, done: usize, all: usize, name: &str) {
        const WIDTH: usize = 30;
        if self.0 {
            let full = done * WIDTH / all.max(1);
            eprint!("\r\x1b[K[{:#<full$}{:.<rest$}] {done}/{all} {name}", "", "", rest = WIDTH - full);
        }
    }
}

impl Bar {
    fn clear(&mut self) {
        if self.0 {
            eprint!("\r\x1b[K");
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.clear();
    }
}
