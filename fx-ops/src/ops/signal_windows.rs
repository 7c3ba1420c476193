//! Windows for the analysis of signals.

use fx_core::math::{Real, near_cos};
use fx_core::{Array, DType, Dim, Op, Result, Shape, TensorType, err, functions};
use fx_simd::{Work, widest};

use crate::kernel::chunks::fill;
use crate::ops::check::{at_least, float_only};

/// The tables of this file.
pub(super) static TABLES: &[&[Op]] = &[WINDOWS];

functions! {
    pub static WINDOWS;

    /// `(1 - cos(2 pi i / n)) / 2` for `i` below `window_length`: `n` is the length, or one less if not
    /// `periodic`.
    ///
    /// Of f32 by default. A window of one element is 1.
    hann_window(window_length: Int, periodic: Bool = true; dtype: OptDType = None) =
        |length, _periodic, dtype| window_type(length, dtype),
        |length, periodic, dtype| raised_cosine(length, periodic, [0.5, 0.5, 0.0], dtype);
    /// `alpha - beta cos(2 pi i / n)`, where `n` and the rest are as in `hann_window`.
    hamming_window(window_length: Int, periodic: Bool = true, alpha: Float = 0.54, beta: Float = 0.46;
        dtype: OptDType = None) =
        |length, _periodic, _alpha, _beta, dtype| window_type(length, dtype),
        |length, periodic, alpha, beta, dtype| raised_cosine(length, periodic, [alpha, beta, 0.0], dtype);
    /// `1 - |2 i / n - 1|`, where `n` and the rest are as in `hann_window`.
    bartlett_window(window_length: Int, periodic: Bool = true; dtype: OptDType = None) =
        |length, _periodic, dtype| window_type(length, dtype),
        |length, periodic, dtype| window(length, periodic, dtype, |t| 1.0 - (2.0 * t - 1.0).abs());
    /// `0.42 - 0.5 cos(2 pi i / n) + 0.08 cos(4 pi i / n)`, where `n` and the rest are as in `hann_window`.
    blackman_window(window_length: Int, periodic: Bool = true; dtype: OptDType = None) =
        |length, _periodic, dtype| window_type(length, dtype),
        |length, periodic, dtype| raised_cosine(length, periodic, [0.42, 0.5, 0.08], dtype);
    /// `i0(beta sqrt(1 - (2 i / n - 1)^2)) / i0(beta)`, where `n` and the rest are as in `hann_window`.
    kaiser_window(window_length: Int, periodic: Bool = true, beta: Float = 12.0; dtype: OptDType = None) =
        |length, _periodic, _beta, dtype| window_type(length, dtype),
        |length, periodic, beta: f64, dtype| window(length, periodic, dtype, |t| {
            let x = 2.0 * t - 1.0;
            fx_core::special::i0(beta * (1.0 - x * x).max(0.0).sqrt()) / fx_core::special::i0(beta)
        });
}

fn window_type(length: Dim, dtype: Option<DType>) -> Result<TensorType> {
    let dtype = dtype.unwrap_or(DType::F32);
    float_only(dtype)?;
    at_least("a window_length", 0, &length)?;
    Ok(TensorType::new(dtype, [length].into_iter().collect::<Shape>()))
}

fn raised_cosine(length: i64, periodic: bool, factors: [f64; 3], dtype: Option<DType>) -> Result<Array> {
    windowed(length, periodic, dtype, |length, n, dtype| {
        let step = std::f64::consts::TAU / n;
        if dtype == DType::F64 {
            let out = fill::<f64>(length, |start, out| widest(RaisedCosine { start, step, factors, out }))?;
            return Array::from_vec(out, &[length]);
        }
        let out = fill::<f32>(length, |start, out| widest(RaisedCosine { start, step, factors, out }))?;
        Array::from_vec(out, &[length])
    })
}

/// Makes a window of a function of the place, from 0 to 1.
fn window(length: i64, periodic: bool, dtype: Option<DType>, f: impl Fn(f64) -> f64 + Sync) -> Result<Array> {
    windowed(length, periodic, dtype, |length, n, _| {
        let out = fill::<f64>(length, |start, out| {
            out.iter_mut().enumerate().for_each(|(i, x)| *x = f((start + i) as f64 / n));
        })?;
        Array::from_vec(out, &[length])
    })
}

/// Makes a window of floats from its length and the steps of a period.
fn windowed(
    length: i64,
    periodic: bool,
    dtype: Option<DType>,
    make: impl FnOnce(usize, f64, DType) -> Result<Array>,
) -> Result<Array> {
    let ty = window_type(length.into(), dtype)?;
    let length = usize::try_from(length)
        .map_err(|_| err!(Argument, "expected a length of at least 0, got {length}"))?;
    if length == 1 {
        return Ok(Array::from_vec(vec![1.0f64], &[1])?.cast(ty.dtype));
    }
    let n = (length - usize::from(!periodic && length > 0)) as f64;
    Ok(make(length, n, ty.dtype)?.cast(ty.dtype))
}

/// The elements of a window from a position on.
struct RaisedCosine<'a, T> {
    start: usize,
    step: f64,
    /// Of 1, of minus the cosine, and of the cosine of twice the angle.
    factors: [f64; 3],
    out: &'a mut [T],
}

impl<T: Real> Work for RaisedCosine<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        for (i, out) in self.out.iter_mut().enumerate() {
            let cos = near_cos((self.start + i) as f64 * self.step);
            let [one, first, second] = self.factors;
            *out = T::from_f64(one - first * cos + second * (2.0 * cos * cos - 1.0));
        }
    }
}
