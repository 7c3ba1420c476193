//! Eigenvalues of symmetric matrices: Householder's tridiagonalisation, then implicit QL steps (Martin and Wilkinson, 1968).

use fx_simd::{call, wide};

use super::reflect::{Reflections, add, dot, product};
use super::rotate::{Rotation, rotate_columns};

/// Steps for one eigenvalue after which what is left counts as converged; two or three are needed.
const STEPS: usize = 75;

/// The elements of which rows have a multiple.
const LANES: usize = 16;

/// Stores the eigenvalues of the symmetric `a`, n by n, in ascending order, and in the columns of `vectors`, if it is given,
/// eigenvectors of length 1. Elements beside the diagonal count as zero up to `precision` times
/// those on it. Where an element is not finite, all is NaN.
pub(crate) fn eigenvalues(
    a: &[f64],
    n: usize,
    precision: f64,
    values: &mut [f64],
    vectors: Option<&mut [f64]>,
    shared: bool,
) {
    if a.iter().any(|x| !x.is_finite()) {
        values.fill(f64::NAN);
        vectors.into_iter().for_each(|vectors| vectors.fill(f64::NAN));
        return;
    }
    if n == 0 {
        return;
    }
    // With the greatest element 1 no square overflows, and what underflows does not matter.
    let most = match a.iter().fold(0.0f64, |most, x| most.max(x.abs())) {
        0.0 => 1.0,
        most => most,
    };
    let stride = n.next_multiple_of(LANES);
    let mut rows = vec![0.0; n * stride];
    for (row, a) in rows.chunks_exact_mut(stride).zip(a.chunks_exact(n)) {
        row.iter_mut().zip(a).for_each(|(x, a)| *x = a / most);
    }
    let (mut d, mut e) = (vec![0.0; n], vec![0.0; n]);
    let (mut reflectors, mut scales) = (vec![0.0; n * stride], vec![0.0; n]);
    call::<tridiagonalise, _>((&mut rows, stride, &mut d, &mut e, &mut reflectors, &mut scales));
    let mut rotations = Vec::new();
    match vectors {
        None => diagonalise(&mut d, &mut e, precision, |_| {}),
        Some(_) => diagonalise(&mut d, &mut e, precision, |rotation| rotations.push(rotation)),
    }
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|&i, &j| d[i].total_cmp(&d[j]));
    order.iter().zip(values).for_each(|(&i, value)| *value = d[i] * most);
    let Some(out) = vectors else { return };
    let mut places = vec![(0, 1.0); n];
    order.into_iter().enumerate().for_each(|(to, from)| places[from].0 = to);
    let all = Reflections { vectors: &reflectors, stride, rows: n, scales: &scales[..n - 1], shared };
    product(all, 1, out, n);
    rotate_columns(out, n, &rotations, &places);
}

type Tridiagonal<'a> = (&'a mut [f64], usize, &'a mut [f64], &'a mut [f64], &'a mut [f64], &'a mut [f64]);

