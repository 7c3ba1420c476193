//! Matching a [`Pattern`] at a node: a depth-first search with an explicit stack and a journal of bindings.
//!
//! What remains to be compared is a linked list of goals. Where there is a choice (operands in either order,
//! alternatives, users of a value) the state is remembered, and taken up again if a later goal fails. The
//! number of steps is bounded.

use std::borrow::Cow;

use rustc_hash::FxHashSet;

use super::holes::LiteralHole;
use super::match_::Match;
use super::pattern::{Pattern, PatternKind};
use crate::attribute::Parts;
use crate::node::{NodeId, Target};
use crate::op::Param;
use crate::{Arg, Array, Attribute, DType, Graph, Scalar, Tensor};

const NIL: u32 = u32::MAX;

/// Why a pattern does not match: the part of it that fits no node, after everything else did as far as it was
/// compared.
#[derive(Clone, Debug, PartialEq)]
pub struct Mismatch {
    /// The node of the pattern, such as `%mul`.
    pub pattern: String,
    /// The node of the graph as text; empty if there is none.
    pub node: String,
    /// What was expected.
    pub expected: String,
    /// What was found.
    pub found: String,
}

impl std::fmt::Display for Mismatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "expected {} for {}, found {}", self.expected, self.pattern, self.found)?;
        if self.node.is_empty() { Ok(()) } else { write!(f, "  in {}", self.node) }
    }
}

/// The values that a pattern's nodes have in a match; `None` for those of alternatives not taken.
pub(super) type Values = Vec<Option<Arg>>;

/// The graph in which a pattern is searched.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) graph: &'a Graph,
    pub(super) parts: Parts<'a>,
}

/// Asked about a complete match; an error is the reason for refusing it, and the search goes on.
pub(super) type Accept<'f> = dyn FnMut(&Match<'_>) -> Result<(), Mismatch> + 'f;

/// Searches a match whose first root is `anchor`.
pub(super) fn search<'a>(
    place: Place<'a>,
    pattern: &'a Pattern,
    anchor: NodeId,
    nodes_differ: bool,
    accept: &mut Accept<'_>,
    why: Option<&mut Option<Mismatch>>,
) -> Option<Values> {
    let explains = why.is_some();
    let mut search = Search {
        place,
        pattern,
        values: Vec::new(),
        trail: Vec::new(),
        used: FxHashSet::default(),
        bound_inputs: nodes_differ.then(FxHashSet::default),
        goals: Vec::new(),
        head: NIL,
        step: 0,
        choices: Vec::new(),
        explains,
        best: None,
    };
    if !explains && !search.could_be(pattern.roots[0], &Arg::Leaf(anchor), 2) {
        return None;
    }
    search.values.resize(pattern.nodes.len(), None);
    search.push_goal(pattern.roots[0], Cow::Owned(Arg::Leaf(anchor)), None);
    let found = search.run(accept);
    if let Some(why) = why {
        *why = search.best.map(|(_, mismatch)| mismatch);
    }
    found.then_some(search.values)
}

struct Goal<'a> {
    pattern: u32,
    value: Cow<'a, Arg>,
    /// The node that has the value as argument.
    user: Option<NodeId>,
    next: u32,
}

enum Alternative<'a> {
    /// The first two operands of a call exchanged.
    Swapped { pattern: u32, node: NodeId },
    /// The next option.
    Option { pattern: u32, value: Cow<'a, Arg>, user: Option<NodeId>, next: usize },
    /// The next user of the node from which a step leads.
    User { users: Vec<NodeId>, next: usize },
}

struct Choice<'a> {
    what: Alternative<'a>,
    head: u32,
    n_goals: usize,
    n_trail: usize,
    step: usize,
}

