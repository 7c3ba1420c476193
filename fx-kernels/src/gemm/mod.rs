//! Matrix products on strided slices: `c = alpha * a @ b + beta * c`.
//!
//! Invariant: every access is in bounds, for the extents of all operands are asserted on entry, and the
//! elements of `c` are distinct. Work is cut into panels by the shape alone, so that the number of threads
//! doesn't change a bit. Matrices of one row or column go a way of their own, at memory bandwidth.

use fx_simd::parallel;
use num_traits::{Float, WrappingAdd, WrappingMul, Zero};

use super::lanes;

pub use self::blocked::{Done, Left, Output, Product, Right};
pub(crate) use self::blocked::{pack, pack_in_place, pack_slivers};
use self::sealed::Scratch;
pub(crate) use self::tile::{Next, Operands, Spread, Tap, Taps, Windows};
pub use self::tile::{Tile, TileEpilogue};

mod blocked;
#[doc(hidden)]
pub mod tile;

/// Row and column stride of a matrix, in elements. Zero repeats a row or column of an input.
pub type Strides = (usize, usize);

/// A float that [`gemm`] multiplies: `f32` or `f64`.
pub trait GemmElement: Float + Default + Send + Sync + std::fmt::Debug + sealed::Raw + 'static {}
impl GemmElement for f32 {}
impl GemmElement for f64 {}

/// Stores `alpha * a @ b + beta * c` in `c`, of shapes `m * k`, `k * n` and `m * n`.
///
/// `c` is not read when `beta` is zero.
///
/// # Panics
///
/// When a slice is shorter than its shape and strides need, or two elements of `c` are one.
#[expect(clippy::too_many_arguments, reason = "the field's convention")]
pub fn gemm<T: GemmElement>(
    m: usize,
    k: usize,
    n: usize,
    alpha: T,
    a: &[T],
    sa: Strides,
    b: &[T],
    sb: Strides,
    beta: T,
    c: &mut [T],
    sc: Strides,
) {
    gemm_by(true, m, k, n, alpha, a, sa, b, sb, beta, c, sc);
}

