//! Fourier transforms of rows, by the crate rustfft. Those between reals and pairs of an even length take
//! half the length: even elements are real parts, odd ones imaginary parts.

use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use fx_base::math::Real;
use fx_base::{Result, err};
use rustfft::num_complex::Complex;
use rustfft::{Fft, FftNum, FftPlanner};

use crate::PARALLEL;
use crate::memory::{blocks, reserve};

/// The elements that a thread transforms at a time, with one scratch buffer.
const AT_ONCE: usize = 1 << 13;

/// A float that is transformed; its plans are kept.
pub trait Float: FftNum + Real + Default {
    /// Returns the planner of these floats, and the number of elements of the plans that it keeps.
    fn planner() -> &'static Mutex<(FftPlanner<Self>, usize)>;
}
macro_rules! floats {
    ($($t:ty)*) => {$(
        impl Float for $t {
            fn planner() -> &'static Mutex<(FftPlanner<Self>, usize)> {
                static PLANNER: LazyLock<Mutex<(FftPlanner<$t>, usize)>> =
                    LazyLock::new(|| Mutex::new((FftPlanner::new(), 0)));
                &PLANNER
            }
        }
    )*};
}
floats!(f32 f64);

/// The elements of the plans that a planner keeps; it begins anew with more of them.
const KEPT: usize = 1 << 20;

/// Refuses a size for which there is not enough memory, before anything aborts for want of it.
fn fits(n: usize) -> Result<()> {
    drop(reserve::<f64>(n.saturating_mul(8))?);
    Ok(())
}

fn plan<T: Float>(n: usize, inverse: bool) -> Result<Arc<dyn Fft<T>>> {
    fits(n)?;
    let mut planner = T::planner().lock().unwrap_or_else(PoisonError::into_inner);
    planner.1 = planner.1.saturating_add(n);
    if planner.1 > KEPT {
        *planner = (FftPlanner::new(), n);
    }
    Ok(if inverse { planner.0.plan_fft_inverse(n) } else { planner.0.plan_fft_forward(n) })
}

fn zero<T: Float>() -> Complex<T> {
    Complex::new(<T as Real>::ZERO, <T as Real>::ZERO)
}

/// Transforms rows of `n` numbers in place: `load` fills one, `store` makes `width` elements of it.
fn transformed<T: Float>(
    rows: usize,
    n: usize,
    width: usize,
    inverse: bool,
    load: impl Fn(usize, &mut [Complex<T>]) + Sync,
    store: impl Fn(&[Complex<T>], &mut [T]) + Sync,
) -> Result<Vec<T>> {
    let numel = rows.checked_mul(width).ok_or_else(|| err!(Limit, "a spectrum does not fit into memory"))?;
    if numel == 0 {
        return Ok(Vec::new());
    }
    let plan = plan::<T>(n, inverse)?;
    let block = AT_ONCE.div_ceil(n);
    let at_once = if numel < PARALLEL { rows } else { 1 };
    blocks(numel, width * block, at_once, &|at, out| {
        let (first, count) = (at / width, out.len() / width);
        let mut signal = vec![zero::<T>(); n * count];
        let mut scratch = vec![zero::<T>(); plan.get_inplace_scratch_len()];
        signal.chunks_mut(n).enumerate().for_each(|(i, signal)| load(first + i, signal));
        plan.process_with_scratch(&mut signal, &mut scratch);
        signal.chunks(n).zip(out.chunks_mut(width)).for_each(|(signal, out)| store(signal, out));
    })
}

/// Returns pairs as complex numbers.
fn complex<T: Float>(pairs: &mut [T]) -> &mut [Complex<T>] {
    // SAFETY: a complex number is laid out as its real and its imaginary part; there is half as many of them.
    unsafe { std::slice::from_raw_parts_mut(pairs.as_mut_ptr().cast(), pairs.len() / 2) }
}

