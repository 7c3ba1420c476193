//! The loops of reductions: folding elements in a fixed tree, by rows or by columns, and mapping whole rows.
//!
//! Invariant: the tree depends on sizes alone, so that results have the same bits for any number of threads. Its leaves are
//! short and folded in lanes, which is fast and keeps the rounding error of sums small.

use std::ops::Range;

use fx_core::array::Sizes;
use fx_core::{Array, Element, Result, err};
use rayon::prelude::*;

use crate::infer::axis_or_only;
use crate::kernel::chunks::{PARALLEL, blank, fill_rows};

const LANES: usize = 64;
/// Elements of a row that are folded without branching.
const BLOCK: usize = 512;
/// Rows that are folded into a tile of columns one after the other.
const ROWS: usize = 32;
/// Elements of a row that one thread folds.
const SERIAL: usize = 1 << 15;
/// Columns that are folded together.
const TILE: usize = 512;

/// A way to fold elements of `T` into `A`: the value for no elements, a step, and how two results merge.
pub(crate) struct Fold<A, S, M> {
    pub(crate) init: A,
    pub(crate) step: S,
    pub(crate) merge: M,
}

/// Returns `x` with the axes of `mask` last and in row-major order, the number of rows and their length.
pub(crate) fn rows(x: &Array, mask: &[bool]) -> Result<(Array, usize, usize)> {
    let order = |reduced: bool| (0..x.rank()).filter(move |&axis| mask[axis] == reduced);
    let axes: Vec<usize> = order(false).chain(order(true)).collect();
    let size = |reduced: bool| order(reduced).map(|axis| x.shape()[axis]).product();
    Ok((x.permute(&axes)?.contiguous()?, size(false), size(true)))
}

/// Returns the elements of a contiguous array.
pub(crate) fn slice<T: Element>(x: &Array) -> Result<&[T]> {
    x.as_slice::<T>().ok_or_else(|| err!(DType, "expected contiguous {}, got {}", T::DTYPE, x.describe()))
}

/// Maps each row of the reduced axes to an element; in the order of the other axes.
pub(crate) fn map_rows<T: Element, O: Element>(
    x: &Array,
    mask: &[bool],
    map: impl Fn(&[T]) -> O + Sync,
) -> Result<Vec<O>> {
    let (dense, n_rows, n) = rows(x, mask)?;
    let data = slice::<T>(&dense)?;
    fill_rows(n_rows, 1, n, |row, out| out[0] = map(&data[row * n..(row + 1) * n]))
}

/// Folds the axes of `mask` of an array; the results are in the order of the other axes.
pub(crate) fn fold<T: Element, A: Element, S, M>(
    x: &Array,
    mask: &[bool],
    with: &Fold<A, S, M>,
) -> Result<Vec<A>>
where
    S: Fn(A, T) -> A + Sync,
    M: Fn(A, A) -> A + Sync,
{
    let Some([outer, n, inner]) = columns_of(x, mask) else {
        return map_rows(x, mask, |row| with.row(row));
    };
    let data = slice::<T>(x)?;
    let mut out = blank::<A>(outer * inner)?;
    let run = |(i, out): (usize, &mut [A])| {
        let tiles = inner.div_ceil(TILE);
        let (block, tile) = (i / tiles, i % tiles);
        let columns =
            Columns { data: &data[block * n * inner..][..n * inner], width: inner, first: tile * TILE };
        with.columns(&columns, 0..n, out);
    };
    // Tiles never cross the end of a block: each block is cut by itself.
    let tiles = out.chunks_mut(inner).flat_map(|block| block.chunks_mut(TILE)).enumerate();
    if x.numel() < PARALLEL {
        tiles.for_each(run);
    } else {
        tiles.collect::<Vec<_>>().into_par_iter().for_each(run);
    }
    Ok(out)
}

/// Returns `[outer, reduced, inner]` if the array is contiguous and falls apart like that, with several inner elements.
fn columns_of(x: &Array, mask: &[bool]) -> Option<[usize; 3]> {
    if !x.is_contiguous() || x.is_empty() {
        return None;
    }
    let reduced = |axis: &usize| mask[*axis] && x.shape()[*axis] > 1;
    let first = (0..x.rank()).find(reduced)?;
    let last = (0..x.rank()).rfind(reduced)?;
    let size = |axes: Range<usize>| x.shape()[axes].iter().product::<usize>();
    let whole = (first..=last).all(|axis| mask[axis] || x.shape()[axis] == 1);
    let inner = size(last + 1..x.rank());
    (whole && inner > 1).then(|| [size(0..first), size(first..last + 1), inner])
}

/// A tile of columns of a matrix.
struct Columns<'a, T> {
    data: &'a [T],
    width: usize,
    first: usize,
}

