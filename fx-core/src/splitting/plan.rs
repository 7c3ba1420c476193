//! Where each node goes: from keys to parts that have no cycle, in an order in which they can run.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::Cycles;
use crate::analysis::Flow;
use crate::node::{Node, NodeId, OpCode, Target};
use crate::{Arg, Attribute, Error, Graph, GraphModule, Result, Symbol, Type, bail, err, fresh, ops};

/// No part: the node stays in the outer graph.
pub(super) const STAYS: u32 = u32::MAX;

/// Returns whether a node computes something, so that it can be part of a part.
pub(crate) fn is_call(node: &Node) -> bool {
    !matches!(node.opcode(), OpCode::Placeholder | OpCode::GetAttr | OpCode::Output)
}

/// Returns whether a node stores into a buffer when the call has succeeded; it stays in the outer graph.
pub(crate) fn stores(node: &Node) -> bool {
    node.op().is_some_and(ops::is_store)
}

/// Returns the node whose item a `getitem` takes, if it takes one of what is not known to be a tensor.
pub(crate) fn item_of(graph: &Graph, node: &Node) -> Option<NodeId> {
    let args: Vec<&Arg> = node.all_args().collect();
    let (true, [Arg::Leaf(of), index]) = (node.op() == Some(ops::getitem::OP), &args[..]) else {
        return None;
    };
    let producer = graph.node(*of).ok()?;
    let is_tensor = producer.ty().is_some_and(|ty| matches!(ty, Arg::Leaf(Type::Tensor(_))));
    (is_call(producer) && !is_tensor && index.leaves().is_empty()).then_some(*of)
}

/// Returns whether a node goes where its producer goes.
pub(crate) fn follows(graph: &Graph, node: &Node) -> bool {
    item_of(graph, node).is_some()
}

/// Nodes with the names of their parts.
pub(crate) struct Plan {
    gm: GraphModule,
    ids: Vec<NodeId>,
    keys: Vec<Arc<str>>,
    by_key: FxHashMap<Arc<str>, u32>,
    of: FxHashMap<NodeId, u32>,
}

/// Parts in order, and what goes in and out of each.
pub(super) struct Ready {
    pub(super) gm: GraphModule,
    pub(super) parts: Vec<ReadyPart>,
    pub(super) steps: Vec<Step>,
}

/// What the outer graph does next.
pub(super) enum Step {
    /// A node that stays.
    Node(NodeId),
    /// A call of a part.
    Part(usize),
}

pub(super) struct ReadyPart {
    pub(super) key: Arc<str>,
    /// In program order, with reads of attributes that move.
    pub(super) nodes: Vec<NodeId>,
    /// Values from outside in the order in which they are used.
    pub(super) inputs: Vec<NodeId>,
    /// Sizes that are passed, since no input has them.
    pub(super) sizes: Vec<Symbol>,
    /// Values that others use, in program order.
    pub(super) outputs: Vec<NodeId>,
    pub(super) attributes: Vec<Arc<str>>,
    pub(super) children: Vec<Arc<str>>,
}

impl Plan {
    /// Starts with all nodes staying where they are.
    pub(crate) fn new(gm: &GraphModule) -> Plan {
        let (gm, ids) = (gm.clone(), gm.graph().ids());
        Plan { gm, ids, keys: Vec::new(), by_key: FxHashMap::default(), of: FxHashMap::default() }
    }

    /// Puts the node at a position into the part of a key.
    pub(crate) fn assign(&mut self, position: usize, key: &Arc<str>) {
        let next = self.keys.len() as u32;
        let part = *self.by_key.entry(key.clone()).or_insert(next);
        if part == next {
            self.keys.push(key.clone());
        }
        self.of.insert(self.ids[position], part);
    }

    fn part(&self, id: NodeId) -> u32 {
        self.of.get(&id).copied().unwrap_or(STAYS)
    }

    /// Decides everything else.
    pub(super) fn ready(mut self, cycles: Cycles) -> Result<Ready> {
        self.follow_producers()?;
        self.untie_modules(cycles)?;
        let flow = flow(&self.gm);
        let order = loop {
            match self.order(&flow) {
                Ok(order) => break order,
                Err(stuck) if cycles == Cycles::Refuse => return Err(self.cycle_error(&flow, &stuck)),
                Err(stuck) => {
                    self.merge(&flow, &stuck);
                    self.follow_producers()?;
                }
            }
        };
        Ok(self.with_borders(&flow, &order))
    }

