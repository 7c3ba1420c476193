//! Rows that change the shape and keep every element.

use fx_core::array::Sizes;
use fx_core::op::kind::{DimVec, IntVec};
use fx_core::op::unknown_type;
use fx_core::window::{self, Window, WindowCall};
use fx_core::{Arg, Array, DType, Dim, Result, TensorType, Truth, bail, err, functions, kernels};
use smallvec::SmallVec;

use crate::ops::infer::{axis, axis_of, dims, distinct_axes, fill_in, known, sizes, type_of, typed};

kernels! {
    /// Operations that change the shape of a tensor.
    pub trait Shapes; pub static SHAPES;

    /// Gives the elements, in row-major order, another shape. One size may be -1 and is computed from the others.
    ///
    /// Fails if the number of elements differs.
    #[class = View(window::reshape)]
    reshape(x: Tensor, shape: Shape) = reshape_type, reshape_array;
    /// As `reshape`; in fx every tensor can be viewed in every shape of as many elements.
    #[class = View(window::reshape)]
    view(x: Tensor, shape: Shape) = reshape_type, reshape_array;
    /// Reshapes to the shape of `other`.
    #[class = View(window::reshape)]
    reshape_as(x: Tensor, other: Tensor) =
        |x, other: &TensorType| reshape_type(x, other.shape.iter().cloned().collect()),
        |x: &Array, other: &Array| x.reshape(other.shape());
    /// As `reshape_as`.
    #[class = View(window::reshape)]
    view_as(x: Tensor, other: Tensor) =
        |x, other: &TensorType| reshape_type(x, other.shape.iter().cloned().collect()),
        |x: &Array, other: &Array| x.reshape(other.shape());
    /// Merges the axes from `start_dim` to `end_dim`, both included, into one. Rank 0 becomes rank 1.
    #[class = View(window::reshape)]
    flatten(x: Tensor, start_dim: Int = 0, end_dim: Int = -1) = flatten_type, flatten_array;
    /// Splits the axis `dim` into axes of `sizes`, of which one may be -1.
    #[class = View(window::reshape)]
    unflatten(x: Tensor, dim: Int, sizes: Shape) = unflatten_type, unflatten_array;
    /// Exchanges two axes.
    #[class = View(exchanged)]
    transpose(x: Tensor, dim0: Int, dim1: Int) = transpose_type, transpose_array;
    /// As `transpose`.
    #[class = View(exchanged)]
    swapaxes(x: Tensor, axis0: Int, axis1: Int) = transpose_type, transpose_array;
    /// The transposed matrix; a tensor of rank 0 or 1 stays as it is, a higher rank is an error.
    #[class = View(turned)]
    t(x: Tensor) = t_type, t_array;
    /// Orders the axes anew: axis `k` of the result is axis `dims[k]`.
    #[class = View(permuted_axes)]
    permute(x: Tensor, dims: Ints) = permute_type, permute_array;
    /// Moves the axes `source` to the positions `destination`; the others keep their order.
    #[class = View(moved_axes)]
    movedim(x: Tensor, source: Ints, destination: Ints) = movedim_type, movedim_array;
    /// Drops the axes of size 1 among `dim`, or among all.
    ///
    /// With a symbolic size among them the rank is not known before the operation has run.
    #[class = View(window::reshape)]
    squeeze(x: Tensor, dim: Axes = None) = squeeze_type, squeeze_array;
    /// Inserts an axis of size 1 at `dim`, which may be the rank.
    #[class = View(window::reshape)]
    unsqueeze(x: Tensor, dim: Int) = unsqueeze_type, unsqueeze_array;
    /// Repeats axes of size 1, and adds leading axes, to reach `size`; -1 keeps a size.
    #[class = View(window::expand)]
    expand(x: Tensor, size: Shape) = expand_type, expand_array;
    /// As `expand`.
    #[class = View(window::expand)]
    broadcast_to(x: Tensor, size: Shape) = expand_type, expand_array;
    /// Expands to the shape of `other`.
    #[class = View(window::expand)]
    expand_as(x: Tensor, other: Tensor) =
        |x, other: &TensorType| expand_type(x, other.shape.iter().cloned().collect()),
        |x: &Array, other: &Array| x.broadcast_to(other.shape());
    /// The same elements in row-major order in memory.
    #[class = View(in_order)]
    contiguous(x: Tensor) = same_type, |x: &Array| x.contiguous();
    /// The tensor itself; in PyTorch, outside of autograd.
    #[class = View(window::whole)]
    detach(x: Tensor) = same_type, same_array;
    /// The tensor itself.
    #[class = View(window::whole)]
    alias(x: Tensor) = same_type, same_array;
    /// The tensor itself; not defined for bools.
    #[class = View(window::whole)]
    positive(x: Tensor) = number_type, |x: &Array| number_type(&type_of(x)).map(|_| x.clone());
    /// Converts to `dtype`: floats to integers towards zero, anything but zero to true.
    to(x: Tensor, dtype: DType) =
        |x: &TensorType, dtype: DType| Ok::<_, fx_core::Error>(TensorType { dtype, shape: x.shape.clone() }),
        |x: &Array, dtype: DType| Ok::<_, fx_core::Error>(x.cast(dtype));
    /// Converts to the dtype of `other`.
    type_as(x: Tensor, other: Tensor) =
        |x: &TensorType, other: &TensorType| {
            Ok::<_, fx_core::Error>(TensorType { dtype: other.dtype, shape: x.shape.clone() })
        },
        |x: &Array, other: &Array| Ok::<_, fx_core::Error>(x.cast(other.dtype()));
}

