//! Operators of exported backward programs that PyTorch does not decompose.
//!
//! Resizing, averaging and borders are linear along each axis by itself. What such an operator makes of a unit
//! matrix is its matrix, and the gradient is a product with that for each axis.

use super::alias::sizes_of;
use super::build::{Attempt, Builder, Out};
use super::call::{Call, ints, leaf, named, node, with};
use crate::{Arg, DType, Dim, NodeId, TensorType, err};

/// Returns the type of an argument that is a tensor.
fn type_of<'a>(builder: &Builder<'a>, call: &Call<'a>, name: &str) -> Attempt<TensorType> {
    Ok(builder.tensor_type(node(&call.need(name)?)?)?)
}

/// Returns an argument of `n` numbers, of which one may stand for all.
fn numbers(call: &Call<'_>, name: &str, n: usize) -> Attempt<Vec<i64>> {
    let given = ints(&call.need(name)?).ok_or_else(|| err!(Load, "expected numbers for {name}"))?;
    match given[..] {
        [one] => Ok(vec![one; n]),
        _ if given.len() == n => Ok(given),
        _ => Err(err!(Load, "expected {n} numbers for {name} of {}, got {}", call.base, given.len()).into()),
    }
}

/// Exchanges two axes.
fn exchanged<'a>(builder: &mut Builder<'a>, x: NodeId, a: i64, b: i64) -> Attempt<NodeId> {
    if a == b {
        return Ok(x);
    }
    builder.call("transpose", [leaf(x), Arg::Int(a), Arg::Int(b)])
}

/// Returns the gradient of an operator that multiplies the axis at `axis`, from the end, by the transpose of
/// `matrix`.
fn through<'a>(builder: &mut Builder<'a>, grad: NodeId, matrix: NodeId, axis: i64) -> Attempt<NodeId> {
    let last = exchanged(builder, grad, axis, -1)?;
    let turned = exchanged(builder, matrix, 0, 1)?;
    let product = builder.call("matmul", [leaf(last), leaf(turned)])?;
    exchanged(builder, product, axis, -1)
}

/// Returns a unit matrix as images of one row, `[1, n, n, 1]`, or with `flat` as rows, `[1, n, n]`.
fn units<'a>(builder: &mut Builder<'a>, n: &Dim, dtype: DType, flat: bool) -> Attempt<NodeId> {
    let unit = with(builder, "eye", [Arg::dim(n.clone())], &[("dtype", Arg::DType(dtype))])?;
    let one = Arg::Int(1);
    let size = Arg::dim(n.clone());
    let shape = if flat { vec![one, size.clone(), size] } else { vec![one.clone(), size.clone(), size, one] };
    builder.call("reshape", [leaf(unit), Arg::list(shape)])
}

/// Returns the matrix of what was made of `units` of `n` elements.
fn matrix<'a>(builder: &mut Builder<'a>, made: NodeId, n: &Dim) -> Attempt<NodeId> {
    builder.call("reshape", [leaf(made), Arg::list([Arg::dim(n.clone()), Arg::Int(-1)])])
}

/// `avg_pool2d_backward` and `avg_pool3d_backward`.
pub(super) fn average<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let n = if call.base.starts_with("avg_pool3d") { 3 } else { 2 };
    let ty = type_of(builder, call, "self")?;
    let kernel = numbers(call, "kernel_size", n)?;
    let stride = match ints(&call.arg("stride")) {
        Some(stride) if !stride.is_empty() => numbers(call, "stride", n)?,
        _ => kernel.clone(),
    };
    let padding = if call.get("padding").is_some() { numbers(call, "padding", n)? } else { vec![0; n] };
    let mut grad = node(&call.need("grad_output")?)?;
    for i in 0..n {
        let size = &ty.shape[ty.rank() - n + i];
        let unit = units(builder, size, ty.dtype, false)?;
        let divisor = match call.arg("divisor_override") {
            Arg::None => Arg::None,
            // A divisor is that of all axes together.
            divisor if i == 0 => divisor,
            _ => Arg::Int(1),
        };
        let args =
            [leaf(unit), Arg::ints([kernel[i], 1]), Arg::ints([stride[i], 1]), Arg::ints([padding[i], 0])];
        let made = with(
            builder,
            "avg_pool2d",
            args,
            &[
                ("ceil_mode", call.or("ceil_mode", Arg::Bool(false))),
                ("count_include_pad", call.or("count_include_pad", Arg::Bool(true))),
                ("divisor_override", divisor),
            ],
        )?;
        let matrix = matrix(builder, made, size)?;
        grad = through(builder, grad, matrix, i as i64 - n as i64)?;
    }
    Ok(Out::Node(grad))
}

