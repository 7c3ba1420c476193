//! PyTorch's operators that are written with several rows, or whose arguments a row takes in another form.

use super::build::{Attempt, Builder, Out, input_name};
use super::call::{Call, generic, ints, named, node, without};
use super::unrolled_rnn;
use crate::{Arg, DType, Dim, NodeId, err};

pub(super) fn full<'a>(builder: &mut Builder<'a>, value: Arg, dtype: DType) -> Attempt<NodeId> {
    let op = builder.row("full")?;
    builder.emit(op, vec![Arg::list([]), value], &[("dtype", Arg::DType(dtype))])
}

/// `full`, `full_like` and `new_full`; the number may be computed.
pub(super) fn full_of<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let Arg::Leaf(value) = call.need("fill_value")? else { return generic(builder, call.base, call, &[]) };
    let like = call.first()?.leaf().map(|like| builder.tensor_type(*like)).transpose()?;
    let size = match (&like, call.get("size")) {
        (_, Some(size)) => size.clone(),
        (Some(like), None) => super::alias::sizes_of(like),
        (None, None) => return Err(err!(Load, "{} without sizes", call.base).into()),
    };
    let from = builder.tensor_type(value)?.dtype;
    let dtype = match (call.get("dtype"), like) {
        (Some(Arg::DType(dtype)), _) => *dtype,
        (_, Some(like)) => like.dtype,
        _ if from.is_float() => DType::F32,
        _ => from,
    };
    let cast = builder.call("to", [Arg::Leaf(value), Arg::DType(dtype)])?;
    builder.call("expand", [Arg::Leaf(cast), size]).map(Out::Node)
}

/// `elu(x, alpha, scale, input_scale)`: `scale * (x if x > 0 else alpha * (exp(x * input_scale) - 1))`.
pub(super) fn elu<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let is_one = |name: &str| matches!(call.arg(name), Arg::None | Arg::Int(1) | Arg::Float(1.0));
    let (x, alpha) = (call.first()?, call.or("alpha", Arg::Float(1.0)));
    if is_one("scale") && is_one("input_scale") {
        return builder.call("elu", [x, alpha]).map(Out::Node);
    }
    let scaled = builder.call("mul", [x.clone(), call.or("input_scale", Arg::Float(1.0))])?;
    let power = builder.call("expm1", [Arg::Leaf(scaled)])?;
    let below = builder.call("mul", [Arg::Leaf(power), alpha])?;
    let positive = builder.call("gt", [x.clone(), Arg::Int(0)])?;
    let chosen = builder.call("where", [Arg::Leaf(positive), x, Arg::Leaf(below)])?;
    builder.call("mul", [Arg::Leaf(chosen), call.or("scale", Arg::Float(1.0))]).map(Out::Node)
}

pub(super) fn div<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let row = match call.arg("rounding_mode") {
        Arg::Str(mode) if &*mode == "floor" => "floor_divide",
        Arg::Str(mode) if &*mode == "trunc" => "trunc_divide",
        _ => "div",
    };
    let args = [call.first()?, call.need("other")?];
    builder.call(row, args).map(Out::Node)
}

pub(super) fn where_nonzero<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let mut x = node(&call.first()?)?;
    let rank = builder.tensor_type(x)?.rank();
    if rank == 0 {
        // A tensor without axes has one place.
        x = builder.call("unsqueeze", [Arg::Leaf(x), Arg::Int(0)])?;
    }
    let n = rank.max(1) as i64;
    let places = builder.call("nonzero", [Arg::Leaf(x)])?;
    let part =
        |builder: &mut Builder<'a>, i| builder.call("select", [Arg::Leaf(places), Arg::Int(1), Arg::Int(i)]);
    Ok(Out::Many((0..n).map(|i| part(builder, i).map(Out::Node)).collect::<Attempt<_>>()?))
}

pub(super) fn fill<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let value = call.need("value")?;
    filled(builder, call, value)
}

pub(super) fn zero<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    filled(builder, call, Arg::Int(0))
}

