//! Factors of matrices by elimination and reflection: LU, QR and the exponential.
//!
//! Matrices are the last two axes, the others a batch that threads share. Signs and pivots are LAPACK's.
//! Triangular and orthogonal factors are computed in the dtype of the operand, solutions and the exponential
//! in f64.

use fx_core::op::Flops::{Rule, Unknown};
use fx_core::pointwise::broadcast_shapes;
use fx_core::{Array, DType, Dim, Element, Op, Result, Shape, Tensor, TensorType, bail, err, kernels};
use fx_simd::{call_256, parallel, wide};

use crate::kernel::chunks::fill_rows;
use crate::kernel::gemm::{GemmElement, gemm_by};
use crate::kernel::{householder, lu};
use crate::ops::check::{dense, in_float, same_dtype, same_size, sizes, slice, type_of, zeroed};
use crate::ops::flops;
use crate::ops::linalg_solve::{GRAIN, check_square, decomposable, each_matrix, matrices};

/// The tables of this file.
pub(super) static TABLES: &[&[Op]] = &[FACTORS];

kernels! {
    /// Factors of matrices by elimination and reflection.
    pub trait Factors; pub static FACTORS;

    /// `(LU, pivots)`: the triangles of `x = P @ L @ U` in one matrix, without the ones of `L`, and as i32
    /// from 1 on with which row each row was exchanged. Without `pivot` no row is.
    #[flops = Rule(flops::elimination)]
    linalg_lu_factor(x: Tensor; pivot: Bool = true) -> (Tensor, Tensor) = lu_type, lu_factor;
    /// `(P, L, U)` with `x = P @ L @ U` for matrices `[.., m, n]`: a permutation, a lower triangle
    /// `[.., m, min(m, n)]` with ones on its diagonal, and an upper triangle. Without `pivot` the permutation
    /// is the identity.
    #[flops = Rule(flops::elimination)]
    linalg_lu(x: Tensor; pivot: Bool = true) -> (Tensor, Tensor, Tensor) = parts_type, lu_parts;
    /// `(P, L, U)` of the result of `linalg_lu_factor`.
    lu_unpack(x: Tensor, pivots: Tensor; unpack_data: Bool = true, unpack_pivots: Bool = true) -> (Tensor, Tensor, Tensor) =
        unpack_type, unpack;
    /// The `y` with `a @ y = other`, or without `left` with `y @ a = other`, for `a` as `linalg_lu_factor`
    /// gives it, or with `adjoint` for its transpose. Batches broadcast. A singular matrix is an error.
    #[flops = Unknown]
    linalg_lu_solve(x: Tensor, pivots: Tensor, other: Tensor; left: Bool = true, adjoint: Bool = false) =
        lu_solve_type, lu_solve;
    /// `(Q, R)` with `x = Q @ R`, columns of `Q` orthonormal, `R` an upper triangle: for `[.., m, n]` in mode
    /// "reduced" `[.., m, min(m, n)]` and `[.., min(m, n), n]`, "complete" `[.., m, m]` and `[.., m, n]`, "r"
    /// an empty `Q` and the reduced `R`.
    #[flops = Unknown]
    linalg_qr(x: Tensor, mode: Str = "reduced") -> (Tensor, Tensor) = qr_type, qr;
    /// `(a, tau)`: `R` of `linalg_qr` and below it the reflectors that make `Q`, with their factors.
    #[flops = Unknown]
    geqrf(x: Tensor) -> (Tensor, Tensor) = reflectors_type, reflectors;
    /// The first columns of the product of the reflectors that `geqrf` gives.
    #[flops = Unknown]
    linalg_householder_product(x: Tensor, tau: Tensor) = product_type, product;
    /// The exponential of square matrices: the sum of `x^k / k!`.
    #[flops = Unknown]
    linalg_matrix_exp(x: Tensor) = check_square, exponential;
}

