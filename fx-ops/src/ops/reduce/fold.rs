//! The loops of reductions: folding elements in a fixed tree, by rows or by columns, and mapping whole rows.
//!
//! Invariant: the tree depends on sizes alone, so that results have the same bits for any number of threads.
//! Its leaves are short and folded in lanes, which is fast and keeps the rounding error of sums small.

use std::hint::black_box;
use std::ops::Range;

use fx_core::array::{Sizes, build_blocks};
use fx_core::{Array, Element, Result, err};
use fx_simd::parallel;

use crate::kernel::chunks::{PARALLEL, blank, fill_rows};
use crate::kernel::lanes::{Hidden, narrow, tree_of_last};
use crate::ops::infer::axis_or_only;

/// Rows shorter than this are folded in fewer lanes,
const SHORT: usize = 512;
/// and in fewer yet.
const TINY: usize = 64;
/// Elements of short rows that are folded in one go.
const GROUP: usize = 1 << 13;
/// Elements of a row that are folded without branching.
const BLOCK: usize = 2048;
/// Bytes of rows of which most do not come from a cache nearby,
const FAR: usize = 1 << 18;
/// and how many of the next row are fetched then before a row is folded.
const AHEAD: usize = 1 << 10;
/// Rows that are folded into a tile of columns one after the other.
const ROWS: usize = 128;
/// Elements of a row that one thread folds.
const SERIAL: usize = 1 << 15;
/// Rows that are folded into columns in one go, which spares loads and stores.
const AT_ONCE: usize = 8;
/// Columns of these that are folded one row after the other, in registers.
const PIECE: usize = 64;
/// Rows that a thread folds at least.
const LEAF: usize = 64;
/// The most leaves of a column: the results of all are stored before they are merged.
const LEAVES: usize = 32;
/// Columns that are folded together. Shorter pieces of rows would keep the memory from being read ahead.
const TILE: usize = 1024;

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
///
/// Reduced axes that lie apart are folded one group after the other, the last first, so that nothing is copied.
pub(crate) fn fold<T: Element, A: Element, S, M>(
    x: &Array,
    mask: &[bool],
    with: &Fold<A, S, M>,
) -> Result<Vec<A>>
where
    S: Fn(A, T) -> A + Sync,
    M: Fn(A, A) -> A + Sync,
{
    if !x.is_contiguous() || x.is_empty() {
        let (dense, n_rows, n) = rows(x, mask)?;
        return with.part(slice::<T>(&dense)?, [n_rows, n, 1]);
    }
    let mut groups = groups(x.shape(), mask);
    let mut out = with.part(slice::<T>(x)?, last_reduced(&mut groups))?;
    let rest = Fold { init: with.init, step: &with.merge, merge: &with.merge };
    while groups.iter().any(|(_, reduced)| *reduced) {
        out = rest.part(&out, last_reduced(&mut groups))?;
    }
    Ok(out)
}

/// Returns the sizes of groups of neighbouring axes that are all reduced or all not, by turns.
fn groups(shape: &[usize], mask: &[bool]) -> Vec<(usize, bool)> {
    let mut groups: Vec<(usize, bool)> = Vec::new();
    for (&size, &reduced) in shape.iter().zip(mask).filter(|(size, _)| **size > 1) {
        match groups.last_mut() {
            Some(last) if last.1 == reduced => last.0 *= size,
            _ => groups.push((size, reduced)),
        }
    }
    groups
}

/// Takes the last reduced group away: how often there is one, its size, and how many elements lie in between
/// its steps.
fn last_reduced(groups: &mut Vec<(usize, bool)>) -> [usize; 3] {
    let size = |groups: &[(usize, bool)]| groups.iter().map(|(size, _)| size).product::<usize>();
    let Some(at) = groups.iter().rposition(|(_, reduced)| *reduced) else { return [1, 1, size(groups)] };
    let (n, _) = groups.remove(at);
    [size(&groups[..at]), n, size(&groups[at..])]
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

/// A tile of columns of a matrix.
struct Columns<'a, T> {
    data: &'a [T],
    width: usize,
    first: usize,
}

impl<A: Element, S, M: Fn(A, A) -> A + Sync> Fold<A, S, M> {
    /// Folds the middle one of three axes.
    fn part<T: Element>(&self, data: &[T], [outer, n, inner]: [usize; 3]) -> Result<Vec<A>>
    where
        S: Fn(A, T) -> A + Sync,
    {
        match inner {
            1 if n > BLOCK => fill_rows(outer, 1, n, |row, out| out[0] = self.row(&data[row * n..][..n])),
            1 => {
                let group = GROUP.div_ceil(n.max(1));
                let at_once = if outer * n < PARALLEL { outer } else { 1 };
                build_blocks(outer, group, at_once, &|at, out| {
                    fx_simd::call::<short_rows, _>((self, &data[at * n..][..out.len() * n], out));
                })
            }
            _ => self.all_columns(data, [outer, n, inner]),
        }
    }

