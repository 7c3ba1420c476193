//! Random programs, before and after passes and rules.
//!
//! [`Case::new`] makes a valid program from a seed: operations of the whole vocabulary on tensors of all
//! dtypes and odd sizes, sub-graphs, sub-modules, effects, and the parts that rules and passes look for.
//! [`run`] changes many of them by passes and rules, and compares each program before and after: results,
//! buffers and printed values. An exact pass or rule must keep every bit; others may differ by [`SLACK`]
//! times the effect of rounding on the program itself. A failure is shrunk to a small program as text. The
//! same seed gives the same programs and findings on every machine and any number of threads.

mod build;
pub mod mutations;
mod outcome;
mod regions;
pub mod script;
mod shrink;
mod steps;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use build::{Builder, random_tensor};
use outcome::Nearby;
pub use outcome::SLACK;
use shrink::Failing;

use crate::rewrite::Rules;
use crate::{Arg, DType, Engine, GraphModule, Passes, Result, Symbol, Tensor, Value, err, pass};

/// A random program with inputs on which it runs.
#[derive(Clone)]
pub struct Case {
    /// The program.
    pub gm: GraphModule,
    /// Two sets of inputs; on the second, which may have other sizes, the program may fail.
    pub inputs: Vec<Vec<Value>>,
    /// Whether values may be infinite or not numbers, so that only exact changes are compared.
    pub is_wild: bool,
    /// The operation that was found wrong while the program was made, and why.
    pub problem: Option<String>,
}

impl Case {
    /// Makes the program of a seed.
    pub fn new(seed: u64) -> Case {
        let mut builder = Builder::new("main", seed, 2);
        builder.is_wild = builder.rng.one_in(8);
        builder.arguments();
        let n = 2 + builder.rng.below(12);
        builder.steps(n);
        builder.finish();
        if builder.rng.one_in(8) {
            forget_types(&mut builder);
        }
        let second = second_inputs(&mut builder);
        let Builder { gm, inputs, is_wild, problem, .. } = builder;
        Case { gm, inputs: vec![inputs, second], is_wild, problem }
    }
}

/// Leaves types at the arguments only.
fn forget_types(builder: &mut Builder) {
    let graph = builder.gm.graph_mut();
    for id in graph.ids() {
        let is_argument = graph.node(id).is_ok_and(|node| node.opcode() == crate::OpCode::Placeholder);
        if let (false, Ok(meta)) = (is_argument, graph.meta_mut(id)) {
            meta.ty = None;
        }
    }
}

/// Makes other inputs, where a symbol of sizes is another number.
fn second_inputs(builder: &mut Builder) -> Vec<Value> {
    let mut sizes: Vec<(Symbol, usize)> = Vec::new();
    let (graph, rng) = (builder.gm.graph(), &mut builder.rng);
    let mut next = builder.inputs.iter();
    let mut inputs = Vec::new();
    for input in graph.inputs() {
        let first = next.next().cloned().unwrap_or(Arg::None);
        let mut leaves = first.leaves().into_iter();
        let value = input.tree.try_flat_map(&mut |id| {
            let Some(old) = leaves.next() else { return Ok(Arg::None) };
            let array = old.array()?;
            let ty = graph.node(*id)?.ty().and_then(|ty| ty.tensor().cloned());
            let mut shape = array.shape().to_vec();
            for (size, dim) in shape.iter_mut().zip(ty.iter().flat_map(|ty| ty.shape.iter())) {
                let Some(symbol) = dim.as_symbol() else { continue };
                *size = match sizes.iter().find(|(other, _)| other == symbol) {
                    Some((_, size)) => *size,
                    None => {
                        let size = rng.pick(&[1usize, 2, 6, 3, 0]);
                        sizes.push((symbol.clone(), size));
                        size
                    }
                };
            }
            Ok(Arg::Leaf(random_tensor(rng, array.dtype(), &shape, false)?))
        });
        inputs.push(value.unwrap_or(first));
    }
    inputs
}