/// Is [`gemm`], on this thread alone unless it may be `shared`.
#[expect(clippy::too_many_arguments, reason = "the field's convention")]
pub fn gemm_by<T: GemmElement>(
    shared: bool,
    m: usize,
    k: usize,
    n: usize,
    alpha: T,
    a: &[T],
    (rsa, csa): Strides,
    b: &[T],
    (rsb, csb): Strides,
    beta: T,
    c: &mut [T],
    (rsc, csc): Strides,
) {
    if m == 0 || n == 0 {
        return;
    }
    assert_distinct(m, n, (rsc, csc));
    assert!(extent(m, n, (rsc, csc)) <= c.len(), "output of gemm is too short");
    if k == 0 {
        for i in 0..m {
            for j in 0..n {
                let slot = &mut c[i * rsc + j * csc];
                *slot = if beta.is_zero() { T::zero() } else { beta * *slot };
            }
        }
        return;
    }
    assert!(extent(m, k, (rsa, csa)) <= a.len(), "left operand of gemm is too short");
    assert!(extent(k, n, (rsb, csb)) <= b.len(), "right operand of gemm is too short");
    if n == 1 {
        return matrix_vector(m, k, alpha, a, (rsa, csa), b, rsb, beta, c, rsc);
    }
    if m == 1 {
        return matrix_vector(n, k, alpha, b, (csb, rsb), a, csa, beta, c, csc);
    }
    // Few rows times neighbouring elements of columns: dot products, for which nothing need be packed.
    let few = |count: usize, stride: usize| count <= FEW && stride == 1 && k >= DOTS;
    if few(m, rsb) {
        return few_rows((m, k, n), alpha, a, (rsa, csa), b, csb, beta, c, (rsc, csc));
    }
    if few(n, csa) {
        return few_rows((n, k, m), alpha, b, (csb, rsb), a, rsa, beta, c, (csc, rsc));
    }
    if let Some(tile) = T::tile()
        && work(m, n, k) >= SMALL
    {
        let product = Product { tile, m, k, n, alpha, beta, shared, wide_parts: false };
        return tiled(product, (a, (rsa, csa)), (b, (rsb, csb)), (c, (rsc, csc)));
    }
    let by_rows = m >= n;
    let (length, other) = if by_rows { (m, n) } else { (n, m) };
    let panel = panel_length(length, other, k);
    // Every panel packs the other operand anew, which is slow across memory, so that is turned once for all.
    let turned: Vec<T>;
    let (mut a, mut rsa, mut csa, mut b, mut rsb, mut csb) = (a, rsa, csa, b, rsb, csb);
    if panel < length && by_rows && rsb == 1 && csb != 1 && k >= TILE {
        turned = transposed(b, n, k, csb);
        (b, rsb, csb) = (&turned, n, 1);
    } else if panel < length && !by_rows && csa == 1 && rsa != 1 && k >= TILE {
        turned = transposed(a, m, k, rsa);
        (a, rsa, csa) = (&turned, 1, m);
    }
    let out = SendPointer(c.as_mut_ptr());
    let run = |first: usize| {
        let count = panel.min(length - first);
        let (row, col) = if by_rows { (first, 0) } else { (0, first) };
        let (rows, cols) = if by_rows { (count, n) } else { (m, count) };
        // The stride of a single column or row of the operands is arbitrary and not used.
        let (csa, rsb) = if k == 1 { (0, 0) } else { (csa, rsb) };
        let [rsa, csa, rsb, csb, rsc, csc] = [rsa, csa, rsb, csb, rsc, csc].map(|stride| stride as isize);
        // SAFETY: the panel lies within the m * n result, whose accesses and those of its operands were
        // asserted to be in bounds above. Panels write disjoint elements of `c`, for its elements are
        // distinct, and `c` is borrowed exclusively until all panels are done.
        unsafe {
            let a = a.as_ptr().offset(row as isize * rsa);
            let b = b.as_ptr().offset(col as isize * csb);
            let c = out.get().offset(row as isize * rsc + col as isize * csc);
            T::raw_gemm(rows, k, cols, alpha, a, (rsa, csa), b, (rsb, csb), beta, c, (rsc, csc));
        }
    };
    if panel >= length {
        run(0);
    } else {
        parallel::each(length.div_ceil(panel), |i| run(i * panel));
    }
}

/// The products of a batch from which each is left to one thread.
pub const MANY: usize = 8;

/// The multiply-adds below which matrixmultiply, which packs into a few kilobytes, is faster.
const SMALL: usize = 1 << 10;

/// Is [`gemm`] by tiles of our own; extents and `c` were asserted by the caller.
fn tiled<T: GemmElement>(
    mut product: Product<T>,
    (mut a, (mut rsa, mut csa)): (&[T], Strides),
    (mut b, (mut rsb, mut csb)): (&[T], Strides),
    (c, (mut rsc, mut csc)): (&mut [T], Strides),
) {
    let Product { tile, m, n, k, .. } = product;
    // The transposed product, if its tiles are fuller.
    let padded = |m: usize, n: usize| m.next_multiple_of(tile.rows) * n.next_multiple_of(tile.cols);
    if padded(n, m) < padded(m, n) / 4 * 3 {
        (a, rsa, csa, b, rsb, csb) = (b, csb, rsb, a, csa, rsa);
        (rsc, csc) = (csc, rsc);
        (product.m, product.n) = (n, m);
    }
    let Product { m, n, .. } = product;
    // The stride of a single row or column is arbitrary.
    let (rsa, csa) = (if m == 1 { 0 } else { rsa }, if k == 1 { 0 } else { csa });
    let (rsb, csb) = (if k == 1 { 0 } else { rsb }, if n == 1 { 0 } else { csb });
    let turn = |from: usize, out: &mut [T]| {
        pack(&b[from * csb..], (csb, rsb), tile.cols.min(n - from), tile.cols, out);
    };
    // Rows that are read for few strips only are not worth packing.
    let right = if csb == 1 && m <= 2 * tile.rows { Right::Rows(b, rsb) } else { Right::Columns(&turn) };
    let c = Output::new(c, (rsc, csc));
    // SAFETY: the caller asserted that the elements of `c` are distinct and lie in it.
    unsafe { product.run(&Left::Strided(a, (rsa, csa)), &right, &c) };
}

