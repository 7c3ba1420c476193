//! Sums, products and extremes of the elements of a row.
//!
//! Elements are joined in lanes, so that rounding errors stay small and compilers use vectors. The order of the
//! operations depends on the length alone, and never on the machine: results have the same bits everywhere.
//!
//! Invariant: this text stands alone beside `math`; it is pasted verbatim into generated Rust.

use super::math::Real;

/// The elements that are joined side by side.
const LANES: usize = 32;
/// The elements that are summed in their own precision; sums of as many are added in `f64`.
const BLOCK: usize = 1024;

/// Joins lanes as a tree. Widths that are known when this is compiled keep the lanes in registers.
macro_rules! tree {
    ($lanes:ident, $join:ident, $($width:literal)*) => {{
        $(
            for i in 0..$width {
                $lanes[i] = $join($lanes[i], $lanes[i + $width]);
            }
        )*
        $lanes[0]
    }};
}

/// Joins `f` of each element with `start`, which changes nothing.
#[inline(always)]
fn join_of<T: Copy, A: Copy>(x: &[T], start: A, f: impl Fn(T) -> A, join: impl Fn(A, A) -> A) -> A {
    if x.len() < LANES {
        return join_few(x, start, f, join);
    }
    let mut lanes = [start; LANES];
    let (chunks, rest) = x.as_chunks::<LANES>();
    for chunk in chunks {
        for i in 0..LANES {
            lanes[i] = join(lanes[i], f(chunk[i]));
        }
    }
    for (lane, &x) in lanes.iter_mut().zip(rest) {
        *lane = join(*lane, f(x));
    }
    tree!(lanes, join, 16 8 4 2 1)
}

/// As [`join_of`], of fewer elements than lanes: without the lanes that no element is joined to.
#[inline(always)]
fn join_few<T: Copy, A: Copy>(x: &[T], start: A, f: impl Fn(T) -> A, join: impl Fn(A, A) -> A) -> A {
    const HALF: usize = LANES / 2;
    const QUARTER: usize = LANES / 4;
    if x.len() <= QUARTER {
        let mut lanes = [start; QUARTER];
        for (lane, &x) in lanes.iter_mut().zip(x) {
            *lane = join(*lane, f(x));
        }
        return tree!(lanes, join, 4 2 1);
    }
    let mut lanes = [start; HALF];
    let (first, rest) = x.split_at(x.len().min(HALF));
    match first.as_chunks::<HALF>() {
        ([first], _) => {
            let values: [A; HALF] = core::array::from_fn(|i| f(first[i]));
            for i in 0..HALF {
                lanes[i] = join(lanes[i], values[i]);
            }
        }
        _ => {
            for (lane, &x) in lanes.iter_mut().zip(first) {
                *lane = join(*lane, f(x));
            }
        }
    }
    for (lane, &x) in lanes.iter_mut().zip(rest) {
        *lane = join(*lane, join(start, f(x)));
    }
    tree!(lanes, join, 8 4 2 1)
}

/// Returns the sum of `f` of each element.
#[inline(always)]
pub fn sum_of<T: Real>(x: &[T], f: impl Fn(T) -> T) -> T {
    let mut total = 0.0;
    for block in x.chunks(BLOCK) {
        total += join_of(block, T::ZERO, &f, |a, b| a + b).to_f64();
    }
    T::from_f64(total)
}

/// Returns the sum of `f` of each element, computed in `f64`.
#[inline(always)]
pub fn sum_in_f64<T: Real>(x: &[T], f: impl Fn(T) -> f64) -> f64 {
    join_of(x, 0.0, f, |a, b| a + b)
}

/// Returns the sum.
#[inline(always)]
pub fn sum<T: Real>(x: &[T]) -> T {
    sum_of(x, |x| x)
}

/// Returns the sum of the squares.
#[inline(always)]
pub fn sum_squares<T: Real>(x: &[T]) -> T {
    sum_of(x, |x| x * x)
}

/// Returns the mean; NaN for an empty row.
#[inline(always)]
pub fn mean<T: Real>(x: &[T]) -> T {
    T::from_f64(sum(x).to_f64() / x.len() as f64)
}

/// Returns the sum of `f` of each pair of elements of two rows of one length, which may be of two types.
#[inline(always)]
pub fn sum_of_pairs<A: Copy, B: Copy, T: Real>(x: &[A], y: &[B], f: impl Fn(A, B) -> T) -> T {
    let add = |a: T, b: T| a + b;
    let mut lanes = [T::ZERO; LANES];
    let ((x, x_rest), (y, y_rest)) = (x.as_chunks::<LANES>(), y.as_chunks::<LANES>());
    for (x, y) in x.iter().zip(y) {
        // All values first: compilers use vectors for them, where elements are converted, too.
        let values: [T; LANES] = core::array::from_fn(|i| f(x[i], y[i]));
        for i in 0..LANES {
            lanes[i] = lanes[i] + values[i];
        }
    }
    for (lane, (&x, &y)) in lanes.iter_mut().zip(x_rest.iter().zip(y_rest)) {
        *lane = *lane + f(x, y);
    }
    tree!(lanes, add, 16 8 4 2 1)
}

/// Returns the sum of the products of two rows of one length.
#[inline(always)]
pub fn dot<T: Real>(x: &[T], y: &[T]) -> T {
    sum_of_pairs(x, y, |x, y| x * y)
}

/// Returns the greatest of `f` of each element: NaN if there is one, minus infinity for an empty row.
#[inline(always)]
pub fn max_of<T: Real>(x: &[T], f: impl Fn(T) -> T) -> T {
    join_of(x, T::ZERO - T::INFINITY, f, |a, b| if b > a || b != b { b } else { a })
}

/// Returns the greatest element: NaN if there is one, minus infinity for an empty row.
#[inline(always)]
pub fn max<T: Real>(x: &[T]) -> T {
    max_of(x, |x| x)
}

/// Returns the least of `f` of each element: NaN if there is one, infinity for an empty row.
#[inline(always)]
pub fn min_of<T: Real>(x: &[T], f: impl Fn(T) -> T) -> T {
    join_of(x, T::INFINITY, f, |a, b| if b < a || b != b { b } else { a })
}

/// Returns the least element: NaN if there is one, infinity for an empty row.
#[inline(always)]
pub fn min<T: Real>(x: &[T]) -> T {
    min_of(x, |x| x)
}
