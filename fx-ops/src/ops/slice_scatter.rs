//! Copies of a tensor in which a regular part is replaced: a slice, a diagonal, or everything.

use fx_core::array::{Runs, Sizes, Strides, dispatch_dtype};
use fx_core::op::kind::{OperandType, OperandValue};
use fx_core::pointwise::held;
use fx_core::{Array, Category, DType, Dim, Element, Op, Result, TensorType, bail, err, kernels};
use fx_simd::parallel;

use crate::ops::check::{same_shape, sizes};
use crate::ops::infer::{axis_of, known, type_of, typed};
use crate::ops::pad::{pad_kernel, pad_type};
use crate::ops::view::{diagonal_array, diagonal_type, select_array, select_type, slice_array, slice_type};

kernels! {
    /// Operations that replace a part of a tensor.
    pub trait SliceScatters; pub static SLICE_SCATTERS;

    /// A copy of `x` whose position `index` of axis `dim` is `src`.
    select_scatter(x: Tensor, src: Tensor, dim: Int, index: Int) = select_scatter_type, select_scatter_array;
    /// A copy of `x` whose slice, as `slice` takes it, is `src`.
    slice_scatter(x: Tensor, src: Tensor, dim: Int = 0, start: OptInt = None, end: OptInt = None, step: Int = 1) =
        slice_scatter_type, slice_scatter_array;
    /// A copy of `x` whose diagonal, as `diagonal` takes it, is `src`.
    diagonal_scatter(x: Tensor, src: Tensor, offset: Int = 0, dim1: Int = 0, dim2: Int = 1) =
        diagonal_scatter_type, diagonal_scatter_array;
    /// Matrices that have the last axis of `x` as the diagonal of the new axes `dim1` and `dim2`, and zeros
    /// elsewhere.
    diag_embed(x: Tensor, offset: Int = 0, dim1: Int = -2, dim2: Int = -1) = diag_embed_type, diag_embed_array;
    /// A matrix with the elements of `x`, of rank 1, on a diagonal; or the diagonal of a matrix.
    diag(x: Tensor, diagonal: Int = 0) = diag_type, diag_array;
    /// `pad` positions of `value` before and after the axes: pairs, from the last axis on. Negative ones take
    /// away.
    constant_pad_nd(x: Tensor, pad: Shape, value: Number = fx_core::op::Default::Int(0)) =
        |x, pad, value: Category| pad_type(x, pad, "constant", Some(value)),
        |x: &Array, pad, value| pad_kernel(x, pad, "constant", Some(value));
    /// `value`, a number or a tensor of rank 0, in the shape and dtype of `x`.
    fill(x: Tensor, value: Operand) = fill_type, fill_array;
    /// `src`, broadcast to the shape of `x` and converted to its dtype.
    copy(x: Tensor, src: Tensor; non_blocking: Bool = false) = |x, src, _| copy_type(x, src), |x: &Array, src: &Array, _| copy_array(x, src);
    /// `x` in another dtype, by default its own.
    _to_copy(x: Tensor; dtype: OptDType = None, non_blocking: Bool = false) =
        |x: &TensorType, dtype: Option<DType>, _| Ok::<_, fx_core::Error>(TensorType { dtype: dtype.unwrap_or(x.dtype), shape: x.shape.clone() }),
        |x: &Array, dtype: Option<DType>, _| Ok::<_, fx_core::Error>(x.cast(dtype.unwrap_or(x.dtype())));
    /// A copy of `x`.
    lift_fresh_copy(x: Tensor) = |x: &TensorType| Ok::<_, fx_core::Error>(x.clone()), |x: &Array| Ok::<_, fx_core::Error>(x.clone());
}

/// The tables of this file.
pub(super) static TABLES: &[&[Op]] = &[SLICE_SCATTERS];

/// Refuses a source of another shape than the part it replaces; its dtype does not matter.
pub(crate) fn check_part(part: &TensorType, src: &TensorType) -> Result<()> {
    same_shape("a source", &part.shape, &src.shape)
}

