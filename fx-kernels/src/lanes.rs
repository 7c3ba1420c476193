//! Sums and their like of neighbouring elements, in interleaved lanes that are joined as a tree.
//!
//! Whole arrays are joined by value, and no lane is named by a number that is not known when this is
//! compiled: else the lanes would lie in memory, where each step waits for the one before to get there. 64
//! lanes are so many that no step waits for the one before.
//!
//! What joins many lanes at last is hidden from the loop before it: LLVM else arranges the lanes of the loop
//! in the pairs that the last step joins, and loads two elements at a time. Rows of few elements, which do
//! not make up for the way through memory, have few lanes.

use std::hint::black_box;

/// Rows shorter than this are combined in 16 lanes,
pub const TINY: usize = 64;
/// and those in 32. Longer ones have 64.
const SHORT: usize = 512;

/// Combines the elements of a row, after `map`, which are joined with `start`, an element that changes no other.
#[inline(always)]
pub fn fold<T: Copy>(row: &[T], start: T, map: impl Fn(T) -> T, join: impl Fn(T, T) -> T) -> T {
    match row.len() {
        0..TINY => fold_in::<T, 16>(row, start, map, join),
        TINY..SHORT => fold_in::<T, 32>(row, start, map, join),
        _ => fold_in::<T, 64>(row, start, map, join),
    }
}

#[inline(always)]
fn fold_in<T: Copy, const N: usize>(
    row: &[T],
    start: T,
    map: impl Fn(T) -> T,
    join: impl Fn(T, T) -> T,
) -> T {
    let mut lanes = [start; N];
    let (blocks, rest) = row.as_chunks::<N>();
    for block in blocks {
        let mut mapped = [start; N];
        for i in 0..N {
            mapped[i] = map(block[i]);
        }
        lanes = joined(lanes, mapped, &join);
    }
    if !rest.is_empty() {
        lanes = joined(lanes, last(rest, start, map), &join);
    }
    tree(lanes, join)
}

/// Returns the sum of products of two rows, the second of which is at least as long.
#[inline(always)]
pub fn dot<T: Copy + std::ops::Add<Output = T> + std::ops::Mul<Output = T>, const N: usize>(
    a: &[T],
    b: &[T],
    zero: T,
) -> T {
    let mut lanes = [zero; N];
    let b = &b[..a.len()];
    let ((a_blocks, a_rest), (b_blocks, b_rest)) = (a.as_chunks::<N>(), b.as_chunks::<N>());
    let (add, multiply) = (|a, b| a + b, |a, b| a * b);
    for (a, b) in a_blocks.iter().zip(b_blocks) {
        lanes = joined(lanes, joined(*a, *b, &multiply), &add);
    }
    if !a_rest.is_empty() {
        let rest = joined(last(a_rest, zero, |x| x), last(b_rest, zero, |x| x), &multiply);
        lanes = joined(lanes, rest, &add);
    }
    tree(lanes, add)
}

/// Returns the last elements of a row, after `map`, before as many of `start` as there are further lanes.
#[inline(always)]
pub fn last<T: Copy, const N: usize>(rest: &[T], start: T, map: impl Fn(T) -> T) -> [T; N] {
    let mut last = [start; N];
    for (last, &x) in last.iter_mut().zip(rest) {
        *last = map(x);
    }
    last
}

/// Joins lane by lane.
#[inline(always)]
pub fn joined<T: Copy, const N: usize>(mut a: [T; N], b: [T; N], join: &impl Fn(T, T) -> T) -> [T; N] {
    for i in 0..N {
        a[i] = join(a[i], b[i]);
    }
    a
}

/// Lanes on their way through memory, in lines of the cache of their own: parts of two lines would be slow to
/// read after they are written.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub struct Hidden<T>(pub [T; 16]);

macro_rules! halve {
    ($lanes:ident, $join:ident: $($width:literal)*) => {$(
        if $lanes.len() > $width {
            for i in 0..$width {
                $lanes[i] = $join($lanes[i], $lanes[i + $width]);
            }
        }
    )*};
}

/// Joins lanes, of which there are a power of two from 16 to 256, until 16 are left.
#[inline(always)]
pub fn narrow<T: Copy, const N: usize>(mut lanes: [T; N], join: impl Fn(T, T) -> T) -> [T; 16] {
    const { assert!(N.is_power_of_two() && N >= 16 && N <= 256) };
    halve!(lanes, join: 128 64 32 16);
    std::array::from_fn(|i| lanes[i])
}

/// Joins the last lanes.
#[inline(always)]
pub fn tree_of_last<T: Copy>(mut last: [T; 16], join: impl Fn(T, T) -> T) -> T {
    halve!(last, join: 8 4 2 1);
    last[0]
}

/// Joins all lanes, of which there are a power of two from 16 to 256.
#[inline(always)]
pub fn tree<T: Copy, const N: usize>(lanes: [T; N], join: impl Fn(T, T) -> T) -> T {
    let mut last = narrow(lanes, &join);
    if N > 16 {
        last = black_box(Hidden(last)).0;
    }
    tree_of_last(last, join)
}
