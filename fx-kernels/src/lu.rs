//! Blocked triangular decompositions of row-major square matrices, and solutions by them.
//!
//! Bands of `BAND` columns are decomposed by themselves; what they mean for the rest of the matrix is one
//! product a band. All sums are in an order that depends on the sizes alone.

use fx_base::math::Real;
use fx_simd::{Work, parallel, widest};

/// The columns that are decomposed at a time, and those of a block of a product.
const BAND: usize = 32;

/// The rows of a block of a product.
const ROWS: usize = 4;

/// The greatest size of matrices that are decomposed where they lie.
const SMALL: usize = 8;

/// The multiply-adds of a product below which a second thread does not pay.
const GRAIN: usize = 1 << 20;

/// Decomposes `a`, n by n, in place into unit lower and upper triangles of its permuted rows. Returns the row
/// that is at each place and the sign of the permutation; a pivot may be zero.
pub fn lu<T: Real>(a: &mut [T], n: usize) -> (Vec<usize>, T) {
    let mut rows: Vec<usize> = (0..n).collect();
    let mut sign = T::ONE;
    decompose(a, n, n, true, |k, row| {
        if k != row {
            rows.swap(k, row);
            sign = -sign;
        }
    });
    (rows, sign)
}

/// As [`lu`] for m by n elements, and without `pivot` for rows as they are. `exchange` is told of each step
/// the row of the pivot.
pub fn decompose<T: Real>(
    a: &mut [T],
    m: usize,
    n: usize,
    pivot: bool,
    mut exchange: impl FnMut(usize, usize),
) {
    let steps = m.min(n);
    if m.max(n) <= SMALL {
        return decompose_small(a, n, steps, pivot, exchange);
    }
    let mut panel = Vec::with_capacity(m);
    for first in (0..steps).step_by(BAND) {
        let width = BAND.min(steps - first);
        panel.clear();
        panel.extend(a[first * n..].chunks(n).map(|row| {
            let mut line = [T::ZERO; BAND];
            line[..width].copy_from_slice(&row[first..first + width]);
            line
        }));
        for (k, from) in widest(Panel(&mut panel, width, pivot)).into_iter().enumerate() {
            let (k, from) = (first + k, first + from);
            if from != k {
                let (upper, lower) = a.split_at_mut(from * n);
                upper[k * n..][..n].swap_with_slice(&mut lower[..n]);
            }
            exchange(k, from);
        }
        for (row, line) in a[first * n..].chunks_mut(n).zip(&panel) {
            row[first..first + width].copy_from_slice(&line[..width]);
        }
        let next = first + width;
        if next == n {
            break;
        }
        // The rows of the band beside it, then the product that the rest loses.
        let (upper, lower) = a.split_at_mut(next * n);
        let mut beside: Vec<T> = Vec::with_capacity(width * (n - next));
        for row in upper[first * n..].chunks(n) {
            beside.extend_from_slice(&row[next..]);
        }
        let unit: Vec<[T; BAND]> = panel[..width].to_vec();
        widest(Lower(&unit, true, &mut beside, n - next));
        for (row, line) in upper[first * n..].chunks_mut(n).zip(beside.chunks(n - next)) {
            row[next..].copy_from_slice(line);
        }
        subtract(lower, n, next, &panel[width..], &beside, width, None);
    }
}

/// Is [`decompose`] without copies.
fn decompose_small<T: Real>(
    a: &mut [T],
    n: usize,
    steps: usize,
    pivot: bool,
    mut exchange: impl FnMut(usize, usize),
) {
    for k in 0..steps {
        let mut from = k;
        for (i, row) in a.chunks_exact(n).enumerate().skip(k + 1).filter(|_| pivot) {
            if T::abs(row[k]) > T::abs(a[from * n + k]) {
                from = i;
            }
        }
        if from != k {
            (0..n).for_each(|j| a.swap(k * n + j, from * n + j));
        }
        exchange(k, from);
        let (upper, lower) = a.split_at_mut((k + 1) * n);
        let line = &upper[k * n..];
        if line[k] == T::ZERO {
            continue;
        }
        for row in lower.chunks_exact_mut(n) {
            let factor = row[k] / line[k];
            row[k] = factor;
            row[k + 1..].iter_mut().zip(&line[k + 1..]).for_each(|(x, &p)| *x = *x - factor * p);
        }
    }
}

