// Scalar mathematics that compilers vectorise, generic over f32 and f64.
//
// Invariant: this text stands alone. It names nothing but `std` and is pasted verbatim into generated Rust,
// so eager kernels and generated code give the same bits. The f32 functions are straight-line code: no
// branches, calls, tables or saturating casts, so that a loop over them becomes vector code. Where they fuse
// a multiplication with an addition they say so (`mul_add`): its bits are the same on every machine, and one
// without the instruction, which is older than AVX2, is slow. Some compute in f64 inside. Where nothing else
// is said, errors are stated in ULP of f32; f64 has straight-line functions of its own for the most common
// ones, within 1 ULP of f64 or, where they are fits, about 1e-15 relative, and std's else. A formula of the
// NIST Digital Library of Mathematical Functions (https://dlmf.nist.gov) is cited by its number: DLMF 5.11.1.

use std::ops::{Add, Div, Mul, Neg, Rem, Sub};

/// A floating-point type of these functions: `f32` or `f64`.
///
/// The methods are associated functions; call them through the free functions of the same names.
#[allow(missing_docs, reason = "the free functions of the same names are documented")]
pub trait Real:
    Copy
    + PartialOrd
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Rem<Output = Self>
    + Neg<Output = Self>
    + Send
    + Sync
    + 'static
{
    const ZERO: Self;
    const ONE: Self;
    const NAN: Self;
    const INFINITY: Self;
    /// The least finite number.
    const MIN: Self;
    /// The quotient of a term and a sum below which the term does not count.
    const NEGLIGIBLE: f64;
    /// Returns sine and cosine, of f32 to 1e-12.
    fn sin_cos_wide(x: Self) -> (f64, f64);
    /// Returns `lgamma` of a positive number, for f32 as good as its precision needs.
    fn lgamma_wide(x: f64) -> f64;
    fn from_f64(x: f64) -> Self;
    fn to_f64(self) -> f64;
    fn abs(x: Self) -> Self;
    fn copysign(x: Self, sign: Self) -> Self;
    fn exp(x: Self) -> Self;
    /// Returns the exponential of a number that is not positive, or NaN.
    fn exp_below(x: Self) -> Self;
    fn exp2(x: Self) -> Self;
    fn expm1(x: Self) -> Self;
    fn log(x: Self) -> Self;
    fn log2(x: Self) -> Self;
    fn log10(x: Self) -> Self;
    fn log1p(x: Self) -> Self;
    fn sin(x: Self) -> Self;
    fn cos(x: Self) -> Self;
    fn tan(x: Self) -> Self;
    fn asin(x: Self) -> Self;
    fn acos(x: Self) -> Self;
    fn atan(x: Self) -> Self;
    fn atan2(y: Self, x: Self) -> Self;
    fn sinh(x: Self) -> Self;
    fn cosh(x: Self) -> Self;
    fn tanh(x: Self) -> Self;
    fn asinh(x: Self) -> Self;
    fn acosh(x: Self) -> Self;
    fn atanh(x: Self) -> Self;
    fn sigmoid(x: Self) -> Self;
    fn erf(x: Self) -> Self;
    fn erfc(x: Self) -> Self;
    fn erfinv(x: Self) -> Self;
    fn lgamma(x: Self) -> Self;
    fn digamma(x: Self) -> Self;
    fn sqrt(x: Self) -> Self;
    fn rsqrt(x: Self) -> Self;
    fn cbrt(x: Self) -> Self;
    fn pow(x: Self, y: Self) -> Self;
    fn silu(x: Self) -> Self;
    fn ndtr(x: Self) -> Self;
    fn gelu(x: Self) -> Self;
    fn gelu_tanh(x: Self) -> Self;
    fn softplus(x: Self, beta: Self, threshold: Self) -> Self;
    fn mish(x: Self) -> Self;
    fn fmod(x: Self, y: Self) -> Self;
    fn floor(x: Self) -> Self;
    fn ceil(x: Self) -> Self;
    fn trunc(x: Self) -> Self;
    fn round(x: Self) -> Self;
}

