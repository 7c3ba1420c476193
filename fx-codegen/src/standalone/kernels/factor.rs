//! Orthogonal factors of row-major matrices, one after the other: QR by reflections, eigenvalues of symmetric
//! matrices by implicit QL steps, and singular values by one-sided Jacobi rotations (Hestenes, 1958), which begin
//! with the eigenvectors of all products of two rows.

use super::math::Real;
use super::row::dot;

/// The most steps for an eigenvalue, and the most sweeps over all pairs of columns. A handful is usual.
const MOST_STEPS: usize = 80;

/// Returns the distance from 1 to the next number.
fn precision<T: Real>() -> T {
    let half = T::from_f64(0.5);
    let mut x = T::ONE;
    while T::ONE + x * half != T::ONE {
        x = x * half;
    }
    x
}

/// Returns the greatest magnitude; NaN if an element is none that is finite.
fn greatest<T: Real>(x: &[T]) -> T {
    x.iter()
        .fold(T::ZERO, |most, &x| if T::abs(x) <= most || most != most { most } else { T::abs(x) + (x - x) })
}

/// Returns the root of the sum of squares, also where these leave the range of numbers.
fn length<T: Real>(x: impl Iterator<Item = T> + Clone) -> T {
    let most = x.clone().fold(T::ZERO, |most, x| if T::abs(x) <= most { most } else { T::abs(x) });
    if most == T::ZERO || most != most || most == T::INFINITY {
        return most;
    }
    most * T::sqrt(x.fold(T::ZERO, |sum, x| sum + (x / most) * (x / most)))
}

/// Divides by a number that it returns, so that squares stay in range. `None` if an element is not finite.
fn scale<T: Real>(x: &mut [T]) -> Option<T> {
    let most = greatest(x);
    if most != most {
        return None;
    }
    let size = most.to_f64();
    if size == 0.0 || (1e-9..1e9).contains(&size) {
        return Some(T::ONE);
    }
    x.iter_mut().for_each(|x| *x = *x / most);
    Some(most)
}

/// Replaces columns of the matrix `c`, from column `first` on, by their reflection; `below` is its vector without
/// the first element, which is 1. `along` holds a row.
fn reflect<T: Real>(factor: T, below: &[T], c: &mut [T], columns: usize, first: usize, along: &mut [T]) {
    let (top, rest) = c.split_at_mut(columns);
    let (top, along) = (&mut top[first..], &mut along[first..columns]);
    along.copy_from_slice(top);
    for (&x, row) in below.iter().zip(rest.chunks_exact(columns)) {
        along.iter_mut().zip(&row[first..]).for_each(|(sum, &y)| *sum = *sum + x * y);
    }
    along.iter_mut().for_each(|sum| *sum = factor * *sum);
    top.iter_mut().zip(&*along).for_each(|(x, &along)| *x = *x - along);
    for (&x, row) in below.iter().zip(rest.chunks_exact_mut(columns)) {
        row[first..].iter_mut().zip(&*along).for_each(|(y, &along)| *y = *y - x * along);
    }
}

/// Turns a matrix, m by n, into an upper triangle and the vectors of reflections below it, without their first
/// element. `work` holds a column and a row.
fn triangle<T: Real>(a: &mut [T], m: usize, n: usize, factors: &mut [T], work: &mut [T]) {
    let (column, along) = work.split_at_mut(m);
    for (j, factor) in factors.iter_mut().enumerate() {
        let size = length((j + 1..m).map(|i| a[i * n + j]));
        *factor = T::ZERO;
        if size == T::ZERO {
            continue;
        }
        let alpha = a[j * n + j];
        let beta = -T::copysign(length([alpha, size].into_iter()), alpha);
        *factor = (beta - alpha) / beta;
        let column = &mut column[j + 1..];
        for (x, row) in column.iter_mut().zip(a.chunks_exact(n).skip(j + 1)) {
            *x = row[j] / (alpha - beta);
        }
        reflect(*factor, column, &mut a[j * n..], n, j + 1, along);
        a[j * n + j] = beta;
        for (&x, row) in column.iter().zip(a.chunks_exact_mut(n).skip(j + 1)) {
            row[j] = x;
        }
    }
}

