//! Rows that read and write elements by index tensors and masks.

use fx_core::array::{BLOCK, Sizes, StridedIndex, Strides, any_chunk, dispatch_dtype, row_major};
use fx_core::op::kind::{OperandType, OperandValue};
use fx_core::pointwise::{broadcast_dims, broadcast_shapes, held, result_dtype, result_dtype_of_types};
use fx_core::{
    Array, Category, DType, Dim, Element, Error, Result, Scalar, Stored, TensorType, bail, err, functions,
    kernels,
};
use fx_simd::parallel;

use crate::kernel::chunks::{PARALLEL, copy_rows, fill, fill_rows};
use crate::ops::check::{dense, slice};
use crate::ops::infer::{axis_or_only, expect_same, known, type_of, typed};

kernels! {
    /// Operations that read and write elements by index tensors and masks.
    pub trait Indexing; pub static INDEXING;

    /// The elements of `x` whose position along `dim` is that in `index`, of whose shape the result is:
    /// `out[i][j] = x[index[i][j]][j]` for `dim` 0.
    gather(x: Tensor, dim: Int, index: Tensor) = gather_type, gather_array;
    /// As `gather`, where `x` and `indices` broadcast beside `dim`; without `dim`, in the flattened tensor.
    /// Negative positions count from the end.
    take_along_dim(x: Tensor, indices: Tensor, dim: OptInt = None) = take_along_type, take_along_array;
    /// The sub-tensors of `x` at the positions `index`, of rank 0 or 1, along `dim`.
    index_select(x: Tensor, dim: Int, index: Tensor) = index_select_type, index_select_array;
    /// A copy of `x` where `src`, a tensor or a number, is written to the positions `index` along `dim`, in
    /// row-major order.
    ///
    /// `reduce` is "add" or "multiply" to combine with what is there.
    scatter(x: Tensor, dim: Int, index: Tensor, src: Operand; reduce: Str = "") = scatter_type, scatter_array;
    /// A copy of `x` to which `src` is added at the positions `index` along `dim`.
    scatter_add(x: Tensor, dim: Int, index: Tensor, src: Tensor) =
        |x, dim, index, src| scatter_type(x, dim, index, OperandType::Tensor(src), "add"),
        |x: &Array, dim, index: &Array, src| scatter_array(x, dim, index, OperandValue::Array(src), "add");
    /// A copy of `x` to whose sub-tensors at the positions `index` along `dim` those of `source`, times
    /// `alpha`, are added.
    index_add(x: Tensor, dim: Int, index: Tensor, source: Tensor; alpha: Number = fx_core::op::Default::Int(1)) =
        index_add_type, index_add_array;
    /// `x`, where the bool tensor `mask` is true replaced by `value`, a number or a tensor of rank 0. Broadcasts.
    masked_fill(x: Tensor, mask: Tensor, value: Operand) = masked_fill_type, masked_fill_array;
}

functions! {
    pub static WHERE;

    /// `input` where the bool tensor `condition` is true, else `other`. Broadcasts and promotes.
    where_(condition: Tensor, input: Operand, other: Operand) = where_type, where_array;
}

/// Refuses what is not a tensor of positions; without elements, any dtype will do.
pub(crate) fn check_index(index: &TensorType) -> Result<()> {
    if !matches!(index.dtype, DType::I32 | DType::I64) && index.shape.numel().same(&Dim::new(0)).is_no() {
        return Err(err!(DType, "expected positions of i64 or i32, got {index}")
            .help("convert with `.to(DType::I64)`"));
    }
    Ok(())
}

/// Returns positions in row-major order, resolved and checked against a size.
pub(crate) fn positions(index: &Array, size: usize) -> Result<Vec<usize>> {
    let checked = checked(index, size)?;
    Ok(slice::<i64>(&checked).iter().map(|&i| i as usize).collect())
}