/// The side of the tiles in which a matrix is transposed.
const TILE: usize = 16;

/// Returns the transpose of a matrix whose rows, contiguous ones, are `stride` apart.
pub fn transposed<T: GemmElement>(x: &[T], rows: usize, cols: usize, stride: usize) -> Vec<T> {
    let mut out = vec![T::zero(); rows * cols];
    let band = |i: usize, out: &mut [T]| {
        let (col, width) = (i * TILE, out.len() / rows);
        for row in (0..rows).step_by(TILE) {
            let height = TILE.min(rows - row);
            if height == TILE && width == TILE {
                let mut tile = [[T::zero(); TILE]; TILE];
                for (i, line) in tile.iter_mut().enumerate() {
                    line.copy_from_slice(&x[(row + i) * stride + col..][..TILE]);
                }
                for (j, out) in out.chunks_mut(rows).enumerate() {
                    let out = &mut out[row..row + TILE];
                    for i in 0..TILE {
                        out[i] = tile[i][j];
                    }
                }
            } else {
                for (j, out) in out.chunks_mut(rows).enumerate() {
                    for i in row..row + height {
                        out[i] = x[i * stride + col + j];
                    }
                }
            }
        }
    };
    let at_once = (GRAIN / 16).div_ceil(TILE * rows.max(1));
    parallel::chunks(&mut out, TILE * rows.max(1), at_once, band);
    out
}

/// Is [`gemm`] for f32.
#[expect(clippy::too_many_arguments, reason = "the field's convention")]
pub fn gemm_f32(
    m: usize,
    k: usize,
    n: usize,
    alpha: f32,
    a: &[f32],
    sa: Strides,
    b: &[f32],
    sb: Strides,
    beta: f32,
    c: &mut [f32],
    sc: Strides,
) {
    gemm(m, k, n, alpha, a, sa, b, sb, beta, c, sc);
}

/// Is [`gemm`] for f64.
#[expect(clippy::too_many_arguments, reason = "the field's convention")]
pub fn gemm_f64(
    m: usize,
    k: usize,
    n: usize,
    alpha: f64,
    a: &[f64],
    sa: Strides,
    b: &[f64],
    sb: Strides,
    beta: f64,
    c: &mut [f64],
    sc: Strides,
) {
    gemm(m, k, n, alpha, a, sa, b, sb, beta, c, sc);
}

/// Multiplies `batch` pairs of matrices; the first of each triple of strides leads to the next matrix.
///
/// # Panics
///
/// As [`gemm`], and when two matrices of `c` overlap.
#[expect(clippy::too_many_arguments, reason = "the field's convention")]
pub fn bmm<T: GemmElement>(
    batch: usize,
    m: usize,
    k: usize,
    n: usize,
    alpha: T,
    a: &[T],
    (bsa, rsa, csa): (usize, usize, usize),
    b: &[T],
    (bsb, rsb, csb): (usize, usize, usize),
    beta: T,
    c: &mut [T],
    (bsc, rsc, csc): (usize, usize, usize),
) {
    if batch == 0 || m == 0 || n == 0 {
        return;
    }
    let one = extent(m, n, (rsc, csc));
    assert!(batch == 1 || bsc >= one, "matrices of the output of bmm overlap");
    let step = bsc.max(one);
    assert!(c.len() >= one && (c.len() - one) / step >= batch - 1, "output of bmm is too short");
    let (a_len, b_len) = (extent(m, k, (rsa, csa)), extent(k, n, (rsb, csb)));
    assert!(batched(batch, bsa, a_len) <= a.len(), "left operand of bmm is too short");
    assert!(batched(batch, bsb, b_len) <= b.len(), "right operand of bmm is too short");
    let run = |i: usize, c: &mut [T]| {
        let (a, b) = (&a[(i * bsa).min(a.len())..], &b[(i * bsb).min(b.len())..]);
        gemm_by(batch < MANY, m, k, n, alpha, a, (rsa, csa), b, (rsb, csb), beta, c, (rsc, csc));
    };
    let group = (GRAIN / 4).div_ceil(work(m, n, k)).max(1);
    let length = step.saturating_mul(batch).min(c.len());
    parallel::chunks(&mut c[..length], step, group, run);
}

