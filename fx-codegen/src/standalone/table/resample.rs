//! Images at another size, and sampled at places that are data.

use fx_core::array::Array;
use fx_core::portable::resampling::{Mode, Resampling};
use fx_core::{Arg, DType, Dim, Error, Result, Tensor, err};

use super::data::around;
use super::{Args, Emit, fields, read, real, size, text};
use crate::standalone::lower::{Lowering, known};
use crate::standalone::value::{Value, View, count};

pub(super) const TABLE: &[(&str, Emit)] = &[
    ("interpolate", interpolate),
    ("upsample_nearest", interpolate),
    ("upsample_bilinear", interpolate),
    ("grid_sample", grid_sample),
];

/// Returns how the `i`th spatial axis of a resizing is sampled.
fn resampling(args: &Args<'_>, i: usize) -> Result<Resampling> {
    let mode = match args.op.name {
        "upsample_nearest" => "nearest",
        "upsample_bilinear" => "bilinear",
        _ => args.text("mode")?,
    };
    let mode = match mode {
        "nearest" => Mode::Nearest,
        "nearest-exact" => Mode::NearestExact,
        "bicubic" => Mode::Cubic,
        "area" => Mode::Area,
        _ => Mode::Linear,
    };
    let flag = |name: &str| Ok::<_, Error>(args.has(name) && !args.is_none(name)? && args.flag(name)?);
    let scale = match args.get("scale_factor")? {
        _ if mode == Mode::Area || flag("recompute_scale_factor")? => None,
        Arg::None => None,
        scales => {
            let scale = scales.items().map_or(Some(scales), |items| items.get(i).or(items.first()));
            let scale =
                scale.and_then(Arg::scalar).ok_or_else(|| err!(Unresolved, "a scale is not known"))?;
            Some(scale.to_f64())
        }
    };
    let align_corners = args.op.name == "upsample_bilinear" || flag("align_corners")?;
    Ok(Resampling { mode, align_corners, antialias: flag("antialias")?, scale })
}

fn interpolate(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<Value> {
    let x = args.view("x")?;
    let (_, shape) = args.result()?;
    let sizes = x.shape.iter().zip(&shape).skip(2);
    sizes.flat_map(|(from, to)| [from, to]).for_each(|size| l.require(size - 1));
    let mut x = l.contiguous(x);
    for axis in (2..x.rank()).rev() {
        let how = resampling(args, axis - 2)?;
        let is_smooth = matches!(how.mode, Mode::Linear | Mode::Cubic);
        x = match known(&[x.shape[axis].clone(), shape[axis].clone()]) {
            Ok(sizes) if is_smooth && x.dtype == DType::U8 => {
                resized_bytes(l, x, axis, how, sizes[0], sizes[1])?
            }
            Err(_) if is_smooth && x.dtype == DType::U8 => {
                return Err(err!(Unresolved, "images of bytes are resized to known sizes only")
                    .help("convert the image to a float first"));
            }
            Ok(sizes) => resized(l, x, axis, how, [sizes[0], sizes[1]])?,
            Err(_) => resized_when_called(l, x, axis, how, &shape[axis]),
        };
    }
    Ok(Arg::Leaf(x))
}

/// Resizes an axis of known size: positions and weights are constants.
fn resized(
    l: &mut Lowering<'_>,
    x: View,
    axis: usize,
    how: Resampling,
    [from, to]: [usize; 2],
) -> Result<View> {
    if how.is_identity(from, to) {
        return Ok(x);
    }
    let (mut starts, mut places, mut weights) = (vec![0], Vec::new(), Vec::new());
    for at in 0..to {
        how.taps(at, from, to, |place, weight| {
            places.push(place as i64);
            weights.push(weight);
        });
        starts.push(places.len() as i64);
    }
    let is_copy = places.len() == to && weights.iter().all(|weight| *weight == 1.0);
    let mut shape = x.shape.clone();
    shape[axis] = Dim::from(to);
    let (_, n, inner) = around(&x, axis);
    let constant = |l: &mut Lowering<'_>, hint: &str, numbers: Vec<i64>| {
        let n = numbers.len();
        l.constant(hint, Tensor::from_vec(numbers, &[n]))
    };
    let places = constant(l, "positions", places)?;
    let (view, out) = l.out(x.dtype, &shape);
    if is_copy {
        let pieces = vec![read(&x), size(&n), size(&inner), read(&places), text("false"), out];
        l.call_checked("lookup::select", pieces);
    } else {
        let starts = constant(l, "starts", starts)?;
        let n_taps = weights.len();
        let weights =
            l.constant("weights", Tensor::new(Array::from_vec(weights, &[n_taps])?.cast(x.dtype)))?;
        let pieces =
            vec![read(&x), size(&n), size(&inner), read(&starts), read(&places), read(&weights), out];
        l.call("resize::along", pieces);
    }
    Ok(view)
}

