//! Fourier transforms of complex numbers over several axes. There are no complex dtypes: a complex number is
//! a pair of reals, real and imaginary part, in an additional last axis, which the numbers of axes do not
//! count.
//!
//! These are ATen's three primitives, with its numbers for scales: 0 leaves sums as they are, 1 divides by
//! the root of the number of elements of a transform, 2 by that number.

use fx_core::array::checked_numel;
use fx_core::op::Flops::Unknown;
use fx_core::op::kind::IntVec;
use fx_core::{Array, Dim, Op, Result, TensorType, bail, kernels};

use crate::kernel::fft::{pairs_to_pairs, pairs_to_reals, reals_to_pairs};
use crate::ops::check::{at_least, dense, float_only, in_float, sizes, slice, type_of, wide};
use crate::ops::infer::distinct_axes;

/// The tables of this file.
pub(super) static TABLES: &[&[Op]] = &[COMPLEX_TRANSFORMS];

kernels! {
    /// Fourier transforms of complex numbers, which are pairs in the last axis.
    pub trait ComplexTransforms; pub static COMPLEX_TRANSFORMS;

    /// The transforms of complex signals `[.., 2]` over the axes `dim`: `sum x[n] exp(-2 pi i k n / size)`,
    /// or without `forward` the same with `+`.
    ///
    /// `normalization` 1 divides by the root of the number of elements of a transform, 2 by that number, 0 by
    /// nothing.
    #[flops = Unknown]
    _fft_c2c(x: Tensor, dim: Ints, normalization: Int = 0, forward: Bool = true) = both_type, both;
    /// The transforms of real signals over the axes `dim`: `[..]` becomes `[.., 2]`, and of the last axis in
    /// `dim` only the first half of `size / 2 + 1` frequencies is given, if `onesided`.
    ///
    /// `normalization` is as in `_fft_c2c`.
    #[flops = Unknown]
    _fft_r2c(x: Tensor, dim: Ints, normalization: Int = 0, onesided: Bool = true) = forward_type, forward;
    /// The real signals of which `x`, `[.., 2]`, are the spectra: the inverse of `_fft_r2c` without a scale.
    /// The last axis in `dim` holds the first half and becomes `last_dim_size` elements.
    ///
    /// `normalization` is as in `_fft_c2c`.
    #[flops = Unknown]
    _fft_c2r(x: Tensor, dim: Ints, normalization: Int = 0, last_dim_size: Int = 1) = backward_type, backward;
}

/// Returns the axes of the transforms of a tensor of `rank` axes without that of the pairs; there is at least one.
fn axes(dim: &[i64], rank: usize) -> Result<Vec<usize>> {
    let axes = distinct_axes(dim, rank)?;
    if axes.is_empty() || axes.iter().any(|&axis| axis >= rank) {
        bail!(Axis, "expected axes of a signal with {rank} axes, got {dim:?}");
    }
    Ok(axes.to_vec())
}

fn paired(x: &TensorType) -> Result<usize> {
    float_only(x.dtype)?;
    match x.shape.last() {
        Some(pair) if pair.same(&Dim::new(2)).is_no() => {
            bail!(Shape, "expected pairs of reals in the last axis, got {x}")
        }
        Some(_) => Ok(x.rank() - 1),
        None => bail!(Shape, "expected pairs of reals in the last axis, got {x}"),
    }
}

fn check(x: &TensorType, axes: &[usize], normalization: &Dim) -> Result<()> {
    for &axis in axes {
        at_least("a size of a transform", 1, &x.shape[axis])?;
    }
    match normalization.known() {
        Some(n) if !(0..=2).contains(&n) => bail!(Argument, "expected a normalization from 0 to 2, got {n}"),
        _ => Ok(()),
    }
}

fn both_type(x: &TensorType, dim: IntVec, normalization: Dim, _forward: bool) -> Result<TensorType> {
    check(x, &axes(&dim, paired(x)?)?, &normalization)?;
    Ok(x.clone())
}

fn forward_type(x: &TensorType, dim: IntVec, normalization: Dim, onesided: bool) -> Result<TensorType> {
    float_only(x.dtype)?;
    let axes = axes(&dim, x.rank())?;
    check(x, &axes, &normalization)?;
    let mut shape: Vec<Dim> = x.shape.iter().cloned().collect();
    if let (true, Some(&last)) = (onesided, axes.last()) {
        shape[last] = shape[last].floor_div(&Dim::new(2)) + 1;
    }
    shape.push(Dim::new(2));
    Ok(TensorType { dtype: x.dtype, shape: shape.into_iter().collect() })
}

