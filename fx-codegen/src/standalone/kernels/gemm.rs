//! Matrix products: `out[m, n] = a[m, k] * b[k, n]`, tile by tile. A tile of the result stays in registers while
//! the rows of `b` go by.

use core::ops::Range;

use super::math::Real;
use super::row::dot;
use super::simd::{Tiled, heights, simd, width};
use super::threads::{split, split_outer};
pub use super::tile::Rows;
use super::tile::{First, Place, Tile};

/// The most terms of a sum that a tile adds before it is stored.
const TERMS: usize = 512;
/// The rows of `a` that are brought into order at a time.
const ROWS: usize = 96;
/// The widest tile that any machine uses.
pub const WIDEST: usize = 32;
/// The elements of the largest tile.
pub const SUMS: usize = 12 * WIDEST;

/// Returns how many elements [`gemm`] needs for a tile, and to bring parts of its operands into order.
pub const fn work(m: usize, k: usize) -> usize {
    let terms = if k < TERMS { k } else { TERMS };
    SUMS + terms * (WIDEST + if m < ROWS { m } else { ROWS })
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

/// A right operand that was brought into order when it was loaded: columns that a tile has side by side
/// follow each other row by row.
#[derive(Clone, Copy)]
pub struct Packed<'a, T>(pub &'a [T]);

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

/// Elements of products.
pub trait Fused: Real + Tiled + Send + Sync {}

impl<T: Real + Tiled + Send + Sync> Fused for T {}

/// Rows that lie equally far apart.
#[derive(Clone, Copy)]
pub struct Even {
    next: usize,
    step: usize,
}

impl Even {
    /// Makes rows that lie so far apart, the first at 0.
    pub fn by(step: usize) -> Even {
        Even { next: 0, step }
    }
}

impl Rows for Even {
    #[inline(always)]
    fn next(&mut self) -> usize {
        let at = self.next;
        self.next += self.step;
        at
    }
}

/// A right operand.
pub trait Right<T>: Copy + Sync {
    /// How the rows of a part lie.
    type Rows: Rows;

    /// Returns these rows and columns, with as many elements side by side as a tile has; `room` is for a copy.
    fn part<'s>(
        &'s self,
        sizes: Sizes,
        rows: Range<usize>,
        columns: Range<usize>,
        room: &'s mut [T],
    ) -> (&'s [T], Self::Rows);

    /// Returns the operand from a column on, which is a multiple of the width of tiles if it was packed.
    fn columns(self, k: usize, from: usize) -> Self;

    /// Computes the product if another way than tiles is better.
    fn without_tiles(self, _sizes: Sizes, _a: Matrix<'_, T>, _start: Start<'_, T>, _out: &mut [T]) -> bool {
        false
    }
}

/// The most rows for which a right operand is read where it lies.
const FEW: usize = 96;

impl<T: Fused> Right<T> for Matrix<'_, T> {
    type Rows = Even;

    #[inline(always)]
    fn part<'s>(
        &'s self,
        Sizes { m, .. }: Sizes,
        rows: Range<usize>,
        columns: Range<usize>,
        room: &'s mut [T],
    ) -> (&'s [T], Even) {
        let data = &self.data[rows.start * self.row + columns.start * self.column..];
        let (wide, width) = (width::<T>(), columns.len());
        // What is read behind the columns of a tile is not kept.
        let is_there = self.column == 1 && data.len() >= (rows.len() - 1) * self.row + wide;
        if is_there && m <= FEW {
            return (data, Even::by(self.row));
        }
        for (p, row) in room.chunks_exact_mut(wide).take(rows.len()).enumerate() {
            let (row, rest) = row.split_at_mut(width);
            let data = &data[p * self.row..];
            match self.column {
                1 => row.copy_from_slice(&data[..width]),
                step => row.iter_mut().enumerate().for_each(|(j, out)| *out = data[j * step]),
            }
            rest.fill(T::ZERO);
        }
        (room, Even::by(wide))
    }

    fn columns(self, _k: usize, from: usize) -> Self {
        self.from(0, from)
    }

    fn without_tiles(
        self,
        Sizes { m, n, k }: Sizes,
        a: Matrix<'_, T>,
        start: Start<'_, T>,
        out: &mut [T],
    ) -> bool {
        // Each element of a matrix is used once or twice, where it lies.
        let is_dot = k > 0 && a.column == 1 && self.row == 1 && (m <= 2 || n <= 2);
        if is_dot {
            dots(Sizes { m, n, k }, a, self, start, out);
        }
        is_dot
    }
}

