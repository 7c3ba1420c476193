//! Random programs: the machine beside Python and PyTorch, and programs beside what their printed texts mean.
//!
//! [`Case::new`] makes the program of a seed as a text. [`Case::outcome`] runs it, and checks on the way that its
//! texts mean the same: the tree after printing and parsing, the intermediate representation after printing and
//! parsing. [`run`] also compares it with a [`Reference`], and makes failing programs smaller.

mod generate;
pub mod mutate;
mod outcome;
mod reference;
mod shrink;

use fx_core::{Result, bail};

pub use generate::{Dialect, Line};
pub use outcome::outcome;
pub use reference::Reference;

use crate::emit::Unit;
use crate::ir;
use crate::load::{Definitions, Runtime};
use crate::source::Source;
use crate::vm::{Environment, Executable, Limits, Machine, Operators};
use crate::{parse, print};

/// The module of random programs.
const MODULE: &str = "__torch__";

/// The function that returns arguments for `main`, in programs whose `main` takes no objects.
pub const ARGUMENTS: &str = "arguments";

/// A random program.
#[derive(Debug, Clone)]
pub struct Case {
    /// The language that it belongs to.
    pub dialect: Dialect,
    /// The definitions; the function `run` has no parameters.
    pub program: Vec<Line>,
}

impl Case {
    /// Makes the program of a seed.
    pub fn new(seed: u64, dialect: Dialect) -> Case {
        Case { dialect, program: generate::program(seed, dialect) }
    }

    /// Returns the program as text.
    pub fn text(&self) -> String {
        generate::text(&self.program)
    }

    /// Compiles the program. Fails with the errors of the text.
    pub fn compile(text: &str) -> Result<(ir::Program, Environment)> {
        let source = Source::new("program.py", text);
        let mut unit = Unit::default();
        unit.add(MODULE, &parse::file(&source)?)?;
        unit.resolve()?;
        let program = unit.emit_all()?;
        let runtime = Runtime::of(&Definitions::of(&unit, &[])?);
        let environment = Environment {
            classes: runtime.classes,
            named_tuples: runtime.named_tuples,
            enums: runtime.enums,
            ..Environment::default()
        };
        Ok((program, environment))
    }

    /// Runs the program and returns its outcome as text: its result with all bits and what it printed, or that it
    /// raised.
    ///
    /// Fails if the program does not compile, reaches a limit, or printing and parsing changes what it means.
    pub fn outcome(&self, operators: &dyn Operators) -> Result<String> {
        let text = self.text();
        let (program, environment) = Case::compile(&text)?;
        let run = |program: &ir::Program, environment: &Environment| -> Result<String> {
            let executable = Executable::new(program, environment, operators)?;
            let limits = Limits { steps: 50_000_000, memory: 1 << 30, output: 1 << 20, ..Limits::default() };
            let mut machine = Machine::new(&executable, limits);
            let result = machine.call(&format!("{MODULE}.run"), Vec::new());
            if let Err(error) = &result
                && error.kind() == fx_core::ErrorKind::Limit
            {
                return Err(error.clone());
            }
            outcome(result, &machine.take_output())
        };
        let first = run(&program, &environment)?;
        let printed = program.to_string();
        let parsed = ir::parse(&printed)?;
        if parsed != program {
            bail!(Check, "parsing the printed program gives another one:\n{printed}\nbecomes\n{parsed}");
        }
        let canonical = print::file(&parse::file(&Source::new("program.py", text))?);
        let again = print::file(&parse::file(&Source::new("program.py", canonical.clone()))?);
        if again != canonical {
            bail!(Check, "printing is not stable:\n{canonical}\nbecomes\n{again}");
        }
        let (program, environment) = Case::compile(&canonical)?;
        let second = run(&program, &environment)?;
        if first != second {
            bail!(Check, "the printed text does something else: {first} becomes {second}\n{canonical}");
        }
        Ok(first)
    }

    /// Returns a smaller program for which `fails` is still true.
    pub fn shrink(&self, fails: &mut dyn FnMut(&Case) -> bool) -> Case {
        let of = |program: &[Line]| Case { dialect: self.dialect, program: program.to_vec() };
        let program = shrink::shrink(self.program.clone(), &mut |program| fails(&of(program)));
        of(&program)
    }
}

/// How many failures are shrunk and kept.
const MOST_FAILURES: usize = 8;

/// Which programs are made, and what runs them beside fx.
#[derive(Debug, Clone)]
pub struct Config {
    /// The first seed.
    pub seed: u64,
    /// How many programs.
    pub count: u64,
    /// Their language.
    pub dialect: Dialect,
    /// An interpreter of Python; without one, programs are only compared with their printed texts.
    pub python: Option<String>,
}

