//! Fourier transforms with real results, by the crate rustfft. There are no complex dtypes: spectra are pairs of reals.

use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use fx_core::array::{BLOCK, build_blocks, checked_numel};
use fx_core::math::Real;
use fx_core::op::Default::None as Nothing;
use fx_core::op::Flops::Unknown;
use fx_core::{Arg, Array, DType, Dim, Op, Result, Shape, TensorType, TypeTree, Value, bail, err, kernels};
use rustfft::num_complex::Complex;
use rustfft::{Fft, FftNum, FftPlanner};

use crate::check::{at_least, dense, float_only, in_float, same_dtype, sizes, slice, type_of, wide};
use crate::compose::Operand;
use crate::infer::{axis, known};
use crate::kernel::chunks::{PARALLEL, blank};

/// The tables of this file.
pub static TABLES: &[&[Op]] = &[TRANSFORMS];

kernels! {
    /// Fourier transforms.
    pub trait Transforms; pub static TRANSFORMS;

    /// The real signal of `n` elements along `dim` whose spectrum `x` is the first half, here of reals: `n = 2 (size - 1)` if
    /// nothing is given.
    ///
    /// `norm` says by what it is divided: `"backward"` (or none) `n`, `"ortho"` its root, `"forward"` nothing. Integers are
    /// taken as f32.
    #[flops = Unknown]
    fft_irfft(x: Tensor, n: OptInt = None, dim: Int = -1, norm: Any = Nothing) =
        |x: &TensorType, n: Option<Dim>, dim: Dim, norm: &TypeTree| {
            scale_of(norm, 1)?;
            inverse_type(x, n, dim)
        },
        inverse;
    /// The spectra of windows of `n_fft` elements, `hop_length` (if nothing is given `n_fft / 4`) apart, of signals `[n]` or
    /// `[b, n]`: `[.., n_fft / 2 + 1, windows, 2]`, real and imaginary parts.
    ///
    /// Windows are multiplied by `window`, of `win_length` elements in the middle; `center` pads signals by half a window as
    /// `pad_mode` of `pad` says; `normalized` divides by the root of `n_fft`; without `onesided` there are `n_fft` frequencies.
    /// `return_complex` must be false.
    #[flops = Unknown]
    stft(x: Tensor, n_fft: Int, hop_length: OptInt = None, win_length: OptInt = None, window: OptTensor = None,
        center: Bool = true, pad_mode: Str = "reflect", normalized: Bool = false, onesided: Any = Nothing,
        return_complex: Any = Nothing) = spectra_type, spectra;
}

fn scale_of<L>(norm: &Arg<L>, n: usize) -> Result<f64> {
    match norm {
        Arg::None => Ok(1.0 / n as f64),
        Arg::Str(text) => match &**text {
            "backward" => Ok(1.0 / n as f64),
            "ortho" => Ok(1.0 / (n as f64).sqrt()),
            "forward" => Ok(1.0),
            other => {
                bail!(Argument, "expected the norm \"backward\", \"ortho\" or \"forward\", got {other:?}")
            }
        },
        other => bail!(Argument, "expected text or none as a norm, got {}", other.kind_name()),
    }
}

fn inverse_type(x: &TensorType, n: Option<Dim>, dim: Dim) -> Result<TensorType> {
    let dtype = if x.dtype.is_float() { x.dtype } else { DType::F32 };
    let at = axis(known(&dim)?, x.rank())?;
    at_least("a size of the spectrum", 1, &x.shape[at])?;
    let n = n.unwrap_or_else(|| 2 * (&x.shape[at] - 1));
    at_least("a number n of elements", 1, &n)?;
    let mut shape = x.shape.clone();
    shape.dims_mut()[at] = n;
    Ok(TensorType::new(dtype, shape))
}

