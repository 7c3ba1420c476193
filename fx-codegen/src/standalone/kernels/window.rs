//! [`Window`]: the geometry of operations on windows over up to three axes; those with fewer have sizes of 1
//! in front.

use super::simd::simd;

/// How windows lie on an input; sizes of axes are those of depth, height and width.
#[derive(Clone, Copy)]
pub struct Window {
    /// The sizes of the input.
    pub input: [usize; 3],
    /// The sizes of a window.
    pub kernel: [usize; 3],
    /// The sizes of the result.
    pub output: [usize; 3],
    /// The distance between windows.
    pub stride: [usize; 3],
    /// The padding before the input.
    pub padding: [usize; 3],
    /// The distance between the elements of a window.
    pub dilation: [usize; 3],
}

impl Window {
    /// Returns how far an element of a window is from its first one, along each axis.
    #[inline(always)]
    pub fn shift(&self, tap: usize) -> [usize; 3] {
        let [depth, height, width] = self.kernel;
        [
            tap / (height * width) % depth * self.dilation[0],
            tap / width % height * self.dilation[1],
            tap % width * self.dilation[2],
        ]
    }
}

/// Returns the number of elements.
pub const fn product([a, b, c]: [usize; 3]) -> usize {
    a * b * c
}

/// Returns the first window in which an element of the kernel lies inside of the input, and the first after
/// it in which it does not.
#[inline(always)]
pub fn inside(input: usize, output: usize, stride: usize, padding: usize, shift: usize) -> (usize, usize) {
    let from = padding.saturating_sub(shift).div_ceil(stride);
    let to = (input + padding).saturating_sub(shift).div_ceil(stride).min(output);
    (from.min(to), to)
}

/// The windows of a channel that are computed at a time.
const LANES: usize = 16;

/// Copies elements that lie a step apart.
#[inline(always)]
fn take_each<T: Copy>(step: usize, from: &[T], out: &mut [T]) {
    match (step, out.split_last_mut()) {
        (1, _) => out.copy_from_slice(&from[..out.len()]),
        (2, Some((last, out))) => {
            // There may be no element behind the last one.
            out.iter_mut().zip(from.as_chunks::<2>().0).for_each(|(out, &[x, _])| *out = x);
            *last = from[2 * out.len()];
        }
        _ => out.iter_mut().zip(from.iter().step_by(step)).for_each(|(out, &x)| *out = x),
    }
}

/// How many parts the strides make of an axis, and how long these are.
pub const fn phases(output: usize, kernel: usize, stride: usize, dilation: usize) -> (usize, usize) {
    let reach = (kernel - 1) * dilation;
    (if reach < stride { reach + 1 } else { stride }, output + reach / stride)
}

/// A copy of a channel, enclosed in its padding and parted by the strides: the elements that windows have at one
/// of their positions follow each other, for all windows.
#[derive(Clone, Copy)]
pub struct Enclosed {
    pub window: Window,
    /// How many parts the strides make of each axis.
    parts: [usize; 3],
    /// The sizes of a part.
    pub sizes: [usize; 3],
}

impl Enclosed {
    pub fn new(window: Window) -> Enclosed {
        let axis =
            |a: usize| phases(window.output[a], window.kernel[a], window.stride[a], window.dilation[a]);
        let [z, y, x] = [axis(0), axis(1), axis(2)];
        Enclosed { window, parts: [z.0, y.0, x.0], sizes: [z.1, y.1, x.1] }
    }

    /// Returns how many elements the copy of a channel has.
    pub fn len(&self) -> usize {
        product(self.parts) * product(self.sizes)
    }

    /// Returns how many windows there are, with those that cross the border but after the last one.
    pub fn windows(&self) -> usize {
        let [z, y, x] = self.window.output;
        ((z - 1) * self.sizes[1] + y - 1) * self.sizes[2] + x
    }

