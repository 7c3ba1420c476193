//! Differences of neighbours and their counterpart, the trapezoidal rule; and other sums of floats.

use fx_core::array::Sizes;
use fx_core::op::Flops::PerOutput;
use fx_core::op::kind::IntVec;
use fx_core::{
    Arg, Array, Category, DType, Dim, Op, Result, Scalar, Tensor, TensorType, Truth, bail, err, kernels,
};

use super::{Lines, scan_lines, sum_array, total_dtype, wide};
use crate::ops::check::{float_only, in_float};
use crate::ops::concat::{cat_array, cat_type};
use crate::ops::infer::{axis, axis_of, axis_or_only, known, mask, reduced, type_of, typed};
use crate::ops::view::{diagonal_array, with_size};

kernels! {
    /// Differences of neighbours, sums of trapezoids, and other sums.
    pub trait Differences; pub static DIFFERENCES;

    /// The differences of neighbours along `dim`, taken `n` times, after `prepend` and `append` are joined to `x`.
    /// On bools it is whether they differ.
    #[flops = PerOutput(1)]
    diff(x: Tensor, n: Int = 1, dim: Int = -1, prepend: OptTensor = None, append: OptTensor = None) = diff_type, diff_array;
    /// The integral along `dim` of `y` by the trapezoidal rule, at the places `x`, or `dx` apart.
    ///
    /// `x` has rank 1 or broadcasts with `y`. Integers give f32.
    #[class = Reduce]
    trapezoid(y: Tensor, x: OptTensor = None; dx: Number = fx_core::op::Default::Float(1.0), dim: Int = -1) =
        |y, x, dx: Category, dim| trapezoid_type(y, x, dx, dim, false), |y: &Array, x, dx, dim| trapezoid_array(y, x, dx, dim, false);
    /// As `trapezoid`.
    #[class = Reduce]
    trapz(y: Tensor, x: OptTensor = None; dx: Number = fx_core::op::Default::Float(1.0), dim: Int = -1) =
        |y, x, dx: Category, dim| trapezoid_type(y, x, dx, dim, false), |y: &Array, x, dx, dim| trapezoid_array(y, x, dx, dim, false);
    /// The integrals along `dim` from the first place to each other one, as `trapezoid`.
    #[flops = PerOutput(3)]
    cumulative_trapezoid(y: Tensor, x: OptTensor = None; dx: Number = fx_core::op::Default::Float(1.0), dim: Int = -1) =
        |y, x, dx: Category, dim| trapezoid_type(y, x, dx, dim, true), |y: &Array, x, dx, dim| trapezoid_array(y, x, dx, dim, true);
    /// The sum of the diagonal of a matrix.
    #[class = Reduce]
    trace_(x: Tensor) = trace_type, trace_array;
    /// The mean over the axes `dim`, or over all, of the elements that are not NaN.
    #[class = Reduce]
    nanmean(x: Tensor, dim: Axes = None, keepdim: Bool = false; dtype: OptDType = None) = nanmean_type, nanmean_array;
    /// The logarithm of the sum of the exponentials of all elements up to each one along `dim`, without overflow.
    #[flops = PerOutput(3)]
    logcumsumexp(x: Tensor, dim: Int) = logcumsumexp_type, logcumsumexp_array;
}

/// Calls a pointwise row.
fn pointwise<const N: usize>(op: Op, args: [Arg<Tensor>; N]) -> Result<Array> {
    let bound = op.bind(&args, &[] as &[(&str, Arg<Tensor>)])?;
    let out = (op.eval)(&bound)?;
    out.leaf().ok_or_else(|| err!(Structure, "an operation on tensors gives a tensor"))?.array().cloned()
}

fn arg(x: &Array) -> Arg<Tensor> {
    Arg::Leaf(x.clone().into())
}

fn diff_type(
    x: &TensorType,
    n: Dim,
    dim: Dim,
    prepend: Option<&TensorType>,
    append: Option<&TensorType>,
) -> Result<TensorType> {
    if x.rank() == 0 {
        bail!(Shape, "expected a rank of at least 1, got {x}");
    }
    let at = axis_of(&dim, x.rank())?;
    if n.less(&Dim::new(0)).is_yes() {
        bail!(Argument, "expected n of at least 0, got {n}");
    }
    if let Some(other) = [prepend, append].into_iter().flatten().find(|other| other.rank() != x.rank()) {
        bail!(Shape, "expected tensors of rank {} to join, got {other}", x.rank());
    }
    // Nothing is joined for differences that are not taken.
    if n.known() == Some(0) {
        return Ok(x.clone());
    }
    let whole = match (prepend, append) {
        (None, None) => x.clone(),
        _ => {
            if !n.is_known() && n.less(&Dim::new(1)) != Truth::No {
                return Err(fx_core::op::unknown_type());
            }
            cat_type([prepend, Some(x), append].into_iter().flatten().collect(), Dim::from(at))?
        }
    };
    with_size(&whole, at, (&whole.shape[at] - &n).max(&Dim::new(0)))
}

