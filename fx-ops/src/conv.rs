//! Convolutions, pooling and padding: windows over one to three spatial axes.
//!
//! Inputs are `[batch, channels, spatial..]` or, without a batch, `[channels, spatial..]`. Half precision is computed in
//! `f32`, integers in `f64`, which is exact up to 2^53.

use fx_core::op::Default::Int;
use fx_core::op::kind::{self, IntVec};
use fx_core::op::{ParamKind, unknown_type};
use fx_core::{
    Arg, Array, DType, Dim, Op, Result, Scalar, Shape, Tensor, TensorType, TypeTree, Value, bail, err,
    kernels,
};

use crate::check::{
    at_least, dense, float_only, in_float, opt_dense, opt_slice, opt_type_of, same_dtype, same_shape, sizes,
    slice, type_of, wide, zeroed,
};
use crate::kernel::conv::{ConvSpec, conv_nd};
use crate::kernel::pad::{Mode, pad_array};
use crate::kernel::pool::{self, Divisor, PoolSpec};

/// The tables of this file.
pub static TABLES: &[&[Op]] = &[CONVOLUTION, POOLING, PADDING];

kernels! {
    /// Convolutions.
    pub trait Convolution; pub static CONVOLUTION;

    /// Convolves `[n, c, l]` with `[out, c / groups, k]`; adds `bias[out]`.
    ///
    /// The new size is `(l + 2 padding - dilation (k - 1) - 1) / stride + 1`. `padding` is one number, one for each axis,
    /// `"valid"` for none, or `"same"` (stride 1 only) for as much as keeps the size.
    conv1d(x: Tensor, weight: Tensor, bias: OptTensor = None, stride: Ints = &[1], padding: Any = Int(0);
        dilation: Ints = &[1], groups: Int = 1) = conv_type::<1>, conv_kernel::<1>;
    /// Convolves `[n, c, h, w]` with `[out, c / groups, kh, kw]`; adds `bias[out]`. The rest is as in `conv1d`.
    conv2d(x: Tensor, weight: Tensor, bias: OptTensor = None, stride: Ints = &[1], padding: Any = Int(0);
        dilation: Ints = &[1], groups: Int = 1) = conv_type::<2>, conv_kernel::<2>;
    /// Convolves `[n, c, d, h, w]` with `[out, c / groups, kd, kh, kw]`; adds `bias[out]`. The rest is as in `conv1d`.
    conv3d(x: Tensor, weight: Tensor, bias: OptTensor = None, stride: Ints = &[1], padding: Any = Int(0);
        dilation: Ints = &[1], groups: Int = 1) = conv_type::<3>, conv_kernel::<3>;
    /// The transposed convolution of `[n, c, l]` with `[c, out / groups, k]`; adds `bias[out]`.
    ///
    /// The new size is `(l - 1) stride - 2 padding + dilation (k - 1) + output_padding + 1`.
    conv_transpose1d(x: Tensor, weight: Tensor, bias: OptTensor = None, stride: Ints = &[1], padding: Ints = &[0];
        output_padding: Ints = &[0], groups: Int = 1, dilation: Ints = &[1]) = transpose_type::<1>, transpose_kernel::<1>;
    /// The transposed convolution of `[n, c, h, w]` with `[c, out / groups, kh, kw]`. The rest is as in `conv_transpose1d`.
    conv_transpose2d(x: Tensor, weight: Tensor, bias: OptTensor = None, stride: Ints = &[1], padding: Ints = &[0];
        output_padding: Ints = &[0], groups: Int = 1, dilation: Ints = &[1]) = transpose_type::<2>, transpose_kernel::<2>;
    /// The transposed convolution of `[n, c, d, h, w]` with `[c, out / groups, kd, kh, kw]`. The rest is as in
    /// `conv_transpose1d`.
    conv_transpose3d(x: Tensor, weight: Tensor, bias: OptTensor = None, stride: Ints = &[1], padding: Ints = &[0];
        output_padding: Ints = &[0], groups: Int = 1, dilation: Ints = &[1]) = transpose_type::<3>, transpose_kernel::<3>;
    /// The convolution of any rank, plain or transposed, as ATen has it.
    convolution(x: Tensor, weight: Tensor, bias: OptTensor = None, stride: Ints = &[1], padding: Ints = &[0],
        dilation: Ints = &[1], transposed: Bool = false, output_padding: Ints = &[0], groups: Int = 1)
        = convolution_type, convolution_kernel;
}

