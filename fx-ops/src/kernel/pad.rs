//! Borders around arrays of any dtype.
//!
//! Each axis has a table of where its positions come from; the last axis is copied in runs.

use fx_core::array::{Sizes, checked_numel, dispatch_dtype, try_vec};
use fx_core::{Array, Element, Result, Scalar, Stored, bail};

/// What a border is made of.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Mode {
    /// One number.
    Constant(Scalar),
    /// The elements mirrored at the border element.
    Reflect,
    /// The border element.
    Replicate,
    /// The elements from the other end.
    Circular,
}

/// Adds `pairs[axis]` positions before and after each axis; negative numbers take away.
///
/// # Errors
///
/// When a size would be negative, or a border takes more than the axis has.
pub fn pad_array(x: &Array, pairs: &[[i64; 2]], mode: Mode) -> Result<Array> {
    let mut shape = Sizes::new();
    for (axis, &[before, after]) in pairs.iter().enumerate() {
        let old = x.shape()[axis];
        let size = (old as i64).checked_add(before).and_then(|size| size.checked_add(after));
        let Some(size) = size.and_then(|size| usize::try_from(size).ok()) else {
            bail!(
                Shape,
                "expected a padding that leaves a size of at least 0, got {before} and {after} for {old}"
            );
        };
        shape.push(size);
    }
    if checked_numel(&shape)? == 0 {
        return Array::zeros(x.dtype(), &shape);
    }
    let x = x.contiguous()?;
    dispatch_dtype!(x.dtype(), T => {
        let fill = match mode {
            Mode::Constant(value) => T::from_scalar(value),
            _ => T::default(),
        };
        let mut out = try_vec(checked_numel(&shape)?)?;
        let sources: Vec<Vec<Option<usize>>> = (shape.iter().zip(pairs).zip(x.shape()))
            .map(|((&size, &pair), &old)| (0..size).map(|at| source(at as i64 - pair[0], old, pair, mode)).collect())
            .collect::<Result<_>>()?;
        copy::<T>(x.as_slice().unwrap_or(&[]), x.shape(), &sources, fill, &mut out);
        Array::from_vec(out, &shape)
    })
}

/// Returns the position that shows at `at`, which may lie outside.
fn source(at: i64, old: usize, [before, after]: [i64; 2], mode: Mode) -> Result<Option<usize>> {
    let n = old as i64;
    let is_circular = mode == Mode::Circular;
    if (0..if is_circular { n + after.min(0) } else { n }).contains(&at) {
        return Ok(Some(at as usize));
    }
    let at = match mode {
        Mode::Constant(_) => return Ok(None),
        Mode::Reflect => {
            if at < 0 {
                -at
            } else {
                2 * (n - 1) - at
            }
        }
        Mode::Replicate => at.clamp(0, (n - 1).max(0)),
        // What is taken away takes no part in the circle.
        Mode::Circular => {
            let period = n + before.min(0) + after.min(0);
            if at < 0 { at + period } else { at - period }
        }
    };
    if !(0..n).contains(&at) {
        bail!(Shape, "expected a padding that the size {old} has elements for");
    }
    Ok(Some(at as usize))
}

fn copy<T: Element>(x: &[T], from: &[usize], sources: &[Vec<Option<usize>>], fill: T, out: &mut Vec<T>) {
    let Some((last, outer)) = sources.split_last() else {
        out.extend_from_slice(x);
        return;
    };
    let numel = sources.iter().map(Vec::len).product::<usize>();
    let width = from[from.len() - 1];
    // The positions of the last axis that come from neighbours.
    let first = last.iter().flatten().min().copied().unwrap_or(0);
    let start = last.iter().position(|&at| at == Some(first)).unwrap_or(0);
    let mut end = start;
    while end < last.len()
        && last[end].is_some_and(|at| Some(at) == last[start].map(|first| first + end - start))
    {
        end += 1;
    }
    let mut index = vec![0; outer.len()];
    while out.len() < numel {
        let row = outer
            .iter()
            .zip(&index)
            .zip(from)
            .try_fold(0, |row, ((sources, &i), &size)| sources[i].map(|at| row * size + at));
        match row {
            None => out.resize(out.len() + last.len(), fill),
            Some(row) => {
                let row = &x[row * width..][..width];
                let one = |at: &Option<usize>| at.map_or(fill, |at| row[at]);
                out.extend(last[..start].iter().map(one));
                if let Some(first) = last.get(start).copied().flatten().filter(|_| end > start) {
                    out.extend_from_slice(&row[first..first + end - start]);
                }
                out.extend(last[end..].iter().map(one));
            }
        }
        for axis in (0..outer.len()).rev() {
            index[axis] += 1;
            if index[axis] < outer[axis].len() {
                break;
            }
            index[axis] = 0;
        }
    }
}
