//! Sums and products over axes, and what is made of them: means, variances, norms, truth.

use fx_core::array::dispatch_dtype;
use fx_core::math::Real;
use fx_core::op::Flops::PerInput;
use fx_core::op::kind::IntVec;
use fx_core::{Arg, Array, DType, Element, Op, Result, Scalar, Tensor, TensorType, bail, err, kernels};
use half::{bf16, f16};

use super::fold::{fold, fold_converted, fold_mapped, join_row, join_rows_alone, map_rows};
use super::min_max::{Greatest, Least, Ordered};
use super::{reduced_array, reduced_type};
use crate::kernel::fold::{All, Any, Count, Magnitudes, Numbers, Product, Squares, Step, Sum, SumOfSquares};
use crate::kernel::rows;
use crate::ops::check::in_float;
use crate::ops::infer::{as_slice, mask};
use crate::ops::rowwise;

kernels! {
    /// Sums and products over axes, and what is made of them.
    pub trait Sums; pub static SUMS;

    /// The sum over the axes `dim`, or over all. Integers and bools are summed as i64, halves in f32.
    #[class = Reduce]
    #[rows = rowwise::sum]
    sum(x: Tensor, dim: Axes = None, keepdim: Bool = false; dtype: OptDType = None) =
        |x: &TensorType, dim, keepdim, dtype| reduced_type(x, &dim, keepdim, total_dtype(x.dtype, dtype)), sum_array;
    /// The product over the axes `dim`, or over all. Integers and bools are multiplied as i64, halves in f32.
    #[class = Reduce]
    prod(x: Tensor, dim: Axes = None, keepdim: Bool = false; dtype: OptDType = None) =
        |x: &TensorType, dim, keepdim, dtype| reduced_type(x, &dim, keepdim, total_dtype(x.dtype, dtype)), prod_array;
    /// The mean over the axes `dim`, or over all; of floats only, NaN for no elements.
    #[class = Reduce]
    #[rows = rowwise::mean]
    mean(x: Tensor, dim: Axes = None, keepdim: Bool = false; dtype: OptDType = None) =
        |x: &TensorType, dim, keepdim, dtype: Option<DType>| {
            reduced_type(x, &dim, keepdim, float(dtype.unwrap_or(x.dtype), "a mean")?)
        },
        mean_array;
    /// The sum over the axes `dim`, or over all, where NaN counts as 0.
    #[class = Reduce]
    nansum(x: Tensor, dim: Axes = None, keepdim: Bool = false; dtype: OptDType = None) =
        |x: &TensorType, dim, keepdim, dtype| reduced_type(x, &dim, keepdim, total_dtype(x.dtype, dtype)), nansum_array;
    /// The variance over the axes `dim`, or over all: squared deviations divided by `max(n - correction, 0)`.
    #[class = Reduce]
    #[flops = PerInput(3)]
    #[rows = rowwise::var]
    var(x: Tensor, dim: Axes = None, correction: OptFloat = Some(1.0), keepdim: Bool = false; unbiased: OptNumber = None) =
        spread_type, |x: &Array, dim, correction, keepdim, unbiased| Ok::<_, fx_core::Error>(spread(x, dim, correction, keepdim, unbiased, false)?.0);
    /// The standard deviation: the square root of `var`.
    #[class = Reduce]
    #[flops = PerInput(3)]
    #[rows = rowwise::std]
    std(x: Tensor, dim: Axes = None, correction: OptFloat = Some(1.0), keepdim: Bool = false; unbiased: OptNumber = None) =
        spread_type, |x: &Array, dim, correction, keepdim, unbiased| Ok::<_, fx_core::Error>(spread(x, dim, correction, keepdim, unbiased, true)?.0);
    /// The variance and the mean over the axes `dim`, or over all.
    #[class = Reduce]
    #[flops = PerInput(3)]
    var_mean(x: Tensor, dim: Axes = None, correction: OptFloat = Some(1.0), keepdim: Bool = false; unbiased: OptNumber = None) -> (Tensor, Tensor) =
        spread_pair_type, |x: &Array, dim, correction, keepdim, unbiased| spread(x, dim, correction, keepdim, unbiased, false);
    /// The standard deviation and the mean over the axes `dim`, or over all.
    #[class = Reduce]
    #[flops = PerInput(3)]
    std_mean(x: Tensor, dim: Axes = None, correction: OptFloat = Some(1.0), keepdim: Bool = false; unbiased: OptNumber = None) -> (Tensor, Tensor) =
        spread_pair_type, |x: &Array, dim, correction, keepdim, unbiased| spread(x, dim, correction, keepdim, unbiased, true);
    /// The vector norm `sum(|x|^ord)^(1/ord)` over the axes `dim`, or over all; `ord` may be 0, inf or -inf.
    /// Of floats only.
    #[class = Reduce]
    #[flops = PerInput(2)]
    #[rows = rowwise::linalg_vector_norm]
    linalg_vector_norm(x: Tensor, ord: Float = 2.0, dim: Axes = None, keepdim: Bool = false; dtype: OptDType = None) =
        norm_type, norm_array;
    /// `log(sum(exp(x)))` over the axes `dim`, without overflow. Integers and bools are taken as f32.
    #[class = Reduce]
    #[flops = PerInput(3)]
    #[rows = rowwise::logsumexp]
    logsumexp(x: Tensor, dim: Axes, keepdim: Bool = false) =
        |x: &TensorType, dim, keepdim| reduced_type(x, &dim, keepdim, float_or_f32(x.dtype)), logsumexp_array;
    /// Whether all elements along the axes `dim`, or of all, are not zero; true for no elements. A u8 tensor
    /// gives u8.
    #[class = Reduce]
    all(x: Tensor, dim: Axes = None, keepdim: Bool = false) =
        |x: &TensorType, dim, keepdim| reduced_type(x, &dim, keepdim, truth_dtype(x.dtype)),
        |x: &Array, dim, keepdim| truth(x, dim, keepdim, true);
    /// Whether any element along the axes `dim`, or of all, is not zero; false for no elements. A u8 tensor
    /// gives u8.
    #[class = Reduce]
    any(x: Tensor, dim: Axes = None, keepdim: Bool = false) =
        |x: &TensorType, dim, keepdim| reduced_type(x, &dim, keepdim, truth_dtype(x.dtype)),
        |x: &Array, dim, keepdim| truth(x, dim, keepdim, false);
    /// The number of elements that are not zero, along the axes `dim` or of all.
    #[class = Reduce]
    count_nonzero(x: Tensor, dim: Axes = None) =
        |x: &TensorType, dim| reduced_type(x, &dim, false, DType::I64), count_array;
}

