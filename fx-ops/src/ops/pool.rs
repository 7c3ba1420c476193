//! Pooling: one number for each window over one to three spatial axes.
//!
//! Inputs are `[batch, channels, spatial..]` or, without a batch, `[channels, spatial..]`. Half precision is
//! computed in `f32`, integers in `f64`, which is exact up to 2^53.

use fx_core::op::Flops::{PerInput, Rule};
use fx_core::op::kind::{self, IntVec, IntoType, IntoValue};
use fx_core::op::{ParamKind, unknown_type};
use fx_core::{
    Arg, Array, DType, Dim, Op, Result, Shape, Tensor, TensorType, TypeTree, Value, bail, kernels,
};

use crate::kernel::pool::{self, Divisor, PoolSpec};
use crate::ops::check::{at_least, dense, float_only, in_float, sizes, slice, type_of, zeroed};
use crate::ops::conv::{each, float_for, spatial, unsigned};
use crate::ops::flops;
use crate::ops::reduce::mean_array;

/// The tables of this file.
pub(super) static TABLES: &[&[Op]] = &[POOLING];

kernels! {
    /// Pooling: one number for each window.
    pub trait Pooling; pub static POOLING;

    /// The maximum of windows over the last axis. A window is `kernel_size` elements `dilation` apart;
    /// windows are `stride`, if nothing is given `kernel_size`, apart; the border of `padding` is minus
    /// infinity.
    ///
    /// The new size is `(l + 2 padding - dilation (k - 1) - 1) / stride + 1`, rounded up with `ceil_mode` if
    /// the last window begins inside the input or its left border. NaN is the maximum of its windows. With
    /// `return_indices` the result is that of `max_pool1d_with_indices`.
    #[flops = Rule(flops::pool::<1>)]
    max_pool1d(x: Tensor, kernel_size: Ints, stride: OptInts = None, padding: Ints = &[0]; dilation: Ints = &[1],
        ceil_mode: Bool = false, return_indices: Bool = false) = max_type::<1>, max_kernel::<1>;
    /// The maximum of windows over the last two axes, as in `max_pool1d`.
    #[flops = Rule(flops::pool::<2>)]
    max_pool2d(x: Tensor, kernel_size: Ints, stride: OptInts = None, padding: Ints = &[0]; dilation: Ints = &[1],
        ceil_mode: Bool = false, return_indices: Bool = false) = max_type::<2>, max_kernel::<2>;
    /// The maximum of windows over the last three axes, as in `max_pool1d`.
    #[flops = Rule(flops::pool::<3>)]
    max_pool3d(x: Tensor, kernel_size: Ints, stride: OptInts = None, padding: Ints = &[0]; dilation: Ints = &[1],
        ceil_mode: Bool = false, return_indices: Bool = false) = max_type::<3>, max_kernel::<3>;
    /// `max_pool1d` and the flat position of each maximum in its plane.
    #[flops = Rule(flops::pool::<1>)]
    max_pool1d_with_indices(x: Tensor, kernel_size: Ints, stride: OptInts = None, padding: Ints = &[0];
        dilation: Ints = &[1], ceil_mode: Bool = false) -> (Tensor, Tensor) = max_indices_type::<1>, max_indices_kernel::<1>;
    /// `max_pool2d` and the flat position of each maximum in its plane.
    #[flops = Rule(flops::pool::<2>)]
    max_pool2d_with_indices(x: Tensor, kernel_size: Ints, stride: OptInts = None, padding: Ints = &[0];
        dilation: Ints = &[1], ceil_mode: Bool = false) -> (Tensor, Tensor) = max_indices_type::<2>, max_indices_kernel::<2>;
    /// `max_pool3d` and the flat position of each maximum in its plane.
    #[flops = Rule(flops::pool::<3>)]
    max_pool3d_with_indices(x: Tensor, kernel_size: Ints, stride: OptInts = None, padding: Ints = &[0];
        dilation: Ints = &[1], ceil_mode: Bool = false) -> (Tensor, Tensor) = max_indices_type::<3>, max_indices_kernel::<3>;
    /// The average of windows over the last axis; sizes are as in `max_pool1d`, the border is zeros.
    ///
    /// It is the sum over the elements of the window in the input and, with `count_include_pad`, its border.
    #[flops = Rule(flops::pool::<1>)]
    avg_pool1d(x: Tensor, kernel_size: Ints, stride: OptInts = None, padding: Ints = &[0]; ceil_mode: Bool = false,
        count_include_pad: Bool = true) = avg1_type, avg1_kernel;
    /// The average of windows over the last two axes, as in `avg_pool1d`; `divisor_override` is what sums are
    /// divided by.
    #[flops = Rule(flops::pool::<2>)]
    avg_pool2d(x: Tensor, kernel_size: Ints, stride: OptInts = None, padding: Ints = &[0]; ceil_mode: Bool = false,
        count_include_pad: Bool = true, divisor_override: OptInt = None) = avg_type::<2>, avg_kernel::<2>;
    /// The average of windows over the last three axes, as in `avg_pool2d`.
    #[flops = Rule(flops::pool::<3>)]
    avg_pool3d(x: Tensor, kernel_size: Ints, stride: OptInts = None, padding: Ints = &[0]; ceil_mode: Bool = false,
        count_include_pad: Bool = true, divisor_override: OptInt = None) = avg_type::<3>, avg_kernel::<3>;
    /// The averages of `output_size` nearly equal parts of the last axis.
    #[flops = PerInput(1)]
    adaptive_avg_pool1d(x: Tensor, output_size: Any) = adaptive_type::<1>, adaptive_avg::<1>;
    /// The averages of `output_size` nearly equal parts of the last two axes; none in a list keeps the size
    /// of its axis.
    #[flops = PerInput(1)]
    adaptive_avg_pool2d(x: Tensor, output_size: Any) = adaptive_type::<2>, adaptive_avg::<2>;
    /// The averages of `output_size` nearly equal parts of the last three axes; none in a list keeps the size
    /// of its axis.
    #[flops = PerInput(1)]
    adaptive_avg_pool3d(x: Tensor, output_size: Any) = adaptive_type::<3>, adaptive_avg::<3>;
    /// The maxima of `output_size` nearly equal parts of the last axis.
    #[flops = PerInput(1)]
    adaptive_max_pool1d(x: Tensor, output_size: Any; return_indices: Bool = false) = adaptive_max_type::<1>, adaptive_max::<1>;
    /// The maxima of `output_size` nearly equal parts of the last two axes; none in a list keeps the size of
    /// its axis.
    #[flops = PerInput(1)]
    adaptive_max_pool2d(x: Tensor, output_size: Any; return_indices: Bool = false) = adaptive_max_type::<2>, adaptive_max::<2>;
    /// The maxima of `output_size` nearly equal parts of the last three axes; none in a list keeps the size
    /// of its axis.
    #[flops = PerInput(1)]
    adaptive_max_pool3d(x: Tensor, output_size: Any; return_indices: Bool = false) = adaptive_max_type::<3>, adaptive_max::<3>;
    /// `adaptive_max_pool1d` and the flat position of each maximum in its plane.
    #[flops = PerInput(1)]
    adaptive_max_pool1d_with_indices(x: Tensor, output_size: Any) -> (Tensor, Tensor)
        = adaptive_indices_type::<1>, adaptive_max_indices::<1>;
    /// `adaptive_max_pool2d` and the flat position of each maximum in its plane.
    #[flops = PerInput(1)]
    adaptive_max_pool2d_with_indices(x: Tensor, output_size: Any) -> (Tensor, Tensor)
        = adaptive_indices_type::<2>, adaptive_max_indices::<2>;
    /// `adaptive_max_pool3d` and the flat position of each maximum in its plane.
    #[flops = PerInput(1)]
    adaptive_max_pool3d_with_indices(x: Tensor, output_size: Any) -> (Tensor, Tensor)
        = adaptive_indices_type::<3>, adaptive_max_indices::<3>;
}

