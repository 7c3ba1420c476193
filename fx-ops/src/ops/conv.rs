//! Convolutions over one to three spatial axes.
//!
//! Inputs are `[batch, channels, spatial..]` or, without a batch, `[channels, spatial..]`. Half precision is
//! computed in `f32`, integers in `f64`, which is exact up to 2^53.

use fx_core::op::Default::Int;
use fx_core::op::Flops::Rule;
use fx_core::op::ParamKind;
use fx_core::op::kind::{self, IntVec};
use fx_core::{
    Arg, Array, DType, Dim, Op, Result, Scalar, Shape, TensorType, TypeTree, Value, bail, err, kernels,
};

use crate::kernel::conv::{ConvSpec, conv_nd};
use crate::kernel::pad::{Mode, pad_array};
use crate::ops::check::{
    at_least, dense, in_float, opt_dense, opt_slice, opt_type_of, same_dtype, same_shape, sizes, slice,
    type_of, wide, zeroed,
};
use crate::ops::flops;

/// The tables of this file.
pub(super) static TABLES: &[&[Op]] = &[CONVOLUTION];

kernels! {
    /// Convolutions.
    pub trait Convolution; pub static CONVOLUTION;

    /// Convolves `[n, c, l]` with `[out, c / groups, k]`; adds `bias[out]`.
    ///
    /// The new size is `(l + 2 padding - dilation (k - 1) - 1) / stride + 1`. `padding` is one number, one
    /// for each axis, `"valid"` for none, or `"same"` (stride 1 only) for as much as keeps the size.
    #[flops = Rule(flops::conv)]
    conv1d(x: Tensor, weight: Tensor, bias: OptTensor = None, stride: Ints = &[1], padding: Any = Int(0);
        dilation: Ints = &[1], groups: Int = 1) = conv_type::<1>, conv_kernel::<1>;
    /// Convolves `[n, c, h, w]` with `[out, c / groups, kh, kw]`; adds `bias[out]`. The rest is as in `conv1d`.
    #[flops = Rule(flops::conv)]
    conv2d(x: Tensor, weight: Tensor, bias: OptTensor = None, stride: Ints = &[1], padding: Any = Int(0);
        dilation: Ints = &[1], groups: Int = 1) = conv_type::<2>, conv_kernel::<2>;
    /// Convolves `[n, c, d, h, w]` with `[out, c / groups, kd, kh, kw]`; adds `bias[out]`. The rest is as in
    /// `conv1d`.
    #[flops = Rule(flops::conv)]
    conv3d(x: Tensor, weight: Tensor, bias: OptTensor = None, stride: Ints = &[1], padding: Any = Int(0);
        dilation: Ints = &[1], groups: Int = 1) = conv_type::<3>, conv_kernel::<3>;
    /// The transposed convolution of `[n, c, l]` with `[c, out / groups, k]`; adds `bias[out]`.
    ///
    /// The new size is `(l - 1) stride - 2 padding + dilation (k - 1) + output_padding + 1`.
    #[flops = Rule(flops::conv_transposed)]
    conv_transpose1d(x: Tensor, weight: Tensor, bias: OptTensor = None, stride: Ints = &[1], padding: Ints = &[0];
        output_padding: Ints = &[0], groups: Int = 1, dilation: Ints = &[1]) = transpose_type::<1>, transpose_kernel::<1>;
    /// The transposed convolution of `[n, c, h, w]` with `[c, out / groups, kh, kw]`. The rest is as in
    /// `conv_transpose1d`.
    #[flops = Rule(flops::conv_transposed)]
    conv_transpose2d(x: Tensor, weight: Tensor, bias: OptTensor = None, stride: Ints = &[1], padding: Ints = &[0];
        output_padding: Ints = &[0], groups: Int = 1, dilation: Ints = &[1]) = transpose_type::<2>, transpose_kernel::<2>;
    /// The transposed convolution of `[n, c, d, h, w]` with `[c, out / groups, kd, kh, kw]`. The rest is as in
    /// `conv_transpose1d`.
    #[flops = Rule(flops::conv_transposed)]
    conv_transpose3d(x: Tensor, weight: Tensor, bias: OptTensor = None, stride: Ints = &[1], padding: Ints = &[0];
        output_padding: Ints = &[0], groups: Int = 1, dilation: Ints = &[1]) = transpose_type::<3>, transpose_kernel::<3>;
    /// The convolution of any rank, plain or transposed, as ATen has it.
    #[flops = Rule(flops::convolution)]
    convolution(x: Tensor, weight: Tensor, bias: OptTensor = None, stride: Ints = &[1], padding: Ints = &[0],
        dilation: Ints = &[1], transposed: Bool = false, output_padding: Ints = &[0], groups: Int = 1)
        = convolution_type, convolution_kernel;
}

/// Returns one number for each of `N` axes.
pub(crate) fn each<const N: usize>(name: &str, numbers: &[i64], least: i64) -> Result<[i64; N]> {
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

pub(crate) fn unsigned(numbers: &[i64]) -> Result<Vec<usize>> {
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
pub(crate) fn spatial<const N: usize>(x: &TensorType) -> Result<(&[Dim], &[Dim])> {
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

/// Returns the dtype in which windows are computed.
pub(crate) fn float_for(dtype: DType) -> DType {
    if dtype.is_float() { wide(dtype) } else { DType::F64 }
}
