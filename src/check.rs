//! Checks imported programs against PyTorch: every `NAME.pt2` of a folder on the inputs of `NAME.io.safetensors`.
//!
//! The tensors `0.in0`, `0.in1`, … are the inputs of the first set, leaf by leaf, `0.out0`, … what PyTorch
//! returned; a second set begins with `1.`, and so on.

use std::borrow::Cow;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::rewrite::Rules;
use crate::weights::Weights;
use crate::{
    Arg, Array, Compile, DType, Dim, Error, GraphModule, Module, Node, Passes, Result, Tensor, Type, Value,
    bail, err, pass,
};

/// The largest error of a float relative to the expected one.
pub const RTOL: f64 = 1e-4;
/// The largest error of a float relative to the greatest magnitude in its tensor.
pub const ATOL: f64 = 1e-5;

/// A program made ready: it takes one value per argument. Every call starts from the buffers as they were.
pub type Runner = Box<dyn Fn(&[Value]) -> Result<Value>>;

/// A way to run programs.
#[derive(Clone)]
pub struct Engine {
    name: Cow<'static, str>,
    prepare: Arc<Prepare>,
}

type Prepare = dyn Fn(&GraphModule) -> Result<Option<Runner>>;

impl Engine {
    /// Makes an engine; `prepare` makes a program ready, or says that it would run as it does without this engine.
    pub fn new(
        name: impl Into<Cow<'static, str>>,
        prepare: impl Fn(&GraphModule) -> Result<Option<Runner>> + 'static,
    ) -> Engine {
        Engine { name: name.into(), prepare: Arc::new(prepare) }
    }