/// Returns the dtype of a sum.
pub(crate) fn total_dtype(dtype: DType, wanted: Option<DType>) -> DType {
    wanted.unwrap_or(if dtype.is_float() { dtype } else { DType::I64 })
}

/// Returns the dtype in which a result of this dtype is accumulated.
pub(crate) fn wide(dtype: DType) -> DType {
    match dtype {
        DType::F64 => DType::F64,
        DType::F16 | DType::BF16 | DType::F32 => DType::F32,
        DType::Bool | DType::U8 | DType::I8 | DType::I32 | DType::I64 => DType::I64,
    }
}

fn float(dtype: DType, what: &str) -> Result<DType> {
    if dtype.is_float() {
        return Ok(dtype);
    }
    Err(err!(DType, "expected floats for {what}, got {dtype}").help("convert with `.to(DType::F32)`"))
}

fn float_or_f32(dtype: DType) -> DType {
    if dtype.is_float() { dtype } else { DType::F32 }
}

fn truth_dtype(dtype: DType) -> DType {
    if dtype == DType::U8 { DType::U8 } else { DType::Bool }
}

/// Joins an array of f64, f32 or i64: `joined!(x, mask, keepdim, T => step)`.
macro_rules! joined {
    ($x:expr, $mask:expr, $keepdim:expr, $T:ident => $step:expr) => {{
        let (x, mask): (&Array, &[bool]) = ($x, $mask);
        match x.dtype() {
            DType::F64 => {
                type $T = f64;
                reduced_array::<f64>(fold(x, mask, $step)?, x, mask, $keepdim)
            }
            DType::F32 => {
                type $T = f32;
                reduced_array::<f32>(fold(x, mask, $step)?, x, mask, $keepdim)
            }
            _ => {
                type $T = i64;
                reduced_array::<i64>(fold(x, mask, $step)?, x, mask, $keepdim)
            }
        }
    }};
}

