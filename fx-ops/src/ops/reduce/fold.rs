//! Reductions over axes: elements are joined in a fixed tree, by rows or by columns.
//!
//! Invariant: the tree depends on sizes alone, so that results have the same bits for any number of threads.
//! Its leaves are joined by [`kernel::fold`](crate::kernel::fold). What cuts the work, here, knows the leaves
//! as [`Leaves`] and is compiled once for each type of results.

use std::ops::Range;

use fx_core::array::{Cast, Sizes, build_blocks};
use fx_core::{Array, Element, Result, err};
use fx_simd::{UninitSlice, parallel};

use crate::kernel::chunks::{PARALLEL, blank, fill_rows};
use crate::kernel::fold::{AT_ONCE, BLOCK, Step, join_lines, join_rows};
use crate::ops::infer::axis_or_only;

/// Elements of short rows that are joined in one go.
const GROUP: usize = 1 << 13;
/// Rows that are joined to a tile of columns one after the other.
const ROWS: usize = 128;
/// Elements of a row that one thread joins.
const SERIAL: usize = 1 << 15;
/// Rows that a thread joins at least.
const LEAF: usize = 64;
/// The most leaves of a column: the results of all are stored before they are joined.
const LEAVES: usize = 32;
/// Columns that are joined together. Shorter pieces of rows would keep the memory from being read ahead.
const TILE: usize = 1024;
/// Columns of which converted rows stay in the first cache.
const NARROW: usize = BLOCK / AT_ONCE;

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

/// Joins the axes of `mask` of an array; the results are in the order of the other axes.
///
/// Reduced axes that lie apart are joined one group after the other, the last first, so that nothing is copied.
pub(crate) fn fold<S: Step>(x: &Array, mask: &[bool], step: S) -> Result<Vec<S::State>>
where
    S::Item: Element,
    S::State: Element,
{
    let (dense, groups) = grouped(x, mask)?;
    join_groups(&Direct { data: slice(&dense)?, step }, groups)
}

/// As [`fold`], of the elements after `map`.
pub(crate) fn fold_mapped<T: Element, S: Step>(
    x: &Array,
    mask: &[bool],
    step: S,
    map: impl Fn(T) -> S::Item + Copy + Sync,
) -> Result<Vec<S::State>>
where
    S::State: Element,
{
    let (dense, groups) = grouped(x, mask)?;
    let data = slice::<T>(&dense)?;
    let load = |at: usize, out: &mut [S::Item]| {
        fx_simd::call_256::<map_each, _>((&data[at..][..out.len()], out, map));
    };
    join_groups(&Loaded { load: &load, step }, groups)
}

fx_simd::wide! {
    fn map_each[T: Copy, U, F: Fn(T) -> U]((data, out, map): (&[T], &mut [U], F)) {
        out.iter_mut().zip(data).for_each(|(out, &x)| *out = map(x));
    }
}

/// As [`fold`], of elements that are converted.
pub(crate) fn fold_converted<T: Cast<S::Item>, S: Step>(
    x: &Array,
    mask: &[bool],
    step: S,
) -> Result<Vec<S::State>>
where
    S::Item: Element,
    S::State: Element,
{
    let (dense, groups) = grouped(x, mask)?;
    let data = slice::<T>(&dense)?;
    let load = |at: usize, out: &mut [S::Item]| {
        fx_core::array::convert::<T, S::Item>(&data[at..], UninitSlice::over(out));
    };
    join_groups(&Loaded { load: &load, step }, groups)
}

/// Sizes of neighbouring axes that are all reduced or all not, by turns.
type Groups = Vec<(usize, bool)>;

/// Returns the elements in an order in which they are joined, and the groups of axes.
fn grouped(x: &Array, mask: &[bool]) -> Result<(Array, Groups)> {
    if !x.is_contiguous() || x.is_empty() {
        let (dense, n_rows, n) = rows(x, mask)?;
        return Ok((dense, vec![(n_rows, false), (n, true)]));
    }
    let mut groups = Groups::new();
    for (&size, &reduced) in x.shape().iter().zip(mask).filter(|(size, _)| **size > 1) {
        match groups.last_mut() {
            Some(last) if last.1 == reduced => last.0 *= size,
            _ => groups.push((size, reduced)),
        }
    }
    Ok((x.clone(), groups))
}

/// Takes the last reduced group away: how often there is one, its size, and how many elements lie in between
/// its steps.
fn last_reduced(groups: &mut Groups) -> [usize; 3] {
    let size = |groups: &[(usize, bool)]| groups.iter().map(|(size, _)| size).product::<usize>();
    let Some(at) = groups.iter().rposition(|(_, reduced)| *reduced) else { return [1, 1, size(groups)] };
    let (n, _) = groups.remove(at);
    [size(&groups[..at]), n, size(&groups[at..])]
}

