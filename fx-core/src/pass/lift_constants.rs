//! Lifting constants: tensors that a program makes out of nothing become attributes, each bit pattern once.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::const_fold::free_path;
use super::{Context, Pass, PassOption};
use crate::node::{Node, NodeId, OpCode, Provenance, Target};
use crate::{Arg, Array, Attribute, Graph, GraphModule, Result, Tensor, Type, Value, op, ops};

/// Lifts constants.
pub const LIFT_CONSTANTS: Pass = Pass {
    name: "lift_constants",
    doc: "Makes constants of the tensors that operations make out of literals only, such as `ones` and `arange`: they become \
          attributes that are read, also those of sub-graphs of `cond` and `while_loop`, which get them as operands. Constants of equal dtype, \
          shape and bits become one. With `inputs`, constants become arguments of the program, behind the others.",
    options: &[
        PassOption {
            name: "max_mb",
            default: op::Default::Int(16),
            doc: "values larger than this many megabytes are made anew in each call",
        },
        PassOption {
            name: "inputs",
            default: op::Default::Bool(false),
            doc: "make every constant an argument of the program, as the signature of an exported program has them",
        },
    ],
    run: |gm, cx| {
        let max_bytes = usize::try_from(cx.int("max_mb")?.max(0)).unwrap_or(0).saturating_mul(1 << 20);
        let inputs = cx.flag("inputs")?;
        run(gm, cx, max_bytes)?;
        if inputs {
            for (name, _) in constants_as_inputs(gm)? {
                cx.note(format!("the constant {name} is an argument"));
            }
        }
        Ok(())
    },
    ..Pass::BASE
};

fn run(gm: &mut GraphModule, cx: &mut Context, max_bytes: usize) -> Result<()> {
    let (graph, _, _) = gm.split();
    graph.transaction(|graph| lift_out(graph, max_bytes, cx).map(|_| ()))?;
    let mut known = Known::default();
    for (path, attribute) in gm.attributes() {
        if let (Attribute::Constant(tensor), None) = (attribute, gm.recipe(path)) {
            known.enter(tensor, path);
        }
    }
    for id in gm.graph().ids() {
        let node = gm.graph().node(id)?;
        let (tensor, old) = match node.target() {
            Target::GetAttr(path) if gm.recipe(path).is_none() => match gm.attribute(path) {
                Ok(Attribute::Constant(tensor)) => (tensor.clone(), Some(path.clone())),
                _ => continue,
            },
            _ => match made(node, max_bytes) {
                Some(tensor) => (tensor, None),
                None => continue,
            },
        };
        let name = node.shared_name().clone();
        let first = known.find(&tensor);
        if let (Some(first), Some(old)) = (&first, &old) {
            if **first != **old && cx.allow(|| format!("read {first} instead of {old}")) {
                gm.graph_mut().set_path(id, first)?;
            }
            continue;
        }
        if !cx.allow(|| format!("lift %{name}")) {
            return Ok(());
        }
        let path = match first {
            Some(path) => path,
            None => {
                let path: Arc<str> = Arc::from(free_path(gm, "_lifted", &name));
                gm.set_attribute(&path, Attribute::Constant(tensor.clone()))?;
                known.enter(&tensor, &path);
                path
            }
        };
        let (graph, _, _) = gm.split();
        graph.transaction(|graph| {
            let mut meta = graph.node(id)?.meta().clone();
            meta.ty = Some(Arc::new(tensor.type_tree()?));
            meta.add_provenance(Provenance { pass: "lift_constants".into(), from: vec![name.clone()] });
            let new = graph.inserting_before(id, |graph| graph.get_attr(&path))??;
            *graph.meta_mut(new)? = meta;
            graph.replace_all_uses(id, new)?;
            graph.erase(id)?;
            graph.rename(new, &name).map(|_| ())
        })?;
    }
    Ok(())
}

/// Constants by their bits.
#[derive(Default)]
struct Known {
    by_hash: FxHashMap<u64, Vec<(Tensor, Arc<str>)>>,
}