struct Search<'a> {
    place: Place<'a>,
    pattern: &'a Pattern,
    values: Values,
    /// The pattern nodes that have a value, in the order in which they got it.
    trail: Vec<u32>,
    /// The graph nodes that are values of calls, each of one.
    used: FxHashSet<NodeId>,
    /// The values of arguments, if they must differ.
    bound_inputs: Option<FxHashSet<NodeId>>,
    goals: Vec<Goal<'a>>,
    head: u32,
    step: usize,
    choices: Vec<Choice<'a>>,
    explains: bool,
    /// The mismatch after which most was bound.
    best: Option<(usize, Mismatch)>,
}

impl<'a> Search<'a> {
    fn run(&mut self, accept: &mut Accept<'_>) -> bool {
        let mut left = 1000 + 50 * self.pattern.nodes.len();
        loop {
            let Some(rest) = left.checked_sub(1) else {
                self.fail(self.pattern.roots[0], None, || {
                    ("an answer within a bounded number of steps".into(), "too many choices".into())
                });
                return false;
            };
            left = rest;
            let advanced = if self.head != NIL {
                self.advance()
            } else if self.step < self.pattern.steps.len() {
                self.extend()
            } else {
                let found = Match::new(self.place, self.pattern, &self.values);
                match accept(&found) {
                    Ok(()) => return true,
                    Err(mismatch) => {
                        self.note(self.trail.len() + 1, mismatch);
                        false
                    }
                }
            };
            if !advanced && !self.backtrack() {
                return false;
            }
        }
    }

    fn push_goal(&mut self, pattern: u32, value: Cow<'a, Arg>, user: Option<NodeId>) {
        self.goals.push(Goal { pattern, value, user, next: self.head });
        self.head = (self.goals.len() - 1) as u32;
    }

    fn choose(&mut self, what: Alternative<'a>) {
        self.choices.push(Choice {
            what,
            head: self.head,
            n_goals: self.goals.len(),
            n_trail: self.trail.len(),
            step: self.step,
        });
    }

    /// Takes up the last choice that has something left; returns whether there is one.
    fn backtrack(&mut self) -> bool {
        while let Some(choice) = self.choices.pop() {
            for at in self.trail.drain(choice.n_trail..) {
                if let Some(Arg::Leaf(id)) = self.values[at as usize].take() {
                    match &self.pattern.nodes[at as usize].kind {
                        PatternKind::Call { .. } | PatternKind::Module { .. } => drop(self.used.remove(&id)),
                        PatternKind::Input => {
                            if let Some(bound) = &mut self.bound_inputs {
                                bound.remove(&id);
                            }
                        }
                        _ => {}
                    }
                }
            }
            self.goals.truncate(choice.n_goals);
            self.head = choice.head;
            self.step = choice.step;
            let advanced = match choice.what {
                Alternative::Swapped { pattern, node } => {
                    self.bind(pattern, Arg::Leaf(node));
                    self.used.insert(node);
                    self.push_args(pattern, node, true)
                }
                Alternative::Option { pattern, value, user, next } => {
                    self.try_options(pattern, value, user, next)
                }
                Alternative::User { users, next } => self.try_users(users, next),
            };
            if advanced {
                return true;
            }
        }
        false
    }

    fn bind(&mut self, at: u32, value: Arg) {
        self.values[at as usize] = Some(value);
        self.trail.push(at);
    }

