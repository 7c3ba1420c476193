//! Rows of a table that integers name.

use fx_core::array::checked_numel;
use fx_core::{Array, DType, Dim, Op, Result, Shape, TensorType, bail, err, kernels};

use crate::check::{dense, in_float, sizes, slice, type_of, wide, zeroed};
use crate::kernel::rows;
use crate::norm::norm;

/// The tables of this file.
pub static TABLES: &[&[Op]] = &[LOOKUP];

kernels! {
    /// Look-up.
    pub trait Lookup; pub static LOOKUP;

    /// The rows of `weight`, `[n, d]`, that the integers in `x` name: `[..] -> [.., d]`. `padding_idx` matters to training
    /// only.
    ///
    /// With `max_norm` a row whose `norm_type`-norm is greater is scaled down to it; `weight` itself stays as it is.
    embedding(x: Tensor, weight: Tensor; padding_idx: OptInt = None, max_norm: OptFloat = None, norm_type: Float = 2.0)
        = embedding_type, embedding_kernel;
}

/// Refuses floats and bools.
pub(crate) fn integers_only(what: &str, dtype: DType) -> Result<()> {
    if !dtype.is_int() {
        return Err(
            err!(DType, "expected {what} of integers, got {dtype}").help("convert with `to(DType::I64)`")
        );
    }
    Ok(())
}

fn embedding_type(
    x: &TensorType,
    weight: &TensorType,
    _padding_idx: Option<Dim>,
    _max_norm: Option<f64>,
    _norm_type: Option<f64>,
) -> Result<TensorType> {
    integers_only("indices", x.dtype)?;
    if weight.rank() != 2 {
        bail!(Shape, "expected a weight [n, d], got {weight}");
    }
    Ok(TensorType::new(weight.dtype, x.shape.iter().chain([&weight.shape[1]]).collect::<Shape>()))
}

fn embedding_kernel(
    x: &Array,
    weight: &Array,
    _padding_idx: Option<i64>,
    max_norm: Option<f64>,
    norm_type: f64,
) -> Result<Array> {
    let ty = embedding_type(&type_of(x), &type_of(weight), None, max_norm, None)?;
    let shape = sizes(&ty.shape)?;
    let numel = checked_numel(&shape)?;
    let (n, width) = (weight.shape()[0], weight.shape()[1]);
    let indices = x.cast(DType::I64).to_vec::<i64>()?;
    if let Some(index) =
        indices.iter().find(|&&index| usize::try_from(index).is_ok_and(|index| index < n).eq(&false))
    {
        bail!(Index, "expected indices in 0..{n}, got {index}");
    }
    if let Some(max_norm) = max_norm {
        let wide = wide(weight.dtype());
        let weight = dense(weight, wide)?;
        return in_float!(wide, T => {
            let table = slice::<T>(&weight);
            let mut out = zeroed::<T>(numel)?;
            rows::for_each_row(&mut out, width, |i, row| {
                row.copy_from_slice(&table[indices[i] as usize * width..][..width]);
                let norm = norm(row, norm_type);
                if norm > max_norm as T {
                    row.iter_mut().for_each(|x| *x *= max_norm as T / (norm + 1e-7));
                }
            });
            Ok(Array::from_vec(out, &shape)?.cast(ty.dtype))
        });
    }
    let weight = weight.contiguous()?;
    fx_core::array::dispatch_dtype!(weight.dtype(), T => {
        let rows = slice::<T>(&weight);
        let mut out = fx_core::array::try_vec::<T>(numel)?;
        indices.iter().for_each(|&index| out.extend_from_slice(&rows[index as usize * width..][..width]));
        Array::from_vec(out, &shape)
    })
}