kernels! {
    /// Pooling: one number for each window.
    pub trait Pooling; pub static POOLING;

    /// The maximum of windows over the last axis. A window is `kernel_size` elements `dilation` apart; windows are `stride`,
    /// if nothing is given `kernel_size`, apart; the border of `padding` is minus infinity.
    ///
    /// The new size is `(l + 2 padding - dilation (k - 1) - 1) / stride + 1`, rounded up with `ceil_mode` if the last window
    /// begins inside the input or its left border. NaN is the maximum of its windows.
    max_pool1d(x: Tensor, kernel_size: Ints, stride: OptInts = None, padding: Ints = &[0]; dilation: Ints = &[1],
        ceil_mode: Bool = false) = max_type::<1>, max_kernel::<1>;
    /// The maximum of windows over the last two axes, as in `max_pool1d`.
    max_pool2d(x: Tensor, kernel_size: Ints, stride: OptInts = None, padding: Ints = &[0]; dilation: Ints = &[1],
        ceil_mode: Bool = false) = max_type::<2>, max_kernel::<2>;
    /// The maximum of windows over the last three axes, as in `max_pool1d`.
    max_pool3d(x: Tensor, kernel_size: Ints, stride: OptInts = None, padding: Ints = &[0]; dilation: Ints = &[1],
        ceil_mode: Bool = false) = max_type::<3>, max_kernel::<3>;
    /// `max_pool1d` and the flat position of each maximum in its plane.
    max_pool1d_with_indices(x: Tensor, kernel_size: Ints, stride: OptInts = None, padding: Ints = &[0];
        dilation: Ints = &[1], ceil_mode: Bool = false) -> (Tensor, Tensor) = max_indices_type::<1>, max_indices_kernel::<1>;
    /// `max_pool2d` and the flat position of each maximum in its plane.
    max_pool2d_with_indices(x: Tensor, kernel_size: Ints, stride: OptInts = None, padding: Ints = &[0];
        dilation: Ints = &[1], ceil_mode: Bool = false) -> (Tensor, Tensor) = max_indices_type::<2>, max_indices_kernel::<2>;
    /// `max_pool3d` and the flat position of each maximum in its plane.
    max_pool3d_with_indices(x: Tensor, kernel_size: Ints, stride: OptInts = None, padding: Ints = &[0];
        dilation: Ints = &[1], ceil_mode: Bool = false) -> (Tensor, Tensor) = max_indices_type::<3>, max_indices_kernel::<3>;
    /// The average of windows over the last axis; sizes are as in `max_pool1d`, the border is zeros.
    ///
    /// It is the sum over the elements of the window in the input and, with `count_include_pad`, its border.
    avg_pool1d(x: Tensor, kernel_size: Ints, stride: OptInts = None, padding: Ints = &[0]; ceil_mode: Bool = false,
        count_include_pad: Bool = true) = avg1_type, avg1_kernel;
    /// The average of windows over the last two axes, as in `avg_pool1d`; `divisor_override` is what sums are divided by.
    avg_pool2d(x: Tensor, kernel_size: Ints, stride: OptInts = None, padding: Ints = &[0]; ceil_mode: Bool = false,
        count_include_pad: Bool = true, divisor_override: OptInt = None) = avg_type::<2>, avg_kernel::<2>;
    /// The average of windows over the last three axes, as in `avg_pool2d`.
    avg_pool3d(x: Tensor, kernel_size: Ints, stride: OptInts = None, padding: Ints = &[0]; ceil_mode: Bool = false,
        count_include_pad: Bool = true, divisor_override: OptInt = None) = avg_type::<3>, avg_kernel::<3>;
    /// The averages of `output_size` nearly equal parts of the last axis.
    adaptive_avg_pool1d(x: Tensor, output_size: Any) = adaptive_type::<1>, adaptive_avg::<1>;
    /// The averages of `output_size` nearly equal parts of the last two axes; none in a list keeps the size of its axis.
    adaptive_avg_pool2d(x: Tensor, output_size: Any) = adaptive_type::<2>, adaptive_avg::<2>;
    /// The averages of `output_size` nearly equal parts of the last three axes; none in a list keeps the size of its axis.
    adaptive_avg_pool3d(x: Tensor, output_size: Any) = adaptive_type::<3>, adaptive_avg::<3>;
    /// The maxima of `output_size` nearly equal parts of the last axis.
    adaptive_max_pool1d(x: Tensor, output_size: Any) = adaptive_type::<1>, adaptive_max::<1>;
    /// The maxima of `output_size` nearly equal parts of the last two axes; none in a list keeps the size of its axis.
    adaptive_max_pool2d(x: Tensor, output_size: Any) = adaptive_type::<2>, adaptive_max::<2>;
    /// The maxima of `output_size` nearly equal parts of the last three axes; none in a list keeps the size of its axis.
    adaptive_max_pool3d(x: Tensor, output_size: Any) = adaptive_type::<3>, adaptive_max::<3>;
    /// `adaptive_max_pool1d` and the flat position of each maximum in its plane.
    adaptive_max_pool1d_with_indices(x: Tensor, output_size: Any) -> (Tensor, Tensor)
        = adaptive_indices_type::<1>, adaptive_max_indices::<1>;
    /// `adaptive_max_pool2d` and the flat position of each maximum in its plane.
    adaptive_max_pool2d_with_indices(x: Tensor, output_size: Any) -> (Tensor, Tensor)
        = adaptive_indices_type::<2>, adaptive_max_indices::<2>;
    /// `adaptive_max_pool3d` and the flat position of each maximum in its plane.
    adaptive_max_pool3d_with_indices(x: Tensor, output_size: Any) -> (Tensor, Tensor)
        = adaptive_indices_type::<3>, adaptive_max_indices::<3>;
}

