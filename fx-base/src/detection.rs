//! Boxes that overlap, regions of images, and what a deformable convolution sees, as torchvision computes them
//! (`torchvision/csrc/ops/cpu`).
//!
//! Invariant: this text stands alone beside `math` and `sampling`; it is pasted verbatim into generated Rust.

use super::math::{self, Real};
use super::sampling::bilinear;

/// Returns the lesser of two numbers, the other one of NaN.
#[inline(always)]
fn lesser<T: Real>(a: T, b: T) -> T {
    if b < a || a != a { b } else { a }
}

/// Returns the greater of two numbers, the other one of NaN.
#[inline(always)]
fn greater<T: Real>(a: T, b: T) -> T {
    if b > a || a != a { b } else { a }
}

/// Writes which boxes `[n, 4]`, rows `x1, y1, x2, y2`, overlap none with a greater score by more than a share of
/// their union, by decreasing score; and how many there are. `order` and `gone` hold an element for each box.
pub fn nms<T: Real>(
    boxes: &[T],
    scores: &[T],
    threshold: f64,
    order: &mut [i64],
    gone: &mut [bool],
    kept: &mut [i64],
    count: &mut [i64],
) {
    let n = scores.len();
    let (order, gone) = (&mut order[..n], &mut gone[..n]);
    for (i, at) in order.iter_mut().enumerate() {
        *at = i as i64;
    }
    gone.fill(false);
    // NaN counts as the greatest; of equal scores the first.
    let rank = |i: i64| (scores[i as usize], scores[i as usize] != scores[i as usize]);
    order.sort_unstable_by(|&i, &j| {
        let ((a, a_nan), (b, b_nan)) = (rank(i), rank(j));
        let by_score = b.partial_cmp(&a).unwrap_or(core::cmp::Ordering::Equal);
        b_nan.cmp(&a_nan).then(by_score).then(i.cmp(&j))
    });
    let area = |b: &[T]| (b[2] - b[0]) * (b[3] - b[1]);
    let mut found = 0;
    for place in 0..n {
        let i = order[place] as usize;
        if gone[i] {
            continue;
        }
        kept[found] = i as i64;
        found += 1;
        let a = &boxes[4 * i..][..4];
        for &j in &order[place + 1..] {
            let j = j as usize;
            if gone[j] {
                continue;
            }
            let b = &boxes[4 * j..][..4];
            let side = |low: usize, high: usize| {
                greater(lesser(a[high], b[high]) - greater(a[low], b[low]), T::ZERO)
            };
            let common = side(0, 2) * side(1, 3);
            gone[j] = (common / (area(a) + area(b) - common)).to_f64() > threshold;
        }
    }
    count[0] = found as i64;
}

/// Images `[count, channels, height, width]`, and the bins into which their regions are divided. A region is a row
/// `[image, x1, y1, x2, y2]`.
#[derive(Clone, Copy, Debug)]
pub struct Regions {
    /// The number of images.
    pub count: usize,
    /// Their channels.
    pub channels: usize,
    /// Their height.
    pub height: usize,
    /// Their width.
    pub width: usize,
    /// The rows of bins.
    pub rows: usize,
    /// The columns of bins.
    pub columns: usize,
    /// What corners are multiplied by.
    pub scale: f64,
}

/// The most samples of a bin.
pub const MOST_SAMPLES: f64 = 16_777_216.0;

/// So many samples are taken at a time.
const TAPS: usize = 16;

/// The bins of a region in which samples are taken.
#[derive(Clone, Copy, Debug)]
pub struct Grid<T> {
    start: [T; 2],
    bin: [T; 2],
    samples: [usize; 2],
}

impl<T: Real> Grid<T> {
    /// Makes the bins of a region, each with `ratio` samples along each axis, or with as many as it has pixels if
    /// that is not above 0. `aligned` regions are moved by half a pixel, others are at least one pixel large.
    /// Fails with the numbers of samples if there are too many.
    pub fn new(images: &Regions, region: &[T], ratio: i64, aligned: bool) -> Result<Self, [f64; 2]> {
        let shift = T::from_f64(if aligned { 0.5 } else { 0.0 });
        let [x1, y1, x2, y2] = images.corners(region).map(|x| x - shift);
        let extent = |low: T, high: T| {
            if !aligned && high - low < T::ONE { T::ONE } else { high - low }
        };
        let bins = [images.rows, images.columns].map(|n| T::from_f64(n as f64));
        let bin = [extent(y1, y2) / bins[0], extent(x1, x2) / bins[1]];
        let samples = bin.map(|bin| match ratio {
            1.. => ratio as f64,
            _ => {
                let n = math::ceil(bin).to_f64();
                if n < 0.0 { 0.0 } else { n }
            }
        });
        let all = samples[0] * samples[1];
        // NaN is no number of samples either.
        if all > MOST_SAMPLES || all.is_nan() {
            return Err(samples);
        }
        Ok(Grid { start: [y1, x1], bin, samples: samples.map(|n| n as usize) })
    }

