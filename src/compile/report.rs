//! What a compiled function tells of itself: breaks, misses, counts and the [`Explanation`].

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use crate::{GraphModule, SourceLoc};

/// Why a graph ends, or code runs otherwise than compiled. Each has a code, by which messages name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Code {
    /// A value is read.
    C01,
    /// A number varies.
    C02,
    /// A size varies and cannot be a symbol.
    C03,
    /// A pure function takes another path than the one that is recorded for such a call.
    C07,
    /// The compiled code of the function reached its limit.
    C08,
    /// The function compiles more than it saves.
    C09,
    /// A value is read in a function that must be one graph.
    C10,
    /// A tensor is used on another thread before it has a value.
    C11,
    /// A function that changes captured variables calls itself.
    C12,
    /// The backend failed.
    C13,
    /// A size depends on data.
    C14,
    /// An operation acts on the world.
    C15,
    /// Rust code uses a random generator.
    C16,
    /// A result is wanted that was not needed before.
    C17,
    /// Two backends differ.
    C18,
    /// The stance forbids to compile.
    C19,
}

impl Code {
    /// Returns what happened, as a sentence.
    pub fn meaning(self) -> &'static str {
        match self {
            Code::C01 => "a value is read here, so the graph ends",
            Code::C02 => "a number varies",
            Code::C03 => "a size varies and cannot be a symbol",
            Code::C07 => "a pure function did otherwise than recorded, so its Rust code runs on every call",
            Code::C08 => "the compiled code reached its limit",
            Code::C09 => "the function compiles more than it saves",
            Code::C10 => "a value is read in a function that must be one graph",
            Code::C11 => "another thread uses a tensor, so the graph ends",
            Code::C12 => "a function that changes captured variables calls itself",
            Code::C13 => "the backend failed, so operations run one by one",
            Code::C14 => "the type of a result depends on data, so the operation runs by itself",
            Code::C15 => "the operation acts on the world, so it runs by itself",
            Code::C16 => "Rust code uses a random generator, so the graph ends",
            Code::C17 => "a result is wanted that was not needed before, so the graph is compiled again",
            Code::C18 => "two backends differ, so operations run one by one",
            Code::C19 => "the stance forbids to compile",
        }
    }

    /// Returns what the user may do.
    pub fn advice(self) -> &'static str {
        match self {
            Code::C01 => {
                "`where_` or `fx::cond` would keep the graph whole; nothing is wrong if the read is meant"
            }
            Code::C02 => "pass the number as a tensor",
            Code::C03 => "give the tensors sizes that agree, or leave the size as it is",
            Code::C07 => "leave out `.pure()`, or pass what changes as an argument",
            Code::C08 => {
                "raise the limit, see which field of the misses varies, or leave out `.pure()` where a loop has many rounds"
            }
            Code::C09 => "see which field of the misses varies",
            Code::C10 => "use `where_`, `fx::cond` or `fx::while_loop`, or leave out `.whole()`",
            Code::C11 => {
                "read the tensor with `to_vec` before the threads begin, or use it on its own thread"
            }
            Code::C12 => "use a closure that is `Fn`",
            Code::C13 => "see the error of the backend",
            Code::C14 => "multiply by a mask instead of selecting elements",
            Code::C15 => "move the operation to the end of the function",
            Code::C16 => "draw with operations, such as `fx::rand`, instead",
            Code::C17 => "nothing, if this happens once",
            Code::C18 => "report the operation to the author of the backend",
            Code::C19 => "call the function in the default stance first",
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl Serialize for Code {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Why a segment ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The function returned.
    Return,
    /// A function such as `item` reads a value.
    Read(&'static str),
    /// An operation has to run by itself.
    Operation(Code, &'static str),
    /// The user's `cut`.
    Cut,
    /// Rust code uses a generator.
    Random,
    /// Another thread reads.
    Thread,
    /// As a file says.
    Loaded(std::sync::Arc<str>),
}

/// Where and why a segment ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) end: End,
    pub(super) at: Option<SourceLoc>,
}

impl End {
    pub(super) fn code(&self) -> Option<Code> {
        match self {
            End::Return | End::Cut | End::Loaded(_) => None,
            End::Read(_) => Some(Code::C01),
            End::Operation(code, _) => Some(*code),
            End::Random => Some(Code::C16),
            End::Thread => Some(Code::C11),
        }
    }
}

impl End {
    /// Returns what ends the graph, such as the function that reads.
    pub(super) fn what(&self) -> &'static str {
        match self {
            End::Read(what) | End::Operation(_, what) => what,
            End::Random => "generator",
            End::Thread => "another thread",
            End::Return | End::Cut | End::Loaded(_) => "",
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.end {
            End::Return => f.write_str("return")?,
            End::Cut => f.write_str("cut")?,
            End::Read(what) => write!(f, "read C01 `{what}`")?,
            End::Operation(code, op) => write!(f, "operation {code} `{op}`")?,
            End::Random => f.write_str("generator C16")?,
            End::Thread => f.write_str("thread C11")?,
            End::Loaded(text) => f.write_str(text)?,
        }
        match &self.at {
            Some(at) => write!(f, " at {at}"),
            None => Ok(()),
        }
    }
}

/// A place at which a graph ends, or code runs otherwise than compiled.
#[derive(Clone, Debug, Serialize)]
pub struct Break {
    /// The kind.
    pub code: Code,
    /// What happened, such as the function that reads.
    pub what: String,
    /// The line of the user's program.
    #[serde(serialize_with = "shown")]
    pub at: Option<SourceLoc>,
    /// How often.
    pub count: u64,
}

fn shown<S: serde::Serializer>(at: &Option<SourceLoc>, serializer: S) -> Result<S::Ok, S::Error> {
    match at {
        Some(at) => serializer.collect_str(at),
        None => serializer.serialize_none(),
    }
}

impl fmt::Display for Break {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.code, self.what)?;
        if let Some(at) = &self.at {
            write!(f, " at {at}")?;
        }
        write!(f, ": {}; {}", self.code.meaning(), self.code.advice())
    }
}

