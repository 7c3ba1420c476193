//! Convolution of planes and volumes with kernels of 3 by 3 in each plane, by Winograd's minimal filtering
//! F(2x2, 3x3): 16 multiplications for the 4 results of a tile instead of 36.
//!
//! Tiles of 4 by 4 elements of the input, 2 apart, are transformed, and so are the kernels. Then each of the
//! 16 places in a tile is a matrix product over the channels, and the sums, transformed back, are 2 by 2
//! results. See A. Lavin and S. Gray, Fast Algorithms for Convolutional Neural Networks, CVPR 2016. The
//! transforms add and subtract up to four elements, so results may be off by a few times as much as those of
//! sums of products, and an infinity in the input makes NaN of the tiles that it lies in.
//!
//! The planes under a kernel that is deeper than one are summed as further channels are.
//!
//! Kernels are transformed in the cache, each time that they are needed: that takes less time than to read
//! what it makes from memory, which is 16 ninths as much as the kernels.

use std::marker::PhantomData;
use std::ops::Range;

use fx_simd::parallel;
use num_traits::Float;

use super::super::gemm::{Done, GemmElement, Next, Operands, Output, Tile, TileEpilogue};
use super::Geometry;

/// The places in a tile of the input.
const PLACES: usize = 16;
/// The elements of a kernel.
const TAPS: usize = 9;
/// The elements of transformed input that a task has in the second cache.
const BLOCK: usize = 1 << 17;
/// The channels of input whose kernels are transformed at a time.
const DEPTH: usize = 128;
/// The fewest tiles for which it pays to transform kernels.
const FEWEST_TILES: usize = 16;
/// The fewest slivers of kernels for which it pays to transform an input once more.
const FEWEST_SLIVERS: usize = 4;
/// The fewest tasks that keep some threads busy.
const TASKS: usize = 8;
/// The fewest channels of input and result for which the products take longer than the transforms.
const FEWEST_CHANNELS: usize = 32;
/// The most channels under a kernel, those of all its planes: a thread keeps the transformed elements of some
/// tiles.
const MOST_CHANNELS: usize = 1 << 12;
/// The elements that are transformed at a time.
const WIDTH: usize = 16;

/// Returns how far apart the elements of two places lie of which there are `n` each: not a power of two, for
/// then those of all places would have the same few lines of a cache.
fn apart(n: usize) -> usize {
    n.next_multiple_of(WIDTH) + WIDTH
}

/// A convolution of planes whose channels lie last.
#[derive(Clone, Copy)]
pub(super) struct Winograd<T: 'static> {
    /// The innermost loops, whose columns the packed weight has side by side.
    pub(super) tile: &'static Tile<T>,
    c_in: usize,
    c_out: usize,
    /// The planes of a kernel, how far apart they lie, and how far apart those lie where windows begin.
    depth: usize,
    dilation: usize,
    stride: usize,
    /// How many images there are, and the planes, lines and columns of each in the result.
    images: usize,
    output: [usize; 3],
}

impl<T: GemmElement> Winograd<T> {
    /// Prepares a convolution for inputs of some images; `None` if it is another one, or is faster otherwise.
    pub(super) fn new(geometry: &Geometry, tile: &'static Tile<T>, images: usize) -> Option<Self> {
        let &Geometry { groups, c_in, c_out, kernel, stride, dilation, output, .. } = geometry;
        let [depth, height, width] = kernel;
        let fits =
            [height, width] == [3, 3] && stride[1..] == [1, 1] && dilation[1..] == [1, 1] && groups == 1;
        let (dilation, stride) = (dilation[0], stride[0]);
        let winograd = Winograd { tile, c_in, c_out, depth, dilation, stride, images, output };
        let pays = c_in.min(c_out) >= FEWEST_CHANNELS
            && winograd.summed() <= MOST_CHANNELS
            && winograd.tiles() >= FEWEST_TILES;
        (fits && pays).then_some(winograd)
    }

    /// Returns the channels under a kernel.
    fn summed(&self) -> usize {
        self.depth.saturating_mul(self.c_in)
    }

    /// Returns the lines and columns of tiles in a plane.
    fn grid(&self) -> [usize; 2] {
        [1, 2].map(|d| self.output[d].div_ceil(2))
    }