/// Writes `src` to the part of `x` that `view` takes.
pub(crate) fn patched(x: &Array, src: &Array, view: impl Fn(&Array) -> Result<Array>) -> Result<Array> {
    let base = x.contiguous()?;
    let place = Place::of(&base, view)?;
    let src = src.cast(x.dtype());
    dispatch_dtype!(x.dtype(), T => {
        let mut out: Vec<T> = base.into_vec()?;
        place.write(&mut out, &src)?;
        Array::from_vec(out, x.shape())
    })
}

/// The part of a contiguous array that a view takes.
struct Place {
    shape: Sizes,
    strides: Strides,
    first: usize,
}

/// Runs of more elements than this are copied by several threads.
const PARALLEL_RUN: usize = 1 << 16;

impl Place {
    fn of(base: &Array, view: impl Fn(&Array) -> Result<Array>) -> Result<Place> {
        let part = view(base)?;
        let first = part.offset().saturating_sub(base.offset());
        Ok(Place { shape: part.shape().into(), strides: part.strides().into(), first })
    }

    fn write<T: Element>(&self, out: &mut [T], src: &Array) -> Result<()> {
        let from = src.data::<T>()?;
        let runs = Runs::new(&self.shape, [(&self.strides, self.first), (src.strides(), 0)]);
        let (len, steps) = (runs.run_len(), runs.run_strides());
        runs.for_each(|[to, at]| match steps {
            [1, 1] if len > PARALLEL_RUN => {
                parallel::chunks(&mut out[to..to + len], PARALLEL_RUN / 4, 1, |i, out| {
                    fx_simd::copy(&from[at + i * PARALLEL_RUN / 4..][..out.len()], out);
                });
            }
            [1, 1] => fx_simd::copy(&from[at..at + len], &mut out[to..to + len]),
            [to_step, from_step] => (0..len).for_each(|i| {
                out[to + i * to_step as usize] = from[at + i * from_step as usize];
            }),
        });
        Ok(())
    }
}

fn select_scatter_type(x: &TensorType, src: &TensorType, dim: Dim, index: Dim) -> Result<TensorType> {
    check_part(&select_type(x, dim, index)?, src)?;
    Ok(x.clone())
}

fn select_scatter_array(x: &Array, src: &Array, dim: i64, index: i64) -> Result<Array> {
    select_scatter_type(&type_of(x), &type_of(src), dim.into(), index.into())?;
    patched(x, src, |x| select_array(x, dim, index))
}

fn slice_scatter_type(
    x: &TensorType,
    src: &TensorType,
    dim: Dim,
    start: Option<Dim>,
    end: Option<Dim>,
    step: Dim,
) -> Result<TensorType> {
    match slice_type(x, dim, start, end, step) {
        Ok(part) => check_part(&part, src)?,
        // The sign of a bound is not known, and the result does not depend on it.
        Err(error) if error.kind() == fx_core::ErrorKind::UnknownType => {}
        Err(error) => return Err(error),
    }
    Ok(x.clone())
}

fn slice_scatter_array(
    x: &Array,
    src: &Array,
    dim: i64,
    start: Option<i64>,
    end: Option<i64>,
    step: i64,
) -> Result<Array> {
    let bounds = (start.map(Dim::new), end.map(Dim::new));
    slice_scatter_type(&type_of(x), &type_of(src), dim.into(), bounds.0, bounds.1, step.into())?;
    patched(x, src, |x| slice_array(x, dim, start, end, step))
}

fn diagonal_scatter_type(
    x: &TensorType,
    src: &TensorType,
    offset: Dim,
    dim1: Dim,
    dim2: Dim,
) -> Result<TensorType> {
    check_part(&diagonal_type(x, offset, dim1, dim2)?, src)?;
    Ok(x.clone())
}

