//! Writing operations that are compositions of others as these.

use fx_core::op::Default as Value;
use fx_core::pass::{Context, Pass, PassOption};
use fx_core::trace::apply_with;
use fx_core::{
    Arg, DType, Dim, GraphModule, NodeId, Op, Result, Scalar, Tensor, TensorType, TypeTree, bail, err,
};
use rustc_hash::FxHashMap;

use super::rewritten;
use crate::fusible::{are_long, ints, row_call};
use crate::ops::compose::Operand;
use crate::ops::einsum::{einsum, inner, inner_product, named_sum};
use crate::ops::loss::{
    divergence, gaussian, gaussian_nll_loss, hinge, hinge_embedding_loss, kl_div, margin_ranking_loss,
    poisson, poisson_nll_loss, ranking, soft_margin, soft_margin_loss,
};
use crate::ops::margin_loss::{cosine_embedding, cosine_embedding_loss, triplet, triplet_margin_loss};
use crate::ops::normalization::normalize;
use crate::ops::norms::{
    bounded, corrcoef, correlation, cosine, cosine_similarity, cov, covariance, linalg_matrix_norm,
    matrix_norm, order, renorm,
};
use crate::ops::pixel_shuffle::{
    channel_shuffle, gated, gathered_pixels, glu, pixel_shuffle, pixel_unshuffle, shuffled_channels,
    shuffled_pixels,
};
use crate::ops::pointwise::{abs, clamp_min, sqrt};
use crate::ops::products::{
    axes_of, bilinear, bilinear_form, linalg_matrix_power, linalg_vander, power, powers, tensor_product,
    tensordot,
};
use crate::ops::reduce::{amax, amin, linalg_vector_norm, max, min, sum};

/// Writes composed operations as their parts.
pub const DECOMPOSE: Pass = Pass {
    name: "decompose",
    doc: "Replaces operations that are compositions by the products, views, reductions and pointwise operations that they are composed \
          of, which fuse with what is around them: `einsum`, `tensordot`, `inner`, `bilinear`, `glu`, shuffles of pixels and channels, \
          `cosine_similarity`, `cov`, `corrcoef`, norms of matrices, powers of matrices, most losses, `max` and `min` of all elements, and \
          `normalize` and vector norms of order 1 and 2 that are not over the last axes.",
    options: &[PassOption {
        name: "except",
        default: Value::Str(""),
        doc: "operations that stay, separated by blanks",
    }],
    after: &["inline", "normalize", "shape_prop"],
    exact: false,
    run,
    ..Pass::BASE
};

/// Computes the result of a call with these arguments in schema order.
type Decomposition = fn(&[Arg<Known>]) -> Result<Known>;

