// Orthogonal polynomials, by their recurrences.
//
// The degree is the integer part of a number; of a negative one the value is 0, as in PyTorch. Chebyshev's
// polynomials of a high degree have closed forms: with `x = cos(a)`, the cosine of `n a` and its like.

in_f64! {
    /// Returns Chebyshev's polynomial of the first kind of degree `n`.
    chebyshev_t(x, n) = chebyshev_first;
    /// Returns Chebyshev's polynomial of the second kind.
    chebyshev_u(x, n) = chebyshev_second;
    /// Returns Chebyshev's polynomial of the third kind.
    chebyshev_v(x, n) = chebyshev_third;
    /// Returns Chebyshev's polynomial of the fourth kind.
    chebyshev_w(x, n) = chebyshev_fourth;
    /// Returns Laguerre's polynomial; NaN for degrees above a million, whose recurrence takes too long.
    laguerre(x, n) = laguerre_wide;
    /// Returns Legendre's polynomial; NaN for degrees above a million, whose recurrence takes too long.
    legendre(x, n) = legendre_wide;
}

generic! {
    /// Returns Hermite's polynomial of the physicists; as in PyTorch, NaN for degrees above 512, of f32 128.
    hermite_h(x, n) = hermite_physical;
    /// Returns Hermite's polynomial of the probabilists; as in PyTorch, NaN for degrees above 512, of f32 128.
    hermite_he(x, n) = hermite_probable;
}

/// Returns the degree that a number stands for, if it is one.
#[inline(always)]
fn degree(n: f64) -> Option<f64> {
    let n = n.trunc();
    (0.0..9_223_372_036_854_775_808.0).contains(&n).then_some(n)
}

/// The degree up to which a recurrence is as good as a closed form.
const LOW_DEGREE: f64 = 64.0;

/// Returns the polynomial that begins with 1 and `first`, each the double of `x` times the last one, without
/// the one before.
#[inline(always)]
fn chebyshev_low(x: f64, n: f64, first: f64) -> f64 {
    let (mut before, mut here, mut k) = (1.0, first, 1.0);
    while k < n {
        (before, here) = (here, (x + x) * here - before);
        k += 1.0;
    }
    if n == 0.0 { 1.0 } else { here }
}

#[inline(always)]
fn sign_of_power(x: f64, n: f64) -> f64 {
    if x < 0.0 && n % 2.0 != 0.0 { -1.0 } else { 1.0 }
}

fn chebyshev_first(x: f64, n: f64) -> f64 {
    let Some(n) = degree(n) else { return 0.0 };
    if n <= LOW_DEGREE {
        chebyshev_low(x, n, x)
    } else if x.abs() <= 1.0 {
        (n * x.acos()).cos()
    } else {
        sign_of_power(x, n) * (n * x.abs().acosh()).cosh()
    }
}

fn chebyshev_second(x: f64, n: f64) -> f64 {
    let Some(n) = degree(n) else { return 0.0 };
    if n <= LOW_DEGREE {
        chebyshev_low(x, n, x + x)
    } else if x.abs() == 1.0 {
        sign_of_power(x, n) * (n + 1.0)
    } else if x.abs() < 1.0 {
        let angle = x.acos();
        ((n + 1.0) * angle).sin() / angle.sin()
    } else {
        let angle = x.abs().acosh();
        sign_of_power(x, n) * ((n + 1.0) * angle).sinh() / angle.sinh()
    }
}

/// Returns the polynomials of the third kind for a high degree and `x` of at least -1.
fn high_third(x: f64, n: f64) -> f64 {
    if x == -1.0 {
        sign_of_power(x, n) * (n + n + 1.0)
    } else if x <= 1.0 {
        let angle = x.acos();
        ((n + 0.5) * angle).cos() / (0.5 * angle).cos()
    } else {
        let angle = x.acosh();
        ((n + 0.5) * angle).cosh() / (0.5 * angle).cosh()
    }
}

/// Returns the polynomials of the fourth kind for a high degree and `x` of at least -1.
fn high_fourth(x: f64, n: f64) -> f64 {
    if x == 1.0 {
        n + n + 1.0
    } else if x < 1.0 {
        let angle = x.acos();
        ((n + 0.5) * angle).sin() / (0.5 * angle).sin()
    } else {
        let angle = x.acosh();
        ((n + 0.5) * angle).sinh() / (0.5 * angle).sinh()
    }
}

fn chebyshev_third(x: f64, n: f64) -> f64 {
    let Some(n) = degree(n) else { return 0.0 };
    if n <= LOW_DEGREE {
        chebyshev_low(x, n, x + x - 1.0)
    } else if x < -1.0 {
        sign_of_power(x, n) * high_fourth(-x, n)
    } else {
        high_third(x, n)
    }
}

fn chebyshev_fourth(x: f64, n: f64) -> f64 {
    let Some(n) = degree(n) else { return 0.0 };
    if n <= LOW_DEGREE {
        chebyshev_low(x, n, x + x + 1.0)
    } else if x < -1.0 {
        sign_of_power(x, n) * high_third(-x, n)
    } else {
        high_fourth(x, n)
    }
}

/// Returns `value(n)` of a recurrence from 1 and `first`: `next(k, here, before)` follows those of degree `k`.
#[inline(always)]
fn recurrence(n: f64, first: f64, next: impl Fn(f64, f64, f64) -> f64) -> f64 {
    let (mut before, mut here, mut k) = (1.0, first, 1.0);
    while k < n {
        (before, here) = (here, next(k, here, before));
        k += 1.0;
    }
    if n == 0.0 { 1.0 } else { here }
}

/// The greatest degree of recurrences.
const HIGH_DEGREE: f64 = 1e6;

fn laguerre_wide(x: f64, n: f64) -> f64 {
    let Some(n) = degree(n) else { return 0.0 };
    if n > HIGH_DEGREE {
        return f64::NAN;
    }
    recurrence(n, 1.0 - x, |k, here, before| ((k + k + (1.0 - x)) * here - k * before) / (k + 1.0))
}

fn legendre_wide(x: f64, n: f64) -> f64 {
    let Some(n) = degree(n) else { return 0.0 };
    if x.abs() == 1.0 {
        return sign_of_power(x, n);
    }
    if n > HIGH_DEGREE {
        return f64::NAN;
    }
    recurrence(n, x, |k, here, before| ((k + k + 1.0) * x * here - k * before) / (k + 1.0))
}

/// Returns the greatest degree of Hermite's polynomials.
#[inline(always)]
fn hermite_limit<T: Real>() -> f64 {
    if std::mem::size_of::<T>() == 4 { 128.0 } else { 512.0 }
}

fn hermite_physical<T: Real>(x: T, n: T) -> f64 {
    let x = x.to_f64();
    let Some(n) = degree(n.to_f64()) else { return 0.0 };
    if n > hermite_limit::<T>() {
        return f64::NAN;
    }
    recurrence(n, x + x, |k, here, before| (x + x) * here - (k + k) * before)
}

fn hermite_probable<T: Real>(x: T, n: T) -> f64 {
    let x = x.to_f64();
    let Some(n) = degree(n.to_f64()) else { return 0.0 };
    if n > hermite_limit::<T>() {
        return f64::NAN;
    }
    recurrence(n, x, |k, here, before| x * here - k * before)
}
