//! Normalisation of groups of channels, whichever axis these are.

use fx_base::math::{self, Real};
use fx_simd::parallel;

use super::call_real;
use super::gemm::GemmElement;
use super::rows::sum;

/// The elements below which a second thread does not pay, and those of a block of positions that one thread has.
const GRAIN: usize = 1 << 13;

/// The fewest positions of a block, which has sums of its own.
const FEWEST: usize = 16;
/// Planes shorter than this are no rows of their own.
const SHORT: usize = 32;

/// A normalisation of images of `[channels, plane]` elements, or of `[plane, channels]`: mean and variance
/// are those of a group of neighbouring channels.
#[derive(Clone, Copy, Debug)]
pub struct GroupNorm {
    /// The channels of an image.
    pub channels: usize,
    /// The positions of an image.
    pub plane: usize,
    /// The number of groups, which divides the channels.
    pub groups: usize,
    /// What is added to variances.
    pub eps: f64,
}

/// The factors and terms of the channels, after they are normalised.
type Affine<'a, T> = [Option<&'a [T]>; 2];

/// Returns the factor and the term of a channel.
#[inline(always)]
fn affine_of<T: GemmElement + Real>([weight, bias]: Affine<'_, T>, channel: usize) -> (T, T) {
    (weight.map_or(T::ONE, |weight| weight[channel]), bias.map_or(T::ZERO, |bias| bias[channel]))
}

impl GroupNorm {
    fn group(&self) -> usize {
        self.channels / self.groups.max(1)
    }

    /// Stores `(x - mean) / sqrt(variance + eps)`, times weight, plus bias, of images `[channels, plane]`.
    pub fn run<T: GemmElement + Real>(&self, x: &[T], out: &mut [T], affine: Affine<'_, T>) {
        let width = self.group() * self.plane;
        if width == 0 {
            return;
        }
        parallel::chunks(out, width, GRAIN.div_ceil(width), |i, out| {
            let first = i % self.groups * self.group();
            call_real::<T, group_row, _>((self, &x[i * width..][..width], out, first, affine));
        });
    }

    /// As [`run`](Self::run), but mean and variance are those of a channel over all images; each is a group
    /// of its own.
    pub fn run_across<T: GemmElement + Real>(&self, x: &[T], out: &mut [T], affine: Affine<'_, T>) {
        let GroupNorm { channels, plane, eps, .. } = *self;
        if x.is_empty() {
            return;
        }
        let n_images = x.len() / (channels * plane);
        if plane >= SHORT {
            let at_once = GRAIN.div_ceil(n_images * plane);
            // The planes of a channel are columns of the images.
            return parallel::tiles(out, [n_images, channels * plane], plane, at_once, |_, first, out| {
                call_real::<T, across, _>((self, x, out, first / plane, affine));
            });
        }
        // Positions of all images are like positions of one, whose channels are the elements of an image.
        let image = GroupNorm { channels: channels * plane, plane: n_images, groups: channels, eps };
        if plane == 1 {
            return image.run_last(x, out, affine);
        }
        T::with_scratch(2 * channels * plane, |scratch| {
            let (weights, biases) = scratch.split_at_mut(channels * plane);
            for channel in 0..channels {
                let (weight, bias) = affine_of(affine, channel);
                weights[channel * plane..][..plane].fill(weight);
                biases[channel * plane..][..plane].fill(bias);
            }
            image.run_last(x, out, [Some(weights), Some(biases)]);
        });
    }

    /// As [`run`](Self::run), of images `[plane, channels]`.
    pub fn run_last<T: GemmElement + Real>(&self, x: &[T], out: &mut [T], affine: Affine<'_, T>) {
        let (channels, image) = (self.channels, self.plane * self.channels);
        if image == 0 || x.is_empty() {
            return;
        }
        // Blocks of positions are reduced by themselves, so that threads share even a single image.
        let block = (GRAIN / channels).max(FEWEST).min(self.plane);
        let (n_blocks, n_images) = (self.plane.div_ceil(block), x.len() / image);
        let block_of = |i: usize| {
            let (n, first) = (i / n_blocks, i % n_blocks * block);
            (n, n * image + first * channels, block.min(self.plane - first) * channels)
        };
        let at_once = GRAIN.div_ceil(block * channels);
        T::with_scratch((n_images * n_blocks + 2 * n_images) * channels, |scratch| {
            let (parts, rest) = scratch.split_at_mut(n_images * n_blocks * channels);
            let (means, scales) = rest.split_at_mut(n_images * channels);
            parallel::chunks(parts, channels, at_once, |i, part| {
                let (_, start, len) = block_of(i);
                call_real::<T, add_positions, _>((&x[start..][..len], part));
            });
            self.merge(parts, n_blocks, means, |mean| mean);
            parallel::chunks(parts, channels, at_once, |i, part| {
                let (n, start, len) = block_of(i);
                let means = &means[n * channels..][..channels];
                call_real::<T, add_squares, _>((&x[start..][..len], means, part));
            });
            let eps = T::from_f64(self.eps);
            self.merge(parts, n_blocks, scales, |variance| T::ONE / math::sqrt(variance + eps));
            let (means, scales) = (&*means, &*scales);
            let finish = |n: usize, start: usize, out: &mut [T]| {
                let [means, scales] = [means, scales].map(|all| &all[n * channels..][..channels]);
                let x = &x[n * image + start..][..out.len()];
                call_real::<T, normalise, _>((x, out, means, scales, affine));
            };
            if image <= GRAIN {
                return parallel::chunks(out, image, GRAIN.div_ceil(image), |n, out| finish(n, 0, out));
            }
            for (n, out) in out.chunks_mut(image).enumerate() {
                let width = block * channels;
                parallel::chunks(out, width, at_once, |i, out| finish(n, i * width, out));
            }
        });
    }

