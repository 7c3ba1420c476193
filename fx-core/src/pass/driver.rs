//! [`Passes`]: runs passes one after the other, checks each, and takes back the one that breaks something.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::diff::text_diff;
use super::pipeline::option_value;
use super::verify::{Before, Checks};
use super::{Context, Pass};
use crate::lint::Violation;
use crate::logging::{self, Stage};
use crate::node::Literal;
use crate::rewrite::Rewrites;
use crate::{Error, Graph, GraphModule, Result, bail, err};

/// What a pass that is a closure does.
type Closure = Arc<dyn Fn(&mut GraphModule, &mut Context) -> Result<()> + Send + Sync>;

#[derive(Clone)]
struct Entry {
    name: Arc<str>,
    pass: Pass,
    options: Vec<(String, Literal)>,
    closure: Option<Closure>,
}

#[derive(Clone)]
enum Step {
    Pass(Entry),
    Repeat(Vec<Step>),
}

/// How often `repeat` goes round.
const MOST_ROUNDS: usize = 100;

/// A sequence of passes. After each, the graph is checked; a pass that fails or breaks something is undone,
/// and the error names it and the very change.
///
/// ```ignore
/// let report = Passes::new().add(CSE).add(DEAD_CODE).with("mine", |gm, cx| { .. Ok(()) }).run(&mut gm)?;
/// let report = Passes::parse("normalize, repeat(simplify, cse)", fx::pass::all())?.run(&mut gm)?;
/// ```
#[derive(Clone)]
pub struct Passes {
    steps: Vec<Step>,
    constraints: Vec<(Arc<str>, Arc<str>)>,
    checks: Checks,
    diffs: bool,
    modules: bool,
    in_place: bool,
}

impl Default for Passes {
    fn default() -> Self {
        Passes::new()
    }
}

impl Passes {
    /// Makes an empty sequence that lints and compares types after each pass.
    pub fn new() -> Self {
        Passes {
            steps: Vec::new(),
            constraints: Vec::new(),
            checks: Checks { lint: true, types: true, runs: None },
            diffs: false,
            modules: false,
            in_place: false,
        }
    }

    /// Returns whether there is nothing to run.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Adds a pass.
    #[must_use]
    #[expect(clippy::should_implement_trait, reason = "passes are not numbers")]
    pub fn add(mut self, pass: Pass) -> Self {
        let entry = Entry { name: Arc::from(pass.name), pass, options: Vec::new(), closure: None };
        self.steps.push(Step::Pass(entry));
        self
    }

    /// Adds a pass with options. Fails if the pass does not have an option, or the value is of another kind.
    pub fn add_with<K: Into<String>, V: Into<Literal>>(
        mut self,
        pass: Pass,
        options: impl IntoIterator<Item = (K, V)>,
    ) -> Result<Self> {
        let mut given: Vec<(String, Literal)> = Vec::new();
        for (key, value) in options {
            let key = key.into();
            if given.iter().any(|(other, _)| *other == key) {
                bail!(Argument, "the option {key} of {} is given twice", pass.name);
            }
            let value = option_value(&pass, &key, value.into())?;
            given.push((key, value));
        }
        let entry = Entry { name: Arc::from(pass.name), pass, options: given, closure: None };
        self.steps.push(Step::Pass(entry));
        Ok(self)
    }

    /// Adds a closure as a pass, which may change results within rounding.
    #[must_use]
    pub fn with(
        mut self,
        name: &str,
        run: impl Fn(&mut GraphModule, &mut Context) -> Result<()> + Send + Sync + 'static,
    ) -> Self {
        let pass = Pass { name: "", exact: false, ..Pass::BASE };
        let entry = Entry { name: Arc::from(name), pass, options: Vec::new(), closure: Some(Arc::new(run)) };
        self.steps.push(Step::Pass(entry));
        self
    }