/// Writes the first columns of the product of reflections, whose vectors are below the diagonal of `a`, m by n.
/// `work` holds a column and a row of the result.
fn product<T: Real>(
    a: &[T],
    m: usize,
    n: usize,
    factors: &[T],
    columns: usize,
    out: &mut [T],
    work: &mut [T],
) {
    let (column, along) = work.split_at_mut(m);
    out.fill(T::ZERO);
    (0..m.min(columns)).for_each(|i| out[i * columns + i] = T::ONE);
    for (j, &factor) in factors.iter().enumerate().rev().filter(|(j, _)| *j < columns) {
        let column = &mut column[j + 1..];
        for (x, row) in column.iter_mut().zip(a.chunks_exact(n).skip(j + 1)) {
            *x = row[j];
        }
        reflect(factor, column, &mut out[j * columns..], columns, j, along);
    }
}

/// Decomposes `count` matrices, m by n, into upper triangles and reflections. `work` holds a column and a row.
pub fn geqrf<T: Real>(
    a: &[T],
    count: usize,
    m: usize,
    n: usize,
    work: &mut [T],
    out: &mut [T],
    factors: &mut [T],
) {
    out.copy_from_slice(a);
    let k = m.min(n);
    for i in (0..count).filter(|_| k > 0) {
        triangle(&mut out[i * m * n..][..m * n], m, n, &mut factors[i * k..][..k], work);
    }
}

/// Writes for `count` matrices, m by n, the first `n` columns of the product of `k` reflections. `work` holds a column
/// and a row.
pub fn householder<T: Real>(
    a: &[T],
    factors: &[T],
    count: usize,
    (m, n, k): (usize, usize, usize),
    work: &mut [T],
    out: &mut [T],
) {
    for i in (0..count).filter(|_| m * n > 0) {
        product(
            &a[i * m * n..][..m * n],
            m,
            n,
            &factors[i * k..][..k],
            n,
            &mut out[i * m * n..][..m * n],
            work,
        );
    }
}

/// Decomposes `count` matrices, m by n, into orthonormal columns `q`, unless that is empty, and upper triangles `r`
/// of `columns` rows. `work` holds a matrix, the factors of reflections, a column, and a row of both results.
pub fn qr<T: Real>(
    a: &[T],
    count: usize,
    (m, n, columns): (usize, usize, usize),
    work: &mut [T],
    q: &mut [T],
    r: &mut [T],
) {
    let k = m.min(n);
    let (matrix, work) = work.split_at_mut(m * n);
    let (factors, work) = work.split_at_mut(k);
    r.fill(T::ZERO);
    for i in 0..count {
        matrix.copy_from_slice(&a[i * m * n..][..m * n]);
        triangle(matrix, m, n, factors, work);
        if !q.is_empty() {
            product(matrix, m, n, factors, columns, &mut q[i * m * columns..][..m * columns], work);
        }
        let r = &mut r[i * columns * n..][..columns * n];
        for j in 0..columns.min(k) {
            r[j * n + j..(j + 1) * n].copy_from_slice(&matrix[j * n + j..(j + 1) * n]);
        }
    }
}

