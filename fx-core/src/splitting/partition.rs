//! Partitioning: the largest parts of a program that an accelerator takes.
//!
//! [`OperatorSupport`] says which nodes it takes. A supported node has the *level* that is the greatest
//! number of times that a way to it from another supported node leads through an unsupported one; nodes of
//! equal level are a partition. A way that leaves a partition and comes back would raise the level, so the
//! partitions have no cycle; and nodes of different levels cannot be in one partition if the way between them
//! is the one that was counted, so there are as few partitions as there can be. All of it is one walk over
//! the edges.

use std::fmt;

use rustc_hash::FxHashMap;

use super::{Split, Splitter, plan};
use crate::analysis::Flow;
use crate::interp::NodeRef;
use crate::{Class, DType, GraphModule, NodeId, Result, Target, Type, TypeTree, ops};

/// Says which nodes an accelerator takes. A closure `Fn(&GraphModule, NodeRef) -> bool` is one; combine them with
/// [`and`](OperatorSupport::and), [`or`](OperatorSupport::or) and [`not`](OperatorSupport::not).
pub trait OperatorSupport {
    /// Returns whether a node that computes can be taken.
    fn supports(&self, gm: &GraphModule, at: NodeRef<'_>) -> bool;

    /// Takes what both take.
    fn and<S: OperatorSupport>(self, other: S) -> And<Self, S>
    where
        Self: Sized,
    {
        And(self, other)
    }

    /// Takes what either takes.
    fn or<S: OperatorSupport>(self, other: S) -> Or<Self, S>
    where
        Self: Sized,
    {
        Or(self, other)
    }

    /// Takes what this does not take.
    fn not(self) -> Not<Self>
    where
        Self: Sized,
    {
        Not(self)
    }
}

/// What both take; see [`OperatorSupport::and`].
#[derive(Clone, Debug)]
pub struct And<A, B>(A, B);
/// What either takes; see [`OperatorSupport::or`].
#[derive(Clone, Debug)]
pub struct Or<A, B>(A, B);
/// What the other does not take; see [`OperatorSupport::not`].
#[derive(Clone, Debug)]
pub struct Not<A>(A);

impl<F: Fn(&GraphModule, NodeRef<'_>) -> bool> OperatorSupport for F {
    fn supports(&self, gm: &GraphModule, at: NodeRef<'_>) -> bool {
        self(gm, at)
    }
}

impl<A: OperatorSupport, B: OperatorSupport> OperatorSupport for And<A, B> {
    fn supports(&self, gm: &GraphModule, at: NodeRef<'_>) -> bool {
        self.0.supports(gm, at) && self.1.supports(gm, at)
    }
}

impl<A: OperatorSupport, B: OperatorSupport> OperatorSupport for Or<A, B> {
    fn supports(&self, gm: &GraphModule, at: NodeRef<'_>) -> bool {
        self.0.supports(gm, at) || self.1.supports(gm, at)
    }
}

impl<A: OperatorSupport> OperatorSupport for Not<A> {
    fn supports(&self, gm: &GraphModule, at: NodeRef<'_>) -> bool {
        !self.0.supports(gm, at)
    }
}

/// Takes operations by name, and calls of modules by type: `names(["conv2d", "Linear"])`.
pub fn names<const N: usize>(names: [&str; N]) -> impl OperatorSupport + use<N> {
    let names = names.map(str::to_owned);
    move |gm: &GraphModule, at: NodeRef<'_>| match at.node.target() {
        Target::CallFunction(op) | Target::CallMethod(op) => names.iter().any(|name| name == op.name),
        Target::CallModule(path) => {
            gm.child(path).is_ok_and(|child| names.iter().any(|name| name == child.as_module().type_name()))
        }
        _ => false,
    }
}

/// Takes nodes whose tensors, operands and results alike, are of these dtypes. A tensor of unknown type is not.
pub fn dtypes<const N: usize>(dtypes: [DType; N]) -> impl OperatorSupport + use<N> {
    move |_: &GraphModule, at: NodeRef<'_>| {
        tensors(at, true).is_some_and(|found| found.iter().all(|dtype| dtypes.contains(dtype)))
    }
}