/// Returns the sizes of matrices: those of the batch, rows and columns.
fn matrix_sizes(x: &TensorType) -> Result<(&[Dim], &Dim, &Dim)> {
    decomposable(x.dtype)?;
    match &x.shape[..] {
        [batch @ .., m, n] => Ok((batch, m, n)),
        _ => bail!(Shape, "expected matrices, got {x}"),
    }
}

/// Makes a type of a batch.
fn batched<'a>(dtype: DType, batch: &'a [Dim], rest: impl IntoIterator<Item = &'a Dim>) -> TensorType {
    TensorType::new(dtype, batch.iter().chain(rest).collect::<Shape>())
}

/// Cuts what `each_matrix` made, with several results one after the other for each matrix, into these results.
pub(crate) fn cut<T: Copy, const N: usize>(packed: &[T], parts: [usize; N]) -> [Vec<T>; N] {
    let total: usize = parts.iter().sum();
    let mut start = 0;
    parts.map(|part| {
        let from = start;
        start += part;
        let mut out = Vec::with_capacity(packed.len() / total.max(1) * part);
        packed
            .chunks_exact(total.max(1))
            .for_each(|matrix| out.extend_from_slice(&matrix[from..from + part]));
        out
    })
}

fn array<T: Element>(data: Vec<T>, ty: &TensorType) -> Result<Array> {
    Ok(Array::from_vec(data, &sizes(&ty.shape)?)?.cast(ty.dtype))
}

fn lu_type(x: &TensorType, _pivot: bool) -> Result<(TensorType, TensorType)> {
    let (batch, m, n) = matrix_sizes(x)?;
    Ok((x.clone(), batched(DType::I32, batch, [&m.min(n)])))
}

fn lu_factor(x: &Array, pivot: bool) -> Result<(Array, Array)> {
    let (ty, pivots_ty) = lu_type(&type_of(x), pivot)?;
    let (data, batch, m, n) = matrices(x)?;
    let k = m.min(n);
    in_float!(x.dtype(), T => {
        let mut pivots = zeroed::<i32>(fx_core::array::checked_numel(&[batch, k])?)?;
        let mut factors = data.to_vec::<T>()?;
        if k > 0 {
            let at_once = GRAIN.div_ceil(m * n * k);
            parallel::chunk_pairs((&mut factors, m * n), (&mut pivots, k), at_once, |_, a, pivots| {
                lu::decompose(a, m, n, pivot, |k, row| pivots[k] = row as i32 + 1);
            });
        }
        Ok((array(factors, &ty)?, array(pivots, &pivots_ty)?))
    })
}

fn parts_type(x: &TensorType, _pivot: bool) -> Result<(TensorType, TensorType, TensorType)> {
    let (batch, m, n) = matrix_sizes(x)?;
    let k = m.min(n);
    Ok((batched(x.dtype, batch, [m, m]), batched(x.dtype, batch, [m, &k]), batched(x.dtype, batch, [&k, n])))
}

fn lu_parts(x: &Array, pivot: bool) -> Result<(Array, Array, Array)> {
    parts_type(&type_of(x), pivot)?;
    let (factors, pivots) = lu_factor(x, pivot)?;
    unpack(&factors, &pivots, true, true)
}

fn unpack_type(
    x: &TensorType,
    pivots: &TensorType,
    _with_data: bool,
    _with_pivots: bool,
) -> Result<(TensorType, TensorType, TensorType)> {
    check_pivots(x, pivots)?;
    parts_type(x, true)
}

fn check_pivots(x: &TensorType, pivots: &TensorType) -> Result<()> {
    let (batch, m, n) = matrix_sizes(x)?;
    if !pivots.dtype.is_int() {
        bail!(DType, "expected pivots of integers, got {pivots}");
    }
    let expected = batched(pivots.dtype, batch, [&m.min(n)]);
    crate::ops::check::same_shape("pivots", &expected.shape, &pivots.shape)
}

/// Returns which row of the matrix is at each place.
fn row_order(pivots: &[i64], m: usize) -> Result<Vec<usize>> {
    let mut rows: Vec<usize> = (0..m).collect();
    for (k, &pivot) in pivots.iter().enumerate() {
        match usize::try_from(pivot.wrapping_sub(1)) {
            Ok(row) if row < m => rows.swap(k, row),
            _ => bail!(Index, "expected pivots from 1 to {m}, got {pivot}"),
        }
    }
    Ok(rows)
}