pub(crate) fn sum_array(
    x: &Array,
    dim: Option<IntVec>,
    keepdim: bool,
    dtype: Option<DType>,
) -> Result<Array> {
    let mask = mask(as_slice(&dim), x.rank())?;
    let dtype = total_dtype(x.dtype(), dtype);
    // These are converted on the way.
    let float = |data| reduced_array::<f32>(data, x, &mask, keepdim);
    let int = |data| reduced_array::<i64>(data, x, &mask, keepdim);
    let out = match (x.dtype(), dtype) {
        (DType::BF16, DType::BF16 | DType::F32) => float(fold(x, &mask, Sum::<bf16, f32>::default())?),
        (DType::F16, DType::F16 | DType::F32) => {
            float(fold_converted::<f16, _>(x, &mask, Sum::<f32>::default())?)
        }
        (DType::Bool, DType::I64) => int(fold(x, &mask, Sum::<bool, i64>::default())?),
        (DType::U8, DType::I64) => int(fold(x, &mask, Sum::<u8, i64>::default())?),
        (DType::I8, DType::I64) => int(fold(x, &mask, Sum::<i8, i64>::default())?),
        (DType::I32, DType::I64) => int(fold(x, &mask, Sum::<i32, i64>::default())?),
        _ => joined!(&x.cast(dtype).cast(wide(dtype)), &mask, keepdim, T => Sum::<T>::default()),
    };
    Ok(out?.cast(dtype))
}

fn prod_array(x: &Array, dim: Option<IntVec>, keepdim: bool, dtype: Option<DType>) -> Result<Array> {
    let mask = mask(as_slice(&dim), x.rank())?;
    let dtype = total_dtype(x.dtype(), dtype);
    let out = joined!(&x.cast(dtype).cast(wide(dtype)), &mask, keepdim, T => Product::<T>::default())?;
    Ok(out.cast(dtype))
}

pub(crate) fn nansum_array(
    x: &Array,
    dim: Option<IntVec>,
    keepdim: bool,
    dtype: Option<DType>,
) -> Result<Array> {
    let mask = mask(as_slice(&dim), x.rank())?;
    let wanted = total_dtype(x.dtype(), dtype);
    let wide = x.cast(wanted).cast(wide(wanted));
    let out = match wide.dtype() {
        DType::F32 => reduced_array(fold(&wide, &mask, Numbers::<f32>::default())?, x, &mask, keepdim)?,
        DType::F64 => reduced_array(fold(&wide, &mask, Numbers::<f64>::default())?, x, &mask, keepdim)?,
        _ => return sum_array(x, dim, keepdim, dtype),
    };
    Ok(out.cast(wanted))
}

pub(crate) fn mean_array(
    x: &Array,
    dim: Option<IntVec>,
    keepdim: bool,
    dtype: Option<DType>,
) -> Result<Array> {
    let dtype = float(dtype.unwrap_or(x.dtype()), "a mean")?;
    let mask = mask(as_slice(&dim), x.rank())?;
    let n = count(x, &mask);
    let total = sum_array(&x.cast(dtype), dim, keepdim, Some(wide(dtype)))?;
    let out = in_float!(dtype, T => divided(total.to_vec::<T>()?, |x| x / n as T, total.shape()))?;
    Ok(out.cast(dtype))
}

fn divided<T: Element>(mut data: Vec<T>, divide: impl Fn(T) -> T, shape: &[usize]) -> Result<Array> {
    data.iter_mut().for_each(|x| *x = divide(*x));
    Array::from_vec(data, shape)
}

/// Returns how many elements a reduction folds into one.
fn count(x: &Array, mask: &[bool]) -> usize {
    x.shape().iter().zip(mask).filter(|(_, reduced)| **reduced).map(|(size, _)| size).product()
}

fn spread_type(
    x: &TensorType,
    dim: Option<IntVec>,
    _correction: Option<f64>,
    keepdim: bool,
    _unbiased: Option<fx_core::Category>,
) -> Result<TensorType> {
    reduced_type(x, &dim, keepdim, float(x.dtype, "a variance")?)
}

fn spread_pair_type(
    x: &TensorType,
    dim: Option<IntVec>,
    correction: Option<f64>,
    keepdim: bool,
    unbiased: Option<fx_core::Category>,
) -> Result<(TensorType, TensorType)> {
    let ty = spread_type(x, dim, correction, keepdim, unbiased)?;
    Ok((ty.clone(), ty))
}