/// The operations and what they are composed of.
static DECOMPOSITIONS: &[(Op, Decomposition)] = &[
    (einsum::OP, |args| match args {
        [Arg::Str(equation), operands] => named_sum(&operands.leaves(), equation),
        _ => Err(unexpected()),
    }),
    (tensordot::OP, |args| match args {
        [x, other, dims] => tensor_product(leaf(x)?, leaf(other)?, axes_of(dims, |_| Err(unexpected()))?),
        _ => Err(unexpected()),
    }),
    (inner::OP, |args| match args {
        [x, other] => inner_product(leaf(x)?, leaf(other)?),
        _ => Err(unexpected()),
    }),
    (bilinear::OP, |args| match args {
        [x, y, weight, bias] => bilinear_form(leaf(x)?, leaf(y)?, leaf(weight)?, bias.leaf()),
        _ => Err(unexpected()),
    }),
    (max::OP, |args| of_all(args, amax::OP)),
    (min::OP, |args| of_all(args, amin::OP)),
    (glu::OP, |args| with_size(args, gated)),
    (pixel_shuffle::OP, |args| with_size(args, shuffled_pixels)),
    (pixel_unshuffle::OP, |args| with_size(args, gathered_pixels)),
    (channel_shuffle::OP, |args| with_size(args, shuffled_channels)),
    (cosine_similarity::OP, |args| match args {
        [x, other, Arg::Int(dim), eps] => cosine(leaf(x)?, leaf(other)?, Dim::new(*dim), Some(number(eps)?)),
        _ => Err(unexpected()),
    }),
    (kl_div::OP, |args| match args {
        [x, target, Arg::Str(reduction), Arg::Bool(log)] => {
            divergence(leaf(x)?, leaf(target)?, reduction, *log)
        }
        _ => Err(unexpected()),
    }),
    (soft_margin_loss::OP, |args| match args {
        [x, target, Arg::Str(reduction)] => soft_margin(leaf(x)?, leaf(target)?, reduction),
        _ => Err(unexpected()),
    }),
    (hinge_embedding_loss::OP, |args| match args {
        [x, target, margin, Arg::Str(reduction)] => {
            hinge(leaf(x)?, leaf(target)?, number(margin)?, reduction)
        }
        _ => Err(unexpected()),
    }),
    (margin_ranking_loss::OP, |args| match args {
        [x, other, target, margin, Arg::Str(reduction)] => {
            ranking(leaf(x)?, leaf(other)?, leaf(target)?, number(margin)?, reduction)
        }
        _ => Err(unexpected()),
    }),
    (poisson_nll_loss::OP, |args| match args {
        [x, target, Arg::Bool(log), Arg::Bool(full), eps, Arg::Str(reduction)] => {
            poisson(leaf(x)?, leaf(target)?, *log, *full, number(eps)?, reduction)
        }
        _ => Err(unexpected()),
    }),
    (gaussian_nll_loss::OP, |args| match args {
        [x, target, variance, Arg::Bool(full), eps, Arg::Str(reduction)] => {
            gaussian(leaf(x)?, leaf(target)?, leaf(variance)?, *full, number(eps)?, reduction)
        }
        _ => Err(unexpected()),
    }),
    (cosine_embedding_loss::OP, |args| match args {
        [x, other, target, margin, Arg::Str(reduction)] => {
            cosine_embedding(leaf(x)?, leaf(other)?, leaf(target)?, number(margin)?, reduction)
        }
        _ => Err(unexpected()),
    }),
    (triplet_margin_loss::OP, |args| match args {
        [x, positive, negative, margin, p, eps, Arg::Bool(swap), Arg::Str(reduction)] => {
            let (positive, negative) = (leaf(positive)?, leaf(negative)?);
            let [margin, p, eps] = [number(margin)?, number(p)?, number(eps)?];
            triplet(leaf(x)?, positive, negative, margin, p, eps, *swap, reduction)
        }
        _ => Err(unexpected()),
    }),
    (cov::OP, |args| match args {
        [x, Arg::Int(correction), fweights, aweights] => {
            covariance(leaf(x)?, *correction, fweights.leaf(), aweights.leaf())
        }
        _ => Err(unexpected()),
    }),
    (corrcoef::OP, |args| match args {
        [x] => correlation(leaf(x)?),
        _ => Err(unexpected()),
    }),
    (linalg_matrix_norm::OP, |args| match args {
        [x, p, dim, Arg::Bool(keepdim), dtype] => {
            let dtype = match dtype {
                Arg::None => None,
                Arg::DType(dtype) => Some(*dtype),
                _ => return Err(unexpected()),
            };
            let dim = ints(dim).ok_or_else(unexpected)?;
            matrix_norm(leaf(x)?, order(p, |_| Err(unexpected()))?, &dim, *keepdim, dtype)
        }
        _ => Err(unexpected()),
    }),
    (renorm::OP, |args| match args {
        [x, p, Arg::Int(dim), most] => bounded(leaf(x)?, scalar(p)?, *dim, scalar(most)?),
        _ => Err(unexpected()),
    }),
    (linalg_vander::OP, |args| match args {
        [x, Arg::None] => powers(leaf(x)?, None),
        [x, Arg::Int(n)] => powers(leaf(x)?, Some(Dim::new(*n))),
        _ => Err(unexpected()),
    }),
    (linalg_matrix_power::OP, |args| match args {
        [x, Arg::Int(n)] if *n != 0 => power(leaf(x)?, *n),
        _ => Err(unexpected()),
    }),
    (normalize::OP, |args| match args {
        [x, p, dim @ Arg::Int(_), eps] => {
            let x = leaf(x)?;
            let norm = vector_norm(x, number(p)?, dim, true, x.ty.dtype)?;
            x.div(&norm.apply(clamp_min::OP, &[Arg::Float(number(eps)?)])?)
        }
        _ => Err(unexpected()),
    }),
    (linalg_vector_norm::OP, |args| match args {
        [x, p, dim, Arg::Bool(keepdim), Arg::None] => {
            // As the operation, whose squares are neither too large nor too small.
            let (x, dtype) = (leaf(x)?, leaf(x)?.ty.dtype);
            vector_norm(x, number(p)?, dim, *keepdim, DType::F64)?.to_dtype(dtype)
        }
        _ => Err(unexpected()),
    }),
];

