//! Windows of a row, reduced side by side in whole vectors.

use fx_base::math::Real;

use super::{Pool, Window};

/// Windows of a row that are all alike beyond the borders of the input, where there is nothing.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bordered {
    /// The elements before the input that the first window has.
    pub(super) before: usize,
    /// How far windows are apart, how far their elements are, and how many these are.
    stride: usize,
    step: usize,
    len: usize,
    /// The elements of the line, and of the room for results: whole vectors.
    pub(super) line: usize,
    pub(super) results: usize,
}

impl Bordered {
    /// The most elements of a vector.
    const LANES: usize = 16;
    /// The most elements of a line beyond twice the input.
    const MOST_BORDER: usize = 512;

    /// Returns the windows of a row of this width, if they are such.
    pub(super) fn find(windows: &[Window], width: usize) -> Option<Bordered> {
        let len = windows.iter().map(|w| w.len()).max().filter(|len| *len > 0)?;
        let full = windows.iter().position(|w| w.len() == len)?;
        let (step, start) = (windows[full].step, windows[full].start as i64);
        let stride = match windows.get(full + 1).or(full.checked_sub(1).and_then(|at| windows.get(at))) {
            Some(other) => other.start.abs_diff(windows[full].start).max(1),
            None => 1,
        };
        let first = start - (full * stride) as i64;
        let is_clipped = |(i, w): (usize, &Window)| {
            let start = first + (i * stride) as i64;
            // The first element in the input, and the first one behind it.
            let taps = |room: i64| (room.max(0) as usize).div_ceil(step).min(len);
            let (from, to) = (taps(-start), taps(width as i64 - start));
            let is_there = to <= from || w.start as i64 == start + (from * step) as i64;
            w.step == step && is_there && w.len() == to.saturating_sub(from)
        };
        if first > 0 || !windows.iter().enumerate().all(is_clipped) {
            return None;
        }
        let (before, results) = (first.unsigned_abs() as usize, windows.len().next_multiple_of(Self::LANES));
        let line = (before + width).max(results * stride + (len - 1) * step);
        if line > 2 * width + Self::MOST_BORDER {
            return None;
        }
        // Halves of a line are whole.
        Some(Bordered { before, stride, step, len, line: line.next_multiple_of(2), results })
    }

    /// Joins the elements of each window of a line; `halves` has room for the line.
    #[inline(always)]
    pub(super) fn reduce<T: Real, P: Pool<T>>(&self, line: &[T], halves: &mut [T], results: &mut [T]) {
        match self.stride {
            1 => join_all::<T, P>(self.len, |k| &line[k * self.step..], results),
            2 => {
                // Elements at even and odd places, so that those of neighbouring windows are neighbours.
                let (even, odd) = halves.split_at_mut(line.len() / 2);
                let pairs = line.as_chunks::<2>().0.iter();
                pairs
                    .zip(&mut *even)
                    .zip(&mut *odd)
                    .for_each(|((&[a, b], even), odd)| (*even, *odd) = (a, b));
                let (even, odd) = (&*even, &*odd);
                let tap = |k: usize| match k * self.step {
                    at if at % 2 == 0 => &even[at / 2..],
                    at => &odd[at / 2..],
                };
                join_all::<T, P>(self.len, tap, results);
            }
            stride => {
                results.fill(P::start());
                for k in 0..self.len {
                    let elements = line[k * self.step..].iter().step_by(stride);
                    results.iter_mut().zip(elements).for_each(|(a, &b)| *a = P::join(*a, b));
                }
            }
        }
    }
}

/// Joins `n` lines, at least one, element by element.
#[inline(always)]
fn join_all<'a, T: Real, P: Pool<T>>(n: usize, line: impl Fn(usize) -> &'a [T], out: &mut [T]) {
    let first = line(0).iter();
    match n {
        1 => out.iter_mut().zip(first).for_each(|(out, &a)| *out = a),
        2 => {
            let lines = first.zip(line(1));
            out.iter_mut().zip(lines).for_each(|(out, (&a, &b))| *out = P::join(a, b));
        }
        _ => {
            let lines = first.zip(line(1)).zip(line(2));
            let join = |(out, ((&a, &b), &c)): (&mut T, ((&T, &T), &T))| *out = P::join(P::join(a, b), c);
            out.iter_mut().zip(lines).for_each(join);
        }
    }
    for i in 3..n {
        out.iter_mut().zip(line(i)).for_each(|(a, &b)| *a = P::join(*a, b));
    }
}
