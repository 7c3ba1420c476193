//! Pseudo-inverses and ranks of matrices, which stand-alone code computes by singular values.

use super::{Call, Composition, run, stays};
use crate::{Arg, DType, Op, Result, Value};

pub(super) static COMPOSITIONS: &[(Op, Composition)] =
    &[(crate::linalg_pinv::OP, pinv), (crate::linalg_matrix_rank::OP, rank)];

/// Returns the matrices, with `hermitian` those that their lower triangles tell.
fn matrices(c: &Call<'_>) -> Result<Value> {
    let x = c.get("x")?;
    if !c.is("hermitian")? {
        return Ok(x);
    }
    let below = run(crate::tril::OP, [x.clone(), Arg::Int(-1)])?;
    run(crate::add::OP, [run(crate::tril::OP, [x])?, turned(below)?])
}

fn turned(x: Value) -> Result<Value> {
    run(crate::transpose::OP, [x, Arg::Int(-2), Arg::Int(-1)])
}

/// Returns up to which number singular values count as 0, for each matrix in a row of its own.
fn limit(c: &Call<'_>, values: &Value, sizes: [i64; 2]) -> Result<Value> {
    let precision = match c.tensor("x")?.dtype()? {
        DType::F32 => f64::from(f32::EPSILON),
        _ => f64::EPSILON,
    };
    let usual = sizes[0].max(sizes[1]) as f64 * precision;
    let (atol, rtol) = (c.get("atol")?, c.get("rtol")?);
    let rtol = match (rtol, &atol) {
        (Arg::None, Arg::None) => Arg::Float(usual),
        (Arg::None, Arg::Leaf(_)) => {
            let is_given = run(crate::gt::OP, [atol.clone(), Arg::Float(0.0)])?;
            run(crate::where_::OP, [is_given, Arg::Float(0.0), Arg::Float(usual)])?
        }
        (Arg::None, atol) => {
            let is_given = atol.scalar().ok_or_else(stays)?.to_f64() > 0.0;
            Arg::Float(if is_given { 0.0 } else { usual })
        }
        (rtol, _) => rtol,
    };
    let greatest = run(crate::select::OP, [values.clone(), Arg::Int(-1), Arg::Int(0)])?;
    let limit = run(crate::mul::OP, [greatest, rtol])?;
    let limit = match atol {
        Arg::None => limit,
        atol @ Arg::Leaf(_) => run(crate::maximum::OP, [limit, atol])?,
        atol => run(crate::clamp_min::OP, [limit, atol])?,
    };
    run(crate::unsqueeze::OP, [limit, Arg::Int(-1)])
}

/// Returns the sizes of the matrices.
fn sizes(c: &Call<'_>) -> Result<[i64; 2]> {
    let ty = c.tensor("x")?.ty()?;
    match &ty.shape[..] {
        [.., m, n] => Ok([m.known().ok_or_else(stays)?, n.known().ok_or_else(stays)?]),
        _ => Err(stays()),
    }
}

fn pinv(c: &Call<'_>) -> Result<Value> {
    let (x, sizes) = (matrices(c)?, sizes(c)?);
    if sizes.contains(&0) {
        return turned(x);
    }
    let parts = run(crate::linalg_svd::OP, [x, Arg::Bool(false)])?;
    let part = |i: i64| run(crate::getitem::OP, [parts.clone(), Arg::Int(i)]);
    let (u, values, rows) = (part(0)?, part(1)?, part(2)?);
    let is_zero = run(crate::le::OP, [values.clone(), limit(c, &values, sizes)?])?;
    let inverse = run(crate::reciprocal::OP, [values])?;
    let inverse = run(crate::where_::OP, [is_zero, Arg::Float(0.0), inverse])?;
    let inverse = run(crate::unsqueeze::OP, [inverse, Arg::Int(-2)])?;
    let columns = run(crate::mul::OP, [turned(rows)?, inverse])?;
    run(crate::matmul::OP, [columns, turned(u)?])
}

fn rank(c: &Call<'_>) -> Result<Value> {
    let (x, sizes) = (matrices(c)?, sizes(c)?);
    let values = run(crate::linalg_svdvals::OP, [x])?;
    let limit = if sizes.contains(&0) { Arg::Float(0.0) } else { limit(c, &values, sizes)? };
    let counts = run(crate::gt::OP, [values, limit])?;
    run(crate::sum::OP, [counts, Arg::Int(-1)])
}
