//! Images sampled at given places, and the places of an affine map.

use fx_core::array::checked_numel;
use fx_core::math::Real;
use fx_core::op::Default::None as Nothing;
use fx_core::op::Flops::PerOutput;
use fx_core::op::kind::{DimVec, IntVec};
use fx_core::portable::sampling::{Axis, Beyond, Mode};
use fx_core::{Arg, Array, Dim, Element, Op, Result, Shape, TensorType, TypeTree, Value, bail, err, kernels};

use crate::kernel::chunks::{fill_row_pairs, fill_rows};
use crate::ops::check::{
    at_least, dense, float_only, in_float, same_dtype, same_size, sizes, slice, type_of, wide,
};

/// The tables of this file.
pub(super) static TABLES: &[&[Op]] = &[GRID_SAMPLING];

kernels! {
    /// Sampling of images.
    pub trait GridSampling; pub static GRID_SAMPLING;

    /// Samples `[n, c, h, w]` at the places `grid`, `[n, .., 2]`, or `[n, c, d, h, w]` at `[n, .., 3]`:
    /// `[n, c, ..]`.
    ///
    /// A place is (x, y) or (x, y, z), from -1 to 1 between the outer borders of the outer pixels, or with
    /// `align_corners` between their centres. `mode` is `"bilinear"`, `"nearest"` or `"bicubic"`. Beyond the
    /// border `padding_mode` sees `"zeros"`, the pixels of the `"border"`, or their `"reflection"`.
    #[flops = PerOutput(8)]
    grid_sample(x: Tensor, grid: Tensor, mode: Str = "bilinear", padding_mode: Str = "zeros", align_corners: Any = Nothing) =
        |x: &TensorType, grid: &TensorType, mode: &str, padding: &str, _align: &TypeTree| sample_type(x, grid, mode, padding),
        sample;
    /// The places of pixels of images of `size`, `[n, c, h, w]` or `[n, c, d, h, w]`, under the maps `theta`,
    /// `[n, 2, 3]` or `[n, 3, 4]`: `[n, h, w, 2]` or `[n, d, h, w, 3]`, for `grid_sample`.
    #[flops = PerOutput(6)]
    affine_grid(theta: Tensor, size: Shape, align_corners: Any = Nothing) =
        |theta: &TensorType, size: DimVec, _align: &TypeTree| affine_type(theta, &size), affine;
}

fn flag(arg: &Value) -> Result<bool> {
    match arg {
        Arg::None => Ok(false),
        Arg::Leaf(tensor) => Ok(tensor.array()?.item()?.to_bool()),
        other => other.scalar().map(fx_core::Scalar::to_bool).ok_or_else(|| {
            err!(Argument, "expected a bool or none for align_corners, got {}", other.kind_name())
        }),
    }
}

fn sample_type(x: &TensorType, grid: &TensorType, mode: &str, padding: &str) -> Result<TensorType> {
    float_only(x.dtype)?;
    same_dtype("a grid", x.dtype, grid.dtype)?;
    let ([n, c, spatial @ ..], [n_grid, places @ .., last]) = (&x.shape[..], &grid.shape[..]) else {
        bail!(Shape, "expected an input [n, c, h, w] and a grid [n, h, w, 2], got {x} and {grid}");
    };
    let rank = spatial.len();
    if !(2..=3).contains(&rank) || places.len() != rank {
        bail!(
            Shape,
            "expected an input [n, c, h, w] and a grid [n, h, w, 2], or one axis more of both, got {x} and {grid}"
        );
    }
    same_size("a grid with a batch of", n, n_grid)?;
    same_size("places of", &Dim::from(rank), last)?;
    if !["bilinear", "nearest", "bicubic"].contains(&mode) {
        bail!(Argument, "expected the mode \"bilinear\", \"nearest\" or \"bicubic\", got {mode:?}");
    }
    if !["zeros", "border", "reflection"].contains(&padding) {
        bail!(Argument, "expected the padding_mode \"zeros\", \"border\" or \"reflection\", got {padding:?}");
    }
    for size in spatial {
        at_least("a spatial size", 1, size)?;
    }
    Ok(TensorType::new(x.dtype, [n, c].into_iter().chain(places).collect::<Shape>()))
}

