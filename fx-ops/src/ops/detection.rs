//! Operations of detection networks, torchvision's: suppressing boxes, pooling regions, deformable convolution.
//!
//! A region is a row `[image, x1, y1, x2, y2]` of `rois`. Half precision is computed in f32.

use fx_core::array::checked_numel;
use fx_core::math::Real;
use fx_core::op::Flops::{Rule, Unknown};
use fx_core::portable::detection::{self, Deformed, Grid, MOST_SAMPLES, Regions};
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
    let n = scores.shape()[0];
    let (mut order, mut gone, mut kept) = (vec![0; n], vec![false; n], vec![0; n]);
    let mut found = [0];
    in_float!(wide, T => {
        let (boxes, scores) = (slice::<T>(&boxes), slice::<T>(&scores));
        detection::nms(boxes, scores, threshold, &mut order, &mut gone, &mut kept, &mut found);
        Ok::<_, fx_core::Error>(())
    })?;
    kept.truncate(found[0] as usize);
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

/// Images and regions in the dtype in which they are computed.
struct Images {
    data: Array,
    rois: Array,
    regions: Regions,
}

impl Images {
    fn new(input: &Array, rois: &Array, scale: f64, [rows, columns]: [usize; 2]) -> Result<Self> {
        let [count, channels, height, width] = usizes(input.shape())?;
        let wide = wide(input.dtype());
        let (data, rois) = (dense(input, wide)?, dense(rois, wide)?);
        Ok(Images { data, rois, regions: Regions { count, channels, height, width, rows, columns, scale } })
    }

    /// Returns each region with the planes of its image. Fails if there is no such image.
    fn each<T: Element + Real>(&self) -> Result<Vec<(&[T], &[T])>> {
        let (data, count) = (slice::<T>(&self.data), self.regions.count);
        let regions = slice::<T>(&self.rois).chunks(5).enumerate().map(|(k, region)| {
            let image = self.regions.image(region).ok_or_else(|| {
                let at = region[0].to_f64();
                err!(Index, "expected an image from 0 to {count} in region {k}, got {at}")
            })?;
            Ok((region, self.regions.planes(data, image)))
        });
        regions.collect()
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
    let images = Images::new(input, rois, scale, [shape[2], shape[3]])?;
    let out = in_float!(images.data.dtype(), T => {
        let out = aligned_bins::<T>(&images, &shape, ratio, aligned, false)?;
        Array::from_vec(out, &shape)
    })?;
    Ok(out.cast(ty.dtype))
}

/// Takes the means of samples in the bins of all regions.
fn aligned_bins<T: Element + Real>(
    images: &Images,
    shape: &[usize],
    ratio: i64,
    aligned: bool,
    has_own: bool,
) -> Result<Vec<T>> {
    let regions = &images.regions;
    let each = images.each::<T>()?;
    let grid = |(region, _): &(&[T], &[T])| {
        Grid::new(regions, region, ratio, aligned).map_err(|[rows, columns]| {
            err!(Limit, "expected at most {MOST_SAMPLES} samples of a bin, got {rows} by {columns}")
        })
    };
    let grids = each.iter().map(grid).collect::<Result<Vec<_>>>()?;
    let size: usize = shape[1..].iter().product();
    fill_rows::<T>(shape[0], size, cost(size), |k, out| {
        regions.align(&grids[k], each[k].1, has_own, out);
    })
}

fn pool_kernel(input: &Array, rois: &Array, scale: f64, height: i64, width: i64) -> Result<(Array, Array)> {
    let (ty, _) = pool_type(&type_of(input), &type_of(rois), Some(scale), height.into(), width.into())?;
    let shape = sizes(&ty.shape)?;
    checked_numel(&shape)?;
    let images = Images::new(input, rois, scale, [shape[2], shape[3]])?;
    let size: usize = shape[1..].iter().product();
    let (out, places) = in_float!(images.data.dtype(), T => {
        let each = images.each::<T>()?;
        let (out, places) = fill_row_pairs::<T, i32>(shape[0], size, cost(size), |k, out, places| {
            images.regions.max(each[k].0, each[k].1, out, places);
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
    let images = Images::new(input, rois, scale, [shape[2], shape[3]])?;
    let size: usize = shape[1..].iter().product();
    let out = in_float!(images.data.dtype(), T => {
        let out = match ratio {
            Some(ratio) => aligned_bins::<T>(&images, &shape, ratio, true, true)?,
            None => {
                let each = images.each::<T>()?;
                fill_rows::<T>(shape[0], size, cost(size), |k, out| {
                    images.regions.mean(each[k].0, each[k].1, out);
                })?
            }
        };
        Array::from_vec(out, &shape)
    })?;
    let from = (0..shape[0]).flat_map(|_| 0..size as i32).collect();
    Ok((out.cast(ty.dtype), Array::from_vec(from, &shape)?))
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
    let deformed = Deformed {
        channels: c,
        input: [h, w],
        kernel: [kh, kw],
        stride: [stride_h, stride_w],
        padding: [pad_h, pad_w],
        dilation: [dilation_h, dilation_w],
        output: [oh, ow],
        groups: offset_groups,
    };
    let wide = wide(ty.dtype);
    let (x, offsets) = (dense(input, wide)?, dense(offset, wide)?);
    let factors = if use_mask { Some(dense(mask, wide)?) } else { None };
    let columns = in_float!(wide, T => {
        let (x, offsets, factors) = (slice::<T>(&x), slice::<T>(&offsets), factors.as_ref().map(slice::<T>));
        // One row for each tap of each channel of each image.
        let columns = fill_rows::<T>(n * c * taps, area, 8 * area, |row, out| {
            deformed.row(row, x, offsets, factors, out);
        })?;
        Array::from_vec(columns, &[n, groups, c / groups * taps, area])
    })?;
    let weight = dense(weight, wide)?.reshape(&[groups, o / groups, c / groups * taps])?;
    let out = weight.matmul(&columns)?.reshape(&shape)?;
    let bias = dense(bias, wide)?.reshape(&[o, 1, 1])?;
    Ok(out.add(&bias)?.cast(ty.dtype))
}
