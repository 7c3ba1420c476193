//! Distinct elements and sub-tensors.
//!
//! Elements are equal as `==` says: 0 and -0 are, a NaN equals nothing. Elements are sorted, with their
//! places if these are asked for. Sub-tensors are found by hashing, so that only the distinct ones are
//! sorted; no hash order reaches the result.

use std::cmp::Ordering;
use std::collections::HashMap;

use fx_core::array::{Sizes, compacted};
use fx_core::op::kind::{IntoType, IntoValue};
use fx_core::{Arg, Array, DType, Dim, Op, Result, Stored, TensorType, TypeTree, Value, bail, err, kernels};
use rayon::prelude::*;

use crate::kernel::chunks::PARALLEL;
use crate::ops::check::{at_least, slice};
use crate::ops::infer::{axis, axis_of, type_of, typed};
use crate::ops::reduce::min_max::{Ordered, comparable, dispatch_ordered};
use crate::ops::reduce::order;
use crate::ops::search::fresh_size;
use crate::ops::view::take_rows;

kernels! {
    /// Operations that find distinct elements.
    pub trait Uniques; pub static UNIQUES;

    /// The distinct elements in ascending order, or the distinct sub-tensors along `dim` in lexicographic order.
    ///
    /// With `return_inverse` or `return_counts` a tuple: then for each element of `x`, or position along
    /// `dim`, where it is in the result, then how often each occurs. The result is sorted also without
    /// `sorted`, as PyTorch's is.
    unique(x: Tensor; sorted: Bool = true, return_inverse: Bool = false, return_counts: Bool = false, dim: OptInt = None) =
        |x, _sorted, inverse, counts, dim| unique_type(x, inverse, counts, dim),
        |x: &Array, _sorted, inverse, counts, dim| unique_array(x, inverse, counts, dim, false);
    /// The elements, or the sub-tensors along `dim`, that differ from the one before; results are as of `unique`.
    unique_consecutive(x: Tensor; return_inverse: Bool = false, return_counts: Bool = false, dim: OptInt = None) =
        unique_type, |x: &Array, inverse, counts, dim| unique_array(x, inverse, counts, dim, true);
}

/// The tables of this file.
pub(super) static TABLES: &[&[Op]] = &[UNIQUES];

fn unique_type(x: &TensorType, inverse: bool, counts: bool, dim: Option<Dim>) -> Result<TypeTree> {
    let (out, inverse_shape, count) = match dim {
        None => {
            let count = fresh_size(&x.shape.numel());
            (typed(x.dtype, [count.clone()])?, x.shape.to_vec(), count)
        }
        Some(dim) => {
            let at = axis_of(&dim, x.rank())?;
            let size = x.shape[at].clone();
            for (axis, other) in x.shape.iter().enumerate() {
                if axis != at {
                    at_least("a size beside the axis", 1, other)?;
                }
            }
            let mut shape = x.shape.to_vec();
            let count = fresh_size(&size);
            shape[at] = count.clone();
            (typed(x.dtype, shape)?, vec![size], count)
        }
    };
    let inverse_type = typed(DType::I64, inverse_shape)?;
    results(out, inverse.then_some(inverse_type), counts.then(|| typed(DType::I64, [count])).transpose()?)
}

/// Returns a result alone, or with what was asked for as a tuple.
fn results<T: IntoType>(out: T, inverse: Option<T>, counts: Option<T>) -> Result<TypeTree> {
    let more: Vec<TypeTree> = inverse.into_iter().chain(counts).map(T::into_type).collect();
    let out = out.into_type();
    Ok(if more.is_empty() { out } else { Arg::tuple([vec![out], more].concat()) })
}