/// Passes of a user, to be run on random programs.
#[derive(Clone)]
pub struct Own {
    /// What they are called in the summary.
    pub name: String,
    /// The passes.
    pub passes: Passes,
    /// Whether they keep every bit.
    pub exact: bool,
}

/// The jobs to run on random programs.
#[derive(Clone)]
pub struct Config {
    /// The first seed.
    pub seed: u64,
    /// How many programs.
    pub count: usize,
    /// Each of these pipelines is run on every program, as text; see [`Passes::parse`].
    pub passes: Vec<String>,
    /// Whether each shipped rule is run on every program, one by one.
    pub rules: bool,
    /// Each of these engines runs every program.
    pub engines: Vec<Engine>,
    /// Whether every program runs as a [compiled function](crate::compile()), and as a pure one.
    pub compiled: bool,
    /// Passes that have no text.
    pub own: Vec<Own>,
    /// How many threads; as many as the machine has, if this is 0.
    pub threads: usize,
}

impl Default for Config {
    /// Every pass by itself, the default pipeline, every rule, and every engine, on 200 programs.
    fn default() -> Self {
        Config {
            seed: 0,
            count: 200,
            passes: every_pass(),
            rules: true,
            engines: vec![Engine::Fused],
            compiled: true,
            own: Vec::new(),
            threads: 0,
        }
    }
}

/// Returns a pipeline for each shipped pass, and the default pipeline.
pub fn every_pass() -> Vec<String> {
    let of = |pass: pass::Pass| match pass.name {
        "outline" => "outline(module=Block)".to_owned(),
        "hoist_loops" => "hoist_loops, dead_code".to_owned(),
        name => name.to_owned(),
    };
    let typed = |text: String| format!("shape_prop, {text}");
    let each = pass::all().into_iter().map(of).flat_map(|text| {
        let needs_types = [
            "simplify",
            "recognize",
            "stabilize",
            "fold_batch_norm",
            "merge_linears",
            "convert_dtype",
            "simplify_sizes",
            "decompose",
            "split_reductions",
        ];
        match needs_types.contains(&&*text) {
            true => vec![typed(text)],
            false => vec![text],
        }
    });
    each.chain([pass::DEFAULT.to_owned(), format!("inline_leaves, {}, canonicalize, sink", pass::DEFAULT)])
        .collect()
}

/// The counts of a run, and its failures.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// How many programs there were.
    pub programs: usize,
    /// How many nodes they had, sub-graphs included.
    pub nodes: u64,
    /// How many programs have sub-graphs, call sub-modules, have effects, have symbolic sizes.
    pub with: BTreeMap<String, usize>,
    /// How many comparisons of runs there were.
    pub comparisons: usize,
    /// How many comparisons were left out, since the program is too sensitive or fails itself.
    pub skipped: usize,
    /// How many programs each pipeline changed.
    pub passes: BTreeMap<String, usize>,
    /// How often each rule was applied.
    pub rules: BTreeMap<String, usize>,
    /// How many calls of each operation there were.
    pub operations: BTreeMap<String, usize>,
    /// The failures: the first program for each pipeline and rule.
    pub failures: Vec<Failure>,
}

/// A program that a pipeline or rule makes something else of.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The seed of the program.
    pub seed: u64,
    /// The pipeline, or the rule.
    pub what: String,
    /// The problem.
    pub problem: String,
    /// The smallest program that was found to fail, as text.
    pub text: String,
    /// The tensors that it reads, by path.
    pub weights: Vec<(String, Tensor)>,
    /// The inputs, as `0.in0`, `0.in1`, and so on.
    pub inputs: Vec<(String, Tensor)>,
}