functions! {
    pub static COPIES;

    /// The tensor itself; values are immutable, so that no copy is needed.
    #[class = View(window::whole)]
    clone(x: Tensor) = same_type, same_array;
}

fn same_type(x: &TensorType) -> Result<TensorType> {
    Ok(x.clone())
}

fn number_type(x: &TensorType) -> Result<TensorType> {
    if x.dtype == DType::Bool {
        bail!(DType, "expected numbers, got bool");
    }
    Ok(x.clone())
}

fn same_array(x: &Array) -> Result<Array> {
    Ok(x.clone())
}

fn reshape_type(x: &TensorType, shape: DimVec) -> Result<TensorType> {
    let filled =
        fill_in(&x.shape.numel(), &shape).map_err(|error| error.help(format!("the tensor is {x}")))?;
    typed(x.dtype, filled)
}

fn reshape_array(x: &Array, shape: IntVec) -> Result<Array> {
    x.reshape(&sizes(&reshape_type(&type_of(x), dims(&shape))?)?)
}

fn flatten_type(x: &TensorType, start: Dim, end: Dim) -> Result<TensorType> {
    let rank = x.rank().max(1);
    let (start, end) = (axis_of(&start, rank)?, axis_of(&end, rank)?);
    if start > end {
        bail!(Axis, "expected start_dim at or before end_dim, got {start} and {end}");
    }
    if x.rank() == 0 {
        return typed(x.dtype, [Dim::new(1)]);
    }
    let merged: Dim = x.shape[start..=end].iter().product();
    let shape = &x.shape;
    typed(x.dtype, shape[..start].iter().cloned().chain([merged]).chain(shape[end + 1..].iter().cloned()))
}

fn flatten_array(x: &Array, start: i64, end: i64) -> Result<Array> {
    x.reshape(&sizes(&flatten_type(&type_of(x), start.into(), end.into())?)?)
}

fn unflatten_type(x: &TensorType, dim: Dim, into: DimVec) -> Result<TensorType> {
    let at = axis_of(&dim, x.rank())?;
    if into.is_empty() {
        bail!(Shape, "expected at least one size to unflatten into");
    }
    let filled = fill_in(&x.shape[at], &into)?;
    let shape = &x.shape;
    typed(x.dtype, shape[..at].iter().cloned().chain(filled).chain(shape[at + 1..].iter().cloned()))
}