fn filled<'a>(builder: &mut Builder<'a>, call: &Call<'a>, value: Arg) -> Attempt<Out> {
    let x = call.first()?;
    if let Arg::Leaf(value) = value {
        let ty = builder.tensor_type(node(&x)?)?;
        return builder.conform(value, &ty).map(Out::Node);
    }
    let op = builder.row("full_like")?;
    builder.emit(op, vec![x, value], &[]).map(Out::Node)
}

/// `copy(self, src)`: `src` as the type of `self`.
pub(super) fn copy<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let ty = builder.tensor_type(node(&call.first()?)?)?;
    let source = node(&call.need("src")?)?;
    builder.conform(source, &ty).map(Out::Node)
}

/// `isin` with a number on one side.
pub(super) fn isin<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let mut args = Vec::new();
    for (name, arg) in &call.args {
        let arg = match (arg, *name) {
            (Arg::Int(_), "element" | "elements" | "test_element" | "test_elements") => {
                Arg::Leaf(full(builder, arg.clone(), DType::I64)?)
            }
            (Arg::Float(_), "element" | "elements" | "test_element" | "test_elements") => {
                Arg::Leaf(full(builder, arg.clone(), DType::F32)?)
            }
            _ => arg.clone(),
        };
        args.push((*name, arg));
    }
    named(builder, "isin", args).map(Out::Node)
}

pub(super) fn log_sigmoid_forward<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let x = call.first()?;
    let out = builder.call("logsigmoid", [x.clone()])?;
    let magnitude = builder.call("abs", [x])?;
    let negative = builder.call("neg", [Arg::Leaf(magnitude)])?;
    let mut buffer = builder.call("exp", [Arg::Leaf(negative)])?;
    let declared = match call.node.outputs.get(1).and_then(input_name) {
        Some(name) => builder.declared(name)?,
        None => None,
    };
    if let Some(declared) = declared
        && declared.shape.numel().known() == Some(0)
    {
        let dtype = Arg::DType(declared.dtype);
        buffer = named(builder, "empty", vec![("size", Arg::ints([0])), ("dtype", dtype)])?;
    }
    Ok(Out::Many(vec![Out::Node(out), Out::Node(buffer)]))
}

/// A softmax that is 0, not NaN, for a row of which everything is minus infinity.
pub(super) fn safe_softmax<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let x = call.first()?;
    let out = named(builder, "softmax", without(call, &[]))?;
    let masked = builder.call("eq", [x, Arg::Float(f64::NEG_INFINITY)])?;
    let op = builder.row("all")?;
    let all = builder.emit(
        op,
        vec![Arg::Leaf(masked)],
        &[("dim", call.need("dim")?), ("keepdim", Arg::Bool(true))],
    )?;
    builder.call("masked_fill", [Arg::Leaf(out), Arg::Leaf(all), Arg::Float(0.0)]).map(Out::Node)
}

pub(super) fn nll_loss_forward<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let args = without(call, &[]);
    let loss = named(builder, "nll_loss", args)?;
    let weight = full(builder, Arg::Float(1.0), DType::F32)?;
    Ok(Out::Many(vec![Out::Node(loss), Out::Node(weight)]))
}

pub(super) fn prelu_kernel<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let (x, weight) = (call.first()?, call.need("weight")?);
    let positive = builder.call("gt", [x.clone(), Arg::Int(0)])?;
    let scaled = builder.call("mul", [x.clone(), weight])?;
    builder.call("where", [Arg::Leaf(positive), x, Arg::Leaf(scaled)]).map(Out::Node)
}

pub(super) fn arange<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let mut args = Vec::new();
    match (call.get("start"), call.get("end")) {
        (Some(start), Some(end)) => args.extend([start.clone(), end.clone()]),
        (None, Some(end)) => args.extend([Arg::Int(0), end.clone()]),
        _ => return Err(err!(Load, "arange without an end").into()),
    }
    args.push(call.or("step", Arg::Int(1)));
    let op = builder.row("arange")?;
    let dtype = call.arg("dtype");
    // One argument is how the row spells a start of 0 itself.
    let kwargs: Vec<(&str, Arg)> = match dtype {
        Arg::None => Vec::new(),
        dtype => vec![("dtype", dtype)],
    };
    if call.get("start").is_none() && call.get("step").is_none() {
        return builder.emit(op, vec![args[1].clone()], &kwargs).map(Out::Node);
    }
    builder.emit(op, args, &kwargs).map(Out::Node)
}