impl Failure {
    /// Writes the program, its weights and inputs to files of a folder; returns the path of the program.
    /// Fails if a file cannot be written.
    pub fn save(&self, folder: &Path) -> Result<std::path::PathBuf> {
        let word = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
        let stem: String = self.what.chars().map(word).take(40).collect();
        let path = folder.join(format!("fuzz_{}_{stem}.fx", self.seed));
        let text = format!(
            "// {}, seed {}: {}\n{}",
            self.what,
            self.seed,
            self.problem.replace('\n', " "),
            self.text
        );
        std::fs::write(&path, text).map_err(|error| err!(Io, "cannot write {}: {error}", path.display()))?;
        if !self.weights.is_empty() {
            crate::weights::save(path.with_extension("weights.safetensors"), &self.weights, &[])?;
        }
        crate::weights::save(path.with_extension("io.safetensors"), &self.inputs, &[])?;
        Ok(path)
    }
}

/// Counts, a line for each pipeline and rule, and the failures.
impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} programs, {} nodes, {} operations of the vocabulary",
            self.programs,
            self.nodes,
            self.operations.len()
        )?;
        let with: Vec<String> = self.with.iter().map(|(what, n)| format!("{n} {what}")).collect();
        writeln!(f, "{}", with.join(", "))?;
        writeln!(f, "{} comparisons of runs, {} left out", self.comparisons, self.skipped)?;
        for (name, n) in &self.passes {
            writeln!(f, "pass {name}: changed {n}")?;
        }
        for (name, n) in &self.rules {
            writeln!(f, "rule {name}: applied {n}")?;
        }
        for failure in &self.failures {
            writeln!(
                f,
                "FAILED {} at seed {}: {}\n{}",
                failure.what, failure.seed, failure.problem, failure.text
            )?;
        }
        write!(f, "{} failures", self.failures.len())
    }
}

impl Summary {
    fn add(&mut self, other: Summary) {
        self.programs += other.programs;
        self.nodes += other.nodes;
        self.comparisons += other.comparisons;
        self.skipped += other.skipped;
        for (mine, theirs) in [
            (&mut self.with, other.with),
            (&mut self.passes, other.passes),
            (&mut self.rules, other.rules),
            (&mut self.operations, other.operations),
        ] {
            for (name, n) in theirs {
                *mine.entry(name).or_default() += n;
            }
        }
        for failure in other.failures {
            match self.failures.iter_mut().find(|known| known.what == failure.what) {
                Some(known) if known.seed > failure.seed => *known = failure,
                Some(_) => {}
                None => self.failures.push(failure),
            }
        }
    }
}

/// Something that is done to a program.
struct Job {
    name: String,
    exact: bool,
    /// The dtype in which is computed, where that is not the one of the values.
    dtype: Option<DType>,
    change: Change,
}

enum Change {
    Passes(Passes),
    /// The program becomes a function of its state, which is called with it.
    Functionalize,
    Rule(Box<Rules>),
    /// The program is run by an engine.
    Engine(Engine),
    /// The program is run as a compiled function.
    Compiled {
        is_pure: bool,
    },
}

impl Change {
    /// Runs a program after it was made ready for other inputs. `None` if what runs is the changed program.
    fn run(
        &self,
        gm: &GraphModule,
        inputs: &[Value],
        others: Option<&[Value]>,
    ) -> Option<Result<outcome::Outcome>> {
        match self {
            Change::Engine(engine) => Some(outcome::run_on(gm, inputs, others, *engine)),
            Change::Compiled { is_pure } => Some(outcome::run_compiled(gm, inputs, others, *is_pure)),
            Change::Passes(_) | Change::Functionalize | Change::Rule(_) => None,
        }
    }
}

