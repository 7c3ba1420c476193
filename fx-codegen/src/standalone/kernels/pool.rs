//! Pooling over up to three axes.

use super::math::Real;
use super::row::sum;
use super::simd::simd;
use super::threads::split_outer;
pub use super::window::Window;
use super::window::{Enclosed, enclose, product};

/// Calls `f` for each window of each channel with the channel, the position of the window and its elements'
/// positions.
#[inline(always)]
fn windows(
    window: Window,
    channels: usize,
    mut f: impl FnMut(usize, usize, &mut dyn Iterator<Item = usize>),
) {
    let Window { input, kernel, output, stride, padding, dilation } = window;
    for channel in 0..channels {
        for at in 0..product(output) {
            let place = [at / (output[1] * output[2]), at / output[2] % output[1], at % output[2]];
            let axis = move |axis: usize| {
                let first = place[axis] * stride[axis];
                (0..kernel[axis])
                    .map(move |i| (first + i * dilation[axis]).wrapping_sub(padding[axis]))
                    .filter(move |&x| x < input[axis])
            };
            let mut positions = axis(0).flat_map(|z| {
                axis(1).flat_map(move |y| axis(2).map(move |x| (z * input[1] + y) * input[2] + x))
            });
            f(channel, at, &mut positions);
        }
    }
}

/// Elements of which one is the greatest.
pub trait Extreme: Copy + PartialOrd + Send + Sync {}

impl<T: Copy + PartialOrd + Send + Sync> Extreme for T {}

/// Encloses each channel in a padding of `border`, and joins the elements of its windows.
#[inline(always)]
fn joined<T: Extreme>(
    window: Window,
    border: T,
    x: &[T],
    (work, places): (&mut [T], &mut [i64]),
    out: &mut [T],
    join: impl Fn(Enclosed, &[i64], T, &[T], &mut [T], &mut [T]) + Sync,
) {
    let (x_size, n) = (product(window.input), product(window.output));
    if n == 0 {
        return;
    }
    let enclosed = Enclosed::new(window);
    let places = enclosed.places(places);
    split_outer(n.saturating_mul(places.len()), n, out, work, |i, out, work| {
        let (all, copy) = work.split_at_mut(product(enclosed.sizes));
        enclose(enclosed, border, 1, &x[i * x_size..], copy);
        join(enclosed, places, border, copy, all, out);
    });
}

/// Finds the greatest element of each window; NaN if there is one. `work` and `places` are as those of
/// [`super::conv::conv`] for one channel.
pub fn max<T: Extreme>(window: Window, least: T, x: &[T], work: &mut [T], places: &mut [i64], out: &mut [T]) {
    joined(window, least, x, (work, places), out, greatest);
}

simd! {
    /// Finds the greatest elements, from `least` on.
    fn greatest<T: Extreme>(
        enclosed: Enclosed, places: &[i64], least: T, x: &[T], all: &mut [T], out: &mut [T],
    ) {
        enclosed.join((places, places), least, x, all, out, |best, x, _| if x > best || x != x { x } else { best });
    }
}

/// Finds the position of the greatest element of each window in its channel: the first of equal ones, but the
/// last NaN.
pub fn max_positions<T: Copy + PartialOrd>(window: Window, x: &[T], out: &mut [i64]) {
    let (x_size, out_size) = (product(window.input), product(window.output));
    if out_size == 0 {
        return;
    }
    windows(window, out.len() / out_size, |channel, at, positions| {
        let x = &x[channel * x_size..];
        let mut best: Option<usize> = None;
        for position in positions {
            let element = x[position];
            if best.is_none_or(|best| element > x[best] || element != element) {
                best = Some(position);
            }
        }
        out[channel * out_size + at] = best.map_or(0, |best| best as i64);
    });
}

