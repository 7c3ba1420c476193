//! Operations of detection networks, torchvision's: suppressing boxes, pooling regions, deformable convolution.
//!
//! A region is a row `[image, x1, y1, x2, y2]` of `rois`. Half precision is computed in f32.

use fx_core::array::checked_numel;
use fx_core::math::Real;
use fx_core::op::Flops::{Rule, Unknown};
use fx_core::portable::sampling::bilinear;
use fx_core::{Array, DType, Dim, Element, Op, Result, Shape, TensorType, bail, err, kernels};

use crate::kernel::chunks::{fill_row_pairs, fill_rows};
use crate::ops::check::{
    at_least, dense, float_only, in_float, same_dtype, same_size, sizes, slice, type_of, wide,
};
use crate::ops::compose::Operand;
use crate::ops::flops;
use crate::ops::search::fresh_size;

/// The tables of this file.
pub(super) static TABLES: &[&[Op]] = &[DETECTION];

kernels! {
    /// Operations of detection networks.
    pub trait Detection; pub static DETECTION;

    /// The indices of the boxes `[n, 4]`, rows `x1, y1, x2, y2`, that remain, those of greater `scores` first.
    ///
    /// A box goes if its intersection with one that remains, divided by the union, is above `iou_threshold`.
    #[flops = Unknown]
    nms(dets: Tensor, scores: Tensor, iou_threshold: Float) = nms_type, nms_kernel;
    /// The means of bilinear samples in a grid of `pooled_height` by `pooled_width` bins of each region of images
    /// `[n, c, h, w]`: `[k, c, pooled_height, pooled_width]`.
    ///
    /// A bin has `sampling_ratio` samples along each axis, or as many as it has pixels if that is not
    /// above 0. Regions are scaled by `spatial_scale`; with `aligned` moved by half a pixel, without at least
    /// one pixel large.
    #[flops = Unknown]
    roi_align(input: Tensor, rois: Tensor, spatial_scale: Float = 1.0, pooled_height: Int = 1, pooled_width: Int = 1,
        sampling_ratio: Int = -1, aligned: Bool = false) = align_type, align_kernel;
    /// The maxima in a grid of bins of each region, whose corners are rounded to pixels: `[k, c, pooled_height,
    /// pooled_width]`, 0 for an empty bin; and the places of the maxima in the plane, -1 for an empty bin.
    roi_pool(input: Tensor, rois: Tensor, spatial_scale: Float = 1.0, pooled_height: Int = 1, pooled_width: Int = 1)
        -> (fx_core::Tensor, fx_core::Tensor) = pool_type, pool_kernel;
    /// As `roi_align` with `aligned`, but each bin has channels of its own: `[n, c * bins, h, w]` gives
    /// `[k, c, pooled_height, pooled_width]`; and from which channel each element came.
    #[flops = Unknown]
    ps_roi_align(input: Tensor, rois: Tensor, spatial_scale: Float = 1.0, pooled_height: Int = 1, pooled_width: Int = 1,
        sampling_ratio: Int = -1) -> (fx_core::Tensor, fx_core::Tensor) =
        |input: &TensorType, rois: &TensorType, scale, height, width, _ratio: Dim| own_type(input, rois, scale, height, width),
        own_align_kernel;
    /// As `roi_pool` with means for maxima, but each bin has channels of its own, as in `ps_roi_align`.
    ps_roi_pool(input: Tensor, rois: Tensor, spatial_scale: Float = 1.0, pooled_height: Int = 1, pooled_width: Int = 1)
        -> (fx_core::Tensor, fx_core::Tensor) = own_type, own_pool_kernel;
    /// The convolution of images `[n, c, h, w]` whose kernel samples, bilinearly, at places moved by `offset`
    /// `[n, 2 * offset_groups * kh * kw, oh, ow]`, y before x, and times `mask`
    /// `[n, offset_groups * kh * kw, oh, ow]` if `use_mask`. `weight` is `[o, c / groups, kh, kw]`, `bias`
    /// `[o]`.
    #[flops = Rule(flops::conv)]
    deform_conv2d(input: Tensor, weight: Tensor, offset: Tensor, mask: Tensor, bias: Tensor, stride_h: Int = 1,
        stride_w: Int = 1, pad_h: Int = 0, pad_w: Int = 0, dilation_h: Int = 1, dilation_w: Int = 1, groups: Int = 1,
        offset_groups: Int = 1, use_mask: Bool = false) = deform_type, deform_kernel;
}

