//! Convolutions of one to three dimensions on contiguous slices, with PyTorch's layouts and semantics.
//!
//! Input is `[batch, channels, spatial...]`; the weight is `[out, in / groups, kernel...]`, transposed
//! `[in, out / groups, kernel...]`. Most run as GEMM whose right operand is unfolded from the input as it is
//! packed, or, on machines without tiles of our own, on an unfolded block of the input; the scratch memory of
//! a thread stays below [`SCRATCH`] elements, or one column if that is longer.

use std::ops::Range;

use fx_base::{Result, bail, err};
use fx_simd::parallel;

use super::gemm::{GemmElement, gemm, transposed};

/// How a kernel moves over its input; one number a spatial dimension.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ConvSpec {
    /// Distance of two windows.
    pub stride: Vec<usize>,
    /// Zeros added on both sides.
    pub padding: Vec<usize>,
    /// Distance of two elements of the kernel.
    pub dilation: Vec<usize>,
    /// Number of independent groups of channels.
    pub groups: usize,
    /// What is added to one side of the output of a transposed convolution.
    pub output_padding: Vec<usize>,
    /// Whether it is the transposed convolution.
    pub transposed: bool,
}

impl ConvSpec {
    /// Makes the plain convolution over `rank` spatial dimensions: stride 1, no padding, one group.
    pub fn new(rank: usize) -> Self {
        ConvSpec {
            stride: vec![1; rank],
            padding: vec![0; rank],
            dilation: vec![1; rank],
            groups: 1,
            output_padding: vec![0; rank],
            transposed: false,
        }
    }

    /// Returns the spatial sizes of the output for those of input and kernel. Fails if the sizes do not fit
    /// together.
    pub fn output_size(&self, input: &[usize], kernel: &[usize]) -> Result<Vec<usize>> {
        let rank = input.len();
        if !(1..=3).contains(&rank) {
            bail!(Shape, "convolution takes 1 to 3 spatial dimensions, got {rank}");
        }
        let parts = [
            ("kernel", kernel),
            ("stride", &self.stride),
            ("padding", &self.padding),
            ("dilation", &self.dilation),
            ("output_padding", &self.output_padding),
        ];
        for (name, part) in parts {
            if part.len() != rank {
                bail!(
                    Argument,
                    "convolution over {rank} dimensions takes {rank} numbers in {name}, got {part:?}"
                );
            }
        }
        for (name, part) in [("kernel", kernel), ("stride", &self.stride), ("dilation", &self.dilation)] {
            if part.contains(&0) {
                bail!(Argument, "convolution takes a {name} of at least 1, got {part:?}");
            }
        }
        (0..rank)
            .map(|i| {
                let [input, kernel, stride] = [input[i], kernel[i], self.stride[i]];
                let [padding, dilation, extra] = [self.padding[i], self.dilation[i], self.output_padding[i]];
                let overflow = || err!(Limit, "output size of a convolution does not fit into memory");
                let span = (kernel - 1).checked_mul(dilation).ok_or_else(overflow)?;
                let padded = padding.checked_mul(2).ok_or_else(overflow)?;
                if !self.transposed {
                    if extra != 0 {
                        bail!(Argument, "output_padding is for transposed convolutions, got {extra}");
                    }
                    let padded = input.checked_add(padded).ok_or_else(overflow)?;
                    let Some(rest) = padded.checked_sub(1).and_then(|padded| padded.checked_sub(span)) else {
                        let span = span.saturating_add(1);
                        bail!(Shape, "convolution takes a padded input of at least {span} in dimension {i}, got {padded}");
                    };
                    return Ok(rest / stride + 1);
                }
                if extra >= stride && extra >= dilation {
                    bail!(Argument, "output_padding must be below stride or dilation in dimension {i}, got {extra}");
                }
                let Some(steps) = input.checked_sub(1) else {
                    bail!(Shape, "transposed convolution takes at least 1 element in dimension {i}, got 0");
                };
                let full = steps.checked_mul(stride).and_then(|full| full.checked_add(span));
                let full = full.and_then(|full| full.checked_add(extra + 1)).ok_or_else(overflow)?;
                match full.checked_sub(padded) {
                    Some(size) if size > 0 => Ok(size),
                    _ => Err(err!(Shape, "padding {padding} leaves no output in dimension {i} of size {full}")),
                }
            })
            .collect()
    }

