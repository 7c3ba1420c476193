//! Triangular factors of row-major matrices, one after the other, solutions by them, and exponentials.

use super::math::Real;

/// Decomposes a matrix, m by n, in place into a unit lower and an upper triangle of its permuted rows; `swap` is
/// called with each two rows that are exchanged.
fn decompose<T: Real>(a: &mut [T], m: usize, n: usize, pivot: bool, mut swap: impl FnMut(usize, usize)) {
    for k in 0..m.min(n) {
        let mut from = k;
        for i in (k + 1..m).filter(|_| pivot) {
            if T::abs(a[i * n + k]) > T::abs(a[from * n + k]) {
                from = i;
            }
        }
        if from != k {
            (0..n).for_each(|j| a.swap(k * n + j, from * n + j));
            swap(k, from);
        }
        let (upper, lower) = a.split_at_mut((k + 1) * n);
        let line = &upper[k * n..];
        if line[k] == T::ZERO {
            continue;
        }
        for row in lower.chunks_exact_mut(n) {
            let factor = row[k] / line[k];
            row[k] = factor;
            for (x, &pivot) in row[k + 1..].iter_mut().zip(&line[k + 1..]) {
                *x = *x - factor * pivot;
            }
        }
    }
}

/// Solves `a @ out = b` for matrices `b` of `n` rows and `m` columns; without `b` for the identity. `work` holds a
/// matrix of side `n`.
pub fn solve<T: Real>(
    a: &[T],
    n: usize,
    b: Option<&[T]>,
    m: usize,
    work: &mut [T],
    out: &mut [T],
) -> Result<(), &'static str> {
    if n * m == 0 {
        return Ok(());
    }
    let work = &mut work[..n * n];
    for (i, (a, out)) in a.chunks_exact(n * n).zip(out.chunks_exact_mut(n * m)).enumerate() {
        work.copy_from_slice(a);
        match b {
            Some(b) => out.copy_from_slice(&b[i * n * m..][..n * m]),
            None => {
                out.fill(T::ZERO);
                (0..n).for_each(|i| out[i * m + i] = T::ONE);
            }
        }
        decompose(work, n, n, true, |k, row| (0..m).for_each(|j| out.swap(k * m + j, row * m + j)));
        if (0..n).any(|k| work[k * n + k] == T::ZERO) {
            return Err("a matrix is singular");
        }
        for i in 0..n {
            for k in 0..i {
                subtract(out, m, i, k, work[i * n + k]);
            }
        }
        for i in (0..n).rev() {
            for k in i + 1..n {
                subtract(out, m, i, k, work[i * n + k]);
            }
            for x in &mut out[i * m..][..m] {
                *x = *x / work[i * n + i];
            }
        }
    }
    Ok(())
}

/// Takes a multiple of a row from another row of `m` elements.
fn subtract<T: Real>(x: &mut [T], m: usize, row: usize, from: usize, factor: T) {
    let (before, after) = x.split_at_mut(row.max(from) * m);
    let (row, from) = match row > from {
        true => (&mut after[..m], &before[from * m..][..m]),
        false => (&mut before[row * m..][..m], &after[..m]),
    };
    for (x, &y) in row.iter_mut().zip(from) {
        *x = *x - factor * y;
    }
}

/// Writes the sign of each determinant, and what `join` makes of that and of the pivots; `work` holds a matrix.
fn by_pivots<T: Real>(a: &[T], n: usize, work: &mut [T], mut done: impl FnMut(usize, f64, &[T])) {
    let work = &mut work[..n * n];
    for (i, a) in a.chunks_exact(n * n).enumerate() {
        work.copy_from_slice(a);
        let mut sign = 1.0;
        decompose(work, n, n, true, |_, _| sign = -sign);
        done(i, sign, work);
    }
}

/// Computes the determinants; `work` holds a matrix of side `n`.
pub fn det<T: Real>(a: &[T], n: usize, work: &mut [T], out: &mut [T]) {
    if n == 0 {
        return out.fill(T::ONE);
    }
    by_pivots(a, n, work, |i, sign, lu| {
        let product = (0..n).fold(sign, |product, k| product * lu[k * n + k].to_f64());
        out[i] = T::from_f64(product);
    });
}

