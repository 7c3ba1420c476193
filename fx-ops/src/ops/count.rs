//! Counting: how often each integer occurs, and histograms.

use fx_core::{Array, Category, DType, Dim, Op, Result, Scalar, Symbol, TensorType, bail, kernels};

use crate::ops::check::{dense, float_only, in_float, opt_dense, opt_slice, same_size, slice, zeroed};
use crate::ops::infer::{type_of, typed};

kernels! {
    /// Operations that count elements.
    pub trait Counts; pub static COUNTS;

    /// How often each of 0, 1, ... up to the greatest element occurs in `x`, integers of rank 1 and at least 0.
    ///
    /// With `weights` their sums, in f64, or f32 for weights of f32. The result has at least `minlength` elements.
    bincount(x: Tensor, weights: OptTensor = None, minlength: Int = 0) = bincount_type, bincount_array;
    /// The number of elements in each of `bins` intervals of equal width from `min` to `max`, in the dtype of `x`.
    ///
    /// Elements outside, and NaN, do not count. If `min` equals `max`, the range is that of the elements.
    histc(x: Tensor, bins: Int = 100, min: Number = fx_core::op::Default::Int(0), max: Number = fx_core::op::Default::Int(0)) = histc_type, histc_array;
}

/// The tables of this file.
pub(super) static TABLES: &[&[Op]] = &[COUNTS];

fn bincount_type(x: &TensorType, weights: Option<&TensorType>, minlength: Dim) -> Result<TensorType> {
    if !x.dtype.is_int() || x.rank() != 1 {
        bail!(Argument, "expected integers of rank 1, got {x}");
    }
    if minlength.less(&Dim::new(0)).is_yes() {
        bail!(Argument, "expected a minlength of at least 0, got {minlength}");
    }
    if let Some(weights) = weights {
        if weights.rank() != 1 {
            bail!(Shape, "expected weights of rank 1, got {weights}");
        }
        same_size("as many weights as elements,", &x.shape[0], &weights.shape[0])?;
    }
    // Without elements PyTorch does not look at the weights.
    match (x.shape[0].known(), weights.map(|weights| weights.dtype)) {
        (Some(0), _) => typed(DType::I64, [minlength]),
        (None, Some(_)) if x.shape[0].bounds().0 < 1 => Err(fx_core::op::unknown_type()),
        (_, None) => typed(DType::I64, [unbounded()]),
        (_, Some(dtype)) => typed(sum_dtype(dtype), [unbounded()]),
    }
}

/// Returns the size that follows from the greatest element.
pub(crate) fn unbounded() -> Dim {
    Dim::symbol(Symbol::fresh(0))
}

fn sum_dtype(dtype: DType) -> DType {
    if dtype == DType::F32 { DType::F32 } else { DType::F64 }
}

fn bincount_array(x: &Array, weights: Option<&Array>, minlength: i64) -> Result<Array> {
    let weights_type = weights.map(type_of);
    bincount_type(&type_of(x), weights_type.as_ref(), minlength.into())?;
    let minlength = minlength as usize;
    let x = dense(x, DType::I64)?;
    let data = slice::<i64>(&x);
    if data.is_empty() {
        return Array::zeros(DType::I64, &[minlength]);
    }
    if let Some(least) = data.iter().find(|&&x| x < 0) {
        bail!(Argument, "expected elements of at least 0, got {least}");
    }
    let greatest = data.iter().fold(0, |greatest, &x| greatest.max(x));
    let n = usize::try_from(greatest).unwrap_or(usize::MAX).saturating_add(1).max(minlength);
    match weights.map(|weights| (weights, sum_dtype(weights.dtype()))) {
        None => {
            let mut counts = zeroed::<i64>(n)?;
            data.iter().for_each(|&x| counts[x as usize] += 1);
            Array::from_vec(counts, &[n])
        }
        Some((weights, dtype)) => in_float!(dtype, T => {
            let weights = opt_dense(Some(weights), dtype)?;
            let mut sums = zeroed::<T>(n)?;
            for (&x, &weight) in data.iter().zip(opt_slice::<T>(&weights).unwrap_or(&[])) {
                sums[x as usize] += weight;
            }
            Array::from_vec(sums, &[n])
        }),
    }
}

fn histc_type(x: &TensorType, bins: Dim, _min: Category, _max: Category) -> Result<TensorType> {
    float_only(x.dtype)?;
    if bins.less(&Dim::new(1)).is_yes() {
        bail!(Argument, "expected at least 1 bin, got {bins}");
    }
    typed(x.dtype, [bins])
}

fn histc_array(x: &Array, bins: i64, min: Scalar, max: Scalar) -> Result<Array> {
    histc_type(&type_of(x), bins.into(), min.category(), max.category())?;
    let n = bins as usize;
    let wide = crate::ops::check::wide(x.dtype());
    let dense = dense(x, wide)?;
    let out = in_float!(wide, T => {
        let data = slice::<T>(&dense);
        let (mut least, mut greatest) = (min.to_f64() as T, max.to_f64() as T);
        if least == greatest && !data.is_empty() {
            let join = |(a, b): (T, T), &x: &T| {
                (if x < a || x.is_nan() { x } else { a }, if x > b || x.is_nan() { x } else { b })
            };
            (least, greatest) = data[1..].iter().fold((data[0], data[0]), join);
        }
        if !(least.is_finite() && greatest.is_finite()) {
            bail!(Argument, "expected a finite range, got {least} to {greatest}");
        }
        if least > greatest {
            bail!(Argument, "expected max above min, got {least} to {greatest}");
        }
        if least == greatest {
            (least, greatest) = (least - 1.0, greatest + 1.0);
        }
        let mut counts = zeroed::<T>(n)?;
        for &x in data.iter().filter(|&&x| x >= least && x <= greatest) {
            let bin = ((x - least) / (greatest - least) * n as T) as usize;
            counts[bin.min(n - 1)] += 1.0;
        }
        Array::from_vec(counts, &[n])
    })?;
    Ok(out.cast(x.dtype()))
}