fn unique_array(
    x: &Array,
    inverse: bool,
    counts: bool,
    dim: Option<i64>,
    consecutive: bool,
) -> Result<Value> {
    unique_type(&type_of(x), inverse, counts, dim.map(Dim::new))?;
    let (rows, at) = match dim {
        None => (x.reshape(&[x.numel()])?, 0),
        Some(dim) => (x.clone(), axis(dim, x.rank())?),
    };
    if rows.rank() == 1 && !inverse && !counts {
        return Ok(distinct(&rows, consecutive)?.cast(x.dtype()).into_value());
    }
    let groups = Groups::of(&rows, at, consecutive)?;
    let values = take_rows(&rows, at, &groups.first)?;
    let n = groups.first.len();
    let inverse_shape =
        if dim.is_some() { Sizes::from_slice(&[rows.shape()[at]]) } else { Sizes::from_slice(x.shape()) };
    let mut out = vec![values.into_value()];
    if inverse {
        out.push(Array::from_vec(groups.inverse, &inverse_shape)?.into_value());
    }
    if counts {
        out.push(Array::from_vec(groups.counts, &[n])?.into_value());
    }
    Ok(if out.len() == 1 { out.swap_remove(0) } else { Arg::tuple(out) })
}

/// Returns the distinct elements of a vector alone, in ascending order or, of neighbours, in theirs.
fn distinct(x: &Array, consecutive: bool) -> Result<Array> {
    let dense = comparable(x).contiguous()?;
    let out = dispatch_ordered!(x.dtype(), T => {
        let data = slice::<T>(&dense);
        let found = if consecutive { changes(data)? } else { sorted_set(data)? };
        let n = found.len();
        Array::from_vec(found, &[n])?
    });
    Ok(out)
}

/// Returns the elements that differ from the one before.
fn changes<T: Ordered>(data: &[T]) -> Result<Vec<T>> {
    let mark = |at: usize, marks: &mut [bool]| {
        let before = at.saturating_sub(1);
        let first = usize::from(at == 0);
        marks[..first].fill(true);
        let n = marks.len();
        fx_simd::call_256::<differ, _>((&data[before..], &data[at + first..at + n], &mut marks[first..]));
    };
    compacted(data.len(), &mark, |i| data[i])
}

fx_simd::wide! {
    /// Marks elements that differ from those of another slice.
    fn differ[T: PartialEq]((before, data, marks): (&[T], &[T], &mut [bool])) {
        marks.iter_mut().zip(before).zip(data).for_each(|((mark, a), b)| *mark = a != b);
    }
}

/// Returns the distinct elements in ascending order, then every NaN; of equal ones the first.
fn sorted_set<T: Ordered>(data: &[T]) -> Result<Vec<T>> {
    let mut items = Vec::new();
    items.try_reserve_exact(data.len()).map_err(|_| err!(Limit, "cannot sort {} elements", data.len()))?;
    items.extend(data.iter().copied().filter(|x| !x.is_nan()));
    let compare = |a: &T, b: &T| if a.below(*b) { Ordering::Less } else { b.below(*a).cmp(&false) };
    if items.len() < PARALLEL {
        items.sort_unstable_by(compare);
    } else {
        items.par_sort_unstable_by(compare);
    }
    items.dedup();
    // Only 0 and -0 are equal and yet different.
    let zero = T::default();
    if let Some(first) = data.iter().find(|x| **x == zero) {
        items.iter_mut().filter(|x| **x == zero).for_each(|x| *x = *first);
    }
    items.extend(data.iter().copied().filter(|x| x.is_nan()));
    Ok(items)
}

/// Equal sub-tensors, in the order of the result.
struct Groups {
    /// The position of the first of each group.
    first: Vec<usize>,
    /// The group of each position.
    inverse: Vec<i64>,
    /// The size of each group.
    counts: Vec<i64>,
}

