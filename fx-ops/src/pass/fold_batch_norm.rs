//! Folding batch norms into the convolution or linear map before them.

use std::collections::BTreeSet;
use std::ops::Mul;
use std::sync::Arc;

use fx_core::op::Default as Value;
use fx_core::pass::{Context, Pass, PassOption, erase_unused, fold_values, inline_module, updated_buffers};
use fx_core::rewrite::merged_meta;
use fx_core::{
    Arg, Array, Attribute, DType, Element, GraphModule, Module, NodeId, Op, Result, Scalar, Target, Tensor,
    TypeTree, ops,
};

use crate::nn;
use crate::ops::conv::{conv_transpose1d, conv_transpose2d, conv_transpose3d, conv1d, conv2d, conv3d};
use crate::ops::linalg::linear;
use crate::ops::normalization::batch_norm;
use crate::ops::pointwise::rsqrt;
use crate::ops::view::reshape;

/// Folds batch norms.
pub const FOLD_BATCH_NORM: Pass = Pass {
    name: "fold_batch_norm",
    doc: "Multiplies the weights of a convolution or linear map by the factors of the batch norm after it, which goes. Only with \
          running statistics that the graph does not update, and if nobody else uses the value between. New weights are made, \
          so modules and weights that others share stay as they are; they follow their parameters.",
    options: &[
        PassOption {
            name: "freeze",
            default: Value::Bool(false),
            doc: "forget how weights were made, and remove the old ones that nobody else reads",
        },
        PassOption {
            name: "rest",
            default: Value::Bool(false),
            doc: "make a product and a sum of each batch norm that can be folded into nothing, which others fuse with what follows",
        },
    ],
    after: &["inline", "shape_prop"],
    exact: false,
    run,
    ..Pass::BASE
};

/// What a foldable operation has besides its name: the number of axes that its result has, and whether output
/// channels are the second axis of its weight.
const FOLDABLE: &[(Op, usize, bool)] = &[
    (conv1d::OP, 3, false),
    (conv2d::OP, 4, false),
    (conv3d::OP, 5, false),
    (linear::OP, 2, false),
    (conv_transpose1d::OP, 3, true),
    (conv_transpose2d::OP, 4, true),
    (conv_transpose3d::OP, 5, true),
];

/// The greatest factor or shift that is folded.
const MODERATE: f64 = 1e12;

