//! The operators that PyTorch calls for whole layers of a transformer when no gradients are wanted.

use super::build::{Attempt, Builder, Out};
use super::call::{Call, leaf, node};
use crate::{Arg, DType, NodeId, err};

/// The weights of attention, and how it is computed.
struct Attention {
    heads: i64,
    qkv: [Arg; 2],
    out: [Arg; 2],
    mask: Arg,
    /// Whose axes the mask has: 0 queries and keys, 1 batch and keys, else all.
    mask_kind: i64,
}

impl Attention {
    fn read(call: &Call<'_>, heads: &str) -> Attempt<Attention> {
        let Arg::Int(heads) = call.need(heads)? else {
            return Err(err!(Load, "expected a known number of heads").into());
        };
        let mask_kind = match call.arg("mask_type") {
            Arg::Int(kind) => kind,
            _ => 2,
        };
        Ok(Attention {
            heads,
            qkv: [call.need("qkv_weight")?, call.need("qkv_bias")?],
            out: [call.need("proj_weight")?, call.need("proj_bias")?],
            mask: call.arg("mask"),
            mask_kind,
        })
    }

    /// Returns the projection of an operand by a third of the weights, by heads: `[b, heads, n, d]`.
    fn projected(&self, builder: &mut Builder<'_>, x: &Arg, part: i64, width: i64) -> Attempt<Arg> {
        let [weight, bias] = &self.qkv;
        let third = |builder: &mut Builder<'_>, x: &Arg| {
            builder.call("narrow", [x.clone(), Arg::Int(0), Arg::Int(part * width), Arg::Int(width)])
        };
        let (weight, bias) = (third(builder, weight)?, third(builder, bias)?);
        let y = builder.call("linear", [x.clone(), leaf(weight), leaf(bias)])?;
        let head = Arg::ints([self.heads, width / self.heads.max(1)]);
        let y = builder.call("unflatten", [leaf(y), Arg::Int(-1), head])?;
        Ok(leaf(builder.call("transpose", [leaf(y), Arg::Int(1), Arg::Int(2)])?))
    }

    /// Returns the result for queries, keys and values `[b, n, width]`, and the weights of each head.
    fn run(&self, builder: &mut Builder<'_>, [q, k, v]: [&Arg; 3]) -> Attempt<(NodeId, NodeId)> {
        let ty = builder.tensor_type(node(q)?)?;
        let Some(width) = ty.shape.get(2).and_then(crate::Dim::known) else {
            return Err(err!(Load, "expected queries [b, n, width] of a known width, got {ty}").into());
        };
        let q = self.projected(builder, q, 0, width)?;
        let (k, v) = (self.projected(builder, k, 1, width)?, self.projected(builder, v, 2, width)?);
        let scale = 1.0 / ((width / self.heads.max(1)) as f64).sqrt();
        let q = builder.call("mul", [q, Arg::Float(scale)])?;
        let k = builder.call("transpose", [k, Arg::Int(-2), Arg::Int(-1)])?;
        let mut scores = builder.call("matmul", [leaf(q), leaf(k)])?;
        if let Arg::Leaf(mask) = self.mask {
            // What is not zero is left out.
            let mut mask = mask;
            if builder.tensor_type(mask)?.dtype != DType::Bool {
                mask = builder.call("to", [leaf(mask), Arg::DType(DType::Bool)])?;
            }
            if self.mask_kind == 1 {
                for _ in 0..2 {
                    mask = builder.call("unsqueeze", [leaf(mask), Arg::Int(1)])?;
                }
            }
            let least = Arg::Float(f64::NEG_INFINITY);
            scores = builder.call("masked_fill", [leaf(scores), leaf(mask), least])?;
        }
        let weights = builder.call("softmax", [leaf(scores), Arg::Int(-1)])?;
        let mixed = builder.call("matmul", [leaf(weights), v])?;
        let mixed = builder.call("transpose", [leaf(mixed), Arg::Int(1), Arg::Int(2)])?;
        let mixed = builder.call("flatten", [leaf(mixed), Arg::Int(2), Arg::Int(3)])?;
        let [weight, bias] = self.out.clone();
        Ok((builder.call("linear", [leaf(mixed), weight, bias])?, weights))
    }
}

/// Attention of several heads, and its weights.
pub(super) fn attention<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let attention = Attention::read(call, "num_head")?;
    let operands = [call.need("query")?, call.need("key")?, call.need("value")?];
    let (result, weights) = attention.run(builder, operands.each_ref())?;
    let weights = match (call.or("need_weights", Arg::Bool(true)), call.get("average_attn_weights")) {
        (Arg::Bool(false), _) => builder.call("zeros", [Arg::ints([0])])?,
        (_, Some(Arg::Bool(false))) => weights,
        _ => builder.call("mean", [leaf(weights), Arg::ints([1])])?,
    };
    Ok(Out::Many(vec![Out::Node(result), Out::Node(weights)]))
}

/// A layer of an encoder: attention, then two linear layers, each with a sum and a normalisation.
pub(super) fn encoder_layer<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let attention = Attention::read(call, "num_heads")?;
    let x = call.need("src")?;
    let width = builder.tensor_type(node(&x)?)?.shape.last().cloned();
    let Some(width) = width.and_then(|width| width.known()) else {
        return Err(err!(Load, "expected operands of a known width").into());
    };
    let eps = call.need("eps")?;
    let norm = |builder: &mut Builder<'a>, x: Arg, which: usize| -> Attempt<Arg> {
        let [weight, bias] = ["weight", "bias"].map(|part| call.need(&format!("norm_{part}_{which}")));
        let args = [x, Arg::ints([width]), weight?, bias?, eps.clone()];
        Ok(leaf(builder.call("layer_norm", args)?))
    };
    let linear = |builder: &mut Builder<'a>, x: Arg, which: usize| -> Attempt<Arg> {
        let [weight, bias] = ["weight", "bias"].map(|part| call.need(&format!("ffn_{part}_{which}")));
        Ok(leaf(builder.call("linear", [x, weight?, bias?])?))
    };
    let is_first = call.is_true("norm_first");
    let activation = if call.is_true("use_gelu") { "gelu" } else { "relu" };
    let given = if is_first { norm(builder, x.clone(), 1)? } else { x.clone() };
    let (mixed, _) = attention.run(builder, [&given, &given, &given])?;
    let mut x = leaf(builder.call("add", [x, leaf(mixed)])?);
    if !is_first {
        x = norm(builder, x, 1)?;
    }
    let given = if is_first { norm(builder, x.clone(), 2)? } else { x.clone() };
    let hidden = linear(builder, given, 1)?;
    let hidden = leaf(builder.call(activation, [hidden])?);
    let hidden = linear(builder, hidden, 2)?;
    let mut x = leaf(builder.call("add", [x, hidden])?);
    if !is_first {
        x = norm(builder, x, 2)?;
    }
    Ok(Out::Node(node(&x)?))
}