fn diagonal_scatter_array(x: &Array, src: &Array, offset: i64, dim1: i64, dim2: i64) -> Result<Array> {
    diagonal_scatter_type(&type_of(x), &type_of(src), offset.into(), dim1.into(), dim2.into())?;
    patched(x, src, |x| diagonal_array(x, offset, dim1, dim2))
}

fn diag_embed_type(x: &TensorType, offset: Dim, dim1: Dim, dim2: Dim) -> Result<TensorType> {
    let Some((last, rest)) = x.shape.split_last() else {
        bail!(Shape, "expected a rank of at least 1, got {x}");
    };
    let rank = x.rank() + 1;
    let (a, b) = (axis_of(&dim1, rank)?, axis_of(&dim2, rank)?);
    if a == b {
        bail!(Axis, "expected two different axes for a diagonal, got {a} twice");
    }
    let beside =
        known(&offset)?.checked_abs().ok_or_else(|| err!(Argument, "the offset {offset} is too far"))?;
    let size = last + beside;
    let mut shape = rest.to_vec();
    shape.insert(a.min(b), size.clone());
    shape.insert(a.max(b), size);
    typed(x.dtype, shape)
}

fn diag_embed_array(x: &Array, offset: i64, dim1: i64, dim2: i64) -> Result<Array> {
    let ty = diag_embed_type(&type_of(x), offset.into(), dim1.into(), dim2.into())?;
    let shape = sizes(&ty.shape)?;
    let zeros = Array::zeros(x.dtype(), &shape)?;
    let place = Place::of(&zeros, |zeros| diagonal_array(zeros, offset, dim1, dim2))?;
    dispatch_dtype!(x.dtype(), T => {
        let mut out: Vec<T> = zeros.into_vec()?;
        place.write(&mut out, x)?;
        Array::from_vec(out, &shape)
    })
}

fn diag_type(x: &TensorType, diagonal: Dim) -> Result<TensorType> {
    match x.rank() {
        1 => diag_embed_type(x, diagonal, Dim::new(0), Dim::new(1)),
        2 => diagonal_type(x, diagonal, Dim::new(0), Dim::new(1)),
        _ => bail!(Shape, "expected a rank of 1 or 2, got {x}"),
    }
}

fn diag_array(x: &Array, diagonal: i64) -> Result<Array> {
    diag_type(&type_of(x), diagonal.into())?;
    if x.rank() == 1 { diag_embed_array(x, diagonal, 0, 1) } else { diagonal_array(x, diagonal, 0, 1) }
}

fn fill_type(x: &TensorType, value: OperandType<'_>) -> Result<TensorType> {
    if let OperandType::Tensor(ty) = value
        && ty.rank() > 0
    {
        return Err(
            err!(Shape, "expected a value of rank 0, got {ty}").help("use `copy` to broadcast a tensor")
        );
    }
    Ok(x.clone())
}

fn fill_array(x: &Array, value: OperandValue<'_>) -> Result<Array> {
    let value = match value {
        OperandValue::Array(value) => {
            fill_type(&type_of(x), OperandType::Tensor(&type_of(value)))?;
            value.item()?
        }
        OperandValue::Scalar(value) => value,
    };
    Array::full(x.dtype(), x.shape(), held(value, x.dtype())?)
}

fn copy_type(x: &TensorType, src: &TensorType) -> Result<TensorType> {
    if src.rank() > x.rank() {
        bail!(Shape, "expected a source that broadcasts to {}, got {src}", x.shape);
    }
    for (size, got) in x.shape.iter().rev().zip(src.shape.iter().rev()) {
        if got.same(&Dim::new(1)).is_no() && size.same(got).is_no() {
            bail!(Shape, "expected a source that broadcasts to {}, got {src}", x.shape);
        }
    }
    Ok(x.clone())
}

fn copy_array(x: &Array, src: &Array) -> Result<Array> {
    copy_type(&type_of(x), &type_of(src))?;
    src.cast(x.dtype()).broadcast_to(x.shape())?.contiguous()
}
