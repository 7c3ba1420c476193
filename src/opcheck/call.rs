//! Calls of an operation on variants of its arguments: other sizes, dtypes and layouts, each guarded against
//! panics.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::Sample;
use crate::{
    Arg, Array, DType, Generator, GraphModule, InputSpec, Op, Result, Stored, Tensor, Value, bail, trace,
    with_generator,
};

/// The seed of random operations.
pub(super) const SEED: u64 = 7;

/// Binds a sample and runs the kernel.
pub(crate) fn run(op: Op, sample: &Sample) -> Result<Value> {
    eval(op, &op.bind(&sample.args, &sample.kwargs)?)
}

/// Runs the kernel on arguments in schema order; a panic is an error that says so.
pub(super) fn eval(op: Op, args: &[Value]) -> Result<Value> {
    let value = guarded(|| with_generator(&Generator::seeded(SEED), || (op.eval)(args)))?;
    match value.leaves().into_iter().find_map(Tensor::error) {
        Some(error) => Err(error.clone()),
        None => Ok(value),
    }
}

/// What a panic is called in errors.
pub(super) const PANICKED: &str = "panicked: ";

/// Turns a panic into an error.
pub(crate) fn guarded<T>(f: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(f)).unwrap_or_else(|panic| {
        let message =
            panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
        bail!(Check, "{PANICKED}{}", message.unwrap_or("without a message"))
    })
}

/// Traces a call with arguments in schema order; returns the program and its one argument, the list of all
/// tensors.
pub(crate) fn traced(op: Op, args: &[Value]) -> Result<(GraphModule, Value)> {
    let tensors: Vec<Tensor> = args.iter().flat_map(Arg::leaves).cloned().collect();
    let gm = trace(|tensors: Vec<Tensor>| -> Value {
        let mut tensors = tensors.into_iter();
        let args: Result<Vec<Value>> = args
            .iter()
            .map(|arg| arg.try_flat_map(&mut |_| Ok(tensors.next().map_or(Arg::None, Arg::Leaf))))
            .collect();
        let recorded = args.and_then(|args| {
            let (args, kwargs) = op.spell(&args);
            let kwargs: Vec<(&str, Value)> = kwargs.iter().map(|(key, arg)| (&**key, arg.clone())).collect();
            trace::apply(op, false, &args, &kwargs)
        });
        recorded.unwrap_or_else(Arg::Failed)
    })
    .input("x", InputSpec::list(tensors.iter()))
    .without_sources()
    .build()?;
    Ok((gm, Arg::list(tensors.into_iter().map(Arg::Leaf))))
}

/// Returns whether two results agree bit for bit.
pub(super) fn same(a: &Value, b: &Value) -> bool {
    a.eq_by(b, &|a: &Tensor, b: &Tensor| a.bits_eq(b))
}

/// Replaces every tensor.
pub(super) fn with_arrays(args: &[Value], mut f: impl FnMut(&Array) -> Result<Array>) -> Result<Vec<Value>> {
    args.iter()
        .map(|arg| arg.try_flat_map(&mut |tensor| Ok(Arg::Leaf(Tensor::from(f(tensor.array()?)?)))))
        .collect()
}

/// Returns the arrays among the arguments.
pub(super) fn arrays(args: &[Value]) -> Vec<&Array> {
    args.iter().flat_map(Arg::leaves).filter_map(|tensor| tensor.array().ok()).collect()
}

/// Replaces the size `from` by `to` in every tensor; elements repeat.
pub(super) fn resized(args: &[Value], from: usize, to: usize) -> Result<Vec<Value>> {
    with_arrays(args, |array| {
        let shape: Vec<usize> = array.shape().iter().map(|&n| if n == from { to } else { n }).collect();
        cycled(array, &shape)
    })
}

/// Returns an array of another shape with the elements of this one again and again; square matrices stay
/// invertible.
pub(super) fn cycled(array: &Array, shape: &[usize]) -> Result<Array> {
    if array.shape() == shape {
        return Ok(array.clone());
    }
    let numel = crate::array::checked_numel(shape)?;
    crate::array::dispatch_dtype!(array.dtype(), T => {
        let data: Vec<T> = array.to_vec()?;
        let data: Vec<T> = match data.is_empty() {
            true => vec![T::from_scalar(crate::Scalar::Int(1)); numel],
            false => data.into_iter().cycle().take(numel).collect(),
        };
        let is_square = |shape: &[usize]| matches!(shape, [.., a, b] if a == b);
        let mut data = data;
        if array.dtype().is_float() && is_square(array.shape()) && is_square(shape) {
            let n = shape[shape.len() - 1];
            for (i, x) in data.iter_mut().enumerate().filter(|(i, _)| i / n % n == i % n) {
                *x = T::from_scalar(crate::Scalar::Float(x.to_scalar().to_f64() + (4 * n + i % 2) as f64));
            }
        }
        Array::from_vec(data, shape)
    })
}

/// Replaces the tensors of one dtype by those of another; small floats become integers from 1 on.
pub(super) fn cast(args: &[Value], from: DType, to: DType) -> Result<Vec<Value>> {
    const SPREAD: f64 = 31.0;
    with_arrays(args, |array| {
        if array.dtype() != from {
            return Ok(array.clone());
        }
        if !from.is_float() || to.is_float() {
            return Ok(array.cast(to));
        }
        let offset = if to == DType::Bool { -0.5 } else { 0.0 };
        let spread: Vec<f64> =
            array.iter_scalars().map(|x| (x.to_f64() + offset) * SPREAD).map(f64::trunc).collect();
        Ok(Array::from_vec(
            spread.into_iter().map(|x| if to == DType::Bool { x.max(0.0) } else { x }).collect(),
            array.shape(),
        )?
        .cast(to))
    })
}

/// A layout in memory other than row-major.
pub(super) type Layout = (&'static str, fn(&Array) -> Result<Array>);

/// Layouts with the same elements.
pub(super) const LAYOUTS: [Layout; 3] =
    [("transposed", transposed), ("strided", strided), ("flipped", flipped)];

fn transposed(array: &Array) -> Result<Array> {
    let axes: Vec<usize> = (0..array.rank()).rev().collect();
    array.permute(&axes)?.contiguous()?.permute(&axes)
}

fn strided(array: &Array) -> Result<Array> {
    let Some((&last, rest)) = array.shape().split_last() else { return Ok(array.clone()) };
    let doubled: Vec<usize> = array.shape().iter().copied().chain([2]).collect();
    let flat: Vec<usize> = rest.iter().copied().chain([2 * last]).collect();
    let wide = array.unsqueeze(array.rank())?.broadcast_to(&doubled)?.contiguous()?.reshape(&flat)?;
    if last == 0 { Ok(wide) } else { wide.slice_axis(rest.len(), 1, 2 * last, 2) }
}

fn flipped(array: &Array) -> Result<Array> {
    if array.rank() == 0 { Ok(array.clone()) } else { array.flip(&[0])?.contiguous()?.flip(&[0]) }
}

/// Returns the first slice of the first axis, repeated with stride 0; `None` if there is none.
pub(super) fn expanded(array: &Array) -> Result<Array> {
    if array.rank() == 0 || array.shape()[0] == 0 {
        return Ok(array.clone());
    }
    array.slice_axis(0, 0, 1, 1)?.broadcast_to(array.shape())
}