impl Job {
    fn of(config: &Config) -> Result<Vec<Job>> {
        let known = pass::all();
        let mut jobs = Vec::new();
        for text in &config.passes {
            if text == pass::FUNCTIONALIZE.name {
                let change = Change::Functionalize;
                jobs.push(Job { name: text.clone(), exact: true, dtype: None, change });
                continue;
            }
            let passes = Passes::parse(text, &known)?;
            let names = passes.names();
            let is_exact =
                |name: &String| known.iter().find(|pass| pass.name == *name).is_none_or(|pass| pass.exact);
            let dtype = names.iter().any(|name| name == "convert_dtype").then_some(DType::BF16);
            let exact = names.iter().all(is_exact);
            jobs.push(Job { name: text.clone(), exact, dtype, change: Change::Passes(passes) });
        }
        for own in &config.own {
            let change = Change::Passes(own.passes.clone());
            jobs.push(Job { name: own.name.clone(), exact: own.exact, dtype: None, change });
        }
        for &engine in &config.engines {
            let change = Change::Engine(engine);
            jobs.push(Job { name: engine.name().to_owned(), exact: false, dtype: None, change });
        }
        if config.compiled {
            for (name, is_pure) in [("compile", false), ("pure", true)] {
                let change = Change::Compiled { is_pure };
                jobs.push(Job { name: name.to_owned(), exact: false, dtype: None, change });
            }
        }
        if config.rules {
            for rule in steps::rules() {
                let exact = crate::rules::ALGEBRA.iter().any(|row| row.name == rule.name());
                let name = rule.name().to_owned();
                let change = Change::Rule(Box::new(Rules::new([rule.clone()])));
                jobs.push(Job { name, exact, dtype: None, change });
            }
        }
        Ok(jobs)
    }

    /// Changes a program; returns how often, or in what way the program is broken by that.
    fn apply(&self, gm: &mut GraphModule) -> Result<usize> {
        match &self.change {
            Change::Passes(passes) => {
                let report = crate::opcheck::guarded(|| passes.run(gm))?;
                Ok(usize::from(report.changed()))
            }
            Change::Functionalize => {
                let (new, _) = crate::opcheck::guarded(|| pass::functionalize(gm, true))?;
                new.lint().into_iter().next().map_or(Ok(1), |first| Err(first.into()))
            }
            Change::Engine(_) | Change::Compiled { .. } => Ok(1),
            Change::Rule(rules) => {
                let report = crate::opcheck::guarded(|| rules.run(gm))?;
                match report.applied() > 0 {
                    true => {
                        gm.lint().into_iter().next().map_or(Ok(report.applied()), |first| Err(first.into()))
                    }
                    false => Ok(0),
                }
            }
        }
    }
}

/// What a program does before any change, as far as that was asked for.
struct Known {
    before: Option<outcome::Outcome>,
    nearby: BTreeMap<Option<&'static str>, Option<Nearby>>,
}

impl Known {
    fn new(gm: &GraphModule, inputs: &[Value]) -> Known {
        Known { before: outcome::run(gm, inputs).ok(), nearby: BTreeMap::new() }
    }

    /// Compares with a changed program; `Ok(false)` if that is not possible.
    fn compare(
        &mut self,
        job: &Job,
        gm: &GraphModule,
        after: &GraphModule,
        inputs: &[Value],
    ) -> Result<bool> {
        let Some(before) = &self.before else { return Ok(false) };
        if let Change::Functionalize = job.change {
            let (new, state) = pass::functionalize(gm, true)?;
            let after = outcome::run_function(&new, &state.arguments(inputs))?;
            return outcome::same(gm, inputs, before, &after).map(|()| true);
        }
        if job.exact {
            return outcome::same(gm, inputs, before, &outcome::run(after, inputs)?).map(|()| true);
        }
        let key = job.dtype.map(DType::name);
        let nearby = self.nearby.entry(key).or_insert_with(|| Nearby::new(gm, inputs, before, job.dtype));
        let Some(nearby) = nearby else { return Ok(false) };
        match job.change.run(gm, inputs, None) {
            Some(after) => {
                nearby.compare(&after?)?;
                compare_sizes(gm, &job.change)?;
            }
            None => nearby.compare(&outcome::run(after, inputs)?)?,
        }
        Ok(true)
    }
}

/// Compares what an engine does with inputs of sizes that are not the first, if sizes are symbols.
fn compare_sizes(gm: &GraphModule, change: &Change) -> Result<()> {
    let first = outcome::resized(gm, [11, 13], 1);
    let (Some(first), Some(inputs)) = (first, outcome::resized(gm, [17, 23], 2)) else { return Ok(()) };
    let Ok(before) = outcome::run(gm, &inputs) else { return Ok(()) };
    let Some(nearby) = Nearby::new(gm, &inputs, &before, None) else { return Ok(()) };
    change.run(gm, &inputs, Some(&first)).map_or(Ok(()), |after| nearby.compare(&after?))
}