    /// Compares the next goal.
    fn advance(&mut self) -> bool {
        let at = self.head as usize;
        let Goal { pattern, ref value, user, next } = self.goals[at];
        let value = value.clone();
        self.head = next;
        if let Some(known) = &self.values[pattern as usize] {
            if same_value(self.place.graph, known, &value) {
                return true;
            }
            let (known, graph) = (known.clone(), self.place.graph);
            return self.fail(pattern, user, || {
                (format!("the same value as before, {}", show(graph, &known)), show(graph, &value))
            });
        }
        match &self.pattern.nodes[pattern as usize].kind {
            PatternKind::Input => {
                if let (Some(bound), Arg::Leaf(id)) = (&mut self.bound_inputs, &*value)
                    && !bound.insert(*id)
                {
                    let graph = self.place.graph;
                    return self.fail(pattern, user, || {
                        ("another value than the other arguments have".into(), show(graph, &value))
                    });
                }
                self.bind(pattern, value.into_owned());
                true
            }
            PatternKind::Free => {
                self.bind(pattern, value.into_owned());
                true
            }
            PatternKind::LiteralHole(hole) => match literal(self.place, hole, &value, user) {
                Some(literal) => {
                    self.bind(pattern, literal);
                    true
                }
                None => self.mismatch(pattern, user, &value),
            },
            PatternKind::Attr(expected) => {
                let Some(Target::GetAttr(path)) = self.target(&value) else {
                    return self.mismatch(pattern, user, &value);
                };
                if let Some(expected) = expected {
                    // A parameter or buffer may get another value later.
                    let is_same = match self.place.parts.attribute(path) {
                        Some(Attribute::Constant(tensor)) => same_tensor(tensor, expected),
                        _ => false,
                    };
                    if !is_same {
                        return self.mismatch(pattern, user, &value);
                    }
                }
                self.bind(pattern, value.into_owned());
                true
            }
            PatternKind::Module { ty, args } => {
                let node = value.leaf().copied();
                let (Some(id), Some(Target::CallModule(path))) = (node, self.target(&value)) else {
                    return self.mismatch(pattern, user, &value);
                };
                let is_type = self
                    .place
                    .parts
                    .child(path)
                    .is_some_and(|child| child.as_module().as_any().type_id() == ty.id);
                let given = self.place.graph.node(id).map_or(&[][..], |node| node.args());
                if !is_type || given.len() != args.len() || !self.used.insert(id) {
                    return self.mismatch(pattern, user, &value);
                }
                self.bind(pattern, Arg::Leaf(id));
                for (arg, given) in args.iter().zip(given).rev() {
                    if !self.unify(pattern, arg, Cow::Borrowed(given), Some(id)) {
                        return false;
                    }
                }
                true
            }
            PatternKind::Call { op, can_swap, .. } => {
                let Some(id) = value.leaf().copied() else { return self.mismatch(pattern, user, &value) };
                if self.target(&value).and_then(Target::op) != Some(*op) || !self.used.insert(id) {
                    return self.mismatch(pattern, user, &value);
                }
                if *can_swap && self.swap_is_another(pattern, id) {
                    self.choose(Alternative::Swapped { pattern, node: id });
                }
                self.bind(pattern, Arg::Leaf(id));
                self.push_args(pattern, id, false)
            }
            PatternKind::AnyOf(_) => self.try_options(pattern, value, user, 0),
        }
    }

