//! Where a kernel finds its operands: the table of base addresses, and windows on what lies there.

use fx_core::array::{Sizes, Strides, coalesce};
use fx_core::{DType, Result};
use smallvec::SmallVec;

/// The number of a value: an input, a constant, or what a step makes.
pub(crate) type ValueId = u32;

/// The number of an operand among those of a plan.
pub(crate) type OperandId = u32;

/// The address of every value during a call. A kernel reads and writes only what the plan gave it.
#[derive(Clone, Copy)]
pub(crate) struct Bases<'a>(pub(crate) &'a [*mut u8]);

// SAFETY: the threads of a kernel write disjoint elements, which the plan gave to this kernel alone.
unsafe impl Sync for Bases<'_> {}

impl Bases<'_> {
    /// Returns the address of an element of a value.
    pub(crate) fn at<T>(self, value: ValueId, offset: usize) -> *mut T {
        self.0[value as usize].cast::<T>().wrapping_add(offset)
    }
}

/// In which order the axes of a value lie in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    RowMajor,
    /// The second axis, that of channels, lies last: an image `[n, c, h, w]` as `[n, h, w, c]`.
    ChannelsLast,
}

impl Layout {
    /// Returns the sizes or strides of axes in the order in which these lie.
    pub(crate) fn arrange<T: Clone>(self, axes: &[T]) -> SmallVec<[T; 6]> {
        let mut axes: SmallVec<[T; 6]> = axes.iter().cloned().collect();
        if self == Layout::ChannelsLast && axes.len() > 2 {
            axes[1..].rotate_left(1);
        }
        axes
    }

    /// Returns which axis in memory an axis is.
    pub(crate) fn place(self, axis: usize, rank: usize) -> usize {
        match (self, axis) {
            (Layout::ChannelsLast, 1) if rank > 2 => rank - 1,
            (Layout::ChannelsLast, 2..) => axis - 1,
            _ => axis,
        }
    }

    /// Returns sizes or strides that lie in this order as they are counted.
    pub(crate) fn restore<T: Clone>(self, axes: &[T]) -> SmallVec<[T; 6]> {
        let mut axes: SmallVec<[T; 6]> = axes.iter().cloned().collect();
        if self == Layout::ChannelsLast && axes.len() > 2 {
            axes[1..].rotate_right(1);
        }
        axes
    }
}

/// A strided window on a value.
#[derive(Debug)]
pub(crate) struct Operand {
    pub(crate) value: ValueId,
    pub(crate) dtype: DType,
    pub(crate) shape: Sizes,
    /// In elements; none is negative.
    pub(crate) strides: Strides,
    /// The first element.
    pub(crate) offset: usize,
    /// Its number in the plan, which has none that a kernel makes for itself.
    pub(crate) id: OperandId,
}

/// The number of an operand that the plan does not have.
pub(crate) const NO_ID: OperandId = OperandId::MAX;

// Sizes are copied at once, which a derived clone would do one by one.
impl Clone for Operand {
    fn clone(&self) -> Operand {
        let (shape, strides) = (Sizes::from_slice(&self.shape), Strides::from_slice(&self.strides));
        Operand { shape, strides, ..*self }
    }
}

impl Operand {
    /// Returns the layout of elements that follow each other without gaps; `None` if they do not, or lie
    /// otherwise.
    pub(crate) fn layout(&self) -> Option<Layout> {
        [Layout::RowMajor, Layout::ChannelsLast].into_iter().find(|layout| self.lies(*layout))
    }

    /// Returns whether the channels lie last, all of them or, with gaps between, some.
    pub(crate) fn has_channels_last(&self) -> bool {
        match self.layout() {
            Some(layout) => layout == Layout::ChannelsLast,
            None => self.shape.len() > 2 && self.strides[1] == 1,
        }
    }