/// Returns positions as contiguous i64, checked against a size.
pub(crate) fn checked(index: &Array, size: usize) -> Result<Array> {
    let index = dense(index, DType::I64)?;
    let raw = slice::<i64>(&index);
    // As unsigned numbers, negative positions are too large as well; without a way out the loop is vector code.
    let is_bad = |i: i64| i as u64 >= size as u64;
    if any(raw, is_bad) {
        let bad = raw.iter().find(|&&i| is_bad(i)).copied().unwrap_or_default();
        return Err(out_of_range(bad, size));
    }
    Ok(index)
}

/// Says that an axis has no such position.
pub(crate) fn out_of_range(position: i64, size: usize) -> Error {
    err!(Index, "position {position} is out of range for an axis of size {size}")
}

/// Returns positions with those that count from the end of an axis resolved.
pub(crate) fn from_end(index: &Array, size: usize) -> Result<Array> {
    let index = dense(index, DType::I64)?;
    let raw = slice::<i64>(&index);
    if !any(raw, |i| i < 0) {
        return Ok(index);
    }
    let out = fill(raw.len(), |at, out: &mut [i64]| {
        for (out, &i) in out.iter_mut().zip(&raw[at..]) {
            *out = if i < 0 { i.saturating_add(size as i64) } else { i };
        }
    })?;
    Array::from_vec(out, index.shape())
}

/// Returns whether a number is as asked.
fn any(data: &[i64], wanted: impl Fn(i64) -> bool + Sync) -> bool {
    any_chunk(data, |block| block.iter().fold(false, |any, &i| any | wanted(i)))
}

/// Returns `x` as of rank 1, if it has rank 0.
pub(crate) fn at_least_1d(x: &Array) -> Result<Array> {
    if x.rank() == 0 { x.reshape(&[1]) } else { Ok(x.clone()) }
}

fn gather_type(x: &TensorType, dim: Dim, index: &TensorType) -> Result<TensorType> {
    check_index(index)?;
    let at = axis_or_only(known(&dim)?, x.rank())?;
    check_within(x, at, index, "the index")?;
    typed(x.dtype, index.shape.iter().cloned())
}

/// Refuses an index that, beside the axis, reaches out of `x`; one without elements may have any shape.
pub(crate) fn check_within(x: &TensorType, at: usize, index: &TensorType, what: &str) -> Result<()> {
    if !index.shape.numel().same(&Dim::new(0)).is_no() {
        return Ok(());
    }
    if x.rank().max(1) != index.rank().max(1) {
        bail!(Shape, "expected {what} of rank {}, got {index}", x.rank());
    }
    for (axis, (size, wanted)) in x.shape.iter().zip(index.shape.iter()).enumerate() {
        if axis != at && size.less(wanted).is_yes() {
            bail!(Shape, "expected at most {size} in axis {axis} of {what}, got {index}");
        }
    }
    Ok(())
}

fn gather_array(x: &Array, dim: i64, index: &Array) -> Result<Array> {
    gather_type(&type_of(x), dim.into(), &type_of(index))?;
    let at = axis_or_only(dim, x.rank())?;
    if index.is_empty() {
        return Array::zeros(x.dtype(), index.shape());
    }
    let (x, wide) = (at_least_1d(x)?, at_least_1d(index)?);
    let picked = checked(&wide, x.shape()[at])?;
    let picked = slice::<i64>(&picked);
    let mut strides: Strides = x.strides().into();
    let step = std::mem::replace(&mut strides[at], 0) as usize;
    let width = wide.shape()[wide.rank() - 1].max(1);
    let last = strides.pop().map_or(0, |stride| stride as usize);
    let rows: Vec<usize> =
        StridedIndex::new(&wide.shape()[..wide.rank() - 1], [(&strides[..], 0)]).map(|[base]| base).collect();
    dispatch_dtype!(x.dtype(), T => {
        let data = x.data::<T>()?;
        let out = fill(picked.len(), |start, out: &mut [T]| {
            let (mut row, mut column, mut rest) = (start / width, start % width, out);
            let mut picked = &picked[start..];
            while !rest.is_empty() {
                let (part, tail) = rest.split_at_mut((width - column).min(rest.len()));
                let (here, later) = picked.split_at(part.len());
                let line = &data[rows[row]..];
                match (step, last) {
                    (1, 0) => part.iter_mut().zip(here).for_each(|(out, &i)| *out = line[i as usize]),
                    _ => {
                        let pairs = part.iter_mut().zip(here).zip(column..);
                        pairs.for_each(|((out, &i), column)| *out = line[column * last + i as usize * step]);
                    }
                }
                (row, column, rest, picked) = (row + 1, 0, tail, later);
            }
        })?;
        Array::from_vec(out, index.shape())
    })
}