fn inverse(x: &Array, n: Option<i64>, dim: i64, norm: &Value) -> Result<Array> {
    let ty = inverse_type(&type_of(x), n.map(Dim::new), dim.into())?;
    let shape = sizes(&ty.shape)?;
    checked_numel(&shape)?;
    let at = axis(dim, x.rank())?;
    let (size, n, last) = (x.shape()[at], shape[at], x.rank() - 1);
    let scale = scale_of(norm, n)?;
    let wide = wide(ty.dtype);
    let moved = dense(&x.transpose(at, last)?, wide)?;
    let mut moved_shape = moved.shape().to_vec();
    moved_shape[last] = n;
    let out = in_float!(wide, T => {
        let data = slice::<T>(&moved);
        let rows: usize = moved_shape[..last].iter().product();
        if n <= TINY {
            return Array::from_vec(tiny_inverses(data, rows, size, n, scale)?, &moved_shape)?
                .transpose(at, last)?
                .cast(ty.dtype)
                .contiguous();
        }
        let out = transformed::<T>(rows, n, n, true, |row, signal| {
            let half = &data[row * size..][..size];
            // The second half mirrors the first.
            for (k, out) in signal.iter_mut().enumerate() {
                let re = half.get(k.min(n - k)).copied().unwrap_or(0.0);
                *out = Complex::new(re, 0.0);
            }
        }, |signal, out| {
            out.iter_mut().zip(signal).for_each(|(out, x)| *out = x.re * scale as T);
        })?;
        Array::from_vec(out, &moved_shape)
    })?;
    out.transpose(at, last)?.cast(ty.dtype).contiguous()
}

/// Signals this short are sums of cosines.
const TINY: usize = 8;

/// Returns the signals of `n` elements whose half spectra are rows of `size` real numbers.
fn tiny_inverses<T: Real + fx_core::Element>(
    data: &[T],
    rows: usize,
    size: usize,
    n: usize,
    scale: f64,
) -> Result<Vec<T>> {
    // The second half mirrors the first.
    let used = size.min(n / 2 + 1);
    let factor = |j: usize, k: usize| {
        let twice = if k == 0 || 2 * k == n { 1.0 } else { 2.0 };
        T::from_f64(twice * scale * cosine(j * k, n))
    };
    let table: Vec<T> =
        (0..n).flat_map(|j| (0..used).map(move |k| (j, k))).map(|(j, k)| factor(j, k)).collect();
    let block = n * (BLOCK / n);
    build_blocks(rows * n, block, 32, &|at, out| {
        let lines = data[at / n * size..].chunks(size);
        for (out, line) in out.chunks_mut(n).zip(lines) {
            for (out, factors) in out.iter_mut().zip(table.chunks(used)) {
                *out = line.iter().zip(factors).fold(T::ZERO, |sum, (&x, &factor)| sum + x * factor);
            }
        }
    })
}

/// Returns the cosine of `turns / n` turns, exact for quarters.
fn cosine(turns: usize, n: usize) -> f64 {
    match turns * 4 % (4 * n) {
        0 => 1.0,
        t if t == n || t == 3 * n => 0.0,
        t if t == 2 * n => -1.0,
        _ => (std::f64::consts::TAU * (turns % n) as f64 / n as f64).cos(),
    }
}

/// The elements that a thread transforms at a time, with one scratch buffer.
const AT_ONCE: usize = 1 << 13;

/// Transforms rows of `n` elements: `load` fills one, `store` takes `width` numbers out of it.
pub(crate) fn transformed<T: Planned + Real + fx_core::Element>(
    rows: usize,
    n: usize,
    width: usize,
    inverse: bool,
    load: impl Fn(usize, &mut [Complex<T>]) + Sync,
    store: impl Fn(&[Complex<T>], &mut [T]) + Sync,
) -> Result<Vec<T>> {
    let numel = rows.checked_mul(width).ok_or_else(|| err!(Limit, "a spectrum does not fit into memory"))?;
    if numel == 0 {
        return blank::<T>(0);
    }
    // Asks for the memory first, so that too much of it is an error.
    drop(fx_core::array::try_vec::<f64>(n.saturating_mul(8))?);
    let plan = plan::<T>(n, inverse);
    let zero = Complex::new(T::ZERO, T::ZERO);
    let block = AT_ONCE.div_ceil(n);
    let at_once = if numel < PARALLEL { rows } else { 1 };
    build_blocks(numel, width * block, at_once, &|at, out| {
        let (first, count) = (at / width, out.len() / width);
        let (mut signal, mut scratch) = (vec![zero; n * count], vec![zero; plan.get_inplace_scratch_len()]);
        signal.chunks_mut(n).enumerate().for_each(|(i, signal)| load(first + i, signal));
        plan.process_with_scratch(&mut signal, &mut scratch);
        signal.chunks(n).zip(out.chunks_mut(width)).for_each(|(signal, out)| store(signal, out));
    })
}

