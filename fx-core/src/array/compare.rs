//! Equality of arrays: bit by bit, and within a tolerance.

use std::fmt;

use super::{Array, Cast, Runs, Sizes, Stored, any_chunk, dispatch_dtype};
use crate::{DType, Element, Scalar};

/// The first difference that [`Array::all_close`] reports.
#[derive(Debug, Clone, PartialEq)]
pub enum Mismatch {
    /// The dtypes differ.
    DType {
        /// The dtype of the array.
        got: DType,
        /// The dtype of the reference.
        expected: DType,
    },
    /// The shapes differ.
    Shape {
        /// The shape of the array.
        got: Sizes,
        /// The shape of the reference.
        expected: Sizes,
    },
    /// Elements differ by more than the tolerance.
    Value {
        /// The index of the first such element.
        index: Sizes,
        /// The element of the array.
        got: Scalar,
        /// The element of the reference.
        expected: Scalar,
        /// The greatest difference of any two elements; infinite if one is NaN or infinite and the other is not.
        max_abs_error: f64,
    },
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = |x: &Scalar| match x {
            Scalar::Bool(x) => x.to_string(),
            Scalar::Int(x) => x.to_string(),
            Scalar::Float(x) => format!("{x:?}"),
        };
        match self {
            Mismatch::DType { got, expected } => write!(f, "expected dtype {expected}, got {got}"),
            Mismatch::Shape { got, expected } => {
                write!(f, "expected shape {:?}, got {:?}", &expected[..], &got[..])
            }
            Mismatch::Value { index, got, expected, max_abs_error } => write!(
                f,
                "expected {} at {:?}, got {} (greatest difference {max_abs_error:e})",
                value(expected),
                &index[..],
                value(got)
            ),
        }
    }
}

impl std::error::Error for Mismatch {}

impl Array {
    /// Returns whether dtype, shape and the bits of all elements are the same.
    ///
    /// NaNs with the same bits are equal, `-0.0` and `0.0` are not.
    pub fn bits_eq(&self, other: &Array) -> bool {
        if self.dtype() != other.dtype() || self.shape != other.shape {
            return false;
        }
        dispatch_dtype!(self.dtype(), T => {
            let (a, b) = (all::<T>(self), all::<T>(other));
            pairs(self, other).all(|[i, j]| a[i].bits() == b[j].bits())
        })
    }

    /// Compares each element with that of `expected`. Fails with the first mismatch: elements that differ by
    /// more than `atol + rtol * |expected|`, or another dtype or shape.
    ///
    /// NaN equals NaN and infinities equal themselves; integers and booleans must be the same. The
    /// dtypes and shapes must be the same too.
    pub fn all_close(&self, expected: &Array, rtol: f64, atol: f64) -> Result<(), Mismatch> {
        if self.dtype() != expected.dtype() {
            return Err(Mismatch::DType { got: self.dtype(), expected: expected.dtype() });
        }
        if self.shape != expected.shape {
            return Err(Mismatch::Shape { got: self.shape.clone(), expected: expected.shape.clone() });
        }
        dispatch_dtype!(self.dtype(), T => {
            let (a, b) = (all::<T>(self), all::<T>(expected));
            let mut first = None;
            let mut greatest = 0f64;
            pairs(self, expected).enumerate().for_each(|(nth, [i, j])| {
                if a[i].bits() == b[j].bits() {
                    return;
                }
                let (x, y) = (a[i].to_scalar(), b[j].to_scalar());
                let error = abs_error(x, y);
                greatest = greatest.max(error);
                let tolerated = T::DTYPE.is_float()
                    && error.is_finite()
                    && error <= atol + rtol * y.to_f64().abs();
                if error != 0.0 && !tolerated && first.is_none() {
                    first = Some((nth, x, y));
                }
            });
            match first {
                None => Ok(()),
                Some((nth, got, expected)) => {
                    let index = unravel(nth, &self.shape);
                    Err(Mismatch::Value { index, got, expected, max_abs_error: greatest })
                }
            }
        })
    }
}

fn all<T: Element>(array: &Array) -> &[T] {
    T::slice(&array.storage).expect("the dtype was dispatched on")
}

/// Returns the storage positions of corresponding elements in row-major order.
fn pairs(a: &Array, b: &Array) -> impl Iterator<Item = [usize; 2]> + use<> {
    let runs = Runs::new(&a.shape, [(&a.strides, a.offset), (&b.strides, b.offset)]);
    let (len, [s, t]) = (runs.run_len(), runs.run_strides().map(|stride| stride as usize));
    runs.flat_map(move |[i, j]| (0..len).map(move |k| [i + k * s, j + k * t]))
}

/// Returns the index of the `nth` element in row-major order.
fn unravel(mut nth: usize, shape: &[usize]) -> Sizes {
    let mut index = Sizes::from_elem(0, shape.len());
    for (index, &size) in index.iter_mut().zip(shape).rev() {
        *index = nth % size;
        nth /= size;
    }
    index
}

/// Returns zero for equal values, two NaNs included, and infinity if only one is finite.
fn abs_error(x: Scalar, y: Scalar) -> f64 {
    match (x, y) {
        (Scalar::Int(x), Scalar::Int(y)) => x.abs_diff(y) as f64,
        _ => {
            let (x, y) = (x.to_f64(), y.to_f64());
            if x == y || (x.is_nan() && y.is_nan()) {
                0.0
            } else {
                let error = (x - y).abs();
                if error.is_nan() { f64::INFINITY } else { error }
            }
        }
    }
}

impl Array {
    /// Returns whether an element, taken as an integer, is as asked.
    pub fn any_int(&self, wanted: impl Fn(i64) -> bool + Sync) -> bool {
        dispatch_dtype!(self.dtype(), T => {
            let Some(data) = self.as_slice::<T>() else {
                return self.iter_scalars().any(|x| wanted(x.to_i64()));
            };
            // Without a way out of the loop it becomes vector code.
            any_chunk(data, |block: &[T]| fx_simd::call_256::<any_as, _>((block, &wanted)))
        })
    }
}

fx_simd::wide! {
    /// Returns whether an element is as wanted.
    fn any_as[T: Cast<i64>, F: Fn(i64) -> bool]((block, wanted): (&[T], &F)) -> bool {
        let mut any = false;
        for &x in block {
            any |= wanted(x.cast());
        }
        any
    }
}