impl<T: Fused> Right<T> for Packed<'_, T> {
    type Rows = Even;

    #[inline(always)]
    fn part<'s>(
        &'s self,
        Sizes { k, .. }: Sizes,
        rows: Range<usize>,
        columns: Range<usize>,
        _room: &'s mut [T],
    ) -> (&'s [T], Even) {
        let wide = width::<T>();
        (&self.0[columns.start * k + rows.start * wide..], Even::by(wide))
    }

    fn columns(self, k: usize, from: usize) -> Self {
        Packed(&self.0[from * k..])
    }
}

/// Where the columns of a tile go in the rows of the result.
pub trait Columns: Copy + Sync {
    /// Returns where a column goes, if it is kept, and how many of the next `most` do or do not follow it.
    fn run(self, column: usize, most: usize) -> (Option<usize>, usize);
}

/// Columns that go where they are counted.
#[derive(Clone, Copy)]
pub struct InOrder;

impl Columns for InOrder {
    #[inline(always)]
    fn run(self, column: usize, most: usize) -> (Option<usize>, usize) {
        (Some(column), most)
    }
}

/// Adds the sums of a tile to the result, or to `start` if they are the first part.
#[inline(always)]
fn store<T: Fused, C: Columns>(
    sums: &[T],
    wide: usize,
    (i, j): (usize, usize),
    width: usize,
    columns: C,
    start: Option<Start<'_, T>>,
    (out, out_row): (&mut [T], usize),
) {
    let mut first = 0;
    while first < width {
        let (to, len) = columns.run(j + first, width - first);
        let range = first..first + len;
        first += len;
        let Some(to) = to else { continue };
        for (r, sums) in (i..).zip(sums.chunks_exact(wide)) {
            let sums = &sums[range.clone()];
            let out = &mut out[r * out_row + to..][..len];
            match start {
                None => out.iter_mut().zip(sums).for_each(|(out, &x)| *out = *out + x),
                Some(Start::Zero) => out.copy_from_slice(sums),
                Some(Start::Rows(start)) => {
                    let start = start[r];
                    out.iter_mut().zip(sums).for_each(|(out, &x)| *out = x + start);
                }
                Some(Start::Columns(start)) => {
                    let start = &start[to..][..len];
                    out.iter_mut().zip(sums).zip(start).for_each(|((out, &x), &start)| *out = x + start);
                }
            }
        }
    }
}

simd! {
    /// Computes `start + a * b` tile by tile, as [`place`] does, on this thread. `work` holds what [`work`] says.
    pub fn tiles<T: Fused, B: Right<T>, C: Columns>(
        sizes: Sizes,
        a: Matrix<'_, T>,
        b: B,
        columns: C,
        out_row: usize,
        start: Start<'_, T>,
        work: &mut [T],
        out: &mut [T],
    ) {
        // The rows here are perhaps those of one thread; what is decided by `sizes.m` is the same for all.
        let (Sizes { n, k, .. }, m) = (sizes, out.len().div_ceil(out_row));
        if k == 0 {
            for (i, row) in out.chunks_mut(out_row).enumerate() {
                match start {
                    Start::Zero => row[..n].fill(T::ZERO),
                    Start::Columns(start) => row[..n].copy_from_slice(&start[..n]),
                    Start::Rows(start) => row[..n].fill(start[i]),
                }
            }
        }
        let (wide, heights) = (width::<T>(), heights());
        let (sums, work) = work.split_at_mut(SUMS);
        let (room, ordered) = work.split_at_mut(work.len().min(k.min(TERMS) * wide));
        let step = if a.column == 1 { m.max(1) } else { ROWS };
        for p in (0..k).step_by(TERMS) {
            let terms = TERMS.min(k - p);
            let start = (p == 0).then_some(start);
            for i0 in (0..m).step_by(step) {
                let n_rows = step.min(m - i0);
                let mut a = a.from(i0, p);
                if a.column != 1 {
                    for (r, row) in ordered.chunks_exact_mut(terms).take(n_rows).enumerate() {
                        let from = &a.data[r * a.row..];
                        row.iter_mut().enumerate().for_each(|(p, out)| *out = from[p * a.column]);
                    }
                    a = Matrix { data: &*ordered, row: terms, column: 1 };
                }
                let out = &mut out[i0 * out_row..];
                let start = start.map(|start| start.from(i0, 0));
                for j in (0..n).step_by(wide) {
                    let width = wide.min(n - j);
                    let (b, rows) = b.part(sizes, p..p + terms, j..j + width, room);
                    let is_half = 2 * width <= wide;
                    let wide = if is_half { wide / 2 } else { wide };
                    // The tallest tile that fits, again and again.
                    let mut i = 0;
                    for &tall in heights {
                        while n_rows - i >= tall {
                            let a = Matrix { data: &a.data[i * a.row..], ..a };
                            let (height, step, is_alone) = (tall, a.row, sizes.m == 1);
                            let tile = Tile { height, is_alone, is_half, a: a.data, step, terms, b, rows };
                            match columns.run(j, wide) {
                                (Some(to), len) if len == wide && width == wide => {
                                    let first = match start {
                                        None => First::Sums,
                                        Some(Start::Zero) => First::Zero,
                                        Some(Start::Columns(start)) => First::Columns(&start[j..]),
                                        Some(Start::Rows(start)) => First::Rows(&start[i..]),
                                    };
                                    let data = &mut out[i * out_row + to..];
                                    T::multiply(tile, first, Place { data, step: out_row });
                                }
                                _ => {
                                    let sums = &mut sums[..tall * wide];
                                    T::multiply(tile, First::Zero, Place { data: &mut *sums, step: wide });
                                    store(sums, wide, (i, j), width, columns, start, (&mut *out, out_row));
                                }
                            }
                            i += tall;
                        }
                    }
                }
            }
        }
    }
}