/// A type whose plans are kept.
pub(crate) trait Planned: FftNum {
    fn planner() -> &'static Mutex<(FftPlanner<Self>, usize)>;
}
macro_rules! planned {
    ($($t:ty)*) => {$(
        impl Planned for $t {
            fn planner() -> &'static Mutex<(FftPlanner<Self>, usize)> {
                static PLANNER: LazyLock<Mutex<(FftPlanner<$t>, usize)>> =
                    LazyLock::new(|| Mutex::new((FftPlanner::new(), 0)));
                &PLANNER
            }
        }
    )*};
}
planned!(f32 f64);

/// The elements of the plans that a planner keeps; it begins anew with more of them.
const KEPT: usize = 1 << 20;

fn plan<T: Planned>(n: usize, inverse: bool) -> Arc<dyn Fft<T>> {
    let mut planner = T::planner().lock().unwrap_or_else(PoisonError::into_inner);
    planner.1 = planner.1.saturating_add(n);
    if planner.1 > KEPT {
        *planner = (FftPlanner::new(), n);
    }
    if inverse { planner.0.plan_fft_inverse(n) } else { planner.0.plan_fft_forward(n) }
}

/// The half spectra of real signals of an even length, each from a transform of half the length: the even elements are real
/// parts and the odd ones imaginary parts.
struct Halves<T> {
    plan: Arc<dyn Fft<T>>,
    /// `exp(-2 pi i k / n)`.
    turns: Vec<Complex<T>>,
}

impl<T: Planned + Real> Halves<T> {
    fn new(n: usize) -> Self {
        let turn = |k: usize| {
            let angle = -std::f64::consts::TAU * k as f64 / n as f64;
            Complex::new(<T as Real>::from_f64(angle.cos()), <T as Real>::from_f64(angle.sin()))
        };
        Halves { plan: plan(n / 2, false), turns: (0..=n / 2).map(turn).collect() }
    }

    /// Stores frequency `k` of the spectrum of a transformed signal.
    #[inline(always)]
    fn frequency(&self, signal: &[Complex<T>], k: usize) -> Complex<T> {
        let half = signal.len();
        let (a, b) =
            (signal[if k == half { 0 } else { k }], signal[if k == 0 { 0 } else { half - k }].conj());
        let (sum, difference) = (a + b, (a - b) * self.turns[k]);
        let one_half = <T as Real>::from_f64(0.5);
        // The difference times -i.
        Complex::new((sum.re + difference.im) * one_half, (sum.im - difference.re) * one_half)
    }
}

/// The numbers of a short-time transform.
struct Frames {
    n_fft: Dim,
    hop: Dim,
    window: Dim,
    onesided: bool,
}

fn frames<L>(
    n_fft: Dim,
    hop: Option<Dim>,
    window: Option<Dim>,
    onesided: &Arg<L>,
    complex: &Arg<L>,
) -> Result<Frames> {
    let flag = |arg: &Arg<L>, absent: bool| match arg {
        Arg::None => Ok(absent),
        other => other
            .scalar()
            .map(fx_core::Scalar::to_bool)
            .ok_or_else(|| err!(Argument, "expected a bool or none, got {}", other.kind_name())),
    };
    if flag(complex, false)? {
        return Err(err!(Argument, "expected return_complex = false").help("there are no complex dtypes"));
    }
    at_least("an n_fft", 1, &n_fft)?;
    let hop = hop.unwrap_or_else(|| n_fft.floor_div(&Dim::new(4)));
    at_least("a hop_length", 1, &hop)?;
    let window = window.unwrap_or_else(|| n_fft.clone());
    if n_fft.less(&window).is_yes() || window.less(&Dim::new(1)).is_yes() {
        bail!(Argument, "expected a win_length from 1 to n_fft {n_fft}, got {window}");
    }
    Ok(Frames { n_fft, hop, window, onesided: flag(onesided, true)? })
}