macro_rules! free_functions {
    ($($(#[$doc:meta])* $name:ident($($arg:ident),*);)*) => {
        $($(#[$doc])* #[inline(always)] pub fn $name<T: Real>($($arg: T),*) -> T { T::$name($($arg),*) })*
    };
}
free_functions! {
    /// Returns the magnitude.
    abs(x);
    /// Returns `x` with the sign of `sign`.
    copysign(x, sign);
    /// Returns e to the power of `x`, within 1 ULP.
    exp(x);
    /// Returns 2 to the power of `x`, within 2 ULP.
    exp2(x);
    /// Returns `exp(x) - 1` without cancellation, within 1 ULP.
    expm1(x);
    /// Returns the natural logarithm, within 1 ULP.
    log(x);
    /// Returns the logarithm to base 2, within 1 ULP.
    log2(x);
    /// Returns the logarithm to base 10, within 1 ULP.
    log10(x);
    /// Returns `log(1 + x)` without cancellation, within 1 ULP.
    log1p(x);
    /// Returns the sine, within 1 ULP for every finite `x`.
    sin(x);
    /// Returns the cosine, within 1 ULP for every finite `x`.
    cos(x);
    /// Returns the tangent, within 1 ULP for every finite `x`.
    tan(x);
    /// Returns the arc sine, within 1 ULP; NaN outside [-1, 1].
    asin(x);
    /// Returns the arc cosine, within 1 ULP; NaN outside [-1, 1].
    acos(x);
    /// Returns the arc tangent, within 1 ULP.
    atan(x);
    /// Returns the angle of the point (`x`, `y`), within 1 ULP.
    atan2(y, x);
    /// Returns the hyperbolic sine, within 1 ULP.
    sinh(x);
    /// Returns the hyperbolic cosine, within 1 ULP.
    cosh(x);
    /// Returns the hyperbolic tangent, within 2 ULP.
    tanh(x);
    /// Returns the inverse hyperbolic sine, within 1 ULP.
    asinh(x);
    /// Returns the inverse hyperbolic cosine, within 1 ULP; NaN below 1.
    acosh(x);
    /// Returns the inverse hyperbolic tangent, within 1 ULP; NaN outside [-1, 1].
    atanh(x);
    /// Returns `1 / (1 + exp(-x))`, within 3 ULP; 0 where `exp(-x)` overflows, as PyTorch does.
    sigmoid(x);
    /// Returns the error function, within 2 ULP.
    erf(x);
    /// Returns `1 - erf(x)` without cancellation, within 6 ULP.
    erfc(x);
    /// Returns the inverse of [`erf`], within 1 ULP (f64: about 1e-15 relative, not vectorised).
    erfinv(x);
    /// Returns the logarithm of the magnitude of the gamma function: within 1 ULP for positive `x`, and
    /// for negative `x` away from its zeros (f64: 4e-15 relative to the larger of 1 and the result).
    lgamma(x);
    /// Returns the derivative of `lgamma`: within 1 ULP away from its zeros (f64: 4e-15 relative to the
    /// larger of 1 and the result); infinite at zero, NaN at negative integers.
    digamma(x);
    /// Returns the square root, correctly rounded.
    sqrt(x);
    /// Returns `1 / sqrt(x)`, within 2 ULP.
    rsqrt(x);
    /// Returns the cube root, within 1 ULP (not vectorised).
    cbrt(x);
    /// Returns `x` to the power of `y` with C's special cases, within 1 ULP.
    pow(x, y);
    /// Returns `x * sigmoid(x)`, within 3 ULP where `x > -87`.
    silu(x);
    /// Returns the normal distribution function, within 7 ULP, also in its lower tail.
    ndtr(x);
    /// Returns `x` times the normal distribution function of `x`, within 7 ULP where `x > -13`, also in that tail.
    gelu(x);
    /// Returns the tanh approximation of [`gelu`] (D. Hendrycks, K. Gimpel, Gaussian error linear units, 2016),
    /// within 1 ULP.
    gelu_tanh(x);
    /// Returns `log(1 + exp(beta * x)) / beta`, and `x` where `beta * x > threshold`; within 2 ULP.
    softplus(x, beta, threshold);
    /// Returns `x * tanh(softplus(x))`, within 1 ULP.
    mish(x);
    /// Returns C's `fmod`: exact, with the sign of `x`.
    fmod(x, y);
    /// Returns the largest integer that is not above `x`.
    floor(x);
    /// Returns the smallest integer that is not below `x`.
    ceil(x);
    /// Returns the integer part.
    trunc(x);
    /// Returns the nearest integer, the even one of two.
    round(x);
}

/// Returns -1, 0 or 1; 0 for NaN, as PyTorch.
#[inline(always)]
pub fn sign<T: Real>(x: T) -> T {
    let positive = if x > T::ZERO { T::ONE } else { T::ZERO };
    if x < T::ZERO { -T::ONE } else { positive }
}

/// Returns the larger operand, NaN if either is.
#[inline(always)]
pub fn maximum<T: Real>(x: T, y: T) -> T {
    let larger = if x > y { x } else { y };
    if x.partial_cmp(&x).is_none() { x } else { larger }
}

/// Returns the smaller operand, NaN if either is.
#[inline(always)]
pub fn minimum<T: Real>(x: T, y: T) -> T {
    let smaller = if x < y { x } else { y };
    if x.partial_cmp(&x).is_none() { x } else { smaller }
}

/// Returns Python's `%`: the remainder with the sign of `y`.
#[inline(always)]
pub fn remainder<T: Real>(x: T, y: T) -> T {
    remainder_of(fmod(x, y), y)
}

/// Returns the remainder with the sign of `y` from that of [`fmod`].
#[inline(always)]
pub fn remainder_of<T: Real>(r: T, y: T) -> T {
    if r != T::ZERO && (r < T::ZERO) != (y < T::ZERO) { r + y } else { r }
}

/// Returns Python's `//`: the floor of the exact quotient, where rounding `x / y` first would be wrong.
#[inline(always)]
pub fn floor_divide<T: Real>(x: T, y: T) -> T {
    floor_divide_of(fmod(x, y), x, y)
}

/// Returns the quotient of [`floor_divide`] from the remainder of [`fmod`].
#[inline(always)]
pub fn floor_divide_of<T: Real>(r: T, x: T, y: T) -> T {
    let quotient = (x - r) / y;
    let quotient = if r != T::ZERO && (r < T::ZERO) != (y < T::ZERO) { quotient - T::ONE } else { quotient };
    let floor = T::floor(quotient);
    let nearest = if quotient - floor > T::from_f64(0.5) { floor + T::ONE } else { floor };
    let result = if quotient != T::ZERO { nearest } else { T::copysign(T::ZERO, x / y) };
    if y == T::ZERO { x / y } else { result }
}
