//! Normalisations: their statistics, what they save for a backward pass, and weights by direction and length.

use super::build::{Attempt, Builder, Out, input_name};
use super::call::{Call, generic, named, node, without, write};
use crate::{Arg, DType, NodeId, err};

/// `g * v / norm(v)`, the norm over all axes but one.
pub(super) fn weight_norm<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let (v, g) = (call.need("v")?, call.need("g")?);
    let norm = norm_but(builder, v.clone(), &call.or("dim", Arg::Int(0)), Arg::Float(2.0))?;
    let ratio = builder.call("div", [g, Arg::Leaf(norm)])?;
    let out = builder.call("mul", [v, Arg::Leaf(ratio)])?;
    Ok(match call.base {
        "_weight_norm_interface" => Out::Many(vec![Out::Node(out), Out::Node(norm)]),
        _ => Out::Node(out),
    })
}

pub(super) fn norm_except_dim<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let p = call.or("pow", Arg::Int(2));
    norm_but(builder, call.need("v")?, &call.or("dim", Arg::Int(0)), p).map(Out::Node)
}

fn norm_but<'a>(builder: &mut Builder<'a>, v: Arg, dim: &Arg, p: Arg) -> Attempt<NodeId> {
    let rank = builder.tensor_type(node(&v)?)?.rank() as i64;
    let keep = match dim {
        Arg::Int(-1) => None,
        Arg::Int(dim) => Some(dim.rem_euclid(rank.max(1))),
        _ => return Err(err!(Load, "expected a known axis").into()),
    };
    let axes: Vec<Arg> = (0..rank).filter(|axis| Some(*axis) != keep).map(Arg::Int).collect();
    let all = keep.is_none();
    let dim = if all { Arg::None } else { Arg::list(axes) };
    named(
        builder,
        "linalg_vector_norm",
        vec![("x", v), ("ord", p), ("dim", dim), ("keepdim", Arg::Bool(!all))],
    )
}

/// The running statistics after a batch: `(mean, var)` of it, the unbiased variance taken.
fn update_statistics<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Option<[NodeId; 2]>> {
    let (Arg::Leaf(_), Arg::Leaf(_)) = (call.arg("running_mean"), call.arg("running_var")) else {
        return Ok(None);
    };
    let x = call.first()?;
    let rank = builder.tensor_type(node(&x)?)?.rank() as i64;
    let axes = Arg::ints((0..rank).filter(|axis| *axis != 1));
    updated_statistics(builder, call, |builder, row| {
        let op = builder.row(row)?;
        builder.emit(op, vec![x.clone()], &[("dim", axes.clone())])
    })
    .map(Some)
}

/// Mixes what a batch gives, as mean and variance, into the running statistics of a call.
fn updated_statistics<'a>(
    builder: &mut Builder<'a>,
    call: &Call<'a>,
    batch: impl Fn(&mut Builder<'a>, &str) -> Attempt<NodeId>,
) -> Attempt<[NodeId; 2]> {
    let momentum = match call.or("momentum", Arg::Float(0.1)) {
        Arg::Float(x) => x,
        Arg::Int(n) => n as f64,
        _ => return Err(err!(Load, "expected a known momentum").into()),
    };
    let mut updated = |name: &str, row: &str| {
        let batch = batch(builder, row)?;
        let old = call.arg(name);
        let kept = builder.call("mul", [old.clone(), Arg::Float(1.0 - momentum)])?;
        let new = builder.call("mul", [Arg::Leaf(batch), Arg::Float(momentum)])?;
        let sum = builder.call("add", [Arg::Leaf(kept), Arg::Leaf(new)])?;
        let like = builder.tensor_type(node(&old)?)?;
        builder.conform(sum, &like)
    };
    Ok([updated("running_mean", "mean")?, updated("running_var", "var")?])
}

