//! Convolution of inputs whose channels lie last: `[batch, spatial..., channels]` gives the same.
//!
//! What lies under a window is then in pieces of neighbouring elements, which tiles read in place, and the
//! result needs no turning either. Windows that reach over the border read an input with a border of zeros,
//! which [`ChannelsLast::enclose`] makes.

use std::ops::Range;

use fx_base::Result;
use fx_simd::parallel;
use smallvec::SmallVec;

use super::super::gemm::{
    Done, GemmElement, Left, Output, Product, Right, Spread, Tap, Taps, Tile, TileEpilogue, Windows,
    pack_in_place, pack_slivers, work,
};
use super::winograd::Winograd;
use super::{ConvSpec, Geometry};

/// The multiply-adds of a task.
const TASK: usize = 1 << 20;
/// The bytes of input and result that a task has in the second cache.
const BLOCK_BYTES: usize = 1 << 18;
/// The fewest tasks that keep some threads busy.
const TASKS: usize = 8;
/// The fewest columns of a group for which tiles pay.
const FEWEST_COLUMNS: usize = 12;

/// The input channels from which a convolution of single elements is a product,
const LONG_SUMS: usize = 384;
/// or half as many, if there are so many positions.
const MANY_POSITIONS: usize = 1024;

/// Returns whether a convolution of single elements had better be a product, whose blocks cut long sums; one
/// row is read in places of its own.
fn pays_as_product(positions: usize, c_in: usize) -> bool {
    positions == 1 || c_in >= LONG_SUMS || (c_in >= LONG_SUMS / 2 && positions >= MANY_POSITIONS)
}

