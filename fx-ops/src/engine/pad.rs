//! Borders around an operand in either order, and axes that are rolled or reversed.

use std::marker::PhantomData;

use super::kernel::Kernel;
use super::operand::{Bases, Operand, ValueId};
use crate::kernel::pad::Padding;

/// Copies elements of an operand without gaps from where its axes in memory say; elements are bits.
pub(crate) struct PadKernel<T> {
    pub(crate) padding: Padding,
    pub(crate) x: Operand,
    /// What stands in borders of one number.
    pub(crate) fill: u64,
    pub(crate) out: ValueId,
    pub(crate) this: PhantomData<T>,
}

/// Bits of an element.
pub(crate) trait Bits: Copy + Send + Sync {
    /// Takes the lowest bits.
    fn of(bits: u64) -> Self;
}

macro_rules! bits {
    ($($ty:ty),*) => {$(
        impl Bits for $ty {
            fn of(bits: u64) -> Self {
                bits as $ty
            }
        }
    )*};
}
bits!(u8, u16, u32, u64);

impl<T: Bits> Kernel for PadKernel<T> {
    unsafe fn run(&self, bases: Bases<'_>) {
        // SAFETY: the plan gives this kernel its input, which has no gaps, and its result alone.
        let (x, out) = unsafe {
            let x = bases.at::<T>(self.x.value, self.x.offset).cast_const();
            (
                std::slice::from_raw_parts(x, self.x.numel()),
                std::slice::from_raw_parts_mut(bases.at::<T>(self.out, 0), self.padding.numel),
            )
        };
        self.padding.run(x, T::of(self.fill), out);
    }

    fn reads(&self) -> Vec<ValueId> {
        vec![self.x.value]
    }

    fn describe(&self) -> String {
        format!("{:?} to {:?}, as they lie, axis by axis", self.x.shape, self.padding.shape)
    }
}
