//! The margins between the classes of a row that are its own and those that are not.
//!
//! Invariant: this text stands alone beside `math`; it is pasted verbatim into generated Rust.

use super::math::Real;

/// Writes the loss of each row of scores of `n` classes, 0 if there are none. It is the sum of
/// `max(1 - x[j] + x[i], 0)` over the classes `j` before the first negative one and the classes `i` that are not
/// among them, divided by `n`. `is_own` holds an element for each class. Fails with a class that does not exist.
pub fn multilabel<T: Real>(
    x: &[T],
    classes: &[i64],
    n: usize,
    is_own: &mut [bool],
    out: &mut [T],
) -> Result<(), i64> {
    out.fill(T::ZERO);
    if n == 0 {
        return Ok(());
    }
    for ((x, classes), out) in x.chunks_exact(n).zip(classes.chunks_exact(n)).zip(out) {
        let is_own = &mut is_own[..n];
        is_own.fill(false);
        let own = classes.iter().take_while(|&&class| class >= 0);
        for &class in own.clone() {
            *is_own.get_mut(class as usize).ok_or(class)? = true;
        }
        let mut sum = T::ZERO;
        for &class in own {
            for (&score, _) in x.iter().zip(is_own.iter()).filter(|(_, is_own)| !**is_own) {
                let gap = T::ONE - x[class as usize] + score;
                sum = sum + if gap > T::ZERO { gap } else { T::ZERO };
            }
        }
        *out = sum / T::from_f64(n as f64);
    }
    Ok(())
}