/// Returns what is wrong with what a job makes of a program, if anything is.
fn problem(job: &Job, failing: &Failing) -> Option<String> {
    let mut after = failing.gm.clone();
    match job.apply(&mut after) {
        Err(error) => Some(error.to_string()),
        Ok(0) => None,
        Ok(_) => {
            let mut known = Known::new(&failing.gm, &failing.inputs);
            let compared = known.compare(job, &failing.gm, &after, &failing.inputs);
            compared.err().map(|error| error.to_string())
        }
    }
}

/// Returns what a problem is about, by which a shrunk program is known to have the same.
fn kind(problem: &str) -> String {
    problem.split(|c: char| c.is_ascii_digit() || c == '%' || c == ':').next().unwrap_or_default().to_owned()
}

fn one(seed: u64, jobs: &[Job]) -> Summary {
    let case = Case::new(seed);
    let mut summary = Summary { programs: 1, nodes: case.gm.graph().expanded_len(), ..Summary::default() };
    describe(&case.gm, &mut summary);
    let fail = |what: &str, problem: String, set: usize| Failure {
        seed,
        what: what.to_owned(),
        problem,
        text: set.to_string(),
        weights: Vec::new(),
        inputs: Vec::new(),
    };
    if let Some(problem) = &case.problem {
        summary.failures.push(fail("operation", problem.clone(), 0));
    }
    if let Some(first) = case.gm.lint().into_iter().next() {
        summary.failures.push(fail("lint", first.to_string(), 0));
        return summary;
    }
    match crate::Graph::parse(&case.gm.graph().to_text(), build::registry()) {
        Ok(parsed) if parsed == *case.gm.graph() => {}
        Ok(parsed) => summary.failures.push(fail("text", format!("it reads back as\n{parsed}"), 0)),
        Err(error) => summary.failures.push(fail("text", error.to_string(), 0)),
    }
    let mut known: Vec<Known> = case.inputs.iter().map(|inputs| Known::new(&case.gm, inputs)).collect();
    if known[0].before.is_none() {
        // Other numbers are drawn than when the program was made, and some operations refuse some numbers.
        if outcome::draws(&case.gm) {
            summary.skipped += 1;
            return summary;
        }
        let error =
            outcome::run(&case.gm, &case.inputs[0]).err().map_or(String::new(), |error| error.to_string());
        summary.failures.push(fail("program", error, 0));
        return summary;
    }
    let mut copy = case.gm.clone();
    for job in jobs {
        let is_rule = matches!(job.change, Change::Rule(_));
        match job.apply(&mut copy) {
            Ok(0) if is_rule => continue,
            Ok(n) => {
                let counts = if is_rule { &mut summary.rules } else { &mut summary.passes };
                *counts.entry(job.name.clone()).or_default() += n;
                if n > 0 {
                    for (set, inputs) in case.inputs.iter().enumerate() {
                        if case.is_wild && !job.exact {
                            summary.skipped += 1;
                            continue;
                        }
                        match known[set].compare(job, &case.gm, &copy, inputs) {
                            Ok(true) => summary.comparisons += 1,
                            Ok(false) => summary.skipped += 1,
                            Err(error) => {
                                summary.failures.push(fail(&job.name, error.to_string(), set));
                                break;
                            }
                        }
                    }
                }
            }
            Err(error) => {
                let counts = if is_rule { &mut summary.rules } else { &mut summary.passes };
                counts.entry(job.name.clone()).or_default();
                summary.failures.push(fail(&job.name, error.to_string(), 0));
            }
        }
        copy = case.gm.clone();
    }
    summary
}

