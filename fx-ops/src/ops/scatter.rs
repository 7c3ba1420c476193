//! Scattering: the elements of one tensor combined with those of another at the places that an index tensor names.
//!
//! Elements are combined one after the other in row-major order of the index, halves in f32.

use fx_core::array::{Sizes, dispatch_dtype};
use fx_core::{Arg, Array, Dim, Op, Result, TensorType, bail, err, kernels};

use crate::ops::check::{same_dtype, slice, wide, zeroed};
use crate::ops::index_write::index_copy_type;
use crate::ops::infer::{axis_or_only, known, type_of};
use crate::ops::view::{Places, Ring, at_least_1d, check_index, check_within, checked, each_slab};

kernels! {
    /// Operations that combine elements at the places that an index tensor names.
    pub trait Scatters; pub static SCATTERS;

    /// A copy of `x` in which the elements of `src` are combined at the positions `index` along `dim`.
    ///
    /// `reduce` is "sum", "prod", "mean", "amax" or "amin". With `include_self` the elements of `x` take part.
    scatter_reduce(x: Tensor, dim: Int, index: Tensor, src: Tensor, reduce: Str; include_self: Bool = true) =
        |x, dim, index, src, reduce, _include_self| scatter_reduce_type(x, dim, index, src, reduce), scatter_reduce_array;
    /// As `scatter_reduce` for whole sub-tensors: those of `source` are combined at the positions `index`
    /// along `dim`.
    index_reduce(x: Tensor, dim: Int, index: Tensor, source: Tensor, reduce: Str; include_self: Bool = true) =
        |x, dim, index, source, reduce, _include_self| index_reduce_type(x, dim, index, source, reduce), index_reduce_array;
}

/// The tables of this file.
pub(super) static TABLES: &[&[Op]] = &[SCATTERS];

/// How elements that are scattered to the same place are combined.
#[derive(Clone, Copy, PartialEq)]
enum Reduce {
    Sum,
    Prod,
    Mean,
    Max,
    Min,
}

impl Reduce {
    fn read(reduce: &str) -> Result<Self> {
        Ok(match reduce {
            "sum" => Reduce::Sum,
            "prod" => Reduce::Prod,
            "mean" => Reduce::Mean,
            "amax" => Reduce::Max,
            "amin" => Reduce::Min,
            _ => bail!(
                Argument,
                "expected \"sum\", \"prod\", \"mean\", \"amax\" or \"amin\" as reduce, got {reduce:?}"
            ),
        })
    }
}

fn scatter_reduce_type(
    x: &TensorType,
    dim: Dim,
    index: &TensorType,
    src: &TensorType,
    reduce: &str,
) -> Result<TensorType> {
    Reduce::read(reduce)?;
    check_index(index)?;
    same_dtype("a source", x.dtype, src.dtype)?;
    let at = axis_or_only(known(&dim)?, x.rank())?;
    check_within(x, at, index, "the index")?;
    check_within(src, usize::MAX, index, "the index")?;
    Ok(x.clone())
}

fn scatter_reduce_array(
    x: &Array,
    dim: i64,
    index: &Array,
    src: &Array,
    reduce: &str,
    include_self: bool,
) -> Result<Array> {
    scatter_reduce_type(&type_of(x), dim.into(), &type_of(index), &type_of(src), reduce)?;
    if index.is_empty() {
        return Ok(x.clone());
    }
    let reduce = Reduce::read(reduce)?;
    let at = axis_or_only(dim, x.rank())?;
    let (base, index, mut source) = (at_least_1d(x)?, at_least_1d(index)?, at_least_1d(src)?);
    for (axis, &size) in index.shape().iter().enumerate() {
        source = source.slice_axis(axis, 0, size, 1)?;
    }
    let picked = checked(&index, base.shape()[at])?;
    let places = Places::new(base.shape(), index.shape(), at, slice(&picked));
    // The first element that comes to a place replaces what is there, unless that takes part.
    let is_counted = !include_self || reduce == Reduce::Mean;
    let mut counts = zeroed::<i64>(if is_counted { x.numel() } else { 0 })?;
    counts.fill(i64::from(include_self));
    // Halves are combined in f32.
    let dtype = wide(x.dtype());
    let (base, source) = (base.cast(dtype), source.cast(dtype));
    let out = dispatch_dtype!(dtype, T => {
        let mut out: Vec<T> = base.to_vec()?;
        let source = source.contiguous()?;
        let from = source.data::<T>()?;
        if is_counted {
            let mut pairs: Vec<(T, i64)> = out.iter().copied().zip(counts.iter().copied()).collect();
            places.combine(&mut pairs, from, |(to, n), x| {
                *to = if *n == 0 { x } else { combined(*to, x, reduce) };
                *n += 1;
            });
            (out, counts) = pairs.into_iter().unzip();
        } else {
            match reduce {
                Reduce::Sum | Reduce::Mean => places.combine(&mut out, from, |to, x| *to = to.plus(x)),
                Reduce::Prod => places.combine(&mut out, from, |to, x| *to = to.times(x)),
                Reduce::Max => places.combine(&mut out, from, |to, x| *to = combined(*to, x, Reduce::Max)),
                Reduce::Min => places.combine(&mut out, from, |to, x| *to = combined(*to, x, Reduce::Min)),
            }
        }
        Array::from_vec(out, x.shape())?
    });
    let out = out.cast(x.dtype());
    if reduce != Reduce::Mean {
        return Ok(out);
    }
    mean(&out, &Array::from_vec(counts, out.shape())?)
}

