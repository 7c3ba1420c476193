//! Arrays at the borders: ndarray, nested Rust arrays and vectors, and little-endian bytes.

use std::io::Read;

use ndarray::{ArrayD, ArrayView, ArrayViewD, Dimension, IxDyn, ShapeBuilder};

use super::{Aligned, Array, Sizes, Strides, checked_numel, dispatch_dtype, try_vec};
use crate::{DType, Element, Error, Result, bail, err};

impl Array {
    /// Returns the array as an ndarray view; no copy. Fails if the dtype is not that of `T`, or ndarray
    /// cannot represent the strides.
    pub fn view<T: Element>(&self) -> Result<ArrayViewD<'_, T>> {
        let data = self.data::<T>()?;
        let view = if self.is_empty() {
            ArrayView::from_shape(IxDyn(&self.shape), &[])
        } else {
            let strides: Vec<usize> = self.strides.iter().map(|&stride| stride as usize).collect();
            ArrayView::from_shape(IxDyn(&self.shape).strides(IxDyn(&strides)), data)
        };
        view.map_err(|error| err!(Limit, "ndarray cannot view {}: {error}", self.describe()))
    }

    /// Returns the array as an owned ndarray in standard layout. Fails if the dtype is not that of `T`, or
    /// the array is too large for ndarray.
    pub fn to_ndarray<T: Element>(&self) -> Result<ArrayD<T>> {
        ArrayD::from_shape_vec(IxDyn(&self.shape), self.to_vec()?)
            .map_err(|error| err!(Limit, "ndarray cannot hold {}: {error}", self.describe()))
    }

    /// Takes over an ndarray; no copy unless a stride is negative.
    pub fn from_ndarray<T: Element, D: Dimension>(array: ndarray::Array<T, D>) -> Array {
        let shape = Sizes::from_slice(array.shape());
        let in_order =
            array.shape().iter().zip(array.strides()).all(|(&size, &stride)| size < 2 || stride >= 0);
        if array.is_empty() || !in_order {
            return Array::row_major(T::storage(array.iter().copied().collect()), shape);
        }
        let strides: Strides = array.strides().iter().map(|&stride| stride.max(0)).collect();
        let (data, offset) = array.into_raw_vec_and_offset();
        Array { storage: T::storage(data), shape, strides, offset: offset.unwrap_or(0) }
    }

    /// Reads an array from the little-endian bytes of its elements in row-major order. Fails if the number of
    /// bytes does not fit dtype and shape.
    pub fn from_le_bytes(dtype: DType, shape: &[usize], bytes: &[u8]) -> Result<Array> {
        let numel = checked_numel(shape)?;
        if numel.checked_mul(dtype.size()) != Some(bytes.len()) {
            bail!(
                Load,
                "expected {} bytes for {dtype}{shape:?}, got {}",
                numel as u128 * dtype.size() as u128,
                bytes.len()
            );
        }
        dispatch_dtype!(dtype, T => {
            let mut elements = Aligned::<T>::new(numel)?;
            <T as Bits>::read(bytes, elements.vec())?;
            Ok(elements.into_array(shape))
        })
    }

    /// Reads an array from little-endian bytes that come from a reader, without a copy of all of them. Fails
    /// if the reader fails or ends too early.
    pub fn from_le_reader(dtype: DType, shape: &[usize], reader: &mut dyn Read) -> Result<Array> {
        const BLOCK: usize = 1 << 16;
        let numel = checked_numel(shape)?;
        dispatch_dtype!(dtype, T => {
            let mut elements = Aligned::<T>::new(numel)?;
            let mut bytes = vec![0u8; BLOCK.min(numel.saturating_mul(dtype.size()))];
            while elements.len() < numel {
                let n = (numel - elements.len()).min(BLOCK / dtype.size()) * dtype.size();
                let block = &mut bytes[..n];
                reader.read_exact(block).map_err(|error| err!(Io, "{error}"))?;
                <T as Bits>::read(block, elements.vec())?;
            }
            Ok(elements.into_array(shape))
        })
    }

    /// Returns the little-endian bytes of the elements in row-major order.
    ///
    /// Fails only if memory cannot hold them, as for a huge expanded array.
    pub fn to_le_bytes(&self) -> Result<Vec<u8>> {
        let array = self.contiguous()?;
        let mut bytes = try_vec::<u8>(array.nbytes())?;
        dispatch_dtype!(self.dtype(), T => {
            let data = array.as_slice::<T>().expect("the copy is contiguous and of the dispatched dtype");
            <T as Bits>::write(data, &mut bytes);
        });
        Ok(bytes)
    }
}

