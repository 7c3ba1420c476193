//! Numbers, as Python and TorchScript compute with them.

use std::cmp::Ordering;

use fx_core::special;
use fx_core::{Error, Result, bail, err};

use super::{Row, arg};
use crate::value::{Value, is_same, values_equal};

/// The real and the imaginary part of a complex number.
type Parts = (f64, f64);

/// Two numbers of one kind, the wider of both.
enum Pair {
    Int(i64, i64),
    Float(f64, f64),
    Complex((f64, f64), (f64, f64)),
}

fn pair(args: &[&Value]) -> Result<Pair> {
    let (a, b) = (arg(args, 0)?, arg(args, 1)?);
    Ok(match (a, b) {
        (Value::Int(a), Value::Int(b)) => Pair::Int(*a, *b),
        (Value::Complex(_), _) | (_, Value::Complex(_)) => Pair::Complex(a.to_complex()?, b.to_complex()?),
        (Value::Float(_), _) | (_, Value::Float(_)) => Pair::Float(a.to_float()?, b.to_float()?),
        _ => Pair::Int(a.to_int()?, b.to_int()?),
    })
}

fn arithmetic(
    args: &[&Value],
    int: fn(i64, i64) -> Result<i64>,
    float: fn(f64, f64) -> Result<f64>,
    complex: Option<fn(Parts, Parts) -> Parts>,
) -> Result<Value> {
    Ok(match (pair(args)?, complex) {
        (Pair::Int(a, b), _) => Value::Int(int(a, b)?),
        (Pair::Float(a, b), _) => Value::Float(float(a, b)?),
        (Pair::Complex(a, b), Some(complex)) => {
            let (re, im) = complex(a, b);
            Value::complex(re, im)
        }
        (Pair::Complex(..), None) => bail!(Argument, "complex numbers have no such operation"),
    })
}

fn divided_by_zero() -> Error {
    err!(Argument, "division by 0")
}

/// Rounds down, as `//` does.
pub(super) fn floor_div(a: i64, b: i64) -> Result<i64> {
    if b == 0 {
        return Err(divided_by_zero());
    }
    let quotient = a.wrapping_div(b);
    Ok(if a.wrapping_rem(b) != 0 && (a < 0) != (b < 0) { quotient.wrapping_sub(1) } else { quotient })
}

/// Has the sign of the divisor, as `%` does.
fn modulo(a: i64, b: i64) -> Result<i64> {
    if b == 0 {
        return Err(divided_by_zero());
    }
    let rest = a.wrapping_rem(b);
    Ok(if rest != 0 && (rest < 0) != (b < 0) { rest + b } else { rest })
}

fn modulo_float(a: f64, b: f64) -> f64 {
    let rest = a % b;
    if rest != 0.0 && (rest < 0.0) != (b < 0.0) { rest + b } else { rest }
}

/// The remainder of `%`, as PyTorch computes it: of an infinite divisor it is NaN.
fn remainder_float(a: f64, b: f64) -> f64 {
    (b + a % b) % b
}

/// IEEE's remainder, nearest to zero.
fn ieee_remainder(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() || a.is_infinite() || b == 0.0 {
        return f64::NAN;
    }
    if b.is_infinite() {
        return a;
    }
    let (b, rest) = (b.abs(), a.abs() % b.abs());
    let twice = rest - (b - rest);
    let odd = (a.abs() % (2.0 * b)) >= b;
    let near = if twice > 0.0 || (twice == 0.0 && odd) { rest - b } else { rest };
    if a.is_sign_negative() { -near } else { near }
}

fn multiply(a: (f64, f64), b: (f64, f64)) -> (f64, f64) {
    (a.0 * b.0 - a.1 * b.1, a.0 * b.1 + a.1 * b.0)
}

fn divide(a: (f64, f64), b: (f64, f64)) -> (f64, f64) {
    let norm = b.0 * b.0 + b.1 * b.1;
    ((a.0 * b.0 + a.1 * b.1) / norm, (a.1 * b.0 - a.0 * b.1) / norm)
}

fn log_complex(a: (f64, f64)) -> (f64, f64) {
    (a.0.hypot(a.1).ln(), a.1.atan2(a.0))
}

fn exp_complex(a: (f64, f64)) -> (f64, f64) {
    let scale = a.0.exp();
    (scale * a.1.cos(), scale * a.1.sin())
}

