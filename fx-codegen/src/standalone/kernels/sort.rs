//! Sorting of rows; NaN counts as the greatest element.

use core::cmp::Ordering;

use super::math::{self, Real};
use super::select;

/// Compares two elements.
#[inline(always)]
pub fn order<T: Copy + PartialOrd>(a: T, b: T) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| (a != a).cmp(&(b != b)))
}

/// Sorts each row of `n` elements; equal ones keep their order. `index` gets where each was; `spare` holds a row.
pub fn sort<T: Copy + PartialOrd>(
    x: &[T],
    n: usize,
    descending: bool,
    out: &mut [T],
    index: &mut [i64],
    spare: &mut [i64],
) {
    if n == 0 {
        return;
    }
    for ((x, out), index) in x.chunks_exact(n).zip(out.chunks_exact_mut(n)).zip(index.chunks_exact_mut(n)) {
        sort_positions(x, descending, index, spare);
        for (out, &at) in out.iter_mut().zip(&*index) {
            *out = x[at as usize];
        }
    }
}

/// Finds the `k` first elements of each row of `n`, and where they are: with `sorted` in order. Which of several
/// equal elements are found is as in PyTorch. `order` holds a row.
#[allow(clippy::too_many_arguments, reason = "the sizes of a kernel are its arguments")]
pub fn top<T: Copy + PartialOrd>(
    x: &[T],
    n: usize,
    k: usize,
    largest: bool,
    sorted: bool,
    out: &mut [T],
    index: &mut [i64],
    order: &mut [i64],
) {
    if n == 0 || k == 0 {
        return;
    }
    for ((x, out), index) in x.chunks_exact(n).zip(out.chunks_exact_mut(k)).zip(index.chunks_exact_mut(k)) {
        let order = &mut order[..n];
        number(order);
        let before = |a: &i64, b: &i64| {
            let (a, b) = (x[*a as usize], x[*b as usize]);
            // NaN is the greatest.
            if largest { (a != a && b == b) || a > b } else { (a == a && b != b) || a < b }
        };
        if k * 64 <= n {
            select::partial_sort(order, k, &before);
        } else {
            select::nth_element(order, k - 1, &before);
            if sorted {
                select::sort(&mut order[..k - 1], &before);
            }
        }
        for ((out, index), &at) in out.iter_mut().zip(index).zip(&*order) {
            *out = x[at as usize];
            *index = at;
        }
    }
}

/// Writes 0, 1, 2 and so on.
fn number(order: &mut [i64]) {
    for (i, at) in order.iter_mut().enumerate() {
        *at = i as i64;
    }
}

/// Finds the most frequent element of each row of `n`, the least of several, and where it is. `order` holds a
/// row.
pub fn modes<T: Copy + PartialOrd>(x: &[T], n: usize, order: &mut [i64], out: &mut [T], index: &mut [i64]) {
    if n == 0 {
        return;
    }
    for ((x, out), index) in x.chunks_exact(n).zip(out).zip(index) {
        number(order);
        let order = &mut order[..n];
        let element = |at: &i64| x[*at as usize];
        select::sort(order, &|a: &i64, b: &i64| element(a) < element(b));
        let (mut best, mut most) = (order[0], 0);
        for run in order.chunk_by(|a, b| element(a) == element(b)) {
            if run.len() > most {
                (best, most) = (run[run.len() - 1], run.len());
            }
        }
        *out = x[best as usize];
        *index = best;
    }
}

/// Which element of a sorted row is taken.
#[derive(Clone, Copy)]
pub enum Rank {
    /// The one at this position.
    At(usize),
    /// The lower one of the middle; NaN if there is one.
    Median,
    /// The lower one of the middle of those that are not NaN.
    MedianOfNumbers,
}

/// Takes the element of a rank of each row of `n`, and where it is. `sorted` and `spare` hold a row.
pub fn ranked<T: Copy + PartialOrd>(
    x: &[T],
    n: usize,
    rank: Rank,
    sorted: &mut [i64],
    spare: &mut [i64],
    out: &mut [T],
    index: &mut [i64],
) {
    if n == 0 {
        return;
    }
    for ((x, out), index) in x.chunks_exact(n).zip(out).zip(index) {
        if let Rank::At(k) = rank {
            // Which of several equal elements it is, is as in PyTorch.
            number(sorted);
            let greater = |a: &i64, b: &i64| {
                let (a, b) = (x[*a as usize], x[*b as usize]);
                (a != a && b == b) || b < a
            };
            select::quick_select(&mut sorted[..n], k, &greater);
            *index = sorted[k];
            *out = x[sorted[k] as usize];
            continue;
        }
        sort_positions(x, false, sorted, spare);
        let numbers = x.iter().filter(|&&x| x == x).count();
        let at = match rank {
            Rank::At(k) => k,
            Rank::Median if numbers < n => numbers,
            Rank::Median => (n - 1) / 2,
            Rank::MedianOfNumbers => numbers.saturating_sub(1) / 2,
        };
        *index = sorted[at];
        *out = x[sorted[at] as usize];
    }
}

