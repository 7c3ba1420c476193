//! Softmax and normalisation.
//!
//! Half precision is computed in `f32`. Rows are reduced in a fixed order, so that results do not depend on
//! threads.

use fx_core::math::Real;
use fx_core::op::Flops::{PerOutput, Rule};
use fx_core::op::kind::{DimVec, IntVec};
use fx_core::{Array, DType, Dim, Op, Result, TensorType, bail, err, kernels};

use crate::kernel::chunks::{PARALLEL, blank};
use crate::kernel::group_norm::GroupNorm;
use crate::kernel::rows;
use crate::kernel::softmax::Softmax;
use crate::ops::check::{
    at_least, dense, float_only, in_float, known_axis, opt_dense, opt_slice, opt_type_of, same_shape, slice,
    type_of, wide,
};
use crate::ops::{flops, rowwise};

/// The tables of this file.
pub(super) static TABLES: &[&[Op]] = &[NORMALIZATION];

kernels! {
    /// Softmax and normalisation.
    pub trait Normalization; pub static NORMALIZATION;

    /// `exp(x) / sum(exp(x))` along `dim`, of floats; `dtype` converts first.
    #[flops = PerOutput(5)]
    #[rows = rowwise::softmax]
    softmax(x: Tensor, dim: Int; dtype: OptDType = None) = softmax_type, softmax_kernel;
    /// `log(softmax(x))` along `dim`, of floats; `dtype` converts first.
    #[flops = PerOutput(5)]
    #[rows = rowwise::log_softmax]
    log_softmax(x: Tensor, dim: Int; dtype: OptDType = None) = softmax_type, log_softmax_kernel;
    /// `softmax(-x)` along `dim`, of floats; `dtype` converts first.
    #[flops = PerOutput(5)]
    #[rows = rowwise::softmin]
    softmin(x: Tensor, dim: Int; dtype: OptDType = None) = softmax_type, softmin_kernel;
    /// `(x - mean) / sqrt(variance + eps) * weight + bias` over the last axes, whose sizes are `normalized_shape`.
    ///
    /// The variance is over the number of elements. Weight and bias are of `normalized_shape`.
    #[flops = PerOutput(7)]
    #[rows = rowwise::layer_norm]
    layer_norm(x: Tensor, normalized_shape: Shape, weight: OptTensor = None, bias: OptTensor = None, eps: Float = 1e-5)
        = layer_norm_type, layer_norm_kernel;
    /// `x / sqrt(mean(x^2) + eps) * weight` over the last axes, whose sizes are `normalized_shape`.
    ///
    /// Without `eps` it is the machine epsilon of the dtype.
    #[flops = PerOutput(4)]
    #[rows = rowwise::rms_norm]
    rms_norm(x: Tensor, normalized_shape: Shape, weight: OptTensor = None, eps: OptFloat = None)
        = rms_norm_type, rms_norm_kernel;
    /// Normalises `[n, c, ..]` over each of `num_groups` groups of channels; weight and bias are `[c]`.
    #[flops = PerOutput(7)]
    group_norm(x: Tensor, num_groups: Int, weight: OptTensor = None, bias: OptTensor = None; eps: Float = 1e-5)
        = group_norm_type, group_norm_kernel;
    /// `(x - mean) / sqrt(variance + eps) * weight + bias` for each channel of `[n, c, ..]`.
    ///
    /// With `training` mean and variance are those of the batch, else `running_mean` and `running_var`, which
    /// are not updated here: `momentum` is for the module that does.
    #[flops = Rule(flops::batch_norm)]
    batch_norm(x: Tensor, running_mean: OptTensor, running_var: OptTensor, weight: OptTensor = None, bias: OptTensor = None,
        training: Bool = false, momentum: Float = 0.1, eps: Float = 1e-5) = batch_norm_type, batch_norm_kernel;
    /// Normalises each channel of each item of `[n, c, ..]` by itself, or with `use_input_stats = false` by
    /// running statistics.
    #[flops = PerOutput(7)]
    instance_norm(x: Tensor, running_mean: OptTensor = None, running_var: OptTensor = None, weight: OptTensor = None,
        bias: OptTensor = None; use_input_stats: Bool = true, momentum: Float = 0.1, eps: Float = 1e-5)
        = instance_norm_type, instance_norm_kernel;
    /// `x / max(|x|_p, eps)`, the norm along `dim`.
    #[flops = PerOutput(4)]
    #[rows = rowwise::normalize]
    normalize(x: Tensor, p: Float = 2.0, dim: Int = 1; eps: Float = 1e-12) = normalize_type, normalize_kernel;
    /// `x / (k + alpha * mean of squares)^beta`, the mean over `size` neighbouring channels of `[n, c, ..]`.
    #[flops = PerOutput(6)]
    local_response_norm(x: Tensor, size: Int; alpha: Float = 1e-4, beta: Float = 0.75, k: Float = 1.0)
        = response_type, response_kernel;
}