    /// Returns the places and weights of a sample of a bin, which are the same in every channel.
    fn taps(&self, images: &Regions, bin: [usize; 2], sample: usize) -> Option<[(usize, T); 4]> {
        let place = |axis: usize, i: usize| {
            let n = T::from_f64(self.samples[axis] as f64);
            let inner = (T::from_f64(i as f64) + T::from_f64(0.5)) * self.bin[axis] / n;
            self.start[axis] + T::from_f64(bin[axis] as f64) * self.bin[axis] + inner
        };
        let (i, j) = (sample / self.samples[1], sample % self.samples[1]);
        bilinear(place(0, i), place(1, j), images.height, images.width)
    }
}

impl Regions {
    /// Returns the number of the image that a region is of, if there is such an image.
    pub fn image<T: Real>(&self, region: &[T]) -> Option<usize> {
        let at = region[0].to_f64();
        if at >= 0.0 && at < self.count as f64 { Some(at as usize) } else { None }
    }

    /// Returns the corners of a region in pixels.
    fn corners<T: Real>(&self, region: &[T]) -> [T; 4] {
        let scale = T::from_f64(self.scale);
        [1, 2, 3, 4].map(|i| region[i] * scale)
    }

    /// Returns the corners of a region in whole pixels; halves are rounded away from zero.
    fn pixels<T: Real>(&self, region: &[T]) -> [f64; 4] {
        self.corners(region).map(|x| {
            let x = x.to_f64();
            let whole = math::trunc(x);
            if math::abs(x - whole) >= 0.5 { whole + math::copysign(1.0, x) } else { whole }
        })
    }

    /// Returns the planes of an image.
    pub fn planes<'x, T>(&self, images: &'x [T], image: usize) -> &'x [T] {
        let len = self.channels * self.height * self.width;
        &images[image * len..][..len]
    }

    /// Takes the means of the samples in each bin of a region, of every channel of an image; if bins have channels
    /// of their own, each of one channel. `out` is `[channels, rows, columns]`.
    pub fn align<T: Real>(&self, grid: &Grid<T>, image: &[T], has_own: bool, out: &mut [T]) {
        let (bins, area) = (self.rows * self.columns, self.height * self.width);
        let n = grid.samples[0] * grid.samples[1];
        let mut taps = [[(0, T::ZERO); 4]; TAPS];
        out.fill(T::ZERO);
        for bin in 0..bins {
            let at = [bin / self.columns, bin % self.columns];
            let mut filled = 0;
            for sample in 0..n {
                if let Some(found) = grid.taps(self, at, sample) {
                    taps[filled] = found;
                    filled += 1;
                }
                if filled == TAPS || sample + 1 == n {
                    for (channel, out) in out.chunks_exact_mut(bins).enumerate() {
                        let plane = if has_own { channel * bins + bin } else { channel };
                        let plane = &image[plane * area..][..area];
                        for &tap in &taps[..filled] {
                            let [a, b, c, d] = tap.map(|(at, weight)| weight * plane[at]);
                            out[bin] = out[bin] + (a + b + c + d);
                        }
                    }
                    filled = 0;
                }
            }
        }
        let n = T::from_f64(if n == 0 { 1.0 } else { n as f64 });
        out.iter_mut().for_each(|out| *out = *out / n);
    }

    /// Takes the maxima of the pixels in each bin of a region, and their places in the plane; 0 and -1 in an empty
    /// bin. `out` and `places` are `[channels, rows, columns]`.
    pub fn max<T: Real>(&self, region: &[T], image: &[T], out: &mut [T], places: &mut [i32]) {
        let (bins, area) = (self.rows * self.columns, self.height * self.width);
        let [x1, y1, x2, y2] = self.pixels(region);
        let (high, wide) = (bin(y1, y2 + 1.0, self.rows), bin(x1, x2 + 1.0, self.columns));
        out.fill(T::ZERO);
        places.fill(-1);
        for bin in 0..bins {
            let (top, bottom) = reach::<T>(bin / self.columns, high, y1, self.height);
            let (left, right) = reach::<T>(bin % self.columns, wide, x1, self.width);
            if bottom <= top || right <= left {
                continue;
            }
            for (channel, plane) in image.chunks_exact(area).enumerate() {
                let (mut greatest, mut place) = (T::MIN, -1);
                for y in top..bottom {
                    let start = y * self.width + left;
                    for (at, &value) in (start..).zip(&plane[start..][..right - left]) {
                        if value > greatest {
                            (greatest, place) = (value, at as i32);
                        }
                    }
                }
                (out[channel * bins + bin], places[channel * bins + bin]) = (greatest, place);
            }
        }
    }

    /// Takes the means of the pixels in each bin of a region, which has channels of its own; 0 in an empty bin.
    /// `out` is `[channels / bins, rows, columns]`.
    pub fn mean<T: Real>(&self, region: &[T], image: &[T], out: &mut [T]) {
        let area = self.height * self.width;
        let [x1, y1, x2, y2] = self.pixels(region);
        let (high, wide) = (bin(y1, y2, self.rows), bin(x1, x2, self.columns));
        for (i, (out, plane)) in out.iter_mut().zip(image.chunks_exact(area)).enumerate() {
            let (top, bottom) = reach::<T>(i / self.columns % self.rows, high, y1, self.height - 1);
            let (left, right) = reach::<T>(i % self.columns, wide, x1, self.width - 1);
            *out = T::ZERO;
            if bottom <= top || right <= left {
                continue;
            }
            for y in top..bottom {
                for &value in &plane[y * self.width + left..][..right - left] {
                    *out = *out + value;
                }
            }
            *out = *out / T::from_f64(((bottom - top) * (right - left)) as f64);
        }
    }
}