    /// Notes where the elements at each position of the windows begin.
    pub fn places<'a>(&self, room: &'a mut [i64]) -> &'a [i64] {
        let places = &mut room[..product(self.window.kernel)];
        for (tap, place) in places.iter_mut().enumerate() {
            *place = self.place(tap) as i64;
        }
        places
    }

    /// Returns where the elements at a position of the windows begin.
    pub fn place(&self, tap: usize) -> usize {
        let (shift, stride) = (self.window.shift(tap), self.window.stride);
        let [z, y, x] = [0, 1, 2].map(|a| shift[a] % stride[a]);
        let part = (z * self.parts[1] + y) * self.parts[2] + x;
        let [z, y, x] = [0, 1, 2].map(|a| shift[a] / stride[a]);
        part * product(self.sizes) + (z * self.sizes[1] + y) * self.sizes[2] + x
    }

    /// Returns whether no window crosses the border.
    pub fn is_exact(&self) -> bool {
        self.sizes[1..] == self.window.output[1..]
    }

    /// Copies a channel, with this element for the padding.
    #[inline(always)]
    pub fn fill<T: Copy>(&self, border: T, x: &[T], out: &mut [T]) {
        let Window { input, stride, padding, .. } = self.window;
        let ([planes, lines, line], step) = (self.sizes, stride[2]);
        let mut parts = out.chunks_exact_mut(planes * lines * line);
        for (pz, py, px) in self.phases() {
            let Some(part) = parts.next() else { return };
            // The elements of a line that lie in the input, the first of which is so far into it.
            let first = padding[2].saturating_sub(px).div_ceil(step).min(line);
            let end = (input[2] + padding[2]).saturating_sub(px).div_ceil(step).clamp(first, line);
            let skipped = (first * step + px).wrapping_sub(padding[2]);
            for (z, plane) in part.chunks_exact_mut(lines * line).enumerate() {
                let z = (z * stride[0] + pz).wrapping_sub(padding[0]);
                for (y, out) in plane.chunks_exact_mut(line).enumerate() {
                    let y = (y * stride[1] + py).wrapping_sub(padding[1]);
                    if z >= input[0] || y >= input[1] || first == end {
                        out.fill(border);
                        continue;
                    }
                    out[..first].fill(border);
                    out[end..].fill(border);
                    let from = &x[(z * input[1] + y) * input[2] + skipped..];
                    take_each(step, from, &mut out[first..end]);
                }
            }
        }
    }

    /// Returns the parts that the strides make, in order.
    #[inline(always)]
    fn phases(&self) -> impl Iterator<Item = (usize, usize, usize)> + use<> {
        let [z, y, x] = self.parts;
        (0..z * y * x).map(move |part| (part / (y * x), part / x % y, part % x))
    }

    /// Joins the elements of each window of a channel with `start`, in order: those at a position of the windows begin
    /// at its place, and are joined with its weight. `all` has room for the windows that cross the border, too.
    #[inline(always)]
    pub fn join<T: Copy, W: Copy>(
        &self,
        (places, weights): (&[i64], &[W]),
        start: T,
        x: &[T],
        all: &mut [T],
        out: &mut [T],
        f: impl Fn(T, T, W) -> T,
    ) {
        let ([_, height, width], [_, lines, line]) = (self.window.output, self.sizes);
        // Short lines are computed as one, with what lies between.
        let is_short = width < LANES;
        let (to, len) =
            if is_short { (&mut all[..self.windows()], self.windows()) } else { (&mut *out, width) };
        for (i, to) in to.chunks_exact_mut(len).enumerate() {
            let first = (i / height * lines + i % height) * line;
            let taps = places.iter().zip(weights).map(|(&place, &weight)| (first + place as usize, weight));
            if len < LANES {
                for (at, to) in to.iter_mut().enumerate() {
                    *to =
                        taps.clone().fold(start, |result, (place, weight)| f(result, x[place + at], weight));
                }
                continue;
            }
            for at in (0..len).step_by(LANES) {
                // The last windows are perhaps computed twice.
                let at = at.min(len - LANES);
                let mut results = [start; LANES];
                for (place, weight) in taps.clone() {
                    let x = &x[place + at..][..LANES];
                    for i in 0..LANES {
                        results[i] = f(results[i], x[i], weight);
                    }
                }
                to[at..][..LANES].copy_from_slice(&results);
            }
        }
        if is_short {
            self.keep(all, out);
        }
    }

    /// Takes the windows that do not cross the border out of all.
    #[inline(always)]
    pub fn keep<T: Copy>(&self, all: &[T], out: &mut [T]) {
        let ([_, height, row], [_, lines, line]) = (self.window.output, self.sizes);
        for (out, all) in out.chunks_exact_mut(height * row).zip(all.chunks(lines * line)) {
            for (out, all) in out.chunks_exact_mut(row).zip(all.chunks(line)) {
                out.copy_from_slice(&all[..row]);
            }
        }
    }
}

simd! {
    /// Copies so many channels one after the other, with this element for the padding.
    pub fn enclose<T: Copy>(enclosed: Enclosed, border: T, channels: usize, x: &[T], out: &mut [T]) {
        let size = product(enclosed.window.input);
        for (i, out) in out.chunks_exact_mut(enclosed.len()).take(channels).enumerate() {
            enclosed.fill(border, &x[i * size..][..size], out);
        }
    }
}
