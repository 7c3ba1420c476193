//! Arranging tensors: more axes, side by side, turned about, cut at positions.
#![allow(non_snake_case, reason = "rows are named as in PyTorch, where `T` is a transpose")]

use fx_core::array::{checked_numel, dispatch_dtype};
use fx_core::op::kind::{IntVec, IntoType, IntoValue, TensorsType};
use fx_core::op::unknown_type;
use fx_core::window::{Window, WindowCall, clamped};
use fx_core::{
    Arg, Array, DType, Dim, Op, Result, Tensor, TensorType, Type, TypeTree, Value, bail, functions, kernels,
};
use smallvec::SmallVec;

use crate::kernel::chunks::fill_rows;
use crate::ops::check::{dense, sizes, slice};
use crate::ops::concat::{at_least, cat_array, cat_type};
use crate::ops::infer::{axis, axis_of, clamp_position, known, type_of, typed};
use crate::ops::view::{bounded, flip_array, parts_of, turned, with_size};

functions! {
    pub static ARRANGE;

    /// The tensor, or each of a list, with rank 1 at least: a scalar becomes a line of one.
    #[class = View(grown_axes)]
    atleast_1d(tensors: Any) = |x| each_type(x, 1), |x| each_array(x, 1);
    /// The tensor, or each of a list, with rank 2 at least: a line becomes a row.
    #[class = View(grown_axes)]
    atleast_2d(tensors: Any) = |x| each_type(x, 2), |x| each_array(x, 2);
    /// The tensor, or each of a list, with rank 3 at least: a line becomes `[1, n, 1]`, a matrix `[m, n, 1]`.
    #[class = View(grown_axes)]
    atleast_3d(tensors: Any) = |x| each_type(x, 3), |x| each_array(x, 3);
    /// A matrix with the tensors, of rank 2 at most, one after the other along its diagonal, and zeros elsewhere.
    block_diag(tensors: Tensors) = |x: TensorsType<'_>| block_diag_type(x.known()?), block_diag_array;
    /// Joins along the second axis; tensors of rank 0 and 1 are columns.
    column_stack(tensors: Tensors) = |x: TensorsType<'_>| column_stack_type(x.known()?), column_stack_array;
    /// Joins along the third axis, after `atleast_3d`.
    dstack(tensors: Tensors) = |x: TensorsType<'_>| dstack_type(x.known()?), dstack_array;
}

kernels! {
    /// Operations that turn tensors about and cut them.
    pub trait Turns; pub static TURNS;

    /// Reverses the order of the columns, the second axis.
    fliplr(x: Tensor) = |x| mirror_type(x, 1), |x: &Array| mirror_array(x, 1);
    /// Reverses the order of the rows, the first axis.
    flipud(x: Tensor) = |x| mirror_type(x, 0), |x: &Array| mirror_array(x, 0);
    /// Turns the plane of two axes by `k` times 90 degrees, from the first towards the second.
    rot90(x: Tensor, k: Int = 1, dims: Ints = &[0, 1]) = rot90_type, rot90_array;
    /// Cuts along `dim` into a number of parts of nearly equal size, the first ones larger, or before each
    /// position of a list; either may be a tensor.
    #[class = View(split_parts)]
    tensor_split(x: Tensor, indices_or_sections: Any, dim: Int = 0) -> Vec<Tensor> = split_type, split_array;
    /// The matrices transposed: the last two axes exchanged.
    #[class = View(turned)]
    mT(x: Tensor) = |x| matrix_type(x, "mT"), |x: &Array| matrix_array(x, "mT");
    /// As `mT`, since there are no complex numbers.
    #[class = View(turned)]
    mH(x: Tensor) = |x| matrix_type(x, "mH"), |x: &Array| matrix_array(x, "mH");
    /// As `mT`, since there are no complex numbers.
    #[class = View(turned)]
    adjoint(x: Tensor) = |x| matrix_type(x, "adjoint"), |x: &Array| matrix_array(x, "adjoint");
    /// The axes in reverse order, `x.T` in Python.
    #[class = View(reversed)]
    numpy_T(x: Tensor) = |x: &TensorType| typed(x.dtype, x.shape.iter().rev().cloned()),
        |x: &Array| x.permute(&(0..x.rank()).rev().collect::<Vec<_>>());
}

/// The tables of this file.
pub(super) static TABLES: &[&[Op]] = &[ARRANGE, TURNS];

type Types<'a> = SmallVec<[&'a TensorType; 4]>;
type Arrays<'a> = SmallVec<[&'a Array; 4]>;

