// Scalar mathematics that compilers vectorise, generic over f32 and f64.
//
// Invariant: this text stands alone. It names nothing but `std` and is pasted verbatim into generated
// Rust, so eager kernels and generated code give the same bits. The f32 functions are straight-line
// code: no branches, calls, tables, fused multiply-adds or saturating casts, so that a loop over them
// becomes vector code, and its results do not depend on the target's features. Some compute in f64
// inside. Where nothing else is said, errors are stated in ULP of f32; f64 takes std's functions, or
// series and Chebyshev fits good to about 1e-15 relative where std has none.

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
    fn from_f64(x: f64) -> Self;
    fn to_f64(self) -> f64;
    fn abs(x: Self) -> Self;
    fn copysign(x: Self, sign: Self) -> Self;
    fn exp(x: Self) -> Self;
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
    /// Returns 2 to the power of `x`, within 1 ULP.
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
    /// Returns `1 / (1 + exp(-x))`, within 3 ULP.
    sigmoid(x);
    /// Returns the error function, within 2 ULP.
    erf(x);
    /// Returns `1 - erf(x)` without cancellation, within 4 ULP.
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
    /// Returns `1 / sqrt(x)`, within 1 ULP.
    rsqrt(x);
    /// Returns the cube root, within 1 ULP (not vectorised).
    cbrt(x);
    /// Returns `x` to the power of `y` with C's special cases, within 1 ULP.
    pow(x, y);
    /// Returns `x * sigmoid(x)`, within 3 ULP where `x > -87`.
    silu(x);
    /// Returns `x` times the normal distribution function of `x`, within 5 ULP where `x > -13`, also in that tail.
    gelu(x);
    /// Returns the tanh approximation of [`gelu`], within 1 ULP.
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
    let r = fmod(x, y);
    if r != T::ZERO && (r < T::ZERO) != (y < T::ZERO) { r + y } else { r }
}

/// Returns Python's `//`: the floor of the exact quotient, where rounding `x / y` first would be wrong.
#[inline(always)]
pub fn floor_divide<T: Real>(x: T, y: T) -> T {
    let r = fmod(x, y);
    let quotient = (x - r) / y;
    let quotient = if r != T::ZERO && (r < T::ZERO) != (y < T::ZERO) { quotient - T::ONE } else { quotient };
    let floor = T::floor(quotient);
    let nearest = if quotient - floor > T::from_f64(0.5) { floor + T::ONE } else { floor };
    let result = if quotient != T::ZERO { nearest } else { T::copysign(T::ZERO, x / y) };
    if y == T::ZERO { x / y } else { result }
}

const LN_2: f64 = std::f64::consts::LN_2;
const LOG2_E: f64 = std::f64::consts::LOG2_E;
const PI: f64 = std::f64::consts::PI;
const FRAC_PI_2: f64 = std::f64::consts::FRAC_PI_2;
const FRAC_PI_4: f64 = std::f64::consts::FRAC_PI_4;
const FRAC_1_SQRT_2: f64 = std::f64::consts::FRAC_1_SQRT_2;
const SQRT_2_OVER_PI: f64 = 0.797_884_560_802_865_4;

/// Adding and subtracting 1.5 * 2^52 rounds to an integer, which stays in the low bits in between.
const ROUND: f64 = 6_755_399_441_055_744.0;
const ROUND32: f32 = 12_582_912.0;

#[inline(always)]
fn rint(x: f64) -> f64 {
    (x + ROUND) - ROUND
}

#[inline(always)]
fn clamp64(x: f64, low: f64, high: f64) -> f64 {
    let x = if x < low { low } else { x };
    if x > high { high } else { x }
}

#[inline(always)]
fn poly<const N: usize>(x: f64, c: [f64; N]) -> f64 {
    let mut sum = c[N - 1];
    let mut i = N - 1;
    while i > 0 {
        i -= 1;
        sum = sum * x + c[i];
    }
    sum
}

#[inline(always)]
fn poly32<const N: usize>(x: f32, c: [f32; N]) -> f32 {
    let mut sum = c[N - 1];
    let mut i = N - 1;
    while i > 0 {
        i -= 1;
        sum = sum * x + c[i];
    }
    sum
}

/// Returns `(m, s)` with `exp(x) = s * (1 + m)`, `s` a power of two; exact enough for f32 (2^-42).
#[inline(always)]
fn exp_parts(x: f64) -> (f64, f64) {
    let x = clamp64(x, -700.0, 700.0);
    let shifted = x * LOG2_E + ROUND;
    let n = shifted - ROUND;
    let r = (x - n * 0.693_147_180_369_123_8) - n * 1.908_214_929_270_587_7e-10;
    (expm1_reduced(r), f64::from_bits(shifted.to_bits().wrapping_add(1023) << 52))
}

