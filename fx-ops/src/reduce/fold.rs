//! The loops of reductions: folding elements in a fixed tree, by rows or by columns, and mapping whole rows.
//!
//! Invariant: the tree depends on sizes alone, so that results have the same bits for any number of threads. Its leaves are
//! short and folded in lanes, which is fast and keeps the rounding error of sums small.

use std::ops::Range;

use fx_core::array::Sizes;
use fx_core::{Array, Element, Result, err};
use fx_simd::parallel;

use crate::infer::axis_or_only;
use crate::kernel::chunks::{PARALLEL, blank, fill_rows};

/// Rows shorter than this are folded in fewer lanes.
const SHORT: usize = 1024;
/// Elements of a row that are folded without branching.
const BLOCK: usize = 2048;
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
    // The rows of a block are cut as the tree does it, so that the threads share even a single block.
    let leaf = (SERIAL / inner.min(TILE)).next_multiple_of(ROWS);
    let mut leaves = Vec::new();
    cut(0..n, ROWS, leaf, &mut leaves);
    let mut parts = blank::<A>(outer * leaves.len() * inner)?;
    let run = |i: usize, tile: usize, out: &mut [A]| {
        let (block, leaf) = (i / leaves.len(), i % leaves.len());
        let columns =
            Columns { data: &data[block * n * inner..][..n * inner], width: inner, first: tile * TILE };
        with.columns(&columns, leaves[leaf].clone(), out);
    };
    let lines = parts.chunks_mut(inner).enumerate();
    let tiles =
        lines.flat_map(|(i, line)| line.chunks_mut(TILE).enumerate().map(move |(tile, out)| (i, tile, out)));
    if x.numel() < PARALLEL {
        tiles.for_each(|(i, tile, out)| run(i, tile, out));
    } else if leaf.min(n) * inner.min(TILE) < PARALLEL / 8 {
        // Small blocks: a task has several of them.
        let at_once = (PARALLEL / 8).div_ceil(leaf.min(n) * inner);
        parallel::chunks(&mut parts, inner, at_once, |i, line| {
            line.chunks_mut(TILE).enumerate().for_each(|(tile, out)| run(i, tile, out));
        });
    } else {
        parallel::items(tiles.collect(), |_, (i, tile, out)| run(i, tile, out));
    }
    if leaves.len() == 1 {
        return Ok(parts);
    }
    let mut out = blank::<A>(outer * inner)?;
    for (parts, out) in parts.chunks_mut(leaves.len() * inner).zip(out.chunks_mut(inner)) {
        with.merge_lines(n, leaf, parts, inner);
        out.copy_from_slice(&parts[..inner]);
    }
    Ok(out)
}

/// Returns where the tree splits `len` steps, a multiple of `unit`.
fn middle(len: usize, unit: usize) -> usize {
    (len / 2).next_multiple_of(unit)
}

/// Cuts a range as the tree does, until parts have no more than `leaf` steps.
fn cut(range: Range<usize>, unit: usize, leaf: usize, leaves: &mut Vec<Range<usize>>) {
    if range.len() <= leaf {
        return leaves.push(range);
    }
    let middle = range.start + middle(range.len(), unit);
    cut(range.start..middle, unit, leaf, leaves);
    cut(middle..range.end, unit, leaf, leaves);
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
        let mut leaves = Vec::new();
        cut(0..row.len(), BLOCK, SERIAL - 1, &mut leaves);
        let mut parts = vec![self.init; leaves.len()];
        parallel::chunks(&mut parts, 1, 1, |i, out| out[0] = self.serial(&row[leaves[i].clone()]));
        self.tree(row.len(), &mut parts.into_iter())
    }

    /// Merges the results of the leaves of a row of `len` elements.
    fn tree(&self, len: usize, leaves: &mut impl Iterator<Item = A>) -> A {
        if len < SERIAL {
            return leaves.next().unwrap_or(self.init);
        }
        let middle = middle(len, BLOCK);
        let (left, right) = (self.tree(middle, leaves), self.tree(len - middle, leaves));
        (self.merge)(left, right)
    }

    /// Folds a row by the same tree on this thread.
    fn serial<T: Element>(&self, row: &[T]) -> A
    where
        S: Fn(A, T) -> A,
    {
        if row.len() <= BLOCK {
            return fx_simd::call::<block, _>((self, row));
        }
        let (left, right) = row.split_at(middle(row.len(), BLOCK));
        (self.merge)(self.serial(left), self.serial(right))
    }

    /// Folds a row in `N` lanes, which are merged as a tree. Many lanes are worked on like a short row of their own, so that no step
    /// waits for the one before.
    #[inline(always)]
    fn lanes<T: Element, const N: usize>(&self, row: &[T]) -> A
    where
        S: Fn(A, T) -> A,
    {
        let mut lanes = [self.init; N];
        let (chunks, rest) = row.as_chunks::<N>();
        for chunk in chunks {
            for i in 0..N {
                lanes[i] = (self.step)(lanes[i], chunk[i]);
            }
        }
        for (lane, &x) in lanes.iter_mut().zip(rest) {
            *lane = (self.step)(*lane, x);
        }
        let mut half = N / 2;
        while half > 0 {
            for i in 0..half {
                lanes[i] = (self.merge)(lanes[i], lanes[i + half]);
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
            return fx_simd::call::<lines, _>((self, tile, rows, out));
        }
        let middle = rows.start + middle(rows.len(), ROWS);
        let mut other = vec![self.init; out.len()];
        self.columns(tile, rows.start..middle, out);
        self.columns(tile, middle..rows.end, &mut other);
        out.iter_mut().zip(other).for_each(|(out, x)| *out = (self.merge)(*out, x));
    }

    /// Merges the results of the leaves of `rows` rows, which lie one after the other, into the first; returns how many there were.
    fn merge_lines(&self, rows: usize, leaf: usize, parts: &mut [A], width: usize) -> usize {
        if rows <= leaf {
            return 1;
        }
        let middle = middle(rows, ROWS);
        let left = self.merge_lines(middle, leaf, parts, width);
        let right = self.merge_lines(rows - middle, leaf, &mut parts[left * width..], width);
        let (out, other) = parts.split_at_mut(left * width);
        for (out, &x) in out[..width].iter_mut().zip(&*other) {
            *out = (self.merge)(*out, x);
        }
        left + right
    }
}

fx_simd::wide! {
    /// Folds a short row.
    fn block[A: Element, T: Element, S: Fn(A, T) -> A, M: Fn(A, A) -> A + Sync]((fold, row): (&Fold<A, S, M>, &[T])) -> A {
        if row.len() < SHORT { fold.lanes::<T, 32>(row) } else { fold.lanes::<T, 256>(row) }
    }

    /// Folds few rows into a tile of columns.
    fn lines[A: Element, T: Element, S: Fn(A, T) -> A, M](
        (fold, tile, rows, out): (&Fold<A, S, M>, &Columns<'_, T>, Range<usize>, &mut [A])
    ) {
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
