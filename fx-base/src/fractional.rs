//! Maxima of windows at random places, as PyTorch's fractional max pooling takes them
//! (`ATen/native/FractionalMaxPooling.h`).
//!
//! Invariant: this text stands alone beside `math`; it is pasted verbatim into generated Rust.

use super::math::{self, Real};

/// The sizes along three axes of a plane; axes that are missing have the size 1.
#[derive(Clone, Copy, Debug)]
pub struct Windows {
    /// The sizes of the plane.
    pub input: [usize; 3],
    /// The sizes of a window.
    pub kernel: [usize; 3],
    /// The numbers of windows.
    pub output: [usize; 3],
}

impl Windows {
    /// Returns where a window begins along an axis. It is computed in the precision of the input, whose rounding
    /// decides.
    fn start<T: Real>(&self, axis: usize, i: usize, sample: T) -> usize {
        let (room, n) = (self.input[axis] - self.kernel[axis], self.output[axis]);
        if i + 1 >= n {
            return room;
        }
        let step = T::from_f64(room as f64) / T::from_f64((n - 1) as f64);
        let place = math::trunc((T::from_f64(i as f64) + sample) * step) - math::trunc(sample * step);
        let place = place.to_f64();
        if place > 0.0 { (place as usize).min(room) } else { 0 }
    }

    /// Writes the maxima of the windows of each plane and their places. `samples` has a number in [0, 1) for each
    /// of the last axes of a plane, of which `axes` are there.
    pub fn planes<T: Real>(&self, axes: usize, samples: &[T], x: &[T], values: &mut [T], places: &mut [i64]) {
        let [area, len] = [self.input, self.output].map(|sizes| sizes[0] * sizes[1] * sizes[2]);
        let results = values.chunks_exact_mut(len).zip(places.chunks_exact_mut(len));
        let planes = samples.chunks_exact(axes).zip(x.chunks_exact(area));
        for ((samples, x), (values, places)) in planes.zip(results) {
            self.plane(samples, x, values, places);
        }
    }

    /// Writes the maxima of the windows of a plane and their places. `samples` has a number in [0, 1) for each
    /// axis, the last one first.
    pub fn plane<T: Real>(&self, samples: &[T], x: &[T], values: &mut [T], places: &mut [i64]) {
        let [[_, height, width], kernel, output] = [self.input, self.kernel, self.output];
        let start =
            |axis: usize, i: usize| self.start(axis, i, samples.get(2 - axis).copied().unwrap_or(T::ZERO));
        for (row, (values, places)) in
            values.chunks_exact_mut(output[2]).zip(places.chunks_exact_mut(output[2])).enumerate()
        {
            let (depth, line) = (start(0, row / output[1]), start(1, row % output[1]));
            for (column, (value, place)) in values.iter_mut().zip(places).enumerate() {
                let first = (depth * height + line) * width + start(2, column);
                let (mut greatest, mut found) = (x[first], first);
                for (a, b) in (0..kernel[0]).flat_map(|a| (0..kernel[1]).map(move |b| (a, b))) {
                    let from = first + (a * height + b) * width;
                    for (at, &x) in (from..).zip(&x[from..][..kernel[2]]) {
                        if x > greatest || x != x {
                            (greatest, found) = (x, at);
                        }
                    }
                }
                (*value, *place) = (greatest, found as i64);
            }
        }
    }
}
