//! Writing by index tensors: a copy of a tensor in which some elements are replaced, or combined with others.
//!
//! Elements are written one after the other in row-major order of the index, so that the last of several wins.

use fx_core::array::{Sizes, checked_numel, dispatch_dtype};
use fx_core::op::kind::{OperandType, OperandValue};
use fx_core::ops::{index_array, index_places, index_type};
use fx_core::pointwise::held;
use fx_core::{
    Arg, Array, DType, Dim, ErrorKind, Op, Result, Tensor, TensorType, Type, TypeTree, Value, bail, err,
    kernels,
};

use crate::kernel::chunks::fill;
use crate::ops::check::{same_dtype, same_size, slice};
use crate::ops::infer::{axis_or_only, expect_same, known, type_of, typed};
use crate::ops::view::{Ring, at_least_1d, check_index, checked, each_slab, from_end};

kernels! {
    /// Operations that write by index tensors.
    pub trait IndexWrites; pub static INDEX_WRITES;

    /// The elements at `indices`, a list of index tensors for the leading axes: integers, bool masks, or none
    /// for a whole axis. As `x[indices]`.
    index(x: Tensor, indices: Any) = index_rule, |x: &Array, indices: &Value| index_array(x, &entries(indices)?);
    /// A copy of `x` where `values`, broadcast to the shape of `x[indices]`, is written, or with `accumulate`
    /// added.
    ///
    /// `indices` is a list of index tensors for the leading axes: integers, bool masks, or none for a whole axis.
    index_put(x: Tensor, indices: Any, values: Tensor, accumulate: Bool = false) = index_put_type, index_put_array;
    /// A copy of `x` whose sub-tensors at the positions `index` along `dim` are those of `source`.
    index_copy(x: Tensor, dim: Int, index: Tensor, source: Tensor) = index_copy_type, index_copy_array;
    /// A copy of `x` whose sub-tensors at the positions `index` along `dim` are filled with `value`, a number
    /// or a tensor of rank 0.
    index_fill(x: Tensor, dim: Int, index: Tensor, value: Operand) = index_fill_type, index_fill_array;
    /// The elements at the positions `index` of the flattened `x`; negative ones count from the end. Of the
    /// shape of `index`.
    take(x: Tensor, index: Tensor) = take_type, take_array;
    /// A copy of `x` where `source` is written to the positions `index` of the flattened tensor, or with
    /// `accumulate` added.
    put(x: Tensor, index: Tensor, source: Tensor, accumulate: Bool = false) = put_type, put_array;
}

/// The tables of this file.
pub(super) static TABLES: &[&[Op]] = &[INDEX_WRITES];

/// Returns a list of index tensors as the entries of an index: none is a whole axis, u8 a mask.
///
/// A tensor of rank 0 among others takes part in their broadcast, as in PyTorch.
fn read<L: Clone>(
    indices: &Arg<L>,
    dtype_and_rank: impl Fn(&L) -> Result<(DType, usize)>,
    to_line: impl Fn(&L) -> Result<L>,
    to_mask: impl Fn(&L) -> Result<L>,
) -> Result<Arg<L>> {
    let items = match indices {
        Arg::List(items) | Arg::Tuple(items) => &items[..],
        one => std::slice::from_ref(one),
    };
    let mut has_line = false;
    for item in items {
        if let Arg::Leaf(leaf) = item {
            let (dtype, rank) = dtype_and_rank(leaf)?;
            has_line |= rank > 0 || matches!(dtype, DType::Bool | DType::U8);
        }
    }
    let entry = |item: &Arg<L>| match item {
        Arg::None => Ok(Arg::slice(Arg::None, Arg::None, Arg::None)),
        Arg::Leaf(leaf) => Ok(Arg::Leaf(match dtype_and_rank(leaf)? {
            (DType::U8, _) => to_mask(leaf)?,
            (DType::Bool, _) => leaf.clone(),
            (_, 0) if has_line => to_line(leaf)?,
            _ => leaf.clone(),
        })),
        other => bail!(Argument, "expected tensors or none as indices, got {}", other.kind_name()),
    };
    Ok(Arg::tuple(items.iter().map(entry).collect::<Result<Vec<_>>>()?))
}

