use crate::math::{self, Real};

/// Pastes the text as generated code does.
mod pasted {
    #![allow(
        dead_code,
        unreachable_pub,
        unused_imports,
        clippy::approx_constant,
        reason = "the pasted text is the whole library"
    )]
    include!("../math/real.rs");
    include!("../math/parts.rs");
    include!("../math/elementary.rs");
    include!("../math/single.rs");
    include!("../math/double.rs");
    include!("../special/gamma.rs");
    include!("../special/bessel.rs");
    include!("../special/polynomials.rs");
}

#[test]
fn text_stands_alone() {
    assert!(!super::SOURCE.contains("crate::") && !super::SOURCE.contains("super::"));
    assert!(!super::SOURCE.contains("//!"));
    assert_eq!(pasted::exp(1.5f32).to_bits(), math::exp(1.5f32).to_bits());
}

/// Returns the distance of `got` to the exact `want` in units of the last place of f32 at `want`.
fn ulp(got: f32, want: f64) -> f64 {
    let rounded = want as f32;
    if got == rounded || (got.is_nan() && want.is_nan()) {
        return 0.0;
    }
    if !got.is_finite() || !want.is_finite() {
        // An overflow that rounding f64 to f32 does not have, or the reverse, counts from the limit.
        let limit = f64::from(f32::MAX) * (1.0 + 2f64.powi(-24));
        return if got.is_infinite() && want.abs() >= limit * (1.0 - 2f64.powi(-23)) { 1.0 } else { 1e9 };
    }
    let exponent = want.abs().log2().floor().max(-126.0);
    (f64::from(got) - want).abs() / (exponent - 23.0).exp2()
}

fn sweep() -> impl Iterator<Item = f32> {
    (0..=u32::MAX).step_by(4099).map(f32::from_bits).chain([
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        2.0,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        f32::MAX,
        f32::MIN,
        f32::MIN_POSITIVE,
        1e-45,
        -1e-45,
        88.72283,
        88.72284,
        -103.97,
        -104.1,
        -87.4,
        0.625,
        0.927,
        22.0,
        10.05,
    ])
}

fn check(
    name: &str,
    bound: f64,
    f: impl Fn(f32) -> f32,
    reference: impl Fn(f64) -> f64,
    keep: impl Fn(f32) -> bool,
) {
    let mut worst = (0.0, 0.0f32);
    for x in sweep().filter(|x| keep(*x)) {
        let error = ulp(f(x), reference(f64::from(x)));
        if error > worst.0 {
            worst = (error, x);
        }
    }
    let (error, x) = worst;

    assert!(error <= bound, "{name}({x:e}) = {:e}, {error} ULP from {:e}", f(x), reference(f64::from(x)));
}

#[test]
fn f32_functions_keep_their_bounds() {
    let all = |_: f32| true;
    macro_rules! bounds {
        ($($name:ident $bound:literal $reference:expr, $keep:expr;)*) => {
            $(check(stringify!($name), $bound, math::$name::<f32>, $reference, $keep);)*
        };
    }
    bounds! {
        exp 1.0 f64::exp, all;
        exp2 1.25 f64::exp2, all;
        expm1 1.0 f64::exp_m1, all;
        log 1.0 f64::ln, all;
        log2 1.0 f64::log2, all;
        log10 1.0 f64::log10, all;
        log1p 1.0 f64::ln_1p, all;
        sin 1.0 f64::sin, all;
        cos 1.0 f64::cos, all;
        tan 1.0 f64::tan, all;
        asin 1.0 f64::asin, all;
        acos 1.0 f64::acos, all;
        atan 1.0 f64::atan, all;
        sinh 1.0 f64::sinh, all;
        cosh 1.0 f64::cosh, all;
        tanh 2.0 f64::tanh, all;
        asinh 1.0 |x| x.abs().asinh().copysign(x), |x| x.abs() < 1e18;
        acosh 1.0 f64::acosh, all;
        atanh 1.0 f64::atanh, all;
        sigmoid 3.0 |x| if x <= f64::from(-88.722_84_f32) { 0.0 } else { 1.0 / (1.0 + (-x).exp()) }, all;
        erf 2.0 <f64 as Real>::erf, all;
        erfc 6.0 <f64 as Real>::erfc, all;
        rsqrt 1.5 |x| 1.0 / x.sqrt(), all;
        silu 3.0 |x| x / (1.0 + (-x).exp()), |x| x > -87.0;
        ndtr 7.0 <f64 as Real>::ndtr, all;
        gelu 7.0 <f64 as Real>::gelu, |x| x.is_nan() || x > -13.0;
        gelu_tanh 1.0 <f64 as Real>::gelu_tanh, all;
        mish 1.0 <f64 as Real>::mish, all;
    }
    check("softplus", 2.0, |x| math::softplus(x, 1.5, 20.0), |x| math::softplus(x, 1.5, 20.0), all);
    let positive = |x: f32| x.is_nan() || x >= 0.0;
    check("lgamma", 1.0, math::lgamma::<f32>, <f64 as Real>::lgamma, positive);
    let away =
        |x: f32| x < 0.0 && (x - x.round()).abs() > 0.01 && <f64 as Real>::lgamma(x.into()).abs() > 0.01;
    check("lgamma", 1.0, math::lgamma::<f32>, <f64 as Real>::lgamma, away);
    for x in [1e-30f32, 1e30, -1e30, f32::INFINITY, f32::MAX] {
        assert!(ulp(math::asinh(x), f64::from(x).asinh()) <= 1.0, "asinh({x})");
    }
}