/// Resizes an axis of known size of an image of bytes.
fn resized_bytes(
    l: &mut Lowering<'_>,
    x: View,
    axis: usize,
    how: Resampling,
    from: usize,
    to: usize,
) -> Result<View> {
    if how.is_identity(from, to) {
        return Ok(x);
    }
    let taps = how.byte_taps(from, to);
    let mut shape = x.shape.clone();
    shape[axis] = Dim::from(to);
    let (_, n, inner) = around(&x, axis);
    let mut constant = |hint: &str, numbers: Vec<i64>| {
        let n = numbers.len();
        l.constant(hint, Tensor::from_vec(numbers, &[n]))
    };
    let starts = constant("starts", taps.starts)?;
    let places = constant("positions", taps.places)?;
    let weights = constant("weights", taps.weights)?;
    let (view, out) = l.out(x.dtype, &shape);
    let shift = text(taps.shift.to_string());
    let pieces =
        vec![read(&x), size(&n), size(&inner), read(&starts), read(&places), read(&weights), shift, out];
    l.call("resize::along_bytes", pieces);
    Ok(view)
}

/// Resizes an axis whose sizes only a call tells.
fn resized_when_called(l: &mut Lowering<'_>, x: View, axis: usize, how: Resampling, to: &Dim) -> View {
    let mut shape = x.shape.clone();
    shape[axis] = to.clone();
    let (_, n, inner) = around(&x, axis);
    let (view, out) = l.out(x.dtype, &shape);
    let is_nearest = matches!(how.mode, Mode::Nearest | Mode::NearestExact);
    let function = if is_nearest { "resize::nearest" } else { "resize::resample" };
    let scale = how.scale.map_or_else(|| text("None"), |scale| super::wrap("Some(", real(scale), ")"));
    let how = fields(
        "resampling::Resampling",
        vec![
            ("mode", text(format!("resampling::Mode::{:?}", how.mode))),
            ("align_corners", text(how.align_corners.to_string())),
            ("antialias", text(how.antialias.to_string())),
            ("scale", scale),
        ],
    );
    l.call(function, vec![read(&x), size(&n), size(to), size(&inner), how, out]);
    view
}

fn grid_sample(l: &mut Lowering<'_>, args: &Args<'_>) -> Result<Value> {
    let (x, grid) = (args.view("x")?, args.view("grid")?);
    args.expect_float(x)?;
    let (dtype, shape) = args.result()?;
    let (x, grid) = (l.contiguous(x), l.contiguous(grid));
    let axes = x.rank() - 2;
    let mut input = vec![Dim::new(1); 3 - axes];
    input.extend(x.shape[2..].iter().cloned());
    input.iter().for_each(|size| l.require(size - 1));
    let mode = match args.text("mode")? {
        "nearest" => "Nearest",
        "bicubic" => "Cubic",
        _ => "Linear",
    };
    let beyond = match args.text("padding_mode")? {
        "zeros" => "Zeros",
        "border" => "Border",
        _ => "Reflection",
    };
    let align = match args.get("align_corners")? {
        Arg::None => false,
        flag => flag.scalar().ok_or_else(|| err!(Unresolved, "align_corners is not known"))?.to_bool(),
    };
    let sampling = fields(
        "grid::Sampling",
        vec![
            ("channels", size(&x.shape[1])),
            ("input", super::list(&input)),
            ("axes", text(axes.to_string())),
            ("places", size(&count(&shape[2..]))),
            ("mode", text(format!("sampling::Mode::{mode}"))),
            ("beyond", text(format!("sampling::Beyond::{beyond}"))),
            ("align", text(align.to_string())),
        ],
    );
    let (view, out): (View, _) = l.out(dtype, &shape);
    l.call("grid::sample", vec![sampling, read(&x), read(&grid), out]);
    Ok(Arg::Leaf(view))
}
