//! The virtual machine: [`Executable`] is the bytecode of a program, [`Machine`] runs it.
//!
//! Registers hold [`Value`]s, numbers among them unboxed. Constants lie in registers from the start of a call.
//! Operations on numbers, text and containers are functions of [`host`](crate::host); tensors go to
//! [`Operators`]. A call that fails undoes what it changed, see [`crate::value::transaction`].

mod code;
mod compile;
mod listing;
mod liveness;
mod profile;
mod run;

use std::collections::HashMap;
use std::sync::Arc;

use fx_core::logging::{self, Stage};
use fx_core::{Result, SourceLoc, err};

use crate::host::Output;
use crate::ir::Program;
use crate::value::{Class, EnumMember, NamedTuple, Value, shown, transaction};

use code::Code;
pub use profile::{LineProfile, Profile};
pub use run::is_instance;

/// The operators on tensors.
pub trait Operators: Send + Sync {
    /// Finds an operator, such as `aten::add.Tensor`, for one place of the code. Fails if there is none.
    fn prepare(&self, name: &str) -> Result<Box<dyn Operator>>;
}

/// An operator at one place of the code, which may remember how it was called before.
pub trait Operator: Send + Sync {
    /// Runs it with the arguments of the schema, in its order; several results are a tuple. Fails if the
    /// arguments do not fit, or memory cannot hold the result.
    fn call(&self, args: &[&Value]) -> Result<Value>;
}

/// No operators on tensors at all.
#[derive(Debug, Default, Clone, Copy)]
pub struct NoOperators;

impl Operators for NoOperators {
    fn prepare(&self, name: &str) -> Result<Box<dyn Operator>> {
        Err(err!(Unresolved, "there is no operator {name}"))
    }
}

/// The classes and constants that a program names.
#[derive(Debug, Default, Clone)]
pub struct Environment {
    /// Classes of objects, by qualified name.
    pub classes: HashMap<Arc<str>, Arc<Class>>,
    /// Named tuples, by qualified name.
    pub named_tuples: HashMap<Arc<str>, Arc<NamedTuple>>,
    /// Members of enumerations, by class and name.
    pub enums: HashMap<(Arc<str>, Arc<str>), Arc<EnumMember>>,
    /// Constants that the archive holds, such as `c0`.
    pub stored: HashMap<Arc<str>, Value>,
}

/// What a call may use up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Instructions.
    pub steps: u64,
    /// Bytes that values hold.
    pub memory: u64,
    /// Calls within calls.
    pub depth: usize,
    /// Bytes of printed text.
    pub output: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { steps: 100_000_000_000, memory: 16 << 30, depth: 128, output: 64 << 20 }
    }
}

/// A program as bytecode.
pub struct Executable {
    functions: Vec<Code>,
    by_name: HashMap<Arc<str>, usize>,
}

impl Executable {
    /// Compiles a program. Operators that do not exist are errors where they run. Fails if a function breaks an
    /// invariant, or names a class or constant that the environment lacks.
    pub fn new(
        program: &Program,
        environment: &Environment,
        operators: &dyn Operators,
    ) -> Result<Executable> {
        let by_name: HashMap<Arc<str>, usize> = program
            .functions()
            .iter()
            .enumerate()
            .map(|(at, function)| (function.name.clone(), at))
            .collect();
        let mut functions = Vec::with_capacity(by_name.len());
        for function in program.functions() {
            let code = compile::compile(function, &by_name, environment, operators)?;
            logging::dump(Stage::Bytecode, &code.name, |_| code.to_string())?;
            functions.push(code);
        }
        Ok(Executable { functions, by_name })
    }

    /// Returns the names of the operators that do not exist, with the place of their first call.
    pub fn missing(&self) -> Vec<(String, Option<SourceLoc>)> {
        let mut missing: Vec<(String, Option<SourceLoc>)> = Vec::new();
        for (name, place) in self.functions.iter().flat_map(Code::missing) {
            if !missing.iter().any(|(other, _)| *other == name) {
                missing.push((name, place));
            }
        }
        missing
    }
}

