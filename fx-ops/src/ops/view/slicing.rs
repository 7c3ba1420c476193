//! Rows that take parts of a tensor, repeat it, or turn it about.

use fx_core::array::{BLOCK, Sizes, build_blocks, dispatch_dtype};
use fx_core::op::kind::{DimVec, IntOrTensorType, IntVec, OperandValue};
use fx_core::op::unknown_type;
use fx_core::window::{Window, WindowCall, clamped, from_front};
use fx_core::{Arg, Array, DType, Dim, Element, Result, Scalar, Tensor, TensorType, bail, err, kernels};

use super::shape::known_size;
use crate::kernel::chunks::{PARALLEL, copy_rows, fill_rows};
use crate::kernel::pad::Padding;
use crate::ops::check::slice as elements;
use crate::ops::count::unbounded;
use crate::ops::infer::{
    axis, axis_of, axis_or_only, clamp_position, dims, distinct_axes, known, opt_axis, sizes, type_of, typed,
};

kernels! {
    /// Operations that take parts of a tensor, repeat it, or turn it about.
    pub trait Slicing; pub static SLICING;

    /// Takes `length` positions of axis `dim` from `start` on; a negative start counts from the end.
    #[class = View(narrowed)]
    narrow(x: Tensor, dim: Int, start: Int, length: Int) = narrow_type, narrow_array;
    /// Takes one position of axis `dim` and drops the axis; a negative index counts from the end.
    #[class = View(selected)]
    select(x: Tensor, dim: Int, index: Int) = select_type, select_array;
    /// Takes every `step`-th position of axis `dim` from `start` up to, not including, `end`, clamped as in
    /// Python.
    #[class = View(sliced)]
    slice(x: Tensor, dim: Int = 0, start: OptInt = None, end: OptInt = None, step: Int = 1) = slice_type, slice_array;
    /// The diagonal of the axes `dim1` and `dim2` as a new last axis; `offset > 0` is above the main one.
    #[class = View(on_diagonal)]
    diagonal(x: Tensor, offset: Int = 0, dim1: Int = 0, dim2: Int = 1) = diagonal_type, diagonal_array;
    /// All windows of `size` along axis `dimension`, `step` apart, as a new last axis.
    #[class = View(unfolded)]
    unfold(x: Tensor, dimension: Int, size: Int, step: Int) = unfold_type, unfold_array;
    /// Reverses the order along the axes `dims`.
    flip(x: Tensor, dims: Ints) = flip_type, flip_array;
    /// Moves every element by `shifts` along `dims`, around the end; without `dims`, in row-major order of
    /// all elements.
    roll(x: Tensor, shifts: Ints, dims: Ints = &[]) = roll_type, roll_array;
    /// Lays copies of the tensor side by side: `repeats[k]` of them along axis `k`; leading axes are added.
    repeat(x: Tensor, repeats: Shape) = repeat_type, repeat_array;
    /// As `repeat`, where missing leading repeats are 1.
    tile(x: Tensor, dims: Shape) = tile_type, tile_array;
    /// Repeats each element along `dim`, or of the flattened tensor: `repeats` times, or as often as its item
    /// of a tensor says.
    repeat_interleave(x: Tensor, repeats: IntOrTensor, dim: OptInt = None; output_size: OptInt = None) =
        repeat_interleave_type, repeat_interleave_array;
    /// Cuts into at most `chunks` parts along `dim`, all but the last of the same size.
    #[class = View(parts_of)]
    chunk(x: Tensor, chunks: Int, dim: Int = 0) -> Vec<Tensor> = chunk_type, chunk_array;
    /// Cuts into parts of `split_size` along `dim`; the last may be smaller.
    #[class = View(parts_of)]
    split(x: Tensor, split_size: Int, dim: Int = 0) -> Vec<Tensor> = split_type, split_array;
    /// Cuts into parts of the given sizes, which must add up to the size of the axis.
    #[class = View(parts_of)]
    split_with_sizes(x: Tensor, split_sizes: Shape, dim: Int = 0) -> Vec<Tensor> = split_sizes_type, split_sizes_array;
    /// The sub-tensors along axis `dim`, without it.
    #[class = View(unbound)]
    unbind(x: Tensor, dim: Int = 0) -> Vec<Tensor> = unbind_type, unbind_array;
    /// The lower triangle of each matrix, up to the given diagonal; zeros elsewhere.
    tril(x: Tensor, diagonal: Int = 0) = triangle_type, |x: &Array, diagonal: i64| triangle(x, diagonal, true);
    /// The upper triangle of each matrix, from the given diagonal on; zeros elsewhere.
    triu(x: Tensor, diagonal: Int = 0) = triangle_type, |x: &Array, diagonal: i64| triangle(x, diagonal, false);
}

