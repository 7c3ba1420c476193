//! Singular values: Householder's bidiagonalisation, then implicit QR steps (Golub and Reinsch, 1970).

use fx_simd::{Work, widest};

/// Steps for one singular value after which what is left counts as converged; two or three are needed.
const STEPS: usize = 75;

/// Stores the singular values of `a`, m by n with m not below n, in descending order; `a` is used up. Where an element is not
/// finite, all are NaN.
pub(crate) fn singular_values(a: &mut [f64], n: usize, out: &mut [f64]) {
    if a.iter().any(|x| !x.is_finite()) {
        return out.fill(f64::NAN);
    }
    let most = a.iter().fold(0.0f64, |most, x| most.max(x.abs()));
    if most == 0.0 {
        return out.fill(0.0);
    }
    // With the greatest element 1 no square overflows, and what underflows does not matter.
    a.iter_mut().for_each(|x| *x /= most);
    let mut beside = vec![0.0; n];
    widest(Bidiagonalise(a, n, out, &mut beside));
    diagonalise(out, &mut beside);
    out.iter_mut().for_each(|x| *x = x.abs() * most);
    out.sort_by(|a, b| b.total_cmp(a));
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

#[inline(always)]
fn dot(a: &[f64], b: &[f64]) -> f64 {
    const LANES: usize = 16;
    let mut lanes = [0.0; LANES];
    let ((a_blocks, a_rest), (b_blocks, b_rest)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    for (a, b) in a_blocks.iter().zip(b_blocks) {
        for i in 0..LANES {
            lanes[i] += a[i] * b[i];
        }
    }
    for (lane, (a, b)) in lanes.iter_mut().zip(a_rest.iter().zip(b_rest)) {
        *lane += a * b;
    }
    let mut width = LANES / 2;
    while width > 0 {
        for i in 0..width {
            lanes[i] += lanes[i + width];
        }
        width /= 2;
    }
    lanes[0]
}

#[inline(always)]
fn add(x: &mut [f64], factor: f64, y: &[f64]) {
    x.iter_mut().zip(y).for_each(|(x, &y)| *x += factor * y);
}

/// Only the `run` of a `Work` is inlined whatever its length.
struct Bidiagonalise<'a>(&'a mut [f64], usize, &'a mut [f64], &'a mut [f64]);

impl Work for Bidiagonalise<'_> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        bidiagonalise((self.0, self.1, self.2, self.3));
    }
}

/// Stores the diagonal and, from its second element on, what is beside it.
#[inline(always)]
fn bidiagonalise((a, n, diagonal, beside): (&mut [f64], usize, &mut [f64], &mut [f64])) {
    let m = a.len() / n;
    let (mut column, mut sums) = (vec![0.0; m], vec![0.0; n]);
    for k in 0..n {
        let column = &mut column[k..];
        column.iter_mut().zip(a[k * n..].chunks(n)).for_each(|(x, row)| *x = row[k]);
        let (scale, length) = reflect(column);
        diagonal[k] = length;
        if k + 1 == n {
            break;
        }
        let sums = &mut sums[k + 1..];
        sums.fill(0.0);
        for (row, &factor) in a[k * n..].chunks(n).zip(column.iter()) {
            add(sums, factor, &row[k + 1..]);
        }
        let (top, below) = a[k * n..].split_at_mut(n);
        let line = &mut top[k + 1..];
        add(line, -scale * column[0], sums);
        let (line_scale, length) = reflect(line);
        beside[k + 1] = length;
        for (row, &factor) in below.chunks_mut(n).zip(&column[1..]) {
            let row = &mut row[k + 1..];
            add(row, -scale * factor, sums);
            let along = dot(row, line);
            add(row, -line_scale * along, line);
        }
    }
}

/// Makes a bidiagonal matrix diagonal by QR steps with shifts.
fn diagonalise(d: &mut [f64], e: &mut [f64]) {
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
                }
            }
            e[first] = 0.0;
            if first == k {
                break;
            }
            step(&mut d[first..=k], &mut e[first..=k]);
        }
    }
}

/// One QR step on an unreduced part, shifted by an eigenvalue of the last two rows.
fn step(d: &mut [f64], e: &mut [f64]) {
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
        let z = (f * f + h * h).sqrt();
        e[j] = z;
        if z != 0.0 {
            let inverse = 1.0 / z;
            (c, s) = (f * inverse, h * inverse);
        }
        f = x * c + g * s;
        let g = g * c - x * s;
        let (h, y) = (y * s, y * c);
        let z = (f * f + h * h).sqrt();
        d[j] = z;
        if z != 0.0 {
            let inverse = 1.0 / z;
            (c, s) = (f * inverse, h * inverse);
        }
        f = c * g + s * y;
        x = c * y - s * g;
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
