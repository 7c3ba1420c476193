//! Views: new shapes, strides and offsets on the same storage, in O(rank).
//!
//! Only [`Array::flip`], and [`Array::reshape`] or [`Array::as_strided`] of an array whose strides do
//! not allow it, copy. Axes are counted from zero; negative axes are the caller's to resolve.

use super::layout::{Sizes, Strides, checked_numel, reshaped, row_major, span};
use super::{Array, Stored, dispatch_dtype, gather};
use crate::{Result, bail, err};

impl Array {
    fn with_layout(&self, shape: Sizes, strides: Strides, offset: usize) -> Array {
        Array { storage: self.storage.clone(), shape, strides, offset }
    }

    fn check_axis(&self, axis: usize) -> Result<()> {
        if axis >= self.rank() {
            let error = err!(Axis, "axis {axis} is out of range for {}", self.describe());
            return Err(match self.rank() {
                0 => error.help("an array of rank 0 has no axes"),
                rank => error.help(format!("axes are 0 to {}", rank - 1)),
            });
        }
        Ok(())
    }

    /// Reorders the axes: axis `k` of the result is axis `axes[k]`. Fails if an axis is missing, repeated or
    /// out of range.
    pub fn permute(&self, axes: &[usize]) -> Result<Array> {
        if axes.len() != self.rank() {
            bail!(Axis, "expected {} axes to permute {}, got {axes:?}", self.rank(), self.describe());
        }
        for (k, &axis) in axes.iter().enumerate() {
            self.check_axis(axis)?;
            if axes[..k].contains(&axis) {
                bail!(Axis, "axis {axis} is repeated in permutation {axes:?}");
            }
        }
        let shape = axes.iter().map(|&axis| self.shape[axis]).collect();
        let strides = axes.iter().map(|&axis| self.strides[axis]).collect();
        Ok(self.with_layout(shape, strides, self.offset))
    }

    /// Swaps two axes. Fails if an axis is out of range.
    pub fn transpose(&self, a: usize, b: usize) -> Result<Array> {
        self.check_axis(a)?;
        self.check_axis(b)?;
        let mut result = self.clone();
        result.shape.swap(a, b);
        result.strides.swap(a, b);
        Ok(result)
    }

    /// Gives the elements, in row-major order, another shape: a view where strides allow, else a copy. Fails
    /// if the number of elements differs.
    pub fn reshape(&self, shape: &[usize]) -> Result<Array> {
        let numel = checked_numel(shape)?;
        if numel != self.numel() {
            bail!(
                Shape,
                "cannot reshape {}, {} elements, to {shape:?}, {numel}",
                self.describe(),
                self.numel()
            );
        }
        match reshaped(&self.shape, &self.strides, shape) {
            Some(strides) => Ok(self.with_layout(shape.into(), strides, self.offset)),
            None => self.contiguous()?.reshape(shape),
        }
    }

    /// Repeats axes of size one, and adds leading axes, to reach a shape; the strides there are zero. Fails
    /// if another size differs, or the shape has fewer axes.
    pub fn broadcast_to(&self, shape: &[usize]) -> Result<Array> {
        checked_numel(shape)?;
        let refuse = || err!(Shape, "cannot broadcast {} to {shape:?}", self.describe());
        let Some(added) = shape.len().checked_sub(self.rank()) else {
            return Err(refuse().help("broadcasting adds axes but never removes them"));
        };
        let mut strides = Strides::from_elem(0, shape.len());
        for axis in 0..self.rank() {
            if self.shape[axis] == shape[added + axis] {
                strides[added + axis] = self.strides[axis];
            } else if self.shape[axis] != 1 {
                let help = format!("axis {axis} has size {}; only axes of size 1 expand", self.shape[axis]);
                return Err(refuse().help(help));
            }
        }
        Ok(self.with_layout(shape.into(), strides, self.offset))
    }

    /// Takes every `step`-th position of an axis from `start` up to, not including, `stop`.
    ///
    /// `stop` may not be past the end; `start >= stop` gives size zero. Fails if the axis or the range is out
    /// of range, or the step is 0.
    pub fn slice_axis(&self, axis: usize, start: usize, stop: usize, step: usize) -> Result<Array> {
        self.check_axis(axis)?;
        let size = self.shape[axis];
        if stop > size || start > size {
            bail!(Index, "slice {start}..{stop} is out of range for axis {axis} of {}", self.describe());
        }
        if step == 0 {
            bail!(Index, "a slice step must be at least 1, got 0");
        }
        let mut result = self.clone();
        result.shape[axis] = stop.saturating_sub(start).div_ceil(step);
        if result.shape[axis] > 1 {
            result.strides[axis] = self.strides[axis].saturating_mul(step as isize);
        }
        if !result.is_empty() {
            result.offset += start * self.strides[axis] as usize;
        }
        Ok(result)
    }

    /// Takes one position of an axis and drops the axis. Fails if the axis or the position is out of range.
    pub fn select(&self, axis: usize, index: usize) -> Result<Array> {
        self.check_axis(axis)?;
        if index >= self.shape[axis] {
            bail!(Index, "index {index} is out of range for axis {axis} of {}", self.describe());
        }
        let mut result = self.slice_axis(axis, index, index + 1, 1)?;
        result.shape.remove(axis);
        result.strides.remove(axis);
        Ok(result)
    }

