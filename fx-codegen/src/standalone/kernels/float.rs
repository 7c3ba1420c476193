//! The functions of floats that `core` lacks. Where nothing else is said their relative errors are below `1e-12`.

use core::f64::consts::{FRAC_PI_2, LN_2, LOG2_E, LOG10_E, PI};

/// Functions of floats, under the names that `std` gives them.
#[allow(missing_docs, reason = "the methods are those of the primitive types")]
pub trait Float: Sized {
    fn abs(self) -> Self;
    fn copysign(self, sign: Self) -> Self;
    fn sqrt(self) -> Self;
    /// Computes `self * b + c`; of `f64` it is rounded twice.
    fn mul_add(self, b: Self, c: Self) -> Self;
    fn floor(self) -> Self;
    fn ceil(self) -> Self;
    fn trunc(self) -> Self;
    fn round(self) -> Self;
    fn round_ties_even(self) -> Self;
    fn exp(self) -> Self;
    fn exp2(self) -> Self;
    fn exp_m1(self) -> Self;
    fn ln(self) -> Self;
    fn ln_1p(self) -> Self;
    fn log2(self) -> Self;
    fn log10(self) -> Self;
    fn powf(self, y: Self) -> Self;
    fn powi(self, n: i32) -> Self;
    fn cbrt(self) -> Self;
    fn sin(self) -> Self;
    fn cos(self) -> Self;
    fn sin_cos(self) -> (Self, Self);
    fn tan(self) -> Self;
    fn asin(self) -> Self;
    fn acos(self) -> Self;
    fn atan(self) -> Self;
    fn atan2(self, x: Self) -> Self;
    fn sinh(self) -> Self;
    fn cosh(self) -> Self;
    fn tanh(self) -> Self;
    fn asinh(self) -> Self;
    fn acosh(self) -> Self;
    fn atanh(self) -> Self;
}

/// At this magnitude and above, every `f64` is an integer.
const WHOLE: f64 = 4_503_599_627_370_496.0;

/// Returns the sine of a number of magnitude below 1, by its series.
fn sin_series(x: f64) -> f64 {
    let z = x * x;
    let (mut term, mut sum) = (x, x);
    for k in 1..10 {
        term = -term * z / f64::from((2 * k) * (2 * k + 1));
        sum += term;
    }
    sum
}

/// Returns the cosine of a number of magnitude below 1, by its series.
fn cos_series(x: f64) -> f64 {
    let z = x * x;
    let (mut term, mut sum) = (1.0, 1.0);
    for k in 1..11 {
        term = -term * z / f64::from((2 * k - 1) * (2 * k));
        sum += term;
    }
    sum
}

/// Returns the arc tangent of a number that is not negative.
fn atan_positive(x: f64) -> f64 {
    if x > 1.0 {
        return FRAC_PI_2 - atan_positive(1.0 / x);
    }
    // Two halvings of the angle, then the series.
    let half = |x: f64| x / (1.0 + Float::sqrt(1.0 + x * x));
    let x = half(half(x));
    let z = x * x;
    let (mut power, mut sum) = (x, x);
    for k in 1..18 {
        power = -power * z;
        sum += power / f64::from(2 * k + 1);
    }
    4.0 * sum
}

impl Float for f64 {
    fn abs(self) -> f64 {
        f64::abs(self)
    }

    fn copysign(self, sign: f64) -> f64 {
        f64::copysign(self, sign)
    }

    fn sqrt(self) -> f64 {
        if self.is_nan() || self < 0.0 {
            return f64::NAN;
        }
        if self == 0.0 || self == f64::INFINITY {
            return self;
        }
        let (x, scale) =
            if self < 1e-290 { (self * 18_014_398_509_481_984.0, 1.0 / 134_217_728.0) } else { (self, 1.0) };
        let mut root = f64::from_bits((x.to_bits() >> 1) + 0x1ff8_0000_0000_0000);
        for _ in 0..5 {
            root = 0.5 * (root + x / root);
        }
        root * scale
    }

    fn mul_add(self, b: f64, c: f64) -> f64 {
        self * b + c
    }

    fn trunc(self) -> f64 {
        if self.abs() < WHOLE { (self as i64 as f64).copysign(self) } else { self }
    }

    fn floor(self) -> f64 {
        let whole = Float::trunc(self);
        if whole > self { whole - 1.0 } else { whole }
    }