    fn target(&self, value: &Arg) -> Option<&'a Target> {
        let id = value.leaf()?;
        self.place.graph.node(*id).ok().map(|node| node.target())
    }

    /// Returns whether the operands of a commutative call may match the other way round.
    fn swap_is_another(&self, pattern: u32, node: NodeId) -> bool {
        let args = self.pattern.nodes[pattern as usize].args();
        let Ok(node) = self.place.graph.node(node) else { return false };
        let (Some(op), [a, b, ..]) = (node.op(), args) else { return false };
        let Ok(placed) = op.place(node.args(), node.kwargs()) else { return false };
        let could_be = |arg: &Arg<u32>, value: Option<&Arg>| match (arg, value) {
            (Arg::Leaf(pattern), Some(value)) => self.could_be(*pattern, value, 1),
            (_, None) => false,
            (arg, Some(value)) => arg.same_literal(value),
        };
        could_be(a, placed[1]) && could_be(b, placed[0])
    }

    /// Makes goals of the arguments of a call.
    fn push_args(&mut self, pattern: u32, id: NodeId, swapped: bool) -> bool {
        let PatternKind::Call { op, args, .. } = &self.pattern.nodes[pattern as usize].kind else {
            return false;
        };
        let Ok(node) = self.place.graph.node(id) else { return false };
        let Ok(mut placed) = op.place(node.args(), node.kwargs()) else {
            return self
                .fail(pattern, Some(id), || ("arguments that fit the schema".into(), "others".into()));
        };
        if swapped {
            placed.swap(0, 1);
        }
        for ((arg, param), given) in args.iter().zip(op.params).zip(placed).rev() {
            if !self.unify(pattern, arg, canonical(param, given), Some(id)) {
                return false;
            }
        }
        true
    }

    /// Compares an argument: its structure at once, what it is made from by goals.
    fn unify(&mut self, pattern: u32, arg: &Arg<u32>, value: Cow<'a, Arg>, user: Option<NodeId>) -> bool {
        match (arg, &*value) {
            (Arg::Leaf(inner), _) => {
                self.push_goal(*inner, value, user);
                return true;
            }
            (Arg::List(a), Arg::List(b)) | (Arg::Tuple(a), Arg::Tuple(b)) if a.len() == b.len() => {
                for (i, item) in a.iter().enumerate().rev() {
                    let inner = match &value {
                        Cow::Borrowed(Arg::List(items) | Arg::Tuple(items)) => Cow::Borrowed(&items[i]),
                        _ => Cow::Owned(b[i].clone()),
                    };
                    if !self.unify(pattern, item, inner, user) {
                        return false;
                    }
                }
                return true;
            }
            (Arg::Dict(a), Arg::Dict(b)) if a.len() == b.len() => {
                for (key, item) in a.iter().rev() {
                    let Some(inner) = b.get(key) else { return self.differ(pattern, arg, &value, user) };
                    if !self.unify(pattern, item, Cow::Owned(inner.clone()), user) {
                        return false;
                    }
                }
                return true;
            }
            (Arg::Slice(a), Arg::Slice(b)) => {
                for (a, b) in a.parts().into_iter().zip(b.parts()).rev() {
                    if !self.unify(pattern, a, Cow::Owned(b.clone()), user) {
                        return false;
                    }
                }
                return true;
            }
            (a, b) if a.same_literal(b) => return true,
            _ => {}
        }
        self.differ(pattern, arg, &value, user)
    }

    fn try_options(&mut self, pattern: u32, value: Cow<'a, Arg>, user: Option<NodeId>, first: usize) -> bool {
        let PatternKind::AnyOf(options) = &self.pattern.nodes[pattern as usize].kind else { return false };
        let fits = |at: &usize| self.could_be(options[*at], &value, 1);
        let mut fitting = (first..options.len()).filter(fits);
        let (now, later) = (fitting.next(), fitting.next());
        let Some(now) = now else { return self.mismatch(pattern, user, &value) };
        if let Some(next) = later {
            self.choose(Alternative::Option { pattern, value: value.clone(), user, next });
        }
        self.bind(pattern, value.clone().into_owned());
        self.push_goal(options[now], value, user);
        true
    }

    /// Finds a node that no root so far reaches, among the users of one that is known.
    fn extend(&mut self) -> bool {
        let step = self.pattern.steps[self.step];
        if self.values[step.to as usize].is_some() {
            self.step += 1;
            return true;
        }
        let from = self.values[step.from as usize].as_ref().and_then(Arg::leaf);
        let users = from.and_then(|id| self.place.graph.users(*id).ok()).unwrap_or_default();
        let users = users.into_iter().filter(|user| self.could_be(step.to, &Arg::Leaf(*user), 2)).collect();
        self.try_users(users, 0)
    }

    fn try_users(&mut self, users: Vec<NodeId>, next: usize) -> bool {
        let step = self.pattern.steps[self.step];
        let Some(user) = users.get(next).copied() else {
            let from = self.values[step.from as usize].clone();
            return self.fail(step.to, from.as_ref().and_then(Arg::leaf).copied(), || {
                let expected = self.pattern.nodes[step.to as usize].expected();
                (format!("{expected} among the users of the node"), "none that fits".into())
            });
        };
        if next + 1 < users.len() {
            self.choose(Alternative::User { users, next: next + 1 });
        }
        self.step += 1;
        self.push_goal(step.to, Cow::Owned(Arg::Leaf(user)), None);
        true
    }

    /// Returns whether a value may match, by the operations of its first `depth` levels.
    fn could_be(&self, pattern: u32, value: &Arg, depth: usize) -> bool {
        let place = self.place;
        let target = || self.target(value);
        match &self.pattern.nodes[pattern as usize].kind {
            PatternKind::Input | PatternKind::Free => match self.values.get(pattern as usize) {
                Some(Some(known)) => same_value(place.graph, known, value),
                _ => true,
            },
            PatternKind::LiteralHole(hole) => could_be_literal(place, hole, value),
            PatternKind::Attr(_) => matches!(target(), Some(Target::GetAttr(_))),
            PatternKind::Module { .. } => matches!(target(), Some(Target::CallModule(_))),
            PatternKind::AnyOf(_) if depth == 0 => true,
            PatternKind::AnyOf(options) => {
                options.iter().any(|option| self.could_be(*option, value, depth - 1))
            }
            PatternKind::Call { op, args, can_swap } => {
                if target().and_then(Target::op) != Some(*op) {
                    return false;
                }
                let Some(node) = value.leaf().and_then(|id| place.graph.node(*id).ok()) else { return false };
                if depth <= 1 {
                    return true;
                }
                let Ok(placed) = op.place(node.args(), node.kwargs()) else { return false };
                let fits = |arg: &Arg<u32>, given: Option<&Arg>| match (arg, given) {
                    (Arg::Leaf(inner), Some(value)) => self.could_be(*inner, value, depth - 1),
                    _ => true,
                };
                let from = if *can_swap { 2 } else { 0 };
                args.iter().zip(&placed).skip(from).all(|(arg, given)| fits(arg, *given))
                    && (!can_swap
                        || fits(&args[0], placed[0]) && fits(&args[1], placed[1])
                        || fits(&args[0], placed[1]) && fits(&args[1], placed[0]))
            }
        }
    }

    fn note(&mut self, progress: usize, mismatch: Mismatch) {
        if self.explains && self.best.as_ref().is_none_or(|(best, _)| progress > *best) {
            self.best = Some((progress, mismatch));
        }
    }

    /// Notes why the search cannot go on here, if somebody asks; returns false.
    fn fail(&mut self, pattern: u32, at: Option<NodeId>, what: impl FnOnce() -> (String, String)) -> bool {
        if !self.explains {
            return false;
        }
        let (expected, found) = what();
        let node = at.and_then(|id| self.place.graph.format_node(id).ok()).unwrap_or_default();
        let pattern = format!("%{}", self.pattern.nodes[pattern as usize].name);
        self.note(self.trail.len(), Mismatch { pattern, node, expected, found });
        false
    }

    fn mismatch(&mut self, pattern: u32, user: Option<NodeId>, value: &Arg) -> bool {
        if !self.explains {
            return false;
        }
        let what = (self.pattern.nodes[pattern as usize].expected(), show(self.place.graph, value));
        self.fail(pattern, user, || what)
    }

    fn differ(&mut self, pattern: u32, arg: &Arg<u32>, value: &Arg, user: Option<NodeId>) -> bool {
        if !self.explains {
            return false;
        }
        let expected =
            arg.map(&mut |inner| format!("%{}", self.pattern.nodes[*inner as usize].name)).to_string();
        let what = (format!("the argument {expected}"), show(self.place.graph, value));
        self.fail(pattern, user, || what)
    }
}

