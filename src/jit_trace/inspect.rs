//! The inspection: records the function with the example, then with other arguments, and compares.
//!
//! Two recordings are the same if their graphs compute the same. If they differ, and Rust code had read other
//! values in the second, the diagnostics of these reads explain the difference; otherwise the difference is
//! a diagnostic itself. Every run begins with the same seed and the buffers as they were.

use super::diagnostic::{Finding, Variation};
use super::report::{Check, Outcome};
use super::sizes::{Sizes, place_of};
use super::{compare, inputs, structure};
use crate::graph_diff::Change;
use crate::module::collect_buffers;
use crate::rng::{Generator, with_generator};
use crate::trace::{Observations, Read, ReadKind, Recording, without_tracing};
use crate::{
    Attribute, Buffer, DType, GraphModule, Module, Result, SourceLoc, Symbol, Tensor, TypeTree, Value, err,
};

/// The seed of all runs, and that of the run with another seed.
const SEEDS: [u64; 2] = [0x5eed, 0x07e5_eed5];
/// How often sizes may be unified before the trace gives up.
const MAX_ROUNDS: usize = 64;

/// The function under inspection, whatever its type is.
pub(super) struct Subject<'a> {
    pub(super) name: String,
    pub(super) root: Option<&'a dyn Module>,
    pub(super) run: &'a dyn Fn(&[Value]) -> Result<Value>,
    pub(super) record: &'a dyn Fn(&[TypeTree], &[Value]) -> Recording,
}

/// What to check, and how.
pub(super) struct Options {
    pub(super) check: bool,
    pub(super) given: Vec<Vec<Value>>,
    pub(super) dtypes: Vec<DType>,
    pub(super) rtol: f64,
    pub(super) atol: f64,
}

/// A finding with its place.
pub(super) struct Found {
    pub(super) finding: Finding,
    pub(super) at: SourceLoc,
    pub(super) module: Option<String>,
}

impl Found {
    pub(super) fn new(finding: Finding, at: SourceLoc) -> Found {
        Found { finding, at, module: None }
    }
}

/// The state of an inspection.
pub(super) struct Inspection<'a> {
    subject: Subject<'a>,
    options: Options,
    examples: Vec<Value>,
    pub(super) sizes: Sizes,
    pub(super) found: Vec<Found>,
    pub(super) checks: Vec<Check>,
    /// The symbols for whose value alone the graph holds, each with the line that fixed it.
    frozen: Vec<(Symbol, SourceLoc)>,
    /// The line that asked for the trace.
    call: SourceLoc,
}

/// The graph of the example, with what was seen.
struct Base {
    module: GraphModule,
    observations: Observations,
}

/// What a run returned, and the buffers of the module after it.
struct Ran {
    output: Value,
    buffers: Vec<(String, Tensor)>,
}

/// Sets the buffers of a module back when dropped.
struct Restore<'a>(Vec<(&'a Buffer, Tensor)>);

impl Drop for Restore<'_> {
    fn drop(&mut self) {
        for (buffer, value) in self.0.drain(..) {
            buffer.store(value);
        }
    }
}

impl<'a> Inspection<'a> {
    pub(super) fn new(
        subject: Subject<'a>,
        options: Options,
        examples: Vec<Value>,
        sizes: Sizes,
        call: SourceLoc,
    ) -> Self {
        Inspection {
            subject,
            options,
            examples,
            sizes,
            found: Vec::new(),
            checks: Vec::new(),
            frozen: Vec::new(),
            call,
        }
    }

    /// Records the function, and checks the recording. Fails if the function fails for the example.
    pub(super) fn run(&mut self) -> Result<GraphModule> {
        let mut base = self.base()?;
        self.found.extend(structure::findings(&base.module, &self.examples, &self.call)?);
        for (argument, at) in &base.observations.assigned {
            let finding = Finding::WritesInput { argument: argument.clone() };
            self.found.push(Found::new(finding, at.clone()));
        }
        if self.options.check {
            self.check(&base)?;
        }
        if self.fix_frozen() {
            base = self.base()?;
        }
        Ok(base.module)
    }