    /// Adds passes that are run until none of them changes anything.
    #[must_use]
    pub fn repeat(mut self, passes: Passes) -> Self {
        self.steps.push(Step::Repeat(passes.steps));
        self.constraints.extend(passes.constraints);
        self
    }

    /// Demands that one pass comes before another, where both are there.
    #[must_use]
    pub fn before(mut self, first: &str, second: &str) -> Self {
        self.constraints.push((Arc::from(first), Arc::from(second)));
        self
    }

    /// Runs the graph on inputs made from its types before and after each pass, and compares: `n` times, from
    /// a seed. Passes that are not exact may differ by `1e-4` of the greatest magnitude; see
    /// [`tolerance`](Self::tolerance).
    #[must_use]
    pub fn compare_runs(mut self, n: usize, seed: u64) -> Self {
        self.checks.runs = Some((n, seed, 1e-4));
        self
    }

    /// Sets how far results may differ after a pass that is not exact.
    #[must_use]
    pub fn tolerance(mut self, tolerance: f64) -> Self {
        if let Some((_, _, old)) = &mut self.checks.runs {
            *old = tolerance;
        }
        self
    }

    /// Leaves out all checks.
    #[must_use]
    pub fn unchecked(mut self) -> Self {
        self.checks = Checks { lint: false, types: false, runs: None };
        self
    }

    /// Keeps nothing to return to, so that tensors that a pass replaces are freed at once: a pass that fails
    /// or breaks something leaves the module as it is then, and the error does not say by which change.
    #[must_use]
    pub fn in_place(mut self) -> Self {
        self.in_place = true;
        self
    }

    /// Keeps the difference of the graph's text that each pass makes in the report.
    #[must_use]
    pub fn keep_diffs(mut self) -> Self {
        self.diffs = true;
        self
    }

    /// Keeps the module as it was after each pass in the report. They share memory where nothing changed.
    #[must_use]
    pub fn keep_modules(mut self) -> Self {
        self.modules = true;
        self
    }

    /// Returns the names of the passes in order.
    pub fn names(&self) -> Vec<String> {
        fn collect(steps: &[Step], names: &mut Vec<String>) {
            for step in steps {
                match step {
                    Step::Pass(entry) => names.push(entry.name.to_string()),
                    Step::Repeat(steps) => collect(steps, names),
                }
            }
        }
        let mut names = Vec::new();
        collect(&self.steps, &mut names);
        names
    }

    /// Checks that passes come in the order that they demand. Fails if they do not.
    pub fn check_order(&self) -> Result<()> {
        let mut constraints: Vec<(String, String)> =
            self.constraints.iter().map(|(a, b)| (a.to_string(), b.to_string())).collect();
        fn collect(steps: &[Step], constraints: &mut Vec<(String, String)>) {
            for step in steps {
                match step {
                    Step::Pass(entry) => {
                        let after = entry.pass.after.iter();
                        constraints.extend(after.map(|first| ((*first).to_owned(), entry.name.to_string())));
                    }
                    Step::Repeat(steps) => collect(steps, constraints),
                }
            }
        }
        collect(&self.steps, &mut constraints);
        let names = self.names();
        for (first, second) in constraints {
            let (a, b) =
                (names.iter().position(|name| *name == first), names.iter().position(|name| *name == second));
            if let (Some(a), Some(b)) = (a, b)
                && b < a
            {
                return Err(err!(Argument, "the pass {first} must come before {second}")
                    .help(format!("the order is {}", names.join(", "))));
            }
        }
        Ok(())
    }

    /// Runs the passes. Fails if a pass fails or breaks something: then it is undone, the passes before it
    /// stay, and the error names the change.
    pub fn run(&self, gm: &mut GraphModule) -> Result<Report> {
        self.check_order()?;
        let mut report = Report { passes: Vec::new() };
        self.steps(&self.steps, gm, &mut report)?;
        Ok(report)
    }

