//! Writing operations that are compositions of others as these.

use fx_core::pass::{Context, Pass};
use fx_core::trace::apply_with;
use fx_core::{Arg, DType, Dim, GraphModule, NodeId, Op, Result, Tensor, TensorType, TypeTree, bail, err};
use rustc_hash::FxHashMap;

use super::rewritten;
use crate::ops::compose::Operand;
use crate::ops::einsum::{einsum, inner, inner_product, named_sum};
use crate::ops::normalization::normalize;
use crate::ops::norms::{cosine, cosine_similarity};
use crate::ops::pixel_shuffle::{
    channel_shuffle, gated, gathered_pixels, glu, pixel_shuffle, pixel_unshuffle, shuffled_channels,
    shuffled_pixels,
};
use crate::ops::pointwise::{abs, clamp_min, sqrt};
use crate::ops::products::{axes_of, bilinear, bilinear_form, tensor_product, tensordot};
use crate::ops::reduce::{amax, amin, linalg_vector_norm, max, min, sum};

/// Writes composed operations as their parts.
pub const DECOMPOSE: Pass = Pass {
    name: "decompose",
    doc: "Replaces `einsum`, `tensordot`, `inner`, `bilinear`, `glu`, shuffles of pixels and channels, `cosine_similarity`, `normalize`, \
          `max` and `min` of all elements, and vector norms of order 1 and 2 by the products, views and pointwise operations that they are composed of, which fuse with \
          what is around them.",
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
        if let Some((_, decomposition)) = DECOMPOSITIONS.iter().find(|(other, _)| *other == op)
            && let Ok(known) = decomposition(&op.bind(args, kwargs)?)
        {
            return Ok(known);
        }
        let tensor = |arg: &Arg<Self>| arg.try_flat_map(&mut |known| Ok(Arg::Leaf(known.tensor.clone())));
        let args = args.iter().map(tensor).collect::<Result<Vec<_>>>()?;
        let kwargs =
            kwargs.iter().map(|(name, arg)| Ok((*name, tensor(arg)?))).collect::<Result<Vec<_>>>()?;
        Known::new(apply_with(op, false, args, &kwargs))
    }
}

fn unexpected() -> fx_core::Error {
    err!(Argument, "it is composed in another way of these arguments")
}

fn leaf(arg: &Arg<Known>) -> Result<&Known> {
    arg.leaf().ok_or_else(unexpected)
}

fn number(arg: &Arg<Known>) -> Result<f64> {
    arg.scalar().map(fx_core::Scalar::to_f64).ok_or_else(unexpected)
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
    for id in gm.graph().ids() {
        let node = gm.graph().node(id)?;
        let found = node.op().and_then(|op| DECOMPOSITIONS.iter().find(|(other, _)| *other == op));
        let Some(&(op, decomposition)) = found else { continue };
        let bound = op.bind(node.args(), node.kwargs())?;
        let name = node.name().to_owned();
        let is_known = |id: &NodeId| {
            gm.graph().node(*id).is_ok_and(|node| node.ty().and_then(TypeTree::tensor).is_some())
        };
        if !bound.iter().flat_map(|arg| arg.leaves()).all(is_known) {
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
