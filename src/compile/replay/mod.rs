//! Replay: a function that promises to be pure runs without its Rust code where a call is like a recorded one.
//!
//! A followed call is noted as *steps*: segments that run, operations that run by themselves, the result. Between
//! them stand *guards*, which say what the Rust code could see: the structure of the arguments, relations of
//! sizes, values that it read. Paths with the same beginning share their steps, so they are a tree. A call for
//! which all guards of a path hold takes its steps; one that leaves every path goes on in the Rust code, with
//! what it has computed so far.
//!
//! Reading order: `guard`, `path` (steps, and a call that takes them), `tree`, `record` (a followed call).

mod guard;
mod path;
mod record;
mod tree;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use arc_swap::{ArcSwap, Guard};
use smallvec::SmallVec;

use super::cache::Cache;
use super::journal::{CallCounts, add};
use super::miss::Missed;
use super::report::{Code, Miss, PathReport, listed};
use super::tell::{self, Told};
use crate::Value;
use crate::eval::Inputs;
use crate::signature::{BySignature, Open, Signature, Signed};
pub(super) use path::{Results, Steps};
use path::{Step, Walk};
pub(super) use record::Recorder;
use tree::{Edge, Edges, Lifetimes, News, grown, kept};

/// The paths of a pure function.
pub(super) struct Replay {
    /// Of so many calls that a path serves, one is followed, to check the promise.
    pub(super) every: u64,
    roots: ArcSwap<Roots>,
    learning: Mutex<()>,
    /// Why the function is followed always.
    broken: OnceLock<String>,
}

/// The paths of calls whose arguments have one structure.
struct Root {
    signature: Signature,
    edges: Edges,
    lifetimes: Arc<Lifetimes>,
    calls: Arc<Calls>,
}

/// The calls with one structure of the arguments.
#[derive(Default)]
struct Calls {
    /// Whether the promise was checked after the first call.
    is_checked: AtomicBool,
}

impl Calls {
    /// Returns whether a call is to be followed that is the `n`th of its thread which a path could serve.
    fn is_check(&self, n: u64, every: u64) -> bool {
        let is_checked = self.is_checked.load(Ordering::Relaxed);
        (!is_checked && !self.is_checked.swap(true, Ordering::Relaxed)) || n.is_multiple_of(every)
    }
}

impl Signed for Root {
    fn signature(&self) -> &Signature {
        &self.signature
    }
}

/// The paths by the structure of the arguments.
type Roots = BySignature<Root>;

/// What a pure function does with a call.
pub(super) enum Outcome {
    /// The path has returned, after so many graphs ran.
    Hit(Value, u64),
    /// The Rust code runs, after what the call has computed.
    Follow(Box<(Steps, Option<Missed>)>),
}

impl Replay {
    /// So many paths a function and a step may have; then the oldest goes.
    const MOST: usize = 64;

    pub(super) fn new(every: u64) -> Replay {
        Replay { every, roots: ArcSwap::default(), learning: Mutex::new(()), broken: OnceLock::new() }
    }

    fn roots(&self) -> Guard<Arc<Roots>> {
        self.roots.load()
    }

    /// Returns whether the function kept its promise so far.
    pub(super) fn is_pure(&self) -> bool {
        self.broken.get().is_none()
    }

    /// Lets go of all paths.
    pub(super) fn clear(&self) {
        self.roots.store(Arc::default());
    }

    /// Takes a path, as far as one fits the call.
    pub(super) fn run(
        &self,
        args: Inputs<'_>,
        (names, open): (&[Arc<str>], &Open),
        counts: &CallCounts,
    ) -> Outcome {
        let roots = self.roots();
        let Some(root) = roots.find(args, open) else {
            let missed = roots
                .last()
                .map(|root| Missed { reason: root.signature.difference(&args.values(), names), at: None });
            return Outcome::Follow(Box::new((Steps::new(), missed)));
        };
        let n = counts.served.fetch_add(1, Ordering::Relaxed) + 1;
        let follow = |done, missed| {
            add(&counts.unserved, 1);
            Outcome::Follow(Box::new((done, missed)))
        };
        if root.calls.is_check(n, self.every) {
            return follow(Steps::new(), None);
        }
        let Some(mut walk) = Walk::new(args, open) else { return follow(Steps::new(), None) };
        let mut edges = &root.edges;
        let mut taken: SmallVec<[&Step; 4]> = SmallVec::new();
        loop {
            let Some(at) = edges.find(&walk) else {
                let missed = edges.reason(&walk).map(|(reason, at)| Missed { reason, at });
                return follow(walk.leave(&taken), missed);
            };
            let node = &edges.list()[at].node;
            if !node.returns {
                return follow(walk.leave(&taken), None);
            }
            match walk.take(&node.step) {
                Ok(None) => {
                    walk.end(root.lifetimes.ending(taken.len()));
                    edges = &node.edges;
                }
                Ok(Some(value)) => return Outcome::Hit(value, walk.runs()),
                Err(left) => {
                    let left = *left;
                    let missed = Missed { reason: left.reason, at: left.at };
                    return follow(walk.leave(&taken), Some(missed));
                }
            }
            taken.push(&node.step);
        }
    }