fn unpack(x: &Array, pivots: &Array, _with_data: bool, _with_pivots: bool) -> Result<(Array, Array, Array)> {
    let (p_ty, l_ty, u_ty) = unpack_type(&type_of(x), &type_of(pivots), true, true)?;
    let (data, batch, m, n) = matrices(x)?;
    let k = m.min(n);
    let pivots = dense(pivots, DType::I64)?;
    for size in [m, n] {
        fx_core::array::checked_numel(&[batch, m, size])?;
    }
    // At which place each row of the matrix is.
    let mut places = zeroed::<i64>(batch * m)?;
    for (i, places) in places.chunks_mut(m.max(1)).enumerate() {
        let order = row_order(&slice::<i64>(&pivots)[i * k..][..k], m)?;
        order.into_iter().enumerate().for_each(|(place, row)| places[row] = place as i64);
    }
    in_float!(x.dtype(), T => {
        let data = slice::<T>(&data);
        let permutations = fill_rows::<T>(batch * m, m, m, |row, out| {
            out.fill(0.0);
            out[places[row] as usize] = 1.0;
        })?;
        let lower = fill_rows::<T>(batch * m, k, k, |row, out| {
            let below = (row % m).min(k);
            out[..below].copy_from_slice(&data[row * n..][..below]);
            out[below..].fill(0.0);
            if let Some(diagonal) = out.get_mut(below) {
                *diagonal = 1.0;
            }
        })?;
        let upper = fill_rows::<T>(batch * k, n, n, |row, out| {
            let (matrix, i) = (row / k, row % k);
            out[..i].fill(0.0);
            out[i..].copy_from_slice(&data[(matrix * m + i) * n..][i..n]);
        })?;
        Ok((array(permutations, &p_ty)?, array(lower, &l_ty)?, array(upper, &u_ty)?))
    })
}

fn lu_solve_type(
    x: &TensorType,
    pivots: &TensorType,
    other: &TensorType,
    left: bool,
    _adjoint: bool,
) -> Result<TensorType> {
    check_square(x)?;
    check_pivots(x, pivots)?;
    same_dtype("a right side", x.dtype, other.dtype)?;
    let (batch, n, _) = matrix_sizes(x)?;
    let (batch_b, rows, columns) = matrix_sizes(other)?;
    same_size("a right side of size", n, if left { rows } else { columns })?;
    let shape = fx_core::pointwise::broadcast_dims([batch, batch_b].into_iter())?;
    Ok(TensorType::new(x.dtype, shape.iter().chain([rows, columns]).collect::<Shape>()))
}

