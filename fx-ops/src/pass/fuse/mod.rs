//! Fusion: which nodes an engine computes as one kernel, and why others are not among them.
//!
//! A group has one domain of elements. Its nodes are pointwise operations on it, operations on its rows
//! (softmax, normalisations, reductions over the last axes) or reductions over other axes, whose results are
//! complete only after the kernel, or one matrix product or convolution, whose results are changed as they
//! are written. Groups grow in program order: a node joins the groups of its operands if they have its domain
//! and no value would have to leave the group and come back. Then groups that are independent are joined
//! where that pays (`horizontal`).

mod horizontal;

use std::ops::Range;

use fx_core::analysis::Flow;
use fx_core::pass::{Context, Pass, enclose};
use fx_core::{Arg, Class, Graph, GraphModule, NodeId, OpCode, Result, Shape, TensorType, TypeTree};
use rustc_hash::FxHashSet;
use smallvec::SmallVec;

use crate::fusible::{
    are_long, column_reduction, has_columns, is_anchor, is_select, map_call, row_call, select_of, spec_of,
};

/// Makes groups of nodes that are computed as one.
pub const FUSE: Pass = Pass {
    name: "fuse",
    doc: "Makes a closed sub-graph, run by `fused`, of nodes that an engine computes as one kernel: pointwise operations of one shape, \
          with softmax, normalisation and reductions of its rows or columns, or with the matrix product or convolution whose result \
          they change; and independent ones of one shape that are small or reduce the same operand.",
    after: &[
        "inline",
        "normalize",
        "shape_prop",
        "simplify",
        "recognize",
        "cse",
        "merge_linears",
        "const_fold",
        "dead_code",
    ],
    run,
    ..Pass::BASE
};

fn run(gm: &mut GraphModule, cx: &mut Context) -> Result<()> {
    let fusion = Fusion::of(gm.graph())?;
    for group in fusion.groups.iter().filter(|group| group.len() > 1) {
        let name = name_of(gm.graph(), group)?;
        if !cx.allow(|| format!("fuse {name}")) {
            return Ok(());
        }
        let Err(error) = enclose(gm, group, &name, FUSE.name) else { continue };
        cx.note(format!("{name} stays: {}", error.message()));
        // What could not be brought together are the parts; each may be a kernel.
        let parts = independent_parts(gm.graph(), group)?;
        for part in parts.iter().filter(|part| part.len() > 1 && part.len() < group.len()) {
            let name = name_of(gm.graph(), part)?;
            if let Err(error) = enclose(gm, part, &name, FUSE.name) {
                cx.note(format!("{name} stays: {}", error.message()));
            }
        }
    }
    Ok(())
}

/// Names a group after its operations.
fn name_of(graph: &Graph, group: &[NodeId]) -> Result<String> {
    const MOST: usize = 4;
    let names = group.iter().map(|id| Ok(graph.node(*id)?.op().map_or("", |op| op.name)));
    let names: Vec<&str> = names.collect::<Result<_>>()?;
    let text = names[..names.len().min(MOST)].join("_");
    Ok(if names.len() > MOST { format!("{text}_{}", names.len()) } else { text })
}

/// A fusion plan of a graph.
#[derive(Clone, Debug, Default)]
pub struct Fusion {
    /// The groups, each in program order; a node that could be in one but is alone has a group of its own.
    pub groups: Vec<Vec<NodeId>>,
    /// The edges between operations that are not in one group, and why.
    pub borders: Vec<Border>,
}

/// An edge along which nothing is fused.
#[derive(Clone, Debug)]
pub struct Border {
    /// The node that computes the value.
    pub from: NodeId,
    /// The node that uses it.
    pub to: NodeId,
    /// Why they are not one kernel.
    pub why: String,
}

/// The most nodes of a group.
const LARGEST: usize = 64;

/// The nodes that are looked at to find out whether a value leaves a group and comes back.
const SEARCH: usize = 4096;

/// What a node can be in a group.
enum Role {
    /// A pointwise operation.
    Map,
    /// An operation on rows over this many of the last axes of its operand, which has this shape.
    Rows { domain: Shape, axes: usize, reduces: bool },
    /// A reduction over axes before the last ones of its operand, which has this shape.
    Columns { domain: Shape, reduced: Range<usize> },
    /// A matrix product, convolution or gufunc, whose result later operations change.
    Anchor,
    /// None, and why.
    None(String),
}

