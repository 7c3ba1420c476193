//! Operations that PyTorch has in Python only, as its operators.

use super::function::{Call, Writer};
use super::rows::option;
use super::value::{Ty, Value};
use crate::op::kind::Kind;
use crate::{Arg, Result, bail, err};

pub(super) fn interpolate(writer: &mut Writer<'_>, call: &Call<'_>) -> Result<Value> {
    let modes = ["nearest", "nearest-exact", "linear", "bilinear", "trilinear", "bicubic"];
    let mode = modes[option(call, "mode", &modes)?];
    if call.is_true("recompute_scale_factor") {
        return Err(err!(Unresolved, "PyTorch has no operator interpolate with recompute_scale_factor")
            .help("give the size instead of the factor"));
    }
    resize(writer, call, mode, call.is_true("align_corners"), call.is_true("antialias"))
}

pub(super) fn upsample_nearest(writer: &mut Writer<'_>, call: &Call<'_>) -> Result<Value> {
    resize(writer, call, "nearest", false, false)
}

pub(super) fn upsample_bilinear(writer: &mut Writer<'_>, call: &Call<'_>) -> Result<Value> {
    resize(writer, call, "bilinear", true, false)
}

/// The operators of resizing: `mode` is PyTorch's, `align` whether corners stay in place.
fn resize(writer: &mut Writer<'_>, call: &Call<'_>, mode: &str, align: bool, smooth: bool) -> Result<Value> {
    let rank = writer.rank(call.arg("x")?)?;
    let Some(axes @ 1..=3) = rank.checked_sub(2) else {
        bail!(Argument, "interpolate takes 1 to 3 axes beside batch and channels, got {rank} axes in all");
    };
    let each = |arg: &Arg, kind: Kind| -> Result<String> {
        match arg {
            Arg::None => Ok("None".to_owned()),
            Arg::Tuple(items) | Arg::List(items) => {
                let items =
                    items.iter().map(|item| writer.scope.argument(item, kind)).collect::<Result<Vec<_>>>()?;
                Ok(format!("[{}]", items.join(", ")))
            }
            one => {
                let one = writer.scope.argument(one, kind)?;
                Ok(format!("[{}]", vec![one; axes].join(", ")))
            }
        }
    };
    let (size, scale) = (each(call.arg("size")?, Kind::Int)?, each(call.arg("scale_factor")?, Kind::Float)?);
    let smooth = if smooth { "_aa" } else { "" };
    let align = if align { "True" } else { "False" };
    let x = call.text(writer, "x")?;
    let text = match mode {
        "nearest" => format!("torch.upsample_nearest{axes}d({x}, {size}, {scale})"),
        "nearest-exact" => format!("torch._upsample_nearest_exact{axes}d({x}, {size}, {scale})"),
        mode if smooth.is_empty() => format!("torch.upsample_{mode}{axes}d({x}, {size}, {align}, {scale})"),
        mode => format!("torch._upsample_{mode}{axes}d{smooth}({x}, {size}, {align}, {scale})"),
    };
    Ok(Value::new(text, Ty::Tensor))
}

/// The mean of squares over neighbouring channels is a pooling of `[n, 1, c, rest]` along `c`.
pub(super) fn local_response_norm(writer: &mut Writer<'_>, call: &Call<'_>) -> Result<Value> {
    let Arg::Int(size @ 1..) = *call.arg("size")? else {
        return Err(
            err!(Argument, "expected the number of channels to be known").help("trace with a number as size")
        );
    };
    let x = call.text(writer, "x")?;
    let (before, after) = (size / 2, (size - 1) / 2);
    let squares = Value::new(
        format!("torch.reshape(torch.mul({x}, {x}), [torch.size({x}, 0), 1, torch.size({x}, 1), -1])"),
        Ty::Tensor,
    );
    let squares = writer.assign("squares", squares).text;
    let means = format!(
        "torch.avg_pool2d(torch.constant_pad_nd({squares}, [0, 0, {before}, {after}]), [{size}, 1], [1, 1])"
    );
    let form = format!(
        "torch.div({{x}}, torch.pow(torch.add(torch.mul(torch.reshape({means}, torch.size({x})), {{alpha}}), {{k}}), {{beta}}))"
    );
    writer.format(call, &form)
}

pub(super) fn gaussian_nll_loss(writer: &mut Writer<'_>, call: &Call<'_>) -> Result<Value> {
    let (rank, of_variance) = (writer.rank(call.arg("x")?)?, writer.rank(call.arg("var")?)?);
    let variance = if of_variance + 1 == rank { "torch.unsqueeze({var}, -1)" } else { "{var}" };
    let variance = writer.format(call, &format!("torch.clamp_min({variance}, {{eps}})"))?.text;
    let variance = writer.assign("variance", Value::new(variance, Ty::Tensor)).text;
    let gap = writer.format(call, "torch.sub({x}, {target})")?.text;
    let gap = writer.assign("gap", Value::new(gap, Ty::Tensor)).text;
    let mut each = format!(
        "torch.mul(torch.add(torch.log({variance}), torch.div(torch.mul({gap}, {gap}), {variance})), 0.5)"
    );
    if call.is_true("full") {
        each = format!("torch.add({each}, {})", 0.5 * std::f64::consts::TAU.ln());
    }
    let reduction = ["none", "mean", "sum"][option(call, "reduction", &["none", "mean", "sum"])?];
    writer.typed(call, if reduction == "none" { each } else { format!("torch.{reduction}({each})") })
}

/// The index along an axis is the position, divided by the elements after the axis, modulo its size.
pub(super) fn unravel_index(writer: &mut Writer<'_>, call: &Call<'_>) -> Result<Value> {
    let shape = call.arg("shape")?;
    let sizes = match shape.items() {
        Some(items) => {
            items.iter().map(|item| writer.scope.argument(item, Kind::Int)).collect::<Result<Vec<_>>>()?
        }
        None => vec![writer.scope.argument(shape, Kind::Int)?],
    };
    let indices = writer.format(call, "torch.to({indices}, 4)")?.text;
    let indices = writer.assign("positions", Value::new(indices, Ty::Tensor)).text;
    let mut stride = "1".to_owned();
    let mut axes = Vec::with_capacity(sizes.len());
    for size in sizes.iter().rev() {
        axes.push(format!("torch.remainder(torch.floor_divide({indices}, {stride}), {size})"));
        let known = stride.parse::<i64>().ok().zip(size.parse::<i64>().ok());
        stride = match known.map(|(stride, size)| stride.checked_mul(size)) {
            Some(Some(product)) => product.to_string(),
            Some(None) => bail!(Limit, "the shape has more than 2^63 positions"),
            None => writer.assign("stride", Value::new(format!("torch.mul({stride}, {size})"), Ty::Int)).text,
        };
    }
    let text: String = axes.iter().rev().map(|axis| format!("{axis}, ")).collect();
    Ok(Value::new(format!("({})", text.trim_end()), Ty::Tuple(vec![Ty::Tensor; sizes.len()])))
}