#[expect(clippy::too_many_arguments, reason = "PyTorch's schema")]
fn spectra_type(
    x: &TensorType,
    n_fft: Dim,
    hop: Option<Dim>,
    win_length: Option<Dim>,
    window: Option<&TensorType>,
    center: bool,
    pad_mode: &str,
    _normalized: bool,
    onesided: &TypeTree,
    complex: &TypeTree,
) -> Result<TensorType> {
    let frames = frames(n_fft, hop, win_length, onesided, complex)?;
    if let (true, "reflect", Some(length)) = (center, pad_mode, x.shape.last()) {
        let border = frames.n_fft.floor_div(&Dim::new(2));
        if length.less_equal(&border).is_yes() {
            bail!(Shape, "expected a reflected padding below the size {length} of the signal, got {border}");
        }
    }
    frames_type(x, window, center, &frames)
}

fn frames_type(
    x: &TensorType,
    window: Option<&TensorType>,
    center: bool,
    frames: &Frames,
) -> Result<TensorType> {
    float_only(x.dtype)?;
    let [batch @ .., length] = &x.shape[..] else { bail!(Shape, "expected signals [n] or [b, n], got {x}") };
    if batch.len() > 1 {
        bail!(Shape, "expected signals [n] or [b, n], got {x}");
    }
    if let Some(window) = window {
        same_dtype("a window", x.dtype, window.dtype)?;
        crate::check::same_shape("a window", std::slice::from_ref(&frames.window), &window.shape)?;
    }
    let half = frames.n_fft.floor_div(&Dim::new(2));
    let length = if center { length + 2 * &half } else { length.clone() };
    let count = (length - &frames.n_fft).floor_div(&frames.hop) + 1;
    at_least("windows in a signal", 1, &count)?;
    let frequencies = if frames.onesided { half + 1 } else { frames.n_fft.clone() };
    Ok(TensorType::new(x.dtype, batch.iter().chain([&frequencies, &count, &Dim::new(2)]).collect::<Shape>()))
}

#[expect(clippy::too_many_arguments, reason = "PyTorch's schema")]
fn spectra(
    x: &Array,
    n_fft: i64,
    hop: Option<i64>,
    win_length: Option<i64>,
    window: Option<&Array>,
    center: bool,
    pad_mode: &str,
    normalized: bool,
    onesided: &Value,
    complex: &Value,
) -> Result<Array> {
    let frames = frames(n_fft.into(), hop.map(Dim::new), win_length.map(Dim::new), onesided, complex)?;
    let window_ty = crate::check::opt_type_of(window);
    let ty = frames_type(&type_of(x), window_ty.as_ref(), center, &frames)?;
    let shape = sizes(&ty.shape)?;
    checked_numel(&shape)?;
    let [.., frequencies, count, _] = shape[..] else { bail!(Shape, "expected spectra, got {ty}") };
    let number = |dim: &Dim| known(dim).map(|n| n as usize);
    let (n, hop, width) = (number(&frames.n_fft)?, number(&frames.hop)?, number(&frames.window)?);
    let x = match center {
        true => x.apply(crate::pad::pad::OP, &[Arg::ints([n as i64 / 2; 2]), Arg::str(pad_mode)])?,
        false => x.clone(),
    };
    let wide = wide(x.dtype());
    let (x, length) = (dense(&x, wide)?, x.shape()[x.rank() - 1]);
    let window = crate::check::opt_dense(window, wide)?;
    let before = (n - width) / 2;
    let scale = if normalized { 1.0 / (n as f64).sqrt() } else { 1.0 };
    let batch: usize = shape[..shape.len() - 3].iter().product();
    let out = in_float!(wide, T => {
        let (data, window) = (slice::<T>(&x), crate::check::opt_slice::<T>(&window));
        // The window with zeros on both sides, and the scale.
        let mut factors = vec![T::ZERO; n];
        for (i, factor) in factors[before..before + width].iter_mut().enumerate() {
            *factor = window.map_or(1.0, |window| window[i]) * scale as T;
        }
        let part = |row: usize| &data[row / count * length + row % count * hop..][..n];
        let spectra = if n % 2 == 0 && frequencies == n / 2 + 1 {
            let halves = Halves::<T>::new(n);
            half_spectra(&halves, batch * count, &factors, part)?
        } else {
            transformed::<T>(batch * count, n, 2 * frequencies, false, |row, signal| {
                for ((out, &x), &factor) in signal.iter_mut().zip(part(row)).zip(&factors) {
                    *out = Complex::new(x * factor, 0.0);
                }
            }, |signal, out| {
                out.as_chunks_mut::<2>().0.iter_mut().zip(signal).for_each(|(out, x)| *out = [x.re, x.im]);
            })?
        };
        // Frequencies come before windows. A few of them are gathered at a time, for they are neighbours in memory.
        const LINES: usize = 8;
        let (plane, width) = (2 * frequencies * count, 2 * count);
        let out = build_blocks(batch * plane, LINES * width, PARALLEL.div_ceil(LINES * width), &|at, out: &mut [T]| {
            let mut lines = [0; LINES];
            for (line, start) in (at / width..).zip(&mut lines) {
                *start = line / frequencies * plane + 2 * (line % frequencies);
            }
            let lines = &lines[..out.len() / width];
            for window in 0..count {
                for (out, start) in out.chunks_exact_mut(width).zip(lines) {
                    let from = start + 2 * frequencies * window;
                    out[2 * window..2 * window + 2].copy_from_slice(&spectra[from..from + 2]);
                }
            }
        })?;
        Array::from_vec(out, &shape)
    })?;
    Ok(out.cast(ty.dtype))
}