    fn steps(&self, steps: &[Step], gm: &mut GraphModule, report: &mut Report) -> Result<bool> {
        let mut changed = false;
        for step in steps {
            match step {
                Step::Pass(entry) => {
                    let done = self.pass(entry, gm).map_err(|error| {
                        let before: Vec<&str> = report.passes.iter().map(|pass| &*pass.name).collect();
                        match before.is_empty() {
                            true => error,
                            false => error.in_context(|| format!("after {}", before.join(", "))),
                        }
                    })?;
                    changed |= done.changed();
                    report.passes.push(done);
                }
                Step::Repeat(inner) => {
                    let mut rounds = 0;
                    while self.steps(inner, gm, report)? {
                        changed = true;
                        rounds += 1;
                        if rounds == MOST_ROUNDS {
                            return Err(err!(
                                Limit,
                                "passes still change the graph after {MOST_ROUNDS} rounds"
                            )
                            .help("one of them undoes what another does"));
                        }
                    }
                }
            }
        }
        Ok(changed)
    }

    /// Finds what makes a program bad: the passes run one after the other, unchecked, until `check` fails;
    /// then the pass that did it runs again with fewer changes until the first is found with which `check`
    /// fails. `None` if it never does; `gm` stays as it is. Fails if `check` fails before any pass, or a pass
    /// fails.
    pub fn bisect(
        &self,
        gm: &GraphModule,
        check: &dyn Fn(&GraphModule) -> Result<()>,
    ) -> Result<Option<Culprit>> {
        self.check_order()?;
        check(gm).map_err(|error| error.in_context(|| "the program before any pass".into()))?;
        let mut gm = gm.snapshot();
        let mut n_passes = 0;
        bisect_steps(&self.steps, &mut gm, check, &mut n_passes).map(|(found, _)| found)
    }

    fn pass(&self, entry: &Entry, gm: &mut GraphModule) -> Result<PassReport> {
        let start = Instant::now();
        let copy = (!self.in_place).then(|| gm.snapshot());
        let old = if self.in_place && self.checks.lint { gm.lint() } else { Vec::new() };
        let old = || copy.as_ref().map_or_else(|| old.clone(), GraphModule::lint);
        let known = Before::new(gm, &self.checks);
        let n_runs = known.as_ref().map_or(0, Before::n_runs);
        let no_runs = known.as_ref().err().filter(|_| self.checks.runs.is_some());
        let no_runs = no_runs.map(|error| format!("no runs were compared: {}", error.message()));
        let known = match known {
            Ok(known) => known,
            Err(_) => Before::new(gm, &Checks { runs: None, ..self.checks })?,
        };
        let verify_time = start.elapsed();
        let level = logging::level(Stage::Passes)?;
        let left = logging::changes_left(&entry.name)?;
        let rewrites = left.map_or_else(Rewrites::default, Rewrites::limited);
        let rewrites = if level > 2 { rewrites.keep_all() } else { rewrites };
        let start = Instant::now();
        let (context, result) = entry.run(gm, rewrites);
        let time = start.elapsed();
        if let Some(left) = left {
            logging::note_changes(&entry.name, context.rewrites.count());
            if left > 0 && context.rewrites.is_exhausted() {
                let last = context.rewrites.last().unwrap_or("a change");
                eprintln!("[limit] {}: FX_OPT_LIMIT allows no more; the last change was: {last}", entry.name);
            }
        }
        if level > 0 {
            log(&entry.name, gm, &known.graph, &context, (level, time));
        }
        if let Err(error) = result {
            if let Some(copy) = copy {
                *gm = copy;
            }
            return Err(failed(entry, &error, gm));
        }
        let start = Instant::now();
        if let Err(problem) = known.check(gm, &self.checks, &entry.pass, &old) {
            let is_good = |gm: &GraphModule| known.check(gm, &self.checks, &entry.pass, &old).is_ok();
            let guilty = copy.as_ref().map(|copy| bisect(entry, copy, context.rewrites.count(), &is_good));
            let diff = text_diff(&known.graph.to_string(), &gm.graph().to_string());
            let error = broken(entry, &problem, guilty, &diff);
            if let Some(copy) = copy {
                *gm = copy;
            }
            return Err(error);
        }
        let verify_time = verify_time + start.elapsed();
        let notes = context.notes.into_iter().chain(no_runs).collect();
        let before = &known.graph;
        let (created, erased, replaced) = count(before, gm.graph());
        let moved = created + erased + replaced == 0 && before != gm.graph();
        let diff = self.diffs.then(|| text_diff(&before.to_string(), &gm.graph().to_string()));
        Ok(PassReport {
            name: entry.name.to_string(),
            changes: context.rewrites.count(),
            created,
            erased,
            replaced,
            moved,
            nodes: gm.graph().len(),
            n_runs,
            time,
            verify_time,
            notes,
            diff,
            module: self.modules.then(|| gm.snapshot()),
        })
    }
}