    /// Leaves stores where they are, and moves items of tuples to what makes the tuple.
    fn follow_producers(&mut self) -> Result<()> {
        let graph = self.gm.graph();
        for id in graph.ids() {
            let node = graph.node(id)?;
            if stores(node) {
                self.of.remove(&id);
            } else if let Some(of) = item_of(graph, node) {
                match self.of.get(&of).copied() {
                    Some(part) => self.of.insert(id, part),
                    None => self.of.remove(&id),
                };
            }
        }
        Ok(())
    }

    /// Inlines modules with state that several parts call, so that the state is one.
    fn untie_modules(&mut self, cycles: Cycles) -> Result<()> {
        let mut calls: BTreeMap<Arc<str>, Vec<NodeId>> = BTreeMap::new();
        for (id, node) in self.gm.graph().nodes() {
            if let Target::CallModule(path) = node.target() {
                calls.entry(path.clone()).or_default().push(id);
            }
        }
        for (path, nodes) in calls {
            let parts: FxHashSet<u32> = nodes.iter().map(|id| self.part(*id)).collect();
            let child = self.gm.child(&path)?.as_module();
            let has_state = !crate::module::collect_parameters(child).is_empty()
                || !crate::module::collect_buffers(child).is_empty();
            if parts.len() < 2 || !has_state && child.is_pure() {
                continue;
            }
            if !child.is_pure() {
                if cycles == Cycles::Merge && !parts.contains(&STAYS) {
                    let first = self.part(nodes[0]);
                    self.of.values_mut().filter(|part| parts.contains(part)).for_each(|part| *part = first);
                    continue;
                }
                let names = self.names(nodes.iter().copied());
                return Err(err!(
                    Graph,
                    "{path} updates its buffers and is called in several parts, by {names}"
                )
                .help("put these nodes into one part, or let `Cycles::Merge` do so"));
            }
            for id in nodes {
                let part = self.part(id);
                let new = crate::pass::inline_call(&mut self.gm, &path, id).map_err(|error| {
                    let problem = format!("{path} is called in several parts and cannot be inlined: {error}");
                    Error::new(error.kind(), problem).help("put its calls into one part")
                })?;
                self.of.remove(&id);
                if part != STAYS {
                    let graph = self.gm.graph();
                    let calls = new.into_iter().filter(|id| graph.node(*id).is_ok_and(is_call));
                    self.of.extend(calls.map(|id| (id, part)));
                }
            }
        }
        self.ids = self.gm.graph().ids();
        Ok(())
    }

    fn names(&self, ids: impl Iterator<Item = NodeId>) -> String {
        let name = |id| self.gm.graph().node(id).map(|node| format!("%{}", node.name())).unwrap_or_default();
        let all: Vec<String> = ids.map(name).collect();
        let more = if all.len() > 6 { format!(" and {} more", all.len() - 6) } else { String::new() };
        format!("{}{more}", all[..all.len().min(6)].join(", "))
    }

    /// Numbers the parts and the nodes that stay, and returns the number of each node, and how many there are.
    fn clusters(&self, flow: &Flow) -> (Vec<u32>, usize) {
        let mut n = self.keys.len() as u32;
        let mut cluster = |id: &NodeId| match self.part(*id) {
            STAYS => {
                n += 1;
                n - 1
            }
            part => part,
        };
        let clusters = flow.ids().iter().map(&mut cluster).collect();
        (clusters, n as usize)
    }

