//! Where a kernel finds its operands: the table of base addresses, and windows on what lies there.

use fx_core::array::{Sizes, Strides, coalesce, row_major};
use fx_core::{DType, Result};

/// The number of a value: an input, a constant, or what a step makes.
pub(crate) type ValueId = u32;

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

/// A strided window on a value.
#[derive(Clone, Debug)]
pub(crate) struct Operand {
    pub(crate) value: ValueId,
    pub(crate) dtype: DType,
    pub(crate) shape: Sizes,
    /// In elements; none is negative.
    pub(crate) strides: Strides,
    /// The first element.
    pub(crate) offset: usize,
}

impl Operand {
    /// All elements of a value, in row-major order.
    pub(crate) fn whole(value: ValueId, dtype: DType, shape: &[usize]) -> Operand {
        Operand { value, dtype, shape: shape.into(), strides: row_major(shape), offset: 0 }
    }

    pub(crate) fn numel(&self) -> usize {
        self.shape.iter().product()
    }

    pub(crate) fn is_contiguous(&self) -> bool {
        fx_core::array::is_row_major(&self.shape, &self.strides)
    }

    /// Returns the axes that remain when neighbours that are walked as one are joined, and their strides along `shape`, to which the
    /// operand broadcasts.
    pub(crate) fn walk(&self, shape: &[usize]) -> Result<Walk> {
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
        let (shape, [strides]) = coalesce(shape, [&strides]);
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

    /// Returns whether the elements follow each other everywhere.
    pub(crate) fn is_dense(&self) -> bool {
        self.shape.len() <= 1 && (self.step() == 1 || self.run() <= 1)
    }

    /// Returns where the element at a flat position lies, and how many are left in its run.
    #[inline]
    pub(crate) fn locate(&self, at: usize) -> (usize, usize) {
        match self.shape.len() {
            0 => (0, 1),
            1 => (at * self.strides[0] as usize, self.shape[0] - at),
            n => {
                let inner = self.shape[n - 1];
                let (mut rest, column) = (at / inner, at % inner);
                let mut place = column * self.strides[n - 1] as usize;
                for axis in (0..n - 1).rev() {
                    if axis == 0 {
                        place += rest * self.strides[0] as usize;
                        break;
                    }
                    place += rest % self.shape[axis] * self.strides[axis] as usize;
                    rest /= self.shape[axis];
                }
                (place, inner - column)
            }
        }
    }
}