kernels! {
    /// Borders.
    pub trait Padding; pub static PADDING;

    /// Adds to the last axes: `pad` is (before, after) of the last axis, then of the one before it, and so on; negative
    /// numbers take away.
    ///
    /// `mode` is `"constant"` (`value`, 0 if nothing is given), `"reflect"` (mirrored at the border element, by less than the
    /// size), `"replicate"` (the border element) or `"circular"` (from the other end, by at most the size).
    pad(x: Tensor, pad: Shape, mode: Str = "constant", value: OptNumber = None) = pad_type, pad_kernel;
}

/// Returns one number for each of `N` axes.
fn each<const N: usize>(name: &str, numbers: &[i64], least: i64) -> Result<[i64; N]> {
    let out = match numbers {
        [one] => [*one; N],
        _ => numbers
            .try_into()
            .map_err(|_| err!(Argument, "expected 1 or {N} numbers in {name}, got {}", numbers.len()))?,
    };
    match out.iter().find(|&&x| x < least) {
        Some(x) => bail!(Argument, "expected a {name} of at least {least}, got {x}"),
        None => Ok(out),
    }
}

fn unsigned(numbers: &[i64]) -> Result<Vec<usize>> {
    numbers
        .iter()
        .map(|&x| usize::try_from(x).map_err(|_| err!(Argument, "expected a number of at least 0, got {x}")))
        .collect()
}

/// The padding of a convolution.
enum Border<const N: usize> {
    Same,
    Numbers([i64; N]),
}

impl<const N: usize> Border<N> {
    fn new<L>(arg: &Arg<L>, numbers: impl FnOnce(&Arg<L>) -> Result<IntVec>) -> Result<Self> {
        match arg {
            Arg::Str(text) => match &text[..] {
                "same" => Ok(Border::Same),
                "valid" => Ok(Border::Numbers([0; N])),
                other => {
                    bail!(Argument, "expected \"same\", \"valid\" or numbers for padding, got {other:?}")
                }
            },
            arg => Ok(Border::Numbers(each("padding", &numbers(arg)?, 0)?)),
        }
    }

    fn value(arg: &Value) -> Result<Self> {
        Border::new(arg, <kind::Ints as ParamKind>::value)
    }