pub(crate) fn with_size(x: &TensorType, at: usize, size: Dim) -> Result<TensorType> {
    let mut shape = x.shape.clone();
    shape.dims_mut()[at] = size;
    typed(x.dtype, shape.iter().cloned())
}

fn without(x: &TensorType, at: usize) -> TensorType {
    let mut out = x.clone();
    out.shape.dims_mut().remove(at);
    out
}

/// Returns a possibly negative position among `size`.
fn position(index: i64, size: usize) -> Result<usize> {
    let at = if index < 0 { index.checked_add_unsigned(size as u64) } else { Some(index) };
    at.and_then(|at| usize::try_from(at).ok())
        .ok_or_else(|| err!(Index, "position {index} is out of range for an axis of size {size}"))
}

fn narrow_type(x: &TensorType, dim: Dim, start: Dim, length: Dim) -> Result<TensorType> {
    let at = axis_of(&dim, x.rank())?;
    let size = &x.shape[at];
    let zero = Dim::new(0);
    if length.less(&zero).is_yes() {
        bail!(Argument, "expected a length of at least 0, got {length}");
    }
    let from = if start.less(&zero).is_yes() { &start + size } else { start.clone() };
    if from.less(&zero).is_yes() || size.less(&(&from + &length)).is_yes() {
        bail!(Index, "{length} positions from {start} are out of range for axis {at} of {x}");
    }
    with_size(x, at, length)
}

fn narrow_array(x: &Array, dim: i64, start: i64, length: i64) -> Result<Array> {
    narrow_type(&type_of(x), dim.into(), start.into(), length.into())?;
    let at = axis(dim, x.rank())?;
    let from = position(start, x.shape()[at])?;
    x.slice_axis(at, from, from + length as usize, 1)
}

fn narrowed(call: &mut WindowCall<'_>) -> Result<Option<Arg<Window>>> {
    let (x, length) = (call.window(0)?.clone(), call.dim(3)?);
    let at = call.axis(1, x.rank())?;
    let start = from_front(&call.dim(2)?, &x.shape[at]);
    call.require(start.clone());
    call.require(&x.shape[at] - &start - &length);
    Ok(Some(Arg::Leaf(x.slice(at, &start, length, &Dim::new(1)))))
}

pub(crate) fn select_type(x: &TensorType, dim: Dim, index: Dim) -> Result<TensorType> {
    let at = axis_of(&dim, x.rank())?;
    let size = &x.shape[at];
    if size.less_equal(&index).is_yes() || index.less(&-size).is_yes() {
        bail!(Index, "index {index} is out of range for axis {at} of {x}");
    }
    Ok(without(x, at))
}

pub(crate) fn select_array(x: &Array, dim: i64, index: i64) -> Result<Array> {
    select_type(&type_of(x), dim.into(), index.into())?;
    let at = axis(dim, x.rank())?;
    x.select(at, position(index, x.shape()[at])?)
}

