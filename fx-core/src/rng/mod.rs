//! Random numbers: a counter-based Philox4x32-10 generator.
//!
//! Invariant: number `i` of a [`Block`] depends only on the seed, the block's first counter and `i`, so that
//! filling a buffer gives the same bits for any number of threads and any chunking. Blocks of one
//! generator never overlap.

mod mt19937;

use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use mt19937::Mt19937;

pub use fx_base::philox::{Block, philox4x32_10};

use fx_base::philox;

/// A source of random numbers: a seed and the number of counters handed out so far.
///
/// Drawing takes `&self`; threads that share a generator get disjoint numbers. `clone` copies the state: both
/// then yield the same numbers.
pub struct Generator {
    state: Arc<State>,
}

struct State {
    seed: AtomicU64,
    offset: AtomicU64,
    /// So many generators were made of it.
    forks: AtomicU64,
    /// The generator whose numbers PyTorch's would be, instead of Philox.
    pytorch: Option<Mutex<Mt19937>>,
}

/// Seeds the default generator of the process; the counters begin again.
pub fn manual_seed(seed: u64) {
    DEFAULT.seed(seed);
}

/// Returns a handle of the generator in force: that of the innermost [`with_generator`], else the process's.
pub fn default_generator() -> Generator {
    OVERRIDES.with_borrow(|stack| stack.last().unwrap_or(&DEFAULT).handle())
}

/// Runs `f` with `generator` as this thread's default generator; also a panic restores the one before.
pub fn with_generator<R>(generator: &Generator, f: impl FnOnce() -> R) -> R {
    struct Restore;
    impl Drop for Restore {
        fn drop(&mut self) {
            OVERRIDES.with_borrow_mut(|stack| {
                stack.pop();
            });
        }
    }
    OVERRIDES.with_borrow_mut(|stack| stack.push(generator.handle()));
    let _restore = Restore;
    f()
}

static DEFAULT: LazyLock<Generator> = LazyLock::new(|| Generator::seeded(0));

thread_local! {
    static OVERRIDES: RefCell<Vec<Generator>> = const { RefCell::new(Vec::new()) };
}

impl Generator {
    /// Makes the generator of `seed`, with no counter handed out.
    pub fn seeded(seed: u64) -> Self {
        Generator::with_state(seed, 0)
    }

    /// Makes the generator that continues where [`Generator::state`] was taken.
    pub fn with_state(seed: u64, offset: u64) -> Self {
        let (seed, offset) = (AtomicU64::new(seed), AtomicU64::new(offset));
        Generator { state: Arc::new(State { seed, offset, forks: AtomicU64::new(0), pytorch: None }) }
    }

    /// Makes a generator that draws what PyTorch draws on a CPU after `torch.manual_seed(seed)`: `rand`,
    /// `randint`, `randperm`, `bernoulli` and `dropout` give the same numbers, `randn` the same up to
    /// rounding.
    ///
    /// It is for comparing with PyTorch: its numbers can only be drawn one after another, so it is slower
    /// than the default.
    pub fn pytorch(seed: u64) -> Self {
        let pytorch = Some(Mutex::new(Mt19937::new(seed)));
        let (seed, offset) = (AtomicU64::new(seed), AtomicU64::new(0));
        Generator { state: Arc::new(State { seed, offset, forks: AtomicU64::new(0), pytorch }) }
    }

    /// Makes a generator for work beside this one. Its numbers follow from the seed and from how many were made
    /// before; this generator draws none.
    pub fn fork(&self) -> Generator {
        let fork = self.state.forks.fetch_add(1, Ordering::Relaxed);
        // SplitMix64, so that near seeds give generators far apart.
        let mut x = self.state.seed.load(Ordering::Relaxed)
            ^ fork.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        let seed = x ^ (x >> 31);
        if self.state.pytorch.is_some() { Generator::pytorch(seed) } else { Generator::seeded(seed) }
    }

    /// Returns how many generators [`fork`](Self::fork) has made.
    #[doc(hidden)]
    pub fn forks(&self) -> u64 {
        self.state.forks.load(Ordering::Relaxed)
    }

    /// Counts generators that were made in a call which is taken for this one.
    #[doc(hidden)]
    pub fn skip_forks(&self, n: u64) {
        self.state.forks.fetch_add(n, Ordering::Relaxed);
    }