fn lu_solve(x: &Array, pivots: &Array, other: &Array, left: bool, adjoint: bool) -> Result<Array> {
    let ty = lu_solve_type(&type_of(x), &type_of(pivots), &type_of(other), left, adjoint)?;
    if !left {
        // y @ a = b is a.T @ y.T = b.T.
        let swap = |x: &Array| x.transpose(x.rank() - 2, x.rank() - 1);
        return swap(&lu_solve(x, pivots, &swap(other)?, true, !adjoint)?)?.contiguous();
    }
    let shape = sizes(&ty.shape)?;
    let batch = &shape[..shape.len() - 2];
    let (n, m) = (shape[shape.len() - 2], shape[shape.len() - 1]);
    let spread = |x: &Array, keep: usize, dtype: DType| {
        let tail = &x.shape()[x.rank() - keep..];
        dense(
            &x.broadcast_to(
                &broadcast_shapes([batch, &[]].into_iter())?.iter().chain(tail).copied().collect::<Vec<_>>(),
            )?,
            dtype,
        )
    };
    let (a, b, pivots) =
        (spread(x, 2, DType::F64)?, spread(other, 2, DType::F64)?, spread(pivots, 1, DType::I64)?);
    let (a, b, pivots) = (slice::<f64>(&a), slice::<f64>(&b), slice::<i64>(&pivots));
    let systems: usize = batch.iter().product();
    let numbers: Vec<f64> = (0..systems).map(|i| i as f64).collect();
    let out = each_matrix(&numbers, 1, n * m, systems, n * n * m.max(1), |number, out| {
        let i = number[0] as usize;
        let (a, b) = (&a[i * n * n..][..n * n], &b[i * n * m..][..n * m]);
        if let Some(k) = (0..n).find(|&k| a[k * n + k] == 0.0) {
            return Err(err!(Argument, "expected an invertible matrix, got a singular one")
                .help(format!("pivot {k} of {n} is zero")));
        }
        let order = row_order(&pivots[i * n..][..n], n)?;
        // One triangle after the other; of the transpose the upper one comes first and the permutation last.
        // Columns of the right side are solved for in blocks, each in memory of its own.
        let blocks = m.div_ceil(IM2COL);
        let mut y = crate::ops::check::zeroed::<f64>(n * blocks * IM2COL)?;
        let (y, _) = y.as_chunks_mut::<IM2COL>();
        fx_simd::parallel::chunks(y, n, (1 << 15) / (n * n * IM2COL).max(1), |block, y| {
            let columns = block * IM2COL..m.min((block + 1) * IM2COL);
            for (i, &row) in order.iter().enumerate() {
                let from = if adjoint { i } else { row };
                y[i][..columns.len()].copy_from_slice(&b[from * m..][columns.clone()]);
            }
            fx_simd::call_256::<both_triangles, _>((a, n, adjoint, y));
        });
        for (i, &row) in order.iter().enumerate() {
            let to = if adjoint { row } else { i };
            for (out, block) in out[to * m..][..m].chunks_mut(IM2COL).zip(y.chunks(n)) {
                out.copy_from_slice(&block[i][..out.len()]);
            }
        }
        Ok(())
    })?;
    array(out, &ty)
}

/// The columns of a right side that are solved for at once: their sums stay in registers.
const IM2COL: usize = 16;

fx_simd::wide! {
    /// Solves for some right sides with the triangles of a matrix of side `n`: the lower one, whose diagonal
    /// is 1, then the upper one, or the other way round with those of the transpose.
    fn both_triangles[]((a, n, adjoint, y): (&[f64], usize, bool, &mut [[f64; IM2COL]])) {
        // Row i of the matrix, or of its transpose, in steps.
        let (row_step, step) = if adjoint { (1, n) } else { (n, 1) };
        for i in 0..n {
            let (above, row) = y.split_at_mut(i);
            let mut sums = row[0];
            let factors = a[i * row_step..].iter().step_by(step);
            for (&factor, other) in factors.zip(above.iter()) {
                for (x, y) in sums.iter_mut().zip(other) {
                    *x -= factor * y;
                }
            }
            row[0] = if adjoint { sums.map(|x| x / a[i * n + i]) } else { sums };
        }
        for i in (0..n).rev() {
            let (row, below) = y[i..].split_at_mut(1);
            let mut sums = row[0];
            let factors = a[i * n + i..].iter().step_by(step).skip(1);
            for (&factor, other) in factors.zip(below.iter()) {
                for (x, y) in sums.iter_mut().zip(other) {
                    *x -= factor * y;
                }
            }
            row[0] = if adjoint { sums } else { sums.map(|x| x / a[i * n + i]) };
        }
    }
}

/// How much of a decomposition is wanted.
#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Reduced,
    Complete,
    OnlyR,
}

fn mode_of(mode: &str) -> Result<Mode> {
    Ok(match mode {
        "reduced" => Mode::Reduced,
        "complete" => Mode::Complete,
        "r" => Mode::OnlyR,
        other => bail!(Argument, "expected the mode \"reduced\", \"complete\" or \"r\", got {other:?}"),
    })
}

