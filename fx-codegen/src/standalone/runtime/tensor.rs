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

    /// Checks that there are as many elements as the sizes say. Also where one size is 0, the others must not
    /// name more elements than there can be.
    pub(crate) fn check_length(&self, input: &'static str) -> Result<(), Error> {
        let most = u64::pow(2, 47);
        let others = self.shape.iter().try_fold(1usize, |n, size| n.checked_mul((*size).max(1)));
        let expected = match others {
            Some(n) if n as u64 <= most => {
                if self.shape.contains(&0) {
                    0
                } else {
                    n
                }
            }
            _ => usize::MAX,
        };
        match self.data.len() {
            got if got == expected => Ok(()),
            got => Err(Error::Length { input, expected, got }),
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

/// Returns a part of some elements, `span` from `from` on; none if it has no elements.
pub(crate) fn part<T>(data: &[T], from: usize, span: usize, elements: usize) -> &[T] {
    if elements == 0 { &[] } else { &data[from..][..span] }
}

/// Returns a part of some elements for writing, as [`part`].
pub(crate) fn part_mut<T>(data: &mut [T], from: usize, span: usize, elements: usize) -> &mut [T] {
    if elements == 0 { &mut [] } else { &mut data[from..][..span] }
}
