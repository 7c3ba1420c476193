//! Elements of one of several types, for kernels whose operands have different dtypes.

use std::ops::Range;

use crate::{Array, DType, Element, Result, err};

/// An element type that a signature may name.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no dtype of a signature",
    label = "not a dtype of a signature",
    note = "signatures have the dtypes `T` (the floats of the call), `bool`, `u8`, `i8`, `i32`, `i64`, `f32` and `f64`"
)]
pub trait BlockElement: Element {
    /// Returns elements if they are of this type, or none at all.
    fn read<'a>(data: Data<'a>) -> &'a [Self];
    /// As [`read`](Self::read), for writing.
    fn write<'a>(data: &'a mut DataMut<'_>) -> &'a mut [Self];
    /// Returns elements as those of one of several types.
    fn data(elements: &[Self]) -> Data<'_>;
    /// As [`data`](Self::data), for writing.
    fn data_mut(elements: &mut [Self]) -> DataMut<'_>;
}

macro_rules! data {
    ($($variant:ident $ty:ty),*) => {
        /// Elements that are read.
        #[derive(Clone, Copy, Debug)]
        pub enum Data<'a> {
            $(#[doc = concat!("Those of `", stringify!($ty), "`.")] $variant(&'a [$ty]),)*
        }

        /// Elements that are written.
        #[derive(Debug)]
        pub enum DataMut<'a> {
            $(#[doc = concat!("Those of `", stringify!($ty), "`.")] $variant(&'a mut [$ty]),)*
        }

        impl<'a> Data<'a> {
            /// Returns the elements of an array, from its first on. Fails if no signature can name the dtype.
            pub fn of(array: &'a Array) -> Result<Data<'a>> {
                match array.dtype() {
                    $(DType::$variant => array.data::<$ty>().map(Data::$variant),)*
                    other => Err(err!(DType, "{other} cannot be the dtype of an operand of a gufunc")),
                }
            }

            /// Returns the elements from a position on, or none past the end.
            pub(super) fn from(self, at: usize) -> Data<'a> {
                match self { $(Data::$variant(data) => Data::$variant(data.get(at..).unwrap_or_default()),)* }
            }
        }

        impl<'a> DataMut<'a> {
            /// Returns the elements of an array that nobody else has; `None` if it is shared, or if no signature
            /// can name its dtype.
            pub fn of(array: &'a mut Array) -> Option<DataMut<'a>> {
                match array.dtype() {
                    $(DType::$variant => array.get_mut::<$ty>().map(DataMut::$variant),)*
                    _ => None,
                }
            }

            /// Returns some of the elements.
            pub(super) fn range(&mut self, range: Range<usize>) -> DataMut<'_> {
                match self { $(DataMut::$variant(data) => DataMut::$variant(&mut data[range]),)* }
            }

            /// Cuts the elements in two.
            pub(super) fn split(self, at: usize) -> (DataMut<'a>, DataMut<'a>) {
                match self {
                    $(DataMut::$variant(data) => {
                        let (front, back) = data.split_at_mut(at);
                        (DataMut::$variant(front), DataMut::$variant(back))
                    })*
                }
            }
        }

        $(impl BlockElement for $ty {
            #[inline]
            fn read<'a>(data: Data<'a>) -> &'a [Self] {
                match data { Data::$variant(data) => data, _ => &[] }
            }

            #[inline]
            fn write<'a>(data: &'a mut DataMut<'_>) -> &'a mut [Self] {
                match data { DataMut::$variant(data) => data, _ => &mut [] }
            }

            fn data(elements: &[Self]) -> Data<'_> {
                Data::$variant(elements)
            }

            fn data_mut(elements: &mut [Self]) -> DataMut<'_> {
                DataMut::$variant(elements)
            }
        })*
    };
}
data!(Bool bool, U8 u8, I8 i8, I32 i32, I64 i64, F32 f32, F64 f64);
