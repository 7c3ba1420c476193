//! Numbers among the operands of a row: what a number is once it meets elements of a dtype, as in PyTorch.
//!
//! Eager kernels, tapes and generated code take every number from here, so that it is the same one everywhere.

use half::{bf16, f16};

use super::PointwiseDef;
use crate::array::{Stored, dispatch_dtype};
use crate::{Array, DType, Result, Scalar, err};

/// How a row takes numbers that its dtype cannot hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbers {
    /// Numbers are converted to the dtype, as tensors of rank 0 are: halves round them, integers wrap them.
    Converted,
    /// As `Converted`, but with halves numbers and a tensor of one element as the last operand stay as exact
    /// as `f32`, in which halves are computed.
    Wide,
    /// As `Wide`, for a tensor of one element at any place.
    WideAnywhere,
    /// As `Converted`, but an integer dtype must hold a number as the last operand.
    Exponent,
    /// Limits of integers, an entry for each operand and then for each parameter, are brought into the range
    /// of the dtype.
    Limits(&'static [Limit]),
}

/// What a number is to a row with [`Numbers::Limits`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// No limit; it is converted.
    None,
    /// Nothing less is a result.
    Lower,
    /// Nothing greater is a result.
    Upper,
}

/// Returns the least and the greatest value of an integer dtype.
fn range(dtype: DType) -> Option<(i64, i64)> {
    Some(match dtype {
        DType::U8 => (0, u8::MAX.into()),
        DType::I8 => (i8::MIN.into(), i8::MAX.into()),
        DType::I32 => (i32::MIN.into(), i32::MAX.into()),
        DType::I64 => (i64::MIN, i64::MAX),
        DType::Bool | DType::F16 | DType::BF16 | DType::F32 | DType::F64 => return None,
    })
}

/// Returns whether a number, without its fraction, is in a range.
fn is_within(x: Scalar, (least, greatest): (i64, i64)) -> bool {
    match x {
        Scalar::Float(x) => {
            // The greatest 64-bit integer is rounded up as a float.
            let above = greatest as f64 + if greatest == i64::MAX { 0.0 } else { 1.0 };
            x > least as f64 - 1.0 && x < above
        }
        x => (least..=greatest).contains(&x.to_i64()),
    }
}

/// Returns a number that is to be an element of `dtype`. Fails if that is an integer dtype that cannot hold
/// it. Unsigned integers take negative numbers as far as their greatest value, and wrap them.
pub fn held(x: Scalar, dtype: DType) -> Result<Scalar> {
    match range(dtype) {
        Some((least, greatest)) if !is_within(x, (if least == 0 { -greatest } else { least }, greatest)) => {
            Err(err!(Argument, "{} is not in the range of {dtype}", text(x))
                .help("convert the tensor to a wider dtype with `to` first"))
        }
        _ => Ok(x),
    }
}

fn text(x: Scalar) -> String {
    match x {
        Scalar::Bool(x) => x.to_string(),
        Scalar::Int(x) => x.to_string(),
        Scalar::Float(x) => format!("{x:?}"),
    }
}

/// Converts a number to `dtype`; floats other than halves are computed with it as it is.
fn converted(x: Scalar, dtype: DType) -> Scalar {
    match dtype {
        DType::F16 => Scalar::Float(f16::from_f32(x.to_f64() as f32).to_f64()),
        DType::BF16 => Scalar::Float(bf16::from_f32(x.to_f64() as f32).to_f64()),
        DType::Bool | DType::F32 | DType::F64 => x,
        DType::U8 | DType::I8 | DType::I32 | DType::I64 => {
            dispatch_dtype!(dtype, T => T::from_scalar(x).to_scalar())
        }
    }
}

/// Brings a limit into the range of an integer dtype.
fn limited(limit: Limit, x: Scalar, dtype: DType, (least, greatest): (i64, i64)) -> Result<Scalar> {
    let is_below = x.to_f64() < least as f64 && !is_within(x, (least, greatest));
    let is_above = x.to_f64() >= greatest as f64 && !is_within(x, (least, greatest));
    let beyond = |side: &str| {
        Err(err!(Argument, "the {side} limit {} leaves no value of {dtype}", text(x))
            .help("convert the tensor to a wider dtype with `to` first"))
    };
    match limit {
        Limit::Lower if is_below => Ok(Scalar::Int(least)),
        Limit::Lower if is_above => beyond("lower"),
        Limit::Upper if is_above => Ok(Scalar::Int(greatest)),
        Limit::Upper if is_below => beyond("upper"),
        _ => Ok(converted(x, dtype)),
    }
}

impl PointwiseDef {
    /// Returns what a number as the operand at `place` is in a computation of `dtype`, which may be a half:
    /// the number that an element of the type of computation, `f32` for halves, is made of.
    ///
    /// Fails if the row cannot take the number with this dtype: a limit that leaves no value, or an exponent
    /// that is too large.
    pub fn number(&self, place: usize, x: Scalar, dtype: DType) -> Result<Scalar> {
        let Some(range) = range(dtype) else {
            return Ok(match self.numbers {
                Numbers::Wide | Numbers::WideAnywhere => x,
                _ => converted(x, dtype),
            });
        };
        match self.numbers {
            Numbers::Limits(limits) => {
                limited(limits.get(place).copied().unwrap_or(Limit::None), x, dtype, range)
            }
            // What is negative is refused with more to say.
            Numbers::Exponent if place + 1 == self.operands.len() && x.to_i64() < 0 => Ok(x),
            Numbers::Exponent if place + 1 == self.operands.len() => held(x, dtype),
            _ => Ok(converted(x, dtype)),
        }
    }

    /// Returns what a number as the parameter at `place` is in a computation of `dtype`.
    ///
    /// Fails if an integer dtype cannot hold the parameter, unless it is a limit that leaves values.
    pub fn parameter(&self, place: usize, x: Scalar, dtype: DType) -> Result<Scalar> {
        let Some(range) = range(dtype) else { return Ok(x) };
        match self.numbers {
            Numbers::Limits(limits) => {
                let limit = limits.get(self.operands.len() + place).copied().unwrap_or(Limit::None);
                limited(limit, x, dtype, range)
            }
            _ => held(x, dtype),
        }
    }

    /// Returns whether a tensor of one element as the operand at `place` is taken as exact as it is.
    pub(super) fn is_wide(&self, place: usize) -> bool {
        match self.numbers {
            Numbers::Wide => place + 1 == self.operands.len(),
            Numbers::WideAnywhere => true,
            _ => false,
        }
    }

    /// Returns whether every number fits an integer dtype as it is converted, and none is refused, so that a size
    /// that is not known yet can be one.
    pub fn takes_any_number(&self, dtype: DType) -> bool {
        if self.check.is_some() && dtype.is_int() {
            return false;
        }
        match self.numbers {
            Numbers::Converted | Numbers::Wide | Numbers::WideAnywhere => true,
            Numbers::Exponent | Numbers::Limits(_) => !dtype.is_int(),
        }
    }
}

/// Returns the number that stands for a tensor of one element, converted to the computed `dtype`.
pub(super) fn item(array: &Array, dtype: DType, is_wide: bool) -> Result<Scalar> {
    let x = array.item()?;
    Ok(if is_wide && !dtype.is_int() { x } else { converted(x, dtype) })
}