    /// Returns the shape of the output for the shapes of input and weight. Fails if the shapes do not fit
    /// together.
    pub fn output_shape(&self, x: &[usize], weight: &[usize]) -> Result<Vec<usize>> {
        if x.len() != weight.len() || x.len() < 3 {
            bail!(Shape, "convolution takes input and weight of one rank, 3 to 5, got {x:?} and {weight:?}");
        }
        let groups = self.groups;
        let divisible = groups != 0 && x[1].is_multiple_of(groups) && weight[0].is_multiple_of(groups);
        if !divisible {
            let channels = (x[1], weight[0]);
            bail!(
                Shape,
                "channels of input and weight must be multiples of groups {groups}, got {channels:?}"
            );
        }
        let across = weight[1].checked_mul(groups);
        let across = across.ok_or_else(|| err!(Limit, "channels of a convolution do not fit into memory"))?;
        let (takes, out) = if self.transposed { (weight[0], across) } else { (across, weight[0]) };
        if takes != x[1] {
            bail!(Shape, "weight {weight:?} in {groups} groups takes {takes} channels, got {}", x[1]);
        }
        let mut shape = vec![x[0], out];
        shape.extend(self.output_size(&x[2..], &weight[2..])?);
        Ok(shape)
    }
}

/// Stores the convolution of `x` with `weight`, plus `bias` for each channel, in `out`.
///
/// All slices are contiguous; `out` has the shape [`ConvSpec::output_shape`] and every element is written.
/// Serves [`ConvSpec::transposed`] too.
///
/// Fails when shapes do not fit together or to the lengths of the slices.
pub fn conv_nd<T: GemmElement>(
    spec: &ConvSpec,
    x: &[T],
    x_shape: &[usize],
    weight: &[T],
    weight_shape: &[usize],
    bias: Option<&[T]>,
    out: &mut [T],
) -> Result<()> {
    let geometry = Geometry::new(spec, x_shape, weight_shape)?;
    let fits = |name: &str, len: usize, shape: &[usize]| {
        let size = shape.iter().try_fold(1usize, |size, &dim| size.checked_mul(dim));
        if size == Some(len) {
            Ok(())
        } else {
            Err(err!(Shape, "{name} {shape:?} does not have {len} elements"))
        }
    };
    fits("input", x.len(), x_shape)?;
    fits("weight", weight.len(), weight_shape)?;
    fits("output", out.len(), &spec.output_shape(x_shape, weight_shape)?)?;
    if let Some(bias) = bias {
        fits("bias", bias.len(), &[geometry.groups * geometry.c_out])?;
    }
    if out.is_empty() {
        return Ok(());
    }
    if spec.transposed {
        geometry.transposed(x, weight, bias, out);
    } else if geometry.c_in == 1 && geometry.groups > 1 {
        geometry.depthwise(x, weight, bias, out);
    } else if geometry.is_pointwise() {
        geometry.pointwise(x, weight, bias, out);
    } else if let Some(tile) = T::tile() {
        geometry.tiled(tile, x, weight, bias, out);
    } else {
        geometry.unfolded(x, weight, bias, out);
    }
    Ok(())
}

/// Is [`conv_nd`] for a spec that is transposed.
///
/// Fails as [`conv_nd`], and when the spec isn't transposed.
pub fn conv_transpose_nd<T: GemmElement>(
    spec: &ConvSpec,
    x: &[T],
    x_shape: &[usize],
    weight: &[T],
    weight_shape: &[usize],
    bias: Option<&[T]>,
    out: &mut [T],
) -> Result<()> {
    if !spec.transposed {
        bail!(Argument, "expected the spec of a transposed convolution, got {spec:?}");
    }
    conv_nd(spec, x, x_shape, weight, weight_shape, bias, out)
}

/// The elements that one thread unfolds at a time (1 MiB of f32).
pub const SCRATCH: usize = 1 << 18;

