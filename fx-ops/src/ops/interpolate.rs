//! Images at another size. Every mode is a weighted sum along one spatial axis after another.

use fx_core::array::{Sizes, checked_numel};
use fx_core::math::Real;
use fx_core::op::Default::None as Nothing;
use fx_core::op::Flops::{PerOutput, Rule};
use fx_core::op::kind;
use fx_core::op::{ParamKind, unknown_type};
use fx_core::portable::resampling::{Mode, Resampling, byte_lines};
use fx_core::{
    Arg, Array, DType, Dim, Element, Op, Result, Shape, TensorType, TypeTree, Value, bail, err, kernels,
};

use crate::kernel::chunks::{PARALLEL, blank};
use crate::kernel::interpolate::{Resample, Taps};
use crate::ops::check::{at_least, dense, float_only, in_float, sizes, slice, type_of, wide};
use crate::ops::compose::Operand;
use crate::ops::flops;

/// The tables of this file.
pub(super) static TABLES: &[&[Op]] = &[INTERPOLATION];

kernels! {
    /// Images at another size.
    pub trait Interpolation; pub static INTERPOLATION;

    /// `[n, c, spatial..]` at another `size`, or with sizes times `scale_factor`, rounded down; one number is
    /// for all axes.
    ///
    /// `mode` is `"nearest"`, `"nearest-exact"`, `"linear"` (1 spatial axis), `"bilinear"` and `"bicubic"`
    /// (2), `"trilinear"` (3) or `"area"`, the average of nearly equal parts. Position `i` lies at
    /// `(i + 1/2) / scale - 1/2`, or with `align_corners` at `i (in - 1) / (out - 1)`. The scale is that of
    /// the sizes with `recompute_scale_factor` or a `size`, else `scale_factor`. `antialias` widens linear
    /// and cubic filters when images shrink. `"bilinear"` and `"bicubic"` take images of u8, too, and round after
    /// each axis, in the integers in which PyTorch computes.
    #[flops = Rule(flops::interpolate)]
    interpolate(x: Tensor, size: Any = Nothing, scale_factor: Any = Nothing, mode: Str = "nearest",
        align_corners: Any = Nothing; recompute_scale_factor: Any = Nothing, antialias: Bool = false) =
        |x: &TensorType, size: &TypeTree, scale: &TypeTree, mode: &str, align: &TypeTree, recompute: &TypeTree, antialias|
            Plan::new(x, &request(size, scale, align, recompute, |_| Err(unknown_type()))?, mode, antialias).map(|plan| plan.ty),
        |x: &Array, size: &Value, scale: &Value, mode: &str, align: &Value, recompute: &Value, antialias|
            resized(x, &request(size, scale, align, recompute, read)?, mode, antialias);
    /// `interpolate` with the mode `"nearest"`.
    upsample_nearest(x: Tensor, size: Any = Nothing, scale_factor: Any = Nothing) =
        |x: &TensorType, size: &TypeTree, scale: &TypeTree| Plan::new(
            x, &request(size, scale, &Arg::None, &Arg::None, |_| Err(unknown_type()))?, "nearest", false).map(|plan| plan.ty),
        |x: &Array, size: &Value, scale: &Value|
            resized(x, &request(size, scale, &Arg::None, &Arg::None, read)?, "nearest", false);
    /// `interpolate` with the mode `"bilinear"` and `align_corners`.
    #[flops = PerOutput(8)]
    upsample_bilinear(x: Tensor, size: Any = Nothing, scale_factor: Any = Nothing) =
        |x: &TensorType, size: &TypeTree, scale: &TypeTree| Plan::new(
            x, &request(size, scale, &Arg::Bool(true), &Arg::None, |_| Err(unknown_type()))?, "bilinear", false)
            .map(|plan| plan.ty),
        |x: &Array, size: &Value, scale: &Value|
            resized(x, &request(size, scale, &Arg::Bool(true), &Arg::None, read)?, "bilinear", false);
}

