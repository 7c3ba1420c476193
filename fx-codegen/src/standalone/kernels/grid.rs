//! Images sampled at places that are data.

use super::math::Real;
use super::sampling::{Axis, Beyond, Mode};

/// How images `[batch, channels, depth, height, width]` are sampled.
#[derive(Clone, Copy)]
pub struct Sampling {
    /// The number of channels.
    pub channels: usize,
    /// The sizes of depth, height and width.
    pub input: [usize; 3],
    /// The numbers of a place: 2, or 3 with depth.
    pub axes: usize,
    /// How many places a batch has.
    pub places: usize,
    /// How pixels become one.
    pub mode: Mode,
    /// How pixels beyond the border are seen.
    pub beyond: Beyond,
    /// Whether places go from centre to centre of the outer pixels.
    pub align: bool,
}

/// Samples images at the places of a grid.
pub fn sample<T: Real>(sampling: Sampling, x: &[T], grid: &[T], out: &mut [T]) {
    let Sampling { channels, input, axes, places, mode, beyond, align } = sampling;
    let plane = input[0] * input[1] * input[2];
    if places == 0 || channels == 0 || axes == 0 {
        return;
    }
    let axis = |size: usize| Axis { size, align, beyond };
    let sides = [axis(input[2]), axis(input[1]), axis(input[0])];
    for (at, place) in grid.chunks_exact(axes).enumerate() {
        let (batch, at) = (at / places, at % places);
        let mut taps = [[(None, T::ZERO); 4]; 3];
        let mut counts = [1; 3];
        taps[2][0] = (Some(0), T::ONE);
        for (i, &place) in place.iter().enumerate() {
            counts[i] = sides[i].taps(mode, place, &mut taps[i]);
        }
        for channel in batch * channels..(batch + 1) * channels {
            let x = &x[channel * plane..][..plane];
            let mut sum = T::ZERO;
            for &(z, of_z) in &taps[2][..counts[2]] {
                for &(y, of_y) in &taps[1][..counts[1]] {
                    for &(across, of_x) in &taps[0][..counts[0]] {
                        if let (Some(z), Some(y), Some(across)) = (z, y, across) {
                            sum = sum + x[(z * input[1] + y) * input[2] + across] * (of_z * of_y * of_x);
                        }
                    }
                }
            }
            out[channel * places + at] = sum;
        }
    }
}