#[test]
fn f64_functions_are_as_good_as_those_of_std() {
    let values: Vec<f64> = (0..=u64::MAX)
        .step_by(41_538_374_868_278_621)
        .map(f64::from_bits)
        .chain((-4000..4000).map(|i| f64::from(i) * 0.178_93))
        .chain((-400..400).map(|i| f64::from(i) * 1310.7))
        .chain([0.0, -0.0, 1.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 5e-324, 709.782, 709.783, -745.1])
        .chain((1..40).map(|i| f64::from(i) * std::f64::consts::FRAC_PI_2))
        .collect();
    let same = |name: &str, ours: fn(f64) -> f64, std: fn(f64) -> f64| {
        for &x in &values {
            let (got, want) = (ours(x), std(x));
            let near = (got - want).abs() <= 2.0 * f64::EPSILON * want.abs() || got == want;
            assert!(near || (got.is_nan() && want.is_nan()), "{name}({x:e}) = {got:e}, expected {want:e}");
        }
    };
    same("exp", math::exp, f64::exp);
    same("log", math::log, f64::ln);
    same("sin", math::sin, f64::sin);
    same("cos", math::cos, f64::cos);
    same("tanh", math::tanh, f64::tanh);
    same("sigmoid", math::sigmoid, |x| 1.0 / (1.0 + (-x).exp()));
}

#[test]
fn binary_f32_functions_keep_their_bounds() {
    let values: Vec<f32> = (0..=u32::MAX)
        .step_by(7_340_033)
        .map(f32::from_bits)
        .chain([0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 3.0, 0.5, -0.5, f32::INFINITY, f32::NEG_INFINITY, f32::NAN])
        .chain((-40..40).map(|i| i as f32 * 0.37))
        .collect();
    for &x in &values {
        for &y in &values {
            let (a, b) = (f64::from(x), f64::from(y));
            let (got, want) = (math::pow(x, y), a.powf(b));
            assert!(ulp(got, want) <= 1.0, "pow({x:e}, {y:e}) = {got:e}, expected {want:e}");
            let (got, want) = (math::atan2(x, y), a.atan2(b));
            assert!(ulp(got, want) <= 1.0, "atan2({x:e}, {y:e}) = {got:e}, expected {want:e}");
            assert!(
                got.is_nan() || got.is_sign_negative() == want.is_sign_negative(),
                "sign of atan2({x}, {y})"
            );
        }
    }
}

#[test]
fn f32_remainders_are_exact() {
    let values: Vec<f32> = (0..=u32::MAX)
        .step_by(7_340_033)
        .map(f32::from_bits)
        .chain([
            0.0,
            -0.0,
            1.0,
            -1.0,
            3.0,
            f32::INFINITY,
            f32::NEG_INFINITY,
            f32::NAN,
            1e-45,
            f32::MIN_POSITIVE,
        ])
        .chain((-40..40).map(|i| i as f32 * 0.37))
        .chain((1..40).map(|i| 16_777_216.0 - i as f32))
        .collect();
    for &x in &values {
        for &y in &values {
            let (got, want) = (math::fmod(x, y), x % y);
            assert!(
                got.to_bits() == want.to_bits() || (got.is_nan() && want.is_nan()),
                "{x:e} % {y:e}: {got:e}"
            );
        }
    }
}

