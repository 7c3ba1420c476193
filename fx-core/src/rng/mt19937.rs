//! The Mersenne Twister MT19937 with the draws that PyTorch's CPU generator makes of it.
//!
//! M. Matsumoto, T. Nishimura, "Mersenne Twister: a 623-dimensionally equidistributed uniform pseudo-random number
//! generator", 1998. Every draw depends on all before it, so there is no way to draw with several threads.

use std::f64::consts::TAU;

const N: usize = 624;
const M: usize = 397;

/// The state of a generator.
#[derive(Clone)]
pub(super) struct Mt19937 {
    words: Box<[u32; N]>,
    next: usize,
    /// The second number of a pair of normals, for the next call.
    normal: Option<f64>,
}

impl Mt19937 {
    pub(super) fn new(seed: u64) -> Self {
        let mut words = Box::new([0u32; N]);
        words[0] = seed as u32;
        for i in 1..N {
            let last = words[i - 1];
            words[i] = 1_812_433_253u32.wrapping_mul(last ^ (last >> 30)).wrapping_add(i as u32);
        }
        Mt19937 { words, next: N, normal: None }
    }

    fn refill(&mut self) {
        let words = &mut *self.words;
        for i in 0..N {
            let mixed = (words[i] & 0x8000_0000) | (words[(i + 1) % N] & 0x7fff_ffff);
            let odd = if mixed & 1 == 1 { 0x9908_b0df } else { 0 };
            words[i] = words[(i + M) % N] ^ (mixed >> 1) ^ odd;
        }
        self.next = 0;
    }

    /// Returns 32 random bits.
    pub(super) fn bits32(&mut self) -> u32 {
        if self.next == N {
            self.refill();
        }
        let mut y = self.words[self.next];
        self.next += 1;
        y ^= y >> 11;
        y ^= (y << 7) & 0x9d2c_5680;
        y ^= (y << 15) & 0xefc6_0000;
        y ^ (y >> 18)
    }

    /// Returns 64 random bits, the upper half drawn first.
    pub(super) fn bits64(&mut self) -> u64 {
        let high = u64::from(self.bits32());
        high << 32 | u64::from(self.bits32())
    }

    /// Returns a number in [0, 1), a multiple of 2^-24.
    pub(super) fn uniform_f32(&mut self) -> f32 {
        (self.bits32() & 0xff_ffff) as f32 / (1u32 << 24) as f32
    }

    /// Returns a number in [0, 1), a multiple of 2^-53.
    pub(super) fn uniform_f64(&mut self) -> f64 {
        (self.bits64() & ((1 << 53) - 1)) as f64 / (1u64 << 53) as f64
    }

    /// Returns an integer below `n`; 0 if `n` is 0.
    pub(super) fn below(&mut self, n: u64) -> u64 {
        match n {
            0 => 0,
            1..=0xfff_ffff => u64::from(self.bits32()) % n,
            _ => self.bits64() % n,
        }
    }

    /// Returns the integers `0..n` in random order.
    pub(super) fn permutation(&mut self, n: usize) -> Vec<i64> {
        let mut items: Vec<i64> = (0..n as i64).collect();
        for i in 0..n.saturating_sub(1) {
            let left = (n - i) as u64;
            let step =
                if n as u64 >= u64::from(u32::MAX) / 20 { self.bits64() } else { self.bits32().into() };
            items.swap(i, i + (step % left) as usize);
        }
        items
    }

    /// Fills `out` with numbers of the standard normal distribution: from 16 on in blocks, fewer one by one.
    pub(super) fn fill_normal<T: Copy>(
        &mut self,
        out: &mut [T],
        uniform: impl Fn(&mut Self) -> f64,
        from_f64: impl Fn(f64) -> T,
    ) {
        const HALF: usize = 8;
        if out.len() < 2 * HALF {
            return out.iter_mut().for_each(|x| *x = from_f64(self.normal()));
        }
        let mut drawn: Vec<f64> = (0..out.len()).map(|_| uniform(self)).collect();
        let transform = |block: &[f64], out: &mut [T]| {
            for i in 0..HALF {
                let radius = (-2.0 * (1.0 - block[i]).ln()).sqrt();
                let angle = TAU * block[i + HALF];
                out[i] = from_f64(radius * angle.cos());
                out[i + HALF] = from_f64(radius * angle.sin());
            }
        };
        for (block, out) in drawn.chunks_exact(2 * HALF).zip(out.chunks_exact_mut(2 * HALF)) {
            transform(block, out);
        }
        if !out.len().is_multiple_of(2 * HALF) {
            // The last block overlaps the one before it and is drawn anew.
            let start = out.len() - 2 * HALF;
            drawn[start..].iter_mut().for_each(|x| *x = uniform(self));
            transform(&drawn[start..], &mut out[start..]);
        }
    }

    fn normal(&mut self) -> f64 {
        if let Some(normal) = self.normal.take() {
            return normal;
        }
        let (angle, size) = (TAU * self.uniform_f64(), self.uniform_f64());
        let radius = (-2.0 * (-size).ln_1p()).sqrt();
        self.normal = Some(radius * angle.sin());
        radius * angle.cos()
    }
}
