//! Maximum pooling over windows at random places, fractional max pooling.

use fx_core::array::checked_numel;
use fx_core::op::kind::IntVec;
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

/// Returns where the windows of an axis begin, as PyTorch computes it.
fn starts(sample: f64, size: usize, kernel: usize, out: usize, single: bool) -> Vec<usize> {
    let mut starts = Vec::with_capacity(out);
    if out > 1 {
        let room = (size - kernel) as f64;
        for i in 0..out - 1 {
            // In the precision of the input, whose rounding decides.
            let place = if single {
                let alpha = room as f32 / (out - 1) as f32;
                f64::from(((i as f32 + sample as f32) * alpha) as i32 - (sample as f32 * alpha) as i32)
            } else {
                let alpha = room / (out - 1) as f64;
                ((i as f64 + sample) * alpha).trunc() - (sample * alpha).trunc()
            };
            starts.push((place.max(0.0) as usize).min(size - kernel));
        }
    }
    starts.push(size - kernel);
    starts
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
    let wide = wide(ty.dtype);
    let (data, random) = (dense(x, wide)?, dense(random, DType::F64)?);
    let random = slice::<f64>(&random);
    // In three axes, the missing first ones of size 1.
    let three = |sizes: &[usize]| -> [usize; 3] {
        let mut all = [1; 3];
        all[3 - n..].copy_from_slice(sizes);
        all
    };
    let ([_, height, line], [depth_out, height_out, line_out]) = (three(inner), three(outer));
    let [depth_kernel, height_kernel, line_kernel] = three(&kernel);
    // Where the elements of a window are, seen from its first one.
    let taps: Vec<usize> = (0..depth_kernel * height_kernel)
        .map(|row| (row / height_kernel * height + row % height_kernel) * line)
        .flat_map(|row| row..row + line_kernel)
        .collect();
    let (values, places) = in_float!(wide, T => {
        let data = slice::<T>(&data);
        let cost = width.saturating_mul(taps.len());
        let (values, places) = fill_row_pairs::<T, i64>(planes, width, cost, |plane, values, places| {
            let x = &data[plane * area..][..area];
            // The numbers are for the axes from the last to the first.
            let mut starts: Vec<Vec<usize>> = (0..n)
                .map(|axis| {
                    let sample = random[plane * n + n - 1 - axis];
                    starts(sample, inner[axis], kernel[axis], outer[axis], wide == DType::F32)
                })
                .collect();
            starts.splice(0..0, vec![vec![0]; 3 - n]);
            let first = |depth: usize, row: usize| (starts[0][depth] * height + starts[1][row]) * line;
            let rows = (0..depth_out).flat_map(|depth| (0..height_out).map(move |row| (depth, row)));
            let lines = values.chunks_mut(line_out).zip(places.chunks_mut(line_out));
            for ((depth, row), (values, places)) in rows.zip(lines) {
                let first = first(depth, row);
                for ((value, place), &column) in values.iter_mut().zip(places).zip(&starts[2]) {
                    let at = first + column;
                    let (mut greatest, mut found) = (x[at], at);
                    for at in taps[1..].iter().map(|tap| at + tap) {
                        if x[at] > greatest || x[at].is_nan() {
                            (greatest, found) = (x[at], at);
                        }
                    }
                    (*value, *place) = (greatest, found as i64);
                }
            }
        })?;
        Ok::<_, fx_core::Error>((Array::from_vec(values, &shape)?, Array::from_vec(places, &shape)?))
    })?;
    Ok((values.cast(ty.dtype), places))
}