    /// Inserts an axis of size one; `axis` may be the rank. Fails if the axis is out of range.
    pub fn unsqueeze(&self, axis: usize) -> Result<Array> {
        if axis > self.rank() {
            return Err(err!(Axis, "axis {axis} is out of range to insert into {}", self.describe())
                .help(format!("axes are 0 to {}", self.rank())));
        }
        let mut result = self.clone();
        result.shape.insert(axis, 1);
        result.strides.insert(axis, 1);
        Ok(result)
    }

    /// Drops an axis of size one. Fails if the axis is out of range or has another size.
    pub fn squeeze(&self, axis: usize) -> Result<Array> {
        self.check_axis(axis)?;
        if self.shape[axis] != 1 {
            bail!(Shape, "expected size 1 to squeeze axis {axis}, got {}", self.describe());
        }
        let mut result = self.clone();
        result.shape.remove(axis);
        result.strides.remove(axis);
        Ok(result)
    }

    /// Reverses the order along axes; a copy. Fails if an axis is repeated or out of range.
    pub fn flip(&self, axes: &[usize]) -> Result<Array> {
        let mut strides = self.strides.clone();
        let mut first = 0;
        for (k, &axis) in axes.iter().enumerate() {
            self.check_axis(axis)?;
            if axes[..k].contains(&axis) {
                bail!(Axis, "axis {axis} is repeated in {axes:?}");
            }
            strides[axis] = -strides[axis];
            if !self.is_empty() {
                first += (self.shape[axis] - 1) * self.strides[axis] as usize;
            }
        }
        let storage = dispatch_dtype!(self.dtype(), T => {
            T::storage(gather::gather(self.data::<T>()?, &self.shape, &strides, first)?)
        });
        Ok(Array::row_major(storage, self.shape.clone()))
    }

    /// Takes the diagonal of axes `a` and `b` as a new last axis.
    ///
    /// A positive `offset` starts that far along `b`, a negative one along `a`. Fails if the axes are equal
    /// or out of range.
    pub fn diagonal(&self, offset: isize, a: usize, b: usize) -> Result<Array> {
        self.check_axis(a)?;
        self.check_axis(b)?;
        if a == b {
            bail!(Axis, "expected two different axes for a diagonal, got {a} twice");
        }
        let (from_a, from_b) = (offset.min(0).unsigned_abs(), offset.max(0).unsigned_abs());
        let size = self.shape[a].saturating_sub(from_a).min(self.shape[b].saturating_sub(from_b));
        let mut result = self.clone();
        for axis in [a.max(b), a.min(b)] {
            result.shape.remove(axis);
            result.strides.remove(axis);
        }
        result.shape.push(size);
        result.strides.push(self.strides[a].saturating_add(self.strides[b]));
        if !result.is_empty() {
            result.offset += from_a * self.strides[a] as usize + from_b * self.strides[b] as usize;
        }
        Ok(result)
    }

    /// Reads the elements, numbered in row-major order, by arbitrary strides from `offset`.
    ///
    /// The numbering makes the result depend on the values only, not on how they are stored: an array
    /// that is not contiguous is copied first. Fails if a stride is negative, or a position lies outside of
    /// the elements.
    pub fn as_strided(&self, shape: &[usize], strides: &[isize], offset: usize) -> Result<Array> {
        checked_numel(shape)?;
        if shape.len() != strides.len() {
            bail!(Argument, "expected as many strides as axes, got shape {shape:?} and strides {strides:?}");
        }
        if let Some(stride) = strides.iter().find(|&&stride| stride < 0) {
            bail!(Argument, "expected strides of at least 0, got {stride}");
        }
        let end = span(shape, strides).and_then(|span| span.checked_add(offset));
        if end.is_none_or(|end| end > self.numel()) {
            return Err(err!(
                Index,
                "shape {shape:?} with strides {strides:?} from {offset} is out of range for {}",
                self.describe()
            )
            .help(format!("there are {} elements", self.numel())));
        }
        let base = self.contiguous()?;
        let strides = if shape.contains(&0) { row_major(shape) } else { Strides::from_slice(strides) };
        Ok(base.with_layout(Sizes::from_slice(shape), strides, base.offset + offset))
    }

    /// Takes all windows of `size` along an axis, `step` apart, as a new last axis. Fails if the axis is out
    /// of range, the window does not fit, or the step is 0.
    pub fn unfold(&self, axis: usize, size: usize, step: usize) -> Result<Array> {
        self.check_axis(axis)?;
        if step == 0 {
            bail!(Argument, "the step of a window must be at least 1, got 0");
        }
        let Some(rest) = self.shape[axis].checked_sub(size) else {
            bail!(Shape, "a window of {size} does not fit axis {axis} of {}", self.describe());
        };
        let mut result = self.clone();
        result.shape[axis] = rest / step + 1;
        if result.shape[axis] > 1 {
            result.strides[axis] = self.strides[axis].saturating_mul(step as isize);
        }
        result.shape.push(size);
        result.strides.push(self.strides[axis]);
        checked_numel(&result.shape)?;
        Ok(result)
    }
}
