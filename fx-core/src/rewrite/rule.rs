//! [`Rule`]: a pattern, its replacement, and conditions; and [`RuleDef`], the row of a rule.

use std::fmt;
use std::sync::Arc;

use super::apply::Owned;
use super::holes;
use super::match_::Match;
use super::matcher::{self, Mismatch, Place};
use super::pattern::{Pattern, PatternKind};
use crate::attribute::Parts;
use crate::node::NodeId;
use crate::trace::{Traceable, trace};
use crate::{Arg, Graph, GraphModule, Result, bail, err};

/// The row of a rule in a table; see [`rules!`](crate::rules).
#[derive(Clone, Copy)]
pub struct RuleDef {
    /// The name.
    pub name: &'static str,
    /// The documentation: the change, and why it keeps results.
    pub doc: &'static str,
    /// Makes the rule.
    pub make: fn() -> Result<Rule>,
}

impl RuleDef {
    /// Makes the rule, with the name and doc of the row. Fails if its closures cannot be traced.
    pub fn rule(&self) -> Result<Rule> {
        let rule = (self.make)().map_err(|error| {
            let problem = err!(Structure, "the rule {:?}: {}", self.name, error.message());
            error.advice().map(|help| problem.clone().help(help)).unwrap_or(problem)
        })?;
        Ok(Rule { name: Arc::from(self.name), doc: Arc::from(self.doc.trim()), ..rule })
    }
}