/// A call that no compiled code fitted.
#[derive(Clone, Debug, Serialize)]
pub struct Miss {
    /// The number of the call, from 1.
    pub call: u64,
    /// What was expected and what came; empty for the first graph.
    pub reason: String,
    /// The line of the user's program.
    #[serde(serialize_with = "shown")]
    pub at: Option<SourceLoc>,
    /// What was done, such as `recorded s3`.
    pub outcome: String,
}

impl fmt::Display for Miss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{} {}", self.call, self.reason)?;
        if let Some(at) = &self.at {
            write!(f, " at {at}")?;
        }
        write!(f, " -> {}", self.outcome)
    }
}

/// Counts of a compiled function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// Calls.
    pub calls: u64,
    /// Calls that ran compiled code only.
    pub hits: u64,
    /// Places of calls that no compiled code fitted.
    pub misses: u64,
    /// Graphs that a backend made ready.
    pub compiled: u64,
    /// Graphs of a file that a backend made ready.
    pub loaded: u64,
    /// How many graphs were compiled again without results that nobody uses.
    pub narrowed: u64,
    /// Graphs that ran.
    pub runs: u64,
    /// Reads of values that ended a graph.
    pub reads: u64,
}

/// A graph of a compiled function.
#[derive(Clone, Debug, Serialize)]
pub struct SegmentReport {
    /// Its name, such as `s0`.
    pub name: String,
    /// How many operations it has.
    pub operations: usize,
    /// The inputs with their types.
    pub inputs: Vec<String>,
    /// The results with their types.
    pub outputs: Vec<String>,
    /// Where and why it ended when it was recorded.
    pub end: String,
    /// The code of the break at its end, if there is one.
    pub code: Option<Code>,
    /// How often it ran.
    pub runs: u64,
    /// The time of a run, in the mean of those that were timed: the first ones, and some of the others.
    pub run_time: Duration,
    /// The time to make the graph.
    pub graph_time: Duration,
    /// The time in which the backend made it ready.
    pub backend_time: Duration,
    /// What the backend says of it.
    pub program: String,
    /// Why it runs operation by operation, if it does.
    pub failed: Option<String>,
    /// The graph as text; empty before the first run.
    pub graph: String,
    /// The graph; none before the first run.
    #[serde(skip)]
    pub module: Option<Arc<GraphModule>>,
}

/// What a compiled function consists of and what it did: see [`explain`](super::Function::explain).
#[derive(Clone, Debug, Serialize)]
pub struct Explanation {
    /// The name of the function.
    pub name: String,
    /// The line that compiled it.
    #[serde(serialize_with = "shown")]
    pub at: Option<SourceLoc>,
    /// The name of the backend.
    pub backend: String,
    /// The graphs, oldest first.
    pub segments: Vec<SegmentReport>,
    /// The last calls that no compiled code fitted.
    pub misses: Vec<Miss>,
    /// The places at which graphs end or code runs otherwise, each once.
    pub breaks: Vec<Break>,
    /// Whether the function promises to be pure.
    pub is_pure: bool,
    /// The paths of a pure function, on which its Rust code does not run.
    pub paths: Vec<PathReport>,
    /// The counts.
    pub counters: Counters,
}