fn sample(x: &Array, grid: &Array, mode: &str, padding: &str, align: &Value) -> Result<Array> {
    let ty = sample_type(&type_of(x), &type_of(grid), mode, padding)?;
    let align = flag(align)?;
    let beyond = match padding {
        "zeros" => Beyond::Zeros,
        "border" => Beyond::Border,
        _ => Beyond::Reflection,
    };
    let shape = sizes(&ty.shape)?;
    checked_numel(&shape)?;
    let wide = wide(x.dtype());
    let (dense_x, grid) = (dense(x, wide)?, dense(grid, wide)?);
    let (channels, spatial) = (x.shape()[1], &x.shape()[2..]);
    let rank = spatial.len();
    // The axes in the order of a place: the last one first. An absent depth has one pixel.
    let axis = |size: usize| Axis { size, align, beyond };
    let axes =
        [axis(spatial[rank - 1]), axis(spatial[rank - 2]), axis(if rank == 3 { spatial[0] } else { 1 })];
    let plane: usize = spatial.iter().product();
    let width = shape[shape.len() - 1];
    let lines: usize = shape[2..shape.len() - 1].iter().product();
    let mode = match mode {
        "nearest" => Mode::Nearest,
        "bicubic" => Mode::Cubic,
        _ => Mode::Linear,
    };
    let taps = match mode {
        Mode::Nearest => 1,
        Mode::Cubic => 1 << (2 * rank),
        Mode::Linear => 1 << rank,
    };
    if channels >= SHARED {
        let places = lines * width;
        checked_numel(&[shape[0], places, taps])?;
        return in_float!(wide, T => {
            let (x, grid) = (slice::<T>(&dense_x), slice::<T>(&grid));
            let (from, weights) =
                fill_row_pairs::<i64, T>(shape[0] * places, taps, 16 * taps, |place, from, weights| {
                    taps_of(&grid[place * rank..][..rank], axes, mode, from, weights);
                })?;
            let out = fill_rows::<T>(shape[0] * channels, places, places * taps, |image, out| {
                let first = image / channels * places * taps;
                let (from, weights) = (&from[first..][..places * taps], &weights[first..][..places * taps]);
                weighted(&x[image * plane..][..plane], from, weights, taps, out);
            })?;
            Ok(Array::from_vec(out, &shape)?.cast(ty.dtype))
        });
    }
    in_float!(wide, T => {
        let (x, grid) = (slice::<T>(&dense_x), slice::<T>(&grid));
        // A row of the result is a line of one channel.
        let n_rows = shape[0] * channels * lines;
        let out = fill_rows::<T>(n_rows, width, width * taps.max(16), |row, out| {
            let (image, line) = (row / lines, row % lines);
            let x = &x[image * plane..][..plane];
            let places = &grid[(image / channels * lines + line) * width * rank..][..width * rank];
            line_of(x, places, rank, axes, mode, out);
        })?;
        Ok(Array::from_vec(out, &shape)?.cast(ty.dtype))
    })
}

/// The channels from which on the pixels and weights of the places are found once for all of them.
const SHARED: usize = 2;

/// Stores the pixels that make up the one at a place, with their weights; a pixel beyond the border is -1.
fn taps_of<T: Real>(place: &[T], axes: [Axis; 3], mode: Mode, from: &mut [i64], weights: &mut [T]) {
    let [across, down, _] = axes;
    let mut taps = [[(None, T::ZERO); 4]; 3];
    taps[2][0] = (Some(0), T::ONE);
    let mut counts = [1; 3];
    for (i, &place) in place.iter().enumerate() {
        counts[i] = axes[i].taps(mode, place, &mut taps[i]);
    }
    let mut slots = from.iter_mut().zip(weights);
    for &(z, of_z) in &taps[2][..counts[2]] {
        for &(y, of_y) in &taps[1][..counts[1]] {
            for (&(x, of_x), (from, weight)) in taps[0][..counts[0]].iter().zip(slots.by_ref()) {
                *from = match (z, y, x) {
                    (Some(z), Some(y), Some(x)) => ((z * down.size + y) * across.size + x) as i64,
                    _ => -1,
                };
                *weight = of_z * of_y * of_x;
            }
        }
    }
}

/// Stores sums of pixels times weights, `taps` of both for each.
fn weighted<T: Real>(x: &[T], from: &[i64], weights: &[T], taps: usize, out: &mut [T]) {
    let add = |sum: T, (&from, &weight): (&i64, &T)| match x.get(from as usize) {
        Some(&x) => sum + x * weight,
        None => sum,
    };
    if taps == 4 {
        let ((from, _), (weights, _)) = (from.as_chunks::<4>(), weights.as_chunks::<4>());
        for ((out, from), weights) in out.iter_mut().zip(from).zip(weights) {
            *out = from.iter().zip(weights).fold(T::ZERO, add);
        }
        return;
    }
    for ((out, from), weights) in out.iter_mut().zip(from.chunks(taps)).zip(weights.chunks(taps)) {
        *out = from.iter().zip(weights).fold(T::ZERO, add);
    }
}