fn join_groups<A: Element>(leaves: &dyn Leaves<A>, mut groups: Groups) -> Result<Vec<A>> {
    let mut out = leaves.part(last_reduced(&mut groups))?;
    while groups.iter().any(|(_, reduced)| *reduced) {
        let next = leaves.over(&out).part(last_reduced(&mut groups))?;
        out = next;
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

/// Elements with a way to join few of them.
pub(crate) trait Leaves<A>: Sync {
    /// Returns the result for no elements.
    fn init(&self) -> A;
    /// Joins two results.
    fn join(&self, a: A, b: A) -> A;
    /// Joins rows of `n` elements, up to [`BLOCK`] and from position `at` on, one for each result.
    fn rows(&self, at: usize, n: usize, out: &mut [A]);
    /// Joins `n_rows` rows, which begin `stride` elements apart from position `at` on, to `out`.
    fn lines(&self, at: usize, stride: usize, n_rows: usize, out: &mut [A]);
    /// Returns how to join results.
    fn over<'a>(&self, results: &'a [A]) -> Box<dyn Leaves<A> + 'a>;
}

/// Elements as they lie.
struct Direct<'a, S: Step> {
    data: &'a [S::Item],
    step: S,
}

impl<S: Step> Leaves<S::State> for Direct<'_, S> {
    fn init(&self) -> S::State {
        S::INIT
    }

    fn join(&self, a: S::State, b: S::State) -> S::State {
        S::join(a, b)
    }

    fn rows(&self, at: usize, n: usize, out: &mut [S::State]) {
        join_rows(self.step, &self.data[at..], n, out);
    }

    fn lines(&self, at: usize, stride: usize, n_rows: usize, out: &mut [S::State]) {
        join_lines(self.step, &self.data[at..], stride, n_rows, out);
    }

    fn over<'a>(&self, results: &'a [S::State]) -> Box<dyn Leaves<S::State> + 'a> {
        Box::new(Direct { data: results, step: S::Join::default() })
    }
}

/// Elements that are made, some at a time, in the first cache.
struct Loaded<'a, S: Step> {
    /// Makes the elements from a position on.
    load: &'a (dyn Fn(usize, &mut [S::Item]) + Sync),
    step: S,
}

impl<S: Step> Leaves<S::State> for Loaded<'_, S> {
    fn init(&self) -> S::State {
        S::INIT
    }

    fn join(&self, a: S::State, b: S::State) -> S::State {
        S::join(a, b)
    }

    fn rows(&self, at: usize, n: usize, out: &mut [S::State]) {
        let mut buffer = [S::Item::default(); BLOCK];
        let at_once = (BLOCK / n.max(1)).max(1);
        for (i, out) in out.chunks_mut(at_once).enumerate() {
            let rows = &mut buffer[..out.len() * n];
            (self.load)(at + i * at_once * n, rows);
            join_rows(self.step, rows, n, out);
        }
    }

    fn lines(&self, at: usize, stride: usize, n_rows: usize, out: &mut [S::State]) {
        let mut buffer = [S::Item::default(); BLOCK];
        for (tile, out) in out.chunks_mut(NARROW).enumerate() {
            let (at, width) = (at + tile * NARROW, out.len());
            for first in (0..n_rows).step_by(AT_ONCE) {
                let n = AT_ONCE.min(n_rows - first);
                for (row, line) in (first..).zip(buffer.chunks_mut(width).take(n)) {
                    (self.load)(at + row * stride, line);
                }
                join_lines(self.step, &buffer, width, n, out);
            }
        }
    }

    fn over<'a>(&self, results: &'a [S::State]) -> Box<dyn Leaves<S::State> + 'a> {
        Box::new(Direct { data: results, step: S::Join::default() })
    }
}

/// Joins a row, on all threads.
pub(crate) fn join_row<S: Step>(step: S, row: &[S::Item]) -> S::State
where
    S::State: Element,
{
    let leaves: &dyn Leaves<S::State> = &Direct { data: row, step };
    leaves.row(0, row.len())
}

/// Joins rows of equal length, one for each element of `out`, on this thread.
pub(crate) fn join_rows_alone<S: Step>(step: S, data: &[S::Item], out: &mut [S::State])
where
    S::State: Element,
{
    let n = data.len() / out.len().max(1);
    if n <= BLOCK {
        return join_rows(step, data, n, out);
    }
    let leaves: &dyn Leaves<S::State> = &Direct { data, step };
    for (row, out) in out.iter_mut().enumerate() {
        *out = leaves.serial(row * n, n);
    }
}