fn take_along_type(x: &TensorType, indices: &TensorType, dim: Option<Dim>) -> Result<TensorType> {
    check_index(indices)?;
    let Some(dim) = dim else { return typed(x.dtype, [indices.shape.numel()]) };
    let at = axis_or_only(known(&dim)?, x.rank())?;
    if x.rank() != indices.rank() {
        bail!(Shape, "expected indices of rank {}, got {indices}", x.rank());
    }
    let one = Dim::new(1);
    let beside = |ty: &TensorType| -> Vec<Dim> {
        ty.shape
            .iter()
            .enumerate()
            .map(|(axis, size)| if axis == at { one.clone() } else { size.clone() })
            .collect()
    };
    let mut shape = broadcast_dims([&beside(x)[..], &beside(indices)[..]].into_iter())?;
    if let Some(size) = shape.dims_mut().get_mut(at) {
        *size = indices.shape[at].clone();
    }
    typed(x.dtype, shape.iter().cloned())
}

fn take_along_array(x: &Array, indices: &Array, dim: Option<i64>) -> Result<Array> {
    take_along_type(&type_of(x), &type_of(indices), dim.map(Dim::new))?;
    let Some(dim) = dim else {
        let (x, indices) = (x.reshape(&[x.numel()])?, indices.reshape(&[indices.numel()])?);
        return gather_array(&x, 0, &from_end(&indices, x.numel())?);
    };
    let at = axis_or_only(dim, x.rank())?;
    if x.rank() == 0 {
        return gather_array(x, dim, &from_end(indices, 1)?);
    }
    let indices = &from_end(indices, x.shape()[at])?;
    let beside = |x: &Array, size: usize| {
        let mut shape = Sizes::from_slice(x.shape());
        shape[at] = size;
        shape
    };
    let shape = broadcast_shapes([&beside(x, 1)[..], &beside(indices, 1)[..]].into_iter())?;
    let wide = |x: &Array| {
        let mut shape = shape.clone();
        shape[at] = x.shape()[at];
        x.broadcast_to(&shape)
    };
    gather_array(&wide(x)?, dim, &wide(indices)?)
}

fn index_select_type(x: &TensorType, dim: Dim, index: &TensorType) -> Result<TensorType> {
    check_index(index)?;
    if index.rank() > 1 {
        bail!(Shape, "expected positions of rank 0 or 1, got {index}");
    }
    let at = axis_or_only(known(&dim)?, x.rank())?;
    if x.rank() == 0 {
        expect_same(&Dim::new(1), &index.shape.numel(), "the number of positions for a tensor of rank 0")?;
        return Ok(x.clone());
    }
    let mut shape = x.shape.clone();
    shape.dims_mut()[at] = index.shape.numel();
    typed(x.dtype, shape.iter().cloned())
}

fn index_select_array(x: &Array, dim: i64, index: &Array) -> Result<Array> {
    index_select_type(&type_of(x), dim.into(), &type_of(index))?;
    let wide = at_least_1d(x)?;
    let at = axis_or_only(dim, x.rank())?;
    let out = take_rows(&wide, at, &positions(index, wide.shape()[at])?)?;
    if x.rank() == 0 { out.reshape(&[]) } else { Ok(out) }
}