fn softmax_type(x: &TensorType, dim: Dim, dtype: Option<DType>) -> Result<TensorType> {
    let dtype = dtype.unwrap_or(x.dtype);
    float_only(dtype)?;
    known_axis(&dim, x.rank())?;
    Ok(TensorType::new(dtype, x.shape.clone()))
}

/// Runs `run` on a row-major copy in which `axis` is the last, as rows; the result is in row-major order again.
fn along(
    x: &Array,
    axis: usize,
    dtype: DType,
    run: impl FnOnce(Array, usize) -> Result<Array>,
) -> Result<Array> {
    if x.rank() == 0 {
        return run(x.contiguous()?, 1)?.reshape(&[]).map(|y| y.cast(dtype));
    }
    let last = x.rank() - 1;
    let moved = dense(&x.transpose(axis, last)?, wide(dtype))?;
    let width = moved.shape()[last];
    run(moved, width)?.transpose(axis, last)?.cast(dtype).contiguous()
}

fn softmax_kernel(x: &Array, dim: i64, dtype: Option<DType>) -> Result<Array> {
    softmax_along(x, dim, dtype, false)
}

pub(crate) fn log_softmax_kernel(x: &Array, dim: i64, dtype: Option<DType>) -> Result<Array> {
    softmax_along(x, dim, dtype, true)
}

fn softmin_kernel(x: &Array, dim: i64, dtype: Option<DType>) -> Result<Array> {
    let ty = softmax_type(&type_of(x), dim.into(), dtype)?;
    let wide = dense(x, wide(ty.dtype))?;
    let negated = in_float!(wide.dtype(), T => {
        let mut data = wide.into_vec::<T>()?;
        fx_simd::parallel::chunks(&mut data, PARALLEL / 4, 1, |_, data| data.iter_mut().for_each(|x| *x = -*x));
        Array::from_vec(data, x.shape())
    })?;
    softmax_along(&negated, dim, Some(ty.dtype), false)
}

fn softmax_along(x: &Array, dim: i64, dtype: Option<DType>, log: bool) -> Result<Array> {
    let ty = softmax_type(&type_of(x), dim.into(), dtype)?;
    let axis = known_axis(&dim.into(), x.rank())?.unwrap_or(0);
    let x = x.cast(wide(ty.dtype));
    if let Some(softmax) = Softmax::along(x.shape(), axis, log) {
        let x = x.contiguous()?;
        return in_float!(x.dtype(), T => {
            let mut out = blank::<T>(x.numel())?;
            softmax.run(slice(&x), &mut out);
            Ok(Array::from_vec(out, x.shape())?.cast(ty.dtype))
        });
    }
    along(&x, axis, ty.dtype, |x, width| {
        in_float!(x.dtype(), T => {
            let mut out = blank::<T>(x.numel())?;
            match log {
                false => rows::softmax(slice(&x), &mut out, width),
                true => rows::log_softmax(slice(&x), &mut out, width),
            }
            Array::from_vec(out, x.shape())
        })
    })
}

/// Checks the last axes against `normalized_shape`.
fn normalized(
    x: &TensorType,
    shape: &DimVec,
    parameters: [(&str, Option<&TensorType>); 2],
) -> Result<TensorType> {
    float_only(x.dtype)?;
    if shape.is_empty() || shape.len() > x.rank() {
        bail!(Shape, "expected a normalized_shape of 1 to {} axes, got {}", x.rank(), shape.len());
    }
    same_shape("last axes", shape, &x.shape[x.rank() - shape.len()..])?;
    for (name, ty) in parameters {
        if let Some(ty) = ty {
            float_only(ty.dtype)?;
            same_shape(name, shape, &ty.shape)?;
        }
    }
    Ok(x.clone())
}

fn layer_norm_type(
    x: &TensorType,
    shape: DimVec,
    weight: Option<&TensorType>,
    bias: Option<&TensorType>,
    _eps: Option<f64>,
) -> Result<TensorType> {
    normalized(x, &shape, [("a weight", weight), ("a bias", bias)])
}

fn dims(shape: &IntVec) -> DimVec {
    shape.iter().map(|&size| Dim::new(size)).collect()
}

