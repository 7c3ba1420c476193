//! Convolutions of a plan: weights packed once, and what follows done to each part of the result while it is
//! in the cache.

use fx_core::math::Real;
use fx_core::op::kind::IntVec;
use fx_core::{Arg, Op, Result, TensorType};

use super::finish::Ending;
use super::kernel::{Kernel, PRODUCT_FLOPS};
use super::operand::{Bases, Layout, Operand, ValueId};
use super::packs::Packed;
use super::tape::{Epilogue, Tape};
use crate::kernel::conv::{ChannelsLast, ConvSpec, InputStrides, Prepared};
use crate::kernel::gemm::GemmElement;
use crate::ops::conv::{conv1d, conv2d, conv3d, convolution, each};

/// Returns an argument that is an integer or a list of them.
pub(crate) fn ints(arg: &Arg) -> Option<IntVec> {
    let int = |arg: &Arg| match arg {
        Arg::Int(n) => Some(*n),
        _ => None,
    };
    match arg {
        Arg::Int(n) => Some(IntVec::from_slice(&[*n])),
        arg => arg.items()?.iter().map(int).collect(),
    }
}

/// What a call of a convolution says besides its operands.
pub(crate) fn spec_of(op: Op, bound: &[Arg]) -> Option<ConvSpec> {
    let rank = match () {
        () if op == conv1d::OP => 1,
        () if op == conv2d::OP => 2,
        () if op == conv3d::OP => 3,
        () if op == convolution::OP => 0,
        () => return None,
    };
    let (stride, padding, dilation, groups) = match bound {
        [_, _, _, stride, padding, dilation, groups] if rank > 0 => (stride, padding, dilation, groups),
        [_, _, _, stride, padding, dilation, Arg::Bool(false), _, groups] if rank == 0 => {
            (stride, padding, dilation, groups)
        }
        _ => return None,
    };
    let Arg::Int(groups) = groups else { return None };
    let padding = match padding {
        Arg::Str(text) if **text == *"valid" => IntVec::from_slice(&[0]),
        padding => ints(padding)?,
    };
    fn all<const N: usize>(
        stride: &[i64],
        padding: &[i64],
        dilation: &[i64],
        groups: usize,
    ) -> Result<ConvSpec> {
        let unsigned = |numbers: [i64; N]| numbers.map(|n| n as usize).to_vec();
        Ok(ConvSpec {
            stride: unsigned(each::<N>("stride", stride, 1)?),
            padding: unsigned(each::<N>("padding", padding, 0)?),
            dilation: unsigned(each::<N>("dilation", dilation, 1)?),
            groups,
            ..ConvSpec::new(N)
        })
    }
    let (stride, dilation, groups) = (ints(stride)?, ints(dilation)?, usize::try_from(*groups).ok()?);
    let rank = if rank == 0 { stride.len() } else { rank };
    match rank {
        1 => all::<1>(&stride, &padding, &dilation, groups),
        2 => all::<2>(&stride, &padding, &dilation, groups),
        3 => all::<3>(&stride, &padding, &dilation, groups),
        _ => return None,
    }
    .ok()
}

/// Returns whether a call is a convolution of a batch.
pub(crate) fn is_convolution(op: Op, bound: &[Arg], ty: impl Fn(&Arg) -> Option<TensorType>) -> bool {
    spec_of(op, bound)
        .is_some_and(|spec| bound.first().and_then(&ty).is_some_and(|x| x.rank() == spec.stride.len() + 2))
}

/// A convolution with constant weights.
pub(crate) struct ConvKernel<T: 'static> {
    prepared: Prepared<T>,
    x: Operand,
    out: ValueId,
    numel: usize,
    epilogue: Epilogue,
}

impl<T: GemmElement> ConvKernel<T> {
    pub(crate) fn new(
        prepared: Prepared<T>,
        x: Operand,
        out: ValueId,
        numel: usize,
        epilogue: Epilogue,
    ) -> ConvKernel<T> {
        ConvKernel { prepared, x, out, numel, epilogue }
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
            unsafe { self.epilogue.run(bases, rows, columns) };
        });
    }

    fn reads(&self) -> Vec<ValueId> {
        self.epilogue.reads([self.x.value])
    }

    fn tape(&mut self) -> Option<&mut Tape> {
        self.epilogue.0.as_mut()
    }

    fn flops(&self) -> f64 {
        PRODUCT_FLOPS
    }

    fn describe(&self) -> String {
        format!("{}{}", self.prepared.describe(), self.epilogue)
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
    ending: Ending,
    epilogue: Epilogue,
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
        (ending, epilogue): (Ending, Epilogue),
    ) -> Self {
        conv.set_wide_parts(epilogue.0.is_some());
        debug_assert!(enclosed.is_some() || x.layout() == Some(Layout::ChannelsLast));
        ChannelsLastKernel { conv, weights, x, enclosed, out, ending, epilogue }
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
        let finish = unsafe { self.ending.of(bases) };
        self.conv.run(x, &self.weights, out, finish, &|rows, columns| {
            // SAFETY: these rows and columns of the result are complete, and nobody else has them.
            unsafe { self.epilogue.run(bases, rows, columns) };
        });
    }

    fn reads(&self) -> Vec<ValueId> {
        self.epilogue.reads([self.x.value].into_iter().chain(self.ending.reads()))
    }

    fn tape(&mut self) -> Option<&mut Tape> {
        self.epilogue.0.as_mut()
    }

    fn flops(&self) -> f64 {
        PRODUCT_FLOPS
    }

    fn describe(&self) -> String {
        format!("{}{}{}", self.conv.describe(), self.ending, self.epilogue)
    }
}
