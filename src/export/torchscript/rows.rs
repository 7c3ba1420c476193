//! The operator for each row whose name or arguments are not those of the operator.
//!
//! Most rows need no entry: they have PyTorch's name, order of arguments and defaults.

use super::function::{Call, Writer};
use super::value::{Ty, Value, float};
use super::{compose, names};
use crate::op::kind::Kind;
use crate::{Arg, Result, bail, err};

/// How a row is written.
pub(super) enum How {
    /// An operator of another name with the same arguments.
    Name(&'static str),
    /// The operator of the same name with all arguments, since it has no defaults or others.
    All,
    /// An operator with these arguments by position; those that are missing here must have their default.
    Positional(&'static str, &'static [&'static str]),
    /// Anything else.
    Write(Write),
}

type Write = fn(&mut Writer<'_>, &Call<'_>) -> Result<Value>;

use How::{All, Name, Positional, Write as W};

#[rustfmt::skip]
static TABLE: &[(&str, How)] = &[
    // Other names.
    ("max_dim", Name("torch.max")), ("min_dim", Name("torch.min")), ("median_dim", Name("torch.median")),
    ("nanmedian_dim", Name("torch.nanmedian")), ("logsigmoid", Name("torch.log_sigmoid")),
    ("adaptive_max_pool1d_with_indices", W(adaptive_pool)), ("adaptive_max_pool2d_with_indices", W(adaptive_pool)),
    ("adaptive_max_pool3d_with_indices", W(adaptive_pool)), ("adaptive_max_pool1d", W(adaptive_pool)),
    ("adaptive_max_pool2d", W(adaptive_pool)), ("adaptive_max_pool3d", W(adaptive_pool)),
    ("adaptive_avg_pool1d", W(adaptive_pool)), ("adaptive_avg_pool2d", W(adaptive_pool)),
    ("adaptive_avg_pool3d", W(adaptive_pool)),
    ("max_pool1d", W(max_pool)), ("max_pool2d", W(max_pool)), ("max_pool3d", W(max_pool)),
    ("lift_fresh_copy", Positional("torch.clone", &["x"])), ("_to_copy", W(to_copy)), ("to", W(to_copy)),
    ("view", Positional("torch.reshape", &["x", "shape"])), ("view_dtype", W(|w, call| w.format(call, "torch.view_copy({x}, dtype={dtype})"))),
    // The elements are those that the value has, however it is stored.
    ("as_strided", W(|w, call| w.format(call, "torch.as_strided(torch.clone({x}, memory_format=0), {size}, {stride}, {storage_offset})"))),
    ("as_strided_scatter", W(|w, call| w.format(call, "torch.as_strided_scatter(torch.clone({x}, memory_format=0), {src}, {size}, {stride}, {storage_offset})"))),
    ("scatter", W(scatter)), ("tensordot", W(tensordot)), ("trapezoid", W(trapezoid)), ("trapz", W(trapezoid)),
    ("cumulative_trapezoid", W(trapezoid)),
    ("grouped_mm", Positional("torch._grouped_mm", &["x", "mat2", "offs"])),
    ("nms", Name("ops.torchvision.nms")), ("polygamma", Positional("torch.polygamma", &["n", "x"])),
    ("roi_align", Positional("ops.torchvision.roi_align", &["input", "rois", "spatial_scale", "pooled_height", "pooled_width", "sampling_ratio", "aligned"])),
    ("roi_pool", Positional("ops.torchvision.roi_pool", &["input", "rois", "spatial_scale", "pooled_height", "pooled_width"])),
    ("ps_roi_align", Positional("ops.torchvision.ps_roi_align", &["input", "rois", "spatial_scale", "pooled_height", "pooled_width", "sampling_ratio"])),
    ("ps_roi_pool", Positional("ops.torchvision.ps_roi_pool", &["input", "rois", "spatial_scale", "pooled_height", "pooled_width"])),
    ("deform_conv2d", Positional("ops.torchvision.deform_conv2d", &["input", "weight", "offset", "mask", "bias", "stride_h", "stride_w", "pad_h", "pad_w", "dilation_h", "dilation_w", "groups", "offset_groups", "use_mask"])),
    // The order of arguments, or arguments without defaults.
    ("batch_norm", W(batch_norm)), ("instance_norm", W(instance_norm)), ("group_norm", All),
    ("embedding", W(embedding)), ("embedding_bag", W(embedding_bag)),
    ("dropout", Positional("torch.dropout", &["x", "p", "training"])),
    ("einsum", Positional("torch.einsum", &["equation", "operands"])),
    ("convolution", Positional("torch.convolution", &["x", "weight", "bias", "stride", "padding", "dilation", "transposed", "output_padding", "groups"])),
    ("im2col", W(columns)), ("col2im", W(columns)),
    ("_fft_c2c", W(|w, call| w.format(call, "torch.view_as_real(torch._fft_c2c(torch.view_as_complex(torch.contiguous({x})), {dim}, {normalization}, {forward}))"))),
    ("_fft_c2r", W(|w, call| w.format(call, "torch._fft_c2r(torch.view_as_complex(torch.contiguous({x})), {dim}, {normalization}, {last_dim_size})"))),
    ("_fft_r2c", W(|w, call| w.format(call, "torch.view_as_real(torch._fft_r2c({x}, {dim}, {normalization}, {onesided}))"))),
    ("bartlett_window", All), ("blackman_window", All),
    ("hamming_window", All), ("hann_window", All), ("kaiser_window", All), ("threshold", All), ("mvlgamma", All),
    ("poisson_nll_loss", All), ("meshgrid", All), ("eye", W(eye)),
    ("gru", Positional("torch.gru", &["x", "h0", "params", "has_biases", "num_layers", "dropout", "train", "bidirectional", "batch_first"])),
    ("lstm", W(lstm)), ("lstm_cell", W(lstm_cell)),
    ("gru_cell", Positional("torch.gru_cell", &["x", "h", "w_ih", "w_hh", "b_ih", "b_hh"])),
    ("linalg_eigh", Positional("torch.linalg_eigh", &["x", "uplo"])),
    ("linalg_eigvalsh", Positional("torch.linalg_eigvalsh", &["x", "uplo"])),
    ("tensor_split", Positional("torch.tensor_split", &["x", "indices_or_sections", "dim"])),
    ("scaled_dot_product_attention", W(attention)), ("scaled_dot_product_attention_dropout", W(attention)),
    ("norm", W(norm)), ("linalg_matrix_norm", W(matrix_norm)), ("arange", W(arange)),
    ("nonzero", W(nonzero)), ("std", W(deviation)), ("var", W(deviation)), ("std_mean", W(deviation)),
    ("var_mean", W(deviation)), ("index", W(index)), ("index_put", W(index_put)),
    // Reductions whose overloads take one axis.
    ("prod", W(one_axis)), ("all", W(one_axis)), ("any", W(one_axis)), ("squeeze", W(one_axis)),
    ("sum", W(some_axes)), ("mean", W(some_axes)),
    // Random integers and permutations are of i64 there, too.
    ("randperm", W(with_dtype)), ("randint", W(with_dtype)), ("tril_indices", W(with_dtype)), ("triu_indices", W(with_dtype)),
    // Losses.
    ("l1_loss", W(loss)), ("mse_loss", W(loss)), ("huber_loss", W(loss)),
    ("nll_loss", Positional("torch.nll_loss_nd", &["x", "target", "weight", "reduction", "ignore_index"])),
    ("cross_entropy", Positional("torch.cross_entropy_loss", &["x", "target", "weight", "reduction", "ignore_index", "label_smoothing"])),
    ("binary_cross_entropy_with_logits", Positional("torch.binary_cross_entropy_with_logits", &["x", "target", "weight", "pos_weight", "reduction"])),
    // Compositions.
    ("gelu_tanh", W(|w, call| w.format(call, "torch.gelu({x}, approximate=\"tanh\")"))),
    ("softmin", W(softmin)), ("softsign", W(|w, call| w.format(call, "torch.div({x}, torch.add(torch.abs({x}), 1))"))),
    ("tanhshrink", W(|w, call| w.format(call, "torch.sub({x}, torch.tanh({x}))"))),
    ("trunc_divide", W(|w, call| w.format(call, "torch.div({x}, {other}, rounding_mode=\"trunc\")"))),
    ("normalize", W(|w, call| w.format(call, "torch.div({x}, torch.clamp_min(torch.norm({x}, {p}, [{dim}], True), {eps}))"))),
    ("index_copy", W(|w, call| w.format(call, "torch.index_copy({x}, {dim}, {index}, {source})"))),
    ("affine_grid", W(|w, call| w.format(call, "torch.affine_grid_generator({theta}, {size}, {align_corners})"))),
    ("grid_sample", W(grid_sample)), ("interpolate", W(compose::interpolate)), ("unique", W(unique)),
    ("upsample_nearest", W(compose::upsample_nearest)), ("upsample_bilinear", W(compose::upsample_bilinear)),
    ("local_response_norm", W(compose::local_response_norm)), ("unravel_index", W(compose::unravel_index)),
    ("gaussian_nll_loss", W(compose::gaussian_nll_loss)),
    // Numbers, containers and effects.
    ("size", W(|w, call| Ok(Value::new(w.format(call, "torch.size({x}, {dim})")?.text, Ty::Int)))),
    ("item", W(item)), ("getitem", W(getitem)), ("check", W(check)), ("print", W(print)),
];

/// Operators that take a number as their second operand.
const NUMBER_SECOND: &[&str] = &[
    "add",
    "sub",
    "mul",
    "div",
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "remainder",
    "fmod",
    "pow",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "bitwise_left_shift",
    "bitwise_right_shift",
    "floor_divide",
    "copysign",
    "xlogy",
    "lerp",
    "where",
    "clamp",
    "float_power",
    "rsub",
    "clamp_min",
    "clamp_max",
    "searchsorted",
];
/// Operators that take a number as their first operand.
const NUMBER_FIRST: &[&str] = &["pow", "where", "xlogy", "float_power"];

/// Returns what is special about a row.
pub(super) fn find(row: &str) -> Option<&'static How> {
    TABLE.iter().find(|(name, _)| *name == row).map(|(_, how)| how)
}

/// Returns whether an operator takes a number as its operand of this position.
pub(super) fn takes_number(row: &str, position: usize) -> bool {
    match position {
        0 => NUMBER_FIRST.contains(&row),
        _ => NUMBER_SECOND.contains(&row) || position > 1,
    }
}

/// Returns the version of the format from which on an operator means what fx means.
pub(super) fn version(row: &str) -> u32 {
    match row {
        "gelu" | "gelu_tanh" => 10,
        "logspace" => 9,
        "linspace" => 8,
        "full" => 5,
        "div" | "trunc_divide" | "softsign" | "normalize" => 4,
        _ => 3,
    }
}

/// Writes an operation on numbers of the host.
pub(super) fn number(call: &Call<'_>, operands: &[Value]) -> Result<Value> {
    let name = call.op.name;
    let ty = match name {
        "eq" | "ne" | "lt" | "le" | "gt" | "ge" => Ty::Bool,
        "div" => Ty::Float,
        _ if operands.iter().any(|operand| operand.ty == Ty::Float) => Ty::Float,
        _ => Ty::Int,
    };
    let [first, rest @ ..] = operands else { bail!(Argument, "expected an operand of {name}") };
    let function = match (name, rest.len()) {
        ("maximum", 1) => "ops.prim.max",
        ("minimum", 1) => "ops.prim.min",
        ("floor_divide", 1) => "torch.floordiv",
        ("eq" | "ne" | "lt" | "le" | "gt" | "ge" | "add" | "sub" | "mul" | "div" | "remainder", 1)
        | ("neg" | "abs", 0) => {
            return Ok(match rest {
                [second] => Value::new(format!("torch.{name}({}, {})", first.text, second.text), ty),
                _ => Value::new(format!("torch.{name}({})", first.text), ty),
            });
        }
        _ => {
            return Err(err!(Unresolved, "TorchScript has no {name} of numbers").help("compute with tensors"));
        }
    };
    Ok(Value::new(format!("{function}({}, {})", first.text, rest[0].text), ty))
}

fn adaptive_pool(writer: &mut Writer<'_>, call: &Call<'_>) -> Result<Value> {
    let name = call.op.name;
    let with_indices = name.ends_with("_with_indices") || call.is_true("return_indices");
    let base = name.trim_end_matches("_with_indices");
    let axes = base.bytes().rev().nth(1).map_or(1, |digit| usize::from(digit - b'0'));
    let size = call.arg("output_size")?;
    let input = call.text(writer, "x")?;
    let part = |at: usize, arg: &Arg| match arg {
        // No size is the size of the input.
        Arg::None => Ok(format!("torch.size({input}, {})", at as i64 - axes as i64)),
        arg => writer.scope.value(arg).map(|value| value.text),
    };
    let parts = match size {
        Arg::Tuple(items) | Arg::List(items) if items.len() == axes => {
            items.iter().enumerate().map(|(at, arg)| part(at, arg)).collect::<Result<Vec<_>>>()?
        }
        Arg::Tuple(items) | Arg::List(items) if items.len() == 1 => {
            (0..axes).map(|at| part(at, &items[0])).collect::<Result<Vec<_>>>()?
        }
        one => (0..axes).map(|at| part(at, one)).collect::<Result<Vec<_>>>()?,
    };
    let text = format!("torch.{base}({input}, [{}])", parts.join(", "));
    if !base.contains("max") {
        return Ok(Value::new(text, Ty::Tensor));
    }
    let both = writer.assign("pooled", Value::new(text, Ty::Tuple(vec![Ty::Tensor; 2])));
    if with_indices { Ok(both) } else { both.item(0) }
}

fn max_pool(writer: &mut Writer<'_>, call: &Call<'_>) -> Result<Value> {
    let suffix = if call.is_true("return_indices") { "_with_indices" } else { "" };
    let stride = match call.arg("stride")? {
        Arg::None => "annotate(List[int], [])".to_owned(),
        _ => call.text(writer, "stride")?,
    };
    let head = format!("torch.{}{suffix}", call.op.name);
    let text = writer.format(call, "({x}, {kernel_size}, STRIDE, {padding}, {dilation}, {ceil_mode})")?.text;
    writer.typed(call, head + &text.replace("STRIDE", &stride))
}

fn to_copy(writer: &mut Writer<'_>, call: &Call<'_>) -> Result<Value> {
    match call.arg("dtype")? {
        Arg::None => writer.format(call, "torch.clone({x})"),
        _ => writer.format(call, "torch.to({x}, {dtype})"),
    }
}

fn batch_norm(writer: &mut Writer<'_>, call: &Call<'_>) -> Result<Value> {
    // PyTorch would change running statistics while training; the graph does that itself.
    let statistics = if call.is_true("training") { "None, None" } else { "{running_mean}, {running_var}" };
    let form = format!(
        "torch.batch_norm({{x}}, {{weight}}, {{bias}}, {statistics}, {{training}}, {{momentum}}, {{eps}}, False)"
    );
    writer.format(call, &form)
}

fn instance_norm(writer: &mut Writer<'_>, call: &Call<'_>) -> Result<Value> {
    let statistics =
        if call.is_true("use_input_stats") { "None, None" } else { "{running_mean}, {running_var}" };
    let form = format!(
        "torch.instance_norm({{x}}, {{weight}}, {{bias}}, {statistics}, {{use_input_stats}}, {{momentum}}, {{eps}}, False)"
    );
    writer.format(call, &form)
}

fn embedding(writer: &mut Writer<'_>, call: &Call<'_>) -> Result<Value> {
    call.must_be_default(&["max_norm"])?;
    writer.format(call, "torch.embedding({weight}, {x})")
}

fn embedding_bag(writer: &mut Writer<'_>, call: &Call<'_>) -> Result<Value> {
    call.must_be_default(&["max_norm"])?;
    if matches!(call.arg("offsets")?, Arg::None) {
        return Err(err!(Unresolved, "PyTorch has no operator embedding_bag without offsets")
            .help("give the start of each bag as `offsets`"));
    }
    let mode = match call.arg("mode")? {
        Arg::Str(mode) if &**mode == "sum" => 0,
        Arg::Str(mode) if &**mode == "max" => 2,
        _ => 1,
    };
    let form = format!(
        "torch.embedding_bag({{weight}}, {{x}}, {{offsets}}, False, {mode}, False, {{per_sample_weights}}, \
         {{include_last_offset}}, {{padding_idx}})"
    );
    let all = writer.format(call, &form)?;
    let all = writer.assign("bags", Value::new(all.text, Ty::Tuple(vec![Ty::Tensor; 4])));
    all.item(0)
}

fn eye(writer: &mut Writer<'_>, call: &Call<'_>) -> Result<Value> {
    let m = if matches!(call.arg("m")?, Arg::None) { "" } else { ", {m}" };
    let dtype = if matches!(call.arg("dtype")?, Arg::None) { "" } else { ", dtype={dtype}" };
    writer.format(call, &format!("torch.eye({{n}}{m}{dtype})"))
}

fn lstm(writer: &mut Writer<'_>, call: &Call<'_>) -> Result<Value> {
    let form = "torch.lstm({x}, [{h0}, {c0}], {params}, {has_biases}, {num_layers}, {dropout}, {train}, \
                {bidirectional}, {batch_first})";
    let text = writer.format(call, form)?.text;
    writer.typed(call, text)
}

fn lstm_cell(writer: &mut Writer<'_>, call: &Call<'_>) -> Result<Value> {
    let text = writer.format(call, "torch.lstm_cell({x}, [{h}, {c}], {w_ih}, {w_hh}, {b_ih}, {b_hh})")?.text;
    writer.typed(call, text)
}

fn attention(writer: &mut Writer<'_>, call: &Call<'_>) -> Result<Value> {
    writer.format(
        call,
        "torch.scaled_dot_product_attention({x}, {key}, {value}, {attn_mask}, {dropout_p}, {is_causal}, \
         scale={scale}, enable_gqa={enable_gqa})",
    )
}

fn norm(writer: &mut Writer<'_>, call: &Call<'_>) -> Result<Value> {
    let p = match call.arg("p")? {
        Arg::Str(p) if &**p == "fro" => "2".to_owned(),
        Arg::Str(_) => return nuclear(writer, call),
        Arg::None => "2".to_owned(),
        _ => "{p}".to_owned(),
    };
    let dim = if matches!(call.arg("dim")?, Arg::None) { "None" } else { "{dim}" };
    let dtype = if matches!(call.arg("dtype")?, Arg::None) { "" } else { ", dtype={dtype}" };
    writer.format(call, &format!("torch.linalg_vector_norm({{x}}, {p}, {dim}, {{keepdim}}{dtype})"))
}

fn nuclear(writer: &mut Writer<'_>, call: &Call<'_>) -> Result<Value> {
    let dim = if matches!(call.arg("dim")?, Arg::None) { "[-2, -1]" } else { "{dim}" };
    writer.format(call, &format!("torch.linalg_matrix_norm({{x}}, \"nuc\", {dim}, {{keepdim}})"))
}

fn matrix_norm(writer: &mut Writer<'_>, call: &Call<'_>) -> Result<Value> {
    let dtype = if matches!(call.arg("dtype")?, Arg::None) { "" } else { ", dtype={dtype}" };
    writer.format(call, &format!("torch.linalg_matrix_norm({{x}}, {{ord}}, {{dim}}, {{keepdim}}{dtype})"))
}

fn arange(writer: &mut Writer<'_>, call: &Call<'_>) -> Result<Value> {
    let range = match call.arg("end")? {
        Arg::None => "0, {start}, {step}",
        _ => "{start}, {end}, {step}",
    };
    let dtype = if matches!(call.arg("dtype")?, Arg::None) { "" } else { ", dtype={dtype}" };
    writer.format(call, &format!("torch.arange({range}{dtype})"))
}

fn nonzero(writer: &mut Writer<'_>, call: &Call<'_>) -> Result<Value> {
    match call.is_true("as_tuple") {
        false => writer.format(call, "torch.nonzero({x})"),
        true => {
            let text = writer.format(call, "torch.nonzero_numpy({x})")?.text;
            Ok(Value::new(text, Ty::List(Box::new(Ty::Tensor))))
        }
    }
}

fn deviation(writer: &mut Writer<'_>, call: &Call<'_>) -> Result<Value> {
    let correction = match call.arg("unbiased")? {
        Arg::None => call.text(writer, "correction")?,
        Arg::Bool(false) | Arg::Int(0) => "0".to_owned(),
        _ => "1".to_owned(),
    };
    let head = format!("torch.{}", call.op.name);
    let text = writer.format(call, "({x}, {dim}, correction=CORRECTION, keepdim={keepdim})")?.text;
    writer.typed(call, head + &text.replace("CORRECTION", &correction))
}

/// Returns the indices of a list as TorchScript takes them: a list of tensors, of which some are none.
fn indices(writer: &Writer<'_>, call: &Call<'_>) -> Result<String> {
    let arg = call.arg("indices")?;
    let items: Vec<String> = match arg {
        Arg::List(items) | Arg::Tuple(items) => {
            items.iter().map(|item| Ok(writer.scope.value(item)?.text)).collect::<Result<_>>()?
        }
        arg => vec![writer.scope.value(arg)?.text],
    };
    Ok(format!("annotate(List[Optional[Tensor]], [{}])", items.join(", ")))
}

fn index(writer: &mut Writer<'_>, call: &Call<'_>) -> Result<Value> {
    let indices = indices(writer, call)?;
    let x = call.text(writer, "x")?;
    Ok(Value::new(format!("torch.index({x}, {indices})"), Ty::Tensor))
}

fn index_put(writer: &mut Writer<'_>, call: &Call<'_>) -> Result<Value> {
    let indices = indices(writer, call)?;
    let [x, values, accumulate] = ["x", "values", "accumulate"].map(|name| call.text(writer, name));
    Ok(Value::new(format!("torch.index_put({}, {indices}, {}, {})", x?, values?, accumulate?), Ty::Tensor))
}

/// Writes a reduction that takes no axis or one; several are reduced one after the other, the last first.
fn one_axis(writer: &mut Writer<'_>, call: &Call<'_>) -> Result<Value> {
    let name = call.op.name;
    let x = call.text(writer, "x")?;
    let has = |param: &str| call.op.params.iter().any(|own| own.name == param);
    let dtype = match has("dtype").then(|| call.arg("dtype")).transpose()? {
        None | Some(Arg::None) => String::new(),
        Some(_) => format!(", dtype={}", call.text(writer, "dtype")?),
    };
    let keepdim = if has("keepdim") { format!(", {}", call.text(writer, "keepdim")?) } else { String::new() };
    let axes = match call.arg("dim")? {
        Arg::None => return Ok(Value::new(format!("torch.{name}({x}{dtype})"), Ty::Tensor)),
        Arg::Int(axis) => vec![*axis],
        arg => {
            let axis = |arg: &Arg| match arg {
                Arg::Int(axis) => Ok(*axis),
                other => Err(err!(Argument, "expected a known axis of {name}, got {}", other.kind_name())),
            };
            arg.items().unwrap_or_default().iter().map(axis).collect::<Result<Vec<_>>>()?
        }
    };
    if axes.len() > 1 && axes.iter().any(|axis| (*axis < 0) != (axes[0] < 0)) {
        return Err(err!(Unresolved, "PyTorch has no operator {name} of the axes {axes:?}")
            .help("count all axes from one end"));
    }
    // What stands behind an axis that is dropped moves, so those go first; counted from the end, it is the others.
    let mut sorted = axes;
    sorted.sort_unstable();
    if sorted.first().is_some_and(|axis| *axis >= 0) {
        sorted.reverse();
    }
    let text = sorted.iter().fold(x, |x, axis| format!("torch.{name}({x}, {axis}{keepdim}{dtype})"));
    Ok(Value::new(text, Ty::Tensor))
}

/// Writes a reduction that takes a list of axes.
fn some_axes(writer: &mut Writer<'_>, call: &Call<'_>) -> Result<Value> {
    let dtype = if matches!(call.arg("dtype")?, Arg::None) { "" } else { ", dtype={dtype}" };
    match call.arg("dim")? {
        Arg::None if !call.is_true("keepdim") => {
            writer.format(call, &format!("torch.{}({{x}}{dtype})", call.op.name))
        }
        _ => writer.format(call, &format!("torch.{}({{x}}, {{dim}}, {{keepdim}}{dtype})", call.op.name)),
    }
}

/// Writes a call with a dtype that PyTorch would not choose by itself.
fn with_dtype(writer: &mut Writer<'_>, call: &Call<'_>) -> Result<Value> {
    let dtype = match call.arg("dtype")? {
        Arg::None => "4".to_owned(),
        _ => call.text(writer, "dtype")?,
    };
    let args = call.op.params.iter().filter(|param| param.name != "dtype");
    let args = args.map(|param| call.text(writer, param.name)).collect::<Result<Vec<_>>>()?;
    Ok(Value::new(format!("torch.{}({}, dtype={dtype})", call.op.name, args.join(", ")), Ty::Tensor))
}

fn loss(writer: &mut Writer<'_>, call: &Call<'_>) -> Result<Value> {
    call.must_be_default(&["weight"])?;
    let delta = if call.op.name == "huber_loss" { ", {delta}" } else { "" };
    writer.format(call, &format!("torch.{}({{x}}, {{target}}, {{reduction}}{delta})", call.op.name))
}

/// Writes an operator that takes one number for each of two axes, where a row takes one for both.
fn columns(writer: &mut Writer<'_>, call: &Call<'_>) -> Result<Value> {
    let order: &[&str] = match call.op.name {
        "im2col" => &["kernel_size", "dilation", "padding", "stride"],
        _ => &["output_size", "kernel_size", "dilation", "padding", "stride"],
    };
    let mut parts = vec![call.text(writer, "x")?];
    for name in order {
        let text = call.text(writer, name)?;
        parts.push(match call.arg(name)?.items() {
            Some([_]) => {
                let one = text.trim_start_matches('[').trim_end_matches(']');
                format!("[{one}, {one}]")
            }
            _ => text,
        });
    }
    Ok(Value::new(format!("torch.{}({})", call.op.name, parts.join(", ")), Ty::Tensor))
}

/// Writes `scatter`, whose source may be a number there, too, but under another name.
fn scatter(writer: &mut Writer<'_>, call: &Call<'_>) -> Result<Value> {
    let reduce = match call.arg("reduce") {
        Ok(Arg::Str(reduce)) if !reduce.is_empty() => ", reduce={reduce}",
        _ => "",
    };
    writer.format(call, &format!("torch.scatter({{x}}, {{dim}}, {{index}}, {{src}}{reduce})"))
}

fn tensordot(writer: &mut Writer<'_>, call: &Call<'_>) -> Result<Value> {
    let (left, right) = match call.arg("dims")? {
        Arg::Int(n) => {
            let list = |range: std::ops::Range<i64>| format!("{:?}", range.collect::<Vec<_>>());
            (list(-n..0), list(0..*n))
        }
        Arg::List(dims) | Arg::Tuple(dims) if dims.len() == 2 => {
            let side = |at: usize| writer.scope.argument(&dims[at], Kind::Ints);
            (side(0)?, side(1)?)
        }
        other => bail!(Argument, "expected a number of axes or two lists of axes, got {}", other.kind_name()),
    };
    writer.format(call, &format!("torch.tensordot({{x}}, {{other}}, {left}, {right})"))
}

fn trapezoid(writer: &mut Writer<'_>, call: &Call<'_>) -> Result<Value> {
    let function = call.op.name.replace("trapz", "trapezoid");
    let spacing = if matches!(call.arg("x")?, Arg::None) { "dx={dx}" } else { "{x}" };
    writer.format(call, &format!("torch.{function}({{y}}, {spacing}, dim={{dim}})"))
}

fn softmin(writer: &mut Writer<'_>, call: &Call<'_>) -> Result<Value> {
    let dtype = if matches!(call.arg("dtype")?, Arg::None) { "" } else { ", {dtype}" };
    writer.format(call, &format!("torch.softmax(torch.neg({{x}}), {{dim}}{dtype})"))
}

/// Returns the number of an option, which PyTorch's operators take for its name.
pub(super) fn option(call: &Call<'_>, name: &str, options: &[&str]) -> Result<usize> {
    let Arg::Str(value) = call.arg(name)? else { bail!(Argument, "expected {name} as a string") };
    let at = options.iter().position(|option| *option == &**value);
    at.ok_or_else(|| err!(Unresolved, "PyTorch has no operator for {name} {value:?}"))
}

fn grid_sample(writer: &mut Writer<'_>, call: &Call<'_>) -> Result<Value> {
    let mode = option(call, "mode", &["bilinear", "nearest", "bicubic"])?;
    let padding = option(call, "padding_mode", &["zeros", "border", "reflection"])?;
    let align = if call.is_true("align_corners") { "True" } else { "False" };
    writer.format(call, &format!("torch.grid_sampler({{x}}, {{grid}}, {mode}, {padding}, {align})"))
}

fn unique(writer: &mut Writer<'_>, call: &Call<'_>) -> Result<Value> {
    let form = match call.arg("dim")? {
        Arg::None => "torch._unique2({x}, {sorted}, {return_inverse}, {return_counts})",
        _ => "torch.unique_dim({x}, {dim}, {sorted}, {return_inverse}, {return_counts})",
    };
    let text = writer.format(call, form)?.text;
    let all = writer.assign("uniques", Value::new(text, Ty::Tuple(vec![Ty::Tensor; 3])));
    let (inverse, counts) = (call.is_true("return_inverse"), call.is_true("return_counts"));
    let wanted: Vec<i64> =
        [(0, true), (1, inverse), (2, counts)].iter().filter(|row| row.1).map(|row| row.0).collect();
    if wanted == [0] {
        return all.item(0);
    }
    let parts = wanted.iter().map(|&at| all.item(at)).collect::<Result<Vec<_>>>()?;
    let text: Vec<&str> = parts.iter().map(|part| part.text.as_str()).collect();
    Ok(Value::new(format!("({})", text.join(", ")), Ty::Tuple(vec![Ty::Tensor; wanted.len()])))
}

fn item(writer: &mut Writer<'_>, call: &Call<'_>) -> Result<Value> {
    let dtype = writer.dtype(call.arg("x")?).map(|dtype| dtype.category());
    let (function, ty) = match dtype {
        Some(crate::Category::Bool) => ("bool", Ty::Bool),
        Some(crate::Category::Int) => ("int", Ty::Int),
        _ => ("float", Ty::Float),
    };
    let x = call.text(writer, "x")?;
    Ok(Value::new(format!("{function}({x})"), ty))
}

fn getitem(writer: &mut Writer<'_>, call: &Call<'_>) -> Result<Value> {
    let value = writer.scope.value(call.arg("x")?)?;
    let index = call.arg("index")?;
    match (&value.ty, index) {
        (Ty::Tensor, _) => {
            Ok(Value::new(format!("{}[{}]", value.text, writer.scope.index(index)?), Ty::Tensor))
        }
        (Ty::Dict(item), Arg::Str(key)) => {
            Ok(Value::new(format!("{}[{}]", value.text, names::text(key)), (**item).clone()))
        }
        (_, Arg::Int(index)) => value.item(*index),
        (ty, _) => bail!(Argument, "TorchScript cannot index {ty} with {}", index.kind_name()),
    }
}

fn check(writer: &mut Writer<'_>, call: &Call<'_>) -> Result<Value> {
    let condition = writer.scope.value(call.arg("condition")?)?;
    let message = call.text(writer, "message")?;
    let test = writer.test(&condition);
    writer.line(&format!("assert {test}, {message}"));
    Ok(condition)
}

fn print(writer: &mut Writer<'_>, call: &Call<'_>) -> Result<Value> {
    let value = writer.scope.value(call.arg("x")?)?;
    match call.arg("label")? {
        Arg::Str(label) if !label.is_empty() => {
            writer.line(&format!("print({}, {})", names::text(label), value.text));
        }
        _ => writer.line(&format!("print({})", value.text)),
    }
    Ok(value)
}

/// Returns a number as a tensor without axes, for operators that take no numbers; it is promoted as the number
/// would be.
pub(super) fn tensor_of(number: &Value, dtype: Option<crate::DType>) -> String {
    use crate::{Category, DType};
    let dtype = dtype.map(|dtype| match (dtype.category(), &number.ty) {
        (Category::Float, _) | (Category::Int, Ty::Int | Ty::Bool) | (Category::Bool, Ty::Bool) => dtype,
        (Category::Bool, Ty::Int) => DType::I64,
        _ => DType::F32,
    });
    let text = match (&number.ty, number.text.parse::<i64>()) {
        (Ty::Float, Ok(n)) => float(n as f64),
        _ => number.text.clone(),
    };
    match dtype {
        Some(dtype) => format!("torch.scalar_tensor({text}, dtype={})", super::value::dtype_code(dtype)),
        None => format!("torch.scalar_tensor({text})"),
    }
}