/// Turns a symmetric matrix into a tridiagonal one with this diagonal and what is beside it. Row `k` has the vector of
/// a reflection on its right, whose factor is in `factors`.
fn tridiagonal<T: Real>(a: &mut [T], n: usize, diagonal: &mut [T], beside: &mut [T], factors: &mut [T]) {
    for k in 0..n {
        diagonal[k] = a[k * n + k];
        if k + 1 == n {
            break;
        }
        let (done, rest) = a.split_at_mut((k + 1) * n);
        let v = &mut done[k * n + k + 1..];
        let size = length(v[1..].iter().copied());
        (beside[k], factors[k]) = (v[0], T::ZERO);
        if size == T::ZERO {
            continue;
        }
        let alpha = v[0];
        let beta = -T::copysign(length([alpha, size].into_iter()), alpha);
        (beside[k], factors[k]) = (beta, (beta - alpha) / beta);
        v[1..].iter_mut().for_each(|x| *x = *x / (alpha - beta));
        v[0] = T::ONE;
        // From both sides: `A - v w^T - w v^T`.
        let (factor, w) = (factors[k], &mut factors[k + 1..n]);
        for (w, row) in w.iter_mut().zip(rest.chunks_exact(n)) {
            *w = factor * dot(&row[k + 1..], v);
        }
        let half = factor * dot(w, v) * T::from_f64(0.5);
        w.iter_mut().zip(&*v).for_each(|(w, &v)| *w = *w - half * v);
        for ((row, &x), &y) in rest.chunks_exact_mut(n).zip(&*v).zip(&*w) {
            for ((a, &v), &w) in row[k + 1..].iter_mut().zip(&*v).zip(&*w) {
                *a = *a - (x * w + y * v);
            }
        }
    }
}

/// Writes the basis in which [`tridiagonal`] wrote the matrix, in rows.
fn reflected_rows<T: Real>(a: &[T], n: usize, factors: &[T], rows: &mut [T]) {
    rows.fill(T::ZERO);
    rows.iter_mut().step_by(n + 1).for_each(|x| *x = T::ONE);
    for k in (0..n - 1).rev() {
        let v = &a[k * n + k + 1..(k + 1) * n];
        for row in rows.chunks_exact_mut(n).skip(k + 1) {
            let along = factors[k] * dot(&row[k + 1..], v);
            row[k + 1..].iter_mut().zip(v).for_each(|(x, &v)| *x = *x - along * v);
        }
    }
}

/// Replaces two of the rows, of `n` elements each, by their rotation.
fn rotate<T: Real>(rows: &mut [T], n: usize, (i, j): (usize, usize), (cosine, sine): (T, T)) {
    let (upper, lower) = rows.split_at_mut(j * n);
    for (x, y) in upper[i * n..][..n].iter_mut().zip(&mut lower[..n]) {
        (*x, *y) = (cosine * *x - sine * *y, sine * *x + cosine * *y);
    }
}

/// Diagonalises a tridiagonal matrix by implicit QL steps, and rotates rows as its basis. Fails after too many steps.
fn diagonalise<T: Real>(
    diagonal: &mut [T],
    beside: &mut [T],
    mut rows: Option<&mut [T]>,
) -> Result<(), &'static str> {
    let (n, small) = (diagonal.len(), precision::<T>());
    let two = T::ONE + T::ONE;
    for first in 0..n {
        for step in 0.. {
            let is_split =
                |i: &usize| T::abs(beside[*i]) <= small * (T::abs(diagonal[*i]) + T::abs(diagonal[*i + 1]));
            let last = (first..n - 1).find(is_split).unwrap_or(n - 1);
            if last == first {
                break;
            }
            if step == MOST_STEPS {
                return Err("the eigenvalues of a matrix do not converge");
            }
            // The eigenvalue of the first two rows that is nearer to the first one is the shift.
            let ratio = (diagonal[first + 1] - diagonal[first]) / (two * beside[first]);
            let root = length([ratio, T::ONE].into_iter());
            let shift = beside[first] / (ratio + T::copysign(root, ratio));
            let (mut sine, mut cosine, mut change) = (T::ONE, T::ONE, T::ZERO);
            let mut chased = diagonal[last] - diagonal[first] + shift;
            let mut is_whole = true;
            for i in (first..last).rev() {
                let (far, near) = (sine * beside[i], cosine * beside[i]);
                let root = length([far, chased].into_iter());
                beside[i + 1] = root;
                if root == T::ZERO {
                    diagonal[i + 1] = diagonal[i + 1] - change;
                    beside[last] = T::ZERO;
                    is_whole = false;
                    break;
                }
                (sine, cosine) = (far / root, chased / root);
                let moved = diagonal[i + 1] - change;
                let sum = (diagonal[i] - moved) * sine + two * cosine * near;
                change = sine * sum;
                diagonal[i + 1] = moved + change;
                chased = cosine * sum - near;
                if let Some(rows) = &mut rows {
                    rotate(rows, n, (i, i + 1), (cosine, sine));
                }
            }
            if is_whole {
                diagonal[first] = diagonal[first] - change;
                (beside[first], beside[last]) = (chased, T::ZERO);
            }
        }
    }
    Ok(())
}

