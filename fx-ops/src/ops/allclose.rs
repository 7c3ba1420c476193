//! Comparison within a tolerance.

use fx_core::array::dispatch_dtype;
use fx_core::pointwise::{broadcast_dims, broadcast_shapes};
use fx_core::{Array, DType, Op, Result, Scalar, Stored, TensorType, bail, kernels};

use crate::kernel::chunks::fill;
use crate::ops::check::{same_dtype, slice};
use crate::ops::infer::{type_of, typed};

kernels! {
    /// Comparison within a tolerance.
    pub trait Closeness; pub static CLOSENESS;

    /// Whether each element differs from that of `other` by at most `atol + rtol * |other|`. Broadcasts.
    ///
    /// Infinities are close to themselves only; NaN to NaN with `equal_nan`. Both have the same dtype.
    isclose(x: Tensor, other: Tensor, rtol: Float = 1e-5, atol: Float = 1e-8, equal_nan: Bool = false) = isclose_type, isclose_array;
    /// Whether all elements are close, as `isclose` says: a bool tensor of rank 0.
    #[class = Reduce]
    allclose(x: Tensor, other: Tensor, rtol: Float = 1e-5, atol: Float = 1e-8, equal_nan: Bool = false) =
        |x, other, rtol, atol, equal_nan| isclose_type(x, other, rtol, atol, equal_nan).and_then(|_| typed(DType::Bool, [])),
        allclose_array;
}

/// The tables of this file.
pub(super) static TABLES: &[&[Op]] = &[CLOSENESS];

fn isclose_type(
    x: &TensorType,
    other: &TensorType,
    rtol: Option<f64>,
    atol: Option<f64>,
    _equal_nan: bool,
) -> Result<TensorType> {
    same_dtype("a tensor", x.dtype, other.dtype)?;
    for (name, tolerance) in [("rtol", rtol), ("atol", atol)] {
        // NaN is not refused, as in PyTorch.
        if let Some(tolerance) = tolerance
            && tolerance < 0.0
        {
            bail!(Argument, "expected {name} of at least 0, got {tolerance}");
        }
    }
    typed(DType::Bool, broadcast_dims([&x.shape[..], &other.shape[..]].into_iter())?.iter().cloned())
}

fn isclose_array(x: &Array, other: &Array, rtol: f64, atol: f64, equal_nan: bool) -> Result<Array> {
    isclose_type(&type_of(x), &type_of(other), Some(rtol), Some(atol), equal_nan)?;
    let shape = broadcast_shapes([x.shape(), other.shape()].into_iter())?;
    let wide = |x: &Array| x.broadcast_to(&shape)?.contiguous();
    let (x, y) = (wide(x)?, wide(other)?);
    // Integers differ exactly; floats but f64 are compared in f32, as in PyTorch.
    let is_float = x.dtype().is_float();
    let is_narrow = is_float && x.dtype() != DType::F64;
    let round = |x: f64| if is_narrow { f64::from(x as f32) } else { x };
    let allowed = |b: f64| round(round(atol) + round(round(rtol) * b).abs());
    let close = |a: Scalar, b: Scalar| match (a, b) {
        (Scalar::Int(a), Scalar::Int(b)) => a == b || a.abs_diff(b) as f64 <= allowed(b as f64),
        _ => {
            let (a, b) = (a.to_f64(), b.to_f64());
            let difference = round(a - b).abs();
            a == b
                || equal_nan && is_float && a.is_nan() && b.is_nan()
                || difference.is_finite() && difference <= allowed(b)
        }
    };
    dispatch_dtype!(x.dtype(), T => {
        let (a, b) = (slice::<T>(&x), slice::<T>(&y));
        let out = fill(a.len(), |start, out: &mut [bool]| {
            for ((out, &a), &b) in out.iter_mut().zip(&a[start..]).zip(&b[start..]) {
                *out = close(a.to_scalar(), b.to_scalar());
            }
        })?;
        Array::from_vec(out, &shape)
    })
}

fn allclose_array(x: &Array, other: &Array, rtol: f64, atol: f64, equal_nan: bool) -> Result<Array> {
    let close = isclose_array(x, other, rtol, atol, equal_nan)?;
    Ok(Array::scalar(slice::<bool>(&close).iter().all(|&close| close)))
}