/// Writes what a pass did to standard error.
fn log(name: &str, gm: &GraphModule, before: &Graph, context: &Context, (level, time): (u8, Duration)) {
    let changes = context.rewrites.count();
    let plural = if changes == 1 { "" } else { "s" };
    let what = format!(
        "{name}: {changes} change{plural}, {} nodes of {}, {time:.1?}  in {}",
        gm.graph().len(),
        before.len(),
        gm.name()
    );
    let mut lines: Vec<String> = context.notes.iter().map(|note| format!("note: {note}")).collect();
    lines.extend(context.rewrites.all().iter().cloned());
    if level > 1 && changes > 0 {
        lines.push(text_diff(&before.to_string(), &gm.graph().to_string()));
    }
    let text = if level > 1 { lines.join("\n") } else { String::new() };
    logging::write(Stage::Passes, &what, &text);
}

impl Entry {
    fn run(&self, gm: &mut GraphModule, rewrites: Rewrites) -> (Context, Result<()>) {
        let mut context = Context::for_pass(&self.pass);
        context.rewrites = rewrites;
        for (key, value) in &self.options {
            context.options.insert(Arc::from(&**key), value.clone());
        }
        let result = match &self.closure {
            Some(closure) => closure(gm, &mut context),
            None => (self.pass.run)(gm, &mut context),
        };
        (context, result)
    }
}

/// Which change of a pass breaks the graph.
enum Guilty {
    /// The number of the change, the number of all changes, and its description.
    Change(usize, usize, String),
    /// Also the pass without a change.
    Itself,
}

/// Finds the first change with which the graph is broken, by running the pass again with limits.
fn bisect(entry: &Entry, before: &GraphModule, n: usize, is_good: &dyn Fn(&GraphModule) -> bool) -> Guilty {
    let run = |limit: usize| {
        let mut gm = before.snapshot();
        let (context, result) = entry.run(&mut gm, Rewrites::limited(limit));
        (result.is_ok() && is_good(&gm), context)
    };
    let (mut good, mut bad) = (0, n);
    if n == 0 || !run(0).0 {
        return Guilty::Itself;
    }
    while bad - good > 1 {
        let middle = good + (bad - good) / 2;
        if run(middle).0 { good = middle } else { bad = middle }
    }
    let (_, context) = run(bad);
    Guilty::Change(bad, n, context.rewrites.last().unwrap_or("a change").to_owned())
}