fn qr_type(x: &TensorType, mode: &str) -> Result<(TensorType, TensorType)> {
    let mode = mode_of(mode)?;
    let (batch, m, n) = matrix_sizes(x)?;
    let k = if mode == Mode::Complete { m.clone() } else { m.min(n) };
    let q = match mode {
        Mode::OnlyR => TensorType::new(x.dtype, [Dim::new(0)].into_iter().collect::<Shape>()),
        _ => batched(x.dtype, batch, [m, &k]),
    };
    Ok((q, batched(x.dtype, batch, [&k, n])))
}

fn reflectors_type(x: &TensorType) -> Result<(TensorType, TensorType)> {
    let (batch, m, n) = matrix_sizes(x)?;
    Ok((x.clone(), batched(x.dtype, batch, [&m.min(n)])))
}

fn reflectors(x: &Array) -> Result<(Array, Array)> {
    let (ty, tau_ty) = reflectors_type(&type_of(x))?;
    let (data, batch, m, n) = matrices(x)?;
    let k = m.min(n);
    in_float!(x.dtype(), T => {
        let mut taus = zeroed::<T>(fx_core::array::checked_numel(&[batch, k])?)?;
        let mut out = data.to_vec::<T>()?;
        if k > 0 {
            let at_once = GRAIN.div_ceil(m * n * k);
            parallel::chunk_pairs((&mut out, m * n), (&mut taus, k), at_once, |_, a, taus| {
                householder::decompose(a, n, taus, batch == 1);
            });
        }
        Ok((array(out, &ty)?, array(taus, &tau_ty)?))
    })
}

fn product_type(x: &TensorType, tau: &TensorType) -> Result<TensorType> {
    let (batch, m, n) = matrix_sizes(x)?;
    same_dtype("tau", x.dtype, tau.dtype)?;
    let ([batch_tau @ .., k], true) = (&tau.shape[..], tau.rank() + 1 == x.rank()) else {
        bail!(Shape, "expected one tau for each reflector, got {tau} for {x}");
    };
    crate::ops::check::same_shape("tau for a batch", batch, batch_tau)?;
    if m.less(n).is_yes() || n.less(k).is_yes() {
        bail!(
            Shape,
            "expected at least as many rows as columns, and as columns as reflectors, got {x} and {tau}"
        );
    }
    Ok(x.clone())
}

fn product(x: &Array, tau: &Array) -> Result<Array> {
    let ty = product_type(&type_of(x), &type_of(tau))?;
    let (data, batch, m, n) = matrices(x)?;
    let taus = tau.contiguous()?;
    let k = tau.shape()[tau.rank() - 1];
    in_float!(x.dtype(), T => {
        let (data, taus) = (slice::<T>(&data), slice::<T>(&taus));
        let mut out = zeroed::<T>(data.len())?;
        if m * n > 0 {
            let at_once = GRAIN.div_ceil(m * n * k.max(1));
            parallel::chunks(&mut out, m * n, at_once, |i, out| {
                householder::orthogonal(&data[i * m * n..][..m * n], n, &taus[i * k..][..k], n, out, batch == 1);
            });
        }
        array(out, &ty)
    })
}

fn qr(x: &Array, mode: &str) -> Result<(Array, Array)> {
    let (q_ty, r_ty) = qr_type(&type_of(x), mode)?;
    let mode = mode_of(mode)?;
    let (data, batch, m, n) = matrices(x)?;
    let k = if mode == Mode::Complete { m } else { m.min(n) };
    let q_size = if mode == Mode::OnlyR { 0 } else { m * k };
    fx_core::array::checked_numel(&[batch, m, k])?;
    in_float!(x.dtype(), T => {
        let work = m * n * k.max(1);
        let packed = each_matrix::<T>(slice(&data), m * n, q_size + k * n, batch, work, |a, out| {
            let mut a = a.to_vec();
            let mut taus = vec![0.0; m.min(n)];
            householder::decompose(&mut a, n, &mut taus, batch == 1);
            let (q, r) = out.split_at_mut(q_size);
            if q_size > 0 {
                householder::orthogonal(&a, n, &taus, k, q, batch == 1);
            }
            for i in 0..k.min(n) {
                r[i * n + i..(i + 1) * n].copy_from_slice(&a[i * n + i..(i + 1) * n]);
            }
            Ok(())
        })?;
        let [q, r] = cut(&packed, [q_size, k * n]);
        Ok((array(q, &q_ty)?, array(r, &r_ty)?))
    })
}

