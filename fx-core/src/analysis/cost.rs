//! [`Costs`]: arithmetic and traffic of each node, from types alone; numbers, or expressions over symbolic sizes.
//!
//! The arithmetic is what the row of the operation says ([`Flops`](crate::Flops)). Every operand counts as
//! read in full and every result as written; views cost nothing. A call of a sub-module costs what its nodes
//! cost, a `cond` its dearer branch, a `for_loop` its rounds if their number is known, and a `while_loop` one
//! round, since the number of rounds depends on data.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use rustc_hash::FxHashMap;

use super::Flow;
use super::memory::{self, Peak};
use crate::attribute::Parts;
use crate::infer::infer_all;
use crate::{
    Arg, Class, Dim, Graph, GraphModule, Module, Node, NodeId, Op, OpCode, Result, Target, Tensor, Type,
    TypeTree, bail, ops,
};

/// Numbers for symbolic sizes, by name.
pub type Sizes = BTreeMap<String, i64>;

/// What a node or a group of nodes costs; `None` where it is not known.
#[derive(Clone, Debug, PartialEq)]
pub struct Cost {
    /// Arithmetic operations; a multiply-add is two.
    pub flops: Option<Dim>,
    /// Bytes of all operands.
    pub read: Option<Dim>,
    /// Bytes of the result.
    pub written: Option<Dim>,
}

impl Cost {
    /// What costs nothing.
    pub const ZERO: Cost =
        Cost { flops: Some(Dim::new(0)), read: Some(Dim::new(0)), written: Some(Dim::new(0)) };
    const UNKNOWN: Cost = Cost { flops: None, read: None, written: None };

    /// Returns whether everything is known.
    pub fn is_known(&self) -> bool {
        self.flops.is_some() && self.read.is_some() && self.written.is_some()
    }

    /// Returns the bytes that are read and written.
    pub fn bytes(&self) -> Option<Dim> {
        Some(self.read.as_ref()? + self.written.as_ref()?)
    }

    /// The cost of `n` rounds.
    fn times(&self, n: &Dim) -> Cost {
        let times = |a: &Option<Dim>| a.as_ref().map(|a| a * n).filter(|product| product.error().is_none());
        Cost { flops: times(&self.flops), read: times(&self.read), written: times(&self.written) }
    }

    fn max(&self, other: &Cost) -> Cost {
        let max = |a: &Option<Dim>, b: &Option<Dim>| Some(a.as_ref()?.max(b.as_ref()?));
        Cost {
            flops: max(&self.flops, &other.flops),
            read: max(&self.read, &other.read),
            written: max(&self.written, &other.written),
        }
    }
}

/// An unknown cost stays unknown.
impl AddAssign<&Cost> for Cost {
    fn add_assign(&mut self, other: &Cost) {
        let add = |a: &mut Option<Dim>, b: &Option<Dim>| {
            *a = a.take().zip(b.as_ref()).map(|(a, b)| a + b).filter(|sum| sum.error().is_none());
        };
        add(&mut self.flops, &other.flops);
        add(&mut self.read, &other.read);
        add(&mut self.written, &other.written);
    }
}

/// The cost of every node of a module's graph.
#[derive(Clone, Debug)]
pub struct Costs {
    flow: Flow,
    types: Vec<TypeTree>,
    costs: Vec<Cost>,
    /// The costs of the sub-module or the sub-graphs of a node, by position.
    inner: FxHashMap<usize, Vec<Costs>>,
    pub(super) peak: Option<Peak>,
    /// The bytes of the placeholders, if known.
    pub(super) input_bytes: Option<i64>,
}

impl Costs {
    /// Computes the costs, with numbers for some of the symbolic sizes. Types that are not recorded are
    /// inferred where possible. Fails if a size is out of the range of its symbol, or a graph is not sound.
    pub fn new(gm: &GraphModule, sizes: &Sizes) -> Result<Costs> {
        check_sizes(gm.graph(), sizes)?;
        let replace = |symbol: &crate::Symbol| sizes.get(symbol.name()).map(|n| Dim::new(*n));
        let types = types_of(gm.graph(), gm.parts(), None);
        let types = match sizes.is_empty() {
            true => types,
            false => types.iter().map(|ty| crate::fresh::substitute(ty, &replace)).collect(),
        };
        Costs::of_graph(gm.graph(), gm.parts(), types)
    }

    fn of_graph(graph: &Graph, parts: Parts<'_>, types: Vec<TypeTree>) -> Result<Costs> {
        let flow = Flow::new(graph);
        let mut costs = Costs {
            costs: Vec::with_capacity(flow.len()),
            inner: FxHashMap::default(),
            peak: None,
            input_bytes: None,
            types,
            flow,
        };
        for (i, (_, node)) in graph.nodes().enumerate() {
            let cost = costs.of_node(i, node, parts);
            costs.costs.push(cost);
        }
        memory::find_peak(graph, &mut costs);
        Ok(costs)
    }