fn read(arg: &Value) -> Result<Arg<()>> {
    let value = <kind::Number as ParamKind>::value(arg)?;
    Ok(match value {
        fx_core::Scalar::Bool(x) => Arg::Bool(x),
        fx_core::Scalar::Int(x) => Arg::Int(x),
        fx_core::Scalar::Float(x) => Arg::Float(x),
    })
}

/// The size that is asked for. One number in a list is for all axes.
struct Request {
    size: Option<Vec<Dim>>,
    scale: Option<Vec<f64>>,
    align_corners: Option<bool>,
    recompute: bool,
}

/// Reads arguments; leaves are read by `leaf`.
fn request<L: Clone>(
    size: &Arg<L>,
    scale: &Arg<L>,
    align: &Arg<L>,
    recompute: &Arg<L>,
    leaf: impl Fn(&Arg<L>) -> Result<Arg<()>>,
) -> Result<Request> {
    let plain = |arg: &Arg<L>| match arg {
        Arg::Leaf(_) => leaf(arg),
        Arg::Dim(dim) => Ok(Arg::Dim(dim.clone())),
        Arg::None => Ok(Arg::None),
        other => match other.scalar() {
            Some(fx_core::Scalar::Bool(x)) => Ok(Arg::Bool(x)),
            Some(fx_core::Scalar::Int(x)) => Ok(Arg::Int(x)),
            Some(fx_core::Scalar::Float(x)) => Ok(Arg::Float(x)),
            None => {
                bail!(Argument, "expected a number, a list of numbers or none, got {}", other.kind_name())
            }
        },
    };
    let list = |arg: &Arg<L>| -> Result<Option<Vec<Arg<()>>>> {
        Ok(match (arg, arg.items()) {
            (Arg::None, _) => None,
            (_, Some(items)) => Some(items.iter().map(plain).collect::<Result<_>>()?),
            (one, None) => Some(vec![plain(one)?]),
        })
    };
    let size = list(size)?
        .map(|items| {
            items
                .into_iter()
                .map(|item| match item {
                    Arg::Int(x) => Ok(Dim::new(x)),
                    Arg::Dim(dim) => Ok(dim),
                    other => bail!(Argument, "expected integers as a size, got {}", other.kind_name()),
                })
                .collect::<Result<Vec<_>>>()
        })
        .transpose()?;
    let scale = list(scale)?
        .map(|items| {
            items
                .into_iter()
                .map(|item| match item.scalar() {
                    Some(x) => Ok(x.to_f64()),
                    None => bail!(Argument, "expected numbers as a scale_factor, got {}", item.kind_name()),
                })
                .collect::<Result<Vec<_>>>()
        })
        .transpose()?;
    let flag =
        |arg: &Arg<L>| -> Result<Option<bool>> { Ok(plain(arg)?.scalar().map(fx_core::Scalar::to_bool)) };
    Ok(Request { size, scale, align_corners: flag(align)?, recompute: flag(recompute)?.unwrap_or(false) })
}

/// What a resizing does: the type of the result, and how each axis is sampled.
pub(crate) struct Plan {
    ty: TensorType,
    mode: Mode,
    align_corners: bool,
    antialias: bool,
    /// The scale that the user gave for each axis.
    scale: Option<Vec<f64>>,
}

impl Plan {
    /// Returns what a call with numbers for arguments does to an input of a type; `None` if it does something
    /// else.
    pub(crate) fn of<L: Clone>(op: Op, bound: &[Arg<L>], x: &TensorType) -> Option<Plan> {
        let read = |size, scale, align, recompute| {
            request(size, scale, align, recompute, |_: &Arg<L>| Err(unknown_type())).ok()
        };
        let (request, mode, antialias) = match bound {
            [_, size, scale, Arg::Str(mode), align, recompute, Arg::Bool(antialias)]
                if op == interpolate::OP =>
            {
                (read(size, scale, align, recompute)?, &**mode, *antialias)
            }
            [_, size, scale] if op == upsample_nearest::OP => {
                (read(size, scale, &Arg::None, &Arg::None)?, "nearest", false)
            }
            [_, size, scale] if op == upsample_bilinear::OP => {
                (read(size, scale, &Arg::Bool(true), &Arg::None)?, "bilinear", false)
            }
            _ => return None,
        };
        Plan::new(x, &request, mode, antialias).ok()
    }