/// The most samples of one bin.
const MAX_SAMPLES: f64 = 16_777_216.0;

fn nms_type(boxes: &TensorType, scores: &TensorType, _threshold: Option<f64>) -> Result<TensorType> {
    float_only(boxes.dtype)?;
    same_dtype("scores", boxes.dtype, scores.dtype)?;
    let ([n, four], [m]) = (&boxes.shape[..], &scores.shape[..]) else {
        bail!(Shape, "expected boxes [n, 4] and scores [n], got {boxes} and {scores}");
    };
    same_size("corners of a box,", &Dim::new(4), four)?;
    same_size("as many scores as boxes,", n, m)?;
    Ok(TensorType::new(DType::I64, [fresh_size(n)].into_iter().collect::<Shape>()))
}

fn nms_kernel(boxes: &Array, scores: &Array, threshold: f64) -> Result<Array> {
    nms_type(&type_of(boxes), &type_of(scores), Some(threshold))?;
    let wide = wide(boxes.dtype());
    let (boxes, scores) = (dense(boxes, wide)?, dense(scores, wide)?);
    let kept = in_float!(wide, T => {
        let (boxes, scores) = (slice::<T>(&boxes), slice::<T>(&scores));
        let mut order: Vec<usize> = (0..scores.len()).collect();
        // NaN counts as the greatest, as PyTorch sorts.
        order.sort_by(|&a, &b| {
            let (a, b) = (scores[a], scores[b]);
            b.is_nan().cmp(&a.is_nan()).then(b.partial_cmp(&a).unwrap_or(std::cmp::Ordering::Equal))
        });
        let area = |b: &[T]| (b[2] - b[0]) * (b[3] - b[1]);
        let mut gone = vec![false; scores.len()];
        let mut kept: Vec<i64> = Vec::new();
        for (place, &i) in order.iter().enumerate() {
            if gone[i] {
                continue;
            }
            kept.push(i as i64);
            let a = &boxes[4 * i..][..4];
            for &j in &order[place + 1..] {
                if gone[j] {
                    continue;
                }
                let b = &boxes[4 * j..][..4];
                let side = |low: usize, high: usize| (a[high].min(b[high]) - a[low].max(b[low])).max(0.0);
                let common = side(0, 2) * side(1, 3);
                gone[j] = fx_core::math::Real::to_f64(common / (area(a) + area(b) - common)) > threshold;
            }
        }
        Ok::<_, fx_core::Error>(kept)
    })?;
    let n = kept.len();
    Array::from_vec(kept, &[n])
}

/// Checks images and regions; returns the type of `[k, channels, height, width]`.
fn pooled(
    input: &TensorType,
    rois: &TensorType,
    channels: Dim,
    height: Dim,
    width: Dim,
) -> Result<TensorType> {
    float_only(input.dtype)?;
    same_dtype("regions", input.dtype, rois.dtype)?;
    let ([_, _, h, w], [k, five]) = (&input.shape[..], &rois.shape[..]) else {
        bail!(Shape, "expected images [n, c, h, w] and regions [k, 5], got {input} and {rois}");
    };
    same_size("numbers of a region,", &Dim::new(5), five)?;
    at_least("a height of images", 1, h)?;
    at_least("a width of images", 1, w)?;
    at_least("a pooled_height", 1, &height)?;
    at_least("a pooled_width", 1, &width)?;
    Ok(TensorType::new(input.dtype, [k.clone(), channels, height, width].into_iter().collect::<Shape>()))
}

fn channels(input: &TensorType) -> Result<Dim> {
    let channels = input.shape.get(1).cloned();
    channels.ok_or_else(|| err!(Shape, "expected images [n, c, h, w], got {input}"))
}

fn align_type(
    input: &TensorType,
    rois: &TensorType,
    _scale: Option<f64>,
    height: Dim,
    width: Dim,
    _ratio: Dim,
    _aligned: bool,
) -> Result<TensorType> {
    pooled(input, rois, channels(input)?, height, width)
}