fn entries(indices: &Value) -> Result<Value> {
    read(
        indices,
        |x: &Tensor| x.array().map(|x| (x.dtype(), x.rank())),
        |x| Ok(x.array()?.reshape(&[1])?.into()),
        |x| Ok(x.array()?.cast(DType::Bool).into()),
    )
}

fn entry_types(indices: &TypeTree) -> Result<TypeTree> {
    let tensor = |ty: &Type| match ty {
        Type::Tensor(ty) => Ok(ty.clone()),
        other => bail!(Argument, "expected tensors or none as indices, got {other}"),
    };
    read(
        indices,
        |ty: &Type| tensor(ty).map(|ty| (ty.dtype, ty.rank())),
        |ty| Ok(Type::Tensor(typed(tensor(ty)?.dtype, [Dim::new(1)])?)),
        |ty| Ok(Type::Tensor(TensorType { dtype: DType::Bool, shape: tensor(ty)?.shape })),
    )
}

fn index_rule(x: &TensorType, indices: &TypeTree) -> Result<TypeTree> {
    index_type(x, &entry_types(indices)?)
}

fn index_put_type(
    x: &TensorType,
    indices: &TypeTree,
    values: &TensorType,
    _accumulate: bool,
) -> Result<TensorType> {
    same_dtype("values", x.dtype, values.dtype)?;
    // The shape of `x[indices]` may depend on data; the kernel checks what is not known.
    match index_rule(x, indices) {
        Ok(Arg::Leaf(Type::Tensor(part))) => {
            if values.rank() > part.rank() {
                bail!(Shape, "expected values that broadcast to {}, got {values}", part.shape);
            }
            let one = Dim::new(1);
            for (size, got) in part.shape.iter().rev().zip(values.shape.iter().rev()) {
                if got.same(&one).is_no() {
                    expect_same(size, got, "a size of the values")?;
                }
            }
        }
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::UnknownType => {}
        Err(error) => return Err(error),
    }
    Ok(x.clone())
}

fn index_put_array(x: &Array, indices: &Value, values: &Array, accumulate: bool) -> Result<Array> {
    same_dtype("values", x.dtype(), values.dtype())?;
    let entries = entries(indices)?;
    // Trailing axes that no index names are written in one piece.
    let n_named = entries.items().unwrap_or(&[]).iter().map(n_axes).sum::<Result<usize>>()?;
    let Some(trailing) = x.shape().get(n_named..) else {
        bail!(Index, "an index of {n_named} axes is too long for a tensor of rank {}", x.rank());
    };
    let width = trailing.iter().product::<usize>();
    if let Some((shape, places)) = index_places(x, &entries)? {
        return put_places(x, &places, &shape, trailing, values, accumulate);
    }
    let numel = checked_numel(&x.shape()[..n_named])?;
    let numbered = Array::from_vec((0..numel as i64).collect::<Vec<i64>>(), &x.shape()[..n_named])?;
    let places = index_array(&numbered, &entries)?;
    let dense = places.contiguous()?;
    let starts: Vec<i64> = slice::<i64>(&dense).iter().map(|&place| place * width as i64).collect();
    put_places(x, &starts, places.shape(), trailing, values, accumulate)
}

