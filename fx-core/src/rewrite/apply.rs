//! Putting a replacement in the place of a match.
//!
//! Returned nodes are replaced one after the other in program order. What a replacement computes for one of
//! them is inserted just before it; values that the replacement needs and that come later are moved up,
//! unless they depend on the match. So no user comes before its input. Nodes with effects are inserted where
//! the last effect of the match was, and are never moved.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::holes;
use super::match_::Match;
use super::rule::Types;
use crate::attribute::{Attribute, Parts};
use crate::infer::{infer_node, type_of};
use crate::node::{NodeId, NodeMeta, OpCode, Provenance, Target};
use crate::{Arg, Error, Forward, Graph, GraphModule, ModuleFrame, Result, bail, err};

/// A match, detached from the graph so that the graph can be changed.
pub(super) struct Owned {
    /// What the pattern computes, in program order.
    pub(super) nodes: Vec<NodeId>,
    /// The returned nodes with their place in the pattern's output, in program order.
    outputs: Vec<(NodeId, usize)>,
    inputs: Vec<Option<Arg>>,
    literals: BTreeMap<Arc<str>, Arg>,
    meta: NodeMeta,
    /// The last node of the match that has an effect.
    effect: Option<NodeId>,
}

impl Owned {
    /// Detaches a match; what replaces it has the union of the provenance of its nodes.
    pub(super) fn new(found: &Match<'_>, rule: &str) -> Self {
        let (graph, pattern) = (found.graph(), found.pattern());
        let nodes = found.nodes();
        let mut outputs: Vec<(NodeId, usize)> =
            found.outputs().into_iter().enumerate().map(|(i, id)| (id, i)).collect();
        outputs.sort_by_key(|(id, _)| graph.position(*id));
        let literal =
            |(name, at): (&Arc<str>, &u32)| Some((name.clone(), found.values()[*at as usize].clone()?));
        let has_effect = |id: &NodeId| graph.node(*id).is_ok_and(|node| found.place().parts.has_effect(node));
        let effect = nodes.iter().rev().copied().find(has_effect);
        Owned {
            effect,
            meta: merged_meta(graph, &nodes, rule),
            outputs,
            inputs: found.inputs().map(Option::<&Arg>::cloned).collect(),
            literals: pattern.names.iter().filter_map(literal).collect(),
            nodes,
        }
    }

    /// Returns the users of what the match returns, and of the values that it is made from where they have
    /// few: there may be new matches.
    pub(super) fn around(&self, graph: &Graph) -> Vec<NodeId> {
        let mut around = Vec::new();
        let inputs = self.inputs.iter().flatten().filter_map(Arg::leaf);
        for id in self.outputs.iter().map(|(id, _)| id).chain(inputs) {
            if let Ok(node) = graph.node(*id)
                && node.n_users() <= 8
            {
                around.extend(node.users());
            }
        }
        around
    }
}

/// The most names of replaced nodes that a provenance keeps.
const MOST_NAMES: usize = 256;

/// Returns the facts about what replaces nodes: sources, modules, tags, provenance and users' facts of all of
/// them. Nodes that the same pass made stand for those that they replaced.
pub fn merged_meta(graph: &Graph, nodes: &[NodeId], pass: &str) -> NodeMeta {
    let mut meta = NodeMeta::default();
    let mut provenance: Vec<Provenance> = Vec::new();
    let mut from: Vec<Arc<str>> = Vec::new();
    let mut stack: Option<&[ModuleFrame]> = None;
    for id in nodes {
        let Ok(node) = graph.node(*id) else { continue };
        let old = node.meta();
        if node.opcode() != OpCode::GetAttr || nodes.len() == 1 {
            let theirs = old.stack.as_deref().unwrap_or_default();
            stack = Some(match stack {
                None => theirs,
                Some(ours) => {
                    let same = ours.iter().zip(theirs).take_while(|(a, b)| a == b).count();
                    &ours[..same]
                }
            });
        }
        let mut is_ours = false;
        for entry in old.provenance() {
            let names = if *entry.pass == *pass {
                is_ours = true;
                &mut from
            } else {
                let at = provenance.iter().position(|other| other.pass == entry.pass).unwrap_or_else(|| {
                    provenance.push(Provenance { pass: entry.pass.clone(), from: Vec::new() });
                    provenance.len() - 1
                });
                &mut provenance[at].from
            };
            entry.from.iter().for_each(|name| add_name(names, name));
        }
        if !is_ours {
            add_name(&mut from, node.shared_name());
        }
        old.tags().iter().for_each(|tag| meta.add_tag(tag.clone()));
        for (key, value) in old.ext() {
            if meta.get_ext(key).is_none() {
                meta.set_ext(key.clone(), Some(value.clone()));
            }
        }
    }
    // The last node is the one whose value is replaced: its line comes first.
    let sources = nodes.iter().rev().filter_map(|id| graph.node(*id).ok()?.meta().source.clone());
    meta.source = sources.into_iter().next();
    meta.stack = stack.filter(|stack| !stack.is_empty()).map(Arc::from);
    provenance.into_iter().for_each(|entry| meta.add_provenance(entry));
    meta.add_provenance(Provenance { pass: Arc::from(pass), from });
    meta
}