fn selected(call: &mut WindowCall<'_>) -> Result<Option<Arg<Window>>> {
    let (x, index) = (call.window(0)?.clone(), call.given(2)?.clone());
    let at = call.axis(1, x.rank())?;
    let index = call.position(&index, &x.shape[at])?;
    Ok(Some(Arg::Leaf(x.select(at, &index))))
}

pub(crate) fn slice_type(
    x: &TensorType,
    dim: Dim,
    start: Option<Dim>,
    end: Option<Dim>,
    step: Dim,
) -> Result<TensorType> {
    let at = axis_of(&dim, x.rank())?;
    let size = &x.shape[at];
    if step.less(&Dim::new(1)).is_yes() {
        return Err(
            err!(Index, "expected a slice step of at least 1, got {step}").help("use `flip` to reverse")
        );
    }
    let start = start.map_or(Ok(Dim::new(0)), |start| clamp_position(&start, size))?;
    let end = end.map_or(Ok(size.clone()), |end| clamp_position(&end, size))?;
    with_size(x, at, (end - start).max(&Dim::new(0)).ceil_div(&step))
}

pub(crate) fn slice_array(
    x: &Array,
    dim: i64,
    start: Option<i64>,
    end: Option<i64>,
    step: i64,
) -> Result<Array> {
    slice_type(&type_of(x), dim.into(), None, None, step.into())?;
    let at = axis(dim, x.rank())?;
    let size = x.shape()[at];
    let clamp = |at: i64| match at {
        ..0 => size.saturating_sub(at.unsigned_abs() as usize),
        _ => size.min(at as usize),
    };
    let (start, end) = (start.map_or(0, clamp), end.map_or(size, clamp));
    x.slice_axis(at, start, end, step as usize)
}

fn sliced(call: &mut WindowCall<'_>) -> Result<Option<Arg<Window>>> {
    let x = call.window(0)?;
    let at = call.axis(1, x.rank())?;
    let start = match call.given(2)? {
        Arg::None => Dim::new(0),
        _ => clamped(&call.dim(2)?, &x.shape[at]),
    };
    Ok(Some(Arg::Leaf(x.slice(at, &start, call.shape()?.swap_remove(at), &call.dim(4)?))))
}

pub(crate) fn diagonal_type(x: &TensorType, offset: Dim, dim1: Dim, dim2: Dim) -> Result<TensorType> {
    let (a, b) = (axis_of(&dim1, x.rank())?, axis_of(&dim2, x.rank())?);
    if a == b {
        bail!(Axis, "expected two different axes for a diagonal, got {a} twice");
    }
    let offset = known(&offset)?;
    let below = Dim::new(offset.min(0));
    let above = Dim::new(offset.max(0));
    let size = (&x.shape[a] + below).min(&(&x.shape[b] - above)).max(&Dim::new(0));
    let kept =
        x.shape.iter().enumerate().filter(|(axis, _)| *axis != a && *axis != b).map(|(_, size)| size.clone());
    typed(x.dtype, kept.chain([size]))
}

pub(crate) fn diagonal_array(x: &Array, offset: i64, dim1: i64, dim2: i64) -> Result<Array> {
    x.diagonal(offset as isize, axis(dim1, x.rank())?, axis(dim2, x.rank())?)
}

fn on_diagonal(call: &mut WindowCall<'_>) -> Result<Option<Arg<Window>>> {
    let x = call.window(0)?;
    let (a, b) = (call.axis(2, x.rank())?, call.axis(3, x.rank())?);
    let (from, by) = match call.int(1)? {
        offset @ 0.. => (b, offset),
        offset => (a, -offset),
    };
    let kept = (0..x.rank()).filter(|axis| *axis != a && *axis != b);
    let mut strides: Vec<Dim> = kept.map(|axis| x.strides[axis].clone()).collect();
    strides.push(&x.strides[a] + &x.strides[b]);
    let offset = &x.offset + &x.strides[from] * by;
    Ok(Some(Arg::Leaf(Window { shape: call.shape()?, strides, offset, ..x.clone() })))
}

