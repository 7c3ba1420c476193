//! Softmax along any axis of an operand in either order.

use std::marker::PhantomData;

use fx_core::math::Real;

use super::kernel::Kernel;
use super::operand::{Bases, Operand, ValueId};
use crate::kernel::softmax::Softmax;

/// A softmax whose input and result lie in the same order, without gaps.
pub(crate) struct SoftmaxKernel<T> {
    pub(crate) softmax: Softmax,
    pub(crate) x: Operand,
    pub(crate) out: ValueId,
    pub(crate) this: PhantomData<T>,
}

impl<T: Real> Kernel for SoftmaxKernel<T> {
    unsafe fn run(&self, bases: Bases<'_>) {
        // SAFETY: the plan gives this kernel its input, which has no gaps, and its result alone, which is as
        // large.
        let (x, out) = unsafe {
            let n = self.x.numel();
            (
                std::slice::from_raw_parts(bases.at::<T>(self.x.value, self.x.offset).cast_const(), n),
                std::slice::from_raw_parts_mut(bases.at::<T>(self.out, 0), n),
            )
        };
        self.softmax.run(x, out);
    }

    fn reads(&self) -> Vec<ValueId> {
        vec![self.x.value]
    }

    fn describe(&self) -> String {
        let Softmax { n, inner, log } = self.softmax;
        let name = if log { "log_softmax" } else { "softmax" };
        format!("{name} of lines of {n}, {inner} beside each other, of {:?}", self.x.shape)
    }
}