// Long functions are compiled for wide vectors only as the `run` of a `Work`.

macro_rules! works {
    ($($name:ident($($field:ident: $ty:ty),*) -> $out:ty = $call:expr;)*) => {$(
        struct $name<'a, T>($($ty),*);
        impl<'a, T: Real> Work for $name<'a, T> {
            type Output = $out;
            #[inline(always)]
            fn run(self) -> $out {
                let $name($($field),*) = self;
                $call
            }
        }
    )*};
}
works! {
    Panel(panel: &'a mut [[T; BAND]], width: usize, pivot: bool) -> Vec<usize> = decompose_panel((panel, width, pivot));
    Lower(triangle: &'a [[T; BAND]], is_unit: bool, x: &'a mut [T], width: usize) -> () =
        solve_lower((triangle, is_unit, x, width));
    Upper(triangle: &'a [[T; BAND]], x: &'a mut [T], width: usize) -> () = solve_upper((triangle, x, width));
    Band(product: Product<'a, T>) -> () = subtract_band(product);
    Triangle(a: &'a mut [[T; BAND]]) -> Option<usize> = decompose_triangle(a);
}

/// Decomposes the columns of a panel; returns the row that each pivot comes from.
#[inline(always)]
fn decompose_panel<T: Real>((panel, width, pivot): (&mut [[T; BAND]], usize, bool)) -> Vec<usize> {
    let mut pivots = Vec::with_capacity(width);
    for k in 0..width {
        let (mut best, mut most) = (k, T::abs(panel[k][k]));
        for (i, line) in panel.iter().enumerate().skip(k + 1).filter(|_| pivot) {
            if T::abs(line[k]) > most {
                (best, most) = (i, T::abs(line[k]));
            }
        }
        panel.swap(k, best);
        pivots.push(best);
        let (upper, lower) = panel.split_at_mut(k + 1);
        let pivot = upper[k][k];
        if pivot == T::ZERO {
            continue;
        }
        // Columns up to this one stay, for nothing is taken from them.
        let mut line = upper[k];
        line[..=k].fill(T::ZERO);
        for row in lower {
            let factor = row[k] / pivot;
            row.iter_mut().zip(&line).for_each(|(x, &p)| *x = *x - factor * p);
            row[k] = factor;
        }
    }
    pivots
}

/// Replaces rows `x` of `width` elements by the solution for a lower triangle, whose diagonal counts as one
/// if `is_unit`.
#[inline(always)]
fn solve_lower<T: Real>((triangle, is_unit, x, width): (&[[T; BAND]], bool, &mut [T], usize)) {
    if width == 0 {
        return;
    }
    for (i, line) in triangle.iter().enumerate() {
        let (above, rest) = x.split_at_mut(i * width);
        let row = &mut rest[..width];
        for (&factor, above) in line.iter().zip(above.chunks(width)) {
            row.iter_mut().zip(above).for_each(|(x, &y)| *x = *x - factor * y);
        }
        if !is_unit {
            row.iter_mut().for_each(|x| *x = *x / line[i]);
        }
    }
}

/// As [`solve_lower`], for an upper triangle, from the last row on.
#[inline(always)]
fn solve_upper<T: Real>((triangle, x, width): (&[[T; BAND]], &mut [T], usize)) {
    if width == 0 {
        return;
    }
    let n = triangle.len();
    for (i, line) in triangle.iter().enumerate().rev() {
        let (above, below) = x.split_at_mut((i + 1) * width);
        let row = &mut above[i * width..];
        for (&factor, below) in line[i + 1..n].iter().zip(below.chunks(width)) {
            row.iter_mut().zip(below).for_each(|(x, &y)| *x = *x - factor * y);
        }
        row.iter_mut().for_each(|x| *x = *x / line[i]);
    }
}

/// Subtracts `left @ right` from the columns from `first` on of the rows `c`, `stride` apart.
///
/// `right` has `depth` rows, and as many columns as `c` from `first` on. With `below`, the number of the
/// first row, only what is on or below the diagonal matters.
fn subtract<T: Real>(
    c: &mut [T],
    stride: usize,
    first: usize,
    left: &[[T; BAND]],
    right: &[T],
    depth: usize,
    below: Option<usize>,
) {
    let width = stride - first;
    if width == 0 || left.is_empty() {
        return;
    }
    let blocks: Vec<[[T; BAND]; BAND]> = (0..width.div_ceil(BAND))
        .map(|block| {
            let mut packed = [[T::ZERO; BAND]; BAND];
            for (line, row) in packed[..depth].iter_mut().zip(right.chunks(width)) {
                let part = &row[block * BAND..(block * BAND + BAND).min(width)];
                line[..part.len()].copy_from_slice(part);
            }
            packed
        })
        .collect();
    let band = |i: usize, c: &mut [T]| {
        let left = &left[i * BAND..(i * BAND + BAND).min(left.len())];
        let below = below.map(|below| below + i * BAND);
        widest(Band((c, stride, first, left, &blocks, depth, below)));
    };
    let at_once = if left.len() * width * depth < GRAIN { usize::MAX } else { 1 };
    let rows = left.len() * stride;
    parallel::chunks(&mut c[..rows], BAND * stride, at_once, band);
}

type Product<'a, T> =
    (&'a mut [T], usize, usize, &'a [[T; BAND]], &'a [[[T; BAND]; BAND]], usize, Option<usize>);

#[inline(always)]
fn subtract_band<T: Real>((c, stride, first, left, blocks, depth, below): Product<'_, T>) {
    for (block, right) in blocks.iter().enumerate() {
        let start = first + block * BAND;
        for (i, (rows, left)) in c.chunks_mut(ROWS * stride).zip(left.chunks(ROWS)).enumerate() {
            if below.is_some_and(|below| start > below + i * ROWS + ROWS - 1) {
                continue;
            }
            let len = BAND.min(stride - start);
            if left.len() == ROWS {
                let mut sums = [[T::ZERO; BAND]; ROWS];
                for (sums, row) in sums.iter_mut().zip(rows.chunks(stride)) {
                    sums[..len].copy_from_slice(&row[start..start + len]);
                }
                // Each row has a loop of its own, which becomes vector code.
                let [mut a, mut b, mut c, mut d] = sums;
                for (k, line) in right[..depth].iter().enumerate() {
                    let take = |sums: &mut [T; BAND], factor: T| {
                        for j in 0..BAND {
                            sums[j] = sums[j] - factor * line[j];
                        }
                    };
                    take(&mut a, left[0][k]);
                    take(&mut b, left[1][k]);
                    take(&mut c, left[2][k]);
                    take(&mut d, left[3][k]);
                }
                for (sums, row) in [a, b, c, d].iter().zip(rows.chunks_mut(stride)) {
                    row[start..start + len].copy_from_slice(&sums[..len]);
                }
                continue;
            }
            for (row, left) in rows.chunks_mut(stride).zip(left) {
                let mut sums = [T::ZERO; BAND];
                sums[..len].copy_from_slice(&row[start..start + len]);
                for (line, &factor) in right[..depth].iter().zip(left) {
                    sums.iter_mut().zip(line).for_each(|(sum, &x)| *sum = *sum - factor * x);
                }
                row[start..start + len].copy_from_slice(&sums[..len]);
            }
        }
    }
}

/// Returns columns of rows as lines.
fn lines<T: Real>(a: &[T], n: usize, first: usize, width: usize) -> Vec<[T; BAND]> {
    let line = |row: &[T]| {
        let mut line = [T::ZERO; BAND];
        line[..width].copy_from_slice(&row[first..first + width]);
        line
    };
    a.chunks(n).map(line).collect()
}

/// Replaces `x`, n by m, by the solution of `l @ u @ out = x` for a matrix that [`lu`] decomposed; no pivot
/// is zero.
pub fn solve_lu<T: Real>(a: &[T], n: usize, x: &mut [T], m: usize) {
    if m == 0 {
        return;
    }
    if n <= SMALL {
        return solve_small(a, n, x, m);
    }
    for first in (0..n).step_by(BAND) {
        let width = BAND.min(n - first);
        let panel = lines(&a[first * n..], n, first, width);
        let (done, rest) = x.split_at_mut((first + width) * m);
        let here = &mut done[first * m..];
        widest(Lower(&panel[..width], true, here, m));
        subtract(rest, m, 0, &panel[width..], here, width, None);
    }
    for first in (0..n).step_by(BAND).rev() {
        let width = BAND.min(n - first);
        let panel = lines(&a[..(first + width) * n], n, first, width);
        let (rest, here) = x.split_at_mut(first * m);
        let here = &mut here[..width * m];
        widest(Upper(&panel[first..], here, m));
        subtract(rest, m, 0, &panel[..first], here, width, None);
    }
}

/// Is [`solve_lu`] without copies.
fn solve_small<T: Real>(a: &[T], n: usize, x: &mut [T], m: usize) {
    let rows = a.chunks_exact(n.max(1));
    for (i, line) in rows.clone().enumerate() {
        let (above, row) = x.split_at_mut(i * m);
        for (&factor, above) in line.iter().zip(above.chunks_exact(m)) {
            row[..m].iter_mut().zip(above).for_each(|(x, &y)| *x = *x - factor * y);
        }
    }
    for (i, line) in rows.enumerate().rev() {
        let (row, below) = x[i * m..].split_at_mut(m);
        for (&factor, below) in line[i + 1..].iter().zip(below.chunks_exact(m)) {
            row.iter_mut().zip(below).for_each(|(x, &y)| *x = *x - factor * y);
        }
        row.iter_mut().for_each(|x| *x = *x / line[i]);
    }
}

/// Replaces the lower triangle of `a`, n by n, by that of its Cholesky decomposition, and the rest by zeros.
///
/// Fails if the matrix is not positive definite, with the order of the first leading minor that is not.
pub fn cholesky<T: Real>(a: &mut [T], n: usize) -> Result<(), usize> {
    for first in (0..n).step_by(BAND) {
        let width = BAND.min(n - first);
        let next = first + width;
        let mut triangle = lines(&a[first * n..next * n], n, first, width);
        if let Some(k) = widest(Triangle(&mut triangle)) {
            return Err(first + k + 1);
        }
        for (row, line) in a[first * n..next * n].chunks_mut(n).zip(&triangle) {
            row[first..next].copy_from_slice(&line[..width]);
            row[next..].fill(T::ZERO);
        }
        if next == n {
            break;
        }
        // The rows below, as columns: each is a right side for the triangle.
        let below = n - next;
        let lower = &mut a[next * n..];
        let mut turned = vec![T::ZERO; width * below];
        for (i, row) in lower.chunks(n).enumerate() {
            for (k, &x) in row[first..next].iter().enumerate() {
                turned[k * below + i] = x;
            }
        }
        widest(Lower(&triangle, false, &mut turned, below));
        let mut panel = vec![[T::ZERO; BAND]; below];
        for (k, column) in turned.chunks(below).enumerate() {
            panel.iter_mut().zip(column).for_each(|(line, &x)| line[k] = x);
        }
        for (row, line) in lower.chunks_mut(n).zip(&panel) {
            row[first..next].copy_from_slice(&line[..width]);
        }
        subtract(lower, n, next, &panel, &turned, width, Some(next));
    }
    Ok(())
}

/// Decomposes a small matrix; returns the number of the first pivot that is not positive.
#[inline(always)]
fn decompose_triangle<T: Real>(a: &mut [[T; BAND]]) -> Option<usize> {
    for k in 0..a.len() {
        let pivot = a[k][k];
        if pivot.partial_cmp(&T::ZERO) != Some(std::cmp::Ordering::Greater) {
            return Some(k);
        }
        let pivot = T::sqrt(pivot);
        a[k][k] = pivot;
        a[k][k + 1..].fill(T::ZERO);
        let mut column = [T::ZERO; BAND];
        for i in k + 1..a.len() {
            a[i][k] = a[i][k] / pivot;
            column[i] = a[i][k];
        }
        for row in &mut a[k + 1..] {
            let factor = row[k];
            row.iter_mut().zip(&column).for_each(|(x, &y)| *x = *x - factor * y);
        }
    }
    None
}
