//! Singular values: Householder's bidiagonalisation, then implicit QR steps (Golub and Reinsch, 1970).

use fx_simd::{call, wide};

use super::reflect::{Reflections, add, dot, product};
use super::rotate::{Rotation, rotate_columns};

/// Steps for one singular value after which what is left counts as converged; two or three are needed.
const STEPS: usize = 75;

/// Squares above this are not so small that those of their products would underflow.
const SMALL: f64 = 1e-140;

/// Stores the singular values of `a`, m by n with m not below n, in descending order; `a` is used up. Where an element is not
/// finite, all are NaN.
pub(crate) fn singular_values(a: &mut [f64], n: usize, out: &mut [f64]) {
    decompose(a, n, out, None, false);
}

/// Where singular vectors are stored: the left ones in the columns of a matrix, m by `columns`, the right ones in those of another, n
/// by n.
pub(crate) struct Vectors<'a> {
    pub(crate) left: &'a mut [f64],
    pub(crate) columns: usize,
    pub(crate) right: &'a mut [f64],
}

/// As [`singular_values`], with singular vectors. Beyond those of singular values, the left ones are completed to an orthonormal basis.
pub(crate) fn decompose(
    a: &mut [f64],
    n: usize,
    values: &mut [f64],
    vectors: Option<Vectors<'_>>,
    shared: bool,
) {
    if a.iter().any(|x| !x.is_finite()) {
        values.fill(f64::NAN);
        if let Some(Vectors { left, right, .. }) = vectors {
            left.fill(f64::NAN);
            right.fill(f64::NAN);
        }
        return;
    }
    // With the greatest element 1 no square overflows, and what underflows does not matter.
    let most = match a.iter().fold(0.0f64, |most, x| most.max(x.abs())) {
        0.0 => 1.0,
        most => most,
    };
    a.iter_mut().for_each(|x| *x /= most);
    let m = a.len().checked_div(n).unwrap_or(0);
    let (mut d, mut e) = (vec![0.0; n], vec![0.0; n]);
    let mut left = Side { vectors: vec![0.0; n * m], scales: vec![0.0; n] };
    let mut right = Side { vectors: vec![0.0; n * n], scales: vec![0.0; n] };
    call::<bidiagonalise, _>((a, &mut d, &mut e, &mut left, &mut right));
    let (mut of_left, mut of_right) = (Vec::new(), Vec::new());
    match vectors {
        None => diagonalise(&mut d, &mut e, |_, _| {}),
        Some(_) => diagonalise(&mut d, &mut e, |is_left, rotation| {
            if is_left { &mut of_left } else { &mut of_right }.push(rotation);
        }),
    }
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|&i, &j| d[j].abs().total_cmp(&d[i].abs()));
    order.iter().zip(values).for_each(|(&i, value)| *value = d[i].abs() * most);
    let Some(Vectors { left: u, columns, right: v }) = vectors else { return };
    let mut places = vec![(0, 1.0); n];
    order.into_iter().enumerate().for_each(|(to, from)| places[from].0 = to);
    let vectors = (&left.vectors[..], &right.vectors[..]);
    let count = n.saturating_sub(1);
    let left = Reflections { vectors: vectors.0, stride: m, rows: m, scales: &left.scales, shared };
    let right =
        Reflections { vectors: vectors.1, stride: n, rows: n, scales: &right.scales[..count], shared };
    product(left, 0, u, columns);
    rotate_columns(u, columns, &of_left, &places);
    product(right, 1, v, n);
    places.iter_mut().zip(&d).for_each(|(place, d)| place.1 = 1f64.copysign(*d));
    rotate_columns(v, n, &of_right, &places);
}

/// The reflections of one side, each in a line of the matrix's size.
struct Side {
    vectors: Vec<f64>,
    scales: Vec<f64>,
}

/// Brings `x` to a multiple of the first unit vector: stores in it the vector `v` of the reflection `1 - scale v v^T`, and returns
/// `scale` and the multiple.
#[inline(always)]
fn reflect(x: &mut [f64]) -> (f64, f64) {
    let square = dot(x, x);
    let first = x[0];
    let length = -square.sqrt().copysign(first);
    if length == 0.0 {
        return (0.0, 0.0);
    }
    x[0] = first - length;
    (1.0 / (square - first * length), length)
}

