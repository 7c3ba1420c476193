//! Folding batch norms into the convolution or linear map before them.

use std::collections::BTreeSet;
use std::sync::Arc;

use fx_core::op::Default as Value;
use fx_core::pass::{Context, Pass, PassOption, erase_unused, fold_values, inline_module};
use fx_core::rewrite::merged_meta;
use fx_core::{Arg, Attribute, GraphModule, Module, NodeId, Op, OpCode, Result, Target, ops};

use crate::conv::{conv_transpose1d, conv_transpose2d, conv_transpose3d, conv1d, conv2d, conv3d};
use crate::linalg::linear;
use crate::nn;
use crate::norm::batch_norm;
use crate::pointwise::rsqrt;
use crate::view::reshape;

/// Folds batch norms.
pub const FOLD_BATCH_NORM: Pass = Pass {
    name: "fold_batch_norm",
    doc: "Multiplies the weights of a convolution or linear map by the factors of the batch norm after it, which goes. Only with \
          running statistics that the graph does not update, and if nobody else uses the value between. New weights are made, \
          so modules and weights that others share stay as they are; they follow their parameters.",
    options: &[PassOption {
        name: "freeze",
        default: Value::Bool(false),
        doc: "forget how weights were made, and remove the old ones that nobody else reads",
    }],
    after: &["inline", "shape_prop"],
    exact: false,
    run,
    ..Pass::BASE
};

/// What a foldable operation has besides its name: the number of axes that its result has, and whether output channels are the
/// second axis of its weight.
const FOLDABLE: &[(Op, usize, bool)] = &[
    (conv1d::OP, 3, false),
    (conv2d::OP, 4, false),
    (conv3d::OP, 5, false),
    (linear::OP, 2, false),
    (conv_transpose1d::OP, 3, true),
    (conv_transpose2d::OP, 4, true),
    (conv_transpose3d::OP, 5, true),
];

fn run(gm: &mut GraphModule, cx: &mut Context) -> Result<()> {
    let freeze = cx.flag("freeze")?;
    inline_pairs(gm, cx)?;
    let updated = updated_buffers(gm);
    for id in gm.graph().ids() {
        let Some(pair) = Pair::at(gm, id, &updated)? else { continue };
        if !cx.allow(|| format!("fold %{}", gm.graph().node(id).map_or("?", |node| node.name()))) {
            return Ok(());
        }
        pair.fold(gm, freeze)?;
    }
    Ok(())
}

/// Inlines modules of which a batch norm follows a convolution or linear map.
fn inline_pairs(gm: &mut GraphModule, cx: &mut Context) -> Result<()> {
    let mut paths: Vec<String> = Vec::new();
    let graph = gm.graph();
    for (_, node) in graph.nodes() {
        let (Target::CallModule(path), [Arg::Leaf(x)]) = (node.target(), node.args()) else { continue };
        let producer = graph.node(*x)?;
        if producer.n_users() != 1 || !is_norm(gm.child(path)?.as_module()) {
            continue;
        }
        match producer.target() {
            Target::CallModule(before) if is_foldable(gm.child(before)?.as_module()) => {
                paths.extend([before.to_string(), path.to_string()]);
            }
            Target::CallFunction(op) | Target::CallMethod(op)
                if FOLDABLE.iter().any(|(other, ..)| other == op) =>
            {
                paths.push(path.to_string());
            }
            _ => {}
        }
    }
    paths.sort_unstable();
    paths.dedup();
    for path in paths {
        if !cx.allow(|| format!("inline {path}")) {
            return Ok(());
        }
        inline_module(gm, &path)?;
    }
    Ok(())
}

/// Returns whether a module is a batch norm in evaluation, with running statistics.
fn is_norm(module: &dyn Module) -> bool {
    macro_rules! any_of {
        ($($ty:ident)*) => {
            $(module.as_any().downcast_ref::<nn::$ty>().is_some_and(|norm| {
                !norm.training && norm.running_mean.is_some() && norm.running_var.is_some()
            }))||*
        };
    }
    any_of!(BatchNorm1d BatchNorm2d)
}

fn is_foldable(module: &dyn Module) -> bool {
    let any = module.as_any();
    any.is::<nn::Conv1d>() || any.is::<nn::Conv2d>() || any.is::<nn::Conv3d>() || any.is::<nn::Linear>()
}

/// A batch norm and what it can be folded into.
struct Pair {
    norm: NodeId,
    before: NodeId,
    op: Op,
    transposed: bool,
    /// The arguments of the operation before, by schema.
    args: Vec<Arg>,
    mean: NodeId,
    var: NodeId,
    weight: Option<NodeId>,
    bias: Option<NodeId>,
    eps: f64,
}

