//! Matrix products: `out[m, n] = a[m, k] * b[k, n]`, in blocks that fit into the caches, whose operands are
//! packed into panels.

use super::math::Real;
use super::row::dot;
use super::simd::{simd, tiled};
use super::threads::{split, split_outer};

/// The sizes of a block: so many rows, columns, and terms of each sum.
const ROWS: usize = 120;
const COLUMNS: usize = 512;
const TERMS: usize = 256;
/// The widest tile that any machine uses.
const WIDEST: usize = 32;
const TALLEST: usize = 12;

/// Returns how many elements [`gemm`] needs to pack its operands.
pub const fn work(m: usize, n: usize, k: usize) -> usize {
    let terms = if k < TERMS { k } else { TERMS };
    let rows = (if m < ROWS { m } else { ROWS }).next_multiple_of(TALLEST) + TALLEST;
    let columns = (if n < COLUMNS { n } else { COLUMNS }).next_multiple_of(WIDEST);
    terms * (rows + columns)
}

/// What a product is added to.
#[derive(Clone, Copy)]
pub enum Start<'a, T> {
    /// Nothing.
    Zero,
    /// An element for each column.
    Columns(&'a [T]),
    /// An element for each row.
    Rows(&'a [T]),
}

impl<'a, T> Start<'a, T> {
    /// Returns what is for the result from a row or column on.
    fn from(self, row: usize, column: usize) -> Start<'a, T> {
        match self {
            Start::Zero => Start::Zero,
            Start::Columns(start) => Start::Columns(&start[column..]),
            Start::Rows(start) => Start::Rows(&start[row..]),
        }
    }
}

/// The right operand, which knows how to pack a part of itself.
pub trait Operand<T> {
    /// Writes the columns `from..from + n` of row `row`.
    fn pack(&self, row: usize, from: usize, out: &mut [T]);
}

/// A matrix with a distance between its rows and one between its columns.
#[derive(Clone, Copy)]
pub struct Matrix<'a, T> {
    /// The elements.
    pub data: &'a [T],
    /// The distance between rows.
    pub row: usize,
    /// The distance between columns.
    pub column: usize,
}

impl<'a, T> Matrix<'a, T> {
    /// Returns the matrix from a row and a column on.
    fn from(self, row: usize, column: usize) -> Matrix<'a, T> {
        Matrix { data: &self.data[row * self.row + column * self.column..], ..self }
    }
}

impl<T: Real> Operand<T> for Matrix<'_, T> {
    #[inline(always)]
    fn pack(&self, row: usize, from: usize, out: &mut [T]) {
        let data = &self.data[row * self.row + from * self.column..];
        if self.column == 1 {
            out.copy_from_slice(&data[..out.len()]);
        } else {
            for (j, out) in out.iter_mut().enumerate() {
                *out = data[j * self.column];
            }
        }
    }
}

/// Sizes of a product.
#[derive(Clone, Copy)]
pub struct Sizes {
    /// The rows of the result.
    pub m: usize,
    /// The columns of the result.
    pub n: usize,
    /// The terms of each sum.
    pub k: usize,
}

/// Multiplies and adds.
#[inline(always)]
fn fused<T: Fused, const FMA: bool>(a: T, b: T, c: T) -> T {
    if FMA { a.fused(b, c) } else { a * b + c }
}

/// A number with an instruction that multiplies and adds, on machines that have it.
pub trait Fused: Real + Send + Sync {
    /// Returns `self * b + c`, rounded once.
    fn fused(self, b: Self, c: Self) -> Self;
}

impl Fused for f32 {
    #[inline(always)]
    fn fused(self, b: f32, c: f32) -> f32 {
        self.mul_add(b, c)
    }
}

impl Fused for f64 {
    #[inline(always)]
    fn fused(self, b: f64, c: f64) -> f64 {
        self.mul_add(b, c)
    }
}

/// Multiplies a panel of `a` with one of `b`.
#[inline(always)]
fn tile<T: Fused, const MR: usize, const NR: usize, const FMA: bool>(a: &[T], b: &[T]) -> [[T; NR]; MR] {
    let mut sums = [[T::ZERO; NR]; MR];
    let (a, b) = (a.as_chunks::<MR>().0, b.as_chunks::<NR>().0);
    for (a, b) in a.iter().zip(b) {
        for i in 0..MR {
            for j in 0..NR {
                sums[i][j] = fused::<T, FMA>(a[i], b[j], sums[i][j]);
            }
        }
    }
    sums
}

