//! Functions that act element by element: activations, elementary functions, rounding and tests.
//!
//! The scalar body of a row is its eager kernel, its fused kernel and its generated Rust.

use fx_core::op::Default::{Float, Int};
use fx_core::pointwise::Check::{NonNegative, NonZero};
use fx_core::pointwise::Limit::{self, Lower, Upper};
use fx_core::pointwise::Numbers::{Exponent, Limits, Wide};
use fx_core::pointwise::PointwiseDef;
use fx_core::{Class, DType, Op, Scalar, math, pointwise};

/// The tables of this file.
pub(super) static TABLES: &[&[Op]] = &[ACTIVATION, ELEMENTARY];

pointwise! {
    /// Activation functions, element by element.
    pub trait Activation; pub static ACTIVATION;

    /// `max(x, 0)`; NaN stays NaN.
    #[fused_affine = f32]
    relu(x) -> Same { real: if x < 0.0 { 0.0 } else { x }, int: if x < 0 { 0 } else { x } }
    /// `min(max(x, 0), 6)`; NaN stays NaN.
    relu6(x) -> Same {
        real: { let y = if x < 0.0 { 0.0 } else { x }; if y > 6.0 { 6.0 } else { y } },
        int: if x < 0 { 0 } else if x > 6 { 6 } else { x },
    }
    /// `x` where positive, `negative_slope * x` elsewhere.
    #[fused_affine = f32]
    leaky_relu(x; negative_slope: Float(0.01)) -> Same { real: if x > 0.0 { x } else { x * negative_slope } }
    /// `x` where positive, `alpha * (exp(x) - 1)` elsewhere.
    elu(x; alpha: Float(1.0)) -> Same { real: { let y = alpha * math::expm1(x); if x > 0.0 { x } else { y } } }
    /// `elu` with the constants of self-normalising networks, times 1.0507….
    selu(x) -> Same {
        real: {
            let y = 1.758_099_340_847_376_6 * math::expm1(x);
            if x > 0.0 { 1.050_700_987_355_480_5 * x } else { y }
        }
    }
    /// `x` where positive, `alpha * (exp(x / alpha) - 1)` elsewhere.
    celu(x; alpha: Float(1.0)) -> Same {
        real: { let y = alpha * math::expm1(x / alpha); if x > 0.0 { x } else { y } }
    }
    /// `x` times the normal distribution function of `x`, exactly; `gelu_tanh` is PyTorch's
    /// `approximate = "tanh"`.
    #[fused_affine = f32]
    gelu(x) -> Same { real: math::gelu(x) }
    /// `gelu` approximated by a hyperbolic tangent.
    #[fused_affine = f32]
    gelu_tanh(x) -> Same { real: math::gelu_tanh(x) }
    /// `x * sigmoid(x)`.
    #[fused_affine = f32]
    silu(x) -> Same { real: math::silu(x) }
    /// `x * tanh(softplus(x))`.
    mish(x) -> Same { real: math::mish(x) }
    /// `1 / (1 + exp(-x))`.
    #[fused_affine = f32]
    sigmoid(x) -> Float { real: math::sigmoid(x) }
    /// `log(sigmoid(x))`.
    logsigmoid(x) -> Same {
        real: { let y = math::log1p(math::exp(-math::abs(x))); (if x < 0.0 { x } else { 0.0 }) - y }
    }
    /// `min(max(x, min_val), max_val)`; NaN stays NaN.
    #[numbers = Limits(&[Limit::None, Lower, Upper])]
    hardtanh(x; min_val: Float(-1.0), max_val: Float(1.0)) -> Same {
        num: { let y = if x < min_val { min_val } else { x }; if y > max_val { max_val } else { y } }
    }
    /// `min(max(x + 3, 0), 6) / 6`.
    hardsigmoid(x) -> Same {
        real: { let y = x + 3.0; let y = if y < 0.0 { 0.0 } else { y }; (if y > 6.0 { 6.0 } else { y }) / 6.0 }
    }
    /// `x * min(max(x + 3, 0), 6) / 6`.
    hardswish(x) -> Same {
        real: { let y = x + 3.0; let y = if y < 0.0 { 0.0 } else { y }; x * (if y > 6.0 { 6.0 } else { y }) / 6.0 }
    }
    /// `log(1 + exp(beta * x)) / beta`, and `x` where `beta * x > threshold`.
    softplus(x; beta: Float(1.0), threshold: Float(20.0)) -> Same { real: math::softplus(x, beta, threshold) }
    /// `x / (1 + |x|)`.
    softsign(x) -> Float { real: x / (1.0 + math::abs(x)) }
    /// `x - tanh(x)`.
    tanhshrink(x) -> Float { real: x - math::tanh(x) }
    /// `x`, but 0 where `-lambd <= x <= lambd`.
    hardshrink(x; lambd: Float(0.5)) -> Same { real: if x >= -lambd && x <= lambd { 0.0 } else { x } }
    /// `x` moved towards 0 by `lambd`, and 0 where it is no farther away.
    softshrink(x; lambd: Float(0.5)) -> Same {
        real: if x > lambd { x - lambd } else if x < -lambd { x + lambd } else { x * 0.0 }
    }
    /// `x` where it is above `threshold`, `value` elsewhere; NaN stays NaN.
    threshold(x; threshold: Float(0.0), value: Float(0.0)) -> Same { num: if x <= threshold { value } else { x } }
}

