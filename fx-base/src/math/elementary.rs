// Elementary functions of f64 to nearly full precision, straight-line as those of f32. Coefficients of
// `exp_sum64`, `log_full` and `sin_cos64` are those of fdlibm (Sun Microsystems, 1993), which bounds their
// errors by 1 ULP.

/// Returns `exp(high + low)` for small `low`, within 1 ULP.
#[inline(always)]
pub(crate) fn exp_sum64(high: f64, low: f64) -> f64 {
    let x = if high > 710.0 { 710.0 } else { high };
    let x = if x < -746.0 { -746.0 } else { x };
    let shifted = x * LOG2_E + ROUND;
    let n = shifted - ROUND;
    let upper = x - n * 0.693_147_180_369_123_8;
    let lower = n * 1.908_214_929_270_587_7e-10 - low;
    let r = upper - lower;
    let z = r * r;
    let c = r - z * poly(
        z,
        [
            0.166_666_666_666_666_02,
            -0.002_777_777_777_701_559_3,
            6.613_756_321_437_934e-5,
            -1.653_390_220_546_525_2e-6,
            4.138_136_797_057_238_5e-8,
        ],
    );
    let p = 1.0 + (r * c / (2.0 - c) - lower + upper);
    // Two factors, for the exponent of a subnormal or of 2^1024 does not fit into one.
    let n = shifted.to_bits().wrapping_sub(ROUND.to_bits()) as i64;
    let half = n >> 1;
    let s1 = f64::from_bits((half.wrapping_add(1023) as u64) << 52);
    let s2 = f64::from_bits((n.wrapping_sub(half).wrapping_add(1023) as u64) << 52);
    p * s1 * s2
}

/// Returns the natural logarithm, within 1 ULP.
#[inline(always)]
pub(crate) fn log_full(x: f64) -> f64 {
    const SQRT_HALF: u64 = 0x3fe6_a09e_667f_3bcd;
    let subnormal = x < f64::MIN_POSITIVE;
    let y = if subnormal { x * 18_014_398_509_481_984.0 } else { x };
    let bias = if subnormal { 4_503_599_627_371_573.0 } else { 4_503_599_627_371_519.0 };
    let ix = y.to_bits().wrapping_add(0x3ff0_0000_0000_0000 - SQRT_HALF);
    let k = f64::from_bits(0x4330_0000_0000_0000 | (ix >> 52)) - bias;
    let f = f64::from_bits((ix & 0x000f_ffff_ffff_ffff).wrapping_add(SQRT_HALF)) - 1.0;
    let s = f / (2.0 + f);
    let z = s * s;
    let r = z * poly(
        z,
        [
            0.666_666_666_666_673_5,
            0.399_999_999_994_094_2,
            0.285_714_287_436_623_9,
            0.222_221_984_321_497_84,
            0.181_835_721_616_180_5,
            0.153_138_376_992_093_73,
            0.147_981_986_051_165_86,
        ],
    );
    let half_square = 0.5 * f * f;
    let low = s * (half_square + r) + k * 1.908_214_929_270_587_7e-10;
    log_special(x, k * 0.693_147_180_369_123_8 - ((half_square - low) - f))
}

/// Below this magnitude [`sin_cos64`] holds.
const NEAR: f64 = 524_288.0;

