//! Stable sorting by digits of unsigned keys: linear in the number of elements, and the same for any distribution.
//!
//! Large inputs are dealt out by their highest digit; what has the same digit then fits into caches and is
//! sorted, digit by digit from the lowest, on any thread.

use fx_simd::parallel;

use crate::PARALLEL;

/// Bits of the digit by which large inputs are dealt out.
const DEAL: u32 = 10;
/// Bits of other digits.
const DIGIT: u32 = 8;

/// A key that is sorted by.
pub trait Key: Copy + Default + Send + Sync {
    /// Returns the bits from `low` on, at most `n` of them.
    fn digit(self, low: u32, n: u32) -> usize;
}

macro_rules! keys {
    ($($ty:ty)*) => {
        $(impl Key for $ty {
            #[inline(always)]
            fn digit(self, low: u32, n: u32) -> usize {
                (self >> low) as usize & ((1 << n) - 1)
            }
        })*
    };
}
keys!(u32 u64);

/// Sorts pairs by keys of at most `bits` bits; equal keys stay in order. `other` is as long and is written over.
pub fn sort<K: Key, I: Copy + Send + Sync>(pairs: &mut [(K, I)], other: &mut [(K, I)], bits: u32) {
    if pairs.len() < PARALLEL || bits <= DEAL {
        if !by_digits(pairs, other, bits) {
            pairs.copy_from_slice(other);
        }
        return;
    }
    let low = bits - DEAL;
    let starts = deal(pairs, other, low, DEAL);
    let ends = starts.iter().skip(1).copied().chain([pairs.len()]);
    let (mut pairs, mut other) = (pairs, other);
    let mut buckets = Vec::new();
    let mut at = 0;
    for end in ends {
        let (left, right) = (pairs.split_at_mut(end - at), other.split_at_mut(end - at));
        if end > at {
            buckets.push((left.0, right.0));
        }
        (pairs, other, at) = (left.1, right.1, end);
    }
    parallel::items(buckets, |_, (pairs, bucket)| {
        if bucket.len() >= PARALLEL {
            sort(bucket, pairs, low);
            pairs.copy_from_slice(bucket);
        } else if by_digits(bucket, pairs, low) {
            pairs.copy_from_slice(bucket);
        }
    });
}

/// Sorts by one digit after the other, the lowest first; returns whether the result is in `pairs` rather than
/// in `other`.
fn by_digits<K: Key, I: Copy>(pairs: &mut [(K, I)], other: &mut [(K, I)], bits: u32) -> bool {
    let n_digits = bits.div_ceil(DIGIT);
    if n_digits == 0 || pairs.len() < 2 {
        return true;
    }
    // Digits of about the same number of bits.
    let width = bits.div_ceil(n_digits);
    let (mut from, mut to) = (pairs, other);
    for i in 0..n_digits {
        deal(from, to, i * width, width.min(bits - i * width));
        (from, to) = (to, from);
    }
    n_digits.is_multiple_of(2)
}

/// Writes pairs in the order of a digit of `n` bits, and returns where those of each value begin.
fn deal<K: Key, I: Copy>(from: &[(K, I)], to: &mut [(K, I)], low: u32, n: u32) -> Vec<usize> {
    let mut at = vec![0; 1 << n];
    for (key, _) in from {
        at[key.digit(low, n)] += 1;
    }
    let mut total = 0;
    for at in &mut at {
        total += std::mem::replace(at, total);
    }
    let starts = at.clone();
    for &pair in from {
        let at = &mut at[pair.0.digit(low, n)];
        to[*at] = pair;
        *at += 1;
    }
    starts
}