wide! {
    /// Stores the diagonal and, from its second element on, what is beside it, and the reflections that made the rest zero: vector `k`
    /// of the left side begins at element `k`, that of the right one at `k + 1`.
    fn bidiagonalise[](
        (a, diagonal, beside, left, right): (&mut [f64], &mut [f64], &mut [f64], &mut Side, &mut Side)
    ) {
        let n = diagonal.len();
        let m = left.vectors.len() / n.max(1);
        let mut sums = vec![0.0; n];
        for k in 0..n {
            let column = &mut left.vectors[k * m + k..(k + 1) * m];
            column.iter_mut().zip(a[k * n..].chunks_exact(n)).for_each(|(x, row)| *x = row[k]);
            let (scale, length) = reflect(column);
            left.scales[k] = scale;
            diagonal[k] = length;
            if k + 1 == n {
                break;
            }
            let sums = &mut sums[k + 1..];
            sums.fill(0.0);
            for (row, &factor) in a[k * n..].chunks_exact(n).zip(column.iter()) {
                add(sums, factor, &row[k + 1..]);
            }
            let (top, below) = a[k * n..].split_at_mut(n);
            let line = &mut right.vectors[k * n + k + 1..(k + 1) * n];
            line.copy_from_slice(&top[k + 1..]);
            add(line, -scale * column[0], sums);
            let (line_scale, length) = reflect(line);
            right.scales[k] = line_scale;
            beside[k + 1] = length;
            for (row, &factor) in below.chunks_exact_mut(n).zip(&column[1..]) {
                let row = &mut row[k + 1..];
                add(row, -scale * factor, sums);
                let along = dot(row, line);
                add(row, -line_scale * along, line);
            }
        }
    }
}

/// Makes a bidiagonal matrix diagonal by QR steps with shifts. `rotate` is told how vectors are rotated, the left ones or the others.
fn diagonalise(d: &mut [f64], e: &mut [f64], mut rotate: impl FnMut(bool, Rotation)) {
    let norm = d.iter().zip(e.iter()).fold(0.0f64, |most, (d, e)| most.max(d.abs() + e.abs()));
    let tiny = f64::EPSILON * 0.5 * norm;
    let length = |a: f64, b: f64| (a * a + b * b).sqrt();
    for k in (0..d.len()).rev() {
        for _ in 0..STEPS {
            // The unreduced part ends at `k`; find where it begins.
            let mut first = k;
            while first > 0 && e[first].abs() > tiny && d[first - 1].abs() > tiny {
                first -= 1;
            }
            if first > 0 && e[first].abs() > tiny {
                // A zero on the diagonal: its row is rotated away.
                let (mut c, mut s) = (0.0, 1.0);
                for i in first..=k {
                    let f = s * e[i];
                    e[i] *= c;
                    if f.abs() <= tiny {
                        break;
                    }
                    let h = length(f, d[i]);
                    (c, s) = (d[i] / h, -f / h);
                    d[i] = h;
                    rotate(true, Rotation::new(first - 1, i, c, s));
                }
            }
            e[first] = 0.0;
            if first == k {
                break;
            }
            let moved = |is_left, at: usize, cos, sin| {
                rotate(is_left, Rotation::new(first + at, first + at + 1, cos, sin))
            };
            step(&mut d[first..=k], &mut e[first..=k], moved);
        }
    }
}

