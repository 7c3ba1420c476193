//! Joins the elements of rows, or of columns, in a fixed tree.
//!
//! Invariant: the tree depends on sizes alone. Rows are joined in lanes, which are fast and keep the rounding
//! error of sums small.
//!
//! A [`Step`] says what is joined and how. Each is compiled for two functions, `rows` and `lines`; what
//! calls them, in `ops::reduce::fold`, is not compiled anew for each. `small_rows` and `small_lines` do the
//! same one element after the other, for old machines.

use std::hint::black_box;
use std::marker::PhantomData;
use std::ops::{Add, Mul};

use fx_base::math::Real;

use super::lanes::{Hidden, narrow, tree_of_last};

/// The most elements of a row that `rows` joins.
pub const BLOCK: usize = 2048;
/// Rows shorter than this are joined in fewer lanes,
const SHORT: usize = 512;
/// and in fewer yet.
const TINY: usize = 64;
/// Bytes of rows of which most do not come from a cache nearby,
const FAR: usize = 1 << 18;
/// and how many of the next row are fetched then before a row is joined.
const AHEAD: usize = 1 << 10;
/// Rows that are joined to columns in one go, which spares loads and stores.
pub const AT_ONCE: usize = 8;
/// Columns of these that are joined one row after the other, in registers: half as many of 8 bytes in vectors of
/// 256 bits.
const PIECE: usize = 64;

/// A way to join elements.
pub trait Step: Copy + Send + Sync + 'static {
    /// An element.
    type Item: Copy + Default + Send + Sync + 'static;
    /// The result for some elements.
    type State: Copy + Send + Sync + 'static;
    /// How two results are joined.
    type Join: Step<Item = Self::State, State = Self::State> + Default;
    /// The result for no elements.
    const INIT: Self::State;
    /// Whether there is a copy for vectors of 512 bits.
    const WIDEST: bool = false;
    /// Whether the last elements of a short row are joined to a lane each, which is faster for few of them.
    /// Sums join them in parts, of which each is half as long.
    const SPREAD: bool = false;

    /// Returns the result for one element.
    fn map(self, x: Self::Item) -> Self::State;
    /// Joins two results.
    fn join(a: Self::State, b: Self::State) -> Self::State;
}

/// A number that is added and multiplied; integers wrap.
pub trait Number: Copy + Default + Send + Sync + 'static {
    /// Zero.
    const ZERO: Self;
    /// One.
    const ONE: Self;
    /// Whether sums of it pay in vectors of 512 bits.
    const WIDEST: bool = false;
    /// Returns the sum.
    fn sum(self, other: Self) -> Self;
    /// Returns the product.
    fn product(self, other: Self) -> Self;
}

macro_rules! number {
    ($($ty:ident $zero:literal $one:literal $widest:literal $sum:path, $product:path;)*) => {$(
        impl Number for $ty {
            const ZERO: Self = $zero;
            const ONE: Self = $one;
            const WIDEST: bool = $widest;
            #[inline(always)]
            fn sum(self, other: Self) -> Self {
                $sum(self, other)
            }
            #[inline(always)]
            fn product(self, other: Self) -> Self {
                $product(self, other)
            }
        }
    )*};
}
number! {
    f32 0.0 1.0 true f32::add, f32::mul;
    f64 0.0 1.0 true f64::add, f64::mul;
    i64 0 1 false i64::wrapping_add, i64::wrapping_mul;
}

/// Adds elements, converted to the type of the sum.
#[derive(Clone, Copy, Default)]
pub struct Sum<T, A = T>(PhantomData<(T, A)>);

impl<T: Copy + Default + Send + Sync + 'static, A: Number + From<T>> Step for Sum<T, A> {
    type Item = T;
    type State = A;
    type Join = Sum<A>;
    const INIT: A = A::ZERO;
    const WIDEST: bool = A::WIDEST || size_of::<T>() < size_of::<A>();

    #[inline(always)]
    fn map(self, x: T) -> A {
        A::from(x)
    }

    #[inline(always)]
    fn join(a: A, b: A) -> A {
        a.sum(b)
    }
}

/// Multiplies elements.
#[derive(Clone, Copy, Default)]
pub struct Product<A>(PhantomData<A>);

impl<A: Number> Step for Product<A> {
    type Item = A;
    type State = A;
    type Join = Product<A>;
    const INIT: A = A::ONE;
    const WIDEST: bool = true;

    #[inline(always)]
    fn map(self, x: A) -> A {
        x
    }