/// Returns the operations that are compositions of others.
pub fn decomposed() -> impl Iterator<Item = Op> {
    DECOMPOSITIONS.iter().map(|(op, _)| *op)
}

/// A symbol with its type.
#[derive(Clone)]
struct Known {
    tensor: Tensor,
    ty: TensorType,
}

impl Known {
    fn new(tensor: Tensor) -> Result<Known> {
        let ty = tensor.ty()?;
        Ok(Known { tensor, ty })
    }
}

impl Operand for Known {
    fn ty(&self) -> TensorType {
        self.ty.clone()
    }

    fn is_for_all_sizes() -> bool {
        true
    }

    fn run(op: Op, args: &[Arg<Self>], kwargs: &[(&str, Arg<Self>)]) -> Result<Self> {
        if let Some((_, decomposition)) = DECOMPOSITIONS.iter().find(|(other, _)| *other == op) {
            let bound = op.bind(args, kwargs)?;
            let x = bound.first().and_then(Arg::leaf).map(|known| &known.ty);
            if !is_rowwise(op, &bound, x)
                && let Ok(known) = decomposition(&bound)
            {
                return Ok(known);
            }
        }
        let tensor = |arg: &Arg<Self>| arg.try_flat_map(&mut |known| Ok(Arg::Leaf(known.tensor.clone())));
        let args = args.iter().map(tensor).collect::<Result<Vec<_>>>()?;
        let kwargs =
            kwargs.iter().map(|(name, arg)| Ok((*name, tensor(arg)?))).collect::<Result<Vec<_>>>()?;
        Known::new(apply_with(op, false, args, &kwargs))
    }
}

/// Returns whether a call is one row-wise kernel, which is better than its parts.
fn is_rowwise<L>(op: Op, bound: &[Arg<L>], x: Option<&TensorType>) -> bool {
    x.is_some_and(|x| row_call(op, bound, x).is_some_and(|(_, axes)| !are_long(x, axes)))
}

fn unexpected() -> fx_core::Error {
    err!(Argument, "it is composed in another way of these arguments")
}

fn leaf(arg: &Arg<Known>) -> Result<&Known> {
    arg.leaf().ok_or_else(unexpected)
}

fn scalar(arg: &Arg<Known>) -> Result<Scalar> {
    arg.scalar().ok_or_else(unexpected)
}

fn number(arg: &Arg<Known>) -> Result<f64> {
    scalar(arg).map(Scalar::to_f64)
}

/// Composes the greatest or least element of all from that along axes, which has a kernel.
fn of_all(args: &[Arg<Known>], along: Op) -> Result<Known> {
    match args {
        [x] => leaf(x)?.apply(along, &[Arg::None, Arg::Bool(false)]),
        _ => Err(unexpected()),
    }
}

