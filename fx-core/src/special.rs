// Special functions beyond those of math.rs, generic over f32 and f64 and computed in f64.
//
// Invariant: this text stands alone after that of math.rs: it is included in the module `special` and pasted behind math.rs
// into generated Rust, so eager kernels and generated code give the same bits. Every function ends in bounded time for any
// argument. Errors are about 1e-14 relative to the larger of the result and 1 where nothing else is said.

/// Makes functions of f64 generic.
macro_rules! in_f64 {
    ($($(#[$doc:meta])* $name:ident($($arg:ident),*) = $f:ident;)*) => {
        $($(#[$doc])* pub fn $name<T: Real>($($arg: T),*) -> T { T::from_f64($f($($arg.to_f64()),*)) })*
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
    /// Returns the Bessel function of the first kind of order 0.
    bessel_j0(x) = first_j0;
    /// Returns the Bessel function of the first kind of order 1.
    bessel_j1(x) = first_j1;
    /// Returns the Bessel function of the second kind of order 0; minus infinity at 0, NaN below.
    bessel_y0(x) = second_y0;
    /// Returns the Bessel function of the second kind of order 1; minus infinity at 0, NaN below.
    bessel_y1(x) = second_y1;
    /// Returns `exp(x * x) erfc(x)`.
    erfcx(x) = scaled_erfc;
    /// Returns the normal distribution function.
    ndtr(x) = normal_below;
    /// Returns the logarithm of [`ndtr`] without underflow.
    log_ndtr(x) = log_normal_below;
    /// Returns the inverse of [`ndtr`]; NaN outside [0, 1].
    ndtri(p) = normal_quantile;
    /// Returns the regularised lower incomplete gamma function of order `a`.
    gammainc(a, x) = gamma_below;
    /// Returns the regularised upper incomplete gamma function of order `a`.
    gammaincc(a, x) = gamma_above;
    /// Returns Hurwitz's zeta function, the sum of `(q + k)^-x`.
    zeta(x, q) = hurwitz;
    /// Returns the derivative of [`digamma`] of an order that is a whole number.
    polygamma(n, x) = gamma_derivative;
}

/// Up to here power series are summed, from here on expansions at infinity, whose least term is below an ULP.
const FAR: f64 = 25.0;

/// Returns `sum (x/2)^(2k) / (k! (k + order)!)`: all terms are positive.
fn modified_series(x: f64, order: f64) -> f64 {
    let square = x * x / 4.0;
    let (mut term, mut sum, mut k) = (1.0, 1.0, 1.0);
    while term > sum * 1e-17 {
        term *= square / (k * (k + order));
        sum += term;
        k += 1.0;
    }
    sum
}

/// Returns Hankel's expansion for a modified function of large `x`: `sum (-sign)^k a_k / x^k`.
fn modified_expansion(x: f64, order: f64, sign: f64) -> f64 {
    let mu = 4.0 * order * order;
    let (mut term, mut sum, mut k) = (1.0f64, 1.0, 1.0);
    while term.abs() > 1e-17 && k < 60.0 {
        let odd = 2.0 * k - 1.0;
        term *= sign * (odd * odd - mu) / (8.0 * k * x);
        sum += term;
        k += 1.0;
    }
    sum
}

fn scaled_i0(x: f64) -> f64 {
    let x = x.abs();
    if x > FAR {
        return modified_expansion(x, 0.0, 1.0) / (std::f64::consts::TAU * x).sqrt();
    }
    modified_series(x, 0.0) * (-x).exp()
}

fn bessel_i0(x: f64) -> f64 {
    if x.abs() <= FAR || x.is_nan() {
        return modified_series(x, 0.0);
    }
    let half = (x.abs() / 2.0).exp();
    if half.is_infinite() { half } else { scaled_i0(x) * half * half }
}

fn scaled_i1(x: f64) -> f64 {
    let y = x.abs();
    if y > FAR {
        return (modified_expansion(y, 1.0, 1.0) / (std::f64::consts::TAU * y).sqrt()).copysign(x);
    }
    modified_series(x, 1.0) * x / 2.0 * (-y).exp()
}

fn bessel_i1(x: f64) -> f64 {
    if x.abs() <= FAR || x.is_nan() {
        return modified_series(x, 1.0) * x / 2.0;
    }
    let half = (x.abs() / 2.0).exp();
    if half.is_infinite() { half.copysign(x) } else { scaled_i1(x) * half * half }
}

/// Returns `exp(x) K(x)` by the trapezoidal rule for `integral exp(-x (cosh t - 1)) cosh(order t) dt`, which converges
/// exponentially.
fn modified_second(x: f64, order: f64) -> f64 {
    if x.is_nan() || x < 0.0 {
        return f64::NAN;
    }
    if x == 0.0 {
        return f64::INFINITY;
    }
    if x > FAR {
        return (std::f64::consts::FRAC_PI_2 / x).sqrt() * modified_expansion(x, order, -1.0);
    }
    let step: f64 = 1.0 / 8.0;
    let mut sum = 0.5;
    let mut t = step;
    loop {
        let half = (t / 2.0).sinh();
        let term = (-2.0 * x * half * half).exp() * (order * t).cosh();
        sum += term;
        t += step;
        if term < sum * 1e-18 || t > 760.0 {
            return sum * step;
        }
    }
}

fn scaled_k0(x: f64) -> f64 {
    modified_second(x, 0.0)
}

fn scaled_k1(x: f64) -> f64 {
    if x > 0.0 && x < 1e-8 { 1.0 / x } else { modified_second(x, 1.0) }
}

fn modified_k0(x: f64) -> f64 {
    modified_second(x, 0.0) * (-x).exp()
}

fn modified_k1(x: f64) -> f64 {
    scaled_k1(x) * (-x).exp()
}

/// Returns Hankel's sums for Bessel functions of large `x`: those of even and odd terms.
fn hankel(x: f64, order: f64) -> (f64, f64) {
    let mu = 4.0 * order * order;
    let (mut p, mut q, mut term, mut k) = (1.0, 0.0, 1.0f64, 1.0);
    while term.abs() > 1e-17 && k < 60.0 {
        let odd = 2.0 * k - 1.0;
        term *= (mu - odd * odd) / (8.0 * k * x);
        match k as u32 % 4 {
            1 => q += term,
            2 => p -= term,
            3 => q -= term,
            _ => p += term,
        }
        k += 1.0;
    }
    (p, q)
}

/// Returns Bessel functions of the first and second kind of order 0 or 1 of `x > FAR`.
fn bessel_far(x: f64, order: f64) -> (f64, f64) {
    let (p, q) = hankel(x, order);
    let scale = (1.0 / (std::f64::consts::PI * x)).sqrt();
    // The phase is x - pi / 4 or x - 3 pi / 4, of which sine and cosine are those of x, added.
    let (sin, cos) = x.sin_cos();
    let (c, s) = if order == 0.0 { (cos + sin, sin - cos) } else { (sin - cos, -sin - cos) };
    (scale * (p * c - q * s), scale * (p * s + q * c))
}

/// The orders that [`bessel_near`] computes.
const ORDERS: usize = 80;

/// Returns the Bessel functions of the first kind of all orders below `ORDERS` of `0 < x <= FAR`, by downward recurrence.
fn bessel_near(x: f64) -> [f64; ORDERS] {
    let mut out = [0.0; ORDERS];
    let (mut above, mut here, mut norm) = (0.0, 1e-300, 0.0);
    for k in (0..ORDERS + 20).rev() {
        let below = 2.0 * (k as f64 + 1.0) / x * here - above;
        (above, here) = (here, below);
        if k < ORDERS {
            out[k] = here;
        }
        norm += if k == 0 {
            here
        } else if k % 2 == 0 {
            2.0 * here
        } else {
            0.0
        };
        if here.abs() > 1e200 {
            let scale = 1e-200;
            (above, here, norm) = (above * scale, here * scale, norm * scale);
            out.iter_mut().for_each(|x| *x *= scale);
        }
    }
    out.iter_mut().for_each(|x| *x /= norm);
    out
}

fn first_j0(x: f64) -> f64 {
    let x = x.abs();
    if x < 1e-8 {
        1.0
    } else if x <= FAR {
        bessel_near(x)[0]
    } else if x.is_infinite() {
        0.0
    } else {
        bessel_far(x, 0.0).0
    }
}

fn first_j1(x: f64) -> f64 {
    let y = x.abs();
    if y < 1e-8 {
        x / 2.0
    } else if y <= FAR {
        bessel_near(y)[1] * x.signum()
    } else if y.is_infinite() {
        0.0
    } else {
        bessel_far(y, 1.0).0 * x.signum()
    }
}

const EULER_GAMMA: f64 = 0.577_215_664_901_532_9;

fn second_y0(x: f64) -> f64 {
    if x.is_nan() || x < 0.0 {
        return f64::NAN;
    }
    if x == 0.0 {
        return f64::NEG_INFINITY;
    }
    if x > FAR {
        return if x.is_infinite() { 0.0 } else { bessel_far(x, 0.0).1 };
    }
    if x < 1e-8 {
        return std::f64::consts::FRAC_2_PI * ((x / 2.0).ln() + EULER_GAMMA);
    }
    // Neumann's series.
    let j = bessel_near(x);
    let mut sum = 0.0;
    for k in (1..ORDERS / 2).rev() {
        let term = j[2 * k] / k as f64;
        sum += if k % 2 == 0 { term } else { -term };
    }
    std::f64::consts::FRAC_2_PI * (((x / 2.0).ln() + EULER_GAMMA) * j[0] - 2.0 * sum)
}

fn second_y1(x: f64) -> f64 {
    if x.is_nan() || x < 0.0 {
        return f64::NAN;
    }
    if x == 0.0 {
        return f64::NEG_INFINITY;
    }
    if x > FAR {
        return if x.is_infinite() { 0.0 } else { bessel_far(x, 1.0).1 };
    }
    if x < 1e-8 {
        return -std::f64::consts::FRAC_2_PI / x;
    }
    let j = bessel_near(x);
    let mut sum = 0.0;
    for k in (1..ORDERS / 2 - 1).rev() {
        let n = k as f64;
        let term = (1.0 + 2.0 * n) * j[2 * k + 1] / (n * (n + 1.0));
        sum += if k % 2 == 0 { term } else { -term };
    }
    let log = (x / 2.0).ln() + EULER_GAMMA - 1.0;
    std::f64::consts::FRAC_2_PI * (log * j[1] - j[0] / x - sum)
}

fn scaled_erfc(x: f64) -> f64 {
    if x < 2.0 {
        return (x * x).exp() * erfc(x);
    }
    if x > 1e8 {
        return std::f64::consts::FRAC_2_SQRT_PI / 2.0 / x;
    }
    // The continued fraction, from its end.
    let mut fraction = x;
    let mut k = 120.0;
    while k > 0.0 {
        fraction = x + k / 2.0 / fraction;
        k -= 1.0;
    }
    std::f64::consts::FRAC_2_SQRT_PI / 2.0 / fraction
}

fn normal_below(x: f64) -> f64 {
    0.5 * erfc(-x * std::f64::consts::FRAC_1_SQRT_2)
}

fn log_normal_below(x: f64) -> f64 {
    let t = x * std::f64::consts::FRAC_1_SQRT_2;
    if x < -1.0 { (scaled_erfc(-t) / 2.0).ln() - t * t } else { (-erfc(t) / 2.0).ln_1p() }
}

fn normal_quantile(p: f64) -> f64 {
    if p.is_nan() || !(0.0..=1.0).contains(&p) {
        return f64::NAN;
    }
    if p > 0.5 {
        return -normal_quantile(1.0 - p);
    }
    if p == 0.0 {
        return f64::NEG_INFINITY;
    }
    if p > 0.02 {
        let x = std::f64::consts::SQRT_2 * erfinv(2.0 * p - 1.0);
        return x;
    }
    let goal = p.ln();
    let t = (-2.0 * goal).sqrt();
    let mut x = -(t - (t.ln() + 0.918_938_533_204_672_8) / t);
    // Newton's method on the logarithm, which is concave.
    for _ in 0..8 {
        let slope = (2.0 / std::f64::consts::PI).sqrt() / scaled_erfc(-x * std::f64::consts::FRAC_1_SQRT_2);
        let next = x - (log_normal_below(x) - goal) / slope;
        if (next - x).abs() <= 1e-16 * x.abs() {
            return next;
        }
        x = next;
    }
    x
}

/// Returns `x^a exp(-x) / gamma(a + 1)`.
fn gamma_weight(a: f64, x: f64) -> f64 {
    if a < 20.0 {
        return (a * x.ln() - x - lgamma(a + 1.0)).exp();
    }
    // Stirling's formula, so that large terms do not cancel.
    let ratio = (x - a) / a;
    let exponent = if ratio > -0.7 { a * (ratio.ln_1p() - ratio) } else { a * (x / a).ln() + (a - x) };
    let inverse = 1.0 / (a * a);
    let correction = (1.0 / 12.0 - inverse * (1.0 / 360.0 - inverse * (1.0 / 1260.0 - inverse / 1680.0))) / a;
    (exponent - correction).exp() / (std::f64::consts::TAU * a).sqrt()
}

/// The most terms of the expansions of incomplete gamma functions.
const GAMMA_TERMS: usize = 20_000;

/// Returns the series of the lower function, for `x` below `a + 1`.
fn gamma_series(a: f64, x: f64) -> f64 {
    let (mut term, mut sum, mut n) = (1.0, 1.0, a);
    for _ in 0..GAMMA_TERMS {
        n += 1.0;
        term *= x / n;
        sum += term;
        if term < sum * 1e-17 {
            break;
        }
    }
    sum * gamma_weight(a, x)
}

/// Returns the continued fraction of the upper function, for other `x`, by Lentz's method.
fn gamma_fraction(a: f64, x: f64) -> f64 {
    let tiny = 1e-300;
    let mut b = x + 1.0 - a;
    let mut c = 1.0 / tiny;
    let mut d = 1.0 / b;
    let mut h = d;
    for i in 1..GAMMA_TERMS {
        let i = i as f64;
        let an = -i * (i - a);
        b += 2.0;
        d = an * d + b;
        d = 1.0 / if d.abs() < tiny { tiny } else { d };
        c = b + an / c;
        c = if c.abs() < tiny { tiny } else { c };
        let delta = d * c;
        h *= delta;
        if (delta - 1.0).abs() < 1e-16 {
            break;
        }
    }
    h * a * gamma_weight(a, x)
}

/// Returns the lower and upper functions.
fn gamma_both(a: f64, x: f64) -> (f64, f64) {
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
    } else if x < a + 1.0 {
        let below = gamma_series(a, x);
        return (below, 1.0 - below);
    } else {
        let above = gamma_fraction(a, x);
        return (1.0 - above, above);
    };
    (known, 1.0 - known)
}

fn gamma_below(a: f64, x: f64) -> f64 {
    gamma_both(a, x).0
}

fn gamma_above(a: f64, x: f64) -> f64 {
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
    gamma_both(a, x).1
}

/// Returns the sum for `q > 0` and `x > 1` by Euler and Maclaurin.
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

fn gamma_derivative(n: f64, x: f64) -> f64 {
    if n == 0.0 {
        return digamma(x);
    }
    let sign = if n % 2.0 == 0.0 { -1.0 } else { 1.0 };
    sign * lgamma(n + 1.0).exp() * hurwitz(n + 1.0, x)
}
