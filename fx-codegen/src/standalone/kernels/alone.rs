//! Work without the threads of an operating system.

/// Calls `f` with the number of a unit, `out` from this one on, and room to work in: with all of them.
pub fn split<T, R>(
    _operations: usize,
    _size: usize,
    out: &mut [T],
    room: &mut [R],
    f: impl Fn(usize, &mut [T], &mut [R]),
) {
    f(0, out, room);
}

/// Calls `f` with each unit of `size` elements, its number, and room to work in.
pub fn split_outer<T, R>(
    _operations: usize,
    size: usize,
    out: &mut [T],
    room: &mut [R],
    f: impl Fn(usize, &mut [T], &mut [R]),
) {
    out.chunks_exact_mut(size).enumerate().for_each(|(i, out)| f(i, out, room));
}