    fn new(x: &TensorType, request: &Request, mode: &str, antialias: bool) -> Result<Plan> {
        let [n, c, input @ ..] = &x.shape[..] else {
            bail!(Shape, "expected an input [n, c, spatial..], got {x}")
        };
        if !(1..=3).contains(&input.len()) {
            bail!(Shape, "expected 1 to 3 spatial axes, got {x}");
        }
        let (mode, rank) = match mode {
            "nearest" => (Mode::Nearest, None),
            "nearest-exact" => (Mode::NearestExact, None),
            "area" => (Mode::Area, None),
            "linear" => (Mode::Linear, Some(1)),
            "bilinear" => (Mode::Linear, Some(2)),
            "trilinear" => (Mode::Linear, Some(3)),
            "bicubic" => (Mode::Cubic, Some(2)),
            other => {
                return Err(err!(Argument, "unknown interpolation mode {other:?}").help(
                    "modes are nearest, nearest-exact, linear, bilinear, trilinear, bicubic and area",
                ));
            }
        };
        if let Some(rank) = rank.filter(|&rank| rank != input.len()) {
            bail!(Shape, "expected {rank} spatial axes for this mode, got {x}");
        }
        let smooth = matches!(mode, Mode::Linear | Mode::Cubic);
        let is_image_of_bytes = smooth && x.dtype == DType::U8 && input.len() == 2;
        if (smooth || mode == Mode::Area) && !is_image_of_bytes {
            float_only(x.dtype)?;
        }
        if request.align_corners.is_some() && !smooth {
            bail!(Argument, "align_corners is for linear and cubic modes only");
        }
        if antialias && !(smooth && input.len() == 2) {
            bail!(Argument, "antialias is for the modes \"bilinear\" and \"bicubic\" only");
        }
        let each = |n: usize| match n {
            1 => Ok(true),
            n if n == input.len() => Ok(false),
            n => Err(err!(Argument, "expected 1 or {} numbers for the spatial axes, got {n}", input.len())),
        };
        let (output, scale): (Vec<Dim>, Option<Vec<f64>>) = match (&request.size, &request.scale) {
            (Some(size), None) => {
                if request.recompute {
                    bail!(Argument, "recompute_scale_factor is for a scale_factor, got a size");
                }
                let same = each(size.len())?;
                ((0..input.len()).map(|i| size[if same { 0 } else { i }].clone()).collect(), None)
            }
            (None, Some(scale)) => {
                let same = each(scale.len())?;
                let scale: Vec<f64> = (0..input.len()).map(|i| scale[if same { 0 } else { i }]).collect();
                if let Some(scale) = scale.iter().find(|scale| !(scale.is_finite() && **scale > 0.0)) {
                    bail!(Argument, "expected a scale_factor above 0, got {scale}");
                }
                let grown = |(size, &scale): (&Dim, &f64)| match size.known() {
                    Some(size) => Ok(Dim::new((size as f64 * scale).floor() as i64)),
                    None => scaled(size, scale),
                };
                let output = input.iter().zip(&scale).map(grown).collect::<Result<_>>()?;
                (output, (!request.recompute && mode != Mode::Area).then_some(scale))
            }
            (Some(_), Some(_)) => bail!(Argument, "expected either a size or a scale_factor, got both"),
            (None, None) => bail!(Argument, "expected a size or a scale_factor, got neither"),
        };
        for (input, output) in input.iter().zip(&output) {
            at_least("a spatial size", 1, input)?;
            at_least("a size of the result", 1, output)?;
        }
        let ty = TensorType::new(x.dtype, [n, c].into_iter().chain(&output).collect::<Shape>());
        Ok(Plan { ty, mode, align_corners: request.align_corners.unwrap_or(false), antialias, scale })
    }

    /// Returns the elements of axis `i` of `input` elements that make up each of `output`.
    pub(crate) fn taps(&self, i: usize, input: usize, output: usize) -> Taps {
        let how = self.axis(i);
        Taps::new(output, |at, tap| how.taps(at, input, output, tap))
    }