/// Transforms rows of `n` pairs, which lie one after the other, and multiplies the results by `scale`. Fails if
/// there is not enough memory.
pub fn pairs_to_pairs<T: Float>(data: &[T], n: usize, inverse: bool, scale: T) -> Result<Vec<T>> {
    if data.is_empty() {
        return Ok(Vec::new());
    }
    let plan = plan::<T>(n, inverse)?;
    let block = if data.len() < PARALLEL { data.len() } else { 2 * n * AT_ONCE.div_ceil(n) };
    blocks(data.len(), block, 1, &|at, out| {
        let mut scratch = vec![zero::<T>(); plan.get_inplace_scratch_len()];
        out.copy_from_slice(&data[at..at + out.len()]);
        plan.process_with_scratch(complex(out), &mut scratch);
        if scale != <T as Real>::ONE {
            out.iter_mut().for_each(|x| *x = *x * scale);
        }
    })
}

/// Transforms rows of `n` reals, which `load` writes, to pairs for the first `frequencies`, and multiplies
/// them by `scale`. Fails if there is not enough memory.
pub fn reals_to_pairs<T: Float>(
    rows: usize,
    n: usize,
    frequencies: usize,
    scale: T,
    load: impl Fn(usize, &mut [T]) + Sync,
) -> Result<Vec<T>> {
    if n % 2 == 1 || frequencies > n / 2 + 1 {
        let load = |row: usize, signal: &mut [Complex<T>]| {
            let mut reals = vec![<T as Real>::ZERO; n];
            load(row, &mut reals);
            signal.iter_mut().zip(reals).for_each(|(x, re)| *x = Complex::new(re, <T as Real>::ZERO));
        };
        let store = |signal: &[Complex<T>], out: &mut [T]| {
            let out = out.as_chunks_mut::<2>().0;
            out.iter_mut().zip(signal).for_each(|(out, x)| *out = [x.re * scale, x.im * scale]);
        };
        return transformed(rows, n, 2 * frequencies, false, load, store);
    }
    let turns = turns::<T>(n)?;
    let load = |row: usize, signal: &mut [Complex<T>]| {
        let mut reals = vec![<T as Real>::ZERO; n];
        load(row, &mut reals);
        let pairs = reals.as_chunks::<2>().0;
        signal.iter_mut().zip(pairs).for_each(|(x, &[re, im])| *x = Complex::new(re, im));
    };
    let store = |signal: &[Complex<T>], out: &mut [T]| {
        let out = out.as_chunks_mut::<2>().0;
        if out.len() == n / 2 + 1 {
            return fx_simd::call::<unfold, _>((signal, &turns[..], scale, out));
        }
        let mut all = vec![[<T as Real>::ZERO; 2]; n / 2 + 1];
        fx_simd::call::<unfold, _>((signal, &turns[..], scale, &mut all[..]));
        out.copy_from_slice(&all[..out.len()]);
    };
    transformed(rows, n / 2, 2 * frequencies, false, load, store)
}

/// Transforms rows of the first frequencies, of which `load` writes `n / 2 + 1` pairs, back to `n` reals, and
/// multiplies them by `scale`. Numbers that must be real for the result to be real count as real.
/// Fails if there is not enough memory.
pub fn pairs_to_reals<T: Float>(
    rows: usize,
    n: usize,
    scale: T,
    load: impl Fn(usize, &mut [[T; 2]]) + Sync,
) -> Result<Vec<T>> {
    let half = n / 2;
    let spectrum = |row: usize| {
        let mut pairs = vec![[<T as Real>::ZERO; 2]; half + 1];
        load(row, &mut pairs);
        pairs[0][1] = <T as Real>::ZERO;
        if n.is_multiple_of(2) {
            pairs[half][1] = <T as Real>::ZERO;
        }
        pairs
    };
    if n % 2 == 1 {
        // The second half mirrors the first.
        let load = |row: usize, signal: &mut [Complex<T>]| {
            let pairs = spectrum(row);
            let (first, second) = signal.split_at_mut(half + 1);
            first.iter_mut().zip(&pairs).for_each(|(x, &[re, im])| *x = Complex::new(re, im));
            second.iter_mut().rev().zip(&pairs[1..]).for_each(|(x, &[re, im])| *x = Complex::new(re, -im));
        };
        let store = |signal: &[Complex<T>], out: &mut [T]| {
            out.iter_mut().zip(signal).for_each(|(out, x)| *out = x.re * scale);
        };
        return transformed(rows, n, n, true, load, store);
    }
    let turns = turns::<T>(n)?;
    let load = |row: usize, signal: &mut [Complex<T>]| {
        fx_simd::call::<refold, _>((&spectrum(row)[..], &turns[..], signal));
    };
    let store = |signal: &[Complex<T>], out: &mut [T]| {
        let out = out.as_chunks_mut::<2>().0;
        out.iter_mut().zip(signal).for_each(|(out, x)| *out = [x.re * scale, x.im * scale]);
    };
    transformed(rows, half, n, true, load, store)
}