struct Group {
    members: Vec<usize>,
    domain: Shape,
    /// How many of the last axes make a row, if there are operations on rows.
    axes: Option<usize>,
    /// Which axes are reduced, if there are reductions over others than the last ones.
    reduced: Option<Range<usize>>,
    anchored: bool,
}

struct Planner<'a> {
    graph: &'a Graph,
    flow: Flow,
    roles: Vec<Role>,
    /// The group of each position.
    group_of: Vec<Option<usize>>,
    /// Whether a member has one element for each row.
    per_row: Vec<bool>,
    /// Whether a member is complete only when its kernel is done.
    is_late: Vec<bool>,
    groups: Vec<Group>,
}

impl Fusion {
    /// Plans the fusion of a graph whose nodes have types; those without one stay alone. Fails if the graph
    /// is not sound.
    pub fn of(graph: &Graph) -> Result<Fusion> {
        let flow = Flow::new(graph);
        let n = flow.len();
        let mut planner = Planner {
            graph,
            flow,
            roles: Vec::with_capacity(n),
            group_of: vec![None; n],
            per_row: vec![false; n],
            is_late: vec![false; n],
            groups: Vec::new(),
        };
        let mut convolved = FxHashSet::default();
        for id in graph.ids() {
            let mut role = role(graph, id)?;
            if is_convolved(graph, id, &role, &convolved)? {
                convolved.insert(id);
            }
            if pools_channels(graph, id, &role, &convolved)? {
                role = Role::None("it pools the result of a convolution, whose channels lie last".to_owned());
            }
            planner.roles.push(role);
        }
        let mut borders = Vec::new();
        for at in 0..n {
            planner.place(at, &mut borders)?;
        }
        planner.join_horizontally(&convolved)?;
        let mut groups: Vec<Vec<usize>> = planner
            .groups
            .into_iter()
            .map(|group| group.members)
            .filter(|members| !members.is_empty())
            .collect();
        groups.iter_mut().for_each(|members| members.sort_unstable());
        groups.sort_unstable_by_key(|members| members[0]);
        let id = |at: &usize| planner.flow.id(*at);
        Ok(Fusion {
            groups: groups.iter().map(|members| members.iter().map(id).collect()).collect(),
            borders,
        })
    }
}

/// Returns the parts of a group between which no value goes: several if independent work became one kernel.
/// Fails if a handle is stale.
pub fn independent_parts(graph: &Graph, group: &[NodeId]) -> Result<Vec<Vec<NodeId>>> {
    // The part of each node, a number that is that of the first of them.
    let mut part_of: Vec<usize> = (0..group.len()).collect();
    for (at, id) in group.iter().enumerate() {
        for input in graph.node(*id)?.inputs() {
            let Some(from) = group[..at].iter().position(|other| *other == input) else { continue };
            let (a, b) = (part_of[from], part_of[at]);
            part_of.iter_mut().filter(|part| **part == a || **part == b).for_each(|part| *part = a.min(b));
        }
    }
    let members =
        |part: usize| (0..group.len()).filter(|&at| part_of[at] == part).map(|at| group[at]).collect();
    Ok((0..group.len()).map(members).filter(|part: &Vec<NodeId>| !part.is_empty()).collect())
}

fn tensor(graph: &Graph, arg: &Arg) -> Option<TensorType> {
    graph.node(*arg.leaf()?).ok()?.ty()?.tensor().cloned()
}