fn layer_norm_kernel(
    x: &Array,
    shape: IntVec,
    weight: Option<&Array>,
    bias: Option<&Array>,
    eps: f64,
) -> Result<Array> {
    let (weight_ty, bias_ty) = (opt_type_of(weight), opt_type_of(bias));
    layer_norm_type(&type_of(x), dims(&shape), weight_ty.as_ref(), bias_ty.as_ref(), None)?;
    let wide = wide(x.dtype());
    let (weight, bias) = (opt_dense(weight, wide)?, opt_dense(bias, wide)?);
    let width = x.shape()[x.rank() - shape.len()..].iter().product();
    in_float!(wide, T => {
        let data = dense(x, wide)?;
        let mut out = blank::<T>(data.numel())?;
        rows::layer_norm(slice(&data), &mut out, width, [opt_slice(&weight), opt_slice(&bias)], eps);
        Ok(Array::from_vec(out, x.shape())?.cast(x.dtype()))
    })
}

fn rms_norm_type(
    x: &TensorType,
    shape: DimVec,
    weight: Option<&TensorType>,
    _eps: Option<f64>,
) -> Result<TensorType> {
    normalized(x, &shape, [("a weight", weight), ("a bias", None)])
}

fn rms_norm_kernel(x: &Array, shape: IntVec, weight: Option<&Array>, eps: Option<f64>) -> Result<Array> {
    rms_norm_type(&type_of(x), dims(&shape), opt_type_of(weight).as_ref(), None)?;
    let wide = wide(x.dtype());
    let eps = eps.or(x.dtype().epsilon()).unwrap_or(0.0);
    let weight = opt_dense(weight, wide)?;
    let width = x.shape()[x.rank() - shape.len()..].iter().product();
    in_float!(wide, T => {
        let data = dense(x, wide)?;
        let mut out = blank::<T>(data.numel())?;
        rows::rms_norm(slice(&data), &mut out, width, opt_slice(&weight), eps);
        Ok(Array::from_vec(out, x.shape())?.cast(x.dtype()))
    })
}

/// Checks `[n, c, ..]` and parameters of one number a channel.
fn channels(x: &TensorType, least_rank: usize, parameters: [(&str, Option<&TensorType>); 4]) -> Result<()> {
    float_only(x.dtype)?;
    if x.rank() < least_rank {
        bail!(Shape, "expected an input [n, c, ..] of rank {least_rank} or more, got {x}");
    }
    for (name, ty) in parameters {
        if let Some(ty) = ty {
            float_only(ty.dtype)?;
            same_shape(name, &x.shape[1..2], &ty.shape)?;
        }
    }
    Ok(())
}

fn group_norm_type(
    x: &TensorType,
    groups: Dim,
    weight: Option<&TensorType>,
    bias: Option<&TensorType>,
    _eps: Option<f64>,
) -> Result<TensorType> {
    channels(x, 2, [("a weight", weight), ("a bias", bias), ("", None), ("", None)])?;
    at_least("num_groups", 1, &groups)?;
    if x.shape[1].modulo(&groups).same(&Dim::new(0)).is_no() {
        bail!(Shape, "expected channels in multiples of num_groups {groups}, got {}", x.shape[1]);
    }
    Ok(x.clone())
}

fn group_norm_kernel(
    x: &Array,
    groups: i64,
    weight: Option<&Array>,
    bias: Option<&Array>,
    eps: f64,
) -> Result<Array> {
    let (weight_ty, bias_ty) = (opt_type_of(weight), opt_type_of(bias));
    group_norm_type(&type_of(x), groups.into(), weight_ty.as_ref(), bias_ty.as_ref(), None)?;
    let wide = wide(x.dtype());
    let (weight, bias) = (opt_dense(weight, wide)?, opt_dense(bias, wide)?);
    let n_channels = x.shape()[1];
    let plane: usize = x.shape()[2..].iter().product();
    let norm = GroupNorm { channels: n_channels, plane, groups: groups as usize, eps };
    in_float!(wide, T => {
        let data = dense(x, wide)?;
        let mut out = blank::<T>(data.numel())?;
        norm.run(slice(&data), &mut out, [opt_slice(&weight), opt_slice(&bias)]);
        Ok(Array::from_vec(out, x.shape())?.cast(x.dtype()))
    })
}