fn sqrt_complex(a: (f64, f64)) -> (f64, f64) {
    let size = a.0.hypot(a.1);
    (f64::midpoint(size, a.0).max(0.0).sqrt(), f64::midpoint(size, -a.0).max(0.0).sqrt().copysign(a.1))
}

fn power(args: &[&Value]) -> Result<Value> {
    Ok(match pair(args)? {
        Pair::Int(a, b) => Value::Float((a as f64).powf(b as f64)),
        Pair::Float(a, b) => Value::Float(a.powf(b)),
        Pair::Complex(_, (0.0, 0.0)) => Value::complex(1.0, 0.0),
        Pair::Complex(a, b) => {
            let (re, im) = exp_complex(multiply(log_complex(a), b));
            Value::complex(re, im)
        }
    })
}

/// Integers to the power of integers, which wrap; a negative power is truncated.
fn power_of_ints(base: i64, exponent: i64) -> Result<i64> {
    if exponent < 0 {
        return match base {
            0 => Err(err!(Argument, "0 cannot be raised to a negative power")),
            1 => Ok(1),
            -1 => Ok(if exponent % 2 == 0 { 1 } else { -1 }),
            _ => Ok(0),
        };
    }
    let (mut result, mut square, mut left) = (1i64, base, exponent);
    while left > 0 {
        if left & 1 == 1 {
            result = result.wrapping_mul(square);
        }
        square = square.wrapping_mul(square);
        left >>= 1;
    }
    Ok(result)
}

/// Orders two numbers or texts; `None` if one is NaN.
pub(super) fn order(a: &Value, b: &Value) -> Result<Option<Ordering>> {
    if let (Value::Str(a), Value::Str(b)) = (a, b) {
        return Ok(Some((**a).cmp(&**b)));
    }
    Ok(match pair(&[a, b])? {
        Pair::Int(a, b) => Some(a.cmp(&b)),
        Pair::Float(a, b) => a.partial_cmp(&b),
        Pair::Complex(..) => bail!(Argument, "complex numbers have no order"),
    })
}

fn compare(args: &[&Value], wanted: fn(Ordering) -> bool) -> Result<Value> {
    Ok(Value::Bool(order(arg(args, 0)?, arg(args, 1)?)?.is_some_and(wanted)))
}

/// A function of one float, which integers become.
fn float(args: &[&Value], f: fn(f64) -> f64) -> Result<Value> {
    Ok(Value::Float(f(arg(args, 0)?.to_float()?)))
}

fn of_complex(args: &[&Value], real: fn(f64) -> f64, complex: fn((f64, f64)) -> (f64, f64)) -> Result<Value> {
    match arg(args, 0)? {
        Value::Complex(parts) => {
            let (re, im) = complex(**parts);
            Ok(Value::complex(re, im))
        }
        _ => float(args, real),
    }
}

fn two_floats(args: &[&Value], f: fn(f64, f64) -> f64) -> Result<Value> {
    Ok(Value::Float(f(arg(args, 0)?.to_float()?, arg(args, 1)?.to_float()?)))
}

/// A float as an integer. Fails if an integer of 64 bits cannot hold it.
pub(super) fn truncated(x: f64) -> Result<i64> {
    if x.is_nan() || x.trunc() >= 9_223_372_036_854_775_808.0 || x.trunc() < -9_223_372_036_854_775_808.0 {
        return Err(err!(Argument, "an integer of 64 bits cannot hold {}", crate::value::float_text(x)));
    }
    Ok(x as i64)
}

fn to_whole(args: &[&Value], f: fn(f64) -> f64) -> Result<Value> {
    match arg(args, 0)? {
        Value::Float(x) => truncated(f(*x)).map(Value::Int),
        other => other.to_int().map(Value::Int),
    }
}

