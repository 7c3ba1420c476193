//! Tensors by strides: windows on the row-major order of the elements, and factories that are told a layout.

use fx_core::array::Strides;
use fx_core::op::kind::{DimVec, IntVec};
use fx_core::window::{Window, WindowCall};
use fx_core::{Arg, Array, DType, Dim, Op, Result, TensorType, bail, functions, kernels};

use crate::ops::check::sizes;
use crate::ops::creation::size_type;
use crate::ops::infer::{dims, distinct_axes, type_of, typed};
use crate::ops::slice_scatter::{check_part, patched};

functions! {
    pub static EMPTY;

    /// A tensor whose elements do not matter, zeros, as `empty`; the order of the axes in memory is not kept.
    empty_permuted(size: Shape, physical_layout: Ints; dtype: OptDType = None) = empty_permuted_type, empty_permuted_array;
    /// A tensor whose elements do not matter, zeros, as `empty`; the strides are not kept.
    empty_strided(size: Shape, stride: Shape; dtype: OptDType = None) = empty_strided_type, empty_strided_array;
}

kernels! {
    /// Operations by strides.
    pub trait Strided; pub static STRIDED;

    /// A copy of `x` whose elements at the places that strides name are those of `src`; as `as_strided`
    /// counts them.
    as_strided_scatter(x: Tensor, src: Tensor, size: Shape, stride: Shape, storage_offset: OptInt = None) =
        as_strided_scatter_type, as_strided_scatter_array;
    /// The elements of `x`, numbered in row-major order, at `storage_offset` plus the index times `stride`.
    #[class = View(placed)]
    as_strided(x: Tensor, size: Shape, stride: Shape, storage_offset: OptInt = None) = as_strided_type, as_strided_array;
    /// Zeros of another shape in the dtype of `x`, for elements that do not matter; the strides are not kept.
    new_empty_strided(x: Tensor, size: Shape, stride: Shape; dtype: OptDType = None) =
        |x: &TensorType, size, stride, dtype: Option<DType>| empty_strided_type(size, stride, Some(dtype.unwrap_or(x.dtype))),
        |x: &Array, size, stride, dtype: Option<DType>| empty_strided_array(size, stride, Some(dtype.unwrap_or(x.dtype())));
}

/// The tables of this file.
pub(super) static TABLES: &[&[Op]] = &[EMPTY, STRIDED];

fn as_strided_type(x: &TensorType, size: DimVec, stride: DimVec, offset: Option<Dim>) -> Result<TensorType> {
    if size.len() != stride.len() {
        bail!(Argument, "expected as many strides as sizes, got {} and {}", stride.len(), size.len());
    }
    if let Some(negative) = stride.iter().chain(&offset).find(|n| n.less(&Dim::new(0)).is_yes()) {
        bail!(Argument, "expected strides and an offset of at least 0, got {negative}");
    }
    typed(x.dtype, size)
}

fn as_strided_array(x: &Array, size: IntVec, stride: IntVec, offset: Option<i64>) -> Result<Array> {
    let ty = as_strided_type(&type_of(x), dims(&size), dims(&stride), offset.map(Dim::new))?;
    let strides: Strides = stride.iter().map(|&stride| stride as isize).collect();
    x.as_strided(&sizes(&ty.shape)?, &strides, offset.unwrap_or(0) as usize)
}

fn placed(call: &mut WindowCall<'_>) -> Result<Option<Arg<Window>>> {
    let (x, shape, strides) = (call.window(0)?.clone(), call.dims(1)?, call.dims(2)?);
    let start = match call.given(3)? {
        Arg::None => Dim::new(0),
        _ => call.dim(3)?,
    };
    if !x.is_row_major() {
        return Ok(None);
    }
    let ends = shape.iter().zip(&strides).map(|(size, stride)| (size - 1).max(&Dim::new(0)) * stride);
    let last = ends.fold(start.clone(), |end, more| end + more);
    call.require(x.shape.iter().product::<Dim>() - last - 1);
    strides.iter().for_each(|stride| call.require(stride.clone()));
    call.require(start.clone());
    Ok(Some(Arg::Leaf(Window { offset: x.offset + start, shape, strides, ..x })))
}

fn as_strided_scatter_type(
    x: &TensorType,
    src: &TensorType,
    size: DimVec,
    stride: DimVec,
    offset: Option<Dim>,
) -> Result<TensorType> {
    check_part(&as_strided_type(x, size, stride, offset)?, src)?;
    Ok(x.clone())
}

fn as_strided_scatter_array(
    x: &Array,
    src: &Array,
    size: IntVec,
    stride: IntVec,
    offset: Option<i64>,
) -> Result<Array> {
    let (x_type, src_type) = (type_of(x), type_of(src));
    as_strided_scatter_type(&x_type, &src_type, dims(&size), dims(&stride), offset.map(Dim::new))?;
    patched(x, src, |x| as_strided_array(x, size.clone(), stride.clone(), offset))
}

fn empty_permuted_type(size: DimVec, layout: IntVec, dtype: Option<DType>) -> Result<TensorType> {
    if layout.len() != size.len() {
        bail!(Argument, "expected {} axes as the layout, got {layout:?}", size.len());
    }
    distinct_axes(&layout, size.len())?;
    size_type(size, dtype)
}

fn empty_strided_type(size: DimVec, stride: DimVec, dtype: Option<DType>) -> Result<TensorType> {
    if stride.len() != size.len() {
        bail!(Argument, "expected as many strides as sizes, got {} and {}", stride.len(), size.len());
    }
    size_type(size, dtype)
}

fn zeros(ty: &TensorType) -> Result<Array> {
    Array::zeros(ty.dtype, &sizes(&ty.shape)?)
}

fn empty_permuted_array(size: IntVec, layout: IntVec, dtype: Option<DType>) -> Result<Array> {
    zeros(&empty_permuted_type(dims(&size), layout, dtype)?)
}

fn empty_strided_array(size: IntVec, stride: IntVec, dtype: Option<DType>) -> Result<Array> {
    zeros(&empty_strided_type(dims(&size), dims(&stride), dtype)?)
}