    fn tiles(&self) -> usize {
        self.images * self.output[0] * self.grid().iter().product::<usize>()
    }

    /// Returns the lines and columns of the input that tiles cover.
    pub(super) fn covered(&self) -> [usize; 2] {
        self.grid().map(|tiles| 2 * tiles + 2)
    }

    /// Stores the convolution of `x`, of which each image has so many planes, lines and columns, in `out`
    /// after it was finished. The weight is packed in slivers of a tile's columns, tap by tap and channel by
    /// channel.
    pub(super) fn run(
        &self,
        x: &[T],
        [planes, lines, columns]: [usize; 3],
        packed: &[T],
        out: &mut [T],
        (epilogue, done): (TileEpilogue<'_, T>, &Done<'_>),
    ) {
        let &Winograd { tile, c_in, c_out, output: [deep, height, width], .. } = self;
        let (n, [tall, wide], summed) = (self.tiles(), self.grid(), self.summed());
        let slivers = c_out.div_ceil(tile.cols);
        let sliver_len = TAPS * summed * tile.cols;
        assert!(packed.len() >= slivers * sliver_len, "the weight is packed");
        // A task has some tiles, and all slivers, or some of them if there would be too few tasks.
        let most = (BLOCK / (PLACES * summed)).max(FEWEST_TILES);
        let n_down = n.div_ceil(most).max(TASKS.min(n / (2 * FEWEST_TILES)));
        let block = n.div_ceil(n_down);
        let n_down = n.div_ceil(block);
        let across = slivers.div_ceil(TASKS.div_ceil(n_down)).max(FEWEST_SLIVERS).min(slivers);
        let n_across = slivers.div_ceil(across);
        let c = Output::new(out, (c_out, 1));
        let locate = |i: usize| (i / (tall * wide), i / wide % tall, i % wide);
        parallel::each(n_down * n_across, |task| {
            let tiles = task / n_across * block..((task / n_across + 1) * block).min(n);
            let slivers = task % n_across * across..((task % n_across + 1) * across).min(slivers);
            let channels = slivers.start * tile.cols..(slivers.end * tile.cols).min(c_out);
            let [inputs, kernels, sums] =
                [tiles.len() * summed, DEPTH.min(c_in) * tile.cols, tiles.len() * tile.cols]
                    .map(|n| PLACES * apart(n));
            T::with_scratch(inputs + kernels + sums, |scratch| {
                let (inputs, rest) = scratch.split_at_mut(inputs);
                let (kernels, sums) = rest.split_at_mut(kernels);
                for tap in 0..self.depth {
                    let start_of = |i: usize| {
                        let (plane, line, column) = locate(i);
                        let plane = plane / deep * planes + plane % deep * self.stride + tap * self.dilation;
                        ((plane * lines + 2 * line) * columns + 2 * column) * c_in
                    };
                    let (steps, place) = ([columns * c_in, c_in], [tap * c_in, summed]);
                    fx_simd::call::<into_tiles, _>((x, tiles.clone(), &start_of, steps, place, &mut *inputs));
                }
                let place_of = |i: usize| {
                    let (plane, line, column) = locate(i);
                    let size = [(height - 2 * line).min(2), (width - 2 * column).min(2)];
                    ((plane * height + 2 * line) * width + 2 * column, size)
                };
                for sliver in slivers {
                    let first = sliver * tile.cols;
                    let channels = first..(first + tile.cols).min(c_out);
                    let weight = &packed[sliver * sliver_len..][..sliver_len];
                    self.multiply(tiles.len(), inputs, weight, kernels, channels.len(), sums);
                    let n = tiles.len() * channels.len();
                    let sums = Rows::new(sums, apart(n), n);
                    // SAFETY: the results of these tiles and channels lie in `out`, and no other task has them.
                    let results = unsafe { Results::new(sums, &c, [width, c_out], channels, epilogue) };
                    fx_simd::call::<from_tiles, _>((&results, tiles.clone(), &place_of));
                }
            });
            // The results of neighbouring tiles are two lines.
            let mut i = tiles.start;
            while i < tiles.end {
                let (plane, line, column) = locate(i);
                let end = (i + wide - column).min(tiles.end);
                for line in 2 * line..(2 * line + 2).min(height) {
                    let first = (plane * height + line) * width;
                    let positions = first + 2 * column..first + (2 * (column + end - i)).min(width);
                    done(positions, channels.clone());
                }
                i = end;
            }
        });
    }

