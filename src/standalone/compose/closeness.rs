//! Whether elements are close, and the numbers that are next to them.

use super::{Call, Composition, run, stays};
use crate::{Arg, DType, Op, Result, Tensor, Value};

pub(super) static COMPOSITIONS: &[(Op, Composition)] = &[
    (crate::isclose::OP, is_close),
    (crate::allclose::OP, |c| run(crate::all::OP, [is_close(c)?])),
    (crate::nextafter::OP, next_after),
];

/// Composes whether differences are at most as large as they may be.
fn is_close(c: &Call<'_>) -> Result<Value> {
    let dtype = c.tensor("x")?.dtype()?;
    let number = |name: &str| match dtype {
        dtype if dtype.is_float() => c.get(name),
        // Their differences are exact.
        DType::Bool | DType::U8 | DType::I8 | DType::I32 => {
            run(crate::to::OP, [c.get(name)?, Arg::DType(DType::F64)])
        }
        _ => Err(stays()),
    };
    let (x, other) = (number("x")?, number("other")?);
    let same = run(crate::eq::OP, [x.clone(), other.clone()])?;
    let gap = run(crate::abs::OP, [run(crate::sub::OP, [x.clone(), other.clone()])?])?;
    let size = run(crate::mul::OP, [run(crate::abs::OP, [other.clone()])?, c.get("rtol")?])?;
    let allowed = run(crate::add::OP, [size, c.get("atol")?])?;
    let near = run(crate::le::OP, [gap.clone(), allowed])?;
    let finite = run(crate::isfinite::OP, [gap])?;
    let close = run(crate::logical_or::OP, [same, run(crate::logical_and::OP, [near, finite])?])?;
    if !matches!(c.get("equal_nan")?, Arg::Bool(true)) {
        return Ok(close);
    }
    let both = [run(crate::isnan::OP, [x])?, run(crate::isnan::OP, [other])?];
    run(crate::logical_or::OP, [close, run(crate::logical_and::OP, both)?])
}

/// Composes the next numbers in a direction: the bits of a float, sign and magnitude, are in order.
fn next_after(c: &Call<'_>) -> Result<Value> {
    let dtype = c.tensor("x")?.dtype()?;
    let (integers, least) = match dtype {
        _ if c.tensor("other")?.dtype()? != dtype => return Err(stays()),
        DType::F32 => (DType::I32, Tensor::new(f32::from_bits(1))),
        DType::F64 => (DType::I64, Tensor::new(f64::from_bits(1))),
        _ => return Err(stays()),
    };
    let both = run(crate::broadcast_tensors::OP, [Arg::list([c.get("x")?, c.get("other")?])])?;
    let part = |i: i64| run(crate::contiguous::OP, [run(crate::getitem::OP, [both.clone(), Arg::Int(i)])?]);
    let (x, y) = (part(0)?, part(1)?);
    let is_above = |a: &Value, b: Value| run(crate::gt::OP, [a.clone(), b]);
    let is_away = run(crate::eq::OP, [is_above(&y, x.clone())?, is_above(&x, Arg::Float(0.0))?])?;
    let bits = run(crate::view_dtype::OP, [x.clone(), Arg::DType(integers)])?;
    let step = |op: Op| run(op, [bits.clone(), Arg::Int(1)]);
    let moved = run(crate::where_::OP, [is_away, step(crate::add::OP)?, step(crate::sub::OP)?])?;
    let moved = run(crate::view_dtype::OP, [moved, Arg::DType(dtype)])?;
    let signs = [is_above(&y, Arg::Float(0.0))?, Arg::Leaf(least.clone()), Arg::Leaf(-least)];
    let from_zero = run(crate::where_::OP, signs)?;
    let is_zero = run(crate::eq::OP, [x.clone(), Arg::Float(0.0)])?;
    let next = run(crate::where_::OP, [is_zero, from_zero, moved])?;
    let is_there = run(crate::eq::OP, [x.clone(), y.clone()])?;
    let next = run(crate::where_::OP, [is_there, y.clone(), next])?;
    let is_nan = run(crate::logical_or::OP, [run(crate::isnan::OP, [x])?, run(crate::isnan::OP, [y])?])?;
    run(crate::where_::OP, [is_nan, Arg::Float(f64::NAN), next])
}