fn role(graph: &Graph, id: NodeId) -> Result<Role> {
    let none = |why: &str| Ok(Role::None(why.to_owned()));
    let node = graph.node(id)?;
    let Some(op) = node.op() else {
        return none(match node.opcode() {
            OpCode::CallModule => "a module is called",
            _ => "it is not computed",
        });
    };
    if !op.effects.is_pure() {
        return none("it has an effect");
    }
    let bound = op.bind(node.args(), node.kwargs())?;
    let Some(ty) = node.ty().and_then(TypeTree::tensor) else { return none("its type is not one tensor") };
    if is_anchor(op, &bound, |arg| tensor(graph, arg), ty) {
        return Ok(Role::Anchor);
    }
    if let Some(x) = bound.first().and_then(|arg| tensor(graph, arg))
        && let Some((call, axes)) = row_call(op, &bound, &x)
    {
        if are_long(&x, axes) {
            return none("its rows are too long for the cache");
        }
        return Ok(Role::Rows { domain: x.shape, axes, reduces: call.reduces() });
    }
    if let Some(x) = bound.first().and_then(|arg| tensor(graph, arg))
        && let Some((_, reduced)) = column_reduction(op, &bound, &x)
    {
        return match has_columns(op, &bound, &x) {
            true => Ok(Role::Columns { domain: x.shape, reduced }),
            false => none("it reduces so few columns that a kernel of its own is faster"),
        };
    }
    if let Some(args) = select_of(op, &bound) {
        return match is_select(args, |arg| tensor(graph, arg), ty) {
            true => Ok(Role::Map),
            false => none("it chooses between what kernels do not take"),
        };
    }
    if op == crate::ops::view::to::OP {
        return Ok(Role::Map);
    }
    let Class::Pointwise(def) = op.class else {
        return none(match op.class {
            Class::View => "it is a view",
            Class::Reduce => {
                "it reduces axes that are no neighbours, or is no sum, mean or extreme of floats"
            }
            Class::Control => "it runs sub-graphs",
            _ => "it has a kernel of its own",
        });
    };
    let ty = |id: NodeId| graph.node(id).ok()?.ty()?.tensor();
    match map_call(def, &bound, ty) {
        Ok(_) => Ok(Role::Map),
        Err(why) => none(why),
    }
}

/// Returns whether a value is the result of a convolution, perhaps after operations that leave its axes as
/// they lie.
fn is_convolved(graph: &Graph, id: NodeId, role: &Role, convolved: &FxHashSet<NodeId>) -> Result<bool> {
    let node = graph.node(id)?;
    let Some(op) = node.op() else { return Ok(false) };
    let rank = |id: NodeId| graph.node(id).ok()?.ty()?.tensor().map(TensorType::rank);
    Ok(match role {
        Role::Anchor => spec_of(op, &op.bind(node.args(), node.kwargs())?).is_some(),
        Role::Map => node.inputs().any(|input| convolved.contains(&input) && rank(input) == rank(id)),
        Role::None(_) if op.name.contains("pool") => node.inputs().any(|input| convolved.contains(&input)),
        _ => false,
    })
}

/// Returns whether it is the mean of each channel of the result of a convolution.
fn pools_channels(graph: &Graph, id: NodeId, role: &Role, convolved: &FxHashSet<NodeId>) -> Result<bool> {
    let node = graph.node(id)?;
    Ok(match role {
        Role::Rows { domain, axes, .. } => {
            node.op() == Some(crate::ops::reduce::mean::OP)
                && axes + 2 == domain.len()
                && node.inputs().next().is_some_and(|input| convolved.contains(&input))
        }
        Role::Columns { .. } => node.inputs().any(|input| convolved.contains(&input)),
        _ => false,
    })
}

fn same(a: &[fx_core::Dim], b: &[fx_core::Dim]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.same(b).is_yes())
}