pub(super) fn to_copy<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    match call.arg("dtype") {
        Arg::DType(dtype) => builder.call("to", [call.first()?, Arg::DType(dtype)]).map(Out::Node),
        _ => builder.call("clone", [call.first()?]).map(Out::Node),
    }
}

pub(super) fn gelu<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let row = match call.arg("approximate") {
        Arg::Str(kind) if &*kind == "tanh" => "gelu_tanh",
        Arg::Str(kind) if &*kind != "none" => {
            return Err(err!(Load, "unknown approximation {kind:?} of gelu").into());
        }
        _ => "gelu",
    };
    builder.call(row, [call.first()?]).map(Out::Node)
}

/// Returns indices as `getitem` takes them: an axis without one is taken whole.
fn as_index(indices: &Arg) -> Attempt<Arg> {
    let items = indices.items().ok_or_else(|| err!(Load, "expected a list of indices"))?;
    let whole = || Arg::slice(Arg::None, Arg::None, Arg::None);
    Ok(Arg::tuple(items.iter().map(|item| if matches!(item, Arg::None) { whole() } else { item.clone() })))
}

pub(super) fn index<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let index = as_index(&call.need("indices")?)?;
    builder.call("getitem", [call.first()?, index]).map(Out::Node)
}

/// Elements where a mask holds, and a number elsewhere; indices may be out of range where it does not.
pub(super) fn masked_index<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let (x, mask) = (call.first()?, call.need("mask")?);
    let clamped = clamped_indices(builder, call)?;
    let picked = builder.call("getitem", [x, as_index(&Arg::list(clamped))?])?;
    let not = builder.call("logical_not", [mask])?;
    builder
        .call("masked_fill", [Arg::Leaf(picked), Arg::Leaf(not), call.or("fill", Arg::Int(0))])
        .map(Out::Node)
}

/// `_unsafe_masked_index_put_accumulate(self, mask, indices, values)`: values where the mask is true are added to
/// elements.
pub(super) fn masked_index_put<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let clamped = clamped_indices(builder, call)?;
    let not = builder.call("logical_not", [call.need("mask")?])?;
    let values = call.need("values")?;
    let nothing = match builder.tensor_type(node(&values)?)?.dtype {
        DType::Bool => Arg::Bool(false),
        _ => Arg::Int(0),
    };
    let values = builder.call("masked_fill", [values, Arg::Leaf(not), nothing])?;
    let args = [call.first()?, Arg::list(clamped), Arg::Leaf(values), Arg::Bool(true)];
    builder.call("index_put", args).map(Out::Node)
}

/// Returns the argument `indices` with its tensors kept inside of the axes of the first argument.
fn clamped_indices<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Vec<Arg>> {
    let ty = builder.tensor_type(node(&call.first()?)?)?;
    let indices = call.need("indices")?;
    let items = indices.items().ok_or_else(|| err!(Load, "expected a list of indices"))?;
    let mut clamped = Vec::new();
    for (axis, item) in items.iter().enumerate() {
        clamped.push(match item {
            Arg::Leaf(_) => {
                let size = ty.shape.get(axis).cloned().unwrap_or(Dim::new(1));
                let last = Arg::dim(size - Dim::new(1));
                Arg::Leaf(builder.call("clamp", [item.clone(), Arg::Int(0), last])?)
            }
            other => other.clone(),
        });
    }
    Ok(clamped)
}