/// Returns the windows of a pooling.
pub(crate) fn pool_spec<const N: usize>(
    kernel: &[i64],
    stride: Option<&IntVec>,
    padding: &[i64],
    dilation: &[i64],
    ceil_mode: bool,
) -> Result<PoolSpec> {
    let kernel = each::<N>("kernel_size", kernel, 1)?;
    let stride = match stride {
        Some(stride) if !stride.is_empty() => each("stride", stride, 1)?,
        _ => kernel,
    };
    let padding = each::<N>("padding", padding, 0)?;
    let dilation = each::<N>("dilation", dilation, 1)?;
    // A dilated window counts with its gaps.
    let span = |i: usize| dilation[i].saturating_mul(kernel[i] - 1).saturating_add(1);
    if let Some(i) = (0..N).find(|&i| padding[i] > span(i) / 2) {
        bail!(Argument, "expected a padding of at most half the window of {}, got {}", span(i), padding[i]);
    }
    Ok(PoolSpec {
        kernel: unsigned(&kernel)?,
        stride: unsigned(&stride)?,
        padding: unsigned(&padding)?,
        dilation: unsigned(&dilation)?,
        ceil_mode,
    })
}

fn pool_type<const N: usize>(x: &TensorType, spec: &PoolSpec) -> Result<TensorType> {
    if x.dtype == DType::Bool {
        bail!(DType, "expected numbers, got bool");
    }
    let (leading, input) = spatial::<N>(x)?;
    let mut shape: Shape = leading.iter().collect();
    for (i, input) in input.iter().enumerate() {
        let number = |x: usize| Dim::from(x);
        let (stride, padding) = (number(spec.stride[i]), number(spec.padding[i]));
        let span = number(spec.dilation[i]) * (number(spec.kernel[i]) - 1) + 1;
        let rest = input + 2 * &padding - span;
        let size = if spec.ceil_mode {
            // The second number is that of the windows which begin in the input or its left border.
            (rest.ceil_div(&stride) + 1).min(&(input + &padding).ceil_div(&stride))
        } else {
            rest.floor_div(&stride) + 1
        };
        at_least(format_args!("a size of axis {i} after pooling {x} by {:?}", spec.kernel), 1, &size)?;
        shape.dims_mut().push(size);
    }
    Ok(TensorType::new(x.dtype, shape))
}

