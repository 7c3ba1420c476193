//! Tracing with examples: a function is recorded with values at hand, and checked.
//!
//! A plain trace refuses to read a value, and knows sizes only as its input specs say. A trace with examples
//! gives the value of the example, as `torch.jit.trace` does. It then says what the graph froze by that: it
//! records the function again with other numbers, sizes and seeds, and compares graphs and results.
//!
//! `diagnostic` has the kinds of findings, `inspect` the recordings and checks, `sizes` the symbols of the
//! arguments, `inputs` the arguments of checks, `compare` and `structure` what two graphs and one graph show;
//! `module` traces several methods of one module.

mod compare;
mod diagnostic;
mod inputs;
mod inspect;
mod module;
mod report;
mod sizes;
mod structure;
use std::collections::HashMap;
use std::ops::Deref;

pub use diagnostic::{Diagnostic, Finding, Kind, Level, Variation};
pub use module::{ModuleTrace, TracedModule, trace_module};
pub use report::{Check, Outcome, Report, Size};

use crate::trace::{InputSpec, TraceBuilder, Traceable};
use crate::{Arg, DType, Error, GraphModule, Module, Result, SourceLoc, Tree, TypeTree, Value};
use inspect::{Inspection, Options, Subject};
use sizes::Sizes;

/// A graph module that was traced with examples, and the report of the trace. It is used as the graph module.
#[derive(Debug, Clone)]
pub struct Traced {
    /// The graph module.
    pub module: GraphModule,
    /// What the trace found.
    pub report: Report,
}

impl Deref for Traced {
    type Target = GraphModule;
    fn deref(&self) -> &GraphModule {
        &self.module
    }
}

impl From<Traced> for GraphModule {
    fn from(traced: Traced) -> GraphModule {
        traced.module
    }
}

/// Traces a module or closure with an example of its arguments, a tuple, and checks the graph.
///
/// Sizes of the arguments are symbols, as far as the operations allow. [`JitTrace`] has options.
///
/// ```
/// use fx::prelude::*;
///
/// let x = Tensor::new([[1.0f32, -2.0], [3.0, -4.0]]);
/// let traced = fx::jit_trace(|x: &Tensor| x.relu() * 2.0, (x,))?;
/// assert!(traced.graph().to_string().contains("%x: f32[x0, x1]"));
/// assert!(traced.report.is_clean());
/// # Ok::<(), fx::Error>(())
/// ```
///
/// Fails with all denied diagnostics at once, each with the line of the user's program, or if the function
/// fails for the example.
#[track_caller]
pub fn jit_trace<T: Traceable<Marker>, Marker>(function: T, examples: impl Tree) -> Result<Traced> {
    JitTrace::new(function, examples).build()
}

/// A trace with examples to be: give options, then [`build`](JitTrace::build).
#[must_use = "call `build` to trace"]
pub struct JitTrace<T, Marker> {
    trace: TraceBuilder<T, Marker>,
    examples: Vec<Value>,
    specs: Vec<(String, InputSpec)>,
    ranges: Vec<(String, i64, Option<i64>)>,
    levels: HashMap<Kind, Level>,
    options: Options,
}

impl<T: Traceable<Marker>, Marker> JitTrace<T, Marker> {
    /// Prepares a trace of a module or closure with an example of its arguments, a tuple.
    pub fn new(function: T, examples: impl Tree) -> Self {
        let options = Options { check: true, given: Vec::new(), dtypes: Vec::new(), rtol: 1e-5, atol: 1e-8 };
        JitTrace {
            trace: crate::trace(function),
            examples: arguments_of(&examples.to_value()),
            specs: Vec::new(),
            ranges: Vec::new(),
            levels: HashMap::new(),
            options,
        }
    }

    /// Says dtype and sizes of an argument, which otherwise are those of the example with a symbol for each
    /// size: `.input("x", "f32[batch, 3]")`.
    pub fn input(mut self, name: &str, spec: impl Into<InputSpec>) -> Self {
        self.specs.push((name.to_owned(), spec.into()));
        self
    }

    /// Says in which inclusive range a symbol lies: `.dim("batch", 1, Some(64))`.
    pub fn dim(mut self, name: &str, min: i64, max: Option<i64>) -> Self {
        self.ranges.push((name.to_owned(), min, max));
        self
    }

    /// Decides which modules are recorded as one node, as [`TraceBuilder::leaf`] does.
    pub fn leaf(mut self, is_leaf: impl Fn(&dyn Module, &str) -> bool + Send + Sync + 'static) -> Self {
        self.trace = self.trace.leaf(is_leaf);
        self
    }

    /// Checks with these arguments, a tuple, too.
    pub fn check_inputs(mut self, inputs: impl Tree) -> Self {
        self.options.given.push(arguments_of(&inputs.to_value()));
        self
    }