/// The forms of attention; those for a device also give what a backward pass needs, which nothing may use.
pub(super) fn attention<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let mask = match call.arg("attn_bias") {
        Arg::None => call.arg("attn_mask"),
        mask => mask,
    };
    let dropout_p = call.or("dropout_p", Arg::Float(0.0));
    let op = match dropout_p {
        Arg::Float(0.0) | Arg::Int(0) => "scaled_dot_product_attention",
        _ => "scaled_dot_product_attention_dropout",
    };
    let args = vec![
        ("x", call.first()?),
        ("key", call.need("key")?),
        ("value", call.need("value")?),
        ("attn_mask", mask),
        ("dropout_p", dropout_p),
        ("is_causal", call.or("is_causal", Arg::Bool(false))),
        ("scale", call.arg("scale")),
        ("enable_gqa", call.or("enable_gqa", Arg::Bool(false))),
    ];
    let out = named(builder, op, args)?;
    if call.base == "scaled_dot_product_attention" {
        return Ok(Out::Node(out));
    }
    // (output, logsumexp, …): the others are not computed, so a use of them is an error.
    Ok(Out::Many(vec![Out::Node(out)]))
}

/// LSTM, GRU and simple recurrences: `(input, hx, params, has_biases, num_layers, dropout, train,
/// bidirectional, batch_first)`.
pub(super) fn recurrent<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let hx = call.need("hx")?;
    let n_params = call.need("params")?.items().map_or(0, <[Arg]>::len) as i64;
    let n_cells = match call.need("num_layers")? {
        Arg::Int(n) => n.saturating_mul(1 + i64::from(call.is_true("bidirectional"))),
        _ => return Err(err!(Load, "expected a known number of layers").into()),
    };
    let without_projection = if call.is_true("has_biases") { 4 } else { 2 };
    if let (Some(states @ [_, _]), true) = (hx.items(), n_params > n_cells.saturating_mul(without_projection))
    {
        return unrolled_rnn::projected(builder, call, states);
    }
    let mut args = vec![("x", call.first()?)];
    match hx.items() {
        Some([h, c]) => args.extend([("h0", h.clone()), ("c0", c.clone())]),
        Some(_) => return Err(err!(Load, "expected two states of {}", call.base).into()),
        None => args.push(("h0", hx)),
    }
    for name in ["params", "has_biases", "num_layers", "dropout", "train", "bidirectional", "batch_first"] {
        args.push((name, call.need(name)?));
    }
    named(builder, call.base, args).map(Out::Node)
}

/// `lstm_cell(input, hx, w_ih, w_hh, b_ih, b_hh)`.
pub(super) fn cell<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let mut args = vec![("x", call.first()?)];
    let hx = call.need("hx")?;
    match hx.items() {
        Some([h, c]) => args.extend([("h", h.clone()), ("c", c.clone())]),
        Some(_) => return Err(err!(Load, "expected two states of {}", call.base).into()),
        None => args.push(("h", hx)),
    }
    for name in ["w_ih", "w_hh", "b_ih", "b_hh"] {
        args.push((name, call.arg(name)));
    }
    named(builder, call.base, args).map(Out::Node)
}

pub(super) fn pad<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let sizes = call.get("pad").or(call.get("padding")).cloned();
    let sizes = sizes.ok_or_else(|| err!(Load, "{} without sizes", call.base))?;
    let mode = match call.base {
        "constant_pad_nd" => Arg::str("constant"),
        "_pad_circular" => Arg::str("circular"),
        "pad" => call.or("mode", Arg::str("constant")),
        base if base.starts_with("reflection") => Arg::str("reflect"),
        _ => Arg::str("replicate"),
    };
    let args = vec![("x", call.first()?), ("pad", sizes), ("mode", mode), ("value", call.arg("value"))];
    named(builder, "pad", args).map(Out::Node)
}

