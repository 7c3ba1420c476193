//! [`Load`]: how the elements of a chunk are found in an operand from outside, and copied if they are no
//! neighbours.

use super::{Chunk, Extent};
use crate::engine::operand::{Bases, Operand, ValueId, Walk};

/// An operand from outside, walked along the domain, along its rows, or along one row.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    pub(crate) value: ValueId,
    pub(crate) offset: usize,
    pub(crate) walk: Walk,
    pub(crate) size: usize,
    pub(crate) extent: Extent,
    /// The distance of rows and of neighbours, if these are the same everywhere.
    pub(crate) grid: Option<(usize, usize)>,
    /// The register for elements that are not read in place.
    pub(crate) register: u32,
    /// The result that takes the memory of this operand, so that it must be read before that is written.
    pub(crate) overwritten: Option<ValueId>,
    /// Where in the scratch memory some rows of it lie beside each other, if it is a transposed one.
    pub(super) panel: Option<usize>,
}

impl Load {
    /// All elements of an operand.
    pub(crate) fn new(operand: &Operand, walk: Walk) -> Load {
        Load {
            value: operand.value,
            offset: operand.offset,
            walk,
            size: operand.dtype.size(),
            extent: Extent::Full,
            grid: None,
            register: 0,
            overwritten: None,
            panel: None,
        }
    }

    /// Notes how far rows of `row` elements and neighbours are apart, if that is the same everywhere.
    pub(crate) fn find_grid(&mut self, row: usize) {
        let Walk { shape, strides } = &self.walk;
        let axes = || shape.iter().zip(strides).map(|(&size, &stride)| (size, stride as usize));
        self.grid = match (self.extent, shape.len()) {
            (_, 0) => Some((0, 0)),
            (Extent::PerRow, 1) => axes().next().map(|(_, stride)| (stride, 0)),
            (Extent::PerRow, _) => None,
            (_, 1) => axes().next().map(|(_, step)| (row * step, step)),
            // The rows of the domain are the last axis here, or parts of it, or it is a part of them.
            (_, 2) if shape[1] == row => Some((strides[0] as usize, strides[1] as usize)),
            _ => None,
        };
    }

    /// Returns whether the elements of all chunks of whole rows are found where they are.
    pub(super) fn is_direct(&self, row: usize) -> bool {
        self.overwritten.is_none()
            && self.panel.is_none()
            && match (self.extent, self.grid) {
                (Extent::Full, Some((row_step, step))) => step == 1 && row_step == row,
                (Extent::PerRow, Some((row_step, _))) => row_step == 1,
                (Extent::Once, Some((_, step))) => step == 1,
                (_, None) => false,
            }
    }

    /// Returns the address of the elements of a chunk, which are copied into the register if they are not
    /// neighbours.
    pub(super) unsafe fn find(
        &self,
        bases: Bases<'_>,
        scratch: *mut u8,
        chunk: Chunk,
        row: usize,
    ) -> *const u8 {
        if let (Some(panel), Some(first)) = (self.panel, chunk.panel) {
            return scratch.wrapping_add(panel + ((chunk.row - first) * row + chunk.column) * self.size);
        }
        let base = bases.at::<u8>(self.value, self.offset * self.size).cast_const();
        let to = scratch.wrapping_add(self.register as usize);
        let (at, len) = match self.extent {
            Extent::Full => (chunk.row * row + chunk.column, chunk.len),
            Extent::PerRow => (chunk.row, chunk.rows),
            Extent::Once => (0, row),
        };
        // SAFETY: the caller's promise, and the register has room for a chunk.
        unsafe {
            match (self.grid, self.extent) {
                (Some((row_step, step)), Extent::Full) => {
                    let from = base.wrapping_add((chunk.row * row_step + chunk.column * step) * self.size);
                    let is_direct = chunk.len == 1 || (step == 1 && (chunk.rows == 1 || row_step == row));
                    if is_direct && self.overwritten.is_none() {
                        return from;
                    }
                    let run = chunk.len / chunk.rows;
                    for i in 0..chunk.rows {
                        let from = from.wrapping_add(i * row_step * self.size);
                        copy_run(from, to.wrapping_add(i * run * self.size), step, run, self.size);
                    }
                }
                (Some((row_step, _)), Extent::PerRow) => {
                    let from = base.wrapping_add(at * row_step * self.size);
                    if (len == 1 || row_step == 1) && self.overwritten.is_none() {
                        return from;
                    }
                    copy_run(from, to, row_step, len, self.size);
                }
                (Some((_, step)), Extent::Once) if step == 1 || len == 1 => return base,
                _ => self.copy(bases, at, len, to),
            }
        }
        to
    }