fn unfold_type(x: &TensorType, dimension: Dim, size: Dim, step: Dim) -> Result<TensorType> {
    let at = axis_or_only(known(&dimension)?, x.rank())?;
    if step.less(&Dim::new(1)).is_yes() || size.less(&Dim::new(0)).is_yes() {
        bail!(Argument, "expected a window of at least 0 and a step of at least 1, got {size} and {step}");
    }
    let length = x.shape.get(at).cloned().unwrap_or(Dim::new(1));
    if length.less(&size).is_yes() {
        bail!(Shape, "a window of {size} does not fit axis {at} of {x}");
    }
    if x.rank() == 0 {
        return typed(x.dtype, [size]);
    }
    let windows = (length - &size).floor_div(&step) + 1;
    let mut out = with_size(x, at, windows)?;
    out.shape.dims_mut().push(size);
    Ok(out)
}

fn unfold_array(x: &Array, dimension: i64, size: i64, step: i64) -> Result<Array> {
    unfold_type(&type_of(x), dimension.into(), size.into(), step.into())?;
    if x.rank() == 0 {
        return x.unsqueeze(0)?.slice_axis(0, 0, size as usize, 1);
    }
    x.unfold(axis(dimension, x.rank())?, size as usize, step as usize)
}

fn unfolded(call: &mut WindowCall<'_>) -> Result<Option<Arg<Window>>> {
    let (mut x, shape) = (call.window(0)?.clone(), call.shape()?);
    if x.rank() == 0 {
        x.strides.push(Dim::new(1));
    } else {
        let at = call.axis(1, x.rank())?;
        let stride = x.strides[at].clone();
        x.strides[at] = &stride * call.dim(3)?;
        x.strides.push(stride);
    }
    Ok(Some(Arg::Leaf(Window { shape, ..x })))
}

fn flip_type(x: &TensorType, dims: IntVec) -> Result<TensorType> {
    distinct_axes(&dims, x.rank())?;
    Ok(x.clone())
}

pub(crate) fn flip_array(x: &Array, dims: IntVec) -> Result<Array> {
    let axes = distinct_axes(&dims, x.rank())?;
    if x.rank() == 0 { Ok(x.clone()) } else { x.flip(&axes) }
}

fn roll_type(x: &TensorType, shifts: IntVec, dims: IntVec) -> Result<TensorType> {
    let flat = dims.is_empty() && shifts.len() == 1;
    if shifts.is_empty() || !(flat || dims.len() == shifts.len()) {
        bail!(Argument, "expected a shift for each axis, got {shifts:?} and {dims:?}");
    }
    for &dim in &dims {
        axis_or_only(dim, x.rank())?;
    }
    Ok(x.clone())
}

fn roll_array(x: &Array, shifts: IntVec, dims: IntVec) -> Result<Array> {
    roll_type(&type_of(x), shifts.clone(), dims.clone())?;
    if x.is_empty() || x.rank() == 0 {
        return Ok(x.clone());
    }
    let roll = |x: &Array, by: &[i64]| Padding::rolled(x.shape(), by)?.of_array(x, Scalar::Int(0));
    if dims.is_empty() {
        return roll(&x.reshape(&[x.numel()])?, &shifts)?.reshape(x.shape());
    }
    roll(x, &shifts_of_axes(x.shape(), &shifts, &dims)?)
}

/// Returns by how many positions each axis moves on; an axis may be named several times.
pub(crate) fn shifts_of_axes(shape: &[usize], shifts: &[i64], dims: &[i64]) -> Result<Vec<i64>> {
    let mut all = vec![0i64; shape.len()];
    for (&shift, &dim) in shifts.iter().zip(dims) {
        let axis = axis(dim, shape.len())?;
        let sum = i128::from(all[axis]) + i128::from(shift);
        all[axis] = sum.rem_euclid(shape[axis].max(1) as i128) as i64;
    }
    Ok(all)
}

