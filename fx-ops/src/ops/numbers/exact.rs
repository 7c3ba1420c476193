//! Quotients, remainders, powers and comparisons of numbers as Python defines them.

use std::cmp::Ordering;

use fx_core::{Category, Result, Scalar, err};

use super::{by_zero, overflow};

/// The least float above all integers of 64 bits.
const BEYOND: f64 = 9_223_372_036_854_775_808.0;

fn is_float(x: Scalar, y: Scalar) -> bool {
    x.category().max(y.category()) == Category::Float
}

fn text(x: Scalar) -> String {
    match x {
        Scalar::Bool(x) => x.to_string(),
        Scalar::Int(x) => x.to_string(),
        Scalar::Float(x) => format!("{x:?}"),
    }
}

/// Refuses a divisor of 0.
fn divisible(x: Scalar, sign: &str, y: Scalar) -> Result<()> {
    if y.to_bool() { Ok(()) } else { Err(by_zero(format!("{} {sign} {}", text(x), text(y)))) }
}

/// Compares two numbers by their values; `None` if one is NaN.
pub(super) fn compare(x: Scalar, y: Scalar) -> Option<Ordering> {
    match (x, y) {
        (Scalar::Float(x), Scalar::Float(y)) => x.partial_cmp(&y),
        (Scalar::Float(x), y) => compare_with_float(y.to_i64(), x).map(Ordering::reverse),
        (x, Scalar::Float(y)) => compare_with_float(x.to_i64(), y),
        (x, y) => Some(x.to_i64().cmp(&y.to_i64())),
    }
}

/// Compares without a conversion of the integer, which rounds.
fn compare_with_float(x: i64, y: f64) -> Option<Ordering> {
    if y.is_nan() {
        None
    } else if y >= BEYOND {
        Some(Ordering::Less)
    } else if y < -BEYOND {
        Some(Ordering::Greater)
    } else {
        let whole = y.floor();
        Some(x.cmp(&(whole as i64)).then(if y > whole { Ordering::Less } else { Ordering::Equal }))
    }
}

/// The float nearest to the quotient of two numbers.
pub(super) fn divide(x: Scalar, y: Scalar) -> Result<Scalar> {
    divisible(x, "/", y)?;
    if is_float(x, y) {
        return Ok(Scalar::Float(x.to_f64() / y.to_f64()));
    }
    let (x, y) = (x.to_i64(), y.to_i64());
    let exact = 1u64 << f64::MANTISSA_DIGITS;
    if x.unsigned_abs() <= exact && y.unsigned_abs() <= exact {
        return Ok(Scalar::Float(x as f64 / y as f64));
    }
    // 64 bits of the quotient and whether others follow decide how it is rounded.
    let (above, below) = (u128::from(x.unsigned_abs()), u128::from(y.unsigned_abs()));
    let shift = above.leading_zeros().min(127);
    let shifted = above << shift;
    let quotient = (shifted / below) | u128::from(shifted % below != 0);
    let size = quotient as f64 * 2f64.powi(-(shift as i32));
    Ok(Scalar::Float(if (x < 0) == (y < 0) { size } else { -size }))
}

/// The quotient of floats rounded down, and the remainder that belongs to it.
fn div_mod(x: f64, y: f64) -> (f64, f64) {
    let mut rest = x % y;
    let mut quotient = (x - rest) / y;
    if rest == 0.0 {
        rest = 0f64.copysign(y);
    } else if (y < 0.0) != (rest < 0.0) {
        rest += y;
        quotient -= 1.0;
    }
    if quotient == 0.0 {
        return (0f64.copysign(x / y), rest);
    }
    let whole = quotient.floor();
    (if quotient - whole > 0.5 { whole + 1.0 } else { whole }, rest)
}

/// The quotient rounded down.
pub(super) fn floor_divide(x: Scalar, y: Scalar) -> Result<Scalar> {
    divisible(x, "//", y)?;
    if is_float(x, y) {
        return Ok(Scalar::Float(div_mod(x.to_f64(), y.to_f64()).0));
    }
    let (x, y) = (x.to_i64(), y.to_i64());
    let quotient = x.checked_div(y).ok_or_else(|| overflow(format!("{x} // {y}")))?;
    Ok(Scalar::Int(if x % y != 0 && (x < 0) != (y < 0) { quotient - 1 } else { quotient }))
}

/// The quotient of integers rounded up.
pub(super) fn ceil_divide(x: Scalar, y: Scalar) -> Result<Scalar> {
    divisible(x, "/", y)?;
    if is_float(x, y) {
        return truncated(-div_mod(-x.to_f64(), y.to_f64()).0).map(Scalar::Int);
    }
    let (x, y) = (x.to_i64(), y.to_i64());
    let quotient = x.checked_div(y).ok_or_else(|| overflow(format!("{x} / {y}")))?;
    Ok(Scalar::Int(if x % y != 0 && (x < 0) == (y < 0) { quotient + 1 } else { quotient }))
}

/// The remainder with the sign of the divisor.
pub(super) fn modulo(x: Scalar, y: Scalar) -> Result<Scalar> {
    divisible(x, "%", y)?;
    if is_float(x, y) {
        return Ok(Scalar::Float(div_mod(x.to_f64(), y.to_f64()).1));
    }
    let (x, y) = (x.to_i64(), y.to_i64());
    let rest = x.wrapping_rem(y);
    Ok(Scalar::Int(if rest != 0 && (rest < 0) != (y < 0) { rest + y } else { rest }))
}

/// Raises to a power.
pub(super) fn power(x: Scalar, y: Scalar) -> Result<Scalar> {
    if is_float(x, y) {
        return float_power(x.to_f64(), y.to_f64()).map(Scalar::Float);
    }
    let (base, exponent) = (x.to_i64(), y.to_i64());
    if exponent < 0 {
        divisible(Scalar::Int(1), "/", x)?;
        return Err(err!(Argument, "{base} ** {exponent} is not an integer")
            .help("convert the base with `num_float`"));
    }
    let overflows = || overflow(format!("{base} ** {exponent}"));
    let (mut result, mut square, mut left) = (1i64, base, exponent);
    loop {
        if left & 1 == 1 {
            result = result.checked_mul(square).ok_or_else(overflows)?;
        }
        left >>= 1;
        if left == 0 {
            return Ok(Scalar::Int(result));
        }
        square = square.checked_mul(square).ok_or_else(overflows)?;
    }
}

fn float_power(x: f64, y: f64) -> Result<f64> {
    if x == 0.0 && y < 0.0 {
        return Err(by_zero(format!("{x:?} ** {y:?}")));
    }
    if x < 0.0 && x.is_finite() && y.is_finite() && y != y.floor() {
        return Err(err!(Argument, "{x:?} ** {y:?} is a complex number").help("raise the absolute value"));
    }
    let power = x.powf(y);
    if power.is_infinite() && x.is_finite() && y.is_finite() {
        return Err(err!(Overflow, "{x:?} ** {y:?} does not fit a float of 64 bits"));
    }
    Ok(power)
}

/// A float without its fraction. Fails if an integer of 64 bits cannot hold it.
pub(super) fn truncated(x: f64) -> Result<i64> {
    if x.is_nan() {
        return Err(err!(Argument, "NaN is no integer").help("test it with `num_isnan` first"));
    }
    let whole = x.trunc();
    if !(-BEYOND..BEYOND).contains(&whole) {
        return Err(overflow(format!("{x:?}")));
    }
    Ok(whole as i64)
}