/// Puts values in order, and the rows of matrices with them.
fn order<T: Real>(values: &mut [T], rows: &mut [&mut [T]], is_before: impl Fn(T, T) -> bool) {
    for i in 0..values.len() {
        let best = (i + 1..values.len())
            .fold(i, |best, j| if is_before(values[j], values[best]) { j } else { best });
        if best == i {
            continue;
        }
        values.swap(i, best);
        for rows in rows.iter_mut() {
            let n = rows.len() / values.len();
            let (upper, lower) = rows.split_at_mut(best * n);
            upper[i * n..][..n].swap_with_slice(&mut lower[..n]);
        }
    }
}

/// Writes the eigenvalues of `count` symmetric matrices of side `n` in ascending order, and eigenvectors in columns.
/// Of each matrix, the lower triangle is read, or else the upper one. `work` holds two matrices and three rows. Fails
/// if the values do not converge.
pub fn eigh<T: Real>(
    a: &[T],
    count: usize,
    n: usize,
    is_lower: bool,
    work: &mut [T],
    values: &mut [T],
    mut vectors: Option<&mut [T]>,
) -> Result<(), &'static str> {
    let (matrix, work) = work.split_at_mut(n * n);
    let (rows, work) = work.split_at_mut(n * n);
    let (beside, factors) = work.split_at_mut(n);
    for at in (0..count).filter(|_| n > 0) {
        let a = &a[at * n * n..][..n * n];
        for (i, row) in matrix.chunks_exact_mut(n).enumerate() {
            for (j, x) in row.iter_mut().enumerate() {
                *x = if (i >= j) == is_lower { a[i * n + j] } else { a[j * n + i] };
            }
        }
        let values = &mut values[at * n..][..n];
        let mut vectors = vectors.as_mut().map(|vectors| &mut vectors[at * n * n..][..n * n]);
        let Some(most) = scale(matrix) else {
            values.fill(T::NAN);
            vectors.into_iter().for_each(|vectors| vectors.fill(T::NAN));
            continue;
        };
        tridiagonal(matrix, n, values, beside, factors);
        match &mut vectors {
            None => diagonalise(values, beside, None)?,
            Some(vectors) => {
                reflected_rows(matrix, n, factors, rows);
                diagonalise(values, beside, Some(rows))?;
                order(values, &mut [rows], |x, y| x < y);
                for (i, row) in vectors.chunks_exact_mut(n).enumerate() {
                    row.iter_mut().enumerate().for_each(|(j, x)| *x = rows[j * n + i]);
                }
            }
        }
        if vectors.is_none() {
            order(values, &mut [], |x, y| x < y);
        }
        values.iter_mut().for_each(|x| *x = *x * most);
    }
    Ok(())
}

/// Returns whether a square has lost its digits for numbers of this precision, so that the number counts as zero.
fn is_gone<T: Real>(square: T, small: T) -> bool {
    square * small * small == T::ZERO
}