#[expect(clippy::too_many_arguments, reason = "PyTorch's schema")]
fn batch_norm_type(
    x: &TensorType,
    mean: Option<&TensorType>,
    variance: Option<&TensorType>,
    weight: Option<&TensorType>,
    bias: Option<&TensorType>,
    training: bool,
    _momentum: Option<f64>,
    _eps: Option<f64>,
) -> Result<TensorType> {
    if x.rank() == 1 && !x.shape[0].same(&Dim::new(0)).is_no() {
        // PyTorch takes a vector without elements and gives it back.
        float_only(x.dtype)?;
        return Ok(x.clone());
    }
    channels(
        x,
        2,
        [("a running_mean", mean), ("a running_var", variance), ("a weight", weight), ("a bias", bias)],
    )?;
    if !training && (mean.is_none() || variance.is_none()) {
        return Err(err!(Argument, "expected running_mean and running_var, for training is false")
            .help("pass training = true to take the statistics of the batch"));
    }
    let per_channel = || &x.shape[0] * &x.shape[2..].iter().product::<Dim>();
    if training && per_channel().same(&Dim::new(1)).is_yes() {
        bail!(Shape, "expected more than 1 value for each channel in training, got {x}");
    }
    Ok(x.clone())
}

#[expect(clippy::too_many_arguments, reason = "PyTorch's schema")]
fn batch_norm_kernel(
    x: &Array,
    mean: Option<&Array>,
    variance: Option<&Array>,
    weight: Option<&Array>,
    bias: Option<&Array>,
    training: bool,
    _momentum: f64,
    eps: f64,
) -> Result<Array> {
    let types = [mean, variance, weight, bias].map(opt_type_of);
    let [mean_ty, variance_ty, weight_ty, bias_ty] = types.each_ref().map(Option::as_ref);
    batch_norm_type(&type_of(x), mean_ty, variance_ty, weight_ty, bias_ty, training, None, None)?;
    let wide = wide(x.dtype());
    let [mean, variance, weight, bias] = [mean, variance, weight, bias].map(|x| opt_dense(x, wide));
    let (mean, variance, weight, bias) = (mean?, variance?, weight?, bias?);
    if x.rank() == 1 {
        return Ok(x.clone());
    }
    let n_channels = x.shape()[1];
    let plane: usize = x.shape()[2..].iter().product();
    if training {
        let norm = GroupNorm { channels: n_channels, plane, groups: n_channels, eps };
        return in_float!(wide, T => {
            let data = dense(x, wide)?;
            let mut out = blank::<T>(data.numel())?;
            norm.run_across(slice(&data), &mut out, [opt_slice(&weight), opt_slice(&bias)]);
            Ok(Array::from_vec(out, x.shape())?.cast(x.dtype()))
        });
    }
    in_float!(wide, T => {
        let mut out = x.cast(wide).to_vec::<T>()?;
        let (weight, bias) = (opt_slice::<T>(&weight), opt_slice::<T>(&bias));
        let (mean, variance) = (opt_slice::<T>(&mean).unwrap_or(&[]), opt_slice::<T>(&variance).unwrap_or(&[]));
        let factors: Vec<(T, T)> = mean.iter().zip(variance).enumerate().map(|(channel, (&mean, &variance))| {
            let scale = T::ONE / Real::sqrt(variance + T::from_f64(eps)) * weight.map_or(T::ONE, |weight| weight[channel]);
            (scale, bias.map_or(T::ZERO, |bias| bias[channel]) - mean * scale)
        }).collect();
        rows::scale_rows(&mut out, plane, |i| factors[i % n_channels]);
        Ok(Array::from_vec(out, x.shape())?.cast(x.dtype()))
    })
}

#[expect(clippy::too_many_arguments, reason = "PyTorch's schema")]
fn instance_norm_type(
    x: &TensorType,
    mean: Option<&TensorType>,
    variance: Option<&TensorType>,
    weight: Option<&TensorType>,
    bias: Option<&TensorType>,
    use_input_stats: bool,
    _momentum: Option<f64>,
    _eps: Option<f64>,
) -> Result<TensorType> {
    channels(
        x,
        3,
        [("a running_mean", mean), ("a running_var", variance), ("a weight", weight), ("a bias", bias)],
    )?;
    if !use_input_stats && (mean.is_none() || variance.is_none()) {
        bail!(Argument, "expected running_mean and running_var, for use_input_stats is false");
    }
    Ok(x.clone())
}

