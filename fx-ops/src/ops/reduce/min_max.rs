//! Minima and maxima, and where they are. NaN counts as both the least and the greatest: it wins.

use std::marker::PhantomData;

use fx_core::array::Cast;
use fx_core::op::kind::IntVec;
use fx_core::{Array, DType, Dim, Element, Result, Tensor, TensorType, err, kernels};
use fx_simd::parallel;
use half::{bf16, f16};

use super::fold::{Lines, fold, fold_converted, fold_mapped, slice};
use super::{reduced_array, reduced_type};
use crate::kernel::chunks::{PARALLEL, blank, fill_row_pairs};
use crate::kernel::fold::{All, Any, Step};
use crate::ops::infer::{as_slice, axis_or_only, known, mask, reduced, sizes, type_of, typed};
use crate::ops::rowwise;

kernels! {
    /// Minima and maxima, and where they are.
    pub trait MinMax; pub static MIN_MAX;

    /// The greatest element along the axes `dim`, or of all; NaN if there is one. Fails for no elements.
    #[class = Reduce]
    #[rows = rowwise::amax]
    amax(x: Tensor, dim: Axes = None, keepdim: Bool = false) = extreme_type, |x: &Array, dim, keepdim| extreme(x, dim, keepdim, true);
    /// The least element along the axes `dim`, or of all; NaN if there is one. Fails for no elements.
    #[class = Reduce]
    #[rows = rowwise::amin]
    amin(x: Tensor, dim: Axes = None, keepdim: Bool = false) = extreme_type, |x: &Array, dim, keepdim| extreme(x, dim, keepdim, false);
    /// The greatest element of all; NaN if there is one. `max_dim` is PyTorch's `max` along an axis.
    #[class = Reduce]
    max(x: Tensor) = |x| extreme_type(x, None, false), |x: &Array| extreme(x, None, false, true);
    /// The least element of all; NaN if there is one. `min_dim` is PyTorch's `min` along an axis.
    #[class = Reduce]
    min(x: Tensor) = |x| extreme_type(x, None, false), |x: &Array| extreme(x, None, false, false);
    /// The least and the greatest element along the axis `dim`, or of all.
    #[class = Reduce]
    aminmax(x: Tensor, dim: OptInt = None, keepdim: Bool = false) -> (Tensor, Tensor) = aminmax_type, aminmax_array;
    /// The greatest element along the axis `dim` and the position of the first such; NaN counts as the greatest.
    #[class = Reduce]
    max_dim(x: Tensor, dim: Int, keepdim: Bool = false) -> (Tensor, Tensor) = pair_type, |x: &Array, dim, keepdim| extreme_along(x, dim, keepdim, true);
    /// The least element along the axis `dim` and the position of the first such; NaN counts as the least.
    #[class = Reduce]
    min_dim(x: Tensor, dim: Int, keepdim: Bool = false) -> (Tensor, Tensor) = pair_type, |x: &Array, dim, keepdim| extreme_along(x, dim, keepdim, false);
    /// The position of the first greatest element along the axis `dim`, or in row-major order of all; NaN
    /// counts as the greatest.
    #[class = Reduce]
    argmax(x: Tensor, dim: OptInt = None, keepdim: Bool = false) = arg_type, |x: &Array, dim, keepdim| arg_extreme(x, dim, keepdim, true);
    /// The position of the first least element along the axis `dim`, or in row-major order of all; NaN counts
    /// as the least.
    #[class = Reduce]
    argmin(x: Tensor, dim: OptInt = None, keepdim: Bool = false) = arg_type, |x: &Array, dim, keepdim| arg_extreme(x, dim, keepdim, false);
}

/// An element type in which elements are compared.
pub(crate) trait Ordered: Element {
    /// At or below every element.
    const LEAST: Self;
    /// At or above every element.
    const GREATEST: Self;
    /// Returns whether a comparison with this element is always false.
    fn is_nan(self) -> bool;
    /// Returns whether this is less.
    fn below(self, other: Self) -> bool;
    /// Returns a number that is less for lesser elements and the same for equal ones; NaN has the greatest of all.
    fn key(self) -> u64;
    /// The key of NaN.
    const NAN_KEY: Option<u64>;
}

