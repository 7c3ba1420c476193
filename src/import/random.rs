//! Operators that draw random numbers, by the rows that draw uniform and normal ones.

use super::alias::sizes_of;
use super::aten;
use super::build::{Attempt, Builder, Out};
use super::call::{Call, generic, leaf, named, node, with};

use crate::{Arg, DType, Dim, err};

fn number(call: &Call<'_>, name: &str, default: f64) -> Attempt<f64> {
    match call.arg(name) {
        Arg::Float(x) => Ok(x),
        Arg::Int(n) => Ok(n as f64),
        Arg::None => Ok(default),
        other => Err(err!(Load, "expected a known number as {name:?}, got {}", other.kind_name()).into()),
    }
}

pub(super) fn randint<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let args = vec![
        ("low", call.or("low", Arg::Int(0))),
        ("high", call.need("high")?),
        ("size", call.need("size")?),
        ("dtype", call.arg("dtype")),
    ];
    named(builder, "randint", args).map(Out::Node)
}

/// Normal numbers of a mean and deviation in the sizes of a tensor.
pub(super) fn normal_functional<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let noise = builder.call("randn_like", [call.first()?])?;
    let scaled = builder.call("mul", [Arg::Leaf(noise), call.or("std", Arg::Float(1.0))])?;
    builder.call("add", [Arg::Leaf(scaled), call.or("mean", Arg::Float(0.0))]).map(Out::Node)
}

/// Uniform numbers of `from` to `to` in the sizes of a tensor.
pub(super) fn uniform<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let number = |name: &str, default: f64| match call.arg(name) {
        Arg::Float(x) => Ok(x),
        Arg::Int(n) => Ok(n as f64),
        Arg::None => Ok(default),
        other => Err(err!(Load, "expected a known number as {name:?}, got {}", other.kind_name())),
    };
    let (from, to) = (number("from", 0.0)?, number("to", 1.0)?);
    let noise = builder.call("rand_like", [call.first()?])?;
    let scaled = builder.call("mul", [Arg::Leaf(noise), Arg::Float(to - from)])?;
    builder.call("add", [Arg::Leaf(scaled), Arg::Float(from)]).map(Out::Node)
}

pub(super) fn bernoulli_p<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let op = builder.row("full_like")?;
    let p = builder.emit(op, vec![call.first()?, call.or("p", Arg::Float(0.5))], &[])?;
    builder.call("bernoulli", [Arg::Leaf(p)]).map(Out::Node)
}

/// Dropout in evaluation gives its argument itself.
pub(super) fn dropout<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    if call.is_true("train") {
        if call.base != "dropout" {
            return special_dropout(builder, call);
        }
        return generic(builder, "dropout", call, &[("train", "training")]);
    }
    let alias = Call { base: "alias", overload: "", node: call.node, args: call.args.clone() };
    Ok(aten::alias(builder, &alias)?.unwrap_or(Out::Nothing))
}

pub(super) fn native_dropout<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let x = call.first()?;
    let op = builder.row("ones_like")?;
    let ones = builder.emit(op, vec![x.clone()], &[("dtype", Arg::DType(DType::Bool))])?;
    if !call.is_true("train") {
        let copy = builder.call("clone", [x])?;
        return Ok(Out::Many(vec![Out::Node(copy), Out::Node(ones)]));
    }
    let ty = builder.tensor_type(node(&x)?)?;
    let like = builder.emit(op, vec![x.clone()], &[("dtype", Arg::DType(ty.dtype))])?;
    let p = call.or("p", Arg::Float(0.5));
    let kept = builder.call("dropout", [Arg::Leaf(like), p])?;
    let mask = builder.call("gt", [Arg::Leaf(kept), Arg::Int(0)])?;
    let out = builder.call("mul", [x, Arg::Leaf(kept)])?;
    Ok(Out::Many(vec![Out::Node(out), Out::Node(mask)]))
}

