//! Convolutions of a plan: weights packed once, and what follows done to each part of the result while it is
//! in the cache.

use fx_core::math::Real;

use super::epilogue::Epilogue;
use super::kernel::{Kernel, PRODUCT_FLOPS};
use super::operand::{Bases, Layout, Operand, ValueId};
use super::packed_weights::Packed;
use super::tape::{EpilogueTape, Tape};
use crate::kernel::conv::{ChannelsLast, InputStrides, Prepared};
use crate::kernel::gemm::GemmElement;

/// A convolution with constant weights.
pub(crate) struct ConvKernel<T: 'static> {
    prepared: Prepared<T>,
    x: Operand,
    out: ValueId,
    numel: usize,
    epilogue_tape: EpilogueTape,
}

impl<T: GemmElement> ConvKernel<T> {
    pub(crate) fn new(
        prepared: Prepared<T>,
        x: Operand,
        out: ValueId,
        numel: usize,
        epilogue_tape: EpilogueTape,
    ) -> ConvKernel<T> {
        ConvKernel { prepared, x, out, numel, epilogue_tape }
    }
}

impl<T: GemmElement> Kernel for ConvKernel<T> {
    unsafe fn run(&self, bases: Bases<'_>) {
        // SAFETY: the plan gives this kernel its input, which is contiguous, and its result alone.
        let (x, out) = unsafe {
            (
                std::slice::from_raw_parts(
                    bases.at::<T>(self.x.value, self.x.offset).cast_const(),
                    self.x.numel(),
                ),
                std::slice::from_raw_parts_mut(bases.at::<T>(self.out, 0), self.numel),
            )
        };
        self.prepared.run(x, out, &|rows, columns| {
            // SAFETY: these rows and columns of the result are complete, and nobody else has them.
            unsafe { self.epilogue_tape.run(bases, rows, columns) };
        });
    }

    fn reads(&self) -> Vec<ValueId> {
        self.epilogue_tape.reads([self.x.value])
    }

    fn tape(&mut self) -> Option<&mut Tape> {
        self.epilogue_tape.0.as_mut()
    }

    fn flops(&self) -> f64 {
        PRODUCT_FLOPS
    }

    fn describe(&self) -> String {
        format!("{}{}", self.prepared.describe(), self.epilogue_tape)
    }
}

/// A convolution with constant weights whose result has its channels last.
pub(crate) struct ChannelsLastKernel<T: 'static> {
    conv: ChannelsLast<T>,
    weights: Packed<Vec<T>>,
    x: Operand,
    /// Where the input is copied with its border, unless it is read in place.
    enclosed: Option<ValueId>,
    out: ValueId,
    epilogue: Epilogue,
    epilogue_tape: EpilogueTape,
}

impl<T: GemmElement> ChannelsLastKernel<T> {
    /// Makes the kernel. Without `enclosed`, the convolution has no border and `x` has its channels last,
    /// without gaps.
    pub(crate) fn new(
        mut conv: ChannelsLast<T>,
        weights: Packed<Vec<T>>,
        x: Operand,
        enclosed: Option<ValueId>,
        out: ValueId,
        (epilogue, epilogue_tape): (Epilogue, EpilogueTape),
    ) -> Self {
        conv.set_wide_parts(epilogue_tape.0.is_some());
        debug_assert!(enclosed.is_some() || x.layout() == Some(Layout::ChannelsLast));
        ChannelsLastKernel { conv, weights, x, enclosed, out, epilogue, epilogue_tape }
    }

    /// Returns the strides of batch, channels and three spatial axes; missing ones have none.
    fn strides(&self) -> InputStrides {
        let mut strides = [0; 5];
        let given = self.x.strides.iter().map(|&stride| stride as usize);
        for (i, stride) in given.enumerate() {
            let at = if i < 2 { i } else { 5 - self.x.strides.len() + i };
            strides[at] = stride;
        }
        strides
    }
}

impl<T: GemmElement + Real> Kernel for ChannelsLastKernel<T> {
    unsafe fn run(&self, bases: Bases<'_>) {
        let x = bases.at::<T>(self.x.value, self.x.offset).cast_const();
        // SAFETY: the plan gives this kernel its input, of this extent, and its results alone.
        let (x, out) = unsafe {
            let x = match self.enclosed {
                None => std::slice::from_raw_parts(x, self.conv.enclosed_len()),
                Some(value) => {
                    let len = fx_core::array::span(&self.x.shape, &self.x.strides).unwrap_or(0);
                    let to = bases.at::<T>(value, 0);
                    let enclosed = std::slice::from_raw_parts_mut(to, self.conv.enclosed_len());
                    self.conv.enclose(std::slice::from_raw_parts(x, len), self.strides(), enclosed);
                    enclosed
                }
            };
            (x, std::slice::from_raw_parts_mut(bases.at::<T>(self.out, 0), self.conv.out_len()))
        };
        // SAFETY: the plan gives this kernel its operands.
        let epilogue = unsafe { self.epilogue.of(bases) };
        self.conv.run(x, &self.weights, out, epilogue, &|rows, columns| {
            // SAFETY: these rows and columns of the result are complete, and nobody else has them.
            unsafe { self.epilogue_tape.run(bases, rows, columns) };
        });
    }

    fn reads(&self) -> Vec<ValueId> {
        self.epilogue_tape.reads([self.x.value].into_iter().chain(self.epilogue.reads()))
    }

    fn tape(&mut self) -> Option<&mut Tape> {
        self.epilogue_tape.0.as_mut()
    }

    fn flops(&self) -> f64 {
        PRODUCT_FLOPS
    }

    fn describe(&self) -> String {
        format!("{}{}{}", self.conv.describe(), self.epilogue, self.epilogue_tape)
    }
}