fn with_size(args: &[Arg<Known>], compose: fn(&Known, Dim) -> Result<Known>) -> Result<Known> {
    match args {
        [x, Arg::Int(size)] => compose(leaf(x)?, Dim::new(*size)),
        [x, Arg::Dim(size)] => compose(leaf(x)?, size.clone()),
        _ => Err(unexpected()),
    }
}

/// Composes a norm of order 1 or 2 of this dtype; squares of halves would be too large for them.
fn vector_norm(x: &Known, p: f64, dim: &Arg<Known>, keepdim: bool, dtype: DType) -> Result<Known> {
    if !matches!(x.ty.dtype, DType::F32 | DType::F64) || x.ty.rank() == 0 || (p != 1.0 && p != 2.0) {
        return Err(unexpected());
    }
    let x = &x.to_dtype(dtype)?;
    let total = |x: Known| x.apply(sum::OP, &[dim.clone(), Arg::Bool(keepdim)]);
    match p {
        1.0 => total(x.apply(abs::OP, &[])?),
        _ => total(x.mul(x)?)?.apply(sqrt::OP, &[]),
    }
}

fn run(gm: &mut GraphModule, cx: &mut Context) -> Result<()> {
    let except = cx.text("except")?.to_owned();
    let stays = |op: Op| except.split_whitespace().any(|name| name == op.name);
    for id in gm.graph().ids() {
        let node = gm.graph().node(id)?;
        let found = node.op().and_then(|op| DECOMPOSITIONS.iter().find(|(other, _)| *other == op));
        let Some(&(op, decomposition)) = found.filter(|(op, _)| !stays(*op)) else { continue };
        let bound = op.bind(node.args(), node.kwargs())?;
        let name = node.name().to_owned();
        let is_known = |id: &NodeId| {
            gm.graph().node(*id).is_ok_and(|node| node.ty().and_then(TypeTree::tensor).is_some())
        };
        if !bound.iter().flat_map(|arg| arg.leaves()).all(is_known) {
            continue;
        }
        let x = bound.first().and_then(Arg::leaf).and_then(|id| gm.graph().node(*id).ok()?.ty()?.tensor());
        if is_rowwise(op, &bound, x) {
            continue;
        }
        if !cx.allow(|| format!("decompose %{name}")) {
            return Ok(());
        }
        if let Err(error) = decompose(gm, id, &bound, decomposition) {
            cx.note(format!("%{name} stays: {}", error.message()));
        }
    }
    Ok(())
}

fn decompose(gm: &mut GraphModule, id: NodeId, bound: &[Arg], decomposition: Decomposition) -> Result<()> {
    let mut inputs: Vec<NodeId> = Vec::new();
    for input in bound.iter().flat_map(|arg| arg.leaves()) {
        if !inputs.contains(input) {
            inputs.push(*input);
        }
    }
    let new = rewritten(gm, id, &inputs, DECOMPOSE.name, |values| {
        let compose = || -> Result<Tensor> {
            let known = values.iter().map(|value| Known::new(value.clone())).collect::<Result<Vec<_>>>()?;
            let places: FxHashMap<&NodeId, &Known> = inputs.iter().zip(&known).collect();
            let mut place = |id: &NodeId| Ok(Arg::Leaf(places[id].clone()));
            let args = bound.iter().map(|arg| arg.try_flat_map(&mut place)).collect::<Result<Vec<_>>>()?;
            Ok(decomposition(&args)?.tensor)
        };
        compose().unwrap_or_else(Tensor::failed)
    })?;
    let Some(last) = new.leaf().copied() else { bail!(Graph, "it gives no tensor") };
    gm.graph_mut().transaction(|graph| {
        graph.replace_all_uses(id, Arg::Leaf(last))?;
        graph.erase(id)
    })
}
