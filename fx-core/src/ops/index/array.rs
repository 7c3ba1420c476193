//! Indexing arrays: views for the basic entries, then one gather for all tensors among them.

use super::entry::{self, Domain, Entry, bad_mask, bad_step, not_an_index, out_of_range};
use crate::array::{
    Runs, Sizes, StridedIndex, Strides, any_chunk, build, build_blocks, checked_numel, dispatch_dtype,
    try_vec,
};
use crate::pointwise::broadcast_shapes;
use crate::{Array, DType, Dim, Element, Result, Tensor, Value, bail, err};

/// Returns the elements of an array that an index names, as [`getitem`](super::getitem) does.
///
/// An index is one entry or a tuple of entries. Without tensors, lists and bools among them the result is a
/// view. Fails if the index does not fit the shape.
pub fn index_array(x: &Array, index: &Value) -> Result<Array> {
    let (view, advanced) = read(x, index)?;
    if advanced.is_empty() { Ok(view) } else { gather(&view, &advanced) }
}

/// Returns where the elements that an index names begin in the row-major order of `x`, and their shape, if
/// the index has one tensor for each of the first axes, or for several of them a mask, and nothing else;
/// `None` for other indices. Fails if the index does not fit the shape.
pub fn index_places(x: &Array, index: &Value) -> Result<Option<(Sizes, Vec<i64>)>> {
    let x = x.contiguous()?;
    let (view, advanced) = read(&x, index)?;
    let rest = view.rank() - advanced.len();
    let is_plain = !advanced.is_empty()
        && advanced.iter().enumerate().all(|(k, (axis, _))| *axis == k)
        && rest <= x.rank()
        && view.offset() == x.offset()
        && view.numel() == x.numel()
        && view.shape()[advanced.len()..] == x.shape()[x.rank() - rest..];
    if !is_plain {
        return Ok(None);
    }
    offsets(&view, &advanced).map(Some)
}

/// Reads an index: the view by its basic entries, and its tensors of positions with the axes of the view that
/// they name.
fn read(x: &Array, index: &Value) -> Result<(Array, Vec<(usize, Array)>)> {
    let entries = entry::read::<Values>(index, x.rank())?;
    // The axis of the result so far, and of `x`, for messages.
    let (mut view, mut at, mut axis) = (x.clone(), 0, 0);
    let mut advanced: Vec<(usize, Array)> = Vec::new();
    for entry in entries {
        match entry {
            Entry::At(i) => {
                let size = x.shape()[axis];
                let position = position(i, size).ok_or_else(|| out_of_range(i, axis, size))?;
                view = view.select(at, position)?;
                axis += 1;
            }
            Entry::Slice { start, stop, step } => {
                let size = x.shape()[axis];
                let step = step.unwrap_or(1);
                if step < 1 {
                    return Err(bad_step(step));
                }
                let start = start.map_or(0, |i| clamp(i, size));
                let stop = stop.map_or(size, |i| clamp(i, size));
                view = view.slice_axis(at, start, stop.max(start), step as usize)?;
                at += 1;
                axis += 1;
            }
            Entry::NewAxis => {
                view = view.unsqueeze(at)?;
                at += 1;
            }
            Entry::Ellipsis => bail!(Index, "an index has more than one `..`"),
            Entry::Flag(flag) => {
                view = view.unsqueeze(at)?;
                advanced.push((at, Array::from_vec(vec![0i64; flag.into()], &[flag.into()])?));
                at += 1;
            }
            Entry::Tensor(tensor) if tensor.dtype() == DType::Bool => {
                for (k, &size) in tensor.shape().iter().enumerate() {
                    if size != x.shape()[axis + k] {
                        return Err(bad_mask(size, axis + k, x.shape()[axis + k]));
                    }
                }
                // The axes of the mask become one.
                let rank = tensor.rank();
                let mut merged = Sizes::from_slice(&view.shape()[..at]);
                merged.push(tensor.numel());
                merged.extend_from_slice(&view.shape()[at + rank..]);
                view = view.reshape(&merged)?;
                let found = true_positions(&tensor)?;
                let count = found.len();
                advanced.push((at, Array::from_vec(found, &[count])?));
                at += 1;
                axis += rank;
            }
            Entry::Tensor(tensor) => {
                advanced.push((at, wrap(tensor, axis, x.shape()[axis])?));
                at += 1;
                axis += 1;
            }
        }
    }
    Ok((view, advanced))
}