macro_rules! ordered {
    ($($ty:ty: $least:expr, $greatest:expr, $nan_key:expr, |$x:ident| $nan:expr, $key:expr;)*) => {
        $(impl Ordered for $ty {
            const LEAST: Self = $least;
            const GREATEST: Self = $greatest;
            const NAN_KEY: Option<u64> = $nan_key;
            #[inline(always)]
            fn is_nan(self) -> bool { let $x = self; let _ = $x; $nan }
            #[inline(always)]
            fn below(self, other: Self) -> bool { self < other }
            #[inline(always)]
            fn key(self) -> u64 { let $x = self; $key }
        })*
    };
}
ordered! {
    u8: u8::MIN, u8::MAX, None, |x| false, u64::from(x);
    i32: i32::MIN, i32::MAX, None, |x| false, i64::from(x) as u64 ^ (1 << 63);
    i64: i64::MIN, i64::MAX, None, |x| false, x as u64 ^ (1 << 63);
    f32: f32::NEG_INFINITY, f32::INFINITY, Some(u32::MAX as u64), |x| x.is_nan(), {
        // Adding 0 makes both zeros the same.
        let bits = (x + 0.0).to_bits();
        let flip = (bits as i32 >> 31) as u32 | 1 << 31;
        u64::from(if x.is_nan() { u32::MAX } else { bits ^ flip })
    };
    f64: f64::NEG_INFINITY, f64::INFINITY, Some(u64::MAX), |x| x.is_nan(), {
        let bits = (x + 0.0).to_bits();
        let flip = (bits as i64 >> 63) as u64 | 1 << 63;
        if x.is_nan() { u64::MAX } else { bits ^ flip }
    };
}

/// Runs an expression with `$T` as the type of what [`comparable`] gives for a dtype.
macro_rules! dispatch_ordered {
    ($dtype:expr, $T:ident => $body:expr) => {
        match $dtype {
            DType::Bool | DType::U8 | DType::I8 | DType::I32 => {
                type $T = i32;
                $body
            }
            DType::I64 => {
                type $T = i64;
                $body
            }
            DType::F64 => {
                type $T = f64;
                $body
            }
            DType::F32 | DType::F16 | DType::BF16 => {
                type $T = f32;
                $body
            }
        }
    };
}
pub(crate) use dispatch_ordered;

/// Returns the array in one of the four types in which elements are compared, which order them as their own does.
pub(crate) fn comparable(x: &Array) -> Array {
    x.cast(match x.dtype() {
        DType::Bool | DType::U8 | DType::I8 | DType::I32 => DType::I32,
        DType::I64 => DType::I64,
        DType::F16 | DType::BF16 | DType::F32 => DType::F32,
        DType::F64 => DType::F64,
    })
}

