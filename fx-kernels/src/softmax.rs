//! Softmax along any axis: of rows, or of columns that are read in place.

use fx_base::math::{self, Real};
use fx_simd::parallel;

use super::{call_real, rows};

/// The number of elements beside each other from which columns are read in place.
pub const FEWEST_COLUMNS: usize = 16;
/// The elements of a tile, which stays in the second cache,
const TILE: usize = 1 << 16;
/// and the most columns of it.
const WIDEST: usize = 512;
/// The elements below which a second thread does not pay.
const GRAIN: usize = 1 << 12;

/// A softmax, or its logarithm, along the middle one of three axes.
#[derive(Clone, Copy, Debug)]
pub struct Softmax {
    /// The size of the axis.
    pub n: usize,
    /// The elements that lie between its steps.
    pub inner: usize,
    /// Whether it is the logarithm.
    pub log: bool,
}

impl Softmax {
    /// Returns that along an axis, if there is a kernel for it: columns must be [enough](FEWEST_COLUMNS).
    pub fn along(shape: &[usize], axis: usize, log: bool) -> Option<Softmax> {
        let (n, inner) = (*shape.get(axis)?, shape[axis + 1..].iter().product());
        (inner == 1 || inner >= FEWEST_COLUMNS).then_some(Softmax { n, inner, log })
    }

    /// Stores it for all elements.
    pub fn run<T: Real>(&self, x: &[T], out: &mut [T]) {
        let Softmax { n, inner, log } = *self;
        if x.is_empty() {
            return;
        }
        if inner == 1 {
            return if log { rows::log_softmax(x, out, n) } else { rows::softmax(x, out, n) };
        }
        let width = (TILE / n).clamp(FEWEST_COLUMNS, WIDEST) / FEWEST_COLUMNS * FEWEST_COLUMNS;
        let at_once = GRAIN.div_ceil(n * width.min(inner));
        parallel::tiles(out, [n, inner], width, at_once, |matrix, first, out| {
            let from =
                Columns { x: &x[matrix * n * inner..][..n * inner], first, width: width.min(inner - first) };
            call_real::<T, columns, _>((self, from, out));
        });
    }
}

/// Some columns of a matrix.
struct Columns<'a, T> {
    x: &'a [T],
    first: usize,
    width: usize,
}

fx_simd::wide! {
    /// Stores the softmax of some columns.
    fn columns[T: Real]((softmax, from, mut out): (&Softmax, Columns<'_, T>, parallel::Tile<'_, T>)) {
        let row = |i: usize| &from.x[i * softmax.inner + from.first..][..from.width];
        let (mut greatest, mut sums) = ([-T::INFINITY; WIDEST], [T::ZERO; WIDEST]);
        let (greatest, sums) = (&mut greatest[..from.width], &mut sums[..from.width]);
        for i in 0..softmax.n {
            for (greatest, &x) in greatest.iter_mut().zip(row(i)) {
                *greatest = if x > *greatest { x } else { *greatest };
            }
        }
        for i in 0..softmax.n {
            let (x, out) = (row(i), out.row(i));
            for (((&x, out), &greatest), sum) in x.iter().zip(out).zip(&*greatest).zip(&mut *sums) {
                let power = T::exp_below(x - greatest);
                *out = power;
                *sum = *sum + power;
            }
        }
        if !softmax.log {
            sums.iter_mut().for_each(|sum| *sum = T::ONE / *sum);
            for i in 0..softmax.n {
                out.row(i).iter_mut().zip(&*sums).for_each(|(out, &factor)| *out = *out * factor);
            }
            return;
        }
        sums.iter_mut().for_each(|sum| *sum = math::log(*sum));
        for i in 0..softmax.n {
            for (((&x, out), &greatest), &log) in row(i).iter().zip(out.row(i)).zip(&*greatest).zip(&*sums) {
                *out = (x - greatest) - log;
            }
        }
    }
}
