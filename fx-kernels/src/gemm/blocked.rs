//! Matrix products in blocks that fit into caches, from operands that are packed in the order in which they
//! are read.
//!
//! The right operand is cut into slivers of as many columns as a tile has, the left one into strips of as
//! many rows. `k` is cut into blocks by its size alone, and elements of a tile are summed in order, so that a
//! bit depends neither on the number of threads nor on where a tile lies.

use std::marker::PhantomData;
use std::ops::Range;

use fx_simd::parallel;

use super::tile::{Next, Operands, ROW, Tile, TileEpilogue};
use super::{GemmElement, Scratch, Strides, work};

/// The greatest steps of `k` that are done at a time: a sliver of them fits into the first cache beside the
/// strip that is multiplied.
const K_BLOCK: usize = 256;
/// As [`K_BLOCK`], for a single row, which needs nothing to stay in a cache.
const ROW_BLOCK: usize = 4096;
/// The multiply-adds of a task.
const TASK: usize = 1 << 20;
/// The bytes of a task's part of the packed left operand that are read again for each sliver: they stay in
/// the second cache.
const LEFT_BYTES: usize = 1 << 18;
/// The bytes of strips that a thread packs for all steps of `k`.
const OWN_BYTES: usize = 1 << 22;
/// The multiply-adds of a thread in a block of `k` from which all threads finish it before the next, which
/// reads the right operand from nearer caches.
const BLOCK_WORK: usize = 1 << 26;
/// As often as the right operand must be read by tasks of different rows for that to pay.
const REREAD: usize = 3;

/// The slivers of a part with long rows.
const WIDE: usize = 12;

/// The bytes of the right operand that are packed at a time.
const RIGHT_BYTES: usize = 1 << 22;

