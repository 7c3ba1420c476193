//! Which pixels, with which weights, make up the one at a place between -1 and 1, as PyTorch's `grid_sample` finds
//! them (`ATen/native/GridSampler.h`), and at a point in pixels, as operations on regions do.
//!
//! Invariant: this text stands alone beside `math` and `resampling`; it is pasted verbatim into generated Rust.

use super::math::{self, Real};
use super::resampling::cubic;

/// How pixels beyond the border are seen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Beyond {
    /// As zeros.
    Zeros,
    /// As those at the border.
    Border,
    /// As those on the other side of it.
    Reflection,
}

/// How pixels become one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mode {
    /// The nearest one.
    Nearest,
    /// The neighbours along each axis, by their distance.
    Linear,
    /// Four along each axis, by cubic polynomials.
    Cubic,
}

/// One axis of an image.
#[derive(Clone, Copy, Debug)]
pub struct Axis {
    /// The number of pixels.
    pub size: usize,
    /// Whether places go from centre to centre of the outer pixels, not from border to border.
    pub align: bool,
    /// How pixels beyond the border are seen.
    pub beyond: Beyond,
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

    /// Stores the pixels that make up the one at a place, with their weights; returns their number. A pixel beyond
    /// the border is `None`.
    pub fn taps<T: Real>(self, mode: Mode, place: T, out: &mut [(Option<usize>, T); 4]) -> usize {
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
                    let weight = T::from_f64(cubic((at - pixel).to_f64(), -0.75));
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

/// Returns the places in an image and weights of the bilinear interpolation at a point, as torchvision's
/// `roi_align` takes them: outside by more than a pixel there are none.
#[inline(always)]
pub fn bilinear<T: Real>(y: T, x: T, height: usize, width: usize) -> Option<[(usize, T); 4]> {
    let (h, w, below) = (T::from_f64(height as f64), T::from_f64(width as f64), T::ZERO - T::ONE);
    if !(y >= below && y <= h && x >= below && x <= w) {
        return None;
    }
    let split = |at: T, size: usize| {
        let at = if at > T::ZERO { at } else { T::ZERO };
        let low = at.to_f64() as usize;
        if low + 1 >= size {
            (size - 1, size - 1, T::ZERO)
        } else {
            (low, low + 1, at - T::from_f64(low as f64))
        }
    };
    let ((y0, y1, dy), (x0, x1, dx)) = (split(y, height), split(x, width));
    let (ey, ex) = (T::ONE - dy, T::ONE - dx);
    let at = |y: usize, x: usize| y * width + x;
    Some([(at(y0, x0), ey * ex), (at(y0, x1), ey * dx), (at(y1, x0), dy * ex), (at(y1, x1), dy * dx)])
}