/// How the result is computed.
#[derive(Clone, Copy)]
enum Algorithm<T: 'static> {
    Tiles(&'static Tile<T>),
    /// Some groups of few channels at a time, which a vector has side by side.
    Groups(&'static Tile<T>),
    /// As a product of positions and channels.
    Product(&'static Tile<T>),
    /// With fewer multiplications.
    Winograd(Winograd<T>),
    /// Each channel by itself.
    Depthwise(&'static Tile<T>),
}

impl<T> Algorithm<T> {
    /// Returns the innermost loops of those that have the weight in slivers.
    fn tile(&self) -> Option<&'static Tile<T>> {
        match self {
            Algorithm::Tiles(tile) | Algorithm::Groups(tile) | Algorithm::Product(tile) => Some(tile),
            Algorithm::Winograd(winograd) => Some(winograd.tile),
            Algorithm::Depthwise(_) => None,
        }
    }
}

/// How channels of the result are brought together, whose weights are packed side by side.
#[derive(Clone, Copy)]
struct Slivers {
    groups: usize,
    /// Channels of one group.
    c_in: usize,
    c_out: usize,
    /// The channels for which a sliver has room.
    cols: usize,
    /// How many groups are in one sliver, or else
    shared: usize,
    /// how many slivers are of one group.
    per_group: usize,
}

impl Slivers {
    fn len(&self) -> usize {
        self.groups.div_ceil(self.shared) * self.per_group
    }

    /// Returns the groups of a sliver.
    fn groups(&self, i: usize) -> Range<usize> {
        let first = i / self.per_group * self.shared;
        first..(first + self.shared).min(self.groups)
    }

    /// Returns the channels of the result.
    fn columns(&self, i: usize) -> Range<usize> {
        let groups = self.groups(i);
        let first = groups.start * self.c_out + i % self.per_group * self.cols;
        first..(first + self.cols).min(groups.end * self.c_out)
    }
}

/// A convolution for inputs of one shape, with channels last.
#[derive(Clone)]
pub struct ChannelsLast<T: 'static> {
    geometry: Geometry,
    batch: usize,
    way: Algorithm<T>,
    /// The spatial sizes of the input with its border.
    enclosed: [usize; 3],
    /// Where the pieces under a window are, and how many elements each has.
    pieces: Vec<usize>,
    piece: usize,
    /// Whether parts of the result should have many channels.
    wide_parts: bool,
    shapes: String,
}

/// Where the elements of an input lie that is to be enclosed: the strides of batch, channels, depth, height
/// and width.
pub type InputStrides = [usize; 5];

impl<T: GemmElement> ChannelsLast<T> {
    /// Returns the name of the algorithm that computes the result.
    pub fn algorithm(&self) -> &'static str {
        match self.way {
            Algorithm::Tiles(_) => "tiles",
            Algorithm::Groups(_) => "groups",
            Algorithm::Product(_) => "product",
            Algorithm::Winograd(_) => "winograd",
            Algorithm::Depthwise(_) => "depthwise",
        }
    }

    /// Prepares a convolution; `None` if it pays to have the channels first.
    ///
    /// Fails when shapes do not fit together.
    pub fn new(spec: &ConvSpec, x_shape: &[usize], weight_shape: &[usize]) -> Result<Option<Self>> {
        if spec.transposed {
            return Ok(None);
        }
        let geometry = Geometry::new(spec, x_shape, weight_shape)?;
        let Geometry { groups, c_in, c_out, kernel, dilation, .. } = geometry;
        let way = match T::tile() {
            _ if c_in == 0 || x_shape[0] * geometry.out_size() == 0 => return Ok(None),
            Some(tile) if c_in == 1 && c_out == 1 && groups >= tile.lanes => Algorithm::Depthwise(tile),
            Some(tile) if c_out >= FEWEST_COLUMNS && (groups == 1 || c_in > 1) => Algorithm::Tiles(tile),
            Some(tile)
                if groups > 1 && c_in <= c_out && c_out <= tile.lanes && groups * c_out >= tile.lanes =>
            {
                Algorithm::Groups(tile)
            }
            _ => return Ok(None),
        };
        let winograd = match way {
            Algorithm::Tiles(tile) => Winograd::new(&geometry, tile, x_shape[0]),
            _ => None,
        };
        let way = match way {
            Algorithm::Tiles(tile)
                if groups == 1
                    && geometry.is_pointwise()
                    && pays_as_product(x_shape[0] * geometry.out_size(), c_in) =>
            {
                Algorithm::Product(tile)
            }
            way => winograd.map_or(way, Algorithm::Winograd),
        };
        // Channels by themselves are so little work that a copy of the input would cost more.
        let border = if matches!(way, Algorithm::Depthwise(_)) { [0; 3] } else { geometry.padding };
        let mut enclosed = [0, 1, 2].map(|d| geometry.input[d] + 2 * border[d]);
        if let Some(winograd) = winograd {
            // The last tiles may reach one line and one column further.
            let [lines, columns] = winograd.covered();
            enclosed = [enclosed[0], enclosed[1].max(lines), enclosed[2].max(columns)];
        }
        let channels = groups * c_in;
        let (line, plane) = (enclosed[2] * channels, enclosed[1] * enclosed[2] * channels);
        // The elements of a kernel that lie side by side are one piece, if all channels are read.
        let is_joined = groups == 1 && dilation[2] == 1;
        let mut pieces = Vec::new();
        geometry.taps(|_, [d, h, w]| {
            if !is_joined || w == 0 {
                let [d, h, w] = [d * dilation[0], h * dilation[1], w * dilation[2]];
                pieces.push(d * plane + h * line + w * channels);
            }
        });
        let piece = if is_joined { kernel[2] * c_in } else { c_in };
        let shapes = format!("{x_shape:?} by {weight_shape:?}");
        let (batch, wide_parts) = (x_shape[0], false);
        Ok(Some(ChannelsLast { geometry, batch, way, enclosed, pieces, piece, wide_parts, shapes }))
    }

    /// Prefers parts of the result with many channels, for what is done to each part.
    pub fn set_wide_parts(&mut self, wide: bool) {
        self.wide_parts = wide;
    }

    fn channels(&self) -> usize {
        self.geometry.groups * self.geometry.c_in
    }

    fn out_channels(&self) -> usize {
        self.geometry.groups * self.geometry.c_out
    }

    /// Returns the elements of the input of one image with its border.
    fn image(&self) -> usize {
        self.enclosed.iter().product::<usize>() * self.channels()
    }

    /// Returns whether windows reach over the border, so that the input must be enclosed.
    pub fn has_border(&self) -> bool {
        self.enclosed != self.geometry.input
    }

    /// Returns the elements of the input with its border.
    pub fn enclosed_len(&self) -> usize {
        self.batch * self.image()
    }

    /// Returns the elements of the result.
    pub fn out_len(&self) -> usize {
        self.batch * self.geometry.out_size() * self.out_channels()
    }

    /// Returns the groups, which tell ways of packing a weight apart.
    pub fn groups(&self) -> usize {
        self.geometry.groups
    }

    /// Returns whether the weight is packed in slivers for tiles, not for each channel by itself.
    pub fn has_slivers(&self) -> bool {
        self.way.tile().is_some()
    }

    /// Packs the weight, `[out, in / groups, kernel...]`, for inputs of any size.
    ///
    /// # Panics
    ///
    /// When it is too short for its shape.
    pub fn pack(&self, weight: &[T]) -> Vec<T> {
        let geometry = &self.geometry;
        let (taps, Geometry { groups, .. }) = (geometry.kernel_size(), geometry);
        let Some(slivers) = self.slivers() else {
            return (0..taps * groups).map(|i| weight[i % groups * taps + i / groups]).collect();
        };
        let (depth, cols) = (taps * geometry.c_in, slivers.cols);
        let mut packed = fx_simd::in_huge_pages(vec![T::zero(); slivers.len() * cols * depth]);
        pack_slivers(&mut packed, cols * depth, &|i, out| {
            let columns = slivers.columns(i);
            self.sliver(cols, &weight[columns.start * depth..columns.end * depth], out);
        });
        packed
    }

    /// As [`pack`](Self::pack), in the memory of the weight if it has the same size packed.
    ///
    /// # Panics
    ///
    /// When it is too short for its shape.
    pub fn pack_vec(&self, mut weight: Vec<T>) -> Vec<T> {
        match self.slivers() {
            Some(slivers) if slivers.len() * slivers.cols == self.out_channels() => {
                let depth = self.geometry.kernel_size() * self.geometry.c_in;
                let cols = slivers.cols;
                pack_in_place(&mut weight, cols * depth, &|from, out| self.sliver(cols, from, out));
                weight
            }
            _ => self.pack(&weight),
        }
    }

    /// Packs the weights of some output channels side by side, `cols` of them or fewer: those of a tap and a
    /// channel follow each other.
    fn sliver(&self, cols: usize, from: &[T], out: &mut [T]) {
        let (taps, c_in) = (self.geometry.kernel_size(), self.geometry.c_in);
        let depth = taps * c_in;
        for at in 0..depth {
            let (channel, tap) = (at / taps, at % taps);
            let row = &mut out[(tap * c_in + channel) * cols..][..cols];
            for (x, weight) in row.iter_mut().zip(from.chunks_exact(depth)) {
                *x = weight[at];
            }
        }
    }

    /// Returns how the weight is packed, if not for each channel by itself.
    fn slivers(&self) -> Option<Slivers> {
        let (tile, &Geometry { groups, c_in, c_out, .. }) = (self.way.tile()?, &self.geometry);
        Some(match self.way {
            Algorithm::Groups(_) => {
                let shared = (tile.lanes / c_out).min(groups);
                Slivers { groups, c_in, c_out, cols: tile.lanes, shared, per_group: 1 }
            }
            _ => {
                let per_group = c_out.div_ceil(tile.cols);
                Slivers { groups, c_in, c_out, cols: tile.cols, shared: 1, per_group }
            }
        })
    }

    /// Copies an input, whose elements lie at these strides, with a border of zeros around it and its
    /// channels last.
    ///
    /// # Panics
    ///
    /// When a slice is too short.
    pub fn enclose(&self, x: &[T], strides: InputStrides, out: &mut [T]) {
        let (Geometry { input, .. }, channels) = (&self.geometry, self.channels());
        let padding = [0, 1, 2].map(|d| (self.enclosed[d] - input[d]) / 2);
        let line = self.enclosed[2] * channels;
        let [depth, height, width] = *input;
        let at_once = (BLOCK_BYTES / 8 / size_of::<T>()).div_ceil(line.max(1));
        parallel::chunks(&mut out[..self.enclosed_len()], line, at_once, |i, out| {
            let [d, h] = [i / self.enclosed[1] % self.enclosed[0], i % self.enclosed[1]];
            let (d, h) = (d.wrapping_sub(padding[0]), h.wrapping_sub(padding[1]));
            if d >= depth || h >= height {
                return out.fill(T::zero());
            }
            let (before, rest) = out.split_at_mut(padding[2] * channels);
            let (inside, after) = rest.split_at_mut(width * channels);
            before.fill(T::zero());
            after.fill(T::zero());
            let image = i / (self.enclosed[0] * self.enclosed[1]);
            let from = image * strides[0] + d * strides[2] + h * strides[3];
            fx_simd::call::<line_of, _>((&x[from..], (strides[4], strides[1]), channels, inside));
        });
    }

    /// Stores the convolution of `x`, an input with its border, in `out` after it was finished, and calls
    /// `done` with each part that is complete, on the thread that has written it: a range of positions,
    /// counted through all images, and the channels there.
    ///
    /// # Panics
    ///
    /// When a slice has not the length that it must have.
    pub fn run(&self, x: &[T], packed: &[T], out: &mut [T], epilogue: TileEpilogue<'_, T>, done: &Done<'_>) {
        assert_eq!(x.len(), self.enclosed_len(), "the input has its shape");
        assert_eq!(out.len(), self.out_len(), "the result has its shape");
        epilogue.check(self.out_channels(), out.len());
        match self.way {
            Algorithm::Tiles(tile) | Algorithm::Groups(tile) => {
                self.tiles(tile, x, packed, out, (epilogue, done))
            }
            Algorithm::Product(tile) => {
                let Geometry { c_in, c_out, .. } = self.geometry;
                let (m, wide_parts) = (self.batch * self.geometry.out_size(), self.wide_parts);
                let (alpha, beta) = (T::one(), T::zero());
                let product = Product { tile, m, k: c_in, n: c_out, alpha, beta, shared: true, wide_parts };
                // SAFETY: the elements of the result are distinct, and neighbours in each row.
                unsafe {
                    product.run_then(
                        &Left::Strided(x, (c_in, 1)),
                        &Right::Packed(packed),
                        &Output::new(out, (c_out, 1)),
                        epilogue,
                        done,
                    );
                }
            }
            Algorithm::Winograd(winograd) => {
                winograd.run(x, self.enclosed, packed, out, (epilogue, done));
            }
            Algorithm::Depthwise(tile) => self.depthwise(tile, x, packed, out, (epilogue, done)),
        }
    }

    /// Returns where the window at a position, counted through all images, begins.
    fn locate(&self, position: usize) -> usize {
        let Geometry { output, stride, .. } = &self.geometry;
        let (row, column) = (position / output[2], position % output[2]);
        let (row, h) = (row / output[1], row % output[1]);
        let (image, d) = (row / output[0], row % output[0]);
        let line = (d * stride[0] * self.enclosed[1] + h * stride[1]) * self.enclosed[2];
        image * self.image() + (line + column * stride[2]) * self.channels()
    }

    fn tiles(
        &self,
        tile: &'static Tile<T>,
        x: &[T],
        packed: &[T],
        out: &mut [T],
        (epilogue, done): (TileEpilogue<'_, T>, &Done<'_>),
    ) {
        let Geometry { stride, output, .. } = &self.geometry;
        let (positions, channels, depth) =
            (self.batch * self.geometry.out_size(), self.out_channels(), self.pieces.len() * self.piece);
        let Some(slivers) = self.slivers() else { unreachable!("tiles have slivers") };
        let is_grouped = matches!(self.way, Algorithm::Groups(_));
        let (all, cols, sliver_len) = (slivers.len(), slivers.cols, slivers.cols * depth);
        assert!(packed.len() >= all * sliver_len, "the weight was packed for this convolution");
        let n_tiles = positions.div_ceil(tile.rows);
        let height = positions.div_ceil(n_tiles);
        // A task has some tiles, one below the other, whose input and result stay in the second cache, and
        // all slivers, or some of them if there would be too few tasks.
        let bytes = (self.channels() * stride.iter().product::<usize>() + channels) * size_of::<T>() * height;
        let least = TASK.div_ceil(work(height, all * cols, depth).max(1));
        let most = (BLOCK_BYTES / bytes.max(1)).max(1);
        let down = least.max(most.min(n_tiles.div_ceil(2 * TASKS))).min(n_tiles);
        let n_down = n_tiles.div_ceil(down);
        let narrow = (TASK / 2).div_ceil(work(down * height, cols, depth).max(1));
        let across = all.div_ceil((TASKS / n_down).max(1)).max(narrow).min(all);
        let n_across = all.div_ceil(across);
        let c = Output::new(out, (channels, 1));
        let task = |i: usize| {
            let (first, sliver) = (i / n_across * down * height, i % n_across * across);
            let range = first..(first + down * height).min(positions);
            let parts = sliver..(sliver + across).min(all);
            let mut rows = [0; MOST_ROWS];
            for sliver in parts.clone() {
                let (columns, of) = (slivers.columns(sliver), slivers.groups(sliver));
                let b = packed[sliver * sliver_len..][..sliver_len].as_ptr();
                let from = of.start * slivers.c_in;
                let spread = is_grouped.then(|| Spread::new(of.len(), slivers.c_in, slivers.c_out));
                for start in range.clone().step_by(height) {
                    let rows = &mut rows[..height.min(range.end - start)];
                    let mut column = start % output[2];
                    let mut place = self.locate(start) + from;
                    for (i, row) in rows.iter_mut().enumerate() {
                        if column == output[2] {
                            (column, place) = (0, self.locate(start + i) + from);
                        }
                        *row = place;
                        place += stride[2] * self.channels();
                        column += 1;
                    }
                    let operands = Windows {
                        a: x.as_ptr(),
                        rows,
                        pieces: &self.pieces,
                        piece: self.piece,
                        b,
                        c: c.at(start, columns.start),
                        c_stride: channels,
                        epilogue: epilogue.from(start * channels + columns.start, columns.start),
                    };
                    // SAFETY: windows lie in the input with its border, whose length was asserted, the sliver
                    // has `depth` rows, and no other task has these positions and channels of the result.
                    unsafe {
                        match &spread {
                            Some(spread) => tile.run_groups(columns.len(), spread, &operands),
                            None => tile.run_windows(columns.len(), &operands),
                        }
                    };
                }
            }
            done(range, slivers.columns(parts.start).start..slivers.columns(parts.end - 1).end);
        };
        let n_tasks = n_down * n_across;
        if work(positions, all * cols, depth) <= TASK / 2 {
            (0..n_tasks).for_each(task);
        } else {
            parallel::each(n_tasks, task);
        }
    }

    fn depthwise(
        &self,
        tile: &'static Tile<T>,
        x: &[T],
        packed: &[T],
        out: &mut [T],
        (epilogue, done): (TileEpilogue<'_, T>, &Done<'_>),
    ) {
        let Geometry { output, .. } = &self.geometry;
        let line = output[2] * self.channels();
        let at_once = (TASK / 32).div_ceil(line * self.pieces.len());
        parallel::chunks(out, line, at_once, |i, out| {
            self.depthwise_line(tile, i, x, packed, (out, epilogue.from(i * line, 0)));
            let first = i * output[2];
            done(first..first + output[2], 0..self.channels());
        });
    }

    /// Convolves a line of windows, each channel by itself.
    fn depthwise_line(
        &self,
        tile: &'static Tile<T>,
        i: usize,
        x: &[T],
        packed: &[T],
        (out, epilogue): (&mut [T], TileEpilogue<'_, T>),
    ) {
        let Geometry { output, kernel, dilation, padding, stride, .. } = &self.geometry;
        let (channels, width) = (self.channels(), output[2]);
        let (row, h) = (i / output[1], i % output[1]);
        let (image, d) = (row / output[0], row % output[0]);
        let x = &x[image * self.image()..][..self.image()];
        assert!(
            packed.len() >= self.geometry.kernel_size() * channels,
            "the weight was packed for this convolution"
        );
        // The taps of the line whose rows lie in the input, with their columns.
        let mut all: SmallVec<[(Tap, usize); 25]> = SmallVec::new();
        self.geometry.taps(|tap, [td, th, tw]| {
            let place = [(0, d, td), (1, h, th)];
            if let [Some(d), Some(h)] = place.map(|(dim, at, tap)| self.geometry.source(dim, at, tap)) {
                let line = (d * self.enclosed[1] + h) * self.enclosed[2];
                let at = (line + tw * dilation[2]).wrapping_sub(padding[2]);
                all.push((Tap { x: at.wrapping_mul(channels), weight: tap * channels }, tw));
            }
        });
        let taps: SmallVec<[Tap; 25]> = all.iter().map(|(tap, _)| *tap).collect();
        // Windows of which all taps lie in the input are done some at a time.
        let inside = (0..kernel[2]).map(|tap| self.geometry.inside(tap, 0..width));
        let inside = inside.fold(0..width, |a, b| a.start.max(b.start)..a.end.min(b.end));
        let step = stride[2] * channels;
        let mut column = 0;
        while column < width {
            let at_once = [4, 2, 1].into_iter().find(|n| inside.start <= column && column + n <= inside.end);
            let n = at_once.unwrap_or(1);
            let operands = Taps {
                x: x.as_ptr().wrapping_add(column * step),
                step,
                taps: &taps,
                weight: packed.as_ptr(),
                out: out[column * channels..][..n * channels].as_mut_ptr(),
                epilogue: epilogue.from(column * channels, 0),
            };
            if at_once.is_some() {
                // SAFETY: all taps lie in the input under these windows, the weights have elements for all
                // taps, and the result has room.
                unsafe { tile.run_taps(n, channels, &operands) };
            } else {
                let lies = |tap: usize| self.geometry.source(2, column, tap).is_some();
                let taps: SmallVec<[Tap; 25]> =
                    all.iter().filter(|(_, tap)| lies(*tap)).map(|(tap, _)| *tap).collect();
                // SAFETY: as above, for these taps.
                unsafe { tile.run_taps(1, channels, &Taps { taps: &taps, ..operands }) };
            }
            column += n;
        }
    }

    /// Says what it is, in a few words.
    pub fn describe(&self) -> String {
        let way = match self.way {
            Algorithm::Tiles(_) | Algorithm::Groups(_) | Algorithm::Product(_) => "packed weights",
            Algorithm::Winograd(_) => "Winograd",
            Algorithm::Depthwise(_) => "depthwise",
        };
        format!("convolution {}, channels last, {way}", self.shapes)
    }
}

/// The most rows of a tile.
const MOST_ROWS: usize = 16;

fx_simd::wide! {
    /// Writes a line of an input, whose positions and channels are these strides apart, channels last.
    fn line_of[T: GemmElement]((x, strides, channels, out): (&[T], (usize, usize), usize, &mut [T])) {
        let (step, apart) = strides;
        if apart == 1 || channels == 1 {
            if step == channels {
                return out.copy_from_slice(&x[..out.len()]);
            }
            for (i, out) in out.chunks_mut(channels).enumerate() {
                out.copy_from_slice(&x[i * step..][..channels]);
            }
            return;
        }
        // In squares, so that lines of the cache are used up on both sides.
        const SIDE: usize = 16;
        let width = out.len() / channels;
        for from in (0..width).step_by(SIDE) {
            for channel in (0..channels).step_by(SIDE) {
                for i in from..(from + SIDE).min(width) {
                    let out = &mut out[i * channels..][channel..(channel + SIDE).min(channels)];
                    for (j, out) in out.iter_mut().enumerate() {
                        *out = x[i * step + (channel + j) * apart];
                    }
                }
            }
        }
    }
}
