//! Sorting and scans along an axis.

use std::cmp::Ordering;

use fx_core::array::build_blocks;
use fx_core::op::Flops::PerOutput;
use fx_core::{Array, DType, Dim, Element, Result, Tensor, TensorType, bail, kernels};

use super::fold::{Lines, slice};
use super::min_max::{Ordered, comparable, dispatch_ordered};
use super::sums::{total_dtype, wide};
use crate::kernel::chunks::{PARALLEL, fill_row_pairs, fill_rows};
use crate::kernel::radix_sort::{self, Key};
use crate::kernel::select::{self, nth_element, partial_sort};
use crate::ops::infer::{axis_or_only, known, type_of, typed};

kernels! {
    /// Sorting and scans along an axis.
    pub trait Orders; pub static ORDERS;

    /// The elements in ascending or descending order along `dim`, and where they were. Always stable; NaN
    /// counts as the greatest.
    sort(x: Tensor, dim: Int = -1, descending: Bool = false; stable: Bool = false) -> (Tensor, Tensor) = sort_type, sort_array;
    /// The positions that would sort `x` along `dim`.
    argsort(x: Tensor, dim: Int = -1, descending: Bool = false; stable: Bool = false) =
        |x, dim, descending, stable| Ok::<_, fx_core::Error>(sort_type(x, dim, descending, stable)?.1),
        |x: &Array, dim, descending, stable| Ok::<_, fx_core::Error>(sort_array(x, dim, descending, stable)?.1);
    /// The elements in ascending order along the first axis.
    msort(x: Tensor) = |x: &TensorType| Ok::<_, fx_core::Error>(x.clone()),
        |x: &Array| Ok::<_, fx_core::Error>(sort_array(x, 0, false, true)?.0);
    /// The `k` greatest or least elements along `dim`, in order unless `sorted` is false, and where they
    /// were. NaN counts as the greatest. Which of several equal elements are named, and in which order, is as
    /// in PyTorch.
    topk(x: Tensor, k: Int, dim: Int = -1, largest: Bool = true, sorted: Bool = true) -> (Tensor, Tensor) = topk_type, topk_array;
    /// The sums of all elements up to each one along `dim`. Integers and bools are summed as i64.
    #[flops = PerOutput(1)]
    cumsum(x: Tensor, dim: Int; dtype: OptDType = None) = scan_type, |x: &Array, dim, dtype| scan(x, dim, dtype, false);
    /// The products of all elements up to each one along `dim`. Integers and bools are multiplied as i64.
    #[flops = PerOutput(1)]
    cumprod(x: Tensor, dim: Int; dtype: OptDType = None) = scan_type, |x: &Array, dim, dtype| scan(x, dim, dtype, true);
    /// The greatest element up to each one along `dim`, and the position of the last such; NaN stays.
    cummax(x: Tensor, dim: Int) -> (Tensor, Tensor) = extreme_scan_type, |x: &Array, dim| extreme_scan(x, dim, true);
    /// The least element up to each one along `dim`, and the position of the last such; NaN stays.
    cummin(x: Tensor, dim: Int) -> (Tensor, Tensor) = extreme_scan_type, |x: &Array, dim| extreme_scan(x, dim, false);
}

fn indices_of(x: &TensorType) -> TensorType {
    TensorType { dtype: DType::I64, shape: x.shape.clone() }
}

fn sort_type(x: &TensorType, dim: Dim, _descending: bool, _stable: bool) -> Result<(TensorType, TensorType)> {
    axis_or_only(known(&dim)?, x.rank())?;
    Ok((x.clone(), indices_of(x)))
}

/// Orders elements, NaN last; descending, NaN first.
pub(crate) fn order<T: Ordered>(a: T, b: T, descending: bool) -> Ordering {
    let (a, b) = if descending { (b, a) } else { (a, b) };
    match (a.is_nan(), b.is_nan()) {
        (false, false) if a.below(b) => Ordering::Less,
        (false, false) if b.below(a) => Ordering::Greater,
        (a, b) => a.cmp(&b),
    }
}

/// The key of an element, and where it was.
pub(super) type Item = (u64, i64);