#[test]
fn f32_erfinv_keeps_its_bound() {
    let near_ends = (0..4096).map(|i| f32::from_bits(1f32.to_bits() - i));
    for x in near_ends.chain((0..=1f32.to_bits()).step_by(99_991).map(f32::from_bits)) {
        let want = math::erfinv(f64::from(x));
        assert!(ulp(math::erfinv(x), want) <= 1.0, "erfinv({x:e})");
        assert_eq!(math::erfinv(-x).to_bits(), (-math::erfinv(x)).to_bits());
    }
    assert!(math::erfinv(1.5f32).is_nan() && math::erfinv(f32::NAN).is_nan());
}

#[test]
fn odd_functions_keep_the_sign_of_zero() {
    for f in [
        math::sin::<f32>,
        math::tan,
        math::asin,
        math::atan,
        math::sinh,
        math::tanh,
        math::asinh,
        math::atanh,
        math::expm1,
        math::log1p,
        math::erf,
        math::erfinv,
        math::silu,
        math::gelu,
        math::gelu_tanh,
        math::mish,
    ] {
        assert_eq!(f(-0.0).to_bits(), (-0.0f32).to_bits());
        assert_eq!(f(0.0).to_bits(), 0);
    }
}

#[test]
fn f64_special_functions_match_exact_values() {
    // Computed with 60 digits by mpmath.
    let near = |got: f64, want: f64, name: &str| {
        assert!((got - want).abs() <= 4e-15 * want.abs(), "{name}: {got:e}, expected {want:e}");
    };
    near(math::erf(1e-10), 1.1283791670955126e-10, "erf(1e-10)");
    near(math::erf(0.1), 0.1124629160182849, "erf(0.1)");
    near(math::erf(0.5), 0.5204998778130465, "erf(0.5)");
    near(math::erf(0.74), 0.7046780778547458, "erf(0.74)");
    near(math::erf(0.76), 0.7175367528055908, "erf(0.76)");
    near(math::erf(1.0), 0.8427007929497149, "erf(1.0)");
    near(math::erf(1.7), 0.9837904585907745, "erf(1.7)");
    near(math::erf(3.1), 0.9999883513426328, "erf(3.1)");
    near(math::erf(5.5), 0.9999999999999927, "erf(5.5)");
    near(math::erf(-0.9), -0.7969082124228322, "erf(-0.9)");
    near(math::erfc(-2.0), 1.9953222650189528, "erfc(-2.0)");
    near(math::erfc(-0.3), 1.3286267594591274, "erfc(-0.3)");
    near(math::erfc(0.1), 0.887537083981715, "erfc(0.1)");
    near(math::erfc(0.3), 0.6713732405408726, "erfc(0.3)");
    near(math::erfc(0.38), 0.5909905465803059, "erfc(0.38)");
    near(math::erfc(0.9), 0.20309178757716786, "erfc(0.9)");
    near(math::erfc(1.5), 0.033894853524689274, "erfc(1.5)");
    near(math::erfc(3.0), 2.209049699858544e-05, "erfc(3.0)");
    near(math::erfc(7.3), 5.502573750691923e-25, "erfc(7.3)");
    near(math::erfc(12.0), 1.3562611692059042e-64, "erfc(12.0)");
    near(math::erfc(26.0), 5.663192408856143e-296, "erfc(26.0)");
    near(math::erfinv(1e-09), 8.86226925452758e-10, "erfinv(1e-09)");
    near(math::erfinv(0.001), 0.0008862271574665521, "erfinv(0.001)");
    near(math::erfinv(0.3), 0.2724627147267543, "erfinv(0.3)");
    near(math::erfinv(0.7), 0.7328690779592167, "erfinv(0.7)");
    near(math::erfinv(0.99), 1.8213863677184494, "erfinv(0.99)");
    near(math::erfinv(0.9999999), 3.7665625816384707, "erfinv(0.9999999)");
    near(math::erfinv(-0.5), -0.4769362762044699, "erfinv(-0.5)");
    near(math::lgamma(1e-12), 27.63102111592797, "lgamma(1e-12)");
    near(math::lgamma(0.1), 2.252712651734206, "lgamma(0.1)");
    near(math::lgamma(0.6), 0.39823385806923495, "lgamma(0.6)");
    near(math::lgamma(0.99), 0.005854806764709781, "lgamma(0.99)");
    near(math::lgamma(1.01), -0.005690307946069651, "lgamma(1.01)");
    near(math::lgamma(1.4616), -0.12148629003589732, "lgamma(1.4616)");
    near(math::lgamma(1.9), -0.03898427592308336, "lgamma(1.9)");
    near(math::lgamma(2.1), 0.04543773854448518, "lgamma(2.1)");
    near(math::lgamma(3.7), 1.428072326665388, "lgamma(3.7)");
    near(math::lgamma(7.9), 8.32426586800881, "lgamma(7.9)");
    near(math::lgamma(8.1), 8.72738826343204, "lgamma(8.1)");
    near(math::lgamma(55.5), 166.32150615984037, "lgamma(55.5)");
    near(math::lgamma(10000000000.0), 220258509288.81058, "lgamma(10000000000.0)");
    near(math::lgamma(1e+300), 6.897755278982137e+302, "lgamma(1e+300)");
    near(math::lgamma(-0.3), 1.4648400508576025, "lgamma(-0.3)");
    near(math::lgamma(-0.7), 1.4524729387568078, "lgamma(-0.7)");
    near(math::lgamma(-1.5), 0.860047015376481, "lgamma(-1.5)");
    near(math::lgamma(-20.3), -41.887292480135244, "lgamma(-20.3)");
    near(math::digamma(1e-09), -1000000000.5772156, "digamma(1e-09)");
    near(math::digamma(0.2), -5.289039896592188, "digamma(0.2)");
    near(math::digamma(1.0), -0.5772156649015329, "digamma(1.0)");
    near(math::digamma(2.5), 0.7031566406452432, "digamma(2.5)");
    near(math::digamma(9.9), 2.2411803166063815, "digamma(9.9)");
    near(math::digamma(10.1), 2.262214357094148, "digamma(10.1)");
    near(math::digamma(1000000.0), 13.815510057964191, "digamma(1000000.0)");
    near(math::digamma(-0.3), 2.113309779635399, "digamma(-0.3)");
    near(math::digamma(-4.7), -0.6323109014236109, "digamma(-4.7)");
    assert_eq!(math::lgamma(1.0), 0.0);
    assert_eq!(math::lgamma(2.0), 0.0);
    assert_eq!(math::lgamma(-3.0), f64::INFINITY);
    assert_eq!(math::digamma(0.0), f64::NEG_INFINITY);
    assert_eq!(math::digamma(-0.0), f64::INFINITY);
    assert!(math::digamma(-2.0f64).is_nan() && math::erfinv(1.5f64).is_nan());
    assert_eq!(math::erfinv(-1.0), f64::NEG_INFINITY);
    for i in 1..2000 {
        let y = f64::from(i) * 0.0029;
        let x = math::erf(y);
        if y < 2.0 {
            assert!((math::erfinv(x) - y).abs() < 4e-14, "erfinv(erf({y}))");
        }
        assert!((x + math::erfc(y) - 1.0).abs() < 4e-16);
    }
}