/// Samples one plane at the places of a line.
fn line_of<T: Real + Element>(
    x: &[T],
    places: &[T],
    rank: usize,
    axes: [Axis; 3],
    mode: Mode,
    out: &mut [T],
) {
    let [across, down, _] = axes;
    let mut taps = [[(None, T::ZERO); 4]; 3];
    for (place, out) in places.chunks(rank).zip(out) {
        let mut counts = [1; 3];
        taps[2][0] = (Some(0), T::ONE);
        for i in 0..rank {
            counts[i] = axes[i].taps(mode, place[i], &mut taps[i]);
        }
        let mut sum = T::ZERO;
        for &(z, of_z) in &taps[2][..counts[2]] {
            for &(y, of_y) in &taps[1][..counts[1]] {
                for &(x_at, of_x) in &taps[0][..counts[0]] {
                    if let (Some(z), Some(y), Some(at)) = (z, y, x_at) {
                        sum = sum + x[(z * down.size + y) * across.size + at] * (of_z * of_y * of_x);
                    }
                }
            }
        }
        *out = sum;
    }
}

fn affine_type(theta: &TensorType, size: &[Dim]) -> Result<TensorType> {
    float_only(theta.dtype)?;
    let [n, _, spatial @ ..] = size else {
        bail!(Argument, "expected a size [n, c, h, w], got {} numbers", size.len())
    };
    let rank = spatial.len();
    if !(2..=3).contains(&rank) {
        bail!(Argument, "expected a size [n, c, h, w] or [n, c, d, h, w], got {} numbers", size.len());
    }
    crate::ops::check::same_shape("a theta", &[n.clone(), rank.into(), (rank + 1).into()], &theta.shape)?;
    for size in spatial {
        at_least("a spatial size", 1, size)?;
    }
    Ok(TensorType::new(
        theta.dtype,
        [n].into_iter().chain(spatial).chain([&Dim::from(rank)]).collect::<Shape>(),
    ))
}

fn affine(theta: &Array, size: IntVec, align: &Value) -> Result<Array> {
    let dims: DimVec = size.iter().map(|&size| Dim::new(size)).collect();
    let ty = affine_type(&type_of(theta), &dims)?;
    let align = flag(align)?;
    let shape = sizes(&ty.shape)?;
    checked_numel(&shape)?;
    let rank = shape.len() - 2;
    let spatial = &shape[1..=rank];
    let pixels: usize = spatial.iter().product();
    let wide = wide(theta.dtype());
    let theta = dense(theta, wide)?;
    let place = |at: usize, size: usize| match (align, size) {
        (_, 1) => 0.0,
        (true, size) => -1.0 + 2.0 * at as f64 / (size - 1) as f64,
        (false, size) => (2 * at + 1) as f64 / size as f64 - 1.0,
    };
    in_float!(wide, T => {
        let theta = slice::<T>(&theta);
        let width = spatial[rank - 1];
        let across: Vec<T> = (0..width).map(|at| T::from_f64(place(at, width))).collect();
        let lines = pixels / width;
        let out = fill_rows::<T>(shape[0] * lines, width * rank, width * rank * rank, |row, out| {
            let (image, mut rest) = (row / lines, row % lines);
            let map = &theta[image * rank * (rank + 1)..][..rank * (rank + 1)];
            // The last axis is the first coordinate; those of the others are the same for the whole line.
            let mut base = [T::ONE; 3];
            for (base, &size) in base.iter_mut().zip(spatial.iter().rev().skip(1)) {
                *base = T::from_f64(place(rest % size, size));
                rest /= size;
            }
            let base = &base[..rank - 1];
            for (out, &x) in out.chunks_exact_mut(rank).zip(&across) {
                for (out, line) in out.iter_mut().zip(map.chunks_exact(rank + 1)) {
                    let sum = base.iter().zip(&line[1..]).fold(line[0] * x, |sum, (&b, &a)| sum + a * b);
                    *out = sum + line[rank];
                }
            }
        })?;
        Ok(Array::from_vec(out, &shape)?.cast(ty.dtype))
    })
}