impl<A: Element> dyn Leaves<A> + '_ {
    /// Joins the middle one of three axes.
    fn part(&self, [outer, n, inner]: [usize; 3]) -> Result<Vec<A>> {
        match inner {
            1 if n > BLOCK => fill_rows(outer, 1, n, |row, out| out[0] = self.row(row * n, n)),
            1 => {
                let group = GROUP.div_ceil(n.max(1));
                let at_once = if outer * n < PARALLEL { outer } else { 1 };
                build_blocks(outer, group, at_once, &|at, out| self.rows(at * n, n, out))
            }
            _ => self.all_columns([outer, n, inner]),
        }
    }

    /// Joins the middle one of three axes; the last one is longer than 1.
    fn all_columns(&self, [outer, n, inner]: [usize; 3]) -> Result<Vec<A>> {
        // The rows of a block are cut as the tree does it, so that the threads share even a single block.
        let leaf = (SERIAL / inner.min(TILE)).max(n / LEAVES).max(LEAF).next_multiple_of(ROWS);
        let mut leaves = Vec::new();
        cut(0..n, ROWS, leaf, &mut leaves);
        let mut parts = blank::<A>(outer * leaves.len() * inner)?;
        let run = |i: usize, tile: usize, out: &mut [A]| {
            let (block, leaf) = (i / leaves.len(), &leaves[i % leaves.len()]);
            self.columns((block * n + leaf.start) * inner + tile * TILE, inner, leaf.len(), out);
        };
        let lines = parts.chunks_mut(inner).enumerate();
        let tiles = lines
            .flat_map(|(i, line)| line.chunks_mut(TILE).enumerate().map(move |(tile, out)| (i, tile, out)));
        if outer * n * inner < PARALLEL {
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
            self.merge(n, leaf, parts, inner);
            out.copy_from_slice(&parts[..inner]);
        }
        Ok(out)
    }

    /// Joins a row of `len` elements from position `at` on.
    fn row(&self, at: usize, len: usize) -> A {
        if len < SERIAL {
            return self.serial(at, len);
        }
        let mut leaves = Vec::new();
        cut(0..len, BLOCK, SERIAL - 1, &mut leaves);
        let mut parts = vec![self.init(); leaves.len()];
        parallel::chunks(&mut parts, 1, 1, |i, out| {
            out[0] = self.serial(at + leaves[i].start, leaves[i].len());
        });
        self.tree(len, SERIAL - 1, &mut parts.iter())
    }

    /// Joins the results of the leaves, of at most `leaf` elements, of a row of `len` elements.
    fn tree(&self, len: usize, leaf: usize, leaves: &mut std::slice::Iter<'_, A>) -> A {
        if len <= leaf {
            return leaves.next().copied().unwrap_or(self.init());
        }
        let middle = middle(len, BLOCK);
        let (left, right) = (self.tree(middle, leaf, leaves), self.tree(len - middle, leaf, leaves));
        self.join(left, right)
    }

    /// Joins a row by the same tree on this thread.
    fn serial(&self, at: usize, len: usize) -> A {
        if len >= SERIAL {
            let middle = middle(len, BLOCK);
            return self.join(self.serial(at, middle), self.serial(at + middle, len - middle));
        }
        // The leaves of the tree are blocks one after the other, of which the last may be shorter.
        let mut parts = [self.init(); SERIAL / BLOCK];
        let (whole, rest) = (len / BLOCK, len % BLOCK);
        self.rows(at, BLOCK, &mut parts[..whole]);
        if rest > 0 || whole == 0 {
            self.rows(at + whole * BLOCK, rest, &mut parts[whole..=whole]);
        }
        self.tree(len, BLOCK, &mut parts.iter())
    }

    /// Joins `n_rows` rows, which begin `stride` elements apart from position `at` on.
    fn columns(&self, at: usize, stride: usize, n_rows: usize, out: &mut [A]) {
        if n_rows <= ROWS {
            out.fill(self.init());
            return self.lines(at, stride, n_rows, out);
        }
        let middle = middle(n_rows, ROWS);
        let mut other = vec![self.init(); out.len()];
        self.columns(at, stride, middle, out);
        self.columns(at + middle * stride, stride, n_rows - middle, &mut other);
        self.over(&other).lines(0, other.len(), 1, out);
    }

    /// Joins the results of the leaves of `rows` rows, which lie one after the other, to the first; returns how
    /// many there were.
    fn merge(&self, rows: usize, leaf: usize, parts: &mut [A], width: usize) -> usize {
        if rows <= leaf {
            return 1;
        }
        let middle = middle(rows, ROWS);
        let left = self.merge(middle, leaf, parts, width);
        let right = self.merge(rows - middle, leaf, &mut parts[left * width..], width);
        let (out, other) = parts.split_at_mut(left * width);
        self.over(other).lines(0, width, 1, &mut out[..width]);
        left + right
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