/// `(input, output_size?, align_corners?, scale_factors?)`, or with scales one by one beside the size.
pub(super) fn upsample<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let x = call.first()?;
    let name = call.base.trim_start_matches('_');
    let mode = match name {
        _ if name.starts_with("upsample_nearest_exact") => "nearest-exact",
        _ if name.starts_with("upsample_nearest") => "nearest",
        "upsample_linear1d" => "linear",
        _ if name.starts_with("upsample_bilinear") => "bilinear",
        "upsample_trilinear3d" => "trilinear",
        _ => "bicubic",
    };
    let size = call.arg("output_size");
    let scales: Vec<Arg> = match call.arg("scale_factors") {
        Arg::List(items) => items.into_vec(),
        _ => {
            let names: &[&str] = if call.get("scales").is_some() {
                &["scales"]
            } else {
                &["scales_d", "scales_h", "scales_w"]
            };
            names.iter().filter_map(|name| call.get(name)).cloned().collect()
        }
    };
    let has_scales =
        !scales.is_empty() && scales.iter().all(|scale| matches!(scale, Arg::Float(_) | Arg::Int(_)));
    let mut args = vec![("x", x), ("mode", Arg::str(mode))];
    // With both, the size is what the scales give, and positions are computed with the scales.
    if has_scales && !matches!(size, Arg::None) && !scales_give(builder, call, &size, &scales)? {
        return Err(err!(Load, "the sizes of {name} are not those that its scales give")
            .help("give either sizes or scales")
            .into());
    }
    if has_scales {
        args.push(("scale_factor", Arg::list(scales)));
        args.push(("recompute_scale_factor", Arg::Bool(false)));
    } else {
        args.push(("size", size));
    }
    if mode.ends_with("linear") || mode == "bicubic" {
        args.push(("align_corners", call.or("align_corners", Arg::Bool(false))));
    }
    if name.ends_with("_aa") {
        args.push(("antialias", Arg::Bool(true)));
    }
    named(builder, "interpolate", args).map(Out::Node)
}

/// Returns whether sizes are those that scales give.
fn scales_give<'a>(builder: &mut Builder<'a>, call: &Call<'a>, size: &Arg, scales: &[Arg]) -> Attempt<bool> {
    let ty = builder.tensor_type(node(&call.first()?)?)?;
    let Some(sizes) = ints(size) else { return Ok(true) };
    let scaled = |(dim, scale): (&Dim, &Arg)| {
        let scale = match scale {
            Arg::Float(x) => *x,
            Arg::Int(n) => *n as f64,
            _ => return None,
        };
        dim.known().map(|n| (n as f64 * scale).floor() as i64)
    };
    let given: Option<Vec<i64>> = ty.shape.iter().skip(2).zip(scales).map(scaled).collect();
    Ok(given.is_none_or(|given| given == sizes))
}

pub(super) fn grid_sampler<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let word = |name: &str, words: &[&'static str]| -> Attempt<Arg> {
        match call.or(name, Arg::Int(0)) {
            Arg::Int(code) => {
                let word = usize::try_from(code).ok().and_then(|code| words.get(code));
                Ok(Arg::str(*word.ok_or_else(|| err!(Load, "unknown {name} {code} of grid_sampler"))?))
            }
            _ => Err(err!(Load, "expected a number as {name}").into()),
        }
    };
    let args = vec![
        ("x", call.first()?),
        ("grid", call.need("grid")?),
        ("mode", word("interpolation_mode", &["bilinear", "nearest", "bicubic"])?),
        ("padding_mode", word("padding_mode", &["zeros", "border", "reflection"])?),
        ("align_corners", call.or("align_corners", Arg::Bool(false))),
    ];
    named(builder, "grid_sample", args).map(Out::Node)
}

/// `polygamma(n, x)`, whose row takes the order last.
pub(super) fn polygamma<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let x = call.args.iter().find(|(name, _)| *name == "self").map(|(_, x)| x.clone());
    let x = x.ok_or_else(|| err!(Load, "{} without an operand", call.base))?;
    let op = builder.row("polygamma")?;
    builder.emit(op, vec![x], &[("n", call.need("n")?)]).map(Out::Node)
}

/// Losses that also give what a backward pass needs: the loss alone; that of alignments for each sequence.
pub(super) fn loss_only<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let row = if call.base == "_ctc_loss" { "ctc_loss" } else { "multilabel_margin_loss" };
    let mut args = without(call, &[]);
    if row == "ctc_loss" {
        args.push(("reduction", Arg::str("none")));
    }
    Ok(Out::Many(vec![Out::Node(named(builder, row, args)?)]))
}

/// `multi_margin_loss`, of which an argument that is absent is a number.
pub(super) fn multi_margin<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    named(builder, "multi_margin_loss", without(call, &[])).map(Out::Node)
}
