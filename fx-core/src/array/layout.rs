//! Shapes and strides as numbers: counting, merging and walking them.
//!
//! Nothing here knows element types; kernels zip several operands through one walk ([`StridedIndex`],
//! [`Runs`]). Steps use wrapping arithmetic, so negative strides are fine as long as each visited
//! position is in range.

use std::array::from_fn;

use smallvec::SmallVec;

use crate::{Result, bail};

/// The sizes of the axes, outermost first.
pub type Sizes = SmallVec<[usize; 4]>;
/// The distance in elements between neighbours along each axis.
pub type Strides = SmallVec<[isize; 4]>;

/// Returns the number of elements of a shape.
///
/// Fails with [`ErrorKind::Limit`](crate::ErrorKind::Limit) if the non-zero sizes multiply to more than
/// `isize::MAX`, even when another size is zero, so that no later product can overflow.
pub fn checked_numel(shape: &[usize]) -> Result<usize> {
    let nonzero = shape.iter().filter(|&&size| size != 0).try_fold(1usize, |n, &size| n.checked_mul(size));
    match nonzero {
        Some(n) if isize::try_from(n).is_ok() => Ok(if shape.contains(&0) { 0 } else { n }),
        _ => bail!(Limit, "shape {shape:?} has too many elements"),
    }
}

/// Returns the strides of a row-major array of this shape; sizes of zero count as one.
pub fn row_major(shape: &[usize]) -> Strides {
    let mut strides: Strides = SmallVec::from_elem(1, shape.len());
    let mut step = 1isize;
    for (stride, &size) in strides.iter_mut().zip(shape).rev() {
        *stride = step;
        step = step.saturating_mul(size.max(1) as isize);
    }
    strides
}

/// Returns whether an array with these strides is row-major without gaps; axes of size one do not count.
pub fn is_row_major(shape: &[usize], strides: &[isize]) -> bool {
    let mut expected = 1isize;
    for (&size, &stride) in shape.iter().zip(strides).rev() {
        match size {
            0 => return true,
            1 => {}
            _ if stride != expected => return shape.contains(&0),
            _ => expected = expected.saturating_mul(size as isize),
        }
    }
    true
}

/// Returns the number of storage elements from the first to the last that an array touches.
pub fn span(shape: &[usize], strides: &[isize]) -> Option<usize> {
    if shape.contains(&0) {
        return Some(0);
    }
    let last = shape.iter().zip(strides).try_fold(0usize, |at, (&size, &stride)| {
        at.checked_add((size - 1).checked_mul(usize::try_from(stride).ok()?)?)
    });
    last?.checked_add(1)
}

/// Returns the strides that show the same elements in another shape of as many elements, or `None` if
/// only a copy can.
pub fn reshaped(shape: &[usize], strides: &[isize], new: &[usize]) -> Option<Strides> {
    if is_row_major(shape, strides) {
        return Some(row_major(new));
    }
    let mut out: Strides = SmallVec::from_elem(0, new.len());
    let mut next = new.len();
    let (mut old_count, mut new_count) = (1usize, 1usize);
    let mut base = *strides.last()?;
    for axis in (0..shape.len()).rev() {
        old_count *= shape[axis];
        let chunk_goes_on = axis > 0
            && (shape[axis - 1] == 1 || base.checked_mul(old_count as isize) == Some(strides[axis - 1]));
        if chunk_goes_on {
            continue;
        }
        while next > 0 && (new_count < old_count || new[next - 1] == 1) {
            next -= 1;
            out[next] = base.saturating_mul(new_count as isize);
            new_count *= new[next];
        }
        if new_count != old_count {
            return None;
        }
        if axis > 0 {
            base = strides[axis - 1];
            (old_count, new_count) = (1, 1);
        }
    }
    (next == 0).then_some(out)
}

