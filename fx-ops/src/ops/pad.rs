//! Borders around tensors.

use fx_core::op::kind::{self, IntVec};
use fx_core::{Array, Dim, Op, Result, Scalar, TensorType, bail, err, kernels};

use crate::kernel::pad::{Mode, pad_array};
use crate::ops::check::{at_least, sizes, type_of};

/// The tables of this file.
pub(super) static TABLES: &[&[Op]] = &[PADDING];

kernels! {
    /// Borders.
    pub trait Padding; pub static PADDING;

    /// Adds to the last axes: `pad` is (before, after) of the last axis, then of the one before it, and so
    /// on; negative numbers take away.
    ///
    /// `mode` is `"constant"` (`value`, 0 if nothing is given), `"reflect"` (mirrored at the border element,
    /// by less than the size), `"replicate"` (the border element) or `"circular"` (from the other end, by at
    /// most the size).
    pad(x: Tensor, pad: Shape, mode: Str = "constant", value: OptNumber = None) = pad_type, pad_kernel;
}

pub(crate) fn pad_type(
    x: &TensorType,
    pad: kind::DimVec,
    mode: &str,
    _value: Option<fx_core::Category>,
) -> Result<TensorType> {
    if !pad.len().is_multiple_of(2) || pad.len() > 2 * x.rank() {
        bail!(
            Argument,
            "expected a pair of numbers for at most {} axes in pad, got {} numbers",
            x.rank(),
            pad.len()
        );
    }
    if !["constant", "reflect", "replicate", "circular"].contains(&mode) {
        return Err(err!(Argument, "unknown padding mode {mode:?}")
            .help("modes are \"constant\", \"reflect\", \"replicate\" and \"circular\""));
    }
    let mut shape = x.shape.clone();
    for (i, pair) in pad.chunks(2).enumerate() {
        let axis = x.rank() - 1 - i;
        let old = &x.shape[axis];
        for side in pair {
            match mode {
                "reflect" if old.less_equal(side).is_yes() => {
                    bail!(
                        Shape,
                        "expected a reflected padding below the size {old} of axis {axis}, got {side}"
                    );
                }
                "circular" if old.less(side).is_yes() => {
                    bail!(
                        Shape,
                        "expected a circular padding of at most the size {old} of axis {axis}, got {side}"
                    );
                }
                _ => {}
            }
        }
        let size = old + &pair[0] + &pair[1];
        at_least(format_args!("a size of axis {axis} after padding"), 0, &size)?;
        if mode == "replicate" {
            at_least(format_args!("a size of axis {axis} to replicate"), 1, old)?;
        }
        shape.dims_mut()[axis] = size;
    }
    Ok(TensorType::new(x.dtype, shape))
}

pub(crate) fn pad_kernel(x: &Array, pad: IntVec, mode: &str, value: Option<Scalar>) -> Result<Array> {
    let dims = pad.iter().map(|&pad| Dim::new(pad)).collect();
    sizes(&pad_type(&type_of(x), dims, mode, None)?.shape)?;
    pad_array(x, &pairs(x.rank(), &pad), mode_of(mode, value))
}

/// Returns what is added before and after each axis.
pub(crate) fn pairs(rank: usize, pad: &[i64]) -> Vec<[i64; 2]> {
    let mut pairs = vec![[0, 0]; rank];
    for (pair, pad) in pairs.iter_mut().rev().zip(pad.chunks_exact(2)) {
        *pair = [pad[0], pad[1]];
    }
    pairs
}

/// Returns what borders are made of.
pub(crate) fn mode_of(mode: &str, value: Option<Scalar>) -> Mode {
    match mode {
        "constant" => Mode::Constant(value.unwrap_or(Scalar::Int(0))),
        "reflect" => Mode::Reflect,
        "replicate" => Mode::Replicate,
        _ => Mode::Circular,
    }
}
