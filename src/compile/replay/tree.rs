//! [`Edges`]: the steps of recorded calls as a tree, and [`Lifetimes`]: how long the results of steps are needed.
//!
//! A path is as long as the loops of its call are, so nothing here recurses along a path.

use std::collections::hash_map::Entry;
use std::hash::Hasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustc_hash::{FxHashMap, FxHashSet, FxHasher};
use smallvec::SmallVec;

use super::super::miss::number_text;
use super::super::segment::Segment;
use super::guard::{Guard, Key};
use super::path::{Done, Step, Walk};
use super::{Code, Missed, Replay};
use crate::SourceLoc;

/// A step of one or more recorded calls, and what came after it.
pub(super) struct Node {
    pub(super) step: Step,
    pub(super) edges: Edges,
    /// Whether some path from here returns without the Rust code.
    pub(super) returns: bool,
}

impl Node {
    pub(super) fn new(step: Step, edges: Edges) -> Node {
        let returns = matches!(step, Step::Return { .. }) || edges.list.iter().any(|edge| edge.node.returns);
        Node { step, edges, returns }
    }
}

/// A way on, for calls for which all guards hold.
#[derive(Clone)]
pub(super) struct Edge {
    pub(super) guards: Vec<Guard>,
    pub(super) node: Arc<Node>,
}

/// The ways on from a step.
#[derive(Default)]
pub(super) struct Edges {
    list: Vec<Edge>,
    /// From [`Edges::INDEXED`] ways on: those that compare the same things with values, by these values.
    index: Vec<Group>,
    /// The way that was taken last.
    last: AtomicUsize,
}

/// Edges whose guards compare the same things with values.
#[derive(Debug)]
struct Group {
    /// The edge and guards that say what is compared.
    like: usize,
    guards: Vec<usize>,
    by_value: FxHashMap<u64, SmallVec<[usize; 1]>>,
}

impl Clone for Edges {
    fn clone(&self) -> Edges {
        Edges::new(self.list.clone())
    }
}

impl Edges {
    const INDEXED: usize = 4;

    pub(super) fn new(list: Vec<Edge>) -> Edges {
        let mut index: Vec<Group> = Vec::new();
        if list.len() >= Edges::INDEXED {
            for (at, edge) in list.iter().enumerate() {
                let guards: Vec<usize> =
                    (0..edge.guards.len()).filter(|guard| edge.guards[*guard].key().is_some()).collect();
                let is_like = |group: &&mut Group| {
                    let other = &list[group.like].guards;
                    group.guards.len() == guards.len()
                        && group.guards.iter().zip(&guards).all(|(a, b)| {
                            match (other[*a].key(), edge.guards[*b].key()) {
                                (Some(a), Some(b)) => a.is_same(&b),
                                _ => false,
                            }
                        })
                };
                let mut hasher = FxHasher::default();
                guards.iter().for_each(|guard| edge.guards[*guard].hash_expected(&mut hasher));
                let hash = hasher.finish();
                match index.iter_mut().find(is_like) {
                    Some(group) => group.by_value.entry(hash).or_default().push(at),
                    None => {
                        let by_value = FxHashMap::from_iter([(hash, SmallVec::from_slice(&[at]))]);
                        index.push(Group { like: at, guards, by_value });
                    }
                }
            }
        }
        Edges { list, index, last: AtomicUsize::new(0) }
    }

    pub(super) fn list(&self) -> &[Edge] {
        &self.list
    }

    /// Returns the way on of a call, the one that was taken last first.
    pub(super) fn find(&self, walk: &Walk<'_>) -> Option<usize> {
        let holds = |at: &usize| self.list[*at].guards.iter().all(|guard| guard.holds(walk));
        let last = self.last.load(Ordering::Relaxed);
        if last < self.list.len() && holds(&last) {
            return Some(last);
        }
        let found = if self.index.is_empty() {
            (0..self.list.len()).rev().find(holds)
        } else {
            self.index.iter().find_map(|group| {
                let mut hasher = FxHasher::default();
                let like = &self.list[group.like].guards;
                for guard in &group.guards {
                    if let Some(key) = like[*guard].key() {
                        Key::hash_value(&key, walk, &mut hasher);
                    }
                }
                group.by_value.get(&hasher.finish())?.iter().rev().copied().find(holds)
            })
        };
        if let Some(found) = found {
            self.last.store(found, Ordering::Relaxed);
        }
        found
    }