    fn ty(arg: &TypeTree) -> Result<Self> {
        Border::new(arg, <kind::Ints as ParamKind>::ty)
    }
}

/// Splits a shape into its leading axes, of which there may be a batch, and its spatial ones.
fn spatial<const N: usize>(x: &TensorType) -> Result<(&[Dim], &[Dim])> {
    if x.rank() != N + 1 && x.rank() != N + 2 {
        bail!(Shape, "expected an input of rank {} or {}, got {x}", N + 1, N + 2);
    }
    Ok(x.shape.split_at(x.rank() - N))
}

/// Numbers of a convolution, one for each axis.
struct Windows<const N: usize> {
    stride: [i64; N],
    border: Border<N>,
    dilation: [i64; N],
    /// That of a transposed convolution.
    output_padding: Option<[i64; N]>,
}

fn windows_type<const N: usize>(
    x: &TensorType,
    weight: &TensorType,
    bias: Option<&TensorType>,
    windows: &Windows<N>,
    groups: Dim,
) -> Result<TensorType> {
    if x.dtype == DType::Bool {
        bail!(DType, "expected numbers, got bool");
    }
    same_dtype("a weight", x.dtype, weight.dtype)?;
    let (leading, input) = spatial::<N>(x)?;
    if weight.rank() != N + 2 {
        bail!(Shape, "expected a weight of rank {}, got {weight}", N + 2);
    }
    at_least("groups", 1, &groups)?;
    let channels = &leading[leading.len() - 1];
    let transposed = windows.output_padding.is_some();
    let across = &weight.shape[1] * &groups;
    let (takes, out) = if transposed { (&weight.shape[0], &across) } else { (&across, &weight.shape[0]) };
    if takes.same(channels).is_no() {
        return Err(err!(Shape, "expected an input with {takes} channels, got {channels}")
            .help(format!("the weight is {weight} in groups of {groups}, the input {x}")));
    }
    if weight.shape[0].modulo(&groups).same(&Dim::new(0)).is_no() {
        bail!(
            Shape,
            "expected a multiple of {groups} groups as the first size of the weight, got {}",
            weight.shape[0]
        );
    }
    if let Some(bias) = bias {
        same_dtype("a bias", x.dtype, bias.dtype)?;
        same_shape("a bias", std::slice::from_ref(out), &bias.shape)?;
    }
    let mut shape: Shape = leading[..leading.len() - 1].iter().chain([out]).collect();
    for i in 0..N {
        let (stride, dilation) = (Dim::new(windows.stride[i]), Dim::new(windows.dilation[i]));
        let kernel = &weight.shape[2 + i];
        at_least("a kernel", 1, kernel)?;
        let span = dilation * (kernel - 1);
        let size = match (&windows.border, windows.output_padding) {
            (Border::Same, _) => input[i].clone(),
            (Border::Numbers(padding), None) => {
                let size = (&input[i] + 2 * Dim::new(padding[i]) - &span - 1).floor_div(&stride) + 1;
                at_least(
                    format_args!("a size of axis {i} after the convolution of {x} with {weight}"),
                    1,
                    &size,
                )?;
                size
            }
            (Border::Numbers(padding), Some(extra)) => {
                at_least("a spatial size", 1, &input[i])?;
                if extra[i] >= windows.stride[i] && extra[i] >= windows.dilation[i] {
                    bail!(Argument, "output_padding must be below stride or dilation, got {}", extra[i]);
                }
                let size = (&input[i] - 1) * stride - 2 * Dim::new(padding[i]) + span + extra[i] + 1;
                at_least(
                    format_args!("a size of axis {i} after the convolution of {x} with {weight}"),
                    1,
                    &size,
                )?;
                size
            }
        };
        shape.dims_mut().push(size);
    }
    if matches!(windows.border, Border::Same) && windows.stride.iter().any(|&stride| stride != 1) {
        bail!(Argument, "expected a stride of 1 for the padding \"same\", got {:?}", windows.stride);
    }
    Ok(TensorType::new(x.dtype, shape))
}