/// Computes the signs of the determinants, and the logarithms of their magnitudes; `work` holds a matrix.
pub fn slogdet<T: Real>(a: &[T], n: usize, work: &mut [T], signs: &mut [T], logs: &mut [T]) {
    signs.fill(T::ONE);
    logs.fill(T::ZERO);
    if n == 0 {
        return;
    }
    by_pivots(a, n, work, |i, sign, lu| {
        let (mut sign, mut log) = (sign, 0.0);
        for k in 0..n {
            let pivot = lu[k * n + k].to_f64();
            sign *= if pivot == 0.0 || pivot != pivot { pivot } else { pivot.signum() };
            log += super::math::log(pivot.abs());
        }
        (signs[i], logs[i]) = (T::from_f64(sign), T::from_f64(log));
    });
}

/// Computes lower triangles whose products with their transposes are the matrices, of which the lower triangles
/// are read.
pub fn cholesky<T: Real>(a: &[T], n: usize, out: &mut [T]) -> Result<(), &'static str> {
    if n == 0 {
        return Ok(());
    }
    for (a, out) in a.chunks_exact(n * n).zip(out.chunks_exact_mut(n * n)) {
        out.fill(T::ZERO);
        for i in 0..n {
            for j in 0..=i {
                let mut sum = a[i * n + j];
                for k in 0..j {
                    sum = sum - out[i * n + k] * out[j * n + k];
                }
                if i != j {
                    out[i * n + j] = sum / out[j * n + j];
                } else if sum > T::ZERO {
                    out[i * n + i] = T::sqrt(sum);
                } else {
                    return Err("a matrix is not positive definite");
                }
            }
        }
    }
    Ok(())
}

/// Decomposes `count` matrices, m by n, into a unit lower and an upper triangle in one matrix. `pivots` has from 1
/// on with which row each row was exchanged; without `pivot` none is.
pub fn lu<T: Real>(
    a: &[T],
    count: usize,
    (m, n): (usize, usize),
    pivot: bool,
    out: &mut [T],
    pivots: &mut [i32],
) {
    out.copy_from_slice(a);
    let k = m.min(n);
    for i in (0..count).filter(|_| k > 0) {
        let pivots = &mut pivots[i * k..][..k];
        pivots.iter_mut().enumerate().for_each(|(row, pivot)| *pivot = row as i32 + 1);
        decompose(&mut out[i * m * n..][..m * n], m, n, pivot, |k, row| pivots[k] = row as i32 + 1);
    }
}

/// Writes the permutations and the triangles of what [`lu`] gives.
pub fn unpack<T: Real>(
    lu: &[T],
    pivots: &[i32],
    count: usize,
    (m, n): (usize, usize),
    permutations: &mut [T],
    lower: &mut [T],
    upper: &mut [T],
) -> Result<(), &'static str> {
    let k = m.min(n);
    permutations.fill(T::ZERO);
    lower.fill(T::ZERO);
    upper.fill(T::ZERO);
    for at in 0..count {
        let lu = &lu[at * m * n..][..m * n];
        // Rows of the transpose are exchanged, whose columns are the rows of the permutation.
        let permutation = &mut permutations[at * m * m..][..m * m];
        (0..m).for_each(|i| permutation[i * m + i] = T::ONE);
        for (row, &pivot) in pivots[at * k..][..k].iter().enumerate() {
            let other = row_of(pivot, m)?;
            (0..m).for_each(|i| permutation.swap(i * m + row, i * m + other));
        }
        let (lower, upper) = (&mut lower[at * m * k..][..m * k], &mut upper[at * k * n..][..k * n]);
        for i in 0..m {
            let below = i.min(k);
            lower[i * k..][..below].copy_from_slice(&lu[i * n..][..below]);
            if i < k {
                lower[i * k + i] = T::ONE;
                upper[i * n + i..(i + 1) * n].copy_from_slice(&lu[i * n + i..(i + 1) * n]);
            }
        }
    }
    Ok(())
}

/// Returns the row of a pivot.
fn row_of(pivot: i32, n: usize) -> Result<usize, &'static str> {
    match usize::try_from(pivot as i64 - 1) {
        Ok(row) if row < n => Ok(row),
        _ => Err("a pivot is no row"),
    }
}