pointwise! {
    /// Elementary functions, element by element.
    pub trait Elementary; pub static ELEMENTARY;

    /// The magnitude. Integers wrap.
    abs(x) -> Same { real: math::abs(x), int: if x < 0 { x.wrapping_neg() } else { x }, bool: x }
    /// -1, 0 or 1; 0 for NaN.
    sign(x) -> Same { real: math::sign(x), int: if x > 0 { 1 } else if x < 0 { !0 } else { 0 }, bool: x }
    /// Is `sign`, for there are no complex numbers.
    sgn(x) -> Same { real: math::sign(x), int: if x > 0 { 1 } else if x < 0 { !0 } else { 0 }, bool: x }
    /// Whether the sign bit is set, also that of -0.0.
    signbit(x) -> Bool { real: math::copysign(1.0, x) < 0.0, int: x < 0, bool: false }
    /// e to the power of `x`.
    #[fused_affine = f32]
    exp(x) -> Float { real: math::exp(x) }
    /// 2 to the power of `x`.
    exp2(x) -> Float { real: math::exp2(x) }
    /// `exp(x) - 1` without cancellation.
    expm1(x) -> Float { real: math::expm1(x) }
    /// The natural logarithm.
    log(x) -> Float { real: math::log(x) }
    /// The logarithm to base 2.
    log2(x) -> Float { real: math::log2(x) }
    /// The logarithm to base 10.
    log10(x) -> Float { real: math::log10(x) }
    /// `log(1 + x)` without cancellation.
    log1p(x) -> Float { real: math::log1p(x) }
    /// The square root; NaN below 0.
    #[fused_affine = f32]
    sqrt(x) -> Float { real: math::sqrt(x) }
    /// `1 / sqrt(x)`.
    #[fused_affine = f32]
    rsqrt(x) -> Float { real: math::rsqrt(x) }
    /// `x * x`; bools give i64. Integers wrap.
    #[fused_affine = f32]
    square(x) -> Number { real: x * x, int: x.wrapping_mul(x) }
    /// `1 / x`.
    reciprocal(x) -> Float { real: 1.0 / x }
    /// The sine of radians.
    #[blocks = fx_core::blocks::sin]
    sin(x) -> Float { real: math::sin(x) }
    /// The cosine of radians.
    #[blocks = fx_core::blocks::cos]
    cos(x) -> Float { real: math::cos(x) }
    /// The tangent of radians.
    tan(x) -> Float { real: math::tan(x) }
    /// The arc sine; NaN outside [-1, 1].
    asin(x) -> Float { real: math::asin(x) }
    /// The arc cosine; NaN outside [-1, 1].
    acos(x) -> Float { real: math::acos(x) }
    /// The arc tangent.
    atan(x) -> Float { real: math::atan(x) }
    /// The angle of the point with ordinate `x` and abscissa `other`.
    atan2(x, other) -> Float { real: math::atan2(x, other) }
    /// The hyperbolic sine.
    sinh(x) -> Float { real: math::sinh(x) }
    /// The hyperbolic cosine.
    cosh(x) -> Float { real: math::cosh(x) }
    /// The hyperbolic tangent.
    #[fused_affine = f32]
    tanh(x) -> Float { real: math::tanh(x) }
    /// The inverse hyperbolic sine.
    asinh(x) -> Float { real: math::asinh(x) }
    /// The inverse hyperbolic cosine; NaN below 1.
    acosh(x) -> Float { real: math::acosh(x) }
    /// The inverse hyperbolic tangent; NaN outside [-1, 1].
    atanh(x) -> Float { real: math::atanh(x) }
    /// The error function.
    #[fused_affine = f32]
    erf(x) -> Float { real: math::erf(x) }
    /// `1 - erf(x)` without cancellation.
    erfc(x) -> Float { real: math::erfc(x) }
    /// The inverse of the error function.
    erfinv(x) -> Float { real: math::erfinv(x) }
    /// The logarithm of the magnitude of the gamma function.
    lgamma(x) -> Float { real: math::lgamma(x) }
    /// The derivative of `lgamma`.
    digamma(x) -> Float { real: math::digamma(x) }
    /// The greatest integer that is not above `x`; integers are themselves.
    floor(x) -> Same { real: math::floor(x), int: x }
    /// The least integer that is not below `x`; integers are themselves.
    ceil(x) -> Same { real: math::ceil(x), int: x }
    /// The integer part; integers are themselves.
    trunc(x) -> Same { real: math::trunc(x), int: x }
    /// The nearest number with `decimals` decimals, the even one of two; integers are themselves.
    round(x; decimals: Int(0)) -> Same {
        real: {
            let scale = math::pow(10.0, math::abs(decimals));
            if decimals < 0.0 { math::round(x / scale) * scale } else { math::round(x * scale) / scale }
        },
        int: x,
    }
    /// `x - trunc(x)`.
    frac(x) -> Same { real: x - math::trunc(x) }
    /// `x` to the power of `exponent`. Integers wrap. A negative number as the exponent of integers is an
    /// error; negative elements give what remains of the power as an integer: 0, but for 1 and -1. Where the
    /// exponent is the number 0.5 or -0.5, it is `sqrt` or `rsqrt`, but for f16.
    #[check = NonNegative]
    #[numbers = Exponent]
    #[instead = root_of]
    #[blocks = fx_core::blocks::pow]
    pow(x, exponent) -> Same {
        real: math::pow(x, exponent),
        int: {
            let one = x.wrapping_pow(0);
            let (zero, minus) = (one.wrapping_sub(one), one.wrapping_neg());
            let (mut power, mut base, mut left) = (one, x, exponent);
            while left > 0 {
                if left & 1 == 1 { power = power.wrapping_mul(base); }
                base = base.wrapping_mul(base);
                left >>= 1;
            }
            if exponent < zero && x == minus {
                if exponent & 1 == 0 { one } else { x }
            } else if exponent < zero && x != one {
                zero
            } else {
                power
            }
        },
        bool: x | !exponent,
    }
    /// `min(max(x, min), max)`; either may be left out; NaN if any is NaN.
    #[numbers = Limits(&[Limit::None, Lower, Upper])]
    clamp(x, min = f64::NEG_INFINITY, max = f64::INFINITY) -> Same {
        real: math::minimum(math::maximum(x, min), max),
        int: { let y = if x < min { min } else { x }; if y > max { max } else { y } },
    }
    /// `max(x, min)`; NaN if any is NaN.
    #[numbers = Limits(&[Limit::None, Lower])]
    clamp_min(x, min) -> Same { real: math::maximum(x, min), int: if x < min { min } else { x }, bool: x | min }
    /// `min(x, max)`; NaN if any is NaN.
    #[numbers = Limits(&[Limit::None, Upper])]
    clamp_max(x, max) -> Same { real: math::minimum(x, max), int: if x > max { max } else { x }, bool: x & max }
    /// `x + weight * (end - x)`, exact at both ends.
    #[numbers = Wide]
    lerp(x, end, weight) -> Same {
        real: if math::abs(weight) < 0.5 { x + weight * (end - x) } else { end - (end - x) * (1.0 - weight) }
    }
    /// `x + value * tensor1 * tensor2`. Integers wrap.
    addcmul(x, tensor1, tensor2; value: Int(1)) -> Same {
        real: x + value * tensor1 * tensor2, int: x.wrapping_add(value.wrapping_mul(tensor1).wrapping_mul(tensor2))
    }
    /// `x + value * tensor1 / tensor2`.
    addcdiv(x, tensor1, tensor2; value: Int(1)) -> Same { real: x + value * tensor1 / tensor2 }
    /// `other - alpha * x`; not defined for bools. Integers wrap.
    rsub(x, other; alpha: Int(1)) -> Same {
        real: other - alpha * x, int: other.wrapping_sub(alpha.wrapping_mul(x))
    }
    /// C's remainder, with the sign of `x`. Integer division by zero is an error.
    #[check = NonZero]
    #[blocks = fx_core::blocks::fmod]
    fmod(x, other) -> Same { real: math::fmod(x, other), int: x.wrapping_rem(other) }
    /// `x / other` rounded towards zero, as PyTorch's `div` with `rounding_mode = "trunc"`. Integers wrap,
    /// and integer division by zero is an error.
    #[check = NonZero]
    #[numbers = Wide]
    #[blocks = fx_core::blocks::trunc_divide]
    trunc_divide(x, other) -> Same { real: math::trunc(x / other), int: x.wrapping_div(other) }
    /// `x` with the sign of `other`.
    copysign(x, other) -> Float { real: math::copysign(x, other) }
    /// `sqrt(x * x + other * other)` without overflow.
    #[commutative = true]
    hypot(x, other) -> Same {
        real: {
            let (a, b) = (math::abs(x), math::abs(other));
            let (long, short) = if a > b { (a, b) } else { (b, a) };
            let ratio = short / long;
            let length = if long == 0.0 { short } else { long * math::sqrt(1.0 + ratio * ratio) };
            if a == 1.0 / 0.0 || b == 1.0 / 0.0 { 1.0 / 0.0 } else { length }
        }
    }
    /// `log(exp(x) + exp(other))` without overflow.
    #[commutative = true]
    logaddexp(x, other) -> Same {
        real: {
            let gap = x - other;
            let sum = (if gap > 0.0 { x } else { other }) + math::log1p(math::exp(-math::abs(gap)));
            if x == other { x + 0.693_147_180_559_945_3 } else { sum }
        }
    }
    /// `log2(2^x + 2^other)` without overflow.
    #[commutative = true]
    logaddexp2(x, other) -> Same {
        real: {
            let gap = x - other;
            let power = math::exp2(-math::abs(gap));
            let sum = (if gap > 0.0 { x } else { other }) + math::log1p(power) * 1.442_695_040_888_963_4;
            if x == other { x + 1.0 } else { sum }
        }
    }
    /// `x` with NaN, infinity and minus infinity replaced, if nothing is given by 0 and the finite extremes
    /// of the dtype.
    nan_to_num(x, nan = 0.0, posinf = f64::MAX, neginf = f64::MIN) -> Same {
        real: {
            let y = if x == 1.0 / 0.0 { posinf } else { x };
            let y = if x == -1.0 / 0.0 { neginf } else { y };
            if x != x { nan } else { y }
        },
        int: x, bool: x,
    }
    /// Whether the element is NaN.
    isnan(x) -> Bool { real: x != x, int: false, bool: false }
    /// Whether the element is infinite.
    isinf(x) -> Bool { real: math::abs(x) == 1.0 / 0.0, int: false, bool: false }
    /// Whether the element is infinity.
    isposinf(x) -> Bool { real: x == 1.0 / 0.0, int: false, bool: false }
    /// Whether the element is minus infinity.
    isneginf(x) -> Bool { real: x == -1.0 / 0.0, int: false, bool: false }
    /// True, for there are no complex numbers.
    isreal(x) -> Bool { any: true }
    /// Whether the element is neither NaN nor infinite.
    isfinite(x) -> Bool { real: math::abs(x) < 1.0 / 0.0, int: true, bool: true }
    /// `x * log(other)`; 0 where `x` is 0, NaN where `other` is NaN.
    xlogy(x, other) -> Float {
        real: {
            let y = x * math::log(other);
            let y = if x == 0.0 { 0.0 } else { y };
            if other != other { other } else { y }
        }
    }
    /// `log(x / (1 - x))`, with `x` first brought into [eps, 1 - eps] if `eps` is given: above `1 - eps` only
    /// what is not below `eps`.
    logit(x, eps = f64::NEG_INFINITY) -> Float {
        real: {
            let y = if x > 1.0 - eps { 1.0 - eps } else { x };
            let y = if x < eps { eps } else { y };
            math::log(y / (1.0 - y))
        }
    }
    /// `sin(pi x) / (pi x)`, 1 at 0.
    sinc(x) -> Float {
        real: { let y = x * 3.141_592_653_589_793; if x == 0.0 { 1.0 } else { math::sin(y) / y } }
    }
    /// Degrees as radians.
    deg2rad(x) -> Float { real: x * 0.017_453_292_519_943_295 }
    /// Radians as degrees.
    rad2deg(x) -> Float { real: x * 57.295_779_513_082_32 }
    /// The lesser of two elements; the other one if one is NaN. Of two zeros the negative one is the lesser.
    #[commutative = true]
    #[numbers = Limits(&[Upper, Upper])]
    fmin(x, other) -> Same {
        real: if x < other || other != other || (x == other && math::copysign(1.0, x) < 0.0) { x } else { other }, int: if x < other { x } else { other }, bool: x & other
    }
    /// The greater of two elements; the other one if one is NaN. Of two zeros the positive one is the greater.
    #[commutative = true]
    #[numbers = Limits(&[Lower, Lower])]
    fmax(x, other) -> Same {
        real: if x > other || other != other || (x == other && math::copysign(1.0, x) > 0.0) { x } else { other }, int: if x > other { x } else { other }, bool: x | other
    }
    /// 0 below 0, `values` at 0, 1 above; 0 for NaN.
    heaviside(x, values) -> Same {
        real: if x == 0.0 { values } else if x > 0.0 { 1.0 } else { 0.0 },
        int: if x == 0 { values } else if x > 0 { 1 } else { 0 },
        bool: x | values,
    }
}

/// Returns the row that a power is where the exponent is this number. As in PyTorch, the roots of minus infinity
/// and of -0.0 differ from the powers, which are those of C; only f16 has these for numbers too.
fn root_of(exponent: Scalar, dtype: DType) -> Option<&'static PointwiseDef> {
    let op = match exponent {
        _ if dtype == DType::F16 => return None,
        Scalar::Float(0.5) => sqrt::OP,
        Scalar::Float(-0.5) => rsqrt::OP,
        _ => return None,
    };
    match op.class {
        Class::Pointwise(def) => Some(def),
        _ => None,
    }
}