/// Writes `values`, broadcast to `shape` and the trailing axes, in runs of the trailing axes that begin at
/// `places`.
fn put_places(
    x: &Array,
    places: &[i64],
    shape: &[usize],
    trailing: &[usize],
    values: &Array,
    accumulate: bool,
) -> Result<Array> {
    let width: usize = trailing.iter().product();
    let wide: Sizes = shape.iter().chain(trailing).copied().collect();
    let spread = values.broadcast_to(&wide)?;
    dispatch_dtype!(x.dtype(), T => {
        let mut out: Vec<T> = x.to_vec()?;
        if width == 1 && values.numel() == 1 && !accumulate {
            let value = values.contiguous()?;
            let value = slice::<T>(&value)[0];
            places.iter().for_each(|&place| out[place as usize] = value);
        } else if width > 0 {
            let spread = spread.contiguous()?;
            let from = slice::<T>(&spread);
            match (width, accumulate) {
                (1, false) => places.iter().zip(from).for_each(|(&to, &x)| out[to as usize] = x),
                (1, true) => places.iter().zip(from).for_each(|(&to, &x)| {
                    let out = &mut out[to as usize];
                    *out = out.plus(x);
                }),
                _ => places.iter().zip(from.chunks_exact(width)).for_each(|(&to, from)| {
                    write(&mut out[to as usize..][..width], from, accumulate);
                }),
            }
        }
        Array::from_vec(out, x.shape())
    })
}

fn write<T: Ring>(to: &mut [T], from: &[T], accumulate: bool) {
    if accumulate {
        to.iter_mut().zip(from).for_each(|(to, &x)| *to = to.plus(x));
    } else {
        to.copy_from_slice(from);
    }
}

/// Returns how many axes an entry names.
fn n_axes(entry: &Value) -> Result<usize> {
    Ok(match entry {
        Arg::Leaf(tensor) if tensor.array()?.dtype() == DType::Bool => tensor.array()?.rank(),
        _ => 1,
    })
}

pub(crate) fn index_copy_type(
    x: &TensorType,
    dim: Dim,
    index: &TensorType,
    source: &TensorType,
) -> Result<TensorType> {
    check_index(index)?;
    same_dtype("a source", x.dtype, source.dtype)?;
    if index.rank() > 1 {
        bail!(Shape, "expected positions of rank 0 or 1, got {index}");
    }
    let at = axis_or_only(known(&dim)?, x.rank())?;
    let one = Dim::new(1);
    if source.rank() == 0 || x.rank() == 0 {
        // One element counts as a line of one.
        expect_same(&one, &source.shape.numel(), "the number of elements of the source")?;
        expect_same(&one, &index.shape.numel(), "the number of positions")?;
        return Ok(x.clone());
    }
    if source.rank() != x.rank() {
        bail!(Shape, "expected a source of rank {}, got {source}", x.rank());
    }
    for (axis, (size, got)) in x.shape.iter().zip(source.shape.iter()).enumerate() {
        if axis == at {
            expect_same(&index.shape.numel(), got, "as many sub-tensors as positions")?;
        } else {
            expect_same(size, got, "a size of the source")?;
        }
    }
    Ok(x.clone())
}

fn index_copy_array(x: &Array, dim: i64, index: &Array, source: &Array) -> Result<Array> {
    index_copy_type(&type_of(x), dim.into(), &type_of(index), &type_of(source))?;
    let at = axis_or_only(dim, x.rank())?;
    let wide = at_least_1d(x)?;
    let mut shape = Sizes::from_slice(wide.shape());
    shape[at] = index.numel();
    let source = source.reshape(&shape)?.contiguous()?;
    write_rows(&wide, at, index, &source, x.shape())
}

/// Writes the sub-tensors of `source`, which is contiguous, to positions along an axis.
fn write_rows(x: &Array, at: usize, index: &Array, source: &Array, shape: &[usize]) -> Result<Array> {
    let picked = checked(index, x.shape()[at])?;
    let picked = slice::<i64>(&picked);
    let (size, inner) = (x.shape()[at], x.shape()[at + 1..].iter().product::<usize>());
    dispatch_dtype!(x.dtype(), T => {
        let mut out: Vec<T> = x.to_vec()?;
        each_slab(&mut out, slice::<T>(source), size, picked.len(), inner, |out, from| {
            for (&to, from) in picked.iter().zip(from.chunks_exact(inner)) {
                out[to as usize * inner..][..inner].copy_from_slice(from);
            }
        });
        Array::from_vec(out, shape)
    })
}