/// `_adaptive_avg_pool2d_backward` and `_adaptive_avg_pool3d_backward`.
pub(super) fn adaptive_average<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let n = if call.base.starts_with("_adaptive_avg_pool3d") { 3 } else { 2 };
    let (ty, of_grad) = (type_of(builder, call, "self")?, type_of(builder, call, "grad_output")?);
    let mut grad = node(&call.need("grad_output")?)?;
    for i in 0..n {
        let (from, to) = (&ty.shape[ty.rank() - n + i], &of_grad.shape[of_grad.rank() - n + i]);
        let unit = units(builder, from, ty.dtype, true)?;
        let made = builder.call("adaptive_avg_pool1d", [leaf(unit), Arg::list([Arg::dim(to.clone())])])?;
        let matrix = matrix(builder, made, from)?;
        grad = through(builder, grad, matrix, i as i64 - n as i64)?;
    }
    Ok(Out::Node(grad))
}

/// The gradients of resizing: `(grad_output, output_size, input_size, align_corners?, scales..)`.
pub(super) fn resize<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let name = call.base.trim_start_matches('_').trim_end_matches("_backward");
    let is_antialiased = name.ends_with("_aa");
    let (mode, flat) = match name {
        _ if name.starts_with("upsample_nearest_exact") => ("nearest-exact", true),
        _ if name.starts_with("upsample_nearest") => ("nearest", true),
        _ if name.starts_with("upsample_bicubic") => ("bicubic", false),
        _ if is_antialiased => ("bilinear", false),
        _ => ("linear", true),
    };
    let (Some(to), Some(from)) = (ints(&call.need("output_size")?), ints(&call.need("input_size")?)) else {
        return Err(err!(Load, "expected known sizes for {}", call.base)
            .help("export the program with fixed spatial sizes")
            .into());
    };
    let n = to.len();
    let dtype = type_of(builder, call, "grad_output")?.dtype;
    let scales: &[&str] = match n {
        1 => &["scales"],
        2 => &["scales_h", "scales_w"],
        _ => &["scales_d", "scales_h", "scales_w"],
    };
    let mut grad = node(&call.need("grad_output")?)?;
    for i in 0..n {
        let (to, from) = (to[i], from[from.len() - n + i]);
        let unit = units(builder, &Dim::new(from), dtype, flat)?;
        let of_axis = |x: Arg, one: Arg| if flat { Arg::list([x]) } else { Arg::list([x, one]) };
        let mut args = vec![("x", leaf(unit)), ("mode", Arg::str(mode))];
        match scales.get(i).map(|name| call.arg(name)) {
            // Positions are computed with a scale, if it gives this size.
            Some(Arg::Float(scale)) if (from as f64 * scale).floor() as i64 == to => {
                args.push(("scale_factor", of_axis(Arg::Float(scale), Arg::Float(1.0))));
                args.push(("recompute_scale_factor", Arg::Bool(false)));
            }
            _ => args.push(("size", of_axis(Arg::Int(to), Arg::Int(1)))),
        }
        if !mode.starts_with("nearest") {
            args.push(("align_corners", call.or("align_corners", Arg::Bool(false))));
        }
        if is_antialiased {
            args.push(("antialias", Arg::Bool(true)));
        }
        let made = named(builder, "interpolate", args)?;
        let matrix = matrix(builder, made, &Dim::new(from))?;
        grad = through(builder, grad, matrix, i as i64 - n as i64)?;
    }
    Ok(Out::Node(grad))
}

/// `replication_pad1d_backward` and so on: `(grad_output, self, padding)`.
pub(super) fn replicated<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let ty = type_of(builder, call, "self")?;
    let sides = ints(&call.need("padding")?).ok_or_else(|| err!(Load, "expected numbers for padding"))?;
    let mut grad = node(&call.need("grad_output")?)?;
    for (i, side) in sides.chunks(2).enumerate() {
        let size = &ty.shape[ty.rank() - 1 - i];
        let unit = units(builder, size, ty.dtype, true)?;
        let made =
            builder.call("pad", [leaf(unit), Arg::ints(side.iter().copied()), Arg::str("replicate")])?;
        let matrix = matrix(builder, made, size)?;
        grad = through(builder, grad, matrix, -1 - i as i64)?;
    }
    Ok(Out::Node(grad))
}

/// The gradients of maxima with indices: `(grad_output, self, .., indices)`.
pub(super) fn maximum<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let n = if call.base.contains("3d") { 3 } else { 2 };
    let ty = type_of(builder, call, "self")?;
    let sizes = sizes_of(&ty);
    let flat = |builder: &mut Builder<'a>, x: Arg| builder.call("flatten", [x, Arg::Int(-n), Arg::Int(-1)]);
    let zeros = builder.call("zeros_like", [call.need("self")?])?;
    let (to, grad) = (flat(builder, leaf(zeros))?, flat(builder, call.need("grad_output")?)?);
    let indices = flat(builder, call.need("indices")?)?;
    let sum = builder.call("scatter_add", [leaf(to), Arg::Int(-1), leaf(indices), leaf(grad)])?;
    builder.call("reshape", [leaf(sum), sizes]).map(Out::Node)
}

