//! Block kernels that look at a whole block before they choose a loop.
//!
//! The scalar body of some rows has a rare case that keeps a loop over it from becoming vector code. These
//! kernels run the common case as a vector loop where it holds for the whole block, and the body elsewhere.
//! Invariant: both give the same bits, so the body still defines the row.

use std::marker::PhantomData;

use fx_simd::{Arithmetic, At, Filled, UninitSlice, Wide, Work, call, call_256, wide, widest};

use crate::DType;
use crate::math;
use crate::pointwise::{Block, Kernels};

/// Notes that the row is a sum.
pub const fn add(kernels: Kernels) -> Kernels {
    kernels.arithmetic(Arithmetic::Add)
}

/// Notes that the row is a difference.
pub const fn sub(kernels: Kernels) -> Kernels {
    kernels.arithmetic(Arithmetic::Sub)
}

/// Notes that the row is a product.
pub const fn mul(kernels: Kernels) -> Kernels {
    kernels.arithmetic(Arithmetic::Mul)
}

/// Notes that the row is a quotient.
pub const fn div(kernels: Kernels) -> Kernels {
    kernels.arithmetic(Arithmetic::Div)
}

/// Replaces kernels of rows whose body is `math::fmod`.
pub const fn fmod(kernels: Kernels) -> Kernels {
    divisions::<TruncRemainder>(kernels)
        .whole(DType::F32)
        .f32(Block::Same(|xs, _, out| out.cleared(|out| call::<fmod_f32, _>((xs[0], xs[1], out)))))
}

/// Replaces kernels of rows whose body is `math::remainder`.
pub const fn remainder(kernels: Kernels) -> Kernels {
    divisions::<FloorRemainder>(kernels).whole(DType::F32).f32(Block::Same(|xs, _, out| {
        out.cleared(|out| {
            call::<fmod_f32, _>((xs[0], xs[1], &mut *out));
            call::<remainders, _>((xs[1], out));
        })
    }))
}

/// Replaces kernels of rows whose body is `math::floor_divide`.
pub const fn floor_divide(kernels: Kernels) -> Kernels {
    divisions::<FloorQuotient>(kernels).whole(DType::F32).f32(Block::Same(|xs, _, out| {
        out.cleared(|out| {
            call::<fmod_f32, _>((xs[0], xs[1], &mut *out));
            call::<quotients, _>((xs[0], xs[1], out));
        })
    }))
}

/// Replaces the kernels for integers of rows whose body is a quotient rounded towards zero.
pub const fn trunc_divide(kernels: Kernels) -> Kernels {
    divisions::<TruncQuotient>(kernels)
}

/// Replaces the kernels for `i32` and `i64` of a division. Processors have vectors of quotients for floats only,
/// and an `f64` has every `i32`, and each quotient of integers below 2^51.
const fn divisions<D: Division>(kernels: Kernels) -> Kernels {
    kernels
        .whole(DType::I32)
        .whole(DType::I64)
        .i32(Block::Same(|xs, _, out| {
            out.cleared(|out| call_256::<divided_i32<D>, _>((PhantomData, xs[0], xs[1], out)))
        }))
        .i64(Block::Same(|xs, _, out| {
            out.cleared(|out| {
                if !call_256::<divided_i64<D>, _>((PhantomData, xs[0], xs[1], &mut *out)) {
                    for ((out, &x), &y) in out.iter_mut().zip(xs[0]).zip(xs[1]) {
                        *out = D::of(x, y);
                    }
                }
            })
        }))
}

/// A quotient of integers, or what it leaves.
trait Division: 'static {
    /// Whether the quotient is rounded towards zero, not down.
    const TRUNCATES: bool;
    /// Whether the result is the remainder.
    const REMAINS: bool;

    /// Computes it for any integers; the divisor is not zero.
    fn of(x: i64, y: i64) -> i64 {
        let (quotient, rest) = (x.wrapping_div(y), x.wrapping_rem(y));
        let is_above = !Self::TRUNCATES && rest != 0 && (rest < 0) != (y < 0);
        match Self::REMAINS {
            true => rest + if is_above { y } else { 0 },
            false => quotient - i64::from(is_above),
        }
    }

    /// Computes it for integers below 2^51, also the quotient, which no rounding takes to another integer: it is
    /// a fraction of the divisor from the next one.
    #[inline(always)]
    fn in_f64(x: f64, y: f64) -> f64 {
        let quotient = x / y;
        let near = (quotient + ROUND) - ROUND;
        let below = near - if near > quotient { 1.0 } else { 0.0 };
        let is_low = Self::TRUNCATES && quotient < 0.0 && below < quotient;
        let whole = below + if is_low { 1.0 } else { 0.0 };
        if Self::REMAINS { x - whole * y } else { whole }
    }
}

macro_rules! division {
    ($($name:ident: $truncates:literal, $remains:literal;)*) => {$(
        enum $name {}
        impl Division for $name {
            const TRUNCATES: bool = $truncates;
            const REMAINS: bool = $remains;
        }
    )*};
}