/// Returns the size of a bin between two corners in whole pixels, which are at least one pixel apart.
fn bin<T: Real>(low: f64, high: f64, bins: usize) -> T {
    T::from_f64(greater(high - low, 1.0)) / T::from_f64(bins as f64)
}

/// Returns from where to where a bin reaches along an axis of `size` pixels.
fn reach<T: Real>(at: usize, bin: T, start: f64, size: usize) -> (usize, usize) {
    let clip = |x: f64| lesser(greater(x + start, 0.0), size as f64) as usize;
    let low = math::floor(T::from_f64(at as f64) * bin).to_f64();
    let high = math::ceil(T::from_f64((at + 1) as f64) * bin).to_f64();
    (clip(low), clip(high))
}

/// What the taps of a convolution see of images `[n, channels, height, width]`, each at a place of its own.
#[derive(Clone, Copy, Debug)]
pub struct Deformed {
    /// The channels of the images.
    pub channels: usize,
    /// Height and width of the images.
    pub input: [usize; 2],
    /// Height and width of the kernel.
    pub kernel: [usize; 2],
    /// The steps of the kernel.
    pub stride: [i64; 2],
    /// The zeros around the images.
    pub padding: [i64; 2],
    /// The distances of the taps.
    pub dilation: [i64; 2],
    /// Height and width of the result.
    pub output: [usize; 2],
    /// Into how many groups the channels are divided that share offsets.
    pub groups: usize,
}

impl Deformed {
    /// Writes what a tap sees at all places of the result. `row` counts the images, their channels, and their
    /// taps. `offsets` are `[n, groups, taps, 2, places]`, y before x, and factors `[n, groups, taps, places]`.
    pub fn row<T: Real>(&self, row: usize, x: &[T], offsets: &[T], factors: Option<&[T]>, out: &mut [T]) {
        let [height, width] = self.input;
        let (taps, places) = (self.kernel[0] * self.kernel[1], self.output[0] * self.output[1]);
        let (plane, tap) = (row / taps, row % taps);
        let (image, channel) = (plane / self.channels, plane % self.channels);
        let per_group = self.channels / self.groups;
        let group = channel.checked_div(per_group).unwrap_or(0);
        let plane = &x[plane * height * width..][..height * width];
        let at = ((image * self.groups + group) * taps + tap) * places;
        let [ys, xs] = [2 * at, 2 * at + places].map(|at| &offsets[at..][..places]);
        let tap = [tap / self.kernel[1], tap % self.kernel[1]];
        for (place, out) in out.iter_mut().enumerate() {
            let base = |axis: usize, at: usize| {
                let first = (at as i64).wrapping_mul(self.stride[axis]).wrapping_sub(self.padding[axis]);
                let at = first.wrapping_add((tap[axis] as i64).wrapping_mul(self.dilation[axis]));
                T::from_f64(at as f64)
            };
            let y = base(0, place / self.output[1]) + ys[place];
            let x = base(1, place % self.output[1]) + xs[place];
            let factor = factors.map_or(T::ONE, |factors| factors[at + place]);
            *out = factor * zero_outside(plane, height, width, y, x);
        }
    }
}

/// Returns the bilinear interpolation at a point of a plane that is surrounded by zeros.
fn zero_outside<T: Real>(plane: &[T], height: usize, width: usize, y: T, x: T) -> T {
    let (rows, columns, below) = (T::from_f64(height as f64), T::from_f64(width as f64), T::ZERO - T::ONE);
    if !(y > below && y < rows && x > below && x < columns) {
        return T::ZERO;
    }
    let (y0, x0) = (math::floor(y), math::floor(x));
    let (dy, dx) = (y - y0, x - x0);
    let (y0, x0) = (y0.to_f64() as i64, x0.to_f64() as i64);
    let at = |y: i64, x: i64| {
        let is_inside = y >= 0 && (y as usize) < height && x >= 0 && (x as usize) < width;
        if is_inside { plane[y as usize * width + x as usize] } else { T::ZERO }
    };
    let (ey, ex) = (T::ONE - dy, T::ONE - dx);
    ey * ex * at(y0, x0) + ey * dx * at(y0, x0 + 1) + dy * ex * at(y0 + 1, x0) + dy * dx * at(y0 + 1, x0 + 1)
}