#[test]
fn rounding_and_division_follow_python() {
    assert_eq!([-1.5, -0.5, 0.5, 1.5, 2.5].map(math::round::<f32>), [-2.0, -0.0, 0.0, 2.0, 2.0]);
    assert_eq!([-2.0, 0.0, 3.0, f64::NAN].map(math::sign), [-1.0, 0.0, 1.0, 0.0]);
    assert_eq!(math::fmod(-7.0f32, 3.0), -1.0);
    assert_eq!(math::remainder(-7.0f32, 3.0), 2.0);
    assert_eq!(math::remainder(7.0f32, -3.0), -2.0);
    assert_eq!(math::floor_divide(-7.0f32, 3.0), -3.0);
    assert_eq!(math::floor_divide(1.0f64, 0.1), 9.0);
    assert_eq!(math::floor_divide(1.0f32, 0.0), f32::INFINITY);
    assert!(math::maximum(f32::NAN, 1.0).is_nan() && math::maximum(1.0, f32::NAN).is_nan());
    assert_eq!(math::minimum(2.0f32, 1.0), 1.0);
}

/// The elements of a row that tell orders of additions apart.
fn elements(n: usize) -> Vec<f32> {
    (0..n).map(|i| ((i * 7919 + 13) % 1009) as f32 / 64.0 - 7.5).collect()
}