    fn ceil(self) -> f64 {
        let whole = Float::trunc(self);
        if whole < self { whole + 1.0 } else { whole }
    }

    fn round(self) -> f64 {
        let whole = Float::trunc(self);
        if (self - whole).abs() >= 0.5 { whole + 1f64.copysign(self) } else { whole }
    }

    fn round_ties_even(self) -> f64 {
        if self.abs() < WHOLE { ((self.abs() + WHOLE) - WHOLE).copysign(self) } else { self }
    }

    fn exp(self) -> f64 {
        if self.is_nan() {
            return self;
        }
        let x = self.clamp(-746.0, 710.0);
        let n = Float::round_ties_even(x * LOG2_E);
        let r = (x - n * 0.693_147_180_369_123_8) - n * 1.908_214_929_270_587_7e-10;
        let (mut term, mut sum) = (1.0, 1.0);
        for k in 1..16 {
            term = term * r / f64::from(k);
            sum += term;
        }
        // Two factors, for the exponent of a small or of the greatest number does not fit into one.
        let half = n as i64 >> 1;
        let power = |n: i64| f64::from_bits(((n + 1023) as u64) << 52);
        sum * power(half) * power(n as i64 - half)
    }

    fn exp2(self) -> f64 {
        Float::exp(self * LN_2)
    }

    fn exp_m1(self) -> f64 {
        if self.abs() > 0.5 {
            return Float::exp(self) - 1.0;
        }
        let (mut term, mut sum) = (self, self);
        for k in 2..16 {
            term = term * self / f64::from(k);
            sum += term;
        }
        sum
    }

    fn ln(self) -> f64 {
        if self.is_nan() || self < 0.0 {
            return f64::NAN;
        }
        if self == 0.0 {
            return f64::NEG_INFINITY;
        }
        if self == f64::INFINITY {
            return self;
        }
        let (x, shift) =
            if self < f64::MIN_POSITIVE { (self * 18_014_398_509_481_984.0, -54) } else { (self, 0) };
        let bits = x.to_bits();
        let mut exponent = (bits >> 52) as i64 - 1023 + shift;
        let mut mantissa = f64::from_bits((bits & 0x000f_ffff_ffff_ffff) | 0x3ff0_0000_0000_0000);
        if mantissa > core::f64::consts::SQRT_2 {
            mantissa *= 0.5;
            exponent += 1;
        }
        exponent as f64 * LN_2 + Float::ln_1p(mantissa - 1.0)
    }

    fn ln_1p(self) -> f64 {
        if !(-0.3..=0.5).contains(&self) {
            return Float::ln(1.0 + self);
        }
        let s = self / (2.0 + self);
        let z = s * s;
        let (mut power, mut sum) = (s, s);
        for k in 1..16 {
            power *= z;
            sum += power / f64::from(2 * k + 1);
        }
        2.0 * sum
    }

    fn log2(self) -> f64 {
        Float::ln(self) * LOG2_E
    }

    fn log10(self) -> f64 {
        Float::ln(self) * LOG10_E
    }

    fn powf(self, y: f64) -> f64 {
        if y == 0.0 || self == 1.0 {
            return 1.0;
        }
        if Float::trunc(y) == y && y.abs() < 1024.0 {
            return Float::powi(self, y as i32);
        }
        let is_odd = Float::trunc(y) == y && y.abs() < 2.0 * WHOLE && y as i64 % 2 != 0;
        if self < 0.0 && Float::trunc(y) != y && self.is_finite() {
            return f64::NAN;
        }
        let size = Float::exp(y * Float::ln(self.abs()));
        if self.is_sign_negative() && is_odd { -size } else { size }
    }

    fn powi(self, n: i32) -> f64 {
        let (mut base, mut left, mut product) = (self, n.unsigned_abs(), 1.0);
        while left > 0 {
            if left & 1 == 1 {
                product *= base;
            }
            base *= base;
            left >>= 1;
        }
        if n < 0 { 1.0 / product } else { product }
    }

    fn cbrt(self) -> f64 {
        if self == 0.0 || !self.is_finite() {
            return self;
        }
        let x = self.abs();
        let root = Float::exp(Float::ln(x) / 3.0);
        (root - (root * root * root - x) / (3.0 * root * root)).copysign(self)
    }

