//! The memory of arrays.

use super::build::too_large;
use super::{Array, try_vec};
use crate::{Element, Result, Scalar};

/// Elements whose memory is [kept](fx_simd::recycle) for other arrays when it is large.
///
/// Many elements that fx made begin where a cache line does, or reading a vector of 64 bytes would take two
/// lines: softmax takes a tenth longer then, a normalisation a sixth. Large arrays begin where a page does:
/// processors tell loads and stores apart by where they are in a page, so that an element that is read soon
/// must not have the place of one that was written just now, as it would if a result began a little further
/// in its page than what it is made of. Those that came in a `Vec` stay where they are.
pub struct Elements<T: Copy> {
    data: Vec<T>,
    /// What is left out before the first element.
    start: usize,
}

impl<T: Copy> Elements<T> {
    /// Returns the elements, moved to the beginning of their memory.
    pub(super) fn into_vec(mut self) -> Vec<T> {
        let mut data = std::mem::take(&mut self.data);
        if self.start > 0 {
            data.drain(..self.start);
        }
        data
    }

    pub(super) fn as_mut_slice(&mut self) -> &mut [T] {
        &mut self.data[self.start..]
    }
}

impl<T: Copy> From<Vec<T>> for Elements<T> {
    fn from(data: Vec<T>) -> Elements<T> {
        Elements { data, start: 0 }
    }
}

impl<T: Copy> std::ops::Deref for Elements<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.data[self.start..]
    }
}

impl<T: Copy> Drop for Elements<T> {
    fn drop(&mut self) {
        fx_simd::recycle(std::mem::take(&mut self.data));
    }
}

/// Room for elements that begin where a cache line or a page does, to which they are appended.
pub(crate) struct Aligned<T> {
    data: Vec<T>,
    start: usize,
}

impl<T: Element> Aligned<T> {
    /// The bytes of a cache line, and of a page.
    const LINE: usize = 64;
    const PAGE: usize = 4096;
    /// The bytes of an array for which a page more does not matter.
    const LARGE: usize = 32 * Self::PAGE;

    /// Allocates for `numel` elements; a request that memory cannot hold is an error, not an abort.
    pub(crate) fn new(numel: usize) -> Result<Aligned<T>> {
        // A few elements are left where they are.
        let bytes = numel.saturating_mul(size_of::<T>());
        if bytes < 16 * Self::LINE {
            return Ok(Aligned { data: try_vec(numel)?, start: 0 });
        }
        let place = if bytes < Self::LARGE { Self::LINE } else { Self::PAGE };
        let room = numel.saturating_add(place / size_of::<T>());
        let mut data = fx_simd::reserve::<T>(room).map_err(|_| too_large::<T>(numel))?;
        let start = data.as_ptr().align_offset(place).min(data.capacity() - numel);
        data.resize(start, T::from_scalar(Scalar::Bool(false)));
        Ok(Aligned { data, start })
    }

    /// Returns the elements so far.
    pub(crate) fn len(&self) -> usize {
        self.data.len() - self.start
    }

    /// Returns the vector that elements are appended to.
    pub(crate) fn vec(&mut self) -> &mut Vec<T> {
        &mut self.data
    }

    /// Makes an array of the elements, of which there are as many as the shape has.
    pub(crate) fn into_array(self, shape: &[usize]) -> Array {
        debug_assert_eq!(self.len(), shape.iter().product::<usize>(), "every element was appended");
        Array::row_major(T::elements(Elements { data: self.data, start: self.start }), shape.into())
    }
}