/// A checked convolution over three spatial dimensions; leading ones make up for fewer.
#[derive(Clone)]
struct Geometry {
    groups: usize,
    /// Channels of one group.
    c_in: usize,
    c_out: usize,
    input: [usize; 3],
    output: [usize; 3],
    kernel: [usize; 3],
    stride: [usize; 3],
    padding: [usize; 3],
    dilation: [usize; 3],
}

impl Geometry {
    fn new(spec: &ConvSpec, x: &[usize], weight: &[usize]) -> Result<Self> {
        let out = spec.output_shape(x, weight)?;
        let three = |part: &[usize], missing: usize| {
            let mut all = [missing; 3];
            all[3 - part.len()..].copy_from_slice(part);
            all
        };
        Ok(Geometry {
            groups: spec.groups,
            c_in: x[1] / spec.groups,
            c_out: out[1] / spec.groups,
            input: three(&x[2..], 1),
            output: three(&out[2..], 1),
            kernel: three(&weight[2..], 1),
            stride: three(&spec.stride, 1),
            padding: three(&spec.padding, 0),
            dilation: three(&spec.dilation, 1),
        })
    }

    fn in_size(&self) -> usize {
        self.input.iter().product()
    }

    fn out_size(&self) -> usize {
        self.output.iter().product()
    }

    fn kernel_size(&self) -> usize {
        self.kernel.iter().product()
    }

    fn is_pointwise(&self) -> bool {
        self.kernel == [1; 3] && self.stride == [1; 3] && self.padding == [0; 3]
    }

    /// Returns the position in the input of element `tap` of the window at `at`, unless it is in the padding.
    #[inline(always)]
    fn source(&self, dim: usize, at: usize, tap: usize) -> Option<usize> {
        let position = (at * self.stride[dim] + tap * self.dilation[dim]).checked_sub(self.padding[dim])?;
        (position < self.input[dim]).then_some(position)
    }

    /// Returns the part of `range` of windows along the width whose element `tap` lies within the input.
    #[inline(always)]
    fn inside(&self, tap: usize, range: Range<usize>) -> Range<usize> {
        let (stride, offset) = (self.stride[2], tap * self.dilation[2]);
        let first = self.padding[2].saturating_sub(offset).div_ceil(stride);
        let end = (self.input[2] + self.padding[2]).saturating_sub(offset).div_ceil(stride);
        let start = first.clamp(range.start, range.end);
        start..end.clamp(start, range.end)
    }

    /// Calls `f` for the pieces of rows that make up the flat positions `range` of windows: the piece's place
    /// in the range, its row and its columns. `widths` are the window positions by dimension.
    fn pieces(range: Range<usize>, sizes: [usize; 3], mut f: impl FnMut(usize, [usize; 2], Range<usize>)) {
        let width = sizes[2];
        let mut at = range.start;
        while at < range.end {
            let (row, column) = (at / width, at % width);
            let count = (width - column).min(range.end - at);
            f(at - range.start, [row / sizes[1], row % sizes[1]], column..column + count);
            at += count;
        }
    }

    /// Calls `f` with the flat index and the three coordinates of each element of the kernel.
    fn taps(&self, mut f: impl FnMut(usize, [usize; 3])) {
        let [depth, height, width] = self.kernel;
        for tap in 0..depth * height * width {
            f(tap, [tap / (height * width), tap / width % height, tap % width]);
        }
    }

    fn pointwise<T: GemmElement>(&self, x: &[T], weight: &[T], bias: Option<&[T]>, out: &mut [T]) {
        let size = self.out_size();
        parallel::chunks(out, self.c_out * size, 1, |i, out| {
            let group = i % self.groups;
            let x = &x[i * self.c_in * size..];
            let weight = &weight[group * self.c_out * self.c_in..];
            gemm(
                self.c_out,
                self.c_in,
                size,
                T::one(),
                weight,
                (self.c_in, 1),
                x,
                (size, 1),
                T::zero(),
                out,
                (size, 1),
            );
            if let Some(bias) = bias {
                for (row, &b) in out.chunks_mut(size).zip(&bias[group * self.c_out..]) {
                    row.iter_mut().for_each(|y| *y = *y + b);
                }
            }
        });
    }