/// Adds a tile to the result, or stores it if it is the first part of the sums.
#[inline(always)]
fn store<T: Real, const MR: usize, const NR: usize>(
    sums: &[[T; NR]; MR],
    start: Option<Start<'_, T>>,
    (i0, j0): (usize, usize),
    (height, width): (usize, usize),
    out: &mut [T],
    out_row: usize,
) {
    for (i, sums) in sums[..height].iter().enumerate() {
        let out = &mut out[(i0 + i) * out_row + j0..][..width];
        match start {
            None => out.iter_mut().zip(sums).for_each(|(out, &x)| *out = *out + x),
            Some(Start::Zero) => out.copy_from_slice(&sums[..width]),
            Some(Start::Rows(start)) => {
                out.iter_mut().zip(sums).for_each(|(out, &x)| *out = x + start[i0 + i])
            }
            Some(Start::Columns(start)) => {
                let start = &start[j0..][..width];
                out.iter_mut().zip(sums).zip(start).for_each(|((out, &x), &start)| *out = x + start);
            }
        }
    }
}

#[inline(always)]
#[allow(clippy::too_many_arguments, reason = "the sizes of a kernel are its arguments")]
fn blocks<T: Fused, B: Operand<T>, const MR: usize, const NR: usize, const FMA: bool>(
    Sizes { m, n, k }: Sizes,
    a: Matrix<'_, T>,
    b: &B,
    start: Start<'_, T>,
    work: &mut [T],
    out: &mut [T],
) {
    let (a_panels, b_panels) =
        work.split_at_mut(k.min(TERMS) * (m.min(ROWS).next_multiple_of(TALLEST) + TALLEST));
    for j0 in (0..n).step_by(COLUMNS) {
        let columns = COLUMNS.min(n - j0);
        for p0 in (0..k).step_by(TERMS) {
            let terms = TERMS.min(k - p0);
            for (j, panel) in (0..columns).step_by(NR).zip(b_panels.chunks_exact_mut(terms * NR)) {
                let width = NR.min(columns - j);
                for (p, row) in panel.chunks_exact_mut(NR).enumerate() {
                    b.pack(p0 + p, j0 + j, &mut row[..width]);
                    row[width..].fill(T::ZERO);
                }
            }
            let start = (p0 == 0).then_some(start);
            for i0 in (0..m).step_by(ROWS) {
                let rows = ROWS.min(m - i0);
                for (i, panel) in (0..rows).step_by(MR).zip(a_panels.chunks_exact_mut(terms * MR)) {
                    let height = MR.min(rows - i);
                    for (p, column) in panel.chunks_exact_mut(MR).enumerate() {
                        let from = &a.data[(i0 + i) * a.row + (p0 + p) * a.column..];
                        for (r, x) in column[..height].iter_mut().enumerate() {
                            *x = from[r * a.row];
                        }
                        column[height..].fill(T::ZERO);
                    }
                }
                for (j, b_panel) in (0..columns).step_by(NR).zip(b_panels.chunks_exact(terms * NR)) {
                    for (i, a_panel) in (0..rows).step_by(MR).zip(a_panels.chunks_exact(terms * MR)) {
                        let sums = tile::<T, MR, NR, FMA>(a_panel, b_panel);
                        let size = (MR.min(rows - i), NR.min(columns - j));
                        store(&sums, start, (i0 + i, j0 + j), size, out, n);
                    }
                }
            }
        }
    }
}