fn add_name(names: &mut Vec<Arc<str>>, name: &Arc<str>) {
    if names.len() < MOST_NAMES && !names.contains(name) {
        names.push(name.clone());
    }
}

/// Attributes and modules that replacements bring along; they are added when all has succeeded.
#[derive(Default)]
pub(super) struct Brought {
    /// The new path of each path of a replacement, by the address of the replacement.
    known: FxHashMap<(usize, Arc<str>), Arc<str>>,
    /// The replacements among the keys, kept so that no other gets their address.
    kept: Vec<Arc<GraphModule>>,
    pub(super) attributes: BTreeMap<Arc<str>, Attribute>,
    pub(super) children: BTreeMap<Arc<str>, Arc<dyn Forward>>,
}

impl Brought {
    /// Returns the path in the graph of what a replacement calls `path`.
    fn path(
        &mut self,
        parts: Parts<'_>,
        replacement: &Arc<GraphModule>,
        path: &Arc<str>,
    ) -> Result<Arc<str>> {
        let key = (Arc::as_ptr(replacement) as usize, path.clone());
        if let Some(known) = self.known.get(&key) {
            return Ok(known.clone());
        }
        let is_free = |path: &str| {
            !parts.is_taken(path) && !self.attributes.contains_key(path) && !self.children.contains_key(path)
        };
        let new: Arc<str> = match is_free(path) {
            true => path.clone(),
            false => {
                let base = path.trim_end_matches(|c: char| c.is_ascii_digit()).trim_end_matches('_');
                let numbered = (1..).map(|i| format!("{base}_{i}")).find(|path| is_free(path));
                Arc::from(numbered.ok_or_else(|| err!(Limit, "no path is free"))?)
            }
        };
        match replacement.attribute(path) {
            Ok(attribute) => drop(self.attributes.insert(new.clone(), attribute.clone())),
            Err(_) => {
                let child = replacement.shared_child(path);
                let child = child.ok_or_else(|| err!(Unresolved, "the replacement has no {path:?}"))?;
                self.children.insert(new.clone(), child);
            }
        }
        self.kept.push(replacement.clone());
        self.known.insert(key, new.clone());
        Ok(new)
    }
}

/// What became of a match.
pub(super) enum Spliced {
    /// It was replaced.
    Done {
        /// The new nodes in program order.
        created: Vec<NodeId>,
        /// The nodes that are gone.
        erased: usize,
        /// Whether a value has another type now.
        retyped: bool,
    },
    /// It cannot be replaced here.
    Refused {
        /// The error of an operation of the replacement that does not take its values, if that is why.
        misfit: Option<Error>,
    },
}

/// Replaces a match by what computes `results`, one for each value that the pattern returns. If the answer is
/// an error, or the match is refused, the graph is as before.
pub(super) fn splice(
    graph: &mut Graph,
    parts: Parts<'_>,
    brought: &mut Brought,
    matched: &Owned,
    replacement: &Arc<GraphModule>,
    results: &[Arg],
    types: Types,
) -> Result<Spliced> {
    let (mut refused, mut misfit) = (false, None);
    let done = graph.transaction(|graph| {
        let mut splice = Splice {
            graph,
            parts,
            brought,
            matched,
            replacement,
            map: FxHashMap::default(),
            replaced: FxHashMap::default(),
            created: Vec::new(),
            refused: &mut refused,
            misfit: &mut misfit,
        };
        splice.run(results, types)
    });
    if refused { Ok(Spliced::Refused { misfit }) } else { done }
}