impl Pair {
    fn at(gm: &GraphModule, norm: NodeId, updated: &BTreeSet<Arc<str>>) -> Result<Option<Pair>> {
        let graph = gm.graph();
        let node = graph.node(norm)?;
        if node.op() != Some(batch_norm::OP) {
            return Ok(None);
        }
        let bound = batch_norm::OP.canonical(node.args(), node.kwargs())?;
        let [Arg::Leaf(before), mean, var, weight, bias, Arg::Bool(false), _, Arg::Float(eps)] = &bound[..]
        else {
            return Ok(None);
        };
        let (before, eps) = (*before, *eps);
        let producer = graph.node(before)?;
        let Some((op, rank, transposed)) =
            FOLDABLE.iter().copied().find(|(op, ..)| producer.op() == Some(*op))
        else {
            return Ok(None);
        };
        // Of a smaller rank, what the norm takes for channels is another axis.
        if producer.n_users() != 1
            || producer.ty().and_then(|ty| ty.tensor()).map(|ty| ty.rank()) != Some(rank)
        {
            return Ok(None);
        }
        let args = op.canonical(producer.args(), producer.kwargs())?;
        let grouped = op.params.iter().position(|param| param.name == "groups");
        if transposed && grouped.is_some_and(|at| !matches!(args[at], Arg::Int(1))) {
            return Ok(None);
        }
        let constant = |arg: &Arg| match arg {
            Arg::Leaf(id) if is_constant(gm, *id, updated) => Some(*id),
            _ => None,
        };
        let optional = |arg: &Arg| match arg {
            Arg::None => Some(None),
            arg => constant(arg).map(Some),
        };
        let (Some(mean), Some(var), Some(weight), Some(bias), Some(_), Some(_)) = (
            constant(mean),
            constant(var),
            optional(weight),
            optional(bias),
            constant(&args[1]),
            optional(&args[2]),
        ) else {
            return Ok(None);
        };
        Ok(Some(Pair { norm, before, op, transposed, args, mean, var, weight, bias, eps }))
    }

    fn fold(self, gm: &mut GraphModule, freeze: bool) -> Result<()> {
        let leaf = |arg: &Arg| arg.leaf().copied();
        let optional = [leaf(&self.args[2]), self.weight, self.bias];
        let mut inputs: Vec<NodeId> = leaf(&self.args[1]).into_iter().chain([self.mean, self.var]).collect();
        inputs.extend(optional.iter().flatten());
        let rank = gm.graph().node(inputs[0])?.ty().and_then(|ty| ty.tensor()).map_or(0, |ty| ty.rank());
        let mut shape = vec![1i64; rank.max(1)];
        shape[usize::from(self.transposed)] = -1;
        let name = gm.graph().node(self.before)?.name().to_owned();
        let names = [&*format!("{name}_weight"), &*format!("{name}_bias")];
        let made = fold_values(gm, self.norm, &inputs, &names, freeze, |values| {
            let (w, mean, var) = (&values[0], &values[1], &values[2]);
            let mut rest = values[3..].iter();
            let [bias, weight, shift] = optional.map(|id| id.and_then(|_| rest.next()));
            let scale = rsqrt(var + self.eps);
            let scale = weight.map_or(scale.clone(), |weight| scale * weight);
            let centred = bias.map_or_else(|| -mean, |bias| bias - mean);
            let new_bias = centred * &scale;
            let new_bias = shift.map_or(new_bias.clone(), |shift| new_bias + shift);
            (w * reshape(&scale, shape.clone()), new_bias)
        })?;
        let [weight, bias] = made[..] else {
            fx_core::bail!(Graph, "the new weights of %{name} are not two tensors")
        };
        let mut args = self.args;
        (args[1], args[2]) = (weight.into(), bias.into());
        let (args, kwargs) = self.op.spell(&args);
        gm.graph_mut().transaction(|graph| {
            let mut meta = merged_meta(graph, &[self.before, self.norm], "fold_batch_norm");
            meta.ty = graph.node(self.norm)?.meta().ty.clone();
            let new = graph.inserting_before(self.norm, |graph| {
                graph.create(Target::CallFunction(self.op), args, kwargs, Some(&name))
            })??;
            *graph.meta_mut(new)? = meta;
            graph.replace_all_uses(self.norm, new)?;
            graph.erase(self.norm)?;
            graph.erase(self.before)
        })?;
        erase_unused(gm, inputs, freeze)
    }
}

/// Returns whether a node reads an attribute that the graph does not update.
fn is_constant(gm: &GraphModule, id: NodeId, updated: &BTreeSet<Arc<str>>) -> bool {
    let Ok(node) = gm.graph().node(id) else { return false };
    let Target::GetAttr(path) = node.target() else { return false };
    match gm.attribute(path) {
        Ok(Attribute::Buffer(_)) => !updated.contains(path),
        Ok(_) => true,
        Err(_) => false,
    }
}

/// Returns the paths of the buffers that the graph updates.
fn updated_buffers(gm: &GraphModule) -> BTreeSet<Arc<str>> {
    let updates = gm.graph().find_nodes(OpCode::CallFunction, Some(ops::set_buffer::OP.name));
    let path = |id: NodeId| {
        let node = gm.graph().node(id).ok()?;
        match ops::set_buffer::OP.bind(node.args(), node.kwargs()).ok()?.first() {
            Some(Arg::Str(path)) => Some(path.clone()),
            _ => None,
        }
    };
    updates.into_iter().filter_map(path).collect()
}
