//! Pooling over up to three axes.

use super::math::Real;
use super::row::sum;
use super::simd::simd;
use super::threads::split_outer;
pub use super::window::Window;
use super::window::product;

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

/// Returns how many elements [`max`] and [`average`] need: a line of windows.
pub const fn work(output: usize, kernel: usize, stride: usize, dilation: usize) -> usize {
    if output == 0 { 0 } else { (output - 1) * stride + (kernel - 1) * dilation + 1 }
}

/// Joins the elements of each window of a channel: first those of the same column, then the columns. `border` changes
/// nothing.
#[inline(always)]
fn join<T: Copy>(window: Window, border: T, x: &[T], line: &mut [T], out: &mut [T], f: impl Fn(T, T) -> T) {
    let Window { input, kernel, output, stride, padding, dilation } = window;
    let line = &mut line[..work(output[2], kernel[2], stride[2], dilation[2])];
    let (first, end) = (padding[2].min(line.len()), (padding[2] + input[2]).min(line.len()));
    for (at, out) in out.chunks_exact_mut(output[2]).enumerate() {
        let (z, y) = (at / output[1] * stride[0], at % output[1] * stride[1]);
        line.fill(border);
        let columns = &mut line[first..end];
        for kz in 0..kernel[0] {
            for ky in 0..kernel[1] {
                let z = (z + kz * dilation[0]).wrapping_sub(padding[0]);
                let y = (y + ky * dilation[1]).wrapping_sub(padding[1]);
                if z < input[0] && y < input[1] {
                    let from = &x[(z * input[1] + y) * input[2]..];
                    columns.iter_mut().zip(from).for_each(|(to, &x)| *to = f(*to, x));
                }
            }
        }
        out.fill(border);
        for kx in 0..kernel[2] {
            let from = &line[kx * dilation[2]..];
            match stride[2] {
                1 => out.iter_mut().zip(from).for_each(|(out, &x)| *out = f(*out, x)),
                2 => {
                    let pairs = from.as_chunks::<2>().0;
                    out.iter_mut().zip(pairs).for_each(|(out, &[x, _])| *out = f(*out, x));
                    // There may be no element behind the last one.
                    if let Some(out) = out.get_mut(pairs.len()) {
                        *out = f(*out, from[2 * pairs.len()]);
                    }
                }
                step => out.iter_mut().zip(from.iter().step_by(step)).for_each(|(out, &x)| *out = f(*out, x)),
            }
        }
    }
}

/// Calls `f` with each channel and its results.
#[inline(always)]
fn each_channel<T: Extreme>(
    window: Window,
    x: &[T],
    work: &mut [T],
    out: &mut [T],
    f: impl Fn(&[T], &mut [T], &mut [T]) + Sync,
) {
    let (x_size, n) = (product(window.input), product(window.output));
    if n > 0 {
        split_outer(n.saturating_mul(product(window.kernel)), n, out, work, |i, out, work| {
            f(&x[i * x_size..][..x_size], work, out);
        });
    }
}

/// Finds the greatest element of each window; NaN if there is one. `room` holds what [`work`] says.
pub fn max<T: Extreme>(window: Window, least: T, x: &[T], room: &mut [T], out: &mut [T]) {
    each_channel(window, x, room, out, |x, room, out| greatest(window, least, x, room, out));
}

simd! {
    /// Finds the greatest elements, from `least` on.
    fn greatest<T: Extreme>(window: Window, least: T, x: &[T], room: &mut [T], out: &mut [T]) {
        join(window, least, x, room, out, |best, x| if x > best || x != x { x } else { best });
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
/// without, or by `divisor`. `room` holds what [`work`] says.
pub fn average<T: Real + Extreme>(
    window: Window,
    with_padding: bool,
    divisor: Option<i64>,
    x: &[T],
    room: &mut [T],
    out: &mut [T],
) {
    let Window { input, kernel, output, stride, padding, .. } = window;
    each_channel(window, x, room, out, |x, room, out| sums(window, x, room, out));
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
    /// Adds the elements of windows.
    fn sums<T: Real>(window: Window, x: &[T], room: &mut [T], out: &mut [T]) {
        join(window, T::ZERO, x, room, out, |sum, x| sum + x);
    }
}

/// Returns the sum of elements that are perhaps few.
#[inline(always)]
fn short_sum<T: Real>(x: &[T]) -> T {
    if x.len() < 16 { x.iter().fold(T::ZERO, |sum, &x| sum + x) } else { sum(x) }
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
        let (plane, mut from) = (input[1] * input[2], x);
        for out in out.chunks_exact_mut(out_size) {
            let (x, rest) = from.split_at(product(input));
            from = rest;
            let mut results = out.iter_mut();
            for planes in (0..output[0]).map(|z| range(0, z)) {
                if output[1..] == [1, 1]
                    && let Some(out) = results.next()
                {
                    // Planes follow each other.
                    let x = &x[planes.start * plane..planes.end * plane];
                    *out = short_sum(x) / T::from_f64(x.len() as f64);
                    continue;
                }
                for lines in (0..output[1]).map(|y| range(1, y)) {
                    for (columns, out) in (0..output[2]).map(|x| range(2, x)).zip(&mut results) {
                        let mut total = T::ZERO;
                        for line in planes.clone().flat_map(|z| lines.clone().map(move |y| z * input[1] + y)) {
                            total = total + short_sum(&x[line * input[2]..][columns.clone()]);
                        }
                        *out = total / T::from_f64((planes.len() * lines.len() * columns.len()) as f64);
                    }
                }
            }
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
