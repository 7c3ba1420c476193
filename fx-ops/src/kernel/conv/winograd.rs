//! Convolution of planes with kernels of 3 by 3, by Winograd's minimal filtering F(2x2, 3x3): 16 multiplications for the 4 results of a tile
//! instead of 36.
//!
//! Tiles of 4 by 4 elements of the input, 2 apart, are transformed; so are the kernels, once. Then each of the 16 places in a tile is a
//! matrix product over the channels, and the sums, transformed back, are 2 by 2 results. See A. Lavin and S. Gray, Fast Algorithms for
//! Convolutional Neural Networks, CVPR 2016. The transforms add and subtract up to four elements, so results may be off by a few times as
//! much as those of sums of products, and an infinity in the input makes NaN of the tiles that it lies in.

use std::ops::Range;

use fx_simd::parallel;
use num_traits::Float;

use super::super::gemm::{Done, Finish, GemmElement, Operands, Output, Tile, pack_slivers};
use super::Geometry;

/// The places in a tile of the input.
const PLACES: usize = 16;
/// The elements of transformed input and sums that a task has in the second cache.
const BLOCK: usize = 1 << 17;
/// The fewest tasks that keep some threads busy.
const TASKS: usize = 16;
/// The fewest channels of input and result for which the products take longer than the transforms.
const FEWEST_CHANNELS: usize = 32;
/// The most elements of transformed kernels, which are 16 ninths of those given.
const MOST_WEIGHTS: usize = PLACES << 16;
/// The channels that are transformed at a time.
const WIDTH: usize = 16;

/// A convolution of planes whose channels lie last.
#[derive(Clone, Copy)]
pub(super) struct Winograd<T: 'static> {
    tile: &'static Tile<T>,
    c_in: usize,
    c_out: usize,
    /// How many planes there are, and the lines and columns of each in the result.
    planes: usize,
    output: [usize; 2],
}

impl<T: GemmElement> Winograd<T> {
    /// Prepares a convolution for inputs of some images; `None` if it is another one, or is faster otherwise.
    pub(super) fn new(geometry: &Geometry, tile: &'static Tile<T>, images: usize) -> Option<Self> {
        let &Geometry {
            groups, c_in, c_out, kernel, stride, dilation, output: [depth, height, width], ..
        } = geometry;
        let fits = kernel == [1, 3, 3] && stride == [1; 3] && dilation == [1; 3] && groups == 1;
        let pays = c_in.min(c_out) >= FEWEST_CHANNELS && PLACES * c_in * c_out <= MOST_WEIGHTS;
        let planes = images * depth;
        let winograd = Winograd { tile, c_in, c_out, planes, output: [height, width] };
        (fits && pays && winograd.tiles() >= 2 * tile.rows).then_some(winograd)
    }

    /// Returns the lines and columns of tiles in a plane.
    fn grid(&self) -> [usize; 2] {
        self.output.map(|size| size.div_ceil(2))
    }

    fn tiles(&self) -> usize {
        self.planes * self.grid().iter().product::<usize>()
    }

    /// Returns the lines and columns of the input that tiles cover.
    pub(super) fn covered(&self) -> [usize; 2] {
        self.grid().map(|tiles| 2 * tiles + 2)
    }

    /// Transforms and packs the weight, `[out, in, 3, 3]`.
    pub(super) fn pack(&self, weight: &[T]) -> Vec<T> {
        let (c_in, cols) = (self.c_in, self.tile.cols);
        let slivers = self.c_out.div_ceil(cols);
        let mut packed = vec![T::zero(); PLACES * slivers * cols * c_in];
        pack_slivers(&mut packed, cols * c_in, &|i, out| {
            let (place, first) = (i / slivers, i % slivers * cols);
            for column in 0..cols.min(self.c_out - first) {
                let weight = &weight[(first + column) * c_in * 9..][..c_in * 9];
                for (channel, kernel) in weight.as_chunks::<9>().0.iter().enumerate() {
                    out[channel * cols + column] = transformed(kernel, place);
                }
            }
        });
        packed
    }