/// Returns the elements of a row by their keys, which are in the order of the elements.
pub(super) fn keyed<T: Ordered>(row: &[T], descending: bool) -> Vec<Item> {
    let flip = if descending { u64::MAX } else { 0 };
    row.iter().map(|x| x.key() ^ flip).zip(0..).collect()
}

pub(crate) fn sort_array(x: &Array, dim: i64, descending: bool, _stable: bool) -> Result<(Array, Array)> {
    let lines = Lines::new(&comparable(x), dim)?;
    let (values, indices) = dispatch_ordered!(x.dtype(), T => {
        let data = lines.data::<T>()?;
        let n = lines.n;
        let (values, indices) = fill_row_pairs::<T, i64>(lines.n_rows, n, n * 8, |row, values, indices| {
            sort_row(&data[row * n..][..n], descending, values, indices);
        })?;
        (lines.restore(values, n)?, lines.restore(indices, n)?)
    });
    Ok((values.cast(x.dtype()), indices))
}

/// Rows shorter than this are sorted by comparing.
const SHORT: usize = 128;

/// Sorts a row, stably, and tells where the elements were.
fn sort_row<T: Ordered>(row: &[T], descending: bool, values: &mut [T], indices: &mut [i64]) {
    if row.len() < SHORT || u32::try_from(row.len()).is_err() {
        let mut items = keyed(row, descending);
        items.sort_unstable();
        for ((value, index), (_, at)) in values.iter_mut().zip(indices).zip(items) {
            (*value, *index) = (row[at as usize], at);
        }
        return;
    }
    let keys = row.iter().map(|x| x.key());
    let (least, greatest) =
        keys.fold((u64::MAX, 0), |(least, greatest), key| (least.min(key), greatest.max(key)));
    let bits = u64::BITS - (greatest - least).leading_zeros();
    let key = |x: &T| if descending { greatest - x.key() } else { x.key() - least };
    let order = if bits <= u32::BITS {
        sorted_places(row.iter().map(|x| key(x) as u32), bits)
    } else {
        sorted_places(row.iter().map(key), bits)
    };
    for ((value, index), at) in values.iter_mut().zip(indices).zip(order) {
        (*value, *index) = (row[at as usize], i64::from(at));
    }
}

/// Returns the places of keys of at most `bits` bits in the order of the keys.
fn sorted_places<K: Key>(keys: impl Iterator<Item = K>, bits: u32) -> Vec<u32> {
    let mut pairs: Vec<(K, u32)> = keys.zip(0..).collect();
    let mut other = vec![(K::default(), 0); pairs.len()];
    radix_sort::sort(&mut pairs, &mut other, bits);
    pairs.into_iter().map(|(_, at)| at).collect()
}

fn topk_type(
    x: &TensorType,
    k: Dim,
    dim: Dim,
    _largest: bool,
    _sorted: bool,
) -> Result<(TensorType, TensorType)> {
    let at = axis_or_only(known(&dim)?, x.rank())?;
    let size = x.shape.get(at).cloned().unwrap_or(Dim::new(1));
    if k.less(&Dim::new(0)).is_yes() || size.less(&k).is_yes() {
        bail!(Argument, "expected k from 0 to {size}, got {k}");
    }
    let mut shape = x.shape.clone();
    if let Some(size) = shape.dims_mut().get_mut(at) {
        *size = k;
    }
    let ty = typed(x.dtype, shape.iter().cloned())?;
    Ok((ty.clone(), indices_of(&ty)))
}

fn topk_array(x: &Array, k: i64, dim: i64, largest: bool, sorted: bool) -> Result<(Array, Array)> {
    topk_type(&type_of(x), k.into(), dim.into(), largest, sorted)?;
    let k = k as usize;
    if x.rank() == 0 {
        // Rank 0 has one element whatever `k` is, as in PyTorch.
        return Ok((x.clone(), Array::scalar(0i64)));
    }
    let lines = Lines::new(&comparable(x), dim)?;
    let (values, indices) = dispatch_ordered!(x.dtype(), T => {
        let data = lines.data::<T>()?;
        let n = lines.n;
        let (values, indices) = fill_row_pairs::<T, i64>(lines.n_rows, k, n * 4, |row, values, indices| {
            let row = &data[row * n..][..n];
            let mut items = keyed(row, largest);
            select_top(&mut items, k, sorted);
            for ((value, index), (_, at)) in values.iter_mut().zip(indices).zip(items) {
                (*value, *index) = (row[at as usize], at);
            }
        })?;
        (lines.restore(values, k)?, lines.restore(indices, k)?)
    });
    Ok((values.cast(x.dtype()), indices))
}

