//! Maximum pooling over windows at random places, fractional max pooling.

use fx_core::array::checked_numel;
use fx_core::op::kind::IntVec;
use fx_core::portable::fractional::Windows;
use fx_core::{Array, DType, Dim, Op, Result, Shape, Tensor, TensorType, bail, kernels};

use crate::kernel::chunks::fill_row_pairs;
use crate::ops::check::{dense, float_only, in_float, same_dtype, sizes, slice, type_of, wide};

/// The tables of this file.
pub(super) static TABLES: &[&[Op]] = &[FRACTIONAL_MAX_POOLING];

kernels! {
    /// Pooling over windows at random places.
    pub trait FractionalMaxPooling; pub static FRACTIONAL_MAX_POOLING;

    /// The maxima of `output_size` windows of `kernel_size` along the last two axes of `[n, c, h, w]` or
    /// `[c, h, w]`, and their places in the plane. Where windows begin follows from a number in [0, 1) for
    /// each plane and axis, the last axis first, in `random_samples` `[n, c, 2]`. A size of the output is at
    /// least 2 if the window is not the whole axis.
    fractional_max_pool2d(x: Tensor, kernel_size: Ints, output_size: Ints, random_samples: Tensor) -> (Tensor, Tensor) =
        |x: &TensorType, k: IntVec, out: IntVec, random: &TensorType| pool_type(x, &k, &out, random, 2),
        |x: &Array, k: IntVec, out: IntVec, random: &Array| pool(x, &k, &out, random, 2);
    /// As `fractional_max_pool2d` along the last three axes, `random_samples` `[n, c, 3]`.
    fractional_max_pool3d(x: Tensor, kernel_size: Ints, output_size: Ints, random_samples: Tensor) -> (Tensor, Tensor) =
        |x: &TensorType, k: IntVec, out: IntVec, random: &TensorType| pool_type(x, &k, &out, random, 3),
        |x: &Array, k: IntVec, out: IntVec, random: &Array| pool(x, &k, &out, random, 3);
}

/// Returns one number for each axis.
fn each(what: &str, numbers: &[i64], n: usize) -> Result<Vec<i64>> {
    let out = match numbers {
        [one] => vec![*one; n],
        several if several.len() == n => several.to_vec(),
        _ => bail!(Argument, "expected 1 or {n} numbers as {what}, got {}", numbers.len()),
    };
    match out.iter().find(|number| **number < 1) {
        Some(number) => bail!(Argument, "expected {what} of at least 1, got {number}"),
        None => Ok(out),
    }
}

fn pool_type(
    x: &TensorType,
    kernel: &[i64],
    out: &[i64],
    random: &TensorType,
    n: usize,
) -> Result<(TensorType, TensorType)> {
    float_only(x.dtype)?;
    same_dtype("random_samples", x.dtype, random.dtype)?;
    let (kernel, out) = (each("a kernel_size", kernel, n)?, each("an output_size", out, n)?);
    if x.rank() != n + 1 && x.rank() != n + 2 {
        bail!(Shape, "expected {} or {} axes, got {x}", n + 1, n + 2);
    }
    let lead = x.rank() - n;
    for ((size, kernel), out) in x.shape[lead..].iter().zip(&kernel).zip(&out) {
        if size.less(&Dim::new(kernel + out - 1)).is_yes() {
            bail!(
                Shape,
                "expected a size of at least {} for {out} windows of {kernel}, got {size}",
                kernel + out - 1
            );
        }
    }
    let batch = if lead == 2 { x.shape[0].clone() } else { Dim::new(1) };
    let expected = [batch, x.shape[lead - 1].clone(), Dim::new(n as i64)];
    crate::ops::check::same_shape("random_samples", &expected, &random.shape)?;
    let shape: Shape = x.shape[..lead].iter().cloned().chain(out.into_iter().map(Dim::new)).collect();
    Ok((TensorType { dtype: x.dtype, shape: shape.clone() }, TensorType { dtype: DType::I64, shape }))
}

fn pool(x: &Array, kernel: &[i64], out: &[i64], random: &Array, n: usize) -> Result<(Array, Array)> {
    let (ty, _) = pool_type(&type_of(x), kernel, out, &type_of(random), n)?;
    let shape = sizes(&ty.shape)?;
    checked_numel(&shape)?;
    let number = |numbers: &[i64]| numbers.iter().map(|&n| n as usize).collect::<Vec<_>>();
    let kernel = number(&each("a kernel_size", kernel, n)?);
    let lead = x.rank() - n;
    let (inner, outer) = (&x.shape()[lead..], &shape[lead..]);
    let (planes, area, width): (usize, usize, usize) =
        (shape[..lead].iter().product(), inner.iter().product(), outer.iter().product());
    let three = |sizes: &[usize]| -> [usize; 3] {
        let mut all = [1; 3];
        all[3 - n..].copy_from_slice(sizes);
        all
    };
    let windows = Windows { input: three(inner), kernel: three(&kernel), output: three(outer) };
    let cost = width.saturating_mul(kernel.iter().product());
    let wide = wide(ty.dtype);
    let (data, random) = (dense(x, wide)?, dense(random, wide)?);
    let (values, places) = in_float!(wide, T => {
        let (data, random) = (slice::<T>(&data), slice::<T>(&random));
        let (values, places) = fill_row_pairs::<T, i64>(planes, width, cost, |plane, values, places| {
            windows.plane(&random[plane * n..][..n], &data[plane * area..][..area], values, places);
        })?;
        Ok::<_, fx_core::Error>((Array::from_vec(values, &shape)?, Array::from_vec(places, &shape)?))
    })?;
    Ok((values.cast(ty.dtype), places))
}