fn pool_type(
    input: &TensorType,
    rois: &TensorType,
    _scale: Option<f64>,
    height: Dim,
    width: Dim,
) -> Result<(TensorType, TensorType)> {
    let ty = pooled(input, rois, channels(input)?, height, width)?;
    Ok((ty.clone(), TensorType { dtype: DType::I32, shape: ty.shape }))
}

fn own_type(
    input: &TensorType,
    rois: &TensorType,
    _scale: Option<f64>,
    height: Dim,
    width: Dim,
) -> Result<(TensorType, TensorType)> {
    let (channels, bins) = (channels(input)?, &height * &width);
    let zero = Dim::new(0);
    if !bins.same(&zero).is_yes() && (&channels % &bins).same(&zero).is_no() {
        bail!(Shape, "expected a multiple of the {bins} bins as channels, got {channels}");
    }
    let own = if bins.same(&zero).is_yes() { zero } else { channels.floor_div(&bins) };
    let ty = pooled(input, rois, own, height, width)?;
    Ok((ty.clone(), TensorType { dtype: DType::I32, shape: ty.shape }))
}

/// Images, and the bins of regions.
struct Images<'x, T> {
    data: &'x [T],
    rois: &'x [T],
    count: usize,
    channels: usize,
    height: usize,
    width: usize,
    scale: T,
}

impl<'x, T: Element + Real> Images<'x, T> {
    fn new(input: &'x Array, rois: &'x Array, scale: f64) -> Result<Self> {
        let [count, channels, height, width] = *input.shape() else {
            bail!(Shape, "expected images [n, c, h, w]");
        };
        let images = Images {
            data: slice(input),
            rois: slice(rois),
            count,
            channels,
            height,
            width,
            scale: T::from_f64(scale),
        };
        for (k, roi) in images.rois.chunks(5).enumerate() {
            let at = roi[0].to_f64();
            if !(at >= 0.0 && at < count as f64) {
                bail!(Index, "expected an image from 0 to {count} in region {k}, got {at}");
            }
        }
        Ok(images)
    }

    /// Returns the corners of a region in pixels.
    fn corners(&self, k: usize) -> [T; 4] {
        [1, 2, 3, 4].map(|i| self.rois[5 * k + i] * self.scale)
    }

    /// Returns one channel of the image of a region.
    fn plane(&self, k: usize, channel: usize) -> &'x [T] {
        let image = (self.rois[5 * k].to_f64() as usize).min(self.count.saturating_sub(1));
        let area = self.height * self.width;
        &self.data[(image * self.channels + channel) * area..][..area]
    }

    /// Returns the places and weights of the bilinear interpolation at a point; outside by more than a pixel
    /// there are none.
    fn taps(&self, y: T, x: T) -> Option<[(usize, T); 4]> {
        bilinear(y, x, self.height, self.width)
    }
}

/// The bins of a region in which samples are taken.
struct Grid<T> {
    start: [T; 2],
    bin: [T; 2],
    samples: [usize; 2],
}

impl<T: Element + Real> Grid<T> {
    fn new(corners: [T; 4], bins: [usize; 2], ratio: i64, shift: T, least: Option<T>) -> Result<Self> {
        let [x1, y1, x2, y2] = corners.map(|x| x - shift);
        let extent = |low: T, high: T| match least {
            Some(least) if high - low < least => least,
            _ => high - low,
        };
        let (height, width) = (extent(y1, y2), extent(x1, x2));
        let [rows, columns] = bins.map(|n| T::from_f64(n as f64));
        let bin = [height / rows, width / columns];
        let count = |bin: T| match ratio {
            1.. => ratio as f64,
            _ => T::ceil(bin).to_f64().max(0.0),
        };
        let samples = bin.map(count);
        // NaN is no number of samples either.
        if (samples[0] * samples[1]).partial_cmp(&MAX_SAMPLES).is_none_or(std::cmp::Ordering::is_gt) {
            bail!(
                Limit,
                "expected at most {MAX_SAMPLES} samples of a bin, got {} by {}",
                samples[0],
                samples[1]
            );
        }
        Ok(Grid { start: [y1, x1], bin, samples: samples.map(|n| n as usize) })
    }

