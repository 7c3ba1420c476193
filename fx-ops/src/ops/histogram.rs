//! Histograms with the edges of their bins.

use fx_core::op::Default::None as Nothing;
use fx_core::{
    Arg, Array, Dim, Op, Result, Shape, Tensor, TensorType, Type, TypeTree, Value, bail, err, kernels,
};

use crate::ops::check::{
    dense, float_only, in_float, opt_dense, opt_slice, opt_type_of, same_dtype, same_shape, slice, type_of,
    wide, zeroed,
};

/// The tables of this file.
pub(super) static TABLES: &[&[Op]] = &[HISTOGRAMS];

kernels! {
    /// Histograms.
    pub trait Histograms; pub static HISTOGRAMS;

    /// `(counts, edges)` of the elements in each of `bins` intervals of equal width over `range`, by default
    /// that of the elements, or between rising edges that a tensor `bins` gives. An interval has its left
    /// edge, the last one both.
    ///
    /// Each element counts as much as `weight`, of the shape of `x`, says. With `density` counts are divided
    /// by their sum and the widths.
    histogram(x: Tensor, bins: Any = fx_core::op::Default::Int(100); range: Any = Nothing, weight: OptTensor = None,
        density: Bool = false) -> (Tensor, Tensor) = histogram_type, histogram_array;
}

fn histogram_type(
    x: &TensorType,
    bins: &TypeTree,
    _range: &TypeTree,
    weight: Option<&TensorType>,
    _density: bool,
) -> Result<(TensorType, TensorType)> {
    float_only(x.dtype)?;
    if let Some(weight) = weight {
        same_dtype("a weight", x.dtype, weight.dtype)?;
        same_shape("a weight", &x.shape, &weight.shape)?;
    }
    let edges = match bins {
        Arg::Int(n) => Dim::new(*n) + 1,
        Arg::Dim(n) => n + 1,
        Arg::Leaf(Type::Tensor(edges)) if edges.rank() == 1 => {
            same_dtype("edges", x.dtype, edges.dtype)?;
            edges.shape[0].clone()
        }
        _ => bail!(Argument, "expected a number of bins, or edges of rank 1"),
    };
    if edges.less(&Dim::new(2)).is_yes() {
        bail!(Argument, "expected at least 1 bin, got {}", edges - 1);
    }
    let of = |size: Dim| TensorType::new(x.dtype, [size].into_iter().collect::<Shape>());
    Ok((of(&edges - 1), of(edges)))
}

fn histogram_array(
    x: &Array,
    bins: &Value,
    range: &Value,
    weight: Option<&Array>,
    density: bool,
) -> Result<(Array, Array)> {
    let mut leaf = |tensor: &Tensor| Ok(Arg::Leaf(Type::Tensor(type_of(tensor.array()?))));
    let (bins_ty, range_ty) = (bins.try_flat_map(&mut leaf)?, range.try_flat_map(&mut leaf)?);
    let (counts_ty, _) =
        histogram_type(&type_of(x), &bins_ty, &range_ty, opt_type_of(weight).as_ref(), density)?;
    let wide = wide(x.dtype());
    let (data, weight) = (dense(x, wide)?, opt_dense(weight, wide)?);
    let (counts, edges) = in_float!(wide, T => {
        let (data, weight) = (slice::<T>(&data), opt_slice::<T>(&weight));
        let edges: Vec<T> = match bins {
            Arg::Leaf(tensor) => {
                let edges = slice::<T>(&dense(tensor.array()?, wide)?).to_vec();
                if !edges.is_sorted() {
                    bail!(Argument, "expected edges that rise");
                }
                edges
            }
            _ => {
                let n = crate::ops::infer::known(&counts_ty.shape[0])? as usize;
                let (low, high) = limits(range)?.unwrap_or_else(|| {
                    let join = |(a, b): (f64, f64), x: &T| (a.min(fx_core::math::Real::to_f64(*x)), b.max(fx_core::math::Real::to_f64(*x)));
                    if data.is_empty() { (0.0, 1.0) } else { data.iter().fold((f64::INFINITY, f64::NEG_INFINITY), join) }
                });
                if !(low.is_finite() && high.is_finite() && low <= high) || data.iter().any(|x| x.is_nan()) && matches!(range, Arg::None) {
                    bail!(Argument, "expected a finite range that rises, got {low} to {high}");
                }
                let (low, high) = if low == high { (low - 0.5, high + 0.5) } else { (low, high) };
                let mut edges = zeroed::<T>(n + 1)?;
                let step = (high as T - low as T) / n as T;
                // From both ends, as PyTorch's `linspace`.
                for (i, edge) in edges.iter_mut().enumerate() {
                    *edge = if i < n.div_ceil(2) { low as T + step * i as T } else { high as T - step * (n - i) as T };
                }
                edges
            }
        };
        let n = edges.len() - 1;
        let mut counts = zeroed::<T>(n)?;
        for (i, &x) in data.iter().enumerate() {
            if !(x >= edges[0] && x <= edges[n]) {
                continue;
            }
            let bin = edges.partition_point(|edge| *edge <= x).clamp(1, n) - 1;
            counts[bin] += weight.map_or(1.0, |weight| weight[i]);
        }
        if density {
            let sum: T = counts.iter().sum();
            counts.iter_mut().zip(edges.windows(2)).for_each(|(count, edge)| *count /= sum * (edge[1] - edge[0]));
        }
        Ok::<_, fx_core::Error>((Array::from_vec(counts, &[n])?, Array::from_vec(edges, &[n + 1])?))
    })?;
    Ok((counts.cast(x.dtype()), edges.cast(x.dtype())))
}

/// Returns the two numbers of a range, if it is given.
fn limits(range: &Value) -> Result<Option<(f64, f64)>> {
    let number = |arg: &Value| arg.scalar().map(fx_core::Scalar::to_f64);
    match (range, range.items()) {
        (Arg::None, _) => Ok(None),
        (_, Some([low, high])) => match (number(low), number(high)) {
            (Some(low), Some(high)) => Ok(Some((low, high))),
            _ => Err(err!(Argument, "expected two numbers as a range")),
        },
        _ => Err(err!(Argument, "expected two numbers as a range")),
    }
}