/// A path of a pure function.
#[derive(Clone, Debug, Serialize)]
pub struct PathReport {
    /// The structure of the arguments, such as `f32[_, _], 0.5`.
    pub arguments: String,
    /// What else must hold, such as `x0 > 8`.
    pub guards: Vec<String>,
    /// What runs, such as `s0, s2, return`.
    pub steps: String,
}

impl fmt::Display for PathReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({})", self.arguments)?;
        if !self.guards.is_empty() {
            write!(f, " if {}", listed(&self.guards))?;
        }
        write!(f, ": {}", self.steps)
    }
}

impl Explanation {
    /// Returns all of it as JSON.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("names, numbers and texts are JSON")
    }
}

fn count(n: impl Into<u64>, one: &str) -> String {
    let n = n.into();
    format!("{n} {one}{}", if n == 1 { "" } else { "s" })
}

fn micros(time: Duration) -> String {
    format!("{:.1} us", time.as_secs_f64() * 1e6)
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counters { calls, hits, compiled, .. } = self.counters;
        write!(f, "{}", self.name)?;
        if let Some(at) = &self.at {
            write!(f, " (compiled at {at})")?;
        }
        let (segments, calls) = (count(self.segments.len() as u64, "segment"), count(calls, "call"));
        let (hits, compiled) = (count(hits, "hit"), count(compiled, "compilation"));
        let mode = if self.is_pure { "pure" } else { "follow" };
        writeln!(f, ": {mode}, backend {}, {segments}; {calls}: {hits}, {compiled}", self.backend)?;
        for segment in &self.segments {
            let runs = match segment.runs {
                0 => "not run yet".to_owned(),
                n => format!("{}, {} each", count(n, "run"), micros(segment.run_time)),
            };
            writeln!(
                f,
                "  {}  {}, ({}) -> ({})  ends: {}  {runs}",
                segment.name,
                count(segment.operations as u64, "operation"),
                segment.inputs.join(", "),
                segment.outputs.join(", "),
                segment.end,
            )?;
            if let Some(error) = &segment.failed {
                writeln!(f, "      runs operation by operation: {error}")?;
            }
            let compile = segment.graph_time + segment.backend_time;
            if compile > Duration::ZERO {
                writeln!(
                    f,
                    "      compiled in {}: graph {}, backend {}",
                    micros(compile),
                    micros(segment.graph_time),
                    micros(segment.backend_time)
                )?;
            }
        }
        if !self.paths.is_empty() {
            writeln!(f, "  paths:")?;
        }
        for path in &self.paths {
            writeln!(f, "    {path}")?;
        }
        if !self.misses.is_empty() {
            writeln!(f, "  misses:")?;
        }
        for miss in &self.misses {
            writeln!(f, "    {miss}")?;
        }
        if !self.breaks.is_empty() {
            writeln!(f, "  breaks:")?;
        }
        for found in &self.breaks {
            writeln!(f, "    {found}  ({} times)", found.count)?;
        }
        Ok(())
    }
}

/// Writes the items of a list: what repeats once, with how often it comes, and of many the first and last ones.
pub fn listed(items: &[String]) -> String {
    /// Of so many items all are written.
    const MOST: usize = 64;
    let items = folded(items);
    if items.len() <= MOST {
        return items.join(", ");
    }
    let (first, last) = (&items[..MOST / 2], &items[items.len() - MOST / 2..]);
    format!("{}, … {} more …, {}", first.join(", "), items.len() - MOST, last.join(", "))
}

/// Writes one or several items that come again and again, as those of a loop do, once: `(s1, s2) ×12`.
fn folded(items: &[String]) -> Vec<String> {
    /// The most items of a round.
    const LONGEST: usize = 8;
    let mut folded = Vec::new();
    let mut at = 0;
    while at < items.len() {
        let rounds = |n: usize| {
            let round = &items[at..at + n];
            1 + items[at + n..].chunks_exact(n).take_while(|chunk| *chunk == round).count()
        };
        let most = LONGEST.min((items.len() - at) / 2);
        // The round that takes up most, the shortest of these.
        let best = (1..=most).map(|n| (n, rounds(n))).filter(|(_, rounds)| *rounds > 1);
        match best.max_by_key(|(n, rounds)| (n * rounds, std::cmp::Reverse(*n))) {
            Some((1, rounds)) => {
                folded.push(format!("{} ×{rounds}", items[at]));
                at += rounds;
            }
            Some((n, rounds)) => {
                folded.push(format!("({}) ×{rounds}", items[at..at + n].join(", ")));
                at += n * rounds;
            }
            None => {
                folded.push(items[at].clone());
                at += 1;
            }
        }
    }
    folded
}
