//! Detection: boxes that overlap, and regions of images.

use super::math::Real;
use super::sampling::bilinear;

/// The lesser of two numbers, the other one of NaN.
#[inline(always)]
fn lesser<T: Real>(a: T, b: T) -> T {
    if b < a || a != a { b } else { a }
}

/// The greater of two numbers, the other one of NaN.
#[inline(always)]
fn greater<T: Real>(a: T, b: T) -> T {
    if b > a || a != a { b } else { a }
}

/// Writes the boxes `[n, 4]` that overlap none with a greater score by more than a share of their union, by
/// decreasing score; and how many there are. `order` and `gone` hold a box each.
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

/// How regions of images `[count, channels, height, width]` are pooled.
#[derive(Clone, Copy)]
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
    /// The samples of a bin along each axis; as many as it has pixels, if it is not above 0.
    pub ratio: i64,
    /// Whether regions are moved by half a pixel, and not at least a pixel large.
    pub aligned: bool,
}

/// The most samples of a bin.
const MOST: f64 = 16_777_216.0;

/// The bins of a region: where they begin, how large they are, and how many samples each has.
type Grid<T> = ([T; 2], [T; 2], [usize; 2]);

fn grid<T: Real>(region: &[T], sizes: &Regions) -> Result<Grid<T>, &'static str> {
    let (shift, scale) = (T::from_f64(if sizes.aligned { 0.5 } else { 0.0 }), T::from_f64(sizes.scale));
    let at = region[0].to_f64();
    if !(at >= 0.0 && at < sizes.count as f64) {
        return Err("a region is of an image that does not exist");
    }
    let [x1, y1, x2, y2] = [1, 2, 3, 4].map(|i| region[i] * scale - shift);
    let extent = |low: T, high: T| {
        if !sizes.aligned && high - low < T::ONE { T::ONE } else { high - low }
    };
    let bin =
        [extent(y1, y2) / T::from_f64(sizes.rows as f64), extent(x1, x2) / T::from_f64(sizes.columns as f64)];
    let samples = bin.map(|bin| match sizes.ratio {
        1.. => sizes.ratio as f64,
        _ => {
            let n = T::ceil(bin).to_f64();
            if n < 0.0 { 0.0 } else { n }
        }
    });
    let all = samples[0] * samples[1];
    if all > MOST || all.is_nan() {
        return Err("a region needs too many samples");
    }
    Ok(([y1, x1], bin, samples.map(|n| n as usize)))
}

/// Takes the means of bilinear samples in the bins of regions `[k, 5]`: an image and the corners.
pub fn roi_align<T: Real>(
    images: &[T],
    regions: &[T],
    sizes: Regions,
    out: &mut [T],
) -> Result<(), &'static str> {
    let Regions { channels, height, width, rows, columns, .. } = sizes;
    let (bins, area) = (rows * columns, height * width);
    for region in regions.chunks_exact(5) {
        grid(region, &sizes)?;
    }
    if out.is_empty() {
        return Ok(());
    }
    for (region, out) in regions.chunks_exact(5).zip(out.chunks_exact_mut(channels * bins)) {
        let (start, size, samples) = grid(region, &sizes)?;
        let image = &images[region[0].to_f64() as usize * channels * area..][..channels * area];
        out.fill(T::ZERO);
        for bin in 0..bins {
            let at = [bin / columns, bin % columns];
            let place = |axis: usize, i: usize| {
                let n = T::from_f64(samples[axis] as f64);
                let inner = (T::from_f64(i as f64) + T::from_f64(0.5)) * size[axis] / n;
                start[axis] + T::from_f64(at[axis] as f64) * size[axis] + inner
            };
            for i in 0..samples[0] {
                for j in 0..samples[1] {
                    let Some(taps) = bilinear(place(0, i), place(1, j), height, width) else { continue };
                    for (plane, out) in image.chunks_exact(area).zip(out.chunks_exact_mut(bins)) {
                        let [a, b, c, d] = taps.map(|(at, weight)| weight * plane[at]);
                        out[bin] = out[bin] + (a + b + c + d);
                    }
                }
            }
        }
        let n =
            T::from_f64(if samples[0] * samples[1] == 0 { 1.0 } else { (samples[0] * samples[1]) as f64 });
        out.iter_mut().for_each(|out| *out = *out / n);
    }
    Ok(())
}