/// Runs a pooling on planes.
macro_rules! pooled {
    ($x:expr, $ty:expr, $N:ident, |$data:ident: $T:ident, $input:ident, $output:ident, $out:ident| $run:expr) => {{
        let (x, ty) = ($x, $ty);
        let wide = float_for(x.dtype());
        let shape = sizes(&ty.shape)?;
        let numel = fx_core::array::checked_numel(&shape)?;
        let (dtype, x) = (x.dtype(), dense(x, wide)?);
        let ($input, $output) = (&x.shape()[x.rank() - $N..], &shape[shape.len() - $N..]);
        let _ = $output;
        in_float!(wide, $T => {
            let mut $out = zeroed::<$T>(numel)?;
            let $data = slice::<$T>(&x);
            $run?;
            Ok(Array::from_vec($out, &shape)?.cast(dtype))
        })
    }};
}

/// Returns positions as an array beside their maxima.
fn with_indices(out: &TensorType, run: impl FnOnce(&mut [i64]) -> Result<Array>) -> Result<(Array, Array)> {
    let shape = sizes(&out.shape)?;
    let mut indices = zeroed::<i64>(fx_core::array::checked_numel(&shape)?)?;
    let out = run(&mut indices)?;
    Ok((out, Array::from_vec(indices, &shape)?))
}

fn pair_type(ty: TensorType) -> (TensorType, TensorType) {
    let indices = TensorType::new(DType::I64, ty.shape.clone());
    (ty, indices)
}

/// Returns what a pooling gives: the maxima, or with `return_indices` also their positions.
fn maxima_type(ty: TensorType, return_indices: bool) -> TypeTree {
    if return_indices { pair_type(ty).into_type() } else { ty.into() }
}

fn max_type<const N: usize>(
    x: &TensorType,
    kernel: IntVec,
    stride: Option<IntVec>,
    padding: IntVec,
    dilation: IntVec,
    ceil_mode: bool,
    return_indices: bool,
) -> Result<TypeTree> {
    let spec = pool_spec::<N>(&kernel, stride.as_ref(), &padding, &dilation, ceil_mode)?;
    Ok(maxima_type(pool_type::<N>(x, &spec)?, return_indices))
}

