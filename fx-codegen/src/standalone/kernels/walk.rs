//! Walks over the elements of strided operands.

/// Calls `f` for each index of `shape` but the last axis, with the position of the first element of the row
/// in each operand.
#[inline(always)]
pub fn rows<const R: usize, const N: usize>(
    shape: [usize; R],
    strides: [[usize; R]; N],
    mut f: impl FnMut([usize; N]),
) {
    if shape.contains(&0) {
        return;
    }
    let mut index = [0; R];
    let mut at = [0; N];
    loop {
        f(at);
        let mut axis = R.saturating_sub(1);
        loop {
            if axis == 0 {
                return;
            }
            axis -= 1;
            index[axis] += 1;
            for (at, strides) in at.iter_mut().zip(&strides) {
                *at += strides[axis];
            }
            if index[axis] < shape[axis] {
                break;
            }
            for (at, strides) in at.iter_mut().zip(&strides) {
                *at -= strides[axis] * shape[axis];
            }
            index[axis] = 0;
        }
    }
}

/// Returns the elements of block `i` of an operand, which has its blocks at these distances along the loops.
#[inline(always)]
pub fn block_of<'a, T>(x: &'a [T], i: usize, loops: &[usize], steps: &[usize], len: usize) -> &'a [T] {
    let (mut rest, mut at) = (i, 0);
    for (size, step) in loops.iter().zip(steps).rev() {
        at += rest % size * step;
        rest /= size;
    }
    if len == 0 { &[] } else { &x[at..][..len] }
}
