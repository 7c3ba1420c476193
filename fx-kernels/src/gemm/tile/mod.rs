//! The innermost loops of matrix products, in the vectors of the machine: a tile of the result stays in registers.
//!
//! Each element of a tile is one chain of fused multiply-adds over `k`, in order, so that neither the size of
//! a tile nor the vectors that it is made of change a bit.

use super::Strides;

/// Loops for one element type.
pub struct Tile<T: 'static> {
    /// The rows of a full tile.
    pub rows: usize,
    /// The columns of a tile.
    pub cols: usize,
    run: unsafe fn(rows: usize, cols: usize, k: usize, &Operands<'_, T>),
    windows: unsafe fn(rows: usize, cols: usize, &Windows<'_, T>),
    groups: unsafe fn(rows: usize, cols: usize, &Spread, &Windows<'_, T>),
    /// The elements of a vector.
    pub lanes: usize,
    taps: unsafe fn(rows: usize, channels: usize, &Taps<'_, T>),
    /// The rows of which dot products are computed at a time.
    pub dot_rows: usize,
    dots: unsafe fn(rows: usize, k: usize, a: *const T, stride: usize, b: [*const T; 2], out: &mut Dots<T>),
}

/// How many full tiles a single row may be as wide as: two vectors are too few for no sum to wait for the
/// step before, and memory gives a third more to who reads in some places at a time.
pub const ROW: usize = 4;

/// The rows of the largest tile.
const MOST_ROWS: usize = 12;

/// The dot products of some rows with two columns.
pub type Dots<T> = [[T; 2]; 4];

/// What is done to the elements of a tile as soon as they are there: first the bias is added, then what lies
/// elsewhere as the result does, and then they are bounded. NaN stays NaN.
#[derive(Clone, Copy)]
pub struct TileEpilogue<'a, T> {
    /// An element for each column.
    pub bias: Option<&'a [T]>,
    /// An element for each of the result, whose columns are neighbours.
    pub other: Option<&'a [T]>,
    /// The least and the greatest result.
    pub bounds: Option<(T, T)>,
}

impl<'a, T: Copy> TileEpilogue<'a, T> {
    /// Nothing.
    pub const NONE: Self = TileEpilogue { bias: None, other: None, bounds: None };

    /// Returns what is done to a part of the result: that from a place and a column on.
    pub fn from(&self, place: usize, column: usize) -> TileEpilogue<'a, T> {
        TileEpilogue {
            bias: self.bias.map(|bias| &bias[column..]),
            other: self.other.map(|other| &other[place..]),
            bounds: self.bounds,
        }
    }

    /// Returns whether nothing is done.
    pub fn is_none(&self) -> bool {
        self.bias.is_none() && self.other.is_none() && self.bounds.is_none()
    }

    /// Asserts that there is something for all elements of a result.
    ///
    /// # Panics
    ///
    /// When there is not.
    pub fn check(&self, columns: usize, numel: usize) {
        assert!(self.bias.is_none_or(|bias| bias.len() >= columns), "the bias is too short");
        assert!(self.other.is_none_or(|other| other.len() >= numel), "what is added is too short");
    }
}

/// What comes into the second cache while a tile is computed, since it is read after that. Vectors multiply
/// faster than the processor fetches what lies further away, and it cannot know where that will be.
#[derive(Clone, Copy)]
pub struct Next<T> {
    /// Where the first line is, which need not be there.
    first: *const T,
    /// How many bytes the address moves with each step of `k`.
    step: usize,
}

impl<T> Next<T> {
    /// Nothing but this, which is read anyway.
    pub fn nothing(read: *const T) -> Next<T> {
        Next { first: read, step: 0 }
    }

    /// One of `tiles` shares of so many elements, for a tile of `k` steps.
    pub fn share(first: *const T, len: usize, tile: usize, tiles: usize, k: usize) -> Next<T> {
        let step = (len * size_of::<T>()).div_ceil(tiles * k);
        Next { first: first.wrapping_byte_add(tile * k * step), step }
    }
}

/// The operands of a tile: `c = alpha * a @ b + beta * c`, where the columns of `b` lie one beside the other.
pub struct Operands<'a, T> {
    pub a: *const T,
    pub a_strides: Strides,
    pub b: *const T,
    pub b_stride: usize,
    /// How far the columns of a full tile are from those of the next, of which a single row may have some.
    pub b_tile: usize,
    pub alpha: T,
    pub beta: T,
    pub c: *mut T,
    pub c_strides: Strides,
    /// What is done to the elements of `c`.
    pub epilogue: TileEpilogue<'a, T>,
    /// What is fetched meanwhile.
    pub next: Next<T>,
}