    /// Makes an engine that runs a program after passes, if they change it.
    pub fn after(name: impl Into<Cow<'static, str>>, passes: Passes) -> Engine {
        Engine::new(name, move |gm| {
            let mut gm = gm.clone();
            Ok(passes.run(&mut gm)?.changed().then(|| eager(gm)))
        })
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Makes a program ready; `None` if it would run as it does without this engine. Fails if the engine
    /// cannot compile it.
    pub fn prepare(&self, gm: &GraphModule) -> Result<Option<Runner>> {
        (self.prepare)(gm)
    }
}

fn eager(gm: GraphModule) -> Runner {
    Box::new(move |args| gm.clone().evaluate(args))
}

/// Compiles a program, for each call anew if it has a state.
fn compiled(gm: &GraphModule, engine: crate::Engine) -> Result<Runner> {
    let program = gm.compile(engine)?;
    if gm.is_pure() {
        return Ok(Box::new(move |args| program.evaluate(args)));
    }
    let gm = gm.clone();
    Ok(Box::new(move |args| gm.compile(engine)?.evaluate(args)))
}

/// Compiles a function that evaluates a program, as [`compile`](crate::compile()) does. A call is made three
/// times, which records, runs what was recorded, and, with `is_pure`, replays; the results must have the same
/// bits. A program with a state is called once, by a function of its own.
fn followed(gm: &GraphModule, is_pure: bool) -> Runner {
    let compiled = move |gm: &GraphModule| {
        let function = crate::compile(crate::compile::owned(gm.clone()));
        if is_pure { function.pure() } else { function }
    };
    if !gm.is_pure() {
        let gm = gm.clone();
        return Box::new(move |args| compiled(&gm).call_values(args));
    }
    let function = compiled(gm);
    Box::new(move |args| thrice(|| function.call_values(args)))
}

/// Makes a call of a compiled function three times. Fails if the results have not the same bits.
pub(crate) fn thrice(call: impl Fn() -> Result<Value>) -> Result<Value> {
    let first = call()?;
    for number in ["second", "third"] {
        if !first.eq_by(&call()?, &|a: &Tensor, b: &Tensor| a.bits_eq(b)) {
            bail!(Check, "the {number} call of the compiled function has another result than the first one");
        }
    }
    Ok(first)
}

/// Returns the engines that exist: `eager` calls the program, `interpreted` walks over its nodes, `passes`
/// calls it after the [default pipeline](crate::pass::DEFAULT), `fused` is
/// [`Engine::Fused`](crate::Engine::Fused), and `native` [`Engine::Native`](crate::Engine::Native), which is
/// left out where there is no compiler. `compile` calls the program three times as a function that
/// [`compile`](crate::compile()) made, and `pure` one that is [pure](crate::compile::Function::pure).
pub fn engines() -> Vec<Engine> {
    let mut engines = all();
    if crate::Native::shared().check().is_err() {
        engines.retain(|engine| engine.name != "native");
    }
    engines.retain(|engine| engine.name != "best");
    engines
}

/// Returns every engine by name, also those that cannot run here; `best` is [`Engine::Best`](crate::Engine::Best).
pub fn all() -> Vec<Engine> {
    vec![
        Engine::new("eager", |gm| Ok(Some(eager(gm.clone())))),
        Engine::new("interpreted", |gm| {
            let gm = gm.clone();
            Ok(Some(Box::new(move |args| gm.clone().eval().run(args).map(|evaluated| evaluated.output))))
        }),
        Engine::new("passes", |gm| {
            let mut gm = gm.clone();
            Passes::parse(pass::DEFAULT, &pass::all())?.run(&mut gm)?;
            Ok(Some(eager(gm)))
        }),
        Engine::new("fused", |gm| compiled(gm, crate::Engine::Fused).map(Some)),
        Engine::new("native", |gm| compiled(gm, crate::Engine::Native).map(Some)),
        Engine::new("best", |gm| compiled(gm, crate::Engine::Best).map(Some)),
        Engine::new("compile", |gm| Ok(Some(followed(gm, false)))),
        Engine::new("pure", |gm| Ok(Some(followed(gm, true)))),
    ]
}

/// Returns an engine for every pass and every rule by itself. An engine runs the programs that its pass or
/// rule changes. `convert_dtype` has none, since it changes the dtype of results. `stabilize` and its rules have
/// none, since they make finite what PyTorch does not. Fails if a rule cannot be made.
pub fn each_pass() -> Result<Vec<Engine>> {
    let known = pass::all();
    let mut engines = Vec::new();
    for text in crate::fuzz::every_pass() {
        if text == pass::FUNCTIONALIZE.name {
            engines.push(Engine::new(text, functionalized));
        } else if ![pass::CONVERT_DTYPE.name, pass::STABILIZE.name].iter().any(|name| text.contains(name)) {
            let passes = Passes::parse(&text, &known)?;
            engines.push(Engine::after(text, passes));
        }
    }
    let stable = |name: &str| crate::rules::STABLE.iter().any(|row| row.name == name);
    for row in crate::rules::all().filter(|row| !stable(row.name)) {
        let rules = Rules::new([row.rule()?]);
        engines.push(Engine::new(row.name, move |gm| {
            let mut gm = gm.clone();
            let applied = rules.run(&mut gm)?.applied();
            Ok((applied > 0).then(|| eager(gm)))
        }));
    }
    Ok(engines)
}

/// Runs the function that a program is of its state.
fn functionalized(gm: &GraphModule) -> Result<Option<Runner>> {
    let (new, state) = pass::functionalize(gm, true)?;
    Ok(Some(Box::new(move |args| match new.evaluate(&state.arguments(args))? {
        Arg::Tuple(items) if items.len() == 2 => Ok(items[0].clone()),
        other => bail!(Structure, "expected the result and the new state, got {}", other.kind_name()),
    })))
}

/// The outcome for a folder.
#[derive(Debug, Default)]
pub struct Report {
    /// The programs by name.
    pub programs: Vec<Program>,
}

/// The outcome for a program.
#[derive(Debug)]
pub struct Program {
    /// Its name.
    pub name: String,
    /// The outcome for each engine and input set: the greatest error, or why it failed.
    pub runs: Vec<Run>,
    /// Why it could not be read.
    pub problem: Option<String>,
}

/// One run.
#[derive(Debug)]
pub struct Run {
    /// The engine.
    pub engine: String,
    /// The number of the input set.
    pub set: usize,
    /// The greatest absolute error of a float, divided by the greatest magnitude of its tensor; or why it failed.
    pub outcome: std::result::Result<f64, String>,
}

impl Program {
    /// Returns whether everything agreed.
    pub fn passed(&self) -> bool {
        self.problem.is_none() && self.runs.iter().all(|run| run.outcome.is_ok())
    }

