//! [`Profile`]: the time of a program by step, by line of the user's program and by module.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use serde::Serialize;

use crate::{GraphModule, Node, NodeId, Program, Result, SourceLoc, Value};

/// The time of a program, as the mean of several runs of each step: see [`profile`].
#[derive(Clone, Debug, Serialize)]
pub struct Profile {
    /// The name of the engine.
    pub engine: String,
    /// The steps in the order in which they run.
    pub steps: Vec<ProfiledStep>,
}

/// A step of a program: a kernel, or an operation.
#[derive(Clone, Debug, Serialize)]
pub struct ProfiledStep {
    /// The node.
    pub node: String,
    /// What the step does.
    pub what: String,
    /// The line of the user's program, of the last operation in the step.
    #[serde(serialize_with = "shown")]
    pub source: Option<SourceLoc>,
    /// The modules around it, outermost first, such as `layers.0` and `layers.0.attention`.
    pub modules: Vec<String>,
    /// The time in nanoseconds.
    pub nanoseconds: f64,
}

fn shown<S: serde::Serializer>(at: &Option<SourceLoc>, serializer: S) -> Result<S::Ok, S::Error> {
    match at {
        Some(at) => serializer.collect_str(at),
        None => serializer.serialize_none(),
    }
}

/// Runs a program several times and returns the time of each step. Fails if the arguments do not fit, or an
/// operation fails.
///
/// ```
/// use fx::nn;
/// use fx::prelude::*;
///
/// let gm = fx::trace(&nn::Linear::new(64, 64)).input("x", "f32[8, 64]").build()?;
/// let program = gm.compile(fx::Engine::Fused)?;
/// let profile = fx::profile(&program, &[fx::Arg::Leaf(fx::ones([8, 64]))], 10)?;
/// println!("{profile}");
/// let trace = profile.to_chrome_trace();
/// assert!(trace.starts_with("{\"traceEvents\":["));
/// # Ok::<(), fx::Error>(())
/// ```
pub fn profile(program: &Program, args: &[Value], runs: usize) -> Result<Profile> {
    let gm = program.graph_module();
    let runs = runs.max(1);
    let times: Vec<(String, String, f64)> = match program.fused() {
        // A part of the runs warms up.
        Some(compiled) => {
            compiled.profile(args, runs.div_ceil(4))?;
            compiled.profile(args, runs)?
        }
        None => eager(gm, args, runs)?,
    };
    let steps = times.into_iter().map(|(node, what, nanoseconds)| {
        let found = gm.graph().find(&node).and_then(|id| gm.graph().node(id).ok());
        let (source, modules) = found.map_or((None, Vec::new()), place);
        ProfiledStep { node, what, source, modules, nanoseconds }
    });
    Ok(Profile { engine: program.engine().name().to_owned(), steps: steps.collect() })
}

/// Returns the line and the modules of a node; of a group of nodes, those of its last one that has them.
fn place(node: &Node) -> (Option<SourceLoc>, Vec<String>) {
    let of = |node: &Node| {
        let stack = node.meta().stack.as_deref().unwrap_or_default();
        (node.meta().source.clone(), stack.iter().map(|frame| frame.path.to_string()).collect::<Vec<_>>())
    };
    let own = of(node);
    if own.0.is_some() {
        return own;
    }
    let mut found = own;
    for arg in node.all_args() {
        arg.walk(&mut |arg| {
            if let crate::Arg::Graph(graph) = arg {
                for (_, node) in graph.nodes() {
                    let inner = of(node);
                    if inner.0.is_some() {
                        found = inner;
                    }
                }
            }
        });
    }
    found
}

/// Times the nodes of a graph that runs operation by operation.
fn eager(gm: &GraphModule, args: &[Value], runs: usize) -> Result<Vec<(String, String, f64)>> {
    let mut all: Vec<(String, f64)> = Vec::new();
    for _ in 0..runs {
        let run = gm.eval().profiled().run(args)?;
        for (at, (name, time)) in run.profile.into_iter().enumerate() {
            let time = time.as_nanos() as f64 / runs as f64;
            match all.get_mut(at) {
                Some((_, mean)) => *mean += time,
                None => all.push((name, time)),
            }
        }
    }
    let what = |id: NodeId| {
        gm.graph().node(id).map_or_else(
            |_| String::new(),
            |node| match node.op() {
                Some(op) => op.name.to_owned(),
                None => node.target().to_string(),
            },
        )
    };
    let each = all.into_iter().map(|(name, mean)| {
        let what = gm.graph().find(&name).map_or_else(String::new, what);
        (name, what, mean)
    });
    Ok(each.collect())
}

