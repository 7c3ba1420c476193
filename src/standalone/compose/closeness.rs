//! Whether elements are close, which stand-alone code computes by comparisons.

use super::{Call, Composition, run, stays};
use crate::{Arg, DType, Op, Result, Value};

pub(super) static COMPOSITIONS: &[(Op, Composition)] =
    &[(crate::isclose::OP, is_close), (crate::allclose::OP, |c| run(crate::all::OP, [is_close(c)?]))];

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