    /// Checks whether the function holds for floats of another dtype.
    pub fn check_dtype(mut self, dtype: DType) -> Self {
        self.options.dtypes.push(dtype);
        self
    }

    /// Leaves the checks out: the function is recorded with the example only.
    pub fn without_checks(mut self) -> Self {
        self.options.check = false;
        self
    }

    /// Says how far results may differ: `|graph - function| <= atol + rtol * |function|`. By default `rtol` is
    /// 1e-5 and `atol` 1e-8.
    pub fn tolerance(mut self, rtol: f64, atol: f64) -> Self {
        (self.options.rtol, self.options.atol) = (rtol, atol);
        self
    }

    /// Leaves diagnostics of a kind out of the table. A size that the code fixed becomes a number of the
    /// signature, so that the graph refuses others.
    pub fn allow(self, kind: Kind) -> Self {
        self.level(kind, Level::Allow)
    }

    /// Reports diagnostics of a kind as warnings; sizes are fixed as by [`allow`](Self::allow).
    pub fn warn(self, kind: Kind) -> Self {
        self.level(kind, Level::Warn)
    }

    /// Lets the trace fail for diagnostics of a kind.
    pub fn deny(self, kind: Kind) -> Self {
        self.level(kind, Level::Deny)
    }

    fn level(mut self, kind: Kind, level: Level) -> Self {
        self.levels.insert(kind, level);
        self
    }

    /// Traces and checks. Fails with all denied diagnostics at once, each with the line of the user's program,
    /// or if the function fails for the example.
    #[track_caller]
    pub fn build(self) -> Result<Traced> {
        let traced = self.inspect()?;
        traced.report.ok()?;
        Ok(traced)
    }

    /// As [`build`](Self::build), but denied diagnostics are in the report only. Fails if the function fails
    /// for the example.
    #[track_caller]
    pub fn inspect(self) -> Result<Traced> {
        let call = SourceLoc::caller();
        self.inspect_at(call.clone()).map_err(|error| error.at(call))
    }

    /// Takes over levels.
    fn levels(mut self, levels: &HashMap<Kind, Level>) -> Self {
        self.levels = levels.clone();
        self
    }

    fn inspect_at(self, call: SourceLoc) -> Result<Traced> {
        let JitTrace { trace, examples, specs, ranges, levels, options } = self;
        let function = trace.function();
        let names: Vec<String> =
            function.arguments().into_iter().map(|argument| argument.name.into_owned()).collect();
        check_names(&names, &specs, examples.len())?;
        let specs = specs
            .into_iter()
            .map(|(name, spec)| match spec.into_type() {
                Ok(ty) => Ok((name, ty)),
                Err(error) => Err(named(&name, &error)),
            })
            .collect::<Result<Vec<(String, TypeTree)>>>()?;
        let sizes = Sizes::new(&names, &examples, &specs, &ranges)?;
        let subject = Subject {
            name: function.name(),
            root: function.root(),
            run: &|args| function.run(args),
            record: &|types, args| trace.record(types, args),
        };
        let mut inspection = Inspection::new(subject, options, examples, sizes, call);
        let module = inspection.run()?;
        let mut diagnostics: Vec<Diagnostic> = inspection
            .found
            .drain(..)
            .map(|found| {
                let kind = found.finding.kind();
                let level = levels.get(&kind).copied().unwrap_or_else(|| kind.default_level());
                Diagnostic { finding: found.finding, level, at: found.at, module: found.module }
            })
            .collect();
        diagnostics.sort_by_key(|found| std::cmp::Reverse(found.level));
        let report = Report {
            name: inspection.name().to_owned(),
            n_nodes: module.graph().len(),
            sizes: inspection.sizes.report(),
            checks: std::mem::take(&mut inspection.checks),
            diagnostics,
        };
        Ok(Traced { module, report })
    }
}

/// Returns the arguments in a tuple; a value that is no tuple is the only argument.
fn arguments_of(value: &Value) -> Vec<Value> {
    match value {
        Arg::Tuple(items) => items.to_vec(),
        other => vec![other.clone()],
    }
}

fn named(name: &str, error: &Error) -> Error {
    let wrapped = Error::new(error.kind(), format!("argument {name:?}: {}", error.message()));
    match error.advice() {
        Some(advice) => wrapped.help(advice),
        None => wrapped,
    }
}

fn check_names(names: &[String], specs: &[(String, InputSpec)], n_examples: usize) -> Result<()> {
    let list = names.join(", ");
    if names.len() != n_examples {
        return Err(crate::err!(
            Argument,
            "the function takes {} arguments, got {n_examples} examples",
            names.len()
        )
        .help(format!("its arguments are ({list}); give the examples as a tuple: `(x,)` for one")));
    }
    for (name, _) in specs {
        if !names.contains(name) {
            return Err(crate::err!(Argument, "the traced function has no argument {name:?}")
                .help(format!("its arguments are {list}")));
        }
    }
    Ok(())
}