/// Stores the product of integer matrices, with wrapping arithmetic, in the row-major `c`.
///
/// # Panics
///
/// When a slice is shorter than its shape and strides need.
#[expect(clippy::too_many_arguments, reason = "the field's convention")]
pub fn gemm_int<T>(
    m: usize,
    k: usize,
    n: usize,
    a: &[T],
    (rsa, csa): Strides,
    b: &[T],
    (rsb, csb): Strides,
    c: &mut [T],
) where
    T: WrappingAdd + WrappingMul + Zero + Copy + Send + Sync,
{
    if m == 0 || n == 0 {
        return;
    }
    let size = m.checked_mul(n).expect("output of gemm_int does not fit into memory");
    let c = &mut c[..size];
    c.fill(T::zero());
    if k == 0 {
        return;
    }
    assert!(extent(m, k, (rsa, csa)) <= a.len(), "left operand of gemm_int is too short");
    assert!(extent(k, n, (rsb, csb)) <= b.len(), "right operand of gemm_int is too short");
    // Rows of the right operand are read as they are; others are put in order first.
    let ordered: Vec<T>;
    let (b, rsb) = match csb {
        1 => (b, rsb),
        _ => {
            ordered = (0..k * n).map(|i| b[i / n * rsb + i % n * csb]).collect();
            (&ordered[..], n)
        }
    };
    let rows = (GRAIN / 4).div_ceil(work(n, k, 1)).next_multiple_of(INT_ROWS).clamp(1, m);
    parallel::chunks(c, n * rows, 1, |block, c| {
        fx_simd::call::<int_rows, _>((k, n, &a[block * rows * rsa..], (rsa, csa), b, rsb, c));
    });
}

/// Rows and columns of a product of integers whose sums stay in registers.
const INT_ROWS: usize = 4;
const INT_COLUMNS: usize = 16;

fx_simd::wide! {
    /// Multiplies some rows of `a` by a matrix whose rows of `n` elements are `rsb` apart.
    fn int_rows[T: WrappingAdd + WrappingMul + Zero + Copy](
        (k, n, a, (rsa, csa), b, rsb, c): (usize, usize, &[T], Strides, &[T], usize, &mut [T])
    ) {
        for (i, c) in c.chunks_mut(INT_ROWS * n).enumerate() {
            let a = &a[i * INT_ROWS * rsa..];
            let n_rows = c.len() / n;
            let mut j = 0;
            while n_rows == INT_ROWS && j + INT_COLUMNS <= n {
                let mut sums = [[T::zero(); INT_COLUMNS]; INT_ROWS];
                for p in 0..k {
                    let Some((b, _)) = b[p * rsb + j..].split_first_chunk::<INT_COLUMNS>() else { break };
                    for (row, sums) in sums.iter_mut().enumerate() {
                        let x = a[row * rsa + p * csa];
                        for (sum, y) in sums.iter_mut().zip(b) {
                            *sum = sum.wrapping_add(&x.wrapping_mul(y));
                        }
                    }
                }
                for (c, sums) in c.chunks_mut(n).zip(&sums) {
                    c[j..j + INT_COLUMNS].copy_from_slice(sums);
                }
                j += INT_COLUMNS;
            }
            for (row, c) in c.chunks_mut(n).enumerate() {
                for p in 0..k {
                    let (x, b) = (a[row * rsa + p * csa], &b[p * rsb..][..n]);
                    for (c, y) in c[j..].iter_mut().zip(&b[j..]) {
                        *c = c.wrapping_add(&x.wrapping_mul(y));
                    }
                }
            }
        }
    }
}