wide! {
    /// Stores the diagonal, beside it the elements from the first on, and the reflections that made the rest zero: vector `k` begins at
    /// element `k + 1`. Rows are `stride` elements apart, of which the last ones are zero.
    fn tridiagonalise[]((rows, stride, d, e, reflectors, scales): Tridiagonal<'_>) {
        let n = d.len();
        // The rest loses `v w^T + w v^T` for `w = p - (scale p.v / 2) v` and `p = scale rest v`. Each row does so when the next vector
        // is known, and is added to the next `p` at once.
        let (mut w, mut sums) = (vec![0.0; stride], vec![0.0; stride]);
        for k in 0..n {
            let (done, now) = reflectors.split_at_mut(k * stride);
            let v = &mut now[..stride];
            // Whole vectors from the last multiple on: what is before in `v` is zero.
            let start = k / LANES * LANES;
            let before = match k {
                0 => [0.0; 0].as_slice(),
                _ => &done[(k - 1) * stride..][start..],
            };
            let (row, below) = rows[k * stride..].split_at_mut(stride);
            let row = &mut row[start..];
            take(row, before, &w[start..], k - start);
            d[k] = row[k - start];
            if k + 1 == n {
                break;
            }
            v[k + 1..].copy_from_slice(&row[k + 1 - start..]);
            let first = std::mem::take(&mut v[k + 1]);
            let rest = dot(&v[start..], &v[start..]);
            let square = first * first + rest;
            let length = -square.sqrt().copysign(first);
            let scale = if rest == 0.0 { 0.0 } else { 1.0 / (square - first * length) };
            (e[k], v[k + 1]) = if rest == 0.0 { (first, 0.0) } else { (length, first - length) };
            scales[k] = scale;
            if rest == 0.0 {
                v[k + 1..].fill(0.0);
            }
            let v = &v[start..];
            sums[start..].fill(0.0);
            let sums = &mut sums[start..];
            for (i, four) in below.chunks_mut(4 * stride).enumerate() {
                let at = k + 1 - start + 4 * i;
                let w = &w[start..];
                let mut lines = four.chunks_exact_mut(stride).map(|row| &mut row[start..]);
                match (lines.next(), lines.next(), lines.next(), lines.next()) {
                    (Some(a), Some(b), Some(c), Some(d)) => {
                        take_four([a, b, c, d], before, w, at, v, sums);
                    }
                    (a, b, c, _) => {
                        for (i, row) in [a, b, c].into_iter().flatten().enumerate() {
                            take(row, before, w, at + i);
                            add(sums, v[at + i], row);
                        }
                    }
                }
            }
            let half = 0.5 * scale * scale * dot(sums, v);
            for ((w, &sum), &v) in w[start..].iter_mut().zip(sums.iter()).zip(v) {
                *w = scale * sum - half * v;
            }
        }
    }
}

/// Subtracts row `i` of `v w^T + w v^T`.
#[inline(always)]
fn take(row: &mut [f64], v: &[f64], w: &[f64], i: usize) {
    if v.is_empty() {
        return;
    }
    let (at_v, at_w) = (v[i], w[i]);
    for ((x, &v), &w) in row.iter_mut().zip(v).zip(w) {
        *x -= at_v * w + at_w * v;
    }
}

/// Does so for four rows from `i` on, and adds their products with `next` to `sums`.
#[inline(always)]
fn take_four(rows: [&mut [f64]; 4], v: &[f64], w: &[f64], i: usize, next: &[f64], sums: &mut [f64]) {
    let factors = |r: usize| (v.get(i + r).copied().unwrap_or(0.0), w[i + r], next[i + r]);
    let (fa, fb, fc, fd) = (factors(0), factors(1), factors(2), factors(3));
    let [a, b, c, d] = rows.map(|row| row.as_chunks_mut::<LANES>().0);
    let (vs, ws, sums) =
        (v.as_chunks::<LANES>().0, w.as_chunks::<LANES>().0, sums.as_chunks_mut::<LANES>().0);
    for (block, sum) in sums.iter_mut().enumerate() {
        let (v, w) = (vs.get(block).unwrap_or(&[0.0; LANES]), &ws[block]);
        take_part(&mut a[block], fa, v, w, sum);
        take_part(&mut b[block], fb, v, w, sum);
        take_part(&mut c[block], fc, v, w, sum);
        take_part(&mut d[block], fd, v, w, sum);
    }
}

/// Is one row's part of [`take_four`].
#[inline(always)]
fn take_part(
    x: &mut [f64; LANES],
    (at_v, at_w, factor): (f64, f64, f64),
    v: &[f64; LANES],
    w: &[f64; LANES],
    sum: &mut [f64; LANES],
) {
    for l in 0..LANES {
        let left = x[l] - (at_v * w[l] + at_w * v[l]);
        x[l] = left;
        sum[l] += factor * left;
    }
}