/// Computes the mean of each window. It is divided by the number of its elements, with the padding or
/// without, or by `divisor`. `work` and `places` are as those of [`max`].
pub fn average<T: Real + Extreme>(
    window: Window,
    with_padding: bool,
    divisor: Option<i64>,
    x: &[T],
    work: &mut [T],
    places: &mut [i64],
    out: &mut [T],
) {
    let Window { input, kernel, output, stride, padding, .. } = window;
    joined(window, T::ZERO, x, (work, places), out, sums);
    // How many elements of a window count along an axis.
    let count = |axis: usize, at: usize| {
        let (first, pad) = (at * stride[axis], padding[axis]);
        let end = first + kernel[axis];
        match with_padding {
            true => end.min(input[axis] + 2 * pad) - first,
            false => end.min(input[axis] + pad).saturating_sub(first.max(pad)),
        }
    };
    if output[2] == 0 {
        return;
    }
    for (line, out) in out.chunks_exact_mut(output[2]).enumerate() {
        let outer = count(0, line / output[1] % output[0]) * count(1, line % output[1]);
        for (at, out) in out.iter_mut().enumerate() {
            // A window without elements has the mean 0.
            let n = divisor.unwrap_or((outer * count(2, at)) as i64);
            *out = *out / T::from_f64(if n == 0 { 1.0 } else { n as f64 });
        }
    }
}

simd! {
    /// Adds the elements to `zero`.
    fn sums<T: Real>(enclosed: Enclosed, places: &[i64], zero: T, x: &[T], all: &mut [T], out: &mut [T]) {
        enclosed.join((places, places), zero, x, all, out, |sum, x, _| sum + x);
    }
}

simd! {
    /// Computes the mean of windows whose sizes follow from those of input and result.
    pub fn adaptive_average<T: Real>(input: [usize; 3], output: [usize; 3], x: &[T], out: &mut [T]) {
        let out_size = product(output);
        if out_size == 0 {
            return;
        }
        let range = |axis: usize, at: usize| {
            let end = ((at + 1) * input[axis]).div_ceil(output[axis]);
            at * input[axis] / output[axis]..end
        };
        for (i, out) in out.iter_mut().enumerate() {
            let (channel, at) = (i / out_size, i % out_size);
            let x = &x[channel * product(input)..];
            let [z, y, columns] = [at / (output[1] * output[2]), at / output[2] % output[1], at % output[2]];
            let (planes, lines, columns) = (range(0, z), range(1, y), range(2, columns));
            let n = planes.len() * lines.len() * columns.len();
            let mut total = T::ZERO;
            if lines.len() * columns.len() == input[1] * input[2] {
                let plane = input[1] * input[2];
                total = sum(&x[planes.start * plane..planes.end * plane]);
            } else {
                for line in planes.flat_map(|z| lines.clone().map(move |y| z * input[1] + y)) {
                    total = total + sum(&x[line * input[2]..][columns.clone()]);
                }
            }
            *out = total / T::from_f64(n as f64);
        }
    }
}

/// Finds the greatest element of windows whose sizes follow from those of input and result, or NaN, and where
/// it is: the first of equal ones, but the last NaN.
pub fn adaptive_max<T: Copy + PartialOrd>(
    input: [usize; 3],
    output: [usize; 3],
    x: &[T],
    out: &mut [T],
    places: Option<&mut [i64]>,
) {
    let mut places = places;
    adaptive(input, output, out.len(), |channel, at, positions| {
        let x = &x[channel * product(input)..];
        let mut best: Option<usize> = None;
        for position in positions {
            let element = x[position];
            if best.is_none_or(|best| element > x[best] || element != element) {
                best = Some(position);
            }
        }
        let Some(best) = best else { return };
        out[channel * product(output) + at] = x[best];
        if let Some(places) = &mut places {
            places[channel * product(output) + at] = best as i64;
        }
    });
}

fn adaptive(
    input: [usize; 3],
    output: [usize; 3],
    n: usize,
    mut f: impl FnMut(usize, usize, &mut dyn Iterator<Item = usize>),
) {
    if product(output) == 0 {
        return;
    }
    for channel in 0..n / product(output) {
        for at in 0..product(output) {
            let place = [at / (output[1] * output[2]), at / output[2] % output[1], at % output[2]];
            let axis = move |axis: usize| {
                let first = place[axis] * input[axis] / output[axis];
                let last = ((place[axis] + 1) * input[axis]).div_ceil(output[axis]);
                first..last
            };
            let mut positions = axis(0).flat_map(|z| {
                axis(1).flat_map(move |y| axis(2).map(move |x| (z * input[1] + y) * input[2] + x))
            });
            f(channel, at, &mut positions);
        }
    }
}