/// The multiply-adds below which a second thread costs more than it gives (20 to 60 microseconds' worth).
const GRAIN: usize = 1 << 20;

pub(crate) fn work(m: usize, n: usize, k: usize) -> usize {
    m.saturating_mul(n).saturating_mul(k).max(1)
}

/// Returns the rows of a panel: at least a grain of work and 128 rows, at most 16 panels.
fn panel_length(length: usize, other: usize, k: usize) -> usize {
    let grain = GRAIN.div_ceil(work(other, k, 1));
    grain.max(128).max(length.div_ceil(16)).next_multiple_of(64)
}

/// Returns the number of elements from the first to the last of a matrix.
fn extent(rows: usize, cols: usize, (rs, cs): Strides) -> usize {
    if rows == 0 || cols == 0 {
        return 0;
    }
    let last = (rows - 1).checked_mul(rs).zip((cols - 1).checked_mul(cs)).and_then(|(r, c)| r.checked_add(c));
    last.and_then(|last| last.checked_add(1)).expect("extent of a matrix does not fit into memory")
}

fn batched(batch: usize, stride: usize, one: usize) -> usize {
    if one == 0 {
        return 0;
    }
    let last = (batch - 1).checked_mul(stride).and_then(|start| start.checked_add(one));
    last.expect("extent of a batch does not fit into memory")
}

fn assert_distinct(m: usize, n: usize, (rs, cs): Strides) {
    let apart = |outer: usize, outer_stride: usize, inner: usize, inner_stride: usize| {
        (inner <= 1 || inner_stride > 0)
            && (outer <= 1 || outer_stride >= extent(1, inner, (0, inner_stride)))
    };
    assert!(apart(m, rs, n, cs) || apart(n, cs, m, rs), "elements of the output of gemm overlap");
}

struct SendPointer<T>(*mut T);
impl<T> Clone for SendPointer<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for SendPointer<T> {}
impl<T> SendPointer<T> {
    fn get(self) -> *mut T {
        self.0
    }
}
// SAFETY: the pointer is only used by the panels of one `gemm`, which write disjoint elements.
unsafe impl<T: Send> Send for SendPointer<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for SendPointer<T> {}

/// Stores `alpha * matrix @ x + beta * out` in `out`; extents were asserted by the caller.
#[expect(clippy::too_many_arguments, reason = "the field's convention")]
fn matrix_vector<T: GemmElement>(
    rows: usize,
    k: usize,
    alpha: T,
    matrix: &[T],
    (rs, cs): Strides,
    x: &[T],
    x_stride: usize,
    beta: T,
    out: &mut [T],
    out_stride: usize,
) {
    let gathered: Vec<T>;
    let x = if x_stride == 1 {
        &x[..k]
    } else {
        gathered = (0..k).map(|p| x[p * x_stride]).collect();
        &gathered
    };
    let mut sums = vec![T::zero(); rows];
    let block = (GRAIN / 8).div_ceil(k).next_multiple_of(64);
    let run = |i: usize, sums: &mut [T]| {
        fx_simd::call::<matrix_vector_block, _>((i * block, sums, matrix, (rs, cs), x));
    };
    if rows == 1 && cs == 1 && k > 2 * PIECE {
        let mut pieces = vec![T::zero(); k.div_ceil(PIECE)];
        parallel::chunks(&mut pieces, 1, 1, |i, piece| {
            let range = i * PIECE..((i + 1) * PIECE).min(k);
            piece[0] = fx_simd::call::<dot_of, _>((&matrix[range.clone()], &x[range]));
        });
        sums[0] = dot::<64, T>(&pieces, &vec![T::one(); pieces.len()]);
    } else {
        parallel::chunks(&mut sums, block, 1, run);
    }
    for (i, sum) in sums.into_iter().enumerate() {
        let slot = &mut out[i * out_stride];
        *slot = if beta.is_zero() { alpha * sum } else { alpha * sum + beta * *slot };
    }
}

/// The elements of a long dot product that one thread multiplies.
const PIECE: usize = 1 << 14;