fn repeat_type(x: &TensorType, repeats: DimVec) -> Result<TensorType> {
    let Some(added) = repeats.len().checked_sub(x.rank()) else {
        bail!(Shape, "expected at least {} repeats for {x}, got {}", x.rank(), repeats.len());
    };
    let size = |i: usize| if i < added { Dim::new(1) } else { x.shape[i - added].clone() };
    typed(
        x.dtype,
        repeats
            .iter()
            .enumerate()
            .map(|(i, n)| if n.less(&Dim::new(0)).is_yes() { n.clone() } else { size(i) * n }),
    )
}

fn repeat_array(x: &Array, repeats: IntVec) -> Result<Array> {
    let shape = sizes(&repeat_type(&type_of(x), dims(&repeats))?)?;
    let added = shape.len() - x.rank();
    if let (Some(&size), Some(&n)) = (x.shape().last(), repeats.last())
        && n > 1
        && size < SHORT
        && size > 0
    {
        // Runs that are this short are laid side by side first.
        let mut once: IntVec = repeats.clone();
        *once.last_mut().expect("there is a last repeat") = 1;
        return repeat_array(&repeat_last(x, n as usize)?, once);
    }
    let (mut wide, mut split) = (Sizes::new(), Sizes::new());
    for (i, &n) in repeats.iter().enumerate() {
        let size = if i < added { 1 } else { x.shape()[i - added] };
        let n = usize::try_from(n).map_err(|_| err!(Shape, "expected repeats of at least 0, got {n}"))?;
        split.extend([1, size]);
        wide.extend([n, size]);
    }
    x.reshape(&split)?.broadcast_to(&wide)?.reshape(&shape)
}

/// Lines shorter than this are repeated line by line.
const SHORT: usize = 256;

/// Repeats the last axis.
fn repeat_last(x: &Array, n: usize) -> Result<Array> {
    let size = x.shape()[x.rank() - 1];
    let mut shape = Sizes::from_slice(x.shape());
    shape[x.rank() - 1] = size.saturating_mul(n);
    let numel = fx_core::array::checked_numel(&shape)?;
    let width = size * n;
    let x = x.contiguous()?;
    dispatch_dtype!(x.dtype(), T => {
        let data = elements::<T>(&x);
        let out = fill_rows::<T>(numel / width, width, width, |row, out| {
            out[..size].copy_from_slice(&data[row * size..][..size]);
            let mut done = size;
            while done < width {
                let more = done.min(width - done);
                out.copy_within(..more, done);
                done += more;
            }
        })?;
        Array::from_vec(out, &shape)
    })
}

fn tile_type(x: &TensorType, repeats: DimVec) -> Result<TensorType> {
    let missing = x.rank().saturating_sub(repeats.len());
    repeat_type(x, std::iter::repeat_n(Dim::new(1), missing).chain(repeats).collect())
}

fn tile_array(x: &Array, repeats: IntVec) -> Result<Array> {
    let missing = x.rank().saturating_sub(repeats.len());
    repeat_array(x, std::iter::repeat_n(1, missing).chain(repeats).collect())
}

fn repeat_interleave_type(
    x: &TensorType,
    repeats: IntOrTensorType<'_>,
    dim: Option<Dim>,
    output_size: Option<Dim>,
) -> Result<TensorType> {
    let at = opt_axis(dim.as_ref(), x.rank())?;
    let (repeated, of_data) = match repeats {
        IntOrTensorType::Tensor(ty) => {
            counts_of_repeats(ty)?;
            (None, Some(unbounded()))
        }
        IntOrTensorType::Int(Some(n)) => {
            if n.less(&Dim::new(0)).is_yes() {
                bail!(Argument, "expected repeats of at least 0, got {n}");
            }
            let size = match at {
                Some(at) if x.rank() > 0 => x.shape[at].clone(),
                _ => x.shape.numel(),
            };
            (Some(size * n), None)
        }
        IntOrTensorType::Int(None) => (None, None),
    };
    let size = match (output_size, repeated) {
        (Some(size), Some(repeated)) => {
            if repeated.same(&size).is_no() {
                bail!(Argument, "expected repeats that add up to output_size, got {repeated}");
            }
            size
        }
        (size, repeated) => size.or(repeated).or(of_data).ok_or_else(unknown_type)?,
    };
    match at {
        Some(at) if x.rank() > 0 => with_size(x, at, size),
        _ => typed(x.dtype, [size]),
    }
}