/// Writes a value for messages.
fn show(graph: &Graph, value: &Arg) -> String {
    if let Arg::Leaf(id) = value {
        return graph.format_node(*id).unwrap_or_default();
    }
    let name = |id: &NodeId| match graph.node(*id) {
        Ok(node) => format!("%{}", node.name()),
        Err(_) => id.to_string(),
    };
    value.map(&mut |id| name(id)).to_string()
}

/// Returns the argument of a parameter in the one way in which it is compared.
fn canonical<'a>(param: &Param, given: Option<&'a Arg>) -> Cow<'a, Arg> {
    match given {
        Some(arg) => param.kind.canonical(arg).map_or(Cow::Borrowed(arg), Cow::Owned),
        None => Cow::Owned(param.default_arg()),
    }
}

/// Returns whether two arguments have the same value: nodes that read the same attribute have.
fn same_value(graph: &Graph, a: &Arg, b: &Arg) -> bool {
    let path = |id: &NodeId| match graph.node(*id).ok()?.target() {
        Target::GetAttr(path) => Some(path),
        _ => None,
    };
    a.eq_by(b, &|a, b| a == b || path(a).is_some_and(|path_a| path(b) == Some(path_a)))
}

fn same_tensor(a: &Tensor, b: &Tensor) -> bool {
    match (a.array(), b.array()) {
        (Ok(x), Ok(y)) => {
            std::ptr::eq(x, y) || x.dtype() == y.dtype() && x.shape() == y.shape() && a.bits_eq(b)
        }
        _ => false,
    }
}