    fn depthwise<T: GemmElement>(&self, x: &[T], weight: &[T], bias: Option<&[T]>, out: &mut [T]) {
        let (in_size, size, kernel) = (self.in_size(), self.out_size(), self.kernel_size());
        let channels = self.groups * self.c_out;
        let at_once = (1usize << 14).div_ceil(size.saturating_mul(kernel));
        parallel::chunks(out, size, at_once, |i, out| {
            let (batch, channel) = (i / channels, i % channels);
            let x = &x[(batch * self.groups + channel / self.c_out) * in_size..][..in_size];
            let weight = &weight[channel * kernel..][..kernel];
            let start = bias.map_or(T::zero(), |bias| bias[channel]);
            fx_simd::call::<plane, _>((self, x, weight, start, out));
        });
    }

    /// Adds a row of the input times one element of the kernel to the columns of a row of the output.
    #[inline(always)]
    fn add_tap<T: GemmElement>(&self, out: &mut [T], x: &[T], w: T, tap: usize, columns: Range<usize>) {
        if columns.is_empty() {
            return;
        }
        let stride = self.stride[2];
        let x = &x[columns.start * stride + tap * self.dilation[2] - self.padding[2]..];
        let out = &mut out[columns];
        match stride {
            1 => out.iter_mut().zip(x).for_each(|(y, &x)| *y = *y + w * x),
            _ => out.iter_mut().zip(x.iter().step_by(stride)).for_each(|(y, &x)| *y = *y + w * x),
        }
    }

    /// Adds what three elements of the kernel, from `tap` on, contribute to a row; windows are one step apart.
    #[inline(always)]
    fn add_three<T: GemmElement>(&self, out: &mut [T], x: &[T], w: [T; 3], tap: usize) {
        let ranges = [0, 1, 2].map(|i| self.inside(tap + i, 0..out.len()));
        let start = ranges[0].start.max(ranges[1].start).max(ranges[2].start);
        let end = ranges[0].end.min(ranges[1].end).min(ranges[2].end).max(start);
        for (i, range) in ranges.iter().enumerate() {
            self.add_tap(out, x, w[i], tap + i, range.start..start.min(range.end));
        }
        if start < end {
            let n = end - start;
            let [a, b, c] = [0, 1, 2].map(|i| {
                let first = start + (tap + i) * self.dilation[2] - self.padding[2];
                &x[first..][..n]
            });
            for (((y, &a), &b), &c) in out[start..end].iter_mut().zip(a).zip(b).zip(c) {
                *y = *y + w[0] * a + w[1] * b + w[2] * c;
            }
        }
        for (i, range) in ranges.iter().enumerate() {
            self.add_tap(out, x, w[i], tap + i, range.start.max(end)..range.end);
        }
    }

    /// Unfolds blocks of output positions and multiplies each by the weight.
    fn unfolded<T: GemmElement>(&self, x: &[T], weight: &[T], bias: Option<&[T]>, out: &mut [T]) {
        let (in_size, size) = (self.in_size(), self.out_size());
        let depth = self.c_in * self.kernel_size();
        let block =
            (SCRATCH / depth.max(self.c_out)).max(1).min(size.div_ceil(4).next_multiple_of(64)).min(size);
        let n_blocks = size.div_ceil(block);
        let n_tasks_of_group = out.len() / (self.c_out * size * self.groups) * n_blocks;
        // The rows of the output, cut at the blocks, are dealt out to the tasks.
        let mut tasks: Vec<Vec<&mut [T]>> = Vec::new();
        for group in out.chunks_mut(self.c_out * size) {
            let first = tasks.len();
            tasks.resize_with(first + n_blocks, || Vec::with_capacity(self.c_out));
            for row in group.chunks_mut(size) {
                for (i, piece) in row.chunks_mut(block).enumerate() {
                    tasks[first + i].push(piece);
                }
            }
        }
        // Every task packs the weight anew, which is slow across memory, so that is turned once for all.
        let weights: Vec<Vec<T>> = match n_tasks_of_group > 1 && depth > 0 {
            true => {
                let each = weight.chunks(self.c_out * depth).take(self.groups);
                each.map(|weight| transposed(weight, self.c_out, depth, depth)).collect()
            }
            false => Vec::new(),
        };
        parallel::items_with(
            tasks,
            || (Vec::new(), Vec::new()),
            |(columns, product), task, rows| {
                let (i, start) = (task / n_blocks, task % n_blocks * block);
                let group = i % self.groups;
                let count = block.min(size - start);
                columns.resize(depth * block, T::zero());
                product.resize(self.c_out * block, T::zero());
                self.unfold(
                    &x[i * self.c_in * in_size..][..self.c_in * in_size],
                    start..start + count,
                    columns,
                );
                let (weight, strides) = match weights.get(group) {
                    Some(turned) => (&turned[..], (1, self.c_out)),
                    None => (&weight[group * self.c_out * depth..], (depth, 1)),
                };
                let (one, zero) = (T::one(), T::zero());
                gemm(
                    self.c_out,
                    depth,
                    count,
                    one,
                    weight,
                    strides,
                    columns,
                    (count, 1),
                    zero,
                    product,
                    (count, 1),
                );
                for (channel, (row, product)) in rows.into_iter().zip(product.chunks(count)).enumerate() {
                    let b = bias.map_or(zero, |bias| bias[group * self.c_out + channel]);
                    row.iter_mut().zip(product).for_each(|(y, &p)| *y = p + b);
                }
            },
        );
    }