/// Returns the sub-tensors at positions along an axis; the positions are in range.
pub(crate) fn take_rows(x: &Array, at: usize, index: &[usize]) -> Result<Array> {
    let dense = x.contiguous()?;
    let (size, inner) = (x.shape()[at], x.shape()[at + 1..].iter().product::<usize>());
    let outer = x.shape()[..at].iter().product::<usize>();
    let mut shape = Sizes::from_slice(x.shape());
    shape[at] = index.len();
    fx_core::array::checked_numel(&shape)?;
    dispatch_dtype!(x.dtype(), T => {
        let data = dense.as_slice::<T>().ok_or_else(|| err!(DType, "storage of another dtype"))?;
        let out = if inner == 1 {
            fill_rows::<T>(outer, index.len(), index.len(), |row, out| {
                let line = &data[row * size..][..size];
                out.iter_mut().zip(index).for_each(|(out, &i)| *out = line[i]);
            })?
        } else {
            copy_rows::<T>(outer * index.len(), inner, |row| {
                let from = (row / index.len() * size + index[row % index.len()]) * inner;
                &data[from..from + inner]
            })?
        };
        Array::from_vec(out, &shape)
    })
}

/// How written elements combine with those that are there.
#[derive(Clone, Copy, PartialEq)]
enum Combine {
    Replace,
    Add,
    Multiply,
}

impl Combine {
    fn read(reduce: &str) -> Result<Self> {
        match reduce {
            "" => Ok(Combine::Replace),
            "add" => Ok(Combine::Add),
            "multiply" => Ok(Combine::Multiply),
            _ => bail!(Argument, "expected \"add\" or \"multiply\" as reduce, got {reduce:?}"),
        }
    }
}

/// What elements can be added and multiplied as; halves round after each step.
pub(crate) trait Ring: Element + PartialOrd {
    fn plus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
}
macro_rules! rings {
    ($($ty:ty: |$x:ident, $y:ident| $plus:expr, $times:expr;)*) => {
        $(impl Ring for $ty {
            #[inline(always)]
            fn plus(self, other: Self) -> Self { let ($x, $y) = (self, other); $plus }
            #[inline(always)]
            fn times(self, other: Self) -> Self { let ($x, $y) = (self, other); $times }
        })*
    };
}
rings! {
    bool: |x, y| x | y, x & y;
    u8: |x, y| x.wrapping_add(y), x.wrapping_mul(y);
    i8: |x, y| x.wrapping_add(y), x.wrapping_mul(y);
    i32: |x, y| x.wrapping_add(y), x.wrapping_mul(y);
    i64: |x, y| x.wrapping_add(y), x.wrapping_mul(y);
    half::f16: |x, y| x + y, x * y;
    half::bf16: |x, y| x + y, x * y;
    f32: |x, y| x + y, x * y;
    f64: |x, y| x + y, x * y;
}

fn scatter_type(
    x: &TensorType,
    dim: Dim,
    index: &TensorType,
    src: OperandType<'_>,
    reduce: &str,
) -> Result<TensorType> {
    Combine::read(reduce)?;
    check_index(index)?;
    let at = axis_or_only(known(&dim)?, x.rank())?;
    check_within(x, at, index, "the index")?;
    if let OperandType::Tensor(src) = src {
        if src.dtype != x.dtype {
            return Err(
                err!(DType, "expected a source of {}, got {src}", x.dtype).help("convert it with `.to`")
            );
        }
        check_within(src, usize::MAX, index, "the index")?;
    }
    Ok(x.clone())
}