/// Refuses what cannot be numbers of repeats.
fn counts_of_repeats(ty: &TensorType) -> Result<()> {
    if !ty.dtype.is_int() || ty.rank() > 1 {
        bail!(Argument, "expected repeats as integers of rank 0 or 1, got {ty}");
    }
    Ok(())
}

fn repeat_interleave_array(
    x: &Array,
    repeats: OperandValue<'_>,
    dim: Option<i64>,
    output_size: Option<i64>,
) -> Result<Array> {
    if let OperandValue::Array(n) = repeats {
        counts_of_repeats(&TensorType::new(n.dtype(), n.shape()))?;
    }
    let (x, at) = match dim {
        Some(dim) if x.rank() > 0 => (x.clone(), axis(dim, x.rank())?),
        Some(dim) => (x.reshape(&[1])?, axis_or_only(dim, 0)?),
        None => (x.reshape(&[x.numel()])?, 0),
    };
    let size = x.shape()[at];
    let uniform = match repeats {
        OperandValue::Scalar(n) => Some(n.to_i64()),
        OperandValue::Array(n) if n.numel() == 1 => Some(n.item()?.to_i64()),
        OperandValue::Array(_) => None,
    };
    if let Some(n) = uniform {
        let n = usize::try_from(n).map_err(|_| err!(Argument, "expected repeats of at least 0, got {n}"))?;
        let length = size.checked_mul(n).ok_or_else(|| err!(Limit, "cannot repeat {n} times"))?;
        if output_size.is_some_and(|n| usize::try_from(n) != Ok(length)) {
            bail!(Argument, "expected repeats that add up to output_size, got {length}");
        }
        return repeat_each(&x, at, n);
    }
    let counts: Vec<i64> = match repeats {
        OperandValue::Array(n) if n.rank() == 1 && n.numel() == size => n.cast(DType::I64).to_vec()?,
        OperandValue::Scalar(_) => unreachable!("a number is the same everywhere"),
        OperandValue::Array(n) => bail!(Shape, "expected one or {size} repeats, got {}", n.describe()),
    };
    let mut index = Vec::new();
    for (i, n) in counts.into_iter().enumerate() {
        let n = usize::try_from(n).map_err(|_| err!(Argument, "expected repeats of at least 0, got {n}"))?;
        index.try_reserve(n).map_err(|_| err!(Limit, "cannot repeat {n} times"))?;
        index.extend(std::iter::repeat_n(i, n));
    }
    if output_size.is_some_and(|n| usize::try_from(n) != Ok(index.len())) {
        bail!(Argument, "expected repeats that add up to output_size, got {}", index.len());
    }
    super::indexing::take_rows(&x, at, &index)
}

/// Repeats each position of an axis `n` times.
fn repeat_each(x: &Array, at: usize, n: usize) -> Result<Array> {
    let inner: usize = x.shape()[at + 1..].iter().product();
    let mut shape = Sizes::from_slice(x.shape());
    shape[at] = shape[at].saturating_mul(n);
    let numel = fx_core::array::checked_numel(&shape)?;
    let x = x.contiguous()?;
    dispatch_dtype!(x.dtype(), T => {
        let data = elements::<T>(&x);
        let out = if inner == 1 && n > 0 {
            let block = n * (BLOCK / n).max(1);
            build_blocks(numel, block, PARALLEL.div_ceil(block), &|at, out: &mut [T]| {
                out.chunks_mut(n).zip(&data[at / n..]).for_each(|(out, &x)| out.fill(x));
            })?
        } else {
            copy_rows::<T>(numel / inner.max(1), inner, |row| &data[row / n * inner..][..inner])?
        };
        Array::from_vec(out, &shape)
    })
}