/// A variance, or its root.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    /// What is taken from the number of elements, by which squared deviations are divided.
    pub(crate) correction: f64,
    /// Whether it is the root, the standard deviation.
    pub(crate) root: bool,
}

impl Spread {
    fn new(correction: Option<f64>, unbiased: Option<Scalar>, root: bool) -> Spread {
        let correction = match unbiased {
            Some(unbiased) => f64::from(u8::from(unbiased.to_bool())),
            None => correction.unwrap_or(1.0),
        };
        Spread { correction, root }
    }

    /// Returns what a call computes, alone or with the mean.
    pub(crate) fn of<L>(op: Op, bound: &[Arg<L>]) -> Option<Spread> {
        let [_, _, correction, _, unbiased] = bound else { return None };
        let root = match () {
            () if op == var::OP || op == var_mean::OP => false,
            () if op == std::OP || op == std_mean::OP => true,
            () => return None,
        };
        let number = |arg: &Arg<L>| match arg {
            Arg::None => Some(None),
            arg => arg.scalar().map(Some),
        };
        Some(Spread::new(number(correction)?.map(Scalar::to_f64), number(unbiased)?, root))
    }

    /// Stores it for rows of equal length, one for each element of `out`, on this thread.
    pub(crate) fn fold_rows<T: Real + Element>(self, data: &[T], out: &mut [T])
    where
        f64: From<T>,
    {
        let n = data.len() / out.len().max(1);
        for (row, out) in data.chunks(n).zip(out) {
            let (squares, _) = deviations(row, n as f64, true);
            *out = T::from_f64(self.finish(squares, n as f64));
        }
    }

    fn finish(self, squares: f64, n: f64) -> f64 {
        let variance = squares / (n - self.correction).max(0.0);
        if self.root { variance.sqrt() } else { variance }
    }
}

/// Returns the variance, or its root, and the mean; computed in f64 in two passes.
fn spread(
    x: &Array,
    dim: Option<IntVec>,
    correction: Option<f64>,
    keepdim: bool,
    unbiased: Option<Scalar>,
    root: bool,
) -> Result<(Array, Array)> {
    let dtype = float(x.dtype(), "a variance")?;
    let mask = mask(as_slice(&dim), x.rank())?;
    let with = Spread::new(correction, unbiased, root);
    let n = count(x, &mask) as f64;
    let x = x.cast(wide(dtype));
    let (squares, mean) = in_float!(dtype, T => spread_rows::<T>(&x, &mask, n))?;
    let spread: Vec<f64> = squares.into_iter().map(|squares| with.finish(squares, n)).collect();
    let finish = |data| {
        Ok::<_, fx_core::Error>(reduced_array::<f64>(data, &x, &mask, keepdim)?.cast(wide(dtype)).cast(dtype))
    };
    Ok((finish(spread)?, finish(mean)?))
}

/// Returns the sum of squared deviations and the mean of each row.
fn spread_rows<T: Real + Element>(x: &Array, mask: &[bool], n: f64) -> Result<(Vec<f64>, Vec<f64>)>
where
    f64: From<T>,
{
    let (dense, n_rows, length) = super::fold::rows(x, mask)?;
    let data = super::fold::slice::<T>(&dense)?;
    crate::kernel::chunks::fill_row_pairs(n_rows, 1, length, |row, squares, mean| {
        let row = &data[row * length..(row + 1) * length];
        (squares[0], mean[0]) = deviations(row, n, false);
    })
}

/// Returns the sum of squared deviations from the mean of `n` elements, and the mean; on this thread, or on all.
fn deviations<T: Real + Element>(row: &[T], n: f64, is_alone: bool) -> (f64, f64)
where
    f64: From<T>,
{
    fn join<S: Step<State = f64>>(step: S, row: &[S::Item], is_alone: bool) -> f64 {
        if !is_alone {
            return join_row(step, row);
        }
        let mut out = [0.0];
        join_rows_alone(step, row, &mut out);
        out[0]
    }
    let center = join(Sum::<T, f64>::default(), row, is_alone) / n;
    (join(Squares::<T>::around(center), row, is_alone), center)
}

