//! Random numbers from counters: Philox4x32-10, and the numbers that are made of its words.
//!
//! Number `i` of a [`Block`] depends only on the seed, the block's first counter and `i`.
//!
//! Invariant: this text stands alone beside `math`; it is pasted verbatim into generated Rust.

use super::math;

/// A range of counters that belongs to its holder alone, and the numbers that they stand for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    key: [u32; 2],
    start: u64,
}

impl Block {
    /// Makes the block of a seed that begins with a counter.
    pub const fn new(seed: u64, start: u64) -> Block {
        Block { key: [seed as u32, (seed >> 32) as u32], start }
    }

    /// Returns how many counters `n` numbers of any type take.
    pub const fn counters(n: usize) -> u64 {
        n.div_ceil(2) as u64
    }

    /// Returns the four words of a counter, counted from the first of the block.
    #[inline(always)]
    pub fn words(&self, counter: usize) -> [u32; 4] {
        let counter = self.start.wrapping_add(counter as u64);
        philox4x32_10([counter as u32, (counter >> 32) as u32, 0, 0], self.key)
    }

    /// Returns word `i` of 32 bits.
    pub fn bits32(&self, i: usize) -> u32 {
        self.words(i / 4)[i % 4]
    }

    /// Returns word `i` of 64 bits.
    pub fn bits64(&self, i: usize) -> u64 {
        let words = self.words(i / 2);
        let at = i % 2 * 2;
        u64::from(words[at]) | u64::from(words[at + 1]) << 32
    }

    /// Returns number `i` in [0, 1), a multiple of 2^-24.
    pub fn uniform_f32(&self, i: usize) -> f32 {
        uniform_f32(self.bits32(i))
    }

    /// Returns number `i` in [0, 1), a multiple of 2^-53.
    pub fn uniform_f64(&self, i: usize) -> f64 {
        uniform_f64(self.bits64(i))
    }

    /// Returns number `i` of the standard normal distribution.
    pub fn normal_f32(&self, i: usize) -> f32 {
        let words = self.words(i / 4);
        let pair = i % 4 / 2 * 2;
        normal_pair_f32(words[pair], words[pair + 1])[i % 2]
    }

    /// Returns number `i` of the standard normal distribution.
    pub fn normal_f64(&self, i: usize) -> f64 {
        let radius = math::sqrt(-2.0 * math::log(1.0 - uniform_f64(self.bits64(i & !1))));
        let angle = core::f64::consts::TAU * uniform_f64(self.bits64(i | 1));
        radius * if i & 1 == 0 { math::cos(angle) } else { math::sin(angle) }
    }

    /// Returns integer `i` in `0..n`; 0 if `n` is 0.
    pub fn below(&self, i: usize, n: u64) -> u64 {
        below(self.bits64(i), n)
    }

    /// Fills `out` with the numbers from `first`, four a counter.
    pub fn fill_uniform_f32(&self, first: usize, out: &mut [f32]) {
        self.fill_words(first, out, |words| words.map(uniform_f32));
    }

    /// Fills `out` with the numbers from `first`, four a counter.
    pub fn fill_normal_f32(&self, first: usize, out: &mut [f32]) {
        self.fill_words(first, out, |[a, b, c, d]| {
            let ([a, b], [c, d]) = (normal_pair_f32(a, b), normal_pair_f32(c, d));
            [a, b, c, d]
        });
    }

    /// Fills `out` with the integers in `0..n` from `first`, two a counter.
    pub fn fill_below(&self, n: u64, first: usize, out: &mut [i64]) {
        let head = (first % 2).min(out.len());
        let (head, body) = out.split_at_mut(head);
        head.iter_mut().for_each(|x| *x = self.below(first, n) as i64);
        let counter = first.div_ceil(2);
        for (i, pair) in body.chunks_mut(2).enumerate() {
            let [a, b, c, d] = self.words(counter + i).map(u64::from);
            let numbers = [a | b << 32, c | d << 32].map(|bits| below(bits, n) as i64);
            pair.iter_mut().zip(numbers).for_each(|(x, number)| *x = number);
        }
    }

    /// Fills `out` with the words from `first`.
    pub fn fill_bits(&self, first: usize, out: &mut [u64]) {
        out.iter_mut().enumerate().for_each(|(i, x)| *x = self.bits64(first + i));
    }

    /// Fills `out` with the numbers from `first`.
    pub fn fill_uniform_f64(&self, first: usize, out: &mut [f64]) {
        out.iter_mut().enumerate().for_each(|(i, x)| *x = self.uniform_f64(first + i));
    }

    /// Fills `out` with the numbers from `first`.
    pub fn fill_normal_f64(&self, first: usize, out: &mut [f64]) {
        out.iter_mut().enumerate().for_each(|(i, x)| *x = self.normal_f64(first + i));
    }

    /// Fills `out` four numbers a counter; the numbers before the first whole counter are computed singly.
    fn fill_words(&self, first: usize, out: &mut [f32], numbers: impl Fn([u32; 4]) -> [f32; 4]) {
        let head = (first.next_multiple_of(4) - first).min(out.len());
        let (head, body) = out.split_at_mut(head);
        for (i, x) in head.iter_mut().enumerate() {
            *x = numbers(self.words((first + i) / 4))[(first + i) % 4];
        }
        let counter = first.div_ceil(4);
        for (i, chunk) in body.chunks_mut(4).enumerate() {
            chunk.copy_from_slice(&numbers(self.words(counter + i))[..chunk.len()]);
        }
    }
}

/// Returns an integer in `0..n` made of a word; 0 if `n` is 0.
#[inline(always)]
pub fn below(bits: u64, n: u64) -> u64 {
    ((u128::from(bits) * u128::from(n)) >> 64) as u64
}

/// Returns the number in [0, 1) of a word.
#[inline(always)]
pub fn uniform_f32(bits: u32) -> f32 {
    (bits >> 8) as f32 * (1.0 / 16_777_216.0)
}

/// Returns the number in [0, 1) of a word.
#[inline(always)]
pub fn uniform_f64(bits: u64) -> f64 {
    (bits >> 11) as f64 * (1.0 / 9_007_199_254_740_992.0)
}

/// The transform of G. Box and M. Muller (A note on the generation of random normal deviates, 1958) of two words.
#[inline(always)]
pub fn normal_pair_f32(a: u32, b: u32) -> [f32; 2] {
    let radius = math::sqrt(-2.0 * math::log(1.0 - uniform_f32(a)));
    let angle = core::f32::consts::TAU * uniform_f32(b);
    [radius * math::cos(angle), radius * math::sin(angle)]
}

/// The Philox4x32 bijection with ten rounds (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011).
#[inline(always)]
pub fn philox4x32_10(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    for _ in 0..10 {
        let a = u64::from(counter[0]) * 0xd251_1f53;
        let b = u64::from(counter[2]) * 0xcd9e_8d57;
        counter = [
            (b >> 32) as u32 ^ counter[1] ^ key[0],
            b as u32,
            (a >> 32) as u32 ^ counter[3] ^ key[1],
            a as u32,
        ];
        key = [key[0].wrapping_add(0x9e37_79b9), key[1].wrapping_add(0xbb67_ae85)];
    }
    counter
}
