//! Conversion between dtypes.
//!
//! PyTorch's `to`, with one difference where C++ leaves the result open:
//!
//! | from \ to | bool | integer | float |
//! |---|---|---|---|
//! | bool | same | 0, 1 | 0, 1 |
//! | integer | `!= 0` | wraps (keeps the low bits) | nearest even |
//! | float | `!= 0`, so NaN is `true` | towards zero; NaN is 0; out of range is the nearest bound | nearest even |
//!
//! `f16` and `bf16` convert by way of `f32`, as in PyTorch, so that hardware with and without half
//! instructions agrees. An `f64` is thus rounded twice on its way to them.

use fx_simd::{Filled, Truncate, UninitSlice, Work, widest_256};
use half::{bf16, f16};

use super::layout::span;
use super::{Array, Storage, Stored, build_slots, dispatch_dtype, row_major};
use crate::{DType, Element};

/// The number of half-precision elements that are converted through one buffer.
const CHUNK: usize = 256;

/// Conversion to the element type `D`, of one value or of a slice.
pub trait Cast<D: Element>: Element {
    /// Converts one value.
    fn cast(self) -> D;

    /// Converts as many values as there are slots.
    #[inline(always)]
    fn cast_slots<'a>(from: &[Self], to: UninitSlice<'a, D>) -> Filled<'a> {
        let from = &from[..to.len()];
        to.each(|i| from[i].cast())
    }

    /// Converts values of slices of equal length.
    #[inline(always)]
    fn cast_slice(from: &[Self], to: &mut [D]) {
        Self::cast_slots(from, UninitSlice::over(to));
    }
}

struct Convert<'a, 'b, S, D>(&'b [S], UninitSlice<'a, D>);

impl<'a, S: Cast<D>, D: Element> Work for Convert<'a, '_, S, D> {
    type Output = Filled<'a>;
    #[inline(always)]
    fn run(self) -> Filled<'a> {
        S::cast_slots(self.0, self.1)
    }
}

/// Converts as many values as there are slots, in wide vectors.
#[doc(hidden)]
pub fn convert<'a, S: Cast<D>, D: Element>(from: &[S], to: UninitSlice<'a, D>) -> Filled<'a> {
    widest_256(Convert(from, to))
}

macro_rules! native {
    ($($from:ty => $($to:ty),*;)*) => {
        $($(impl Cast<$to> for $from {
            #[inline]
            fn cast(self) -> $to { self as $to }
        })*)*
    };
}
native! {
    u8 => u8, i8, i32, i64, f32, f64;
    i8 => u8, i8, i32, i64, f32, f64;
    i32 => u8, i8, i32, i64, f32, f64;
    i64 => u8, i8, i32, i64, f32, f64;
    f32 => f32, f64;
    f64 => f32, f64;
    bool => bool, u8, i8, i32, i64;
}

macro_rules! truncated {
    ($($from:ty => $($to:ty),*;)*) => {
        $($(impl Cast<$to> for $from {
            #[inline(always)]
            fn cast(self) -> $to { Truncate::<$to>::truncate(self) }
        })*)*
    };
}
truncated! {
    f32 => u8, i8, i32, i64;
    f64 => u8, i8, i32, i64;
}

macro_rules! to_bool {
    ($($from:ty),*) => {
        $(impl Cast<bool> for $from {
            #[inline]
            fn cast(self) -> bool { self != <$from>::default() }
        })*
    };
}
to_bool!(u8, i8, i32, i64, f32, f64);

macro_rules! from_bool {
    ($($to:ty),*) => {
        $(impl Cast<$to> for bool {
            #[inline]
            fn cast(self) -> $to { u8::from(self).into() }
        })*
    };
}
from_bool!(f32, f64);

macro_rules! from_half {
    ($($half:ty => $($to:ty),*;)*) => {
        $($(impl Cast<$to> for $half {
            #[inline]
            fn cast(self) -> $to { self.to_f32().cast() }

            #[inline(always)]
            fn cast_slots<'a>(from: &[Self], to: UninitSlice<'a, $to>) -> Filled<'a> {
                to.cleared(|to| {
                let mut buffer = [0f32; CHUNK];
                for (from, to) in from.chunks(CHUNK).zip(to.chunks_mut(CHUNK)) {
                    let buffer = &mut buffer[..from.len()];
                    Cast::cast_slice(from, buffer);
                    Cast::cast_slice(buffer, to);
                }
                })
            }
        })*)*
    };
}
from_half! {
    f16 => bool, u8, i8, i32, i64, bf16, f64;
    bf16 => bool, u8, i8, i32, i64, f16, f64;
}

