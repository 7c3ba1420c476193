//! Equality of arrays: bit by bit, and within a tolerance.

use std::fmt;

use super::{Array, Sizes, Stored, StridedIndex, dispatch_dtype};
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
            pairs(self, other).all(|[i, j]| bytes_eq(a[i], b[j]))
        })
    }

    /// Returns whether each element differs from that of `expected` by at most `atol + rtol * |expected|`.
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
            let mut walk = pairs(self, expected);
            let mut first: Option<(Sizes, Scalar, Scalar)> = None;
            let mut greatest = 0f64;
            loop {
                let index = if first.is_none() { Sizes::from_slice(walk.index()) } else { Sizes::new() };
                let Some([i, j]) = walk.next() else { break };
                if bytes_eq(a[i], b[j]) {
                    continue;
                }
                let (x, y) = (a[i].to_scalar(), b[j].to_scalar());
                let error = abs_error(x, y);
                greatest = greatest.max(error);
                let close = error == 0.0 || (T::DTYPE.is_float() && error <= atol + rtol * y.to_f64().abs()
                    && error.is_finite());
                if !close && first.is_none() {
                    first = Some((index, x, y));
                }
            }
            match first {
                None => Ok(()),
                Some((index, got, expected)) => {
                    Err(Mismatch::Value { index, got, expected, max_abs_error: greatest })
                }
            }
        })
    }
}

fn all<T: Element>(array: &Array) -> &[T] {
    T::slice(&array.storage).expect("the dtype was dispatched on")
}

fn pairs(a: &Array, b: &Array) -> StridedIndex<2> {
    StridedIndex::new(&a.shape, [(&a.strides, a.offset), (&b.strides, b.offset)])
}

/// Returns whether the bits are the same.
#[inline]
fn bytes_eq<T: Element>(a: T, b: T) -> bool {
    a.bits() == b.bits()
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