    /// Returns the parts and staying nodes in an order in which they can run, each as early as its first
    /// node; or those that cannot run since they need each other, directly or not.
    fn order(&self, flow: &Flow) -> Result<Vec<Vec<u32>>, Vec<u32>> {
        let (clusters, n) = self.clusters(flow);
        let mut members: Vec<Vec<u32>> = vec![Vec::new(); n];
        for (i, cluster) in clusters.iter().enumerate() {
            members[*cluster as usize].push(i as u32);
        }
        // An edge is counted as often as it occurs, and taken off as often.
        let mut waiting = vec![0u32; n];
        for i in 0..flow.len() {
            let from_outside =
                flow.inputs(i).iter().filter(|input| clusters[**input as usize] != clusters[i]);
            waiting[clusters[i] as usize] += from_outside.count() as u32;
        }
        let firsts: Vec<Option<u32>> = members.iter().map(|members| members.first().copied()).collect();
        let first = |cluster: usize| firsts[cluster];
        let mut ready: BinaryHeap<Reverse<(u32, u32)>> = (0..n)
            .filter(|cluster| waiting[*cluster] == 0)
            .filter_map(|cluster| Some(Reverse((first(cluster)?, cluster as u32))))
            .collect();
        let mut order = Vec::with_capacity(n);
        let mut done = 0;
        while let Some(Reverse((_, cluster))) = ready.pop() {
            for i in &members[cluster as usize] {
                done += 1;
                for user in flow.users(*i as usize) {
                    let other = clusters[*user as usize];
                    if other == cluster {
                        continue;
                    }
                    waiting[other as usize] -= 1;
                    if waiting[other as usize] == 0 {
                        ready.extend(first(other as usize).map(|first| Reverse((first, other))));
                    }
                }
            }
            order.push(std::mem::take(&mut members[cluster as usize]));
        }
        if done == flow.len() { Ok(order) } else { Err(stuck_parts(flow, &clusters, &members)) }
    }

    /// Makes one part of the parts that need each other, and of the nodes between them.
    fn merge(&mut self, flow: &Flow, stuck: &[u32]) {
        let (clusters, _) = self.clusters(flow);
        let component = components(flow, &clusters, stuck);
        let mut first: FxHashMap<u32, u32> = FxHashMap::default();
        for cluster in &clusters {
            if let (Some(component), true) = (component.get(cluster), (*cluster as usize) < self.keys.len()) {
                first.entry(*component).or_insert(*cluster);
            }
        }
        for (i, cluster) in clusters.iter().enumerate() {
            if let Some(part) = component.get(cluster).and_then(|component| first.get(component)) {
                self.of.insert(flow.id(i), *part);
            }
        }
    }