fx_simd::wide! {
    /// Adds the products of the rows from `first` with `x` to `sums`.
    fn matrix_vector_block[T: Float]((first, sums, matrix, (rs, cs), x): (usize, &mut [T], &[T], Strides, &[T])) {
        if rs == 1 {
            // A column at a time over rows that stay in the first cache.
            for (tile, sums) in sums.chunks_mut(1024).enumerate() {
                let first = first + tile * 1024;
                for (p, &x) in x.iter().enumerate() {
                    let column = &matrix[p * cs + first..][..sums.len()];
                    sums.iter_mut().zip(column).for_each(|(sum, &y)| *sum = *sum + x * y);
                }
            }
            return;
        }
        for (i, sum) in sums.iter_mut().enumerate() {
            let start = (first + i) * rs;
            *sum = if cs == 1 {
                dot::<64, T>(&matrix[start..][..x.len()], x)
            } else {
                x.iter().enumerate().fold(T::zero(), |sum, (p, &x)| sum + matrix[start + p * cs] * x)
            };
        }
    }
}

fx_simd::wide! {
    fn dot_of[T: Float]((a, b): (&[T], &[T])) -> T {
        dot::<64, T>(a, b)
    }
}

/// The rows up to which dot products are faster than tiles.
const FEW: usize = 12;
/// The length from which they are.
const DOTS: usize = 64;

/// Stores the product of few rows with columns whose elements are neighbours; extents were asserted by the caller.
#[expect(clippy::too_many_arguments, reason = "the field's convention")]
fn few_rows<T: GemmElement>(
    (m, k, n): (usize, usize, usize),
    alpha: T,
    a: &[T],
    (rsa, csa): Strides,
    b: &[T],
    b_stride: usize,
    beta: T,
    c: &mut [T],
    (rsc, csc): Strides,
) {
    let rows: Vec<T> = (0..m * k).map(|i| a[i / k * rsa + i % k * csa]).collect();
    // By columns, so that a column is read once for all rows.
    let mut sums = vec![T::zero(); n * m];
    let columns_at_once = (GRAIN / 8).div_ceil(m * k).max(1);
    parallel::chunks(&mut sums, m * columns_at_once, 1, |i, sums| {
        fx_simd::call::<few_rows_block, _>((
            &rows[..],
            &b[i * columns_at_once * b_stride..],
            b_stride,
            k,
            sums,
        ));
    });
    for (at, &sum) in sums.iter().enumerate() {
        let slot = &mut c[at % m * rsc + at / m * csc];
        *slot = if beta.is_zero() { alpha * sum } else { alpha * sum + beta * *slot };
    }
}

fx_simd::wide! {
    fn few_rows_block[T: GemmElement]((rows, b, stride, k, sums): (&[T], &[T], usize, usize, &mut [T])) {
        let m = rows.len() / k;
        if let Some(tile) = T::tile() {
            for (pair, sums) in sums.chunks_mut(2 * m).enumerate() {
                let cols = sums.len() / m;
                for first in (0..m).step_by(tile.dot_rows) {
                    let n = tile.dot_rows.min(m - first);
                    let dots = tile.dots(n, cols, k, (&rows[first * k..], k), (&b[2 * pair * stride..], stride));
                    for (i, dots) in dots[..n].iter().enumerate() {
                        for (col, &dot) in dots[..cols].iter().enumerate() {
                            sums[col * m + first + i] = dot;
                        }
                    }
                }
            }
            return;
        }
        for (i, sums) in sums.chunks_mut(m).enumerate() {
            let column = &b[i * stride..][..k];
            for (sum, row) in sums.iter_mut().zip(rows.chunks(k)) {
                *sum = dot::<64, T>(row, column);
            }
        }
    }
}

/// Returns the dot product in interleaved sums, a power of two, which are added as a tree.
///
/// 64 are so many that none waits for the step before.
#[inline(always)]
pub fn dot<const LANES: usize, T: Float>(a: &[T], b: &[T]) -> T {
    lanes::dot::<T, LANES>(a, b, T::zero())
}

mod sealed {
    use std::cell::RefCell;
    use std::ops::{Deref, DerefMut, Range};