    /// Folds the middle one of three axes; the last one is longer than 1.
    fn all_columns<T: Element>(&self, data: &[T], [outer, n, inner]: [usize; 3]) -> Result<Vec<A>>
    where
        S: Fn(A, T) -> A + Sync,
    {
        // The rows of a block are cut as the tree does it, so that the threads share even a single block.
        let leaf = (SERIAL / inner.min(TILE)).max(n / LEAVES).max(LEAF).next_multiple_of(ROWS);
        let mut leaves = Vec::new();
        cut(0..n, ROWS, leaf, &mut leaves);
        let mut parts = blank::<A>(outer * leaves.len() * inner)?;
        let run = |i: usize, tile: usize, out: &mut [A]| {
            let (block, leaf) = (i / leaves.len(), i % leaves.len());
            let columns =
                Columns { data: &data[block * n * inner..][..n * inner], width: inner, first: tile * TILE };
            self.columns(&columns, leaves[leaf].clone(), out);
        };
        let lines = parts.chunks_mut(inner).enumerate();
        let tiles = lines
            .flat_map(|(i, line)| line.chunks_mut(TILE).enumerate().map(move |(tile, out)| (i, tile, out)));
        if data.len() < PARALLEL {
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
            self.merge_lines(n, leaf, parts, inner);
            out.copy_from_slice(&parts[..inner]);
        }
        Ok(out)
    }

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

