//! Weighted sums along one axis, such as resizing takes them.

use fx_base::math::Real;
use fx_simd::parallel;

use crate::PARALLEL;

/// For each element of the result, positions and weights in the input: `starts` cuts them.
pub struct Taps {
    starts: Vec<usize>,
    /// Positions and weights.
    pub taps: Vec<(usize, f64)>,
}

impl Taps {
    /// Makes the positions and weights of `output` elements; `each` gives those of one.
    pub fn new(output: usize, each: impl Fn(usize, &mut dyn FnMut(usize, f64))) -> Taps {
        let (mut starts, mut taps) = (vec![0], Vec::new());
        for at in 0..output {
            each(at, &mut |from, weight| taps.push((from, weight)));
            starts.push(taps.len());
        }
        Taps { starts, taps }
    }
}

/// Weighted sums along the middle one of three axes.
pub struct Resample<T> {
    input: usize,
    inner: usize,
    starts: Vec<usize>,
    taps: Vec<(usize, T)>,
}

impl<T: Real> Resample<T> {
    /// Makes that of `input` steps, between which `inner` elements lie.
    pub fn new(taps: Taps, input: usize, inner: usize) -> Resample<T> {
        let weights = taps.taps.into_iter().map(|(at, weight)| (at, T::from_f64(weight)));
        Resample { input, inner, starts: taps.starts, taps: weights.collect() }
    }

    /// Stores the sums of all elements.
    pub fn run(&self, x: &[T], out: &mut [T]) {
        let output = self.starts.len() - 1;
        let width = if self.inner == 1 { output } else { self.inner };
        let cost = (width * self.taps.len().div_ceil(output.max(1))).max(1);
        let is_small = out.len() / width.max(1) * cost < PARALLEL;
        let at_once = if is_small { out.len().max(1) } else { (PARALLEL / 8).div_ceil(cost) };
        parallel::chunks(out, width, at_once, |row, out| {
            fx_simd::call::<resample_row, _>((self, x, row, out));
        });
    }
}

fx_simd::wide! {
    /// Stores the sums of a row: of a whole line if elements lie side by side, else those of one step.
    fn resample_row[T: Real]((with, x, row, out): (&Resample<T>, &[T], usize, &mut [T])) {
        let Resample { input, inner, starts, taps } = with;
        let of = |at: usize| &taps[starts[at]..starts[at + 1]];
        if *inner == 1 {
            let x = &x[row * input..][..*input];
            for (at, out) in out.iter_mut().enumerate() {
                *out = of(at).iter().fold(T::ZERO, |sum, &(i, weight)| sum + x[i] * weight);
            }
            return;
        }
        let (block, at) = (row / (starts.len() - 1), row % (starts.len() - 1));
        let line = |i: usize| &x[(block * input + i) * inner..][..*inner];
        match *of(at) {
            [(i, weight)] => out.iter_mut().zip(line(i)).for_each(|(out, &x)| *out = x * weight),
            [(i, first), (j, second)] => {
                for (out, (&x, &y)) in out.iter_mut().zip(line(i).iter().zip(line(j))) {
                    *out = x * first + y * second;
                }
            }
            [(i, first), (j, second), (k, third), (l, fourth)] => {
                let (near, far) = (line(i).iter().zip(line(j)), line(k).iter().zip(line(l)));
                for (out, ((&x, &y), (&z, &w))) in out.iter_mut().zip(near.zip(far)) {
                    *out = x * first + y * second + z * third + w * fourth;
                }
            }
            ref all => {
                out.fill(T::ZERO);
                for &(i, weight) in all {
                    out.iter_mut().zip(line(i)).for_each(|(out, &x)| *out = *out + x * weight);
                }
            }
        }
    }
}