/// Refuses lists of tensors so long that they cannot be meant.
pub(crate) fn bounded(n: i64) -> Result<()> {
    if n > 1 << 20 {
        bail!(Limit, "expected at most {} parts, got {n}", 1 << 20);
    }
    Ok(())
}

fn parts(x: &TensorType, at: usize, sizes: impl IntoIterator<Item = Dim>) -> Result<Vec<TensorType>> {
    sizes.into_iter().map(|size| with_size(x, at, size)).collect()
}

pub(crate) fn cut(x: &Array, at: usize, ends: impl IntoIterator<Item = usize>) -> Result<Vec<Array>> {
    let mut start = 0;
    let mut part = |end| x.slice_axis(at, std::mem::replace(&mut start, end), end, 1);
    ends.into_iter().map(&mut part).collect()
}

/// Returns the sizes of the parts of a cut; they are known only if the number of parts is.
fn part_sizes(size: &Dim, part: &Dim) -> Result<Vec<Dim>> {
    if part.less(&Dim::new(0)).is_yes() || part.known() == Some(0) && size.same(&Dim::new(0)).is_no() {
        bail!(Argument, "expected parts of at least 1, got {part}");
    }
    if size.known() == Some(0) {
        return Ok(vec![Dim::new(0)]);
    }
    let n = known(&size.ceil_div(part))?;
    if n == 0 {
        return Err(unknown_type());
    }
    bounded(n)?;
    let last = size - &(part * (n - 1));
    Ok((1..n).map(|_| part.clone()).chain([last]).collect())
}

fn split_type(x: &TensorType, split_size: Dim, dim: Dim) -> Result<Vec<TensorType>> {
    let at = axis_of(&dim, x.rank())?;
    parts(x, at, part_sizes(&x.shape[at], &split_size)?)
}

fn split_array(x: &Array, split_size: i64, dim: i64) -> Result<Vec<Array>> {
    split_type(&type_of(x), split_size.into(), dim.into())?;
    let at = axis(dim, x.rank())?;
    let (size, part) = (x.shape()[at], split_size as usize);
    let n = if part == 0 { 1 } else { size.div_ceil(part).max(1) };
    cut(x, at, (1..=n).map(|i| (i * part).min(size)))
}

fn chunk_type(x: &TensorType, chunks: Dim, dim: Dim) -> Result<Vec<TensorType>> {
    let at = axis_of(&dim, x.rank())?;
    let chunks = known(&chunks)?;
    if chunks < 1 {
        bail!(Argument, "expected at least 1 chunk, got {chunks}");
    }
    bounded(chunks)?;
    let size = &x.shape[at];
    if size.known() == Some(0) {
        return parts(x, at, (0..chunks).map(|_| Dim::new(0)));
    }
    // With `size % chunks == 0` there are `chunks` parts; otherwise their number depends on the size.
    match (size.known(), (size % chunks).known()) {
        (None, Some(0)) => parts(x, at, (0..chunks).map(|_| size / chunks)),
        _ => parts(x, at, part_sizes(size, &size.ceil_div(&Dim::new(chunks)))?),
    }
}

fn chunk_array(x: &Array, chunks: i64, dim: i64) -> Result<Vec<Array>> {
    let types = chunk_type(&type_of(x), chunks.into(), dim.into())?;
    let at = axis(dim, x.rank())?;
    let mut end = 0;
    let mut next = |ty: &TensorType| {
        end += known_size(&ty.shape[at])?;
        Ok(end)
    };
    cut(x, at, types.iter().map(&mut next).collect::<Result<Vec<_>>>()?)
}