enum Values {}

impl Domain for Values {
    type Leaf = Tensor;
    type Int = i64;
    type Tensor = Array;

    fn number(n: i64) -> i64 {
        n
    }

    fn dim(dim: &Dim) -> Result<i64> {
        dim.eval(&|_| None)
    }

    fn leaf(leaf: &Tensor) -> Result<Entry<Self>> {
        let array = leaf.array()?;
        match (array.dtype(), array.rank()) {
            (DType::Bool, 0) => Ok(Entry::Flag(array.item()?.to_bool())),
            (DType::Bool, _) => Ok(Entry::Tensor(array.clone())),
            (DType::I8 | DType::I32 | DType::I64, 0) => Self::int_leaf(leaf).map(Entry::At),
            (DType::I8 | DType::I32 | DType::I64, _) => Ok(Entry::Tensor(array.clone())),
            (other, _) => Err(not_an_index(other)),
        }
    }

    fn int_leaf(leaf: &Tensor) -> Result<i64> {
        let array = leaf.array()?;
        if !matches!(array.dtype(), DType::I8 | DType::I32 | DType::I64) {
            return Err(not_an_index(array.dtype()));
        }
        match array.item()? {
            crate::Scalar::Int(n) => Ok(n),
            _ => Err(not_an_index(array.dtype())),
        }
    }

    fn ints(shape: Sizes, items: Vec<i64>) -> Result<Array> {
        Array::from_vec(items, &shape)
    }

    fn bools(shape: Sizes, items: Vec<bool>) -> Result<Array> {
        Array::from_vec(items, &shape)
    }

    fn n_axes(tensor: &Array) -> usize {
        if tensor.dtype() == DType::Bool { tensor.rank() } else { 1 }
    }
}

/// Returns a possibly negative index as a position.
fn position(i: i64, size: usize) -> Option<usize> {
    let n = size as i64;
    let position = if i < 0 { i + n } else { i };
    (0..n).contains(&position).then_some(position as usize)
}

/// Returns a possibly negative bound of a slice as a position between 0 and `size`.
fn clamp(i: i64, size: usize) -> usize {
    let n = size as i64;
    (if i < 0 { i + n } else { i }).clamp(0, n) as usize
}

/// Returns the indices as positions: contiguous, none negative, all within the axis.
fn wrap(index: Array, axis: usize, size: usize) -> Result<Array> {
    let index = index.cast(DType::I64).contiguous()?;
    let raw = index.as_slice::<i64>().unwrap_or(&[]);
    // Compared as unsigned numbers, negative positions are out of range too.
    if !any(raw, |i| i as u64 >= size as u64) {
        return Ok(index);
    }
    let n = size as i64;
    if let Some(&bad) = raw.iter().find(|&&i| i < -n || i >= n) {
        return Err(out_of_range(bad, axis, size));
    }
    let fill = |at: usize, out: &mut [i64]| {
        out.iter_mut().zip(&raw[at..]).for_each(|(out, &i)| *out = if i < 0 { i + n } else { i });
    };
    Array::from_vec(build(raw.len(), fill)?, index.shape())
}

/// Returns whether a number is as asked, in parallel over chunks.
fn any(data: &[i64], wanted: impl Fn(i64) -> bool + Sync) -> bool {
    any_chunk(data, |block| block.iter().fold(false, |any, &i| any | wanted(i)))
}

/// Work on fewer elements stays on the calling thread.
const PARALLEL: usize = 1 << 15;

/// Returns the positions of the true elements of a mask in row-major order.
fn true_positions(mask: &Array) -> Result<Vec<i64>> {
    let mask = mask.contiguous()?;
    let data = mask.as_slice::<bool>().ok_or_else(|| err!(DType, "expected bool, got {}", mask.dtype()))?;
    crate::array::compacted(
        data.len(),
        &|at, marks| marks.copy_from_slice(&data[at..at + marks.len()]),
        |i| i as i64,
    )
}