    fn cycle_error(&self, flow: &Flow, stuck: &[u32]) -> Error {
        let (clusters, _) = self.clusters(flow);
        let component = components(flow, &clusters, stuck);
        let Some(start) = clusters.iter().find(|cluster| component.contains_key(cluster)).copied() else {
            return err!(Graph, "parts need each other");
        };
        let inside = |cluster: u32| component.get(&cluster) == component.get(&start);
        // The shortest way from the part back to itself, by the edge that leads into each cluster.
        let mut from: FxHashMap<u32, (u32, u32)> = FxHashMap::default();
        let mut members: FxHashMap<u32, Vec<u32>> = FxHashMap::default();
        for (i, cluster) in clusters.iter().enumerate() {
            if inside(*cluster) {
                members.entry(*cluster).or_default().push(i as u32);
            }
        }
        let mut queue = std::collections::VecDeque::from([start]);
        'search: while let Some(cluster) = queue.pop_front() {
            for i in &members[&cluster] {
                for user in flow.users(*i as usize) {
                    let other = clusters[*user as usize];
                    if other == cluster || !inside(other) || from.contains_key(&other) {
                        continue;
                    }
                    from.insert(other, (*i, *user));
                    if other == start {
                        break 'search;
                    }
                    queue.push_back(other);
                }
            }
        }
        let name = |i: u32| {
            let id = flow.id(i as usize);
            let node = self.gm.graph().node(id).map(|node| node.name().to_owned()).unwrap_or_default();
            match self.part(id) {
                STAYS => format!("%{node}"),
                part => format!("%{node} of {}", self.keys[part as usize]),
            }
        };
        let (mut edges, mut at) = (Vec::new(), start);
        while let Some((source, target)) = from.get(&at) {
            let data = self
                .gm
                .graph()
                .node(flow.id(*target as usize))
                .is_ok_and(|node| node.inputs().any(|input| input == flow.id(*source as usize)));
            let how = if data { "is used by" } else { "must run before" };
            edges.push(format!("{} {how} {}", name(*source), name(*target)));
            at = clusters[*source as usize];
            if at == start {
                break;
            }
        }
        edges.reverse();
        err!(Graph, "the parts need each other: {}", edges.join(", "))
            .help("put these nodes into one part, or let `Cycles::Merge` do so")
    }

    /// Decides which attributes move, and what goes in and out of each part.
    fn with_borders(self, flow: &Flow, order: &[Vec<u32>]) -> Ready {
        let graph = self.gm.graph();
        let mut of: Vec<u32> = flow.ids().iter().map(|id| self.part(*id)).collect();
        let (moved_attributes, moved_children) = self.moves(flow, &mut of);
        let known = known_sizes(graph);
        let mut parts: Vec<ReadyPart> = Vec::new();
        let mut number: FxHashMap<u32, usize> = FxHashMap::default();
        let mut steps = Vec::with_capacity(order.len());
        for cluster in order {
            let Some(first) = cluster.first().map(|i| *i as usize) else { continue };
            let is_read = graph.node(flow.id(first)).is_ok_and(|node| node.opcode() == OpCode::GetAttr);
            let part = of[first];
            if part == STAYS {
                steps.push(Step::Node(flow.id(first)));
            } else if !is_read {
                steps.push(Step::Part(parts.len()));
                number.insert(part, parts.len());
                parts.push(ReadyPart {
                    key: self.keys[part as usize].clone(),
                    nodes: Vec::new(),
                    inputs: Vec::new(),
                    sizes: Vec::new(),
                    outputs: Vec::new(),
                    attributes: Vec::new(),
                    children: Vec::new(),
                });
            }
        }
        // The nodes of a part may be more than those of its cluster, by the reads of attributes that moved.
        let mut seen: Vec<FxHashSet<NodeId>> = vec![FxHashSet::default(); parts.len()];
        for (i, (id, node)) in graph.nodes().enumerate() {
            let Some(part) = number.get(&of[i]).copied() else { continue };
            parts[part].nodes.push(id);
            for input in node.inputs() {
                let outside = flow.position(input).is_some_and(|at| of[at] != of[i]);
                if outside && seen[part].insert(input) {
                    parts[part].inputs.push(input);
                }
            }
            if flow.users(i).iter().any(|user| {
                of[*user as usize] != of[i]
                    && graph
                        .node(flow.id(*user as usize))
                        .is_ok_and(|user| user.inputs().any(|input| input == id))
            }) {
                parts[part].outputs.push(id);
            }
        }
        for part in &mut parts {
            part.sizes = missing_sizes(graph, part, &known);
        }
        add_births(graph, flow, &of, &number, &mut parts);
        for (path, part) in moved_attributes {
            if let Some(part) = number.get(&part) {
                parts[*part].attributes.push(path);
            }
        }
        for (path, part) in moved_children {
            if let Some(part) = number.get(&part) {
                parts[*part].children.push(path);
            }
        }
        Ready { gm: self.gm, parts, steps }
    }

    /// Finds the attributes and sub-modules that one part alone uses, and puts the reads of the former there.
    #[allow(clippy::type_complexity, reason = "two lists of the same kind")]
    fn moves(&self, flow: &Flow, of: &mut [u32]) -> (Vec<(Arc<str>, u32)>, Vec<(Arc<str>, u32)>) {
        let (graph, gm) = (self.gm.graph(), &self.gm);
        let mut readers: BTreeMap<Arc<str>, (Vec<usize>, Option<u32>)> = BTreeMap::new();
        let mut callers: BTreeMap<Arc<str>, Option<u32>> = BTreeMap::new();
        let mut updated: FxHashSet<Arc<str>> = FxHashSet::default();
        for (i, (_, node)) in graph.nodes().enumerate() {
            match node.target() {
                Target::GetAttr(path) => {
                    let entry = readers.entry(path.clone()).or_insert_with(|| (Vec::new(), None));
                    entry.0.push(i);
                    for user in flow.users(i) {
                        let part = of[*user as usize];
                        let one = entry.1.is_none_or(|one| one == part);
                        entry.1 = Some(if one { part } else { STAYS });
                    }
                }
                Target::CallModule(path) => {
                    let one = callers.entry(path.clone()).or_insert(Some(of[i]));
                    if *one != Some(of[i]) {
                        *one = None;
                    }
                }
                _ if stores(node) => {
                    if let Some(Arg::Str(path)) = node.all_args().next() {
                        updated.insert(path.clone());
                    }
                }
                _ => {}
            }
        }
        let mut attributes = Vec::new();
        for (path, (reads, part)) in readers {
            let is_folded = gm.recipe(&path).is_some() || gm.is_folded_from(&path);
            let is_there = gm.attribute(&path).is_ok();
            let Some(part) = part.filter(|part| *part != STAYS) else { continue };
            if is_folded || updated.contains(&path) || !is_there {
                continue;
            }
            reads.into_iter().for_each(|i| of[i] = part);
            attributes.push((path, part));
        }
        let one = |(path, part): (Arc<str>, Option<u32>)| Some((path, part.filter(|part| *part != STAYS)?));
        (attributes, callers.into_iter().filter_map(one).collect())
    }
}