/// Drops axes of size one and merges neighbouring axes that every operand walks as one.
///
/// The row-major order of the elements does not change.
pub fn coalesce<const N: usize>(shape: &[usize], strides: [&[isize]; N]) -> (Sizes, [Strides; N]) {
    let mut sizes = Sizes::new();
    let mut merged: [Strides; N] = from_fn(|_| Strides::new());
    for (axis, &size) in shape.iter().enumerate() {
        if size == 1 {
            continue;
        }
        let fits = |k: usize| {
            merged[k].last().is_some_and(|&outer| strides[k][axis].checked_mul(size as isize) == Some(outer))
        };
        let joined = sizes.last().and_then(|&outer| outer.checked_mul(size)).filter(|_| (0..N).all(fits));
        match joined {
            Some(joined) => {
                *sizes.last_mut().expect("an axis to merge with exists") = joined;
                for (merged, strides) in merged.iter_mut().zip(strides) {
                    *merged.last_mut().expect("strides go with sizes") = strides[axis];
                }
            }
            None => {
                sizes.push(size);
                for (merged, strides) in merged.iter_mut().zip(strides) {
                    merged.push(strides[axis]);
                }
            }
        }
    }
    (sizes, merged)
}

/// Walks a shape in row-major order and gives the position in each of `N` operands.
#[derive(Debug, Clone)]
pub struct StridedIndex<const N: usize> {
    shape: Sizes,
    strides: [Strides; N],
    index: Sizes,
    at: [usize; N],
    remaining: usize,
}

impl<const N: usize> StridedIndex<N> {
    /// Starts at the first element; `operands` are the strides and the offset of each operand.
    pub fn new(shape: &[usize], operands: [(&[isize], usize); N]) -> Self {
        StridedIndex {
            shape: shape.into(),
            strides: operands.map(|(strides, _)| strides.into()),
            index: SmallVec::from_elem(0, shape.len()),
            at: operands.map(|(_, offset)| offset),
            remaining: shape.iter().fold(1usize, |n, &size| n.saturating_mul(size)),
        }
    }

    /// Returns the index of the element that comes next.
    pub fn index(&self) -> &[usize] {
        &self.index
    }
}

impl<const N: usize> Iterator for StridedIndex<N> {
    type Item = [usize; N];

    #[inline]
    fn next(&mut self) -> Option<[usize; N]> {
        self.remaining = self.remaining.checked_sub(1)?;
        let current = self.at;
        for axis in (0..self.shape.len()).rev() {
            self.index[axis] += 1;
            if self.index[axis] < self.shape[axis] {
                for (at, strides) in self.at.iter_mut().zip(&self.strides) {
                    *at = at.wrapping_add_signed(strides[axis]);
                }
                break;
            }
            let back = self.index[axis] - 1;
            self.index[axis] = 0;
            for (at, strides) in self.at.iter_mut().zip(&self.strides) {
                *at = at.wrapping_sub((strides[axis] as usize).wrapping_mul(back));
            }
        }
        Some(current)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.remaining, Some(self.remaining))
    }
}

impl<const N: usize> ExactSizeIterator for StridedIndex<N> {}

/// Walks a shape in row-major order by its longest inner runs: gives where each operand's run starts.
///
/// Every run has the same length and, operand by operand, the same stride. A single element is a run of
/// length and stride one; a shape without elements has no runs.
#[derive(Debug, Clone)]
pub struct Runs<const N: usize> {
    outer: StridedIndex<N>,
    len: usize,
    strides: [isize; N],
}

impl<const N: usize> Runs<N> {
    /// Starts at the first run; `operands` are the strides and the offset of each operand.
    pub fn new(shape: &[usize], operands: [(&[isize], usize); N]) -> Self {
        let (mut sizes, mut strides) = coalesce(shape, operands.map(|(strides, _)| strides));
        let len = sizes.pop().unwrap_or(1);
        let inner = from_fn(|k| strides[k].pop().unwrap_or(1));
        if len == 0 {
            sizes = SmallVec::from_slice(&[0]);
            strides = from_fn(|_| SmallVec::from_slice(&[0]));
        }
        let outer = StridedIndex::new(&sizes, from_fn(|k| (&strides[k][..], operands[k].1)));
        Runs { outer, len, strides: inner }
    }

    /// Returns the number of elements of every run.
    pub fn run_len(&self) -> usize {
        self.len
    }

    /// Returns the step inside a run, for each operand.
    pub fn run_strides(&self) -> [isize; N] {
        self.strides
    }
}

impl<const N: usize> Iterator for Runs<N> {
    type Item = [usize; N];

    #[inline]
    fn next(&mut self) -> Option<[usize; N]> {
        self.outer.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.outer.size_hint()
    }
}

impl<const N: usize> ExactSizeIterator for Runs<N> {}