/// Returns `exp(-2 pi i k / n)` for `k` up to a quarter of a turn.
fn turns<T: Float>(n: usize) -> Result<Vec<[T; 2]>> {
    fits(n)?;
    let turn = |k: usize| {
        let angle = -std::f64::consts::TAU * k as f64 / n as f64;
        [<T as Real>::from_f64(angle.cos()), <T as Real>::from_f64(angle.sin())]
    };
    Ok((0..=n / 4).map(turn).collect())
}

fx_simd::wide! {
    /// Makes the spectrum of `2 h` reals of the transform of their `h` pairs.
    fn unfold[T: Float]((signal, turns, scale, out): (&[Complex<T>], &[[T; 2]], T, &mut [[T; 2]])) {
        let (zero, h) = (<T as Real>::ZERO, signal.len());
        let (first, half) = (signal[0], scale * <T as Real>::from_f64(0.5));
        out[0] = [(first.re + first.im) * scale, zero];
        out[h] = [(first.re - first.im) * scale, zero];
        if h.is_multiple_of(2) {
            out[h / 2] = [signal[h / 2].re * scale, zero - signal[h / 2].im * scale];
        }
        // Frequencies k and h - k come of the same two numbers.
        let m = (h - 1) / 2;
        let (low, high) = out[..h].split_at_mut(h - m);
        let numbers = signal[1..m + 1].iter().zip(signal[h - m..].iter().rev());
        let results = low[1..m + 1].iter_mut().zip(high.iter_mut().rev());
        for (((a, b), [cos, sin]), (low, high)) in numbers.zip(&turns[1..m + 1]).zip(results) {
            let (even_re, even_im) = ((a.re + b.re) * half, (a.im - b.im) * half);
            let (odd_re, odd_im) = ((a.im + b.im) * half, (b.re - a.re) * half);
            let (re, im) = (odd_re * *cos - odd_im * *sin, odd_re * *sin + odd_im * *cos);
            *low = [even_re + re, even_im + im];
            *high = [even_re - re, im - even_im];
        }
    }

    /// Makes of the spectrum of `2 h` reals the numbers of which the inverse transform gives them in pairs,
    /// times `2 h`.
    fn refold[T: Float]((spectrum, turns, signal): (&[[T; 2]], &[[T; 2]], &mut [Complex<T>])) {
        let h = signal.len();
        let ([first, _], [last, _]) = (spectrum[0], spectrum[h]);
        signal[0] = Complex::new(first + last, first - last);
        if h.is_multiple_of(2) {
            let [re, im] = spectrum[h / 2];
            signal[h / 2] = Complex::new(re + re, <T as Real>::ZERO - (im + im));
        }
        let m = (h - 1) / 2;
        let (low, high) = signal.split_at_mut(h - m);
        let pairs = spectrum[1..m + 1].iter().zip(spectrum[h - m..h].iter().rev());
        let results = low[1..m + 1].iter_mut().zip(high.iter_mut().rev());
        for (((a, b), [cos, sin]), (low, high)) in pairs.zip(&turns[1..m + 1]).zip(results) {
            let (even_re, even_im) = (a[0] + b[0], a[1] - b[1]);
            let (re, im) = (a[0] - b[0], a[1] + b[1]);
            // Times the conjugate of the turn.
            let (odd_re, odd_im) = (re * *cos + im * *sin, im * *cos - re * *sin);
            *low = Complex::new(even_re - odd_im, even_im + odd_re);
            *high = Complex::new(even_re + odd_im, odd_re - even_im);
        }
    }
}