    #[inline(always)]
    fn join(a: A, b: A) -> A {
        a.product(b)
    }
}

/// Adds the squares of the differences from a number.
#[derive(Clone, Copy)]
pub struct Squares<T> {
    /// The number.
    pub center: f64,
    item: PhantomData<T>,
}

impl<T> Squares<T> {
    /// Adds up squares of distances from this number.
    pub fn around(center: f64) -> Self {
        Squares { center, item: PhantomData }
    }
}

impl<T: Real + Default> Step for Squares<T> {
    type Item = T;
    type State = f64;
    type Join = Sum<f64>;
    const INIT: f64 = 0.0;
    const WIDEST: bool = size_of::<T>() < size_of::<f64>();

    #[inline(always)]
    fn map(self, x: T) -> f64 {
        let deviation = x.to_f64() - self.center;
        deviation * deviation
    }

    #[inline(always)]
    fn join(a: f64, b: f64) -> f64 {
        a + b
    }
}

/// Adds squares.
#[derive(Clone, Copy, Default)]
pub struct SumOfSquares<T>(PhantomData<T>);

impl<T: Real + Default> Step for SumOfSquares<T> {
    type Item = T;
    type State = f64;
    type Join = Sum<f64>;
    const INIT: f64 = 0.0;
    const WIDEST: bool = true;

    #[inline(always)]
    fn map(self, x: T) -> f64 {
        x.to_f64() * x.to_f64()
    }

    #[inline(always)]
    fn join(a: f64, b: f64) -> f64 {
        a + b
    }
}

/// Adds absolute values.
#[derive(Clone, Copy)]
pub struct Magnitudes;

impl Step for Magnitudes {
    type Item = f32;
    type State = f64;
    type Join = Sum<f64>;
    const INIT: f64 = 0.0;
    const WIDEST: bool = true;

    #[inline(always)]
    fn map(self, x: f32) -> f64 {
        f64::from(x).abs()
    }

    #[inline(always)]
    fn join(a: f64, b: f64) -> f64 {
        a + b
    }
}

/// Adds the elements that are not NaN.
#[derive(Clone, Copy, Default)]
pub struct Numbers<T>(PhantomData<T>);

macro_rules! numbers {
    ($($ty:ident $signed:ident;)*) => {$(
        impl Step for Numbers<$ty> {
            type Item = $ty;
            type State = $ty;
            type Join = Sum<$ty>;
            const INIT: $ty = 0.0;
            const WIDEST: bool = true;

            /// Integer arithmetic on the bits, of which LLVM makes vectors where it makes none of a choice.
            #[inline(always)]
            fn map(self, x: $ty) -> $ty {
                let bits = x.to_bits().cast_signed();
                let beyond_infinity = $ty::INFINITY.to_bits().cast_signed() - (bits & $signed::MAX);
                let is_nan = beyond_infinity >> ($signed::BITS - 1);
                $ty::from_bits((bits & !is_nan).cast_unsigned())
            }

            #[inline(always)]
            fn join(a: $ty, b: $ty) -> $ty {
                a + b
            }
        }
    )*};
}
numbers! {
    f32 i32;
    f64 i64;
}

/// Counts the elements that are not zero.
#[derive(Clone, Copy, Default)]
pub struct Count<T>(PhantomData<T>);

impl<T: Copy + Default + PartialEq + Send + Sync + 'static> Step for Count<T> {
    type Item = T;
    type State = i64;
    type Join = Sum<i64>;
    const INIT: i64 = 0;
    const WIDEST: bool = true;

    #[inline(always)]
    fn map(self, x: T) -> i64 {
        i64::from(x != T::default())
    }

    #[inline(always)]
    fn join(a: i64, b: i64) -> i64 {
        a + b
    }
}

