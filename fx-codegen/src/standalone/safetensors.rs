//! Writes safetensors files.

use std::fmt::Write;

use fx_core::array::{bf16, f16};
use fx_core::{DType, Result, Tensor, bail};

/// Returns the elements of a tensor as bytes, least significant first.
pub(super) fn bytes(tensor: &Tensor) -> Result<Vec<u8>> {
    let array = tensor.array()?;
    macro_rules! numbers {
        ($($ty:ident)*) => {
            match array.dtype() {
                $(dtype if dtype.name() == stringify!($ty) => {
                    array.to_vec::<$ty>()?.into_iter().flat_map($ty::to_le_bytes).collect()
                })*
                DType::Bool => array.to_vec::<bool>()?.into_iter().map(u8::from).collect(),
                dtype => bail!(DType, "stand-alone code has no {dtype}"),
            }
        };
    }
    Ok(numbers!(u8 i8 i32 i64 f16 bf16 f32 f64))
}

/// Writes a file with these tensors, those with the widest elements first, so that each begins at a multiple
/// of its size.
pub(super) fn file(tensors: &[(String, Tensor)]) -> Result<Vec<u8>> {
    let mut order: Vec<(usize, &(String, Tensor))> = tensors.iter().enumerate().collect();
    let mut sizes = Vec::new();
    for (_, tensor) in tensors {
        sizes.push(tensor.dtype()?.size());
    }
    order.sort_by_key(|(i, _)| (std::cmp::Reverse(sizes[*i]), *i));
    let (mut header, mut data) = (String::from("{"), Vec::new());
    for (_, (name, tensor)) in order {
        let start = data.len();
        data.extend(bytes(tensor)?);
        let array = tensor.array()?;
        let comma = if header.len() > 1 { "," } else { "" };
        let name = quoted(name);
        let (dtype, shape, end) = (array.dtype().safetensors_name(), array.shape(), data.len());
        let _ = write!(
            header,
            "{comma}{name}:{{\"dtype\":\"{dtype}\",\"shape\":{shape:?},\"data_offsets\":[{start},{end}]}}"
        );
    }
    header.push('}');
    while header.len() % 8 != 0 {
        header.push(' ');
    }
    Ok([&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &data].concat())
}

/// Writes text as JSON.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c < ' ' => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