    /// Returns the places and weights of the samples of a bin, which are the same in every channel.
    fn taps(&self, images: &Images<'_, T>, at: [usize; 2]) -> impl Iterator<Item = [(usize, T); 4]> {
        let place = move |axis: usize, i: usize| {
            let n = T::from_f64(self.samples[axis] as f64);
            let inner = (T::from_f64(i as f64) + T::from_f64(0.5)) * self.bin[axis] / n;
            self.start[axis] + T::from_f64(at[axis] as f64) * self.bin[axis] + inner
        };
        (0..self.samples[0]).flat_map(move |i| {
            let y = place(0, i);
            (0..self.samples[1]).filter_map(move |j| images.taps(y, place(1, j)))
        })
    }

    /// Returns the mean of the samples of a bin in a channel.
    fn mean(&self, plane: &[T], taps: impl Iterator<Item = [(usize, T); 4]>) -> T {
        let mut sum = T::ZERO;
        for [a, b, c, d] in taps {
            let term = |(at, weight): (usize, T)| weight * plane[at];
            sum = sum + (term(a) + term(b) + term(c) + term(d));
        }
        sum / T::from_f64((self.samples[0] * self.samples[1]).max(1) as f64)
    }
}

/// The cost of pooling a region, for the number of threads.
fn cost(width: usize) -> usize {
    width.saturating_mul(16)
}

fn usizes<const N: usize>(shape: &[usize]) -> Result<[usize; N]> {
    <[usize; N]>::try_from(shape).map_err(|_| err!(Shape, "expected {N} sizes, got {shape:?}"))
}

fn align_kernel(
    input: &Array,
    rois: &Array,
    scale: f64,
    height: i64,
    width: i64,
    ratio: i64,
    aligned: bool,
) -> Result<Array> {
    let (input_ty, rois_ty) = (type_of(input), type_of(rois));
    let ty =
        align_type(&input_ty, &rois_ty, Some(scale), height.into(), width.into(), ratio.into(), aligned)?;
    let shape = sizes(&ty.shape)?;
    checked_numel(&shape)?;
    let [regions, channels, rows, columns] = usizes(&shape)?;
    let wide = wide(ty.dtype);
    let (input, rois) = (dense(input, wide)?, dense(rois, wide)?);
    let out = in_float!(wide, T => {
        let images = Images::<T>::new(&input, &rois, scale)?;
        let (shift, least) = if aligned { (0.5, None) } else { (0.0, Some(1.0)) };
        let grids = (0..regions).map(|k| Grid::new(images.corners(k), [rows, columns], ratio, shift, least));
        let grids = grids.collect::<Result<Vec<_>>>()?;
        let size = channels * rows * columns;
        let out = fill_rows::<T>(regions, size, cost(size), |k, out| {
            let (bins, mut taps) = (rows * columns, Vec::new());
            for bin in 0..bins {
                taps.clear();
                taps.extend(grids[k].taps(&images, [bin / columns, bin % columns]));
                for c in 0..channels {
                    out[c * bins + bin] = grids[k].mean(images.plane(k, c), taps.iter().copied());
                }
            }
        })?;
        Array::from_vec(out, &shape)
    })?;
    Ok(out.cast(ty.dtype))
}

/// Returns from where to where a bin reaches along an axis of `size` pixels.
fn reach<T: Real>(at: usize, bin: T, start: f64, size: usize) -> (usize, usize) {
    let clip = |x: f64| (x + start).clamp(0.0, size as f64) as usize;
    let low = T::floor(T::from_f64(at as f64) * bin).to_f64();
    let high = T::ceil(T::from_f64((at + 1) as f64) * bin).to_f64();
    (clip(low), clip(high))
}

/// Rounds halves away from zero.
fn rounded<T: Real>(x: T) -> f64 {
    x.to_f64().round()
}