    /// Stores for each channel what `finish` makes of the mean over its group of what the blocks of each
    /// image have.
    fn merge<T: GemmElement + Real>(
        &self,
        parts: &[T],
        n_blocks: usize,
        out: &mut [T],
        finish: impl Fn(T) -> T,
    ) {
        let count = T::from_f64((self.group() * self.plane) as f64);
        for (parts, out) in parts.chunks(n_blocks * self.channels).zip(out.chunks_mut(self.channels)) {
            call_real::<T, add_positions, _>((parts, &mut *out));
            for group in out.chunks_mut(self.group()) {
                let value = finish(sum(group, |x| x) / count);
                group.fill(value);
            }
        }
    }
}

fx_simd::wide! {
    /// Normalises a group of channels `[channels, plane]`, of which the first one has the number `first`.
    fn group_row[T: GemmElement + Real](
        (norm, x, out, first, affine): (&GroupNorm, &[T], &mut [T], usize, Affine<'_, T>)
    ) {
        let n = T::from_f64(x.len() as f64);
        let mean = sum(x, |x| x) / n;
        let variance = sum(x, |x| (x - mean) * (x - mean)) / n;
        let scale = T::ONE / math::sqrt(variance + T::from_f64(norm.eps));
        let planes = x.chunks_exact(norm.plane).zip(out.chunks_exact_mut(norm.plane));
        for (channel, (x, out)) in (first..).zip(planes) {
            let (weight, bias) = affine_of(affine, channel);
            for (out, &x) in out.iter_mut().zip(x) {
                *out = (x - mean) * scale * weight + bias;
            }
        }
    }

    /// Normalises a channel over all images `[channels, plane]`, in each of which it has a plane of `out`.
    fn across[T: GemmElement + Real](
        (norm, x, mut out, channel, affine): (&GroupNorm, &[T], parallel::Tile<'_, T>, usize, Affine<'_, T>)
    ) {
        let planes = || x.chunks_exact(norm.plane).skip(channel).step_by(norm.channels);
        let n = T::from_f64((x.len() / norm.channels) as f64);
        let mean = planes().fold(T::ZERO, |total, x| total + sum(x, |x| x)) / n;
        let variance = planes().fold(T::ZERO, |total, x| total + sum(x, |x| (x - mean) * (x - mean))) / n;
        let scale = T::ONE / math::sqrt(variance + T::from_f64(norm.eps));
        let (weight, bias) = affine_of(affine, channel);
        for (image, x) in planes().enumerate() {
            for (out, &x) in out.row(image).iter_mut().zip(x) {
                *out = (x - mean) * scale * weight + bias;
            }
        }
    }

    /// Stores the sum of each channel over positions.
    fn add_positions[T: GemmElement + Real]((x, sums): (&[T], &mut [T])) {
        sums.fill(T::ZERO);
        for x in x.chunks_exact(sums.len()) {
            for (sum, &x) in sums.iter_mut().zip(x) {
                *sum = *sum + x;
            }
        }
    }

    /// Stores the sum of squares of each channel's differences from its mean.
    fn add_squares[T: GemmElement + Real]((x, means, sums): (&[T], &[T], &mut [T])) {
        sums.fill(T::ZERO);
        for x in x.chunks_exact(sums.len()) {
            for (sum, (&x, &mean)) in sums.iter_mut().zip(x.iter().zip(means)) {
                *sum = *sum + (x - mean) * (x - mean);
            }
        }
    }

    /// Normalises positions.
    fn normalise[T: GemmElement + Real](
        (x, out, means, scales, [weight, bias]): (&[T], &mut [T], &[T], &[T], Affine<'_, T>)
    ) {
        let n = means.len();
        for (x, out) in x.chunks_exact(n).zip(out.chunks_exact_mut(n)) {
            let moments = means.iter().zip(scales);
            match (weight, bias) {
                (Some(weight), Some(bias)) => {
                    let affine = weight.iter().zip(bias);
                    for ((out, &x), ((&mean, &scale), (&w, &b))) in out.iter_mut().zip(x).zip(moments.zip(affine)) {
                        *out = (x - mean) * scale * w + b;
                    }
                }
                _ => {
                    for (i, ((out, &x), (&mean, &scale))) in out.iter_mut().zip(x).zip(moments).enumerate() {
                        let (weight, bias) = affine_of([weight, bias], i);
                        *out = (x - mean) * scale * weight + bias;
                    }
                }
            }
        }
    }
}