impl Known {
    fn enter(&mut self, tensor: &Tensor, path: &str) {
        if let (Ok(array), None) = (tensor.array(), self.find(tensor)) {
            self.by_hash.entry(hash(array)).or_default().push((tensor.clone(), Arc::from(path)));
        }
    }

    fn find(&self, tensor: &Tensor) -> Option<Arc<str>> {
        let same = |(other, _): &&(Tensor, Arc<str>)| other.bits_eq(tensor);
        self.by_hash.get(&hash(tensor.array().ok()?))?.iter().find(same).map(|(_, path)| path.clone())
    }
}

fn hash(array: &Array) -> u64 {
    use std::hash::{Hash, Hasher};
    let mut hasher = rustc_hash::FxHasher::default();
    (array.dtype().name(), array.shape()).hash(&mut hasher);
    array.iter_scalars().for_each(|x| x.to_f64().to_bits().hash(&mut hasher));
    hasher.finish()
}

/// Returns the tensor that a node makes out of literals, if it is not too large.
fn made(node: &Node, max_bytes: usize) -> Option<Tensor> {
    let op = node.op()?;
    let is_plain = node.inputs().len() == 0 && op.effects.is_pure() && node.subgraphs().is_empty();
    let mut has_size = false;
    node.all_args().for_each(|arg| arg.walk(&mut |arg| has_size |= matches!(arg, Arg::Dim(_))));
    if !is_plain || has_size {
        return None;
    }
    let bound = op.bind(node.args(), node.kwargs()).ok()?;
    let types = bound.iter().map(|arg| arg.try_flat_map(&mut |_| Ok(Arg::Leaf(Type::Any))));
    let ty = op.infer(&types.collect::<Result<Vec<_>>>().ok()?).ok()??;
    let ty = ty.tensor()?;
    let numel = ty.shape.known()?.iter().try_fold(1usize, |n, size| n.checked_mul(*size))?;
    if numel.checked_mul(ty.dtype.size())? > max_bytes {
        return None;
    }
    let args: Vec<Value> =
        bound.iter().map(|arg| arg.try_flat_map(&mut |_| Ok(Arg::None)).ok()).collect::<Option<_>>()?;
    match crate::trace::eval(op, &args).ok()? {
        Arg::Leaf(tensor) if tensor.array().is_ok() => Some(tensor),
        _ => None,
    }
}

/// Moves constants of sub-graphs, innermost first, to the graph that runs them, as operands; returns whether
/// there were any.
fn lift_out(graph: &mut Graph, max_bytes: usize, cx: &mut Context) -> Result<bool> {
    let mut changed = graph.edit_subgraphs(&mut |inner| lift_out(inner, max_bytes, cx))?;
    for id in graph.ids() {
        let Some(op) = graph.node(id)?.op() else { continue };
        let (n_graphs, operands) = match op {
            op if op == ops::cond::OP => (1..3, 3),
            op if op == ops::while_loop::OP => (0..2, 3),
            op if op == ops::for_loop::OP => (1..2, 3),
            op if op == ops::fused::OP || op == ops::fork::OP => (0..1, 1),
            _ => continue,
        };
        let node = graph.node(id)?;
        let mut bound = op.bind(node.args(), node.kwargs())?;
        let Some(mut given) = bound[operands].items().map(<[Arg]>::to_vec) else { continue };
        let inner: Vec<Arc<Graph>> = bound[n_graphs.clone()]
            .iter()
            .filter_map(|arg| match arg {
                Arg::Graph(graph) => Some(graph.clone()),
                _ => None,
            })
            .collect();
        let mut graphs: Vec<Graph> = inner.iter().map(|graph| Graph::clone(graph)).collect();
        let mut any = false;
        for at in 0..graphs.len() {
            // A graph that is both branches is lifted from twice, into two operands.
            for inner_id in graphs[at].ids() {
                let node = graphs[at].node(inner_id)?;
                if node.n_users() == 0 || made(node, max_bytes).is_none() {
                    continue;
                }
                if !cx.allow(|| format!("lift %{} out of @{}", node.name(), inner[at].name())) {
                    break;
                }
                let (name, meta) = (node.shared_name().clone(), node.meta().clone());
                let new = graph.inserting_before(id, |graph| {
                    graph.copy_node(&graphs[at], inner_id, &mut Default::default())
                })??;
                given.push(Arg::Leaf(new));
                for (i, graph) in graphs.iter_mut().enumerate() {
                    let placeholder = add_operand(graph, &name)?;
                    graph.meta_mut(placeholder)?.ty = meta.ty.clone();
                    if i == at {
                        graph.replace_all_uses(inner_id, placeholder)?;
                        graph.erase(inner_id)?;
                    }
                }
                any = true;
            }
        }
        if any {
            for (slot, graph) in n_graphs.zip(graphs) {
                bound[slot] = Arg::Graph(Arc::new(graph));
            }
            bound[operands] = Arg::list(given);
            let (args, kwargs) = op.spell(&bound);
            graph.set_all_args(id, args.into(), kwargs.into())?;
            changed = true;
        }
    }
    Ok(changed)
}