fn backward_type(x: &TensorType, dim: IntVec, normalization: Dim, size: Dim) -> Result<TensorType> {
    let axes = axes(&dim, paired(x)?)?;
    check(x, &axes, &normalization)?;
    at_least("a last_dim_size", 1, &size)?;
    let mut shape: Vec<Dim> = x.shape.iter().take(x.rank() - 1).cloned().collect();
    if let Some(&last) = axes.last() {
        shape[last] = size;
    }
    Ok(TensorType { dtype: x.dtype, shape: shape.into_iter().collect() })
}

/// Returns by what a transform over these elements is multiplied.
fn scale(normalization: i64, numel: usize) -> f64 {
    match normalization {
        1 => 1.0 / (numel as f64).sqrt(),
        2 => 1.0 / numel as f64,
        _ => 1.0,
    }
}

/// What goes into a transform along one axis, and what comes out.
#[derive(Clone, Copy, PartialEq)]
enum Step {
    /// Pairs to pairs.
    Pairs,
    /// Reals to pairs, of so many frequencies.
    FromReal(usize),
    /// Pairs of a first half to reals, so many.
    ToReal(usize),
}

/// Transforms along one axis of a dense array of `wide` floats.
fn along(x: &Array, axis: usize, step: Step, inverse: bool, scale: f64) -> Result<Array> {
    let from_pairs = !matches!(step, Step::FromReal(_));
    let rank = x.rank() - usize::from(from_pairs);
    let moved = x.transpose(axis, rank - 1)?.contiguous()?;
    let size = moved.shape()[rank - 1];
    let (n, width) = match step {
        Step::Pairs => (size, size),
        Step::FromReal(frequencies) => (size, frequencies),
        Step::ToReal(n) => (n, n),
    };
    let rows: usize = moved.shape()[..rank - 1].iter().product();
    let mut shape = moved.shape()[..rank - 1].to_vec();
    shape.push(width);
    if !matches!(step, Step::ToReal(_)) {
        shape.push(2);
    }
    checked_numel(&shape)?;
    let out = in_float!(x.dtype(), T => {
        let (data, scale) = (slice::<T>(&moved), scale as T);
        let out = match step {
            Step::Pairs => pairs_to_pairs(data, n, inverse, scale)?,
            Step::FromReal(frequencies) => reals_to_pairs(rows, n, frequencies, scale, |row, out: &mut [T]| {
                out.copy_from_slice(&data[row * n..][..n]);
            })?,
            Step::ToReal(_) => pairs_to_reals(rows, n, scale, |row, out| {
                let pairs = data[2 * row * size..][..2 * size].as_chunks::<2>().0;
                out.iter_mut().zip(pairs).for_each(|(out, &pair)| *out = pair);
            })?,
        };
        Array::from_vec(out, &shape)
    })?;
    out.transpose(axis, rank - 1)
}

fn extent(x: &Array, axes: &[usize]) -> usize {
    axes.iter().map(|&axis| x.shape()[axis]).product()
}

fn both(x: &Array, dim: IntVec, normalization: i64, forward: bool) -> Result<Array> {
    both_type(&type_of(x), dim.clone(), normalization.into(), forward)?;
    let axes = axes(&dim, x.rank() - 1)?;
    let mut factor = scale(normalization, extent(x, &axes));
    let mut out = dense(x, wide(x.dtype()))?;
    for axis in axes {
        out = along(&out, axis, Step::Pairs, !forward, factor)?;
        factor = 1.0;
    }
    out.cast(x.dtype()).contiguous()
}

fn forward(x: &Array, dim: IntVec, normalization: i64, onesided: bool) -> Result<Array> {
    let ty = forward_type(&type_of(x), dim.clone(), normalization.into(), onesided)?;
    let axes = axes(&dim, x.rank())?;
    let factor = scale(normalization, extent(x, &axes));
    let Some((&last, others)) = axes.split_last() else { bail!(Axis, "expected axes") };
    let frequencies = sizes(&ty.shape)?[last];
    let mut out = along(&dense(x, wide(x.dtype()))?, last, Step::FromReal(frequencies), false, factor)?;
    for &axis in others {
        out = along(&out, axis, Step::Pairs, false, 1.0)?;
    }
    out.cast(x.dtype()).contiguous()
}

fn backward(x: &Array, dim: IntVec, normalization: i64, size: i64) -> Result<Array> {
    let ty = backward_type(&type_of(x), dim.clone(), normalization.into(), size.into())?;
    let axes = axes(&dim, x.rank() - 1)?;
    let Some((&last, others)) = axes.split_last() else { bail!(Axis, "expected axes") };
    let shape = sizes(&ty.shape)?;
    checked_numel(&shape)?;
    let extent: usize = axes.iter().map(|&axis| shape[axis]).product();
    let mut out = dense(x, wide(x.dtype()))?;
    for &axis in others {
        out = along(&out, axis, Step::Pairs, true, 1.0)?;
    }
    along(&out, last, Step::ToReal(shape[last]), true, scale(normalization, extent))?
        .cast(x.dtype())
        .contiguous()
}