/// Counts what a program has.
fn describe(gm: &GraphModule, summary: &mut Summary) {
    fn visit(graph: &crate::Graph, counts: &mut BTreeMap<String, usize>) {
        for (_, node) in graph.nodes() {
            if let Some(op) = node.op() {
                *counts.entry(op.name.to_owned()).or_default() += 1;
            }
            node.subgraphs().into_iter().for_each(|inner| visit(inner, counts));
        }
    }
    visit(gm.graph(), &mut summary.operations);
    let graph = gm.graph();
    let has = |f: &dyn Fn(&crate::Node) -> bool| graph.nodes().any(|(_, node)| f(node));
    let effect = |node: &crate::Node| node.op().is_some_and(|op| !op.effects.is_pure());
    let symbolic = |node: &crate::Node| {
        node.ty().and_then(|ty| ty.tensor()).is_some_and(|ty| ty.shape.known().is_none())
    };
    for (what, holds) in [
        ("with sub-graphs", graph.depth() > 0),
        ("with sub-modules", gm.children().len() > 0),
        ("with effects", has(&effect)),
        ("with symbolic sizes", has(&symbolic)),
        ("with several results", graph.output().leaf().is_none()),
    ] {
        *summary.with.entry(what.to_owned()).or_default() += usize::from(holds);
    }
}

/// Compiles the loops of many programs at a time, which takes far less than one by one.
fn compile_ahead(config: &Config) -> Result<()> {
    const AT_ONCE: usize = 200;
    for first in (0..config.count).step_by(AT_ONCE) {
        let seeds = first..config.count.min(first + AT_ONCE);
        let cases: Vec<Case> = seeds.map(|i| Case::new(config.seed.wrapping_add(i as u64))).collect();
        let programs: Vec<(&GraphModule, &[Value])> =
            cases.iter().flat_map(|case| case.inputs.iter().map(|inputs| (&case.gm, &inputs[..]))).collect();
        crate::Program::native_all(&programs, crate::Native::shared())?;
    }
    Ok(())
}

/// Runs passes and rules on random programs; `progress` is told how many are done, now and then. Fails if a
/// pipeline does not parse, or native code does not compile.
pub fn run(config: &Config, progress: &(dyn Fn(usize) + Sync)) -> Result<Summary> {
    let jobs = Job::of(config)?;
    let threads = match config.threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        n => n,
    };
    if config.engines.contains(&Engine::Native) {
        compile_ahead(config)?;
    }
    let (next, total) = (AtomicUsize::new(0), Mutex::new(Summary::default()));
    std::thread::scope(|scope| {
        for _ in 0..threads.min(config.count.max(1)) {
            scope.spawn(|| {
                let mut mine = Summary::default();
                loop {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    if i >= config.count {
                        break;
                    }
                    mine.add(one(config.seed.wrapping_add(i as u64), &jobs));
                    progress(i + 1);
                }
                total.lock().unwrap_or_else(std::sync::PoisonError::into_inner).add(mine);
            });
        }
    });
    let mut summary = total.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    summary.failures.sort_by(|a, b| (&a.what, a.seed).cmp(&(&b.what, b.seed)));
    for pass in &config.passes {
        summary.passes.entry(pass.clone()).or_default();
    }
    for job in jobs.iter().filter(|job| matches!(job.change, Change::Rule(_))) {
        summary.rules.entry(job.name.clone()).or_default();
    }
    for failure in &mut summary.failures {
        let case = Case::new(failure.seed);
        let set: usize = failure.text.parse().unwrap_or(0);
        let mut failing = Failing { gm: case.gm, inputs: case.inputs[set].clone() };
        if let Some(job) = jobs.iter().find(|job| job.name == failure.what) {
            let wanted = kind(&failure.problem);
            let fails =
                |failing: &Failing| problem(job, failing).is_some_and(|problem| kind(&problem) == wanted);
            failing = shrink::shrink(failing, &fails);
            failure.problem = problem(job, &failing).unwrap_or(std::mem::take(&mut failure.problem));
        }
        (failure.text, failure.weights, failure.inputs) = shrink::files(&failing);
    }
    Ok(summary)
}