division! {
    FloorQuotient: false, false;
    FloorRemainder: false, true;
    TruncQuotient: true, false;
    TruncRemainder: true, true;
}

/// What added to a float below 2^51 and taken away again leaves an integer; the sum has the bits of that integer.
const ROUND: f64 = 6_755_399_441_055_744.0;

type Operands<'a, T, D> = (PhantomData<D>, &'a [T], &'a [T], &'a mut [T]);

#[allow(non_camel_case_types, reason = "it stands for a function")]
struct divided_i32<D>(PhantomData<D>);

impl<'a, D: Division> Wide<Operands<'a, i32, D>> for divided_i32<D> {
    type Output = ();
    #[inline(always)]
    fn run((_, x, y, out): Operands<'a, i32, D>) {
        for ((out, &x), &y) in out.iter_mut().zip(x).zip(y) {
            // Of the least integer by -1 the low bits are left.
            *out = (D::in_f64(f64::from(x), f64::from(y)) + ROUND).to_bits() as i32;
        }
    }
}

#[allow(non_camel_case_types, reason = "it stands for a function")]
struct divided_i64<D>(PhantomData<D>);

impl<'a, D: Division> Wide<Operands<'a, i64, D>> for divided_i64<D> {
    /// Whether all integers were small enough.
    type Output = bool;
    #[inline(always)]
    fn run((_, x, y, out): Operands<'a, i64, D>) -> bool {
        const BITS: i64 = ROUND.to_bits() as i64;
        const FAR: i64 = 1 << 51;
        let float = |x: i64| f64::from_bits(x.wrapping_add(BITS) as u64) - ROUND;
        let mut fits = true;
        for ((out, &x), &y) in out.iter_mut().zip(x).zip(y) {
            fits &= (x > -FAR) & (x < FAR) & (y > -FAR) & (y < FAR);
            *out = ((D::in_f64(float(x), float(y)) + ROUND).to_bits() as i64).wrapping_sub(BITS);
        }
        fits
    }
}

wide! {
    fn remainders[]((y, out): (&[f32], &mut [f32])) {
        for (r, &y) in out.iter_mut().zip(y) {
            *r = math::remainder_of(*r, y);
        }
    }

    fn quotients[]((x, y, out): (&[f32], &[f32], &mut [f32])) {
        for ((r, &x), &y) in out.iter_mut().zip(x).zip(y) {
            *r = math::floor_divide_of(*r, x, y);
        }
    }
}

/// Replaces kernels of rows whose body is `math::pow`.
pub const fn pow(kernels: Kernels) -> Kernels {
    kernels
        .f32(Block::Same(|xs, _, out| out.cleared(|out| widest(Powers(xs[0], xs[1], out)))))
        .f64(Block::Same(|xs, _, out| out.cleared(|out| widest(Powers(xs[0], xs[1], out)))))
}

/// Replaces kernels of rows whose body is `math::sin`.
pub const fn sin(kernels: Kernels) -> Kernels {
    kernels.whole(DType::F64).f64(Block::Same(|xs, _, out| match call::<all_near, _>(xs[0]) {
        true => widest(NearSin(xs[0], out)),
        false => out.each(|i| math::sin(xs[0][i])),
    }))
}

/// Replaces kernels of rows whose body is `math::cos`.
pub const fn cos(kernels: Kernels) -> Kernels {
    kernels.whole(DType::F64).f64(Block::Same(|xs, _, out| match call::<all_near, _>(xs[0]) {
        true => widest(NearCos(xs[0], out)),
        false => out.each(|i| math::cos(xs[0][i])),
    }))
}

/// Quotients below this fit into the bits of an f64 beside those of the divisor.
const FAR: f64 = 268_435_456.0;

wide! {
    fn fmod_f32[]((x, y, out): (&[f32], &[f32], &mut [f32])) {
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
}

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

wide! {
    fn all_near[](x: &[f64]) -> bool {
        let mut all = true;
        for &x in x {
            all &= math::is_near(x);
        }
        all
    }
}

struct NearSin<'a, 'b>(&'b [f64], UninitSlice<'a, f64>);

impl<'a> Work for NearSin<'a, '_> {
    type Output = Filled<'a>;
    #[inline(always)]
    fn run(self) -> Filled<'a> {
        struct Each<'b>(&'b [f64]);
        impl At<f64> for Each<'_> {
            #[inline(always)]
            fn at(&self, i: usize) -> f64 {
                math::near_sin(self.0[i])
            }
        }
        let x = &self.0[..self.1.len()];
        self.1.each_of(Each(x))
    }
}

struct NearCos<'a, 'b>(&'b [f64], UninitSlice<'a, f64>);

impl<'a> Work for NearCos<'a, '_> {
    type Output = Filled<'a>;
    #[inline(always)]
    fn run(self) -> Filled<'a> {
        struct Each<'b>(&'b [f64]);
        impl At<f64> for Each<'_> {
            #[inline(always)]
            fn at(&self, i: usize) -> f64 {
                math::near_cos(self.0[i])
            }
        }
        let x = &self.0[..self.1.len()];
        self.1.each_of(Each(x))
    }
}