#[test]
fn rows_of_any_length_are_joined() {
    use crate::row;
    assert!(!super::ROW.contains("crate::"));
    for n in (0..70).chain([127, 128, 1023, 1024, 1025, 5000]) {
        let x = elements(n);
        let wide: Vec<f64> = x.iter().map(|&x| f64::from(x)).collect();
        let near = |got: f32, want: f64, size: f64| {
            assert!((f64::from(got) - want).abs() <= 1e-6 * size.max(1.0), "{n}: {got}, exactly {want}");
        };
        let size: f64 = wide.iter().map(|x| x.abs()).sum();
        near(row::sum(&x), wide.iter().sum(), size);
        near(row::sum_of(&x, |x| x + 1.0), wide.iter().map(|x| x + 1.0).sum(), size + n as f64);
        let cubes: f64 = wide.iter().map(|x| x * x * x).sum();
        assert_eq!(row::sum_in_f64(&x, |x| f64::from(x).powi(3)), cubes, "cubes of quarters are exact");
        let squares: f64 = wide.iter().map(|x| x * x).sum();
        near(row::sum_squares(&x), squares, squares);
        near(row::dot(&x, &x), squares, squares * 10.0);
        assert_eq!(row::sum(&wide), wide.iter().sum(), "sums of quarters are exact");
        assert_eq!(row::max(&x), x.iter().copied().fold(f32::NEG_INFINITY, f32::max), "{n}");
        assert_eq!(row::min(&x), x.iter().copied().fold(f32::INFINITY, f32::min), "{n}");
        assert_eq!(row::max_of(&x, |x| -x), -row::min(&x));
        assert_eq!(row::min_of(&x, |x| -x), -row::max(&x));
        for at in [0, n / 2, n.saturating_sub(1)].into_iter().filter(|at| *at < n) {
            let mut x = x.clone();
            x[at] = f32::NAN;
            assert!(row::max(&x).is_nan() && row::min(&x).is_nan() && row::sum(&x).is_nan(), "{n} {at}");
        }
    }
    assert!(row::mean::<f32>(&[]).is_nan());
    assert_eq!(row::mean(&[1.0, 2.0, 6.0]), 3.0);
    // Ones beyond the precision of f32 are still counted.
    assert_eq!(row::sum(&vec![1.0f32; (1 << 24) + 1024]), ((1 << 24) + 1024) as f32);
}

/// The sum of terms in the order that is promised: term `i` is added to lane `i % 32`, and the lanes are a tree.
fn sum_in_lanes(terms: impl Iterator<Item = f32>) -> f32 {
    let mut lanes = [0.0f32; 32];
    terms.enumerate().for_each(|(i, term)| lanes[i % 32] += term);
    for width in [16, 8, 4, 2, 1] {
        (0..width).for_each(|i| lanes[i] += lanes[i + width]);
    }
    lanes[0]
}

#[test]
fn the_order_of_a_sum_depends_on_the_length_alone() {
    use crate::row;
    for n in 0..200 {
        // Elements whose sums are rounded, and zeros of both signs.
        let x: Vec<f32> =
            elements(n).iter().map(|x| if *x > 5.0 { -0.0 } else { (x * 0.37).exp() }).collect();
        let bytes: Vec<i8> = (0..n).map(|i| (i * 37 % 256) as u8 as i8).collect();
        let pairs = || bytes.iter().zip(&x).map(|(b, x)| f32::from(*b) * x);
        assert_eq!(row::sum(&x).to_bits(), sum_in_lanes(x.iter().copied()).to_bits(), "{n}");
        let squares = x.iter().map(|x| x * x);
        assert_eq!(row::sum_squares(&x).to_bits(), sum_in_lanes(squares).to_bits(), "{n}");
        let got = row::sum_of_pairs(&bytes, &x, |b, x| f32::from(b) * x);
        assert_eq!(got.to_bits(), sum_in_lanes(pairs()).to_bits(), "{n}");
        let dot = sum_in_lanes(x.iter().map(|x| x * x));
        assert_eq!(row::dot(&x, &x).to_bits(), dot.to_bits(), "{n}");
    }
}