fn unflatten_array(x: &Array, dim: i64, into: IntVec) -> Result<Array> {
    x.reshape(&sizes(&unflatten_type(&type_of(x), dim.into(), dims(&into))?)?)
}

fn transpose_type(x: &TensorType, dim0: Dim, dim1: Dim) -> Result<TensorType> {
    let rank = x.rank().max(1);
    let (a, b) = (axis_of(&dim0, rank)?, axis_of(&dim1, rank)?);
    let mut out = x.clone();
    if x.rank() > 0 {
        out.shape.dims_mut().swap(a, b);
    }
    Ok(out)
}

fn transpose_array(x: &Array, dim0: i64, dim1: i64) -> Result<Array> {
    let rank = x.rank().max(1);
    let (a, b) = (axis(dim0, rank)?, axis(dim1, rank)?);
    if x.rank() == 0 { Ok(x.clone()) } else { x.transpose(a, b) }
}

fn exchanged(call: &mut WindowCall<'_>) -> Result<Option<Arg<Window>>> {
    let x = call.window(0)?;
    let mut order: Vec<usize> = (0..x.rank()).collect();
    if x.rank() > 0 {
        order.swap(call.axis(1, x.rank())?, call.axis(2, x.rank())?);
    }
    Ok(Some(Arg::Leaf(x.permute(&order))))
}

/// The rule of operations that exchange the last two axes, if there are two.
pub(in crate::ops) fn turned(call: &mut WindowCall<'_>) -> Result<Option<Arg<Window>>> {
    let x = call.window(0)?;
    let mut order: Vec<usize> = (0..x.rank()).collect();
    if let [.., a, b] = &mut order[..] {
        std::mem::swap(a, b);
    }
    Ok(Some(Arg::Leaf(x.permute(&order))))
}

fn t_type(x: &TensorType) -> Result<TensorType> {
    match x.rank() {
        0 | 1 => Ok(x.clone()),
        2 => transpose_type(x, Dim::new(0), Dim::new(1)),
        _ => {
            Err(err!(Shape, "expected a rank of at most 2, got {x}")
                .help("name the axes: `transpose(-2, -1)`"))
        }
    }
}

fn t_array(x: &Array) -> Result<Array> {
    t_type(&type_of(x))?;
    if x.rank() == 2 { x.transpose(0, 1) } else { Ok(x.clone()) }
}

/// Returns the axes of a permutation as positions.
fn permutation(dims: &[i64], rank: usize) -> Result<SmallVec<[usize; 4]>> {
    if dims.len() != rank {
        bail!(Axis, "expected {rank} axes to permute, got {dims:?}");
    }
    distinct_axes(dims, rank)
}

fn permuted(x: &TensorType, axes: &[usize]) -> TensorType {
    TensorType { dtype: x.dtype, shape: axes.iter().map(|&axis| x.shape[axis].clone()).collect() }
}

fn permute_type(x: &TensorType, dims: IntVec) -> Result<TensorType> {
    Ok(permuted(x, &permutation(&dims, x.rank())?))
}

fn permute_array(x: &Array, dims: IntVec) -> Result<Array> {
    x.permute(&permutation(&dims, x.rank())?)
}

fn permuted_axes(call: &mut WindowCall<'_>) -> Result<Option<Arg<Window>>> {
    let x = call.window(0)?;
    Ok(Some(Arg::Leaf(x.permute(&permutation(&call.ints(1)?, x.rank())?))))
}