/// Declines nodes with an operand of one of these dtypes, or of unknown type.
pub fn declines_inputs<const N: usize>(dtypes: [DType; N]) -> impl OperatorSupport + use<N> {
    move |_: &GraphModule, at: NodeRef<'_>| {
        tensors(at, false).is_some_and(|found| !found.iter().any(|dtype| dtypes.contains(dtype)))
    }
}

/// Takes everything.
pub fn everything() -> impl OperatorSupport {
    |_: &GraphModule, _: NodeRef<'_>| true
}

/// Returns the dtypes of the operands, and of the result if asked; `None` if one is not known.
fn tensors(at: NodeRef<'_>, result: bool) -> Option<Vec<DType>> {
    let mut found = Vec::new();
    let mut add = |ty: Option<&TypeTree>| -> Option<()> {
        let ty = ty.filter(|ty| ty.is_complete())?;
        ty.for_each_leaf(&mut |leaf| {
            if let Type::Tensor(ty) = leaf {
                found.push(ty.dtype);
            }
        });
        Some(())
    };
    for input in at.node.inputs() {
        add(at.graph.node(input).ok()?.ty())?;
    }
    if result {
        add(at.node.ty())?;
    }
    Some(found)
}

/// How partitions are made of supported nodes.
#[derive(Clone, Debug)]
pub struct Partitioner {
    min_size: usize,
    single: Vec<String>,
    horizontal: bool,
    prefix: String,
}

impl Default for Partitioner {
    fn default() -> Self {
        Partitioner { min_size: 2, single: Vec::new(), horizontal: true, prefix: "fused".to_owned() }
    }
}

/// Nodes that become one sub-module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// In program order, with the items of tuples.
    pub nodes: Vec<NodeId>,
    /// How many of them compute elements: all but views and items of tuples.
    pub n_compute: usize,
}

/// What a partitioner proposes.
#[derive(Clone, Debug)]
pub struct Proposal {
    /// The partitions in an order in which they can run.
    pub partitions: Vec<Partition>,
    /// Supported nodes that would have been alone or too few.
    pub dropped: Vec<Partition>,
    /// How often each operation was not supported, by its name or the type of the module.
    pub unsupported: Vec<(String, usize)>,
    n_nodes: usize,
}

impl Partitioner {
    /// Drops partitions with fewer nodes that compute; views and items of tuples do not count. It is 2 by default.
    pub fn min_size(mut self, nodes: usize) -> Self {
        self.min_size = nodes;
        self
    }

