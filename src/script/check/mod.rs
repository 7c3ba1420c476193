//! TorchScript programs beside PyTorch: every `NAME.pt` of a folder with the calls of its `NAME.json`.

pub(crate) mod case;
mod graph;

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use fx_script::load::{Program, Session};
use fx_script::source::Source;

use self::case::Case;
pub(crate) use self::graph::declared;
use self::graph::{Graphs, Unlowered};
use super::{AtenOperators, Script};
use crate::{Engine, Error, GraphModule, Registry, Result, bail, err};

/// The outcome for a folder.
#[derive(Debug, Default)]
pub struct Report {
    /// The programs by name.
    pub programs: Vec<Checked>,
}

/// The outcome for a program.
#[derive(Debug)]
pub struct Checked {
    /// Its name.
    pub name: String,
    /// How it was run, and why a way failed.
    pub runs: Vec<(Way, Result<(), String>)>,
    /// What keeps it from being a graph, which is no failure.
    pub unlowered: Option<String>,
}

/// A way to run a program of TorchScript.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// The archive is read; nothing runs. Archives that are damaged must be refused.
    Read,
    /// The virtual machine runs the archive.
    Machine,
    /// The virtual machine runs the text that the archive was made from.
    Text,
    /// The methods are graphs.
    Graph(Runtime),
}

/// What runs graphs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Runtime {
    /// An engine.
    Engine(Engine),
    /// A function that [`compile`](crate::compile()) made of the graph.
    Compile,
    /// Such a function that is [pure](crate::compile::Function::pure).
    Pure,
}

impl From<Engine> for Runtime {
    fn from(engine: Engine) -> Runtime {
        Runtime::Engine(engine)
    }
}

/// Reads `compile`, `pure`, or the name of an engine. Fails for other names.
impl FromStr for Runtime {
    type Err = Error;
    fn from_str(name: &str) -> Result<Runtime> {
        match name {
            "compile" => Ok(Runtime::Compile),
            "pure" => Ok(Runtime::Pure),
            name => name.parse().map(Runtime::Engine),
        }
    }
}

impl fmt::Display for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Runtime::Engine(engine) => engine.name(),
            Runtime::Compile => "compile",
            Runtime::Pure => "pure",
        })
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Way::Read => f.write_str("read"),
            Way::Machine => f.write_str("vm"),
            Way::Text => f.write_str("text"),
            Way::Graph(runtime) => runtime.fmt(f),
        }
    }
}

impl Checked {
    /// Returns whether every way gives PyTorch's results.
    pub fn passed(&self) -> bool {
        self.runs.iter().all(|(_, outcome)| outcome.is_ok())
    }
}

impl Report {
    /// Returns how many programs pass.
    pub fn passed(&self) -> usize {
        self.programs.iter().filter(|program| program.passed()).count()
    }

    /// Returns how many programs fail.
    pub fn failed(&self) -> usize {
        self.programs.len() - self.passed()
    }
}

/// `NAME  ok: vm, text`, or what failed.
impl fmt::Display for Checked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.name)?;
        let ways: Vec<String> =
            self.runs.iter().filter(|(_, outcome)| outcome.is_ok()).map(|(way, _)| way.to_string()).collect();
        if !ways.is_empty() {
            write!(f, "  ok: {}", ways.join(", "))?;
        }
        for (way, outcome) in &self.runs {
            if let Err(problem) = outcome {
                write!(f, "  {way}: {}", problem.replace('\n', " "))?;
            }
        }
        match &self.unlowered {
            Some(reason) => write!(f, "  not lowered: {}", reason.replace('\n', " ")),
            None => Ok(()),
        }
    }
}

/// A line for each program, how many each way runs, and `N passed, M failed`.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for program in &self.programs {
            writeln!(f, "{program}")?;
        }
        let mut counts: Vec<(Way, usize, usize)> = Vec::new();
        for (way, outcome) in self.programs.iter().flat_map(|program| &program.runs) {
            let at = counts.iter().position(|(other, ..)| other == way).unwrap_or(counts.len());
            if at == counts.len() {
                counts.push((*way, 0, 0));
            }
            counts[at].1 += usize::from(outcome.is_ok());
            counts[at].2 += 1;
        }
        for (way, passed, all) in counts {
            writeln!(f, "{way}: {passed} of {all}")?;
        }
        let unlowered = self.programs.iter().filter(|program| program.unlowered.is_some()).count();
        writeln!(f, "not lowered: {unlowered}")?;
        write!(f, "{} passed, {} failed", self.passed(), self.failed())
    }
}