/// Rotates rows, of `m` elements each, until each two are at right angles, and as much the rows `turned`. `squares`
/// has room for a number of each row. Fails after too many sweeps.
fn at_right_angles<T: Real>(
    rows: &mut [T],
    m: usize,
    squares: &mut [T],
    mut turned: Option<&mut [T]>,
) -> Result<(), &'static str> {
    let (n, small) = (squares.len(), precision::<T>());
    let near = small * T::sqrt(T::from_f64(if m < 16 { 16.0 } else { m as f64 }));
    let little = T::from_f64(0.01);
    for _ in 0..MOST_STEPS {
        let mut is_done = true;
        squares.iter_mut().zip(rows.chunks_exact(m)).for_each(|(square, row)| *square = dot(row, row));
        for i in 0..n {
            for j in i + 1..n {
                let (xx, yy) = (squares[i], squares[j]);
                let xy = if is_gone(xx, small) || is_gone(yy, small) {
                    T::ZERO
                } else {
                    dot(&rows[i * m..][..m], &rows[j * m..][..m])
                };
                let is_right = T::abs(xy) <= near * (T::sqrt(xx) * T::sqrt(yy));
                // The longer one comes first, so that values are nearly in order.
                let is_swapped = xx < yy;
                if is_right && !is_swapped {
                    continue;
                }
                is_done &= is_right;
                let tangent = if xy == T::ZERO {
                    T::ZERO
                } else {
                    let ratio = (yy - xx) / (xy + xy);
                    T::copysign(T::ONE, ratio) / (T::abs(ratio) + length([ratio, T::ONE].into_iter()))
                };
                let cosine = T::ONE / length([tangent, T::ONE].into_iter());
                let sine = tangent * cosine;
                // A rotation by another right angle swaps them.
                let rotation = if is_swapped { (-sine, cosine) } else { (cosine, sine) };
                rotate(rows, m, (i, j), rotation);
                let (first, second) = (xx - tangent * xy, yy + tangent * xy);
                let (first, second) = if is_swapped { (second, first) } else { (first, second) };
                // Where little of a square is left, its digits are gone.
                for (at, square) in [(i, first), (j, second)] {
                    let row = &rows[at * m..][..m];
                    squares[at] = if square < little * (xx + yy) { dot(row, row) } else { square };
                }
                if let Some(turned) = &mut turned {
                    rotate(turned, n, (i, j), rotation);
                }
            }
        }
        if is_done {
            return Ok(());
        }
    }
    Err("the singular values of a matrix do not converge")
}

/// Turns rows, of `m` elements each, so that each two are nearly at right angles: by the eigenvectors of their products,
/// which become the rows of `turned`, or not at all. `work` holds the rows, a matrix of that many, and three times
/// as many numbers.
fn turn_nearly<T: Real>(rows: &mut [T], m: usize, turned: &mut [T], work: &mut [T]) {
    let n = rows.len() / m;
    let (new, work) = work.split_at_mut(n * m);
    let (products, work) = work.split_at_mut(n * n);
    let (values, work) = work.split_at_mut(n);
    let (beside, factors) = work.split_at_mut(n);
    for (i, x) in rows.chunks_exact(m).enumerate() {
        for (j, y) in rows.chunks_exact(m).enumerate().take(i + 1) {
            (products[i * n + j], products[j * n + i]) = (dot(x, y), dot(x, y));
        }
    }
    tridiagonal(products, n, values, beside, factors);
    reflected_rows(products, n, factors, turned);
    if diagonalise(values, beside, Some(turned)).is_err() {
        turned.fill(T::ZERO);
        turned.iter_mut().step_by(n + 1).for_each(|x| *x = T::ONE);
        return;
    }
    order(values, &mut [turned], |x, y| x > y);
    new.fill(T::ZERO);
    for (new, factors) in new.chunks_exact_mut(m).zip(turned.chunks_exact(n)) {
        for (&factor, row) in factors.iter().zip(rows.chunks_exact(m)) {
            new.iter_mut().zip(row).for_each(|(sum, &x)| *sum = *sum + factor * x);
        }
    }
    rows.copy_from_slice(new);
}

