//! Resizing of an operand along one axis.

use fx_core::math::Real;

use super::kernel::Kernel;
use super::operand::{Bases, Operand, ValueId};
use crate::kernel::interpolate::Resample;

/// Weighted sums along an axis of an operand without gaps.
pub(crate) struct InterpolateKernel<T> {
    pub(crate) resample: Resample<T>,
    pub(crate) x: Operand,
    pub(crate) out: Operand,
}

impl<T: Real> Kernel for InterpolateKernel<T> {
    unsafe fn run(&self, bases: Bases<'_>) {
        // SAFETY: the plan gives this kernel its input, which has no gaps, and its result alone.
        let (x, out) = unsafe {
            let x = bases.at::<T>(self.x.value, self.x.offset).cast_const();
            (
                std::slice::from_raw_parts(x, self.x.numel()),
                std::slice::from_raw_parts_mut(bases.at::<T>(self.out.value, 0), self.out.numel()),
            )
        };
        self.resample.run(x, out);
    }

    fn reads(&self) -> Vec<ValueId> {
        vec![self.x.value]
    }

    fn describe(&self) -> String {
        format!("{:?} resized to {:?}", self.x.shape, self.out.shape)
    }
}
