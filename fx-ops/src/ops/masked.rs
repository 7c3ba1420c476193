//! Reading and writing the elements at which a mask is true.

use fx_core::array::dispatch_dtype;
use fx_core::pointwise::{broadcast_dims, broadcast_shapes};
use fx_core::{Array, Op, Result, TensorType, bail, kernels};

use crate::kernel::chunks::fill;
use crate::ops::check::{same_dtype, slice};
use crate::ops::infer::{type_of, typed};
use crate::ops::search::{fresh_size, nonzero_positions};
use crate::ops::view::check_mask;

kernels! {
    /// Operations that read or write where a mask is true.
    pub trait Masks; pub static MASKS;

    /// The elements at which `mask`, a bool tensor, is true, in row-major order. Broadcasts.
    masked_select(x: Tensor, mask: Tensor) = masked_select_type, masked_select_array;
    /// A copy of `x` where the elements at which `mask`, a bool tensor, is true are those of `source`, one
    /// after the other. `x` and `mask` broadcast.
    masked_scatter(x: Tensor, mask: Tensor, source: Tensor) = masked_scatter_type, masked_scatter_array;
}

/// The tables of this file.
pub(super) static TABLES: &[&[Op]] = &[MASKS];

fn masked_select_type(x: &TensorType, mask: &TensorType) -> Result<TensorType> {
    check_mask(mask, "mask")?;
    let shape = broadcast_dims([&x.shape[..], &mask.shape[..]].into_iter())?;
    typed(x.dtype, [fresh_size(&shape.numel())])
}

fn masked_select_array(x: &Array, mask: &Array) -> Result<Array> {
    masked_select_type(&type_of(x), &type_of(mask))?;
    let shape = broadcast_shapes([x.shape(), mask.shape()].into_iter())?;
    let (x, mask) = (x.broadcast_to(&shape)?.contiguous()?, mask.broadcast_to(&shape)?);
    let found = nonzero_positions(&mask)?;
    dispatch_dtype!(x.dtype(), T => {
        let data = slice::<T>(&x);
        Array::from_vec(fill(found.len(), |start, out: &mut [T]| {
            out.iter_mut().zip(&found[start..]).for_each(|(out, &at)| *out = data[at as usize]);
        })?, &[found.len()])
    })
}

fn masked_scatter_type(x: &TensorType, mask: &TensorType, source: &TensorType) -> Result<TensorType> {
    check_mask(mask, "mask")?;
    same_dtype("a source", x.dtype, source.dtype)?;
    let shape = broadcast_dims([&x.shape[..], &mask.shape[..]].into_iter())?;
    typed(x.dtype, shape.iter().cloned())
}

fn masked_scatter_array(x: &Array, mask: &Array, source: &Array) -> Result<Array> {
    masked_scatter_type(&type_of(x), &type_of(mask), &type_of(source))?;
    let shape = broadcast_shapes([x.shape(), mask.shape()].into_iter())?;
    let found = nonzero_positions(&mask.broadcast_to(&shape)?)?;
    if source.numel() < found.len() {
        bail!(
            Shape,
            "expected a source of at least {} elements, as many as the mask is true at, got {}",
            found.len(),
            source.numel()
        );
    }
    let source = source.contiguous()?;
    dispatch_dtype!(x.dtype(), T => {
        let mut out: Vec<T> = x.broadcast_to(&shape)?.to_vec()?;
        found.iter().zip(slice::<T>(&source)).for_each(|(&at, &x)| out[at as usize] = x);
        Array::from_vec(out, &shape)
    })
}
