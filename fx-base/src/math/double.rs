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
    const MIN: f64 = f64::MIN;
    const NEGLIGIBLE: f64 = 1e-17;

    #[inline(always)]
    fn sin_cos_wide(x: f64) -> (f64, f64) {
        if x.abs() < NEAR {
            let (sin, cos, quadrant) = sin_cos64(x);
            (sin_quadrant(sin, cos, quadrant), sin_quadrant(sin, cos, quadrant.wrapping_add(1)))
        } else {
            x.sin_cos()
        }
    }
    fn lgamma_wide(x: f64) -> f64 {
        <f64 as Real>::lgamma(x)
    }

    std_functions! {
        abs = abs(x); copysign = copysign(x, sign); exp2 = exp2(x); expm1 = exp_m1(x);
        log2 = log2(x); log10 = log10(x); log1p = ln_1p(x); asin = asin(x); acos = acos(x); atan = atan(x); atan2 = atan2(y, x);
        sinh = sinh(x); cosh = cosh(x); asinh = asinh(x);
        acosh = acosh(x); atanh = atanh(x); sqrt = sqrt(x); cbrt = cbrt(x);
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
    fn exp_below(x: f64) -> f64 {
        Self::exp(x)
    }
    #[inline(always)]
    fn exp(x: f64) -> f64 {
        exp_sum64(x, 0.0)
    }
    #[inline(always)]
    fn log(x: f64) -> f64 {
        log_full(x)
    }
    #[inline(always)]
    fn sin(x: f64) -> f64 {
        if x.abs() < NEAR { near_sin(x) } else { x.sin() }
    }
    #[inline(always)]
    fn cos(x: f64) -> f64 {
        if x.abs() < NEAR { near_cos(x) } else { x.cos() }
    }
    #[inline(always)]
    fn tan(x: f64) -> f64 {
        x.tan()
    }
    #[inline(always)]
    fn tanh(x: f64) -> f64 {
        tanh64(x)
    }
    #[inline(always)]
    fn pow(x: f64, y: f64) -> f64 {
        if y == 2.0 { x * x } else { x.powf(y) }
    }
    #[inline(always)]
    fn sigmoid(x: f64) -> f64 {
        let e = exp_sum64(-x.abs(), 0.0);
        let y = (if x < 0.0 { e } else { 1.0 }) / (1.0 + e);
        // `exp(-x)` overflows there: PyTorch's quotient is 0.
        if x < -709.782_712_893_384 { 0.0 } else { y }
    }
    #[inline(always)]
    fn erf(x: f64) -> f64 {
        let a = x.abs();
        let large = (1.0 - erfc_positive(a)).copysign(x);
        if a < 0.75 { erf_small64(x) } else { large }
    }
    #[inline(always)]
    fn erfc(x: f64) -> f64 {
        let y = erfc_positive(x.abs());
        let y = if x < 0.0 { 2.0 - y } else { y };
        if x.abs() < 0.375 { 1.0 - erf_small64(x) } else { y }
    }
    fn erfinv(x: f64) -> f64 {
        let a = x.abs();
        if a >= 1.0 || a.is_nan() {
            return if a == 1.0 { f64::INFINITY.copysign(x) } else { f64::NAN };
        }
        if a < 1e-8 {
            return x * 0.886_226_925_452_758;
        }
        // The closed form of S. Winitzki (A handy approximation for the error function and its inverse, 2008) is
        // within 0.4%; each step of Halley's method triples the digits.
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
            // The reflection (DLMF 5.5.3); the sine is taken of the exact distance to the nearest integer.
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
        // Stirling's series (DLMF 5.11.1).
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
        // The recurrence (DLMF 5.5.2) leads to where the asymptotic series (5.11.2) holds; below 0, the reflection
        // (5.5.4) does.
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
    fn ndtr(x: f64) -> f64 {
        0.5 * <f64 as Real>::erfc(-x * FRAC_1_SQRT_2)
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

/// Returns `lgamma(2 + s)` for `|s| <= 1/2` by its Taylor series (DLMF 5.7.3), whose terms are
/// `(zeta(k) - 1) / k`.
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

/// Returns the sine of `x`, whose magnitude is below [`NEAR`](is_near).
#[inline(always)]
pub fn near_sin(x: f64) -> f64 {
    let (sin, cos, quadrant) = sin_cos64(x);
    let y = sin_quadrant(sin, cos, quadrant);
    if x == 0.0 { x } else { y }
}

/// Returns the cosine of `x`, whose magnitude is below [`NEAR`](is_near).
#[inline(always)]
pub fn near_cos(x: f64) -> f64 {
    let (sin, cos, quadrant) = sin_cos64(x);
    sin_quadrant(sin, cos, quadrant.wrapping_add(1))
}

/// Returns whether [`near_sin`] and [`near_cos`] hold for `x`.
#[inline(always)]
pub fn is_near(x: f64) -> bool {
    x.abs() < NEAR
}
