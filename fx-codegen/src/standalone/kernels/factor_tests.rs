//! Laws of factors: their product is the matrix, and orthogonal ones are that, whatever the sizes and the rank.

use super::factor::{eigh, geqrf, householder, qr, svd};
use super::linalg::{exponential, lu, solve_lu, unpack};

/// The sizes of matrices.
const SIZES: [usize; 8] = [0, 1, 2, 3, 5, 8, 17, 33];

/// A matrix, m by n.
struct Matrix {
    m: usize,
    n: usize,
    elements: Vec<f64>,
}

impl Matrix {
    fn new(m: usize, n: usize, elements: &[f64]) -> Matrix {
        assert_eq!(elements.len(), m * n);
        Matrix { m, n, elements: elements.to_vec() }
    }

    fn turned(&self) -> Matrix {
        let (m, n) = (self.m, self.n);
        let elements = (0..m * n).map(|at| self.elements[at % m * n + at / m]).collect();
        Matrix { m: n, n: m, elements }
    }

    fn times(&self, other: &Matrix) -> Matrix {
        assert_eq!(self.n, other.m);
        let at = |i: usize, j: usize| {
            (0..self.n).map(|k| self.elements[i * self.n + k] * other.elements[k * other.n + j]).sum()
        };
        let n = other.n;
        Matrix { m: self.m, n, elements: (0..self.m * n).map(|k| at(k / n, k % n)).collect() }
    }

    /// Multiplies columns by numbers.
    fn scaled(&self, by: &[f64]) -> Matrix {
        let elements = self.elements.iter().enumerate().map(|(at, x)| x * by[at % self.n]).collect();
        Matrix { m: self.m, n: self.n, elements }
    }

    fn assert_is(&self, other: &Matrix, what: &str) {
        assert_eq!((self.m, self.n), (other.m, other.n), "{what}");
        let most = other.elements.iter().fold(0.0, |most: f64, x| most.max(x.abs()));
        for (at, (x, y)) in self.elements.iter().zip(&other.elements).enumerate() {
            assert!(
                (x - y).abs() <= 1e-12 * most,
                "{what}: {x} is not {y} at {at} of {} by {}",
                self.m,
                self.n
            );
        }
    }

    fn assert_orthonormal_columns(&self, what: &str) {
        self.turned().times(self).assert_is(&identity(self.n), what);
    }
}

fn identity(n: usize) -> Matrix {
    Matrix { m: n, n, elements: (0..n * n).map(|at| f64::from(u8::from(at % (n + 1) == 0))).collect() }
}

/// Returns numbers between -1 and 1.
fn noise(n: usize, seed: u64) -> Vec<f64> {
    let mut state = seed.wrapping_mul(2).wrapping_add(1);
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    };
    (0..n).map(|_| next()).collect()
}

/// Returns matrices that are hard in several ways.
fn matrices(m: usize, n: usize) -> Vec<Vec<f64>> {
    let usual = noise(m * n, (m * 100 + n) as u64);
    let twice: Vec<f64> = (0..m * n).map(|at| usual[at / n / 2 * n + at % n]).collect();
    let graded = (0..m * n).map(|at| usual[at] * 10f64.powi(-((at % n) as i32))).collect();
    let huge = usual.iter().map(|x| x * 1e200).collect();
    let tiny = usual.iter().map(|x| x * 1e-200).collect();
    let ones = vec![1.0; m * n];
    let diagonal = (0..m * n).map(|at| if at / n == at % n { 3.0 - (at % 5) as f64 } else { 0.0 }).collect();
    vec![usual, twice, graded, huge, tiny, ones, diagonal, vec![0.0; m * n]]
}

fn each(mut check: impl FnMut(usize, usize, &[f64])) {
    for m in SIZES {
        for n in SIZES {
            matrices(m, n).iter().for_each(|a| check(m, n, a));
        }
    }
}