    /// Multiplies the elements of `n` tiles by a sliver of the weight, place by place, in so many columns.
    fn multiply(
        &self,
        n: usize,
        inputs: &[T],
        weight: &[T],
        kernels: &mut [T],
        columns: usize,
        sums: &mut [T],
    ) {
        let &Winograd { tile, c_in, .. } = self;
        let summed = self.summed();
        let strips = n.div_ceil(tile.rows);
        let height = n.div_ceil(strips);
        let parts = |tap: usize| (0..c_in).step_by(DEPTH).map(move |channel| (tap, channel));
        for (tap, channel) in (0..self.depth).flat_map(parts) {
            let (depth, first) = (DEPTH.min(c_in - channel), tap * c_in + channel);
            let (kernels_len, step) = (depth * tile.cols, c_in * tile.cols);
            let weight = &weight[(tap * TAPS * c_in + channel) * tile.cols..];
            fx_simd::call::<into_kernels, _>((weight, step, &mut *kernels, kernels_len));
            let beta = if first == 0 { T::zero() } else { T::one() };
            for place in 0..PLACES {
                let b = &kernels[place * apart(kernels_len)..][..kernels_len];
                let inputs = &inputs[place * apart(n * summed)..][..n * summed];
                let sums = &mut sums[place * apart(n * columns)..][..n * columns];
                for row in (0..n).step_by(height) {
                    let operands = Operands {
                        a: inputs[row * summed + first..].as_ptr(),
                        a_strides: (summed, 1),
                        b: b.as_ptr(),
                        b_stride: tile.cols,
                        b_tile: 0,
                        alpha: T::one(),
                        beta,
                        c: sums[row * columns..].as_mut_ptr(),
                        c_strides: (columns, 1),
                        epilogue: TileEpilogue::NONE,
                        next: Next::nothing(b.as_ptr()),
                    };
                    // SAFETY: there are so many rows of inputs and sums, and the kernels have `depth` rows.
                    unsafe { tile.run(height.min(n - row), columns, depth, &operands) };
                }
            }
        }
    }
}

/// Neighbouring elements.
type Vector<T, const W: usize> = [T; W];

#[inline(always)]
fn add<T: Float, const W: usize>(a: Vector<T, W>, b: Vector<T, W>) -> Vector<T, W> {
    let mut sum = a;
    for i in 0..W {
        sum[i] = a[i] + b[i];
    }
    sum
}

#[inline(always)]
fn sub<T: Float, const W: usize>(a: Vector<T, W>, b: Vector<T, W>) -> Vector<T, W> {
    let mut sum = a;
    for i in 0..W {
        sum[i] = a[i] - b[i];
    }
    sum
}

/// `N` rows of elements, a step apart. Where rows end is known when this is made, so that accesses to the
/// same place of all rows take one comparison.
struct Rows<'a, T, const N: usize> {
    first: *mut T,
    step: usize,
    len: usize,
    this: PhantomData<&'a [T]>,
}

impl<'a, T: Copy, const N: usize> Rows<'a, T, N> {
    #[inline(always)]
    fn new(x: &'a [T], step: usize, len: usize) -> Self {
        assert!(step.saturating_mul(N - 1).saturating_add(len) <= x.len(), "the rows lie in the slice");
        Rows { first: x.as_ptr().cast_mut(), step, len, this: PhantomData }
    }

    /// Returns where some elements of a row lie.
    #[inline(always)]
    fn at<const W: usize>(&self, row: usize, at: usize) -> *mut Vector<T, W> {
        assert!(row < N && W <= self.len && at <= self.len - W, "the elements lie in the row");
        // SAFETY: so it is, and the row in the slice that this was made of.
        unsafe { self.first.add(row * self.step + at) }.cast()
    }

    #[inline(always)]
    fn load<const W: usize>(&self, row: usize, at: usize) -> Vector<T, W> {
        // SAFETY: the elements lie in the row, and any address will do for an array of elements.
        unsafe { self.at::<W>(row, at).read() }
    }
}