/// Returns the edges: values, the order of effects, and sizes that one node finds out and another writes down.
pub(crate) fn flow(gm: &GraphModule) -> Flow {
    let graph = gm.graph();
    let mut extra = Vec::new();
    let mut last_effect = None;
    let mut born: FxHashMap<Symbol, u32> = FxHashMap::default();
    for (i, (_, node)) in graph.nodes().enumerate() {
        let i = i as u32;
        if !born.is_empty() {
            for symbol in written_sizes(node) {
                extra.extend(born.get(&symbol).map(|from| (*from, i)));
            }
        }
        if gm.parts().has_effect(node) && !stores(node) {
            extra.extend(last_effect.map(|from| (from, i)));
            last_effect = Some(i);
        }
        if let Some(ty) = node.ty() {
            fresh::for_each_dim(ty, &mut |dim| {
                if let Some(symbol) = dim.as_symbol() {
                    born.entry(symbol.clone()).or_insert(i);
                }
            });
        }
    }
    Flow::with_edges(graph, &extra)
}

/// Returns the symbols of the sizes that are written among the arguments of a node.
fn written_sizes(node: &Node) -> Vec<Symbol> {
    let mut found = Vec::new();
    for arg in node.all_args() {
        arg.walk(&mut |arg| {
            if let Arg::Dim(dim) = arg {
                dim.collect_symbols(&mut found);
            }
        });
    }
    found
}

/// Returns the symbols that the outer graph gives values to.
fn known_sizes(graph: &Graph) -> FxHashSet<Symbol> {
    let mut known = FxHashSet::default();
    for (_, node) in graph.nodes() {
        if let Some(ty) = node.ty() {
            crate::lint::bind(&mut known, ty);
        }
    }
    known
}

/// Returns the symbols that a part mentions, that are known outside, and that none of its inputs tells in time.
fn missing_sizes(graph: &Graph, part: &ReadyPart, known: &FxHashSet<Symbol>) -> Vec<Symbol> {
    let mut bound: FxHashSet<Symbol> = FxHashSet::default();
    let mut missing: Vec<Symbol> = Vec::new();
    let mut need = |bound: &FxHashSet<Symbol>, dim: &crate::Dim| {
        if !dim.is_known() {
            for symbol in dim.symbols() {
                if !bound.contains(&symbol) && known.contains(&symbol) && !missing.contains(&symbol) {
                    missing.push(symbol);
                }
            }
        }
    };
    let types = part.inputs.iter().filter_map(|id| graph.node(*id).ok()?.ty());
    for ty in types {
        fresh::for_each_dim(ty, &mut |dim| match dim.as_symbol() {
            Some(symbol) => drop(bound.insert(symbol.clone())),
            None => need(&bound, dim),
        });
    }
    for id in &part.nodes {
        let Ok(node) = graph.node(*id) else { continue };
        for arg in node.all_args() {
            arg.walk(&mut |arg| {
                if let Arg::Dim(dim) = arg {
                    need(&bound, dim);
                }
            });
        }
        if let Some(ty) = node.ty() {
            // A size that stands alone in the type of a node is found out here, if it is not known before.
            let mut args = Vec::new();
            for input in node.inputs() {
                args.extend(graph.node(input).ok().and_then(Node::ty).cloned());
            }
            args.extend(node.all_args().map(|arg| arg.map(&mut |_| Type::Any)));
            let new = fresh::new_symbols(ty, &args);
            fresh::for_each_dim(ty, &mut |dim| match dim.as_symbol() {
                Some(symbol) if new.contains(symbol) => drop(bound.insert(symbol.clone())),
                _ => need(&bound, dim),
            });
        }
    }
    missing
}

