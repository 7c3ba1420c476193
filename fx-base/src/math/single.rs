impl Real for f32 {
    const ZERO: f32 = 0.0;
    const ONE: f32 = 1.0;
    const NAN: f32 = f32::NAN;
    const INFINITY: f32 = f32::INFINITY;
    const MIN: f32 = f32::MIN;
    const NEGLIGIBLE: f64 = 1e-10;

    #[inline(always)]
    fn sin_cos_wide(x: f32) -> (f64, f64) {
        let (sin, cos, quadrant) = sin_cos_reduced(x);
        (sin_quadrant(sin, cos, quadrant), sin_quadrant(sin, cos, quadrant.wrapping_add(1)))
    }
    #[inline(always)]
    fn lgamma_wide(x: f64) -> f64 {
        lgamma_for_single(x)
    }

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
    fn exp_below(x: f32) -> f32 {
        exp_below32(x)
    }
    #[inline(always)]
    fn exp2(x: f32) -> f32 {
        let x = if x > 129.0 { 129.0 } else { x };
        let x = if x < -151.0 { -151.0 } else { x };
        let shifted = x + ROUND32;
        let f = x - (shifted - ROUND32);
        let p = 1.0
            + f * poly32(
                f,
                [0.693_147_2, 0.240_226_5, 0.055_503_57, 0.009_618_083, 0.001_339_086_3, 0.000_154_531_63],
            );
        p * power_of_two32(shifted, 0) * power_of_two32(shifted, 1)
    }
    #[inline(always)]
    fn expm1(x: f32) -> f32 {
        let y = expm1_64(f64::from(x)) as f32;
        if x.abs() < 1e-8 { x } else { y }
    }
    #[inline(always)]
    fn log(x: f32) -> f32 {
        let subnormal = x < f32::MIN_POSITIVE;
        let y = if subnormal { x * 8_388_608.0 } else { x };
        let bias = if subnormal { -23.0 } else { 0.0 };
        let ix = y.to_bits().wrapping_sub(SQRT_HALF32);
        let k = ((ix as i32) >> 23) as f32 + bias;
        let f = f32::from_bits((ix & 0x007f_ffff).wrapping_add(SQRT_HALF32)) - 1.0;
        let value = log_reduced32(k, f, 0.0);
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
        let u = 1.0 + x;
        let ix = u.to_bits().wrapping_sub(SQRT_HALF32);
        let k = ((ix as i32) >> 23) as f32;
        let f = f32::from_bits((ix & 0x007f_ffff).wrapping_add(SQRT_HALF32)) - 1.0;
        // What `u` lost, exactly, unless the sum is not needed.
        let lost = (if x > 1.0 { 1.0 - (u - x) } else { x - (u - 1.0) }) / u;
        let (f, lost) = (if k == 0.0 { x } else { f }, if k == 0.0 { 0.0 } else { lost });
        let value = log_reduced32(k, f, lost);
        let value = if x == -1.0 { f32::NEG_INFINITY } else { value };
        let value = if x == f32::INFINITY || x.abs() < 1e-8 { x } else { value };
        if x >= -1.0 { value } else { f32::NAN }
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
        // (e - 1) / (e + 1) for e = exp(-2 |x|), from e - 1 as it is near 0; from 10 on, the result rounds to 1.
        const SHIFT: f32 = ROUND32 + 127.0;
        let a = x.abs();
        let a = if a > 10.0 { 10.0 } else { a };
        let shifted = a.mul_add(-2.0 * std::f32::consts::LOG2_E, SHIFT);
        let n = shifted - SHIFT;
        let r = n.mul_add(2.121_944_4e-4, n.mul_add(-0.693_359_4, -2.0 * a));
        let q = poly32(r, [0.5, 0.166_665_73, 0.041_666_456, 0.008_363_769, 0.001_393_453_5]);
        let p = (r * r).mul_add(q, r);
        let power = f32::from_bits(shifted.to_bits() << 23);
        (power.mul_add(p, power - 1.0) / power.mul_add(p, power + 1.0)).copysign(x)
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
        let y = log64(x + (x * x - 1.0).sqrt()) as f32;
        // The root of a great square takes all of a negative number away.
        if x < 1.0 { f32::NAN } else { y }
    }
    #[inline(always)]
    fn atanh(x: f32) -> f32 {
        let a = f64::from(x);
        let y = (0.5 * log64((1.0 + a) / (1.0 - a))) as f32;
        if x.abs() < 1e-4 { x } else { y }
    }
    #[inline(always)]
    fn sigmoid(x: f32) -> f32 {
        let e = exp_below32(-x.abs());
        let y = (if x < 0.0 { e } else { 1.0 }) / (1.0 + e);
        // `exp(-x)` overflows there: PyTorch's quotient is 0.
        if x <= -88.722_84 { 0.0 } else { y }
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
        // Above, the result rounds to 0.
        let t = if a > 10.19 { 10.19 } else { a };
        let y = erfc_tail32(t);
        let y = if x < 0.0 { 2.0 - y } else { y };
        if a < 0.375 { 1.0 - erf_small32(x) } else { y }
    }
    #[inline(always)]
    fn erfinv(x: f32) -> f32 {
        let y = f64::from(x);
        // Chebyshev fits of erfinv(x) / x, good to 1e-10, in w below 5.5 and its root beyond. M. Giles
        // (Approximating the erfinv function, 2011) has these variables; the coefficients are others.
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
        lgamma_for_single(f64::from(x)) as f32
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
        1.0 / x.sqrt()
    }
    #[inline(always)]
    fn cbrt(x: f32) -> f32 {
        f64::from(x).cbrt() as f32
    }
    #[inline(always)]
    fn pow(x: f32, y: f32) -> f32 {
        let simple = simple_power32(x, y);
        let is_simple = y == 2.0 || y == 3.0 || y == 0.5 || y == -1.0;
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
        let value = (if one { 1.0 } else { value }) as f32;
        if is_simple { simple } else { value }
    }
    #[inline(always)]
    fn silu(x: f32) -> f32 {
        x * <f32 as Real>::sigmoid(x)
    }
    #[inline(always)]
    fn ndtr(x: f32) -> f32 {
        let a = x.abs();
        // Above, the tail rounds to 0.
        let a = if a > 14.42 { 14.42 } else { a };
        let tail = normal_tail32(a);
        if x < 0.0 { tail } else { 1.0 - tail }
    }
    #[inline(always)]
    fn gelu(x: f32) -> f32 {
        x * <f32 as Real>::ndtr(x)
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
