//! Sums and products over axes, and what is made of them: means, variances, norms, truth.

use fx_core::array::dispatch_dtype;
use fx_core::math::Real;
use fx_core::op::Flops::PerInput;
use fx_core::op::kind::IntVec;
use fx_core::{Arg, Array, DType, Element, Op, Result, Scalar, Tensor, TensorType, bail, err, kernels};
use half::bf16;

use super::fold::{Fold, fold, map_rows};
use super::{reduced_array, reduced_type};
use crate::kernel::rows;
use crate::ops::check::in_float;
use crate::ops::infer::{as_slice, mask};

kernels! {
    /// Sums and products over axes, and what is made of them.
    pub trait Sums; pub static SUMS;

    /// The sum over the axes `dim`, or over all. Integers and bools are summed as i64, halves in f32.
    #[class = Reduce]
    sum(x: Tensor, dim: Axes = None, keepdim: Bool = false; dtype: OptDType = None) =
        |x: &TensorType, dim, keepdim, dtype| reduced_type(x, &dim, keepdim, total_dtype(x.dtype, dtype)), sum_array;
    /// The product over the axes `dim`, or over all. Integers and bools are multiplied as i64, halves in f32.
    #[class = Reduce]
    prod(x: Tensor, dim: Axes = None, keepdim: Bool = false; dtype: OptDType = None) =
        |x: &TensorType, dim, keepdim, dtype| reduced_type(x, &dim, keepdim, total_dtype(x.dtype, dtype)), prod_array;
    /// The mean over the axes `dim`, or over all; of floats only, NaN for no elements.
    #[class = Reduce]
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
    var(x: Tensor, dim: Axes = None, correction: OptFloat = Some(1.0), keepdim: Bool = false; unbiased: OptNumber = None) =
        spread_type, |x: &Array, dim, correction, keepdim, unbiased| Ok::<_, fx_core::Error>(spread(x, dim, correction, keepdim, unbiased, false)?.0);
    /// The standard deviation: the square root of `var`.
    #[class = Reduce]
    #[flops = PerInput(3)]
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
    linalg_vector_norm(x: Tensor, ord: Float = 2.0, dim: Axes = None, keepdim: Bool = false; dtype: OptDType = None) =
        norm_type, norm_array;
    /// `log(sum(exp(x)))` over the axes `dim`, without overflow. Integers and bools are taken as f32.
    #[class = Reduce]
    #[flops = PerInput(3)]
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

/// Folds in the accumulator's type of a dtype: `folded!(x, mask, keepdim; init, T => step, merge)`.
macro_rules! folded {
    ($x:expr, $mask:expr, $keepdim:expr, $dtype:expr; $T:ident => $init:expr, $step:expr, $merge:expr; int $int_step:expr, $int_merge:expr) => {{
        let (x, mask): (&Array, &[bool]) = (&$x, &$mask);
        match $dtype {
            DType::F64 => {
                type $T = f64;
                let data: Vec<f64> = fold::<f64, f64, _, _>(
                    x,
                    mask,
                    &Fold { init: $init as f64, step: $step, merge: $merge },
                )?;
                reduced_array(data, x, mask, $keepdim)
            }
            DType::F32 => {
                type $T = f32;
                let data: Vec<f32> = fold::<f32, f32, _, _>(
                    x,
                    mask,
                    &Fold { init: $init as f32, step: $step, merge: $merge },
                )?;
                reduced_array(data, x, mask, $keepdim)
            }
            _ => {
                let data: Vec<i64> = fold::<i64, i64, _, _>(
                    x,
                    mask,
                    &Fold { init: $init as i64, step: $int_step, merge: $int_merge },
                )?;
                reduced_array(data, x, mask, $keepdim)
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
    // These casts are made on the way.
    macro_rules! widened {
        ($from:ty => $to:ty, $step:expr, $merge:expr) => {{
            let data: Vec<$to> = fold::<$from, $to, _, _>(x, &mask, &Fold { init: <$to>::default(), step: $step, merge: $merge })?;
            return Ok(reduced_array(data, x, &mask, keepdim)?.cast(dtype));
        }};
        (int $from:ty) => {
            widened!($from => i64, |a: i64, x: $from| a.wrapping_add(i64::from(x)), i64::wrapping_add)
        };
    }
    match (x.dtype(), dtype) {
        (DType::BF16, DType::BF16 | DType::F32) => {
            widened!(bf16 => f32, |a: f32, x: bf16| a + x.to_f32(), |a: f32, b: f32| a + b)
        }
        (DType::Bool, DType::I64) => widened!(int bool),
        (DType::U8, DType::I64) => widened!(int u8),
        (DType::I8, DType::I64) => widened!(int i8),
        (DType::I32, DType::I64) => widened!(int i32),
        _ => {}
    }
    let x = x.cast(dtype).cast(wide(dtype));
    let out = folded!(x, mask, keepdim, wide(dtype); T => 0, |a: T, x: T| a + x, |a: T, b: T| a + b;
        int |a: i64, x: i64| a.wrapping_add(x), |a: i64, b: i64| a.wrapping_add(b))?;
    Ok(out.cast(dtype))
}

fn prod_array(x: &Array, dim: Option<IntVec>, keepdim: bool, dtype: Option<DType>) -> Result<Array> {
    let mask = mask(as_slice(&dim), x.rank())?;
    let dtype = total_dtype(x.dtype(), dtype);
    let x = x.cast(dtype).cast(wide(dtype));
    let out = folded!(x, mask, keepdim, wide(dtype); T => 1, |a: T, x: T| a * x, |a: T, b: T| a * b;
        int |a: i64, x: i64| a.wrapping_mul(x), |a: i64, b: i64| a.wrapping_mul(b))?;
    Ok(out.cast(dtype))
}

/// A float that a sum without NaN adds.
trait WithoutNan {
    /// Returns the number, or zero for NaN. Integer arithmetic on the bits, of which LLVM makes vectors where
    /// it makes none of a choice.
    fn without_nan(self) -> Self;
}

macro_rules! without_nan {
    ($($float:ident $int:ident $uint:ident;)*) => {$(
        impl WithoutNan for $float {
            #[inline(always)]
            fn without_nan(self) -> Self {
                let bits = self.to_bits();
                let beyond_infinity = $float::INFINITY.to_bits() as $int - (bits & $int::MAX as $uint) as $int;
                let is_nan = (beyond_infinity >> ($int::BITS - 1)) as $uint;
                $float::from_bits(bits & !is_nan)
            }
        }
    )*};
}
without_nan! { f32 i32 u32; f64 i64 u64; }

pub(crate) fn nansum_array(
    x: &Array,
    dim: Option<IntVec>,
    keepdim: bool,
    dtype: Option<DType>,
) -> Result<Array> {
    let mask = mask(as_slice(&dim), x.rank())?;
    let dtype = total_dtype(x.dtype(), dtype);
    let x = x.cast(dtype).cast(wide(dtype));
    let out = folded!(x, mask, keepdim, wide(dtype); T => 0, |a: T, x: T| a + x.without_nan(), |a: T, b: T| a + b;
        int |a: i64, x: i64| a.wrapping_add(x), |a: i64, b: i64| a.wrapping_add(b))?;
    Ok(out.cast(dtype))
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
    pub(crate) fn fold_rows<T: Real + Element>(self, data: &[T], out: &mut [T]) {
        let n = data.len() / out.len().max(1);
        for (row, out) in data.chunks(n).zip(out) {
            let (squares, _) = deviations(row, n as f64, T::to_f64, true);
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
    let (squares, mean) = in_float!(dtype, T => spread_rows::<T>(&x, &mask, n, f64::from))?;
    let spread: Vec<f64> = squares.into_iter().map(|squares| with.finish(squares, n)).collect();
    let finish = |data| {
        Ok::<_, fx_core::Error>(reduced_array::<f64>(data, &x, &mask, keepdim)?.cast(wide(dtype)).cast(dtype))
    };
    Ok((finish(spread)?, finish(mean)?))
}

/// Returns the sum of squared deviations and the mean of each row.
fn spread_rows<T: Element>(
    x: &Array,
    mask: &[bool],
    n: f64,
    wide: impl Fn(T) -> f64 + Sync,
) -> Result<(Vec<f64>, Vec<f64>)> {
    let (dense, n_rows, length) = super::fold::rows(x, mask)?;
    let data = super::fold::slice::<T>(&dense)?;
    crate::kernel::chunks::fill_row_pairs(n_rows, 1, length, |row, squares, mean| {
        let row = &data[row * length..(row + 1) * length];
        (squares[0], mean[0]) = deviations(row, n, &wide, false);
    })
}

/// Returns the sum of squared deviations from the mean of `n` elements, and the mean; on this thread, or on all.
fn deviations<T: Element>(row: &[T], n: f64, wide: impl Fn(T) -> f64 + Sync, is_alone: bool) -> (f64, f64) {
    let total = Fold { init: 0.0, step: |a: f64, x: T| a + wide(x), merge: |a: f64, b: f64| a + b };
    let center = if is_alone { total.serial(row) } else { total.row(row) } / n;
    let step = |a: f64, x: T| {
        let deviation = wide(x) - center;
        a + deviation * deviation
    };
    let squares = Fold { init: 0.0, step, merge: |a: f64, b: f64| a + b };
    (if is_alone { squares.serial(row) } else { squares.row(row) }, center)
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
    let add = |a: f64, b: f64| a + b;
    let data = in_float!(dtype, T => norms::<T>(&x, &mask, ord, f64::from, add))?;
    Ok(reduced_array(data, &x, &mask, keepdim)?.cast(wide(dtype)).cast(dtype))
}

fn norms<T: Element>(
    x: &Array,
    mask: &[bool],
    ord: f64,
    wide: impl Fn(T) -> f64 + Sync,
    add: impl Fn(f64, f64) -> f64 + Sync + Copy,
) -> Result<Vec<f64>> {
    let greater = |a: f64, b: f64| if b > a || b.is_nan() { b } else { a };
    let lesser = |a: f64, b: f64| if b < a || b.is_nan() { b } else { a };
    let size = |x: T| wide(x).abs();
    if ord == f64::INFINITY {
        fold(x, mask, &Fold { init: 0.0, step: |a, x| greater(a, size(x)), merge: greater })
    } else if ord == f64::NEG_INFINITY {
        fold(x, mask, &Fold { init: f64::INFINITY, step: |a, x| lesser(a, size(x)), merge: lesser })
    } else if ord == 0.0 {
        fold(x, mask, &Fold { init: 0.0, step: |a, x| a + f64::from(u8::from(size(x) != 0.0)), merge: add })
    } else if ord == 1.0 {
        fold(x, mask, &Fold { init: 0.0, step: |a, x| a + size(x), merge: add })
    } else if ord == 2.0 {
        let mut data = fold(x, mask, &Fold { init: 0.0, step: |a, x| a + wide(x) * wide(x), merge: add })?;
        data.iter_mut().for_each(|x| *x = x.sqrt());
        Ok(data)
    } else {
        let mut data = fold(x, mask, &Fold { init: 0.0, step: |a, x| a + size(x).powf(ord), merge: add })?;
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
    let data = match all {
        true => {
            fold(&bools, &mask, &Fold { init: true, step: |a: bool, x: bool| a & x, merge: |a, b| a & b })?
        }
        false => {
            fold(&bools, &mask, &Fold { init: false, step: |a: bool, x: bool| a | x, merge: |a, b| a | b })?
        }
    };
    Ok(reduced_array(data, x, &mask, keepdim)?.cast(truth_dtype(x.dtype())))
}

fn count_array(x: &Array, dim: Option<IntVec>) -> Result<Array> {
    let mask = mask(as_slice(&dim), x.rank())?;
    dispatch_dtype!(x.dtype(), T => {
        let step = |n: i64, x: T| n + i64::from(x != T::default());
        let data = fold(x, &mask, &Fold { init: 0, step, merge: |a: i64, b: i64| a + b })?;
        reduced_array(data, x, &mask, false)
    })
}