/// `unfold_backward(grad_in, input_sizes, dim, size, step)`: windows that overlap are added up.
pub(super) fn unfold<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let (grad, sizes) = (call.need("grad_in")?, call.need("input_sizes")?);
    let dtype = builder.tensor_type(node(&grad)?)?.dtype;
    let items = sizes.items().unwrap_or_default().to_vec();
    if items.is_empty() {
        return builder.call("reshape", [grad, sizes]).map(Out::Node);
    }
    let Arg::Int(dim) = call.need("dim")? else {
        return Err(err!(Load, "expected a known axis for {}", call.base).into());
    };
    let axis = crate::ops::axis(dim, items.len())?;
    let places = builder.call("arange", [items[axis].clone()])?;
    let windows =
        builder.call("unfold", [leaf(places), Arg::Int(0), call.need("size")?, call.need("step")?])?;
    let places = builder.call("reshape", [leaf(windows), Arg::ints([-1])])?;
    let axis = axis as i64;
    let next = builder.call("movedim", [grad, Arg::Int(-1), Arg::Int(axis + 1)])?;
    let joined = builder.call("flatten", [leaf(next), Arg::Int(axis), Arg::Int(axis + 1)])?;
    let zeros = with(builder, "zeros", [sizes], &[("dtype", Arg::DType(dtype))])?;
    builder.call("index_add", [leaf(zeros), Arg::Int(axis), leaf(places), leaf(joined)]).map(Out::Node)
}

/// The parameters of a convolution along its spatial axes.
struct Convolution {
    stride: Vec<i64>,
    padding: Vec<i64>,
    dilation: Vec<i64>,
    groups: i64,
}

/// `convolution_backward(grad_output, input, weight, bias_sizes, stride, padding, dilation, transposed,
/// output_padding, groups, output_mask)`.
pub(super) fn convolution<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let (grad, x) = (call.need("grad_output")?, call.need("input")?);
    let of_weight = type_of(builder, call, "weight")?;
    let n = of_weight.rank().saturating_sub(2);
    let Arg::Int(groups) = call.or("groups", Arg::Int(1)) else {
        return Err(err!(Load, "expected a known number of groups for {}", call.base).into());
    };
    let spec = Convolution {
        stride: numbers(call, "stride", n)?,
        padding: numbers(call, "padding", n)?,
        dilation: numbers(call, "dilation", n)?,
        groups,
    };
    let transposed = call.is_true("transposed");
    let asked: Vec<bool> = match call.arg("output_mask") {
        Arg::None => vec![true; 3],
        mask => {
            mask.items().unwrap_or_default().iter().map(|asked| matches!(asked, Arg::Bool(true))).collect()
        }
    };
    let is_asked = |i: usize| asked.get(i).copied().unwrap_or(false);
    let absent = || Out::Value(Arg::None);
    let of_input = match is_asked(0) {
        true => Out::Node(input_gradient(builder, call, &spec, transposed)?),
        false => absent(),
    };
    let of_kernel = match is_asked(1) {
        // A transposed convolution is the gradient of a convolution of its result.
        true if transposed => Out::Node(kernel_gradient(builder, &spec, grad.clone(), x, &of_weight)?),
        true => Out::Node(kernel_gradient(builder, &spec, x, grad.clone(), &of_weight)?),
        false => absent(),
    };
    let of_bias = match is_asked(2) {
        true => {
            let axes = (0..n as i64 + 2).filter(|axis| *axis != 1);
            Out::Node(builder.call("sum", [grad, Arg::ints(axes)])?)
        }
        false => absent(),
    };
    Ok(Out::Many(vec![of_input, of_kernel, of_bias]))
}

