//! [`TorchScript`]: how to turn a program into a graph module, and what comes of it.

use std::fmt;
use std::path::{Path, PathBuf};

use fx_core::InputSpec;
use fx_script::load::{Program, Session};
use fx_script::value::Value;

use super::lower::{self, Request};
use super::{methods, torchscript, torchscript_from_bytes};
use crate::script::AtenOperators;
use crate::{GraphModule, Registry, Result, SourceLoc, err};

/// How to turn a program that `torch.jit.save` wrote into a graph module.
///
/// TorchScript does not say dtypes and sizes of tensors, a graph does: give them with
/// [`input`](TorchScript::input), or with the arguments of a call ([`args`](TorchScript::args)). Tests of dtypes,
/// ranks and sizes, of `None` and of `training`, are then decided, functions and methods are inlined, lists,
/// dictionaries and objects are taken apart, and writes to tensors become values.
///
/// [`and_method`](TorchScript::and_method) lowers further methods into the same graph module.
///
/// ```no_run
/// let lowered = fx::import::TorchScript::new("resnet.pt").input("x", "f32[n, 3, h, w]").load()?;
/// println!("{}", lowered.report());
/// let gm = lowered.module()?;
/// # Ok::<(), fx::Error>(())
/// ```
#[must_use = "call `load` to read the program"]
pub struct TorchScript {
    source: Source,
    registry: Option<Registry>,
    /// What is lowered: the first is the graph of the module, the others are its methods.
    requests: Vec<Request>,
    unroll: Option<usize>,
    hierarchy: bool,
}

enum Source {
    File(PathBuf),
    Bytes(Vec<u8>),
    Program(Box<Program>),
}

impl TorchScript {
    /// Reads from a file.
    pub fn new(path: impl AsRef<Path>) -> TorchScript {
        TorchScript::from(Source::File(path.as_ref().to_owned()))
    }

    /// Reads an archive that is in memory.
    pub fn from_bytes(bytes: impl Into<Vec<u8>>) -> TorchScript {
        TorchScript::from(Source::Bytes(bytes.into()))
    }

    /// Takes a program that was read before.
    pub fn from_program(program: Program) -> TorchScript {
        TorchScript::from(Source::Program(Box::new(program)))
    }

    /// Uses these operations instead of fx's own: `fx::registry().with(MINE)?`.
    pub fn registry(mut self, registry: &Registry) -> TorchScript {
        self.registry = Some(registry.clone());
        self
    }

    /// Lowers this method of the top module, instead of `forward`; `encoder.0.forward` is one of the module at
    /// `encoder.0`.
    pub fn method(mut self, name: impl Into<String>) -> TorchScript {
        self.request().method = name.into();
        self
    }

    /// Lowers a further method, which the graph module has as [`method`](GraphModule::method) of this name. What
    /// follows, such as [`input`](TorchScript::input), is said of its arguments. The methods share parameters,
    /// buffers and sub-modules.
    ///
    /// ```no_run
    /// let gm = fx::import::TorchScript::new("autoencoder.pt")
    ///     .input("x", "f32[n, 784]")
    ///     .and_method("encode")
    ///     .input("x", "f32[n, 784]")
    ///     .and_method("decode")
    ///     .input("z", "f32[n, 32]")
    ///     .load()?
    ///     .into_module()?;
    /// let z = gm.method("encode")?.call(&[fx::zeros([3, 784])])?;
    /// # Ok::<(), fx::Error>(())
    /// ```
    pub fn and_method(mut self, name: impl Into<String>) -> TorchScript {
        self.requests.push(Request { method: name.into(), ..Request::default() });
        self
    }

    /// Keeps the hierarchy of modules where it can: a module whose nodes stand together becomes a graph module
    /// of its own, which one node calls. The report says which modules stay in line, and why.
    pub fn hierarchy(mut self, keep: bool) -> TorchScript {
        self.hierarchy = keep;
        self
    }

    fn request(&mut self) -> &mut Request {
        self.requests.last_mut().expect("there is one from the start")
    }

    /// Says dtype and sizes of an argument, with a name for each size that calls choose:
    /// `.input("x", "f32[n, 3, h, w]")`.
    pub fn input(mut self, name: &str, spec: impl Into<InputSpec>) -> TorchScript {
        self.request().inputs.push((name.to_owned(), lower::Given::Spec(spec.into())));
        self
    }

    /// Fixes an argument to a value, such as a number, a flag, text or `None`. The graph checks on each call that
    /// the argument equals it.
    pub fn constant(mut self, name: &str, value: impl Into<Value>) -> TorchScript {
        self.request().inputs.push((name.to_owned(), lower::Given::Value(value.into())));
        self
    }

    /// Types the arguments by those of a call: tensors have the dtypes and sizes of these, everything else is
    /// fixed to its value.
    pub fn args(mut self, args: &[Value]) -> TorchScript {
        self.request().args = args.to_vec();
        self
    }

    /// Writes loops with at most this many rounds out; 4096 if it is not said.
    pub fn unroll(mut self, rounds: usize) -> TorchScript {
        self.unroll = Some(rounds);
        self
    }