    fn mt19937(&self) -> Option<MutexGuard<'_, Mt19937>> {
        crate::lazy::before_random();
        Some(self.state.pytorch.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the seed and the number of counters handed out.
    pub fn state(&self) -> (u64, u64) {
        crate::lazy::before_random();
        (self.state.seed.load(Ordering::Relaxed), self.state.offset.load(Ordering::Relaxed))
    }

    /// Sets the seed and begins the counters again.
    pub fn seed(&self, seed: u64) {
        crate::lazy::before_random();
        self.state.seed.store(seed, Ordering::Relaxed);
        self.state.offset.store(0, Ordering::Relaxed);
        self.state.forks.store(0, Ordering::Relaxed);
        if let Some(mut state) = self.mt19937() {
            *state = Mt19937::new(seed);
        }
    }

    /// Hands out the counters of `n` numbers of any type, which are Philox's also where others are asked of
    /// [`pytorch`](Self::pytorch).
    pub fn reserve(&self, n: usize) -> Block {
        crate::lazy::before_random();
        let seed = self.state.seed.load(Ordering::Relaxed);
        let start = self.state.offset.fetch_add(Block::counters(n), Ordering::Relaxed);
        Block::new(seed, start)
    }

    /// Returns 64 random bits.
    pub fn bits(&self) -> u64 {
        let mut out = [0];
        self.fill_bits(&mut out);
        out[0]
    }

    /// Returns a number in [0, 1), a multiple of 2^-24.
    pub fn uniform_f32(&self) -> f32 {
        let mut out = [0.0];
        self.fill_uniform_f32(&mut out);
        out[0]
    }

    /// Returns a number in [0, 1), a multiple of 2^-53.
    pub fn uniform_f64(&self) -> f64 {
        let mut out = [0.0];
        self.fill_uniform_f64(&mut out);
        out[0]
    }

    /// Returns a number of the standard normal distribution.
    pub fn normal_f32(&self) -> f32 {
        let mut out = [0.0];
        self.fill_normal_f32(&mut out);
        out[0]
    }

    /// Returns a number of the standard normal distribution.
    pub fn normal_f64(&self) -> f64 {
        let mut out = [0.0];
        self.fill_normal_f64(&mut out);
        out[0]
    }

    /// Returns an integer in `0..n`, biased by at most `n * 2^-64`; 0 if `n` is 0.
    pub fn below(&self, n: u64) -> u64 {
        if let Some(mut state) = self.mt19937() {
            return state.below(n);
        }
        self.reserve(1).below(0, n)
    }

    /// Returns the integers `0..n` in random order.
    pub fn permutation(&self, n: usize) -> Vec<i64> {
        if let Some(mut state) = self.mt19937() {
            return state.permutation(n);
        }
        let block = self.reserve(n);
        // Small numbers make the swaps, which miss the cache, cheaper.
        if let Ok(n) = u32::try_from(n) {
            return permuted(&block, (0..n).collect()).into_iter().map(i64::from).collect();
        }
        permuted(&block, (0..n as i64).collect())
    }

    /// Fills `out` with 64-bit words.
    pub fn fill_bits(&self, out: &mut [u64]) {
        if let Some(mut state) = self.mt19937() {
            return out.iter_mut().for_each(|x| *x = state.bits64());
        }
        self.fill(out, Block::fill_bits);
    }

    /// Fills `out` with numbers in [0, 1).
    pub fn fill_uniform_f32(&self, out: &mut [f32]) {
        if let Some(mut state) = self.mt19937() {
            return out.iter_mut().for_each(|x| *x = state.uniform_f32());
        }
        self.fill(out, Block::fill_uniform_f32);
    }

    /// Fills `out` with numbers in [0, 1).
    pub fn fill_uniform_f64(&self, out: &mut [f64]) {
        if let Some(mut state) = self.mt19937() {
            return out.iter_mut().for_each(|x| *x = state.uniform_f64());
        }
        self.fill(out, Block::fill_uniform_f64);
    }

    /// Fills `out` with numbers of the standard normal distribution.
    pub fn fill_normal_f32(&self, out: &mut [f32]) {
        if let Some(mut state) = self.mt19937() {
            return state.fill_normal(out, |state| state.uniform_f32().into(), |x| x as f32);
        }
        self.fill(out, fill_normal_f32);
    }

    /// Fills `out` with numbers of the standard normal distribution.
    pub fn fill_normal_f64(&self, out: &mut [f64]) {
        if let Some(mut state) = self.mt19937() {
            return state.fill_normal(out, Mt19937::uniform_f64, |x| x);
        }
        self.fill(out, Block::fill_normal_f64);
    }

    /// Fills `out` with integers in `0..n`; zeros if `n` is 0.
    pub fn fill_below(&self, n: u64, out: &mut [i64]) {
        if let Some(mut state) = self.mt19937() {
            return out.iter_mut().for_each(|x| *x = state.below(n) as i64);
        }
        self.fill(out, |block, first, out| block.fill_below(n, first, out));
    }

    /// Fills `out` with bools, each true with the probability that `chance` gives for its position. `narrow`
    /// says that the probabilities are of `f32` or less, for which PyTorch draws fewer bits.
    pub fn fill_bernoulli(&self, chance: impl Fn(usize) -> f64 + Sync, narrow: bool, out: &mut [bool]) {
        if let Some(mut state) = self.mt19937() {
            for (i, x) in out.iter_mut().enumerate() {
                let drawn = if narrow { state.uniform_f32().into() } else { state.uniform_f64() };
                *x = drawn < chance(i);
            }
            return;
        }
        self.fill(out, |block, first, out| {
            for (i, x) in out.iter_mut().enumerate() {
                *x = block.uniform_f64(first + i) < chance(first + i);
            }
        });
    }

    /// Fills `out` with what stays of a tensor from which each element is dropped with probability `p`.
    pub fn fill_kept(&self, p: f64, out: &mut [bool]) {
        if self.state.pytorch.is_some() {
            return self.fill_bernoulli(|_| 1.0 - p, false, out);
        }
        let p = p as f32;
        self.fill(out, |block, first, out| {
            for (i, x) in out.iter_mut().enumerate() {
                *x = block.uniform_f32(first + i) >= p;
            }
        });
    }

    fn fill<T: Send>(&self, out: &mut [T], fill: impl Fn(&Block, usize, &mut [T]) + Sync) {
        const CHUNK: usize = 16 * 1024;
        let block = self.reserve(out.len());
        if out.len() <= CHUNK {
            return fill(&block, 0, out);
        }
        fx_simd::parallel::chunks(out, CHUNK, 1, |i, chunk| fill(&block, i * CHUNK, chunk));
    }

    /// Returns another handle of the same generator.
    #[doc(hidden)]
    pub fn handle(&self) -> Generator {
        Generator { state: Arc::clone(&self.state) }
    }

    /// Returns whether both are handles of one generator.
    #[doc(hidden)]
    pub fn is_same(&self, other: &Generator) -> bool {
        Arc::ptr_eq(&self.state, &other.state)
    }

    /// Takes over the state of a copy that was made earlier.
    #[doc(hidden)]
    pub fn restore(&self, copy: &Generator) {
        let (seed, offset) = copy.state();
        self.state.seed.store(seed, Ordering::Relaxed);
        self.state.offset.store(offset, Ordering::Relaxed);
        self.state.forks.store(copy.state.forks.load(Ordering::Relaxed), Ordering::Relaxed);
        if let (Some(mut state), Some(copy)) = (self.mt19937(), copy.mt19937()) {
            state.clone_from(&copy);
        }
    }
}

impl Clone for Generator {
    fn clone(&self) -> Self {
        let (seed, offset) = self.state();
        let (seed, offset) = (AtomicU64::new(seed), AtomicU64::new(offset));
        let forks = AtomicU64::new(self.state.forks.load(Ordering::Relaxed));
        let pytorch = self.mt19937().map(|state| Mutex::new(state.clone()));
        Generator { state: Arc::new(State { seed, offset, forks, pytorch }) }
    }
}

impl fmt::Debug for Generator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seed, offset) = self.state();
        f.debug_struct("Generator").field("seed", &seed).field("offset", &offset).finish()
    }
}

