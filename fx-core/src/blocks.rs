//! Block kernels that look at a whole block before they choose a loop.
//!
//! The scalar body of some rows has a rare case that keeps a loop over it from becoming vector code. These kernels run the
//! common case as a vector loop where it holds for the whole block, and the body elsewhere. Invariant: both give the same bits, so
//! the body is still what the row means.

use fx_simd::{Work, call, widest};

use crate::math;
use crate::pointwise::{Block, Kernels};

/// Replaces kernels of rows whose body is `math::fmod`.
pub const fn fmod(kernels: Kernels) -> Kernels {
    kernels.f32(Block::Same(|xs, _, out| call(fmod_f32, (xs[0], xs[1], out))))
}

/// Replaces kernels of rows whose body is `math::remainder`.
pub const fn remainder(kernels: Kernels) -> Kernels {
    kernels.f32(Block::Same(|xs, _, out| {
        call(fmod_f32, (xs[0], xs[1], &mut *out));
        call(remainders, (xs[1], out));
    }))
}

/// Replaces kernels of rows whose body is `math::floor_divide`.
pub const fn floor_divide(kernels: Kernels) -> Kernels {
    kernels.f32(Block::Same(|xs, _, out| {
        call(fmod_f32, (xs[0], xs[1], &mut *out));
        call(quotients, (xs[0], xs[1], out));
    }))
}

#[inline(always)]
fn remainders((y, out): (&[f32], &mut [f32])) {
    out.iter_mut().zip(y).for_each(|(r, &y)| *r = math::remainder_of(*r, y));
}

#[inline(always)]
fn quotients((x, y, out): (&[f32], &[f32], &mut [f32])) {
    for ((r, &x), &y) in out.iter_mut().zip(x).zip(y) {
        *r = math::floor_divide_of(*r, x, y);
    }
}

/// Replaces kernels of rows whose body is `math::pow`.
pub const fn pow(kernels: Kernels) -> Kernels {
    kernels
        .f32(Block::Same(|xs, _, out| widest(Powers(xs[0], xs[1], out))))
        .f64(Block::Same(|xs, _, out| widest(Powers(xs[0], xs[1], out))))
}

/// Replaces kernels of rows whose body is `math::sin`.
pub const fn sin(kernels: Kernels) -> Kernels {
    kernels.f64(Block::Same(|xs, _, out| match all_near(xs[0]) {
        true => widest(NearSin(xs[0], out)),
        false => out.iter_mut().zip(xs[0]).for_each(|(out, &x)| *out = math::sin(x)),
    }))
}

/// Replaces kernels of rows whose body is `math::cos`.
pub const fn cos(kernels: Kernels) -> Kernels {
    kernels.f64(Block::Same(|xs, _, out| match all_near(xs[0]) {
        true => widest(NearCos(xs[0], out)),
        false => out.iter_mut().zip(xs[0]).for_each(|(out, &x)| *out = math::cos(x)),
    }))
}

/// Quotients below this fit into the bits of an f64 beside those of the divisor.
const FAR: f64 = 268_435_456.0;

#[inline(always)]
fn fmod_f32((x, y, out): (&[f32], &[f32], &mut [f32])) {
    const ROUND: f64 = 6_755_399_441_055_744.0;
    let mut is_near = true;
    for ((out, &x), &y) in out.iter_mut().zip(x).zip(y) {
        let (a, b) = (f64::from(x.abs()), f64::from(y.abs()));
        let quotient = a / b;
        is_near &= quotient < FAR;
        // Product and difference are exact.
        let r = a - ((quotient + ROUND) - ROUND) * b;
        let r = if r < 0.0 { r + b } else { r };
        let r = if b == f64::INFINITY { a } else { r };
        *out = (r as f32).copysign(x);
    }
    if !is_near {
        for ((out, &x), &y) in out.iter_mut().zip(x).zip(y) {
            *out = math::fmod(x, y);
        }
    }
}

// The bodies of the following are long. Only the `run` of a `Work` is inlined whatever its length, and only if it is, it is
// compiled for wide vectors.

struct Powers<'a, T>(&'a [T], &'a [T], &'a mut [T]);

impl<T: math::Real> Work for Powers<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let Powers(x, y, out) = self;
        let exponent = y.first().copied().unwrap_or(T::ZERO);
        let is_one = y.iter().fold(true, |same, &y| same & (y == exponent));
        let is = |literal: f64| is_one && exponent == T::from_f64(literal);
        // The exponent is a literal in each loop, so that little of the body is left.
        if is(2.0) {
            for (out, &x) in out.iter_mut().zip(x) {
                *out = math::pow(x, T::from_f64(2.0));
            }
        } else if is(3.0) {
            for (out, &x) in out.iter_mut().zip(x) {
                *out = math::pow(x, T::from_f64(3.0));
            }
        } else if is(0.5) {
            for (out, &x) in out.iter_mut().zip(x) {
                *out = math::pow(x, T::from_f64(0.5));
            }
        } else if is(-1.0) {
            for (out, &x) in out.iter_mut().zip(x) {
                *out = math::pow(x, T::from_f64(-1.0));
            }
        } else {
            for ((out, &x), &y) in out.iter_mut().zip(x).zip(y) {
                *out = math::pow(x, y);
            }
        }
    }
}

fn all_near(x: &[f64]) -> bool {
    call(|x: &[f64]| x.iter().fold(true, |is_near, &x| is_near & math::is_near(x)), x)
}

struct NearSin<'a>(&'a [f64], &'a mut [f64]);

impl Work for NearSin<'_> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        for (out, &x) in self.1.iter_mut().zip(self.0) {
            *out = math::near_sin(x);
        }
    }
}

struct NearCos<'a>(&'a [f64], &'a mut [f64]);

impl Work for NearCos<'_> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        for (out, &x) in self.1.iter_mut().zip(self.0) {
            *out = math::near_cos(x);
        }
    }
}
