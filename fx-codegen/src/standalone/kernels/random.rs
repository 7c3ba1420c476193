//! Random numbers: those that fx draws with the same seed.

use super::philox::{Block, below};

/// A source of random numbers: a seed, and the number of counters handed out so far.
#[derive(Clone, Debug)]
pub struct Generator {
    seed: u64,
    offset: u64,
}

impl Generator {
    pub const fn seeded(seed: u64) -> Generator {
        Generator { seed, offset: 0 }
    }

    /// Hands out the counters of `n` numbers.
    fn reserve(&mut self, n: usize) -> Block {
        let block = Block::new(self.seed, self.offset);
        self.offset = self.offset.wrapping_add(Block::counters(n));
        block
    }
}

/// A float that can be drawn.
pub trait Drawn: Copy {
    fn uniform(block: &Block, out: &mut [Self]);
    fn normal(block: &Block, out: &mut [Self]);
    fn from_f64(x: f64) -> Self;
    fn to_f64(self) -> f64;
    fn scaled(self, scale: f64) -> Self;
}

macro_rules! drawn {
    ($($float:ident: $uniform:ident, $normal:ident;)*) => {
        $(impl Drawn for $float {
            fn uniform(block: &Block, out: &mut [$float]) {
                block.$uniform(0, out);
            }
            fn normal(block: &Block, out: &mut [$float]) {
                block.$normal(0, out);
            }
            fn from_f64(x: f64) -> $float {
                x as $float
            }
            fn to_f64(self) -> f64 {
                self as f64
            }
            fn scaled(self, scale: f64) -> $float {
                self * scale as $float
            }
        })*
    };
}
drawn! {
    f32: fill_uniform_f32, fill_normal_f32;
    f64: fill_uniform_f64, fill_normal_f64;
}

/// Fills `out` with numbers in [0, 1).
pub fn uniform<T: Drawn>(generator: &mut Generator, out: &mut [T]) {
    T::uniform(&generator.reserve(out.len()), out);
}

/// Fills `out` with multiples of `1 / grid` in [0, 1), which halves hold.
pub fn uniform_on_grid(generator: &mut Generator, grid: u32, out: &mut [f32]) {
    uniform(generator, out);
    out.iter_mut().for_each(|x| *x = (*x * grid as f32) as u32 as f32 / grid as f32);
}

/// Fills `out` with numbers of the standard normal distribution.
pub fn normal<T: Drawn>(generator: &mut Generator, out: &mut [T]) {
    T::normal(&generator.reserve(out.len()), out);
}

/// Fills `out` with integers from `low` up to, not including, `high`. Fails if there is none.
pub fn integers(generator: &mut Generator, low: i64, high: i64, out: &mut [i64]) -> Result<(), &'static str> {
    if high <= low {
        return Err("random integers from a range without any");
    }
    generator.reserve(out.len()).fill_below(high.wrapping_sub(low) as u64, 0, out);
    out.iter_mut().for_each(|x| *x = x.wrapping_add(low));
    Ok(())
}

/// Fills `out` with its positions in random order.
pub fn permutation(generator: &mut Generator, out: &mut [i64]) {
    let block = generator.reserve(out.len());
    out.iter_mut().enumerate().for_each(|(i, x)| *x = i as i64);
    for i in (1..out.len()).rev() {
        out.swap(i, below(block.bits64(i), i as u64 + 1) as usize);
    }
}

/// Writes 1 with the probability that each element is, else 0. Fails if an element is no probability.
pub fn bernoulli<T: Drawn>(generator: &mut Generator, x: &[T], out: &mut [T]) -> Result<(), &'static str> {
    if !x.iter().all(|x| (0.0..=1.0).contains(&x.to_f64())) {
        return Err("a probability outside of 0 to 1");
    }
    let block = generator.reserve(out.len());
    for (i, (x, out)) in x.iter().zip(out).enumerate() {
        *out = T::from_f64(f64::from(u8::from(block.uniform_f64(i) < x.to_f64())));
    }
    Ok(())
}

/// Drops each element with probability `p`, and scales the others.
pub fn dropout<T: Drawn>(generator: &mut Generator, x: &[T], p: f64, out: &mut [T]) {
    const AT_ONCE: usize = 64;
    let block = generator.reserve(out.len());
    let scale = 1.0 / (1.0 - p);
    let mut drawn = [0.0; AT_ONCE];
    for (i, (x, out)) in x.chunks(AT_ONCE).zip(out.chunks_mut(AT_ONCE)).enumerate() {
        block.fill_uniform_f32(i * AT_ONCE, &mut drawn[..x.len()]);
        for ((x, out), drawn) in x.iter().zip(out).zip(drawn) {
            *out = if drawn >= p as f32 { x.scaled(scale) } else { T::from_f64(0.0) };
        }
    }
}