/// Draws from a distribution: `exponential`, `log_normal`, `cauchy` and `geometric`, in the sizes of a tensor.
pub(super) fn drawn<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let x = call.first()?;
    if call.base == "log_normal" {
        let noise = builder.call("randn_like", [x])?;
        let scaled = builder.call("mul", [leaf(noise), Arg::Float(number(call, "std", 2.0)?)])?;
        let moved = builder.call("add", [leaf(scaled), Arg::Float(number(call, "mean", 1.0)?)])?;
        return builder.call("exp", [leaf(moved)]).map(Out::Node);
    }
    let noise = builder.call("rand_like", [x])?;
    if call.base == "cauchy" {
        let centred = builder.call("sub", [leaf(noise), Arg::Float(0.5)])?;
        let angle = builder.call("mul", [leaf(centred), Arg::Float(std::f64::consts::PI)])?;
        let slope = builder.call("tan", [leaf(angle)])?;
        let scaled = builder.call("mul", [leaf(slope), Arg::Float(number(call, "sigma", 1.0)?)])?;
        return builder.call("add", [leaf(scaled), Arg::Float(number(call, "median", 0.0)?)]).map(Out::Node);
    }
    let negative = builder.call("neg", [leaf(noise)])?;
    let log = builder.call("log1p", [leaf(negative)])?;
    let scale = match call.base {
        "geometric" => (-number(call, "p", 0.5)?).ln_1p(),
        _ => -number(call, "lambd", 1.0)?,
    };
    let drawn = builder.call("div", [leaf(log), Arg::Float(scale)])?;
    match call.base {
        // The first success is at least the first trial.
        "geometric" => {
            let trials = builder.call("ceil", [leaf(drawn)])?;
            builder.call("clamp", [leaf(trials), Arg::Float(1.0)]).map(Out::Node)
        }
        _ => Ok(Out::Node(drawn)),
    }
}

/// `normal(mean, std)`, of which one at least is a tensor, and `normal(mean, std, size)`.
pub(super) fn normal<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let (mean, std) = (call.or("mean", Arg::Float(0.0)), call.or("std", Arg::Float(1.0)));
    let noise = match (call.get("size"), &mean, &std) {
        (Some(size), ..) => {
            let kwargs = [("dtype", call.or("dtype", Arg::DType(DType::F32)))];
            with(builder, "randn", [size.clone()], &kwargs)?
        }
        (None, Arg::Leaf(_), Arg::Leaf(_)) => {
            let sum = builder.call("add", [mean.clone(), std.clone()])?;
            builder.call("randn_like", [leaf(sum)])?
        }
        (None, like @ Arg::Leaf(_), _) | (None, _, like @ Arg::Leaf(_)) => {
            builder.call("randn_like", [like.clone()])?
        }
        _ => return Err(err!(Load, "normal without sizes").into()),
    };
    let scaled = builder.call("mul", [leaf(noise), std])?;
    builder.call("add", [leaf(scaled), mean]).map(Out::Node)
}

/// `randint_like(x, low, high)`.
pub(super) fn randint_like<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let ty = builder.tensor_type(node(&call.first()?)?)?;
    let args = [call.or("low", Arg::Int(0)), call.need("high")?, sizes_of(&ty)];
    with(builder, "randint", args, &[("dtype", call.or("dtype", Arg::DType(ty.dtype)))]).map(Out::Node)
}