/// Makes an output of each node that tells a size which other parts are passed.
fn add_births(
    graph: &Graph,
    flow: &Flow,
    of: &[u32],
    number: &FxHashMap<u32, usize>,
    parts: &mut [ReadyPart],
) {
    let passed: FxHashSet<Symbol> = parts.iter().flat_map(|part| part.sizes.iter().cloned()).collect();
    let stays: FxHashSet<Symbol> = graph
        .nodes()
        .enumerate()
        .filter(|(i, _)| of[*i] == STAYS)
        .flat_map(|(_, (_, node))| written_sizes(node))
        .collect();
    let mut told: FxHashSet<Symbol> = FxHashSet::default();
    for (i, (id, node)) in graph.nodes().enumerate() {
        let Some(ty) = node.ty() else { continue };
        let mut tells = false;
        fresh::for_each_dim(ty, &mut |dim| {
            if let Some(symbol) = dim.as_symbol()
                && told.insert(symbol.clone())
            {
                tells |= passed.contains(symbol) || stays.contains(symbol);
            }
        });
        if let (true, Some(part)) = (tells, number.get(&of[i])) {
            let outputs = &mut parts[*part].outputs;
            if !outputs.contains(&id) {
                outputs.push(id);
                outputs.sort_unstable_by_key(|id| flow.position(*id));
            }
        }
    }
}

/// Returns the clusters that did not get to run.
fn stuck_parts(flow: &Flow, clusters: &[u32], members: &[Vec<u32>]) -> Vec<u32> {
    let mut stuck: Vec<u32> = (0..flow.len())
        .map(|i| clusters[i])
        .filter(|cluster| !members[*cluster as usize].is_empty())
        .collect();
    stuck.sort_unstable();
    stuck.dedup();
    stuck
}

/// Finds the clusters that need each other: the strongly connected components with more than one cluster, by
/// Tarjan's algorithm with a stack of its own.
fn components(flow: &Flow, clusters: &[u32], stuck: &[u32]) -> FxHashMap<u32, u32> {
    let local: FxHashMap<u32, usize> = stuck.iter().enumerate().map(|(i, cluster)| (*cluster, i)).collect();
    let mut next: Vec<Vec<usize>> = vec![Vec::new(); stuck.len()];
    for i in 0..flow.len() {
        let Some(from) = local.get(&clusters[i]) else { continue };
        let targets = flow.users(i).iter().filter_map(|user| local.get(&clusters[*user as usize]));
        next[*from].extend(targets.filter(|to| *to != from));
    }
    for list in &mut next {
        list.sort_unstable();
        list.dedup();
    }
    let n = stuck.len();
    let (mut index, mut low, mut on_stack) = (vec![usize::MAX; n], vec![0; n], vec![false; n]);
    let (mut stack, mut counter, mut found) = (Vec::new(), 0, FxHashMap::default());
    for root in 0..n {
        if index[root] != usize::MAX {
            continue;
        }
        let mut work = vec![(root, 0)];
        while let Some((node, edge)) = work.pop() {
            if edge == 0 {
                (index[node], low[node]) = (counter, counter);
                counter += 1;
                stack.push(node);
                on_stack[node] = true;
            }
            if let Some(target) = next[node].get(edge).copied() {
                work.push((node, edge + 1));
                if index[target] == usize::MAX {
                    work.push((target, 0));
                } else if on_stack[target] {
                    low[node] = low[node].min(index[target]);
                }
                continue;
            }
            if let Some((parent, _)) = work.last() {
                low[*parent] = low[*parent].min(low[node]);
            }
            if low[node] == index[node] {
                let at = stack.iter().rposition(|other| *other == node).unwrap_or(0);
                let members = stack.split_off(at);
                members.iter().for_each(|member| on_stack[*member] = false);
                if members.len() > 1 {
                    found.extend(members.into_iter().map(|member| (stuck[member], node as u32)));
                }
            }
        }
    }
    found
}

/// Refuses an attribute that a part needs and that is not there.
pub(super) fn require(gm: &GraphModule, path: &str) -> Result<Attribute> {
    match gm.attribute(path) {
        Ok(attribute) => Ok(attribute.clone()),
        Err(_) => bail!(Unresolved, "there is no attribute {path:?}"),
    }
}