/// Returns the spectra of rows of an even length times `factors`, as pairs.
fn half_spectra<'a, T: Planned + Real + fx_core::Element>(
    halves: &Halves<T>,
    rows: usize,
    factors: &[T],
    part: impl Fn(usize) -> &'a [T] + Sync,
) -> Result<Vec<T>> {
    let half = factors.len() / 2;
    let width = 2 * (half + 1);
    let numel = rows.checked_mul(width).ok_or_else(|| err!(Limit, "a spectrum does not fit into memory"))?;
    let zero = Complex::new(T::ZERO, T::ZERO);
    let block = AT_ONCE.div_ceil(half);
    let at_once = if numel < PARALLEL { rows } else { 1 };
    build_blocks(numel, width * block, at_once, &|at, out| {
        let (first, count) = (at / width, out.len() / width);
        let mut signal = vec![zero; half * count];
        let mut scratch = vec![zero; halves.plan.get_inplace_scratch_len()];
        for (i, signal) in signal.chunks_mut(half).enumerate() {
            let (x, factors) = (part(first + i).as_chunks::<2>().0, factors.as_chunks::<2>().0);
            for ((out, x), factor) in signal.iter_mut().zip(x).zip(factors) {
                *out = Complex::new(x[0] * factor[0], x[1] * factor[1]);
            }
        }
        halves.plan.process_with_scratch(&mut signal, &mut scratch);
        for (signal, out) in signal.chunks(half).zip(out.chunks_mut(width)) {
            for (k, out) in out.as_chunks_mut::<2>().0.iter_mut().enumerate() {
                let x = halves.frequency(signal, k);
                *out = [x.re, x.im];
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{call1, tensor};

    #[test]
    fn a_constant_spectrum_is_an_impulse() {
        let x = tensor(Array::from_vec(vec![1.0f64; 4], &[4]).unwrap());
        let y = call1("fft_irfft", &[x]).unwrap().to_vec::<f64>().unwrap();
        let expected = [1.0, 0.0, 0.0, 0.0, 0.0, 0.0];
        assert!(y.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12), "{y:?}");
    }

    #[test]
    fn threads_do_not_change_a_spectrum() {
        let x: Vec<f32> = (0..60_000).map(|i| (i as f32 * 0.37).sin()).collect();
        let x = tensor(Array::from_vec(x, &[2, 30_000]).unwrap());
        let run = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| call1("stft", &[x.clone(), Arg::Int(100)]).unwrap())
        };
        assert!(run(1).bits_eq(&run(3)));
    }
}