/// Runs calls.
pub struct Machine<'a> {
    executable: &'a Executable,
    limits: Limits,
    /// The printed text of the calls so far.
    output: Output,
    profile: Option<HashMap<SourceLoc, (u64, f64)>>,
    /// The level at which calls are shown; see [`Stage::Vm`].
    log: u8,
    fuel: i64,
    steps_left: u64,
    depth: usize,
}

impl<'a> Machine<'a> {
    /// Makes a machine.
    pub fn new(executable: &'a Executable, limits: Limits) -> Machine<'a> {
        let output = Output::new(limits.output);
        Machine { executable, limits, output, profile: None, log: 0, fuel: 0, steps_left: 0, depth: 0 }
    }

    /// Counts and times the instructions of each source line.
    pub fn profiled(mut self) -> Machine<'a> {
        self.profile = Some(HashMap::new());
        self
    }

    /// Returns the text that was printed since the last time.
    pub fn take_output(&mut self) -> String {
        self.output.take()
    }

    /// Returns the profile by source line, the longest time first.
    pub fn profile(&self) -> Vec<LineProfile> {
        let lines = self.profile.iter().flatten();
        let mut lines: Vec<LineProfile> = lines
            .map(|(source, &(count, seconds))| LineProfile { source: source.clone(), count, seconds })
            .collect();
        lines.sort_by(|a, b| b.seconds.total_cmp(&a.seconds).then_with(|| a.source.cmp(&b.source)));
        lines
    }

    /// Calls a function by its qualified name. Fails if there is none, if the program raises, if it reaches a
    /// limit, or if `FX_LOG` names an unknown stage; then objects, lists, dictionaries and tensors are as they
    /// were before.
    pub fn call(&mut self, name: &str, args: Vec<Value>) -> Result<Value> {
        let at = self.executable.by_name.get(name).ok_or_else(|| {
            let names: Vec<&str> = self.executable.by_name.keys().map(|name| &**name).take(8).collect();
            err!(Unresolved, "there is no function {name:?}").help(format!("some are {}", names.join(", ")))
        })?;
        (self.steps_left, self.fuel, self.depth) = (self.limits.steps, 0, 0);
        self.log = logging::level(Stage::Vm)?;
        let transaction = transaction::begin(self.limits.memory);
        let value = self.function(*at, args)?;
        transaction.commit();
        Ok(value)
    }

    /// Whether each instruction is timed or shown.
    fn is_observed(&self) -> bool {
        self.profile.is_some() || self.log > 2
    }

    /// Shows a call, if calls of this depth are shown.
    fn show_call(&self, code: &Code, args: &[Value]) {
        if self.log > 1 || (self.log == 1 && self.depth == 0) {
            let args: Vec<String> = args.iter().map(brief).collect();
            logging::write(Stage::Vm, &format!("{}({})", code.name, args.join(", ")), "");
        }
    }

    /// Shows how a call ended, if it was shown.
    fn show_result(&self, code: &Code, result: &Result<Value>) {
        if self.log > 1 || (self.log == 1 && self.depth == 0) {
            let text = match result {
                Ok(value) => format!("returns {}", brief(value)),
                Err(error) => format!("fails: {error}"),
            };
            logging::write(Stage::Vm, &code.name, &text);
        }
    }
}

/// Returns a value in a line: a tensor by its dtype and sizes, all else in at most 80 characters.
fn brief(value: &Value) -> String {
    let text = match value {
        Value::Tensor(tensor) => return format!("{}{:?}", tensor.dtype(), &tensor.shape()[..]),
        Value::Str(text) => format!("{:?}", &***text),
        Value::Object(object) => object.class.name.clone(),
        other => shown(other).unwrap_or_else(|_| other.type_name().to_owned()),
    };
    let line = text.replace('\n', " ");
    match line.char_indices().nth(80) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line,
    }
}