#[test]
fn singular_values_and_vectors() {
    each(|m, n, a| {
        let k = m.min(n);
        let mut only = vec![0.0; k];
        svd(a, 1, (m, n, k, k), &mut vec![9.0; 2 * k * m.max(n) + 2 * k * k + 3 * k], &mut only, None)
            .unwrap();
        for (columns, rows) in [(k, k), (m, n)] {
            let (mut left, mut values, mut right) =
                (vec![9.0; m * columns], vec![9.0; k], vec![9.0; rows * n]);
            let mut work = vec![9.0; (columns.max(rows) + k) * m.max(n) + 2 * k * k + 3 * k + 3];
            svd(a, 1, (m, n, columns, rows), &mut work, &mut values, Some((&mut left, &mut right))).unwrap();
            assert!(values.is_sorted_by(|x, y| x >= y) && values.iter().all(|&x| x >= 0.0), "{values:?}");
            let most = values.first().copied().unwrap_or(0.0);
            assert!(
                only.iter().zip(&values).all(|(x, y)| (x - y).abs() <= 1e-13 * most),
                "{only:?} {values:?}"
            );
            let (left, right) = (Matrix::new(m, columns, &left), Matrix::new(rows, n, &right));
            left.assert_orthonormal_columns("left vectors");
            right.turned().assert_orthonormal_columns("right vectors");
            let thin = left.turned().elements[..k * m].to_vec();
            let thin = Matrix::new(k, m, &thin).turned().scaled(&values);
            thin.times(&Matrix::new(k, n, &right.elements[..k * n]))
                .assert_is(&Matrix::new(m, n, a), "product");
        }
    });
}

#[test]
fn eigenvalues_and_vectors() {
    for n in SIZES {
        for mut a in matrices(n, n) {
            for i in 0..n {
                (0..i).for_each(|j| a[i * n + j] = a[j * n + i]);
            }
            let whole = Matrix::new(n, n, &a);
            for is_lower in [true, false] {
                // The other triangle is not read.
                let read = |at: usize| (at / n > at % n) != is_lower && at / n != at % n;
                let a: Vec<f64> = (0..n * n).map(|at| if read(at) { f64::NAN } else { a[at] }).collect();
                let mut work = vec![9.0; 2 * n * n + 3 * n + 5];
                let (mut values, mut vectors, mut only) = (vec![9.0; n], vec![9.0; n * n], vec![9.0; n]);
                eigh(&a, 1, n, is_lower, &mut work, &mut values, Some(&mut vectors)).unwrap();
                eigh(&a, 1, n, is_lower, &mut work, &mut only, None).unwrap();
                assert!(values.is_sorted(), "{values:?}");
                let most = values.iter().fold(0.0, |most: f64, x| most.max(x.abs()));
                assert!(only.iter().zip(&values).all(|(x, y)| (x - y).abs() <= 1e-13 * most), "{only:?}");
                let vectors = Matrix::new(n, n, &vectors);
                vectors.assert_orthonormal_columns("vectors");
                vectors.scaled(&values).times(&vectors.turned()).assert_is(&whole, "product");
            }
        }
    }
}

#[test]
fn reflections_and_triangles() {
    each(|m, n, a| {
        let (k, whole) = (m.min(n), Matrix::new(m, n, a));
        for columns in [k, m] {
            let (mut q, mut r) = (vec![9.0; m * columns], vec![9.0; columns * n]);
            let mut work = vec![9.0; m * n + k + m + n.max(columns) + 3];
            qr(a, 1, (m, n, columns), &mut work, &mut q, &mut r);
            let (q, r) = (Matrix::new(m, columns, &q), Matrix::new(columns, n, &r));
            q.assert_orthonormal_columns("q");
            q.times(&r).assert_is(&whole, "q r");
            assert!((0..columns * n).all(|at| at / n <= at % n || r.elements[at] == 0.0));
            if columns == k && m >= n {
                let (mut packed, mut factors, mut product) =
                    (vec![9.0; m * n], vec![9.0; k], vec![9.0; m * n]);
                geqrf(a, 1, m, n, &mut work, &mut packed, &mut factors);
                householder(&packed, &factors, 1, (m, n, k), &mut work, &mut product);
                Matrix::new(m, n, &product).assert_is(&q, "product of reflections");
            }
        }
    });
}

