//! Sums of many elements, in lanes, so that errors stay small and vectors can be used.

use super::math::Real;

const LANES: usize = 32;
/// The elements that are summed in one go.
const BLOCK: usize = 1024;

/// Returns the sum of what `f` gives for each element.
#[inline(always)]
pub fn sum_of<T: Real>(x: &[T], f: impl Fn(T) -> T) -> T {
    let mut total = 0.0;
    for block in x.chunks(BLOCK) {
        let mut lanes = [T::ZERO; LANES];
        let (chunks, rest) = block.as_chunks::<LANES>();
        for chunk in chunks {
            for (lane, &x) in lanes.iter_mut().zip(chunk) {
                *lane = *lane + f(x);
            }
        }
        for (lane, &x) in lanes.iter_mut().zip(rest) {
            *lane = *lane + f(x);
        }
        let mut width = LANES / 2;
        while width > 0 {
            for i in 0..width {
                lanes[i] = lanes[i] + lanes[i + width];
            }
            width /= 2;
        }
        total += lanes[0].to_f64();
    }
    T::from_f64(total)
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

/// Returns the sum of the products of two rows.
#[inline(always)]
pub fn dot<T: Real>(x: &[T], y: &[T]) -> T {
    const LANES: usize = 32;
    let mut lanes = [T::ZERO; LANES];
    let ((x, x_rest), (y, y_rest)) = (x.as_chunks::<LANES>(), y.as_chunks::<LANES>());
    for (x, y) in x.iter().zip(y) {
        for i in 0..LANES {
            lanes[i] = lanes[i] + x[i] * y[i];
        }
    }
    for (lane, (&x, &y)) in lanes.iter_mut().zip(x_rest.iter().zip(y_rest)) {
        *lane = *lane + x * y;
    }
    let mut width = LANES / 2;
    while width > 0 {
        for i in 0..width {
            lanes[i] = lanes[i] + lanes[i + width];
        }
        width /= 2;
    }
    lanes[0]
}