    /// Returns the greatest error of all runs.
    pub fn error(&self) -> f64 {
        self.runs.iter().filter_map(|run| run.outcome.as_ref().ok()).copied().fold(0.0, f64::max)
    }
}

impl Report {
    /// Returns how many programs passed.
    pub fn passed(&self) -> usize {
        self.programs.iter().filter(|program| program.passed()).count()
    }

    /// Returns how many programs failed.
    pub fn failed(&self) -> usize {
        self.programs.len() - self.passed()
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let failed = self.runs.iter().find_map(|run| Some((run, run.outcome.as_ref().err()?)));
        match (&self.problem, failed) {
            (Some(problem), _) => write!(f, "{}  failed  {problem}", self.name),
            (None, Some((run, reason))) => {
                write!(f, "{}  failed  {}, input set {}: {reason}", self.name, run.engine, run.set)
            }
            (None, None) => {
                write!(
                    f,
                    "{}  passed  {} runs, greatest error {:.1e}",
                    self.name,
                    self.runs.len(),
                    self.error()
                )
            }
        }
    }
}

/// A line for each program and `N passed, M failed`.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for program in &self.programs {
            writeln!(f, "{program}")?;
        }
        write!(f, "{} passed, {} failed", self.passed(), self.failed())
    }
}

/// Checks every program of a folder on these engines, such as [`engines`] or [`each_pass`]. Fails if the
/// folder cannot be read or has no programs; a program that fails is in the report.
pub fn dir(path: impl AsRef<Path>, engines: &[Engine]) -> Result<Report> {
    dir_with(path, engines, &mut |_, _, _| {})
}

/// As [`dir`]; before each program `progress` is told how many are done, how many there are, and its name.
/// Fails as [`dir`] does.
pub fn dir_with(
    path: impl AsRef<Path>,
    engines: &[Engine],
    progress: &mut dyn FnMut(usize, usize, &str),
) -> Result<Report> {
    let files = files(path.as_ref())?;
    let mut report = Report::default();
    for (i, program) in files.iter().enumerate() {
        progress(i, files.len(), &program.file_stem().unwrap_or_default().to_string_lossy());
        report.programs.push(file(program, engines));
    }
    Ok(report)
}

/// Returns the programs of a folder, by name. Fails if the folder cannot be read or has none.
pub fn files(path: &Path) -> Result<Vec<PathBuf>> {
    let io = |error: std::io::Error| err!(Io, "cannot read {}: {error}", path.display());
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path).map_err(io)? {
        let file = entry.map_err(io)?.path();
        if file.extension().is_some_and(|extension| extension == "pt2") {
            files.push(file);
        }
    }
    if files.is_empty() {
        return Err(err!(Load, "there are no programs in {}", path.display())
            .help("expected NAME.pt2 with NAME.io.safetensors; `tools/export_pt2.py` writes both"));
    }
    files.sort_unstable();
    Ok(files)
}

