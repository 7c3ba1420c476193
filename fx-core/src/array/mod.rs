//! [`Array`]: the n-dimensional value behind a tensor.
//!
//! An array is a window on shared storage: shape, strides and offset. It is immutable and cheap to
//! clone, and every view (module `view`) costs O(rank). Invariants, kept by all constructors:
//! no stride is negative; each index lies inside the storage, as does the offset of an empty array; the
//! non-zero sizes multiply to at most `isize::MAX`.
//!
//! Where to go next: `layout` walks strides, `gather` copies them into row-major order, `cast` converts,
//! `compact` keeps some of
//! a sequence, `compare` tests for equality, `interop` speaks ndarray, nested Rust arrays and bytes, `fmt` prints.

mod build;
mod cast;
mod compact;
mod compare;
mod elements;
mod fmt;
mod gather;
mod interop;
mod layout;
mod view;

use std::sync::Arc;

pub use half::{bf16, f16};

pub use self::build::{
    BLOCK, build, build_blocks, build_slot_blocks, build_slots, build_slots_with, build_tasks_with,
};
pub use self::cast::{Cast, convert};
pub use self::compact::{any_chunk, compacted};
pub use self::compare::Mismatch;
pub(crate) use self::elements::Aligned;
pub use self::elements::Elements;
pub(crate) use self::gather::Strided;
pub use self::layout::{
    Runs, Sizes, StridedIndex, Strides, checked_numel, coalesce, is_row_major, reshaped, row_major, span,
};
use crate::dtype::for_each_dtype;
use crate::{DType, Element, Result, Scalar, bail, err};

/// Runs an expression with `$T` as the Rust type of a runtime dtype: `dispatch_dtype!(dtype, T => f::<T>(x))`.
#[doc(hidden)]
#[macro_export]
macro_rules! __dispatch_dtype {
    ($dtype:expr, $T:ident => $body:expr) => {
        $crate::__dispatch_dtype! { @arms $dtype, $T, $body,
            Bool bool, U8 u8, I8 i8, I32 i32, I64 i64,
            F16 $crate::array::f16, BF16 $crate::array::bf16, F32 f32, F64 f64
        }
    };
    (@arms $dtype:expr, $T:ident, $body:expr, $($variant:ident $ty:ty),*) => {
        match $dtype {
            $($crate::DType::$variant => {
                #[allow(dead_code, reason = "a body may leave the type to inference")]
                type $T = $ty;
                $body
            })*
        }
    };
}
pub use crate::__dispatch_dtype as dispatch_dtype;

macro_rules! bits {
    (Float, $x:expr) => {
        $x.to_bits().into()
    };
    ($category:ident, $x:expr) => {
        $x as u64
    };
}

