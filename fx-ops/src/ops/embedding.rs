//! Rows of a table that integers name.

use fx_core::array::checked_numel;
use fx_core::math::Real;
use fx_core::{Array, DType, Dim, Error, Op, Result, Shape, TensorType, bail, err, kernels};

use crate::kernel::chunks::{copy_rows, fill_rows};
use crate::kernel::rows;
use crate::ops::check::{
    at_least, dense, float_only, in_float, opt_dense, opt_slice, opt_type_of, same_dtype, same_shape, sizes,
    slice, type_of, wide, zeroed,
};
use crate::ops::normalization::norm;

/// The tables of this file.
pub(super) static TABLES: &[&[Op]] = &[EMBEDDINGS];

kernels! {
    /// Look-up.
    pub trait Embeddings; pub static EMBEDDINGS;

    /// The rows of `weight`, `[n, d]`, that the integers in `x` name: `[..] -> [.., d]`. `padding_idx`
    /// matters to training only.
    ///
    /// With `max_norm` a row whose `norm_type`-norm is greater is scaled down to it; `weight` itself stays as
    /// it is.
    embedding(x: Tensor, weight: Tensor; padding_idx: OptInt = None, max_norm: OptFloat = None, norm_type: Float = 2.0)
        = embedding_type, embedding_kernel;
    /// The sum, mean or maximum (`mode`) of the rows of `weight` that each bag of the integers in `x` names:
    /// `[bags, d]`.
    ///
    /// `[b, n]` are `b` bags; `[n]` are bags that begin at `offsets`, with `include_last_offset` but the last
    /// one. Rows are multiplied by `per_sample_weights`, for sums only. `padding_idx` does not count.
    /// `max_norm` is as in `embedding`. An empty bag gives zeros.
    embedding_bag(x: Tensor, weight: Tensor, offsets: OptTensor = None; max_norm: OptFloat = None, norm_type: Float = 2.0,
        mode: Str = "mean", per_sample_weights: OptTensor = None, include_last_offset: Bool = false,
        padding_idx: OptInt = None) = bag_type, bag_kernel;
}

/// Refuses floats and bools.
pub(crate) fn integers_only(what: &str, dtype: DType) -> Result<()> {
    if !dtype.is_int() {
        return Err(
            err!(DType, "expected {what} of integers, got {dtype}").help("convert with `to(DType::I64)`")
        );
    }
    Ok(())
}

fn embedding_type(
    x: &TensorType,
    weight: &TensorType,
    _padding_idx: Option<Dim>,
    _max_norm: Option<f64>,
    _norm_type: Option<f64>,
) -> Result<TensorType> {
    integers_only("indices", x.dtype)?;
    if weight.rank() != 2 {
        bail!(Shape, "expected a weight [n, d], got {weight}");
    }
    Ok(TensorType::new(weight.dtype, x.shape.iter().chain([&weight.shape[1]]).collect::<Shape>()))
}

fn embedding_kernel(
    x: &Array,
    weight: &Array,
    _padding_idx: Option<i64>,
    max_norm: Option<f64>,
    norm_type: f64,
) -> Result<Array> {
    let ty = embedding_type(&type_of(x), &type_of(weight), None, max_norm, None)?;
    let shape = sizes(&ty.shape)?;
    let numel = checked_numel(&shape)?;
    let (n, width) = (weight.shape()[0], weight.shape()[1]);
    let indices = x.cast(DType::I64).to_vec::<i64>()?;
    in_table(&indices, n)?;
    if let Some(max_norm) = max_norm {
        let wide = wide(weight.dtype());
        let weight = dense(weight, wide)?;
        return in_float!(wide, T => {
            let table = slice::<T>(&weight);
            let mut out = zeroed::<T>(numel)?;
            rows::for_each_row(&mut out, width, |i, row| {
                row.copy_from_slice(&table[indices[i] as usize * width..][..width]);
                let norm = norm(row, norm_type);
                if norm > max_norm as T {
                    row.iter_mut().for_each(|x| *x *= max_norm as T / (norm + 1e-7));
                }
            });
            Ok(Array::from_vec(out, &shape)?.cast(ty.dtype))
        });
    }
    let weight = weight.contiguous()?;
    fx_core::array::dispatch_dtype!(weight.dtype(), T => {
        let rows = slice::<T>(&weight);
        let out = copy_rows::<T>(indices.len(), width, |i| &rows[indices[i] as usize * width..][..width])?;
        Array::from_vec(out, &shape)
    })
}