fn split_sizes_type(x: &TensorType, split_sizes: DimVec, dim: Dim) -> Result<Vec<TensorType>> {
    let at = axis_of(&dim, x.rank())?;
    let total: Dim = split_sizes.iter().sum();
    typed(x.dtype, [total.clone()])?;
    if total.same(&x.shape[at]).is_no() {
        bail!(Shape, "expected parts that add up to {} in axis {at}, got {total}", x.shape[at]);
    }
    parts(x, at, split_sizes)
}

fn split_sizes_array(x: &Array, split_sizes: IntVec, dim: i64) -> Result<Vec<Array>> {
    split_sizes_type(&type_of(x), dims(&split_sizes), dim.into())?;
    let at = axis(dim, x.rank())?;
    let mut end = 0;
    cut(
        x,
        at,
        split_sizes
            .iter()
            .map(|&size| {
                end += size as usize;
                end
            })
            .collect::<Vec<_>>(),
    )
}

/// The rule of operations that cut the first operand along the axis that is the third argument.
pub(in crate::ops) fn parts_of(call: &mut WindowCall<'_>) -> Result<Option<Arg<Window>>> {
    let x = call.window(0)?;
    let at = call.axis(2, x.rank())?;
    let mut start = Dim::new(0);
    let parts = call.shapes().into_iter().map(|mut shape| {
        let size = shape.swap_remove(at);
        let part = x.slice(at, &start, size.clone(), &Dim::new(1));
        start += size;
        Arg::Leaf(part)
    });
    Ok(Some(Arg::list(parts.collect::<Vec<_>>())))
}

fn unbind_type(x: &TensorType, dim: Dim) -> Result<Vec<TensorType>> {
    let at = axis_of(&dim, x.rank())?;
    let n = known_size(&x.shape[at])?;
    bounded(n as i64)?;
    Ok(vec![without(x, at); n])
}

fn unbind_array(x: &Array, dim: i64) -> Result<Vec<Array>> {
    unbind_type(&type_of(x), dim.into())?;
    let at = axis(dim, x.rank())?;
    (0..x.shape()[at]).map(|i| x.select(at, i)).collect()
}

fn unbound(call: &mut WindowCall<'_>) -> Result<Option<Arg<Window>>> {
    let x = call.window(0)?;
    let at = call.axis(1, x.rank())?;
    let parts = (0..call.shapes().len()).map(|i| Arg::Leaf(x.select(at, &Dim::from(i))));
    Ok(Some(Arg::list(parts.collect::<Vec<_>>())))
}

fn triangle_type(x: &TensorType, _diagonal: Dim) -> Result<TensorType> {
    if x.rank() < 2 {
        bail!(Shape, "expected a rank of at least 2, got {x}");
    }
    Ok(x.clone())
}

fn triangle(x: &Array, diagonal: i64, lower: bool) -> Result<Array> {
    triangle_type(&type_of(x), diagonal.into())?;
    dispatch_dtype!(x.dtype(), T => triangle_of::<T>(x, diagonal, lower))
}

fn triangle_of<T: Element>(x: &Array, diagonal: i64, lower: bool) -> Result<Array> {
    let (n_rows, n_columns) = (x.shape()[x.rank() - 2], x.shape()[x.rank() - 1]);
    let dense = x.contiguous()?;
    let data = dense.as_slice::<T>().ok_or_else(|| err!(DType, "storage of another dtype"))?;
    let out = fill_rows::<T>(x.numel() / n_columns.max(1), n_columns, n_columns, |row, out| {
        // Positions before `bound` are on or below the diagonal for `tril`, below it for `triu`.
        let bound =
            ((row % n_rows) as i128 + i128::from(diagonal) + i128::from(lower)).clamp(0, n_columns as i128);
        let bound = bound as usize;
        let kept = if lower { 0..bound } else { bound..n_columns };
        out[kept.clone()].copy_from_slice(&data[row * n_columns..][..n_columns][kept]);
    })?;
    Array::from_vec(out, x.shape())
}