    /// Writes the input elements under each window of `range` into a column of the row-major `columns`.
    fn unfold<T: GemmElement>(&self, x: &[T], range: Range<usize>, columns: &mut [T]) {
        let (count, kernel) = (range.len(), self.kernel_size());
        for (channel, x) in x.chunks(self.in_size().max(1)).enumerate() {
            self.taps(|tap, [td, th, tw]| {
                let line = &mut columns[(channel * kernel + tap) * count..][..count];
                Geometry::pieces(range.clone(), self.output, |at, [od, oh], piece| {
                    let out = &mut line[at..at + piece.len()];
                    let (Some(d), Some(h)) = (self.source(0, od, td), self.source(1, oh, th)) else {
                        return out.fill(T::zero());
                    };
                    let inside = self.inside(tw, piece.clone());
                    if inside.is_empty() {
                        return out.fill(T::zero());
                    }
                    let first = inside.start * self.stride[2] + tw * self.dilation[2] - self.padding[2];
                    let x = &x[(d * self.input[1] + h) * self.input[2]..][first..self.input[2]];
                    let (from, to) = (inside.start - piece.start, inside.end - piece.start);
                    out[..from].fill(T::zero());
                    out[to..].fill(T::zero());
                    let out = &mut out[from..to];
                    if self.stride[2] == 1 {
                        out.copy_from_slice(&x[..inside.len()]);
                    } else {
                        out.iter_mut().zip(x.iter().step_by(self.stride[2])).for_each(|(y, &x)| *y = x);
                    }
                });
            });
        }
    }
}

#[doc(hidden)]
pub mod channels_last;
mod prepared;
mod tiled;
mod transposed;
mod winograd;

pub use channels_last::{ChannelsLast, InputStrides};
pub use prepared::Prepared;

fx_simd::wide! {
    /// Convolves one channel with its own kernel; every element of the result begins with `start`.
    fn plane[T: GemmElement]((geometry, x, weight, start, out): (&Geometry, &[T], &[T], T, &mut [T])) {
        let [_, height, width] = geometry.output;
        let [depth_taps, row_taps, taps] = geometry.kernel;
        for (row, out) in out.chunks_mut(width).enumerate() {
            out.fill(start);
            for tap_row in 0..depth_taps * row_taps {
                let d = geometry.source(0, row / height, tap_row / row_taps);
                let h = geometry.source(1, row % height, tap_row % row_taps);
                let (Some(d), Some(h)) = (d, h) else { continue };
                let x = &x[(d * geometry.input[1] + h) * geometry.input[2]..][..geometry.input[2]];
                let weight = &weight[tap_row * taps..][..taps];
                let mut tap = 0;
                while geometry.stride[2] == 1 && tap + 3 <= taps {
                    geometry.add_three(out, x, [weight[tap], weight[tap + 1], weight[tap + 2]], tap);
                    tap += 3;
                }
                for (tap, &w) in weight.iter().enumerate().skip(tap) {
                    geometry.add_tap(out, x, w, tap, geometry.inside(tap, 0..width));
                }
            }
        }
    }
}