    /// Copies rows of a transposed operand beside each other.
    ///
    /// # Safety
    ///
    /// The rows can be read, and `to` has room for them, and the alignment of an element.
    pub(super) unsafe fn turn<T: Copy>(&self, bases: Bases<'_>, rows: std::ops::Range<usize>, to: *mut u8) {
        let (len, step) = (self.walk.run(), self.walk.step());
        let base = bases.at::<T>(self.value, self.offset).cast_const();
        let mut row = rows.start;
        while row < rows.end {
            let (place, left) = self.walk.locate_row(row);
            let n = left.min(rows.end - row);
            // SAFETY: these rows lie beside each other in the operand, and the target has room for them.
            unsafe {
                let from = std::slice::from_raw_parts(base.add(place), (len - 1) * step + n);
                let to = to.cast::<T>().add((row - rows.start) * len);
                fx_simd::transpose(from, step, std::slice::from_raw_parts_mut(to, n * len), len, n, len);
            }
            row += n;
        }
    }

    /// Copies the elements from a flat position on.
    ///
    /// # Safety
    ///
    /// The elements can be read, and `to` has room for them.
    pub(crate) unsafe fn copy(&self, bases: Bases<'_>, at: usize, len: usize, to: *mut u8) {
        let base = bases.at::<u8>(self.value, self.offset * self.size).cast_const();
        // SAFETY: the caller's promise.
        unsafe {
            match self.size {
                1 => self.gather::<u8>(base.cast(), to.cast(), at, len),
                2 => self.gather::<u16>(base.cast(), to.cast(), at, len),
                4 => self.gather::<u32>(base.cast(), to.cast(), at, len),
                _ => self.gather::<u64>(base.cast(), to.cast(), at, len),
            }
        }
    }

    unsafe fn gather<T: Copy>(&self, base: *const T, to: *mut T, at: usize, len: usize) {
        let step = self.walk.step();
        let mut done = 0;
        while done < len {
            let (place, left) = self.walk.locate(at + done);
            let n = left.min(len - done);
            // SAFETY: the run lies in the operand, and the register has room for it.
            unsafe { copy_elements(base.add(place), to.add(done), step, n) };
            done += n;
        }
    }
}

/// Copies elements of a size in bytes that are a step apart, beside each other.
///
/// # Safety
///
/// They can be read, and `to` has room for them.
pub(crate) unsafe fn copy_run(from: *const u8, to: *mut u8, step: usize, n: usize, size: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        match size {
            1 => copy_elements::<u8>(from, to, step, n),
            2 => copy_elements::<u16>(from.cast(), to.cast(), step, n),
            4 => copy_elements::<u32>(from.cast(), to.cast(), step, n),
            _ => copy_elements::<u64>(from.cast(), to.cast(), step, n),
        }
    }
}

unsafe fn copy_elements<T: Copy>(from: *const T, to: *mut T, step: usize, n: usize) {
    if n == 0 {
        return;
    }
    // SAFETY: the caller promises the elements on both sides.
    unsafe {
        match step {
            0 => std::slice::from_raw_parts_mut(to, n).fill(*from),
            1 => std::ptr::copy_nonoverlapping(from, to, n),
            _ => (0..n).for_each(|i| *to.add(i) = *from.add(i * step)),
        }
    }
}