/// Returns sine and cosine of the reduced angle and the quadrant, for `|x| < NEAR`.
#[inline(always)]
fn sin_cos64(x: f64) -> (f64, f64, u64) {
    let shifted = x * std::f64::consts::FRAC_2_PI + ROUND;
    let n = shifted - ROUND;
    // Three parts of pi / 2 whose products with `n` are exact, and the rest.
    let first = x - n * 1.570_796_326_734_125_6;
    let step = n * 6.077_100_506_303_966e-11;
    let second = first - step;
    let lost = (first - second) - step;
    let step = n * 2.022_266_248_711_166_5e-21;
    let third = second - step;
    let rest = ((second - third) - step) + (lost - n * 8.478_427_660_368_9e-32);
    let r = third + rest;
    let low = (third - r) + rest;
    let z = r * r;
    let s = poly(
        z,
        [
            0.008_333_333_333_322_49,
            -0.000_198_412_698_298_579_5,
            2.755_731_370_707_006_8e-6,
            -2.505_076_025_340_686_3e-8,
            1.589_690_995_211_55e-10,
        ],
    );
    let cube = z * r;
    let sin = r - ((z * (0.5 * low - cube * s) - low) + cube * 0.166_666_666_666_666_32);
    let c = z
        * z
        * poly(
            z,
            [
                0.041_666_666_666_666_6,
                -0.001_388_888_888_887_411,
                2.480_158_728_947_673e-5,
                -2.755_731_435_139_066_3e-7,
                2.087_572_321_298_175e-9,
                -1.135_964_755_778_819_5e-11,
            ],
        );
    let half = 0.5 * z;
    let upper = 1.0 - half;
    let cos = upper + (((1.0 - upper) - half) + (c - r * low));
    (sin, cos, shifted.to_bits())
}

/// Returns the hyperbolic tangent, with Cephes' quotient of polynomials near zero.
#[inline(always)]
fn tanh64(x: f64) -> f64 {
    let a = x.abs();
    let z = x * x;
    let p = poly(z, [-1_614.687_684_417_084_5, -99.287_723_100_191_86, -0.964_399_179_425_052_2]);
    let q = poly(z, [4_844.063_053_251_255, 2_235.488_390_601_004_5, 112.811_678_491_632_94, 1.0]);
    let small = x + x * (z * (p / q));
    let large = 1.0 - 2.0 / (exp_sum64(a + a, 0.0) + 1.0);
    (if a < 0.625 { small } else { large }).copysign(x)
}

/// Returns `erf(x)` for `|x| < 3 / 4`.
#[inline(always)]
fn erf_small64(x: f64) -> f64 {
    x * poly(
        x * x,
        [
            1.128_379_167_095_512_6,
            -0.376_126_389_031_837_15,
            0.112_837_916_709_525_96,
            -0.026_866_170_644_428_485,
            0.005_223_977_615_420_539,
            -0.000_854_832_618_875_975_2,
            0.000_120_552_895_675_417_06,
            -1.492_419_630_556_961_7e-5,
            1.643_068_417_974_155e-6,
            -1.594_006_685_466_171_7e-7,
            1.147_249_970_109_469_1e-8,
        ],
    )
}

/// Returns `erfc(t)` for `t >= 0`: the Gaussian times a Chebyshev fit of `(t + 3) exp(t^2) erfc(t)`.
#[inline(always)]
fn erfc_positive(t: f64) -> f64 {
    let t = if t > 28.0 { 28.0 } else { t };
    // The square of the upper 26 bits is exact.
    let upper = f64::from_bits(t.to_bits() & 0xffff_ffff_f800_0000);
    let gauss = exp_sum64(-upper * upper, -(t - upper) * (t + upper));
    let u = 1.0 / (t + 3.0);
    let q = poly(
        (t - 3.0) * u,
        [
            1.074_006_907_088_339_8,
            -0.883_394_453_169_882_2,
            0.590_228_357_104_083_4,
            -0.310_467_261_900_707_6,
            0.119_527_761_288_207_93,
            -0.026_827_234_620_297_2,
            -0.001_212_416_644_723_739_7,
            0.003_034_061_942_647_640_3,
            -0.000_548_309_523_208_722,
            -0.000_276_777_385_409_292,
            0.000_107_560_562_944_573_99,
            3.039_593_360_004_299_3e-5,
            -1.746_752_460_495_402e-5,
            -4.742_312_628_919_742e-6,
            2.759_343_651_272_585_4e-6,
            9.850_187_404_535_528e-7,
            -4.011_149_500_675_881e-7,
            -2.158_413_425_194_816_3e-7,
            4.257_517_294_571_499_6e-8,
            3.711_758_008_722_039e-8,
            -1.362_583_847_876_307_3e-9,
            -2.989_972_084_411_453_4e-9,
        ],
    );
    gauss * (q * u)
}