impl Planner<'_> {
    fn shape(&self, at: usize) -> Option<&Shape> {
        Some(&self.graph.node(self.flow.id(at)).ok()?.ty()?.tensor()?.shape)
    }

    /// Returns whether the value at a position, which has one element for each row of a group, broadcasts
    /// along its rows.
    fn keeps_axes(&self, at: usize, group: &Group) -> bool {
        let (Some(shape), Some(axes)) = (self.shape(at), group.axes) else { return false };
        let kept = group.domain.len().saturating_sub(axes);
        shape.len() == group.domain.len() && same(&shape[..kept], &group.domain[..kept])
    }

    /// Says why the node at a position cannot be in the group of its operand `from`; gives whether it has one
    /// element for each row if it can.
    fn fits(&self, at: usize, from: usize, group: &Group) -> std::result::Result<bool, String> {
        if group.members.len() >= LARGEST {
            return Err(format!("the kernel has {LARGEST} operations already"));
        }
        match &self.roles[at] {
            Role::None(why) => Err(self.of(at, why).unwrap_or_default()),
            Role::Anchor => {
                Err("a product, a convolution or a gufunc reads its operands from memory".to_owned())
            }
            _ if self.is_late[from] => {
                Err("what is reduced over these axes is complete when the kernel is done".to_owned())
            }
            Role::Columns { domain, reduced } => {
                if group.anchored {
                    Err("the columns of a product are not whole in one task".to_owned())
                } else if self.per_row[from] || group.axes.is_some() || !same(domain, &group.domain) {
                    Err("its columns are not those of the kernel".to_owned())
                } else if group.reduced.as_ref().is_some_and(|other| other != reduced) {
                    Err("it reduces other axes than the kernel does".to_owned())
                } else {
                    Ok(false)
                }
            }
            Role::Rows { domain, axes, reduces } => {
                if group.anchored {
                    Err("the rows of a product are not whole in one task".to_owned())
                } else if self.per_row[from] || !same(domain, &group.domain) {
                    Err("its rows are not those of the kernel".to_owned())
                } else if group.reduced.is_some() || group.axes.is_some_and(|other| other != *axes) {
                    Err("it reduces other axes than the kernel does".to_owned())
                } else {
                    Ok(*reduces)
                }
            }
            Role::Map => {
                let Some(shape) = self.shape(at) else { return Err("its type is not known".to_owned()) };
                if self.per_row[from] {
                    let is_row = self.shape(from).is_some_and(|from| same(from, shape));
                    if is_row {
                        return Ok(true);
                    }
                    if same(shape, &group.domain) && self.keeps_axes(from, group) {
                        return Ok(false);
                    }
                } else if same(shape, &group.domain) {
                    return Ok(false);
                }
                Err("their shapes differ".to_owned())
            }
        }
    }

    /// Puts the node at a position into the groups of its operands, or one of its own.
    fn place(&mut self, at: usize, borders: &mut Vec<Border>) -> Result<()> {
        let inputs: Vec<usize> = self.flow.inputs(at).iter().map(|input| *input as usize).collect();
        let mut joined: Vec<usize> = Vec::new();
        let mut per_row = None;
        for from in inputs {
            let computed = !matches!(
                self.graph.node(self.flow.id(from))?.opcode(),
                OpCode::Placeholder | OpCode::GetAttr
            );
            let why = match self.group_of[from] {
                Some(group) if joined.contains(&group) => match self.fits(at, from, &self.groups[group]) {
                    // The value is at hand whatever its shape, but a kernel must be able to use it.
                    Err(why) => {
                        joined.retain(|other| *other != group);
                        per_row = per_row.filter(|_| !joined.is_empty());
                        Some(why)
                    }
                    Ok(_) => None,
                },
                Some(group) => match self.fits(at, from, &self.groups[group]) {
                    Ok(row) if per_row.is_some_and(|other| other != row) => {
                        Some("one operand has an element for each row, the other more".to_owned())
                    }
                    Ok(row) => {
                        let mut all = joined.clone();
                        all.push(group);
                        match self.may_join(at, &all) {
                            None => {
                                per_row = Some(row);
                                joined = all;
                                None
                            }
                            why => why,
                        }
                    }
                    Err(why) => Some(why),
                },
                None if !computed => None,
                None => match (&self.roles[from], &self.roles[at]) {
                    (Role::None(why), _) => Some(self.of(from, why)?),
                    (_, Role::None(why)) => Some(self.of(at, why)?),
                    _ => Some("the operand is in no kernel".to_owned()),
                },
            };
            if let (Some(why), true) =
                (why, computed && !matches!(self.graph.node(self.flow.id(at))?.opcode(), OpCode::Output))
            {
                borders.push(Border { from: self.flow.id(from), to: self.flow.id(at), why });
            }
        }
        let (domain, axes, reduces, anchored) = match &self.roles[at] {
            Role::None(_) => return Ok(()),
            Role::Anchor => (self.shape(at).cloned(), None, false, true),
            Role::Columns { domain, .. } => (Some(domain.clone()), None, false, false),
            Role::Rows { domain, axes, reduces } => (Some(domain.clone()), Some(*axes), *reduces, false),
            Role::Map => (self.shape(at).cloned(), None, per_row.unwrap_or(false), false),
        };
        let Some(domain) = domain else { return Ok(()) };
        let into = match joined.first() {
            Some(&first) => first,
            None => {
                self.groups.push(Group { members: Vec::new(), domain, axes: None, reduced: None, anchored });
                self.groups.len() - 1
            }
        };
        for &other in joined.iter().skip(1) {
            let (members, axes, reduced, anchored) = {
                let other = &mut self.groups[other];
                (std::mem::take(&mut other.members), other.axes, other.reduced.take(), other.anchored)
            };
            for &member in &members {
                self.group_of[member] = Some(into);
            }
            let group = &mut self.groups[into];
            group.members.extend(members);
            group.axes = group.axes.or(axes);
            group.reduced = group.reduced.take().or(reduced);
            group.anchored |= anchored;
        }
        let group = &mut self.groups[into];
        group.members.push(at);
        group.axes = group.axes.or(axes);
        self.group_of[at] = Some(into);
        self.per_row[at] = reduces;
        if let Role::Columns { reduced, .. } = &self.roles[at] {
            group.reduced = Some(reduced.clone());
            self.is_late[at] = true;
        }
        Ok(())
    }

    /// Says of a node why it is in no kernel with others.
    fn of(&self, at: usize, why: &str) -> Result<String> {
        Ok(format!("%{}: {why}", self.graph.node(self.flow.id(at))?.name()))
    }

    /// Says why groups cannot be one with the node at a position.
    fn may_join(&self, at: usize, groups: &[usize]) -> Option<String> {
        let (mut axes, mut reduced) = match &self.roles[at] {
            Role::Rows { axes, .. } => (Some(*axes), None),
            Role::Columns { reduced, .. } => (None, Some(reduced)),
            _ => (None, None),
        };
        let mut n_anchors = 0;
        let mut n_members = 1;
        for &group in groups {
            let group = &self.groups[group];
            n_anchors += usize::from(group.anchored);
            n_members += group.members.len();
            if group.axes.is_some() && axes.is_some() && group.axes != axes {
                return Some("they reduce different axes".to_owned());
            }
            axes = axes.or(group.axes);
            if group.reduced.is_some() && reduced.is_some() && group.reduced.as_ref() != reduced {
                return Some("they reduce different axes".to_owned());
            }
            reduced = reduced.or(group.reduced.as_ref());
            if !same(&group.domain, &self.groups[groups[0]].domain) {
                return Some("their shapes differ".to_owned());
            }
        }
        if n_anchors > 1 {
            return Some("a kernel computes one product".to_owned());
        }
        if reduced.is_some() && axes.is_some() {
            return Some("they reduce different axes".to_owned());
        }
        if n_anchors > 0 && (axes.is_some() || reduced.is_some()) {
            return Some("the rows of a product are not whole in one task".to_owned());
        }
        if n_members > LARGEST {
            return Some(format!("a kernel has at most {LARGEST} operations"));
        }
        self.comes_back(at, groups)
    }

    /// Says whether a value would have to leave the joined groups and come back.
    fn comes_back(&self, at: usize, groups: &[usize]) -> Option<String> {
        let is_inside =
            |position: usize| self.group_of[position].is_some_and(|group| groups.contains(&group));
        let first = groups.iter().filter_map(|group| self.groups[*group].members.iter().min()).min()?;
        let mut seen: FxHashSet<usize> = FxHashSet::default();
        let mut stack: Vec<usize> = Vec::new();
        let inputs = |position: usize| self.flow.inputs(position).iter().map(|input| *input as usize);
        let members = groups.iter().flat_map(|group| self.groups[*group].members.iter().copied());
        for position in members.chain([at]) {
            stack.extend(inputs(position).filter(|input| !is_inside(*input) && input > first));
        }
        while let Some(position) = stack.pop() {
            if !seen.insert(position) {
                continue;
            }
            if seen.len() > SEARCH {
                return Some("it is too far from its operand".to_owned());
            }
            // What another kernel computes is there only when all of that kernel is done.
            let all: SmallVec<[usize; 8]> = match self.group_of[position] {
                Some(group) => self.groups[group].members.iter().copied().collect(),
                None => SmallVec::from_slice(&[position]),
            };
            for input in all.into_iter().flat_map(inputs) {
                if is_inside(input) {
                    let name = self.graph.node(self.flow.id(position)).map_or("?", fx_core::Node::name);
                    return Some(format!("%{name} would need part of the kernel before the rest"));
                }
                if input > *first {
                    stack.push(input);
                }
            }
        }
        None
    }
}