macro_rules! to_half {
    ($($half:ty => $($from:ty),*;)*) => {
        $($(impl Cast<$half> for $from {
            #[inline]
            fn cast(self) -> $half { <$half>::from_f32(self.cast()) }

            #[inline(always)]
            fn cast_slots<'a>(from: &[Self], to: UninitSlice<'a, $half>) -> Filled<'a> {
                to.cleared(|to| {
                let mut buffer = [0f32; CHUNK];
                for (from, to) in from.chunks(CHUNK).zip(to.chunks_mut(CHUNK)) {
                    let buffer = &mut buffer[..from.len()];
                    Cast::<f32>::cast_slice(from, buffer);
                    Cast::cast_slice(buffer, to);
                }
                })
            }
        })*)*
    };
}
to_half! {
    f16 => bool, u8, i8, i32, i64, f64;
    bf16 => bool, u8, i8, i32, i64, f64;
}

// One by one, an f16 asks each time whether there are instructions for it; a slice asks once.
impl Cast<f32> for f16 {
    #[inline]
    fn cast(self) -> f32 {
        self.to_f32()
    }

    #[inline(always)]
    fn cast_slots<'a>(from: &[Self], to: UninitSlice<'a, f32>) -> Filled<'a> {
        fx_simd::f16_to_f32(&from[..to.len()], to)
    }
}

impl Cast<f16> for f32 {
    #[inline]
    fn cast(self) -> f16 {
        f16::from_f32(self)
    }

    #[inline(always)]
    fn cast_slots<'a>(from: &[Self], to: UninitSlice<'a, f16>) -> Filled<'a> {
        fx_simd::f32_to_f16(&from[..to.len()], to)
    }
}

impl Cast<f16> for f16 {
    #[inline]
    fn cast(self) -> f16 {
        self
    }
}

impl Cast<bf16> for bf16 {
    #[inline]
    fn cast(self) -> bf16 {
        self
    }
}

impl Cast<f32> for bf16 {
    #[inline]
    fn cast(self) -> f32 {
        self.to_f32()
    }

    #[inline(always)]
    fn cast_slots<'a>(from: &[Self], to: UninitSlice<'a, f32>) -> Filled<'a> {
        let from = &from[..to.len()];
        to.each(|i| {
            let bits = u32::from(from[i].to_bits());
            // NaN becomes quiet.
            let quiet = if bits & 0x7fff > 0x7f80 { 0x40 } else { 0 };
            f32::from_bits((bits | quiet) << 16)
        })
    }
}

impl Cast<bf16> for f32 {
    #[inline]
    fn cast(self) -> bf16 {
        bf16::from_f32(self)
    }

    #[inline(always)]
    fn cast_slots<'a>(from: &[Self], to: UninitSlice<'a, bf16>) -> Filled<'a> {
        let from = &from[..to.len()];
        to.each(|i| {
            let bits = from[i].to_bits();
            let nearest = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
            let is_nan = bits & 0x7fff_ffff > 0x7f80_0000;
            bf16::from_bits(if is_nan { bits >> 16 | 0x40 } else { nearest } as u16)
        })
    }
}

impl Array {
    /// Converts the elements to another dtype; the same dtype shares the storage.
    ///
    /// Integers wrap; floats are truncated towards zero and saturate, with NaN as 0; anything but zero
    /// is `true`; floats round to nearest even, `f64` to `f16` or `bf16` by way of `f32`. Expanded axes
    /// stay expanded, so that the result takes at most eight times the memory of the operand's storage.
    pub fn cast(&self, dtype: DType) -> Array {
        if dtype == self.dtype() {
            return self.clone();
        }
        let numel = self.numel();
        let span = span(&self.shape, &self.strides).expect("an array spans no more than its storage");
        if span <= numel {
            let storage = cast_range(&self.storage, self.offset, span, dtype);
            let strides = if numel == 0 { row_major(&self.shape) } else { self.strides.clone() };
            return Array { storage, shape: self.shape.clone(), strides, offset: 0 };
        }
        let dense = self.contiguous().expect("a copy smaller than the storage fits in memory");
        Array::row_major(cast_range(&dense.storage, 0, numel, dtype), dense.shape)
    }
}

fn cast_range(storage: &Storage, start: usize, len: usize, dtype: DType) -> Storage {
    dispatch_dtype!(storage.dtype(), S => {
        let from = &S::slice(storage).expect("the storage has the dtype it says")[start..start + len];
        dispatch_dtype!(dtype, D => {
            D::storage(build_slots(len, |at, to| convert(&from[at..], to)).expect("a converted copy fits in memory"))
        })
    })
}