/// Solves `a @ out = b`, or with `adjoint` `a.T @ out = b`, for `count` matrices of side `n` as [`lu`] gives them, and
/// right sides of `m` columns.
pub fn solve_lu<T: Real>(
    lu: &[T],
    pivots: &[i32],
    count: usize,
    (n, m): (usize, usize),
    adjoint: bool,
    b: &[T],
    out: &mut [T],
) -> Result<(), &'static str> {
    out.copy_from_slice(b);
    for at in (0..count).filter(|_| n * m > 0) {
        let (lu, out) = (&lu[at * n * n..][..n * n], &mut out[at * n * m..][..n * m]);
        let pivots = &pivots[at * n..][..n];
        if (0..n).any(|k| lu[k * n + k] == T::ZERO) {
            return Err("a matrix is singular");
        }
        let divide = |out: &mut [T], i: usize| {
            for x in &mut out[i * m..][..m] {
                *x = *x / lu[i * n + i];
            }
        };
        let exchange = |out: &mut [T], k: usize| -> Result<(), &'static str> {
            let row = row_of(pivots[k], n)?;
            (0..m).for_each(|j| out.swap(k * m + j, row * m + j));
            Ok(())
        };
        if adjoint {
            for i in 0..n {
                (0..i).for_each(|k| subtract(out, m, i, k, lu[k * n + i]));
                divide(out, i);
            }
            for i in (0..n).rev() {
                (i + 1..n).for_each(|k| subtract(out, m, i, k, lu[k * n + i]));
            }
            (0..n).rev().try_for_each(|k| exchange(out, k))?;
        } else {
            (0..n).try_for_each(|k| exchange(out, k))?;
            for i in 0..n {
                (0..i).for_each(|k| subtract(out, m, i, k, lu[i * n + k]));
            }
            for i in (0..n).rev() {
                (i + 1..n).for_each(|k| subtract(out, m, i, k, lu[i * n + k]));
                divide(out, i);
            }
        }
    }
    Ok(())
}

/// Computes the exponentials of `count` matrices of side `n`: the series of a part of the matrix, squared as often as
/// it was halved. `work` holds two matrices.
pub fn exponential<T: Real>(a: &[T], count: usize, n: usize, work: &mut [T], out: &mut [T]) {
    // The terms that count where the greatest sum of a row is at most this.
    const NEAR: f64 = 0.5;
    const TERMS: usize = 16;
    let (part, work) = work.split_at_mut(n * n);
    let other = &mut work[..n * n];
    let times = |a: &[T], b: &[T], out: &mut [T]| {
        out.fill(T::ZERO);
        for (row, out) in a.chunks_exact(n).zip(out.chunks_exact_mut(n)) {
            for (&x, b) in row.iter().zip(b.chunks_exact(n)) {
                out.iter_mut().zip(b).for_each(|(sum, &y)| *sum = *sum + x * y);
            }
        }
    };
    for at in (0..count).filter(|_| n > 0) {
        let (a, out) = (&a[at * n * n..][..n * n], &mut out[at * n * n..][..n * n]);
        let sum = |row: &[T]| row.iter().fold(0.0, |sum, &x| sum + T::abs(x).to_f64());
        let norm = a.chunks_exact(n).map(sum).fold(0.0, |most, x| if x <= most { most } else { x });
        if norm != norm || norm == f64::INFINITY {
            out.fill(T::NAN);
            continue;
        }
        let (mut halvings, mut scale) = (0, 1.0);
        while norm * scale > NEAR {
            (halvings, scale) = (halvings + 1, scale * 0.5);
        }
        let factor = T::from_f64(scale);
        part.iter_mut().zip(a).for_each(|(x, &a)| *x = a * factor);
        out.fill(T::ZERO);
        out.iter_mut().step_by(n + 1).for_each(|x| *x = T::ONE);
        for k in (1..=TERMS).rev() {
            times(part, out, other);
            let inverse = T::from_f64(1.0 / k as f64);
            out.iter_mut().zip(&*other).for_each(|(x, &y)| *x = y * inverse);
            out.iter_mut().step_by(n + 1).for_each(|x| *x = *x + T::ONE);
        }
        for _ in 0..halvings {
            other.copy_from_slice(out);
            times(other, other, out);
        }
    }
}
