//! Rows that draw random numbers from the generator in force: see [`fx_core::rng`].
//!
//! A row takes its numbers in one block before any thread starts, so that a seed gives the same tensors for
//! any number of threads.

use fx_core::array::Sizes;
use fx_core::op::kind::{DimVec, IntVec};
use fx_core::rng::default_generator;
use fx_core::{Array, DType, Dim, Op, Result, TensorType, bail, err, functions, kernels};

use crate::kernel::chunks::{blank, fill};
use crate::ops::creation::{concrete, size_type};
use crate::ops::infer::{type_of, typed};

functions! {
    pub static RANDOM;

    /// Random numbers in [0, 1); of f32 by default.
    #[effects = RANDOM]
    rand(size: Shape; dtype: OptDType = None) = float_size_type, |size: IntVec, dtype| uniform(&concrete(&size)?, dtype);
    /// Random numbers of the standard normal distribution; of f32 by default.
    #[effects = RANDOM]
    randn(size: Shape; dtype: OptDType = None) = float_size_type, |size: IntVec, dtype| normal(&concrete(&size)?, dtype);
    /// Random integers from `low` up to, not including, `high`; of i64 by default.
    #[effects = RANDOM]
    randint(low: Int, high: Int, size: Shape; dtype: OptDType = None) = randint_type, randint_array;
    /// The integers from 0 up to, not including, `n` in random order; of i64 by default.
    #[effects = RANDOM]
    randperm(n: Int; dtype: OptDType = None) =
        |n, dtype: Option<DType>| typed(dtype.unwrap_or(DType::I64), [n]), randperm_array;
}

kernels! {
    /// Random operations after the model of a tensor.
    pub trait Randoms; pub static RANDOMS;

    /// Random numbers in [0, 1) of the shape and dtype of `x`.
    #[effects = RANDOM]
    rand_like(x: Tensor; dtype: OptDType = None) = like_type,
        |x: &Array, dtype: Option<DType>| uniform(x.shape(), Some(dtype.unwrap_or(x.dtype())));
    /// Random numbers of the standard normal distribution of the shape and dtype of `x`.
    #[effects = RANDOM]
    randn_like(x: Tensor; dtype: OptDType = None) = like_type,
        |x: &Array, dtype: Option<DType>| normal(x.shape(), Some(dtype.unwrap_or(x.dtype())));
    /// 1 with the probability that each element is, else 0.
    #[effects = RANDOM]
    bernoulli(x: Tensor) = bernoulli_type, bernoulli_array;
    /// While training, sets elements to zero with probability `p` and scales the others by `1 / (1 - p)`;
    /// else `x` itself.
    #[effects = RANDOM]
    dropout(x: Tensor, p: Float = 0.5, training: Bool = true) = dropout_type, dropout_array;
}

/// The tables of this file.
pub(super) static TABLES: &[&[Op]] = &[RANDOM, RANDOMS];

fn check_float(dtype: DType) -> Result<DType> {
    if dtype.is_float() {
        return Ok(dtype);
    }
    Err(err!(DType, "expected a float dtype for random numbers, got {dtype}")
        .help("draw integers with `randint`"))
}

fn float_size_type(size: DimVec, dtype: Option<DType>) -> Result<TensorType> {
    check_float(dtype.unwrap_or(DType::F32))?;
    size_type(size, dtype)
}

fn like_type(x: &TensorType, dtype: Option<DType>) -> Result<TensorType> {
    Ok(TensorType { dtype: check_float(dtype.unwrap_or(x.dtype))?, shape: x.shape.clone() })
}

fn numel(shape: &[usize]) -> Result<usize> {
    fx_core::array::checked_numel(shape)
}

fn uniform(shape: &[usize], dtype: Option<DType>) -> Result<Array> {
    let dtype = check_float(dtype.unwrap_or(DType::F32))?;
    let generator = default_generator();
    if dtype == DType::F64 {
        let mut data = blank::<f64>(numel(shape)?)?;
        generator.fill_uniform_f64(&mut data);
        return Array::from_vec(data, shape);
    }
    let mut data = blank::<f32>(numel(shape)?)?;
    generator.fill_uniform_f32(&mut data);
    // Halves keep as many bits as they hold below 1, so that rounding never reaches 1.
    let grid = match dtype {
        DType::F16 => 2048.0,
        DType::BF16 => 256.0,
        _ => return Array::from_vec(data, shape),
    };
    data.iter_mut().for_each(|x| *x = (*x * grid).floor() / grid);
    Ok(Array::from_vec(data, shape)?.cast(dtype))
}