    /// Says in words why a call takes no way on.
    pub(super) fn reason(&self, walk: &Walk<'_>) -> Option<(String, Option<SourceLoc>)> {
        let last = self.last.load(Ordering::Relaxed).min(self.list.len().checked_sub(1)?);
        let failed = self.list[last].guards.iter().find(|guard| !guard.holds(walk))?;
        Some((failed.reason(walk), failed.at().cloned()))
    }
}

impl Drop for Edges {
    fn drop(&mut self) {
        let mut rest = std::mem::take(&mut self.list);
        while let Some(edge) = rest.pop() {
            if let Some(mut node) = Arc::into_inner(edge.node) {
                rest.append(&mut node.edges.list);
            }
        }
    }
}

/// Returns whether a later call may do otherwise than this step without breaking the promise.
fn may_change(step: &Step) -> bool {
    matches!(step, Step::Stop { code, .. } if *code != Code::C07)
}

/// What is new in a call, and why it took no known path.
#[derive(Default)]
pub(super) struct News {
    pub(super) is_new: bool,
    pub(super) reason: Option<Missed>,
}

/// A promise that was broken.
pub(super) struct Broken {
    pub(super) what: String,
    pub(super) at: Option<SourceLoc>,
}

/// Returns the edges with the steps of a call among them. Fails if the call does otherwise than its path.
pub(super) fn grown(
    root: &Edges,
    walk: &Walk<'_>,
    steps: &[(Vec<Guard>, Step)],
    news: &mut News,
) -> Result<Edges, Broken> {
    // Down: for each step the edges among which it is, and the place of its edge if that is known.
    let mut levels: Vec<(&[Edge], Option<usize>)> = Vec::with_capacity(steps.len());
    let mut edges = Some(root);
    for (_, step) in steps {
        let list = edges.map_or(&[][..], Edges::list);
        let found = edges.and_then(|edges| edges.find(walk));
        levels.push((list, found));
        edges = match found {
            Some(at) => {
                let known = &list[at].node;
                if may_change(&known.step) || may_change(step) {
                    None
                } else if let Some(broken) = difference(&known.step, step, walk) {
                    return Err(broken);
                } else {
                    news.is_new |= known.step.segment() != step.segment();
                    Some(&known.edges)
                }
            }
            None => {
                if !news.is_new {
                    let reason = edges.and_then(|edges| edges.reason(walk));
                    news.reason = reason.map(|(reason, at)| Missed { reason, at });
                }
                news.is_new = true;
                None
            }
        };
    }
    // Up: each step with what comes after it.
    let mut below = edges.cloned().unwrap_or_default();
    for ((list, found), (guards, step)) in levels.into_iter().zip(steps).rev() {
        let node = Arc::new(Node::new(step.clone(), below));
        let mut list = list.to_vec();
        match found {
            Some(at) => {
                if may_change(&list[at].node.step) || may_change(step) {
                    list[at].guards = guards.clone();
                }
                list[at].node = node;
            }
            None => {
                // A way whose guards are among those of another is for the calls of that, too.
                if !may_change(step) {
                    list.retain(|other| {
                        !guards.iter().all(|guard| other.guards.iter().any(|known| known.is_same(guard)))
                    });
                }
                if list.len() >= Replay::MOST {
                    list.remove(0);
                }
                list.push(Edge { guards: guards.clone(), node });
            }
        }
        below = Edges::new(list);
    }
    Ok(below)
}