    /// Stores the convolution of `x`, of which each plane has `lines` lines of `columns` columns, in `out` after it was finished.
    pub(super) fn run(
        &self,
        x: &[T],
        [lines, columns]: [usize; 2],
        packed: &[T],
        out: &mut [T],
        (finish, done): (Finish<'_, T>, &Done<'_>),
    ) {
        let &Winograd { tile, c_in, c_out, output: [height, width], .. } = self;
        let (n, [tall, wide]) = (self.tiles(), self.grid());
        assert!(
            packed.len() >= PLACES * c_out.div_ceil(tile.cols) * tile.cols * c_in,
            "the weight is packed"
        );
        let most = (BLOCK / (PLACES * (c_in + c_out))).max(1);
        let tasks = n.div_ceil(most).max(TASKS.min(n.div_ceil(tile.rows)));
        let block = n.div_ceil(tasks);
        let c = Output::new(out, (c_out, 1));
        parallel::each(n.div_ceil(block), |task| {
            let tiles = task * block..((task + 1) * block).min(n);
            let locate = |i: usize| (i / (tall * wide), i / wide % tall, i % wide);
            T::with_scratch(tiles.len() * PLACES * (c_in + c_out), |scratch| {
                let (inputs, sums) = scratch.split_at_mut(tiles.len() * PLACES * c_in);
                let start_of = |i: usize| {
                    let (plane, line, column) = locate(i);
                    ((plane * lines + 2 * line) * columns + 2 * column) * c_in
                };
                fx_simd::call::<into_tiles, _>((
                    x,
                    tiles.clone(),
                    &start_of,
                    [columns * c_in, c_in],
                    &mut *inputs,
                ));
                self.multiply(tiles.len(), inputs, packed, sums);
                let place_of = |i: usize| {
                    let (plane, line, column) = locate(i);
                    let size = [(height - 2 * line).min(2), (width - 2 * column).min(2)];
                    ((plane * height + 2 * line) * width + 2 * column, size)
                };
                // SAFETY: the results of these tiles lie in `out`, and no other task has them.
                let results = unsafe { Results::new(sums, tiles.len(), &c, [width, c_out], finish) };
                fx_simd::call::<from_tiles, _>((&results, tiles.clone(), &place_of));
            });
            // The results of neighbouring tiles are two lines.
            let mut i = tiles.start;
            while i < tiles.end {
                let (plane, line, column) = locate(i);
                let end = (i + wide - column).min(tiles.end);
                for line in 2 * line..(2 * line + 2).min(height) {
                    let first = (plane * height + line) * width;
                    done(first + 2 * column..first + (2 * (column + end - i)).min(width), 0..c_out);
                }
                i = end;
            }
        });
    }

    /// Multiplies the tiles' elements by the weights, place by place.
    fn multiply(&self, n: usize, inputs: &[T], packed: &[T], sums: &mut [T]) {
        let &Winograd { tile, c_in, c_out, .. } = self;
        let sliver_len = tile.cols * c_in;
        let slivers = c_out.div_ceil(tile.cols);
        let strips = n.div_ceil(tile.rows);
        let height = n.div_ceil(strips);
        for (place, (inputs, sums)) in inputs.chunks(n * c_in).zip(sums.chunks_mut(n * c_out)).enumerate() {
            for sliver in 0..slivers {
                let b = &packed[(place * slivers + sliver) * sliver_len..][..sliver_len];
                let first = sliver * tile.cols;
                for row in (0..n).step_by(height) {
                    let operands = Operands {
                        a: inputs[row * c_in..].as_ptr(),
                        a_strides: (c_in, 1),
                        b: b.as_ptr(),
                        b_stride: tile.cols,
                        alpha: T::one(),
                        beta: T::zero(),
                        c: sums[row * c_out + first..].as_mut_ptr(),
                        c_strides: (c_out, 1),
                        finish: Finish::NONE,
                    };
                    let (rows, cols) = (height.min(n - row), tile.cols.min(c_out - first));
                    // SAFETY: there are so many rows of inputs and sums, and the sliver has `c_in` rows.
                    unsafe { tile.run(rows, cols, c_in, &operands) };
                }
            }
        }
    }
}

/// Returns an element of a transformed kernel.
fn transformed<T: Float>(kernel: &[T; 9], place: usize) -> T {
    let half = T::one() / (T::one() + T::one());
    let along = |x: [T; 3], at: usize| match at {
        0 => x[0],
        1 => half * (x[0] + x[1] + x[2]),
        2 => half * (x[0] - x[1] + x[2]),
        _ => x[2],
    };
    let line = |i: usize| along([kernel[3 * i], kernel[3 * i + 1], kernel[3 * i + 2]], place % 4);
    along([line(0), line(1), line(2)], place / 4)
}

/// Neighbouring channels.
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