    /// Returns how axis `i` is sampled.
    pub(crate) fn axis(&self, i: usize) -> Resampling {
        let scale = self.scale.as_ref().map(|scale| scale[i]);
        let Plan { mode, align_corners, antialias, .. } = *self;
        Resampling { mode, align_corners, antialias, scale }
    }
}

/// Returns a size that is not known times a scale, rounded down. Fails unless 1024 times the scale is an integer,
/// so that the product is exact.
fn scaled(size: &Dim, scale: f64) -> Result<Dim> {
    const PARTS: i64 = 1024;
    let parts = scale * PARTS as f64;
    if parts.fract() != 0.0 || parts >= (1 << 30) as f64 {
        return Err(unknown_type());
    }
    let common = 1 << (parts as i64).trailing_zeros().min(PARTS.trailing_zeros());
    Ok((size * (parts as i64 / common)).floor_div(&Dim::new(PARTS / common)))
}

fn resized(x: &Array, request: &Request, mode: &str, antialias: bool) -> Result<Array> {
    let plan = Plan::new(&type_of(x), request, mode, antialias)?;
    let shape = sizes(&plan.ty.shape)?;
    // Asks for the memory first, so that too much of it is an error.
    drop(fx_core::array::try_vec::<f64>(checked_numel(&shape)?)?);
    let taps = |i: usize| plan.taps(i, x.shape()[i + 2], shape[i + 2]);
    let axes = 0..x.rank() - 2;
    if x.dtype() == DType::U8 && matches!(plan.mode, Mode::Linear | Mode::Cubic) {
        let mut out = dense(x, DType::U8)?;
        for i in axes.rev() {
            if !plan.axis(i).is_identity(out.shape()[i + 2], shape[i + 2]) {
                out = along_bytes(&out, i + 2, plan.axis(i), shape[i + 2])?;
            }
        }
        return Ok(out);
    }
    if !x.dtype().is_float() {
        let mut out = x.clone();
        for i in axes {
            let index = taps(i).taps.iter().map(|&(at, _)| at as i64).collect();
            let index = Array::from_vec::<i64>(index, &[shape[i + 2]])?;
            out =
                out.apply(crate::ops::view::index_select::OP, &[Arg::Int(i as i64 + 2), Arg::Leaf(index)])?;
        }
        return Ok(out);
    }
    let wide = wide(x.dtype());
    let mut out = dense(x, wide)?;
    in_float!(wide, T => {
        for i in axes.rev() {
            if !plan.axis(i).is_identity(out.shape()[i + 2], shape[i + 2]) {
                out = along::<T>(&out, i + 2, taps(i), shape[i + 2])?;
            }
        }
        Ok(out.cast(x.dtype()))
    })
}

/// Takes weighted sums along one axis of a dense image of bytes.
fn along_bytes(x: &Array, axis: usize, how: Resampling, output: usize) -> Result<Array> {
    let (input, inner) = (x.shape()[axis], x.shape()[axis + 1..].iter().product::<usize>());
    let mut shape = Sizes::from_slice(x.shape());
    shape[axis] = output;
    let mut out = blank::<u8>(checked_numel(&shape)?)?;
    let (taps, x) = (how.byte_taps(input, output), slice::<u8>(x));
    let plane = output * inner;
    fx_simd::parallel::chunks(&mut out, plane, (PARALLEL / 8).div_ceil(plane.max(1)), |i, out| {
        let x = &x[i * input * inner..][..input * inner];
        byte_lines(x, inner, &taps.starts, &taps.places, &taps.weights, taps.shift, out);
    });
    Array::from_vec(out, &shape)
}

/// Takes weighted sums along one axis of a dense array.
fn along<T: Real + Element>(x: &Array, axis: usize, taps: Taps, output: usize) -> Result<Array> {
    let inner = x.shape()[axis + 1..].iter().product();
    let mut shape = Sizes::from_slice(x.shape());
    shape[axis] = output;
    let mut out = blank::<T>(checked_numel(&shape)?)?;
    Resample::new(taps, x.shape()[axis], inner).run(slice::<T>(x), &mut out);
    Array::from_vec(out, &shape)
}
