//! Quantiles: between the elements of sorted rows.

use fx_core::array::Sizes;
use fx_core::op::kind::{IntVec, OperandType, OperandValue};
use fx_core::{Array, Dim, Result, TensorType, bail, kernels};

use super::{Lines, sort_array};
use crate::kernel::chunks::fill_rows;
use crate::ops::check::{in_float, same_dtype, slice};
use crate::ops::infer::{axis_or_only, known, mask, reduced, type_of, typed};

kernels! {
    /// Quantiles.
    pub trait Quantiles; pub static QUANTILES;

    /// The quantiles `q`, a number or a tensor of rank 0 or 1 of numbers from 0 to 1, along the axis `dim` or
    /// of all elements.
    ///
    /// The place of a quantile among the `n` sorted elements is `q * (n - 1)`; if that is between two of
    /// them, `interpolation` says what is taken: "linear" between both, "lower", "higher", "midpoint" or
    /// "nearest". NaN if there is one. Of f32 or f64. The axis of `q`, if it has one, comes first.
    quantile(x: Tensor, q: Operand, dim: OptInt = None, keepdim: Bool = false; interpolation: Str = "linear") =
        quantile_type, |x: &Array, q, dim, keepdim, how| quantile_array(x, q, dim, keepdim, how, false);
    /// As `quantile`, of the elements that are not NaN; NaN if there are none.
    nanquantile(x: Tensor, q: Operand, dim: OptInt = None, keepdim: Bool = false; interpolation: Str = "linear") =
        quantile_type, |x: &Array, q, dim, keepdim, how| quantile_array(x, q, dim, keepdim, how, true);
}

fn quantile_type(
    x: &TensorType,
    q: OperandType<'_>,
    dim: Option<Dim>,
    keepdim: bool,
    interpolation: &str,
) -> Result<TensorType> {
    if !["linear", "lower", "higher", "midpoint", "nearest"].contains(&interpolation) {
        bail!(
            Argument,
            "expected \"linear\", \"lower\", \"higher\", \"midpoint\" or \"nearest\" as interpolation, got {interpolation:?}"
        );
    }
    if !matches!(x.dtype, fx_core::DType::F32 | fx_core::DType::F64) {
        bail!(DType, "expected f32 or f64, got {x}");
    }
    if x.shape.numel().known() == Some(0) {
        bail!(Shape, "expected at least one element, got {x}");
    }
    let mut shape: Vec<Dim> = match q {
        OperandType::Tensor(q) if q.rank() > 1 => bail!(Shape, "expected q of rank 0 or 1, got {q}"),
        OperandType::Tensor(q) => {
            same_dtype("q", x.dtype, q.dtype)?;
            q.shape.to_vec()
        }
        OperandType::Scalar(_) => Vec::new(),
    };
    let dims = match dim {
        Some(dim) => Some(IntVec::from_slice(&[axis_or_only(known(&dim)?, x.rank())? as i64])),
        None => None,
    };
    let mask = mask(dims.as_deref(), x.rank())?;
    shape.extend(reduced(&x.shape, &mask, keepdim, Dim::new(1)));
    typed(x.dtype, shape)
}

fn quantile_array(
    x: &Array,
    q: OperandValue<'_>,
    dim: Option<i64>,
    keepdim: bool,
    interpolation: &str,
    ignore_nan: bool,
) -> Result<Array> {
    let q_type = match q {
        OperandValue::Array(q) => Some(type_of(q)),
        OperandValue::Scalar(_) => None,
    };
    let operand = q_type.as_ref().map_or(OperandType::Scalar(fx_core::Category::Float), OperandType::Tensor);
    let ty = quantile_type(&type_of(x), operand, dim.map(Dim::new), keepdim, interpolation)?;
    let shape: Sizes = crate::ops::infer::sizes(&ty)?;
    let q = match q {
        OperandValue::Array(q) => q.contiguous()?,
        OperandValue::Scalar(q) => Array::full(x.dtype(), &[], q)?,
    };
    let (line, dim) = match dim {
        None => (x.reshape(&[x.numel()])?, 0),
        Some(dim) => (x.clone(), dim),
    };
    let (sorted, _) = sort_array(&line, dim, false, true)?;
    let lines = Lines::new(&sorted, dim)?;
    let n = lines.n;
    in_float!(x.dtype(), T => {
        let (data, q) = (lines.data::<T>()?, slice::<T>(&q));
        if let Some(q) = q.iter().find(|q| !(0.0..=1.0).contains(*q)) {
            bail!(Argument, "expected q from 0 to 1, got {q}");
        }
        // One row for each element of `q`.
        let out = fill_rows::<T>(q.len(), lines.n_rows, lines.n_rows, |i, out| {
            for (row, out) in out.iter_mut().enumerate() {
                let row = &data[row * n..][..n];
                let n_numbers = row.partition_point(|x| !x.is_nan());
                if n_numbers == 0 || n_numbers < n && !ignore_nan {
                    *out = T::NAN;
                    continue;
                }
                let place = q[i] * (n_numbers - 1) as T;
                let place = match interpolation {
                    "lower" => place.floor(),
                    "higher" => place.ceil(),
                    "nearest" => place.round_ties_even(),
                    _ => place,
                };
                let (below, above) = (row[place as usize], row[place.ceil() as usize]);
                let weight = if interpolation == "midpoint" { 0.5 } else { place - place.floor() };
                *out = match () {
                    () if place == place.floor() => below,
                    () if weight < 0.5 => below + weight * (above - below),
                    () => above - (above - below) * (1.0 - weight),
                };
            }
        })?;
        Array::from_vec(out, &shape)
    })
}
