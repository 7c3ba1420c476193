//! Kernel-level Rust: loops over slices, from the same scalar bodies that the eager kernels are compiled from.

use std::fmt::Write;

use fx_core::pointwise::PointwiseDef;
use fx_core::{Class, DType, Op, Result, err};

use crate::native::pasted;

/// The module `math` that generated kernels call; paste it once beside them.
pub const MATH: &str = fx_core::math_source::SOURCE;

/// Returns the name of the function that [`pointwise`] writes: `relu_f32`.
pub fn function_name(op: Op, dtype: DType) -> String {
    format!("{}_{dtype}", op.name)
}

/// Writes a pointwise operation on elements of `dtype` as a function over slices of equal length.
///
/// Its parameters are one slice for each operand, one number for each parameter of the row, and the result.
/// Half types are computed in `f32`, so they have no kernel of their own. Fails if the operation is not
/// pointwise, or not defined for the dtype.
///
/// ```text
/// /// The greater of each element and zero; NaN stays NaN.
/// pub fn relu_f32(x: &[f32], out: &mut [f32]) {
///     for i in 0..out.len() {
///         let x: f32 = x[i];
///         out[i] = if x < 0.0 { 0.0 } else { x };
///     }
/// }
/// ```
pub fn pointwise(op: Op, dtype: DType) -> Result<String> {
    let Class::Pointwise(def) = op.class else {
        return Err(err!(Argument, "{} is not a pointwise operation", op.name));
    };
    let body = body(def, dtype).ok_or_else(|| err!(DType, "{} has no kernel for {dtype}", op.name))?;
    let mut text = String::new();
    write_function(&mut text, op, def, dtype, &pasted(body))
        .map_err(|_| err!(Io, "cannot write to a string"))?;
    Ok(text)
}

/// Returns the text of the scalar body if there is a kernel that is computed in `dtype`.
fn body(def: &PointwiseDef, dtype: DType) -> Option<&'static str> {
    match dtype {
        DType::F16 | DType::BF16 => None,
        _ => def.source(dtype),
    }
}

fn write_function(
    text: &mut String,
    op: Op,
    def: &PointwiseDef,
    dtype: DType,
    body: &str,
) -> std::fmt::Result {
    for line in op.doc.lines() {
        writeln!(text, "///{line}")?;
    }
    let result = def.result_dtype(dtype);
    write!(text, "pub fn {}(", function_name(op, dtype))?;
    for operand in def.operands {
        write!(text, "{operand}: &[{dtype}], ")?;
    }
    for param in def.params {
        write!(text, "{param}: {dtype}, ")?;
    }
    let taken = [def.operands, def.params].concat();
    let [out, n, i] = ["out", "n", "i"].map(|name| unused(&taken, name));
    writeln!(text, "{out}: &mut [{result}]) {{")?;
    writeln!(text, "    let {n} = {out}.len();")?;
    for operand in def.operands {
        writeln!(text, "    let {operand} = &{operand}[..{n}];")?;
    }
    writeln!(text, "    for {i} in 0..{n} {{")?;
    for operand in def.operands {
        writeln!(text, "        let {operand}: {dtype} = {operand}[{i}];")?;
    }
    writeln!(text, "        {out}[{i}] = {body};")?;
    text.write_str("    }\n}\n")
}

/// Returns a name that is none of those that are taken.
pub(crate) fn unused(taken: &[&str], name: &str) -> String {
    let mut name = name.to_owned();
    while taken.contains(&&*name) {
        name.push('_');
    }
    name
}
