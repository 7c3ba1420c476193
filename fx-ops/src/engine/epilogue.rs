//! The first steps after a product or convolution, which are done with each tile of the result.

use std::fmt;

use fx_core::math::Real;
use fx_core::{DType, Graph, NodeId, Result, TypeTree, ops};
use rustc_hash::FxHashMap;

use super::operand::{Bases, Layout, Operand, ValueId};
use super::record::Instance;
use crate::kernel::gemm::{GemmElement, TileEpilogue};
use crate::ops::pointwise::{hardtanh, relu, relu6};

/// What is done to the tiles of a kernel.
#[derive(Clone, Default)]
pub(crate) struct Epilogue {
    /// An element for each column.
    bias: Option<Operand>,
    /// As many elements as the result has, which lie as these do.
    other: Option<Operand>,
    /// The least and the greatest result.
    bounds: Option<[f64; 2]>,
}

impl Epilogue {
    /// Finds the steps in a graph whose placeholders and views have operands; returns the nodes too, from the
    /// anchor to the one whose value is stored.
    ///
    /// A bias has an element for each channel, which lie along the last axis in memory.
    pub(crate) fn find(
        body: &Graph,
        types: &FxHashMap<NodeId, TypeTree>,
        anchor: NodeId,
        operand: &dyn Fn(NodeId) -> Option<Operand>,
        layout: Layout,
    ) -> Result<(Epilogue, Vec<NodeId>)> {
        let mut epilogue = Epilogue::default();
        let (mut last, mut nodes) = (anchor, vec![anchor]);
        let Some(ty) = types.get(&anchor).and_then(TypeTree::tensor) else { return Ok((epilogue, nodes)) };
        let Some(shape) = ty.shape.known() else { return Ok((epilogue, nodes)) };
        while let [user] = body.users(last)?[..] {
            let node = body.node(user)?;
            let (Some(op), true) = (node.op(), types.get(&user) == types.get(&anchor)) else { break };
            let bound = op.bind(node.args(), node.kwargs())?;
            let found = match &bound[..] {
                [a, b, alpha] if op == ops::add::OP && alpha.scalar().is_some_and(|x| x.to_f64() == 1.0) => {
                    let other = if a.leaf() == Some(&last) { b } else { a };
                    match other.leaf().filter(|id| **id != last).and_then(|id| operand(*id)) {
                        Some(other) => epilogue.add(other, ty.dtype, &shape, layout),
                        None => false,
                    }
                }
                [_] if op == relu::OP => epilogue.bound(0.0, f64::INFINITY),
                [_] if op == relu6::OP => epilogue.bound(0.0, 6.0),
                [_, low, high] if op == hardtanh::OP => match (low.scalar(), high.scalar()) {
                    (Some(low), Some(high)) => epilogue.bound(low.to_f64(), high.to_f64()),
                    _ => false,
                },
                _ => false,
            };
            if !found {
                break;
            }
            last = user;
            nodes.push(user);
        }
        Ok((epilogue, nodes))
    }

    /// Returns the same with the operands of a plan.
    pub(crate) fn bind(&self, instance: &Instance) -> Result<Epilogue> {
        let operand = |operand: &Option<Operand>| match operand {
            Some(operand) => instance.operand(operand.id).cloned().map(Some),
            None => Ok(None),
        };
        Ok(Epilogue { bias: operand(&self.bias)?, other: operand(&self.other)?, bounds: self.bounds })
    }

    /// Notes that an operand is added; returns whether it can be.
    fn add(&mut self, operand: Operand, dtype: DType, shape: &[usize], layout: Layout) -> bool {
        if operand.dtype != dtype || self.other.is_some() || self.bounds.is_some() {
            return false;
        }
        if operand.shape[..] == *shape && operand.lies(layout) {
            self.other = Some(operand);
            return true;
        }
        let rank = shape.len();
        let Some(channel) = (0..rank).find(|axis| layout.place(*axis, rank) + 1 == rank) else {
            return false;
        };
        // The axes of an operand are the last ones.
        let missing = rank.wrapping_sub(operand.shape.len());
        let is_row = missing <= channel
            && operand.shape.iter().zip(&operand.strides).enumerate().all(|(axis, (size, stride))| {
                if axis + missing == channel {
                    *size == shape[channel] && (*stride == 1 || *size == 1)
                } else {
                    *size == 1
                }
            });
        if !is_row || self.bias.is_some() {
            return false;
        }
        self.bias = Some(operand);
        true
    }

    fn bound(&mut self, low: f64, high: f64) -> bool {
        let fits = self.bounds.is_none() && low <= high;
        if fits {
            self.bounds = Some([low, high]);
        }
        fits
    }

    /// Returns whether nothing is done.
    pub(crate) fn is_empty(&self) -> bool {
        self.bias.is_none() && self.other.is_none() && self.bounds.is_none()
    }

    /// Returns the values that are read.
    pub(crate) fn reads(&self) -> impl Iterator<Item = ValueId> {
        self.bias.iter().chain(&self.other).map(|operand| operand.value)
    }

    /// Returns what tiles do.
    ///
    /// # Safety
    ///
    /// The bases are those of the plan that this belongs to, and its operands can be read.
    pub(crate) unsafe fn of<'a, T: GemmElement + Real>(&self, bases: Bases<'a>) -> TileEpilogue<'a, T> {
        let elements = |operand: &Operand| {
            let from = bases.at::<T>(operand.value, operand.offset).cast_const();
            // SAFETY: the elements of a row or of a whole operand are neighbours.
            unsafe { std::slice::from_raw_parts(from, operand.numel()) }
        };
        TileEpilogue {
            bias: self.bias.as_ref().map(elements),
            other: self.other.as_ref().map(elements),
            bounds: self.bounds.map(|[low, high]| (<T as Real>::from_f64(low), <T as Real>::from_f64(high))),
        }
    }
}

impl fmt::Display for Epilogue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.bias.is_some() {
            f.write_str(", plus a row")?;
        }
        if self.other.is_some() {
            f.write_str(", plus an operand")?;
        }
        match self.bounds {
            Some([low, high]) if high == f64::INFINITY => write!(f, ", at least {low}"),
            Some([low, high]) => write!(f, ", from {low} to {high}"),
            None => Ok(()),
        }
    }
}