    /// Keeps a partition of any size if it has an operation, or a call of a module, of one of these names.
    pub fn keep<'a>(mut self, names: impl IntoIterator<Item = &'a str>) -> Self {
        self.single = names.into_iter().map(str::to_owned).collect();
        self
    }

    /// Makes partitions of connected nodes only, which are more and smaller.
    pub fn connected(mut self) -> Self {
        self.horizontal = false;
        self
    }

    /// Sets what the paths of the sub-modules begin with: `fused` gives `fused_0`, …
    pub fn prefix(mut self, prefix: &str) -> Self {
        self.prefix = prefix.to_owned();
        self
    }

    /// Finds the partitions, without changing anything.
    pub fn propose(&self, gm: &GraphModule, support: &dyn OperatorSupport) -> Proposal {
        let (graph, flow) = (gm.graph(), plan::flow(gm));
        let n = flow.len();
        let mut supported = vec![false; n];
        let mut unsupported: FxHashMap<String, usize> = FxHashMap::default();
        let mut n_nodes = 0;
        for (i, (id, node)) in graph.nodes().enumerate() {
            if !plan::is_call(node) {
                continue;
            }
            n_nodes += 1;
            supported[i] = match plan::item_of(graph, node).and_then(|of| flow.position(of)) {
                Some(of) => supported[of],
                None => !plan::stores(node) && support.supports(gm, NodeRef { graph, id, node }),
            };
            if !supported[i] {
                *unsupported.entry(name_of(gm, id)).or_default() += 1;
            }
        }
        let mut level = levels(&flow, &supported);
        let mut group = Groups::new(n);
        for i in (0..n).filter(|i| supported[*i]) {
            for input in flow.inputs(i).iter().map(|input| *input as usize) {
                if supported[input] && level[input] == level[i] {
                    group.join(input, i);
                }
            }
        }
        raise(&flow, &supported, &mut level, &mut group);
        let mut members: FxHashMap<(i64, usize), Vec<usize>> = FxHashMap::default();
        for i in (0..n).filter(|i| supported[*i]) {
            let root = if self.horizontal { 0 } else { group.find(i) };
            members.entry((level[i], root)).or_default().push(i);
        }
        let mut all: Vec<((i64, usize), Vec<usize>)> = members.into_iter().collect();
        all.sort_unstable_by_key(|((level, _), nodes)| (*level, nodes[0]));
        let (mut partitions, mut dropped) = (Vec::new(), Vec::new());
        for (_, nodes) in all {
            let nodes: Vec<NodeId> = nodes.into_iter().map(|i| flow.id(i)).collect();
            let n_compute = nodes.iter().filter(|id| computes(gm, **id)).count();
            let is_kept = nodes.iter().any(|id| self.single.contains(&name_of(gm, *id)));
            let partition = Partition { nodes, n_compute };
            if n_compute >= self.min_size || is_kept {
                partitions.push(partition);
            } else {
                dropped.push(partition);
            }
        }
        let mut unsupported: Vec<(String, usize)> = unsupported.into_iter().collect();
        unsupported.sort_unstable_by(|a, b| (b.1, &a.0).cmp(&(a.1, &b.0)));
        Proposal { partitions, dropped, unsupported, n_nodes }
    }

    /// Makes a sub-module of each partition; [`Split::inline`] undoes it. Fails if the partitions need each
    /// other.
    pub fn fuse(&self, gm: &GraphModule, proposal: &Proposal) -> Result<Split> {
        let mut of: FxHashMap<NodeId, usize> = FxHashMap::default();
        for (i, partition) in proposal.partitions.iter().enumerate() {
            of.extend(partition.nodes.iter().map(|id| (*id, i)));
        }
        let splitter = Splitter::default().prefix(&self.prefix).provenance("partition");
        splitter.split(gm, |at| of.get(&at.id).copied())
    }

    /// Finds the partitions and makes sub-modules of them. Fails as [`Partitioner::fuse`] does.
    pub fn partition(&self, gm: &GraphModule, support: &dyn OperatorSupport) -> Result<Split> {
        self.fuse(gm, &self.propose(gm, support))
    }
}

/// Makes sub-modules of the largest parts that an accelerator takes, by the default [`Partitioner`]. Fails as
/// [`Partitioner::fuse`] does.
pub fn partition(gm: &GraphModule, support: &dyn OperatorSupport) -> Result<Split> {
    Partitioner::default().partition(gm, support)
}

fn name_of(gm: &GraphModule, id: NodeId) -> String {
    let Ok(node) = gm.graph().node(id) else { return String::new() };
    match node.target() {
        Target::CallModule(path) => match gm.child(path) {
            Ok(child) => child.as_module().type_name().to_owned(),
            Err(_) => path.to_string(),
        },
        target => target.to_string(),
    }
}

/// Returns whether a node makes elements.
fn computes(gm: &GraphModule, id: NodeId) -> bool {
    gm.graph().node(id).is_ok_and(|node| match node.op() {
        Some(op) => !matches!(op.class, Class::View) && op != ops::getitem::OP,
        None => true,
    })
}

/// Returns the level of each node: for an unsupported one the greatest among those before it, or -1.
fn levels(flow: &Flow, supported: &[bool]) -> Vec<i64> {
    let mut level = vec![-1i64; flow.len()];
    for i in 0..flow.len() {
        let inputs = flow.inputs(i).iter().map(|input| *input as usize);
        level[i] = match supported[i] {
            true => inputs.map(|input| level[input] + i64::from(!supported[input])).max().unwrap_or(0).max(0),
            false => inputs.map(|input| level[input]).max().unwrap_or(-1),
        };
    }
    level
}