    use super::tile::{Tile, tile_f32, tile_f64};

    /// The longest buffer that a thread keeps. New memory costs as much as it takes to pack a matrix into it.
    const KEEP: usize = 1 << 21;
    /// The bytes of a line of the cache.
    const LINE: usize = 64;

    /// A buffer with arbitrary values, which the thread keeps for the next time.
    pub(crate) struct Scratch<T: Raw> {
        buffer: Vec<T>,
        range: Range<usize>,
    }

    impl<T: Raw> Scratch<T> {
        /// Takes a buffer of `len` elements.
        pub(crate) fn new(len: usize) -> Scratch<T> {
            let mut buffer = T::kept(Vec::pop).unwrap_or_default();
            // The elements begin at a line of the cache, as vectors had better.
            let line = LINE / size_of::<T>();
            if buffer.len() < len + line {
                buffer.resize(len + line, T::default());
            }
            let first = buffer.as_ptr().align_offset(LINE).min(line);
            Scratch { buffer, range: first..first + len }
        }
    }

    impl<T: Raw> Deref for Scratch<T> {
        type Target = [T];

        fn deref(&self) -> &[T] {
            &self.buffer[self.range.clone()]
        }
    }

    impl<T: Raw> DerefMut for Scratch<T> {
        fn deref_mut(&mut self) -> &mut [T] {
            &mut self.buffer[self.range.clone()]
        }
    }

    impl<T: Raw> Drop for Scratch<T> {
        fn drop(&mut self) {
            if self.range.len() <= KEEP {
                T::kept(|kept| kept.push(std::mem::take(&mut self.buffer)));
            }
        }
    }

    pub trait Raw: Copy + Default {
        /// Calls `f` with the buffers that this thread keeps.
        fn kept<R>(f: impl FnOnce(&mut Vec<Vec<Self>>) -> R) -> R;

        /// Lends a buffer of `len` elements with arbitrary values, which the thread keeps for the next time.
        fn with_scratch<R>(len: usize, f: impl FnOnce(&mut [Self]) -> R) -> R {
            f(&mut Scratch::new(len))
        }

        /// Returns our own innermost loops, if there are some for this machine.
        fn tile() -> Option<&'static Tile<Self>>;

        /// Multiplies through raw pointers.
        ///
        /// # Safety
        ///
        /// Every element that shapes and strides name is valid, and no other thread touches those of `c`.
        #[expect(clippy::too_many_arguments, reason = "the field's convention")]
        unsafe fn raw_gemm(
            m: usize,
            k: usize,
            n: usize,
            alpha: Self,
            a: *const Self,
            sa: (isize, isize),
            b: *const Self,
            sb: (isize, isize),
            beta: Self,
            c: *mut Self,
            sc: (isize, isize),
        );
    }

    macro_rules! raw {
        ($ty:ty, $raw:path, $tile:path) => {
            impl Raw for $ty {
                fn tile() -> Option<&'static Tile<Self>> {
                    $tile()
                }

                fn kept<R>(f: impl FnOnce(&mut Vec<Vec<Self>>) -> R) -> R {
                    thread_local! {
                        static KEPT: RefCell<Vec<Vec<$ty>>> = const { RefCell::new(Vec::new()) };
                    }
                    KEPT.with_borrow_mut(f)
                }

                unsafe fn raw_gemm(
                    m: usize,
                    k: usize,
                    n: usize,
                    alpha: Self,
                    a: *const Self,
                    (rsa, csa): (isize, isize),
                    b: *const Self,
                    (rsb, csb): (isize, isize),
                    beta: Self,
                    c: *mut Self,
                    (rsc, csc): (isize, isize),
                ) {
                    // SAFETY: the caller's promise is what the callee asks for.
                    unsafe { $raw(m, k, n, alpha, a, rsa, csa, b, rsb, csb, beta, c, rsc, csc) }
                }
            }
        };
    }
    raw!(f32, matrixmultiply::sgemm, tile_f32);
    raw!(f64, matrixmultiply::dgemm, tile_f64);
}