/// Checks a program on these engines.
pub fn file(path: &Path, engines: &[Engine]) -> Program {
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let mut program = Program { name, runs: Vec::new(), problem: None };
    let opened = guarded(|| {
        let io = Weights::open(path.with_extension("io.safetensors"))?;
        Ok((crate::import::pt2(path)?, io))
    });
    let (gm, io) = match opened {
        Ok(opened) => opened,
        Err(error) => {
            program.problem = Some(error.to_string().replace('\n', " "));
            return program;
        }
    };
    let sets = (0..).take_while(|set| io.contains(&format!("{set}.out0"))).count();
    if sets == 0 {
        program.problem = Some(format!("there is no 0.out0 in {}.io.safetensors", program.name));
        return program;
    }
    for engine in engines {
        let mut enter = |set: usize, outcome: Result<f64>| {
            let outcome = outcome.map_err(|error| error.to_string().replace('\n', " "));
            program.runs.push(Run { engine: engine.name.to_string(), set, outcome });
        };
        match guarded(|| engine.prepare(&gm)) {
            Ok(None) => {}
            Err(error) => enter(0, Err(error)),
            Ok(Some(runner)) => {
                (0..sets).for_each(|set| enter(set, guarded(|| run(&gm, &runner, &io, set))));
            }
        }
    }
    program
}

/// Turns a panic into an error, so that the other programs run.
fn guarded<T>(f: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(f)).unwrap_or_else(|panic| {
        let message =
            panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
        bail!(Check, "panicked: {}", message.unwrap_or("without a message"))
    })
}

fn run(gm: &GraphModule, runner: &Runner, io: &Weights, set: usize) -> Result<f64> {
    agree(&outputs(gm, runner, io, set)?, io, set)
}

/// Runs a program on an input set, and returns the tensors of its result. Fails if the inputs do not fit, or the
/// program fails; the error names the file.
pub(crate) fn outputs(gm: &GraphModule, runner: &Runner, io: &Weights, set: usize) -> Result<Vec<Tensor>> {
    let result = runner(&inputs(gm, io, set)?);
    let result = result.map_err(|error| error.in_file(io.origin(), Some(&format!("input set {set}"))))?;
    Ok(tensors(&result))
}

/// Compares outputs with those of an input set; returns the greatest error relative to the greatest
/// magnitude. Fails if they differ; the error names the file and the tensor.
pub fn agree(got: &[Tensor], io: &Weights, set: usize) -> Result<f64> {
    let mut greatest = 0f64;
    let mut n = 0;
    while let Some(expected) = io.get(&format!("{set}.out{n}"))? {
        let in_file = |error: Error| error.in_file(io.origin(), Some(&format!("{set}.out{n}")));
        let missing = || err!(Check, "expected an output {n}, the program returns {}", got.len());
        let tensor = got.get(n).ok_or_else(missing).map_err(in_file)?;
        greatest = greatest.max(compare(tensor, &expected).map_err(in_file)?);
        n += 1;
    }
    if n != got.len() {
        return Err(err!(Check, "expected {n} outputs, got {}", got.len())
            .in_file(io.origin(), Some(&format!("input set {set}"))));
    }
    Ok(greatest)
}

/// Returns the arguments of a module, filled leaf by leaf from an input set. Fails if a tensor is missing,
/// has another dtype or shape than the program takes, or is one too many; the error names the file and the
/// tensor.
pub fn inputs(gm: &GraphModule, io: &Weights, set: usize) -> Result<Vec<Value>> {
    let graph = gm.graph();
    let mut n = 0;
    let mut args = Vec::new();
    for input in graph.inputs() {
        args.push(input.tree.try_flat_map(&mut |id| {
            let name = format!("{set}.in{n}");
            let tensor = io.require(&name)?;
            n += 1;
            let node = graph.node(*id)?;
            input_value(node, tensor).map_err(|error| error.in_file(io.origin(), Some(&name)))
        })?);
    }
    let next = format!("{set}.in{n}");
    if io.contains(&next) {
        return Err(err!(Structure, "expected {n} tensors, which is what the program takes, got more")
            .in_file(io.origin(), Some(&next)));
    }
    Ok(args)
}