/// Raises connected nodes to the level of nodes that use them, where no way to another use forbids it: what
/// is needed late only goes with what needs it.
fn raise(flow: &Flow, supported: &[bool], level: &mut [i64], group: &mut Groups) {
    let n = flow.len();
    // The greatest level that a node may have: that of its lowest user, and one less if that is behind an
    // unsupported node.
    let mut members: FxHashMap<usize, Vec<usize>> = FxHashMap::default();
    for i in (0..n).filter(|i| supported[*i]) {
        members.entry(group.find(i)).or_default().push(i);
    }
    let mut groups: Vec<Vec<usize>> = members.into_values().collect();
    groups.sort_unstable_by_key(|nodes| std::cmp::Reverse((level[nodes[0]], nodes[0])));
    // `most` of an unsupported node is the lowest level that a supported node behind it has; it is computed
    // for all with what is settled by then, which are the groups of higher levels.
    let mut behind = vec![i64::MAX; n];
    let settle = |behind: &mut [i64], level: &[i64], i: usize| {
        let users = flow.users(i).iter().map(|user| *user as usize);
        behind[i] = users
            .map(|user| if supported[user] { level[user] } else { behind[user] })
            .min()
            .unwrap_or(i64::MAX);
    };
    (0..n).rev().filter(|i| !supported[*i]).for_each(|i| settle(&mut behind, level, i));
    for nodes in groups {
        let (own, root) = (level[nodes[0]], group.find(nodes[0]));
        let (mut most, mut direct) = (i64::MAX, None);
        for i in &nodes {
            for user in flow.users(*i).iter().map(|user| *user as usize) {
                if !supported[user] {
                    most = most.min(behind[user].saturating_sub(1));
                } else if group.find(user) != root {
                    most = most.min(level[user]);
                    direct = Some(direct.map_or(level[user], |least: i64| least.min(level[user])));
                }
            }
        }
        // Only upwards, and only to where a user is.
        if let Some(to) = direct.filter(|to| *to > own && *to <= most) {
            for i in &nodes {
                level[*i] = to;
            }
            for i in nodes {
                for user in flow.users(i).iter().map(|user| *user as usize) {
                    if supported[user] && level[user] == to {
                        group.join(i, user);
                    }
                }
            }
        }
    }
}

/// Sets of nodes that are joined (union-find).
struct Groups(Vec<u32>);

impl Groups {
    fn new(n: usize) -> Groups {
        Groups((0..n as u32).collect())
    }

    fn find(&mut self, i: usize) -> usize {
        let mut root = i;
        while self.0[root] as usize != root {
            self.0[root] = self.0[self.0[root] as usize];
            root = self.0[root] as usize;
        }
        root
    }

    fn join(&mut self, a: usize, b: usize) {
        let (a, b) = (self.find(a), self.find(b));
        self.0[a.max(b)] = a.min(b) as u32;
    }
}

/// The supported nodes, the others, and why.
impl fmt::Display for Proposal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let taken: usize = self.partitions.iter().map(|partition| partition.nodes.len()).sum();
        writeln!(f, "{taken} of {} nodes in {} partitions", self.n_nodes, self.partitions.len())?;
        for (i, partition) in self.partitions.iter().enumerate() {
            writeln!(f, "  {i}: {} nodes, {} compute", partition.nodes.len(), partition.n_compute)?;
        }
        if !self.dropped.is_empty() {
            let n: usize = self.dropped.iter().map(|partition| partition.nodes.len()).sum();
            writeln!(f, "too small: {n} nodes in {} places", self.dropped.len())?;
        }
        if !self.unsupported.is_empty() {
            let list: Vec<String> =
                self.unsupported.iter().map(|(name, n)| format!("{name} x {n}")).collect();
            writeln!(f, "not supported: {}", list.join(", "))?;
        }
        Ok(())
    }
}