    /// Enters what a followed call did. A call that does otherwise than its path breaks the promise.
    pub(super) fn learn(&self, recorder: Recorder, call: u64, cache: &Cache) {
        let Recorder { signature, args, symbols, done, steps, miss, difference: other, .. } = recorder;
        let Some(walk) = Walk::resumed(Inputs::Values(&args), symbols, done) else { return };
        let _learning = self.learning.lock().unwrap_or_else(PoisonError::into_inner);
        let roots = self.roots();
        let known = roots.list().iter().position(|root| {
            root.signature.hash == signature.hash
                && root.signature.args.len() == signature.args.len()
                && root.signature.args.iter().zip(&signature.args).all(|(a, b)| a == b)
        });
        let empty = Edges::default();
        let before = known.map_or(&empty, |at| &roots.list()[at].edges);
        let mut news = News::default();
        let edges = match grown(before, &walk, &steps, &mut news) {
            Ok(edges) => edges,
            Err(broken) => {
                cache.journal.note(Code::C07, &broken.what, broken.at);
                let _ = self.broken.set(broken.what);
                self.clear();
                return;
            }
        };
        for (_, step) in &steps {
            if let Step::Stop { code, what, at } = step {
                cache.journal.note(*code, what, at.clone());
            }
        }
        if let Some((_, Step::Stop { code: Code::C07, what, .. })) = steps.last() {
            let _ = self.broken.set(what.to_string());
            self.clear();
            return;
        }
        if news.is_new {
            let (reason, at) = match miss.or(news.reason).or(other) {
                Some(miss) => (miss.reason, miss.at),
                None => ("first call".to_owned(), None),
            };
            let names: Vec<String> = steps.iter().map(|(_, step)| name_of(step)).collect();
            let outcome = format!("recorded {}", listed(&names));
            cache.journal.miss(Miss { call, reason, at, outcome });
            if tell::is_told() {
                let guards = steps.iter().flat_map(|(guards, _)| guards).map(ToString::to_string);
                cache.journal.tell(Told::Path(&PathReport {
                    arguments: signature.to_string(),
                    guards: guards.collect(),
                    steps: listed(&names),
                }));
            }
        }
        let calls = known.map_or_else(Arc::default, |at| roots.list()[at].calls.clone());
        let mut lifetimes = known.map_or_else(Arc::default, |at| roots.list()[at].lifetimes.clone());
        if news.is_new {
            lifetimes = Arc::new(lifetimes.with(&steps, walk.done()));
        }
        let mut list = roots.list().to_vec();
        let root = Arc::new(Root { signature, edges, lifetimes, calls });
        match known {
            Some(at) => list[at] = root,
            None => {
                if list.len() >= Replay::MOST {
                    list.remove(0);
                }
                list.push(root);
            }
        }
        self.roots.store(Arc::new(Roots::new(list)));
    }

    /// Drops the paths with a segment that is there no more.
    pub(super) fn forget(&self, is_there: &dyn Fn(u64) -> bool) {
        let _learning = self.learning.lock().unwrap_or_else(PoisonError::into_inner);
        let roots = self.roots();
        let list = roots.list().iter().map(|root| {
            Arc::new(Root {
                signature: root.signature.clone(),
                edges: kept(&root.edges, is_there),
                lifetimes: root.lifetimes.clone(),
                calls: root.calls.clone(),
            })
        });
        let list = list.filter(|root| !root.edges.list().is_empty()).collect();
        self.roots.store(Arc::new(Roots::new(list)));
    }

    /// Reports all paths.
    pub(super) fn report(&self) -> Vec<PathReport> {
        let mut paths = Vec::new();
        for root in self.roots().list() {
            let arguments = root.signature.to_string();
            let (mut guards, mut steps): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
            // Edges to look at, with how many guards and steps lead to them.
            let mut rest: Vec<(&Edge, usize, usize)> = Vec::new();
            rest.extend(root.edges.list().iter().rev().map(|edge| (edge, 0, 0)));
            while let Some((edge, n_guards, n_steps)) = rest.pop() {
                guards.truncate(n_guards);
                steps.truncate(n_steps);
                guards.extend(edge.guards.iter().map(ToString::to_string));
                steps.push(name_of(&edge.node.step));
                if edge.node.edges.list().is_empty() {
                    let (arguments, guards) = (arguments.clone(), guards.clone());
                    paths.push(PathReport { arguments, guards, steps: listed(&steps) });
                }
                let below = edge.node.edges.list().iter().rev();
                rest.extend(below.map(|edge| (edge, guards.len(), steps.len())));
            }
        }
        paths
    }
}

fn name_of(step: &Step) -> String {
    match step {
        Step::Run { segment, .. } => super::cache::name_of(segment.id),
        Step::Apply { op, .. } => op.name.to_owned(),
        Step::Return { .. } => "return".to_owned(),
        Step::Stop { code, what, .. } => format!("Rust code ({code} {what})"),
    }
}
