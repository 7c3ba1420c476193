//! Tiles of matrix products: a few rows and columns of the result, which stay in registers while the terms of
//! their sums go by.

use super::simd::Tiled;

/// Where the rows of a right operand begin.
pub trait Rows: Copy {
    /// Returns the place of the next row.
    fn next(&mut self) -> usize;
}

/// The operands of a tile: some rows of the left one, and one or two vectors of columns of the right one.
#[derive(Clone, Copy)]
pub struct Tile<'a, T, R> {
    /// How many rows it has.
    pub height: usize,
    /// Whether its row is the only one of a product. Its terms are added in several sums then, none of which waits
    /// for another.
    pub is_alone: bool,
    /// Whether it has one vector of columns.
    pub is_half: bool,
    /// The left operand from its first row on.
    pub a: &'a [T],
    /// The distance of these rows.
    pub step: usize,
    /// The terms of each sum.
    pub terms: usize,
    /// The right operand from its first column on.
    pub b: &'a [T],
    /// Where its rows begin, one for each term.
    pub rows: R,
}

/// What the sums of a tile begin with.
#[derive(Clone, Copy)]
pub enum First<'a, T> {
    /// Zero.
    Zero,
    /// An element for each column.
    Columns(&'a [T]),
    /// An element for each row.
    Rows(&'a [T]),
    /// What is there.
    Sums,
}

/// The place of a tile: the elements from its first one on, and the distance of its rows.
pub struct Place<'a, T> {
    /// The elements.
    pub data: &'a mut [T],
    /// The distance of rows.
    pub step: usize,
}

/// The heights of tiles on any machine, the tallest first.
pub const PORTABLE: &[usize] = &[4, 2, 1];

/// Multiplies and writes a tile of `WIDE` or `HALF` columns on any machine.
pub fn portable<T: Tiled + Default, R: Rows, const WIDE: usize, const HALF: usize>(
    tile: Tile<'_, T, R>,
    first: First<'_, T>,
    out: Place<'_, T>,
) {
    match (tile.height, tile.is_half) {
        (4, false) => rows_of::<T, R, 4, WIDE>(tile, first, out),
        (2, false) => rows_of::<T, R, 2, WIDE>(tile, first, out),
        (_, false) => rows_of::<T, R, 1, WIDE>(tile, first, out),
        (4, true) => rows_of::<T, R, 4, HALF>(tile, first, out),
        (2, true) => rows_of::<T, R, 2, HALF>(tile, first, out),
        (_, true) => rows_of::<T, R, 1, HALF>(tile, first, out),
    }
}

fn rows_of<T: Tiled + Default, R: Rows, const MR: usize, const NR: usize>(
    tile: Tile<'_, T, R>,
    first: First<'_, T>,
    out: Place<'_, T>,
) {
    let Tile { a, step, terms, b, mut rows, .. } = tile;
    let mut sums = [[T::default(); NR]; MR];
    for (i, sums) in sums.iter_mut().enumerate() {
        match first {
            First::Zero => {}
            First::Columns(first) => sums.copy_from_slice(&first[..NR]),
            First::Rows(first) => sums.fill(first[i]),
            First::Sums => sums.copy_from_slice(&out.data[i * out.step..][..NR]),
        }
    }
    for p in 0..terms {
        let b = &b[rows.next()..][..NR];
        for (i, sums) in sums.iter_mut().enumerate() {
            let a = a[i * step + p];
            sums.iter_mut().zip(b).for_each(|(sum, &b)| *sum = a.multiply_add(b, *sum));
        }
    }
    for (i, sums) in sums.iter().enumerate() {
        out.data[i * out.step..][..NR].copy_from_slice(sums);
    }
}
