//! Pattern rewriting: [`replace_pattern`], and [`Rules`] that are applied until nothing changes.
//!
//! A [`Pattern`] is a traced function; a [`Rule`] is a pattern, its replacement, and conditions. One engine
//! (`engine.rs`) walks a graph and its sub-graphs in program order, finds the rules whose first output could
//! be at a node by its operation, and replaces each match. The order is that of the program and of the rules,
//! so results are the same every time. What happens is one transaction: an error in a user's closure undoes
//! everything.

mod apply;
mod engine;
#[doc(hidden)]
pub mod example;
mod holes;
mod match_;
mod matcher;
mod pattern;
mod rule;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use apply::merged_meta;
#[doc(hidden)]
pub use holes::module_call;
pub use holes::{MARKERS, any_of, attr, capture, exactly, integer, module, near, number, within};
pub use match_::Match;
pub use matcher::Mismatch;
pub use pattern::Pattern;
#[doc(hidden)]
pub use rule::__free;
pub use rule::{Explanation, Rule, RuleDef};

use crate::node::NodeId;
use crate::trace::Traceable;
use crate::{Arg, Error, GraphModule, Result, SourceLoc, err};

/// One replacement.
#[derive(Clone, Debug)]
pub struct Replaced {
    /// The rule.
    pub rule: Arc<str>,
    /// The names of the nodes that matched, in program order.
    pub matched: Vec<Arc<str>>,
    /// The nodes that took their place, in program order; later replacements may have replaced them in turn.
    pub created: Vec<NodeId>,
    /// The sub-graphs around, outermost first; empty for the graph itself.
    pub subgraphs: Vec<Arc<str>>,
}

/// Replaces every match of a pattern once; replacements are not matched again. Both are closures of the same
/// arguments.
///
/// Matches do not overlap; the first in program order wins. A match whose inner values are used outside of it
/// is none. New nodes carry the lines, tags and provenance of those that they replace. If a replacement
/// changes a type, types are propagated anew. A match whose types the replacement does not take stays. On an
/// error nothing is changed. Fails if a closure cannot be traced, the two do not fit together, or the
/// replacement fits none of the matches.
///
/// ```ignore
/// let replaced = fx::replace_pattern(&mut gm, |x: &Tensor| x.sigmoid() * x, |x: &Tensor| x.silu())?;
/// ```
#[track_caller]
pub fn replace_pattern<P, R>(
    gm: &mut GraphModule,
    pattern: impl Traceable<P>,
    replacement: impl Traceable<R>,
) -> Result<Vec<Replaced>> {
    let place = SourceLoc::caller();
    let rule = Rule::new("replace_pattern", pattern, replacement).map_err(|error| error.at(place.clone()))?;
    match replace_once(gm, &rule.any_types())? {
        (replaced, Some(misfit)) if replaced.is_empty() => Err(Error::new(
            misfit.kind(),
            format!("the pattern matches, but the replacement does not fit: {}", misfit.message()),
        )
        .at(place)),
        (replaced, _) => Ok(replaced),
    }
}

/// Replaces every match of a rule, once, as [`replace_pattern`] does. Fails if a replacement cannot be made.
pub fn replace(gm: &mut GraphModule, rule: &Rule) -> Result<Vec<Replaced>> {
    replace_once(gm, rule).map(|(replaced, _)| replaced)
}

/// Replaces every match of a rule, once; returns also the last error of a replacement that does not fit.
fn replace_once(gm: &mut GraphModule, rule: &Rule) -> Result<(Vec<Replaced>, Option<Error>)> {
    let rules = std::slice::from_ref(rule);
    let mut rewrites = Rewrites::default();
    let mut engine = engine::Engine::new(rules, engine::Mode::Once, &mut rewrites);
    engine.keep_log();
    engine.run(gm)?;
    Ok(engine.into_log())
}

/// A match of a pattern, as [`find_matches`] finds it.
#[derive(Clone, Debug)]
pub struct OwnedMatch {
    /// The nodes that the pattern computes, in program order.
    pub nodes: Vec<NodeId>,
    /// The nodes that the pattern returns.
    pub outputs: Vec<NodeId>,
    /// The values of the pattern's arguments, captures and literals, by name.
    pub names: std::collections::BTreeMap<Arc<str>, Arg>,
}

/// Returns every place of the graph at which a rule matches, in program order, also overlapping ones. Nothing
/// is changed, and sub-graphs are not looked at.
pub fn find_matches(gm: &GraphModule, rule: &Rule) -> Vec<OwnedMatch> {
    let place = matcher::Place { graph: gm.graph(), parts: gm.parts() };
    let mut matches = Vec::new();
    for (id, _) in gm.graph().nodes() {
        let Some(values) = rule.matches(place, id, None) else { continue };
        let pattern = rule.pattern();
        let found = Match::new(place, pattern, &values);
        let named = |(name, at): (&Arc<str>, &u32)| Some((name.clone(), values[*at as usize].clone()?));
        matches.push(OwnedMatch {
            nodes: found.nodes(),
            outputs: found.outputs(),
            names: pattern.names.iter().filter_map(named).collect(),
        });
    }
    matches
}

/// Counts rewrites, and stops at a limit: so that the rewrite which breaks something can be found by bisection.
///
/// Code that changes a graph asks [`allow`](Self::allow) before each change, and leaves it out if the answer
/// is no.
#[derive(Debug, Default)]
pub struct Rewrites {
    limit: Option<usize>,
    done: usize,
    last: Option<String>,
    keep: bool,
    /// What every change said of itself, if somebody wants to know.
    all: Option<Vec<String>>,
}

