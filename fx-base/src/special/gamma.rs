// Special functions beyond those of math.rs, generic over f32 and f64 and computed in f64.
//
// Invariant: this text stands alone after that of math.rs, with special/bessel.rs behind it: it is included
// in the module `special` and pasted behind math.rs into generated Rust, so eager kernels and generated code
// give the same bits. Every function ends in bounded time for any argument. Where nothing else is said,
// functions of one argument are straight-line code, of f32 within 1 ULP, of f64 within 1e-15 relative (away
// from the zeros of Bessel functions, near which they are within 1e-16), and others within 1e-14 relative to
// the larger of the result and 1.

/// Makes functions of f64 generic.
macro_rules! in_f64 {
    ($($(#[$doc:meta])* $name:ident($($arg:ident),*) = $f:ident;)*) => {
        $($(#[$doc])* #[inline(always)] pub fn $name<T: Real>($($arg: T),*) -> T { T::from_f64($f($($arg.to_f64()),*)) })*
    };
}
in_f64! {
    /// Returns the modified Bessel function of the first kind of order 0.
    i0(x) = bessel_i0;
    /// Returns `exp(-|x|) i0(x)`.
    i0e(x) = scaled_i0;
    /// Returns the modified Bessel function of the first kind of order 1.
    i1(x) = bessel_i1;
    /// Returns `exp(-|x|) i1(x)`.
    i1e(x) = scaled_i1;
    /// Returns the modified Bessel function of the second kind of order 0; infinite at 0, NaN below.
    bessel_k0(x) = modified_k0;
    /// Returns the modified Bessel function of the second kind of order 1; infinite at 0, NaN below.
    bessel_k1(x) = modified_k1;
    /// Returns `exp(x) bessel_k0(x)`.
    bessel_k0e(x) = scaled_k0;
    /// Returns `exp(x) bessel_k1(x)`.
    bessel_k1e(x) = scaled_k1;
    /// Returns `exp(x * x) erfc(x)`.
    erfcx(x) = scaled_erfc;
    /// Returns the logarithm of [`ndtr`] without underflow.
    log_ndtr(x) = log_normal_below;
    /// Returns the inverse of [`ndtr`]; NaN outside [0, 1].
    ndtri(p) = normal_quantile;
    /// Returns Hurwitz's zeta function, the sum of `(q + k)^-x`.
    zeta(x, q) = hurwitz;
    /// Returns the derivative of [`digamma`] of an order that is a whole number.
    polygamma(n, x) = gamma_derivative;
}

/// Makes generic those functions that differ for f32 and f64 inside.
macro_rules! generic {
    ($($(#[$doc:meta])* $name:ident($($arg:ident),*) = $f:ident;)*) => {
        $($(#[$doc])* #[inline(always)] pub fn $name<T: Real>($($arg: T),*) -> T { T::from_f64($f($($arg),*)) })*
    };
}
generic! {
    /// Returns the Bessel function of the first kind of order 0.
    bessel_j0(x) = first_j0;
    /// Returns the Bessel function of the first kind of order 1.
    bessel_j1(x) = first_j1;
    /// Returns the Bessel function of the second kind of order 0; minus infinity at 0, NaN below.
    bessel_y0(x) = second_y0;
    /// Returns the Bessel function of the second kind of order 1; minus infinity at 0, NaN below.
    bessel_y1(x) = second_y1;
    /// Returns the regularised lower incomplete gamma function of order `a`; f32 within 1e-8 of the larger of
    /// the result and 1e-2.
    gammainc(a, x) = gamma_below;
    /// Returns the regularised upper incomplete gamma function of order `a`; f32 within 1e-8 of the larger of
    /// the result and 1e-2.
    gammaincc(a, x) = gamma_above;
}

/// Returns `exp(t * t) erfc(t)` for `t >= 0`, by a Chebyshev fit.
#[inline(always)]
fn scaled_erfc_positive(t: f64) -> f64 {
    let u = 1.0 / (t + 4.0);
    let fit = poly(
        (t - 4.0) * u,
        [
            1.095995661000491,
            -0.9765487290808824,
            0.7732087022652361,
            -0.5408538313131965,
            0.33085158787810337,
            -0.17401093724091568,
            0.07638151490700863,
            -0.026370053328949945,
            0.0061120556821152045,
            -0.0002809589371945609,
            -0.0004550528495048933,
            0.00017681308475719695,
            -3.634558037436345e-06,
            -1.8861481777975764e-05,
            4.693043799316667e-06,
            1.42495728038385e-06,
            -8.444415138513227e-07,
            -7.597760874906101e-08,
            1.231160742255897e-07,
            8.276487613621898e-10,
            -1.5522062791612513e-08,
            2.6471770049944693e-10,
            1.252169228211782e-09,
        ],
    );
    if t > 1e8 { std::f64::consts::FRAC_2_SQRT_PI / 2.0 / t } else { fit * u }
}

/// Returns `exp(scale * a * a)`: 0 or infinity where it would be beyond `|scale| = 1/2` and `a = 40`.
#[inline(always)]
fn exp_square(a: f64, scale: f64) -> f64 {
    let a = if a > 40.0 { 40.0 } else { a };
    // The square of the upper 26 bits is exact.
    let upper = f64::from_bits(a.to_bits() & 0xffff_ffff_f800_0000);
    exp_sum64(scale * upper * upper, scale * (a - upper) * (a + upper))
}

#[inline(always)]
fn scaled_erfc(x: f64) -> f64 {
    let a = x.abs();
    let value = scaled_erfc_positive(a);
    let below = 2.0 * exp_square(a, 1.0) - value;
    if x < 0.0 { below } else { value }
}

#[inline(always)]
fn log_normal_below(x: f64) -> f64 {
    let a = x.abs();
    let scaled = 0.5 * scaled_erfc_positive(a * FRAC_1_SQRT_2);
    // Of a negative `x` the logarithm of the scaled value, of another one that of 1 - `above`.
    let above = scaled * exp_square(a, -0.5);
    let y = if x < 0.0 { scaled } else { 1.0 - above };
    let log = log_full(y);
    // What is below the least number keeps its sign.
    if x < 0.0 { log - 0.5 * x * x } else { -((above - (1.0 - y)) / y - log) }
}

#[inline(always)]
fn normal_quantile(p: f64) -> f64 {
    // Fits of the quotient of the quantile and p - 1/2, in w below 5, and in its root below 6 and beyond. M. Giles
    // (Approximating the erfinv function, 2011) has these variables; the coefficients are others.
    let w = -log_full(4.0 * p * (1.0 - p));
    let middle = poly(
        w * 0.4 - 1.0,
        [
            4.24662693402934,
            1.7440101219952702,
            -0.07384524225205819,
            -0.05536239102854272,
            0.02411347529880984,
            -0.0013799850673472476,
            -0.0023592918767741202,
            0.0008264400932784385,
            5.790470672172679e-05,
            -0.00011718777960120846,
            2.4473784491212857e-05,
            8.06629890571696e-06,
            -5.244162362071204e-06,
            3.829488167523319e-07,
            5.656614641260096e-07,
            -1.9891203896489118e-07,
            -2.0627467691327003e-08,
            2.993882109597544e-08,
            -4.311383226572095e-09,
            -2.187146324913064e-09,
            6.80634507546728e-10,
        ],
    );
    let s = w.sqrt();
    let tail = poly(
        (s - 3.6628415014847064) / (s + 3.6628415014847064) * (1.0 / 0.24187072696537418),
        [
            9.898380112906866,
            5.053139774210955,
            1.2436747454703094,
            0.2824147899642331,
            0.0771387642497596,
            0.010510623164450903,
            0.01048094430107898,
            -0.002168414518408148,
            -0.0006486580962094694,
            0.0025892933373981935,
            -0.0011375809557869886,
            -0.0006580151939876207,
            0.000836043426509445,
            -9.640885492120455e-06,
            -0.000340789173353126,
            7.919778163050726e-05,
            0.00011039935776103455,
            -3.7344555862494794e-05,
            -3.4482590915279246e-05,
            1.0953240967044165e-05,
            1.1337487876818833e-05,
            -2.293937535625583e-06,
            -3.46155309088362e-06,
            3.320930626455089e-07,
            7.66446038823204e-07,
            -2.582018463936845e-08,
            -8.516378503892095e-08,
        ],
    );
    let far = poly(
        (s - 12.792895698935025) / (s + 12.792895698935025) * (1.0 / 0.3614608311437589),
        [
            35.91483876436595,
            26.272931173404668,
            9.442195544624264,
            3.4189177181511385,
            1.2361133523813541,
            0.44599723259371504,
            0.16168388838283232,
            0.05821911298296006,
            0.02113845301951438,
            0.007602877543708838,
            0.002762670639007609,
            0.0009931402689023208,
            0.00036094377606780926,
            0.00012988814529737628,
            4.719057982106866e-05,
            1.6775530932798094e-05,
            6.090763795586792e-06,
            2.416637870976855e-06,
            8.762779346367804e-07,
            1.588421547067825e-07,
            5.765192531939521e-08,
            8.360034526223261e-08,
            3.0233511253045783e-08,
        ],
    );
    let quotient = if w < 5.0 { middle } else if s < 6.0 { tail } else { far };
    let value = (p - 0.5) * quotient;
    let value = if p == 0.0 { f64::NEG_INFINITY } else { value };
    if p == 1.0 { f64::INFINITY } else { value }
}

/// Returns `x^a exp(-x) / gamma(a + 1)`.
#[inline(always)]
fn gamma_weight<T: Real>(a: f64, x: f64) -> f64 {
    if a < 20.0 {
        return exp_sum64(a * log_full(x) - x - T::lgamma_wide(a + 1.0), 0.0);
    }
    // Stirling's series (DLMF 5.11.1), so that large terms do not cancel.
    let ratio = (x - a) / a;
    let exponent = if ratio > -0.7 { a * (ratio.ln_1p() - ratio) } else { a * (x / a).ln() + (a - x) };
    let inverse = 1.0 / (a * a);
    let correction = (1.0 / 12.0 - inverse * (1.0 / 360.0 - inverse * (1.0 / 1260.0 - inverse / 1680.0))) / a;
    (exponent - correction).exp() / (std::f64::consts::TAU * a).sqrt()
}

/// The most terms of the expansions of incomplete gamma functions.
const GAMMA_TERMS: usize = 20_000;

/// The order from which on series take too many terms.
const GREAT_ORDER: f64 = 4e6;

/// Returns the lower function by its power series (DLMF 8.7.1), for `x` below `a + 1`.
#[inline(always)]
fn gamma_series<T: Real>(a: f64, x: f64) -> f64 {
    let (mut term, mut sum, mut n) = (1.0, 1.0, a);
    for _ in 0..GAMMA_TERMS {
        n += 1.0;
        term *= x / n;
        sum += term;
        if term < sum * T::NEGLIGIBLE {
            break;
        }
    }
    sum * gamma_weight::<T>(a, x)
}

/// Returns the upper function by its continued fraction (DLMF 8.9.2), for other `x`. It is evaluated forward;
/// numerators and denominators are scaled as they grow.
#[inline(always)]
fn gamma_fraction<T: Real>(a: f64, x: f64) -> f64 {
    const GREAT: f64 = 1e100;
    let weight = a * gamma_weight::<T>(a, x);
    if weight == 0.0 || x > GREAT {
        return 0.0;
    }
    let (mut y, mut z) = (1.0 - a, x + 2.0 - a);
    let (mut before, mut here) = ((1.0, x), (x + 1.0, z * x));
    let mut value = here.0 / here.1;
    for i in 1..GAMMA_TERMS {
        y += 1.0;
        z += 2.0;
        let factor = y * i as f64;
        let next = (here.0 * z - before.0 * factor, here.1 * z - before.1 * factor);
        (before, here) = (here, next);
        if next.1 != 0.0 {
            let quotient = next.0 / next.1;
            let is_done = (value - quotient).abs() <= quotient.abs() * (16.0 * T::NEGLIGIBLE);
            value = quotient;
            if is_done {
                break;
            }
        }
        if next.0.abs() > GREAT {
            (before, here) = ((before.0 / GREAT, before.1 / GREAT), (here.0 / GREAT, here.1 / GREAT));
        }
    }
    value * weight
}

/// Returns the lower and upper functions of an order of at least [`GREAT_ORDER`], by Temme's uniform expansion
/// (DLMF 8.12.3) up to its second term.
#[inline(always)]
fn gamma_uniform(a: f64, x: f64) -> (f64, f64) {
    let mu = (x - a) / a;
    if mu.abs() > 0.03 {
        return if mu < 0.0 { (0.0, 1.0) } else { (1.0, 0.0) };
    }
    // (mu - ln(1 + mu)) / mu^2.
    let quotient = poly(
        mu,
        [
            1.0 / 2.0,
            -1.0 / 3.0,
            1.0 / 4.0,
            -1.0 / 5.0,
            1.0 / 6.0,
            -1.0 / 7.0,
            1.0 / 8.0,
            -1.0 / 9.0,
            1.0 / 10.0,
            -1.0 / 11.0,
            1.0 / 12.0,
        ],
    );
    let eta = mu * (2.0 * quotient).sqrt();
    let exponent = a * (quotient * mu * mu);
    let tail = (-exponent).exp();
    let first = poly(eta, [-1.0 / 3.0, 1.0 / 12.0, -2.0 / 135.0, 1.0 / 864.0, 1.0 / 2835.0]);
    let second = poly(eta, [-1.0 / 540.0, -1.0 / 288.0, 1.0 / 378.0]);
    let rest = tail / (2.0 * std::f64::consts::PI * a).sqrt() * (first + second / a);
    let middle = 0.5 * tail * scaled_erfc_positive(exponent.sqrt());
    if mu < 0.0 { (middle - rest, 1.0 - middle + rest) } else { (1.0 - middle - rest, middle + rest) }
}

/// Returns the lower and upper functions.
#[inline(always)]
fn gamma_both<T: Real>(a: f64, x: f64) -> (f64, f64) {
    if a.is_nan() || x.is_nan() || a < 0.0 || x < 0.0 {
        return (f64::NAN, f64::NAN);
    }
    let known = if a == 0.0 {
        if x > 0.0 { 1.0 } else { f64::NAN }
    } else if x == 0.0 {
        0.0
    } else if a.is_infinite() {
        if x.is_infinite() { f64::NAN } else { 0.0 }
    } else if x.is_infinite() {
        1.0
    } else if a >= GREAT_ORDER {
        return gamma_uniform(a, x);
    } else if x < a + 1.0 {
        let below = gamma_series::<T>(a, x);
        return (below, 1.0 - below);
    } else {
        let above = gamma_fraction::<T>(a, x);
        return (1.0 - above, above);
    };
    (known, 1.0 - known)
}

fn gamma_below<T: Real>(a: T, x: T) -> f64 {
    gamma_both::<T>(a.to_f64(), x.to_f64()).0
}

fn gamma_above<T: Real>(a: T, x: T) -> f64 {
    let (a, x) = (a.to_f64(), x.to_f64());
    let near_zero = a > 0.0 && a < 1e-3 && x > 0.0 && x < 1e-2;
    if near_zero {
        // 1 - lower, of which the lower is near 1: -expm1 of its logarithm.
        let (mut term, mut sum) = (1.0, 1.0);
        for n in 1..40 {
            term *= x / (a + n as f64);
            sum += term;
        }
        return -((a * x.ln() - x - lgamma(a + 1.0)) + sum.ln()).exp_m1();
    }
    gamma_both::<T>(a, x).1
}

/// Returns the sum for `q > 0` and `x > 1` by the Euler-Maclaurin formula (DLMF 2.10.1).
fn hurwitz_positive(x: f64, q: f64) -> f64 {
    // The Bernoulli numbers B2k / (2k)!.
    const B: [f64; 12] = [
        1.0 / 12.0,
        -1.0 / 720.0,
        1.0 / 30_240.0,
        -1.0 / 1_209_600.0,
        1.0 / 47_900_160.0,
        -691.0 / 1_307_674_368_000.0,
        1.0 / 74_724_249_600.0,
        -3_617.0 / 10_670_622_842_880_000.0,
        43_867.0 / 5_109_094_217_170_944_000.0,
        -174_611.0 / 802_857_662_698_291_200_000.0,
        77_683.0 / 14_101_100_039_391_805_440_000.0,
        -236_364_091.0 / 1_693_824_136_731_743_669_452_800_000.0,
    ];
    let (mut sum, mut w) = (0.0, q);
    while w < 12.0 {
        sum += w.powf(-x);
        w += 1.0;
    }
    let power = w.powf(-x);
    sum += power * w / (x - 1.0) + power / 2.0;
    let (mut factor, mut scale) = (x, power / w);
    for (k, b) in B.iter().enumerate() {
        let term = b * factor * scale;
        sum += term;
        if term.abs() < sum.abs() * 1e-18 {
            break;
        }
        let n = 2.0 * k as f64 + 1.0;
        factor *= (x + n) * (x + n + 1.0);
        scale /= w * w;
    }
    sum
}

fn hurwitz(x: f64, q: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    if x.is_nan() || q.is_nan() || x < 1.0 {
        return f64::NAN;
    }
    if q > 0.0 {
        return if q.is_infinite() { 0.0 } else { hurwitz_positive(x, q) };
    }
    if q == q.floor() {
        return f64::INFINITY;
    }
    if x != x.floor() {
        return f64::NAN;
    }
    // The terms below zero are those of two other sums, with the sign of a power.
    let below = -q.ceil() + 1.0;
    let rest = q + below;
    let sign = if x % 2.0 == 0.0 { 1.0 } else { -1.0 };
    sign * (hurwitz_positive(x, 1.0 - rest) - hurwitz_positive(x, 1.0 - q)) + hurwitz_positive(x, rest)
}

/// Returns the polygamma function of order `n` by Hurwitz's zeta function (DLMF 25.11.12).
fn gamma_derivative(n: f64, x: f64) -> f64 {
    if n == 0.0 {
        return digamma(x);
    }
    let sign = if n % 2.0 == 0.0 { -1.0 } else { 1.0 };
    sign * lgamma(n + 1.0).exp() * hurwitz(n + 1.0, x)
}
