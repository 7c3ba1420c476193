//! The difference of two programs by the values that they compute; names and order of nodes do not matter.
//!
//! Both are normalised first. Nodes are then matched by hashes. From the inputs on, nodes match if they
//! compute the same from the same arguments. From the results back, the same operation at the same place is a
//! change. The other nodes were added or removed. Every step looks at each node once.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::pass::{CANONICALIZE, NORMALIZE};
use crate::{Arg, Attribute, Graph, GraphModule, Node, NodeId, OpCode, Result, Target};

/// How two programs differ; see [`graph_diff()`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Diff {
    /// The changes, in the order of the first program; an added node stands where it is in the second.
    pub changes: Vec<Change>,
    /// How many nodes are the same.
    pub same: usize,
}

/// One difference.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// The arguments of the programs differ.
    Signature {
        /// Those of the first.
        before: String,
        /// Those of the second.
        after: String,
    },
    /// An attribute that both read has another value.
    Attribute {
        /// Its path.
        path: String,
        /// How the values differ.
        how: String,
    },
    /// A node is at the same place in both, with another operation or other arguments.
    Changed {
        /// The node in the first program.
        before: Line,
        /// The node in the second.
        after: Line,
    },
    /// Two nodes differ within their sub-graphs only.
    Inside {
        /// The node in the first program.
        node: Line,
        /// The name of the sub-graph.
        graph: String,
        /// How the sub-graphs differ.
        diff: Box<Diff>,
    },
    /// A node is in the first program only.
    Removed(Line),
    /// A node is in the second program only.
    Added(Line),
}

/// A node, as differences show it.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// Its name.
    pub name: String,
    /// Its line of text, with its type.
    pub text: String,
    /// The line of the user's program that it comes from.
    pub source: Option<String>,
}

impl Diff {
    /// Returns whether both programs compute the same.
    pub fn is_same(&self) -> bool {
        self.changes.is_empty()
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            Some(source) => write!(f, "{}  // {source}", self.text),
            None => f.write_str(&self.text),
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Change::Signature { before, after } => write!(f, "- ({before})\n+ ({after})"),
            Change::Attribute { path, how } => write!(f, "~ self.{path}: {how}"),
            Change::Changed { before, after } => write!(f, "- {before}\n+ {after}"),
            Change::Inside { node, graph, diff } => {
                write!(f, "~ {node}, in @{graph}:")?;
                diff.changes.iter().try_for_each(|change| {
                    change.to_string().lines().try_for_each(|line| write!(f, "\n    {line}"))
                })
            }
            Change::Removed(line) => write!(f, "- {line}"),
            Change::Added(line) => write!(f, "+ {line}"),
        }
    }
}

/// A line for each node that differs, and how many are the same.
impl fmt::Display for Diff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_same() {
            return write!(f, "the same: {} nodes", self.same);
        }
        for change in &self.changes {
            writeln!(f, "{change}")?;
        }
        let count = |is: fn(&Change) -> bool| self.changes.iter().filter(|change| is(change)).count();
        let changed = count(|change| matches!(change, Change::Changed { .. }));
        let removed = count(|change| matches!(change, Change::Removed(_)));
        let added = count(|change| matches!(change, Change::Added(_)));
        write!(f, "{} nodes the same, {changed} changed, {removed} removed, {added} added", self.same)
    }
}

/// Compares two programs by the values that they compute. These do not matter: names of nodes, the order of
/// independent nodes, the spelling of calls, the order of operands of commutative operations, repeated nodes
/// and unused nodes. Attributes are compared by path and value, where both programs have them. Fails if a
/// graph is not sound.
pub fn graph_diff(a: &GraphModule, b: &GraphModule) -> Result<Diff> {
    let (left, right) = (Side::of(a)?, Side::of(b)?);
    let mut diff = Diff::default();
    let (before, after) = (signature(left.gm.graph()), signature(right.gm.graph()));
    if before != after {
        diff.changes.push(Change::Signature { before, after });
    }
    let mut matches = Matches::default();
    matches.grow_from_inputs(&left, &right);
    matches.grow_from_results(&left, &right);
    matches.by_neighbours(&left, &right);
    attributes(&left, &right, &mut diff);
    matches.report(&left, &right, &mut diff)?;
    Ok(diff)
}

