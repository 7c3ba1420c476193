//! Pooling prepared for inputs of one size: planes, or with channels last, `[batch, spatial..., channels]`,
//! which gives the same.

use fx_base::Result;
use fx_base::math::Real;
use fx_simd::parallel;

use super::{
    Divisor, GRAIN, PoolSpec, Window, adaptive_axes, averages, avg_axes, check_divisor, max_axes, maxima,
};

/// How the elements of a window become one.
#[derive(Clone, Copy)]
enum Kind {
    Max,
    Average(Divisor),
}

/// A pooling of inputs of one size.
pub struct Pooling {
    input: [usize; 3],
    axes: [Vec<Window>; 3],
    kind: Kind,
}

impl Pooling {
    fn new(input: &[usize], axes: [Vec<Window>; 3], kind: Kind) -> Self {
        let mut sizes = [1; 3];
        sizes[3 - input.len()..].copy_from_slice(input);
        Pooling { input: sizes, axes, kind }
    }

    /// The maximum of each window, as [`max_pool`](super::max_pool).
    ///
    /// Fails when the spec doesn't fit to `input`, the spatial sizes.
    pub fn max(spec: &PoolSpec, input: &[usize]) -> Result<Self> {
        Ok(Self::new(input, max_axes(spec, input, &spec.output_size(input)?), Kind::Max))
    }

    /// The average of each window, as [`avg_pool`](super::avg_pool).
    ///
    /// Fails as [`avg_pool`](super::avg_pool).
    pub fn average(spec: &PoolSpec, input: &[usize], divisor: Divisor) -> Result<Self> {
        let output = spec.output_size(input)?;
        check_divisor(spec, divisor)?;
        Ok(Self::new(input, avg_axes(spec, input, &output), Kind::Average(divisor)))
    }

    /// The averages of nearly equal parts, as [`adaptive_avg_pool`](super::adaptive_avg_pool).
    ///
    /// Fails as [`adaptive_avg_pool`](super::adaptive_avg_pool).
    pub fn adaptive_average(input: &[usize], output: &[usize]) -> Result<Self> {
        let axes = adaptive_axes(input, output)?;
        Ok(Self::new(input, axes, Kind::Average(Divisor::ExcludePadding)))
    }

    /// Returns the positions of the result in each image.
    fn out_size(&self) -> usize {
        self.axes.iter().map(Vec::len).product()
    }

    /// Stores the result for some planes.
    ///
    /// Fails when the lengths of the slices are not those of as many planes.
    pub fn run_planes<T: Real>(&self, x: &[T], out: &mut [T]) -> Result<()> {
        let output = self.axes.each_ref().map(Vec::len);
        match self.kind {
            Kind::Max => maxima(x, &self.input, &output, &self.axes, out, None),
            Kind::Average(divisor) => averages(x, &self.input, &output, &self.axes, out, |inside, padded| {
                divisor.of(inside, padded)
            }),
        }
    }

    /// Stores the result for some images of this many channels, which lie last.
    ///
    /// # Panics
    ///
    /// When a slice has not the length that it must have.
    pub fn run_channels_last<T: Real>(&self, channels: usize, x: &[T], out: &mut [T]) {
        let image = self.input.iter().product::<usize>() * channels;
        let size = self.out_size() * channels;
        if size == 0 || out.is_empty() {
            return;
        }
        assert_eq!(x.len(), out.len() / size * image, "the input has its shape");
        let [depth, height, width] = &self.axes;
        let line = width.len() * channels;
        let window: usize =
            self.axes.iter().map(|axis| axis.iter().map(|w| w.len()).max().unwrap_or(0)).product();
        let at_once = GRAIN.div_ceil((line * window).max(1));
        parallel::chunks(out, line, at_once, |i, out| {
            let (row, h) = (i / height.len(), i % height.len());
            let (n, d) = (row / depth.len(), row % depth.len());
            let windows = (depth[d], height[h], &width[..]);
            fx_simd::call::<pool_line, _>((self, &x[n * image..][..image], windows, channels, out));
        });
    }
}

fx_simd::wide! {
    /// Pools a line of windows.
    fn pool_line[T: Real](
        (pool, x, windows, channels, out): (&Pooling, &[T], (Window, Window, &[Window]), usize, &mut [T])
    ) {
        match channels {
            32.. => pool_blocks::<T, 32>(pool, x, windows, channels, out),
            16.. => pool_blocks::<T, 16>(pool, x, windows, channels, out),
            8.. => pool_blocks::<T, 8>(pool, x, windows, channels, out),
            4.. => pool_blocks::<T, 4>(pool, x, windows, channels, out),
            _ => pool_blocks::<T, 1>(pool, x, windows, channels, out),
        }
    }
}

/// Pools a line of windows, so many channels at a time; the last ones may be pooled twice.
#[inline(always)]
fn pool_blocks<T: Real, const LANES: usize>(
    pool: &Pooling,
    x: &[T],
    (d, h, width): (Window, Window, &[Window]),
    channels: usize,
    out: &mut [T],
) {
    for (&w, out) in width.iter().zip(out.chunks_exact_mut(channels)) {
        for first in (0..channels).step_by(LANES) {
            pool_block::<T, LANES>(pool, x, [d, h, w], channels, first.min(channels - LANES), out);
        }
    }
}

/// Pools some channels, from `first` on, of a window.
#[inline(always)]
fn pool_block<T: Real, const LANES: usize>(
    pool: &Pooling,
    x: &[T],
    [d, h, w]: [Window; 3],
    channels: usize,
    first: usize,
    out: &mut [T],
) {
    let is_max = matches!(pool.kind, Kind::Max);
    let mut folded = [if is_max { T::from_f64(f64::NEG_INFINITY) } else { T::ZERO }; LANES];
    for z in d.positions() {
        for y in h.positions() {
            let row = (z * pool.input[1] + y) * pool.input[2];
            for at in w.positions() {
                let Some(x) = x[(row + at) * channels + first..].first_chunk::<LANES>() else { return };
                if is_max {
                    for i in 0..LANES {
                        // NaN is above all numbers.
                        #[expect(clippy::eq_op, reason = "only NaN is not itself")]
                        let is_above = x[i] > folded[i] || x[i] != x[i];
                        folded[i] = if is_above { x[i] } else { folded[i] };
                    }
                } else {
                    for i in 0..LANES {
                        folded[i] = folded[i] + x[i];
                    }
                }
            }
        }
    }
    let inside = d.len() * h.len() * w.len();
    if let (Kind::Average(divisor), 1..) = (pool.kind, inside) {
        let by = T::from_f64(divisor.of(inside, d.padded * h.padded * w.padded));
        folded.iter_mut().for_each(|x| *x = *x / by);
    }
    out[first..first + LANES].copy_from_slice(&folded);
}