macro_rules! define {
    ($(($variant:ident, $ty:ty, $name:literal, $category:ident, $st:literal)),* $(,)?) => {
        /// The shared elements of one or more arrays: one variant a dtype.
        #[derive(Clone)]
        pub enum Storage {
            $(#[doc = concat!("Elements of type `", $name, "`.")] $variant(Arc<Elements<$ty>>),)*
        }

        impl Storage {
            /// Returns the dtype of the elements.
            pub fn dtype(&self) -> DType {
                match self { $(Storage::$variant(_) => DType::$variant,)* }
            }

            /// Returns the number of elements.
            pub fn len(&self) -> usize {
                match self { $(Storage::$variant(data) => data.len(),)* }
            }

            /// Returns the element at a position, or `None` past the end.
            pub fn get(&self, at: usize) -> Option<Scalar> {
                match self { $(Storage::$variant(data) => data.get(at).map(|&x| x.into()),)* }
            }

            /// Returns whether both are the same allocation.
            pub fn ptr_eq(&self, other: &Storage) -> bool {
                match (self, other) {
                    $((Storage::$variant(a), Storage::$variant(b)) => Arc::ptr_eq(a, b),)*
                    _ => false,
                }
            }
        }

        $(impl Stored for $ty {
            fn elements(elements: Elements<Self>) -> Storage {
                Storage::$variant(Arc::new(elements))
            }

            fn slice(storage: &Storage) -> Option<&[Self]> {
                match storage { Storage::$variant(data) => Some(data), _ => None }
            }

            fn slice_mut(storage: &mut Storage) -> Option<&mut [Self]> {
                match storage { Storage::$variant(data) => Arc::get_mut(data).map(Elements::as_mut_slice), _ => None }
            }

            fn into_vec(storage: Storage) -> Result<Vec<Self>, Storage> {
                match storage {
                    Storage::$variant(data) => match Arc::try_unwrap(data) {
                        Ok(data) => Ok(data.into_vec()),
                        Err(data) => Err(Storage::$variant(data)),
                    },
                    storage => Err(storage),
                }
            }

            fn from_scalar(x: Scalar) -> Self {
                match x {
                    Scalar::Bool(x) => x.cast(),
                    Scalar::Int(x) => x.cast(),
                    Scalar::Float(x) => x.cast(),
                }
            }

            fn to_scalar(self) -> Scalar {
                self.into()
            }

            #[inline]
            fn bits(self) -> u64 {
                bits!($category, self)
            }
        })*
    };
}
for_each_dtype!(define);

impl Storage {
    /// Returns whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// What an [`Element`] knows about the [`Storage`] of its dtype.
pub trait Stored: Copy + Sized {
    /// Shares elements.
    fn elements(elements: Elements<Self>) -> Storage;
    /// Moves elements into storage.
    fn storage(data: Vec<Self>) -> Storage {
        Self::elements(Elements::from(data))
    }
    /// Returns the elements if the storage is of this type.
    fn slice(storage: &Storage) -> Option<&[Self]>;
    /// Returns the elements for writing if the storage is of this type and nobody else holds it.
    fn slice_mut(storage: &mut Storage) -> Option<&mut [Self]>;
    /// Takes the elements out if the storage is of this type and nobody else holds it.
    fn into_vec(storage: Storage) -> Result<Vec<Self>, Storage>;
    /// Converts a number as [`Array::cast`] does.
    fn from_scalar(x: Scalar) -> Self;
    /// Returns the value as a number that remembers only its category.
    fn to_scalar(self) -> Scalar;
    /// Returns the bits, extended with zeros or the sign.
    fn bits(self) -> u64;
}

/// Allocates for `numel` elements. Fails if there is not enough memory.
pub fn try_vec<T: Element>(numel: usize) -> Result<Vec<T>> {
    fx_simd::reserve(numel).map_err(|_| build::too_large::<T>(numel))
}

/// An immutable n-dimensional array with a runtime dtype.
pub struct Array {
    storage: Storage,
    shape: Sizes,
    strides: Strides,
    offset: usize,
}

impl Clone for Array {
    fn clone(&self) -> Array {
        Array {
            storage: self.storage.clone(),
            // The clone of a list copies number by number.
            shape: Sizes::from_slice(&self.shape),
            strides: Strides::from_slice(&self.strides),
            offset: self.offset,
        }
    }
}

impl Array {
    /// Makes an array from its elements in row-major order. Fails if the number of elements is not that of
    /// the shape.
    pub fn from_vec<T: Element>(data: Vec<T>, shape: &[usize]) -> Result<Array> {
        let numel = checked_numel(shape)?;
        if data.len() != numel {
            bail!(Shape, "expected {numel} elements for shape {shape:?}, got {}", data.len());
        }
        Ok(Array::row_major(T::storage(data), Sizes::from_slice(shape)))
    }

    /// Makes an array of rank 0.
    pub fn scalar<T: Element>(x: T) -> Array {
        Array::row_major(T::storage(vec![x]), Sizes::new())
    }

    /// Makes an array of zeros (`false` for `bool`). Fails if there is not enough memory.
    pub fn zeros(dtype: DType, shape: &[usize]) -> Result<Array> {
        Array::full(dtype, shape, Scalar::Bool(false))
    }

    /// Makes an array of copies of one number, which is converted as [`Array::cast`] does. Fails if there is
    /// not enough memory.
    pub fn full(dtype: DType, shape: &[usize], x: Scalar) -> Result<Array> {
        let numel = checked_numel(shape)?;
        dispatch_dtype!(dtype, T => {
            let x = T::from_scalar(x);
            let mut elements = Aligned::<T>::new(numel)?;
            build::extend_slots(elements.vec(), numel, |_, out| out.fill(x));
            Ok(elements.into_array(shape))
        })
    }

    fn row_major(storage: Storage, shape: Sizes) -> Array {
        Array { storage, strides: row_major(&shape), shape, offset: 0 }
    }

    /// Returns the type of the elements.
    pub fn dtype(&self) -> DType {
        self.storage.dtype()
    }

    /// Returns the sizes of the axes.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Returns the distance in elements between neighbours along each axis; none is negative.
    pub fn strides(&self) -> &[isize] {
        &self.strides
    }

    /// Returns the position of the first element in the storage.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Returns the shared storage.
    pub fn storage(&self) -> &Storage {
        &self.storage
    }

    /// Returns the number of axes.
    pub fn rank(&self) -> usize {
        self.shape.len()
    }

    /// Returns the number of elements.
    pub fn numel(&self) -> usize {
        self.shape.iter().product()
    }

    /// Returns whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.shape.contains(&0)
    }

    /// Returns the size of the elements in bytes, as a row-major copy would take.
    pub fn nbytes(&self) -> usize {
        self.numel().saturating_mul(self.dtype().size())
    }

    /// Returns whether the elements lie in row-major order without gaps.
    pub fn is_contiguous(&self) -> bool {
        is_row_major(&self.shape, &self.strides)
    }

    /// Returns whether both are windows on the same storage.
    pub fn shares_storage(&self, other: &Array) -> bool {
        self.storage.ptr_eq(&other.storage)
    }

    /// Returns the elements if they are of this type and contiguous.
    pub fn as_slice<T: Element>(&self) -> Option<&[T]> {
        let data = T::slice(&self.storage)?;
        self.is_contiguous().then(|| &data[self.offset..self.offset + self.numel()])
    }

    /// Returns the storage from the first element on, to be indexed with [`Array::strides`]. Fails if the
    /// dtype is not that of `T`.
    pub fn data<T: Element>(&self) -> Result<&[T]> {
        match T::slice(&self.storage) {
            Some(data) => Ok(&data[self.offset..]),
            None => Err(err!(DType, "expected {}, got {}", T::DTYPE, self.dtype())
                .help(format!("use .to({}) to convert", T::DTYPE))),
        }
    }

    /// Returns the elements for writing if they are of this type, contiguous and not shared.
    pub fn get_mut<T: Element>(&mut self) -> Option<&mut [T]> {
        if !self.is_contiguous() {
            return None;
        }
        let range = self.offset..self.offset + self.numel();
        T::slice_mut(&mut self.storage).map(|data| &mut data[range])
    }

    /// Returns the elements in row-major order. Fails if the dtype is not that of `T`, or there is not enough
    /// memory.
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        gather::gather(self.data::<T>()?, &self.shape, &self.strides, 0)
    }

    /// Returns the elements in row-major order, without a copy if they are not shared. Fails as
    /// [`to_vec`](Array::to_vec) does.
    pub fn into_vec<T: Element>(self) -> Result<Vec<T>> {
        if self.offset != 0 || !self.is_contiguous() || self.numel() != self.storage.len() {
            return self.to_vec();
        }
        match T::into_vec(self.storage) {
            Ok(data) => Ok(data),
            Err(storage) => Array { storage, ..self }.to_vec(),
        }
    }

    /// Returns the same elements in row-major order without gaps; no copy if they are already.
    ///
    /// Fails only if memory cannot hold them, as for a huge expanded array.
    pub fn contiguous(&self) -> Result<Array> {
        if self.is_contiguous() {
            return Ok(self.clone());
        }
        let storage = dispatch_dtype!(self.dtype(), T => T::storage(self.to_vec::<T>()?));
        Ok(Array::row_major(storage, self.shape.clone()))
    }

    /// Returns the only element. Fails if there is none or more than one.
    pub fn item(&self) -> Result<Scalar> {
        if self.numel() != 1 {
            bail!(Shape, "expected one element, got {}", self.describe());
        }
        Ok(self.storage.get(self.offset).expect("the offset of a non-empty array is in its storage"))
    }

    /// Returns the element at an index, or `None` if there is none.
    pub fn get(&self, index: &[usize]) -> Option<Scalar> {
        if index.len() != self.rank() || index.iter().zip(&self.shape).any(|(i, size)| i >= size) {
            return None;
        }
        let at =
            index.iter().zip(&self.strides).fold(self.offset, |at, (&i, &stride)| at + i * stride as usize);
        self.storage.get(at)
    }

    /// Returns the elements in row-major order.
    pub fn iter_scalars(&self) -> impl ExactSizeIterator<Item = Scalar> + '_ {
        self.positions()
            .map(|[at]| self.storage.get(at).expect("every index of an array lies in its storage"))
    }

    /// Returns the storage positions of the elements in row-major order.
    pub fn positions(&self) -> StridedIndex<1> {
        StridedIndex::new(&self.shape, [(&self.strides, self.offset)])
    }

    /// Returns the inner runs in row-major order as (start in the storage, length, stride).
    ///
    /// Length and stride are the same for every run; neighbouring axes are merged where strides allow.
    pub fn runs(&self) -> impl ExactSizeIterator<Item = (usize, usize, isize)> + use<> {
        let runs = Runs::new(&self.shape, [(&self.strides, self.offset)]);
        let (len, [stride]) = (runs.run_len(), runs.run_strides());
        runs.map(move |[start]| (start, len, stride))
    }

    /// Returns dtype and shape as in `f32[2, 3]`.
    pub fn describe(&self) -> String {
        format!("{}{:?}", self.dtype(), &self.shape[..])
    }
}