impl<A: Element, S, M: Fn(A, A) -> A + Sync> Fold<A, S, M> {
    /// Folds a row.
    pub(crate) fn row<T: Element>(&self, row: &[T]) -> A
    where
        S: Fn(A, T) -> A + Sync,
    {
        if row.len() < SERIAL {
            return self.serial(row);
        }
        let (left, right) = row.split_at((row.len() / 2).next_multiple_of(BLOCK));
        let (left, right) = rayon::join(|| self.row(left), || self.row(right));
        (self.merge)(left, right)
    }

    /// Folds a row by the same tree on this thread.
    fn serial<T: Element>(&self, row: &[T]) -> A
    where
        S: Fn(A, T) -> A,
    {
        if row.len() <= BLOCK {
            return fx_simd::call(Self::block, (self, row));
        }
        let (left, right) = row.split_at((row.len() / 2).next_multiple_of(BLOCK));
        (self.merge)(self.serial(left), self.serial(right))
    }

    #[inline(always)]
    fn block<T: Element>((fold, row): (&Self, &[T])) -> A
    where
        S: Fn(A, T) -> A,
    {
        let mut lanes = [fold.init; LANES];
        let (chunks, rest) = row.as_chunks::<LANES>();
        for chunk in chunks {
            for i in 0..LANES {
                lanes[i] = (fold.step)(lanes[i], chunk[i]);
            }
        }
        for (lane, &x) in lanes.iter_mut().zip(rest) {
            *lane = (fold.step)(*lane, x);
        }
        let mut half = LANES / 2;
        while half > 0 {
            for i in 0..half {
                lanes[i] = (fold.merge)(lanes[i], lanes[i + half]);
            }
            half /= 2;
        }
        lanes[0]
    }

    fn columns<T: Element>(&self, tile: &Columns<'_, T>, rows: Range<usize>, out: &mut [A])
    where
        S: Fn(A, T) -> A + Sync,
    {
        if rows.len() <= ROWS {
            return fx_simd::call(Self::lines, (self, tile, rows, out));
        }
        let middle = rows.start + (rows.len() / 2).next_multiple_of(ROWS);
        let (upper, lower) = (rows.start..middle, middle..rows.end);
        let mut other = vec![self.init; out.len()];
        if rows.len() * out.len() < PARALLEL {
            self.columns(tile, upper, out);
            self.columns(tile, lower, &mut other);
        } else {
            rayon::join(|| self.columns(tile, upper, out), || self.columns(tile, lower, &mut other));
        }
        out.iter_mut().zip(other).for_each(|(out, x)| *out = (self.merge)(*out, x));
    }

    /// Folds few rows into a tile of columns.
    #[inline(always)]
    fn lines<T: Element>((fold, tile, rows, out): (&Self, &Columns<'_, T>, Range<usize>, &mut [A]))
    where
        S: Fn(A, T) -> A,
    {
        out.fill(fold.init);
        for row in rows {
            let line = &tile.data[row * tile.width + tile.first..][..out.len()];
            for (out, &x) in out.iter_mut().zip(line) {
                *out = (fold.step)(*out, x);
            }
        }
    }
}

/// An array as rows along one axis, and the way back.
pub(crate) struct Lines {
    dense: Array,
    shape: Sizes,
    at: usize,
    /// The number of rows.
    pub(crate) n_rows: usize,
    /// The length of a row.
    pub(crate) n: usize,
}

impl Lines {
    /// Makes the rows along the axis `dim`; rank 0 is one row of one element.
    pub(crate) fn new(x: &Array, dim: i64) -> Result<Lines> {
        let at = axis_or_only(dim, x.rank())?;
        let mut mask = vec![false; x.rank()];
        if let Some(reduced) = mask.get_mut(at) {
            *reduced = true;
        }
        let (dense, n_rows, n) = rows(x, &mask)?;
        Ok(Lines { dense, shape: x.shape().into(), at, n_rows, n })
    }

    /// Returns the rows one after the other.
    pub(crate) fn data<T: Element>(&self) -> Result<&[T]> {
        slice(&self.dense)
    }

    /// Makes an array of rows of `width`, with the axis back in its place.
    pub(crate) fn restore<T: Element>(&self, data: Vec<T>, width: usize) -> Result<Array> {
        if self.shape.is_empty() {
            return Array::from_vec(data, &self.shape);
        }
        let mut shape = self.shape.clone();
        shape.remove(self.at);
        shape.push(width);
        let mut axes: Vec<usize> = (0..shape.len() - 1).collect();
        axes.insert(self.at, shape.len() - 1);
        Array::from_vec(data, &shape)?.permute(&axes)?.contiguous()
    }

    /// Makes an array of one element a row, with the axis as of size 1 or gone.
    pub(crate) fn reduce<T: Element>(&self, data: Vec<T>, keepdim: bool) -> Result<Array> {
        let mut shape = self.shape.clone();
        if !shape.is_empty() {
            if keepdim {
                shape[self.at] = 1;
            } else {
                shape.remove(self.at);
            }
        }
        Array::from_vec(data, &shape)
    }
}