/// Writes the updated statistics to the tensors that the call names.
fn write_statistics<'a>(builder: &mut Builder<'a>, call: &Call<'a>, updated: [NodeId; 2]) -> Attempt<()> {
    for (name, new) in ["running_mean", "running_var"].into_iter().zip(updated) {
        let position = call.args.iter().position(|(other, _)| *other == name);
        let position = position.ok_or_else(|| err!(Load, "{name} is missing"))?;
        let view = builder.view_named(call.tensor_name(position)?)?;
        write(builder, &view, new)?;
    }
    Ok(())
}

pub(super) fn batch_norm<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let out = generic(builder, "batch_norm", call, &[])?;
    if call.is_true("training")
        && let Some(updated) = update_statistics(builder, call)?
    {
        write_statistics(builder, call, updated)?;
    }
    Ok(out)
}

/// The forms of batch norm that also give what a backward pass needs: mean and inverse deviation of the batch.
pub(super) fn native_batch_norm<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let training = match call.base {
        "_native_batch_norm_legit_no_training" | "_batch_norm_no_update" => false,
        "_batch_norm_with_update" | "_batch_norm_with_update_functional" => true,
        _ => call.is_true("training"),
    };
    let x = call.first()?;
    let mut args = without(call, &["training"]);
    if !args.iter().any(|(name, _)| *name == "running_mean") {
        args.extend([("running_mean", Arg::None), ("running_var", Arg::None)]);
    }
    args.push(("training", Arg::Bool(training)));
    let op = builder.row("batch_norm")?;
    let names = ["running_mean", "running_var", "weight", "bias", "training", "momentum", "eps"];
    let kwargs: Vec<(&str, Arg)> = names
        .iter()
        .filter_map(|name| args.iter().find(|(other, _)| other == name).map(|(_, arg)| (*name, arg.clone())))
        .collect();
    let out = builder.emit(op, vec![x.clone()], &kwargs)?;
    let (mean, inverse) = if training {
        let rank = builder.tensor_type(node(&x)?)?.rank() as i64;
        let axes = Arg::ints((0..rank).filter(|axis| *axis != 1));
        statistics(builder, x, axes, false, &call.or("eps", Arg::Float(1e-5)))?
    } else {
        let empty = builder.call("empty", [Arg::ints([0])])?;
        (empty, empty)
    };
    let mut outs = saved(builder, call, out, [mean, inverse])?;
    if call.base.starts_with("_batch_norm") {
        let reserve =
            named(builder, "empty", vec![("size", Arg::ints([0])), ("dtype", Arg::DType(DType::U8))])?;
        outs.push(Out::Node(reserve));
    }
    if training && let Some(updated) = update_statistics(builder, call)? {
        if call.base.ends_with("_functional") {
            outs.extend(updated.map(Out::Node));
        } else {
            write_statistics(builder, call, updated)?;
        }
    }
    Ok(Out::Many(outs))
}

/// Mean and inverse deviation over axes.
fn statistics<'a>(
    builder: &mut Builder<'a>,
    x: Arg,
    axes: Arg,
    keepdim: bool,
    eps: &Arg,
) -> Attempt<(NodeId, NodeId)> {
    let op = builder.row("mean")?;
    let keep = ("keepdim", Arg::Bool(keepdim));
    let mean = builder.emit(op, vec![x.clone()], &[("dim", axes.clone()), keep.clone()])?;
    let op = builder.row("var")?;
    let var = builder.emit(op, vec![x], &[("dim", axes), ("correction", Arg::Int(0)), keep])?;
    let shifted = builder.call("add", [Arg::Leaf(var), eps.clone()])?;
    let inverse = builder.call("rsqrt", [Arg::Leaf(shifted)])?;
    Ok((mean, inverse))
}

/// A result and what is saved beside it for a backward pass, in the dtypes that the archive gives, if it does.
fn saved<'a, const N: usize>(
    builder: &mut Builder<'a>,
    call: &Call<'a>,
    out: NodeId,
    statistics: [NodeId; N],
) -> Attempt<Vec<Out>> {
    let mut outs = vec![Out::Node(out)];
    for (i, mut node) in statistics.into_iter().enumerate() {
        let output = call.node.outputs.get(i + 1).and_then(input_name);
        if let Some(declared) = output.map(|name| builder.declared(name)).transpose()?.flatten()
            && declared.dtype != builder.tensor_type(node)?.dtype
        {
            node = builder.call("to", [Arg::Leaf(node), Arg::DType(declared.dtype)])?;
        }
        outs.push(Out::Node(node));
    }
    Ok(outs)
}