/// Checks all cases of a folder; before each, `progress` is told how many are done, how many there are, and its
/// name. Fails if the folder cannot be read; a case that fails is in the report.
pub fn check_folder(
    folder: impl AsRef<Path>,
    runtimes: &[Runtime],
    progress: &mut dyn FnMut(usize, usize, &str),
) -> Result<Report> {
    let registry = crate::registry();
    let cases = cases(folder)?;
    let mut report = Report::default();
    for (at, case) in cases.iter().enumerate() {
        progress(at, cases.len(), &case.file_stem().unwrap_or_default().to_string_lossy());
        report.programs.push(check_case(case, runtimes, &registry));
    }
    Ok(report)
}

/// Returns the cases of a folder, by name. Fails if the folder cannot be read.
pub fn cases(folder: impl AsRef<Path>) -> Result<Vec<PathBuf>> {
    let folder = folder.as_ref();
    let io = |error: std::io::Error| err!(Io, "cannot read {}: {error}", folder.display());
    let mut cases = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(io)? {
        let path = entry.map_err(io)?.path();
        if path.extension().is_some_and(|extension| extension == "json") && path.with_extension("pt").exists()
        {
            cases.push(path);
        }
    }
    cases.sort_unstable();
    Ok(cases)
}

/// Checks the case of a file `NAME.json`: in the virtual machine, as the text that it was made from, and as
/// graphs where it can be lowered. Failures are in what is returned.
pub fn check_case(json: impl AsRef<Path>, runtimes: &[Runtime], registry: &Registry) -> Checked {
    let path = json.as_ref();
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let mut checked = Checked { name, runs: Vec::new(), unlowered: None };
    let mut enter = |way: Way, outcome: Result<()>| {
        checked.runs.push((way, outcome.map_err(|error| error.to_string())));
    };
    let operators = AtenOperators::new(registry.clone());
    let opened = Case::open(path);
    let case = match opened {
        Ok(case) => case,
        Err(error) => {
            enter(Way::Read, Err(error));
            return checked;
        }
    };
    let load = || Session::new(crate::import::torchscript(case.archive())?, &operators);
    if case.must_refuse() {
        enter(Way::Read, refused(load()));
        return checked;
    }
    let program: Program = match crate::import::torchscript(case.archive()) {
        Ok(program) => program,
        Err(error) => {
            enter(Way::Read, Err(error));
            return checked;
        }
    };
    enter(Way::Machine, case.check(&program, &load));
    if let Some(text) = case.source() {
        let source = Source::new(format!("{}, source", path.display()), text);
        let script = || Script::new(&source, registry.clone());
        enter(Way::Text, case.check(&program, &script));
    }
    let unlowered = Unlowered::default();
    let read = || crate::import::torchscript(case.archive());
    for &runtime in runtimes {
        let outcome = case.check(&program, &|| Ok(Graphs::new(&read, runtime, &unlowered, &|_, _| {})));
        checked.unlowered = unlowered.take();
        if checked.unlowered.is_some() {
            break;
        }
        checked.runs.push((Way::Graph(runtime), outcome.map_err(|error| error.to_string())));
    }
    checked
}

/// Makes the calls of a case as graphs, and shows each graph with the arguments of its call. Fails if the case
/// cannot be read, is no graph, or gives other results than PyTorch.
#[doc(hidden)]
pub fn graphs(json: impl AsRef<Path>, made: &dyn Fn(&GraphModule, &[crate::Value])) -> Result<()> {
    let case = Case::open(json.as_ref())?;
    let read = || crate::import::torchscript(case.archive());
    let unlowered = Unlowered::default();
    case.check(&read()?, &|| Ok(Graphs::new(&read, Engine::Eager.into(), &unlowered, made)))
}

fn refused(outcome: Result<Session>) -> Result<()> {
    match outcome {
        Err(_) => Ok(()),
        Ok(_) => bail!(Check, "the archive must be refused, and was read"),
    }
}