fn index_fill_type(
    x: &TensorType,
    dim: Dim,
    index: &TensorType,
    value: OperandType<'_>,
) -> Result<TensorType> {
    check_index(index)?;
    axis_or_only(known(&dim)?, x.rank())?;
    if index.rank() > 1 {
        bail!(Shape, "expected positions of rank 0 or 1, got {index}");
    }
    if let OperandType::Tensor(ty) = value
        && ty.rank() > 0
    {
        return Err(
            err!(Shape, "expected a value of rank 0, got {ty}").help("use `index_copy` to write sub-tensors")
        );
    }
    Ok(x.clone())
}

fn index_fill_array(x: &Array, dim: i64, index: &Array, value: OperandValue<'_>) -> Result<Array> {
    let value = match value {
        OperandValue::Array(value) if value.rank() > 0 => {
            bail!(Shape, "expected a value of rank 0, got {}", value.describe())
        }
        OperandValue::Array(value) => value.item()?,
        OperandValue::Scalar(value) => value,
    };
    index_fill_type(&type_of(x), dim.into(), &type_of(index), OperandType::Scalar(value.category()))?;
    let at = axis_or_only(dim, x.rank())?;
    let wide = at_least_1d(x)?;
    let index = index.reshape(&[index.numel()])?;
    // Negative positions count from the end here, and only here.
    let index = from_end(&index, wide.shape()[at])?;
    let mut shape = Sizes::from_slice(wide.shape());
    shape[at] = index.numel();
    write_rows(&wide, at, &index, &Array::full(x.dtype(), &shape, held(value, x.dtype())?)?, x.shape())
}

fn take_type(x: &TensorType, index: &TensorType) -> Result<TensorType> {
    if index.dtype != DType::I64 {
        bail!(DType, "expected positions of i64, got {index}");
    }
    typed(x.dtype, index.shape.iter().cloned())
}

fn take_array(x: &Array, index: &Array) -> Result<Array> {
    take_type(&type_of(x), &type_of(index))?;
    let places = checked(&from_end(index, x.numel())?, x.numel())?;
    let places = slice::<i64>(&places);
    let dense = x.contiguous()?;
    dispatch_dtype!(x.dtype(), T => {
        let data = slice::<T>(&dense);
        let out = fill(places.len(), |start, out: &mut [T]| {
            out.iter_mut().zip(&places[start..]).for_each(|(out, &at)| *out = data[at as usize]);
        })?;
        Array::from_vec(out, index.shape())
    })
}

fn put_type(
    x: &TensorType,
    index: &TensorType,
    source: &TensorType,
    _accumulate: bool,
) -> Result<TensorType> {
    take_type(x, index)?;
    same_dtype("a source", x.dtype, source.dtype)?;
    same_size("as many elements as positions,", &index.shape.numel(), &source.shape.numel())?;
    Ok(x.clone())
}

fn put_array(x: &Array, index: &Array, source: &Array, accumulate: bool) -> Result<Array> {
    put_type(&type_of(x), &type_of(index), &type_of(source), accumulate)?;
    let places = checked(&from_end(index, x.numel())?, x.numel())?;
    let places = slice::<i64>(&places);
    let source = source.contiguous()?;
    dispatch_dtype!(x.dtype(), T => {
        let mut out: Vec<T> = x.to_vec()?;
        for (&at, &x) in places.iter().zip(slice::<T>(&source)) {
            let out = &mut out[at as usize];
            *out = if accumulate { out.plus(x) } else { x };
        }
        Array::from_vec(out, x.shape())
    })
}