/// Returns what makes the program bad, and whether anything changed.
fn bisect_steps(
    steps: &[Step],
    gm: &mut GraphModule,
    check: &dyn Fn(&GraphModule) -> Result<()>,
    n_passes: &mut usize,
) -> Result<(Option<Culprit>, bool)> {
    let mut changed = false;
    for step in steps {
        let entry = match step {
            Step::Pass(entry) => entry,
            Step::Repeat(inner) => {
                for _ in 0..MOST_ROUNDS {
                    let (found, any) = bisect_steps(inner, gm, check, n_passes)?;
                    if found.is_some() {
                        return Ok((found, true));
                    }
                    changed |= any;
                    if !any {
                        break;
                    }
                }
                continue;
            }
        };
        *n_passes += 1;
        let before = gm.snapshot();
        let (context, result) = entry.run(gm, Rewrites::default());
        let Err(problem) = result.and_then(|()| check(gm)) else {
            changed |= before.graph() != gm.graph();
            continue;
        };
        let of = |limit: usize| {
            let mut gm = before.snapshot();
            let (context, result) = entry.run(&mut gm, Rewrites::limited(limit));
            (gm, context, result)
        };
        let n = context.rewrites.count();
        let is_good = |gm: &GraphModule| check(gm).is_ok();
        let change = match bisect(entry, &before, n, &is_good) {
            Guilty::Change(at, _, what) => Some((at, what)),
            Guilty::Itself => None,
        };
        let (good, bad) = match &change {
            Some((at, _)) => (of(at - 1).0, of(*at).0),
            None => (before.snapshot(), gm.snapshot()),
        };
        let problem = change.as_ref().and_then(|_| check(&bad).err()).unwrap_or(problem);
        let pass = entry.name.to_string();
        let culprit =
            Culprit { pass, position: *n_passes, change, n_changes: n, problem, before: good, after: bad };
        return Ok((Some(culprit), true));
    }
    Ok((None, changed))
}

/// What [`Passes::bisect`] found to make a program bad.
#[derive(Clone, Debug)]
pub struct Culprit {
    /// The pass.
    pub pass: String,
    /// The how manieth pass it is that ran, from 1; a repeated pass counts each time.
    pub position: usize,
    /// The number of the change, from 1, and its description; `None` if the pass is bad without a change that
    /// it counts.
    pub change: Option<(usize, String)>,
    /// How many changes the pass makes in all.
    pub n_changes: usize,
    /// What the check said.
    pub problem: Error,
    /// The last good program: after all changes before this one.
    pub before: GraphModule,
    /// The first bad program: after this change too.
    pub after: GraphModule,
}

/// The pass, the change, the problem, and the lines of the graph that differ.
impl fmt::Display for Culprit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the pass {}, number {} that ran, ", self.pass, self.position)?;
        match &self.change {
            Some((at, what)) => {
                writeln!(f, "makes the program bad by change {at} of {}: {what}", self.n_changes)?
            }
            None => writeln!(f, "makes the program bad by an edit for which it did not ask `cx.allow`")?,
        }
        writeln!(f, "{}", self.problem.message())?;
        f.write_str(&text_diff(&self.before.graph().to_string(), &self.after.graph().to_string()))
    }
}

/// An error that names no line of a program that is not sound names the node for which it is not.
fn failed(entry: &Entry, error: &Error, gm: &GraphModule) -> Error {
    let unsound = match error.source_loc() {
        Some(_) => None,
        None => gm.lint().into_iter().next(),
    };
    if let Some(violation) = unsound {
        let source = violation.source.clone();
        let violation = Violation { source: None, ..violation }.to_string();
        let text = format!("the pass {} failed, for the program is not sound: {violation}", entry.name);
        let mut new = Error::new(error.kind(), text);
        if let Some(source) = source {
            new = new.at(source);
        }
        // The pass may have met another fault, whose advice would not help.
        return match error.advice().filter(|_| violation.contains(error.message())) {
            Some(advice) => new.help(advice),
            None => new,
        };
    }
    let mut new = Error::new(error.kind(), format!("the pass {} failed: {}", entry.name, error.message()));
    if let Some(source) = error.source_loc() {
        new = new.at(source.clone());
    }
    if let Some(context) = error.context() {
        new = new.in_context(|| context.to_owned());
    }
    match error.advice() {
        Some(advice) => new.help(advice),
        None => new,
    }
}