#[test]
fn triangles_and_their_solutions() {
    each(|m, n, a| {
        let k = m.min(n);
        for pivot in [true, false] {
            let (mut packed, mut pivots) = (vec![9.0; m * n], vec![9; k]);
            lu(a, 1, (m, n), pivot, &mut packed, &mut pivots);
            if !pivot && packed.iter().any(|x| !x.is_finite() || x.abs() > 1e6) {
                continue;
            }
            let (mut p, mut lower, mut upper) = (vec![9.0; m * m], vec![9.0; m * k], vec![9.0; k * n]);
            unpack(&packed, &pivots, 1, (m, n), &mut p, &mut lower, &mut upper).unwrap();
            let (p, lower, upper) =
                (Matrix::new(m, m, &p), Matrix::new(m, k, &lower), Matrix::new(k, n, &upper));
            if pivot {
                p.times(&lower).times(&upper).assert_is(&Matrix::new(m, n, a), "p l u");
            }
            if m != n
                || (0..n).any(|i| packed[i * n + i].abs() < 0.01 || packed[i * n + i].abs() > 1e3)
                || !pivot
            {
                continue;
            }
            let wanted = noise(n * 2, 5);
            for adjoint in [true, false] {
                let whole = Matrix::new(n, n, a);
                let b = if adjoint { whole.turned() } else { whole }.times(&Matrix::new(n, 2, &wanted));
                let mut got = vec![9.0; n * 2];
                solve_lu(&packed, &pivots, 1, (n, 2), adjoint, &b.elements, &mut got).unwrap();
                assert!(got.iter().zip(&wanted).all(|(x, y)| (x - y).abs() < 1e-8), "{got:?} {wanted:?}");
            }
        }
    });
    assert!(unpack(&[1.0], &[2], 1, (1, 1), &mut [0.0], &mut [0.0], &mut [0.0]).is_err());
    assert!(unpack(&[1.0], &[i32::MIN], 1, (1, 1), &mut [0.0], &mut [0.0], &mut [0.0]).is_err());
    assert!(solve_lu(&[0.0], &[1], 1, (1, 1), false, &[1.0], &mut [0.0]).is_err());
}

#[test]
fn exponentials_of_sums_that_commute() {
    for n in SIZES {
        for scale in [0.0, 0.01, 1.0, 7.0] {
            let a: Vec<f64> = noise(n * n, 3).iter().map(|x| x * scale).collect();
            let twice: Vec<f64> = a.iter().map(|x| 2.0 * x).collect();
            let (mut once, mut double) = (vec![9.0; n * n], vec![9.0; n * n]);
            let mut work = vec![9.0; 2 * n * n + 1];
            exponential(&a, 1, n, &mut work, &mut once);
            exponential(&twice, 1, n, &mut work, &mut double);
            let once = Matrix::new(n, n, &once);
            let (got, most) = (once.times(&once), double.iter().fold(0.0, |most: f64, x| most.max(x.abs())));
            assert!(got.elements.iter().zip(&double).all(|(x, y)| (x - y).abs() <= 1e-10 * most));
        }
    }
    let mut out = [0.0];
    exponential(&[1.0], 1, 1, &mut [0.0; 2], &mut out);
    assert!((out[0] - std::f64::consts::E).abs() < 1e-15, "{out:?}");
    exponential(&[f64::INFINITY], 1, 1, &mut [0.0; 2], &mut out);
    assert!(out[0].is_nan());
}

#[test]
fn elements_that_are_not_finite_give_nan() {
    let (mut values, mut left, mut right) = ([0.0; 2], [0.0; 4], [0.0; 4]);
    for x in [f64::NAN, f64::INFINITY] {
        let a = [1.0, x, 0.0, 2.0];
        svd(&a, 1, (2, 2, 2, 2), &mut [0.0; 22], &mut values, Some((&mut left, &mut right))).unwrap();
        assert!(values.iter().chain(&left).chain(&right).all(|x| x.is_nan()));
        eigh(&a, 1, 2, false, &mut [0.0; 14], &mut values, Some(&mut left)).unwrap();
        assert!(values.iter().chain(&left).all(|x| x.is_nan()));
    }
}
