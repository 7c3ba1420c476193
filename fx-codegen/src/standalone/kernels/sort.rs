//! Sorting of rows; NaN counts as the greatest element.

use core::cmp::Ordering;

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

/// Finds the `k` first elements of each row of `n` in sorted order, and where they are; `spare` holds two rows.
#[allow(clippy::too_many_arguments, reason = "the sizes of a kernel are its arguments")]
pub fn top<T: Copy + PartialOrd>(
    x: &[T],
    n: usize,
    k: usize,
    descending: bool,
    out: &mut [T],
    index: &mut [i64],
    spare: &mut [i64],
) {
    if n == 0 || k == 0 {
        return;
    }
    let (order, spare) = spare.split_at_mut(n);
    for ((x, out), index) in x.chunks_exact(n).zip(out.chunks_exact_mut(k)).zip(index.chunks_exact_mut(k)) {
        sort_positions(x, descending, order, spare);
        for ((out, index), &at) in out.iter_mut().zip(index).zip(&*order) {
            *out = x[at as usize];
            *index = at;
        }
    }
}

/// Computes the quantile `q` of each row of `n` elements, between neighbours by their distance; NaN if the
/// row has one. `sorted` and `spare` hold a row.
pub fn quantile(x: &[f32], n: usize, q: f32, sorted: &mut [i64], spare: &mut [i64], out: &mut [f32]) {
    if n == 0 {
        return;
    }
    for (x, out) in x.chunks_exact(n).zip(out) {
        sort_positions(x, false, sorted, spare);
        let place = q * (n - 1) as f32;
        let below = place as usize;
        let above = (below + 1).min(n - 1);
        let at = |i: usize| x[sorted[i] as usize];
        let share = place - below as f32;
        *out = if at(n - 1).is_nan() { f32::NAN } else { at(below) + share * (at(above) - at(below)) };
    }
}

/// Sorts positions by merging ever longer runs.
fn sort_positions<T: Copy + PartialOrd>(x: &[T], descending: bool, index: &mut [i64], spare: &mut [i64]) {
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