#[inline(always)]
fn expm1_reduced(r: f64) -> f64 {
    let q = poly(
        r,
        [
            0.499_999_999_999_514_17,
            0.166_666_666_666_467_96,
            0.041_666_666_793_559_01,
            0.008_333_333_354_959_291,
            0.001_388_883_710_735_674_1,
            0.000_198_412_063_001_340_12,
            2.486_919_091_672_821_6e-5,
            2.762_645_199_952_320_6e-6,
        ],
    );
    r + r * r * q
}

#[inline(always)]
fn exp64(x: f64) -> f64 {
    let (m, s) = exp_parts(x);
    s + s * m
}

#[inline(always)]
fn expm1_64(x: f64) -> f64 {
    let (m, s) = exp_parts(x);
    s * m + (s - 1.0)
}

#[inline(always)]
fn exp2_64(x: f64) -> f64 {
    let x = clamp64(x, -1000.0, 1000.0);
    let shifted = x + ROUND;
    let s = f64::from_bits(shifted.to_bits().wrapping_add(1023) << 52);
    s + s * expm1_reduced((x - (shifted - ROUND)) * LN_2)
}

/// Returns `(k, l)` with `log(x) = k * LN_2 + l`, for positive normal finite `x` (2^-42).
#[inline(always)]
fn log_parts(x: f64) -> (f64, f64) {
    const SQRT_HALF: u64 = 0x3fe6_a09e_0000_0000;
    let ix = x.to_bits().wrapping_add(0x3ff0_0000_0000_0000 - SQRT_HALF);
    let k = f64::from_bits(0x4330_0000_0000_0000 | (ix >> 52)) - 4_503_599_627_371_519.0;
    let f = f64::from_bits((ix & 0x000f_ffff_ffff_ffff).wrapping_add(SQRT_HALF)) - 1.0;
    let s = f / (2.0 + f);
    let z = s * s;
    let r = 2.0
        * z
        * poly(
            z,
            [
                0.333_333_333_333_309_5,
                0.200_000_000_057_891_54,
                0.142_857_120_115_215_4,
                0.111_114_372_957_765_76,
                0.090_698_319_353_006_7,
                0.083_148_599_837_549_05,
            ],
        );
    (k, f - s * (f - r))
}

/// Returns the logarithm of any `x` that came from an f32, or a sum or product of few such.
#[inline(always)]
fn log64(x: f64) -> f64 {
    let (k, l) = log_parts(x);
    log_special(x, k * LN_2 + l)
}

#[inline(always)]
fn log_special(x: f64, value: f64) -> f64 {
    let value = if x == 0.0 { f64::NEG_INFINITY } else { value };
    let value = if x == f64::INFINITY { x } else { value };
    if x >= 0.0 { value } else { f64::NAN }
}

/// Returns `(sin, cos)` of the reduced angle and the quadrant, for every finite f32.
#[inline(always)]
fn sin_cos_reduced(x: f32) -> (f64, f64, u64) {
    let x = f64::from(x);
    let a = if x < 0.0 { -x } else { x };
    // 1 / (2 pi) without the bits that yield whole turns: 29 + 29 + 53 bits, by the range of `x`. The
    // first two products are exact.
    const P: [(f64, f64, f64); 5] = [
        (0.15625, 0.0029049430740997195, 1.779561624450022e-11),
        (0.0029049430740997195, 1.7795616217598786e-11, 2.6901432026846873e-20),
        (1.779561610917857e-11, 1.3532164901678398e-19, 2.586133368605039e-28),
        (1.353216486128872e-19, 6.625101192515775e-28, 1.0820844071023397e-36),
        (1.4703036846932608e-27, 2.5867171752090537e-36, 9.458140970740169e-46),
    ];
    let (c1, c2, c3) = P[0];
    let pick = |at: f64, p: (f64, f64, f64), c: (f64, f64, f64)| {
        (if a >= at { p.0 } else { c.0 }, if a >= at { p.1 } else { c.1 }, if a >= at { p.2 } else { c.2 })
    };
    let c = pick(268_435_456.0, P[1], (c1, c2, c3));
    let c = pick(7.205_759_403_792_794e16, P[2], c);
    let c = pick(1.934_281_311_383_406_7e25, P[3], c);
    let (c1, c2, c3) = pick(5.192_296_858_534_828e33, P[4], c);
    let (p1, p2, p3) = (x * c1, x * c2, x * c3);
    let (a, b) = (p1 - rint(p1), p2 - rint(p2));
    let shifted = (a + b + p3) * 4.0 + ROUND;
    let turns = ((a - (shifted - ROUND) * 0.25) + b) + p3;
    let r = turns * (2.0 * PI);
    let z = r * r;
    let sin = r + r
        * z
        * poly(
            z,
            [
                -0.166_666_666_666_637_46,
                0.008_333_333_330_988_981,
                -0.000_198_412_668_294_804_56,
                2.755_596_454_542_07e-6,
                -2.480_320_179_007_323e-8,
            ],
        );
    let cos = 1.0 - 0.5 * z
        + z * z
            * poly(
                z,
                [
                    0.041_666_666_666_664_576,
                    -0.001_388_888_888_721_271,
                    2.480_158_514_833_344_5e-5,
                    -2.755_635_080_682_733e-7,
                    2.069_885_785_224_86e-9,
                ],
            );
    (sin, cos, shifted.to_bits())
}