/// What lies between two elements.
#[derive(Clone, Copy)]
pub enum Between {
    /// A mean of both by their distance.
    Linear,
    /// The lower one.
    Lower,
    /// The higher one.
    Higher,
    /// The nearer one.
    Nearest,
    /// The mean of both.
    Midpoint,
}

/// Computes the quantiles `q` of each row of `n` elements: all rows for the first one, then for the next. A
/// row with NaN gives NaN, or its NaNs are skipped. `sorted` and `spare` hold a row.
pub fn quantiles<T: Real>(
    x: &[T],
    n: usize,
    q: &[T],
    between: Between,
    skips: bool,
    sorted: &mut [i64],
    spare: &mut [i64],
    out: &mut [T],
) {
    if n == 0 {
        return;
    }
    let rows = x.len() / n;
    for (row, x) in x.chunks_exact(n).enumerate() {
        sort_positions(x, false, sorted, spare);
        let numbers = x.iter().filter(|&&x| x == x).count();
        for (i, &q) in q.iter().enumerate() {
            let out = &mut out[i * rows + row];
            if numbers == 0 || numbers < n && !skips {
                *out = T::NAN;
                continue;
            }
            let place = q * T::from_f64((numbers - 1) as f64);
            let place = match between {
                Between::Lower => math::floor(place),
                Between::Higher => math::ceil(place),
                Between::Nearest => math::round(place),
                Between::Linear | Between::Midpoint => place,
            };
            let at = |i: T| x[sorted[i.to_f64() as usize] as usize];
            let (below, above) = (at(math::floor(place)), at(math::ceil(place)));
            let half = T::from_f64(0.5);
            let share = place - math::floor(place);
            let weight = if let Between::Midpoint = between { half } else { share };
            *out = if share == T::ZERO {
                below
            } else if weight < half {
                below + weight * (above - below)
            } else {
                above - (above - below) * (T::ONE - weight)
            };
        }
    }
}

/// Finds where each of `wanted` could be inserted in a sorted row of `n` elements: before equal ones, or with
/// `right` behind them. Each row of `width` has its own sequence if there are several; `sorter` is the order
/// of a sequence that is not sorted.
pub fn search<T: Copy + PartialOrd>(
    sequence: &[T],
    n: usize,
    sorter: Option<&[i64]>,
    wanted: &[T],
    width: usize,
    right: bool,
    out: &mut [i64],
) -> Result<(), i64> {
    if let Some(&at) = sorter.unwrap_or(&[]).iter().find(|&&at| at < 0 || at >= n as i64) {
        return Err(at);
    }
    for (i, (&x, out)) in wanted.iter().zip(out).enumerate() {
        let first = i / width * n;
        let element = |i: usize| sequence[first + sorter.map_or(i, |sorter| sorter[first + i] as usize)];
        // Halved as in PyTorch, which decides where a sequence with NaN leads.
        let is_before = |y: T| match right {
            true => x.partial_cmp(&y) != Some(Ordering::Less),
            false => x != x || y != y || y < x,
        };
        let (mut start, mut end) = (0, n);
        while start < end {
            let middle = start + (end - start) / 2;
            if is_before(element(middle)) { start = middle + 1 } else { end = middle }
        }
        *out = start as i64;
    }
    Ok(())
}

/// Finds the order of the elements by merging ever longer runs; equal ones keep theirs. `spare` holds as many.
pub fn sort_positions<T: Copy + PartialOrd>(x: &[T], descending: bool, index: &mut [i64], spare: &mut [i64]) {
    let n = x.len();
    for (i, index) in index.iter_mut().enumerate() {
        *index = i as i64;
    }
    let stays = |a: i64, b: i64| {
        let order = order(x[a as usize], x[b as usize]);
        if descending { order != Ordering::Less } else { order != Ordering::Greater }
    };
    let mut width = 1;
    while width < n {
        for from in (0..n).step_by(2 * width) {
            let (middle, to) = ((from + width).min(n), (from + 2 * width).min(n));
            let (mut a, mut b) = (from, middle);
            for out in &mut spare[from..to] {
                let takes_a = a < middle && (b == to || stays(index[a], index[b]));
                *out = if takes_a { index[a] } else { index[b] };
                if takes_a { a += 1 } else { b += 1 }
            }
        }
        index[..n].copy_from_slice(&spare[..n]);
        width *= 2;
    }
}
