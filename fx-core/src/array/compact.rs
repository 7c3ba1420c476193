//! Keeping some of a sequence of numbers, in parallel.

use fx_simd::parallel;

use super::{build, build_blocks};
use crate::{Element, Result};

/// The numbers that are marked at a time.
const CHUNK: usize = 4096;

/// Returns `make(i)` for each `i` below `n` that is marked, in order.
///
/// `mark` gets the first number of a chunk and a mark for each; it is called twice for every chunk. Fails if
/// there is not enough memory.
pub fn compacted<T: Element>(
    n: usize,
    mark: &(dyn Fn(usize, &mut [bool]) + Sync),
    make: impl Fn(usize) -> T + Sync,
) -> Result<Vec<T>> {
    let marked = |chunk: usize, marks: &mut [bool; CHUNK]| {
        let len = CHUNK.min(n - chunk * CHUNK);
        mark(chunk * CHUNK, &mut marks[..len]);
        len
    };
    let count = |chunk: usize, out: &mut [i64]| {
        let mut marks = [false; CHUNK];
        let len = marked(chunk, &mut marks);
        out[0] = fx_simd::call_256::<count_marks, _>(&marks[..len]).into();
    };
    let counts = build_blocks(n.div_ceil(CHUNK), 1, 8, &count)?;
    let total = counts.iter().sum::<i64>() as usize;
    let mut out = build(total, |_, _: &mut [T]| {})?;
    let mut rest = &mut out[..];
    let mut parts = Vec::with_capacity(counts.len());
    for &count in &counts {
        let (part, tail) = rest.split_at_mut(count as usize);
        parts.push(part);
        rest = tail;
    }
    parallel::chunks(&mut parts, 1, 8, |chunk, part| {
        let mut marks = [false; CHUNK];
        let len = marked(chunk, &mut marks);
        // What is not kept is overwritten by what follows, which costs less than a branch that is hard to foresee.
        let (mut kept, mut filled) = ([T::default(); CHUNK], 0);
        for (i, &mark) in marks[..len].iter().enumerate() {
            kept[filled] = make(chunk * CHUNK + i);
            filled += usize::from(mark);
        }
        part[0].copy_from_slice(&kept[..filled]);
    });
    Ok(out)
}

/// Returns whether `any` holds for a chunk of the data, in parallel.
pub fn any_chunk<T: Sync>(data: &[T], any: impl Fn(&[T]) -> bool + Sync) -> bool {
    const CHUNK: usize = 1 << 15;
    if data.len() <= CHUNK {
        return any(data);
    }
    let mut found = vec![false; data.len().div_ceil(CHUNK)];
    parallel::chunks(&mut found, 1, 1, |i, found| {
        found[0] = any(&data[i * CHUNK..(i * CHUNK + CHUNK).min(data.len())]);
    });
    found.contains(&true)
}

fx_simd::wide! {
    fn count_marks[](marks: &[bool]) -> u32 {
        marks.iter().map(|&mark| u32::from(mark)).sum()
    }
}