fn extreme(args: &[&Value], wanted: Ordering) -> Result<Value> {
    let pick = |best: Value, next: Value| -> Result<Value> {
        let better = order(&next, &best)? == Some(wanted);
        Ok(match (best, next) {
            // An int beside a float is a float.
            (best, Value::Float(x)) if !matches!(best, Value::Float(_)) => {
                Value::Float(if better { x } else { best.to_float()? })
            }
            (Value::Float(best), next) => Value::Float(if better { next.to_float()? } else { best }),
            (best, next) => {
                if better {
                    next
                } else {
                    best
                }
            }
        })
    };
    if args.len() == 1 {
        let items = args[0].to_items()?;
        let mut items = items.into_iter();
        let first = items.next().ok_or_else(|| err!(Argument, "max() and min() take a list with items"))?;
        return items.try_fold(first, pick);
    }
    match (arg(args, 0)?, arg(args, 1)?) {
        (a @ Value::List(_), b @ Value::List(_)) => {
            let smaller = lexicographic(&a.to_items()?, &b.to_items()?)?;
            Ok(if smaller == wanted.reverse() { b.clone() } else { a.clone() })
        }
        // The second, unless the first is better: NaN is as good as anything.
        (a, b) => pick(b.clone(), a.clone()),
    }
}

fn lexicographic(a: &[Value], b: &[Value]) -> Result<Ordering> {
    for (a, b) in a.iter().zip(b) {
        match order(a, b)? {
            Some(Ordering::Equal) | None => {}
            Some(other) => return Ok(other),
        }
    }
    Ok(a.len().cmp(&b.len()))
}

fn bits(args: &[&Value], int: fn(i64, i64) -> i64) -> Result<Value> {
    match (arg(args, 0)?, arg(args, 1)?) {
        (Value::Bool(a), Value::Bool(b)) => Ok(Value::Bool(int(i64::from(*a), i64::from(*b)) != 0)),
        (a, b) => Ok(Value::Int(int(a.to_int()?, b.to_int()?))),
    }
}

fn shift(args: &[&Value], f: fn(i64, u32) -> Option<i64>) -> Result<Value> {
    let (a, by) = (arg(args, 0)?.to_int()?, arg(args, 1)?.to_int()?);
    let shifted = u32::try_from(by).ok().and_then(|by| f(a, by));
    shifted
        .map(Value::Int)
        .ok_or_else(|| err!(Argument, "an integer is shifted by {by} bits").help("shift by 0 to 63 bits"))
}

