//! Positions as tensors: those of triangles, and indices from positions in row-major order.

use fx_core::array::{Sizes, checked_numel, row_major, try_vec};
use fx_core::op::kind::{DimVec, IntVec, IntoType, IntoValue};
use fx_core::{
    Arg, Array, DType, Dim, Op, Result, TensorType, TypeTree, Value, bail, err, functions, kernels,
};

use crate::kernel::chunks::fill;
use crate::ops::check::sizes;
use crate::ops::infer::{dims, known, type_of, typed};

functions! {
    pub static TRIANGLES;

    /// The row and column of each element on and below a diagonal of a matrix, as a tensor of two rows.
    tril_indices(row: Int, col: Int, offset: Int = 0; dtype: OptDType = None) =
        |row, col, offset, dtype| triangle_type(row, col, offset, dtype, true),
        |row, col, offset, dtype| triangle_array(row, col, offset, dtype, true);
    /// The row and column of each element on and above a diagonal of a matrix, as a tensor of two rows.
    triu_indices(row: Int, col: Int, offset: Int = 0; dtype: OptDType = None) =
        |row, col, offset, dtype| triangle_type(row, col, offset, dtype, false),
        |row, col, offset, dtype| triangle_array(row, col, offset, dtype, false);
}

kernels! {
    /// Operations that convert positions.
    pub trait Unravels; pub static UNRAVELS;

    /// For each position in the row-major order of a tensor of this shape its index, as one tensor for each axis.
    unravel_index(indices: Tensor, shape: Shape) -> Value = unravel_type, unravel_array;
}

/// The tables of this file.
pub(super) static TABLES: &[&[Op]] = &[TRIANGLES, UNRAVELS];

/// Returns the rows of a triangle that have elements, with the range of their columns.
fn triangle_rows(row: i64, col: i64, offset: i64, lower: bool) -> impl Iterator<Item = (i64, i64, i64)> {
    let rows = if lower {
        offset.saturating_neg().clamp(0, row)..row
    } else {
        0..col.saturating_sub(offset).clamp(0, row)
    };
    rows.map(move |i| {
        let bound = i128::from(i) + i128::from(offset) + i128::from(lower);
        let bound = bound.clamp(0, i128::from(col)) as i64;
        if lower { (i, 0, bound) } else { (i, bound, col) }
    })
}

/// Returns the number of elements in a triangle in closed form.
fn triangle_size(row: i64, col: i64, offset: i64, lower: bool) -> i128 {
    let (row, col, offset) = (i128::from(row), i128::from(col), i128::from(offset));
    // The sum over rows of `clamp(i + offset + 1, 0, col)`.
    let below = |offset: i128| {
        let first = (-offset).clamp(0, row);
        let full = (col - offset - 1).clamp(first, row);
        let count = full - first;
        count * (first + offset + 1 + full + offset) / 2 + (row - full) * col
    };
    if lower { below(offset) } else { row * col - below(offset - 1) }
}

fn triangle_type(row: Dim, col: Dim, offset: Dim, dtype: Option<DType>, lower: bool) -> Result<TensorType> {
    let dtype = dtype.unwrap_or(DType::I64);
    if !matches!(dtype, DType::I32 | DType::I64) {
        bail!(DType, "expected positions of i64 or i32, got {dtype}");
    }
    for size in [&row, &col] {
        if size.less(&Dim::new(0)).is_yes() {
            bail!(Shape, "expected sizes of at least 0, got {size}");
        }
    }
    let n = triangle_size(known(&row)?, known(&col)?, known(&offset)?, lower);
    let n = i64::try_from(n).map_err(|_| err!(Limit, "a triangle of {n} elements is too large"))?;
    typed(dtype, [2.into(), Dim::new(n)])
}

fn triangle_array(row: i64, col: i64, offset: i64, dtype: Option<DType>, lower: bool) -> Result<Array> {
    let ty = triangle_type(row.into(), col.into(), offset.into(), dtype, lower)?;
    let shape = sizes(&ty.shape)?;
    let mut out = try_vec::<i64>(checked_numel(&shape)?)?;
    let rows = || triangle_rows(row, col, offset, lower);
    if shape[1] > 0 {
        rows().for_each(|(i, first, end)| out.extend((first..end).map(|_| i)));
        rows().for_each(|(_, first, end)| out.extend(first..end));
    }
    Ok(Array::from_vec(out, &shape)?.cast(ty.dtype))
}

fn unravel_type(indices: &TensorType, shape: DimVec) -> Result<TypeTree> {
    if !indices.dtype.is_int() {
        bail!(DType, "expected positions as integers, got {indices}");
    }
    typed(DType::I64, shape.iter().cloned())?;
    let ty = TensorType { dtype: DType::I64, shape: indices.shape.clone() };
    Ok(Arg::tuple(vec![ty.into_type(); shape.len()]))
}

fn unravel_array(indices: &Array, shape: IntVec) -> Result<Value> {
    unravel_type(&type_of(indices), dims(&shape))?;
    let shape: Sizes = sizes(&typed(DType::I64, dims(&shape))?.shape)?;
    let data: Vec<i64> = indices.cast(DType::I64).to_vec()?;
    if shape.contains(&0) && !data.is_empty() {
        bail!(Shape, "there is no position in the shape {:?}", &shape[..]);
    }
    let strides = row_major(&shape);
    // Small numbers are divided several times faster.
    let are_small = strides.first().is_none_or(|&stride| u32::try_from(stride).is_ok())
        && shape.iter().all(|&size| u32::try_from(size).is_ok())
        && data.iter().all(|&i| u32::try_from(i).is_ok());
    let axes = shape.iter().zip(&strides).map(|(&size, &stride)| {
        let axis = fill::<i64>(data.len(), |start, out| {
            let places = out.iter_mut().zip(&data[start..]);
            if are_small {
                let (size, stride) = (size as u32, stride as u32);
                places.for_each(|(out, &i)| *out = i64::from(i as u32 / stride % size));
            } else {
                let (size, stride) = (size as i64, stride as i64);
                places.for_each(|(out, &i)| *out = i.div_euclid(stride).rem_euclid(size));
            }
        })?;
        Ok(Array::from_vec(axis, indices.shape())?.into_value())
    });
    Ok(Arg::tuple(axes.collect::<Result<Vec<_>>>()?))
}