fn norm_type(
    x: &TensorType,
    _ord: Option<f64>,
    dim: Option<IntVec>,
    keepdim: bool,
    dtype: Option<DType>,
) -> Result<TensorType> {
    float(x.dtype, "a norm")?;
    reduced_type(x, &dim, keepdim, float(dtype.unwrap_or(x.dtype), "a norm")?)
}

fn norm_array(
    x: &Array,
    ord: f64,
    dim: Option<IntVec>,
    keepdim: bool,
    dtype: Option<DType>,
) -> Result<Array> {
    float(x.dtype(), "a norm")?;
    let dtype = float(dtype.unwrap_or(x.dtype()), "a norm")?;
    let mask = mask(as_slice(&dim), x.rank())?;
    let x = x.cast(dtype).cast(wide(dtype));
    if count(&x, &mask) == 0 && (ord < 0.0 || ord == f64::INFINITY) {
        bail!(Shape, "a norm of order {ord} of no elements is not defined, got {}", x.describe());
    }
    let data = match dtype {
        DType::F16 | DType::BF16 | DType::F32 if ord == 1.0 => fold(&x, &mask, Magnitudes)?,
        _ => in_float!(dtype, T => norms::<T>(&x, &mask, ord))?,
    };
    Ok(reduced_array(data, &x, &mask, keepdim)?.cast(wide(dtype)).cast(dtype))
}

fn norms<T: Real + Ordered>(x: &Array, mask: &[bool], ord: f64) -> Result<Vec<f64>> {
    let size = |x: T| x.to_f64().abs();
    let to_f64 = |data: Vec<T>| data.into_iter().map(Real::to_f64).collect();
    let sum = Sum::<f64>::default();
    if ord == f64::INFINITY {
        Ok(to_f64(fold_mapped(x, mask, Greatest::<T>::default(), T::abs)?))
    } else if ord == f64::NEG_INFINITY {
        Ok(to_f64(fold_mapped(x, mask, Least::<T>::default(), T::abs)?))
    } else if ord == 0.0 {
        Ok(fold(x, mask, Count::<T>::default())?.into_iter().map(|n| n as f64).collect())
    } else if ord == 1.0 {
        fold_mapped(x, mask, sum, size)
    } else if ord == 2.0 {
        let mut data = fold(x, mask, SumOfSquares::<T>::default())?;
        data.iter_mut().for_each(|x| *x = x.sqrt());
        Ok(data)
    } else {
        let mut data = fold_mapped(x, mask, sum, |x| size(x).powf(ord))?;
        data.iter_mut().for_each(|x| *x = x.powf(1.0 / ord));
        Ok(data)
    }
}

fn logsumexp_array(x: &Array, dim: Option<IntVec>, keepdim: bool) -> Result<Array> {
    let dtype = float_or_f32(x.dtype());
    let mask = mask(as_slice(&dim), x.rank())?;
    let x = x.cast(wide(dtype));
    let out = in_float!(dtype, T => {
        reduced_array(map_rows(&x, &mask, rows::log_sum_exp::<T>)?, &x, &mask, keepdim)
    })?;
    Ok(out.cast(dtype))
}

fn truth(x: &Array, dim: Option<IntVec>, keepdim: bool, all: bool) -> Result<Array> {
    let mask = mask(as_slice(&dim), x.rank())?;
    let bools = x.cast(DType::Bool);
    let data = if all { fold(&bools, &mask, All)? } else { fold(&bools, &mask, Any)? };
    Ok(reduced_array(data, x, &mask, keepdim)?.cast(truth_dtype(x.dtype())))
}

fn count_array(x: &Array, dim: Option<IntVec>) -> Result<Array> {
    let mask = mask(as_slice(&dim), x.rank())?;
    let step = Sum::<bool, i64>::default();
    let data = match x.dtype() {
        DType::Bool => fold(x, &mask, step)?,
        DType::F32 => fold(x, &mask, Count::<f32>::default())?,
        DType::I32 => fold(x, &mask, Count::<i32>::default())?,
        DType::U8 => fold(x, &mask, Count::<u8>::default())?,
        DType::I8 => fold(x, &mask, Count::<i8>::default())?,
        dtype => dispatch_dtype!(dtype, T => fold_mapped(x, &mask, step, |x: T| x != T::default())?),
    };
    reduced_array(data, x, &mask, false)
}