fn pool_kernel(input: &Array, rois: &Array, scale: f64, height: i64, width: i64) -> Result<(Array, Array)> {
    let (ty, _) = pool_type(&type_of(input), &type_of(rois), Some(scale), height.into(), width.into())?;
    let shape = sizes(&ty.shape)?;
    checked_numel(&shape)?;
    let [regions, channels, rows, columns] = usizes(&shape)?;
    let wide = wide(ty.dtype);
    let (input, rois) = (dense(input, wide)?, dense(rois, wide)?);
    let (out, places) = in_float!(wide, T => {
        let images = Images::<T>::new(&input, &rois, scale)?;
        let size = channels * rows * columns;
        let (out, places) = fill_row_pairs::<T, i32>(regions, size, cost(size), |k, out, places| {
            let [x1, y1, x2, y2] = images.corners(k).map(rounded);
            let bin = |low: f64, high: f64, n: usize| ((high - low + 1.0).max(1.0) as T) / n as T;
            let (bin_y, bin_x) = (bin(y1, y2, rows), bin(x1, x2, columns));
            places.fill(-1);
            for (y, x) in (0..rows).flat_map(|y| (0..columns).map(move |x| (y, x))) {
                let (top, bottom) = reach(y, bin_y, y1, images.height);
                let (left, right) = reach(x, bin_x, x1, images.width);
                if bottom <= top || right <= left {
                    continue;
                }
                for c in 0..channels {
                    let (plane, mut greatest, mut place) = (images.plane(k, c), T::MIN, -1);
                    for y in top..bottom {
                        let start = y * images.width + left;
                        for (at, &value) in (start..).zip(&plane[start..][..right - left]) {
                            if value > greatest {
                                (greatest, place) = (value, at as i32);
                            }
                        }
                    }
                    let i = (c * rows + y) * columns + x;
                    (out[i], places[i]) = (greatest, place);
                }
            }
        })?;
        Ok::<_, fx_core::Error>((Array::from_vec(out, &shape)?, Array::from_vec(places, &shape)?))
    })?;
    Ok((out.cast(ty.dtype), places))
}

fn own_align_kernel(
    input: &Array,
    rois: &Array,
    scale: f64,
    height: i64,
    width: i64,
    ratio: i64,
) -> Result<(Array, Array)> {
    own(input, rois, scale, height, width, Some(ratio))
}

fn own_pool_kernel(
    input: &Array,
    rois: &Array,
    scale: f64,
    height: i64,
    width: i64,
) -> Result<(Array, Array)> {
    own(input, rois, scale, height, width, None)
}

/// Pools bins that have channels of their own: by samples with a ratio, else by whole pixels.
fn own(
    input: &Array,
    rois: &Array,
    scale: f64,
    height: i64,
    width: i64,
    ratio: Option<i64>,
) -> Result<(Array, Array)> {
    let (ty, _) = own_type(&type_of(input), &type_of(rois), Some(scale), height.into(), width.into())?;
    let shape = sizes(&ty.shape)?;
    checked_numel(&shape)?;
    let [regions, channels, rows, columns] = usizes(&shape)?;
    let wide = wide(ty.dtype);
    let (input, rois) = (dense(input, wide)?, dense(rois, wide)?);
    let (out, from) = in_float!(wide, T => {
        let images = Images::<T>::new(&input, &rois, scale)?;
        let grid = |k| Grid::new(images.corners(k), [rows, columns], ratio.unwrap_or(1), 0.5, None);
        let grids = (0..regions).map(grid).collect::<Result<Vec<_>>>()?;
        let size = channels * rows * columns;
        let (out, from) = fill_row_pairs::<T, i32>(regions, size, cost(size), |k, out, from| {
            let [x1, y1, x2, y2] = images.corners(k).map(rounded);
            let bin = |low: f64, high: f64, n: usize| ((high - low).max(1.0) as T) / n as T;
            let (bin_y, bin_x) = (bin(y1, y2, rows), bin(x1, x2, columns));
            for (i, (out, from)) in out.iter_mut().zip(from).enumerate() {
                // The channels of an output channel are those of its bins, one after the other.
                let (y, x, plane) = (i / columns % rows, i % columns, images.plane(k, i));
                *from = i as i32;
                if ratio.is_some() {
                    *out = grids[k].mean(plane, grids[k].taps(&images, [y, x]));
                    continue;
                }
                let (top, bottom) = reach(y, bin_y, y1, images.height - 1);
                let (left, right) = reach(x, bin_x, x1, images.width - 1);
                *out = 0.0;
                if bottom > top && right > left {
                    let places = (top..bottom).flat_map(|y| (left..right).map(move |x| (y, x)));
                    let sum = places.fold(0.0, |sum, (y, x)| sum + plane[y * images.width + x]);
                    *out = sum / ((bottom - top) * (right - left)) as T;
                }
            }
        })?;
        Ok::<_, fx_core::Error>((Array::from_vec(out, &shape)?, Array::from_vec(from, &shape)?))
    })?;
    Ok((out.cast(ty.dtype), from))
}