/// `multinomial(weights, n, replacement)`: by the distribution function, or by the greatest of perturbed
/// logarithms.
pub(super) fn multinomial<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let (x, n) = (call.first()?, call.need("num_samples")?);
    let ty = builder.tensor_type(node(&x)?)?;
    if !call.is_true("replacement") {
        let noise = builder.call("rand_like", [x.clone()])?;
        let log = builder.call("log", [leaf(noise)])?;
        let log = builder.call("neg", [leaf(log)])?;
        let waits = builder.call("div", [leaf(log), x])?;
        let first = with(builder, "topk", [leaf(waits), n, Arg::Int(-1)], &[("largest", Arg::Bool(false))])?;
        return builder.call("getitem", [leaf(first), Arg::Int(1)]).map(Out::Node);
    }
    let sums = builder.call("cumsum", [x, Arg::Int(-1)])?;
    let rank = ty.rank() as i64;
    let total = builder.call(
        "narrow",
        [
            leaf(sums),
            Arg::Int(rank - 1),
            ty.shape.last().map_or(Arg::Int(0), |size| Arg::dim(size.clone() - Dim::new(1))),
            Arg::Int(1),
        ],
    )?;
    let shape = ty.shape.iter().take(ty.rank().saturating_sub(1)).map(|dim| Arg::dim(dim.clone()));
    let shape = Arg::list(shape.chain([n]));
    let noise = with(builder, "rand", [shape], &[("dtype", Arg::DType(ty.dtype))])?;
    let marks = builder.call("mul", [leaf(noise), leaf(total)])?;
    with(builder, "searchsorted", [leaf(sums), leaf(marks)], &[("right", Arg::Bool(true))]).map(Out::Node)
}

/// `rrelu`; in training the slope of each negative element is drawn.
pub(super) fn rrelu<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let x = call.first()?;
    let (lower, upper) = (number(call, "lower", 0.125)?, number(call, "upper", 1.0 / 3.0)?);
    let slope = if call.is_true("training") {
        let noise = builder.call("rand_like", [x.clone()])?;
        let scaled = builder.call("mul", [leaf(noise), Arg::Float(upper - lower)])?;
        leaf(builder.call("add", [leaf(scaled), Arg::Float(lower)])?)
    } else {
        Arg::Float((lower + upper) / 2.0)
    };
    let positive = builder.call("gt", [x.clone(), Arg::Int(0)])?;
    let scaled = builder.call("mul", [x.clone(), slope])?;
    let out = builder.call("where", [leaf(positive), x.clone(), leaf(scaled)])?;
    if call.base != "rrelu_with_noise_functional" {
        return Ok(Out::Node(out));
    }
    let noise = builder.call("clone", [call.need("noise")?])?;
    Ok(Out::Many(vec![Out::Node(out), Out::Node(noise)]))
}

/// Dropout in training that keeps mean and variance of selfnormalising networks, or that drops whole channels.
pub(super) fn special_dropout<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    const SATURATION: f64 = 1.758_099_340_847_376_6;
    let x = call.first()?;
    let p = number(call, "p", 0.5)?;
    if p == 0.0 {
        return builder.call("clone", [x]).map(Out::Node);
    }
    if p >= 1.0 {
        return builder.call("mul", [x, Arg::Int(0)]).map(Out::Node);
    }
    let ty = builder.tensor_type(node(&x)?)?;
    let channels = call.base.starts_with("feature");
    let sizes = ty.shape.iter().enumerate().map(|(axis, dim)| match channels && axis > 1 {
        true => Arg::Int(1),
        false => Arg::dim(dim.clone()),
    });
    let chance =
        with(builder, "full", [Arg::list(sizes), Arg::Float(1.0 - p)], &[("dtype", Arg::DType(ty.dtype))])?;
    let kept = builder.call("bernoulli", [leaf(chance)])?;
    if !call.base.ends_with("alpha_dropout") {
        let scaled = builder.call("div", [leaf(kept), Arg::Float(1.0 - p)])?;
        return builder.call("mul", [x, leaf(scaled)]).map(Out::Node);
    }
    let a = 1.0 / ((SATURATION * SATURATION * p + 1.0) * (1.0 - p)).sqrt();
    let scaled = builder.call("mul", [leaf(kept), Arg::Float(a)])?;
    let out = builder.call("mul", [x, leaf(scaled)])?;
    let dropped = builder.call("sub", [leaf(kept), Arg::Float(1.0 - p)])?;
    let shift = builder.call("mul", [leaf(dropped), Arg::Float(SATURATION * a)])?;
    builder.call("add", [leaf(out), leaf(shift)]).map(Out::Node)
}