    fn sin(self) -> f64 {
        Float::sin_cos(self).0
    }

    fn cos(self) -> f64 {
        Float::sin_cos(self).1
    }

    /// The angle is reduced by three parts of a quarter turn, which is exact enough for magnitudes below `1e6`.
    fn sin_cos(self) -> (f64, f64) {
        if !self.is_finite() {
            return (f64::NAN, f64::NAN);
        }
        let n = Float::round_ties_even(self / FRAC_PI_2);
        let r = ((self - n * 1.570_796_326_734_125_6) - n * 6.077_100_506_303_966e-11)
            - n * 2.022_266_248_795_950_6e-21;
        let (sin, cos) = (sin_series(r), cos_series(r));
        match (n % 4.0) as i32 {
            0 => (sin, cos),
            1 | -3 => (cos, -sin),
            2 | -2 => (-sin, -cos),
            _ => (-cos, sin),
        }
    }

    fn tan(self) -> f64 {
        let (sin, cos) = Float::sin_cos(self);
        sin / cos
    }

    fn asin(self) -> f64 {
        Float::atan2(self, Float::sqrt((1.0 - self) * (1.0 + self)))
    }

    fn acos(self) -> f64 {
        Float::atan2(Float::sqrt((1.0 - self) * (1.0 + self)), self)
    }

    fn atan(self) -> f64 {
        if self.is_nan() { self } else { atan_positive(self.abs()).copysign(self) }
    }

    fn atan2(self, x: f64) -> f64 {
        if self.is_nan() || x.is_nan() {
            return f64::NAN;
        }
        let (y, size) = (self.abs(), x.abs());
        let angle = match (y.is_infinite(), size.is_infinite()) {
            (true, true) => FRAC_PI_2 / 2.0,
            _ if y == 0.0 => 0.0,
            _ if size == 0.0 => FRAC_PI_2,
            _ => atan_positive(y / size),
        };
        (if x.is_sign_negative() { PI - angle } else { angle }).copysign(self)
    }

    fn sinh(self) -> f64 {
        let e = Float::exp_m1(self.abs());
        if e.is_infinite() { e.copysign(self) } else { (0.5 * (e + e / (e + 1.0))).copysign(self) }
    }

    fn cosh(self) -> f64 {
        let e = Float::exp(self.abs());
        0.5 * (e + 1.0 / e)
    }

    fn tanh(self) -> f64 {
        let e = Float::exp_m1(2.0 * self.abs());
        if e.is_infinite() { 1f64.copysign(self) } else { (e / (e + 2.0)).copysign(self) }
    }

    fn asinh(self) -> f64 {
        let x = self.abs();
        if x > 1e8 {
            return (Float::ln(x) + LN_2).copysign(self);
        }
        Float::ln_1p(x + x * x / (1.0 + Float::sqrt(1.0 + x * x))).copysign(self)
    }

    fn acosh(self) -> f64 {
        if self > 1e8 {
            return Float::ln(self) + LN_2;
        }
        Float::ln(self + Float::sqrt((self - 1.0) * (self + 1.0)))
    }

    fn atanh(self) -> f64 {
        0.5 * (Float::ln_1p(self) - Float::ln_1p(-self))
    }
}

macro_rules! single {
    ($($name:ident)*) => {
        $(fn $name(self) -> f32 {
            Float::$name(f64::from(self)) as f32
        })*
    };
}

impl Float for f32 {
    fn copysign(self, sign: f32) -> f32 {
        f32::copysign(self, sign)
    }

    single!(abs sqrt floor ceil trunc round round_ties_even exp exp2 exp_m1 ln ln_1p log2 log10 cbrt sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh);

    fn mul_add(self, b: f32, c: f32) -> f32 {
        (f64::from(self) * f64::from(b) + f64::from(c)) as f32
    }

    fn powf(self, y: f32) -> f32 {
        Float::powf(f64::from(self), f64::from(y)) as f32
    }

    fn powi(self, n: i32) -> f32 {
        Float::powi(f64::from(self), n) as f32
    }

    fn sin_cos(self) -> (f32, f32) {
        let (sin, cos) = Float::sin_cos(f64::from(self));
        (sin as f32, cos as f32)
    }

    fn atan2(self, x: f32) -> f32 {
        Float::atan2(f64::from(self), f64::from(x)) as f32
    }
}