/// Returns the broadcast shape of positions, and where their elements lie from the beginning of `x` on.
fn offsets(x: &Array, advanced: &[(usize, Array)]) -> Result<(Sizes, Vec<i64>)> {
    let shape = broadcast_shapes(advanced.iter().map(|(_, index)| index.shape())).map_err(|error| {
        err!(Index, "the indices {} do not broadcast together", describe(advanced))
            .help(error.advice().unwrap_or("their sizes must be equal or 1").to_owned())
    })?;
    let n = checked_numel(&shape)?;
    let dense: Vec<(Array, i64)> = advanced
        .iter()
        .map(|(axis, index)| Ok((index.broadcast_to(&shape)?.contiguous()?, x.strides()[*axis] as i64)))
        .collect::<Result<_>>()?;
    let parts: Vec<(&[i64], i64)> =
        dense.iter().map(|(index, stride)| (index.as_slice::<i64>().unwrap_or(&[]), *stride)).collect();
    let sums = build(n, |at, out: &mut [i64]| {
        for (data, stride) in &parts {
            out.iter_mut().zip(&data[at..]).for_each(|(out, &i)| *out += i * stride);
        }
    })?;
    Ok((shape, sums))
}

/// Gathers by positions: their broadcast shape takes the place of the indexed axes if these are adjacent,
/// else it comes first.
fn gather(x: &Array, advanced: &[(usize, Array)]) -> Result<Array> {
    let (shape, offsets) = offsets(x, advanced)?;
    let first = advanced[0].0;
    let is_adjacent = advanced.iter().enumerate().all(|(k, (axis, _))| *axis == first + k);
    let n_before = if is_adjacent { first } else { 0 };
    let rest: Vec<usize> =
        (0..x.rank()).filter(|axis| !advanced.iter().any(|(indexed, _)| indexed == axis)).collect();
    let part = |axes: &[usize]| -> (Sizes, Strides) {
        (
            axes.iter().map(|&axis| x.shape()[axis]).collect(),
            axes.iter().map(|&axis| x.strides()[axis]).collect(),
        )
    };
    let (before, after) = (part(&rest[..n_before]), part(&rest[n_before..]));
    let out: Sizes = before.0.iter().chain(&shape).chain(&after.0).copied().collect();
    dispatch_dtype!(x.dtype(), T => Array::from_vec(copy::<T>(x.data()?, &before, &offsets, &after, &out)?, &out))
}

/// Copies, for each index of the axes before and each offset, the elements along the axes after.
fn copy<T: Element>(
    data: &[T],
    before: &(Sizes, Strides),
    offsets: &[i64],
    after: &(Sizes, Strides),
    out: &[usize],
) -> Result<Vec<T>> {
    let numel = checked_numel(out)?;
    let mut result = try_vec::<T>(numel)?;
    if numel == 0 {
        return Ok(result);
    }
    let runs = Runs::new(&after.0, [(&after.1, 0)]);
    let (len, [stride]) = (runs.run_len(), runs.run_strides());
    let starts: Vec<usize> = runs.map(|[start]| start).collect();
    if before.0.is_empty() && starts.len() == 1 && (len == 1 || stride == 1) {
        if len == 1 {
            return build(numel, |at, out| {
                out.iter_mut().zip(&offsets[at..]).for_each(|(out, &i)| *out = data[i as usize]);
            });
        }
        return build_blocks(numel, len, PARALLEL.div_ceil(len), &|at, out| {
            fx_simd::copy(&data[offsets[at / len] as usize..][..len], out);
        });
    }
    for [base] in StridedIndex::new(&before.0, [(&before.1, 0)]) {
        for offset in offsets {
            for start in &starts {
                let at = base + *offset as usize + start;
                match (len, stride) {
                    (1, _) => result.push(data[at]),
                    (_, 1) => result.extend_from_slice(&data[at..at + len]),
                    _ => result.extend((0..len).map(|i| data[at + i * stride as usize])),
                }
            }
        }
    }
    Ok(result)
}

fn describe(advanced: &[(usize, Array)]) -> String {
    advanced.iter().map(|(_, index)| format!("{:?}", index.shape())).collect::<Vec<_>>().join(" and ")
}