/// As [`Rows`], of which nobody else has the elements.
struct RowsMut<'a, T, const N: usize>(Rows<'a, T, N>, PhantomData<&'a mut [T]>);

impl<'a, T: Copy, const N: usize> RowsMut<'a, T, N> {
    #[inline(always)]
    fn new(x: &'a mut [T], step: usize, len: usize) -> Self {
        let Rows { step, len, .. } = Rows::<T, N>::new(x, step, len);
        RowsMut(Rows { first: x.as_mut_ptr(), step, len, this: PhantomData }, PhantomData)
    }

    #[inline(always)]
    fn store<const W: usize>(&mut self, row: usize, at: usize, vector: Vector<T, W>) {
        // SAFETY: the elements lie in the row, and nobody else has them.
        unsafe { self.0.at::<W>(row, at).write(vector) };
    }
}

/// Transforms four elements of an input.
#[inline(always)]
fn forth<T: Float, const W: usize>(x: [Vector<T, W>; 4]) -> [Vector<T, W>; 4] {
    [sub(x[0], x[2]), add(x[1], x[2]), sub(x[2], x[1]), sub(x[1], x[3])]
}

/// Transforms four sums back.
#[inline(always)]
fn back<T: Float, const W: usize>(x: [Vector<T, W>; 4]) -> [Vector<T, W>; 2] {
    [add(add(x[0], x[1]), x[2]), sub(sub(x[1], x[2]), x[3])]
}

/// Transforms three elements of a kernel.
#[inline(always)]
fn sharpen<T: Float, const W: usize>(x: [Vector<T, W>; 3]) -> [Vector<T, W>; 4] {
    let half = T::one() / (T::one() + T::one());
    let halves = |x: Vector<T, W>| x.map(|x| half * x);
    let (ends, middle) = (halves(add(x[0], x[2])), halves(x[1]));
    [x[0], add(ends, middle), sub(ends, middle), x[2]]
}

/// Transforms kernels that lie side by side.
#[inline(always)]
#[expect(clippy::needless_range_loop, reason = "loops that are unrolled leave vectors in registers")]
fn into_kernel<T: Float, const W: usize>(
    weight: &Rows<'_, T, TAPS>,
    at: usize,
    out: &mut RowsMut<'_, T, PLACES>,
) {
    let mut lines = [[[T::zero(); W]; 4]; 3];
    for (i, to) in lines.iter_mut().enumerate() {
        *to = sharpen([0, 1, 2].map(|j| weight.load(3 * i + j, at)));
    }
    for j in 0..4 {
        let places = sharpen([lines[0][j], lines[1][j], lines[2][j]]);
        for i in 0..4 {
            out.store(4 * i + j, at, places[i]);
        }
    }
}

/// Transforms a tile of an input, whose columns are a step apart.
#[inline(always)]
#[expect(clippy::needless_range_loop, reason = "loops that are unrolled leave vectors in registers")]
fn into_tile<T: Float, const W: usize>(
    x: &Rows<'_, T, 4>,
    column: usize,
    channel: usize,
    out: &mut RowsMut<'_, T, PLACES>,
    at: usize,
) {
    let mut lines = [[[T::zero(); W]; 4]; 4];
    for (i, to) in lines.iter_mut().enumerate() {
        *to = forth([0, 1, 2, 3].map(|j| x.load(i, channel + j * column)));
    }
    for j in 0..4 {
        let places = forth([lines[0][j], lines[1][j], lines[2][j], lines[3][j]]);
        for i in 0..4 {
            out.store(4 * i + j, at + channel, places[i]);
        }
    }
}

/// Where the results of some tiles go. Whoever makes it owns the results of these tiles, and asks for no others.
struct Results<'a, T> {
    sums: Rows<'a, T, PLACES>,
    out: &'a Output<'a, T>,
    /// The positions of a line, and the channels of each.
    sizes: [usize; 2],
    /// Those of which there are sums.
    channels: Range<usize>,
    epilogue: TileEpilogue<'a, T>,
}

impl<'a, T: GemmElement> Results<'a, T> {
    /// # Safety
    ///
    /// All positions at which results are stored lie in `out`, and nobody else has these channels of them.
    unsafe fn new(
        sums: Rows<'a, T, PLACES>,
        out: &'a Output<'a, T>,
        sizes: [usize; 2],
        channels: Range<usize>,
        epilogue: TileEpilogue<'a, T>,
    ) -> Self {
        Results { sums, out, sizes, channels, epilogue }
    }