#[inline(always)]
fn combined<T: Ring>(x: T, y: T, reduce: Reduce) -> T {
    #[allow(clippy::eq_op, reason = "NaN differs from itself")]
    let is_nan = |x: T| x != x;
    match reduce {
        Reduce::Sum | Reduce::Mean => x.plus(y),
        Reduce::Prod => x.times(y),
        Reduce::Max => {
            if is_nan(y) || x < y {
                y
            } else {
                x
            }
        }
        Reduce::Min => {
            if is_nan(y) || y < x {
                y
            } else {
                x
            }
        }
    }
}

/// Divides sums by the number of their elements; integers are rounded down.
fn mean(sums: &Array, counts: &Array) -> Result<Array> {
    let least =
        crate::ops::compose::Operand::apply(counts, crate::ops::pointwise::clamp_min::OP, &[Arg::Int(1)])?;
    let counts = least.cast(sums.dtype());
    let op = if sums.dtype().is_float() { fx_core::ops::div::OP } else { fx_core::ops::floor_divide::OP };
    let out = (op.eval)(&[Arg::Leaf(sums.clone().into()), Arg::Leaf(counts.into())])?;
    out.leaf().ok_or_else(|| err!(Structure, "a quotient is a tensor"))?.array().cloned()
}

fn index_reduce_type(
    x: &TensorType,
    dim: Dim,
    index: &TensorType,
    source: &TensorType,
    reduce: &str,
) -> Result<TensorType> {
    Reduce::read(reduce)?;
    index_copy_type(x, dim, index, source)
}

fn index_reduce_array(
    x: &Array,
    dim: i64,
    index: &Array,
    source: &Array,
    reduce: &str,
    include_self: bool,
) -> Result<Array> {
    index_reduce_type(&type_of(x), dim.into(), &type_of(index), &type_of(source), reduce)?;
    let at = axis_or_only(dim, x.rank())?;
    let reduce = Reduce::read(reduce)?;
    let base = at_least_1d(x)?;
    let (size, inner) = (base.shape()[at], base.shape()[at + 1..].iter().product::<usize>());
    let picked = checked(index, size)?;
    let picked = slice::<i64>(&picked);
    // Of each sub-tensor, whether it is replaced, and how many are combined.
    let mut counts = vec![i64::from(include_self); size];
    let is_first: Vec<bool> =
        picked.iter().map(|&to| std::mem::replace(&mut counts[to as usize], 1) == 0).collect();
    counts.fill(i64::from(include_self));
    picked.iter().for_each(|&to| counts[to as usize] += 1);
    // Halves are combined in f32.
    let dtype = wide(x.dtype());
    let (wide_base, source) = (base.cast(dtype), source.cast(dtype).contiguous()?);
    let out = dispatch_dtype!(dtype, T => {
        let mut out: Vec<T> = wide_base.to_vec()?;
        each_slab(&mut out, slice::<T>(&source), size, picked.len(), inner, |out, from| {
            for ((&to, &is_first), from) in picked.iter().zip(&is_first).zip(from.chunks(inner)) {
                let out = &mut out[to as usize * inner..][..inner];
                if is_first {
                    out.copy_from_slice(from);
                } else {
                    fx_simd::call_256::<combine_rows, _>((out, from, reduce));
                }
            }
        });
        Array::from_vec(out, x.shape())?
    });
    let out = out.cast(x.dtype());
    if reduce != Reduce::Mean {
        return Ok(out);
    }
    let mut shape = Sizes::from_elem(1, base.rank());
    shape[at] = size;
    mean(&out, &Array::from_vec(counts, &shape[..x.rank()])?)
}

fx_simd::wide! {
    fn combine_rows[T: Ring]((out, from, reduce): (&mut [T], &[T], Reduce)) {
        let pairs = out.iter_mut().zip(from);
        match reduce {
            Reduce::Sum | Reduce::Mean => pairs.for_each(|(to, &x)| *to = to.plus(x)),
            Reduce::Prod => pairs.for_each(|(to, &x)| *to = to.times(x)),
            Reduce::Max => pairs.for_each(|(to, &x)| *to = combined(*to, x, Reduce::Max)),
            Reduce::Min => pairs.for_each(|(to, &x)| *to = combined(*to, x, Reduce::Min)),
        }
    }
}