impl fmt::Debug for RuleDef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// Defines a table of rules, each a pattern `=>` its replacement, both closures.
///
/// ```ignore
/// rules! {
///     pub static ALGEBRA;
///
///     /// A number negated twice is itself.
///     neg_neg: |x: &Tensor| -(-x) => |x: &Tensor| x.clone();
///     /// Multiplication by one.
///     mul_one: |x: &Tensor| x * exactly(1.0) => |x: &Tensor| x.clone();
/// }
/// ```
/// Instead of `=> replacement` a row may have `, build closure`, which makes the replacement from the match
/// ([`Rule::build`]); further `, free "capture.parameter"` ([`Pattern::free`]) and `, when "words" closure`
/// ([`Rule::when`]).
#[macro_export]
macro_rules! rules {
    (
        $(#[$tdoc:meta])* $vis:vis static $table:ident;
        $(
            $(#[doc = $doc:literal])+
            $name:ident: $pattern:expr $(=> $replacement:expr)? $(, build $build:expr)? $(, free $free:literal)* $(, when $what:literal $when:expr)*;
        )*
    ) => {
        $(#[$tdoc])*
        $vis static $table: &[$crate::rewrite::RuleDef] = &[$(
            $crate::rewrite::RuleDef {
                name: stringify!($name),
                doc: concat!($($doc, "\n"),+),
                make: || {
                    let pattern = $crate::rewrite::Pattern::new($pattern)?;
                    $(let pattern = $crate::rewrite::__free(pattern, $free)?;)*
                    $(let rule = $crate::rewrite::Rule::of_pattern(stringify!($name), pattern, $replacement)?;)?
                    $(let rule = $crate::rewrite::Rule::build(stringify!($name), pattern, $build);)?
                    $(let rule = rule.when($what, $when);)*
                    Ok(rule.known_types())
                },
            },
        )*];
    };
}

/// Splits `capture.parameter`.
#[doc(hidden)]
pub fn __free(pattern: Pattern, path: &str) -> Result<Pattern> {
    match path.split_once('.') {
        Some((capture, parameter)) => pattern.free(capture, parameter),
        None => bail!(Argument, "expected capture.parameter, got {path:?}"),
    }
}

/// What a rule asks of the types of the values that it replaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Types {
    /// Nothing; types are propagated anew.
    Free,
    /// They stay as they are, where they are known.
    Keep,
    /// They are known and stay as they are.
    Known,
}

/// Makes the replacement of a match, or declines.
type Build = Arc<dyn Fn(&Match<'_>) -> Result<Option<GraphModule>> + Send + Sync>;
type Predicate = Arc<dyn Fn(&Match<'_>) -> bool + Send + Sync>;

#[derive(Clone)]
enum Replacement {
    Traced(Arc<GraphModule>, Vec<Arg>),
    Built(Build),
}

/// A pattern, what takes its place, and when.
///
/// A match is replaced if nothing outside uses what the pattern computes without returning it, if no foreign
/// effect lies between its effects, if every condition holds, and if the types of the replaced values stay.
#[derive(Clone)]
pub struct Rule {
    pub(super) name: Arc<str>,
    doc: Arc<str>,
    pattern: Arc<Pattern>,
    replacement: Replacement,
    conditions: Vec<(Arc<str>, Predicate)>,
    types: Types,
    distinct: bool,
}

impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Rule({})", self.name)
    }
}

impl Rule {
    /// Makes a rule of two closures that take the same arguments and return values in the same structure.
    /// Fails if a closure cannot be traced, or the two do not fit together.
    #[track_caller]
    pub fn new<P, R>(name: &str, pattern: impl Traceable<P>, replacement: impl Traceable<R>) -> Result<Rule> {
        Rule::of_pattern(name, Pattern::new(pattern)?, replacement)
    }

    /// Makes a rule of a compiled pattern and a closure. Fails as [`new`](Rule::new) does.
    #[track_caller]
    pub fn of_pattern<R>(name: &str, pattern: Pattern, replacement: impl Traceable<R>) -> Result<Rule> {
        Rule::of_graphs(name, pattern, trace(replacement).without_sources().build()?)
    }

    /// Makes a rule of a compiled pattern and a graph. Fails if their arguments or results do not fit
    /// together.
    pub fn of_graphs(name: &str, pattern: Pattern, replacement: GraphModule) -> Result<Rule> {
        let results = check_replacement(&pattern, &replacement)?;
        Ok(Rule::from_parts(name, pattern, Replacement::Traced(Arc::new(replacement), results)))
    }

    /// Makes a rule whose replacement is made from the match: a graph with the pattern's arguments and
    /// results, usually by tracing a closure; `None` declines the match, an error undoes everything.
    pub fn build(
        name: &str,
        pattern: Pattern,
        build: impl Fn(&Match<'_>) -> Result<Option<GraphModule>> + Send + Sync + 'static,
    ) -> Rule {
        Rule::from_parts(name, pattern, Replacement::Built(Arc::new(build)))
    }

    fn from_parts(name: &str, pattern: Pattern, replacement: Replacement) -> Rule {
        Rule {
            name: Arc::from(name),
            doc: Arc::from(""),
            pattern: Arc::new(pattern),
            replacement,
            conditions: Vec::new(),
            types: Types::Keep,
            distinct: false,
        }
    }

    /// Adds a condition, with words that say what must hold.
    #[must_use]
    pub fn when(
        mut self,
        what: &str,
        predicate: impl Fn(&Match<'_>) -> bool + Send + Sync + 'static,
    ) -> Rule {
        self.conditions.push((Arc::from(what), Arc::new(predicate)));
        self
    }

    /// Sets what the rule says about itself.
    #[must_use]
    pub fn doc(mut self, doc: &str) -> Rule {
        self.doc = Arc::from(doc);
        self
    }

    /// Makes different arguments of the pattern match different nodes.
    #[must_use]
    pub fn distinct(mut self) -> Rule {
        self.distinct = true;
        self
    }

    /// Applies the rule only where the types of the replaced values are known; they must stay in any case.
    #[must_use]
    pub fn known_types(mut self) -> Rule {
        self.types = Types::Known;
        self
    }

    /// Lets the rule change types; they are propagated anew. Inside sub-graphs they must stay.
    #[must_use]
    pub fn any_types(mut self) -> Rule {
        self.types = Types::Free;
        self
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns what the rule says about itself.
    pub fn documentation(&self) -> &str {
        &self.doc
    }

    /// Returns the pattern.
    pub fn pattern(&self) -> &Pattern {
        &self.pattern
    }

    pub(super) fn types(&self) -> Types {
        self.types
    }

    /// Says whether the rule matches with its first output at a node, and if not, why; the replacement is not
    /// tried. Fails if `node` is stale.
    pub fn explain(&self, gm: &GraphModule, node: NodeId) -> Result<Explanation> {
        let graph = gm.graph();
        let mut why = None;
        let found = self.matches(Place { graph, parts: gm.parts() }, node, Some(&mut why));
        Ok(Explanation {
            rule: self.name.clone(),
            node: graph.format_node(node)?,
            mismatch: match found {
                Some(_) => None,
                None => Some(why.unwrap_or(Mismatch {
                    pattern: "the pattern".into(),
                    node: String::new(),
                    expected: "a match".into(),
                    found: "none".into(),
                })),
            },
        })
    }

    /// Explains every node at which the rule could match, by the operation of its first output. Fails as
    /// [`explain`](Rule::explain) does.
    pub fn explain_all(&self, gm: &GraphModule) -> Result<Vec<Explanation>> {
        let keys = super::engine::keys(&self.pattern);
        let could_match =
            |node: &crate::Node| super::engine::key(node, gm.parts()).is_some_and(|key| keys.contains(&key));
        let nodes = gm.graph().nodes().filter(|(_, node)| could_match(node));
        nodes.map(|(id, _)| self.explain(gm, id)).collect()
    }

    /// Returns the match at a node.
    pub(super) fn matches(
        &self,
        place: Place<'_>,
        node: NodeId,
        why: Option<&mut Option<Mismatch>>,
    ) -> Option<matcher::Values> {
        matcher::search(place, &self.pattern, node, self.distinct, &mut |found| self.accept(found), why)
    }

    /// Returns the match at a node with its replacement and the results of that.
    pub(super) fn prepare(&self, place: Place<'_>, node: NodeId) -> Result<Option<Prepared>> {
        let mut prepared: Option<Result<Prepared>> = None;
        let mut accept = |found: &Match<'_>| {
            self.accept(found)?;
            let made = match &self.replacement {
                Replacement::Traced(graph, results) => Ok(Some((graph.clone(), results.clone()))),
                Replacement::Built(build) => build(found).and_then(|graph| match graph {
                    Some(graph) => {
                        let results = check_replacement(&self.pattern, &graph)?;
                        Ok(Some((Arc::new(graph), results)))
                    }
                    None => Ok(None),
                }),
            };
            match made {
                Ok(None) => {
                    return Err(refusal(found, "a replacement", "that the rule declines to make one"));
                }
                Ok(Some((replacement, results))) => {
                    prepared =
                        Some(Ok(Prepared { owned: Owned::new(found, &self.name), replacement, results }));
                }
                Err(error) => {
                    let problem =
                        error.in_context(|| format!("the replacement of the rule {:?}", &*self.name));
                    prepared = Some(Err(problem));
                }
            }
            Ok(())
        };
        matcher::search(place, &self.pattern, node, self.distinct, &mut accept, None);
        prepared.transpose()
    }

    /// Checks everything about a match but the types.
    fn accept(&self, found: &Match<'_>) -> Result<(), Mismatch> {
        let (graph, parts) = (found.graph(), found.place().parts);
        check_containment(found)?;
        check_effects(found, graph, parts)?;
        for (what, predicate) in &self.conditions {
            if !predicate(found) {
                return Err(refusal(found, what, "that it does not hold"));
            }
        }
        Ok(())
    }
}

/// A match that is ready to be replaced.
pub(super) struct Prepared {
    pub(super) owned: Owned,
    pub(super) replacement: Arc<GraphModule>,
    pub(super) results: Vec<Arg>,
}

fn refusal(found: &Match<'_>, expected: &str, got: &str) -> Mismatch {
    let output = found.outputs().first().and_then(|id| found.graph().format_node(*id).ok());
    Mismatch {
        pattern: "the match".into(),
        node: output.unwrap_or_default(),
        expected: expected.into(),
        found: got.into(),
    }
}

/// Checks that nobody outside uses what the pattern computes and does not return. Attributes may be read by
/// others.
fn check_containment(found: &Match<'_>) -> Result<(), Mismatch> {
    let (graph, pattern) = (found.graph(), found.pattern());
    let outputs = found.outputs();
    let nodes = found.nodes();
    let computes = |kind: &PatternKind| matches!(kind, PatternKind::Call { .. } | PatternKind::Module { .. });
    let matched: rustc_hash::FxHashSet<NodeId> = nodes.iter().copied().collect();
    for (node, value) in pattern.nodes.iter().zip(found.values()) {
        let Some(Arg::Leaf(id)) = value else { continue };
        if !computes(&node.kind) || outputs.contains(id) {
            continue;
        }
        let outside = graph.node(*id).ok().and_then(|node| node.users().find(|user| !matched.contains(user)));
        if let Some(user) = outside {
            let user = graph.node(user).map_or("?", |node| node.name());
            return Err(Mismatch {
                pattern: format!("%{}", node.name),
                node: graph.format_node(*id).unwrap_or_default(),
                expected: "a value that only the match uses".into(),
                found: format!("another user, %{user}"),
            });
        }
    }
    Ok(())
}

/// Checks that no effect of others comes between the effects of a match and its results.
fn check_effects(found: &Match<'_>, graph: &Graph, parts: Parts<'_>) -> Result<(), Mismatch> {
    let nodes = found.nodes();
    let has_effect = |id: &NodeId| graph.node(*id).is_ok_and(|node| parts.has_effect(node));
    let Some(first) = nodes.iter().copied().find(has_effect) else { return Ok(()) };
    let mut effects = nodes.iter().filter(|id| has_effect(id));
    let last = effects.next_back().copied().unwrap_or(first);
    let mut at = first;
    while at != last {
        match graph.next(at) {
            Ok(Some(next)) => at = next,
            _ => break,
        }
        if has_effect(&at) && !nodes.contains(&at) {
            let name = graph.node(at).map_or("?", |node| node.name());
            return Err(refusal(found, "no other effect between its effects", &format!("%{name}")));
        }
    }
    Ok(())
}

/// Checks that a replacement takes and returns what the pattern does; returns its results, one for each value
/// that the pattern returns.
fn check_replacement(pattern: &Pattern, replacement: &GraphModule) -> Result<Vec<Arg>> {
    let graph = replacement.graph();
    let n = graph.placeholders().len();
    if n != pattern.inputs.len() {
        return Err(err!(
            Structure,
            "the pattern takes {} arguments, the replacement {n}",
            pattern.inputs.len()
        )
        .help("give both closures the same arguments"));
    }
    let mut results = Vec::new();
    pair(&pattern.output, graph.output(), &mut results)?;
    let unused = unbound_inputs(pattern);
    for (placeholder, input) in graph.placeholders().into_iter().zip(&pattern.inputs) {
        let is_used = graph.node(placeholder)?.n_users() > 0;
        if is_used && unused.contains(input) {
            let name = &pattern.nodes[*input as usize].name;
            return Err(err!(
                Structure,
                "the replacement uses the argument {name}, which the pattern does not use"
            )
            .help("use the argument in every alternative of the pattern"));
        }
    }
    for (_, node) in graph.nodes() {
        let mut unknown = None;
        for arg in node.all_args() {
            arg.walk(&mut |arg| {
                if let Some(hole) = holes::hole(arg)
                    && !hole.name().is_some_and(|name| pattern.names.contains_key(name))
                {
                    unknown = Some(hole);
                }
            });
        }
        if let Some(hole) = unknown {
            return Err(err!(
                Structure,
                "the replacement has {hole} as a literal, which the pattern does not have"
            )
            .help("use `number` and `integer` with names of the pattern"));
        }
    }
    Ok(results)
}

/// Returns the arguments that not every match binds.
fn unbound_inputs(pattern: &Pattern) -> Vec<u32> {
    let n = pattern.nodes.len();
    // Whether a node is bound whenever its user is; alternatives bind what all of them bind, which is found
    // from below.
    let mut bound: Vec<std::collections::BTreeSet<u32>> = Vec::with_capacity(n);
    let is_input = |at: usize| matches!(pattern.nodes[at].kind, PatternKind::Input);
    let n_inputs = pattern.inputs.len();
    let mut all = std::collections::BTreeSet::new();
    // Patterns without alternatives bind whatever is reached, which `Pattern` has checked.
    if !pattern.nodes.iter().any(|node| matches!(node.kind, PatternKind::AnyOf(_))) {
        for node in &pattern.nodes {
            node.args().iter().for_each(|arg| {
                arg.for_each_leaf(&mut |at| {
                    if is_input(*at as usize) {
                        all.insert(*at);
                    }
                })
            });
        }
    } else {
        for (at, node) in pattern.nodes.iter().enumerate() {
            let mut set = std::collections::BTreeSet::new();
            if is_input(at) {
                set.insert(at as u32);
            }
            match &node.kind {
                PatternKind::AnyOf(options) => {
                    let mut options = options.iter().map(|option| bound[*option as usize].clone());
                    let first = options.next().unwrap_or_default();
                    set = options.fold(first, |a, b| a.intersection(&b).copied().collect());
                }
                _ => node.args().iter().for_each(|arg| {
                    arg.for_each_leaf(&mut |input| {
                        if set.len() < n_inputs {
                            set.extend(bound.get(*input as usize).into_iter().flatten());
                        }
                    })
                }),
            }
            bound.push(set);
        }
        pattern.roots.iter().for_each(|root| all.extend(&bound[*root as usize]));
    }
    pattern.inputs.iter().copied().filter(|input| !all.contains(input)).collect()
}

/// Pairs what a pattern returns with what a replacement returns.
fn pair(pattern: &Arg<u32>, replacement: &Arg, results: &mut Vec<Arg>) -> Result<()> {
    match (pattern, replacement) {
        (Arg::Leaf(_), value) if value.items().is_none() && !matches!(value, Arg::Dict(_)) => {
            results.push(value.clone());
            Ok(())
        }
        (Arg::Tuple(a), Arg::Tuple(b)) | (Arg::List(a), Arg::List(b)) if a.len() == b.len() => {
            a.iter().zip(b.iter()).try_for_each(|(a, b)| pair(a, b, results))
        }
        (Arg::Dict(a), Arg::Dict(b)) if a.len() == b.len() => {
            a.iter().try_for_each(|(key, a)| match b.get(key) {
                Some(b) => pair(a, b, results),
                None => bail!(Structure, "the replacement returns no {key:?}, which the pattern returns"),
            })
        }
        (a, b) if a.same_literal(b) => Ok(()),
        (a, b) => Err(err!(
            Structure,
            "the pattern returns {}, the replacement {}",
            a.map(&mut |_| "tensor"),
            b.map(&mut |_| "tensor")
        )
        .help("return as many values from both closures")),
    }
}

/// Whether a rule matches at a node, and if not, why.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// The rule.
    pub rule: Arc<str>,
    /// The node as text.
    pub node: String,
    /// Why it does not match; `None` if it does.
    pub mismatch: Option<Mismatch>,
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.mismatch {
            None => write!(f, "{} matches {}", self.rule, self.node),
            Some(mismatch) => write!(f, "{} does not match {}: {mismatch}", self.rule, self.node),
        }
    }
}