fn windows_kernel<const N: usize>(
    x: &Array,
    weight: &Array,
    bias: Option<&Array>,
    windows: &Windows<N>,
    groups: i64,
) -> Result<Array> {
    let ty = windows_type(&type_of(x), &type_of(weight), opt_type_of(bias).as_ref(), windows, groups.into())?;
    let mut out_shape = sizes(&ty.shape)?;
    let (dtype, wide) = (x.dtype(), float_for(x.dtype()));
    let is_batched = x.rank() == N + 2;
    let mut x = if is_batched { x.clone() } else { x.unsqueeze(0)? };
    if !is_batched {
        out_shape.insert(0, 1);
    }
    let padding = match &windows.border {
        Border::Numbers(padding) => unsigned(padding)?,
        Border::Same => {
            let total: Vec<usize> = (0..N)
                .map(|i| (weight.shape()[2 + i] - 1).checked_mul(windows.dilation[i] as usize))
                .collect::<Option<_>>()
                .ok_or_else(|| err!(Limit, "the padding of a convolution does not fit into memory"))?;
            // PyTorch puts the odd one after the input.
            if total.iter().any(|total| total % 2 == 1) {
                let mut pairs = vec![[0, 0]; N + 2];
                for (pair, total) in pairs[2..].iter_mut().zip(&total) {
                    pair[1] = (total % 2) as i64;
                }
                x = pad_array(&x, &pairs, Mode::Constant(Scalar::Int(0)))?;
            }
            total.iter().map(|total| total / 2).collect()
        }
    };
    let spec = ConvSpec {
        stride: unsigned(&windows.stride)?,
        padding,
        dilation: unsigned(&windows.dilation)?,
        groups: usize::try_from(groups)
            .map_err(|_| err!(Argument, "expected groups of at least 1, got {groups}"))?,
        output_padding: unsigned(&windows.output_padding.unwrap_or([0; N]))?,
        transposed: windows.output_padding.is_some(),
    };
    let (x, weight, bias) = (dense(&x, wide)?, dense(weight, wide)?, opt_dense(bias, wide)?);
    let numel = fx_core::array::checked_numel(&out_shape)?;
    let out = in_float!(wide, T => {
        let mut out = zeroed::<T>(numel)?;
        let bias = opt_slice::<T>(&bias);
        if numel > 0 {
            conv_nd(&spec, slice::<T>(&x), x.shape(), slice::<T>(&weight), weight.shape(), bias, &mut out)?;
        }
        Array::from_vec(out, &out_shape)
    })?;
    let out = if is_batched { out } else { out.squeeze(0)? };
    Ok(out.cast(dtype))
}

fn plain<const N: usize>(stride: &[i64], border: Border<N>, dilation: &[i64]) -> Result<Windows<N>> {
    let (stride, dilation) = (each("stride", stride, 1)?, each("dilation", dilation, 1)?);
    Ok(Windows { stride, border, dilation, output_padding: None })
}

fn conv_type<const N: usize>(
    x: &TensorType,
    weight: &TensorType,
    bias: Option<&TensorType>,
    stride: IntVec,
    padding: &TypeTree,
    dilation: IntVec,
    groups: Dim,
) -> Result<TensorType> {
    windows_type::<N>(x, weight, bias, &plain(&stride, Border::ty(padding)?, &dilation)?, groups)
}

fn conv_kernel<const N: usize>(
    x: &Array,
    weight: &Array,
    bias: Option<&Array>,
    stride: IntVec,
    padding: &Value,
    dilation: IntVec,
    groups: i64,
) -> Result<Array> {
    windows_kernel::<N>(x, weight, bias, &plain(&stride, Border::value(padding)?, &dilation)?, groups)
}

fn transposed<const N: usize>(
    stride: &[i64],
    padding: &[i64],
    extra: &[i64],
    dilation: &[i64],
) -> Result<Windows<N>> {
    let border = Border::Numbers(each("padding", padding, 0)?);
    Ok(Windows {
        output_padding: Some(each("output_padding", extra, 0)?),
        ..plain(stride, border, dilation)?
    })
}