#[expect(clippy::too_many_arguments, reason = "torchvision's schema")]
fn deform_type(
    input: &TensorType,
    weight: &TensorType,
    offset: &TensorType,
    mask: &TensorType,
    bias: &TensorType,
    stride_h: Dim,
    stride_w: Dim,
    pad_h: Dim,
    pad_w: Dim,
    dilation_h: Dim,
    dilation_w: Dim,
    groups: Dim,
    offset_groups: Dim,
    use_mask: bool,
) -> Result<TensorType> {
    float_only(input.dtype)?;
    let ([n, c, h, w], [o, per_group, kh, kw], [_, moves, oh, ow]) =
        (&input.shape[..], &weight.shape[..], &offset.shape[..])
    else {
        bail!(Shape, "expected images, weights and offsets of rank 4, got {input}, {weight} and {offset}");
    };
    for (what, ty) in [("weights", weight), ("offsets", offset), ("a bias", bias)] {
        same_dtype(what, input.dtype, ty.dtype)?;
    }
    for (what, number) in
        [("stride", &stride_h), ("stride", &stride_w), ("dilation", &dilation_h), ("dilation", &dilation_w)]
    {
        at_least(format_args!("a {what}"), 1, number)?;
    }
    for (what, number) in [("groups", &groups), ("offset_groups", &offset_groups)] {
        at_least(what, 1, number)?;
    }
    for (what, number) in [("padding", &pad_h), ("padding", &pad_w)] {
        at_least(what, 0, number)?;
    }
    at_least("a kernel", 1, kh)?;
    at_least("a kernel", 1, kw)?;
    same_size("channels of an image", &(per_group * &groups), c)?;
    for (what, channels, groups) in [("groups", o, &groups), ("offset_groups", c, &offset_groups)] {
        if (channels % groups).same(&Dim::new(0)).is_no() {
            bail!(Shape, "expected {what} that divide {channels}, got {groups}");
        }
    }
    let out = |size: &Dim, k: &Dim, stride: &Dim, pad: &Dim, dilation: &Dim| {
        (size + &(2 * pad) - dilation * &(k - 1) - 1).floor_div(stride) + 1
    };
    let height = out(h, kh, &stride_h, &pad_h, &dilation_h);
    let width = out(w, kw, &stride_w, &pad_w, &dilation_w);
    at_least("a height of the result", 0, &height)?;
    at_least("a width of the result", 0, &width)?;
    let taps = &(kh * kw) * &offset_groups;
    same_size("channels of offsets,", &(2 * &taps), moves)?;
    same_size("offsets for a height of", &height, oh)?;
    same_size("offsets for a width of", &width, ow)?;
    same_size("offsets for images,", n, &offset.shape[0])?;
    if use_mask {
        same_dtype("a mask", input.dtype, mask.dtype)?;
        let expected = [n.clone(), taps, height.clone(), width.clone()];
        crate::ops::check::same_shape("a mask", &expected, &mask.shape)?;
    }
    if bias.rank() > 0 {
        same_size("elements of the bias", o, &bias.shape[0])?;
    }
    Ok(TensorType::new(input.dtype, [n.clone(), o.clone(), height, width].into_iter().collect::<Shape>()))
}