#[inline(always)]
fn load<T: Float, const W: usize>(x: &[T], at: usize) -> Vector<T, W> {
    let mut vector = [T::zero(); W];
    vector.copy_from_slice(&x[at..][..W]);
    vector
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

#[inline(always)]
fn into_tile<T: Float, const W: usize>(
    x: &[T],
    [line, column]: [usize; 2],
    channel: usize,
    out: &mut [T],
    at: usize,
    step: usize,
) {
    let mut lines = [[[T::zero(); W]; 4]; 4];
    for (i, to) in lines.iter_mut().enumerate() {
        let at = i * line + channel;
        *to = forth([load(x, at), load(x, at + column), load(x, at + 2 * column), load(x, at + 3 * column)]);
    }
    for j in 0..4 {
        let places = forth([lines[0][j], lines[1][j], lines[2][j], lines[3][j]]);
        for i in 0..4 {
            out[(4 * i + j) * step + at + channel..][..W].copy_from_slice(&places[i]);
        }
    }
}

/// Where the results of some tiles go. Whoever makes it owns the results of these tiles, and asks for no others.
struct Results<'a, T> {
    sums: &'a [T],
    /// How many tiles there are.
    n: usize,
    out: &'a Output<'a, T>,
    /// The positions of a line.
    width: usize,
    channels: usize,
    finish: Finish<'a, T>,
}

impl<'a, T: GemmElement> Results<'a, T> {
    /// # Safety
    ///
    /// All positions at which results are stored lie in `out`, and nobody else has them.
    unsafe fn new(
        sums: &'a [T],
        n: usize,
        out: &'a Output<'a, T>,
        [width, channels]: [usize; 2],
        finish: Finish<'a, T>,
    ) -> Self {
        Results { sums, n, out, width, channels, finish }
    }

    /// Transforms some channels of a tile's sums back, finishes them and stores them at up to two positions of up to two lines.
    #[inline(always)]
    fn store<const W: usize>(&self, tile: usize, channel: usize, (first, size): (usize, [usize; 2])) {
        let (from, step) = (tile * self.channels + channel, self.n * self.channels);
        let mut lines = [[[T::zero(); W]; 2]; 4];
        for (i, line) in lines.iter_mut().enumerate() {
            let at = from + 4 * i * step;
            *line = back([
                load(self.sums, at),
                load(self.sums, at + step),
                load(self.sums, at + 2 * step),
                load(self.sums, at + 3 * step),
            ]);
        }
        let columns = [
            [lines[0][0], lines[1][0], lines[2][0], lines[3][0]],
            [lines[0][1], lines[1][1], lines[2][1], lines[3][1]],
        ];
        for (j, &column) in columns.iter().enumerate().take(size[1]) {
            for (i, &result) in back(column).iter().enumerate().take(size[0]) {
                let position = first + i * self.width + j;
                let mut result = result;
                if let Some(bias) = self.finish.bias {
                    result = add(result, load(bias, channel));
                }
                if let Some(other) = self.finish.other {
                    result = add(result, load(other, position * self.channels + channel));
                }
                if let Some((low, high)) = self.finish.bounds {
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
    /// Transforms tiles of an input whose lines and columns are these steps apart; those of the same place lie together.
    fn into_tiles[T: GemmElement](
        (x, tiles, start_of, steps, out): (&[T], Range<usize>, &dyn Fn(usize) -> usize, [usize; 2], &mut [T])
    ) {
        let (channels, step) = (steps[1], tiles.len() * steps[1]);
        for (i, tile) in tiles.enumerate() {
            let x = &x[start_of(tile)..];
            let whole = channels / WIDTH * WIDTH;
            for channel in (0..whole).step_by(WIDTH) {
                into_tile::<T, WIDTH>(x, steps, channel, out, i * channels, step);
            }
            for channel in whole..channels {
                into_tile::<T, 1>(x, steps, channel, out, i * channels, step);
            }
        }
    }

    /// Transforms sums of tiles back, of which a function says where the results begin and how many there are.
    fn from_tiles[T: GemmElement](
        (results, tiles, place_of): (&Results<'_, T>, Range<usize>, &dyn Fn(usize) -> (usize, [usize; 2]))
    ) {
        for (i, tile) in tiles.enumerate() {
            let place = place_of(tile);
            let whole = results.channels / WIDTH * WIDTH;
            for channel in (0..whole).step_by(WIDTH) {
                results.store::<WIDTH>(i, channel, place);
            }
            for channel in whole..results.channels {
                results.store::<1>(i, channel, place);
            }
        }
    }
}