    /// Returns whether elements follow each other without gaps in this order.
    pub(crate) fn lies(&self, layout: Layout) -> bool {
        let (Layout::ChannelsLast, [batch, channels, ..]) = (layout, &self.shape[..]) else {
            return self.is_contiguous();
        };
        if self.shape.len() == 2 {
            return self.is_contiguous();
        }
        // Channels are innermost, then the other axes.
        let one = |size: &usize, stride: isize, expected: isize| *size == 1 || stride == expected;
        let all = self.shape[2..].iter().zip(&self.strides[2..]).rev();
        let mut expected = *channels as isize;
        let mut is_so = one(channels, self.strides[1], 1);
        for (size, &stride) in all {
            is_so &= one(size, stride, expected);
            expected = expected.saturating_mul(*size as isize);
        }
        (is_so && one(batch, self.strides[0], expected)) || self.shape.contains(&0)
    }

    pub(crate) fn numel(&self) -> usize {
        self.shape.iter().product()
    }

    pub(crate) fn is_contiguous(&self) -> bool {
        fx_core::array::is_row_major(&self.shape, &self.strides)
    }

    /// Returns the axes that remain when neighbours that are walked as one are joined, and their strides
    /// along `shape`, to which the operand broadcasts.
    pub(crate) fn walk(&self, shape: &[usize]) -> Result<Walk> {
        self.walk_in(shape, Layout::RowMajor)
    }

    /// As [`walk`](Self::walk), with the axes of `shape` in the order of a layout.
    pub(crate) fn walk_in(&self, shape: &[usize], layout: Layout) -> Result<Walk> {
        let missing = shape.len().checked_sub(self.shape.len());
        let Some(missing) = missing else {
            fx_core::bail!(Shape, "{:?} does not broadcast to {shape:?}", self.shape);
        };
        let mut strides = Strides::from_elem(0, missing);
        for ((&size, &stride), &wanted) in self.shape.iter().zip(&self.strides).zip(&shape[missing..]) {
            if size != wanted && size != 1 {
                fx_core::bail!(Shape, "{:?} does not broadcast to {shape:?}", self.shape);
            }
            strides.push(if size == 1 { 0 } else { stride });
        }
        let (shape, [strides]) = coalesce(&layout.arrange(shape), [&layout.arrange(&strides)]);
        Ok(Walk { shape, strides })
    }
}

/// How an operand is walked in the order of a flat index.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Walk {
    pub(crate) shape: Sizes,
    pub(crate) strides: Strides,
}

impl Walk {
    /// Returns the number of elements of the last axis, along which the step is the same.
    pub(crate) fn run(&self) -> usize {
        self.shape.last().copied().unwrap_or(1)
    }

    /// Returns the step along the last axis.
    pub(crate) fn step(&self) -> usize {
        self.strides.last().map_or(0, |&stride| stride as usize)
    }

    /// Returns whether neighbours along the last axis lie apart, and those along the one before beside each
    /// other, as in a transposed matrix.
    pub(crate) fn is_turned(&self) -> bool {
        match (&self.shape[..], &self.strides[..]) {
            ([.., lines, _], [.., 1, step]) => *lines >= 8 && *step > 1,
            _ => false,
        }
    }

    /// Returns where the element at a flat position lies, and how many are left in its run along the last axis.
    #[inline]
    pub(crate) fn locate(&self, at: usize) -> (usize, usize) {
        locate(&self.shape, &self.strides, at)
    }

    /// Returns where a row, a run along the last axis, begins, and how many are left along the axis before.
    pub(crate) fn locate_row(&self, row: usize) -> (usize, usize) {
        let axes = self.shape.len().saturating_sub(1);
        locate(&self.shape[..axes], &self.strides[..axes], row)
    }

    /// Returns whether the elements follow each other everywhere.
    pub(crate) fn is_dense(&self) -> bool {
        self.shape.len() <= 1 && (self.step() == 1 || self.run() <= 1)
    }
}

#[inline]
fn locate(shape: &[usize], strides: &[isize], at: usize) -> (usize, usize) {
    match shape.len() {
        0 => (0, 1),
        1 => (at * strides[0] as usize, shape[0] - at),
        n => {
            let inner = shape[n - 1];
            let (mut rest, column) = (at / inner, at % inner);
            let mut place = column * strides[n - 1] as usize;
            for axis in (0..n - 1).rev() {
                if axis == 0 {
                    place += rest * strides[0] as usize;
                    break;
                }
                place += rest % shape[axis] * strides[axis] as usize;
                rest /= shape[axis];
            }
            (place, inner - column)
        }
    }
}