fn scatter_array(x: &Array, dim: i64, index: &Array, src: OperandValue<'_>, reduce: &str) -> Result<Array> {
    let src_type = match src {
        OperandValue::Array(src) => Some(type_of(src)),
        OperandValue::Scalar(_) => None,
    };
    let src_type = src_type.as_ref().map_or(OperandType::Scalar(Category::Int), OperandType::Tensor);
    scatter_type(&type_of(x), dim.into(), &type_of(index), src_type, reduce)?;
    if index.is_empty() {
        return Ok(x.clone());
    }
    let at = axis_or_only(dim, x.rank())?;
    let (wide, index) = (at_least_1d(x)?, at_least_1d(index)?);
    let picked = checked(&index, wide.shape()[at])?;
    let combine = Combine::read(reduce)?;
    let source = match src {
        OperandValue::Array(src) => {
            let mut part = at_least_1d(src)?;
            for (axis, &size) in index.shape().iter().enumerate() {
                part = part.slice_axis(axis, 0, size, 1)?;
            }
            part
        }
        OperandValue::Scalar(value) => {
            Array::full(x.dtype(), &[], held(value, x.dtype())?)?.broadcast_to(index.shape())?
        }
    };
    let places = Places::new(wide.shape(), index.shape(), at, slice(&picked));
    dispatch_dtype!(x.dtype(), T => {
        let mut out: Vec<T> = wide.to_vec()?;
        let source = source.contiguous()?;
        let from = source.data::<T>()?;
        match combine {
            Combine::Replace => places.combine(&mut out, from, |slot, value| *slot = value),
            Combine::Add => places.combine(&mut out, from, |slot, value| *slot = slot.plus(value)),
            Combine::Multiply => places.combine(&mut out, from, |slot, value| *slot = slot.times(value)),
        }
        Array::from_vec(out, x.shape())
    })
}

/// Where the elements of an index tensor lead: to `picked` along an axis of another tensor, beside it to
/// their own place.
pub(crate) struct Places<'a> {
    /// The sizes before the axis, of the tensor and of the index.
    outer: [Sizes; 2],
    /// The elements of the tensor and of the index that share a place before the axis.
    slab: [usize; 2],
    /// The step along the axis of the tensor.
    step: usize,
    /// For each place of the index behind the axis that of the tensor.
    inner: Vec<usize>,
    picked: &'a [i64],
}

