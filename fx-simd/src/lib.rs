//! Runs safe loops in the widest vectors and on all threads of the machine, and fills new memory.
//!
//! Code is compiled for the oldest machine of its kind unless a function says otherwise. [`widest`] runs a
//! piece of [`Work`] in a function that was compiled for AVX2 or AVX-512, if the machine has them; all that
//! is inlined into it becomes wide too.
//!
//! | function | copies on x86-64 | for |
//! |---|---|---|
//! | [`call`], [`widest`] | plain, AVX2, AVX-512 | loops that compute much per element |
//! | [`call_256`], [`widest_256`] | plain, AVX2 | loops that wait for memory, and loops that are rarely hot |
//! | [`call_or`], [`call_256_or`], [`widest_or`], [`widest_256_or`] | the same without the plain one | loops with a small function for old machines |
//!
//! Other architectures have one copy of each, which is compiled for the vectors of every such machine. Each
//! copy is compiled anew: take `call_256` unless a measurement shows that AVX-512 pays.
//!
//! Invariant: the bits of a result do not depend on the instruction set. Rust never contracts `a * b + c` or
//! reorders sums, and `mul_add` rounds once everywhere, so the same operations are done in the same order,
//! only more of them at a time. Builds with debug assertions have the plain loops only, for each copy of a
//! loop is compiled anew.

mod affinity;
mod block_cache;
mod convert;
mod huge_pages;
mod memory;
pub mod parallel;
mod per_thread;
mod transpose;

use std::marker::PhantomData;

pub use block_cache::{in_huge_pages, recycle, reserve, without_block_cache};
pub use convert::{Arithmetic, HalfArithmetic, Truncate, f16_to_f32, f32_to_f16};
pub use memory::{
    At, FillWith, Filled, UninitSlice, collect, collect_with, copy, extend, opaque, prefetch_line,
    prefetch_line_later,
};
pub use per_thread::PerThread;
pub use transpose::transpose;

/// A piece of work whose `run` is `#[inline(always)]`, as is everything hot that it calls.
pub trait Work {
    /// The result.
    type Output;
    /// Does the work. Implementations must be `#[inline(always)]`, or nothing is gained.
    fn run(self) -> Self::Output;
}

/// A function that [`call`] compiles for wide vectors; [`wide!`] writes implementations.
pub trait Wide<A> {
    /// The result.
    type Output;
    /// Is the function. Implementations must be `#[inline(always)]`.
    fn run(arguments: A) -> Self::Output;
}