    fn arg_type(&self, arg: &Arg) -> TypeTree {
        let at = |id: &NodeId| self.flow.position(*id).and_then(|i| self.types.get(i)).cloned();
        let mapped = arg.try_flat_map(&mut |id| Ok(at(id).unwrap_or(Arg::Leaf(Type::Any))));
        mapped.unwrap_or(Arg::Leaf(Type::Any))
    }

    fn of_node(&mut self, i: usize, node: &Node, parts: Parts<'_>) -> Cost {
        match node.target() {
            Target::Placeholder | Target::Output | Target::GetAttr(_) => Cost::ZERO,
            Target::CallModule(path) => {
                let args: Vec<TypeTree> = node.args().iter().map(|arg| self.arg_type(arg)).collect();
                let Some(child) = parts.child(path) else { return Cost::UNKNOWN };
                let Some(inner) = of_module(child, &args) else { return Cost::UNKNOWN };
                let total = inner.total();
                self.inner.insert(i, vec![inner]);
                total
            }
            Target::CallFunction(op) | Target::CallMethod(op) => {
                let Ok(bound) = op.bind(node.args(), node.kwargs()) else { return Cost::UNKNOWN };
                let args: Vec<TypeTree> = bound.iter().map(|arg| self.arg_type(arg)).collect();
                if matches!(op.class, Class::Control) {
                    return self.of_control(i, node, *op, args.first());
                }
                let flops = op.flops(&args, &self.types[i]);
                if is_view(node, &args) {
                    return Cost { flops, ..Cost::ZERO };
                }
                let inputs = node.inputs().map(|id| bytes(self.flow.position(id).map(|i| &self.types[i])?));
                let read = inputs.sum::<Option<Dim>>();
                Cost { flops, read, written: bytes(&self.types[i]) }
            }
        }
    }

    /// The cost of a branch that costs more, of one round of a `while_loop`, or of all rounds of a `for_loop`
    /// whose number is known.
    fn of_control(&mut self, i: usize, node: &Node, op: Op, n: Option<&TypeTree>) -> Cost {
        let repeats = op == ops::while_loop::OP;
        let mut total: Option<Cost> = None;
        let mut all = Vec::new();
        for graph in node.subgraphs() {
            let types = types_of(graph, Parts::default(), None);
            let Ok(inner) = Costs::of_graph(graph, Parts::default(), types) else { return Cost::UNKNOWN };
            let cost = inner.total();
            total = Some(match total {
                None => cost,
                Some(mut sum) if repeats => {
                    sum += &cost;
                    sum
                }
                Some(greatest) => greatest.max(&cost),
            });
            all.push(inner);
        }
        self.inner.insert(i, all);
        let total = total.unwrap_or(Cost::ZERO);
        match n {
            Some(Arg::Int(n)) if op == ops::for_loop::OP => total.times(&Dim::new((*n).max(0))),
            Some(Arg::Dim(n)) if op == ops::for_loop::OP => total.times(&n.max(&Dim::new(0))),
            _ => total,
        }
    }

    /// Returns the cost of a node; `None` if it is not in the graph.
    pub fn of(&self, id: NodeId) -> Option<&Cost> {
        self.costs.get(self.flow.position(id)?)
    }

    /// Returns the type of a node's value with the sizes that were given; [`Type::Any`] if it is not known.
    pub fn type_of(&self, id: NodeId) -> Option<&TypeTree> {
        self.types.get(self.flow.position(id)?)
    }

    /// Returns the bytes of a node's value, if they are known.
    pub fn bytes_of(&self, id: NodeId) -> Option<Dim> {
        bytes(self.type_of(id)?)
    }

    /// Returns the costs of the nodes of the sub-module that a node calls.
    pub fn of_child(&self, id: NodeId) -> Option<&Costs> {
        self.inner.get(&self.flow.position(id)?)?.first()
    }

    /// Returns the sum over all nodes.
    pub fn total(&self) -> Cost {
        let mut total = Cost::ZERO;
        self.costs.iter().for_each(|cost| total += cost);
        total
    }

    /// Returns when most memory is taken by values; `None` if a size is not a number.
    pub fn peak(&self) -> Option<&Peak> {
        self.peak.as_ref()
    }

    pub(super) fn flow(&self) -> &Flow {
        &self.flow
    }

    pub(super) fn types(&self) -> &[TypeTree] {
        &self.types
    }

    pub(super) fn inner_at(&self, i: usize) -> &[Costs] {
        self.inner.get(&i).map_or(&[], Vec::as_slice)
    }
}

/// Refuses numbers for symbols that no type mentions, or outside of their range.
fn check_sizes(graph: &Graph, sizes: &Sizes) -> Result<()> {
    let mut known: Vec<crate::Symbol> = Vec::new();
    for ty in graph.nodes().filter_map(|(_, node)| node.ty()) {
        crate::fresh::for_each_dim(ty, &mut |dim| dim.collect_symbols(&mut known));
    }
    for (name, size) in sizes {
        let Some(symbol) = known.iter().find(|symbol| symbol.name() == name) else {
            let help = crate::names::suggest(name, known.iter().map(crate::Symbol::name));
            return Err(crate::err!(Unresolved, "no size is called {name:?}").help(help));
        };
        if *size < symbol.min().max(0) || symbol.max().is_some_and(|max| *size > max) {
            bail!(Shape, "{name} is {size}, outside of its range {}", symbol.range());
        }
    }
    Ok(())
}