/// Adds the time of each key, the greatest first.
fn totals(times: impl Iterator<Item = (String, f64)>) -> Vec<(String, f64)> {
    let mut sums: BTreeMap<String, f64> = BTreeMap::new();
    for (key, time) in times {
        *sums.entry(key).or_default() += time;
    }
    let mut sums: Vec<(String, f64)> = sums.into_iter().collect();
    sums.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    sums
}

impl Profile {
    /// Returns the time of all steps in nanoseconds.
    pub fn total(&self) -> f64 {
        self.steps.iter().map(|step| step.nanoseconds).sum()
    }

    /// Returns the nanoseconds of each line of the user's program, the greatest first. The time of a kernel for
    /// several lines counts for its last one.
    pub fn by_line(&self) -> Vec<(String, f64)> {
        let line = |step: &ProfiledStep| match &step.source {
            Some(at) => at.to_string(),
            None => "(no line)".to_owned(),
        };
        totals(self.steps.iter().map(|step| (line(step), step.nanoseconds)))
    }

    /// Returns the nanoseconds of each module, with those in it, the greatest first; the program itself is the
    /// empty path.
    pub fn by_module(&self) -> Vec<(String, f64)> {
        let each = self.steps.iter().flat_map(|step| {
            let paths = std::iter::once(String::new())
                .chain(step.modules.iter().filter(|path| !path.is_empty()).cloned());
            paths.map(|path| (path, step.nanoseconds))
        });
        totals(each)
    }

    /// Returns the steps as a trace that `chrome://tracing` and Perfetto show: one after the other, within their
    /// modules. Steps that ran at the same time stand in a row, too.
    pub fn to_chrome_trace(&self) -> String {
        let mut events: Vec<serde_json::Value> = Vec::new();
        // The modules that are open, each with its beginning.
        let mut open: Vec<(String, f64)> = Vec::new();
        let mut now = 0.0;
        let event = |name: &str, kind: &str, start: f64, end: f64, args: serde_json::Value| {
            serde_json::json!({
                "name": name, "cat": kind, "ph": "X", "ts": start / 1e3, "dur": (end - start) / 1e3,
                "pid": 1, "tid": 1, "args": args,
            })
        };
        let none = || serde_json::json!({});
        for step in &self.steps {
            let modules: Vec<&String> = step.modules.iter().filter(|path| !path.is_empty()).collect();
            let shared = open.iter().zip(&modules).take_while(|((path, _), other)| path == **other).count();
            for (path, start) in open.drain(shared..).rev() {
                events.push(event(&path, "module", start, now, none()));
            }
            open.extend(modules[shared..].iter().map(|path| ((*path).clone(), now)));
            let end = now + step.nanoseconds;
            let source = step.source.as_ref().map(ToString::to_string);
            let args = serde_json::json!({ "what": step.what, "source": source });
            events.push(event(&step.node, "step", now, end, args));
            now = end;
        }
        for (path, start) in open.into_iter().rev() {
            events.push(event(&path, "module", start, now, none()));
        }
        let mut text = "{\"traceEvents\":[".to_owned();
        for (at, event) in events.iter().enumerate() {
            let separator = if at == 0 { "" } else { "," };
            let _ = write!(text, "{separator}\n{event}");
        }
        text + "\n],\"displayTimeUnit\":\"ns\"}\n"
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total = self.total();
        let part = |f: &mut fmt::Formatter<'_>, title: &str, rows: &[(String, f64)]| {
            writeln!(f, "{title}")?;
            for (name, time) in rows {
                let share = if total > 0.0 { 100.0 * time / total } else { 0.0 };
                writeln!(f, "  {:>10.2} us {share:>5.1} %  {name}", time / 1e3)?;
            }
            Ok(())
        };
        writeln!(f, "{}: {} steps, {:.2} us", self.engine, self.steps.len(), total / 1e3)?;
        let mut steps: Vec<(String, f64)> = Vec::new();
        for step in &self.steps {
            steps.push((format!("%{}: {}", step.node, step.what), step.nanoseconds));
        }
        steps.sort_by(|(_, a), (_, b)| b.total_cmp(a));
        part(f, "steps", &steps)?;
        part(f, "lines", &self.by_line())?;
        let modules: Vec<(String, f64)> =
            self.by_module().into_iter().filter(|(path, _)| !path.is_empty()).collect();
        if !modules.is_empty() {
            part(f, "modules, with those in them", &modules)?;
        }
        Ok(())
    }
}
