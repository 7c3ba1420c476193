//! Reflections `1 - scale v v^T`, alone and in blocks, and the decomposition of matrices by them.
//!
//! The product of several is `1 - V T V^T` with the vectors as columns of `V` and a small upper triangle `T`
//! (Schreiber and Van Loan, 1989), so that a block of them takes three matrix products. Vectors lie one after
//! the other, each in a line of `stride` elements.

use fx_simd::{call, wide};

use super::gemm::{GemmElement, gemm_by};
use super::lanes;

/// The reflections of a block.
const BLOCK: usize = 32;

/// The elements of which lines of a panel have a multiple.
const LANES: usize = 16;

/// Returns the sum of products, in an order that depends on the length alone.
#[inline(always)]
fn dot<T: GemmElement>(a: &[T], b: &[T]) -> T {
    lanes::dot::<T, LANES>(a, b, T::zero())
}

/// Adds a multiple of `y` to `x`.
#[inline(always)]
fn add<T: GemmElement>(x: &mut [T], factor: T, y: &[T]) {
    x.iter_mut().zip(y).for_each(|(x, &y)| *x = *x + factor * y);
}

/// Some reflections, whose vectors lie `stride` apart and have `rows` elements.
#[derive(Clone, Copy)]
struct Reflections<'a, T> {
    vectors: &'a [T],
    stride: usize,
    rows: usize,
    scales: &'a [T],
    /// Whether other threads may help.
    shared: bool,
}

impl<T: GemmElement> Reflections<'_, T> {
    /// Replaces the first `columns` columns of `c`, whose rows are `width` apart, by their product with the
    /// reflections: the first one is the leftmost factor, or with `turned` the rightmost.
    fn apply(self, turned: bool, c: &mut [T], width: usize, columns: usize) {
        let (count, rows) = (self.scales.len(), self.rows);
        if count == 0 || columns == 0 {
            return;
        }
        let (zero, one) = (T::zero(), T::one());
        let (by_rows, by_columns) = ((self.stride, 1), (1, self.stride));
        let triangle = self.triangle();
        let mut along = vec![zero; count * columns];
        let (v, shared) = (self.vectors, self.shared);
        gemm_by(shared, count, rows, columns, one, v, by_rows, c, (width, 1), zero, &mut along, (columns, 1));
        let mut weights = vec![zero; count * columns];
        let strides = if turned { (1, count) } else { (count, 1) };
        gemm_by(
            shared,
            count,
            count,
            columns,
            one,
            &triangle,
            strides,
            &along,
            (columns, 1),
            zero,
            &mut weights,
            (columns, 1),
        );
        gemm_by(
            shared,
            rows,
            count,
            columns,
            -one,
            v,
            by_columns,
            &weights,
            (columns, 1),
            one,
            c,
            (width, 1),
        );
    }

    /// Returns `T`.
    fn triangle(&self) -> Vec<T> {
        let (count, zero) = (self.scales.len(), T::zero());
        let mut products = vec![zero; count * count];
        let (v, by_rows, by_columns) = (self.vectors, (self.stride, 1), (1, self.stride));
        let (one, strides) = (T::one(), (count, 1));
        gemm_by(
            self.shared,
            count,
            self.rows,
            count,
            one,
            v,
            by_rows,
            v,
            by_columns,
            zero,
            &mut products,
            strides,
        );
        let mut triangle = vec![zero; count * count];
        for (k, &scale) in self.scales.iter().enumerate() {
            triangle[k * count + k] = scale;
            if scale == zero {
                continue;
            }
            for i in 0..k {
                let sum = (i..k).fold(zero, |sum, j| sum + triangle[i * count + j] * products[j * count + k]);
                triangle[i * count + k] = -scale * sum;
            }
        }
        triangle
    }
}

/// Stores in `out` the first `columns` columns of the product of reflections. The vector of the first one
/// begins at the first element, that of the second at the next, and so forth; elements before are zero.
fn product<T: GemmElement>(all: Reflections<'_, T>, out: &mut [T], columns: usize) {
    out.fill(T::zero());
    out.chunks_exact_mut(columns.max(1)).take(columns).enumerate().for_each(|(i, row)| row[i] = T::one());
    let count = all.scales.len();
    for first in (0..count).step_by(BLOCK).rev() {
        let scales = &all.scales[first..(first + BLOCK).min(count)];
        if first >= columns {
            continue;
        }
        let vectors = &all.vectors[first * all.stride + first..];
        let block = Reflections { vectors, scales, rows: all.rows - first, ..all };
        // Columns before are still those of the identity, which have nothing in these rows.
        block.apply(false, &mut out[first * columns + first..], columns, columns - first);
    }
}