fn diff_array(x: &Array, n: i64, dim: i64, prepend: Option<&Array>, append: Option<&Array>) -> Result<Array> {
    let (before, after) = (prepend.map(type_of), append.map(type_of));
    diff_type(&type_of(x), n.into(), dim.into(), before.as_ref(), after.as_ref())?;
    let at = axis(dim, x.rank())?;
    if n == 0 {
        return Ok(x.clone());
    }
    let mut out = match (prepend, append) {
        (None, None) => x.clone(),
        _ => cat_array([prepend, Some(x), append].into_iter().flatten().collect(), at as i64)?,
    };
    let op = if out.dtype() == DType::Bool { fx_core::ops::logical_xor::OP } else { fx_core::ops::sub::OP };
    for _ in 0..n {
        let size = out.shape()[at];
        if size == 0 {
            break;
        }
        let (left, right) = (out.slice_axis(at, 0, size - 1, 1)?, out.slice_axis(at, 1, size, 1)?);
        out = pointwise(op, [arg(&right), arg(&left)])?;
    }
    Ok(out)
}

/// Returns the places as a shape that broadcasts with `y`, and whether they are a line along the axis.
fn places_shape<T: Clone>(y_rank: usize, at: usize, x: &[T], one: T) -> Vec<T> {
    if x.len() == 1 {
        let mut shape = vec![one; y_rank];
        shape[at] = x[0].clone();
        return shape;
    }
    let missing = y_rank.saturating_sub(x.len());
    std::iter::repeat_n(one, missing).chain(x.iter().cloned()).collect()
}

fn trapezoid_type(
    y: &TensorType,
    x: Option<&TensorType>,
    dx: Category,
    dim: Dim,
    cumulative: bool,
) -> Result<TensorType> {
    let at = axis_of(&dim, y.rank())?;
    let one = Dim::new(1);
    let size = &y.shape[at];
    if !cumulative && size.known() == Some(0) {
        // Without any place PyTorch keeps the dtype.
        return typed(y.dtype, without(&y.shape, at));
    }
    if !cumulative && !y.dtype.is_float() && size.less(&one) == fx_core::Truth::Unknown {
        return Err(fx_core::op::unknown_type());
    }
    if y.dtype == DType::Bool || x.is_some_and(|x| x.dtype == DType::Bool) || dx == Category::Bool {
        bail!(DType, "expected numbers, got {y}");
    }
    let mut dtype = y.dtype;
    let mut shape = y.shape.clone();
    shape.dims_mut()[at] = (size - 1).max(&Dim::new(0));
    if let Some(x) = x {
        if x.rank() == 0 {
            bail!(Shape, "expected places of rank 1 or more, got {x}");
        }
        let places = places_shape(y.rank(), at, &x.shape, one);
        let at_x = places.len() - (y.rank() - at);
        if x.rank() == 1 {
            crate::ops::check::same_size("as many places as elements,", size, &x.shape[0])?;
        }
        let mut steps = places;
        steps[at_x] = (&steps[at_x] - 1).max(&Dim::new(0));
        shape = fx_core::pointwise::broadcast_dims([&shape[..], &steps[..]].into_iter())?;
        dtype = dtype.promote(x.dtype);
    }
    if !dtype.is_float() {
        dtype = DType::F32;
    }
    let from_end = y.rank() - at;
    let at = shape.len() - from_end;
    match cumulative {
        true => typed(dtype, shape.iter().cloned()),
        false => typed(dtype, without(&shape, at)),
    }
}

fn without(shape: &[Dim], at: usize) -> Vec<Dim> {
    shape.iter().enumerate().filter(|(axis, _)| *axis != at).map(|(_, size)| size.clone()).collect()
}