/// The bytes of an element.
trait Bits: Sized {
    fn read(bytes: &[u8], to: &mut Vec<Self>) -> Result<()>;
    fn write(from: &[Self], to: &mut Vec<u8>);
}

macro_rules! bits {
    ($($ty:ty),*) => {
        $(impl Bits for $ty {
            fn read(bytes: &[u8], to: &mut Vec<Self>) -> Result<()> {
                let (chunks, _) = bytes.as_chunks();
                to.extend(chunks.iter().map(|&chunk| <$ty>::from_le_bytes(chunk)));
                Ok(())
            }

            fn write(from: &[Self], to: &mut Vec<u8>) {
                to.resize(size_of_val(from), 0);
                let (chunks, _) = to.as_chunks_mut();
                for (chunk, x) in chunks.iter_mut().zip(from) {
                    *chunk = x.to_le_bytes();
                }
            }
        })*
    };
}
bits!(u8, i8, i32, i64, half::f16, half::bf16, f32, f64);

impl Bits for bool {
    fn read(bytes: &[u8], to: &mut Vec<Self>) -> Result<()> {
        if let Some(at) = bytes.iter().position(|&byte| byte > 1) {
            bail!(Load, "expected 0 or 1 for a bool, got {} at byte {}", bytes[at], to.len() + at);
        }
        to.extend(bytes.iter().map(|&byte| byte == 1));
        Ok(())
    }

    fn write(from: &[Self], to: &mut Vec<u8>) {
        to.extend(from.iter().map(|&x| u8::from(x)));
    }
}

impl<T: Element, D: Dimension> From<ndarray::Array<T, D>> for Array {
    fn from(array: ndarray::Array<T, D>) -> Self {
        Array::from_ndarray(array)
    }
}

impl<T: Element, D: Dimension> From<ArrayView<'_, T, D>> for Array {
    fn from(view: ArrayView<'_, T, D>) -> Self {
        let shape = Sizes::from_slice(view.shape());
        Array::row_major(T::storage(view.iter().copied().collect()), shape)
    }
}

impl<T: Element> From<T> for Array {
    fn from(x: T) -> Self {
        Array::scalar(x)
    }
}

impl<T: Element> From<Vec<T>> for Array {
    fn from(data: Vec<T>) -> Self {
        let shape = Sizes::from_slice(&[data.len()]);
        Array::row_major(T::storage(data), shape)
    }
}

impl<T: Element> From<&[T]> for Array {
    fn from(data: &[T]) -> Self {
        Array::from(data.to_vec())
    }
}

impl<T: Element, const A: usize> From<[T; A]> for Array {
    fn from(data: [T; A]) -> Self {
        Array::from(data.to_vec())
    }
}

impl<T: Element, const A: usize, const B: usize> From<[[T; B]; A]> for Array {
    fn from(data: [[T; B]; A]) -> Self {
        Array::row_major(T::storage(data.as_flattened().to_vec()), Sizes::from_slice(&[A, B]))
    }
}

impl<T: Element, const A: usize, const B: usize, const C: usize> From<[[[T; C]; B]; A]> for Array {
    fn from(data: [[[T; C]; B]; A]) -> Self {
        let flat = data.as_flattened().as_flattened().to_vec();
        Array::row_major(T::storage(flat), Sizes::from_slice(&[A, B, C]))
    }
}

impl<T: Element, const A: usize, const B: usize, const C: usize, const D: usize> From<[[[[T; D]; C]; B]; A]>
    for Array
{
    fn from(data: [[[[T; D]; C]; B]; A]) -> Self {
        let flat = data.as_flattened().as_flattened().as_flattened().to_vec();
        Array::row_major(T::storage(flat), Sizes::from_slice(&[A, B, C, D]))
    }
}

impl<T: Element> TryFrom<Vec<Vec<T>>> for Array {
    type Error = Error;

    fn try_from(rows: Vec<Vec<T>>) -> Result<Self> {
        let columns = rows.first().map_or(0, Vec::len);
        if let Some((at, row)) = rows.iter().enumerate().find(|(_, row)| row.len() != columns) {
            return Err(err!(Shape, "expected {columns} elements in row {at}, got {}", row.len())
                .help("all rows must be as long as the first"));
        }
        let shape = [rows.len(), columns];
        Array::from_vec(rows.concat(), &shape)
    }
}
