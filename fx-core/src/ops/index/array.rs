//! Indexing arrays: views for the basic entries, then one gather for all tensors among them.

use smallvec::SmallVec;

use super::entry::{self, Domain, Entry, bad_mask, bad_step, not_an_index, out_of_range};
use crate::array::{Runs, Sizes, StridedIndex, Strides, checked_numel, dispatch_dtype, try_vec};
use crate::pointwise::broadcast_shapes;
use crate::{Array, DType, Dim, Element, Result, Tensor, Value, bail, err};

/// Returns the elements of an array that an index names, as [`getitem`](super::getitem) does.
///
/// An index is one entry or a tuple of entries. Without tensors, lists and bools among them the result is a view.
pub fn index_array(x: &Array, index: &Value) -> Result<Array> {
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
                for positions in nonzero(&tensor)? {
                    advanced.push((at, positions));
                    at += 1;
                    axis += 1;
                }
            }
            Entry::Tensor(tensor) => {
                advanced.push((at, wrap(tensor, axis, x.shape()[axis])?));
                at += 1;
                axis += 1;
            }
        }
    }
    if advanced.is_empty() { Ok(view) } else { gather(&view, &advanced) }
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
    let mut positions = try_vec::<i64>(index.numel())?;
    for &i in index.as_slice::<i64>().unwrap_or(&[]) {
        positions.push(position(i, size).ok_or_else(|| out_of_range(i, axis, size))? as i64);
    }
    Array::from_vec(positions, index.shape())
}

/// Returns the positions of the true elements of a mask, one array an axis.
fn nonzero(mask: &Array) -> Result<Vec<Array>> {
    let rank = mask.rank();
    let data = mask.contiguous()?;
    let data = data.as_slice::<bool>().unwrap_or(&[]);
    let count = data.iter().filter(|&&x| x).count();
    let mut positions: Vec<Vec<i64>> = (0..rank).map(|_| try_vec(count)).collect::<Result<_>>()?;
    let mut index: Sizes = SmallVec::from_elem(0, rank);
    for &x in data {
        if x {
            positions.iter_mut().zip(&index).for_each(|(positions, &i)| positions.push(i as i64));
        }
        for axis in (0..rank).rev() {
            index[axis] += 1;
            if index[axis] < mask.shape()[axis] {
                break;
            }
            index[axis] = 0;
        }
    }
    positions.into_iter().map(|positions| Array::from_vec(positions, &[count])).collect()
}

/// Gathers by positions: their broadcast shape takes the place of the indexed axes if these are adjacent, else it comes first.
fn gather(x: &Array, advanced: &[(usize, Array)]) -> Result<Array> {
    let shape = broadcast_shapes(advanced.iter().map(|(_, index)| index.shape())).map_err(|error| {
        err!(Index, "the indices {} do not broadcast together", describe(advanced))
            .help(error.advice().unwrap_or("their sizes must be equal or 1").to_owned())
    })?;
    let n = checked_numel(&shape)?;
    let mut offsets = try_vec::<i64>(n)?;
    offsets.resize(n, 0);
    for (axis, index) in advanced {
        let stride = x.strides()[*axis] as i64;
        let wide = index.broadcast_to(&shape)?;
        let data = wide.data::<i64>()?;
        for (offset, [at]) in offsets.iter_mut().zip(StridedIndex::new(&shape, [(wide.strides(), 0)])) {
            *offset += data[at] * stride;
        }
    }
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
