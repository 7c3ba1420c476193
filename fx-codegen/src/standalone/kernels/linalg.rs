//! Decompositions of square row-major matrices, one after the other, and solutions by them.

use super::math::Real;

/// Decomposes a matrix of side `n` in place into a unit lower and an upper triangle of its permuted rows; `swap`
/// is called with each two rows that are exchanged.
fn decompose<T: Real>(a: &mut [T], n: usize, mut swap: impl FnMut(usize, usize)) {
    for k in 0..n {
        let mut from = k;
        for i in k + 1..n {
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
        decompose(work, n, |k, row| (0..m).for_each(|j| out.swap(k * m + j, row * m + j)));
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
        decompose(work, n, |_, _| sign = -sign);
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
