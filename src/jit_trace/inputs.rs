//! Arguments for checks: the example with other numbers and other sizes.
//!
//! Numbers keep their sign and magnitude, and integers and bools are those of the example in another order, so
//! that indices and probabilities stay valid.

use crate::rng::{Generator, with_generator};
use crate::trace::without_tracing;
use crate::{Arg, DType, Result, Tensor, TensorType, Type, TypeTree, Value, err};

/// Returns the example with other elements. `seed` tells several apart.
pub(super) fn other_numbers(examples: &[Value], seed: u64) -> Result<Vec<Value>> {
    let generator = Generator::seeded(seed);
    each_tensor(examples, &mut |x| with_generator(&generator, || renumbered(x)))
}

/// Returns the example with the sizes of `types`, whose symbols `value` knows.
pub(super) fn resized(
    examples: &[Value],
    types: &[TypeTree],
    value: &dyn Fn(&crate::Symbol) -> Option<i64>,
) -> Result<Vec<Value>> {
    let mut shapes = Vec::new();
    for ty in types.iter().flat_map(|ty| ty.leaves()) {
        let Type::Tensor(TensorType { shape, .. }) = ty else {
            return Err(err!(Structure, "expected a tensor as an example, got {ty}"));
        };
        let sizes = shape.iter().map(|dim| dim.eval(value)).collect::<Result<Vec<i64>>>()?;
        if let Some(size) = sizes.iter().find(|size| **size < 0) {
            return Err(err!(Shape, "a size would be {size}"));
        }
        shapes.push(sizes);
    }
    let mut shapes = shapes.into_iter();
    each_tensor(examples, &mut |x| match shapes.next() {
        Some(sizes) => with_sizes(x, &sizes),
        None => Ok(x.clone()),
    })
}

/// Returns the example with floats of another dtype.
pub(super) fn with_dtype(examples: &[Value], dtype: DType) -> Result<Vec<Value>> {
    each_tensor(examples, &mut |x| {
        if x.array()?.dtype().is_float() { crate::to(x, dtype).ok() } else { Ok(x.clone()) }
    })
}

fn each_tensor(examples: &[Value], f: &mut dyn FnMut(&Tensor) -> Result<Tensor>) -> Result<Vec<Value>> {
    without_tracing(|| {
        examples.iter().map(|value| value.try_flat_map(&mut |x| f(x).map(Arg::Leaf))).collect()
    })
}

fn renumbered(x: &Tensor) -> Result<Tensor> {
    let array = x.array()?;
    if array.dtype().is_float() {
        let factor = crate::rand(array.shape().to_vec()) + 0.5;
        return (x * crate::to(&factor, array.dtype())).ok();
    }
    let n = array.shape().iter().product::<usize>() as i64;
    let backwards = Tensor::from_vec((0..n).rev().collect::<Vec<i64>>(), &[n as usize]);
    let elements = crate::index_select(crate::reshape(x, (-1,)), 0, &backwards);
    crate::reshape(&elements, array.shape().to_vec()).ok()
}

/// Repeats or cuts a tensor along each axis.
fn with_sizes(x: &Tensor, sizes: &[i64]) -> Result<Tensor> {
    let before: Vec<usize> = x.array()?.shape().to_vec();
    let dtype = x.array()?.dtype();
    if before.contains(&0) {
        let sizes: Vec<usize> = sizes.iter().map(|size| *size as usize).collect();
        return crate::to(crate::zeros(sizes), dtype).ok();
    }
    let mut x = x.clone();
    for (axis, (&size, &n)) in sizes.iter().zip(&before).enumerate() {
        if size != n as i64 {
            let index: Vec<i64> = (0..size).map(|i| i % n as i64).collect();
            let index = Tensor::from_vec(index, &[size as usize]);
            x = crate::index_select(&x, axis as i64, &index);
        }
    }
    x.ok()
}
