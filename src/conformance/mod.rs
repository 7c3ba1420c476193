//! Runs operator reference cases, calls of one operator with the outputs that PyTorch returned.
//!
//! A case passes if the kernel gives the expected dtypes, shapes and values, and the shape rule gives the
//! type of the result, also for symbols in place of sizes: equal ones for equal sizes, and one each. There a
//! rule may also say what it needs to know. On engines, the case runs also as a program of one call. A case
//! never ends the run: errors and panics are failures with a reason.
//!
//! Random operators draw what PyTorch's CPU generator draws, from the seed 42 for each case.
//!
//! `names` maps PyTorch's names and calling conventions to rows; `case` reads the cases; `factors` compares
//! results that are not unique.

mod case;
mod factors;
mod names;

use std::fmt;
use std::path::{Path, PathBuf};

use self::case::Case;
use self::factors::Factors;
use crate::check::Engine;
use crate::opcheck::call::{guarded, traced};
use crate::opcheck::rule::{self, Naming, describe};
use crate::{Arg, DType, Error, Generator, Op, Registry, Result, Tensor, Value, err, with_generator};

/// Returns how far a result of this dtype may be off: relative to the expected one, and at least.
///
/// These are the defaults of `torch.testing.assert_close`, but for f32, whose cases were recorded for 1e-4.
pub fn tolerance(dtype: DType) -> (f64, f64) {
    match dtype {
        DType::F64 => (1e-7, 1e-7),
        DType::F32 => (1e-4, 1e-5),
        DType::F16 => (1e-3, 1e-5),
        DType::BF16 => (1.6e-2, 1e-5),
        DType::Bool | DType::U8 | DType::I8 | DType::I32 | DType::I64 => (0.0, 0.0),
    }
}

fn close(got: &Tensor, expected: &Tensor) -> Result<()> {
    let (rtol, atol) = tolerance(expected.dtype()?);
    got.all_close(expected, rtol, atol)
}

/// The seed with which PyTorch drew the random numbers of a case.
pub const SEED: u64 = 42;

/// The outcome of a run, by operator.
#[derive(Debug, Default)]
pub struct Report {
    /// The operators by name.
    pub ops: Vec<OpReport>,
}

/// The outcome of the cases of one operator.
#[derive(Debug)]
pub struct OpReport {
    /// PyTorch's name.
    pub name: String,
    /// How many cases there are.
    pub total: usize,
    /// The failures, in order.
    pub failures: Vec<Failure>,
    /// For how many cases the shape rule does not know the type, although all arguments are known.
    pub untyped: usize,
}

/// A case that failed.
#[derive(Debug)]
pub struct Failure {
    /// The position of the case in its file.
    pub case: usize,
    /// The call, such as `sum(f32[2, 3], dim=1)`.
    pub call: String,
    /// Why it failed.
    pub reason: String,
}

impl Report {
    /// Returns how many cases passed.
    pub fn passed(&self) -> usize {
        self.ops.iter().map(OpReport::passed).sum()
    }

    /// Returns how many cases failed.
    pub fn failed(&self) -> usize {
        self.ops.iter().map(|op| op.failures.len()).sum()
    }
}

impl OpReport {
    /// Returns how many cases passed.
    pub fn passed(&self) -> usize {
        self.total - self.failures.len()
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "case {}: {}: {}", self.case, self.call, self.reason.replace('\n', " "))
    }
}

/// `NAME  passed/total  first failure`.
impl fmt::Display for OpReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}  {}/{}", self.name, self.passed(), self.total)?;
        self.failures.first().map_or(Ok(()), |failure| write!(f, "  {failure}"))
    }
}

/// A line for each operator and `N passed, M failed`, which counts cases.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for op in &self.ops {
            writeln!(f, "{op}")?;
        }
        write!(f, "{} passed, {} failed", self.passed(), self.failed())
    }
}

/// Runs the cases in `dir`, or in its folder `ops`, on the built-in operations.
///
/// `only` restricts the run to these names, PyTorch's or that of a row; one that ends in `*` is a prefix.
/// Nothing stands for all. Fails if the folder cannot be read or has no operator of these names; a case that
/// fails is in the report.
pub fn run(dir: &Path, only: &[&str]) -> Result<Report> {
    run_with(dir, only, &[], &mut |_, _, _| {})
}

/// As [`run`], on these engines too; before each operator `progress` is told how many are done, how many
/// there are, and its name. Fails as [`run`] does.
pub fn run_with(
    dir: &Path,
    only: &[&str],
    engines: &[Engine],
    progress: &mut dyn FnMut(usize, usize, &str),
) -> Result<Report> {
    let registry = crate::registry();
    let mut report = Report::default();
    let mut files = files(dir)?;
    files.retain(|(name, _)| only.is_empty() || only.iter().any(|pattern| matches(pattern, name)));
    for (i, (name, path)) in files.iter().enumerate() {
        progress(i, files.len(), name);
        report.ops.push(run_op(&registry, name, path, engines));
    }
    if report.ops.is_empty() {
        return Err(err!(Argument, "no operator in {} is called {}", dir.display(), only.join(" or "))
            .help("names are those of the files, such as nn.functional.pad.constant; pad* stands for all that begin so"));
    }
    Ok(report)
}

