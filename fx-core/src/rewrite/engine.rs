//! The engine: walks graphs, finds the rules that could match at each node, and replaces.

use std::any::TypeId;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use rustc_hash::{FxHashMap, FxHashSet};

use super::apply::{Brought, Spliced, splice};
use super::matcher::Place;
use super::pattern::{Pattern, PatternKind};
use super::rule::Rule;
use super::{Replaced, Rewrites, RuleStats, RulesReport};
use crate::attribute::{Attributes, Children, Parts};
use crate::infer::propagate;
use crate::node::{Node, NodeId, Target};
use crate::{Arg, Error, Graph, GraphModule, Op, Result, Type, err};

/// How often a graph is walked.
#[derive(Clone, Copy, Debug)]
pub(super) enum Mode {
    /// Once, and what is inserted is not matched.
    Once,
    /// Until nothing matches, within bounds.
    Fixpoint { growth: usize, per_node: usize },
}

/// What the first output of a pattern can be.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Key {
    Call(Op),
    Module(TypeId),
    Attr,
}

/// One run of rules over a graph module.
pub(super) struct Engine<'a> {
    rules: &'a [Rule],
    /// The rules by what their first output can be, each list in order.
    index: FxHashMap<Key, Vec<usize>>,
    depth: usize,
    mode: Mode,
    rewrites: &'a mut Rewrites,
    stats: Vec<RuleStats>,
    sweeps: usize,
    started: Instant,
    log: Option<Vec<Replaced>>,
    /// The last error of a replacement that does not take the values of a match.
    misfit: Option<Error>,
    brought: Brought,
    retyped: bool,
    /// What was inserted, which is not matched if the graph is walked once.
    fresh: FxHashSet<NodeId>,
    subgraphs: Vec<Arc<str>>,
    /// The rules that were applied last.
    recent: VecDeque<usize>,
    replaced: usize,
    most_replaced: usize,
}

/// How many nodes above a replacement are looked at again at once; the last sweep looks at all.
const NEIGHBOURS: usize = 64;

impl<'a> Engine<'a> {
    pub(super) fn new(rules: &'a [Rule], mode: Mode, rewrites: &'a mut Rewrites) -> Self {
        let mut index: FxHashMap<Key, Vec<usize>> = FxHashMap::default();
        for (i, rule) in rules.iter().enumerate() {
            for key in keys(rule.pattern()) {
                index.entry(key).or_default().push(i);
            }
        }
        let stats = |rule: &Rule| RuleStats { name: rule.name.clone(), ..RuleStats::default() };
        Engine {
            rules,
            index,
            depth: rules.iter().map(|rule| rule.pattern().depth).max().unwrap_or(0),
            mode,
            rewrites,
            stats: rules.iter().map(stats).collect(),
            sweeps: 0,
            started: Instant::now(),
            log: None,
            misfit: None,
            brought: Brought::default(),
            retyped: false,
            fresh: FxHashSet::default(),
            subgraphs: Vec::new(),
            recent: VecDeque::new(),
            replaced: 0,
            most_replaced: usize::MAX,
        }
    }

    pub(super) fn keep_log(&mut self) {
        self.log = Some(Vec::new());
    }

    /// Returns what was replaced, and the last error of a replacement that does not take the values of a match.
    pub(super) fn into_log(self) -> (Vec<Replaced>, Option<Error>) {
        (self.log.unwrap_or_default(), self.misfit)
    }

    pub(super) fn into_report(self) -> RulesReport {
        RulesReport { rules: self.stats, sweeps: self.sweeps, time: self.started.elapsed() }
    }

    /// Applies the rules; on an error the module is as before.
    pub(super) fn run(&mut self, gm: &mut GraphModule) -> Result<()> {
        let (graph, attributes, children) = gm.split();
        let mut added = Vec::new();
        let result = graph.transaction(|graph| {
            if let Mode::Fixpoint { per_node, .. } = self.mode {
                let n = usize::try_from(graph.expanded_len()).unwrap_or(usize::MAX);
                self.most_replaced = n.saturating_mul(per_node).saturating_add(1000);
            }
            self.graph(graph, Some((&mut *attributes, &mut *children, &mut added)))?;
            if self.retyped {
                let inputs = vec![Arg::Leaf(Type::Any); graph.placeholders().len()];
                propagate(graph, Parts::new(attributes, children), &inputs)?;
            }
            Ok(())
        });
        if let Err(error) = result {
            for path in added {
                attributes.remove(&path);
                children.remove(&path);
            }
            return Err(error);
        }
        Ok(())
    }