    /// Transforms some channels of a tile's sums back, finishes them and stores them at up to two positions
    /// of up to two lines.
    #[inline(always)]
    fn store<const W: usize>(&self, tile: usize, channel: usize, (first, size): (usize, [usize; 2])) {
        let from = tile * self.channels.len() + channel;
        let ([width, all], channel) = (self.sizes, self.channels.start + channel);
        let mut lines = [[[T::zero(); W]; 2]; 4];
        for (i, line) in lines.iter_mut().enumerate() {
            *line = back([0, 1, 2, 3].map(|j| self.sums.load(4 * i + j, from)));
        }
        let columns = [
            [lines[0][0], lines[1][0], lines[2][0], lines[3][0]],
            [lines[0][1], lines[1][1], lines[2][1], lines[3][1]],
        ];
        for (j, &column) in columns.iter().enumerate().take(size[1]) {
            for (i, &result) in back(column).iter().enumerate().take(size[0]) {
                let position = first + i * width + j;
                let mut result = result;
                if let Some(bias) = self.epilogue.bias {
                    result = add(result, Rows::<T, 1>::new(bias, 0, bias.len()).load(0, channel));
                }
                if let Some(other) = self.epilogue.other {
                    let at = position * all + channel;
                    result = add(result, Rows::<T, 1>::new(other, 0, other.len()).load(0, at));
                }
                if let Some((low, high)) = self.epilogue.bounds {
                    for x in &mut result {
                        *x = if *x < low { low } else { *x };
                        *x = if *x > high { high } else { *x };
                    }
                }
                // SAFETY: it was promised when this was made.
                unsafe { self.out.at(position, channel).copy_from_nonoverlapping(result.as_ptr(), W) };
            }
        }
    }
}

fx_simd::wide! {
    /// Transforms tiles of an input whose lines and columns are these steps apart; elements of the same place
    /// lie together, those of a tile from one place on of as many as are summed.
    fn into_tiles[T: GemmElement](
        (x, tiles, start_of, steps, place, out):
            (&[T], Range<usize>, &dyn Fn(usize) -> usize, [usize; 2], [usize; 2], &mut [T])
    ) {
        let ([line, channels], [first, summed]) = (steps, place);
        let n = tiles.len() * summed;
        let mut out = RowsMut::new(out, apart(n), n);
        for (i, tile) in tiles.enumerate() {
            let x = Rows::new(&x[start_of(tile)..], line, 4 * channels);
            let whole = channels / WIDTH * WIDTH;
            for channel in (0..whole).step_by(WIDTH) {
                into_tile::<T, WIDTH>(&x, channels, channel, &mut out, i * summed + first);
            }
            for channel in whole..channels {
                into_tile::<T, 1>(&x, channels, channel, &mut out, i * summed + first);
            }
        }
    }

    /// Transforms some kernels that lie side by side, and so do the results; their elements are a step apart.
    fn into_kernels[T: GemmElement]((weight, step, out, n): (&[T], usize, &mut [T], usize)) {
        let (weight, mut out) = (Rows::new(weight, step, n), RowsMut::new(out, apart(n), n));
        let whole = n / WIDTH * WIDTH;
        for at in (0..whole).step_by(WIDTH) {
            into_kernel::<T, WIDTH>(&weight, at, &mut out);
        }
        for at in whole..n {
            into_kernel::<T, 1>(&weight, at, &mut out);
        }
    }

    /// Transforms sums of tiles back, of which a function says where the results begin and how many there are.
    fn from_tiles[T: GemmElement](
        (results, tiles, place_of): (&Results<'_, T>, Range<usize>, &dyn Fn(usize) -> (usize, [usize; 2]))
    ) {
        for (i, tile) in tiles.enumerate() {
            let place = place_of(tile);
            let channels = results.channels.len();
            let whole = channels / WIDTH * WIDTH;
            for channel in (0..whole).step_by(WIDTH) {
                results.store::<WIDTH>(i, channel, place);
            }
            for channel in whole..channels {
                results.store::<1>(i, channel, place);
            }
        }
    }
}