fn normal(shape: &[usize], dtype: Option<DType>) -> Result<Array> {
    let dtype = check_float(dtype.unwrap_or(DType::F32))?;
    let generator = default_generator();
    if dtype == DType::F64 {
        let mut data = blank::<f64>(numel(shape)?)?;
        generator.fill_normal_f64(&mut data);
        return Array::from_vec(data, shape);
    }
    let mut data = blank::<f32>(numel(shape)?)?;
    generator.fill_normal_f32(&mut data);
    Ok(Array::from_vec(data, shape)?.cast(dtype))
}

fn randint_type(low: Dim, high: Dim, size: DimVec, dtype: Option<DType>) -> Result<TensorType> {
    if high.less_equal(&low).is_yes() {
        bail!(Argument, "expected low below high, got {low} and {high}");
    }
    size_type(size, Some(dtype.unwrap_or(DType::I64)))
}

fn randint_array(low: i64, high: i64, size: IntVec, dtype: Option<DType>) -> Result<Array> {
    if high <= low {
        bail!(Argument, "expected low below high, got {low} and {high}");
    }
    let shape: Sizes = concrete(&size)?;
    let mut data = blank::<i64>(numel(&shape)?)?;
    default_generator().fill_below(high.wrapping_sub(low) as u64, &mut data);
    data.iter_mut().for_each(|x| *x = x.wrapping_add(low));
    Ok(Array::from_vec(data, &shape)?.cast(dtype.unwrap_or(DType::I64)))
}

fn randperm_array(n: i64, dtype: Option<DType>) -> Result<Array> {
    let n = usize::try_from(n).map_err(|_| err!(Argument, "expected at least 0, got {n}"))?;
    // Asks for the memory first, so that too much of it is an error.
    blank::<i64>(numel(&[n])?)?;
    Ok(Array::from_vec(default_generator().permutation(n), &[n])?.cast(dtype.unwrap_or(DType::I64)))
}

fn bernoulli_type(x: &TensorType) -> Result<TensorType> {
    check_float(x.dtype)?;
    Ok(x.clone())
}

fn bernoulli_array(x: &Array) -> Result<Array> {
    bernoulli_type(&type_of(x))?;
    let chances: Vec<f64> = x.cast(DType::F64).to_vec()?;
    if let Some(p) = chances.iter().find(|p| !(0.0..=1.0).contains(*p)) {
        bail!(Argument, "expected probabilities from 0 to 1, got {p}");
    }
    let mut data = blank::<bool>(chances.len())?;
    default_generator().fill_bernoulli(|i| chances[i], x.dtype() != DType::F64, &mut data);
    Ok(Array::from_vec(data, x.shape())?.cast(x.dtype()))
}

fn dropout_type(x: &TensorType, p: Option<f64>, training: bool) -> Result<TensorType> {
    if let Some(p) = p.filter(|p| !(0.0..=1.0).contains(p)) {
        bail!(Argument, "expected a probability from 0 to 1, got {p}");
    }
    if training {
        check_float(x.dtype)?;
    }
    Ok(x.clone())
}

fn dropout_array(x: &Array, p: f64, training: bool) -> Result<Array> {
    dropout_type(&type_of(x), Some(p), training)?;
    if !training || p == 0.0 {
        return Ok(x.clone());
    }
    if p == 1.0 {
        return Array::zeros(x.dtype(), x.shape());
    }
    let kept = kept(x.numel(), p)?;
    if x.dtype() == DType::F64 {
        let (from, scale): (Vec<f64>, _) = (x.to_vec()?, 1.0 / (1.0 - p));
        let data = fill::<f64>(from.len(), |start, out| {
            for (i, out) in (start..).zip(out) {
                *out = if kept[i] { from[i] * scale } else { 0.0 };
            }
        })?;
        return Array::from_vec(data, x.shape());
    }
    let (from, scale): (Vec<f32>, _) = (x.cast(DType::F32).to_vec()?, (1.0 / (1.0 - p)) as f32);
    let data = fill::<f32>(from.len(), |start, out| {
        for (i, out) in (start..).zip(out) {
            *out = if kept[i] { from[i] * scale } else { 0.0 };
        }
    })?;
    Ok(Array::from_vec(data, x.shape())?.cast(x.dtype()))
}

/// Draws which of `n` elements stay when each is dropped with probability `p`.
pub(crate) fn kept(n: usize, p: f64) -> Result<Vec<bool>> {
    let mut kept = blank::<bool>(n)?;
    default_generator().fill_kept(p, &mut kept);
    Ok(kept)
}