fn matches(pattern: &str, name: &str) -> bool {
    let row = names::stripped(name);
    match pattern.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix) || row.starts_with(prefix),
        None => {
            name == pattern || row == pattern || row.split_once('.').is_some_and(|(base, _)| base == pattern)
        }
    }
}

/// Returns the operators in a folder with the paths of their cases, by name.
fn files(dir: &Path) -> Result<Vec<(String, PathBuf)>> {
    let nested = dir.join("ops");
    let dir = if nested.is_dir() { nested.as_path() } else { dir };
    let io = |error: std::io::Error| err!(Io, "cannot read {}: {error}", dir.display());
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(io)? {
        let path = entry.map_err(io)?.path();
        if path.extension().is_some_and(|extension| extension == "json")
            && let Some(name) = path.file_stem().and_then(|stem| stem.to_str())
        {
            files.push((name.to_owned(), path));
        }
    }
    if files.is_empty() {
        return Err(err!(Load, "there are no operator cases in {}", dir.display())
            .help("expected NAME.json with NAME.safetensors for each operator"));
    }
    files.sort_unstable();
    Ok(files)
}

fn run_op(registry: &Registry, name: &str, path: &Path, engines: &[Engine]) -> OpReport {
    let mut report = OpReport { name: name.to_owned(), total: 0, failures: Vec::new(), untyped: 0 };
    let fail = |case, call: &str, reason: String| Failure { case, call: call.to_owned(), reason };
    let cases = match case::read(path) {
        Ok(cases) => cases,
        Err(error) => {
            report.total = 1;
            report.failures.push(fail(0, name, error.to_string()));
            return report;
        }
    };
    report.total = cases.len();
    for (i, case) in cases.into_iter().enumerate() {
        let (call, outcome) = match case {
            Err(error) => (name.to_owned(), Err(error)),
            Ok(case) => {
                let op = names::find_for(registry, name, case.args.len() + case.kwargs.len());
                (case.call(name), guarded(|| run_case(op?, name, &case, engines)))
            }
        };
        match outcome {
            Ok(typed) => report.untyped += usize::from(!typed),
            Err(error) => report.failures.push(fail(i, &call, error.to_string())),
        }
    }
    report
}

/// Runs a case; returns whether the shape rule knew the type.
fn run_case(op: Op, name: &str, case: &Case, engines: &[Engine]) -> Result<bool> {
    let op = names::chosen(op, name, &case.kwargs);
    let (args, kwargs) = names::adapt(&op, name, &case.args, &case.kwargs);
    let args = op.bind(&args, &kwargs)?;
    let value = with_generator(&Generator::pytorch(SEED), || (op.eval)(&args))?;
    if let Some(error) = value.error() {
        return Err(error.clone());
    }
    compare_result(name, &value, &case.out)?;
    run_on(engines, op, name, &args, &case.out)?;
    let types = rule::types(&args)?;
    let typed = rule::check(&op, &types, &value);
    let symbolic = |naming| rule::check_symbolic(op, &types, &value, naming);
    typed
        .and_then(|typed| Naming::ALL.into_iter().try_for_each(symbolic).map(|()| typed))
        .map_err(|error| err!(Check, "shape rule: {}", error.message()))
}

/// Runs a call as a program on engines.
fn run_on(engines: &[Engine], op: Op, name: &str, args: &[Value], expected: &Value) -> Result<()> {
    if engines.is_empty() {
        return Ok(());
    }
    let (gm, tensors) = traced(op, args)?;
    for engine in engines {
        let run = || {
            let Some(program) = engine.prepare(&gm)? else { return Ok(()) };
            let call = || program(std::slice::from_ref(&tensors));
            compare_result(name, &with_generator(&Generator::pytorch(SEED), call)?, expected)
        };
        guarded(run).map_err(|error| err!(Check, "{}: {}", engine.name(), error.message()))?;
    }
    Ok(())
}

/// Compares the result of an operator of PyTorch's name with the expected one.
fn compare_result(name: &str, got: &Value, expected: &Value) -> Result<()> {
    match Factors::of(name) {
        Some(factors) => factors.compare(got, expected),
        None => compare(got, expected, ""),
    }
}

/// Compares a result with the expected one; `path` says where in it, such as `[1]`.
fn compare(got: &Value, expected: &Value, path: &str) -> Result<()> {
    let here = |error: Error| match path {
        "" => error,
        _ => err!(Check, "output{path}: {}", error.message()),
    };
    match (got, expected) {
        (Arg::Leaf(got), Arg::Leaf(expected)) => close(got, expected).map_err(here),
        // What is a host number in PyTorch may be a tensor of rank 0 here: a trace has to go on with it.
        (Arg::Leaf(got), Arg::Bool(x)) => close(got, &Tensor::new(*x)).map_err(here),
        (Arg::Leaf(got), Arg::Int(x)) => close(got, &Tensor::new(*x)).map_err(here),
        (Arg::Tuple(got) | Arg::List(got), Arg::Tuple(expected) | Arg::List(expected))
            if got.len() == expected.len() =>
        {
            let mut pairs = got.iter().zip(expected.iter()).enumerate();
            pairs.try_for_each(|(i, (got, expected))| compare(got, expected, &format!("{path}[{i}]")))
        }
        (Arg::None, Arg::None) => Ok(()),
        _ if got.scalar().is_some() && got.scalar() == expected.scalar() => Ok(()),
        _ => Err(here(err!(Check, "expected {}, got {}", describe(expected), describe(got)))),
    }
}