/// Returns how a call differs from the step that is recorded for it.
fn difference(known: &Step, now: &Step, walk: &Walk<'_>) -> Option<Broken> {
    let place = |at: Option<&SourceLoc>| at.map_or_else(String::new, |at| format!(" at {at}"));
    let broken = |recorded: (String, Option<&SourceLoc>), got: (String, Option<&SourceLoc>)| {
        let what = format!("recorded {}{}, got {}{}", recorded.0, place(recorded.1), got.0, place(got.1));
        Some(Broken { what, at: got.1.or(recorded.1).cloned() })
    };
    if let (Step::Run { segment, numbers, .. }, Step::Run { segment: other, numbers: others, .. }) =
        (known, now)
    {
        let pairs = segment.events.iter().zip(&other.events);
        if let Some((a, b)) = { pairs }.find(|(a, b)| a.op != b.op) {
            return broken((a.op.name.to_owned(), Some(&a.source)), (b.op.name.to_owned(), Some(&b.source)));
        }
        let longer = segment.events.len().max(other.events.len());
        let shorter = segment.events.len().min(other.events.len());
        if longer > shorter {
            let name = |segment: &Segment| match segment.events.get(shorter) {
                Some(event) => (event.op.name.to_owned(), Some(event.source.clone())),
                None => ("the end".to_owned(), None),
            };
            let ((a, a_at), (b, b_at)) = (name(segment), name(other));
            return broken((a, a_at.as_ref()), (b, b_at.as_ref()));
        }
        let values = numbers.iter().zip(others).map(|(a, b)| (walk.number(a), walk.number(b)));
        if let Some((at, (a, b))) = values.enumerate().find(|(_, (a, b))| a != b) {
            let event = other.event_of_number(at);
            let shown = |number: Option<crate::Scalar>| number.map_or("nothing".to_owned(), number_text);
            return broken(
                (format!("the number {}", shown(a)), segment.event_of_number(at)),
                (shown(b), event),
            );
        }
    }
    if known.is_same(now) {
        return None;
    }
    let what = if known.describe() == now.describe() {
        (format!("{} of other tensors", known.describe()), now.describe())
    } else {
        (known.describe(), now.describe())
    };
    broken((what.0, known.at()), (what.1, now.at()))
}

/// Returns the edges without the paths that lead through a segment that is there no more.
pub(super) fn kept(root: &Edges, is_there: &dyn Fn(u64) -> bool) -> Edges {
    /// Edges of which the first ones are looked at, and what of these is kept.
    struct Level<'a> {
        edges: &'a [Edge],
        next: usize,
        kept: Vec<Edge>,
    }
    fn level(edges: &Edges) -> Level<'_> {
        Level { edges: edges.list(), next: 0, kept: Vec::new() }
    }
    let mut levels = vec![level(root)];
    loop {
        let Some(top) = levels.last_mut() else { return Edges::default() };
        if let Some(edge) = top.edges.get(top.next) {
            top.next += 1;
            if edge.node.step.segment().is_none_or(is_there) {
                levels.push(level(&edge.node.edges));
            }
            continue;
        }
        let below = Edges::new(levels.pop().map(|level| level.kept).unwrap_or_default());
        let Some(parent) = levels.last_mut() else { return below };
        let edge = &parent.edges[parent.next - 1];
        if edge.node.edges.list().is_empty() || !below.list().is_empty() {
            let node = Arc::new(Node::new(edge.node.step.clone(), below));
            parent.kept.push(Edge { guards: edge.guards.clone(), node });
        }
    }
}

/// A result of a step: the number of the step, and that of the result.
pub(super) type Place = (u32, u32);

/// How long paths need the results of their steps. Steps of several paths that have one number are one here: a
/// result is kept for the longest of them.
#[derive(Clone, Default)]
pub(super) struct Lifetimes {
    /// The last step that takes a result.
    last: FxHashMap<Place, u32>,
    /// The results that no step after this one takes, by step.
    ending: Vec<SmallVec<[Place; 2]>>,
    /// The steps that cannot be taken twice, since they draw random numbers or act on the world: their results
    /// stay.
    once: FxHashSet<u32>,
}

impl Lifetimes {
    /// Returns the lifetimes for the steps of one more call, which computed this.
    pub(super) fn with(&self, steps: &[(Vec<Guard>, Step)], done: &[Done]) -> Lifetimes {
        let mut lifetimes = self.clone();
        for (number, (_, step)) in (0..).zip(steps) {
            if !step.may_repeat() {
                lifetimes.once.insert(number);
            }
            step.for_each_place(&mut |place| {
                let last = lifetimes.last.entry(place).or_insert(number);
                *last = number.max(*last);
            });
        }
        for (number, done) in (0..).zip(done) {
            for result in done.outputs() {
                if let Entry::Vacant(unused) = lifetimes.last.entry((number, *result)) {
                    unused.insert(number);
                }
            }
        }
        lifetimes.ending.clear();
        for (place, last) in &lifetimes.last {
            if lifetimes.once.contains(&place.0) {
                continue;
            }
            let last = *last as usize;
            if lifetimes.ending.len() <= last {
                lifetimes.ending.resize_with(last + 1, SmallVec::new);
            }
            lifetimes.ending[last].push(*place);
        }
        lifetimes
    }

    /// Returns the results that a call needs no more once it has taken this step.
    #[inline]
    pub(super) fn ending(&self, step: usize) -> &[Place] {
        self.ending.get(step).map_or(&[], |places| places)
    }
}