/// Adds an operand to a sub-graph, under a name that is free.
pub(super) fn add_operand(graph: &mut Graph, hint: &str) -> Result<NodeId> {
    let is_free = |name: &str| graph.inputs().iter().all(|input| *input.name != *name);
    let names = std::iter::once(hint.to_owned()).chain((1..).map(|i| format!("{hint}_{i}")));
    let name = names.into_iter().find(|name| is_free(name)).unwrap_or_else(|| hint.to_owned());
    graph.placeholder(&name)
}

/// Makes an argument of each constant that the graph reads, behind the others; returns their names and
/// values, so that [`inputs_as_constants`] takes them back. Fails if the graph refuses an edit.
pub fn constants_as_inputs(gm: &mut GraphModule) -> Result<Vec<(String, Tensor)>> {
    let mut made: Vec<(Arc<str>, NodeId, String, Tensor)> = Vec::new();
    for id in gm.graph().find_nodes(OpCode::GetAttr, None) {
        let Some(path) = gm.graph().node(id)?.target().path().cloned() else { continue };
        let Ok(Attribute::Constant(tensor)) = gm.attribute(&path) else { continue };
        let tensor = tensor.clone();
        let (graph, _, _) = gm.split();
        let placeholder = match made.iter().find(|(other, ..)| *other == path) {
            Some((_, placeholder, ..)) => *placeholder,
            None => {
                let placeholder = add_operand(graph, &crate::names::snake_case(&path))?;
                graph.meta_mut(placeholder)?.ty = Some(Arc::new(tensor.type_tree()?));
                let name = graph.inputs().last().map_or(String::new(), |input| input.name.to_string());
                made.push((path, placeholder, name, tensor));
                placeholder
            }
        };
        graph.replace_all_uses(id, placeholder)?;
        graph.erase(id)?;
    }
    gm.delete_unused();
    Ok(made.into_iter().map(|(_, _, name, tensor)| (name, tensor)).collect())
}

/// Makes constants of arguments that are one tensor: the inverse of [`constants_as_inputs`]. Fails if there
/// is no such argument, or it is not one tensor.
pub fn inputs_as_constants(gm: &mut GraphModule, values: &[(String, Tensor)]) -> Result<()> {
    for (name, tensor) in values {
        let input = gm.graph().inputs().iter().find(|input| *input.name == **name);
        let Some(Arg::Leaf(id)) = input.map(|input| input.tree.clone()) else {
            crate::bail!(Unresolved, "there is no argument {name:?} that is one tensor")
        };
        let path = free_path(gm, "_lifted", name);
        gm.set_attribute(&path, Attribute::Constant(tensor.clone()))?;
        let (graph, _, _) = gm.split();
        graph.transaction(|graph| {
            let first = graph
                .ids()
                .into_iter()
                .find(|id| graph.node(*id).is_ok_and(|node| node.opcode() != OpCode::Placeholder));
            let at = first.unwrap_or(graph.output_node());
            let meta = graph.node(id)?.meta().clone();
            let new = graph.inserting_before(at, |graph| graph.get_attr(&path))??;
            *graph.meta_mut(new)? = meta;
            graph.replace_all_uses(id, new)?;
            graph.erase(id)
        })?;
    }
    Ok(())
}
