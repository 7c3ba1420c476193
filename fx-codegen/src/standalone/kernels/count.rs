//! Counts of elements by their values, and distinct elements.

use super::math::Real;
use super::sort::sort_positions;

/// Counts the elements in each of `out.len()` intervals of equal width; if the bounds are equal they are those of
/// the elements.
pub fn histc<T: Real>(x: &[T], least: f64, greatest: f64, out: &mut [T]) -> Result<(), &'static str> {
    let (mut least, mut greatest) = (T::from_f64(least), T::from_f64(greatest));
    if least == greatest && !x.is_empty() {
        (least, greatest) = (x[0], x[0]);
        for &x in x {
            least = if x < least || x != x { x } else { least };
            greatest = if x > greatest || x != x { x } else { greatest };
        }
    }
    if !(least - least == T::ZERO && greatest - greatest == T::ZERO) {
        return Err("the range of a histogram is not finite");
    }
    if least == greatest {
        (least, greatest) = (least - T::ONE, greatest + T::ONE);
    }
    out.fill(T::ZERO);
    let n = T::from_f64(out.len() as f64);
    for &x in x.iter().filter(|x| **x >= least && **x <= greatest) {
        let at = ((x - least) / (greatest - least) * n).to_f64() as usize;
        let at = at.min(out.len() - 1);
        out[at] = out[at] + T::ONE;
    }
    Ok(())
}

/// Finds how many counts there are: one more than the greatest element, at least `least`.
pub fn bins(x: &[i64], least: i64, out: &mut [i64]) -> Result<(), &'static str> {
    out[0] = least;
    for &x in x {
        if x < 0 {
            return Err("a number to count is negative");
        }
        out[0] = out[0].max(x.saturating_add(1));
    }
    Ok(())
}

/// Finds how many classes there are: one more than the greatest element.
pub fn classes(x: &[i64], out: &mut [i64]) -> Result<(), &'static str> {
    if x.is_empty() {
        return Err("the number of classes of no elements");
    }
    bins(x, 1, out)
}

/// Adds up how often each of `n` positions is repeated; one number is that of all.
pub fn repeats(x: &[i64], n: usize, out: &mut [i64]) -> Result<(), &'static str> {
    if x.iter().any(|&x| x < 0) {
        return Err("a number of repeats is negative");
    }
    let total = match x {
        [x] => x.checked_mul(n as i64),
        x if x.len() == n => x.iter().try_fold(0i64, |sum, &x| sum.checked_add(x)),
        _ => return Err("other than one or as many numbers of repeats as positions"),
    };
    out[0] = total.ok_or("the numbers of repeats are too large")?;
    Ok(())
}

/// Adds the weight of each element, as `weight` gives it, to the sum of its value.
pub fn tally<T: Copy>(
    x: &[i64],
    weight: impl Fn(usize) -> T,
    add: impl Fn(T, T) -> T,
    zero: T,
    out: &mut [T],
) {
    out.fill(zero);
    for (i, &x) in x.iter().enumerate() {
        out[x as usize] = add(out[x as usize], weight(i));
    }
}

/// Finds the distinct elements, in ascending order or, with `neighbours`, those that differ from the one before:
/// how many there are, where the first of each is, how often it occurs, and which of them each element is.
/// `order` and `spare` hold all elements.
#[allow(clippy::too_many_arguments, reason = "results are arguments")]
pub fn unique<T: Copy + PartialOrd>(
    x: &[T],
    neighbours: bool,
    order: &mut [i64],
    spare: &mut [i64],
    first: &mut [i64],
    inverse: &mut [i64],
    counts: &mut [i64],
    found: &mut [i64],
) {
    let order = &mut order[..x.len()];
    match neighbours {
        true => order.iter_mut().enumerate().for_each(|(i, at)| *at = i as i64),
        false => sort_positions(x, false, order, spare),
    }
    let mut n = 0;
    for i in 0..x.len() {
        let at = order[i] as usize;
        if i == 0 || x[at] != x[order[i - 1] as usize] {
            (first[n], counts[n]) = (at as i64, 0);
            n += 1;
        }
        counts[n - 1] += 1;
        inverse[at] = n as i64 - 1;
    }
    found[0] = n as i64;
}