/// Returns a stored tensor as the value of a placeholder.
fn input_value(placeholder: &Node, tensor: Tensor) -> Result<Value> {
    match placeholder.ty() {
        Some(Arg::Leaf(Type::Tensor(ty))) => {
            let array = tensor.array()?;
            let fits = |(dim, size): (&Dim, &usize)| dim.known().is_none_or(|dim| dim == *size as i64);
            if array.dtype() != ty.dtype
                || array.rank() != ty.rank()
                || !ty.shape.iter().zip(array.shape()).all(fits)
            {
                bail!(Shape, "expected {ty} for %{}, got {}", placeholder.name(), array.describe());
            }
            Ok(Arg::Leaf(tensor))
        }
        None | Some(Arg::Leaf(Type::Any)) => Ok(Arg::Leaf(tensor)),
        // A number of the host is stored as a tensor of rank 0.
        Some(_) => Ok(Arg::from(tensor.array()?.item()?)),
    }
}

/// Returns the tensors of a result in order; numbers are tensors of rank 0.
pub fn tensors(value: &Value) -> Vec<Tensor> {
    let mut out = Vec::new();
    value.walk(&mut |part| match part {
        Arg::Leaf(tensor) => out.push(tensor.clone()),
        Arg::Int(n) => out.push(Tensor::new(Array::scalar(*n))),
        Arg::Float(x) => out.push(Tensor::new(Array::scalar(*x))),
        Arg::Bool(x) => out.push(Tensor::new(Array::scalar(*x))),
        _ => {}
    });
    out
}

/// Returns the greatest error relative to the greatest magnitude; floats may be off by [`RTOL`] and [`ATOL`],
/// halves by their last place, others not at all.
fn compare(got: &Tensor, expected: &Tensor) -> Result<f64> {
    let (got, expected) = (got.array()?, expected.array()?);
    let is_float = |dtype: DType| dtype.is_float();
    // A float of the host has no dtype of its own.
    let same = got.dtype() == expected.dtype()
        || (got.rank() == 0 && is_float(got.dtype()) && is_float(expected.dtype()));
    if !same || got.shape() != expected.shape() {
        bail!(Check, "expected {}, got {}", expected.describe(), got.describe());
    }
    if !is_float(expected.dtype()) {
        return match got.bits_eq(expected) {
            true => Ok(0.0),
            false => {
                got.all_close(expected, 0.0, 0.0).map(|()| 0.0).map_err(|mismatch| err!(Check, "{mismatch}"))
            }
        };
    }
    let finite = |x: f64| if x.is_finite() { x.abs() } else { 0.0 };
    // Below the least normal number nothing is left but rounding.
    let least = if expected.dtype() == DType::F64 { f64::MIN_POSITIVE } else { f64::from(f32::MIN_POSITIVE) };
    let scale = expected.iter_scalars().map(|x| finite(x.to_f64())).fold(0.0, f64::max);
    let scale = if scale > 0.0 && scale < least / ATOL { least / ATOL } else { scale };
    let expected =
        if got.dtype() == expected.dtype() { expected.clone() } else { expected.cast(got.dtype()) };
    // A rounding of a half is far coarser than what is allowed for f32.
    let unit = match got.dtype() {
        DType::BF16 => f64::from(2f32.powi(-7)),
        DType::F16 => f64::from(2f32.powi(-10)),
        _ => 0.0,
    };
    got.all_close(&expected, RTOL.max(unit), ATOL.max(unit) * scale)
        .map_err(|mismatch| err!(Check, "{mismatch}"))?;
    let difference = |(a, b): (crate::Scalar, crate::Scalar)| finite(a.to_f64() - b.to_f64());
    let greatest = got.iter_scalars().zip(expected.iter_scalars()).map(difference).fold(0.0, f64::max);
    Ok(if scale > 0.0 { greatest / scale } else { greatest })
}