/// Turns `a`, m by n, into an upper triangle, below which are the vectors without their first element, which
/// is 1; stores the scales, of which there are as many as the smaller size.
pub fn decompose<T: GemmElement>(a: &mut [T], n: usize, scales: &mut [T], shared: bool) {
    let (m, count) = (a.len().checked_div(n).unwrap_or(0), scales.len());
    for first in (0..count).step_by(BLOCK) {
        let next = (first + BLOCK).min(count);
        let (rows, width, stride) = (m - first, next - first, (m - first).next_multiple_of(LANES));
        let mut panel = vec![T::zero(); width * stride];
        let mut vectors = panel.clone();
        let lower = &mut a[first * n..];
        for (i, row) in lower.chunks_exact(n).enumerate() {
            row[first..next].iter().enumerate().for_each(|(j, &x)| panel[j * stride + i] = x);
        }
        let scales = &mut scales[first..next];
        call::<reflect_panel, _>((&mut panel, &mut vectors, stride, rows, &mut *scales));
        for (i, row) in lower.chunks_exact_mut(n).enumerate() {
            row[first..next].iter_mut().enumerate().for_each(|(j, x)| *x = panel[j * stride + i]);
        }
        let block = Reflections { vectors: &vectors, stride, rows, scales, shared };
        block.apply(true, &mut lower[next..], n, n - next);
    }
}

/// Stores in `out`, m by `columns`, the first columns of the product of the reflections that [`decompose`]
/// left in `a`, m by n.
pub fn orthogonal<T: GemmElement>(
    a: &[T],
    n: usize,
    scales: &[T],
    columns: usize,
    out: &mut [T],
    shared: bool,
) {
    let m = out.len().checked_div(columns).unwrap_or(0);
    let mut vectors = vec![T::zero(); scales.len() * m];
    for (i, row) in a.chunks_exact(n.max(1)).enumerate() {
        let below = &row[..i.min(scales.len())];
        below.iter().enumerate().for_each(|(j, &x)| vectors[j * m + i] = x);
    }
    vectors.iter_mut().step_by(m + 1).for_each(|x| *x = T::one());
    product(Reflections { vectors: &vectors, stride: m, rows: m, scales, shared }, out, columns);
}

/// Returns the root of the sum of squares.
#[inline(always)]
fn length<T: GemmElement>(x: &[T]) -> T {
    let square = dot(x, x);
    // Squares of very small or great elements leave the range of the dtype.
    let limit = T::min_positive_value() / T::epsilon();
    if square > limit && square < limit.recip() {
        return square.sqrt();
    }
    let most = x.iter().fold(T::zero(), |most, x| most.max(x.abs()));
    if most == T::zero() || !square.is_finite() && !most.is_finite() {
        return most;
    }
    most * x.iter().fold(T::zero(), |sum, &x| sum + (x / most) * (x / most)).sqrt()
}

wide! {
    /// Reflects the columns of a panel, lines of `stride` elements of which `rows` count, and stores vectors
    /// and scales.
    fn reflect_panel[T: GemmElement](
        (panel, vectors, stride, rows, scales): (&mut [T], &mut [T], usize, usize, &mut [T])
    ) {
        for (j, scale) in scales.iter_mut().enumerate() {
            let (done, rest) = panel.split_at_mut((j + 1) * stride);
            let column = &mut done[j * stride + j..j * stride + rows];
            let v = &mut vectors[j * stride..][..stride];
            v[j] = T::one();
            let below = length(&column[1..]);
            if below == T::zero() {
                *scale = T::zero();
                continue;
            }
            let alpha = column[0];
            let beta = -length(&[alpha, below]).copysign(alpha);
            *scale = (beta - alpha) / beta;
            let factor = alpha - beta;
            column[0] = beta;
            column[1..].iter_mut().for_each(|x| *x = *x / factor);
            v[j + 1..rows].copy_from_slice(&column[1..]);
            // From a multiple of the lanes on; what is before in the vector is zero.
            let v = &v[j / LANES * LANES..];
            for other in rest.chunks_exact_mut(stride) {
                let other = &mut other[j / LANES * LANES..];
                let along = dot(v, other);
                add(other, -*scale * along, v);
            }
        }
    }
}