impl Groups {
    fn of(x: &Array, at: usize, consecutive: bool) -> Result<Groups> {
        let n = x.shape()[at];
        let mut axes: Vec<usize> = (0..x.rank()).filter(|&axis| axis != at).collect();
        axes.insert(0, at);
        let dense = comparable(x).permute(&axes)?.contiguous()?;
        let width = x.numel() / n.max(1);
        if width == 0 && n > 0 {
            bail!(Shape, "expected no size of 0 beside axis {at}, got {}", x.describe());
        }
        Ok(dispatch_ordered!(x.dtype(), T => {
            let data = slice::<T>(&dense);
            let row = |i: usize| &data[i * width..][..width];
            match (consecutive, width) {
                (true, _) => Groups::consecutive(n, |a, b| row(a) == row(b)),
                (false, 1) => Groups::sorted(data),
                (false, _) => {
                    let keys: Vec<u64> = data.iter().map(|&x| key(x)).collect();
                    let key = |i: usize| {
                        (!row(i).iter().any(|x| x.is_nan())).then(|| &keys[i * width..][..width])
                    };
                    Groups::hashed(n, key, |a, b| lexicographic(row(a), row(b)))
                }
            }
        }))
    }

    /// Groups runs of equal neighbours.
    fn consecutive(n: usize, equal: impl Fn(usize, usize) -> bool) -> Groups {
        let mut groups = Groups { first: Vec::new(), inverse: Vec::with_capacity(n), counts: Vec::new() };
        for i in 0..n {
            if i == 0 || !equal(i - 1, i) {
                groups.first.push(i);
                groups.counts.push(0);
            }
            *groups.counts.last_mut().expect("the first position opens a group") += 1;
            groups.inverse.push(groups.first.len() as i64 - 1);
        }
        groups
    }

    /// Groups equal elements, in ascending order.
    fn sorted<T: Ordered>(data: &[T]) -> Groups {
        let mut items: Vec<(u64, usize)> = data.iter().map(|x| x.key()).zip(0..).collect();
        if items.len() < PARALLEL {
            items.sort_unstable();
        } else {
            items.par_sort_unstable();
        }
        let mut groups = Groups { first: Vec::new(), inverse: vec![0; data.len()], counts: Vec::new() };
        for (i, &(x, at)) in items.iter().enumerate() {
            if i == 0 || items[i - 1].0 != x || Some(x) == T::NAN_KEY {
                groups.first.push(at);
                groups.counts.push(0);
            }
            *groups.counts.last_mut().expect("the first element opens a group") += 1;
            groups.inverse[at] = groups.first.len() as i64 - 1;
        }
        groups
    }

    /// Groups by key and sorts the groups; what has no key is a group of its own.
    fn hashed<K: std::hash::Hash + Eq>(
        n: usize,
        key: impl Fn(usize) -> Option<K>,
        compare: impl Fn(usize, usize) -> Ordering,
    ) -> Groups {
        let mut seen: HashMap<K, usize> = HashMap::new();
        let (mut first, mut counts) = (Vec::new(), Vec::new());
        let mut inverse = Vec::with_capacity(n);
        for i in 0..n {
            let next = first.len();
            let group = key(i).map_or(next, |key| *seen.entry(key).or_insert(next));
            if group == next {
                first.push(i);
                counts.push(0);
            }
            counts[group] += 1;
            inverse.push(group as i64);
        }
        let mut sorted: Vec<usize> = (0..first.len()).collect();
        sorted.sort_by(|&a, &b| compare(first[a], first[b]));
        let mut place = vec![0; sorted.len()];
        for (to, &group) in sorted.iter().enumerate() {
            place[group] = to as i64;
        }
        inverse.iter_mut().for_each(|group| *group = place[*group as usize]);
        Groups {
            first: sorted.iter().map(|&group| first[group]).collect(),
            inverse,
            counts: sorted.iter().map(|&group| counts[group]).collect(),
        }
    }
}

/// Returns bits that are equal for equal elements.
fn key<T: Ordered + Stored>(x: T) -> u64 {
    if x == T::default() { 0 } else { x.bits() }
}

fn lexicographic<T: Ordered>(a: &[T], b: &[T]) -> Ordering {
    let pairs = a.iter().zip(b);
    pairs.map(|(&a, &b)| order(a, b, false)).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}