impl Rewrites {
    /// Counts to a limit, and keeps what the last allowed rewrite said of itself.
    pub fn limited(limit: usize) -> Self {
        Rewrites { limit: Some(limit), keep: true, ..Rewrites::default() }
    }

    /// Keeps what every change says of itself.
    pub(crate) fn keep_all(mut self) -> Self {
        self.all = Some(Vec::new());
        self
    }

    /// Returns what the changes said of themselves.
    pub(crate) fn all(&self) -> &[String] {
        self.all.as_deref().unwrap_or_default()
    }

    /// Asks whether one more change may be made, and counts it; `describe` says which.
    pub fn allow(&mut self, describe: impl FnOnce() -> String) -> bool {
        if self.limit.is_some_and(|limit| self.done >= limit) {
            return false;
        }
        self.done += 1;
        if self.keep || self.all.is_some() {
            let said = describe();
            if let Some(all) = &mut self.all {
                all.push(said.clone());
            }
            self.last = Some(said);
        }
        true
    }

    /// Returns whether no further change may be made.
    pub fn is_exhausted(&self) -> bool {
        self.limit.is_some_and(|limit| self.done >= limit)
    }

    /// Returns how many changes were made.
    pub fn count(&self) -> usize {
        self.done
    }

    /// Returns what the last change said of itself, if there is a limit.
    pub fn last(&self) -> Option<&str> {
        self.last.as_deref()
    }

    /// Takes back the last count, for a change that turned out to be impossible.
    pub(crate) fn take_back(&mut self) {
        self.done = self.done.saturating_sub(1);
        if let Some(all) = &mut self.all {
            all.pop();
        }
    }
}

/// What a rule did in a run.
#[derive(Clone, Debug, Default)]
pub struct RuleStats {
    /// The rule.
    pub name: Arc<str>,
    /// At how many nodes it was compared.
    pub tried: usize,
    /// How often it matched, all conditions included.
    pub matched: usize,
    /// How often it was applied; less than `matched` where types would have changed.
    pub applied: usize,
    /// How many nodes it made.
    pub created: usize,
    /// How many nodes it made superfluous.
    pub erased: usize,
}

/// What the rules of a set did.
#[derive(Clone, Debug, Default)]
pub struct RulesReport {
    /// Each rule in order.
    pub rules: Vec<RuleStats>,
    /// How often the graph was walked.
    pub sweeps: usize,
    /// The time that it took.
    pub time: Duration,
}

impl RulesReport {
    /// Returns how often any rule was applied.
    pub fn applied(&self) -> usize {
        self.rules.iter().map(|rule| rule.applied).sum()
    }
}

/// A line for each rule that was applied.
impl fmt::Display for RulesReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for rule in self.rules.iter().filter(|rule| rule.matched > 0) {
            writeln!(
                f,
                "{}: {} of {} matches replaced, {} nodes erased, {} created",
                rule.name, rule.applied, rule.matched, rule.erased, rule.created
            )?;
        }
        write!(f, "{} replacements in {} sweeps", self.applied(), self.sweeps)
    }
}

/// Rules that are applied until none matches.
///
/// The rules of a set are tried in order at each node, and the nodes in program order. That a set does not
/// come to an end, or lets the graph grow beyond a bound, is an error that names the rules which were applied
/// last, and undoes everything.
#[derive(Clone, Debug)]
pub struct Rules {
    rules: Vec<Rule>,
    growth: usize,
    per_node: usize,
}

impl Default for Rules {
    fn default() -> Self {
        Rules::new([])
    }
}

impl Rules {
    /// Makes a set.
    pub fn new(rules: impl IntoIterator<Item = Rule>) -> Self {
        Rules { rules: rules.into_iter().collect(), growth: 4, per_node: 16 }
    }

    /// Makes the set of a table. Fails if a rule cannot be made.
    pub fn of_table(table: &[RuleDef]) -> Result<Self> {
        Ok(Rules::new(table.iter().map(RuleDef::rule).collect::<Result<Vec<_>>>()?))
    }

    /// Adds a rule.
    #[must_use]
    pub fn with(mut self, rule: Rule) -> Self {
        self.rules.push(rule);
        self
    }

    /// Sets how many times larger the graph may become; 4 by default.
    #[must_use]
    pub fn max_growth(self, growth: usize) -> Self {
        Rules { growth, ..self }
    }

    /// Sets how many replacements there may be for each node that the graph has at first; 16 by default, and
    /// 1000 besides.
    #[must_use]
    pub fn max_replacements(self, per_node: usize) -> Self {
        Rules { per_node, ..self }
    }

    /// Returns the rules in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Rule> {
        self.rules.iter()
    }

    /// Returns the rule called `name`. Fails if there is none.
    pub fn get(&self, name: &str) -> Result<&Rule> {
        self.rules.iter().find(|rule| rule.name() == name).ok_or_else(|| {
            err!(Unresolved, "there is no rule {name:?}")
                .help(crate::names::suggest(name, self.rules.iter().map(Rule::name)))
        })
    }

    /// Applies the rules to a graph and its sub-graphs until none matches. Fails if a replacement cannot be
    /// made.
    pub fn run(&self, gm: &mut GraphModule) -> Result<RulesReport> {
        self.run_counted(gm, &mut Rewrites::default())
    }

    /// As [`run`](Self::run), with each replacement counted; at the limit of the count it stops. Fails as
    /// [`run`](Self::run) does.
    pub fn run_counted(&self, gm: &mut GraphModule, rewrites: &mut Rewrites) -> Result<RulesReport> {
        let mode = engine::Mode::Fixpoint { growth: self.growth, per_node: self.per_node };
        let mut engine = engine::Engine::new(&self.rules, mode, rewrites);
        engine.run(gm)?;
        Ok(engine.into_report())
    }
}