#[inline(always)]
fn sin_quadrant(sin: f64, cos: f64, quadrant: u64) -> f64 {
    let odd = if quadrant & 1 == 0 { sin } else { cos };
    f64::from_bits(odd.to_bits() ^ ((quadrant & 2) << 62))
}

/// Returns the angle of (`x`, `y`) given as f64 values of f32 precision.
#[inline(always)]
fn atan2_64(y: f64, x: f64) -> f64 {
    let (ay, ax) = (y.abs(), x.abs());
    let both_infinite = ay == f64::INFINITY && ax == f64::INFINITY;
    let (ay, ax) = (if both_infinite { 1.0 } else { ay }, if both_infinite { 1.0 } else { ax });
    let (small, large) = if ay > ax { (ax, ay) } else { (ay, ax) };
    let upper = small > 0.414_213_562_373_095_05 * large;
    let numerator = if upper { small - large } else { small };
    let denominator = if upper { small + large } else { large };
    let t = numerator / denominator;
    let t = if large == 0.0 { 0.0 } else { t };
    let z = t * t;
    let angle = t + t
        * z
        * poly(
            z,
            [
                -0.333_333_333_315_036_7,
                0.199_999_989_432_610_55,
                -0.142_856_142_540_077,
                0.111_075_379_824_263_84,
                -0.090_294_603_209_065_27,
                0.071_377_730_545_716_29,
                -0.040_479_406_424_715_16,
            ],
        );
    let angle = if upper { FRAC_PI_4 + angle } else { angle };
    let angle = if ay > ax { FRAC_PI_2 - angle } else { angle };
    let angle = if x.is_sign_negative() { PI - angle } else { angle };
    let angle = if x.is_nan() || y.is_nan() { f64::NAN } else { angle };
    angle.copysign(y)
}

/// Returns `exp(high + low)` for small `low`, within 1 ULP.
#[inline(always)]
fn exp_sum32(high: f32, low: f32) -> f32 {
    let x = if high > 89.0 { 89.0 } else { high };
    let x = if x < -104.0 { -104.0 } else { x };
    let shifted = x * std::f32::consts::LOG2_E + ROUND32;
    let n = shifted - ROUND32;
    let r = ((x - n * 0.693_359_4) - n * -2.121_944_4e-4) + low;
    let q = poly32(r, [0.5, 0.166_665_73, 0.041_666_456, 0.008_363_769, 0.001_393_453_5]);
    let p = (q * (r * r) + r) + 1.0;
    // Two factors, for the exponent of a subnormal or of 2^128 does not fit into one.
    let n = shifted.to_bits().wrapping_sub(ROUND32.to_bits()) as i32;
    let half = n >> 1;
    let s1 = f32::from_bits((half.wrapping_add(127) as u32) << 23);
    let s2 = f32::from_bits((n.wrapping_sub(half).wrapping_add(127) as u32) << 23);
    p * s1 * s2
}

/// Returns `exp(-scale * a^2)` for `scale` 1 or 1/2, and `erfc(t) * exp(t^2)`.
#[inline(always)]
fn erfc_parts32(a: f32, t: f32, scale: f32) -> (f32, f32) {
    // The square of the upper 12 bits is exact.
    let upper = f32::from_bits(a.to_bits() & 0xffff_f000);
    let gauss = exp_sum32(-scale * upper * upper, -scale * (a - upper) * (a + upper));
    let w = (t - 2.0) / (t + 2.0);
    let q = poly32(
        w,
        [
            1.276_978_4,
            -0.092_763_9,
            -0.166_031_36,
            0.164_053_22,
            -0.054_205_023,
            -0.008_044_63,
            0.008_637_803,
            0.001_272_379_1,
            -0.001_252_902_4,
            -0.000_362_649_39,
            2.752_23e-5,
        ],
    );
    (gauss, q / (1.0 + 2.0 * t))
}

