//! Windows for the analysis of signals.

use fx_core::math::{Real, near_cos};
use fx_core::{Array, DType, Dim, Op, Result, Shape, TensorType, err, functions};
use fx_simd::{Work, widest};

use crate::check::{at_least, float_only};
use crate::kernel::chunks::fill;

/// The tables of this file.
pub static TABLES: &[&[Op]] = &[WINDOWS];

functions! {
    pub static WINDOWS;

    /// `(1 - cos(2 pi i / n)) / 2` for `i` below `window_length`: `n` is the length, or one less if not `periodic`.
    ///
    /// Of f32 by default. A window of one element is 1.
    hann_window(window_length: Int, periodic: Bool = true; dtype: OptDType = None) =
        |length, _periodic, dtype| window_type(length, dtype),
        |length, periodic, dtype| raised_cosine(length, periodic, [0.5, 0.5], dtype);
    /// `alpha - beta cos(2 pi i / n)`, where `n` and the rest are as in `hann_window`.
    hamming_window(window_length: Int, periodic: Bool = true, alpha: Float = 0.54, beta: Float = 0.46;
        dtype: OptDType = None) =
        |length, _periodic, _alpha, _beta, dtype| window_type(length, dtype),
        |length, periodic, alpha, beta, dtype| raised_cosine(length, periodic, [alpha, beta], dtype);
}

fn window_type(length: Dim, dtype: Option<DType>) -> Result<TensorType> {
    let dtype = dtype.unwrap_or(DType::F32);
    float_only(dtype)?;
    at_least("a window_length", 0, &length)?;
    Ok(TensorType::new(dtype, [length].into_iter().collect::<Shape>()))
}

fn raised_cosine(
    length: i64,
    periodic: bool,
    [alpha, beta]: [f64; 2],
    dtype: Option<DType>,
) -> Result<Array> {
    let ty = window_type(length.into(), dtype)?;
    let length = usize::try_from(length)
        .map_err(|_| err!(Argument, "expected a length of at least 0, got {length}"))?;
    if length == 1 {
        return Ok(Array::from_vec(vec![1.0f64], &[1])?.cast(ty.dtype));
    }
    let step = std::f64::consts::TAU / (length - usize::from(!periodic && length > 0)) as f64;
    if ty.dtype == DType::F64 {
        let out = fill::<f64>(length, |start, out| widest(RaisedCosine { start, step, alpha, beta, out }))?;
        return Array::from_vec(out, &[length]);
    }
    let out = fill::<f32>(length, |start, out| widest(RaisedCosine { start, step, alpha, beta, out }))?;
    Ok(Array::from_vec(out, &[length])?.cast(ty.dtype))
}

/// The elements of a window from a position on.
struct RaisedCosine<'a, T> {
    start: usize,
    step: f64,
    alpha: f64,
    beta: f64,
    out: &'a mut [T],
}

impl<T: Real> Work for RaisedCosine<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        for (i, out) in self.out.iter_mut().enumerate() {
            *out = T::from_f64(self.alpha - self.beta * near_cos((self.start + i) as f64 * self.step));
        }
    }
}
