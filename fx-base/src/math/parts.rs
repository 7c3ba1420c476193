const LN_2: f64 = std::f64::consts::LN_2;
const LOG2_E: f64 = std::f64::consts::LOG2_E;
pub(crate) const PI: f64 = std::f64::consts::PI;
const FRAC_PI_2: f64 = std::f64::consts::FRAC_PI_2;
const FRAC_PI_4: f64 = std::f64::consts::FRAC_PI_4;
pub(crate) const FRAC_1_SQRT_2: f64 = std::f64::consts::FRAC_1_SQRT_2;
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

/// Returns the polynomial with these coefficients, the even powers apart from the odd ones, so that half as
/// many steps wait for each other.
#[inline(always)]
pub(crate) fn poly<const N: usize>(x: f64, c: [f64; N]) -> f64 {
    let z = x * x;
    let (mut these, mut others) = (c[N - 1], c[N - 2]);
    let mut i = N - 2;
    while i > 1 {
        i -= 2;
        these = these * z + c[i + 1];
        others = others * z + c[i];
    }
    if i == 1 {
        return (these * z + c[0]) + x * others;
    }
    others + x * these
}

#[inline(always)]
fn poly32<const N: usize>(x: f32, c: [f32; N]) -> f32 {
    let mut sum = c[N - 1];
    let mut i = N - 1;
    while i > 0 {
        i -= 1;
        sum = sum.mul_add(x, c[i]);
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
    let (p, shifted) = exp_parts32(x, low);
    p * power_of_two32(shifted, 0) * power_of_two32(shifted, 1)
}

/// Returns `p` near 1 and `n + ROUND32` with `exp(high + low) = p * 2^n`.
#[inline(always)]
fn exp_parts32(high: f32, low: f32) -> (f32, f32) {
    let shifted = high.mul_add(std::f32::consts::LOG2_E, ROUND32);
    let n = shifted - ROUND32;
    let r = n.mul_add(2.121_944_4e-4, n.mul_add(-0.693_359_4, high)) + low;
    let p = poly32(r, [1.0, 1.0, 0.5, 0.166_665_73, 0.041_666_456, 0.008_363_769, 0.001_393_453_5]);
    (p, shifted)
}

/// Returns `exp(x)` of a number that is not positive, within 1 ULP.
#[inline(always)]
fn exp_below32(x: f32) -> f32 {
    // The polynomial is 2^64 times too small, so that one power of two is enough for results that are subnormal.
    const S: f32 = f32::from_bits((127 - 64) << 23);
    const SHIFT: f32 = 12_582_912.0 + 127.0 + 64.0;
    // Below, the result rounds to 0.
    let x = if x < -104.0 { -104.0 } else { x };
    let shifted = x.mul_add(std::f32::consts::LOG2_E, SHIFT);
    let n = shifted - SHIFT;
    let r = n.mul_add(2.121_944_4e-4, n.mul_add(-0.693_359_4, x));
    let p = poly32(r, [S, S, 0.5 * S, 0.166_665_73 * S, 0.041_666_456 * S, 0.008_363_769 * S, 0.001_393_453_5 * S]);
    p * f32::from_bits(shifted.to_bits() << 23)
}

/// Returns one of two factors of 2^n, where `shifted` is `n + ROUND32`: the exponent of a subnormal or of
/// 2^128 does not fit into one.
#[inline(always)]
fn power_of_two32(shifted: f32, which: i32) -> f32 {
    let n = shifted.to_bits().wrapping_sub(ROUND32.to_bits()) as i32;
    let half = (n.wrapping_add(which)) >> 1;
    f32::from_bits((half.wrapping_add(127) as u32) << 23)
}

const SQRT_HALF32: u32 = 0x3f35_04f3;

/// Returns `k * LN_2 + log(1 + f) + lost` for `1 + f` between the root of one half and that of two.
#[inline(always)]
fn log_reduced32(k: f32, f: f32, lost: f32) -> f32 {
    let s = f / (2.0 + f);
    let z = s * s;
    let r = z * poly32(z, [0.666_666_87, 0.399_886_23, 0.295_867_4]);
    let half_square = 0.5 * f * f;
    k * 0.693_359_4 + (((s * (half_square + r) + (k * -2.121_944_4e-4 + lost)) - half_square) + f)
}

/// Returns `x` to the power of 2, 3, 1/2 or -1, rounded once (the third power twice), with the special cases
/// of `pow`.
#[inline(always)]
fn simple_power32(x: f32, y: f32) -> f32 {
    let wide = f64::from(x);
    let root = if x == f32::NEG_INFINITY { f32::INFINITY } else { (x + 0.0).sqrt() };
    let power = if y == 3.0 { (wide * wide * wide) as f32 } else { x * x };
    let power = if y == 0.5 { root } else { power };
    if y == -1.0 { 1.0 / x } else { power }
}

/// Returns `erfc(t)` for `t` from 0 to 10.19.
#[inline(always)]
fn erfc_tail32(t: f32) -> f32 {
    // 2^-64, so that one power of two is enough for results that are subnormal.
    const S: f32 = f32::from_bits((127 - 64) << 23);
    // The square of the upper 12 bits is exact.
    let upper = f32::from_bits(t.to_bits() & 0xffff_f000);
    let (p, shifted) = exp_parts32(-upper * upper, -(t - upper) * (t + upper));
    let u = 1.0 / (t + 3.0);
    let q = poly32(
        (t - 3.0) * u,
        [
            1.074_006_9 * S,
            -0.883_394_5 * S,
            0.590_228_44 * S,
            -0.310_466_6 * S,
            0.119_527_2 * S,
            -0.026_836_796 * S,
            -0.001_216_994_4 * S,
            0.003_078_341_3 * S,
            -0.000_498_761_2 * S,
            -0.000_333_718_05 * S,
        ],
    );
    let bits = shifted.to_bits().wrapping_sub(ROUND32.to_bits()).wrapping_add(127 + 64);
    q * u * p * f32::from_bits(bits << 23)
}

/// Returns the normal distribution's mass above `a`, from 0 to 14.42.
#[inline(always)]
fn normal_tail32(a: f32) -> f32 {
    // 2^-64, so that one power of two is enough for results that are subnormal.
    const S: f32 = f32::from_bits((127 - 64) << 23);
    const SHIFT: f32 = 12_582_912.0 + 127.0 + 64.0;
    // The square without an error, in two parts.
    let high = a * a;
    let low = a.mul_add(a, -high);
    // exp(-a^2 / 2) = exp(-r / 2) * 2^n.
    let shifted = high.mul_add(-0.5 * std::f32::consts::LOG2_E, SHIFT);
    let n = shifted - SHIFT;
    let r = n.mul_add(-4.243_888_8e-4, n.mul_add(1.386_718_8, high)) + low;
    let p = poly32(r, [1.0, -0.5, 0.125, -0.020_833_216, 0.002_604_153_5, -0.000_261_367_8, 2.177_271e-5]);
    // A fit of the tail times exp(a^2 / 2) * (a + 2.9), good to 2^-25.
    let u = 1.0 / (a + 2.9);
    let q = poly32(
        (a - 2.9) * u,
        [
            0.725_277_96 * S,
            -0.495_965_45 * S,
            0.211_311_37 * S,
            -0.034_524_698 * S,
            -0.013_561_663 * S,
            0.005_658_883_6 * S,
            0.001_739_832_3 * S,
            -0.000_719_685_17 * S,
            -0.000_318_417_9 * S,
        ],
    );
    q * u * p * f32::from_bits(shifted.to_bits() << 23)
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

/// Returns the logarithm of the magnitude of the gamma function, good to 2^-36 of the larger of 1 and the
/// result, and of the result for positive `x`.
#[inline(always)]
fn lgamma_for_single(x: f64) -> f64 {
    let a = x.abs();
    // Between 1/2 and 5/2 by a fit around 2; elsewhere by Stirling's series (DLMF 5.11.1), below 8 that of
    // `a + 8`.
    let is_near = (0.5..2.5).contains(&a);
    let is_below = a < 1.5;
    let s = a - if is_below { 1.0 } else { 2.0 };
    let near = s * poly(
        s,
        [
            0.422_784_335_099_795_3,
            0.322_467_033_423_496_6,
            -0.067_352_301_435_415_07,
            0.020_580_808_605_237_744,
            -0.007_385_533_261_288_008,
            0.002_890_502_082_143_989_6,
            -0.001_193_054_705_040_670_6,
            0.000_509_809_158_031_352_7,
            -0.000_220_869_826_024_256_32,
            9.839_697_643_190_869e-5,
            -5.278_721_858_454_867e-5,
            2.415_459_538_127_868_8e-5,
        ],
    );
    let is_small = a < 8.0;
    let z = if is_small { a + 8.0 } else { a };
    let i = 1.0 / z;
    let series = i * poly(i * i, [1.0 / 12.0, -1.0 / 360.0, 1.0 / 1260.0, -1.0 / 1680.0, 1.0 / 1188.0]);
    let far = (z - 0.5) * (log64(z) - 1.0) + (0.418_938_533_204_672_7 + series);
    let product =
        (a * (a + 7.0)) * ((a + 1.0) * (a + 6.0)) * ((a + 2.0) * (a + 5.0)) * ((a + 3.0) * (a + 4.0));
    let product = if is_small { product } else { 1.0 };
    let divisor = if is_near { if is_below { a } else { 1.0 } } else { product };
    let value = if is_near { near } else { far } - log64(divisor);
    // The reflection (DLMF 5.5.3); the sine is taken of the distance to the nearest integer.
    let d = a - rint(a);
    let sine = d.abs()
        * poly(
            d * d,
            [
                3.141_592_653_589_635,
                -5.167_712_779_987_959,
                2.550_164_035_906_745,
                -0.599_264_433_935_728_6,
                0.082_144_794_670_648_54,
                -0.007_364_005_472_115_722,
                0.000_447_492_084_907_710_1,
            ],
        );
    let reflected = log64(PI / (sine * a)) - value;
    let is_pole = x <= 0.0 && d == 0.0 || a == f64::INFINITY;
    let value = if x < 0.0 { reflected } else { value };
    if is_pole { f64::INFINITY } else { value }
}