struct Splice<'a, 'g> {
    graph: &'g mut Graph,
    parts: Parts<'a>,
    brought: &'a mut Brought,
    matched: &'a Owned,
    replacement: &'a Arc<GraphModule>,
    /// What the nodes of the replacement are in the graph.
    map: FxHashMap<NodeId, Arg>,
    /// What the returned nodes were replaced by.
    replaced: FxHashMap<NodeId, Arg>,
    created: Vec<NodeId>,
    refused: &'a mut bool,
    misfit: &'a mut Option<Error>,
}

impl<'a> Splice<'a, '_> {
    fn run(&mut self, results: &[Arg], types: Types) -> Result<Spliced> {
        let new = self.replacement.graph();
        for (placeholder, value) in new.placeholders().into_iter().zip(&self.matched.inputs) {
            if let Some(value) = value {
                self.map.insert(placeholder, value.clone());
            }
        }
        let has_effects = new.nodes().any(|(_, node)| self.replacement.parts().has_effect(node));
        let mut retyped = false;
        if has_effects {
            let at = match self.matched.effect {
                Some(effect) => effect,
                None => self.matched.outputs[0].0,
            };
            self.emit(at, new.ids())?;
        }
        for (output, position) in &self.matched.outputs {
            let needed = needed(new, &results[*position], &self.map);
            self.emit(*output, needed)?;
            let result = self.translate(&results[*position])?;
            if let Arg::Leaf(id) = &result
                && self.graph.position(*id) > self.graph.position(*output)
            {
                self.hoist(*id, *output)?;
            }
            if self.replaced.contains_key(output) {
                continue;
            }
            retyped |= self.check_type(*output, &result, types)?;
            let users = match has_effects {
                false => self.graph.replace_all_uses(*output, result.clone())?,
                true => match self.graph.replace_all_uses(*output, result.clone()) {
                    Ok(users) => users,
                    Err(_) => return self.refuse("users after its effects"),
                },
            };
            if result.leaf().is_none() {
                self.check_users(&users)?;
            }
            self.replaced.insert(*output, result);
        }
        let mut erased = 0;
        for id in self.matched.nodes.iter().rev() {
            if self.graph.node(*id).is_ok_and(|node| node.n_users() == 0) && self.graph.erase(*id).is_ok() {
                erased += 1;
            }
        }
        Ok(Spliced::Done { created: std::mem::take(&mut self.created), erased, retyped })
    }

    fn refuse<T>(&mut self, expected: &str) -> Result<T> {
        *self.refused = true;
        bail!(Graph, "the match is refused: expected {expected}")
    }

    fn refuse_misfit<T>(&mut self, error: Error) -> Result<T> {
        *self.misfit = Some(error);
        self.refuse("operations that take their values")
    }

    /// Copies nodes of the replacement, which are in order, to just before `at`.
    fn emit(&mut self, at: NodeId, nodes: Vec<NodeId>) -> Result<()> {
        let new = self.replacement.graph();
        for id in nodes {
            let node = new.node(id)?;
            if matches!(node.opcode(), OpCode::Placeholder | OpCode::Output) || self.map.contains_key(&id) {
                continue;
            }
            let target = match node.target() {
                Target::GetAttr(_) | Target::CallModule(_) if self.parts.is_closed() => {
                    return self.refuse("nothing with a path inside a closed sub-graph");
                }
                Target::GetAttr(path) => {
                    Target::GetAttr(self.brought.path(self.parts, self.replacement, path)?)
                }
                Target::CallModule(path) => {
                    Target::CallModule(self.brought.path(self.parts, self.replacement, path)?)
                }
                other => other.clone(),
            };
            let args = node.args().iter().map(|arg| self.translate(arg)).collect::<Result<Vec<_>>>()?;
            let kwargs = node.kwargs().iter().map(|(key, arg)| Ok((key.clone(), self.translate(arg)?)));
            let kwargs = kwargs.collect::<Result<Vec<_>>>()?;
            for arg in args.iter().chain(kwargs.iter().map(|(_, arg)| arg)) {
                for input in arg.leaves() {
                    self.hoist(*input, at)?;
                }
            }
            if let Some(op) = target.op()
                && let Err(error) = op.bind(&args, &kwargs)
            {
                return self.refuse_misfit(error);
            }
            let copy = self
                .graph
                .inserting_before(at, |graph| graph.create(target, args, kwargs, Some(node.name())))??;
            let mut meta = self.matched.meta.clone();
            meta.ty = match (self.graph.node(copy)?.target(), node.ty()) {
                (Target::GetAttr(path), _) => match self.brought.attributes.get(path) {
                    Some(attribute) => Some(attribute.type_tree()?),
                    None => node.ty().cloned(),
                },
                _ => match infer_node(self.graph, self.parts, copy) {
                    Ok(ty) => ty,
                    Err(error) => return self.refuse_misfit(error),
                },
            }
            .map(Arc::new);
            *self.graph.meta_mut(copy)? = meta;
            self.map.insert(id, Arg::Leaf(copy));
            self.created.push(copy);
        }
        Ok(())
    }

    /// Writes an argument of the replacement in terms of the graph.
    fn translate(&self, arg: &Arg) -> Result<Arg> {
        arg.try_rewrite(&mut |arg| match arg {
            Arg::Leaf(id) => {
                let value = self.map.get(id).ok_or_else(|| {
                    let name = self.replacement.graph().node(*id).map_or("?", |node| node.name());
                    err!(Argument, "the replacement uses %{name}, which the match does not have")
                        .help("use arguments that every alternative of the pattern has")
                })?;
                value
                    .try_flat_map(&mut |id| Ok(self.replaced.get(id).cloned().unwrap_or(Arg::Leaf(*id))))
                    .map(Some)
            }
            _ => match holes::hole(arg) {
                Some(hole) => match hole.name().and_then(|name| self.matched.literals.get(name)) {
                    Some(value) => Ok(Some(value.clone())),
                    None => {
                        bail!(Argument, "the replacement asks for {hole}, which the pattern does not have")
                    }
                },
                None => Ok(None),
            },
        })
    }

    /// Moves a value, and what it is made from, before `at`.
    fn hoist(&mut self, id: NodeId, at: NodeId) -> Result<()> {
        let limit = self.graph.position(at);
        if self.graph.position(id) < limit {
            return Ok(());
        }
        let mut seen = FxHashSet::default();
        let mut stack = vec![id];
        while let Some(id) = stack.pop() {
            if self.graph.position(id) < limit || !seen.insert(id) {
                continue;
            }
            let node = self.graph.node(id)?;
            if self.matched.nodes.contains(&id) && !self.replaced.contains_key(&id) {
                return self.refuse("values that do not depend on the match");
            }
            if self.parts.has_effect(node) {
                return self.refuse("values that can be computed earlier");
            }
            stack.extend(node.inputs());
        }
        let mut moved: Vec<NodeId> = seen.into_iter().collect();
        moved.sort_unstable_by_key(|id| self.graph.position(*id));
        moved.into_iter().try_for_each(|id| self.graph.move_before(id, at))
    }

    /// Compares the type of what is replaced with that of what takes its place; returns whether it changes.
    fn check_type(&mut self, old: NodeId, new: &Arg, types: Types) -> Result<bool> {
        let before = self.graph.node(old)?.ty().filter(|ty| ty.is_complete()).cloned();
        let after = type_of(self.graph, new);
        match (before, after) {
            (Some(before), Some(after)) if before == after => Ok(false),
            (Some(before), Some(after)) if types != Types::Free || self.parts.is_closed() => {
                self.refuse(&format!("the type {before}, got {after}"))
            }
            (Some(_), Some(_)) => Ok(true),
            (None, _) | (_, None) if types == Types::Known => self.refuse("a known type"),
            (Some(_), None) => Ok(true),
            (None, _) => Ok(false),
        }
    }

    /// Checks that users take a literal where they took a tensor.
    fn check_users(&mut self, users: &[NodeId]) -> Result<()> {
        for user in users {
            let node = self.graph.node(*user)?;
            let error = match node.op() {
                Some(op) => op.bind(node.args(), node.kwargs()).err(),
                None => None,
            };
            if error.is_some() {
                return self.refuse("users that take a literal");
            }
        }
        Ok(())
    }
}

/// Returns the nodes that a result needs and that are not in the graph yet, in program order.
fn needed(graph: &Graph, result: &Arg, known: &FxHashMap<NodeId, Arg>) -> Vec<NodeId> {
    let mut seen = FxHashSet::default();
    let mut stack: Vec<NodeId> = result.leaves().into_iter().copied().collect();
    while let Some(id) = stack.pop() {
        if known.contains_key(&id) || !seen.insert(id) {
            continue;
        }
        if let Ok(node) = graph.node(id) {
            stack.extend(node.inputs());
        }
    }
    let mut nodes: Vec<NodeId> = seen.into_iter().collect();
    nodes.sort_unstable_by_key(|id| graph.position(*id));
    nodes
}