macro_rules! extremes {
    ($($(#[$doc:meta])* $name:ident $init:ident |$a:ident, $b:ident| $wins:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Default)]
        pub(crate) struct $name<T>(PhantomData<T>);

        impl<T: Ordered> Step for $name<T> {
            type Item = T;
            type State = T;
            type Join = $name<T>;
            const INIT: T = T::$init;
            const WIDEST: bool = true;
            const SPREAD: bool = true;

            #[inline(always)]
            fn map(self, x: T) -> T {
                x
            }

            #[inline(always)]
            fn join($a: T, $b: T) -> T {
                if $wins | $b.is_nan() { $b } else { $a }
            }
        }
    )*};
}
extremes! {
    /// The greatest element, or NaN.
    Greatest LEAST |a, b| a.below(b);
    /// The least element, or NaN.
    Least GREATEST |a, b| b.below(a);
}

/// Refuses to choose from no elements.
fn not_empty(size: &Dim, x: &TensorType) -> Result<()> {
    if size.known() == Some(0) {
        return Err(err!(Shape, "expected at least one element to choose from, got {x}"));
    }
    Ok(())
}

fn extreme_type(x: &TensorType, dim: Option<IntVec>, keepdim: bool) -> Result<TensorType> {
    let mask = mask(as_slice(&dim), x.rank())?;
    for (size, _) in x.shape.iter().zip(&mask).filter(|(_, reduced)| **reduced) {
        not_empty(size, x)?;
    }
    reduced_type(x, &dim, keepdim, x.dtype)
}

fn extreme(x: &Array, dim: Option<IntVec>, keepdim: bool, max: bool) -> Result<Array> {
    extreme_type(&type_of(x), dim.clone(), keepdim)?;
    let mask = mask(as_slice(&dim), x.rank())?;
    let out = match x.dtype() {
        DType::Bool if max => reduced_array(fold(x, &mask, Any)?, x, &mask, keepdim)?,
        DType::Bool => reduced_array(fold(x, &mask, All)?, x, &mask, keepdim)?,
        DType::U8 => extreme_of::<u8>(x, &mask, keepdim, max)?,
        DType::I8 => {
            let to_i8 = |x: u8| (x ^ 0x80) as i8;
            let to_u8 = |x: i8| x as u8 ^ 0x80;
            let data = if max {
                fold_mapped(x, &mask, Greatest::<u8>::default(), to_u8)?
            } else {
                fold_mapped(x, &mask, Least::<u8>::default(), to_u8)?
            };
            reduced_array(data.into_iter().map(to_i8).collect::<Vec<i8>>(), x, &mask, keepdim)?
        }
        DType::I32 => extreme_of::<i32>(x, &mask, keepdim, max)?,
        DType::I64 => extreme_of::<i64>(x, &mask, keepdim, max)?,
        DType::F16 => converted_extreme::<f16, f32>(x, &mask, keepdim, max)?,
        DType::BF16 => converted_extreme::<bf16, f32>(x, &mask, keepdim, max)?,
        DType::F32 => extreme_of::<f32>(x, &mask, keepdim, max)?,
        DType::F64 => extreme_of::<f64>(x, &mask, keepdim, max)?,
    };
    Ok(out.cast(x.dtype()))
}

fn extreme_of<T: Ordered>(x: &Array, mask: &[bool], keepdim: bool, max: bool) -> Result<Array> {
    let data =
        if max { fold(x, mask, Greatest::<T>::default())? } else { fold(x, mask, Least::<T>::default())? };
    reduced_array(data, x, mask, keepdim)
}

/// As [`extreme_of`], of elements that are converted, which keeps their order.
fn converted_extreme<F: Cast<T>, T: Ordered>(
    x: &Array,
    mask: &[bool],
    keepdim: bool,
    max: bool,
) -> Result<Array> {
    let data = if max {
        fold_converted::<F, _>(x, mask, Greatest::<T>::default())?
    } else {
        fold_converted::<F, _>(x, mask, Least::<T>::default())?
    };
    reduced_array(data, x, mask, keepdim)
}

fn aminmax_type(x: &TensorType, dim: Option<Dim>, keepdim: bool) -> Result<(TensorType, TensorType)> {
    let dim = dim.as_ref().map(known).transpose()?.map(|dim| IntVec::from_slice(&[dim]));
    let ty = extreme_type(x, dim, keepdim)?;
    Ok((ty.clone(), ty))
}

fn aminmax_array(x: &Array, dim: Option<i64>, keepdim: bool) -> Result<(Array, Array)> {
    let dim = dim.map(|dim| IntVec::from_slice(&[dim]));
    Ok((extreme(x, dim.clone(), keepdim, false)?, extreme(x, dim, keepdim, true)?))
}

fn arg_type(x: &TensorType, dim: Option<Dim>, keepdim: bool) -> Result<TensorType> {
    let Some(dim) = dim else {
        not_empty(&x.shape.numel(), x)?;
        let mask = mask(None, x.rank())?;
        return typed(DType::I64, reduced(&x.shape, &mask, keepdim, Dim::new(1)));
    };
    let at = axis_or_only(known(&dim)?, x.rank())?;
    if let Some(size) = x.shape.get(at) {
        not_empty(size, x)?;
    }
    reduced_type(x, &Some(IntVec::from_slice(&[at as i64])), keepdim, DType::I64)
}

pub(crate) fn pair_type(x: &TensorType, dim: Dim, keepdim: bool) -> Result<(TensorType, TensorType)> {
    let indices = arg_type(x, Some(dim), keepdim)?;
    Ok((TensorType { dtype: x.dtype, shape: indices.shape.clone() }, indices))
}

/// Returns the first element that wins, and its position.
fn first<T: Ordered>(row: &[T], from: usize, max: bool) -> (T, usize) {
    if row.len() >= PARALLEL {
        let parts: Vec<&[T]> = row.chunks(PARALLEL / 2).collect();
        let mut firsts = vec![(row[0], from); parts.len()];
        parallel::chunks(&mut firsts, 1, 1, |i, out| {
            out[0] = first(parts[i], from + i * (PARALLEL / 2), max);
        });
        return firsts
            .into_iter()
            .reduce(|a, b| if wins(b.0, a.0, max) { b } else { a })
            .unwrap_or((row[0], from));
    }
    let mut best = (row[0], from);
    for (i, &x) in row.iter().enumerate() {
        if wins(x, best.0, max) {
            best = (x, from + i);
        }
    }
    best
}

/// Columns that are looked through together.
const TILE: usize = 128;

/// Returns the first elements that win in columns of `n` elements, and their positions; columns lie side by
/// side, `inner` at a time.
fn columns<T: Ordered>(data: &[T], n: usize, inner: usize, max: bool) -> Result<(Vec<T>, Vec<i32>)> {
    let numel = data.len() / n;
    let (mut values, mut indices) = (blank::<T>(numel)?, blank::<i32>(numel)?);
    let lines = values.chunks_mut(inner).zip(indices.chunks_mut(inner)).zip(data.chunks(n * inner));
    let tiles: Vec<_> = lines
        .flat_map(|((values, indices), data)| {
            let tiles = values.chunks_mut(TILE).zip(indices.chunks_mut(TILE)).enumerate();
            tiles.map(move |(tile, (values, indices))| (data, tile * TILE, values, indices))
        })
        .collect();
    let run = |(data, at, values, indices)| {
        fx_simd::call::<column_tile, _>((data, inner, at, values, indices, max));
    };
    if data.len() < PARALLEL {
        tiles.into_iter().for_each(run);
    } else {
        parallel::items(tiles, |_, tile| run(tile));
    }
    Ok((values, indices))
}

fx_simd::wide! {
    /// Looks through the columns of a tile, of which the first is column `at` of rows of `width` elements.
    fn column_tile[T: Ordered]((data, width, at, values, indices, max): (&[T], usize, usize, &mut [T], &mut [i32], bool)) {
        let n = values.len();
        let indices = &mut indices[..n];
        values.copy_from_slice(&data[at..at + n]);
        for (row, line) in data.chunks_exact(width).enumerate().skip(1) {
            let line = &line[at..at + n];
            for i in 0..n {
                let is_new = wins(line[i], values[i], max);
                values[i] = if is_new { line[i] } else { values[i] };
                indices[i] = if is_new { row as i32 } else { indices[i] };
            }
        }
    }
}

#[inline(always)]
fn wins<T: Ordered>(x: T, best: T, max: bool) -> bool {
    (if max { best.below(x) } else { x.below(best) }) | (x.is_nan() & !best.is_nan())
}

fn extreme_along(x: &Array, dim: i64, keepdim: bool, max: bool) -> Result<(Array, Array)> {
    let (ty, _) = pair_type(&type_of(x), dim.into(), keepdim)?;
    let wide = comparable(x);
    let at = axis_or_only(dim, x.rank())?;
    let inner: usize = x.shape().iter().skip(at + 1).product();
    if wide.is_contiguous() && inner > 1 && !x.is_empty() && i32::try_from(x.shape()[at]).is_ok() {
        let (values, indices) = dispatch_ordered!(x.dtype(), T => {
            let data = slice::<T>(&wide)?;
            let shape = sizes(&ty)?;
            let (values, indices) = columns(data, x.shape()[at], inner, max)?;
            (Array::from_vec(values, &shape)?, Array::from_vec(indices, &shape)?)
        });
        return Ok((values.cast(x.dtype()), indices.cast(DType::I64)));
    }
    let lines = Lines::new(&wide, dim)?;
    let (values, indices) = dispatch_ordered!(x.dtype(), T => {
        let data = lines.data::<T>()?;
        let (values, indices) = fill_row_pairs::<T, i64>(lines.n_rows, 1, lines.n, |row, value, index| {
            let (x, at) = first(&data[row * lines.n..][..lines.n], 0, max);
            (value[0], index[0]) = (x, at as i64);
        })?;
        (lines.reduce(values, keepdim)?, lines.reduce(indices, keepdim)?)
    });
    Ok((values.cast(x.dtype()), indices))
}

fn arg_extreme(x: &Array, dim: Option<i64>, keepdim: bool, max: bool) -> Result<Array> {
    arg_type(&type_of(x), dim.map(Dim::new), keepdim)?;
    match dim {
        Some(dim) => Ok(extreme_along(x, dim, keepdim, max)?.1),
        None => {
            let (_, index) = extreme_along(&x.reshape(&[x.numel()])?, 0, false, max)?;
            let rank = if keepdim { x.rank() } else { 0 };
            index.reshape(&vec![1; rank])
        }
    }
}