/// The operands of a tile whose rows of `a` lie anywhere, each in pieces: what windows of a convolution have
/// under them.
pub struct Windows<'a, T> {
    pub a: *const T,
    /// Where the first piece of each row would be, if it were at zero.
    pub rows: &'a [usize],
    /// Where the pieces are from there on.
    pub pieces: &'a [usize],
    /// The elements of a piece.
    pub piece: usize,
    /// As many rows as the pieces have elements, of the columns of a full tile.
    pub b: *const T,
    pub c: *mut T,
    /// The distance of rows; columns are neighbours.
    pub c_stride: usize,
    /// What is done to the elements of `c`.
    pub epilogue: TileEpilogue<'a, T>,
}

/// How a vector of channels of a result, of several groups, takes those of the input.
pub struct Spread {
    /// The number of the first channel of its group for each element of the vector, counted from that of the
    /// first element.
    starts: [u32; MOST_LANES],
    /// The channels of the input that all groups have.
    inputs: usize,
}

impl Spread {
    /// As many groups as there are in a vector, of so many channels of the input and the result.
    ///
    /// # Panics
    ///
    /// When they need more elements than the largest vector has.
    pub fn new(groups: usize, c_in: usize, c_out: usize) -> Spread {
        let inputs = groups * c_in;
        assert!(inputs.max(groups * c_out) <= MOST_LANES, "{groups} groups do not fit into a vector");
        let start = |lane: usize| if lane < groups * c_out { lane / c_out * c_in } else { 0 };
        Spread { starts: std::array::from_fn(|lane| start(lane) as u32), inputs }
    }
}

/// The elements of the largest vector.
const MOST_LANES: usize = 16;

/// An element of the kernels of all channels.
#[derive(Clone, Copy)]
pub struct Tap {
    /// Where the channels are that it meets, from those of the first window on.
    pub x: usize,
    /// Where its weights are.
    pub weight: usize,
}

/// Windows of which each channel is multiplied by its own kernel.
pub struct Taps<'a, T> {
    pub x: *const T,
    /// The distance of windows.
    pub step: usize,
    pub taps: &'a [Tap],
    pub weight: *const T,
    pub out: *mut T,
    /// What is done to the elements of `out`.
    pub epilogue: TileEpilogue<'a, T>,
}

impl<T: Copy> Tile<T> {
    /// Stores the sums over the taps for 1, 2 or 4 windows of as many channels, which are no fewer than a
    /// vector has elements.
    ///
    /// # Safety
    ///
    /// This tile was given by [`tile_f32`] or [`tile_f64`]. The channels that each tap meets under each
    /// window and its weights can be read, and `out` has room for the channels of the windows, one after the
    /// other, which nobody else writes. What finishes it has elements for these.
    pub unsafe fn run_taps(&self, rows: usize, channels: usize, operands: &Taps<'_, T>) {
        debug_assert!(matches!(rows, 1 | 2 | 4) && channels >= self.lanes);
        // SAFETY: the caller's promise, and the features were found when the tile was given.
        unsafe { (self.taps)(rows, channels, operands) }
    }

    /// Computes a tile of `rows` rows and `cols` columns, no more than a full one has; a single row may have
    /// [`ROW`] times as many. If `beta` is zero, `c` is not read.
    ///
    /// # Safety
    ///
    /// This tile was given by [`tile_f32`] or [`tile_f64`]. For `k` steps, `a` must be readable at the rows
    /// of the tile and `b` at the columns of full ones, and `c` writable at the rows and columns of the tile,
    /// by nobody else. What finishes it has elements for these, the columns of which are then neighbours.
    pub unsafe fn run(&self, rows: usize, cols: usize, k: usize, operands: &Operands<'_, T>) {
        let most = if rows == 1 { ROW * self.cols } else { self.cols };
        debug_assert!((1..=self.rows).contains(&rows) && (1..=most).contains(&cols));
        debug_assert!(operands.c_strides.1 == 1 || operands.epilogue.is_none());
        // SAFETY: the caller's promise, and the features were found when the tile was given.
        unsafe { (self.run)(rows, cols, k, operands) }
    }