/// Defines functions for [`call`]: generic parameters in brackets, then one argument, mostly a tuple, with
/// its type.
///
/// A closure or a plain function would not do: they are called by way of a function of their own, which is
/// compiled for the oldest machine if it is long.
///
/// ```
/// fx_simd::wide! {
///     /// Adds a number to each element.
///     fn add[T: Copy + core::ops::Add<Output = T>]((row, y): (&mut [T], T)) {
///         for x in row {
///             *x = *x + y;
///         }
///     }
/// }
/// let mut row = [1.0, 2.0];
/// fx_simd::call::<add, _>((&mut row[..], 0.5));
/// assert_eq!(row, [1.5, 2.5]);
/// ```
#[macro_export]
macro_rules! wide {
    ($($(#[$meta:meta])* $vis:vis fn $name:ident [$($generics:tt)*] ($arguments:tt: $ty:ty) $(-> $out:ty)? $body:block)*) => {$(
        $(#[$meta])*
        #[allow(non_camel_case_types, reason = "it stands for a function")]
        $vis enum $name {}
        impl<$($generics)*> $crate::Wide<$ty> for $name {
            type Output = $crate::wide!(@output $($out)?);
            #[inline(always)]
            fn run($arguments: $ty) $(-> $out)? $body
        }
    )*};
    (@output) => { () };
    (@output $out:ty) => { $out };
}

/// Calls a function that [`wide!`] defined, in the widest vectors that this machine has.
#[inline]
pub fn call<F: Wide<A>, A>(arguments: A) -> F::Output {
    widest(Call::<F, A>(arguments, PhantomData))
}

/// As [`call`], in vectors of at most 256 bits: there is no copy for AVX-512, whose machines run that for AVX2.
///
/// This is for loops that wait for memory, and for loops that are rarely hot.
#[inline]
pub fn call_256<F: Wide<A>, A>(arguments: A) -> F::Output {
    call_256_or::<F, A>(arguments, |arguments| F::run(arguments))
}

/// As [`call`]; machines for which there is no copy with wide vectors, x86-64 ones without AVX2, run `small`
/// instead of a third copy of the function. It gives the same bits.
///
/// Builds for other architectures, and builds with debug assertions, do not use `small`.
#[inline]
pub fn call_or<F: Wide<A>, A>(arguments: A, small: impl FnOnce(A) -> F::Output) -> F::Output {
    widest_or(Call::<F, A>(arguments, PhantomData), |call| small(call.0))
}

/// As [`call_256`], with `small` as in [`call_or`].
///
/// ```
/// fx_simd::wide! {
///     /// Returns the sum of a row.
///     fn sum[](row: &[i64]) -> i64 { row.iter().sum() }
/// }
/// /// As `sum`, without vectors: `black_box` hides the loop from the compiler.
/// fn small_sum(row: &[i64]) -> i64 {
///     row.iter().fold(0, |sum, x| std::hint::black_box(sum) + x)
/// }
/// assert_eq!(fx_simd::call_256_or::<sum, _>(&[1, 2, 3], small_sum), 6);
/// ```
#[inline]
pub fn call_256_or<F: Wide<A>, A>(arguments: A, small: impl FnOnce(A) -> F::Output) -> F::Output {
    widest_256_or(Call::<F, A>(arguments, PhantomData), |call| small(call.0))
}

/// A call as a piece of work.
struct Call<F, A>(A, PhantomData<F>);

impl<F: Wide<A>, A> Work for Call<F, A> {
    type Output = F::Output;
    #[inline(always)]
    fn run(self) -> F::Output {
        F::run(self.0)
    }
}

/// Runs the work in the widest vectors that this machine has.
#[inline]
pub fn widest<W: Work>(work: W) -> W::Output {
    #[cfg(all(target_arch = "x86_64", not(debug_assertions)))]
    match level() {
        // SAFETY: the features were found; the function is safe otherwise.
        Level::Avx512 => return unsafe { avx512(work) },
        // SAFETY: as above.
        Level::Avx2 => return unsafe { avx2(work) },
        Level::Plain => {}
    }
    work.run()
}

/// As [`widest`], in vectors of at most 256 bits, as [`call_256`].
#[inline]
pub fn widest_256<W: Work>(work: W) -> W::Output {
    widest_256_or(work, |work| work.run())
}

/// As [`widest`], with `small` as in [`call_or`].
#[inline]
pub fn widest_or<W: Work>(work: W, small: impl FnOnce(W) -> W::Output) -> W::Output {
    #[cfg(all(target_arch = "x86_64", not(debug_assertions)))]
    match level() {
        // SAFETY: the features were found; the function is safe otherwise.
        Level::Avx512 => unsafe { avx512(work) },
        // SAFETY: as above.
        Level::Avx2 => unsafe { avx2(work) },
        Level::Plain => small(work),
    }
    #[cfg(not(all(target_arch = "x86_64", not(debug_assertions))))]
    {
        let _ = small;
        work.run()
    }
}

/// As [`widest_256`], with `small` as in [`call_or`].
#[inline]
pub fn widest_256_or<W: Work>(work: W, small: impl FnOnce(W) -> W::Output) -> W::Output {
    #[cfg(all(target_arch = "x86_64", not(debug_assertions)))]
    match level() {
        // SAFETY: the features were found; AVX-512 includes them. The function is safe otherwise.
        Level::Avx512 | Level::Avx2 => unsafe { avx2(work) },
        Level::Plain => small(work),
    }
    #[cfg(not(all(target_arch = "x86_64", not(debug_assertions))))]
    {
        let _ = small;
        work.run()
    }
}

#[cfg(all(target_arch = "x86_64", not(debug_assertions)))]
#[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx2,fma,bmi1,bmi2")]
fn avx512<W: Work>(work: W) -> W::Output {
    work.run()
}

#[cfg(all(target_arch = "x86_64", not(debug_assertions)))]
#[target_feature(enable = "avx2,fma,bmi1,bmi2")]
fn avx2<W: Work>(work: W) -> W::Output {
    work.run()
}

/// The vectors that code is compiled for.
#[cfg(all(target_arch = "x86_64", not(debug_assertions)))]
#[derive(Clone, Copy)]
enum Level {
    Plain = 1,
    Avx2,
    Avx512,
}

/// Returns what this machine has. To ask for each feature would take as long as a short loop, so the answer
/// is kept.
#[cfg(all(target_arch = "x86_64", not(debug_assertions)))]
#[inline]
fn level() -> Level {
    use std::sync::atomic::{AtomicU8, Ordering};
    static LEVEL: AtomicU8 = AtomicU8::new(0);
    #[cold]
    fn find() -> Level {
        use std::arch::is_x86_feature_detected as has;
        let avx2 = has!("avx2") && has!("fma") && has!("bmi1") && has!("bmi2");
        let avx512 = avx2
            && has!("fma")
            && has!("avx512f")
            && has!("avx512bw")
            && has!("avx512cd")
            && has!("avx512dq")
            && has!("avx512vl");
        let level = match (avx2, avx512) {
            (_, true) => Level::Avx512,
            (true, false) => Level::Avx2,
            (false, false) => Level::Plain,
        };
        LEVEL.store(level as u8, Ordering::Relaxed);
        level
    }
    const AVX2: u8 = Level::Avx2 as u8;
    const AVX512: u8 = Level::Avx512 as u8;
    match LEVEL.load(Ordering::Relaxed) {
        AVX512 => Level::Avx512,
        AVX2 => Level::Avx2,
        0 => find(),
        _ => Level::Plain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Sum<'a>(&'a [f32], &'a mut [f32]);
    impl Work for Sum<'_> {
        type Output = ();
        #[inline(always)]
        fn run(self) {
            self.1.iter_mut().zip(self.0).for_each(|(y, &x)| *y = (x * 1.1 + *y).sqrt() * x + 0.3);
        }
    }

    #[test]
    fn wide_loops_give_the_same_bits() {
        let x: Vec<f32> = (0..1000).map(|i| i as f32 * 0.37 + 0.01).collect();
        let (mut narrow, mut wide) = (x.clone(), x.clone());
        Sum(&x, &mut narrow).run();
        widest(Sum(&x, &mut wide));
        assert!(narrow.iter().zip(&wide).all(|(a, b)| a.to_bits() == b.to_bits()));
        wide! { fn add[](x: i32) -> i32 { x + 1 } }
        assert_eq!(call::<add, _>(6), 7);
        assert_eq!(call_256::<add, _>(6), 7);
        assert_eq!(call_or::<add, _>(6, |x| x + 1), 7);
        assert_eq!(call_256_or::<add, _>(6, |x| x + 1), 7);
    }
}