#[expect(clippy::too_many_arguments, reason = "PyTorch's schema")]
fn transpose_type<const N: usize>(
    x: &TensorType,
    weight: &TensorType,
    bias: Option<&TensorType>,
    stride: IntVec,
    padding: IntVec,
    output_padding: IntVec,
    groups: Dim,
    dilation: IntVec,
) -> Result<TensorType> {
    windows_type::<N>(x, weight, bias, &transposed(&stride, &padding, &output_padding, &dilation)?, groups)
}

#[expect(clippy::too_many_arguments, reason = "PyTorch's schema")]
fn transpose_kernel<const N: usize>(
    x: &Array,
    weight: &Array,
    bias: Option<&Array>,
    stride: IntVec,
    padding: IntVec,
    output_padding: IntVec,
    groups: i64,
    dilation: IntVec,
) -> Result<Array> {
    windows_kernel::<N>(x, weight, bias, &transposed(&stride, &padding, &output_padding, &dilation)?, groups)
}

/// Calls `$f` for the number of spatial axes that a weight of rank `$rank` has.
macro_rules! by_rank {
    ($rank:expr, $N:ident => $body:expr) => {
        match $rank {
            3 => {
                const $N: usize = 1;
                $body
            }
            4 => {
                const $N: usize = 2;
                $body
            }
            5 => {
                const $N: usize = 3;
                $body
            }
            rank => Err(err!(Shape, "expected a weight of rank 3 to 5, got {rank}")),
        }
    };
}

fn any_windows<const N: usize>(
    stride: &[i64],
    padding: &[i64],
    dilation: &[i64],
    is_transposed: bool,
    output_padding: &[i64],
) -> Result<Windows<N>> {
    if is_transposed {
        return transposed(stride, padding, output_padding, dilation);
    }
    plain(stride, Border::Numbers(each("padding", padding, 0)?), dilation)
}

#[expect(clippy::too_many_arguments, reason = "PyTorch's schema")]
fn convolution_type(
    x: &TensorType,
    weight: &TensorType,
    bias: Option<&TensorType>,
    stride: IntVec,
    padding: IntVec,
    dilation: IntVec,
    is_transposed: bool,
    extra: IntVec,
    groups: Dim,
) -> Result<TensorType> {
    by_rank!(weight.rank(), N => {
        let windows = any_windows::<N>(&stride, &padding, &dilation, is_transposed, &extra)?;
        windows_type(x, weight, bias, &windows, groups)
    })
}

#[expect(clippy::too_many_arguments, reason = "PyTorch's schema")]
fn convolution_kernel(
    x: &Array,
    weight: &Array,
    bias: Option<&Array>,
    stride: IntVec,
    padding: IntVec,
    dilation: IntVec,
    is_transposed: bool,
    extra: IntVec,
    groups: i64,
) -> Result<Array> {
    by_rank!(weight.rank(), N => {
        let windows = any_windows::<N>(&stride, &padding, &dilation, is_transposed, &extra)?;
        windows_kernel(x, weight, bias, &windows, groups)
    })
}