/// Returns the permutation that moves axes.
fn moved(source: &[i64], destination: &[i64], rank: usize) -> Result<SmallVec<[usize; 4]>> {
    if source.len() != destination.len() {
        bail!(Argument, "expected as many destinations as sources, got {source:?} and {destination:?}");
    }
    let (from, to) = (distinct_axes(source, rank)?, distinct_axes(destination, rank)?);
    let mut rest = (0..rank).filter(|axis| !from.contains(axis));
    let place = |at: usize| match to.iter().position(|&to| to == at) {
        Some(i) => from[i],
        None => rest.next().expect("as many axes remain as places"),
    };
    Ok((0..rank).map(place).collect())
}

fn movedim_type(x: &TensorType, source: IntVec, destination: IntVec) -> Result<TensorType> {
    Ok(permuted(x, &moved(&source, &destination, x.rank())?))
}

fn movedim_array(x: &Array, source: IntVec, destination: IntVec) -> Result<Array> {
    x.permute(&moved(&source, &destination, x.rank())?)
}

fn moved_axes(call: &mut WindowCall<'_>) -> Result<Option<Arg<Window>>> {
    let x = call.window(0)?;
    Ok(Some(Arg::Leaf(x.permute(&moved(&call.ints(1)?, &call.ints(2)?, x.rank())?))))
}

fn in_order(call: &mut WindowCall<'_>) -> Result<Option<Arg<Window>>> {
    let x = call.window(0)?;
    Ok(x.is_row_major().then(|| Arg::Leaf(x.clone())))
}

fn squeeze_type(x: &TensorType, dim: Option<IntVec>) -> Result<TensorType> {
    let chosen = match &dim {
        Some(dims) => distinct_axes(dims, x.rank())?,
        None => (0..x.rank()).collect(),
    };
    let one = Dim::new(1);
    let mut out = Vec::new();
    for (axis, size) in x.shape.iter().enumerate() {
        match if chosen.contains(&axis) { size.same(&one) } else { Truth::No } {
            Truth::Yes => {}
            Truth::No => out.push(size.clone()),
            Truth::Unknown => return Err(unknown_type()),
        }
    }
    typed(x.dtype, out)
}

fn squeeze_array(x: &Array, dim: Option<IntVec>) -> Result<Array> {
    x.reshape(&sizes(&squeeze_type(&type_of(x), dim)?)?)
}

fn unsqueeze_type(x: &TensorType, dim: Dim) -> Result<TensorType> {
    let at = axis_of(&dim, x.rank() + 1)?;
    let mut out = x.clone();
    out.shape.dims_mut().insert(at, Dim::new(1));
    Ok(out)
}

fn unsqueeze_array(x: &Array, dim: i64) -> Result<Array> {
    x.unsqueeze(axis(dim, x.rank() + 1)?)
}

fn expand_type(x: &TensorType, size: DimVec) -> Result<TensorType> {
    let Some(added) = size.len().checked_sub(x.rank()) else {
        bail!(Shape, "expected at least {} sizes to expand {x}, got {}", x.rank(), size.len());
    };
    let mut out = size;
    for (i, to) in out.iter_mut().enumerate() {
        let keep = to.known() == Some(-1);
        if i < added {
            if keep {
                bail!(Shape, "the new axis {i} has no size to keep with -1");
            }
            continue;
        }
        let from = &x.shape[i - added];
        if keep {
            *to = from.clone();
        } else if from.same(to).is_no() && from.same(&Dim::new(1)).is_no() {
            return Err(err!(Shape, "cannot expand {from} to {to} in axis {i}")
                .help("only axes of size 1 expand; -1 keeps a size"));
        }
    }
    typed(x.dtype, out)
}

fn expand_array(x: &Array, size: IntVec) -> Result<Array> {
    let shape: Sizes = sizes(&expand_type(&type_of(x), dims(&size))?)?;
    x.broadcast_to(&shape)
}

/// Returns the size of an axis that must be known.
pub(super) fn known_size(dim: &Dim) -> Result<usize> {
    let size = known(dim)?;
    usize::try_from(size).map_err(|_| err!(Argument, "expected at least 0, got {size}"))
}