    /// Stores a tile of `cols` columns, no more than a full one has, with a row for each of the rows of `a`.
    ///
    /// # Safety
    ///
    /// This tile was given by [`tile_f32`] or [`tile_f64`]. There are no more rows than a full tile has; the
    /// pieces of all rows can be read, `b` at the columns of a full tile, and `c` be written at the rows and
    /// columns of the tile, by nobody else. What finishes it has elements for these.
    pub unsafe fn run_windows(&self, cols: usize, operands: &Windows<'_, T>) {
        debug_assert!((1..=self.rows).contains(&operands.rows.len()) && (1..=self.cols).contains(&cols));
        // SAFETY: the caller's promise, and the features were found when the tile was given.
        unsafe { (self.windows)(operands.rows.len(), cols, operands) }
    }

    /// Stores as many channels of several groups, no more than a vector has, with a row for each of the rows
    /// of `a`: each piece has the channels of one group, which those of the other groups follow, and `b` the
    /// weights of a vector for each.
    ///
    /// # Safety
    ///
    /// As [`run_windows`](Self::run_windows), of pieces for all groups of `spread`, and `b` at the elements
    /// of a vector.
    pub unsafe fn run_groups(&self, cols: usize, spread: &Spread, operands: &Windows<'_, T>) {
        debug_assert!((1..=self.rows).contains(&operands.rows.len()) && (1..=self.lanes).contains(&cols));
        debug_assert!((1..=self.lanes).contains(&spread.inputs));
        // SAFETY: the caller's promise, and the features were found when the tile was given.
        unsafe { (self.groups)(operands.rows.len(), cols, spread, operands) }
    }

    /// Computes the dot products of up to `dot_rows` rows of `a`, which begin `a_stride` apart, with the
    /// first `cols` columns, one or two, of `b`, which begin `b_stride` apart; all have `k` neighbouring
    /// elements. They are added in 64 bytes of lanes.
    ///
    /// # Panics
    ///
    /// When an operand is too short.
    pub fn dots(
        &self,
        rows: usize,
        cols: usize,
        k: usize,
        (a, a_stride): (&[T], usize),
        (b, b_stride): (&[T], usize),
    ) -> Dots<T>
    where
        T: super::GemmElement,
    {
        assert!((1..=self.dot_rows).contains(&rows) && (1..=2).contains(&cols));
        assert!(a.len() >= (rows - 1) * a_stride + k && b.len() >= (cols - 1) * b_stride + k);
        let mut out = [[T::zero(); 2]; 4];
        let second = b[(cols - 1) * b_stride..].as_ptr();
        // SAFETY: the rows and columns lie in the slices; the features were found when the tile was given.
        unsafe { (self.dots)(rows, k, a.as_ptr(), a_stride, [b.as_ptr(), second], &mut out) };
        out
    }
}

/// Returns the loops for f32, if this machine has vectors that they are written for.
pub fn tile_f32() -> Option<&'static Tile<f32>> {
    #[cfg(target_arch = "x86_64")]
    {
        if std::arch::is_x86_feature_detected!("avx512f") {
            return Some(&x86::F32_AVX512);
        }
        if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma") {
            return Some(&x86::F32_AVX2);
        }
    }
    #[cfg(target_arch = "aarch64")]
    return std::arch::is_aarch64_feature_detected!("neon").then_some(&neon::F32);
    #[cfg(not(target_arch = "aarch64"))]
    None
}