#[expect(clippy::too_many_arguments, reason = "torchvision's schema")]
fn deform_kernel(
    input: &Array,
    weight: &Array,
    offset: &Array,
    mask: &Array,
    bias: &Array,
    stride_h: i64,
    stride_w: i64,
    pad_h: i64,
    pad_w: i64,
    dilation_h: i64,
    dilation_w: i64,
    groups: i64,
    offset_groups: i64,
    use_mask: bool,
) -> Result<Array> {
    let [d_stride_h, d_stride_w, d_pad_h, d_pad_w, d_dilation_h, d_dilation_w, d_groups, d_offset_groups] =
        [stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, groups, offset_groups].map(Dim::new);
    let ty = deform_type(
        &type_of(input),
        &type_of(weight),
        &type_of(offset),
        &type_of(mask),
        &type_of(bias),
        d_stride_h,
        d_stride_w,
        d_pad_h,
        d_pad_w,
        d_dilation_h,
        d_dilation_w,
        d_groups,
        d_offset_groups,
        use_mask,
    )?;
    let shape = sizes(&ty.shape)?;
    checked_numel(&shape)?;
    let [n, o, oh, ow] = usizes(&shape)?;
    let [_, c, h, w] = usizes(input.shape())?;
    let [_, _, kh, kw] = usizes(weight.shape())?;
    let (groups, offset_groups) = (groups as usize, offset_groups as usize);
    let (taps, area) = (kh * kw, oh * ow);
    checked_numel(&[n, c, taps, area])?;
    let wide = wide(ty.dtype);
    let (x, moves) = (dense(input, wide)?, dense(offset, wide)?);
    let mask = if use_mask { Some(dense(mask, wide)?) } else { None };
    let columns = in_float!(wide, T => {
        let (x, moves) = (slice::<T>(&x), slice::<T>(&moves));
        let mask = mask.as_ref().map(slice::<T>);
        // One row for each tap of each channel of each image.
        let columns = fill_rows::<T>(n * c * taps, area, 8 * area, |row, out| {
            let (image, channel, tap) = (row / (c * taps), row / taps % c, row % taps);
            let plane = &x[(image * c + channel) * h * w..][..h * w];
            let group = channel / (c / offset_groups).max(1);
            let at = ((image * offset_groups + group) * taps + tap) * area;
            for (place, out) in out.iter_mut().enumerate() {
                let base = |at: usize, stride: i64, pad: i64, tap: usize, dilation: i64| {
                    (at as i64).wrapping_mul(stride).wrapping_sub(pad).wrapping_add((tap as i64).wrapping_mul(dilation)) as T
                };
                let y = base(place / ow, stride_h, pad_h, tap / kw, dilation_h) + moves[2 * at + place];
                let x = base(place % ow, stride_w, pad_w, tap % kw, dilation_w) + moves[2 * at + area + place];
                let factor = mask.map_or(1.0, |mask| mask[at + place]);
                *out = factor * zero_outside(plane, h, w, y, x);
            }
        })?;
        Array::from_vec(columns, &[n, groups, c / groups * taps, area])
    })?;
    let weight = dense(weight, wide)?.reshape(&[groups, o / groups, c / groups * taps])?;
    let out = weight.matmul(&columns)?.reshape(&shape)?;
    let bias = dense(bias, wide)?.reshape(&[o, 1, 1])?;
    Ok(out.add(&bias)?.cast(ty.dtype))
}

/// Returns the bilinear interpolation at a point of a plane that is surrounded by zeros.
fn zero_outside<T: Element + Real>(plane: &[T], h: usize, w: usize, y: T, x: T) -> T {
    let (rows, columns, below) = (T::from_f64(h as f64), T::from_f64(w as f64), T::ZERO - T::ONE);
    if !(y > below && y < rows && x > below && x < columns) {
        return T::ZERO;
    }
    let (y0, x0) = (T::floor(y), T::floor(x));
    let (dy, dx) = (y - y0, x - x0);
    let (y0, x0) = (y0.to_f64() as i64, x0.to_f64() as i64);
    let at = |y: i64, x: i64| match (usize::try_from(y), usize::try_from(x)) {
        (Ok(y), Ok(x)) if y < h && x < w => plane[y * w + x],
        _ => T::ZERO,
    };
    let (ey, ex) = (T::ONE - dy, T::ONE - dx);
    ey * ex * at(y0, x0) + ey * dx * at(y0, x0 + 1) + dy * ex * at(y0 + 1, x0) + dy * dx * at(y0 + 1, x0 + 1)
}
