//! Images sampled at places that are data.

use super::math::{self, Real};

/// How pixels beyond the border are seen.
#[derive(Clone, Copy)]
pub enum Beyond {
    /// As zeros.
    Zeros,
    /// As those at the border.
    Border,
    /// As those on the other side of it.
    Reflection,
}

/// How pixels become one.
#[derive(Clone, Copy)]
pub enum Mode {
    /// The nearest one.
    Nearest,
    /// The neighbours along each axis, by their distance.
    Linear,
    /// Four along each axis, by cubic polynomials.
    Cubic,
}

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

/// One axis of an image.
#[derive(Clone, Copy)]
struct Axis {
    size: usize,
    align: bool,
    beyond: Beyond,
}

impl Axis {
    /// Returns a place in pixels.
    fn pixel<T: Real>(self, place: T) -> T {
        let (half, size) = (T::from_f64(0.5), T::from_f64(self.size as f64));
        if self.align {
            (place + T::ONE) * half * (size - T::ONE)
        } else {
            ((place + T::ONE) * size - T::ONE) * half
        }
    }

    /// Brings pixels beyond the border back, unless zeros are there.
    fn inside<T: Real>(self, at: T) -> T {
        let last = T::from_f64(self.size as f64 - 1.0);
        let clip = |at: T| {
            if at > T::ZERO { if at < last { at } else { last } } else { T::ZERO }
        };
        match self.beyond {
            Beyond::Zeros => at,
            Beyond::Border => clip(at),
            Beyond::Reflection => {
                let (low, span) =
                    if self.align { (T::ZERO, last) } else { (T::from_f64(-0.5), last + T::ONE) };
                if span == T::ZERO {
                    return T::ZERO;
                }
                let from = math::abs(at - low);
                let turns = math::floor(from / span);
                let extra = from - turns * span;
                let is_even = turns % T::from_f64(2.0) == T::ZERO;
                clip(if is_even { extra + low } else { span - extra + low })
            }
        }
    }

    /// Returns the position of a whole pixel, if there is one.
    fn position<T: Real>(self, at: T) -> Option<usize> {
        let last = T::from_f64(self.size as f64 - 1.0);
        if at >= T::ZERO && at <= last { Some(at.to_f64() as usize) } else { None }
    }

    /// Stores the pixels that make up the one at a place, with their weights; returns their number.
    fn taps<T: Real>(self, mode: Mode, place: T, out: &mut [(Option<usize>, T); 4]) -> usize {
        let at = self.pixel(place);
        match mode {
            Mode::Nearest => {
                out[0] = (self.position(math::round(self.inside(at))), T::ONE);
                1
            }
            Mode::Cubic => {
                let low = math::floor(at);
                for (k, out) in out.iter_mut().enumerate() {
                    let pixel = low + T::from_f64(k as f64 - 1.0);
                    let weight = T::from_f64(cubic((at - pixel).to_f64()));
                    *out = (self.position(self.inside(pixel)), weight);
                }
                4
            }
            Mode::Linear => {
                let at = self.inside(at);
                let low = math::floor(at);
                out[0] = (self.position(low), low + T::ONE - at);
                out[1] = (self.position(low + T::ONE), at - low);
                2
            }
        }
    }
}

/// Returns the weight of a pixel at a distance, by Keys' cubic convolution with -0.75.
fn cubic(x: f64) -> f64 {
    const A: f64 = -0.75;
    let x = if x < 0.0 { -x } else { x };
    if x <= 1.0 {
        ((A + 2.0) * x - (A + 3.0)) * x * x + 1.0
    } else if x < 2.0 {
        ((A * x - 5.0 * A) * x + 8.0 * A) * x - 4.0 * A
    } else {
        0.0
    }
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