/// One QR step on an unreduced part, shifted by an eigenvalue of the last two rows.
fn step(d: &mut [f64], e: &mut [f64], mut rotate: impl FnMut(bool, usize, f64, f64)) {
    let last = d.len() - 1;
    let (x, y, z) = (d[0], d[last - 1], d[last]);
    let (g, h) = (e[last - 1], e[last]);
    let f = ((y - z) * (y + z) + (g - h) * (g + h)) / (2.0 * h * y);
    let root = f.hypot(1.0).copysign(f);
    let mut f = ((x - z) * (x + z) + h * (y / (f + root) - h)) / x;
    let (mut c, mut s, mut x) = (1.0, 1.0, x);
    for j in 0..last {
        let (g, y) = (c * e[j + 1], d[j + 1]);
        let h = s * e[j + 1];
        let square = f * f + h * h;
        let z = square.sqrt();
        e[j] = z;
        // What the second rotation is made from, times `z`, so that it need not wait for the first one.
        let (along, across) = (x * f + g * h, y * h);
        let scaled = along * along + across * across;
        if square.min(scaled) > SMALL {
            let inverse = 1.0 / z;
            (c, s) = (f * inverse, h * inverse);
            rotate(false, j, c, s);
            let (g, y) = (g * c - x * s, y * c);
            let length = scaled.sqrt();
            d[j] = length * inverse;
            let inverse = 1.0 / length;
            (c, s) = (along * inverse, across * inverse);
            f = c * g + s * y;
            x = c * y - s * g;
        } else {
            if z != 0.0 {
                (c, s) = (f / z, h / z);
            }
            rotate(false, j, c, s);
            f = x * c + g * s;
            let g = g * c - x * s;
            let (h, y) = (y * s, y * c);
            let z = (f * f + h * h).sqrt();
            d[j] = z;
            if z != 0.0 {
                (c, s) = (f / z, h / z);
            }
            f = c * g + s * y;
            x = c * y - s * g;
        }
        rotate(true, j, c, s);
    }
    e[0] = 0.0;
    e[last] = f;
    d[last] = x;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(rows: &[&[f64]]) -> Vec<f64> {
        let mut out = vec![0.0; rows[0].len()];
        singular_values(&mut rows.concat(), rows[0].len(), &mut out);
        out
    }

    #[test]
    fn known_values_are_found() {
        let near = |got: &[f64], want: &[f64]| got.iter().zip(want).all(|(a, b)| (a - b).abs() < 1e-13);
        assert!(near(&values(&[&[3.0, 0.0], &[4.0, 5.0]]), &[45f64.sqrt(), 5f64.sqrt()]));
        assert!(near(&values(&[&[0.0, 1.0], &[0.0, 0.0], &[0.0, 0.0]]), &[1.0, 0.0]));
        assert!(near(&values(&[&[1.0, 1.0, 1.0], &[1.0, 1.0, 1.0], &[1.0, 1.0, 1.0]]), &[3.0, 0.0, 0.0]));
        assert!(near(&values(&[&[2.0, 0.0, 0.0], &[0.0, 0.0, 0.0], &[0.0, 0.0, -7.0]]), &[7.0, 2.0, 0.0]));
        assert!(values(&[&[f64::NAN]])[0].is_nan());
    }

    #[test]
    fn vectors_rebuild_the_matrix_and_are_orthonormal() {
        for (m, n) in [(1, 1), (5, 3), (17, 17), (40, 31), (70, 35), (4, 0)] {
            for rank in [n, n / 2] {
                let a: Vec<f64> = (0..m * n)
                    .map(|k| if k % n < rank { ((k * k * 7919 % 1009) as f64 * 0.37).sin() } else { 0.0 })
                    .collect();
                let (mut s, mut u, mut v) = (vec![0.0; n], vec![0.0; m * m], vec![0.0; n * n]);
                let vectors = Vectors { left: &mut u, columns: m, right: &mut v };
                decompose(&mut a.clone(), n, &mut s, Some(vectors), false);
                assert!(s.is_sorted_by(|a, b| a >= b));
                for i in 0..m {
                    for j in 0..n {
                        let sum: f64 = (0..n).map(|k| u[i * m + k] * s[k] * v[j * n + k]).sum();
                        assert!((sum - a[i * n + j]).abs() < 1e-12, "{m} by {n}: {sum} at {i}, {j}");
                    }
                }
                for (basis, n) in [(&u, m), (&v, n)] {
                    for i in 0..n * n {
                        let sum: f64 = (0..n).map(|k| basis[i / n * n + k] * basis[i % n * n + k]).sum();
                        assert!((sum - f64::from(u8::from(i / n == i % n))).abs() < 1e-13);
                    }
                }
            }
        }
    }

    #[test]
    fn squares_add_up_to_those_of_the_elements() {
        for (m, n) in [(1, 1), (5, 3), (17, 17), (40, 31)] {
            let a: Vec<f64> = (0..m * n).map(|i| ((i * i * 7919 % 1009) as f64 * 0.37).sin()).collect();
            let mut out = vec![0.0; n];
            singular_values(&mut a.clone(), n, &mut out);
            let (got, want): (f64, f64) = (out.iter().map(|x| x * x).sum(), a.iter().map(|x| x * x).sum());
            assert!((got - want).abs() <= 1e-12 * want, "{m} by {n}");
        }
    }
}
