//! Damaged TorchScript: archives, their members, texts and intermediate representations. None may panic, run for
//! ever or need much memory.
//!
//! [`fx_script::fuzz::mutate`] damages; what still is a program is compiled, called and lowered, with arguments
//! made up from the types of its parameters.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use fx_core::testing::Rng;
use fx_script::archive::{Archive, Members, MemoryMembers};
use fx_script::emit::Unit;
use fx_script::fuzz::{Case, Dialect, mutate};
use fx_script::load::{Program, Session};
use fx_script::source::Source;
use fx_script::types::Type;
use fx_script::value::Value;
use fx_script::vm::Limits;

use crate::import::TorchScript;
use crate::script::AtenOperators;
use crate::zip_file::ZipFile;
use crate::{Array, DType, Result, err};

/// What a call of a damaged program may use up.
const LIMITS: Limits = Limits { steps: 200_000, memory: 64 << 20, depth: 64, output: 1 << 20 };

/// How many failures are kept.
const MOST_FAILURES: usize = 32;

/// Which programs are damaged, and how often.
#[derive(Debug, Clone, Default)]
pub struct Config {
    /// The first seed.
    pub seed: u64,
    /// How many programs are damaged.
    pub count: u64,
    /// Archives that are damaged, beside random texts.
    pub archives: Vec<PathBuf>,
    /// Reports a program that takes longer.
    pub slow: Option<Duration>,
}

/// The counts of a run, and its failures.
#[derive(Debug, Clone, Default)]
pub struct Summary {
    /// How many programs were damaged.
    pub mutations: u64,
    /// How many of them still ran to the end.
    pub ran: u64,
    /// How many became graphs.
    pub graphs: u64,
    /// The failures by seed.
    pub failures: Vec<Failure>,
    /// The longest time, and its seed.
    pub slowest: (Duration, u64),
}

/// A damaged program that panics or is slow.
#[derive(Debug, Clone)]
pub struct Failure {
    /// The seed.
    pub seed: u64,
    /// What was damaged.
    pub what: &'static str,
    /// What is wrong.
    pub problem: String,
}

impl std::fmt::Display for Summary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Summary { mutations, ran, graphs, failures, slowest } = self;
        writeln!(f, "{mutations} damaged programs, {ran} run to the end, {graphs} are graphs")?;
        for failure in failures {
            writeln!(f, "FAILED seed {}, {}: {}", failure.seed, failure.what, failure.problem)?;
        }
        write!(f, "{} failures, the slowest was seed {} with {:?}", failures.len(), slowest.1, slowest.0)
    }
}

/// What programs are made from.
struct Corpus {
    texts: Vec<String>,
    irs: Vec<String>,
    archives: Vec<(Vec<u8>, MemoryMembers)>,
    operators: AtenOperators,
}

/// Damages programs and runs them within limits. `done` hears how many are done.
///
/// Fails if an archive cannot be read.
pub fn run(config: &Config, done: &dyn Fn(u64)) -> Result<Summary> {
    let corpus = Corpus::new(&config.archives)?;
    let mut summary = Summary::default();
    for n in 0..config.count {
        let seed = config.seed + n;
        let started = Instant::now();
        let mut rng = Rng::new(seed);
        let what = ["text", "ir", "members", "members", "members", "archive"][rng.below(6)];
        let what = if corpus.archives.is_empty() && !matches!(what, "text" | "ir") { "text" } else { what };
        let outcome = catch_unwind(AssertUnwindSafe(|| corpus.run(what, &mut rng)));
        let time = started.elapsed();
        summary.mutations += 1;
        if time > summary.slowest.0 {
            summary.slowest = (time, seed);
        }
        let problem = match outcome {
            Ok(outcome) => {
                summary.ran += u64::from(outcome.ran);
                summary.graphs += u64::from(outcome.is_graph);
                config.slow.filter(|slow| time > *slow).map(|_| format!("took {time:?}"))
            }
            Err(panic) => Some(format!("panicked: {}", message(&*panic))),
        };
        if let Some(problem) = problem.filter(|_| summary.failures.len() < MOST_FAILURES) {
            summary.failures.push(Failure { seed, what, problem });
        }
        done(n + 1);
    }
    Ok(summary)
}

fn message(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message")
}

/// What became of a damaged program.
#[derive(Default)]
struct Outcome {
    ran: bool,
    is_graph: bool,
}