    /// Applies the rules to a graph and those below it; returns whether anything changed.
    fn graph(
        &mut self,
        graph: &mut Graph,
        mut tables: Option<(&mut Attributes, &mut Children, &mut Vec<Arc<str>>)>,
    ) -> Result<bool> {
        let below = graph.edit_subgraphs(&mut |inner| {
            self.subgraphs.push(Arc::from(inner.name()));
            let changed = self.graph(inner, None);
            self.subgraphs.pop();
            changed
        })?;
        let most = match self.mode {
            Mode::Once => usize::MAX,
            Mode::Fixpoint { growth, .. } => graph.len().saturating_mul(growth).saturating_add(1000),
        };
        let replaced = self.replaced;
        let mut worklist = graph.ids();
        loop {
            let is_whole = worklist.len() >= graph.len();
            let parts = match &tables {
                Some((attributes, children, _)) => Parts::new(attributes, children),
                None => Parts::default(),
            };
            let heights = is_whole.then(Heights::default);
            let dirty = self.sweep(graph, parts, &worklist, heights, most)?;
            self.sweeps += 1;
            if let Some((attributes, children, added)) = &mut tables {
                for (path, attribute) in std::mem::take(&mut self.brought.attributes) {
                    added.push(path.clone());
                    attributes.insert(path, attribute);
                }
                for (path, child) in std::mem::take(&mut self.brought.children) {
                    added.push(path.clone());
                    children.insert(path, child);
                }
            }
            let changed = below || self.replaced > replaced;
            let Some(dirty) = dirty else { return Ok(changed) };
            if matches!(self.mode, Mode::Once)
                || (is_whole && dirty.is_empty())
                || self.rewrites.is_exhausted()
            {
                return Ok(changed);
            }
            // Nothing near the last replacements matches any more: the whole graph is looked at again.
            worklist = if dirty.is_empty() { graph.ids() } else { sorted(graph, dirty) };
        }
    }

    /// Walks over nodes; returns those that are worth another look, or `None` if a limit ended it.
    fn sweep(
        &mut self,
        graph: &mut Graph,
        parts: Parts<'_>,
        worklist: &[NodeId],
        mut heights: Option<Heights>,
        most: usize,
    ) -> Result<Option<FxHashSet<NodeId>>> {
        let mut dirty = FxHashSet::default();
        for id in worklist {
            let height = heights.as_mut().map_or(u32::MAX, |heights| heights.enter(graph, *id));
            let Some(key) = graph.node(*id).ok().and_then(|node| key(node, parts)) else { continue };
            if self.fresh.contains(id) {
                continue;
            }
            let Some(rules) = self.index.get(&key) else { continue };
            for at in 0..rules.len() {
                let Some(rule) = self.index.get(&key).and_then(|rules| rules.get(at)).copied() else { break };
                if self.rules[rule].pattern().height > height {
                    continue;
                }
                if let Some(created) = self.try_rule(graph, parts, *id, rule, &mut dirty)? {
                    if let Some(heights) = &mut heights {
                        for id in created {
                            heights.enter(graph, id);
                        }
                    }
                    self.check_bounds(graph, most)?;
                    break;
                }
                if self.rewrites.is_exhausted() {
                    return Ok(None);
                }
            }
        }
        Ok(Some(dirty))
    }

    /// Applies a rule at a node, if it matches, and returns the new nodes.
    fn try_rule(
        &mut self,
        graph: &mut Graph,
        parts: Parts<'_>,
        id: NodeId,
        index: usize,
        dirty: &mut FxHashSet<NodeId>,
    ) -> Result<Option<Vec<NodeId>>> {
        let rule = &self.rules[index];
        self.stats[index].tried += 1;
        let Some(prepared) = rule.prepare(Place { graph, parts }, id)? else { return Ok(None) };
        if !self.fresh.is_empty() && prepared.owned.nodes.iter().any(|id| self.fresh.contains(id)) {
            return Ok(None);
        }
        self.stats[index].matched += 1;
        let described = || format!("{} at %{}", rule.name, graph.node(id).map_or("?", Node::name));
        if !self.rewrites.allow(described) {
            return Ok(None);
        }
        let mut names = Vec::new();
        if self.log.is_some() {
            let name = |id: &NodeId| graph.node(*id).ok().map(|node| node.shared_name().clone());
            names = prepared.owned.nodes.iter().filter_map(name).collect();
        }
        let around = if matches!(self.mode, Mode::Once) { Vec::new() } else { prepared.owned.around(graph) };
        let spliced = splice(
            graph,
            parts,
            &mut self.brought,
            &prepared.owned,
            &prepared.replacement,
            &prepared.results,
            rule.types(),
        )?;
        let (created, erased) = match spliced {
            Spliced::Refused { misfit } => {
                self.misfit = misfit.or(self.misfit.take());
                self.rewrites.take_back();
                return Ok(None);
            }
            Spliced::Done { created, erased, retyped } => {
                self.retyped |= retyped;
                (created, erased)
            }
        };
        let stats = &mut self.stats[index];
        stats.applied += 1;
        stats.created += created.len();
        stats.erased += erased;
        self.replaced += 1;
        if self.recent.len() == 64 {
            self.recent.pop_front();
        }
        self.recent.push_back(index);
        match self.mode {
            Mode::Once => self.fresh.extend(created.iter().copied()),
            Mode::Fixpoint { .. } => self.mark(graph, created.iter().copied().chain(around), dirty),
        }
        if let Some(log) = &mut self.log {
            let subgraphs = self.subgraphs.clone();
            log.push(Replaced {
                rule: rule.name.clone(),
                matched: names,
                created: created.clone(),
                subgraphs,
            });
        }
        Ok(Some(created))
    }