/// Moves the `k` first elements to the front: which of several equal ones is as in PyTorch.
fn select_top(items: &mut [Item], k: usize, sorted: bool) {
    let before = |a: &Item, b: &Item| a.0 < b.0;
    if k == 0 {
        return;
    }
    // Few of many are kept in a heap.
    if k.saturating_mul(64) <= items.len() {
        return partial_sort(items, k, &before);
    }
    nth_element(items, k - 1, &before);
    if sorted {
        select::sort(&mut items[..k - 1], &before);
    }
}

fn scan_type(x: &TensorType, dim: Dim, dtype: Option<DType>) -> Result<TensorType> {
    axis_or_only(known(&dim)?, x.rank())?;
    Ok(TensorType { dtype: total_dtype(x.dtype, dtype), shape: x.shape.clone() })
}

pub(crate) fn scan(x: &Array, dim: i64, dtype: Option<DType>, product: bool) -> Result<Array> {
    let dtype = total_dtype(x.dtype(), dtype);
    let x = x.cast(dtype).cast(wide(dtype));
    let out = match (wide(dtype), product) {
        (DType::F64, false) => scan_along(&x, dim, 0.0, |a: f64, x: f64| a + x, |a, b| a + b, |a| a),
        (DType::F64, true) => scan_along(&x, dim, 1.0, |a: f64, x: f64| a * x, |a, b| a * b, |a| a),
        (DType::F32, false) => {
            scan_along(&x, dim, 0.0, |a: f64, x: f32| a + f64::from(x), |a, b| a + b, |a| a as f32)
        }
        (DType::F32, true) => {
            scan_along(&x, dim, 1.0, |a: f64, x: f32| a * f64::from(x), |a, b| a * b, |a| a as f32)
        }
        (_, false) => scan_along(&x, dim, 0, i64::wrapping_add, i64::wrapping_add, |a| a),
        (_, true) => scan_along(&x, dim, 1, i64::wrapping_mul, i64::wrapping_mul, |a| a),
    };
    Ok(out?.cast(dtype))
}

/// The fewest columns that are scanned side by side.
const IM2COL: usize = 16;

/// Scans along an axis; `join` makes one state of two.
fn scan_along<T: Element, A: Element>(
    x: &Array,
    dim: i64,
    init: A,
    step: impl Fn(A, T) -> A + Sync,
    join: impl Fn(A, A) -> A,
    finish: impl Fn(A) -> T + Sync,
) -> Result<Array> {
    let at = axis_or_only(dim, x.rank())?;
    let inner: usize = x.shape().iter().skip(at + 1).product();
    if inner < IM2COL || x.is_empty() {
        return scan_lines(&Lines::new(x, dim)?, init, step, finish);
    }
    let dense = x.contiguous()?;
    let (data, n) = (slice::<T>(&dense)?, x.shape()[at]);
    // Blocks of rows: first what each adds, then where each begins, then their results.
    let height = PARALLEL.div_ceil(inner);
    let rows = data.len() / inner;
    let block = |i: usize| i * height..((i + 1) * height).min(rows);
    let line = |row: usize| &data[row * inner..][..inner];
    let sums = fill_rows::<A>(rows.div_ceil(height) - 1, inner, height * inner, |i, sums| {
        let first = block(i).rev().find(|row| row % n == 0).unwrap_or(block(i).start);
        sums.fill(init);
        for row in first..block(i).end {
            fx_simd::call_256::<scan_sums, _>((&mut *sums, line(row), &step));
        }
    })?;
    let mut starts = vec![init; inner];
    for (i, sums) in sums.chunks(inner).enumerate() {
        let goes_on = block(i).all(|row| row % n != 0);
        for j in 0..inner {
            let before = starts[i * inner + j];
            starts.push(if goes_on { join(before, sums[j]) } else { sums[j] });
        }
    }
    let out = build_blocks(data.len(), height * inner, 1, &|at, out: &mut [T]| {
        let first = at / inner;
        let mut state = starts[first / height * inner..][..inner].to_vec();
        for (row, out) in (first..).zip(out.chunks_mut(inner)) {
            if row % n == 0 {
                state.fill(init);
            }
            fx_simd::call_256::<scan_row, _>((&mut state[..], line(row), out, &step, &finish));
        }
    })?;
    Array::from_vec(out, x.shape())
}