/// Returns the windows of a pooling.
fn pool_spec<const N: usize>(
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
    if let Some(i) = (0..N).find(|&i| padding[i] > kernel[i] / 2) {
        bail!(
            Argument,
            "expected a padding of at most half the kernel_size {}, got {}",
            kernel[i],
            padding[i]
        );
    }
    Ok(PoolSpec {
        kernel: unsigned(&kernel)?,
        stride: unsigned(&stride)?,
        padding: unsigned(&padding)?,
        dilation: unsigned(&each::<N>("dilation", dilation, 1)?)?,
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

/// Returns the dtype in which windows are computed.
fn float_for(dtype: DType) -> DType {
    if dtype.is_float() { wide(dtype) } else { DType::F64 }
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

fn max_type<const N: usize>(
    x: &TensorType,
    kernel: IntVec,
    stride: Option<IntVec>,
    padding: IntVec,
    dilation: IntVec,
    ceil_mode: bool,
) -> Result<TensorType> {
    pool_type::<N>(x, &pool_spec::<N>(&kernel, stride.as_ref(), &padding, &dilation, ceil_mode)?)
}

fn max_kernel<const N: usize>(
    x: &Array,
    kernel: IntVec,
    stride: Option<IntVec>,
    padding: IntVec,
    dilation: IntVec,
    ceil_mode: bool,
) -> Result<Array> {
    let spec = pool_spec::<N>(&kernel, stride.as_ref(), &padding, &dilation, ceil_mode)?;
    let ty = pool_type::<N>(&type_of(x), &spec)?;
    pooled!(x, &ty, N, |data: T, input, output, out| pool::max_pool(&spec, data, input, &mut out, None))
}

fn max_indices_type<const N: usize>(
    x: &TensorType,
    kernel: IntVec,
    stride: Option<IntVec>,
    padding: IntVec,
    dilation: IntVec,
    ceil_mode: bool,
) -> Result<(TensorType, TensorType)> {
    max_type::<N>(x, kernel, stride, padding, dilation, ceil_mode).map(pair_type)
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
    pooled!(x, &ty, N, |data: T, input, output, out| pool::adaptive_avg_pool(data, input, output, &mut out))
}

fn adaptive_max<const N: usize>(x: &Array, arg: &Value) -> Result<Array> {
    let ty = adaptive_value::<N>(x, arg)?;
    pooled!(x, &ty, N, |data: T, input, output, out| pool::adaptive_max_pool(
        data, input, output, &mut out, None
    ))
}

fn adaptive_max_indices<const N: usize>(x: &Array, arg: &Value) -> Result<(Array, Array)> {
    let ty = adaptive_value::<N>(x, arg)?;
    with_indices(&ty, |indices| {
        pooled!(x, &ty, N, |data: T, input, output, out| {
            pool::adaptive_max_pool(data, input, output, &mut out, Some(indices))
        })
    })
}

pub(crate) fn pad_type(
    x: &TensorType,
    pad: kind::DimVec,
    mode: &str,
    _value: Option<fx_core::Category>,
) -> Result<TensorType> {
    if !pad.len().is_multiple_of(2) || pad.len() > 2 * x.rank() {
        bail!(
            Argument,
            "expected a pair of numbers for at most {} axes in pad, got {} numbers",
            x.rank(),
            pad.len()
        );
    }
    if !["constant", "reflect", "replicate", "circular"].contains(&mode) {
        return Err(err!(Argument, "unknown padding mode {mode:?}")
            .help("modes are \"constant\", \"reflect\", \"replicate\" and \"circular\""));
    }
    let mut shape = x.shape.clone();
    for (i, pair) in pad.chunks(2).enumerate() {
        let axis = x.rank() - 1 - i;
        let old = &x.shape[axis];
        for side in pair {
            match mode {
                "reflect" if old.less_equal(side).is_yes() => {
                    bail!(
                        Shape,
                        "expected a reflected padding below the size {old} of axis {axis}, got {side}"
                    );
                }
                "circular" if old.less(side).is_yes() => {
                    bail!(
                        Shape,
                        "expected a circular padding of at most the size {old} of axis {axis}, got {side}"
                    );
                }
                _ => {}
            }
        }
        let size = old + &pair[0] + &pair[1];
        at_least(format_args!("a size of axis {axis} after padding"), 0, &size)?;
        if mode == "replicate" {
            at_least(format_args!("a size of axis {axis} to replicate"), 1, old)?;
        }
        shape.dims_mut()[axis] = size;
    }
    Ok(TensorType::new(x.dtype, shape))
}

pub(crate) fn pad_kernel(x: &Array, pad: IntVec, mode: &str, value: Option<Scalar>) -> Result<Array> {
    let dims = pad.iter().map(|&pad| Dim::new(pad)).collect();
    sizes(&pad_type(&type_of(x), dims, mode, None)?.shape)?;
    let mut pairs = vec![[0, 0]; x.rank()];
    for (pair, pad) in pairs.iter_mut().rev().zip(pad.chunks(2)) {
        *pair = [pad[0], pad[1]];
    }
    let mode = match mode {
        "constant" => Mode::Constant(value.unwrap_or(Scalar::Int(0))),
        "reflect" => Mode::Reflect,
        "replicate" => Mode::Replicate,
        _ => Mode::Circular,
    };
    pad_array(x, &pairs, mode)
}