/// How many elements of a weight a task multiplies.
const AT_ONCE: usize = 1 << 15;

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
    if !cx.flag("rest")? {
        return Ok(());
    }
    for id in gm.graph().ids() {
        let Some(norm) = Norm::at(gm, id, &updated)? else { continue };
        let Some(rank) = norm.plain_rank(gm)? else { continue };
        if !cx.allow(|| format!("unfold %{}", gm.graph().node(id).map_or("?", |node| node.name()))) {
            return Ok(());
        }
        norm.unfold(gm, rank, freeze)?;
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

/// A batch norm in evaluation, of statistics and weights that are constants.
struct Norm {
    id: NodeId,
    x: NodeId,
    mean: NodeId,
    var: NodeId,
    weight: Option<NodeId>,
    bias: Option<NodeId>,
    eps: f64,
}

impl Norm {
    fn at(gm: &GraphModule, id: NodeId, updated: &BTreeSet<Arc<str>>) -> Result<Option<Norm>> {
        let node = gm.graph().node(id)?;
        if node.op() != Some(batch_norm::OP) {
            return Ok(None);
        }
        let bound = batch_norm::OP.canonical(node.args(), node.kwargs())?;
        let [Arg::Leaf(x), mean, var, weight, bias, Arg::Bool(false), _, Arg::Float(eps)] = &bound[..] else {
            return Ok(None);
        };
        let (Some(mean), Some(var), Some(weight), Some(bias)) = (
            constant(gm, mean, updated),
            constant(gm, var, updated),
            optional(gm, weight, updated),
            optional(gm, bias, updated),
        ) else {
            return Ok(None);
        };
        Ok(Some(Norm { id, x: *x, mean, var, weight, bias, eps: *eps }))
    }

    /// Returns the nodes of statistics and weights.
    fn inputs(&self) -> impl Iterator<Item = NodeId> {
        [self.mean, self.var].into_iter().chain(self.weight).chain(self.bias)
    }

    /// Returns whether no factor or shift is so large that a finite result would become infinite in another
    /// order of operations.
    fn is_moderate(&self, gm: &GraphModule) -> Result<bool> {
        for id in self.inputs() {
            let Target::GetAttr(path) = gm.graph().node(id)?.target() else { return Ok(false) };
            let values = gm.attr(path)?;
            let (is_var, square) = (id == self.var, MODERATE * MODERATE);
            let is_moderate = |x: Scalar| match x.to_f64() {
                var if is_var => var + self.eps >= 1.0 / square && var <= square,
                x => x.abs() <= MODERATE,
            };
            if !values.array()?.iter_scalars().all(is_moderate) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns the rank of what is normalised, if it has channels, and statistics and weights have its dtype,
    /// in which it is then computed.
    fn plain_rank(&self, gm: &GraphModule) -> Result<Option<usize>> {
        let graph = gm.graph();
        let ty = |id: NodeId| Ok::<_, fx_core::Error>(graph.node(id)?.ty().and_then(|ty| ty.tensor()));
        let Some(of_x) = ty(self.x)? else { return Ok(None) };
        for id in self.inputs() {
            if ty(id)?.map(|ty| ty.dtype) != Some(of_x.dtype) {
                return Ok(None);
            }
        }
        let is_plain = of_x.rank() >= 2 && matches!(of_x.dtype, DType::F32 | DType::F64);
        Ok(is_plain.then(|| of_x.rank()))
    }

    /// Makes a product and a sum of it.
    fn unfold(self, gm: &mut GraphModule, rank: usize, freeze: bool) -> Result<()> {
        let name = gm.graph().node(self.id)?.name().to_owned();
        let names = [&*format!("{name}_scale"), &*format!("{name}_shift")];
        let inputs: Vec<NodeId> = self.inputs().collect();
        let shape: Vec<i64> = [-1].into_iter().chain(std::iter::repeat_n(1, rank - 2)).collect();
        let made = fold_values(gm, self.id, &inputs, &names, freeze, |values| {
            let (scale, shift) = factors(values, [self.weight, self.bias], self.eps, None);
            (reshape(&scale, shape.clone()), reshape(&shift, shape))
        })?;
        let [scale, shift] = made[..] else {
            fx_core::bail!(Graph, "the factors of %{name} are not two tensors")
        };
        gm.graph_mut().transaction(|graph| {
            let mut meta = merged_meta(graph, &[self.id], "fold_batch_norm");
            meta.ty = graph.node(self.id)?.meta().ty.clone();
            let sum = graph.inserting_before(self.id, |graph| -> Result<NodeId> {
                let call = |op, args: [NodeId; 2]| (Target::CallFunction(op), args.map(Arg::Leaf).to_vec());
                let (target, args) = call(ops::mul::OP, [self.x, scale]);
                let product = graph.create(target, args, Vec::new(), Some(&format!("{name}_scaled")))?;
                *graph.meta_mut(product)? = meta.clone();
                let (target, args) = call(ops::add::OP, [product, shift]);
                graph.create(target, args, Vec::new(), Some(&name))
            })??;
            *graph.meta_mut(sum)? = meta;
            graph.replace_all_uses(self.id, sum)?;
            graph.erase(self.id)
        })?;
        erase_unused(gm, inputs, freeze)
    }
}

/// Returns by what a norm multiplies each channel and what it adds then, of its statistics and those of its
/// weights that are there; `bias` was added before.
fn factors(
    values: &[Tensor],
    weights: [Option<NodeId>; 2],
    eps: f64,
    bias: Option<&Tensor>,
) -> (Tensor, Tensor) {
    let (mean, var) = (&values[0], &values[1]);
    let mut rest = values[2..].iter();
    let [weight, shift] = weights.map(|id| id.and_then(|_| rest.next()));
    let scale = rsqrt(var + eps);
    let scale = weight.map_or(scale.clone(), |weight| scale * weight);
    let centred = bias.map_or_else(|| -mean, |bias| bias - mean);
    let shifted = centred * &scale;
    (scale, shift.map_or(shifted.clone(), |shift| shifted + shift))
}

/// A batch norm and what it can be folded into.
struct Pair {
    norm: Norm,
    op: Op,
    transposed: bool,
    /// The arguments of the operation before, by schema.
    args: Vec<Arg>,
}

impl Pair {
    fn at(gm: &GraphModule, norm: NodeId, updated: &BTreeSet<Arc<str>>) -> Result<Option<Pair>> {
        let graph = gm.graph();
        let Some(norm) = Norm::at(gm, norm, updated)? else { return Ok(None) };
        let producer = graph.node(norm.x)?;
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
        let is_fixed = constant(gm, &args[1], updated).is_some() && optional(gm, &args[2], updated).is_some();
        // In halves the map rounds its result before it is normalised.
        let dtype = producer.ty().and_then(|ty| ty.tensor()).map(|ty| ty.dtype);
        let is_wide = matches!(dtype, Some(DType::F32 | DType::F64));
        let is_fixed = is_fixed && is_wide && norm.is_moderate(gm)?;
        Ok(is_fixed.then_some(Pair { norm, op, transposed, args }))
    }

    fn fold(self, gm: &mut GraphModule, freeze: bool) -> Result<()> {
        let Norm { id, x: before, weight, bias, eps, .. } = self.norm;
        let [w, old_bias] = [1, 2].map(|i| self.args[i].leaf().copied());
        let mut inputs: Vec<NodeId> = self.norm.inputs().collect();
        let of_norm = inputs.len();
        inputs.extend(w.into_iter().chain(old_bias));
        let rank = match w {
            Some(w) => gm.graph().node(w)?.ty().and_then(|ty| ty.tensor()).map_or(0, |ty| ty.rank()),
            None => 0,
        };
        let mut shape = vec![1i64; rank.max(1)];
        shape[usize::from(self.transposed)] = -1;
        let name = gm.graph().node(before)?.name().to_owned();
        let names = [&*format!("{name}_weight"), &*format!("{name}_bias")];
        let alone = if freeze { self.weight_alone(gm)? } else { None };
        let made = fold_values(gm, id, &inputs, &names, freeze, |values| {
            let (of_norm, of_map) = values.split_at(of_norm);
            let (scale, shift) = factors(of_norm, [weight, bias], eps, of_map.get(1));
            let scale = reshape(&scale, shape.clone());
            (if alone.is_some() { scale } else { &of_map[0] * scale }, shift)
        })?;
        let [weight, bias] = made[..] else {
            fx_core::bail!(Graph, "the new weights of %{name} are not two tensors")
        };
        let mut args = self.args;
        (args[1], args[2]) = (weight.into(), bias.into());
        let (args, kwargs) = self.op.spell(&args);
        gm.graph_mut().transaction(|graph| {
            let mut meta = merged_meta(graph, &[before, id], "fold_batch_norm");
            meta.ty = graph.node(id)?.meta().ty.clone();
            let new = graph.inserting_before(id, |graph| {
                graph.create(Target::CallFunction(self.op), args, kwargs, Some(&name))
            })??;
            *graph.meta_mut(new)? = meta;
            graph.replace_all_uses(id, new)?;
            graph.erase(id)?;
            graph.erase(before)
        })?;
        erase_unused(gm, inputs, freeze)?;
        alone.map_or(Ok(()), |alone| multiply_alone(gm, weight, alone, self.transposed))
    }

    /// Returns the weight, with its type, if it is to be multiplied once it has left the module: in its own
    /// memory if nobody else has it, so that there are never two large ones. Its dtype is that of the norm's
    /// statistics, in which products are computed.
    fn weight_alone(&self, gm: &GraphModule) -> Result<Option<(Tensor, Arc<TypeTree>)>> {
        let Some(w) = self.args[1].leaf() else { return Ok(None) };
        let graph = gm.graph();
        let (Target::GetAttr(path), Some(ty)) = (graph.node(*w)?.target(), graph.node(*w)?.meta().ty.clone())
        else {
            return Ok(None);
        };
        let dtype = |id: NodeId| Some(graph.node(id).ok()?.ty()?.tensor()?.dtype);
        let of_weight = dtype(*w).filter(|dtype| matches!(dtype, DType::F32 | DType::F64));
        let is_plain = of_weight.is_some() && self.norm.inputs().all(|id| dtype(id) == of_weight);
        Ok(if is_plain { Some((gm.attr(path)?, ty)) } else { None })
    }
}

/// Sets the constant that a node reads, so far the factors of its channels, to a weight (see
/// [`Pair::weight_alone`]) times these.
fn multiply_alone(
    gm: &mut GraphModule,
    node: NodeId,
    (weight, ty): (Tensor, Arc<TypeTree>),
    transposed: bool,
) -> Result<()> {
    let Target::GetAttr(path) = gm.graph().node(node)?.target().clone() else {
        fx_core::bail!(Graph, "%{} does not read its new weight", gm.graph().node(node)?.name())
    };
    let scale = gm.attr(&path)?;
    let new = Tensor::from(scaled(weight.into_array()?, scale.array()?, transposed)?);
    gm.graph_mut().meta_mut(node)?.ty = Some(ty);
    gm.set_attribute(&path, Attribute::Constant(new))
}

/// Multiplies the channels of a weight, its first axis or its second if it is `transposed`, by as many factors.
fn scaled(weight: Array, scale: &Array, transposed: bool) -> Result<Array> {
    match weight.dtype() {
        DType::F64 => scaled_in::<f64>(weight, scale, transposed),
        DType::F32 => scaled_in::<f32>(weight, scale, transposed),
        dtype => Err(fx_core::err!(DType, "expected a weight of f32 or f64, got {dtype}")),
    }
}

fn scaled_in<T: Element + Mul<Output = T>>(weight: Array, scale: &Array, transposed: bool) -> Result<Array> {
    let (shape, scale) = (weight.shape().to_vec(), scale.to_vec::<T>()?);
    let width = shape[1 + usize::from(transposed)..].iter().product();
    let mut data = weight.into_vec::<T>()?;
    fx_simd::parallel::chunks(&mut data, width, (AT_ONCE / width.max(1)).max(1), |i, row| {
        let factor = scale[i % scale.len()];
        row.iter_mut().for_each(|x| *x = *x * factor);
    });
    Array::from_vec(data, &shape)
}

/// Returns the node that an argument is, if it reads an attribute that the graph does not update.
fn constant(gm: &GraphModule, arg: &Arg, updated: &BTreeSet<Arc<str>>) -> Option<NodeId> {
    arg.leaf().copied().filter(|id| is_constant(gm, *id, updated))
}

/// As [`constant`], of an argument that may be absent.
fn optional(gm: &GraphModule, arg: &Arg, updated: &BTreeSet<Arc<str>>) -> Option<Option<NodeId>> {
    match arg {
        Arg::None => Some(None),
        arg => constant(gm, arg, updated).map(Some),
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
