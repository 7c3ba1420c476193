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

#[cfg(test)]
mod tests {
    use crate::rng::Generator;

    /// What torch 2.15 gives on a CPU, after `torch.manual_seed(7)` for each.
    #[test]
    fn draws_are_those_of_pytorch() {
        let generator = || Generator::pytorch(7);
        let (mut rand, mut wide) = ([0f32; 4], [0f64; 2]);
        let both = generator();
        both.fill_uniform_f32(&mut rand);
        both.fill_uniform_f64(&mut wide);
        assert_eq!(rand, [0.534_922_54, 0.198_803_19, 0.659_211_7, 0.656_890_3]);
        assert_eq!(wide, [0.8620929614176255, 0.6566884305882014]);

        let (mut small, mut large) = ([0i64; 6], [0i64; 2]);
        let both = generator();
        both.fill_below(1000, &mut small);
        both.fill_below(1 << 40, &mut large);
        assert_eq!(small, [615, 892, 721, 286, 283, 347]);
        assert_eq!(large, [650496783975, 396459895993]);
        assert_eq!(generator().permutation(10), [5, 0, 3, 4, 1, 7, 9, 6, 8, 2]);

        let mut kept = [false; 12];
        generator().fill_kept(0.25, &mut kept);
        assert_eq!(kept.map(u8::from), [1, 1, 0, 1, 0, 0, 1, 1, 0, 0, 1, 1]);
        let chances = [0.1, 0.5, 0.9, 0.3, 0.7, 0.5];
        let mut drawn = [false; 6];
        generator().fill_bernoulli(|i| chances[i], true, &mut drawn);
        assert_eq!(drawn.map(u8::from), [0, 1, 1, 0, 1, 1]);

        let close = |got: &[f64], expected: &[f64], tolerance: f64| {
            assert!(got.iter().zip(expected).all(|(a, b)| (a - b).abs() < tolerance), "{got:?}");
        };
        let mut five = [0f64; 5];
        generator().fill_normal_f64(&mut five);
        let expected = [
            -0.1467950974849952,
            0.7861412987235358,
            0.9468216090039564,
            -1.1143440212610307,
            1.6907901257942333,
        ];
        close(&five, &expected, 1e-14);
        let mut twenty = [0f32; 20];
        generator().fill_normal_f32(&mut twenty);
        // PyTorch's logarithm and cosine of f32 are its own: the last bits differ.
        let ends = [twenty[0], twenty[3], twenty[4], twenty[19]].map(f64::from);
        close(
            &ends,
            &[-0.8201345205307007, -1.3884038925170898, 0.19844505190849304, -0.35672253370285034],
            1e-6,
        );
        let mut wide = [0f64; 20];
        generator().fill_normal_f64(&mut wide);
        close(&wide[18..], &[2.03026332869622, 0.6596523264462502], 1e-14);
    }
}
