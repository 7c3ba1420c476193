//! Transposing small matrices.

/// Writes `to[r * to_step + c] = from[c * from_step + r]` for `r` below `rows` and `c` below `columns`.
///
/// Meant for tiles that fit into the fastest cache.
///
/// # Panics
///
/// When either slice is too short for that.
pub fn transpose<T: Copy>(
    from: &[T],
    from_step: usize,
    to: &mut [T],
    to_step: usize,
    rows: usize,
    columns: usize,
) {
    if rows == 0 || columns == 0 {
        return;
    }
    let last =
        |n: usize, step: usize, m: usize| (n - 1).checked_mul(step).and_then(|at| at.checked_add(m - 1));
    assert!(last(columns, from_step, rows).is_some_and(|at| at < from.len()), "the source is long enough");
    assert!(last(rows, to_step, columns).is_some_and(|at| at < to.len()), "the target is long enough");
    #[cfg(target_arch = "x86_64")]
    if size_of::<T>() == 4
        && rows >= x86::SIDE
        && columns >= x86::SIDE
        && std::arch::is_x86_feature_detected!("avx2")
    {
        // SAFETY: all positions lie in the slices, elements have 4 bytes, and the machine has AVX2.
        return unsafe {
            x86::transpose(from.as_ptr().cast(), from_step, to.as_mut_ptr().cast(), to_step, rows, columns)
        };
    }
    for r in 0..rows {
        let line = &mut to[r * to_step..][..columns];
        for (c, x) in line.iter_mut().enumerate() {
            *x = from[c * from_step + r];
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{
        _mm256_loadu_ps, _mm256_permute2f128_ps, _mm256_setzero_ps, _mm256_shuffle_ps, _mm256_storeu_ps,
        _mm256_unpackhi_ps, _mm256_unpacklo_ps,
    };

    /// Rows and columns that are transposed in registers.
    pub(super) const SIDE: usize = 8;

    /// # Safety
    ///
    /// There are at least `SIDE` rows and columns, and `c * from_step + r` and `r * to_step + c` lie in the sources and targets.
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn transpose(
        from: *const f32,
        from_step: usize,
        to: *mut f32,
        to_step: usize,
        rows: usize,
        columns: usize,
    ) {
        // The last block of a line overlaps the one before.
        let starts = |n: usize| (0..n.div_ceil(SIDE)).map(move |i| (i * SIDE).min(n - SIDE));
        // All of a line of the source is read before the next one.
        for c in starts(columns) {
            for r in starts(rows) {
                // SAFETY: `r + 7` is a row and `c + 7` a column.
                unsafe { block(from.add(c * from_step + r), from_step, to.add(r * to_step + c), to_step) };
            }
        }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn block(from: *const f32, from_step: usize, to: *mut f32, to_step: usize) {
        let mut x = [_mm256_setzero_ps(); SIDE];
        for (i, x) in x.iter_mut().enumerate() {
            // SAFETY: as for `transpose`.
            *x = unsafe { _mm256_loadu_ps(from.add(i * from_step)) };
        }
        let pairs = |i: usize| (_mm256_unpacklo_ps(x[i], x[i + 1]), _mm256_unpackhi_ps(x[i], x[i + 1]));
        let [(a0, a1), (a2, a3), (a4, a5), (a6, a7)] = [pairs(0), pairs(2), pairs(4), pairs(6)];
        const LOW: i32 = 0b01_00_01_00;
        const HIGH: i32 = 0b11_10_11_10;
        let b = [
            (_mm256_shuffle_ps::<LOW>(a0, a2), _mm256_shuffle_ps::<LOW>(a4, a6)),
            (_mm256_shuffle_ps::<HIGH>(a0, a2), _mm256_shuffle_ps::<HIGH>(a4, a6)),
            (_mm256_shuffle_ps::<LOW>(a1, a3), _mm256_shuffle_ps::<LOW>(a5, a7)),
            (_mm256_shuffle_ps::<HIGH>(a1, a3), _mm256_shuffle_ps::<HIGH>(a5, a7)),
        ];
        for (i, (left, right)) in b.into_iter().enumerate() {
            // SAFETY: as above.
            unsafe {
                _mm256_storeu_ps(to.add(i * to_step), _mm256_permute2f128_ps::<0x20>(left, right));
                _mm256_storeu_ps(to.add((i + 4) * to_step), _mm256_permute2f128_ps::<0x31>(left, right));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<T: Copy + PartialEq + std::fmt::Debug>(
        rows: usize,
        columns: usize,
        zero: T,
        make: impl Fn(usize) -> T,
    ) {
        let (from_step, to_step) = (rows + 3, columns + 1);
        let from: Vec<T> = (0..columns * from_step).map(make).collect();
        let mut to = vec![zero; rows * to_step];
        transpose(&from, from_step, &mut to, to_step, rows, columns);
        for r in 0..rows {
            for c in 0..columns {
                assert_eq!(to[r * to_step + c], from[c * from_step + r], "{r} {c} of {rows} x {columns}");
            }
            assert_eq!(to[r * to_step + columns], zero);
        }
    }

    #[test]
    fn every_element_finds_its_place() {
        for (rows, columns) in [(0, 3), (1, 1), (8, 8), (7, 9), (8, 31), (13, 8), (32, 32), (19, 25)] {
            check(rows, columns, 0.0, |i| i as f32 + 1.0);
            check(rows, columns, 0u16, |i| i as u16 + 1);
            check(rows, columns, 0i64, |i| i as i64 + 1);
        }
    }
}