fn signature(graph: &Graph) -> String {
    let ty = |id: &NodeId| {
        let node = graph.node(*id).ok();
        node.and_then(|node| node.ty().map(ToString::to_string)).unwrap_or_else(|| "any".into())
    };
    let input = |input: &crate::Input| format!("{}: {}", input.name, input.tree.map(&mut |id| ty(id)));
    graph.inputs().iter().map(input).collect::<Vec<_>>().join(", ")
}

/// One of the programs, normalised.
struct Side {
    gm: GraphModule,
    /// The hash of what each node computes.
    hashes: HashMap<NodeId, u64>,
}

impl Side {
    fn of(gm: &GraphModule) -> Result<Side> {
        let mut gm = gm.clone();
        NORMALIZE.apply(&mut gm)?;
        CANONICALIZE.apply(&mut gm)?;
        let hashes =
            hashes(gm.graph(), &|path| gm.child(path).is_ok_and(|child| child.as_module().is_pure()));
        Ok(Side { gm, hashes })
    }

    fn node(&self, id: NodeId) -> Option<&Node> {
        self.gm.graph().node(id).ok()
    }
}

/// Returns a number for each node that depends on what it computes only.
fn hashes(graph: &Graph, is_pure: &dyn Fn(&str) -> bool) -> HashMap<NodeId, u64> {
    let mut hashes: HashMap<NodeId, u64> = HashMap::new();
    let mut n_inputs = 0u64;
    // Effects are different by their order.
    let mut n_effects = 0u64;
    for (id, node) in graph.nodes() {
        let mut hasher = DefaultHasher::new();
        label(node).hash(&mut hasher);
        if node.opcode() == OpCode::Placeholder {
            n_inputs += 1;
            n_inputs.hash(&mut hasher);
        }
        if has_effect(node, is_pure) {
            n_effects += 1;
            n_effects.hash(&mut hasher);
        }
        arguments(node, &|id: NodeId| hashes[&id]).hash(&mut hasher);
        hashes.insert(id, hasher.finish());
    }
    hashes
}

fn has_effect(node: &Node, is_pure: &dyn Fn(&str) -> bool) -> bool {
    match node.target() {
        Target::CallModule(path) => !is_pure(path),
        Target::CallFunction(op) | Target::CallMethod(op) => {
            let inside = |graph: &Graph| graph.nodes().any(|(_, node)| has_effect(node, is_pure));
            !op.effects.is_pure() || node.subgraphs().into_iter().any(|graph| inside(graph))
        }
        _ => false,
    }
}

/// Returns a number that depends on what a sub-graph computes, and on its effects.
fn graph_hash(graph: &Graph) -> u64 {
    let hashes = hashes(graph, &|_| true);
    let mut hasher = DefaultHasher::new();
    for (id, node) in graph.nodes() {
        if node.opcode() == OpCode::Output || has_effect(node, &|_| true) {
            hashes[&id].hash(&mut hasher);
        }
    }
    hasher.finish()
}

/// What a node is, besides its arguments.
fn label(node: &Node) -> String {
    match node.target() {
        Target::Placeholder => "placeholder".into(),
        Target::Output => "output".into(),
        Target::CallFunction(op) | Target::CallMethod(op) => format!("call {}", op.name),
        Target::GetAttr(path) => format!("attribute {path}"),
        Target::CallModule(path) => format!("module {path}"),
    }
}