    /// Records the function with the example until its sizes have settled.
    fn base(&mut self) -> Result<Base> {
        for _ in 0..MAX_ROUNDS {
            let Recording { module, observations, .. } =
                self.record(&self.sizes.types, &self.examples, SEEDS[0]);
            // A value that is kept for later calls is read in the first of them only.
            self.reads(&observations.reads, None);
            self.state_in_rust(&observations);
            let learnt = self.sizes.learn(&observations);
            match module {
                _ if learnt => {}
                Ok(module) => return Ok(Base { module, observations }),
                Err(_) if self.sizes.fix_failed(&observations) => {}
                Err(error) => return Err(error),
            }
        }
        Err(err!(Limit, "the sizes of the arguments did not settle in {MAX_ROUNDS} recordings")
            .help("give the inputs specs: `.input(\"x\", \"f32[batch, 3]\")`")
            .at(self.call.clone()))
    }

    fn record(&self, types: &[TypeTree], examples: &[Value], seed: u64) -> Recording {
        let _restore = self.keep_buffers();
        with_generator(&Generator::seeded(seed), || (self.subject.record)(types, examples))
    }

    fn keep_buffers(&self) -> Restore<'a> {
        let buffers = self.subject.root.map(collect_buffers).unwrap_or_default();
        Restore(without_tracing(|| buffers.into_iter().map(|(_, buffer)| (buffer, buffer.get())).collect()))
    }

    /// Runs the function itself.
    fn run_function(&self, args: &[Value]) -> Result<Ran> {
        let _restore = self.keep_buffers();
        let output = without_tracing(|| {
            with_generator(&Generator::seeded(SEEDS[0]), || (self.subject.run)(args))
                .and_then(Value::into_result)
        })?;
        let buffers = self.subject.root.map(collect_buffers).unwrap_or_default();
        let buffers = buffers.into_iter().map(|(path, buffer)| (path, buffer.get())).collect();
        Ok(Ran { output, buffers })
    }

    /// Runs a graph of the function.
    fn run_graph(&self, module: &GraphModule, args: &[Value]) -> Result<Ran> {
        let module = module.clone();
        let output = without_tracing(|| {
            with_generator(&Generator::seeded(SEEDS[0]), || module.evaluate(args))
                .and_then(Value::into_result)
        })?;
        let buffers = collect_buffers(&module).into_iter();
        let buffers = buffers.map(|(path, buffer)| (path, buffer.get())).collect();
        Ok(Ran { output, buffers })
    }

    /// Enters the reads of a recording, unless they are known.
    fn reads(&mut self, reads: &[Read], axis: Option<&Symbol>) {
        for read in reads {
            let at = read.at.clone();
            for symbol in read.symbols.iter().chain(axis.filter(|_| read.what == ReadKind::Parts)) {
                self.freeze(symbol, &at);
            }
            let finding = match &read.what {
                ReadKind::Item | ReadKind::Elements => {
                    Finding::FrozenNumber { node: read.of.clone(), seen: read.seen.clone(), other: None }
                }
                ReadKind::Truth => {
                    let (node, seen) = (read.of.clone(), read.seen == "true");
                    Finding::DataBranch { node, seen, both_seen: false }
                }
                ReadKind::Size | ReadKind::Comparison(_) => Finding::FrozenSize {
                    size: read.of.clone(),
                    axes: self.sizes.axes_of(&read.symbols),
                    value: read.seen.parse().unwrap_or_default(),
                    comparison: match &read.what {
                        ReadKind::Comparison(text) => Some(text.clone()),
                        _ => None,
                    },
                },
                ReadKind::Rows | ReadKind::Parts => Finding::UnrolledLoop {
                    axis: self.sizes.axes_of(&read.symbols).into_iter().next(),
                    n: read.seen.parse().unwrap_or_default(),
                    other: None,
                },
            };
            let is_known = |other: &Found| other.at == at && compare::is_same_read(&other.finding, &finding);
            if !self.found.iter().any(is_known) {
                self.found.push(Found { finding, at, module: read.module.clone() });
            }
        }
    }

    fn freeze(&mut self, symbol: &Symbol, at: &SourceLoc) {
        if !self.frozen.iter().any(|(other, _)| other == symbol) {
            self.frozen.push((symbol.clone(), at.clone()));
        }
    }

    /// Makes numbers of the symbols that Rust code fixed, so that the graph refuses others. Returns whether
    /// there were any.
    fn fix_frozen(&mut self) -> bool {
        let mut changed = false;
        for (symbol, at) in std::mem::take(&mut self.frozen) {
            changed |= self.sizes.fix(&symbol, Some(place_of("the code", &at)));
        }
        changed
    }

    /// Finds values that Rust code keeps from call to call.
    fn state_in_rust(&mut self, observations: &Observations) {
        for kept in &observations.kept {
            let what =
                format!("the code keeps the value of %{} after the call, and the graph does not", kept.name);
            let at = kept.at.clone().unwrap_or_else(|| self.call.clone());
            self.lose(what, at);
        }
        for store in &observations.stores {
            let what = match store.is_foreign {
                true => {
                    "a buffer is updated that belongs to no traced module, and the graph does not update it"
                }
                false => "a buffer is stored to, which the graph does not repeat",
            };
            self.lose(what.to_owned(), store.at.clone());
        }
    }

    fn lose(&mut self, what: String, at: SourceLoc) {
        if !self
            .found
            .iter()
            .any(|found| found.at == at && matches!(found.finding, Finding::StateLost { .. }))
        {
            self.found.push(Found::new(Finding::StateLost { what }, at));
        }
    }

    fn has_state(&self) -> bool {
        let is_state = |found: &Found| {
            matches!(found.finding, Finding::StateLost { .. } | Finding::Nondeterministic { .. })
        };
        self.found.iter().any(is_state)
    }

    fn push(&mut self, input: Variation, outcome: Outcome) {
        self.checks.push(Check { input, outcome });
    }

    fn check(&mut self, base: &Base) -> Result<()> {
        self.check_same(base)?;
        if self.has_state() {
            // Every further run would differ for the same reason.
            return Ok(());
        }
        self.check_seed(base)?;
        if let Ok(args) = inputs::other_numbers(&self.examples, 1) {
            self.check_with(base, Variation::OtherNumbers, &args)?;
        }
        self.check_sizes(base)?;
        for (i, args) in std::mem::take(&mut self.options.given).into_iter().enumerate() {
            self.check_with(base, Variation::Given(i), &args)?;
        }
        for dtype in std::mem::take(&mut self.options.dtypes) {
            self.check_dtype(base, dtype)?;
        }
        Ok(())
    }

    /// Records and runs again with the same arguments: what differs is a state, or not determined.
    fn check_same(&mut self, base: &Base) -> Result<()> {
        let examples = self.examples.clone();
        let again = || self.record(&self.sizes.types, &examples, SEEDS[0]);
        let (second, third) = (again(), again());
        let known_state = self.has_state();
        if let (Ok(second_module), Ok(third_module)) = (&second.module, &third.module) {
            let (first_line, lines) = (
                compare::difference(&base.module, second_module)?,
                compare::difference(&base.module, third_module)?,
            );
            if let Some(change) = first_line.filter(|_| !known_state) {
                let at = compare::place(&base.module, second_module, &change);
                let at = at.unwrap_or_else(|| self.call.clone());
                let drift =
                    compare::Drift::of(&base.module, second_module, third_module, &change, lines.as_ref());
                self.found.push(Found::new(drift.finding(), at));
            }
        } else if let Some(error) = second.module.err().or(third.module.err()) {
            let at = error.source_loc().cloned().unwrap_or_else(|| self.call.clone());
            let what = format!("the second call with the same arguments fails: {}", error.message());
            self.lose(what, at);
        }
        let differing = |a: &[Read], b: &[Read]| {
            a.iter().zip(b).find(|(a, b)| !compare::sees_same(a, b)).map(|(a, _)| a.at.clone())
        };
        if !self.has_state()
            && let Some(at) = differing(&base.observations.reads, &second.observations.reads)
        {
            let what = "the same arguments give other values at this read in the next call".to_owned();
            self.lose(what, at);
        }
        if self.has_state() {
            self.push(Variation::Same, Outcome::Differs);
            return Ok(());
        }
        let args = self.examples.clone();
        let outcome = match self.run_function(&args) {
            Ok(ran) => self.compare_results(&base.module, &Variation::Same, &args, &ran, true),
            Err(error) => Outcome::Refused(error),
        };
        self.push(Variation::Same, outcome);
        Ok(())
    }

    /// Records with another seed: what differs is a random number that Rust code drew.
    fn check_seed(&mut self, base: &Base) -> Result<()> {
        let examples = self.examples.clone();
        let other = self.record(&self.sizes.types, &examples, SEEDS[1]);
        let mut differs = false;
        for (a, b) in base.observations.reads.iter().zip(&other.observations.reads) {
            if a.at == b.at && !compare::sees_same(a, b) {
                differs = true;
                self.found.retain(|found| found.at != a.at || !compare::is_of_read(&found.finding));
                let finding = Finding::FrozenRandom { first: a.seen.clone(), second: b.seen.clone() };
                if !self.found.iter().any(|found| found.at == a.at) {
                    self.found.push(Found { finding, at: a.at.clone(), module: a.module.clone() });
                }
            }
        }
        if let (Ok(module), false) = (&other.module, differs)
            && let Some(change) = compare::difference(&base.module, module)?
        {
            differs = true;
            let (first, second) = compare::texts(&base.module, module, &change);
            let at = compare::place(&base.module, module, &change).unwrap_or_else(|| self.call.clone());
            self.found.push(Found::new(Finding::FrozenRandom { first, second }, at));
        }
        self.push(Variation::OtherSeed, if differs { Outcome::Differs } else { Outcome::Same });
        Ok(())
    }

    /// Changes each free size alone, then all of them.
    fn check_sizes(&mut self, base: &Base) -> Result<()> {
        let free = self.sizes.free();
        let mut accepted: Vec<(Symbol, i64)> = Vec::new();
        for (symbol, from) in &free {
            let mut refused = None;
            for to in [from + 1, from + 2, 2 * from.max(&1), from + 3, 3 * from.max(&1)] {
                if to == *from || symbol.max().is_some_and(|max| to > max) {
                    continue;
                }
                let values = |other: &Symbol| {
                    if other == symbol {
                        return Some(to);
                    }
                    free.iter().find(|(name, _)| name == other).map(|(_, value)| *value)
                };
                let Ok(args) = inputs::resized(&self.examples, &self.sizes.types, &values) else { continue };
                let ran = match self.run_function(&args) {
                    Ok(ran) => ran,
                    Err(error) => {
                        refused = refused.or(Some((to, error)));
                        continue;
                    }
                };
                let input = Variation::Size { symbol: symbol.name().to_owned(), from: *from, to };
                self.check_ran(base, input, &args, &ran, Some(symbol))?;
                accepted.push((symbol.clone(), to));
                refused = None;
                break;
            }
            if let Some((to, error)) = refused {
                let input = Variation::Size { symbol: symbol.name().to_owned(), from: *from, to };
                self.push(input, Outcome::Refused(error));
            }
        }
        if accepted.len() > 1 {
            let value = |symbol: &Symbol| {
                let known = accepted.iter().chain(&free);
                known.into_iter().find(|(name, _)| name == symbol).map(|(_, value)| *value)
            };
            if let Ok(args) = inputs::resized(&self.examples, &self.sizes.types, &value) {
                self.check_with(base, Variation::AllSizes, &args)?;
            }
        }
        Ok(())
    }

    /// Records the function with other arguments, and compares graphs and results.
    fn check_with(&mut self, base: &Base, input: Variation, args: &[Value]) -> Result<()> {
        match self.run_function(args) {
            Ok(ran) => self.check_ran(base, input, args, &ran, None),
            Err(error) => {
                self.push(input, Outcome::Refused(error));
                Ok(())
            }
        }
    }

    /// As [`check_with`](Self::check_with), for arguments with which the function was run. `symbol` is the only
    /// one that has another value, if it is one.
    fn check_ran(
        &mut self,
        base: &Base,
        input: Variation,
        args: &[Value],
        ran: &Ran,
        symbol: Option<&Symbol>,
    ) -> Result<()> {
        let other = self.record(&self.sizes.types, args, SEEDS[0]);
        let (a, b) = (&base.observations.reads, &other.observations.reads);
        let is_explained = a.len() != b.len() || a.iter().zip(b).any(|(a, b)| !compare::sees_same(a, b));
        self.reads(b, symbol);
        compare::note_other_values(&mut self.found, a, b);
        let module = match &other.module {
            Ok(module) => module,
            Err(error)
                if matches!(input, Variation::Given(_)) && self.run_graph(&base.module, args).is_err() =>
            {
                self.push(input, Outcome::GraphRefuses(error.clone()));
                return Ok(());
            }
            Err(error) => {
                if !is_explained {
                    let at = error.source_loc().cloned().unwrap_or_else(|| self.call.clone());
                    let second = Some(compare::line_of_error(error));
                    let finding = Finding::GraphDiffers { first: None, second, input: input.clone() };
                    self.found.push(Found::new(finding, at));
                }
                self.freeze_if_size(symbol);
                self.push(input, Outcome::Differs);
                return Ok(());
            }
        };
        let Some(change) = compare::difference(&base.module, module)? else {
            if let (Some(symbol), Some(at)) = (symbol, compare::other_type(&base.module, module)) {
                // The types of nodes hold for sizes like that of the example only.
                self.freeze(symbol, &at);
            }
            let outcome = self.compare_results(&base.module, &input, args, ran, !is_explained);
            self.push(input, outcome);
            return Ok(());
        };
        self.freeze_if_size(symbol);
        let unrolled = symbol.and_then(|symbol| self.unrolled(&base.module, module, symbol));
        if let Some(found) = unrolled {
            self.found.push(found);
        } else if !is_explained {
            let at = compare::place(&base.module, module, &change).unwrap_or_else(|| self.call.clone());
            let (first, second) = compare::lines(&change);
            let finding = Finding::GraphDiffers { first, second, input: input.clone() };
            self.found.push(Found::new(finding, at));
        }
        self.push(input, Outcome::Differs);
        Ok(())
    }

    fn freeze_if_size(&mut self, symbol: Option<&Symbol>) {
        if let Some(symbol) = symbol {
            let call = self.call.clone();
            self.freeze(symbol, &call);
        }
    }

    /// Finds a line that makes more nodes for another size, unless its loop is known.
    fn unrolled(&self, first: &GraphModule, second: &GraphModule, symbol: &Symbol) -> Option<Found> {
        let axis = self.sizes.axes_of(std::slice::from_ref(symbol)).into_iter().next();
        let is_known = |found: &Found| matches!(&found.finding, Finding::UnrolledLoop { axis: other, .. } if *other == axis || other.is_none());
        if self.found.iter().any(is_known) {
            return None;
        }
        let (at, module, n, other) = compare::repeated_line(first, second)?;
        Some(Found { finding: Finding::UnrolledLoop { axis, n, other: Some(other) }, at, module })
    }

    /// Compares what the function returned with what the graph returns.
    fn compare_results(
        &mut self,
        module: &GraphModule,
        input: &Variation,
        args: &[Value],
        function: &Ran,
        report: bool,
    ) -> Outcome {
        let graph = match self.run_graph(module, args) {
            Ok(ran) => ran,
            Err(error) => return Outcome::GraphRefuses(error),
        };
        let difference =
            compare::results(&function.output, &graph.output, self.options.rtol, self.options.atol);
        if let Some(difference) = difference {
            if report {
                let at = compare::output_line(module, difference.output).unwrap_or_else(|| self.call.clone());
                let compare::Difference { output, how, abs } = difference;
                let finding = Finding::ResultDiffers { output, how, abs, input: input.clone() };
                let is_known = self
                    .found
                    .iter()
                    .any(|found| found.at == at && matches!(found.finding, Finding::ResultDiffers { .. }));
                if !is_known {
                    self.found.push(Found::new(finding, at));
                }
            }
            return Outcome::Differs;
        }
        match self.lost_buffer(module, function, &graph) {
            Some(path) if report => {
                let what = format!(
                    "the buffer {path} has another value after the call of the function than after that of the graph"
                );
                let call = self.call.clone();
                self.lose(what, call);
                Outcome::Differs
            }
            _ => Outcome::Same,
        }
    }

    /// Returns the path of a buffer that the function leaves with another value than the graph.
    fn lost_buffer(&self, module: &GraphModule, function: &Ran, graph: &Ran) -> Option<String> {
        let before = self.subject.root.map(collect_buffers).unwrap_or_default();
        let is_lost = |(path, after): &&(String, Tensor)| {
            let of_graph =
                graph.buffers.iter().find(|(other, _)| other == path).map(|(_, value)| value.clone());
            let is_read = matches!(module.attribute(path), Ok(Attribute::Buffer(_)));
            let unchanged = || before.iter().find(|(other, _)| other == path).map(|(_, buffer)| buffer.get());
            // A buffer of a leaf module is below the path of the module.
            let expected = if is_read || of_graph.is_some() { of_graph } else { unchanged() };
            expected.is_some_and(|expected| {
                after.all_close(&expected, self.options.rtol, self.options.atol).is_err()
            })
        };
        function.buffers.iter().find(is_lost).map(|(path, _)| path.clone())
    }

    /// Records with floats of another dtype.
    fn check_dtype(&mut self, base: &Base, dtype: DType) -> Result<()> {
        let input = Variation::DType(dtype);
        let Ok(args) = inputs::with_dtype(&self.examples, dtype) else { return Ok(()) };
        let types = self.sizes.with_dtype(dtype);
        let other = self.record(&types, &args, SEEDS[0]);
        let module = match other.module {
            Ok(module) => module,
            Err(error) => {
                let at = error.source_loc().cloned().unwrap_or_else(|| self.call.clone());
                let what = format!("it fails: {}", error.message());
                self.found.push(Found::new(Finding::DTypeFixed { tried: dtype, what }, at));
                self.push(input, Outcome::Refused(error));
                return Ok(());
            }
        };
        let change = compare::difference_of_nodes(&base.module, &module)?;
        if let Some(change) = &change {
            let at = compare::place(&base.module, &module, change).unwrap_or_else(|| self.call.clone());
            let (first, second) = compare::texts(&base.module, &module, change);
            let what = format!("{first} becomes {second}");
            self.found.push(Found::new(Finding::DTypeFixed { tried: dtype, what }, at));
        }
        let fixed = compare::output_of_other_dtype(&module, dtype);
        if let (Some((output, got)), None) = (fixed, &change) {
            let at = compare::conversion(&module, output).or_else(|| compare::output_line(&module, output));
            let what = format!("result {output} is of {got}");
            let at = at.unwrap_or_else(|| self.call.clone());
            self.found.push(Found::new(Finding::DTypeFixed { tried: dtype, what }, at));
            self.push(input, Outcome::Differs);
            return Ok(());
        }
        self.push(input, if change.is_some() { Outcome::Differs } else { Outcome::Same });
        Ok(())
    }

    /// Returns the name of the function.
    pub(super) fn name(&self) -> &str {
        &self.subject.name
    }
}

/// The first change that is no change of the signature.
pub(super) fn first_of(changes: Vec<Change>) -> Option<Change> {
    changes.into_iter().find(|change| !matches!(change, Change::Signature { .. }))
}
