//! Elements and slices at positions that are data; a position that does not exist is returned as an error.

/// Returns a position, or the index if there is no such position.
#[inline(always)]
fn place(index: i64, n: usize) -> Result<usize, i64> {
    if index >= 0 && index < n as i64 { Ok(index as usize) } else { Err(index) }
}

/// Takes slices at positions of the middle axis of `[outer, n, inner]`; if they are signed, negative ones
/// count from the end.
pub fn select<T: Copy>(
    x: &[T],
    n: usize,
    inner: usize,
    index: &[i64],
    signed: bool,
    out: &mut [T],
) -> Result<(), i64> {
    if inner == 0 || out.is_empty() {
        return Ok(());
    }
    for (outer, out) in out.chunks_exact_mut(index.len() * inner).enumerate() {
        let x = &x[outer * n * inner..][..n * inner];
        for (&index, out) in index.iter().zip(out.chunks_exact_mut(inner)) {
            let from_end = if signed && index < 0 { n as i64 } else { 0 };
            let at = place(index + from_end, n).map_err(|_| index)?;
            out.copy_from_slice(&x[at * inner..][..inner]);
        }
    }
    Ok(())
}

/// Takes an element at a position of the middle axis of `x`, of shape `[outer, n, inner]`, for each element
/// of `index`, of shape `[outer, count, inner]`.
pub fn gather<T: Copy>(
    x: &[T],
    n: usize,
    inner: usize,
    index: &[i64],
    count: usize,
    out: &mut [T],
) -> Result<(), i64> {
    if inner == 0 || count == 0 {
        return Ok(());
    }
    for (i, (out, &index)) in out.iter_mut().zip(index).enumerate() {
        let (outer, inside) = (i / (count * inner), i % inner);
        *out = x[(outer * n + place(index, n)?) * inner + inside];
    }
    Ok(())
}

/// Writes elements of `from`, of shape `[outer, count, inner]`, to the positions that `index` names, by
/// `f(old, new)`.
pub fn scatter<T: Copy>(
    out: &mut [T],
    n: usize,
    inner: usize,
    index: &[i64],
    count: usize,
    from: &[T],
    f: impl Fn(T, T) -> T,
) -> Result<(), i64> {
    if inner == 0 || count == 0 {
        return Ok(());
    }
    for (i, (&from, &index)) in from.iter().zip(index).enumerate() {
        let (outer, inside) = (i / (count * inner), i % inner);
        let out = &mut out[(outer * n + place(index, n)?) * inner + inside];
        *out = f(*out, from);
    }
    Ok(())
}

/// Marks the class of each element.
pub fn one_hot(index: &[i64], classes: usize, out: &mut [i64]) -> Result<(), i64> {
    out.fill(0);
    if classes == 0 {
        return Ok(());
    }
    for (&index, out) in index.iter().zip(out.chunks_exact_mut(classes)) {
        out[place(index, classes)?] = 1;
    }
    Ok(())
}

/// Adds a position along an axis of `n` elements to those along the axes before it, in row-major order; if
/// they are signed, negative ones count from the end.
pub fn locate(index: &[i64], n: usize, first: bool, signed: bool, places: &mut [i64]) -> Result<(), i64> {
    for (at, &index) in places.iter_mut().zip(index) {
        let from_end = if signed && index < 0 { n as i64 } else { 0 };
        let inside = place(index + from_end, n).map_err(|_| index)? as i64;
        *at = if first { inside } else { *at * n as i64 + inside };
    }
    Ok(())
}

/// Writes slices of `inner` elements to the positions `index`, one after the other, by `f(old, new)`.
pub fn put<T: Copy>(out: &mut [T], inner: usize, index: &[i64], from: &[T], f: impl Fn(T, T) -> T) {
    if inner == 0 {
        return;
    }
    for (&at, from) in index.iter().zip(from.chunks_exact(inner)) {
        for (out, &from) in out[at as usize * inner..][..inner].iter_mut().zip(from) {
            *out = f(*out, from);
        }
    }
}

/// Writes slices of `inner` elements where the mask is true, by `f(old, new)`: with `each` one after the
/// other, else the same one everywhere.
pub fn put_where<T: Copy>(
    out: &mut [T],
    inner: usize,
    mask: &[bool],
    from: &[T],
    each: bool,
    f: impl Fn(T, T) -> T,
) -> Result<(), i64> {
    if inner == 0 {
        return Ok(());
    }
    let mut next = 0;
    for (out, _) in out.chunks_exact_mut(inner).zip(mask).filter(|(_, mask)| **mask) {
        let from = from.get(next * inner..(next + 1) * inner).ok_or(next as i64)?;
        for (out, &from) in out.iter_mut().zip(from) {
            *out = f(*out, from);
        }
        next += usize::from(each);
    }
    Ok(())
}

/// Counts the elements that are true.
pub fn count(mask: &[bool], out: &mut [i64]) {
    out[0] = mask.iter().filter(|mask| **mask).count() as i64;
}

/// Writes the positions of the elements that are true.
pub fn find(mask: &[bool], out: &mut [i64]) {
    let found = mask.iter().enumerate().filter(|(_, mask)| **mask);
    for (out, (at, _)) in out.iter_mut().zip(found) {
        *out = at as i64;
    }
}

/// Writes the positions along one axis, of `n` elements that lie `step` apart, of positions among all elements.
pub fn coordinate(at: &[i64], step: usize, n: usize, out: &mut [i64]) {
    let (step, n) = (step.max(1) as i64, n.max(1) as i64);
    for (out, &at) in out.iter_mut().zip(at) {
        *out = at / step % n;
    }
}
