//! Products of every element of one operand with every element of another, and what is as simple along rows.

use fx_core::array::{BLOCK, Sizes, build_blocks, build_slot_blocks, checked_numel, dispatch_dtype};
use fx_core::{Array, DType, Element, Result, Stored, bail};
use fx_simd::{Filled, UninitSlice};

use crate::kernel::chunks::{PARALLEL, fill_rows};
use crate::ops::check::{dense, slice};
use crate::ops::view::Ring;

/// Returns the outer product of two vectors in a dtype that holds both.
pub(crate) fn outer(a: &Array, b: &Array, dtype: DType) -> Result<Array> {
    let (m, n) = (a.numel(), b.numel());
    checked_numel(&[m, n])?;
    let (a, b) = (dense(a, dtype)?, dense(b, dtype)?);
    dispatch_dtype!(dtype, T => {
        let (a, b) = (slice::<T>(&a), slice::<T>(&b));
        let out = build_slot_blocks::<T>(m * n, n, PARALLEL.div_ceil(8 * n.max(1)), &|at, out| {
            fx_simd::call_256::<scaled, _>((out, a[at / n], b))
        })?;
        Array::from_vec(out, &[m, n])
    })
}

/// Returns `beta * x + alpha * outer(a, b)` in `f32` or `f64`, where `x` is of the shape of the result;
/// without `x` its term is left out.
pub(crate) fn added_outer(
    x: Option<&Array>,
    a: &Array,
    b: &Array,
    dtype: DType,
    [beta, alpha]: [f64; 2],
) -> Result<Array> {
    let (m, n) = (a.numel(), b.numel());
    checked_numel(&[m, n])?;
    let (a, b) = (dense(a, dtype)?, dense(b, dtype)?);
    let x = x.map(|x| x.cast(dtype).broadcast_to(&[m, n])?.contiguous()).transpose()?;
    macro_rules! run {
        ($T:ty) => {{
            let (a, b) = (slice::<$T>(&a), slice::<$T>(&b));
            let x = x.as_ref().map(slice::<$T>);
            let (beta, alpha) = (beta as $T, alpha as $T);
            let out = fill_rows::<$T>(m, n, n, |i, out| {
                let a = a[i];
                match x {
                    None => fx_simd::call_256::<each, _>((out, b, b, |b, _| a * b * alpha)),
                    Some(x) => {
                        let x = &x[i * n..][..n];
                        fx_simd::call_256::<each, _>((out, b, x, |b, x| a * b * alpha + x * beta));
                    }
                }
            })?;
            Array::from_vec(out, &[m, n])
        }};
    }
    match dtype {
        DType::F32 => run!(f32),
        DType::F64 => run!(f64),
        other => bail!(DType, "expected f32 or f64, got {other}"),
    }
}

/// Returns the Kronecker product of operands of one rank in a dtype that holds both.
pub(crate) fn kronecker(a: &Array, b: &Array, dtype: DType) -> Result<Array> {
    let shape: Sizes = a.shape().iter().zip(b.shape()).map(|(&a, &b)| a.saturating_mul(b)).collect();
    let numel = checked_numel(&shape)?;
    let Some((&width, outer)) = shape.split_last() else {
        return kronecker(&a.reshape(&[1])?, &b.reshape(&[1])?, dtype)?.reshape(&[]);
    };
    if numel == 0 {
        return Array::zeros(dtype, &shape);
    }
    let last = outer.len();
    let (p, q) = (a.shape()[last], b.shape()[last]);
    let (sizes_a, sizes_b) = (Sizes::from_slice(a.shape()), Sizes::from_slice(b.shape()));
    let (a, b) = (dense(a, dtype)?, dense(b, dtype)?);
    dispatch_dtype!(dtype, T => {
        let (a, b) = (slice::<T>(&a), slice::<T>(&b));
        let out = fill_rows::<T>(numel / width, width, width, |row, out| {
            let (mut row_a, mut row_b, mut step_a, mut step_b, mut rest) = (0, 0, 1, 1, row);
            for axis in (0..last).rev() {
                let at = rest % outer[axis];
                rest /= outer[axis];
                row_a += at / sizes_b[axis] * step_a;
                row_b += at % sizes_b[axis] * step_b;
                step_a *= sizes_a[axis];
                step_b *= sizes_b[axis];
            }
            fx_simd::call_256::<tiles, _>((out, &a[row_a * p..][..p], &b[row_b * q..][..q]));
        })?;
        Array::from_vec(out, &shape)
    })
}