fn trapezoid_array(y: &Array, x: Option<&Array>, dx: Scalar, dim: i64, cumulative: bool) -> Result<Array> {
    let x_type = x.map(type_of);
    let ty = trapezoid_type(&type_of(y), x_type.as_ref(), dx.category(), dim.into(), cumulative)?;
    let at = axis(dim, y.rank())?;
    let size = y.shape()[at];
    if size == 0 {
        return Array::zeros(ty.dtype, &crate::ops::infer::sizes(&ty)?);
    }
    let neighbours = |x: &Array, at: usize, op: Op| {
        let size = x.shape()[at];
        let (left, right) = (x.slice_axis(at, 0, size - 1, 1)?, x.slice_axis(at, 1, size, 1)?);
        pointwise(op, [arg(&right), arg(&left)])
    };
    let scaled = |x: &Array, by: f64| pointwise(fx_core::ops::mul::OP, [arg(x), Arg::Float(by)]);
    let sum = |x: &Array, at: usize| sum_array(x, Some(IntVec::from_slice(&[at as i64])), false, None);
    let out = match x {
        // The steps of the sums are those of PyTorch, so that halves are rounded alike.
        None if !cumulative => {
            let ends =
                pointwise(fx_core::ops::add::OP, [arg(&y.select(at, 0)?), arg(&y.select(at, size - 1)?)])?;
            let inner = pointwise(fx_core::ops::sub::OP, [arg(&sum(y, at)?), arg(&scaled(&ends, 0.5)?)])?;
            scaled(&inner, dx.to_f64())?
        }
        None => {
            let sums = neighbours(y, at, fx_core::ops::add::OP)?;
            super::scan(&scaled(&sums, dx.to_f64() / 2.0)?, at as i64, None, false)?
        }
        Some(x) => {
            let shape: Sizes = places_shape(y.rank(), at, x.shape(), 1).into();
            let places = x.reshape(&shape)?;
            let at_x = shape.len() - (y.rank() - at);
            if shape[at_x] == 0 {
                bail!(Shape, "expected a place for each element, got {}", x.describe());
            }
            let steps = neighbours(&places, at_x, fx_core::ops::sub::OP)?;
            let sums = neighbours(y, at, fx_core::ops::add::OP)?;
            let areas = pointwise(fx_core::ops::mul::OP, [arg(&steps), arg(&sums)])?;
            let along = areas.rank() - (y.rank() - at);
            let total = if cumulative {
                super::scan(&areas, along as i64, None, false)?
            } else {
                sum(&areas, along)?
            };
            scaled(&total, 0.5)?
        }
    };
    Ok(out.cast(ty.dtype))
}

fn trace_type(x: &TensorType) -> Result<TensorType> {
    if x.rank() != 2 {
        bail!(Shape, "expected a matrix, got {x}");
    }
    if x.dtype == DType::Bool {
        bail!(DType, "expected numbers, got {x}");
    }
    typed(total_dtype(x.dtype, None), [])
}

fn trace_array(x: &Array) -> Result<Array> {
    trace_type(&type_of(x))?;
    sum_array(&diagonal_array(x, 0, 0, 1)?, None, false, None)
}

fn nanmean_type(
    x: &TensorType,
    dim: Option<IntVec>,
    keepdim: bool,
    dtype: Option<DType>,
) -> Result<TensorType> {
    float_only(x.dtype)?;
    let mask = mask(dim.as_deref(), x.rank())?;
    let dtype = dtype.unwrap_or(x.dtype);
    float_only(dtype)?;
    typed(dtype, reduced(&x.shape, &mask, keepdim, Dim::new(1)))
}

fn nanmean_array(x: &Array, dim: Option<IntVec>, keepdim: bool, dtype: Option<DType>) -> Result<Array> {
    let ty = nanmean_type(&type_of(x), dim.clone(), keepdim, dtype)?;
    let is_number = pointwise(fx_core::ops::eq::OP, [arg(x), arg(x)])?;
    let count = sum_array(&is_number, dim.clone(), keepdim, None)?;
    let total = super::nansum_array(x, dim, keepdim, dtype)?;
    Ok(pointwise(fx_core::ops::div::OP, [arg(&total), arg(&count)])?.cast(ty.dtype))
}

fn logcumsumexp_type(x: &TensorType, dim: Dim) -> Result<TensorType> {
    float_only(x.dtype)?;
    axis_or_only(known(&dim)?, x.rank())?;
    Ok(x.clone())
}

fn logcumsumexp_array(x: &Array, dim: i64) -> Result<Array> {
    logcumsumexp_type(&type_of(x), dim.into())?;
    let lines = Lines::new(&x.cast(wide(x.dtype())), dim)?;
    // Sums are kept in f64, as a scan keeps them.
    let add = |a: f64, x: f64| {
        let (low, high) = if x.is_nan() || a < x { (a, x) } else { (x, a) };
        if low == high && high.is_infinite() || high.is_nan() {
            high
        } else {
            high + (low - high).exp().ln_1p()
        }
    };
    let out = in_float!(x.dtype(), T => {
        scan_lines(&lines, f64::NEG_INFINITY, |a: f64, x: T| add(a, fx_core::math::Real::to_f64(x)), |a| a as T)
    })?;
    Ok(out.cast(x.dtype()))
}