/// Returns `erf(x)` for `|x| < 0.93`.
#[inline(always)]
fn erf_small32(x: f32) -> f32 {
    const P: [f32; 6] =
        [0.128_379_15, -0.376_124_9, 0.112_817_35, -0.026_763_156, 0.004_987_532, -0.000_595_974_15];
    poly32(x * x, P) * x + x
}

#[inline(always)]
fn is_odd(y: f64) -> bool {
    let half = y * 0.5;
    let huge = y.abs() >= 4_503_599_627_370_496.0;
    !huge && rint(y) == y && rint(half) != half
}

impl Real for f32 {
    const ZERO: f32 = 0.0;
    const ONE: f32 = 1.0;
    const NAN: f32 = f32::NAN;
    const INFINITY: f32 = f32::INFINITY;

    #[inline(always)]
    fn from_f64(x: f64) -> f32 {
        x as f32
    }
    #[inline(always)]
    fn to_f64(self) -> f64 {
        f64::from(self)
    }
    #[inline(always)]
    fn abs(x: f32) -> f32 {
        x.abs()
    }
    #[inline(always)]
    fn copysign(x: f32, sign: f32) -> f32 {
        x.copysign(sign)
    }
    #[inline(always)]
    fn exp(x: f32) -> f32 {
        exp_sum32(x, 0.0)
    }
    #[inline(always)]
    fn exp2(x: f32) -> f32 {
        exp2_64(f64::from(x)) as f32
    }
    #[inline(always)]
    fn expm1(x: f32) -> f32 {
        let y = expm1_64(f64::from(x)) as f32;
        if x.abs() < 1e-8 { x } else { y }
    }
    #[inline(always)]
    fn log(x: f32) -> f32 {
        const SQRT_HALF: u32 = 0x3f35_04f3;
        let subnormal = x < f32::MIN_POSITIVE;
        let y = if subnormal { x * 8_388_608.0 } else { x };
        let bias = if subnormal { -23.0 } else { 0.0 };
        let ix = y.to_bits().wrapping_sub(SQRT_HALF);
        let k = ((ix as i32) >> 23) as f32 + bias;
        let f = f32::from_bits((ix & 0x007f_ffff).wrapping_add(SQRT_HALF)) - 1.0;
        let s = f / (2.0 + f);
        let z = s * s;
        let r = z * poly32(z, [0.666_666_87, 0.399_886_23, 0.295_867_4]);
        let half_square = 0.5 * f * f;
        let value = k * 0.693_359_4 + (((s * (half_square + r) + k * -2.121_944_4e-4) - half_square) + f);
        let value = if x == 0.0 { f32::NEG_INFINITY } else { value };
        let value = if x == f32::INFINITY { x } else { value };
        if x >= 0.0 { value } else { f32::NAN }
    }
    #[inline(always)]
    fn log2(x: f32) -> f32 {
        let x = f64::from(x);
        let (k, l) = log_parts(x);
        log_special(x, k + l * LOG2_E) as f32
    }
    #[inline(always)]
    fn log10(x: f32) -> f32 {
        (log64(f64::from(x)) * std::f64::consts::LOG10_E) as f32
    }
    #[inline(always)]
    fn log1p(x: f32) -> f32 {
        let y = log64(1.0 + f64::from(x)) as f32;
        if x.abs() < 1e-8 { x } else { y }
    }
    #[inline(always)]
    fn sin(x: f32) -> f32 {
        let (sin, cos, quadrant) = sin_cos_reduced(x);
        let y = sin_quadrant(sin, cos, quadrant) as f32;
        if x == 0.0 { x } else { y }
    }
    #[inline(always)]
    fn cos(x: f32) -> f32 {
        let (sin, cos, quadrant) = sin_cos_reduced(x);
        sin_quadrant(sin, cos, quadrant.wrapping_add(1)) as f32
    }
    #[inline(always)]
    fn tan(x: f32) -> f32 {
        let (sin, cos, quadrant) = sin_cos_reduced(x);
        let odd = quadrant & 1 == 1;
        let y = (if odd { -cos } else { sin } / if odd { sin } else { cos }) as f32;
        if x == 0.0 { x } else { y }
    }
    #[inline(always)]
    fn asin(x: f32) -> f32 {
        let x = f64::from(x);
        atan2_64(x, ((1.0 - x) * (1.0 + x)).sqrt()) as f32
    }
    #[inline(always)]
    fn acos(x: f32) -> f32 {
        let x = f64::from(x);
        atan2_64(((1.0 - x) * (1.0 + x)).sqrt(), x) as f32
    }
    #[inline(always)]
    fn atan(x: f32) -> f32 {
        atan2_64(f64::from(x), 1.0) as f32
    }
    #[inline(always)]
    fn atan2(y: f32, x: f32) -> f32 {
        atan2_64(f64::from(y), f64::from(x)) as f32
    }
    #[inline(always)]
    fn sinh(x: f32) -> f32 {
        let m = expm1_64(f64::from(x.abs()));
        let y = (0.5 * (m + m / (m + 1.0))) as f32;
        let y = if x.abs() < 1e-8 { x } else { y };
        y.copysign(x)
    }
    #[inline(always)]
    fn cosh(x: f32) -> f32 {
        let e = exp64(f64::from(x.abs()));
        (0.5 * (e + 1.0 / e)) as f32
    }
    #[inline(always)]
    fn tanh(x: f32) -> f32 {
        let a = x.abs();
        let z = x * x;
        let small =
            poly32(z, [-0.333_333_28, 0.133_327_34, -0.053_844_99, 0.020_968_188, -0.006_053_697_3]) * z * x
                + x;
        let large = 1.0 - 2.0 / (exp_sum32(a + a, 0.0) + 1.0);
        (if a < 0.625 { small } else { large }).copysign(x)
    }
    #[inline(always)]
    fn asinh(x: f32) -> f32 {
        let a = f64::from(x.abs());
        let y = log64(a + (a * a + 1.0).sqrt()) as f32;
        let y = if x.abs() < 1e-4 { x } else { y };
        y.copysign(x)
    }
    #[inline(always)]
    fn acosh(x: f32) -> f32 {
        let x = f64::from(x);
        log64(x + (x * x - 1.0).sqrt()) as f32
    }
    #[inline(always)]
    fn atanh(x: f32) -> f32 {
        let a = f64::from(x);
        let y = (0.5 * log64((1.0 + a) / (1.0 - a))) as f32;
        if x.abs() < 1e-4 { x } else { y }
    }
    #[inline(always)]
    fn sigmoid(x: f32) -> f32 {
        let e = exp_sum32(-x.abs(), 0.0);
        (if x < 0.0 { e } else { 1.0 }) / (1.0 + e)
    }
    #[inline(always)]
    fn erf(x: f32) -> f32 {
        let a = x.abs();
        let small = erf_small32(x);
        let t = if a > 4.0 { 4.0 } else { a };
        let p = poly32(
            t,
            [
                -0.128_879_83,
                -0.634_231_03,
                -0.107_733_63,
                0.025_044_253,
                -0.004_261_031_3,
                0.000_487_762_85,
                -3.285_483e-5,
                9.578_508e-7,
            ],
        );
        let large = 1.0 - exp_sum32(p * t - t, 0.0);
        if a < 0.927 { small } else { large.copysign(x) }
    }
    #[inline(always)]
    fn erfc(x: f32) -> f32 {
        let a = x.abs();
        let t = if a > 10.25 { 10.25 } else { a };
        let (gauss, q) = erfc_parts32(t, t, 1.0);
        let y = gauss * q;
        let y = if x < 0.0 { 2.0 - y } else { y };
        if a < 0.375 { 1.0 - erf_small32(x) } else { y }
    }
    #[inline(always)]
    fn erfinv(x: f32) -> f32 {
        let y = f64::from(x);
        // Chebyshev fits of erfinv(x) / x, good to 1e-10, in w below 5.5 and its root beyond.
        let w = -log64((1.0 - y) * (1.0 + y));
        let middle = poly(
            w * (1.0 / 2.75) - 1.0,
            [
                1.562_789_611_281_824,
                0.671_908_211_008_305,
                -0.038_084_571_265_599,
                -0.021_599_220_880_869,
                0.011_956_868_431_815,
                -0.001_492_249_025_858,
                -0.001_111_494_774_572,
                0.000_575_605_828_573,
                -2.56039023240022e-5,
                -7.67624609554620e-5,
                2.56786119944798e-5,
                4.52601310245414e-6,
                -3.45241773325193e-6,
            ],
        );
        let tail = poly(
            (w.sqrt() - 3.125) * (1.0 / 0.875),
            [
                2.958_320_150_232_75,
                0.878_253_857_526_082,
                0.005_396_037_222_311,
                -0.003_551_325_721_062,
                0.002_224_208_799_730,
                -0.001_291_956_320_899,
                0.000_565_838_409_124,
                -0.000_130_888_016_971,
                -3.08967006228656e-5,
                4.41293483545505e-5,
                -1.53841955133727e-5,
                -2.32887023507735e-6,
                2.35586165530660e-6,
            ],
        );
        let value = (y * if w < 5.5 { middle } else { tail }) as f32;
        let is_end = x.abs() == 1.0;
        if is_end { f32::INFINITY.copysign(x) } else { value }
    }
    #[inline(always)]
    fn lgamma(x: f32) -> f32 {
        <f64 as Real>::lgamma(f64::from(x)) as f32
    }
    #[inline(always)]
    fn digamma(x: f32) -> f32 {
        <f64 as Real>::digamma(f64::from(x)) as f32
    }
    #[inline(always)]
    fn sqrt(x: f32) -> f32 {
        x.sqrt()
    }
    #[inline(always)]
    fn rsqrt(x: f32) -> f32 {
        (1.0 / f64::from(x).sqrt()) as f32
    }
    #[inline(always)]
    fn cbrt(x: f32) -> f32 {
        f64::from(x).cbrt() as f32
    }
    #[inline(always)]
    fn pow(x: f32, y: f32) -> f32 {
        let (x, y) = (f64::from(x), f64::from(y));
        let a = x.abs();
        let (k, l) = log_parts(a);
        let magnitude = exp2_64(y * log_special(a, k + l * LOG2_E));
        let is_int = y.abs() >= 4_503_599_627_370_496.0 || rint(y) == y;
        let sign = if x.is_sign_negative() && is_odd(y) { -1.0 } else { 1.0 };
        let value = magnitude * sign;
        let value = if x < 0.0 && a != f64::INFINITY && !is_int { f64::NAN } else { value };
        let value = if x.is_nan() || y.is_nan() { f64::NAN } else { value };
        let one = x == 1.0 || y == 0.0 || (a == 1.0 && y.abs() == f64::INFINITY);
        (if one { 1.0 } else { value }) as f32
    }
    #[inline(always)]
    fn silu(x: f32) -> f32 {
        let e = exp_sum32(-x.abs(), 0.0);
        x * ((if x < 0.0 { e } else { 1.0 }) / (1.0 + e))
    }
    #[inline(always)]
    fn gelu(x: f32) -> f32 {
        let a = x.abs();
        let a = if a > 14.5 { 14.5 } else { a };
        let (gauss, q) = erfc_parts32(a, a * FRAC_1_SQRT_2 as f32, 0.5);
        let tail = 0.5 * q * gauss;
        x * if x < 0.0 { tail } else { 1.0 - tail }
    }
    #[inline(always)]
    fn gelu_tanh(x: f32) -> f32 {
        let y = f64::from(x);
        let inner = (-2.0 * SQRT_2_OVER_PI) * (y + 0.044_715 * y * y * y);
        let value = (y / (1.0 + exp64(inner))) as f32;
        if x == f32::NEG_INFINITY { f32::NAN } else { value }
    }
    #[inline(always)]
    fn softplus(x: f32, beta: f32, threshold: f32) -> f32 {
        let scaled = x * beta;
        let e = exp64(f64::from(x) * f64::from(beta));
        let l = if e < 1e-8 { e } else { log64(1.0 + e) };
        let value = (l / f64::from(beta)) as f32;
        if scaled > threshold { x } else { value }
    }
    #[inline(always)]
    fn mish(x: f32) -> f32 {
        let y = f64::from(x);
        let e = exp64(if y > 30.0 { 30.0 } else { y });
        let n = e * (e + 2.0);
        let value = (y * (n / (n + 2.0))) as f32;
        if x == f32::NEG_INFINITY { f32::NAN } else { value }
    }
    #[inline(always)]
    fn fmod(x: f32, y: f32) -> f32 {
        let (a, b) = (f64::from(x.abs()), f64::from(y.abs()));
        let q = a / b;
        if q < 268_435_456.0 && b < f64::INFINITY {
            // Product and difference are exact; the quotient may have been rounded up to the next integer.
            let r = a - (q as i64) as f64 * b;
            let r = if r < 0.0 { r + b } else { r };
            (r as f32).copysign(x)
        } else {
            x % y
        }
    }
    #[inline(always)]
    fn floor(x: f32) -> f32 {
        x.floor()
    }
    #[inline(always)]
    fn ceil(x: f32) -> f32 {
        x.ceil()
    }
    #[inline(always)]
    fn trunc(x: f32) -> f32 {
        x.trunc()
    }
    #[inline(always)]
    fn round(x: f32) -> f32 {
        x.round_ties_even()
    }
}