/// Makes a tridiagonal matrix diagonal by QL steps with shifts.
fn diagonalise(d: &mut [f64], e: &mut [f64], precision: f64, mut rotate: impl FnMut(Rotation)) {
    const TINY: f64 = f64::MIN_POSITIVE / f64::EPSILON;
    let n = d.len();
    for first in 0..n {
        for _ in 0..STEPS {
            // The unreduced part begins at `first`; find where it ends.
            let is_small = |k: usize| e[k].abs() <= precision * (d[k].abs() + d[k + 1].abs()) + TINY;
            let last = (first..n - 1).find(|&k| is_small(k)).unwrap_or(n - 1);
            if last == first {
                break;
            }
            step(d, e, first, last, &mut rotate);
        }
    }
}

/// One QL step on an unreduced part, shifted by an eigenvalue of the first two rows.
fn step(d: &mut [f64], e: &mut [f64], first: usize, last: usize, rotate: &mut impl FnMut(Rotation)) {
    let g = (d[first + 1] - d[first]) / (2.0 * e[first]);
    let mut g = d[last] - d[first] + e[first] / (g + g.hypot(1.0).copysign(g));
    let (mut sin, mut cos, mut p) = (1.0, 1.0, 0.0);
    for i in (first..last).rev() {
        let (f, b) = (sin * e[i], cos * e[i]);
        let square = f * f + g * g;
        if square < f64::MIN_POSITIVE {
            e[i + 1] = 0.0;
            d[i + 1] -= p;
            e[last] = 0.0;
            return;
        }
        // Squares and products of sine and cosine need no root, for which the next step would wait.
        let (length, inverse) = (square.sqrt(), 1.0 / square);
        let (rest, at) = (d[i + 1] - p, d[i]);
        let sum = (at - rest) * f + 2.0 * (g * b);
        e[i + 1] = length;
        (sin, cos) = (f * (length * inverse), g * (length * inverse));
        p = f * sum * inverse;
        d[i + 1] = rest + p;
        g = g * sum * inverse - b;
        rotate(Rotation::new(i + 1, i, cos, sin));
    }
    d[first] -= p;
    e[first] = g;
    e[last] = 0.0;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_rebuild_the_matrix_and_are_orthonormal() {
        for n in [1, 2, 3, 17, 40, 70] {
            let at = |i: usize, j: usize| ((i.min(j) * 31 + i.max(j) * 7919) as f64 * 0.37).sin();
            // Equal eigenvalues and zeros come from a matrix that is a part of another.
            for size in [n, n / 2] {
                let a: Vec<f64> = (0..n * n)
                    .map(|k| if k / n < size && k % n < size { at(k / n, k % n) } else { 0.0 })
                    .collect();
                let (mut values, mut vectors) = (vec![0.0; n], vec![0.0; n * n]);
                eigenvalues(&a, n, f64::EPSILON, &mut values, Some(&mut vectors), false);
                assert!(values.is_sorted());
                for i in 0..n {
                    for j in 0..n {
                        let sum: f64 =
                            (0..n).map(|k| vectors[i * n + k] * values[k] * vectors[j * n + k]).sum();
                        assert!((sum - a[i * n + j]).abs() < 1e-12, "{n}, {size}: {sum} at {i}, {j}");
                        let sum: f64 = (0..n).map(|k| vectors[i * n + k] * vectors[j * n + k]).sum();
                        assert!((sum - f64::from(u8::from(i == j))).abs() < 1e-13);
                    }
                }
            }
        }
    }

    #[test]
    fn known_values_are_found() {
        let mut values = [0.0; 3];
        eigenvalues(
            &[2e200, 0.0, 0.0, 0.0, 3e200, 4e200, 0.0, 4e200, 9e200],
            3,
            f64::EPSILON,
            &mut values,
            None,
            false,
        );
        let near = |x: f64, y: f64| (x / 1e200 - y).abs() < 1e-14;
        assert!(near(values[0], 1.0) && near(values[1], 2.0) && near(values[2], 11.0), "{values:?}");
        eigenvalues(&[f64::NAN], 1, f64::EPSILON, &mut values[..1], None, false);
        assert!(values[0].is_nan());
    }
}
