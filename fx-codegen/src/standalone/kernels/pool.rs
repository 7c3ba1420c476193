//! Pooling over up to three axes.

use super::math::Real;
use super::threads::split;
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

/// Finds the greatest element of each window; NaN if there is one.
pub fn max<T: Copy + PartialOrd + Send + Sync>(window: Window, least: T, x: &[T], out: &mut [T]) {
    let (x_size, out_size) = (product(window.input), product(window.output));
    if out_size > 0 {
        let operations = out_size.saturating_mul(product(window.kernel));
        split(operations, out_size, out, &mut [(); 0], |first, out, _| {
            max_of(window, least, &x[first * x_size..], out);
        });
    }
}

fn max_of<T: Copy + PartialOrd>(window: Window, least: T, x: &[T], out: &mut [T]) {
    let Window { input, kernel, output, stride, padding, .. } = window;
    let (x_size, out_size) = (product(input), product(output));
    out.fill(least);
    for (x, out) in x.chunks_exact(x_size).zip(out.chunks_exact_mut(out_size)) {
        for tap in 0..product(kernel) {
            let shift = window.shift(tap);
            for (line, out) in out.chunks_exact_mut(output[2]).enumerate() {
                let z = (line / output[1] * stride[0] + shift[0]).wrapping_sub(padding[0]);
                let y = (line % output[1] * stride[1] + shift[1]).wrapping_sub(padding[1]);
                if z >= input[0] || y >= input[1] {
                    continue;
                }
                let x = &x[(z * input[1] + y) * input[2]..][..input[2]];
                for (i, out) in out.iter_mut().enumerate() {
                    if let Some(&x) = x.get((i * stride[2] + shift[2]).wrapping_sub(padding[2]))
                        && (x > *out || x != x)
                    {
                        *out = x;
                    }
                }
            }
        }
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
/// without, or by `divisor`.
pub fn average<T: Real>(window: Window, with_padding: bool, divisor: Option<i64>, x: &[T], out: &mut [T]) {
    let Window { input, kernel, output, stride, padding, .. } = window;
    let (x_size, out_size) = (product(input), product(output));
    if out_size == 0 {
        return;
    }
    windows(window, out.len() / out_size, |channel, at, positions| {
        let x = &x[channel * x_size..];
        let (mut sum, mut count) = (T::ZERO, 0);
        for position in positions {
            sum = sum + x[position];
            count += 1;
        }
        let place = [at / (output[1] * output[2]), at / output[2] % output[1], at % output[2]];
        let padded = (0..3).map(|axis| {
            let first = place[axis] * stride[axis];
            (first + kernel[axis]).min(input[axis] + 2 * padding[axis]) - first
        });
        let n = if with_padding { padded.product::<usize>() } else { count };
        let n = divisor.unwrap_or(n as i64);
        // A window without elements has the mean 0.
        let n = if n == 0 { 1 } else { n };
        out[channel * out_size + at] = sum / T::from_f64(n as f64);
    });
}

/// Computes the mean of windows whose sizes follow from those of input and result.
pub fn adaptive_average<T: Real>(input: [usize; 3], output: [usize; 3], x: &[T], out: &mut [T]) {
    adaptive(input, output, out.len(), |channel, at, positions| {
        let x = &x[channel * product(input)..];
        let (mut sum, mut count) = (T::ZERO, 0);
        for position in positions {
            sum = sum + x[position];
            count += 1;
        }
        out[channel * product(output) + at] = sum / T::from_f64(f64::from(count));
    });
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