/// Returns the shape with axes of size one added, those of `atleast_1d` to `atleast_3d`.
fn grown<T: Clone>(shape: &[T], rank: usize, one: T) -> SmallVec<[T; 4]> {
    let mut out: SmallVec<[T; 4]> = shape.iter().cloned().collect();
    if out.is_empty() {
        out.push(one.clone());
    }
    if out.len() < rank && out.len() == 1 {
        out.insert(0, one.clone());
    }
    if out.len() < rank {
        out.push(one);
    }
    out
}

fn each_type(x: &TypeTree, rank: usize) -> Result<TypeTree> {
    let grow = |ty: &TypeTree| match ty {
        Arg::Leaf(Type::Tensor(ty)) => Ok(typed(ty.dtype, grown(&ty.shape, rank, Dim::new(1)))?.into_type()),
        Arg::Leaf(Type::Any) => Err(unknown_type()),
        other => bail!(Argument, "expected a tensor or a list of tensors, got {}", other.kind_name()),
    };
    match x.items() {
        Some(items) => Ok(Arg::tuple(items.iter().map(grow).collect::<Result<Vec<_>>>()?)),
        None => grow(x),
    }
}

fn each_array(x: &Value, rank: usize) -> Result<Value> {
    let grow = |x: &Value| match x {
        Arg::Leaf(tensor) => {
            let x = tensor.array()?;
            Ok(x.reshape(&grown(x.shape(), rank, 1))?.into_value())
        }
        other => bail!(Argument, "expected a tensor or a list of tensors, got {}", other.kind_name()),
    };
    match x.items() {
        Some(items) => Ok(Arg::tuple(items.iter().map(grow).collect::<Result<Vec<_>>>()?)),
        None => grow(x),
    }
}

fn grown_axes(call: &mut WindowCall<'_>) -> Result<Option<Arg<Window>>> {
    let mut shapes = call.shapes().into_iter();
    let mut grow = |x: &Arg<Window>| {
        let (x, shape) = (x.leaf()?, shapes.next()?);
        x.reshape(&shape).map(Arg::Leaf)
    };
    let x = call.given(0)?;
    Ok(match x.items() {
        Some(items) => items.iter().map(grow).collect::<Option<Vec<_>>>().map(Arg::tuple),
        None => grow(x),
    })
}

fn split_parts(call: &mut WindowCall<'_>) -> Result<Option<Arg<Window>>> {
    if call.given(1)?.items().is_none() {
        return parts_of(call);
    }
    // Positions need not be in order: a part begins at its position, whatever is before.
    let (x, cuts) = (call.window(0)?, call.dims(1)?);
    let at = call.axis(2, x.rank())?;
    let starts = [Dim::new(0)].into_iter().chain(cuts.iter().map(|cut| clamped(cut, &x.shape[at])));
    let part = |(start, mut shape): (Dim, Vec<Dim>)| {
        Arg::Leaf(x.slice(at, &start, shape.swap_remove(at), &Dim::new(1)))
    };
    Ok(Some(Arg::list(starts.zip(call.shapes()).map(part).collect::<Vec<_>>())))
}

fn reversed(call: &mut WindowCall<'_>) -> Result<Option<Arg<Window>>> {
    let x = call.window(0)?;
    Ok(Some(Arg::Leaf(x.permute(&(0..x.rank()).rev().collect::<Vec<_>>()))))
}

fn block_diag_type(tensors: Types<'_>) -> Result<TensorType> {
    if let Some(ty) = tensors.iter().find(|ty| ty.rank() > 2) {
        bail!(Shape, "expected tensors of rank 2 at most, got {ty}");
    }
    let Some(dtype) = tensors.iter().map(|ty| ty.dtype).reduce(DType::promote) else {
        return typed(DType::F32, [Dim::new(1), Dim::new(0)]);
    };
    let total = |axis: usize| -> Dim { tensors.iter().map(|ty| at_least(2, ty).shape[axis].clone()).sum() };
    typed(dtype, [total(0), total(1)])
}