impl<'a> Places<'a> {
    pub(crate) fn new(shape: &[usize], index: &[usize], at: usize, picked: &'a [i64]) -> Places<'a> {
        let strides = row_major(&shape[at + 1..]);
        let inner = StridedIndex::new(&index[at + 1..], [(&strides[..], 0)]).map(|[to]| to).collect();
        Places {
            outer: [shape[..at].into(), index[..at].into()],
            slab: [shape[at..].iter().product(), index[at..].iter().product()],
            step: shape[at + 1..].iter().product(),
            inner,
            picked,
        }
    }

    /// Returns where in the index the elements of a slab of the tensor begin, unless it has none for it.
    fn start(&self, mut slab: usize) -> Option<usize> {
        let (mut start, mut size) = (0, self.slab[1]);
        for (&n, &n_index) in self.outer[0].iter().zip(&self.outer[1]).rev() {
            let i = slab % n;
            if i >= n_index {
                return None;
            }
            start += i * size;
            size *= n_index;
            slab /= n;
        }
        Some(start)
    }

    /// Combines the elements of `from` one after the other with those of `out`; slabs are independent.
    pub(crate) fn combine<U: Send, T: Element>(
        &self,
        out: &mut [U],
        from: &[T],
        f: impl Fn(&mut U, T) + Sync,
    ) {
        let run = |(i, out): (usize, &mut [U])| {
            let Some(start) = self.start(i) else { return };
            let range = start..start + self.slab[1];
            if self.inner == [0] {
                let pairs = self.picked[range.clone()].iter().zip(&from[range]);
                return pairs.for_each(|(&to, &x)| f(&mut out[to as usize * self.step], x));
            }
            let width = self.inner.len().max(1);
            let rows = self.picked[range.clone()].chunks(width).zip(from[range].chunks(width));
            for (picked, from) in rows {
                for ((&to, &x), &beside) in picked.iter().zip(from).zip(&self.inner) {
                    f(&mut out[to as usize * self.step + beside], x);
                }
            }
        };
        let slab = self.slab[0].max(1);
        let at_once = PARALLEL.div_ceil(self.slab[1].max(1));
        parallel::chunks(out, slab, at_once, |i, out| run((i, out)));
    }
}

fn index_add_type(
    x: &TensorType,
    dim: Dim,
    index: &TensorType,
    source: &TensorType,
    _alpha: Category,
) -> Result<TensorType> {
    check_index(index)?;
    let at = axis_or_only(known(&dim)?, x.rank())?;
    if source.dtype != x.dtype || index.rank() > 1 || source.rank() != x.rank() {
        bail!(Shape, "expected positions of rank 1 and a source like {x}, got {index} and {source}");
    }
    for (axis, (size, got)) in x.shape.iter().zip(source.shape.iter()).enumerate() {
        expect_same(
            if axis == at { index.shape.first().unwrap_or(&ONE) } else { size },
            got,
            "a size of the source",
        )?;
    }
    Ok(x.clone())
}

static ONE: Dim = Dim::new(1);

fn index_add_array(x: &Array, dim: i64, index: &Array, source: &Array, alpha: Scalar) -> Result<Array> {
    index_add_type(&type_of(x), dim.into(), &type_of(index), &type_of(source), alpha.category())?;
    let at = axis_or_only(dim, x.rank())?;
    let (wide, source) = (at_least_1d(x)?, at_least_1d(source)?.contiguous()?);
    let picked = checked(index, wide.shape()[at])?;
    let picked = slice::<i64>(&picked);
    let (size, inner) = (wide.shape()[at], wide.shape()[at + 1..].iter().product::<usize>());
    dispatch_dtype!(x.dtype(), T => {
        let mut out: Vec<T> = wide.to_vec()?;
        let from = source.as_slice::<T>().ok_or_else(|| err!(DType, "storage of another dtype"))?;
        let alpha = T::from_scalar(held(alpha, x.dtype())?);
        each_slab(&mut out, from, size, picked.len(), inner, |out, from| {
            fx_simd::call_256::<add_rows, _>((out, from, picked, inner, alpha));
        });
        Array::from_vec(out, x.shape())
    })
}

/// Calls `f` with the parts of `out` and `from` that share a place before an axis, of which they have `size`
/// and `picked` positions.
pub(crate) fn each_slab<U: Send, T: Sync>(
    out: &mut [U],
    from: &[T],
    size: usize,
    picked: usize,
    inner: usize,
    f: impl Fn(&mut [U], &[T]) + Sync,
) {
    let (to, taken) = (size * inner, picked * inner);
    if to == 0 || taken == 0 {
        return;
    }
    let at_once = (PARALLEL / 8).div_ceil(taken);
    parallel::chunks(out, to, at_once, |i, out| f(out, &from[i * taken..][..taken]));
}

fx_simd::wide! {
    fn add_rows[T: Ring]((out, from, picked, inner, alpha): (&mut [T], &[T], &[i64], usize, T)) {
        if inner == 1 {
            for (&to, &x) in picked.iter().zip(from) {
                let out = &mut out[to as usize];
                *out = out.plus(x.times(alpha));
            }
            return;
        }
        for (&to, from) in picked.iter().zip(from.chunks(inner)) {
            let row = &mut out[to as usize * inner..][..inner];
            row.iter_mut().zip(from).for_each(|(out, &x)| *out = out.plus(x.times(alpha)));
        }
    }
}

pub(crate) fn check_mask(mask: &TensorType, what: &str) -> Result<()> {
    if mask.dtype != DType::Bool {
        return Err(
            err!(DType, "expected a bool tensor as the {what}, got {mask}").help("compare: `x.ne(0)`")
        );
    }
    Ok(())
}

fn masked_fill_type(x: &TensorType, mask: &TensorType, value: OperandType<'_>) -> Result<TensorType> {
    check_mask(mask, "mask")?;
    if let OperandType::Tensor(ty) = value
        && ty.rank() > 0
    {
        return Err(
            err!(Shape, "expected a value of rank 0, got {ty}").help("use `where_` to choose elements")
        );
    }
    let shape = broadcast_dims([&x.shape[..], &mask.shape[..]].into_iter())?;
    Ok(TensorType { dtype: x.dtype, shape })
}

fn masked_fill_array(x: &Array, mask: &Array, value: OperandValue<'_>) -> Result<Array> {
    let scalar = match value {
        OperandValue::Array(value) => {
            masked_fill_type(&type_of(x), &type_of(mask), OperandType::Tensor(&type_of(value)))?;
            value.item()?
        }
        OperandValue::Scalar(value) => {
            masked_fill_type(&type_of(x), &type_of(mask), OperandType::Scalar(value.category()))?;
            value
        }
    };
    choose(mask, &Array::full(x.dtype(), &[], held(scalar, x.dtype())?)?, x)
}

fn where_type(condition: &TensorType, input: OperandType<'_>, other: OperandType<'_>) -> Result<TensorType> {
    check_mask(condition, "condition")?;
    let shape_of = |operand: &OperandType<'_>| match operand {
        OperandType::Tensor(ty) => ty.shape.clone(),
        OperandType::Scalar(_) => Default::default(),
    };
    let shapes = [condition.shape.clone(), shape_of(&input), shape_of(&other)];
    let shape = broadcast_dims(shapes.iter().map(|shape| &shape[..]))?;
    Ok(TensorType { dtype: result_dtype_of_types(&[input, other]), shape })
}