/// A law that every program must keep: it gets the program and its outcome on the machine.
pub type Law<'a> = &'a mut dyn FnMut(&Case, &str) -> Result<()>;

/// The counts of a run, and its failures.
#[derive(Debug, Clone, Default)]
pub struct Summary {
    /// How many programs there were.
    pub programs: u64,
    /// How many of them raised.
    pub raised: u64,
    /// How many the reference did not take, which are not compared with it.
    pub refused: u64,
    /// Programs that need more memory or steps than they may take.
    pub limited: u64,
    /// The failures, shrunk; of failures with the same words the first.
    pub failures: Vec<Failure>,
}

/// A program that breaks a law.
#[derive(Debug, Clone)]
pub struct Failure {
    /// The seed.
    pub seed: u64,
    /// What is wrong.
    pub problem: String,
    /// The smallest program that was found to fail, as text.
    pub text: String,
}

impl std::fmt::Display for Summary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Summary { programs, raised, refused, limited, .. } = self;
        writeln!(f, "{programs} programs, {raised} raise, {refused} are refused, {limited} reach a limit")?;
        for failure in &self.failures {
            writeln!(f, "FAILED seed {}: {}\n{}", failure.seed, failure.problem, failure.text)?;
        }
        write!(f, "{} failures", self.failures.len())
    }
}

/// Runs random programs and compares their outcomes. `law` is checked, too; `done` hears how many are done.
///
/// Fails if the interpreter of Python does not start or ends.
pub fn run(config: &Config, operators: &dyn Operators, law: Law<'_>, done: &dyn Fn(u64)) -> Result<Summary> {
    let start = |python: &String| Reference::start(python, config.dialect);
    let mut reference = config.python.as_ref().map(start).transpose()?;
    let mut summary = Summary::default();
    let mut kinds = std::collections::BTreeSet::new();
    for n in 0..config.count {
        let seed = config.seed + n;
        let case = Case::new(seed, config.dialect);
        summary.programs += 1;
        let first = match problem(&case, operators, &mut reference, law)? {
            Verdict::Kept { raised } => {
                summary.raised += u64::from(raised);
                None
            }
            Verdict::Refused => {
                summary.refused += 1;
                None
            }
            Verdict::Limited => {
                summary.limited += 1;
                None
            }
            Verdict::Broken(problem) => Some(problem),
        };
        if let Some(first) = first
            && kinds.insert(kind(&first))
        {
            let mut broken = |case: &Case| match problem(case, operators, &mut reference, law) {
                Ok(Verdict::Broken(why)) => (kind(&why) == kind(&first)).then_some(why),
                _ => None,
            };
            let small = case.shrink(&mut |case| broken(case).is_some());
            let problem = broken(&small).unwrap_or_else(|| first.clone());
            summary.failures.push(Failure { seed, problem, text: small.text() });
            if summary.failures.len() == MOST_FAILURES {
                break;
            }
        }
        done(n + 1);
    }
    Ok(summary)
}

/// What a program is found to be.
enum Verdict {
    Kept {
        raised: bool,
    },
    Refused,
    /// It needs more memory or steps than it may take.
    Limited,
    Broken(String),
}

/// Checks a program. Fails if the process of the reference has ended.
fn problem(
    case: &Case,
    operators: &dyn Operators,
    reference: &mut Option<Reference>,
    law: Law<'_>,
) -> Result<Verdict> {
    let expected = match reference {
        Some(reference) => Some(reference.run(&case.text())?),
        None => None,
    };
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let got = case.outcome(operators)?;
        law(case, &got).map(|()| got)
    }));
    let refused = expected.as_ref().is_some_and(|text| text.starts_with("refused "));
    Ok(match (outcome, expected) {
        (Err(panic), _) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
            Verdict::Broken(format!("panicked: {text}"))
        }
        (Ok(_), _) if refused => Verdict::Refused,
        (Ok(Err(error)), _) if error.kind() == fx_core::ErrorKind::Limit => Verdict::Limited,
        (Ok(Err(error)), _) => Verdict::Broken(error.to_string()),
        (Ok(Ok(got)), Some(expected)) if got != expected => {
            Verdict::Broken(format!("expected {expected}, got {got}"))
        }
        (Ok(Ok(got)), _) => Verdict::Kept { raised: got.starts_with("raised") },
    })
}

/// Returns the words of a problem without names and numbers.
fn kind(problem: &str) -> String {
    let line = problem.lines().nth(usize::from(problem.contains(" errors\n"))).unwrap_or_default();
    let plain = line.split('\'').step_by(2).collect::<String>();
    plain.split(' ').filter(|word| word.chars().all(char::is_alphabetic)).take(4).collect()
}