fn block_diag_array(tensors: Arrays<'_>) -> Result<Array> {
    let types: Vec<TensorType> = tensors.iter().map(|x| type_of(x)).collect();
    let ty = block_diag_type(types.iter().collect())?;
    let shape = sizes(&ty.shape)?;
    checked_numel(&shape)?;
    // Each block with the row and column after its last one.
    let (mut blocks, mut end) = (Vec::with_capacity(tensors.len()), [0, 0]);
    for x in &tensors {
        let size = match x.shape() {
            [] => [1, 1],
            [width] => [1, *width],
            [height, width] => [*height, *width],
            _ => bail!(Shape, "expected tensors of rank 2 at most, got {}", x.describe()),
        };
        end = [end[0] + size[0], end[1] + size[1]];
        blocks.push((dense(x, ty.dtype)?, size, end));
    }
    dispatch_dtype!(ty.dtype, T => {
        let out = fill_rows::<T>(shape[0], shape[1], shape[1], |row, out| {
            let at = blocks.partition_point(|(_, _, end)| end[0] <= row);
            let (x, [height, width], end) = &blocks[at];
            let row = row + height - end[0];
            out[end[1] - width..end[1]].copy_from_slice(&slice::<T>(x)[row * width..][..*width]);
        })?;
        Array::from_vec(out, &shape)
    })
}

fn as_column(ty: &TensorType) -> TensorType {
    if ty.rank() > 1 {
        return ty.clone();
    }
    TensorType { dtype: ty.dtype, shape: [ty.shape.numel(), Dim::new(1)].into_iter().collect() }
}

fn column_stack_type(tensors: Types<'_>) -> Result<TensorType> {
    let columns: Vec<TensorType> = tensors.iter().map(|ty| as_column(ty)).collect();
    cat_type(columns.iter().collect(), Dim::new(1))
}

fn column_stack_array(tensors: Arrays<'_>) -> Result<Array> {
    let column = |x: &&Array| if x.rank() > 1 { Ok((*x).clone()) } else { x.reshape(&[x.numel(), 1]) };
    let columns: Vec<Array> = tensors.iter().map(column).collect::<Result<_>>()?;
    cat_array(columns.iter().collect(), 1)
}

fn dstack_type(tensors: Types<'_>) -> Result<TensorType> {
    let grow = |ty: &&TensorType| typed(ty.dtype, grown(&ty.shape, 3, Dim::new(1)));
    let grown: Vec<TensorType> = tensors.iter().map(grow).collect::<Result<_>>()?;
    cat_type(grown.iter().collect(), Dim::new(2))
}

fn dstack_array(tensors: Arrays<'_>) -> Result<Array> {
    let grown: Vec<Array> =
        tensors.iter().map(|x| x.reshape(&grown(x.shape(), 3, 1))).collect::<Result<_>>()?;
    cat_array(grown.iter().collect(), 2)
}

fn mirror_type(x: &TensorType, at: usize) -> Result<TensorType> {
    if x.rank() <= at {
        bail!(Shape, "expected a rank of at least {}, got {x}", at + 1);
    }
    Ok(x.clone())
}

fn mirror_array(x: &Array, at: usize) -> Result<Array> {
    mirror_type(&type_of(x), at)?;
    x.flip(&[at])
}

/// Returns the two axes of a turn, and how many quarters it is.
fn turn(rank: usize, k: i64, dims: &[i64]) -> Result<([usize; 2], i64)> {
    let &[a, b] = dims else { bail!(Argument, "expected two axes, got {dims:?}") };
    let (a, b) = (axis(a, rank)?, axis(b, rank)?);
    if a == b {
        bail!(Axis, "expected two different axes, got {a} twice");
    }
    Ok(([a, b], k.rem_euclid(4)))
}

fn rot90_type(x: &TensorType, k: Dim, dims: IntVec) -> Result<TensorType> {
    let ([a, b], _) = turn(x.rank(), 0, &dims)?;
    let mut shape = x.shape.clone();
    // A square stays one, whichever way it is turned.
    if x.shape[a] != x.shape[b] && turn(x.rank(), known(&k)?, &dims)?.1 % 2 == 1 {
        shape.dims_mut().swap(a, b);
    }
    Ok(TensorType { dtype: x.dtype, shape })
}

fn rot90_array(x: &Array, k: i64, dims: IntVec) -> Result<Array> {
    let ([a, b], k) = turn(x.rank(), k, &dims)?;
    match k {
        1 => x.flip(&[b])?.transpose(a, b),
        2 => flip_array(x, dims),
        3 => x.flip(&[a])?.transpose(a, b),
        _ => Ok(x.clone()),
    }
}

/// Where `tensor_split` cuts.
enum Cuts<T> {
    Sections(T),
    Before(Vec<T>),
}