/// Returns the literal that a value is, or that the constant of rank 0 holds which it reads.
pub(super) fn scalar(place: Place<'_>, value: &Arg) -> Option<Scalar> {
    match value {
        Arg::Leaf(_) => constant(place, value)?.array().ok().filter(|x| x.rank() == 0)?.item().ok(),
        _ => value.scalar(),
    }
}

/// Returns the constant that a value reads.
fn constant<'a>(place: Place<'a>, value: &Arg) -> Option<&'a Tensor> {
    match place.graph.node(*value.leaf()?).ok()?.target() {
        Target::GetAttr(path) => match place.parts.attribute(path)? {
            Attribute::Constant(tensor) => Some(tensor),
            _ => None,
        },
        _ => None,
    }
}

/// Returns the literal that a wildcard stands for here, among the arguments of `user`.
fn literal(place: Place<'_>, hole: &LiteralHole, value: &Arg, user: Option<NodeId>) -> Option<Arg> {
    let is_literal = match hole {
        LiteralHole::Near(number) => is_near(place, *number, value, user),
        _ => could_be_literal(place, hole, value),
    };
    match hole {
        _ if !is_literal => None,
        LiteralHole::Integer(_) => Some(value.clone()),
        _ => scalar(place, value).map(Into::into),
    }
}

/// Returns whether a wildcard may stand for a value, whoever uses it.
fn could_be_literal(place: Place<'_>, hole: &LiteralHole, value: &Arg) -> bool {
    if let LiteralHole::Integer(_) = hole {
        return matches!(value, Arg::Int(_));
    }
    let Some(found) = scalar(place, value).filter(|x| !matches!(x, Scalar::Bool(_))) else { return false };
    let is_within = |number: f64, tolerance: f64| {
        let x = found.to_f64();
        x == number || (x - number).abs() <= tolerance * number.abs()
    };
    match hole {
        LiteralHole::Within { value, tolerance } => is_within(*value, *tolerance),
        LiteralHole::Near(value) => is_within(*value, COARSEST),
        _ => true,
    }
}

/// The rounding unit of the coarsest dtype of floats.
const COARSEST: f64 = 1.0 / 128.0;

/// The greatest relative difference of numbers that are near, however coarse the dtype is.
const NEAR: f64 = 1e-5;

/// Returns whether a number or constant is `number` as far as the dtype of `user` goes; see [`near`](super::near).
fn is_near(place: Place<'_>, number: f64, value: &Arg, user: Option<NodeId>) -> bool {
    let Some(found) = scalar(place, value) else { return false };
    let dtype = |id: NodeId| Some(place.graph.node(id).ok()?.ty()?.tensor()?.dtype);
    let unit = user.and_then(dtype).and_then(DType::epsilon).unwrap_or(f64::EPSILON);
    let x = found.to_f64();
    if x == number || (x - number).abs() <= unit.min(NEAR) * number.abs() {
        return true;
    }
    let rounds_to = |own: DType| Array::scalar(number).cast(own).item().is_ok_and(|rounded| rounded == found);
    constant(place, value).and_then(|constant| constant.array().ok()).is_some_and(|constant| {
        let own = constant.dtype();
        own.epsilon().is_some_and(|own| own <= unit) && rounds_to(own)
    })
}