/// The left operand of a product.
pub enum Left<'a, T> {
    /// Rows and columns at these strides. Each thread packs what it multiplies next, where that pays.
    Strided(&'a [T], Strides),
    /// Packed by [`Product::pack_left`].
    Packed(&'a [T]),
}

/// Strips that can be read.
enum Strips<'a, T> {
    /// At these strides.
    Strided(&'a [T], Strides),
    /// Packed, from this strip and for these steps of `k`.
    Packed(&'a [T], usize, Range<usize>),
}

/// The strips that a thread has packed last.
struct Own<T: GemmElement> {
    packed: Scratch<T>,
    /// The first one, and the first step of `k`.
    held: Option<(usize, usize)>,
}

/// The right operand of a product.
pub enum Right<'a, T> {
    /// Whose columns are packed part by part: the function writes those from a column on into a sliver, row
    /// by row. What it does not write has an arbitrary value, and is for columns beyond the last one.
    Columns(&'a (dyn Fn(usize, &mut [T]) + Sync)),
    /// Rows of neighbouring elements at this stride, read in place.
    Rows(&'a [T], usize),
    /// All slivers, packed by [`Product::packed_right`].
    Packed(&'a [T]),
}

/// Slivers that can be read: where one begins, and the stride of its rows.
struct Slivers<'a, T> {
    packed: &'a [T],
    /// The first packed one.
    first: usize,
    rows: Option<(&'a [T], usize)>,
}

/// Where the result goes.
pub struct Output<'a, T> {
    start: *mut T,
    strides: Strides,
    this: PhantomData<&'a mut [T]>,
}

// SAFETY: tasks write disjoint elements of what was borrowed exclusively.
unsafe impl<T: Send> Sync for Output<'_, T> {}

impl<'a, T> Output<'a, T> {
    /// Takes the elements `i * strides.0 + j * strides.1`, which must be distinct and lie in the slice for
    /// all rows and columns.
    pub fn new(c: &'a mut [T], strides: Strides) -> Output<'a, T> {
        Output { start: c.as_mut_ptr(), strides, this: PhantomData }
    }

    /// Takes these elements from an address on, which must be there and nobody else's wherever it is written.
    pub fn starting(start: *mut T, strides: Strides) -> Output<'a, T> {
        Output { start, strides, this: PhantomData }
    }

    /// Returns where an element goes.
    pub fn at(&self, row: usize, column: usize) -> *mut T {
        self.start.wrapping_add(row * self.strides.0 + column * self.strides.1)
    }
}

/// Packs slivers of this length, whose other elements are zeros already.
pub(crate) fn pack_slivers<T: GemmElement>(
    packed: &mut [T],
    len: usize,
    fill: &(dyn Fn(usize, &mut [T]) + Sync),
) {
    parallel::chunks(packed, len, (TASK / 32).div_ceil(len.max(1)), fill);
}

/// Packs slivers of this length, each in the place of what it is made of.
pub(crate) fn pack_in_place<T: GemmElement>(
    operand: &mut [T],
    len: usize,
    fill: &(dyn Fn(&[T], &mut [T]) + Sync),
) {
    pack_slivers(operand, len, &|_, out| {
        T::with_scratch(out.len(), |from| {
            from.copy_from_slice(out);
            fill(from, out);
        });
    });
}

/// What is called with complete rows and columns.
pub type Done<'a> = dyn Fn(Range<usize>, Range<usize>) + Sync + 'a;

/// The sizes of a product, and what goes into it besides the operands.
#[derive(Clone, Copy)]
pub struct Product<T: 'static> {
    /// The loops for full tiles.
    pub tile: &'static Tile<T>,
    /// The rows of the left operand and the result.
    pub m: usize,
    /// The columns of the left operand, and the rows of the right one.
    pub k: usize,
    /// The columns of the right operand and the result.
    pub n: usize,
    /// The factor of the product.
    pub alpha: T,
    /// The factor of the result before; with zero, the result is not read.
    pub beta: T,
    /// Whether threads share the work.
    pub shared: bool,
    /// Whether parts of the result should have long rows.
    pub wide_parts: bool,
}

impl<T: GemmElement> Product<T> {
    /// Returns whether to pack the left operand, which has these strides, pays. Rows of neighbours are read
    /// about as fast as packed ones, unless they are a power of two apart and push each other out of the
    /// first cache.
    pub fn packs_left(&self, (rs, cs): Strides) -> bool {
        const PAGE: usize = 4096;
        const FEW: usize = 4;
        let slivers = match cs {
            1 if (rs * size_of::<T>()).is_multiple_of(PAGE) && self.m > FEW => 8,
            1 => 32,
            _ => 2,
        };
        self.n > slivers * self.tile.cols
    }

    /// Returns the length of the packed left operand.
    pub fn left_len(&self) -> usize {
        self.m.div_ceil(self.tile.rows) * self.tile.rows * self.k
    }

    /// Packs the left operand.
    pub fn pack_left(&self, a: &[T], (rsa, csa): Strides, packed: &mut [T]) {
        let rows = self.tile.rows;
        parallel::chunks(packed, (rows * self.k).max(1), self.pieces_at_once(rows), |strip, out| {
            let first = strip * rows;
            pack(&a[first * rsa..], (rsa, csa), rows.min(self.m - first), rows, out);
        });
    }

    /// Packs slivers of the right operand.
    fn pack_right(&self, slivers: Range<usize>, fill: &(dyn Fn(usize, &mut [T]) + Sync), packed: &mut [T]) {
        let cols = self.tile.cols;
        parallel::chunks(packed, (cols * self.k).max(1), self.pieces_at_once(cols), |i, out| {
            fill((slivers.start + i) * cols, out);
        });
    }

    /// Returns the length of the packed right operand.
    pub fn right_len(&self) -> usize {
        self.n.div_ceil(self.tile.cols) * self.tile.cols * self.k
    }

    /// Packs all of the right operand, to be used for many products.
    pub fn packed_right(&self, b: &[T], (rsb, csb): Strides) -> Vec<T> {
        let mut packed = fx_simd::in_huge_pages(vec![T::zero(); self.right_len()]);
        let cols = self.tile.cols;
        pack_slivers(&mut packed, cols * self.k, &|i, out| {
            pack(&b[i * cols * csb..], (csb, rsb), cols.min(self.n - i * cols), cols, out);
        });
        packed
    }

    /// As [`packed_right`](Self::packed_right) of an operand that lies column after column, in its memory if
    /// it has the same size packed.
    pub fn packed_columns(&self, mut b: Vec<T>) -> Vec<T> {
        let (cols, k) = (self.tile.cols, self.k);
        if !self.n.is_multiple_of(cols) || b.len() != self.right_len() {
            return self.packed_right(&b, (1, k));
        }
        pack_in_place(&mut b, cols * k, &|from, out| pack(from, (k, 1), cols, cols, out));
        b
    }

    fn pieces_at_once(&self, width: usize) -> usize {
        if !self.shared {
            return usize::MAX;
        }
        (TASK / 32).div_ceil(width * self.k.max(1))
    }

    /// Stores the product in `c`.
    ///
    /// # Safety
    ///
    /// The elements of `c` are distinct and lie in its slice.
    ///
    /// # Panics
    ///
    /// When an operand is too short.
    pub unsafe fn run(&self, a: &Left<'_, T>, b: &Right<'_, T>, c: &Output<'_, T>) {
        // SAFETY: the caller's promise.
        unsafe { self.run_then(a, b, c, TileEpilogue::NONE, &|_, _| {}) }
    }

    /// Stores the product in `c` after it was finished, and calls `done` with the rows and columns of each
    /// part of it that is complete, on the thread that has just written it.
    ///
    /// # Safety
    ///
    /// As for [`run`](Self::run). Where something is added, the columns of `c` are neighbours.
    ///
    /// # Panics
    ///
    /// As for [`run`](Self::run).
    pub unsafe fn run_then(
        &self,
        a: &Left<'_, T>,
        b: &Right<'_, T>,
        c: &Output<'_, T>,
        epilogue: TileEpilogue<'_, T>,
        done: &Done<'_>,
    ) {
        let Product { tile, m, k, n, .. } = *self;
        epilogue.check(n, super::extent(m, n, c.strides));
        let (n_strips, n_slivers) = (pieces(m, tile.rows), pieces(n, tile.cols));
        match a {
            Left::Packed(a) => assert!(a.len() >= n_strips * tile.rows * k, "left operand is too short"),
            Left::Strided(a, strides) => {
                assert!(a.len() >= super::extent(m, k, *strides), "left operand is too short");
            }
        }
        let sliver_len = tile.cols * k;
        match *b {
            Right::Columns(fill) => {
                let at_once = (RIGHT_BYTES / size_of::<T>() / sliver_len.max(1)).max(8).min(n_slivers);
                T::with_scratch(at_once * sliver_len, |packed| {
                    for first in (0..n_slivers).step_by(at_once) {
                        let slivers = first..(first + at_once).min(n_slivers);
                        let packed = &mut packed[..slivers.len() * sliver_len];
                        self.pack_right(slivers.clone(), fill, packed);
                        // SAFETY: the caller's promise.
                        unsafe {
                            self.part(a, &Slivers { packed, first, rows: None }, c, slivers, (epilogue, done))
                        };
                    }
                });
            }
            Right::Rows(b, stride) => {
                assert!(b.len() >= super::extent(k, n, (stride, 1)), "right operand is too short");
                let whole = n / tile.cols;
                T::with_scratch((n_slivers - whole) * sliver_len, |packed| {
                    let turn =
                        |from: usize, out: &mut [T]| pack(&b[from..], (1, stride), n - from, tile.cols, out);
                    self.pack_right(whole..n_slivers, &turn, packed);
                    let slivers = Slivers { packed, first: whole, rows: Some((b, stride)) };
                    // SAFETY: the caller's promise.
                    unsafe { self.part(a, &slivers, c, 0..n_slivers, (epilogue, done)) };
                });
            }
            Right::Packed(packed) => {
                assert!(packed.len() >= n_slivers * sliver_len, "right operand is too short");
                // SAFETY: the caller's promise.
                unsafe {
                    self.part(a, &Slivers { packed, first: 0, rows: None }, c, 0..n_slivers, (epilogue, done))
                };
            }
        }
    }

    /// Stores the tiles of some slivers.
    ///
    /// # Safety
    ///
    /// As for [`run`](Self::run), which checked the operands.
    unsafe fn part(
        &self,
        a: &Left<'_, T>,
        b: &Slivers<'_, T>,
        c: &Output<'_, T>,
        range: Range<usize>,
        (epilogue, done): (TileEpilogue<'_, T>, &Done<'_>),
    ) {
        let Product { tile, m, k, n, .. } = *self;
        let (n_strips, n_slivers) = (pieces(m, tile.rows), range.len());
        let packs = matches!(a, Left::Strided(_, strides) if self.packs_left(*strides));
        // A few rows take about as long as a whole strip of them: both wait for the right operand.
        let is_small = work(n_strips * tile.rows, n_slivers * tile.cols, k) <= TASK / 2;
        if is_small && !packs {
            let a = match a {
                Left::Packed(a) => Strips::Packed(a, 0, 0..k),
                Left::Strided(a, strides) => Strips::Strided(a, *strides),
            };
            let columns = range.start * tile.cols..(range.end * tile.cols).min(n);
            // SAFETY: the caller promises that elements of `c` are distinct.
            unsafe { self.block(&a, b, (c, epilogue), 0..n_strips, range, 0..k) };
            return done(0..m, columns);
        }
        // A task has some strips, whose rows stay in the second cache, and some slivers.
        let most = (LEFT_BYTES / size_of::<T>() / (k.min(K_BLOCK) * tile.rows).max(1)).max(1);
        let mut strips = n_strips.div_ceil(n_strips.div_ceil(most));
        let mut slivers =
            TASK.div_ceil(work(strips * tile.rows, tile.cols, k)).min(n_slivers.div_ceil(4).max(1));
        if m == 1 {
            slivers = slivers.next_multiple_of(ROW);
        }
        // What is done to complete parts is the better the longer their rows are, if the right operand can be
        // read again for it.
        if self.wide_parts && k * n * size_of::<T>() <= RIGHT_BYTES && slivers < WIDE {
            slivers = WIDE.min(n_slivers.div_ceil(2).max(1));
            let most = (2 * TASK).div_ceil(work(slivers * tile.cols, tile.rows, k)).clamp(1, strips);
            strips = n_strips.div_ceil(n_strips.div_ceil(most.max(3.min(strips))));
        }
        let (across, down) = (n_slivers.div_ceil(slivers), n_strips.div_ceil(strips));
        // Steps that all tasks have done before others begin.
        let steps =
            if self.goes_by_blocks(packs, range.len(), (strips, down)) { self.k_block() } else { k.max(1) };
        for from in (0..k.max(1)).step_by(steps) {
            let depth = from..(from + steps).min(k);
            let task = |own: &mut Own<T>, i: usize| {
                let (strip, sliver) = (i / across * strips, range.start + i % across * slivers);
                let (strips, slivers) =
                    (strip..(strip + strips).min(n_strips), sliver..(sliver + slivers).min(range.end));
                let a = match a {
                    Left::Packed(a) => Strips::Packed(a, 0, 0..k),
                    Left::Strided(a, strides) if packs => {
                        self.own(own, a, *strides, strips.clone(), depth.clone())
                    }
                    Left::Strided(a, strides) => Strips::Strided(a, *strides),
                };
                // SAFETY: tasks have disjoint tiles, and the caller promises that elements of `c` are distinct.
                unsafe { self.block(&a, b, (c, epilogue), strips.clone(), slivers.clone(), depth.clone()) };
                if depth.end == k {
                    done(
                        strips.start * tile.rows..(strips.end * tile.rows).min(m),
                        slivers.start * tile.cols..(slivers.end * tile.cols).min(n),
                    );
                }
            };
            let own = || {
                let len = if packs { strips * tile.rows * depth.len() } else { 0 };
                Own { packed: Scratch::new(len), held: None }
            };
            if !self.shared || is_small {
                let mut own = own();
                (0..across * down).for_each(|i| task(&mut own, i));
            } else {
                parallel::each_with(across * down, own, task);
            }
        }
    }

    /// Returns the steps of `k` that are done at a time.
    fn k_block(&self) -> usize {
        // A single row reads all of `b` once, in some places at a time.
        let most = if self.m == 1 { ROW_BLOCK } else { K_BLOCK };
        pieces(self.k, pieces(self.k, most).max(1)).max(1)
    }

    /// Returns whether all tasks do a block of `k` before the next; tasks of so many different rows have this
    /// many strips.
    fn goes_by_blocks(&self, packs: bool, slivers: usize, (strips, down): (usize, usize)) -> bool {
        let Product { tile, m, k, .. } = *self;
        let threads = if self.shared { parallel::threads() } else { 1 };
        let block = work(m, slivers * tile.cols, self.k_block()) / threads;
        let own = strips * tile.rows * k * size_of::<T>();
        let right = slivers * tile.cols * k * size_of::<T>();
        let is_large = block >= BLOCK_WORK && right > RIGHT_BYTES && down >= REREAD;
        m > 1 && (is_large || packs && own > OWN_BYTES)
    }

    /// Packs some strips for some steps of `k`, unless the thread has just done that.
    fn own<'o>(
        &self,
        own: &'o mut Own<T>,
        a: &[T],
        (rs, cs): Strides,
        strips: Range<usize>,
        depth: Range<usize>,
    ) -> Strips<'o, T> {
        let rows = self.tile.rows;
        let (first, len) = (strips.start, rows * depth.len());
        if own.held.replace((first, depth.start)) != Some((first, depth.start)) {
            for (strip, out) in strips.zip(own.packed.chunks_mut(len.max(1))) {
                let row = strip * rows;
                pack(&a[row * rs + depth.start * cs..], (rs, cs), rows.min(self.m - row), rows, out);
            }
        }
        Strips::Packed(&own.packed, first, depth)
    }

    /// # Safety
    ///
    /// As for [`run`](Self::run), which checked the operands; nobody else has these tiles of `c`.
    unsafe fn block(
        &self,
        a: &Strips<'_, T>,
        b: &Slivers<'_, T>,
        (c, epilogue): (&Output<'_, T>, TileEpilogue<'_, T>),
        strips: Range<usize>,
        slivers: Range<usize>,
        depth: Range<usize>,
    ) {
        let Product { tile, m, k, n, alpha, beta, .. } = *self;
        let (rsc, csc) = c.strides;
        let k_block = self.k_block();
        for from in depth.clone().step_by(k_block) {
            let steps = k_block.min(depth.end - from);
            let mut next = slivers.start;
            while next < slivers.end {
                let (sliver, col) = (next, next * tile.cols);
                let (b, b_stride, b_tile, end) = match b.rows {
                    Some((rows, stride)) if sliver < b.first => {
                        (rows[from * stride + col..].as_ptr(), stride, tile.cols, slivers.end.min(b.first))
                    }
                    _ => {
                        let packed = &b.packed[((sliver - b.first) * k + from) * tile.cols..];
                        (packed.as_ptr(), tile.cols, tile.cols * k, slivers.end)
                    }
                };
                next += if m == 1 { ROW.min(end - sliver) } else { 1 };
                // The packed rows that come next are fetched meanwhile, each strip's share of them while it
                // is multiplied.
                let fetches = b_stride == tile.cols && strips.len() > 1;
                let (row, sliver_len) = (tile.cols, tile.cols * k);
                let after = match (next < slivers.end, from + steps < depth.end) {
                    (true, _) => b.wrapping_add(sliver_len),
                    (false, true) => {
                        b.wrapping_sub((slivers.len() - 1) * sliver_len).wrapping_add(steps * row)
                    }
                    // What the next task begins with.
                    (false, false) => b.wrapping_add(sliver_len).wrapping_sub((from - depth.start) * row),
                };
                for strip in strips.clone() {
                    let row = strip * tile.rows;
                    let (rows, cols) = (tile.rows.min(m - row), (next * tile.cols).min(n) - col);
                    let (a, a_strides) = match a {
                        Strips::Packed(a, first, depth) => {
                            let at = (strip - first) * depth.len() + from - depth.start;
                            (a[at * tile.rows..].as_ptr(), (1, tile.rows))
                        }
                        Strips::Strided(a, (rs, cs)) => (a[row * rs + from * cs..].as_ptr(), (*rs, *cs)),
                    };
                    let place = row * rsc + col * csc;
                    if csc == 1 && depth.start > 0 {
                        // What is added to was written long ago: it comes near while the tile is computed.
                        for row in 0..rows {
                            let line = c.start.wrapping_add(place + row * rsc);
                            fx_simd::prefetch_line(line.cast());
                            fx_simd::prefetch_line(line.wrapping_add(tile.lanes).cast());
                        }
                    }
                    let epilogue =
                        if from + steps == k { epilogue.from(place, col) } else { TileEpilogue::NONE };
                    let operands = Operands {
                        a,
                        a_strides,
                        b,
                        b_stride,
                        b_tile,
                        alpha,
                        beta: if from == 0 { beta } else { T::one() },
                        c: c.start.wrapping_add(place),
                        c_strides: c.strides,
                        epilogue,
                        next: match fetches {
                            true => Next::share(
                                after,
                                steps * tile.cols,
                                strip - strips.start,
                                strips.len(),
                                steps,
                            ),
                            false => Next::nothing(b),
                        },
                    };
                    // SAFETY: the operands were found to be long enough in `run`; `c` is the caller's promise.
                    unsafe { tile.run(rows, cols, steps, &operands) };
                }
            }
        }
    }
}

/// Returns `len.div_ceil(of)`; where one piece is enough, without a division, which takes as long as a small tile.
#[inline(always)]
fn pieces(len: usize, of: usize) -> usize {
    if len <= of { usize::from(len > 0) } else { len.div_ceil(of) }
}

/// Writes `count` rows of a matrix as columns of the row-major `out`, of width `width`, whose last row may
/// end after them.
pub(crate) fn pack<T: GemmElement>(x: &[T], (rs, cs): Strides, count: usize, width: usize, out: &mut [T]) {
    if rs == 1 {
        for (p, out) in out.chunks_mut(width).enumerate() {
            out[..count].copy_from_slice(&x[p * cs..][..count]);
        }
        return;
    }
    if cs == 1 {
        let steps = out.len().div_ceil(width);
        return fx_simd::transpose(x, rs, out, width, steps, count);
    }
    for (p, out) in out.chunks_mut(width).enumerate() {
        for (i, slot) in out[..count].iter_mut().enumerate() {
            *slot = x[i * rs + p * cs];
        }
    }
}