/// Computes the product for few rows, where each element of `b` is used so few times that packing it would
/// take longest.
#[inline(always)]
fn few_rows<T: Real>(
    Sizes { m, n, k }: Sizes,
    a: Matrix<'_, T>,
    b: Matrix<'_, T>,
    start: Start<'_, T>,
    out: &mut [T],
) {
    for (i, row) in out.chunks_exact_mut(n).enumerate() {
        match start {
            Start::Zero => row.fill(T::ZERO),
            Start::Columns(start) => row.copy_from_slice(&start[..n]),
            Start::Rows(start) => row.fill(start[i]),
        }
    }
    if k == 0 {
        return;
    }
    if b.row == 1 && a.column == 1 {
        for j in 0..n {
            let column = &b.data[j * b.column..][..k];
            for i in 0..m {
                let out = &mut out[i * n + j];
                *out = *out + dot(&a.data[i * a.row..][..k], column);
            }
        }
    } else {
        for p in 0..k {
            let b = &b.data[p * b.row..][..n];
            for i in 0..m {
                let factor = a.data[i * a.row + p * a.column];
                for (out, &b) in out[i * n..][..n].iter_mut().zip(b) {
                    *out = *out + factor * b;
                }
            }
        }
    }
}

tiled! {
    /// Computes `start + a * b`. `work` holds what [`work`] says.
    fn panels<T: Fused, B: Operand<T>>(
        sizes: Sizes,
        a: Matrix<'_, T>,
        b: &B,
        start: Start<'_, T>,
        work: &mut [T],
        out: &mut [T],
    ) = blocks
}

simd! {
    /// Computes `start + a * b` for few rows.
    fn skinny<T: Fused>(sizes: Sizes, a: Matrix<'_, T>, b: Matrix<'_, T>, start: Start<'_, T>, out: &mut [T]) {
        few_rows(sizes, a, b, start, out);
    }
}

/// Computes `start + a * b`, whose right operand may be any, with parts of the rows on each thread. `work`
/// holds what [`work`] says.
pub fn packed<T: Fused, B: Operand<T> + Sync>(
    sizes: Sizes,
    a: Matrix<'_, T>,
    b: &B,
    start: Start<'_, T>,
    work: &mut [T],
    out: &mut [T],
) {
    let Sizes { n, k, .. } = sizes;
    split(n.saturating_mul(k), n, out, work, |row, out, work| {
        let sizes = Sizes { m: out.len() / n, ..sizes };
        panels(sizes, a.from(row, 0), b, start.from(row, 0), work, out);
    });
}

/// The most rows that are not packed.
const FEW: usize = 4;

/// Computes `start + a * b` of matrices. `work` holds what [`work`] says.
pub fn gemm<T: Fused>(
    sizes: Sizes,
    a: Matrix<'_, T>,
    b: Matrix<'_, T>,
    start: Start<'_, T>,
    work: &mut [T],
    out: &mut [T],
) {
    let Sizes { m, n, k } = sizes;
    if m == 0 || n == 0 {
        return;
    }
    let is_dense = (b.row == 1 && a.column == 1) || b.column == 1;
    if k > 0 && m == 1 && is_dense {
        split(k, 1, out, &mut [(); 0], |column, out, _| {
            let sizes = Sizes { n: out.len(), ..sizes };
            skinny(sizes, a, b.from(0, column), start.from(0, column), out);
        });
    } else if k == 0 || (m <= FEW && is_dense) {
        skinny(sizes, a, b, start, out);
    } else {
        packed(sizes, a, &b, start, work, out);
    }
}

/// Computes the products of a batch of matrices: `batch` has the sizes of its axes, `a_steps` and `b_steps`
/// the distances.
#[allow(clippy::too_many_arguments, reason = "the sizes of a kernel are its arguments")]
pub fn batched<T: Fused, const R: usize>(
    batch: [usize; R],
    sizes: Sizes,
    a: Matrix<'_, T>,
    a_steps: [usize; R],
    b: Matrix<'_, T>,
    b_steps: [usize; R],
    work: &mut [T],
    out: &mut [T],
) {
    let size = sizes.m * sizes.n;
    if size == 0 || sizes.k == 0 {
        // Matrices without elements are at no place.
        return out.fill(T::ZERO);
    }
    split_outer(size.saturating_mul(sizes.k), size, out, work, |i, out, work| {
        let (mut rest, mut a_at, mut b_at) = (i, 0, 0);
        for axis in (0..R).rev() {
            a_at += rest % batch[axis] * a_steps[axis];
            b_at += rest % batch[axis] * b_steps[axis];
            rest /= batch[axis];
        }
        let a = Matrix { data: &a.data[a_at..], ..a };
        let b = Matrix { data: &b.data[b_at..], ..b };
        gemm(sizes, a, b, Start::Zero, work, out);
    });
}
