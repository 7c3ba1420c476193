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
