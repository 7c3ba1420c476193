//! [`Tensor`]: elements with the sizes of their axes.

use super::error::Error;

/// Elements in row-major order, with the sizes of the axes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tensor<'a, T, const R: usize> {
    /// The sizes of the axes.
    pub shape: [usize; R],
    /// The elements.
    pub data: &'a [T],
}

impl<'a, T, const R: usize> Tensor<'a, T, R> {
    /// Makes a tensor; that sizes and elements fit together is checked when it is used.
    pub const fn new(shape: [usize; R], data: &'a [T]) -> Self {
        Tensor { shape, data }
    }

    /// Checks that there are as many elements as the sizes say.
    pub(crate) fn check_length(&self, input: &'static str) -> Result<(), Error> {
        let expected = self.shape.iter().try_fold(1usize, |n, size| n.checked_mul(*size));
        match expected {
            Some(expected) if expected == self.data.len() => Ok(()),
            expected => {
                Err(Error::Length { input, expected: expected.unwrap_or(usize::MAX), got: self.data.len() })
            }
        }
    }

    /// Checks the size of an axis.
    pub(crate) fn check_size(&self, input: &'static str, axis: usize, expected: usize) -> Result<(), Error> {
        match self.shape[axis] {
            got if got == expected => Ok(()),
            got => Err(Error::Size { input, axis, expected, got }),
        }
    }

    /// Checks the range of the size of an axis.
    pub(crate) fn check_range(
        &self,
        input: &'static str,
        axis: usize,
        least: usize,
        greatest: usize,
    ) -> Result<(), Error> {
        match self.shape[axis] {
            got if got >= least && got <= greatest => Ok(()),
            got => Err(Error::Range { input, axis, least, greatest, got }),
        }
    }
}