fn max_kernel<const N: usize>(
    x: &Array,
    kernel: IntVec,
    stride: Option<IntVec>,
    padding: IntVec,
    dilation: IntVec,
    ceil_mode: bool,
    return_indices: bool,
) -> Result<Value> {
    if return_indices {
        return max_indices_kernel::<N>(x, kernel, stride, padding, dilation, ceil_mode)
            .map(IntoValue::into_value);
    }
    let spec = pool_spec::<N>(&kernel, stride.as_ref(), &padding, &dilation, ceil_mode)?;
    let ty = pool_type::<N>(&type_of(x), &spec)?;
    let out: Array =
        pooled!(x, &ty, N, |data: T, input, output, out| pool::max_pool(&spec, data, input, &mut out, None))?;
    Ok(out.into_value())
}

fn max_indices_type<const N: usize>(
    x: &TensorType,
    kernel: IntVec,
    stride: Option<IntVec>,
    padding: IntVec,
    dilation: IntVec,
    ceil_mode: bool,
) -> Result<(TensorType, TensorType)> {
    pool_type::<N>(x, &pool_spec::<N>(&kernel, stride.as_ref(), &padding, &dilation, ceil_mode)?)
        .map(pair_type)
}

fn max_indices_kernel<const N: usize>(
    x: &Array,
    kernel: IntVec,
    stride: Option<IntVec>,
    padding: IntVec,
    dilation: IntVec,
    ceil_mode: bool,
) -> Result<(Array, Array)> {
    let spec = pool_spec::<N>(&kernel, stride.as_ref(), &padding, &dilation, ceil_mode)?;
    let ty = pool_type::<N>(&type_of(x), &spec)?;
    with_indices(&ty, |indices| {
        pooled!(x, &ty, N, |data: T, input, output, out| {
            pool::max_pool(&spec, data, input, &mut out, Some(indices))
        })
    })
}

fn avg_type<const N: usize>(
    x: &TensorType,
    kernel: IntVec,
    stride: Option<IntVec>,
    padding: IntVec,
    ceil_mode: bool,
    _count_include_pad: bool,
    divisor: Option<Dim>,
) -> Result<TensorType> {
    if divisor.is_some_and(|divisor| divisor.known() == Some(0)) {
        bail!(Argument, "expected a divisor_override that is not 0");
    }
    if x.dtype != DType::I64 {
        float_only(x.dtype)?;
    }
    pool_type::<N>(x, &pool_spec::<N>(&kernel, stride.as_ref(), &padding, &[1], ceil_mode)?)
}

fn avg_kernel<const N: usize>(
    x: &Array,
    kernel: IntVec,
    stride: Option<IntVec>,
    padding: IntVec,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor: Option<i64>,
) -> Result<Array> {
    let spec = pool_spec::<N>(&kernel, stride.as_ref(), &padding, &[1], ceil_mode)?;
    let ty = avg_type::<N>(
        &type_of(x),
        kernel,
        stride,
        padding,
        ceil_mode,
        count_include_pad,
        divisor.map(Dim::new),
    )?;
    let divisor = match divisor {
        Some(divisor) => Divisor::Override(divisor),
        None if count_include_pad => Divisor::IncludePadding,
        None => Divisor::ExcludePadding,
    };
    pooled!(x, &ty, N, |data: T, input, output, out| pool::avg_pool(&spec, data, input, divisor, &mut out))
}

fn avg1_type(
    x: &TensorType,
    kernel: IntVec,
    stride: Option<IntVec>,
    padding: IntVec,
    ceil_mode: bool,
    count_include_pad: bool,
) -> Result<TensorType> {
    avg_type::<1>(x, kernel, stride, padding, ceil_mode, count_include_pad, None)
}

fn avg1_kernel(
    x: &Array,
    kernel: IntVec,
    stride: Option<IntVec>,
    padding: IntVec,
    ceil_mode: bool,
    count_include_pad: bool,
) -> Result<Array> {
    avg_kernel::<1>(x, kernel, stride, padding, ceil_mode, count_include_pad, None)
}