/// Returns the hash of the arguments, with hashes of nodes; the order of operands that may be exchanged does
/// not matter.
fn arguments(node: &Node, of: &dyn Fn(NodeId) -> u64) -> u64 {
    let hash = |arg: &Arg| {
        let mut hasher = DefaultHasher::new();
        let without_graphs = arg.try_rewrite(&mut |arg| {
            Ok(match arg {
                Arg::Leaf(id) => Some(Arg::Leaf(*id)),
                Arg::Graph(graph) => Some(Arg::Int(graph_hash(graph) as i64)),
                _ => None,
            })
        });
        let arg: Arg = without_graphs.unwrap_or_else(Arg::Failed);
        arg.hash_by(&mut hasher, &mut |id, hasher| of(*id).hash(hasher));
        hasher.finish()
    };
    let mut hashes: Vec<u64> = node.args().iter().map(hash).collect();
    let bound = node.op().and_then(|op| Some((op, op.bind(node.args(), node.kwargs()).ok()?)));
    if bound.is_some_and(|(op, bound)| op.can_swap(&bound)) && hashes.len() >= 2 {
        hashes[..2].sort_unstable();
    }
    let mut hasher = DefaultHasher::new();
    hashes.hash(&mut hasher);
    for (key, arg) in node.kwargs() {
        (key, hash(arg)).hash(&mut hasher);
    }
    hasher.finish()
}

/// Which node of one program is which of the other.
#[derive(Default)]
struct Matches {
    right_of: HashMap<NodeId, NodeId>,
    left_of: HashMap<NodeId, NodeId>,
}

impl Matches {
    fn pair(&mut self, a: NodeId, b: NodeId) {
        self.right_of.insert(a, b);
        self.left_of.insert(b, a);
    }

    fn is_free(&self, a: NodeId, b: NodeId) -> bool {
        !self.right_of.contains_key(&a) && !self.left_of.contains_key(&b)
    }

    /// Matches nodes that compute the same from the same arguments.
    fn grow_from_inputs(&mut self, left: &Side, right: &Side) {
        let mut by_hash: HashMap<u64, Vec<NodeId>> = HashMap::new();
        for (id, _) in right.gm.graph().nodes() {
            by_hash.entry(right.hashes[&id]).or_default().push(id);
        }
        by_hash.values_mut().for_each(|ids| ids.reverse());
        for (id, _) in left.gm.graph().nodes() {
            if let Some(other) = by_hash.get_mut(&left.hashes[&id]).and_then(Vec::pop) {
                self.pair(id, other);
            }
        }
        let (a, b) = (left.gm.graph().output_node(), right.gm.graph().output_node());
        if self.is_free(a, b) {
            self.pair(a, b);
        }
    }

    /// Matches operands of matched nodes that are the same kind of node, from the results back.
    fn grow_from_results(&mut self, left: &Side, right: &Side) {
        for (id, node) in left.gm.graph().nodes().collect::<Vec<_>>().into_iter().rev() {
            let Some(other) = self.right_of.get(&id).and_then(|other| right.node(*other)) else { continue };
            let (a, b): (Vec<NodeId>, Vec<NodeId>) = (node.inputs().collect(), other.inputs().collect());
            let same = |a: NodeId, b: NodeId| {
                left.node(a).zip(right.node(b)).is_some_and(|(a, b)| label(a) == label(b))
            };
            for (i, x) in a.iter().enumerate() {
                // The operand at the same place first, then any.
                let candidates = b.get(i).into_iter().chain(&b);
                let found = candidates.copied().find(|y| self.is_free(*x, *y) && same(*x, *y));
                if let Some(y) = found {
                    self.pair(*x, y);
                }
            }
        }
    }

    /// Matches what is left if all its operands or its only user are matched: the operation itself changed.
    fn by_neighbours(&mut self, left: &Side, right: &Side) {
        for (id, node) in left.gm.graph().nodes() {
            if self.right_of.contains_key(&id)
                || matches!(node.opcode(), OpCode::Placeholder | OpCode::GetAttr)
            {
                continue;
            }
            let Some(first) = node.inputs().find_map(|input| self.right_of.get(&input).copied()) else {
                continue;
            };
            let users = right.gm.graph().users(first).unwrap_or_default();
            let is_candidate = |user: &NodeId| {
                self.is_free(id, *user)
                    && right.node(*user).is_some_and(|other| {
                        other.opcode() != OpCode::Output && other.inputs().len() == node.inputs().len()
                    })
            };
            if let Some(other) = users.into_iter().take(64).find(is_candidate) {
                self.pair(id, other);
            }
        }
    }