/// Returns the cross products along the axis `at`, of size 3, of operands of one shape and dtype.
pub(crate) fn cross(a: &Array, b: &Array, at: usize) -> Result<Array> {
    let shape = Sizes::from_slice(a.shape());
    let inner: usize = shape[at + 1..].iter().product();
    let (a, b) = (a.contiguous()?, b.contiguous()?);
    dispatch_dtype!(a.dtype(), T => {
        let (a, b) = (slice::<T>(&a), slice::<T>(&b));
        let minus = T::from_scalar(fx_core::Scalar::Int(-1));
        let slab = 3 * inner;
        // Several short slabs make a block.
        let slabs = BLOCK.div_ceil(slab.max(1));
        let at_once = PARALLEL.div_ceil(slabs * slab.max(1));
        let out = build_blocks(a.len(), slabs * slab, at_once, &|start, out: &mut [T]| {
            let (a, b) = (&a[start..start + out.len()], &b[start..start + out.len()]);
            fx_simd::call_256::<cross_slabs, _>((out, a, b, inner, minus));
        })?;
        Array::from_vec(out, &shape)
    })
}

fx_simd::wide! {
    fn cross_slabs[T: Ring]((out, a, b, inner, minus): (&mut [T], &[T], &[T], usize, T)) {
        let one = |a: T, b: T, c: T, d: T| a.times(b).plus(c.times(d).times(minus));
        if inner == 1 {
            let (out, _) = out.as_chunks_mut::<3>();
            let ((a, _), (b, _)) = (a.as_chunks::<3>(), b.as_chunks::<3>());
            for ((out, a), b) in out.iter_mut().zip(a).zip(b) {
                *out = [one(a[1], b[2], a[2], b[1]), one(a[2], b[0], a[0], b[2]), one(a[0], b[1], a[1], b[0])];
            }
            return;
        }
        let slabs = out.chunks_mut(3 * inner).zip(a.chunks(3 * inner)).zip(b.chunks(3 * inner));
        for ((out, a), b) in slabs {
            for (axis, out) in out.chunks_mut(inner).enumerate() {
                let (next, last) = ((axis + 1) % 3 * inner, (axis + 2) % 3 * inner);
                let (a_next, a_last) = (&a[next..][..inner], &a[last..][..inner]);
                let (b_next, b_last) = (&b[next..][..inner], &b[last..][..inner]);
                for (i, out) in out.iter_mut().enumerate() {
                    *out = one(a_next[i], b_last[i], a_last[i], b_next[i]);
                }
            }
        }
    }
}

/// Returns the powers 0 to `n - 1` of each element, as rows.
pub(crate) fn powers(x: &Array, n: usize) -> Result<Array> {
    let mut shape = Sizes::from_slice(x.shape());
    shape.push(n);
    checked_numel(&shape)?;
    let x = x.contiguous()?;
    dispatch_dtype!(x.dtype(), T => {
        let (x, one) = (slice::<T>(&x), T::from_scalar(fx_core::Scalar::Int(1)));
        let out = fill_rows::<T>(x.len(), n, n, |i, out| {
            let (x, mut power) = (x[i], one);
            for out in out {
                *out = power;
                power = power.times(x);
            }
        })?;
        Array::from_vec(out, &shape)
    })
}

fx_simd::wide! {
    fn scaled['a, T: Ring]((out, factor, row): (UninitSlice<'a, T>, T, &[T])) -> Filled<'a> {
        let row = &row[..out.len()];
        out.each(|i| factor.times(row[i]))
    }
}

fx_simd::wide! {
    fn each[T: Element, F: Fn(T, T) -> T]((out, x, y, f): (&mut [T], &[T], &[T], F)) {
        out.iter_mut().zip(x).zip(y).for_each(|((out, &x), &y)| *out = f(x, y));
    }
}

fx_simd::wide! {
    fn tiles[T: Ring]((out, factors, row): (&mut [T], &[T], &[T])) {
        for (out, &factor) in out.chunks_mut(row.len()).zip(factors) {
            out.iter_mut().zip(row).for_each(|(out, &x)| *out = factor.times(x));
        }
    }
}