fn split_type(x: &TensorType, cuts: &TypeTree, dim: Dim) -> Result<Vec<TensorType>> {
    if x.rank() == 0 {
        bail!(Shape, "expected a rank of at least 1, got {x}");
    }
    let at = axis_of(&dim, x.rank())?;
    let int = |arg: &TypeTree| match arg {
        Arg::Int(n) => Ok(Dim::new(*n)),
        Arg::Dim(dim) => Ok(dim.clone()),
        Arg::Leaf(Type::Int | Type::Any) => Err(unknown_type()),
        other => bail!(Argument, "expected integers to cut at, got {}", other.kind_name()),
    };
    let cuts = match cuts {
        Arg::Leaf(Type::Tensor(ty)) => {
            check_cut_tensor(ty.dtype, ty.rank())?;
            return Err(unknown_type());
        }
        Arg::List(items) | Arg::Tuple(items) => Cuts::Before(items.iter().map(int).collect::<Result<_>>()?),
        one => Cuts::Sections(int(one)?),
    };
    let size = &x.shape[at];
    match cuts {
        Cuts::Sections(n) => {
            let n = known(&n)?;
            check_sections(n)?;
            let part = |i: i64| with_size(x, at, (size + (n - 1 - i)).floor_div(&Dim::new(n)));
            (0..n).map(part).collect()
        }
        Cuts::Before(cuts) => {
            let mut start = Dim::new(0);
            let mut parts = Vec::with_capacity(cuts.len() + 1);
            for end in cuts.iter().map(|cut| clamp_position(cut, size)).chain([Ok(size.clone())]) {
                let end = end?;
                parts.push(with_size(x, at, (&end - &start).max(&Dim::new(0)))?);
                start = end;
            }
            Ok(parts)
        }
    }
}

fn check_cut_tensor(dtype: DType, rank: usize) -> Result<()> {
    if dtype != DType::I64 || rank > 1 {
        bail!(Argument, "expected i64 of rank 0 or 1 to cut at, got {dtype} of rank {rank}");
    }
    Ok(())
}

fn check_sections(n: i64) -> Result<()> {
    if n < 1 {
        bail!(Argument, "expected at least 1 section, got {n}");
    }
    bounded(n)
}

fn split_array(x: &Array, cuts: &Value, dim: i64) -> Result<Vec<Array>> {
    if x.rank() == 0 {
        bail!(Shape, "expected a rank of at least 1, got {}", x.describe());
    }
    let at = axis(dim, x.rank())?;
    let int = |arg: &Value| match arg {
        Arg::Int(n) => Ok(*n),
        Arg::Leaf(tensor) => Ok(tensor.array()?.item()?.to_i64()),
        other => bail!(Argument, "expected integers to cut at, got {}", other.kind_name()),
    };
    let cuts = match cuts {
        Arg::Leaf(tensor) => {
            let cuts = tensor.array()?;
            check_cut_tensor(cuts.dtype(), cuts.rank())?;
            if cuts.rank() == 0 {
                Cuts::Sections(int(&Arg::Leaf(tensor.clone()))?)
            } else {
                Cuts::Before(cuts.to_vec()?)
            }
        }
        Arg::List(items) | Arg::Tuple(items) => Cuts::Before(items.iter().map(int).collect::<Result<_>>()?),
        one => Cuts::Sections(int(one)?),
    };
    let size = x.shape()[at];
    let ends: Vec<usize> = match cuts {
        Cuts::Sections(n) => {
            check_sections(n)?;
            let n = n as usize;
            (1..=n).map(|i| size / n * i + (size % n).min(i)).collect()
        }
        Cuts::Before(cuts) => {
            let clamp = |cut: i64| match cut {
                ..0 => size.saturating_sub(cut.unsigned_abs() as usize),
                _ => size.min(cut as usize),
            };
            cuts.into_iter().map(clamp).chain([size]).collect()
        }
    };
    let starts = [0].into_iter().chain(ends.iter().copied());
    starts.zip(&ends).map(|(start, &end)| x.slice_axis(at, start, end.max(start), 1)).collect()
}

/// Returns the type of matrices transposed; a tensor of rank 0 stays as it is.
fn matrix_type(x: &TensorType, what: &str) -> Result<TensorType> {
    if x.rank() == 0 {
        return Ok(x.clone());
    }
    if x.rank() < 2 {
        bail!(Shape, "expected a matrix or a batch of matrices for {what}, got {x}");
    }
    let mut shape = x.shape.clone();
    let rank = x.rank();
    shape.dims_mut().swap(rank - 2, rank - 1);
    Ok(TensorType { dtype: x.dtype, shape })
}

fn matrix_array(x: &Array, what: &str) -> Result<Array> {
    matrix_type(&type_of(x), what)?;
    if x.rank() == 0 { Ok(x.clone()) } else { x.transpose(x.rank() - 2, x.rank() - 1) }
}