    /// Lists what differs: matched nodes of another kind or with operands that are not matched, and nodes
    /// without match.
    fn report(&self, left: &Side, right: &Side, diff_of: &mut Diff) -> Result<()> {
        let mut added: BTreeMap<usize, Vec<Change>> = BTreeMap::new();
        let position: HashMap<NodeId, usize> =
            left.gm.graph().nodes().enumerate().map(|(i, (id, _))| (id, i)).collect();
        let mut at = 0;
        for (id, _) in right.gm.graph().nodes() {
            match self.left_of.get(&id) {
                Some(other) => at = position[other],
                None => added.entry(at).or_default().push(Change::Added(line(right, id)?)),
            }
        }
        for (i, (id, node)) in left.gm.graph().nodes().enumerate() {
            match self.right_of.get(&id) {
                None => diff_of.changes.push(Change::Removed(line(left, id)?)),
                Some(other) if left.hashes[&id] == right.hashes[other] => diff_of.same += 1,
                Some(other) => {
                    let found = right.gm.graph().node(*other)?;
                    // By names of the first program, where operands are matched.
                    let unmatched = u64::MAX;
                    let of_left = |id: NodeId| left.hashes.get(&id).copied().unwrap_or(unmatched);
                    let of_right = |id: NodeId| match self.left_of.get(&id) {
                        Some(id) => left.hashes[id],
                        None => right.hashes.get(&id).copied().unwrap_or(unmatched),
                    };
                    let same = label(node) == label(found)
                        && arguments(node, &of_left) == arguments(found, &of_right);
                    let (a, b) = (node.subgraphs(), found.subgraphs());
                    let is_inside = label(node) == label(found)
                        && a.len() == b.len()
                        && a.iter().zip(&b).any(|(a, b)| graph_hash(a) != graph_hash(b));
                    if is_inside && !same {
                        for (a, b) in a.into_iter().zip(b).filter(|(a, b)| graph_hash(a) != graph_hash(b)) {
                            let of = |graph: &Graph| GraphModule::new(graph.name(), graph.clone());
                            let (node, graph) = (line(left, id)?, a.name().to_owned());
                            let diff = Box::new(graph_diff(&of(a), &of(b))?);
                            diff_of.changes.push(Change::Inside { node, graph, diff });
                        }
                        diff_of.changes.extend(added.remove(&i).into_iter().flatten());
                        continue;
                    }
                    match same || node.opcode() == OpCode::Placeholder {
                        true => diff_of.same += 1,
                        false => diff_of
                            .changes
                            .push(Change::Changed { before: line(left, id)?, after: line(right, *other)? }),
                    }
                }
            }
            diff_of.changes.extend(added.remove(&i).into_iter().flatten());
        }
        Ok(())
    }
}

fn line(side: &Side, id: NodeId) -> Result<Line> {
    let node = side.gm.graph().node(id)?;
    let source = node.meta().source.as_ref().map(ToString::to_string);
    Ok(Line { name: node.name().to_owned(), text: side.gm.graph().format_node(id)?, source })
}

/// Compares the values of the attributes that both programs have.
fn attributes(left: &Side, right: &Side, diff: &mut Diff) {
    let others: BTreeMap<&str, &Attribute> = right.gm.attributes().collect();
    for (path, attribute) in left.gm.attributes() {
        let Some(other) = others.get(path) else { continue };
        if let (Attribute::State(a), Attribute::State(b)) = (attribute, other) {
            let (a, b) = (a.load(), b.load());
            if !a.eq_by(&b, &|a, b| a.bits_eq(b)) {
                let how = format!("{a} became {b}");
                diff.changes.push(Change::Attribute { path: path.to_owned(), how });
            }
            continue;
        }
        let (a, b) = (attribute.tensor(), other.tensor());
        let (Ok(x), Ok(y)) = (a.array(), b.array()) else { continue };
        if x.dtype() != y.dtype() || x.shape() != y.shape() {
            let how = format!("{} became {}", x.describe(), y.describe());
            diff.changes.push(Change::Attribute { path: path.to_owned(), how });
        } else if !x.bits_eq(y) {
            let how = match y.all_close(x, 0.0, 0.0) {
                Err(mismatch) => mismatch.to_string(),
                Ok(()) => "bits differ that compare as equal".into(),
            };
            diff.changes.push(Change::Attribute { path: path.to_owned(), how });
        }
    }
}
