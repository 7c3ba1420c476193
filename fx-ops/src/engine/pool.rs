//! Pooling of a plan.

use std::marker::PhantomData;

use fx_core::math::Real;
use fx_core::op::kind::IntVec;
use fx_core::{Arg, Op, Result};

use super::kernel::Kernel;
use super::operand::{Bases, Layout, Operand, ValueId};
use crate::fusible::{axes_of, ints};
use crate::kernel::pool::{Divisor, PoolSpec, Pooling};
use crate::ops::pool::{
    adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d, avg_pool1d, avg_pool2d, avg_pool3d,
    max_pool1d, max_pool2d, max_pool3d, pool_spec,
};

/// Returns the pooling that a call is, of an operand `[n, c, spatial...]` of the first shape to one of the second.
pub(crate) fn pool_of(op: Op, bound: &[Arg], from: &[usize], to: &[usize]) -> Option<Pooling> {
    let input = &from[2..];
    let is_of = |ops: [Op; 3]| ops.iter().position(|other| *other == op) == Some(input.len() - 1);
    let stride = |arg: &Arg| match arg {
        Arg::None => Some(None),
        arg => ints(arg).map(Some),
    };
    match bound {
        [_, kernel, by, padding, dilation, Arg::Bool(ceil_mode), Arg::Bool(false)]
            if is_of([max_pool1d::OP, max_pool2d::OP, max_pool3d::OP]) =>
        {
            let [kernel, padding, dilation] = [ints(kernel)?, ints(padding)?, ints(dilation)?];
            let spec = spec(input.len(), &kernel, stride(by)?, &padding, &dilation, *ceil_mode).ok()?;
            Pooling::max(&spec, input).ok()
        }
        [_, kernel, by, padding, Arg::Bool(ceil_mode), Arg::Bool(with_padding), rest @ ..]
            if is_of([avg_pool1d::OP, avg_pool2d::OP, avg_pool3d::OP]) =>
        {
            let divisor = match rest {
                [Arg::Int(by)] => Divisor::Override(*by),
                [] | [Arg::None] if *with_padding => Divisor::IncludePadding,
                [] | [Arg::None] => Divisor::ExcludePadding,
                _ => return None,
            };
            let [kernel, padding] = [ints(kernel)?, ints(padding)?];
            let spec = spec(input.len(), &kernel, stride(by)?, &padding, &[1], *ceil_mode).ok()?;
            Pooling::average(&spec, input, divisor).ok()
        }
        [_, _] if is_of([adaptive_avg_pool1d::OP, adaptive_avg_pool2d::OP, adaptive_avg_pool3d::OP]) => {
            Pooling::adaptive_average(input, to.get(2..)?).ok()
        }
        // The mean over all spatial axes.
        [_, axes, _, dtype] if op == crate::ops::reduce::mean::OP && matches!(dtype, Arg::None) => {
            (axes_of(axes, from.len())?.into_iter().eq(2..from.len()))
                .then(|| Pooling::adaptive_average(input, &vec![1; input.len()]).ok())?
        }
        _ => None,
    }
}

fn spec(
    rank: usize,
    kernel: &[i64],
    stride: Option<IntVec>,
    padding: &[i64],
    dilation: &[i64],
    ceil_mode: bool,
) -> Result<PoolSpec> {
    match rank {
        1 => pool_spec::<1>(kernel, stride.as_ref(), padding, dilation, ceil_mode),
        2 => pool_spec::<2>(kernel, stride.as_ref(), padding, dilation, ceil_mode),
        _ => pool_spec::<3>(kernel, stride.as_ref(), padding, dilation, ceil_mode),
    }
}

/// A pooling whose input and result lie in the same order, without gaps.
pub(crate) struct PoolKernel<T> {
    pool: Pooling,
    x: Operand,
    layout: Layout,
    out: ValueId,
    numel: usize,
    this: PhantomData<T>,
}

impl<T: Real> PoolKernel<T> {
    pub(crate) fn new(pool: Pooling, (x, layout): (Operand, Layout), out: ValueId, numel: usize) -> Self {
        PoolKernel { pool, x, layout, out, numel, this: PhantomData }
    }
}

impl<T: Real> Kernel for PoolKernel<T> {
    unsafe fn run(&self, bases: Bases<'_>) {
        // SAFETY: the plan gives this kernel its input, which has no gaps, and its result alone.
        let (x, out) = unsafe {
            let x = bases.at::<T>(self.x.value, self.x.offset).cast_const();
            (
                std::slice::from_raw_parts(x, self.x.numel()),
                std::slice::from_raw_parts_mut(bases.at::<T>(self.out, 0), self.numel),
            )
        };
        match self.layout {
            Layout::ChannelsLast => self.pool.run_channels_last(self.x.shape[1], x, out),
            Layout::RowMajor => self.pool.run_planes(x, out).expect("the plan has room for whole planes"),
        }
    }

    fn reads(&self) -> Vec<ValueId> {
        vec![self.x.value]
    }

    fn describe(&self) -> String {
        let order = if self.layout == Layout::ChannelsLast { ", channels last" } else { "" };
        format!("pool {:?}{order}", self.x.shape)
    }
}