simd! {
    /// Computes `start + a * b`, where terms follow each other in both, element by element.
    fn dots<T: Fused>(sizes: Sizes, a: Matrix<'_, T>, b: Matrix<'_, T>, start: Start<'_, T>, out: &mut [T]) {
        let Sizes { n, k, .. } = sizes;
        for (i, row) in out.chunks_exact_mut(n).enumerate() {
            for (j, out) in row.iter_mut().enumerate() {
                let x = dot(&a.data[i * a.row..][..k], &b.data[j * b.column..][..k]);
                *out = match start {
                    Start::Zero => x,
                    Start::Columns(start) => x + start[j],
                    Start::Rows(start) => x + start[i],
                };
            }
        }
    }
}

/// Computes `start + a * b`, with parts of the rows on each thread; the columns go to the places that `columns`
/// says, in rows of `out_row` elements. `work` holds what [`work`] says.
#[allow(clippy::too_many_arguments, reason = "the sizes of a kernel are its arguments")]
pub fn place<T: Fused, B: Right<T>, C: Columns>(
    sizes: Sizes,
    a: Matrix<'_, T>,
    b: B,
    columns: C,
    out_row: usize,
    start: Start<'_, T>,
    work: &mut [T],
    out: &mut [T],
) {
    split(sizes.n.saturating_mul(sizes.k), out_row, out, work, |row, out, work| {
        tiles(sizes, a.from(row, 0), b, columns, out_row, start.from(row, 0), work, out);
    });
}

/// Computes `start + a * b`. `work` holds what [`work`] says.
pub fn gemm<T: Fused, B: Right<T>>(
    sizes: Sizes,
    a: Matrix<'_, T>,
    b: B,
    start: Start<'_, T>,
    work: &mut [T],
    out: &mut [T],
) {
    let Sizes { m, n, k } = sizes;
    if m == 0 || n == 0 {
        return;
    }
    if m == 1 && k > 0 {
        split(k * width::<T>(), width::<T>(), out, work, |panel, out, work| {
            let from = panel * width::<T>();
            let (b, sizes) = (b.columns(k, from), Sizes { m: 1, n: out.len(), k });
            let start = start.from(0, from);
            if !b.without_tiles(sizes, a, start, out) {
                tiles(sizes, a, b, InOrder, out.len(), start, work, out);
            }
        });
    } else if !b.without_tiles(sizes, a, start, out) {
        place(sizes, a, b, InOrder, n, start, work, out);
    }
}

/// Multiplies the rows of a matrix by a matrix for each group of them; `ends` are the rows behind the groups, and
/// the matrices lie `b_step` apart. Rows behind all groups become zeros.
pub fn grouped<T: Fused>(
    ends: &[i64],
    sizes: Sizes,
    a: Matrix<'_, T>,
    b: Matrix<'_, T>,
    b_step: usize,
    work: &mut [T],
    out: &mut [T],
) -> Result<(), &'static str> {
    let Sizes { m, n, k } = sizes;
    out.fill(T::ZERO);
    let mut start = 0;
    for (group, &end) in ends.iter().enumerate() {
        let end = usize::try_from(end).ok().filter(|end| (start..=m).contains(end));
        let end = end.ok_or("offsets of groups that do not rise, or go beyond the rows")?;
        if end > start && n > 0 && k > 0 {
            let b = Matrix { data: &b.data[group * b_step..], ..b };
            let part = &mut out[start * n..end * n];
            gemm(Sizes { m: end - start, n, k }, a.from(start, 0), b, Start::Zero, work, part);
        }
        start = end;
    }
    Ok(())
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