#[expect(clippy::too_many_arguments, reason = "PyTorch's schema")]
fn instance_norm_kernel(
    x: &Array,
    mean: Option<&Array>,
    variance: Option<&Array>,
    weight: Option<&Array>,
    bias: Option<&Array>,
    use_input_stats: bool,
    momentum: f64,
    eps: f64,
) -> Result<Array> {
    let types = [mean, variance, weight, bias].map(opt_type_of);
    let [mean_ty, variance_ty, weight_ty, bias_ty] = types.each_ref().map(Option::as_ref);
    instance_norm_type(&type_of(x), mean_ty, variance_ty, weight_ty, bias_ty, use_input_stats, None, None)?;
    if !use_input_stats {
        return batch_norm_kernel(x, mean, variance, weight, bias, false, momentum, eps);
    }
    group_norm_kernel(x, x.shape()[1].max(1) as i64, weight, bias, eps)
}

fn normalize_type(x: &TensorType, _p: Option<f64>, dim: Dim, _eps: Option<f64>) -> Result<TensorType> {
    float_only(x.dtype)?;
    known_axis(&dim, x.rank())?;
    Ok(x.clone())
}

fn normalize_kernel(x: &Array, p: f64, dim: i64, eps: f64) -> Result<Array> {
    normalize_type(&type_of(x), None, dim.into(), None)?;
    let axis = known_axis(&dim.into(), x.rank())?.unwrap_or(0);
    along(&x.cast(wide(x.dtype())), axis, x.dtype(), |x, width| {
        in_float!(x.dtype(), T => {
            let mut out = x.to_vec::<T>()?;
            rows::for_each_row(&mut out, width, |_, row| normalize_row(row, p, eps));
            Array::from_vec(out, x.shape())
        })
    })
}

/// Divides a row by its `p`-norm, or by `eps` if that is greater.
pub(super) fn normalize_row<T: Real>(row: &mut [T], p: f64, eps: f64) {
    let (norm, eps) = (norm(row, p), T::from_f64(eps));
    let divisor = if norm < eps { eps } else { norm };
    row.iter_mut().for_each(|x| *x = *x / divisor);
}

/// Returns the `p`-norm of a row.
pub(crate) fn norm<T: Real>(row: &[T], p: f64) -> T {
    if p == 2.0 {
        return Real::sqrt(rows::sum(row, |x| x * x));
    }
    if p == 1.0 {
        return rows::sum(row, |x| Real::abs(x));
    }
    if p == 0.0 {
        return rows::sum(row, |x| if x == T::ZERO { T::ZERO } else { T::ONE });
    }
    if p.is_infinite() {
        let start = if p > 0.0 { T::ZERO } else { T::INFINITY };
        let pick = |best: T, &x: &T| {
            let x = Real::abs(x);
            if p > 0.0 { fx_core::math::maximum(best, x) } else { fx_core::math::minimum(best, x) }
        };
        return row.iter().fold(start, pick);
    }
    let power = T::from_f64(p);
    Real::pow(rows::sum(row, |x| Real::pow(Real::abs(x), power)), T::ONE / power)
}

fn response_type(
    x: &TensorType,
    size: Dim,
    _a: Option<f64>,
    _b: Option<f64>,
    _k: Option<f64>,
) -> Result<TensorType> {
    let dtype = if x.dtype.is_float() { x.dtype } else { DType::F32 };
    let ty = TensorType { dtype, shape: x.shape.clone() };
    channels(&ty, 3, [("", None); 4])?;
    at_least("a size of neighbourhoods", 1, &size)?;
    Ok(ty)
}

fn response_kernel(x: &Array, size: i64, alpha: f64, beta: f64, k: f64) -> Result<Array> {
    let ty = response_type(&type_of(x), size.into(), None, None, None)?;
    let wide = wide(ty.dtype);
    let dense = dense(x, wide)?;
    let channels = x.shape()[1];
    let plane: usize = x.shape()[2..].iter().product();
    let (before, after) = ((size / 2) as usize, ((size - 1) / 2) as usize);
    in_float!(wide, T => {
        let x_data = slice::<T>(&dense);
        let mut out = x_data.to_vec();
        rows::for_each_row(&mut out, plane, |i, row| {
            let (first, channel) = (i - i % channels, i % channels);
            let range = channel.saturating_sub(before)..channel.saturating_add(after).saturating_add(1).min(channels);
            for (at, x) in row.iter_mut().enumerate() {
                let squares = range.clone().fold(T::ZERO, |sum, channel| {
                    let x = x_data[(first + channel) * plane + at];
                    sum + x * x
                });
                let base = T::from_f64(k) + T::from_f64(alpha) * (squares / T::from_f64(size as f64));
                *x /= Real::pow(base, T::from_f64(beta));
            }
        });
        Ok(Array::from_vec(out, x.shape())?.cast(ty.dtype))
    })
}