    /// Reads the program and lowers the methods.
    ///
    /// Fails if the archive cannot be read, its code has errors, there is no such method, two methods have one
    /// name, or the inputs do not fit the parameters. A program that is right but cannot be a graph is no
    /// failure: the report of [`Lowered`] says what keeps it from that.
    pub fn load(self) -> Result<Lowered> {
        let mut requests = self.requests;
        for (at, request) in requests.iter_mut().enumerate() {
            request.unroll = self.unroll.unwrap_or(request.unroll);
            if at > 0 && request.method.contains('.') {
                let whole = &request.method;
                return Err(err!(Argument, "{whole:?} is a method of a sub-module, and no further method")
                    .help("lower it alone, with `TorchScript::method`"));
            }
        }
        for (at, request) in requests.iter().enumerate() {
            if requests[..at].iter().any(|earlier| earlier.method == request.method) {
                return Err(err!(Argument, "the method {:?} is given twice", request.method));
            }
        }
        let program = match self.source {
            Source::File(path) => torchscript(path)?,
            Source::Bytes(bytes) => torchscript_from_bytes(bytes)?,
            Source::Program(program) => *program,
        };
        let registry = self.registry.unwrap_or_else(crate::registry);
        if program.pending.is_empty() {
            return methods::lower_all(&program, &requests, &registry, self.hierarchy);
        }
        // Objects that restore themselves do so when the program is compiled.
        let operators = AtenOperators::new(registry.clone());
        let session = Session::new(program, &operators)?;
        methods::lower_all(session.program(), &requests, &registry, self.hierarchy)
    }
}

impl From<Source> for TorchScript {
    fn from(source: Source) -> TorchScript {
        let requests = vec![Request::default()];
        TorchScript { source, registry: None, requests, unroll: None, hierarchy: false }
    }
}

/// What came of lowering a method.
#[derive(Debug)]
pub struct Lowered {
    pub(super) module: Option<GraphModule>,
    pub(super) report: LoweringReport,
    /// The reports of further methods.
    pub(super) further: Vec<LoweringReport>,
}

impl Lowered {
    /// Returns the graph module. Fails with the report if a method is not lowered.
    pub fn module(&self) -> Result<&GraphModule> {
        self.check()?;
        self.module.as_ref().ok_or_else(|| self.report.to_error())
    }

    /// Returns the graph module. Fails with the report if a method is not lowered.
    pub fn into_module(self) -> Result<GraphModule> {
        self.check()?;
        match self.module {
            Some(module) => Ok(module),
            None => Err(self.report.to_error()),
        }
    }

    /// Returns the graph module without the methods that are not lowered; `None` if the first method is not.
    pub fn into_partial(self) -> Option<GraphModule> {
        self.module
    }

    /// Returns what was found on the way, of the first method.
    pub fn report(&self) -> &LoweringReport {
        &self.report
    }

    /// Returns what was found on the way, for each method in the order in which they were given.
    pub fn reports(&self) -> impl Iterator<Item = &LoweringReport> {
        std::iter::once(&self.report).chain(&self.further)
    }

    fn check(&self) -> Result<()> {
        let mut errors: Vec<_> =
            self.reports().filter(|report| !report.is_complete()).map(LoweringReport::to_error).collect();
        match errors.len() {
            0 => Ok(()),
            1 => Err(errors.remove(0)),
            _ => Err(crate::Error::many(errors)),
        }
    }
}

/// What was found while a method was lowered.
#[derive(Debug, Clone, Default)]
pub struct LoweringReport {
    /// The qualified name of the method.
    pub method: String,
    /// What keeps the method from being a graph; empty if it is lowered.
    pub obstacles: Vec<Obstacle>,
    /// The arguments that are fixed to a value, by name.
    pub fixed: Vec<String>,
    /// The arguments to whose tensors the program writes. The graph returns the pair of the result and of what
    /// these are after the call, in this order.
    pub written_inputs: Vec<String>,
    /// The modules that are no graph modules of their own, and why, if the hierarchy was to be kept.
    pub inline: Vec<String>,
}

/// A line that keeps a method from being a graph.
#[derive(Debug, Clone)]
pub struct Obstacle {
    /// The line: that of the user's Python if the archive knows it, else of the archive's code.
    pub source: Option<SourceLoc>,
    /// What cannot be in a graph, and why.
    pub reason: String,
    /// The two names that stand for one thing, where that is the reason.
    pub names: Option<(String, String)>,
    /// What can be done.
    pub help: Option<String>,
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(source) = &self.source {
            write!(f, "{source}: ")?;
        }
        f.write_str(&self.reason)?;
        if let Some((first, second)) = &self.names {
            write!(f, ": {first} and {second} may be one")?;
        }
        Ok(())
    }
}

impl LoweringReport {
    /// Returns whether the method is a graph.
    pub fn is_complete(&self) -> bool {
        self.obstacles.is_empty()
    }

    fn to_error(&self) -> crate::Error {
        let obstacles: Vec<String> = self.obstacles.iter().map(ToString::to_string).collect();
        let error = err!(Unresolved, "{} cannot be a graph: {}", self.method, obstacles.join("; "));
        let help = self.obstacles.iter().find_map(|obstacle| obstacle.help.clone());
        error.help(help.unwrap_or_else(|| "run it with `fx::torchscript::load::Session`".to_owned()))
    }
}

/// Prints a line that says whether the method is lowered, and a line for each obstacle and note.
impl fmt::Display for LoweringReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let outcome = if self.is_complete() { "lowered" } else { "not lowered" };
        write!(f, "{}: {outcome}", self.method)?;
        for obstacle in &self.obstacles {
            write!(f, "\n  {obstacle}")?;
            if let Some(help) = &obstacle.help {
                write!(f, "\n    help: {help}")?;
            }
        }
        if !self.fixed.is_empty() {
            write!(f, "\n  fixed arguments: {}", self.fixed.join(", "))?;
        }
        if !self.written_inputs.is_empty() {
            write!(f, "\n  written arguments: {}", self.written_inputs.join(", "))?;
        }
        for note in &self.inline {
            write!(f, "\n  {note}")?;
        }
        Ok(())
    }
}