/// Refuses what is no row of a table.
fn in_table(indices: &[i64], n: usize) -> Result<()> {
    match indices.iter().find(|&&index| usize::try_from(index).is_ok_and(|index| index < n).eq(&false)) {
        Some(&index) => Err(not_in_table(index, n)),
        None => Ok(()),
    }
}

/// Says that an integer names no row of a table.
pub(crate) fn not_in_table(index: i64, n: usize) -> Error {
    err!(Index, "expected indices in 0..{n}, got {index}")
}

fx_simd::wide! {
    fn divide_row[T: Real]((out, n): (&mut [T], T)) {
        out.iter_mut().for_each(|x| *x = *x / n);
    }

    /// Adds rows, each times its factor, one after the other, or takes the greatest elements. Several rows at
    /// a time, for memory can send several as fast as one.
    fn join_rows[T: Real, const N: usize]((out, rows, is_max): (&mut [T], [(&[T], T); N], bool)) {
        let n = out.len();
        let rows = rows.map(|(row, scale)| (&row[..n], scale));
        for i in 0..n {
            let mut joined = out[i];
            for (row, scale) in rows {
                let x = row[i];
                joined = if is_max { fx_core::math::maximum(joined, x) } else { joined + scale * x };
            }
            out[i] = joined;
        }
    }
}

#[expect(clippy::too_many_arguments, reason = "PyTorch's schema")]
fn bag_type(
    x: &TensorType,
    weight: &TensorType,
    offsets: Option<&TensorType>,
    _max_norm: Option<f64>,
    _norm_type: Option<f64>,
    mode: &str,
    scale: Option<&TensorType>,
    include_last: bool,
    _padding: Option<Dim>,
) -> Result<TensorType> {
    integers_only("indices", x.dtype)?;
    float_only(weight.dtype)?;
    let [_, width] = &weight.shape[..] else { bail!(Shape, "expected a weight [n, d], got {weight}") };
    if !["sum", "mean", "max"].contains(&mode) {
        bail!(Argument, "expected the mode \"sum\", \"mean\" or \"max\", got {mode:?}");
    }
    if let Some(scale) = scale {
        if mode != "sum" {
            bail!(Argument, "expected the mode \"sum\" for per_sample_weights, got {mode:?}");
        }
        same_dtype("per_sample_weights", weight.dtype, scale.dtype)?;
        same_shape("per_sample_weights", &x.shape, &scale.shape)?;
    }
    let bags = match (&x.shape[..], offsets) {
        ([bags, _], None) => bags.clone(),
        ([_], Some(offsets)) => {
            integers_only("offsets", offsets.dtype)?;
            let [n] = &offsets.shape[..] else { bail!(Shape, "expected offsets [bags], got {offsets}") };
            let least = i64::from(include_last);
            at_least("offsets", least, n)?;
            n - least
        }
        ([_, _], Some(_)) => bail!(Argument, "expected no offsets for indices [b, n]"),
        ([_], None) => bail!(Argument, "expected offsets for indices [n]"),
        _ => bail!(Shape, "expected indices [b, n] or [n], got {x}"),
    };
    Ok(TensorType::new(weight.dtype, [&bags, width].into_iter().collect::<Shape>()))
}