    /// Folds rows of equal length, one for each element of `out`, on this thread.
    pub(crate) fn fold_rows<T: Element>(&self, data: &[T], out: &mut [A])
    where
        S: Fn(A, T) -> A + Sync,
    {
        let n = data.len() / out.len().max(1);
        if n <= BLOCK {
            return fx_simd::call::<short_rows, _>((self, data, out));
        }
        for (row, out) in data.chunks(n).zip(out) {
            *out = self.serial(row);
        }
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
    pub(crate) fn serial<T: Element>(&self, row: &[T]) -> A
    where
        S: Fn(A, T) -> A,
    {
        if row.len() <= BLOCK {
            return fx_simd::call::<block, _>((self, row));
        }
        let (left, right) = row.split_at(middle(row.len(), BLOCK));
        (self.merge)(self.serial(left), self.serial(right))
    }

    /// Folds a row of at most `BLOCK` elements, in as many lanes as suit its length and fit into registers,
    /// until 16 are left.
    #[inline(always)]
    fn short<T: Element>(&self, row: &[T]) -> [A; 16]
    where
        S: Fn(A, T) -> A,
    {
        match row.len() {
            0..TINY => self.lanes::<T, 16>(row),
            TINY..SHORT => self.lanes::<T, 32>(row),
            _ => self.lanes::<T, 64>(row),
        }
    }

    /// Folds a row in `N` lanes, which are merged as a tree until 16 are left.
    #[inline(always)]
    fn lanes<T: Element, const N: usize>(&self, row: &[T]) -> [A; 16]
    where
        S: Fn(A, T) -> A,
    {
        let mut lanes = [self.init; N];
        let (chunks, mut rest) = row.as_chunks::<N>();
        for chunk in chunks {
            self.steps(&mut lanes, chunk);
        }
        let merge = |a, b| (self.merge)(a, b);
        if N == 64 {
            if rest.is_empty() {
                return narrow(lanes, merge);
            }
            // Lanes that can be counted lie in memory: others than those of the loop before, which is long.
            let mut lanes = black_box(lanes);
            for (lane, &x) in lanes.iter_mut().zip(rest) {
                *lane = (self.step)(*lane, x);
            }
            return narrow(lanes, merge);
        }
        // What is left of a short row goes in parts of known length, which stay in registers.
        self.some::<T, N, 16>(&mut lanes, &mut rest);
        self.some::<T, N, 8>(&mut lanes, &mut rest);
        self.some::<T, N, 4>(&mut lanes, &mut rest);
        self.some::<T, N, 2>(&mut lanes, &mut rest);
        self.some::<T, N, 1>(&mut lanes, &mut rest);
        narrow(lanes, merge)
    }

    #[inline(always)]
    fn steps<T: Element, const N: usize, const K: usize>(&self, lanes: &mut [A; N], chunk: &[T; K])
    where
        S: Fn(A, T) -> A,
    {
        for i in 0..K {
            lanes[i] = (self.step)(lanes[i], chunk[i]);
        }
    }

    /// Folds the first `K` elements of the rest of a row, if there are so many, into the first lanes.
    #[inline(always)]
    fn some<T: Element, const N: usize, const K: usize>(&self, lanes: &mut [A; N], rest: &mut &[T])
    where
        S: Fn(A, T) -> A,
    {
        if K < N
            && let Some((chunk, others)) = rest.split_first_chunk::<K>()
        {
            self.steps(lanes, chunk);
            *rest = others;
        }
    }

    /// Folds the columns of `lines` into those of `out`, in pieces of `N`; takes from both what it has folded
    /// and returns the rest.
    #[inline(always)]
    fn pieces<'a, T: Element, const N: usize>(
        &self,
        lines: &mut [&[T]; AT_ONCE],
        out: &'a mut [A],
    ) -> &'a mut [A]
    where
        S: Fn(A, T) -> A,
    {
        let (pieces, rest) = out.as_chunks_mut::<N>();
        for (i, piece) in pieces.iter_mut().enumerate() {
            let mut sums = *piece;
            for line in &*lines {
                let (chunks, _) = line.as_chunks::<N>();
                self.steps(&mut sums, &chunks[i]);
            }
            *piece = sums;
        }
        if !rest.is_empty() {
            for line in lines {
                *line = &line[line.len() - rest.len()..];
            }
        }
        rest
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

    /// Folds `n` rows, which begin a step apart, into `out`, which is as long as one.
    ///
    /// # Panics
    ///
    /// When they are longer than the data.
    pub(crate) fn join_rows<T: Element>(&self, data: &[T], (n, step): (usize, usize), out: &mut [A])
    where
        S: Fn(A, T) -> A + Sync,
    {
        let tile = Columns { data, width: step, first: 0 };
        fx_simd::call::<more_lines, _>((self, &tile, 0..n, out));
    }

    /// Merges the results of the leaves of `rows` rows, which lie one after the other, into the first;
    /// returns how many there were.
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
    /// Folds a row of at most `BLOCK` elements.
    fn block[A: Element, T: Element, S: Fn(A, T) -> A, M: Fn(A, A) -> A + Sync]((fold, row): (&Fold<A, S, M>, &[T])) -> A {
        let last = black_box(Hidden(fold.short(row)));
        tree_of_last(last.0, |a, b| (fold.merge)(a, b))
    }

    /// Folds rows of at most `BLOCK` elements.
    fn short_rows[A: Element, T: Element, S: Fn(A, T) -> A, M: Fn(A, A) -> A + Sync](
        (fold, data, out): (&Fold<A, S, M>, &[T], &mut [A])
    ) {
        let n = data.len() / out.len().max(1);
        let merge = |a, b| (fold.merge)(a, b);
        if n < TINY {
            for (row, out) in out.iter_mut().enumerate() {
                *out = tree_of_last(fold.short(&data[row * n..][..n]), merge);
            }
            return;
        }
        if n >= SHORT {
            let is_far = size_of_val(data) >= FAR;
            for (row, out) in data.chunks_exact(n).zip(out) {
                if is_far {
                    let next = row.as_ptr_range().end.cast::<u8>();
                    (0..AHEAD).step_by(64).for_each(|at| fx_simd::prefetch_line(next.wrapping_add(at)));
                }
                *out = tree_of_last(black_box(Hidden(fold.short(row))).0, merge);
            }
            return;
        }
        // The last lanes of a row are merged while the next one is read, so that nothing waits for what was
        // just written. Longer rows hide the wait themselves, and what the loop keeps for the next one would
        // only delay its loads.
        let mut rows = data.chunks_exact(n);
        let Some(first) = rows.next() else { return };
        let mut last = Hidden(fold.short(first));
        let Some((end, out)) = out.split_last_mut() else { return };
        for (row, out) in rows.zip(out) {
            let next = Hidden(fold.short(row));
            *out = tree_of_last(black_box(last).0, merge);
            last = next;
        }
        *end = tree_of_last(last.0, merge);
    }

    /// Folds few rows into a tile of columns.
    fn lines[A: Element, T: Element, S: Fn(A, T) -> A, M: Fn(A, A) -> A + Sync](
        (fold, tile, rows, out): (&Fold<A, S, M>, &Columns<'_, T>, Range<usize>, &mut [A])
    ) {
        out.fill(fold.init);
        <more_lines as fx_simd::Wide<_>>::run((fold, tile, rows, out));
    }

    /// As `lines`, after what was folded before.
    fn more_lines[A: Element, T: Element, S: Fn(A, T) -> A, M: Fn(A, A) -> A + Sync](
        (fold, tile, rows, out): (&Fold<A, S, M>, &Columns<'_, T>, Range<usize>, &mut [A])
    ) {
        let n = out.len();
        let line = |row: usize| &tile.data[row * tile.width + tile.first..][..n];
        let whole = rows.start + rows.len() / AT_ONCE * AT_ONCE;
        for first in (rows.start..whole).step_by(AT_ONCE) {
            let mut lines = [&tile.data[..0]; AT_ONCE];
            for (i, slot) in lines.iter_mut().enumerate() {
                *slot = line(first + i);
            }
            // Long pieces of each row are read at a time, which the memory likes better than to jump from row
            // to row.
            let rest = fold.pieces::<T, PIECE>(&mut lines, out);
            let rest = fold.pieces::<T, 16>(&mut lines, rest);
            let rest = fold.pieces::<T, 4>(&mut lines, rest);
            fold.pieces::<T, 1>(&mut lines, rest);
        }
        for row in whole..rows.end {
            for (out, &x) in out.iter_mut().zip(line(row)) {
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