/// Returns the loops for f64, if this machine has vectors that they are written for.
pub fn tile_f64() -> Option<&'static Tile<f64>> {
    #[cfg(target_arch = "x86_64")]
    {
        if std::arch::is_x86_feature_detected!("avx512f") {
            return Some(&x86::F64_AVX512);
        }
        if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma") {
            return Some(&x86::F64_AVX2);
        }
    }
    #[cfg(target_arch = "aarch64")]
    return std::arch::is_aarch64_feature_detected!("neon").then_some(&neon::F64);
    #[cfg(not(target_arch = "aarch64"))]
    None
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
/// Finishes a vector of sums, which is at a place of the part of the result, and in a column of it.
macro_rules! finished {
    ($sum:expr, $epilogue:expr, $place:expr, $column:expr, $load:expr, $set1:ident, $add:ident, $min:ident, $max:ident) => {{
        let mut sum = $sum;
        if let Some(bias) = $epilogue.bias {
            sum = $add(sum, $load(bias.as_ptr().wrapping_add($column)));
        }
        if let Some(other) = $epilogue.other {
            sum = $add(sum, $load(other.as_ptr().wrapping_add($place)));
        }
        // The second operand is the result if one is NaN, or both are zeros.
        if let Some((low, high)) = $epilogue.bounds {
            sum = $min($set1(high), $max($set1(low), sum));
        }
        sum
    }};
}

