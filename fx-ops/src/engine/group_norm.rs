//! Normalisation of groups of channels, and of channels over a batch, of operands in either order.

use std::marker::PhantomData;

use fx_core::math::Real;

use super::kernel::Kernel;
use super::operand::{Bases, Layout, Operand, ValueId};
use crate::kernel::gemm::GemmElement;
use crate::kernel::group_norm::GroupNorm;

/// A normalisation whose input and result lie in the same order, without gaps.
pub(crate) struct GroupNormKernel<T> {
    norm: GroupNorm,
    /// Whether mean and variance are those of channels over all images.
    is_across: bool,
    x: Operand,
    affine: [Option<Operand>; 2],
    layout: Layout,
    out: ValueId,
    this: PhantomData<T>,
}

impl<T: GemmElement + Real> GroupNormKernel<T> {
    pub(crate) fn boxed(
        (norm, is_across): (GroupNorm, bool),
        x: Operand,
        affine: [Option<Operand>; 2],
        layout: Layout,
        out: ValueId,
    ) -> Box<dyn Kernel> {
        Box::new(GroupNormKernel::<T> { norm, is_across, x, affine, layout, out, this: PhantomData })
    }
}

impl<T: GemmElement + Real> Kernel for GroupNormKernel<T> {
    unsafe fn run(&self, bases: Bases<'_>) {
        let slice = |operand: &Operand| {
            let start = bases.at::<T>(operand.value, operand.offset).cast_const();
            // SAFETY: the plan gives this kernel its operands, which have no gaps.
            unsafe { std::slice::from_raw_parts(start, operand.numel()) }
        };
        let x = slice(&self.x);
        // SAFETY: the plan gives this kernel its result alone, which is as large as the input.
        let out = unsafe { std::slice::from_raw_parts_mut(bases.at::<T>(self.out, 0), x.len()) };
        let affine = self.affine.each_ref().map(|operand| operand.as_ref().map(slice));
        match (self.layout, self.is_across) {
            // The positions of all images are like those of one.
            (Layout::ChannelsLast, true) => {
                let plane = x.len() / self.norm.channels.max(1);
                GroupNorm { plane, ..self.norm }.run_last(x, out, affine);
            }
            (Layout::ChannelsLast, false) => self.norm.run_last(x, out, affine),
            (Layout::RowMajor, true) => self.norm.run_across(x, out, affine),
            (Layout::RowMajor, false) => self.norm.run(x, out, affine),
        }
    }

    fn reads(&self) -> Vec<ValueId> {
        std::iter::once(&self.x).chain(self.affine.iter().flatten()).map(|operand| operand.value).collect()
    }

    fn describe(&self) -> String {
        let order = if self.layout == Layout::ChannelsLast { ", channels last" } else { "" };
        match self.is_across {
            true => format!("channels of a batch {:?} normalised{order}", self.x.shape),
            false => format!("{} groups of channels {:?} normalised{order}", self.norm.groups, self.x.shape),
        }
    }
}