impl Corpus {
    fn new(archives: &[PathBuf]) -> Result<Corpus> {
        let of = |dialect| (0..60).map(move |seed| Case::new(seed, dialect).text());
        let mut texts: Vec<String> = of(Dialect::Torch).chain(of(Dialect::Python)).collect();
        let compiled = texts.iter().filter_map(|text| Case::compile(text).ok());
        let irs = compiled.map(|(program, _)| program.to_string()).collect();
        let mut read = Vec::new();
        for path in archives {
            let io = |error: std::io::Error| err!(Io, "cannot read {}: {error}", path.display());
            let bytes = std::fs::read(path).map_err(io)?;
            let zip = ZipFile::from_bytes(bytes.clone(), "`torch.jit.save`")?;
            let names = Members::names(&zip);
            let members = names.into_iter().map(|name| {
                let bytes = Members::read(&zip, &name)?.into_owned();
                if name.ends_with(".py") {
                    texts.push(String::from_utf8_lossy(&bytes).into_owned());
                }
                Ok((name, bytes))
            });
            read.push((bytes, MemoryMembers(members.collect::<Result<_>>()?)));
        }
        Ok(Corpus { texts, irs, archives: read, operators: AtenOperators::new(crate::registry()) })
    }

    fn run(&self, what: &str, rng: &mut Rng) -> Outcome {
        match what {
            "text" => {
                let (text, donor) = (rng.pick(&self.texts), rng.pick(&self.irs));
                let text = mutate::text(rng, &text, &donor);
                let program = || Program::from_text(&Source::new("program.py", text.clone()));
                self.run_program(rng, &|| {
                    let mut program = program()?;
                    let names: Vec<String> =
                        program.definitions.functions.keys().map(ToString::to_string).collect();
                    let entry = ["run", "main"].into_iter().find(|name| names.iter().any(|own| own == name));
                    let entry = entry.or(names.first().map(String::as_str)).unwrap_or("run");
                    program.enter(entry)?;
                    Ok(program)
                })
            }
            "ir" => {
                let (text, donor) = (rng.pick(&self.irs), rng.pick(&self.texts));
                let ran = mutate::run_ir(&mutate::text(rng, &text, &donor)).is_ok();
                Outcome { ran, is_graph: false }
            }
            "members" => {
                let (one, other) = (rng.below(self.archives.len()), rng.below(self.archives.len()));
                let members = mutate::members(rng, &self.archives[one].1, &self.archives[other].1);
                self.run_program(rng, &|| Program::load(&Archive::open(members.clone())?))
            }
            _ => {
                let (one, other) = (rng.below(self.archives.len()), rng.below(self.archives.len()));
                let bytes = mutate::bytes(rng, &self.archives[one].0, &self.archives[other].0);
                self.run_program(rng, &|| crate::import::torchscript_from_bytes(bytes.clone()))
            }
        }
    }

    /// Calls the method `forward` of a program, and now and then lowers, freezes and prints it.
    fn run_program(&self, rng: &mut Rng, load: &dyn Fn() -> Result<Program>) -> Outcome {
        let mut outcome = Outcome::default();
        let Ok(program) = load() else { return outcome };
        let Ok(args) = arguments(&program) else { return outcome };
        if rng.one_in(8) {
            let _ = program.to_string();
            if let Ok(mut program) = load() {
                let _ = program.freeze(&[]);
            }
        }
        if rng.one_in(4)
            && let Ok(program) = load()
        {
            let lowered = TorchScript::from_program(program).unroll(64).args(&args).load();
            outcome.is_graph = lowered.and_then(crate::import::Lowered::into_module).is_ok();
        }
        let session = Session::with_limits(program, &self.operators, LIMITS);
        outcome.ran = session.and_then(|mut session| session.call("forward", args, Vec::new())).is_ok();
        outcome
    }
}

/// Makes arguments for `forward`, but for parameters with defaults. Fails if the program has no such method.
fn arguments(program: &Program) -> Result<Vec<Value>> {
    let unit = Unit::of(program)?;
    let signature = unit.signature(&format!("{}.forward", program.root.class.name))?;
    let required = signature.parameters.iter().skip(1).take_while(|(_, _, default)| default.is_none());
    required.map(|(_, ty, _)| example(ty, 0)).collect()
}

/// Makes a value of a type. Fails if there is none.
fn example(ty: &Type, depth: usize) -> Result<Value> {
    if depth > 8 {
        return Err(err!(Limit, "a type is nested deeper than 8"));
    }
    let below = |ty: &Type| example(ty, depth + 1);
    Ok(match ty {
        Type::Tensor | Type::Any => {
            Value::tensor(Array::full(DType::F32, &[2, 3], fx_core::Scalar::Float(0.5))?)?
        }
        Type::Int | Type::Number => Value::Int(2),
        Type::Float => Value::Float(0.5),
        Type::Bool => Value::Bool(true),
        Type::Str => Value::str("ab"),
        Type::Optional(item) => below(item)?,
        Type::List(item) => Value::list(vec![below(item)?, below(item)?]),
        Type::Tuple(items) => Value::tuple(items.iter().map(below).collect::<Result<Vec<_>>>()?),
        Type::Dict(key, item) => Value::dict([(below(key)?, below(item)?)])?,
        Type::None => Value::None,
        other => return Err(err!(Argument, "there is no example of {other}")),
    })
}