/// Defines the loops for vectors, by the functions that work on these.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
macro_rules! tiles {
    ($($name:ident: $t:ty, $features:literal, $lanes:literal, [$($rows:literal)*], [$($dot_rows:literal)*],
        $zero:ident, $load:ident, $store:ident, $load_some:ident, $store_some:ident, $set1:ident, $fma:ident, $mul:ident, $add:ident, $min:ident, $max:ident,
        [$places:ident, $next_places:ident, $permute:ident];)*) => {$(
        pub static $name: Tile<$t> = {
            const LANES: usize = $lanes;
            const COLS: usize = 2 * LANES;

            #[target_feature(enable = $features)]
            unsafe fn tile<const ROWS: usize, const VECTORS: usize>(cols: usize, k: usize, operands: &Operands<'_, $t>) {
                let &Operands { a, a_strides: (rsa, csa), b, b_stride, b_tile, alpha, beta, c, c_strides: (rsc, csc), epilogue, next } =
                    operands;
                // SAFETY: the caller promises the rows and columns of `a`, `b` and `c` that are touched here.
                // Pointers that leave them after the last step are not read.
                unsafe {
                    let mut sums = [[$zero(); VECTORS]; ROWS];
                    let (mut b, mut ahead) = (b, next.first.cast::<u8>());
                    // A pointer for three rows: one for each does not fit into registers, and to compute each
                    // from the one before takes units of the processor that vectors need.
                    let (rsa, csa) = (rsa * size_of::<$t>(), csa * size_of::<$t>());
                    let mut starts = [a.cast::<u8>(); MOST_ROWS.div_ceil(3)];
                    for i in 0..ROWS.div_ceil(3) {
                        starts[i] = starts[i].wrapping_add(3 * i * rsa);
                    }
                    for _ in 0..k {
                        let mut y = [$zero(); VECTORS];
                        for j in 0..VECTORS {
                            y[j] = $load(b.wrapping_add(j / 2 * b_tile + j % 2 * LANES));
                        }
                        for i in 0..ROWS {
                            let x = $set1(*starts[i / 3].wrapping_add(i % 3 * rsa).cast::<$t>());
                            for j in 0..VECTORS {
                                sums[i][j] = $fma(x, y[j], sums[i][j]);
                            }
                        }
                        if const { VECTORS == 2 && ROWS > 1 } {
                            prefetch_line_later(ahead);
                            ahead = ahead.wrapping_add(next.step);
                        }
                        for i in 0..ROWS.div_ceil(3) {
                            starts[i] = opaque(starts[i].wrapping_add(csa));
                        }
                        b = b.wrapping_add(b_stride);
                    }
                    let scale = $set1(alpha);
                    if csc == 1 {
                        // Row by row, since sums whose row is not known at compile time would lie in memory
                        // during the whole product.
                        $(if const { $rows <= ROWS } {
                            let place = ($rows - 1) * rsc;
                            for j in 0..VECTORS {
                                let at = j * LANES;
                                let (c, n) = (c.wrapping_add(place + at), cols.saturating_sub(at));
                                let mut sum = $mul(scale, sums[$rows - 1][j]);
                                if n >= LANES {
                                    if beta != 0.0 {
                                        sum = $add(sum, $mul($set1(beta), $load(c)));
                                    }
                                    $store(c, finished!(sum, epilogue, place + at, at, $load, $set1, $add, $min, $max));
                                } else if n > 0 {
                                    if beta != 0.0 {
                                        sum = $add(sum, $mul($set1(beta), $load_some(c, n)));
                                    }
                                    let load = |x| $load_some(x, n);
                                    $store_some(c, n, finished!(sum, epilogue, place + at, at, load, $set1, $add, $min, $max));
                                }
                            }
                        })*
                        return;
                    }
                    // Row by row here, too: `all` may lie in memory.
                    let mut all = [[[0.0; LANES]; VECTORS]; ROWS];
                    $(if const { $rows <= ROWS } {
                        for j in 0..VECTORS {
                            $store(all[$rows - 1][j].as_mut_ptr(), $mul(scale, sums[$rows - 1][j]));
                        }
                    })*
                    for (i, row) in all.iter().enumerate() {
                        for (j, &sum) in row.as_flattened()[..cols].iter().enumerate() {
                            let c = c.wrapping_add(i * rsc + j * csc);
                            *c = if beta == 0.0 { sum } else { sum + beta * *c };
                        }
                    }
                }
            }

            unsafe fn run(rows: usize, cols: usize, k: usize, operands: &Operands<'_, $t>) {
                // SAFETY: the caller's promise.
                unsafe {
                    match rows {
                        1 if cols > 3 * COLS => tile::<1, 8>(cols, k, operands),
                        1 if cols > 2 * COLS => tile::<1, 6>(cols, k, operands),
                        1 if cols > COLS => tile::<1, 4>(cols, k, operands),
                        // Half of the columns, if there are no more.
                        $($rows if cols <= LANES => tile::<$rows, 1>(cols, k, operands),)*
                        $($rows => tile::<$rows, 2>(cols, k, operands),)*
                        _ => unreachable!("a tile has no more rows than a full one"),
                    }
                }
            }

            #[target_feature(enable = $features)]
            unsafe fn window_tile<const ROWS: usize, const VECTORS: usize>(cols: usize, operands: &Windows<'_, $t>) {
                let &Windows { a, rows, pieces, piece, mut b, c, c_stride, epilogue } = operands;
                // SAFETY: the caller promises the rows and columns of `a`, `b` and `c` that are touched here.
                // Pointers that leave them after the last step are not read.
                unsafe {
                    let mut starts = [a; ROWS];
                    for i in 0..ROWS {
                        starts[i] = a.wrapping_add(*rows.get_unchecked(i));
                    }
                    let mut sums = [[$zero(); VECTORS]; ROWS];
                    // One loop over the elements of all pieces: inside of two, sums leave the registers.
                    let mut next = pieces.as_ptr();
                    let (mut at, mut left) = (0, 0);
                    for _ in 0..piece * pieces.len() {
                        if left == 0 {
                            at = *next;
                            next = next.wrapping_add(1);
                            left = piece;
                        }
                        let mut y = [$zero(); VECTORS];
                        for j in 0..VECTORS {
                            y[j] = $load(b.wrapping_add(j * LANES));
                        }
                        for i in 0..ROWS {
                            let x = $set1(*starts[i].wrapping_add(at));
                            for j in 0..VECTORS {
                                sums[i][j] = $fma(x, y[j], sums[i][j]);
                            }
                        }
                        b = b.wrapping_add(COLS);
                        at += 1;
                        left -= 1;
                    }
                    $(if const { $rows <= ROWS } {
                        let place = ($rows - 1) * c_stride;
                        for j in 0..VECTORS {
                            let at = j * LANES;
                            let (c, n, sum) = (c.wrapping_add(place + at), cols.saturating_sub(at), sums[$rows - 1][j]);
                            if n >= LANES {
                                $store(c, finished!(sum, epilogue, place + at, at, $load, $set1, $add, $min, $max));
                            } else if n > 0 {
                                let load = |x| $load_some(x, n);
                                $store_some(c, n, finished!(sum, epilogue, place + at, at, load, $set1, $add, $min, $max));
                            }
                        }
                    })*
                }
            }

            unsafe fn windows(rows: usize, cols: usize, operands: &Windows<'_, $t>) {
                // SAFETY: the caller's promise.
                unsafe {
                    match rows {
                        $($rows if cols <= LANES => window_tile::<$rows, 1>(cols, operands),)*
                        $($rows => window_tile::<$rows, 2>(cols, operands),)*
                        _ => unreachable!("a tile has no more rows than a full one"),
                    }
                }
            }

            #[target_feature(enable = $features)]
            unsafe fn group_tile<const ROWS: usize>(cols: usize, spread: &Spread, operands: &Windows<'_, $t>) {
                let &Windows { a, rows, pieces, piece, mut b, c, c_stride, epilogue } = operands;
                // SAFETY: the caller promises the rows and columns of `a`, `b` and `c` that are touched here.
                unsafe {
                    let mut starts = [a; ROWS];
                    for i in 0..ROWS {
                        starts[i] = a.wrapping_add(*rows.get_unchecked(i));
                    }
                    let first = $places(&spread.starts);
                    let (mut sums, mut x) = ([$zero(); ROWS], [$zero(); ROWS]);
                    // One loop, as for windows.
                    let mut next = pieces.as_ptr();
                    let (mut places, mut left) = (first, 0);
                    for _ in 0..piece * pieces.len() {
                        if left == 0 {
                            let at = *next;
                            next = next.wrapping_add(1);
                            (places, left) = (first, piece);
                            for i in 0..ROWS {
                                let from = starts[i].wrapping_add(at);
                                x[i] = if spread.inputs == LANES { $load(from) } else { $load_some(from, spread.inputs) };
                            }
                        }
                        let y = $load(b);
                        for i in 0..ROWS {
                            sums[i] = $fma($permute(x[i], places), y, sums[i]);
                        }
                        places = $next_places(places);
                        b = b.wrapping_add(LANES);
                        left -= 1;
                    }
                    $(if const { $rows <= ROWS } {
                        let place = ($rows - 1) * c_stride;
                        let (c, sum) = (c.wrapping_add(place), sums[$rows - 1]);
                        if cols == LANES {
                            $store(c, finished!(sum, epilogue, place, 0, $load, $set1, $add, $min, $max));
                        } else {
                            let load = |x| $load_some(x, cols);
                            $store_some(c, cols, finished!(sum, epilogue, place, 0, load, $set1, $add, $min, $max));
                        }
                    })*
                }
            }

            unsafe fn groups(rows: usize, cols: usize, spread: &Spread, operands: &Windows<'_, $t>) {
                // SAFETY: the caller's promise.
                unsafe {
                    match rows {
                        $($rows => group_tile::<$rows>(cols, spread, operands),)*
                        _ => unreachable!("a tile has no more rows than a full one"),
                    }
                }
            }

            #[target_feature(enable = $features)]
            unsafe fn tap_tile<const ROWS: usize, const VECTORS: usize>(first: usize, channels: usize, operands: &Taps<'_, $t>) {
                let &Taps { x, step, taps, weight, out, epilogue } = operands;
                let mut sums = [[$zero(); VECTORS]; ROWS];
                // SAFETY: the caller promises the channels of all taps, and room for those of the windows.
                unsafe {
                    for tap in taps {
                        let x = x.wrapping_add(tap.x.wrapping_add(first));
                        let weight = weight.wrapping_add(tap.weight + first);
                        let mut y = [$zero(); VECTORS];
                        for j in 0..VECTORS {
                            y[j] = $load(weight.wrapping_add(j * LANES));
                        }
                        for i in 0..ROWS {
                            for j in 0..VECTORS {
                                sums[i][j] = $fma($load(x.wrapping_add(i * step + j * LANES)), y[j], sums[i][j]);
                            }
                        }
                    }
                    $(if const { $rows <= ROWS } {
                        let place = ($rows - 1) * channels + first;
                        for j in 0..VECTORS {
                            let at = j * LANES;
                            let sum = finished!(sums[$rows - 1][j], epilogue, place + at, first + at, $load, $set1, $add, $min, $max);
                            $store(out.wrapping_add(place + at), sum);
                        }
                    })*
                }
            }

            #[target_feature(enable = $features)]
            unsafe fn tap_rows<const ROWS: usize>(channels: usize, operands: &Taps<'_, $t>) {
                let mut first = 0;
                // SAFETY: the caller's promise.
                unsafe {
                    while first + COLS <= channels {
                        tap_tile::<ROWS, 2>(first, channels, operands);
                        first += COLS;
                    }
                    if first + LANES <= channels {
                        tap_tile::<ROWS, 1>(first, channels, operands);
                        first += LANES;
                    }
                    if first < channels {
                        // The last vector overlaps the one before.
                        tap_tile::<ROWS, 1>(channels - LANES, channels, operands);
                    }
                }
            }

            unsafe fn taps(rows: usize, channels: usize, operands: &Taps<'_, $t>) {
                // SAFETY: the caller's promise.
                unsafe {
                    match rows {
                        4 => tap_rows::<4>(channels, operands),
                        2 => tap_rows::<2>(channels, operands),
                        _ => tap_rows::<1>(channels, operands),
                    }
                }
            }

            /// The vectors of the lanes in which a dot product is added.
            const PARTS: usize = 64 / size_of::<$t>() / LANES;
            const STEP: usize = PARTS * LANES;

            #[target_feature(enable = $features)]
            unsafe fn dot_tile<const ROWS: usize>(k: usize, a: *const $t, stride: usize, b: [*const $t; 2], out: &mut Dots<$t>) {
                let mut sums = [[[$zero(); PARTS]; 2]; ROWS];
                let add = |sums: &mut [[[_; PARTS]; 2]; ROWS], a: *const $t, stride: usize, b: [*const $t; 2]| {
                    for part in 0..PARTS {
                        // SAFETY: the caller of the closure promises `STEP` elements.
                        let y = unsafe { b.map(|b| $load(b.add(part * LANES))) };
                        for i in 0..ROWS {
                            // SAFETY: as above.
                            let x = unsafe { $load(a.add(i * stride + part * LANES)) };
                            for j in 0..2 {
                                sums[i][j][part] = $fma(x, y[j], sums[i][j][part]);
                            }
                        }
                    }
                };
                let whole = k / STEP * STEP;
                for at in (0..whole).step_by(STEP) {
                    add(&mut sums, a.wrapping_add(at), stride, b.map(|b| b.wrapping_add(at)));
                }
                if whole < k {
                    // What is left goes with zeros behind it.
                    let mut rows = [[0.0; STEP]; ROWS];
                    let mut cols = [[0.0; STEP]; 2];
                    // SAFETY: the caller promises `k` elements.
                    unsafe {
                        for (i, row) in rows.iter_mut().enumerate() {
                            row.as_mut_ptr().copy_from_nonoverlapping(a.add(i * stride + whole), k - whole);
                        }
                        for (col, b) in cols.iter_mut().zip(b) {
                            col.as_mut_ptr().copy_from_nonoverlapping(b.add(whole), k - whole);
                        }
                    }
                    add(&mut sums, rows.as_ptr().cast(), STEP, [cols[0].as_ptr(), cols[1].as_ptr()]);
                }
                for i in 0..ROWS {
                    for j in 0..2 {
                        let mut lanes = [0.0; STEP];
                        for part in 0..PARTS {
                            // SAFETY: there are `PARTS` vectors of lanes.
                            unsafe { $store(lanes.as_mut_ptr().add(part * LANES), sums[i][j][part]) };
                        }
                        let mut half = STEP / 2;
                        while half > 0 {
                            for lane in 0..half {
                                lanes[lane] += lanes[lane + half];
                            }
                            half /= 2;
                        }
                        out[i][j] = lanes[0];
                    }
                }
            }

            unsafe fn dots(rows: usize, k: usize, a: *const $t, stride: usize, b: [*const $t; 2], out: &mut Dots<$t>) {
                // SAFETY: the caller's promise.
                unsafe {
                    match rows {
                        $($dot_rows => dot_tile::<$dot_rows>(k, a, stride, b, out),)*
                        _ => unreachable!("there are no more rows than `dot_rows`"),
                    }
                }
            }

            const ROWS: usize = [$($rows),*].len();
            const DOT_ROWS: usize = [$($dot_rows),*].len();
            Tile { rows: ROWS, cols: COLS, run, windows, groups, lanes: LANES, taps, dot_rows: DOT_ROWS, dots }
        };
    )*};
}

#[cfg(target_arch = "x86_64")]
pub mod x86;

#[cfg(target_arch = "aarch64")]
pub mod neon;
