//! Which elements of an axis, with which weights, make up those of the same axis at another size.
//!
//! Positions and weights are those of PyTorch's `torch.nn.functional.interpolate` (`ATen/native/UpSample.h`);
//! cubic convolution is that of Keys, "Cubic convolution interpolation for digital image processing", 1981.
//!
//! Invariant: this text stands alone beside `math`; it is pasted verbatim into generated Rust.

use super::math;

/// How elements between samples are found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mode {
    /// The element whose part of the axis has the beginning of the new one.
    Nearest,
    /// The element whose part of the axis has the middle of the new one.
    NearestExact,
    /// The two neighbours, by their distance.
    Linear,
    /// Four neighbours, by cubic polynomials of their distance.
    Cubic,
    /// The mean of those in nearly equal parts.
    Area,
}

/// How an axis gets another size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Resampling {
    /// How elements between samples are found.
    pub mode: Mode,
    /// Whether the first and the last elements stay where they are.
    pub align_corners: bool,
    /// Whether linear and cubic filters are wider where an axis shrinks.
    pub antialias: bool,
    /// The ratio of new to old size that positions are computed with; `None` is that of the sizes.
    pub scale: Option<f64>,
}

impl Resampling {
    /// Gives the positions and weights for element `at` of `output` elements to `tap`, in the order in which they
    /// are added. `input` is the old size, at least 1.
    #[inline]
    pub fn taps(&self, at: usize, input: usize, output: usize, mut tap: impl FnMut(usize, f64)) {
        // The step in the input for one in the output.
        let step = match self.scale {
            _ if self.align_corners && output > 1 => (input - 1) as f64 / (output - 1) as f64,
            _ if self.align_corners => 0.0,
            Some(scale) => 1.0 / scale,
            None => input as f64 / output as f64,
        };
        let middle = if self.align_corners { at as f64 * step } else { (at as f64 + 0.5) * step - 0.5 };
        match self.mode {
            Mode::Nearest if input == output => tap(at, 1.0),
            // Positions of the nearest modes are those of single precision, as PyTorch's are.
            Mode::Nearest | Mode::NearestExact => {
                let step = match self.scale {
                    Some(scale) => (1.0 / scale) as f32,
                    None => input as f32 / output as f32,
                };
                let half = if self.mode == Mode::NearestExact { 0.5 } else { 0.0 };
                tap((math::floor((at as f32 + half) * step) as usize).min(input - 1), 1.0);
            }
            Mode::Area => {
                let (start, end) = (at * input / output, ((at + 1) * input).div_ceil(output));
                (start..end).for_each(|i| tap(i, 1.0 / (end - start) as f64));
            }
            Mode::Linear | Mode::Cubic if self.antialias => self.widened(at, input, step, tap),
            Mode::Linear => {
                let middle = middle.max(0.0);
                let low = (math::floor(middle) as usize).min(input - 1);
                let part = (middle - low as f64).clamp(0.0, 1.0);
                tap(low, 1.0 - part);
                tap((low + 1).min(input - 1), part);
            }
            Mode::Cubic => {
                let low = math::floor(middle);
                for k in -1..3 {
                    let i = (low + k as f64).clamp(0.0, (input - 1) as f64) as usize;
                    tap(i, cubic(middle - low - k as f64, -0.75));
                }
            }
        }
    }

    /// Returns whether each element of the result is that of the input at its own place.
    pub fn is_identity(&self, input: usize, output: usize) -> bool {
        let is_same = |at: usize| {
            let mut is_same = true;
            self.taps(at, input, output, |i, weight| is_same &= weight == 0.0 || i == at && weight == 1.0);
            is_same
        };
        input == output && (0..output).all(is_same)
    }

    /// Returns the positions and weights of all of `output` elements for images of bytes. PyTorch sums these in
    /// integers: the weights of an axis have as many binary places as fit 15 bits.
    pub fn byte_taps(&self, input: usize, output: usize) -> ByteTaps {
        let (mut starts, mut places, mut weights) = (vec![0], Vec::new(), Vec::<f64>::new());
        for at in 0..output {
            let start = places.len();
            self.taps(at, input, output, |place, weight| {
                // Beyond the border is the element at the border.
                match places[start..].iter().position(|&other| other == place as i64) {
                    Some(same) => weights[start + same] += weight,
                    None => {
                        places.push(place as i64);
                        weights.push(weight);
                    }
                }
            });
            starts.push(places.len() as i64);
        }
        let greatest = weights.iter().fold(0.0, |greatest: f64, &weight| greatest.max(weight));
        let mut shift = 0;
        while shift < 22 && ((0.5 + greatest * (1i64 << (shift + 1)) as f64) as i64) < 1 << 15 {
            shift += 1;
        }
        let unit = (1i64 << shift) as f64;
        let rounded = |weight: &f64| (weight * unit + 0.5f64.copysign(*weight)) as i64;
        ByteTaps { starts, places, weights: weights.iter().map(rounded).collect(), shift }
    }

    /// As [`taps`](Self::taps), for filters that are as wide as the step.
    fn widened(&self, at: usize, input: usize, step: f64, mut tap: impl FnMut(usize, f64)) {
        let support = if self.mode == Mode::Cubic { 2.0 } else { 1.0 };
        let width = step.max(1.0);
        let middle = (at as f64 + 0.5) * step;
        let start = (middle - support * width + 0.5).max(0.0) as usize;
        let end = ((middle + support * width + 0.5) as usize).min(input);
        let weight = |i: usize| {
            let x = (i as f64 - middle + 0.5) / width;
            if self.mode == Mode::Cubic { cubic(x, -0.5) } else { (1.0 - x.abs()).max(0.0) }
        };
        let total: f64 = (start..end).map(weight).sum();
        let scale = if total == 0.0 { 0.0 } else { 1.0 / total };
        (start..end).for_each(|i| tap(i, weight(i) * scale));
    }
}

/// The elements of images of bytes that make up those of an axis at another size, with weights in integers.
#[derive(Clone, Debug, PartialEq)]
pub struct ByteTaps {
    /// Where the elements for each new one begin in `places` and `weights`, and where the last ones end.
    pub starts: Vec<i64>,
    /// The positions in the old axis.
    pub places: Vec<i64>,
    /// The weights, in units of `2^-shift`.
    pub weights: Vec<i64>,
    /// The binary places of the weights.
    pub shift: u32,
}

/// Resizes the first axis of an image of bytes whose lines have `inner` elements: each new line is the sum of the
/// lines of `x` at its `places` times their weights, as [`ByteTaps`] has them.
#[inline]
pub fn byte_lines(
    x: &[u8],
    inner: usize,
    starts: &[i64],
    places: &[i64],
    weights: &[i64],
    shift: u32,
    out: &mut [u8],
) {
    let half = if shift == 0 { 0 } else { 1 << (shift - 1) };
    for (line, part) in out.chunks_exact_mut(inner).zip(starts.windows(2)) {
        let taps = part[0] as usize..part[1] as usize;
        let (places, weights) = (&places[taps.clone()], &weights[taps]);
        for (i, out) in line.iter_mut().enumerate() {
            let terms = places.iter().zip(weights);
            let sum: i64 = terms.map(|(&at, weight)| i64::from(x[at as usize * inner + i]) * weight).sum();
            *out = ((sum + half) >> shift).clamp(0, 255) as u8;
        }
    }
}

/// Returns the weight at a distance by cubic convolution with the parameter `a`.
pub fn cubic(x: f64, a: f64) -> f64 {
    let x = x.abs();
    if x <= 1.0 {
        ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0
    } else if x < 2.0 {
        ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a
    } else {
        0.0
    }
}