#[expect(clippy::too_many_arguments, reason = "PyTorch's schema")]
fn bag_kernel(
    x: &Array,
    weight: &Array,
    offsets: Option<&Array>,
    max_norm: Option<f64>,
    norm_type: f64,
    mode: &str,
    scale: Option<&Array>,
    include_last: bool,
    padding: Option<i64>,
) -> Result<Array> {
    let (offsets_ty, scale_ty) = (opt_type_of(offsets), opt_type_of(scale));
    let ty = bag_type(
        &type_of(x),
        &type_of(weight),
        offsets_ty.as_ref(),
        None,
        None,
        mode,
        scale_ty.as_ref(),
        include_last,
        None,
    )?;
    let shape = sizes(&ty.shape)?;
    let (n, width) = (weight.shape()[0], shape[1]);
    let padding = padding.map(|at| if at < 0 { at + n as i64 } else { at });
    if let Some(padding) = padding.filter(|&at| at < 0 || at >= n as i64) {
        bail!(Index, "expected a padding_idx in 0..{n}, got {padding}");
    }
    let indices: Vec<i64> = x.cast(DType::I64).to_vec()?;
    // Where bags begin and end among the indices.
    let mut cuts: Vec<usize> = match offsets {
        None => (0..=shape[0]).map(|bag| bag * x.shape()[1]).collect(),
        Some(offsets) => {
            let offsets = offsets.cast(DType::I64).to_vec::<i64>()?;
            if offsets.first().is_some_and(|&first| first != 0) {
                bail!(Argument, "expected offsets that begin with 0, got {}", offsets[0]);
            }
            let fits = |&at: &i64| usize::try_from(at).ok().filter(|&at| at <= indices.len());
            let cuts: Option<Vec<usize>> = offsets.iter().map(fits).collect();
            cuts.ok_or_else(|| err!(Index, "expected offsets from 0 to {}", indices.len()))?
        }
    };
    if offsets.is_some() && !include_last {
        cuts.push(indices.len());
    }
    if cuts.windows(2).any(|pair| pair[0] > pair[1]) {
        bail!(Argument, "expected offsets that do not decrease");
    }
    // The rows, each scaled as `embedding` scales it.
    let flat = Array::from_vec(indices.clone(), &[indices.len()])?;
    let wide = wide(ty.dtype);
    // The table itself serves as rows if nothing is done to them.
    let is_table = max_norm.is_none() && weight.dtype() == wide;
    let rows = match is_table {
        true => {
            in_table(&indices, n)?;
            weight.contiguous()?
        }
        false => dense(&embedding_kernel(&flat, weight, None, max_norm, norm_type)?, wide)?,
    };
    let scale = opt_dense(scale, wide)?;
    in_float!(wide, T => {
        let (rows, scale) = (slice::<T>(&rows), opt_slice::<T>(&scale));
        let cost = indices.len() * width / shape[0].max(1);
        let out = fill_rows::<T>(shape[0], width, cost, |bag, out| {
            let places = (cuts[bag]..cuts[bag + 1]).filter(|&at| Some(indices[at]) != padding);
            let places: Vec<usize> = places.collect();
            let term = |at: usize| {
                let row = if is_table { indices[at] as usize } else { at };
                (&rows[row * width..][..width], scale.map_or(1.0, |scale| scale[at]))
            };
            let is_max = mode == "max";
            if let (true, Some(&first)) = (is_max, places.first()) {
                out.copy_from_slice(term(first).0);
            }
            let (groups, rest) = places.as_chunks::<4>();
            for group in groups {
                fx_simd::call_256::<join_rows, _>((&mut *out, group.map(term), is_max));
            }
            for &at in rest {
                fx_simd::call_256::<join_rows, _>((&mut *out, [term(at)], is_max));
            }
            if mode == "mean" && !places.is_empty() {
                fx_simd::call_256::<divide_row, _>((out, places.len() as T));
            }
        })?;
        Ok(Array::from_vec(out, &shape)?.cast(ty.dtype))
    })
}