fx_simd::wide! {
    fn scan_sums[A: Copy, T: Copy, S: Fn(A, T) -> A]((sums, line, step): (&mut [A], &[T], &S)) {
        sums.iter_mut().zip(line).for_each(|(sum, &x)| *sum = step(*sum, x));
    }

    fn scan_row[A: Copy, T: Copy, S: Fn(A, T) -> A, F: Fn(A) -> T]((state, line, out, step, finish): (&mut [A], &[T], &mut [T], &S, &F)) {
        for ((state, &x), out) in state.iter_mut().zip(line).zip(out) {
            *state = step(*state, x);
            *out = finish(*state);
        }
    }
}

/// The lines that are scanned side by side: a state waits for the one before it, but not for those of other lines.
const LINES: usize = 4;

pub(crate) fn scan_lines<T: Element, A: Copy + Sync>(
    lines: &Lines,
    init: A,
    step: impl Fn(A, T) -> A + Sync,
    finish: impl Fn(A) -> T + Sync,
) -> Result<Array> {
    let data = lines.data::<T>()?;
    let n = lines.n;
    let (numel, block) = (lines.n_rows * n, (LINES * n).max(1));
    let at_once = if numel < PARALLEL { numel } else { PARALLEL / 8 }.div_ceil(block);
    let out = build_blocks(numel, block, at_once, &|at, out: &mut [T]| {
        let x = &data[at..][..out.len()];
        if out.len() == block {
            return scan_together::<_, _, LINES>(x, out, init, &step, &finish);
        }
        for (x, out) in x.chunks(n).zip(out.chunks_mut(n)) {
            scan_together::<_, _, 1>(x, out, init, &step, &finish);
        }
    })?;
    lines.restore(out, n)
}

/// Scans `N` lines that lie one after the other.
fn scan_together<T: Copy, A: Copy, const N: usize>(
    x: &[T],
    out: &mut [T],
    init: A,
    step: impl Fn(A, T) -> A,
    finish: impl Fn(A) -> T,
) {
    let n = x.len() / N;
    let lines: [&[T]; N] = std::array::from_fn(|i| &x[i * n..][..n]);
    let mut rest = out;
    let out: [&mut [T]; N] = std::array::from_fn(|_| rest.split_off_mut(..n).expect("a line is left"));
    let mut states = [init; N];
    for at in 0..n {
        for i in 0..N {
            states[i] = step(states[i], lines[i][at]);
            out[i][at] = finish(states[i]);
        }
    }
}

fn extreme_scan_type(x: &TensorType, dim: Dim) -> Result<(TensorType, TensorType)> {
    axis_or_only(known(&dim)?, x.rank())?;
    Ok((x.clone(), indices_of(x)))
}

fn extreme_scan(x: &Array, dim: i64, max: bool) -> Result<(Array, Array)> {
    let lines = Lines::new(&comparable(x), dim)?;
    let (values, indices) = dispatch_ordered!(x.dtype(), T => {
        let data = lines.data::<T>()?;
        let n = lines.n;
        let (values, indices) = fill_row_pairs::<T, i64>(lines.n_rows, n, n, |row, values, indices| {
            let row = &data[row * n..][..n];
            let mut best = 0;
            for (i, &x) in row.iter().enumerate() {
                let beaten = if max { x.below(row[best]) } else { row[best].below(x) };
                if x.is_nan() || !beaten && !row[best].is_nan() {
                    best = i;
                }
                (values[i], indices[i]) = (row[best], best as i64);
            }
        })?;
        (lines.restore(values, n)?, lines.restore(indices, n)?)
    });
    Ok((values.cast(x.dtype()), indices))
}