fn input_gradient<'a>(
    builder: &mut Builder<'a>,
    call: &Call<'a>,
    spec: &Convolution,
    transposed: bool,
) -> Attempt<NodeId> {
    let (grad, weight) = (call.need("grad_output")?, call.need("weight")?);
    let (from, of_grad, of_weight) = (
        type_of(builder, call, "input")?,
        type_of(builder, call, "grad_output")?,
        type_of(builder, call, "weight")?,
    );
    let mut rest = Vec::new();
    for i in 0..spec.stride.len() {
        let (size, out, kernel) = (&from.shape[i + 2], &of_grad.shape[i + 2], &of_weight.shape[i + 2]);
        // What the last window does not reach.
        let reached = (out.clone() - 1) * spec.stride[i] - 2 * spec.padding[i]
            + (kernel.clone() - 1) * spec.dilation[i]
            + 1;
        let left = size.clone() - reached;
        rest.push(match left.known() {
            _ if transposed => 0,
            Some(left) => left,
            None if spec.stride[i] == 1 => 0,
            None => {
                return Err(err!(Load, "expected known spatial sizes for {} with a stride", call.base)
                    .help("export the program with fixed spatial sizes")
                    .into());
            }
        });
    }
    let args = [
        grad,
        weight,
        Arg::None,
        Arg::ints(spec.stride.iter().copied()),
        Arg::ints(spec.padding.iter().copied()),
        Arg::ints(spec.dilation.iter().copied()),
        Arg::Bool(!transposed),
        Arg::ints(rest),
        Arg::Int(spec.groups),
    ];
    builder.call("convolution", args)
}

/// Returns the gradient of the kernel of a convolution of `x` to what has the gradient `grad`.
fn kernel_gradient<'a>(
    builder: &mut Builder<'a>,
    spec: &Convolution,
    x: Arg,
    grad: Arg,
    of_weight: &TensorType,
) -> Attempt<NodeId> {
    let (groups, n) = (spec.groups, spec.stride.len() as i64);
    let from = builder.tensor_type(node(&x)?)?;
    let (batch, channels) = (from.shape[0].clone(), of_weight.shape[1].clone());
    let spatial = || from.shape[2..].iter().cloned().map(Arg::dim);
    // Samples are the channels of a convolution whose windows are the gradients, and channels its samples.
    let apart = [Arg::dim(batch.clone()), Arg::Int(groups), Arg::dim(channels.clone())];
    let x = builder.call("reshape", [x, Arg::list(apart.into_iter().chain(spatial()))])?;
    let order = [2, 1, 0].into_iter().chain(3..n + 3);
    let x = builder.call("permute", [leaf(x), Arg::ints(order)])?;
    let joined = [Arg::dim(channels), Arg::dim(batch * groups)];
    let x = builder.call("reshape", [leaf(x), Arg::list(joined.into_iter().chain(spatial()))])?;
    let windows = builder.call("transpose", [grad, Arg::Int(0), Arg::Int(1)])?;
    let args = [
        leaf(x),
        leaf(windows),
        Arg::None,
        Arg::ints(spec.dilation.iter().copied()),
        Arg::ints(spec.padding.iter().copied()),
        Arg::ints(spec.stride.iter().copied()),
        Arg::Bool(false),
        Arg::ints(vec![0; n as usize]),
        Arg::Int(groups),
    ];
    let mut out = builder.call("convolution", args)?;
    for axis in 2..n + 2 {
        let size = Arg::dim(of_weight.shape[axis as usize].clone());
        out = builder.call("narrow", [leaf(out), Arg::Int(axis), Arg::Int(0), size])?;
    }
    exchanged(builder, out, 0, 1)
}

/// `_weight_norm_interface_backward(grad_w, saved_v, saved_g, saved_norms, dim)`.
pub(super) fn weight_norm<'a>(builder: &mut Builder<'a>, call: &Call<'a>) -> Attempt<Out> {
    let (grad, v, g) = (call.need("grad_w")?, call.need("saved_v")?, call.need("saved_g")?);
    let ty = type_of(builder, call, "saved_v")?;
    let Arg::Int(dim) = call.need("dim")? else {
        return Err(err!(Load, "expected a known axis for {}", call.base).into());
    };
    let kept = crate::ops::axis(dim, ty.rank())? as i64;
    let axes = || Arg::ints((0..ty.rank() as i64).filter(|axis| *axis != kept));
    let total = |builder: &mut Builder<'a>, x: NodeId| {
        let sum = with(builder, "sum", [leaf(x), axes()], &[("keepdim", Arg::Bool(true))])?;
        Ok::<Arg, super::build::Failure>(leaf(sum))
    };
    let square = builder.call("mul", [v.clone(), v.clone()])?;
    let square = total(builder, square)?;
    let norm = builder.call("sqrt", [square.clone()])?;
    let product = builder.call("mul", [grad.clone(), v.clone()])?;
    let product = total(builder, product)?;
    let of_g = builder.call("div", [product.clone(), leaf(norm)])?;
    let share = builder.call("div", [product, square])?;
    let along = builder.call("mul", [v, leaf(share)])?;
    let across = builder.call("sub", [grad, leaf(along)])?;
    let scale = builder.call("div", [g, leaf(norm)])?;
    let of_v = builder.call("mul", [leaf(across), leaf(scale)])?;
    Ok(Out::Many(vec![Out::Node(of_v), Out::Node(of_g)]))
}