/// Makes rows of length 1 from row `done` on that are at right angles to all others.
fn complete<T: Real>(rows: &mut [T], m: usize, done: usize) {
    for at in done..rows.len() / m {
        let (known, rest) = rows.split_at_mut(at * m);
        let row = &mut rest[..m];
        // The unit vector that is farthest from the rows so far.
        let part = |j: usize| known.chunks_exact(m).fold(T::ZERO, |sum, row| sum + row[j] * row[j]);
        let mut best = (0, part(0));
        for j in 1..m {
            let part = part(j);
            if part < best.1 {
                best = (j, part);
            }
        }
        row.fill(T::ZERO);
        row[best.0] = T::ONE;
        for _ in 0..2 {
            for other in known.chunks_exact(m) {
                let along = dot(row, other);
                row.iter_mut().zip(other).for_each(|(x, &y)| *x = *x - along * y);
            }
        }
        let size = length(row.iter().copied());
        row.iter_mut().for_each(|x| *x = *x / size);
    }
}

/// Writes the singular values of `count` matrices, m by n, in descending order, and if they are wanted the left singular
/// vectors in `columns` columns, and the right ones in rows, `rows` of them. `work` holds as many vectors of the
/// greater size as there are columns or rows and as the smaller size is, two matrices of the smaller size, and three
/// times as many numbers. Fails if the values do not converge.
pub fn svd<T: Real>(
    a: &[T],
    count: usize,
    (m, n, columns, rows): (usize, usize, usize, usize),
    work: &mut [T],
    values: &mut [T],
    mut vectors: Option<(&mut [T], &mut [T])>,
) -> Result<(), &'static str> {
    let (is_tall, long, k) = (m >= n, m.max(n), m.min(n));
    let n_long = if is_tall { columns } else { rows };
    let (basis, work) = work.split_at_mut(n_long * long);
    let (turned, work) = work.split_at_mut(k * k);
    for at in 0..count {
        let values = &mut values[at * k..][..k];
        let vectors = vectors.as_mut().map(|(left, right)| {
            (&mut left[at * m * columns..][..m * columns], &mut right[at * rows * n..][..rows * n])
        });
        basis.fill(T::ZERO);
        for (i, &x) in a[at * m * n..][..m * n].iter().enumerate() {
            let (i, j) = (i / n, i % n);
            basis[if is_tall { j * long + i } else { i * long + j }] = x;
        }
        let Some(most) = scale(&mut basis[..k * long]) else {
            values.fill(T::NAN);
            if let Some((left, right)) = vectors {
                left.fill(T::NAN);
                right.fill(T::NAN);
            }
            continue;
        };
        if k > 0 {
            turn_nearly(&mut basis[..k * long], long, turned, work);
            at_right_angles(&mut basis[..k * long], long, values, vectors.is_some().then_some(&mut *turned))?;
        }
        for (value, row) in values.iter_mut().zip(basis.chunks_exact(long.max(1))) {
            *value = length(row.iter().copied());
        }
        order(values, &mut [&mut basis[..k * long], turned], |x, y| x > y);
        if let Some((left, right)) = vectors {
            let small = precision();
            let done = values.iter().position(|&value| is_gone(value * value, small)).unwrap_or(k);
            for (row, &value) in basis.chunks_exact_mut(long.max(1)).zip(&values[..done]) {
                row.iter_mut().for_each(|x| *x = *x / value);
            }
            if long > 0 {
                complete(basis, long, done);
            }
            let (long_side, short_side): (&[T], &[T]) = (basis, turned);
            let (left_rows, right_rows) =
                if is_tall { (long_side, short_side) } else { (short_side, long_side) };
            for (i, row) in left.chunks_exact_mut(columns.max(1)).enumerate() {
                row.iter_mut().enumerate().for_each(|(j, x)| *x = left_rows[j * m + i]);
            }
            right.copy_from_slice(&right_rows[..rows * n]);
        }
        values.iter_mut().for_each(|x| *x = *x * most);
    }
    Ok(())
}