fn gcd(a: i64, b: i64) -> i64 {
    let (mut a, mut b) = (a.unsigned_abs(), b.unsigned_abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a as i64
}

fn factorial(n: i64) -> Result<i64> {
    if n < 0 {
        bail!(Argument, "factorial() is not defined for negative values");
    }
    (1..=n)
        .try_fold(1i64, i64::checked_mul)
        .ok_or_else(|| err!(Argument, "an integer of 64 bits cannot hold the factorial of {n}"))
}

fn frexp(x: f64) -> (f64, i64) {
    if x == 0.0 || !x.is_finite() {
        return (x, 0);
    }
    let (scaled, shift) = if x.abs() < f64::MIN_POSITIVE { (x * 2f64.powi(54), 54) } else { (x, 0) };
    let exponent = ((scaled.to_bits() >> 52) & 0x7ff) as i64 - 1022;
    (f64::from_bits((scaled.to_bits() & !(0x7ff << 52)) | (1022 << 52)), exponent - shift)
}

fn parse_float(text: &str) -> Result<f64> {
    let wrong = || err!(Argument, "could not convert string to float: {text:?}");
    // As C's `strtod`: blanks may stand before a number, and nothing behind it.
    text.trim_start().parse().map_err(|_| wrong())
}

const N: &str = "int float int_float float_int complex int_complex complex_int float_complex complex_float -";
const ORDER: &str = "int float int_float float_int str -";
const UNARY: &str = "int float complex Scalar";
const REAL: &str = "int float Scalar";
const PAIRS: &str = "int float int_float float_int -";

#[rustfmt::skip]
pub(super) static TABLE: &[Row] = &[
    ("aten::add", N, |_, a| arithmetic(a, |a, b| Ok(a.wrapping_add(b)), |a, b| Ok(a + b), Some(|a, b| (a.0 + b.0, a.1 + b.1)))),
    ("aten::sub", N, |_, a| arithmetic(a, |a, b| Ok(a.wrapping_sub(b)), |a, b| Ok(a - b), Some(|a, b| (a.0 - b.0, a.1 - b.1)))),
    ("aten::mul", N, |_, a| arithmetic(a, |a, b| Ok(a.wrapping_mul(b)), |a, b| Ok(a * b), Some(multiply))),
    ("aten::div", "int float complex -", |_, a| match pair(a)? {
        Pair::Int(_, 0) => Err(divided_by_zero()),
        Pair::Int(a, b) => Ok(Value::Float(a as f64 / b as f64)),
        Pair::Float(a, b) => Ok(Value::Float(a / b)),
        Pair::Complex(a, b) => { let (re, im) = divide(a, b); Ok(Value::complex(re, im)) }
    }),
    ("aten::floordiv", PAIRS, |_, a| arithmetic(a, floor_div, |a, b| Ok((a / b).floor()), None)),
    ("aten::remainder", PAIRS, |_, a| arithmetic(a, modulo, |a, b| Ok(remainder_float(a, b)), None)),
    ("aten::__round_to_zero_floordiv", "int", |_, a| arithmetic(a,
        |a, b| if b == 0 { Err(divided_by_zero()) } else { Ok(a.wrapping_div(b)) }, |a, b| Ok((a / b).trunc()), None)),
    ("aten::divmod", "int float int_float float_int", |_, a| Ok(match pair(a)? {
        Pair::Int(a, b) => Value::tuple([Value::Int(floor_div(a, b)?), Value::Int(modulo(a, b)?)]),
        Pair::Float(_, 0.0) => return Err(divided_by_zero()),
        Pair::Float(a, b) => { let rest = modulo_float(a, b); Value::tuple([Value::Float(((a - rest) / b).round()), Value::Float(rest)]) }
        Pair::Complex(..) => bail!(Argument, "complex numbers have no divmod()"),
    })),
    ("aten::pow", "int complex float int_float float_int float_complex complex_float Scalar_Scalar", |_, a| power(a)),
    ("aten::pow", "int_to_int", |_, a| power_of_ints(arg(a, 0)?.to_int()?, arg(a, 1)?.to_int()?).map(Value::Int)),
    ("aten::fmod", PAIRS, |_, a| two_floats(a, |a, b| a % b)),
    ("aten::mathremainder", PAIRS, |_, a| two_floats(a, ieee_remainder)),
    ("aten::copysign", PAIRS, |_, a| two_floats(a, f64::copysign)),
    ("aten::atan2", "int float int_float float_int Scalar_Scalar", |_, a| two_floats(a, f64::atan2)),
    ("aten::ldexp", "-", |_, a| { let (x, n) = (arg(a, 0)?.to_float()?, arg(a, 1)?.to_int()?.clamp(-2200, 2200) as i32);
        // Two steps, so that neither power is out of range where the result is not.
        let half = n / 2; Ok(Value::Float(x * 2f64.powi(half / 2) * 2f64.powi(half - half / 2) * 2f64.powi((n - half) / 2) * 2f64.powi(n - half - (n - half) / 2))) }),
    ("aten::frexp", "-", |_, a| { let (x, n) = frexp(arg(a, 0)?.to_float()?); Ok(Value::tuple([Value::Float(x), Value::Int(n)])) }),
    ("aten::modf", "-", |_, a| { let x = arg(a, 0)?.to_float()?;
        let rest = if x.is_infinite() { 0f64.copysign(x) } else { (x - x.trunc()).copysign(x) };
        Ok(Value::tuple([Value::Float(rest), Value::Float(x.trunc())])) }),
    ("aten::neg", UNARY, |_, a| Ok(match arg(a, 0)? {
        Value::Complex(parts) => Value::complex(-parts.0, -parts.1), Value::Float(x) => Value::Float(-x),
        other => Value::Int(other.to_int()?.wrapping_neg()) })),
    ("prim::abs", UNARY, |_, a| Ok(match arg(a, 0)? {
        Value::Complex(parts) => Value::Float(parts.0.hypot(parts.1)), Value::Float(x) => Value::Float(x.abs()),
        other => Value::Int(other.to_int()?.wrapping_abs()) })),
    ("aten::fabs", REAL, |_, a| float(a, f64::abs)),
    ("aten::floor", REAL, |_, a| to_whole(a, f64::floor)), ("aten::ceil", REAL, |_, a| to_whole(a, f64::ceil)),
    ("aten::round", REAL, |_, a| float(a, f64::round_ties_even)),
    ("aten::sqrt", UNARY, |_, a| of_complex(a, f64::sqrt, sqrt_complex)), ("aten::exp", UNARY, |_, a| of_complex(a, f64::exp, exp_complex)),
    ("aten::log", UNARY, |_, a| of_complex(a, f64::ln, log_complex)),
    ("aten::log", "int_int float_float int_float float_int Scalar_Scalar", |_, a| two_floats(a, |x, base| x.ln() / base.ln())),
    ("aten::log", "complex_complex int_complex complex_int float_complex complex_float", |_, a| {
        let (re, im) = divide(log_complex(arg(a, 0)?.to_complex()?), log_complex(arg(a, 1)?.to_complex()?)); Ok(Value::complex(re, im)) }),
    ("aten::log10", UNARY, |_, a| of_complex(a, f64::log10, |a| { let (re, im) = log_complex(a); (re / std::f64::consts::LN_10, im / std::f64::consts::LN_10) })),
    ("aten::log1p", REAL, |_, a| float(a, f64::ln_1p)), ("aten::expm1", REAL, |_, a| float(a, f64::exp_m1)),
    ("aten::sin", UNARY, |_, a| of_complex(a, f64::sin, |a| (a.0.sin() * a.1.cosh(), a.0.cos() * a.1.sinh()))),
    ("aten::cos", UNARY, |_, a| of_complex(a, f64::cos, |a| (a.0.cos() * a.1.cosh(), -a.0.sin() * a.1.sinh()))),
    ("aten::tan", UNARY, |_, a| of_complex(a, f64::tan, |a| divide((a.0.sin() * a.1.cosh(), a.0.cos() * a.1.sinh()), (a.0.cos() * a.1.cosh(), -a.0.sin() * a.1.sinh())))),
    ("aten::sinh", UNARY, |_, a| of_complex(a, f64::sinh, |a| (a.0.sinh() * a.1.cos(), a.0.cosh() * a.1.sin()))),
    ("aten::cosh", UNARY, |_, a| of_complex(a, f64::cosh, |a| (a.0.cosh() * a.1.cos(), a.0.sinh() * a.1.sin()))),
    ("aten::tanh", UNARY, |_, a| of_complex(a, f64::tanh, |a| divide((a.0.sinh() * a.1.cos(), a.0.cosh() * a.1.sin()), (a.0.cosh() * a.1.cos(), a.0.sinh() * a.1.sin())))),
    ("aten::asin", REAL, |_, a| float(a, f64::asin)), ("aten::acos", REAL, |_, a| float(a, f64::acos)), ("aten::atan", REAL, |_, a| float(a, f64::atan)),
    ("aten::asinh", REAL, |_, a| float(a, f64::asinh)), ("aten::acosh", REAL, |_, a| float(a, f64::acosh)), ("aten::atanh", REAL, |_, a| float(a, f64::atanh)),
    ("aten::erf", REAL, |_, a| float(a, special::erf)), ("aten::erfc", REAL, |_, a| float(a, special::erfc)),
    ("aten::lgamma", REAL, |_, a| float(a, special::lgamma)), ("aten::gamma", REAL, |_, a| float(a, gamma)),
    ("aten::degrees", REAL, |_, a| float(a, f64::to_degrees)), ("aten::radians", REAL, |_, a| float(a, f64::to_radians)),
    ("aten::angle", UNARY, |_, a| { let (re, im) = arg(a, 0)?.to_complex()?; Ok(Value::Float(im.atan2(re))) }),
    ("aten::polar", "int float int_float float_int Scalar_Scalar", |_, a| {
        let (size, angle) = (arg(a, 0)?.to_float()?, arg(a, 1)?.to_float()?); Ok(Value::complex(size * angle.cos(), size * angle.sin())) }),
    ("aten::isnan", "float complex", |_, a| { let (re, im) = arg(a, 0)?.to_complex()?; Ok(Value::Bool(re.is_nan() || im.is_nan())) }),
    ("aten::isinf", "float complex", |_, a| { let (re, im) = arg(a, 0)?.to_complex()?; Ok(Value::Bool(re.is_infinite() || im.is_infinite())) }),
    ("aten::isfinite", "float complex", |_, a| { let (re, im) = arg(a, 0)?.to_complex()?; Ok(Value::Bool(re.is_finite() && im.is_finite())) }),
    ("aten::gcd", "int", |_, a| Ok(Value::Int(gcd(arg(a, 0)?.to_int()?, arg(a, 1)?.to_int()?)))),
    ("aten::factorial", "int", |_, a| factorial(arg(a, 0)?.to_int()?).map(Value::Int)),
    ("aten::lt", ORDER, |_, a| compare(a, Ordering::is_lt)), ("aten::le", ORDER, |_, a| compare(a, Ordering::is_le)),
    ("aten::gt", ORDER, |_, a| compare(a, Ordering::is_gt)), ("aten::ge", ORDER, |_, a| compare(a, Ordering::is_ge)),
    ("aten::eq", "int_list device bool enum int complex float int_float float_int float_complex complex_float - str float_list bool_list str_list Tensor_list",
        |_, a| values_equal(arg(a, 0)?, arg(a, 1)?).map(Value::Bool)),
    ("aten::ne", "int_list device bool enum int complex float int_float float_int float_complex complex_float - str float_list bool_list str_list Tensor_list",
        |_, a| Ok(Value::Bool(!values_equal(arg(a, 0)?, arg(a, 1)?)?))),
    ("aten::__is__", "-", |_, a| Ok(Value::Bool(is_same(arg(a, 0)?, arg(a, 1)?)))),
    ("aten::__isnot__", "-", |_, a| Ok(Value::Bool(!is_same(arg(a, 0)?, arg(a, 1)?)))),
    ("aten::__not__", "-", |_, a| Ok(Value::Bool(!arg(a, 0)?.to_bool()?))),
    ("aten::__and__", "bool int", |_, a| bits(a, |a, b| a & b)), ("aten::__or__", "bool int", |_, a| bits(a, |a, b| a | b)),
    ("aten::__xor__", "bool int", |_, a| bits(a, |a, b| a ^ b)),
    ("aten::__lshift__", "int", |_, a| shift(a, i64::checked_shl)), ("aten::__rshift__", "int", |_, a| shift(a, i64::checked_shr)),
    ("prim::max", "int float int_float float_int - int_list self_int float_list self_float bool_list self_bool", |_, a| extreme(a, Ordering::Greater)),
    ("prim::min", "int float int_float float_int - int_list self_int float_list self_float bool_list self_bool", |_, a| extreme(a, Ordering::Less)),
    ("aten::Bool", "int float", |_, a| Ok(Value::Bool(arg(a, 0)?.to_float()? != 0.0))),
    ("aten::Int", "bool float Scalar str", |_, a| match arg(a, 0)? {
        Value::Float(x) => truncated(*x).map(Value::Int),
        Value::Str(text) => text.trim_start().parse().map(Value::Int)
            .map_err(|_| err!(Argument, "invalid literal for int() with base 10: '{}'", &***text)),
        other => other.to_int().map(Value::Int) }),
    ("aten::Float", "int bool Scalar str", |_, a| match arg(a, 0)? {
        Value::Str(text) => parse_float(text).map(Value::Float), other => other.to_float().map(Value::Float) }),
    ("aten::Complex", "Scalar int_bool bool_int float_bool bool_float float_int int_float int_int bool_bool float_float", |_, a| {
        match a { [one] => { let (re, im) = one.to_complex()?; Ok(Value::complex(re, im)) }
            _ => Ok(Value::complex(arg(a, 0)?.to_float()?, arg(a, 1)?.to_float()?)) } }),
    ("aten::__range_length", "-", |_, a| {
        let (low, high, step) = (arg(a, 0)?.to_int()?, arg(a, 1)?.to_int()?, arg(a, 2)?.to_int()?);
        let (span, step) = (i128::from(high) - i128::from(low), i128::from(step));
        if step == 0 { bail!(Argument, "range() arg 3 must not be zero"); }
        let rounds = if (span > 0) == (step > 0) { (span.abs() + step.abs() - 1) / step.abs() } else { 0 };
        Ok(Value::Int(i64::try_from(rounds).unwrap_or(i64::MAX))) }),
    ("aten::__derive_index", "-", |_, a| Ok(Value::Int(arg(a, 1)?.to_int()?.wrapping_add(arg(a, 0)?.to_int()?.wrapping_mul(arg(a, 2)?.to_int()?))))),
];

/// The gamma function, by its logarithm where no exact product is at hand.
fn gamma(x: f64) -> f64 {
    if x == x.floor() && x <= 0.0 {
        return f64::NAN;
    }
    if x == x.floor() && x <= 171.0 {
        return (2..x as i64).fold(1.0, |product, n| product * n as f64);
    }
    let size = special::lgamma(x).exp();
    if x < 0.0 && (x.floor() as i64) % 2 != 0 { -size } else { size }
}