macro_rules! std_functions {
    ($($name:ident = $std:ident($($arg:ident),*);)*) => {
        $(#[inline(always)] fn $name($($arg: f64),*) -> f64 { f64::$std($($arg),*) })*
    };
}

impl Real for f64 {
    const ZERO: f64 = 0.0;
    const ONE: f64 = 1.0;
    const NAN: f64 = f64::NAN;
    const INFINITY: f64 = f64::INFINITY;

    std_functions! {
        abs = abs(x); copysign = copysign(x, sign); exp = exp(x); exp2 = exp2(x); expm1 = exp_m1(x);
        log = ln(x); log2 = log2(x); log10 = log10(x); log1p = ln_1p(x); sin = sin(x); cos = cos(x);
        tan = tan(x); asin = asin(x); acos = acos(x); atan = atan(x); atan2 = atan2(y, x);
        sinh = sinh(x); cosh = cosh(x); tanh = tanh(x); asinh = asinh(x);
        acosh = acosh(x); atanh = atanh(x); sqrt = sqrt(x); cbrt = cbrt(x); pow = powf(x, y);
        floor = floor(x); ceil = ceil(x); trunc = trunc(x); round = round_ties_even(x);
    }
    #[inline(always)]
    fn from_f64(x: f64) -> f64 {
        x
    }
    #[inline(always)]
    fn to_f64(self) -> f64 {
        self
    }
    #[inline(always)]
    fn fmod(x: f64, y: f64) -> f64 {
        x % y
    }
    #[inline(always)]
    fn sigmoid(x: f64) -> f64 {
        let e = (-x.abs()).exp();
        (if x < 0.0 { e } else { 1.0 }) / (1.0 + e)
    }
    fn erf(x: f64) -> f64 {
        let a = x.abs();
        if a < 0.75 {
            return x * std::f64::consts::FRAC_2_SQRT_PI * erf_series(x * x);
        }
        (1.0 - erfc_positive(a)).copysign(x)
    }
    fn erfc(x: f64) -> f64 {
        if x.abs() < 0.375 {
            return 1.0 - <f64 as Real>::erf(x);
        }
        let y = erfc_positive(x.abs());
        if x < 0.0 { 2.0 - y } else { y }
    }
    fn erfinv(x: f64) -> f64 {
        let a = x.abs();
        if a >= 1.0 || a.is_nan() {
            return if a == 1.0 { f64::INFINITY.copysign(x) } else { f64::NAN };
        }
        if a < 1e-8 {
            return x * 0.886_226_925_452_758;
        }
        // Winitzki's closed form is within 0.4%; each step of Halley's method triples the digits.
        let log = ((1.0 - a) * (1.0 + a)).ln();
        let b = 2.0 / (PI * 0.147) + 0.5 * log;
        let mut y = ((b * b - log / 0.147).sqrt() - b).sqrt();
        for _ in 0..4 {
            let error = if a < 0.5 { <f64 as Real>::erf(y) - a } else { (1.0 - a) - <f64 as Real>::erfc(y) };
            let step = error * 0.5 / std::f64::consts::FRAC_1_PI.sqrt() * (y * y).exp();
            y -= step / (1.0 + y * step);
        }
        y.copysign(x)
    }
    fn lgamma(x: f64) -> f64 {
        if x.is_nan() {
            return x;
        }
        if x.is_infinite() || (x <= 0.0 && x == x.floor()) {
            return f64::INFINITY;
        }
        if x < -0.5 {
            // The reflection; the sine is taken of the exact distance to the nearest integer.
            let d = x - x.round_ties_even();
            let s = (PI * d).sin().abs();
            return (PI / (s * -x)).ln() - <f64 as Real>::lgamma(-x);
        }
        if x < 0.5 {
            return lgamma_at_two(x) - (x.abs().ln() + x.ln_1p());
        }
        if x < 1.5 {
            return lgamma_at_two(x - 1.0) - (x - 1.0).ln_1p();
        }
        if x <= 8.0 {
            let (mut y, mut product) = (x, 1.0);
            while y > 2.5 {
                y -= 1.0;
                product *= y;
            }
            return lgamma_at_two(y - 2.0) + product.ln();
        }
        let z = 1.0 / (x * x);
        const B: [f64; 8] = [
            1.0 / 12.0,
            -1.0 / 360.0,
            1.0 / 1260.0,
            -1.0 / 1680.0,
            1.0 / 1188.0,
            -691.0 / 360_360.0,
            1.0 / 156.0,
            -3617.0 / 122_400.0,
        ];
        let tail = if x > 1e16 { 0.0 } else { 0.918_938_533_204_672_7 - 0.5 + poly(z, B) / x };
        // (x - 1/2) (ln x - 1) does not overflow before the result does.
        (x - 0.5) * (x.ln() - 1.0) + tail
    }
    fn digamma(x: f64) -> f64 {
        if x == 0.0 {
            return f64::INFINITY.copysign(-x);
        }
        if x.is_nan() || x == f64::NEG_INFINITY || (x < 0.0 && x == x.floor()) {
            return f64::NAN;
        }
        if x == f64::INFINITY {
            return x;
        }
        if x < 0.0 {
            let d = x - x.round_ties_even();
            return <f64 as Real>::digamma(1.0 - x) - PI / (PI * d).tan();
        }
        let (mut y, mut sum) = (x, 0.0);
        while y < 10.0 {
            sum += 1.0 / y;
            y += 1.0;
        }
        let z = 1.0 / (y * y);
        const B: [f64; 8] = [
            1.0 / 12.0,
            -1.0 / 120.0,
            1.0 / 252.0,
            -1.0 / 240.0,
            1.0 / 132.0,
            -691.0 / 32_760.0,
            1.0 / 12.0,
            -3617.0 / 8160.0,
        ];
        y.ln() - 0.5 / y - z * poly(z, B) - sum
    }
    #[inline(always)]
    fn rsqrt(x: f64) -> f64 {
        1.0 / x.sqrt()
    }
    #[inline(always)]
    fn silu(x: f64) -> f64 {
        x * <f64 as Real>::sigmoid(x)
    }
    #[inline(always)]
    fn gelu(x: f64) -> f64 {
        0.5 * x * <f64 as Real>::erfc(-x * FRAC_1_SQRT_2)
    }
    #[inline(always)]
    fn gelu_tanh(x: f64) -> f64 {
        x * <f64 as Real>::sigmoid(2.0 * SQRT_2_OVER_PI * (x + 0.044_715 * x * x * x))
    }
    #[inline(always)]
    fn softplus(x: f64, beta: f64, threshold: f64) -> f64 {
        if x * beta > threshold { x } else { (x * beta).exp().ln_1p() / beta }
    }
    #[inline(always)]
    fn mish(x: f64) -> f64 {
        let e = (if x > 30.0 { 30.0 } else { x }).exp();
        let n = e * (e + 2.0);
        x * (n / (n + 2.0))
    }
}

/// Returns the Maclaurin series of `erf(x) * sqrt(pi) / (2 x)` in `z = x * x`, for `z < 0.57`.
fn erf_series(z: f64) -> f64 {
    let (mut term, mut sum, mut k) = (1.0, 1.0, 1.0);
    while k < 24.0 {
        term *= -z / k;
        sum += term / (2.0 * k + 1.0);
        k += 1.0;
    }
    sum
}

/// Returns `erfc(t)` for `t > 0.3`: the Gaussian times a Chebyshev fit of `(1 + 2t) exp(t^2) erfc(t)`.
fn erfc_positive(t: f64) -> f64 {
    if t > 28.0 {
        return 0.0;
    }
    const Q: [f64; 27] = [
        1.2769783815525286,
        -0.09276382658574603,
        -0.16603039761529131,
        0.16405128003344444,
        -0.0542200009918993,
        -0.008034015082521061,
        0.008722653871785183,
        0.0012713389677393053,
        -0.0014568138883768254,
        -0.00045434084864929815,
        0.0002063666872019864,
        0.00015103926646915577,
        -1.5068405356572818e-6,
        -3.642349875959671e-5,
        -1.3504308477097514e-5,
        3.7099952402521847e-6,
        5.252986158242683e-6,
        1.5090721753796358e-6,
        -7.448652268615453e-7,
        -8.491198518365681e-7,
        -2.0861622016597917e-7,
        1.6021714845363312e-7,
        1.2665837325697026e-7,
        7.478698086954156e-9,
        -2.0961731985539374e-8,
        -6.350005744334366e-9,
        -1.2290668283672584e-10,
    ];
    let upper = f64::from_bits(t.to_bits() & 0xffff_ffff_f800_0000);
    let gauss = (-upper * upper).exp() * (-(t - upper) * (t + upper)).exp();
    gauss * (poly((t - 2.0) / (t + 2.0), Q) / (1.0 + 2.0 * t))
}

/// Returns `lgamma(2 + s)` for `|s| <= 1/2` by its Taylor series, whose terms are `(zeta(k) - 1) / k`.
fn lgamma_at_two(s: f64) -> f64 {
    const C: [f64; 31] = [
        0.42278433509846713,
        0.3224670334241132,
        -0.0673523010531981,
        0.020580808427784546,
        -0.007385551028673986,
        0.0028905103307415234,
        -0.001192753911703261,
        0.0005096695247430425,
        -0.00022315475845357939,
        9.945751278180853e-5,
        -4.492623673813314e-5,
        2.050721277567069e-5,
        -9.439488275268397e-6,
        4.374866789907488e-6,
        -2.039215753801366e-6,
        9.55141213040742e-7,
        -4.492469198764566e-7,
        2.1207184805554665e-7,
        -1.0043224823968099e-7,
        4.7698101693639804e-8,
        -2.2711094608943164e-8,
        1.0838659214896955e-8,
        -5.183475041970047e-9,
        2.4836745438024785e-9,
        -1.1921401405860912e-9,
        5.731367241678862e-10,
        -2.7595228851242334e-10,
        1.330476437424449e-10,
        -6.4229645638381e-11,
        3.1044247747322276e-11,
        -1.5021384080754142e-11,
    ];
    s * poly(s, C)
}