/// Returns the type of every node: those recorded if all are, else what can be inferred.
fn types_of(graph: &Graph, parts: Parts<'_>, inputs: Option<&[TypeTree]>) -> Vec<TypeTree> {
    let recorded = |node: &Node| node.ty().cloned().unwrap_or(Arg::Leaf(Type::Any));
    let has_type =
        |node: &Node| node.opcode() == OpCode::Output || node.ty().is_some_and(TypeTree::is_complete);
    if inputs.is_some() || !graph.nodes().all(|(_, node)| has_type(node)) {
        let unknown = vec![Arg::Leaf(Type::Any); graph.placeholders().len()];
        if let Ok(found) = infer_all(graph, parts, inputs.unwrap_or(&unknown)) {
            let or_recorded =
                |((_, ty), (_, node)): ((NodeId, TypeTree), (NodeId, &Node))| match ty.is_complete() {
                    true => ty,
                    false => recorded(node),
                };
            return found.into_iter().zip(graph.nodes()).map(or_recorded).collect();
        }
    }
    graph.nodes().map(|(_, node)| recorded(node)).collect()
}

/// Returns the costs of a call of a module with arguments of these types.
fn of_module(child: &dyn crate::Forward, args: &[TypeTree]) -> Option<Costs> {
    if let Some(gm) = child.as_module().as_any().downcast_ref::<GraphModule>() {
        let (mut inputs, inner) = (Vec::new(), gm.graph());
        let fits = args.len() == inner.inputs().len()
            && inner.inputs().iter().zip(args).all(|(input, ty)| flatten(&input.tree, ty, &mut inputs));
        let types = types_of(inner, gm.parts(), fits.then_some(&inputs));
        return Costs::of_graph(inner, gm.parts(), types).ok();
    }
    let known = |ty: &TypeTree| ty.is_complete().then(|| ty.clone());
    let traced = crate::pass::trace_call(child, &args.iter().map(known).collect::<Vec<_>>()).ok()?;
    let types = types_of(traced.graph(), traced.parts(), None);
    Costs::of_graph(traced.graph(), traced.parts(), types).ok()
}

/// Collects the types of the placeholders in the structure of an argument; returns whether the type has it.
fn flatten(tree: &Arg, ty: &TypeTree, out: &mut Vec<TypeTree>) -> bool {
    match (tree, ty) {
        (Arg::Leaf(_), ty) => {
            out.push(ty.clone());
            true
        }
        (Arg::Tuple(a), Arg::Tuple(b)) | (Arg::List(a), Arg::List(b)) => {
            a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| flatten(a, b, out))
        }
        (Arg::Dict(a), Arg::Dict(b)) => {
            a.iter().all(|(key, a)| b.get(key).is_some_and(|b| flatten(a, b, out)))
        }
        (literal, _) => literal.leaves().is_empty(),
    }
}

/// Returns the bytes of all tensors in a type, if it is known.
pub(super) fn bytes(ty: &TypeTree) -> Option<Dim> {
    if !ty.is_complete() {
        return None;
    }
    let mut sum = Dim::new(0);
    ty.for_each_leaf(&mut |leaf| {
        if let Type::Tensor(ty) = leaf {
            sum += ty.shape.numel() * ty.dtype.size();
        }
    });
    sum.error().is_none().then_some(sum)
}

/// Returns whether a call makes no elements: a view, an item of a tuple, or a part of a tensor that no tensor
/// picks.
pub(super) fn is_view(node: &Node, args: &[TypeTree]) -> bool {
    let Some(op) = node.op() else { return false };
    let picks = || args.get(1).is_some_and(|index| !index.leaves().is_empty());
    matches!(op.class, Class::View) || op.effects.host || (op == ops::getitem::OP && !picks())
}

/// How many parameters there are, and the bytes that they take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ParameterCount {
    /// The number of elements.
    pub elements: u64,
    /// The bytes.
    pub bytes: u64,
}

impl ParameterCount {
    pub(crate) fn of(tensor: &Tensor) -> ParameterCount {
        let count = |array: &crate::Array| {
            let elements = array.numel() as u64;
            ParameterCount { elements, bytes: elements * array.dtype().size() as u64 }
        };
        tensor.array().map(count).unwrap_or_default()
    }
}

impl AddAssign for ParameterCount {
    fn add_assign(&mut self, other: Self) {
        self.elements += other.elements;
        self.bytes += other.bytes;
    }
}

/// Counts the parameters of a module and of those below, each tensor once however many paths lead to it.
pub fn count_parameters(module: &dyn Module) -> ParameterCount {
    let mut seen = rustc_hash::FxHashSet::default();
    let mut total = ParameterCount::default();
    for (_, parameter) in crate::module::collect_parameters(module) {
        if seen.insert(parameter.tensor().identity()) {
            total += ParameterCount::of(parameter);
        }
    }
    total
}