/// Fills `out` with the numbers from `first` of the standard normal distribution.
fn fill_normal_f32(block: &Block, first: usize, out: &mut [f32]) {
    const AT_ONCE: usize = 128;
    let head = (first.next_multiple_of(4) - first).min(out.len());
    let (head, body) = out.split_at_mut(head);
    head.iter_mut().enumerate().for_each(|(i, x)| *x = block.normal_f32(first + i));
    let counter = first.div_ceil(4);
    for (i, chunk) in body.chunks_mut(4 * AT_ONCE).enumerate() {
        let mut words = [[0; 2]; 2 * AT_ONCE];
        for (k, pairs) in words.as_chunks_mut::<2>().0.iter_mut().take(chunk.len().div_ceil(4)).enumerate() {
            let [a, b, c, d] = block.words(counter + i * AT_ONCE + k);
            *pairs = [[a, b], [c, d]];
        }
        fx_simd::call::<normal_pairs, _>((&words, chunk));
    }
}

/// Returns items in random order.
fn permuted<T>(block: &Block, mut items: Vec<T>) -> Vec<T> {
    const AT_ONCE: usize = 512;
    let mut bits = [0; AT_ONCE];
    for start in (0..items.len()).step_by(AT_ONCE).rev() {
        let end = items.len().min(start + AT_ONCE);
        fx_simd::call::<word_pairs, _>((block, start / 2, &mut bits));
        for i in (start.max(1)..end).rev() {
            items.swap(i, philox::below(bits[i - start], i as u64 + 1) as usize);
        }
    }
    items
}

fx_simd::wide! {
/// Fills `out` with the numbers of pairs of words.
fn normal_pairs[]((words, out): (&[[u32; 2]], &mut [f32])) {
    let (pairs, rest) = out.as_chunks_mut::<2>();
    for (out, &[a, b]) in pairs.iter_mut().zip(words) {
        *out = philox::normal_pair_f32(a, b);
    }
    for (out, &[a, b]) in rest.iter_mut().zip(&words[pairs.len()..]) {
        *out = philox::normal_pair_f32(a, b)[0];
    }
}
}

fx_simd::wide! {
    /// Writes the words of 64 bits of counters from `first` on, two a counter.
    fn word_pairs[]((block, first, out): (&Block, usize, &mut [u64])) {
        for (i, pair) in out.as_chunks_mut::<2>().0.iter_mut().enumerate() {
            let [a, b, c, d] = block.words(first + i).map(u64::from);
            *pair = [a | b << 32, c | d << 32];
        }
    }
}