/// The greatest norms for which the terms of the exponential's series up to the 16th are enough for f64, and
/// for f32.
const NEAR: (f64, f64) = (0.8, 2.0);

fn exponential(x: &Array) -> Result<Array> {
    let ty = check_square(&type_of(x))?;
    let wide = crate::ops::check::wide(ty.dtype);
    let (data, batch, n, _) = matrices(&x.cast(wide))?;
    in_float!(wide, T => {
        let near = if wide == DType::F32 { NEAR.1 } else { NEAR.0 };
        let out = each_matrix(slice::<T>(&data), n * n, n * n, batch, n * n * n * 18, |a, out| {
            exponential_of(a, n, near, out, batch == 1);
            Ok(())
        })?;
        array(out, &ty)
    })
}

/// Stores the exponential of an n by n matrix, or NaN if its elements are not finite.
fn exponential_of<T: GemmElement>(a: &[T], n: usize, near: f64, out: &mut [T], shared: bool) {
    let number = |x: f64| T::from(x).unwrap_or_else(T::nan);
    let wide = |x: T| x.to_f64().unwrap_or(f64::NAN);
    let norm =
        a.chunks(n.max(1)).map(|row| row.iter().map(|&x| wide(x).abs()).sum::<f64>()).fold(0.0, f64::max);
    if !norm.is_finite() || a.iter().any(|x| x.is_nan()) {
        return out.fill(T::nan());
    }
    // The exponential of a part, squared as often as it was halved.
    let halvings = if norm > near { (norm / near).log2().ceil() as i32 } else { 0 };
    let times = |a: &[T], b: &[T], beta: T, out: &mut [T]| {
        gemm_by(shared, n, n, n, T::one(), a, (n, 1), b, (n, 1), beta, out, (n, 1));
    };
    let scale = number(2f64.powi(-halvings));
    let first: Vec<T> = a.iter().map(|&x| x * scale).collect();
    let mut powers = [first, vec![T::zero(); n * n], vec![T::zero(); n * n], vec![T::zero(); n * n]];
    for k in 1..4 {
        let (done, rest) = powers.split_at_mut(k);
        times(&done[(k - 1) / 2], &done[k / 2], T::zero(), &mut rest[0]);
    }
    // The series as a polynomial of the fourth power, whose coefficients are sums of lower powers.
    let mut inverse = [1.0; 17];
    (1..17).for_each(|k| inverse[k] = inverse[k - 1] / k as f64);
    let inverse = inverse.map(number);
    let sum = |k: usize, next: &mut [T]| {
        let last = if k == 3 { inverse[16] } else { T::zero() };
        let factors = [inverse[4 * k + 1], inverse[4 * k + 2], inverse[4 * k + 3], last];
        call_256::<combine, _>((&powers, factors, &mut *next));
        next.iter_mut().step_by(n + 1).for_each(|x| *x = *x + inverse[4 * k]);
    };
    let mut other = vec![T::zero(); n * n];
    sum(3, &mut other);
    for k in (0..3).rev() {
        sum(k, out);
        times(&powers[3], &other, T::one(), out);
        other.copy_from_slice(out);
    }
    for _ in 0..halvings {
        times(&other, &other, T::zero(), out);
        other.copy_from_slice(out);
    }
}

wide! {
    /// Stores the sum of multiples.
    fn combine[T: GemmElement](([a, b, c, d], factors, out): (&[Vec<T>; 4], [T; 4], &mut [T])) {
        for ((((out, &a), &b), &c), &d) in out.iter_mut().zip(a).zip(b).zip(c).zip(d) {
            *out = (factors[0] * a + factors[1] * b) + (factors[2] * c + factors[3] * d);
        }
    }
}