/// Returns the sizes that an adaptive pooling is asked for; none keeps that of the input.
fn output_size<L>(arg: &Arg<L>, input: &[Dim], unknown: impl Fn(&Arg<L>) -> Result<Dim>) -> Result<Vec<Dim>> {
    let one = |arg: &Arg<L>, input: &Dim| match arg {
        Arg::None => Ok(input.clone()),
        Arg::Int(x) => Ok(Dim::new(*x)),
        Arg::Dim(x) => Ok(x.clone()),
        arg @ Arg::Leaf(_) => unknown(arg),
        other => bail!(Argument, "expected an integer or none as an output size, got {}", other.kind_name()),
    };
    match arg.items() {
        None => input.iter().map(|input| one(arg, input)).collect(),
        Some([item]) => input.iter().map(|input| one(item, input)).collect(),
        Some(items) if items.len() == input.len() => {
            items.iter().zip(input).map(|(item, input)| one(item, input)).collect()
        }
        Some(items) => bail!(Argument, "expected {} output sizes, got {}", input.len(), items.len()),
    }
}

fn adaptive_shape<const N: usize, L>(
    x: &TensorType,
    arg: &Arg<L>,
    unknown: impl Fn(&Arg<L>) -> Result<Dim>,
) -> Result<TensorType> {
    float_only(x.dtype)?;
    let (leading, input) = spatial::<N>(x)?;
    let output = output_size(arg, input, unknown)?;
    for (input, output) in input.iter().zip(&output) {
        at_least("an output size", 0, output)?;
        if !output.same(&Dim::new(0)).is_yes() {
            at_least("a spatial size", 1, input)?;
        }
    }
    Ok(TensorType::new(x.dtype, leading.iter().chain(&output).collect::<Shape>()))
}

fn adaptive_type<const N: usize>(x: &TensorType, arg: &TypeTree) -> Result<TensorType> {
    adaptive_shape::<N, _>(x, arg, |_| Err(unknown_type()))
}

fn adaptive_indices_type<const N: usize>(x: &TensorType, arg: &TypeTree) -> Result<(TensorType, TensorType)> {
    adaptive_type::<N>(x, arg).map(pair_type)
}

fn adaptive_value<const N: usize>(x: &Array, arg: &Value) -> Result<TensorType> {
    adaptive_shape::<N, _>(&type_of(x), arg, |arg| <kind::Int as ParamKind>::value(arg).map(Dim::new))
}

fn adaptive_avg<const N: usize>(x: &Array, arg: &Value) -> Result<Array> {
    let ty = adaptive_value::<N>(x, arg)?;
    let is_one = ty.shape.iter().rev().take(N).all(|size| size.known() == Some(1));
    if is_one && ty.dtype.is_float() && !x.is_empty() {
        // The mean of all: there is a loop for that.
        return mean_array(x, Some((-(N as i64)..0).collect()), true, None);
    }
    pooled!(x, &ty, N, |data: T, input, output, out| pool::adaptive_avg_pool(data, input, output, &mut out))
}

fn adaptive_max_type<const N: usize>(
    x: &TensorType,
    arg: &TypeTree,
    return_indices: bool,
) -> Result<TypeTree> {
    Ok(maxima_type(adaptive_type::<N>(x, arg)?, return_indices))
}

fn adaptive_max<const N: usize>(x: &Array, arg: &Value, return_indices: bool) -> Result<Value> {
    if return_indices {
        return adaptive_max_indices::<N>(x, arg).map(IntoValue::into_value);
    }
    let ty = adaptive_value::<N>(x, arg)?;
    let out: Array = pooled!(x, &ty, N, |data: T, input, output, out| pool::adaptive_max_pool(
        data, input, output, &mut out, None
    ))?;
    Ok(out.into_value())
}

fn adaptive_max_indices<const N: usize>(x: &Array, arg: &Value) -> Result<(Array, Array)> {
    let ty = adaptive_value::<N>(x, arg)?;
    with_indices(&ty, |indices| {
        pooled!(x, &ty, N, |data: T, input, output, out| {
            pool::adaptive_max_pool(data, input, output, &mut out, Some(indices))
        })
    })
}