/// `guilty` is `None` if the pass could not be undone.
fn broken(entry: &Entry, problem: &Error, guilty: Option<Guilty>, diff: &str) -> Error {
    let undone = if guilty.is_some() { "the pass was undone; it had changed" } else { "the pass changed" };
    let which = match guilty {
        Some(Guilty::Change(at, n, what)) => format!(", by change {at} of {n}, {what}"),
        Some(Guilty::Itself) => ", by an edit for which it did not ask `cx.allow`".into(),
        None => String::new(),
    };
    let mut lines: Vec<&str> = diff.lines().take(40).collect();
    if diff.lines().count() > lines.len() {
        lines.push("...");
    }
    Error::new(
        problem.kind(),
        format!("the pass {} broke the graph{which}: {}", entry.name, problem.message()),
    )
    .help(format!("{undone}\n{}", lines.join("\n")))
}

/// Returns how many nodes are new, are gone, and compute something else.
fn count(before: &Graph, after: &Graph) -> (usize, usize, usize) {
    let (mut created, mut kept, mut replaced) = (0, 0, 0);
    for (id, node) in after.nodes() {
        match before.get_live(id) {
            None => created += 1,
            Some(old) => {
                kept += 1;
                let same = old.target() == node.target()
                    && old.args() == node.args()
                    && old.kwargs().len() == node.kwargs().len()
                    && old.kwargs().iter().zip(node.kwargs()).all(|(a, b)| a.0 == b.0 && a.1 == b.1);
                replaced += usize::from(!same);
            }
        }
    }
    (created, before.len() - kept, replaced)
}

/// What a pass did.
#[derive(Clone, Debug)]
pub struct PassReport {
    /// The pass.
    pub name: String,
    /// How many changes it counted.
    pub changes: usize,
    /// How many nodes it made.
    pub created: usize,
    /// How many nodes it removed.
    pub erased: usize,
    /// How many nodes have another operation or other arguments than before.
    pub replaced: usize,
    /// Whether it changed order, names or metadata only.
    pub moved: bool,
    /// How many nodes the graph has after it.
    pub nodes: usize,
    /// How many runs were compared.
    pub n_runs: usize,
    /// The time that the pass took.
    pub time: Duration,
    /// The time that checking it took.
    pub verify_time: Duration,
    /// What the pass said.
    pub notes: Vec<String>,
    /// What changed in the text of the graph, if it was asked for.
    pub diff: Option<String>,
    /// The module after it, if it was asked for.
    pub module: Option<GraphModule>,
}

impl PassReport {
    /// Returns whether the pass changed anything in the graph.
    pub fn changed(&self) -> bool {
        self.created + self.erased + self.replaced > 0 || self.moved
    }
}

/// What the passes did, in the order in which they ran.
#[derive(Clone, Debug)]
pub struct Report {
    /// Each run of a pass.
    pub passes: Vec<PassReport>,
}

impl Report {
    /// Returns whether any pass changed anything.
    pub fn changed(&self) -> bool {
        self.passes.iter().any(PassReport::changed)
    }
}

/// A line a pass.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for pass in &self.passes {
            writeln!(
                f,
                "{:20} {:6} changes  +{} -{} ~{} nodes, {} left  {:.1} ms, checked in {:.1} ms{}",
                pass.name,
                pass.changes,
                pass.created,
                pass.erased,
                pass.replaced,
                pass.nodes,
                pass.time.as_secs_f64() * 1e3,
                pass.verify_time.as_secs_f64() * 1e3,
                if pass.n_runs > 0 { format!(", {} runs agree", pass.n_runs) } else { String::new() },
            )?;
            for note in &pass.notes {
                writeln!(f, "    {note}")?;
            }
            if let Some(diff) = &pass.diff {
                f.write_str(diff)?;
            }
        }
        Ok(())
    }
}
