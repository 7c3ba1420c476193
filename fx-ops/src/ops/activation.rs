//! Activations with learnt or drawn slopes.

use fx_core::op::Flops::PerOutput;
use fx_core::{Array, Dim, Op, Result, TensorType, bail, kernels};

use crate::kernel::chunks::fill_rows;
use crate::ops::check::{dense, float_only, in_float, same_dtype, slice, type_of, wide};
use crate::ops::compose::Operand;
use crate::ops::pointwise::leaky_relu;

/// The tables of this file.
pub(super) static TABLES: &[&[Op]] = &[SLOPES];

kernels! {
    /// Activations with slopes.
    pub trait Slopes; pub static SLOPES;

    /// `x` where positive, `weight * x` elsewhere: one weight, or one for each channel, axis 1, of `x`.
    #[flops = PerOutput(1)]
    prelu(x: Tensor, weight: Tensor) = prelu_type, prelu_kernel;
    /// `x` where positive, `(lower + upper) / 2 * x` elsewhere: the randomised unit of a model in evaluation.
    #[flops = PerOutput(1)]
    rrelu(x: Tensor, lower: Float = 0.125, upper: Float = 0.333_333_333_333_333_3) = randomised, randomised;
}

fn prelu_type(x: &TensorType, weight: &TensorType) -> Result<TensorType> {
    float_only(x.dtype)?;
    same_dtype("a weight", x.dtype, weight.dtype)?;
    match &weight.shape[..] {
        [] => {}
        [n] => {
            let one = Dim::new(1);
            let channels = if x.rank() > 1 { &x.shape[1] } else { &one };
            if n.same(&one).is_no() && n.same(channels).is_no() {
                bail!(Shape, "expected 1 weight or as many as the {channels} channels, got {n}");
            }
        }
        _ => bail!(Shape, "expected a weight of rank 0 or 1, got {weight}"),
    }
    Ok(x.clone())
}

fn prelu_kernel(x: &Array, weight: &Array) -> Result<Array> {
    prelu_type(&type_of(x), &type_of(weight))?;
    let wide = wide(x.dtype());
    let (dense_x, weight) = (dense(x, wide)?, dense(weight, wide)?);
    let n = weight.numel();
    // One weight is for whole rows of any length, several are for the planes of a channel.
    let width = if n > 1 { x.shape()[2..].iter().product() } else { x.shape().last().copied().unwrap_or(1) };
    let n_rows = x.numel().checked_div(width).unwrap_or(0);
    in_float!(wide, T => {
        let (data, weight) = (slice::<T>(&dense_x), slice::<T>(&weight));
        let out = fill_rows::<T>(n_rows, width, width, |row, out| {
            let slope = weight[row % n];
            let x = &data[row * width..][..width];
            out.iter_mut().zip(x).for_each(|(out, &x)| *out = if x > 0.0 { x } else { x * slope });
        })?;
        Ok(Array::from_vec(out, x.shape())?.cast(x.dtype()))
    })
}

fn randomised<V: Operand>(x: &V, lower: impl Into<Option<f64>>, upper: impl Into<Option<f64>>) -> Result<V> {
    let (lower, upper) = (crate::ops::compose::float(lower.into()), crate::ops::compose::float(upper.into()));
    if lower > upper {
        bail!(Argument, "expected lower of at most upper, got {lower} and {upper}");
    }
    float_only(x.ty().dtype)?;
    x.apply(leaky_relu::OP, &[fx_core::Arg::Float((lower + upper) / 2.0)])
}