fn where_array(condition: &Array, input: OperandValue<'_>, other: OperandValue<'_>) -> Result<Array> {
    check_mask(&type_of(condition), "condition")?;
    let dtype = result_dtype(&[input, other]);
    let array = |operand: OperandValue<'_>| match operand {
        OperandValue::Array(array) => Ok(array.cast(dtype)),
        OperandValue::Scalar(x) => Array::full(dtype, &[], held(x, dtype)?),
    };
    choose(condition, &array(input)?, &array(other)?)
}

/// What a loop reads: the same element always, or one after the other.
enum Source<'a, T> {
    One(T),
    Each(&'a [T]),
}

impl<T: Copy> Source<'_, T> {
    /// Returns the elements from a position on, as many as `spare` has.
    fn block<'b>(&'b self, at: usize, spare: &'b mut [T]) -> &'b [T] {
        match self {
            Source::One(x) => {
                spare.fill(*x);
                spare
            }
            Source::Each(data) => &data[at..at + spare.len()],
        }
    }
}

fx_simd::wide! {
    pub(crate) fn choose_each[T: Copy]((mask, yes, no, out): (&[bool], &[T], &[T], &mut [T])) {
        for (((out, &mask), &yes), &no) in out.iter_mut().zip(mask).zip(yes).zip(no) {
            // An ordinary choice becomes one of addresses, and elements would be gathered one by one.
            *out = std::hint::select_unpredictable(mask, yes, no);
        }
    }
}

/// Returns `yes` where `mask` is true, else `no`, which have the same dtype; broadcasts.
pub(crate) fn choose(mask: &Array, yes: &Array, no: &Array) -> Result<Array> {
    let shape = broadcast_shapes([mask.shape(), yes.shape(), no.shape()].into_iter())?;
    let numel = fx_core::array::checked_numel(&shape)?;
    let wide = |x: &Array| match x.numel() {
        1 => Ok(x.clone()),
        _ => x.broadcast_to(&shape)?.contiguous(),
    };
    let (mask, yes, no) = (wide(mask)?, wide(yes)?, wide(no)?);
    dispatch_dtype!(yes.dtype(), T => {
        let (mask, yes, no) = (source::<bool>(&mask)?, source::<T>(&yes)?, source::<T>(&no)?);
        let out = fill(numel, |start, out: &mut [T]| {
            let mut spare = [[T::default(); BLOCK]; 2];
            let [yes_spare, no_spare] = &mut spare;
            let mut mask_spare = [false; BLOCK];
            let mask = mask.block(start, &mut mask_spare[..out.len()]);
            let yes = yes.block(start, &mut yes_spare[..out.len()]);
            let no = no.block(start, &mut no_spare[..out.len()]);
            fx_simd::call_256::<choose_each, _>((mask, yes, no, out));
        })?;
        Array::from_vec(out, &shape)
    })
}

fn source<T: Element>(x: &Array) -> Result<Source<'_, T>> {
    let data = x.as_slice::<T>().ok_or_else(|| err!(DType, "storage of another dtype"))?;
    Ok(if let [one] = data { Source::One(*one) } else { Source::Each(data) })
}