    /// Marks nodes and those above them for another look.
    fn mark(&self, graph: &Graph, nodes: impl Iterator<Item = NodeId>, dirty: &mut FxHashSet<NodeId>) {
        let mut queue: VecDeque<(NodeId, usize)> = nodes.map(|id| (id, 0)).collect();
        let mut left = NEIGHBOURS;
        while let (Some((id, depth)), Some(rest)) = (queue.pop_front(), left.checked_sub(1)) {
            let Ok(node) = graph.node(id) else { continue };
            left = rest;
            dirty.insert(id);
            if depth < self.depth && node.n_users() <= NEIGHBOURS {
                queue.extend(node.users().map(|user| (user, depth + 1)));
            }
        }
    }

    fn check_bounds(&self, graph: &Graph, most: usize) -> Result<()> {
        let what = if graph.len() > most {
            format!("let the graph grow beyond {most} nodes")
        } else if self.replaced > self.most_replaced {
            format!("do not come to an end: {} replacements", self.replaced)
        } else {
            return Ok(());
        };
        let mut names: Vec<&str> = Vec::new();
        for index in &self.recent {
            if !names.contains(&&*self.rules[*index].name) {
                names.push(&self.rules[*index].name);
            }
        }
        Err(err!(Limit, "the rules {what}; the last ones were {}", names.join(", "))
            .help("make sure that one rule does not undo another, or raise the bound of the set"))
    }
}

/// The height of nodes: 1 if they have no inputs, else one more than the highest of them. It tells at once
/// that a pattern is too high for a node, however much of it would match. Nodes are entered in program order.
#[derive(Default)]
struct Heights(Vec<u32>);

impl Heights {
    fn enter(&mut self, graph: &Graph, id: NodeId) -> u32 {
        let Ok(node) = graph.node(id) else { return 0 };
        let height_of = |input: NodeId| self.0.get(input.index as usize).copied().unwrap_or(0);
        let height = 1 + node.inputs().map(height_of).max().unwrap_or(0);
        let at = id.index as usize;
        if self.0.len() <= at {
            self.0.resize(at + 1, 0);
        }
        self.0[at] = height;
        height
    }
}

fn sorted(graph: &Graph, dirty: FxHashSet<NodeId>) -> Vec<NodeId> {
    let mut ids: Vec<NodeId> = dirty.into_iter().filter(|id| graph.contains(*id)).collect();
    ids.sort_unstable_by_key(|id| graph.position(*id));
    ids
}

/// Returns what a node can be the first output of.
pub(super) fn key(node: &Node, parts: Parts<'_>) -> Option<Key> {
    match node.target() {
        Target::CallFunction(op) | Target::CallMethod(op) => Some(Key::Call(*op)),
        Target::CallModule(path) => {
            parts.child(path).map(|child| Key::Module(child.as_module().as_any().type_id()))
        }
        Target::GetAttr(_) => Some(Key::Attr),
        Target::Placeholder | Target::Output => None,
    }
}

/// Returns what the first output of a pattern can be.
pub(super) fn keys(pattern: &Pattern) -> Vec<Key> {
    let mut keys = Vec::new();
    let mut stack = vec![pattern.roots[0]];
    let mut seen = FxHashSet::default();
    while let Some(at) = stack.pop() {
        let key = match &pattern.nodes[at as usize].kind {
            PatternKind::Call { op, .. } => Key::Call(*op),
            PatternKind::Module { ty, .. } => Key::Module(ty.id),
            PatternKind::Attr(_) => Key::Attr,
            PatternKind::AnyOf(options) => {
                stack.extend(options.iter().filter(|option| seen.insert(**option)));
                continue;
            }
            PatternKind::Input | PatternKind::LiteralHole(_) | PatternKind::Free => continue,
        };
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    keys
}
