//! Fourier transforms with real results, made by `kernel::fft`. There are no complex dtypes: spectra are
//! pairs of reals.

use fx_core::array::{BLOCK, build_blocks, checked_numel};
use fx_core::math::Real;
use fx_core::op::Default::None as Nothing;
use fx_core::op::Flops::Unknown;
use fx_core::{Arg, Array, DType, Dim, Op, Result, Shape, TensorType, TypeTree, Value, bail, err, kernels};

use crate::kernel::fft::{pairs_to_reals, reals_to_pairs};
use crate::ops::check::{at_least, dense, float_only, in_float, same_dtype, sizes, slice, type_of, wide};
use crate::ops::compose::Operand;
use crate::ops::infer::{axis, known};

/// The tables of this file.
pub(super) static TABLES: &[&[Op]] = &[TRANSFORMS];

kernels! {
    /// Fourier transforms.
    pub trait Transforms; pub static TRANSFORMS;

    /// The real signal of `n` elements along `dim` whose spectrum `x` is the first half, here of reals:
    /// `n = 2 (size - 1)` if nothing is given.
    ///
    /// `norm` says by what it is divided: `"backward"` (or none) `n`, `"ortho"` its root, `"forward"`
    /// nothing. Integers are taken as f32.
    #[flops = Unknown]
    fft_irfft(x: Tensor, n: OptInt = None, dim: Int = -1, norm: Any = Nothing) =
        |x: &TensorType, n: Option<Dim>, dim: Dim, norm: &TypeTree| {
            scale_of(norm, 1)?;
            inverse_type(x, n, dim)
        },
        inverse;
    /// The spectra of windows of `n_fft` elements, `hop_length` (if nothing is given `n_fft / 4`) apart, of
    /// signals `[n]` or `[b, n]`: `[.., n_fft / 2 + 1, windows, 2]`, real and imaginary parts.
    ///
    /// Windows are multiplied by `window`, of `win_length` elements in the middle; `center` pads signals by
    /// half a window as `pad_mode` of `pad` says; `normalized` divides by the root of `n_fft`; without
    /// `onesided` there are `n_fft` frequencies. `return_complex` must be false.
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
        let out = pairs_to_reals::<T>(rows, n, scale as T, |row, pairs| {
            let reals = &data[row * size..][..size];
            pairs.iter_mut().zip(reals).for_each(|(pair, &re)| pair[0] = re);
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
        crate::ops::check::same_shape("a window", std::slice::from_ref(&frames.window), &window.shape)?;
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
    let window_ty = crate::ops::check::opt_type_of(window);
    let ty = frames_type(&type_of(x), window_ty.as_ref(), center, &frames)?;
    let shape = sizes(&ty.shape)?;
    checked_numel(&shape)?;
    let [.., frequencies, count, _] = shape[..] else { bail!(Shape, "expected spectra, got {ty}") };
    let number = |dim: &Dim| known(dim).map(|n| n as usize);
    let (n, hop, width) = (number(&frames.n_fft)?, number(&frames.hop)?, number(&frames.window)?);
    let x = match center {
        true => x.apply(crate::ops::pad::pad::OP, &[Arg::ints([n as i64 / 2; 2]), Arg::str(pad_mode)])?,
        false => x.clone(),
    };
    let wide = wide(x.dtype());
    let (x, length) = (dense(&x, wide)?, x.shape()[x.rank() - 1]);
    let window = crate::ops::check::opt_dense(window, wide)?;
    let before = (n - width) / 2;
    let scale = if normalized { 1.0 / (n as f64).sqrt() } else { 1.0 };
    let batch: usize = shape[..shape.len() - 3].iter().product();
    let out = in_float!(wide, T => {
        let (data, window) = (slice::<T>(&x), crate::ops::check::opt_slice::<T>(&window));
        // The window with zeros on both sides, and the scale.
        let mut factors = vec![T::ZERO; n];
        for (i, factor) in factors[before..before + width].iter_mut().enumerate() {
            *factor = window.map_or(1.0, |window| window[i]) * scale as T;
        }
        let part = |row: usize| &data[row / count * length + row % count * hop..][..n];
        let spectra = reals_to_pairs(batch * count, n, frequencies, 1.0, |row, out: &mut [T]| {
            for ((out, &x), &factor) in out.iter_mut().zip(part(row)).zip(&factors) {
                *out = x * factor;
            }
        })?;
        // Frequencies come before windows in the result, which is a view.
        let array = Array::from_vec(spectra, &[batch, count, frequencies, 2])?.permute(&[0, 2, 1, 3])?;
        array.reshape(&shape)
    })?;
    Ok(out.cast(ty.dtype))
}