pub(super) fn native_layer_norm<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let x = call.first()?;
    let out = named(builder, "layer_norm", without(call, &[]))?;
    let n = call.need("normalized_shape")?.items().map_or(1, <[Arg]>::len) as i64;
    let axes = Arg::ints(-n..0);
    let (mean, inverse) = statistics(builder, x, axes, true, &call.or("eps", Arg::Float(1e-5)))?;
    saved(builder, call, out, [mean, inverse]).map(Out::Many)
}

pub(super) fn fused_rms_norm<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let x = call.first()?;
    let out = named(builder, "rms_norm", without(call, &[]))?;
    let n = call.need("normalized_shape")?.items().map_or(1, <[Arg]>::len) as i64;
    let square = builder.call("mul", [x.clone(), x.clone()])?;
    let op = builder.row("mean")?;
    let mean = builder.emit(
        op,
        vec![Arg::Leaf(square)],
        &[("dim", Arg::ints(-n..0)), ("keepdim", Arg::Bool(true))],
    )?;
    let eps = match call.arg("eps") {
        Arg::None => match builder.tensor_type(node(&x)?)?.dtype {
            DType::F64 => Arg::Float(f64::EPSILON),
            // Halves are normalised in f32.
            DType::F32 | DType::F16 | DType::BF16 => Arg::Float(f64::from(f32::EPSILON)),
            dtype => return Err(err!(DType, "expected floats to normalise, got {dtype}").into()),
        },
        eps => eps,
    };
    let shifted = builder.call("add", [Arg::Leaf(mean), eps])?;
    let inverse = builder.call("rsqrt", [Arg::Leaf(shifted)])?;
    saved(builder, call, out, [inverse]).map(Out::Many)
}

/// `(input, weight, bias, N, C, HxW, group, eps)`.
pub(super) fn native_group_norm<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let x = call.first()?;
    let group = call.need("group")?;
    let args = vec![
        ("x", x.clone()),
        ("num_groups", group.clone()),
        ("weight", call.arg("weight")),
        ("bias", call.arg("bias")),
        ("eps", call.or("eps", Arg::Float(1e-5))),
    ];
    let out = named(builder, "group_norm", args)?;
    let sizes = Arg::list([call.need("N")?, group, Arg::Int(-1)]);
    let grouped = builder.call("reshape", [x, sizes])?;
    let (mean, inverse) =
        statistics(builder, Arg::Leaf(grouped), Arg::ints([2]), false, &call.or("eps", Arg::Float(1e-5)))?;
    saved(builder, call, out, [mean, inverse]).map(Out::Many)
}

/// Instance norm; with running statistics and `use_input_stats` they are updated by the mean over all instances.
pub(super) fn instance_norm<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let updates = call.is_true("use_input_stats") && matches!(call.arg("running_mean"), Arg::Leaf(_));
    if !updates {
        return generic(builder, "instance_norm", call, &[]);
    }
    let plain = Call { args: without(call, &["running_mean", "running_var"]), ..*call };
    let out = generic(builder, "instance_norm", &plain, &[])?;
    let x = call.first()?;
    let rank = builder.tensor_type(node(&x)?)?.rank() as i64;
    let axes = Arg::ints(2..rank);
    let updated = updated_statistics(builder, call, |builder, row| {
        let op = builder.row(row)?;
        let each = builder.emit(op, vec![x.clone()], &[("dim", axes.clone())])?;
        let op = builder.row("mean")?;
        builder.emit(op, vec![Arg::Leaf(each)], &[("dim", Arg::ints([0]))])
    })?;
    write_statistics(builder, call, updated)?;
    Ok(out)
}
