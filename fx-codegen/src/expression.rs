//! Writes what a step of a loop computes of one element, for compiled loops and for crates.

use fx_core::DType;
use fx_core::loops::{Step, Work};

use crate::native::pasted;

/// Returns whether a dtype is only stored, and computed in `f32`.
pub(crate) fn is_half(dtype: DType) -> bool {
    matches!(dtype, DType::F16 | DType::BF16)
}

/// Returns the dtype of the numbers that a step takes as an operand: rows compute halves in `f32`.
pub(crate) fn taken<N>(step: &Step<N>, operand: usize) -> DType {
    match (step.work, step.operand_dtype(operand)) {
        (Work::Map(_), dtype) if is_half(dtype) => DType::F32,
        (_, dtype) => dtype,
    }
}

/// Writes what a step computes of operands, each of the dtype that is [`taken`], and of parameters.
pub(crate) fn expression<N>(step: &Step<N>, operands: &[String], params: &[String]) -> String {
    match (step.work, operands) {
        (Work::Map(def), _) => {
            let names: Vec<&str> = def.operands.iter().chain(def.params).copied().collect();
            let values: Vec<&str> = operands.iter().chain(params).map(String::as_str).collect();
            let ty = taken(step, 0).name();
            let types = vec![ty; names.len()].join(", ");
            let source = pasted(def.source(step.from).unwrap_or_default());
            let value = match (&names[..], &values[..]) {
                ([name], [value]) => format!("{{ let {name}: {ty} = {value}; {source} }}"),
                _ => {
                    let (names, values) = (names.join(", "), values.join(", "));
                    format!("{{ let ({names}): ({types}) = ({values}); {source} }}")
                }
            };
            if is_half(step.dtype) { format!("{}::from_f32({value})", step.dtype) } else { value }
        }
        // Both are read, so that a loop over them has no branch.
        (Work::Select, [mask, yes, no]) => {
            format!("{{ let (yes, no) = ({yes}, {no}); if {mask} {{ yes }} else {{ no }} }}")
        }
        (Work::Convert, [x]) => convert(x, step.from, step.dtype),
        // Of one element for each row, the reader took that of its row.
        (_, operands) => operands.first().cloned().unwrap_or_default(),
    }
}

/// Writes a conversion; from and to halves by way of `f32`.
pub(crate) fn convert(value: &str, from: DType, to: DType) -> String {
    match (from, to) {
        (from, to) if from == to => value.to_owned(),
        (from, DType::F32) if is_half(from) => format!("{value}.to_f32()"),
        (from, to) if is_half(from) => convert(&format!("{value}.to_f32()"), DType::F32, to),
        (from, to) if is_half(to) => format!("{to}::from_f32({})", convert(value, from, DType::F32)),
        (DType::Bool, to) if to.is_float() => format!("({value} as u8 as {to})"),
        (from, DType::Bool) if from.is_float() => format!("({value} != 0.0)"),
        (_, DType::Bool) => format!("({value} != 0)"),
        (_, to) => format!("({value} as {to})"),
    }
}