macro_rules! truth {
    ($($(#[$doc:meta])* $name:ident $init:literal |$a:ident, $b:ident| $join:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Default)]
        pub struct $name;

        impl Step for $name {
            type Item = bool;
            type State = bool;
            type Join = $name;
            const INIT: bool = $init;
            const WIDEST: bool = true;

            #[inline(always)]
            fn map(self, x: bool) -> bool {
                x
            }

            #[inline(always)]
            fn join($a: bool, $b: bool) -> bool {
                $join
            }
        }
    )*};
}
truth! {
    /// Whether all are true.
    All true |a, b| a & b;
    /// Whether any is true.
    Any false |a, b| a | b;
}

/// Joins rows of `n` elements, at most [`BLOCK`], one for each element of `out`.
///
/// # Panics
///
/// When they are longer than the data.
pub fn join_rows<S: Step>(step: S, data: &[S::Item], n: usize, out: &mut [S::State]) {
    let data = &data[..n * out.len()];
    if S::WIDEST {
        fx_simd::call_or::<rows, _>((step, data, n, out), small_rows);
    } else {
        fx_simd::call_256_or::<rows, _>((step, data, n, out), small_rows);
    }
}

/// Joins `n_rows` rows, which begin `stride` elements apart, to `out`, which is as long as one.
///
/// # Panics
///
/// When they are longer than the data.
pub fn join_lines<S: Step>(step: S, data: &[S::Item], stride: usize, n_rows: usize, out: &mut [S::State]) {
    if S::WIDEST {
        fx_simd::call_or::<lines, _>((step, data, stride, n_rows, out), small_lines);
    } else {
        fx_simd::call_256_or::<lines, _>((step, data, stride, n_rows, out), small_lines);
    }
}

#[inline(always)]
fn step_to<S: Step>(step: S, a: S::State, x: S::Item) -> S::State {
    S::join(a, step.map(x))
}

fx_simd::wide! {
    #[doc(hidden)]
    pub fn rows[S: Step]((step, data, n, out): (S, &[S::Item], usize, &mut [S::State])) {
        if n < TINY {
            for (row, out) in out.iter_mut().enumerate() {
                *out = tree_of_last(lanes::<S, 16>(step, &data[row * n..][..n]), S::join);
            }
            return;
        }
        if n >= SHORT {
            let is_far = size_of_val(data) >= FAR;
            for (i, out) in out.iter_mut().enumerate() {
                let row = &data[i * n..][..n];
                if is_far {
                    let next = row.as_ptr_range().end.cast::<u8>();
                    (0..AHEAD).step_by(64).for_each(|at| fx_simd::prefetch_line(next.wrapping_add(at)));
                }
                *out = tree_of_last(black_box(Hidden(lanes::<S, 64>(step, row))).0, S::join);
            }
            return;
        }
        let mut rows = data.chunks_exact(n);
        if S::SPREAD {
            for (row, out) in rows.zip(out) {
                *out = tree_of_last(black_box(Hidden(lanes::<S, 32>(step, row))).0, S::join);
            }
            return;
        }
        // The last lanes of a row are joined while the next one is read, so that nothing waits for what was
        // just written. Longer rows hide the wait themselves, and what the loop keeps for the next one would
        // only delay its loads.
        let Some(first) = rows.next() else { return };
        let mut last = Hidden(lanes::<S, 32>(step, first));
        let Some((end, out)) = out.split_last_mut() else { return };
        for (row, out) in rows.zip(out) {
            let next = Hidden(lanes::<S, 32>(step, row));
            *out = tree_of_last(black_box(last).0, S::join);
            last = next;
        }
        *end = tree_of_last(last.0, S::join);
    }

    #[doc(hidden)]
    pub fn lines[S: Step]((step, data, stride, n_rows, out): (S, &[S::Item], usize, usize, &mut [S::State])) {
        let n = out.len();
        let line = |row: usize| &data[row * stride..][..n];
        let whole = n_rows / AT_ONCE * AT_ONCE;
        for first in (0..whole).step_by(AT_ONCE) {
            let mut lines = [&data[..0]; AT_ONCE];
            for (i, slot) in lines.iter_mut().enumerate() {
                *slot = line(first + i);
            }
            // Long pieces of each row are read at a time, which the memory likes better than to jump from row
            // to row.
            let rest = match const { S::WIDEST || size_of::<S::State>() < 8 } {
                true => pieces::<S, PIECE>(step, &mut lines, out),
                false => pieces::<S, { PIECE / 2 }>(step, &mut lines, out),
            };
            let rest = pieces::<S, 16>(step, &mut lines, rest);
            let rest = pieces::<S, 4>(step, &mut lines, rest);
            pieces::<S, 1>(step, &mut lines, rest);
        }
        for row in whole..n_rows {
            for (out, &x) in out.iter_mut().zip(line(row)) {
                *out = step_to(step, *out, x);
            }
        }
    }
}

/// Joins a row in `N` lanes, which are joined as a tree until 16 are left.
#[inline(always)]
fn lanes<S: Step, const N: usize>(step: S, row: &[S::Item]) -> [S::State; 16] {
    let mut lanes = [S::INIT; N];
    let (chunks, mut rest) = row.as_chunks::<N>();
    for chunk in chunks {
        steps(step, &mut lanes, chunk);
    }
    if N == 64 {
        if rest.is_empty() {
            return narrow(lanes, S::join);
        }
        // Lanes that can be counted lie in memory: others than those of the loop before, which is long.
        let mut lanes = black_box(lanes);
        for (lane, &x) in lanes.iter_mut().zip(rest) {
            *lane = step_to(step, *lane, x);
        }
        return narrow(lanes, S::join);
    }
    if S::SPREAD && N >= 32 {
        if rest.is_empty() {
            return narrow(lanes, S::join);
        }
        let mut last = [S::INIT; N];
        for (last, &x) in last.iter_mut().zip(rest) {
            *last = step.map(x);
        }
        for i in 0..N {
            lanes[i] = S::join(lanes[i], last[i]);
        }
        return narrow(lanes, S::join);
    }
    // What is left of a short row goes in parts of known length, which stay in registers.
    some::<S, N, 16>(step, &mut lanes, &mut rest);
    some::<S, N, 8>(step, &mut lanes, &mut rest);
    some::<S, N, 4>(step, &mut lanes, &mut rest);
    some::<S, N, 2>(step, &mut lanes, &mut rest);
    some::<S, N, 1>(step, &mut lanes, &mut rest);
    narrow(lanes, S::join)
}

#[inline(always)]
fn steps<S: Step, const N: usize, const K: usize>(step: S, lanes: &mut [S::State; N], chunk: &[S::Item; K]) {
    for i in 0..K {
        lanes[i] = step_to(step, lanes[i], chunk[i]);
    }
}

/// Joins the first `K` elements of the rest of a row, if there are so many, to the first lanes.
#[inline(always)]
fn some<S: Step, const N: usize, const K: usize>(step: S, lanes: &mut [S::State; N], rest: &mut &[S::Item]) {
    if K < N
        && let Some((chunk, others)) = rest.split_first_chunk::<K>()
    {
        steps(step, lanes, chunk);
        *rest = others;
    }
}

/// Joins the columns of `lines` to those of `out`, in pieces of `N`; takes from both what it has joined and
/// returns the rest.
#[inline(always)]
fn pieces<'a, S: Step, const N: usize>(
    step: S,
    lines: &mut [&[S::Item]; AT_ONCE],
    out: &'a mut [S::State],
) -> &'a mut [S::State] {
    let (pieces, rest) = out.as_chunks_mut::<N>();
    for (i, piece) in pieces.iter_mut().enumerate() {
        let mut sums = *piece;
        for line in &*lines {
            let (chunks, _) = line.as_chunks::<N>();
            steps(step, &mut sums, &chunks[i]);
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

/// As [`rows`]. An index that the compiler cannot see keeps the loops as small as they look.
#[doc(hidden)]
pub fn small_rows<S: Step>((step, data, n, out): (S, &[S::Item], usize, &mut [S::State])) {
    let n_lanes = match n {
        0..TINY => 16,
        TINY..SHORT => 32,
        _ => 64,
    };
    for (i, out) in out.iter_mut().enumerate() {
        let mut rest = &data[i * n..][..n];
        let mut lanes = [S::INIT; 64];
        let mut part = n_lanes;
        while !rest.is_empty() {
            while part > rest.len() {
                part = if S::SPREAD && n_lanes == 32 || n_lanes == 64 { rest.len() } else { part / 2 };
            }
            let (these, others) = rest.split_at(part);
            for i in 0..part {
                let i = black_box(i);
                lanes[i] = step_to(step, lanes[i], these[i]);
            }
            rest = others;
        }
        let mut half = n_lanes / 2;
        while half > 0 {
            for i in 0..half {
                let i = black_box(i);
                lanes[i] = S::join(lanes[i], lanes[i + half]);
            }
            half /= 2;
        }
        *out = lanes[0];
    }
}

/// As [`lines`].
#[allow(clippy::type_complexity, reason = "the arguments are those of `lines`")]
#[doc(hidden)]
pub fn small_lines<S: Step>(
    (step, data, stride, n_rows, out): (S, &[S::Item], usize, usize, &mut [S::State]),
) {
    for row in 0..n_rows {
        let line = &data[row * stride..][..out.len()];
        for i in 0..out.len() {
            let i = black_box(i);
            out[i] = step_to(step, out[i], line[i]);
        }
    }
}
