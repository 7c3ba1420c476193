//! Runs safe loops in the widest vectors and on all threads of the machine, and fills new memory.
//!
//! Code is compiled for the oldest machine of its kind unless a function says otherwise. [`widest`] runs a piece of [`Work`] in
//! a function that was compiled for AVX2 or AVX-512, if the machine has them; all that is inlined into it becomes wide too.
//!
//! Invariant: the bits of a result do not depend on the instruction set. Rust never contracts `a * b + c` or reorders sums, so
//! the same operations are done in the same order, only more of them at a time. Builds with debug assertions have the plain loops
//! only, for each copy of a loop is compiled anew.

mod memory;
pub mod parallel;
mod placement;

pub use memory::{collect, copy};

/// A piece of work whose `run` is `#[inline(always)]`, as is everything hot that it calls.
pub trait Work {
    /// The result.
    type Output;
    /// Does the work. Implementations must be `#[inline(always)]`, or nothing is gained.
    fn run(self) -> Self::Output;
}

/// Calls a function in the widest vectors that this machine has. It should be a named one that is `#[inline(always)]`.
#[inline]
pub fn call<A, R>(function: impl FnOnce(A) -> R, arguments: A) -> R {
    struct Call<F, A>(F, A);
    impl<F: FnOnce(A) -> R, A, R> Work for Call<F, A> {
        type Output = R;
        #[inline(always)]
        fn run(self) -> R {
            (self.0)(self.1)
        }
    }
    widest(Call(function, arguments))
}

/// Runs the work in the widest vectors that this machine has.
#[inline]
pub fn widest<W: Work>(work: W) -> W::Output {
    #[cfg(all(target_arch = "x86_64", not(debug_assertions)))]
    {
        #[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx2,fma,bmi1,bmi2")]
        fn avx512<W: Work>(work: W) -> W::Output {
            work.run()
        }
        #[target_feature(enable = "avx2,bmi1,bmi2")]
        fn avx2<W: Work>(work: W) -> W::Output {
            work.run()
        }
        if has_avx512() {
            // SAFETY: the features were found just now; the function is safe otherwise.
            return unsafe { avx512(work) };
        }
        if has_avx2() {
            // SAFETY: as above.
            return unsafe { avx2(work) };
        }
    }
    work.run()
}

#[cfg(all(target_arch = "x86_64", not(debug_assertions)))]
#[inline]
fn has_avx2() -> bool {
    use std::arch::is_x86_feature_detected as has;
    has!("avx2") && has!("bmi1") && has!("bmi2")
}

#[cfg(all(target_arch = "x86_64", not(debug_assertions)))]
#[inline]
fn has_avx512() -> bool {
    use std::arch::is_x86_feature_detected as has;
    has_avx2()
        && has!("fma")
        && has!("avx512f")
        && has!("avx512bw")
        && has!("avx512cd")
        && has!("avx512dq")
        && has!("avx512vl")
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
        assert_eq!(call(|x| x + 1, 6), 7);
    }
}
