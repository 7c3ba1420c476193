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
    if std::arch::is_x86_feature_detected!("avx2") {
        let (from, to) = (from.as_ptr(), to.as_mut_ptr());
        // SAFETY: all positions lie in the slices, elements have as many bytes as these numbers, and the
        // machine has AVX2.
        unsafe {
            match size_of::<T>() {
                4 if rows >= x86::SIDE && columns >= x86::SIDE / 2 => {
                    return x86::transpose_4(from.cast(), from_step, to.cast(), to_step, rows, columns);
                }
                8 if rows >= x86::SIDE / 2 && columns >= x86::SIDE / 2 => {
                    return x86::transpose_8(from.cast(), from_step, to.cast(), to_step, rows, columns);
                }
                _ => {}
            }
        }
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
        _mm_storeu_ps, _mm256_castpd_ps, _mm256_castps_pd, _mm256_castps256_ps128, _mm256_extractf128_ps,
        _mm256_loadu_pd, _mm256_loadu_ps, _mm256_permute2f128_pd, _mm256_permute2f128_ps, _mm256_setzero_pd,
        _mm256_setzero_ps, _mm256_storeu_pd, _mm256_storeu_ps, _mm256_unpackhi_pd, _mm256_unpackhi_ps,
        _mm256_unpacklo_pd, _mm256_unpacklo_ps,
    };

    /// The elements of 4 bytes of a vector.
    pub(super) const SIDE: usize = 8;

    /// The columns that are done before the next rows are: as many lines of the source as the first cache
    /// holds in one place.
    const LINES: usize = 12;

    /// Transposes elements of 4 bytes.
    ///
    /// # Safety
    ///
    /// There are at least `SIDE` rows and half as many columns, and `c * from_step + r` and `r * to_step + c`
    /// lie in the sources and targets.
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn transpose_4(
        from: *const f32,
        from_step: usize,
        to: *mut f32,
        to_step: usize,
        rows: usize,
        columns: usize,
    ) {
        for first in (0..columns).step_by(LINES) {
            let end = (first + LINES).min(columns);
            // The last block of a line overlaps the one before.
            for r in (0..rows.div_ceil(SIDE)).map(|i| (i * SIDE).min(rows - SIDE)) {
                let mut c = first;
                while c < end {
                    // SAFETY: the rows are some of those of the matrix, and so are the columns: the last ones
                    // go again with those before.
                    unsafe {
                        if c + SIDE <= end {
                            let (from, to) = (from.add(c * from_step + r), to.add(r * to_step + c));
                            eight(from, from_step, to, to_step);
                            c += SIDE;
                        } else {
                            let at = c.min(columns - SIDE / 2);
                            let (from, to) = (from.add(at * from_step + r), to.add(r * to_step + at));
                            four(from, from_step, to, to_step);
                            c += SIDE / 2;
                        }
                    }
                }
            }
        }
    }

    /// Transposes eight rows and columns.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn eight(from: *const f32, from_step: usize, to: *mut f32, to_step: usize) {
        // SAFETY: as for `transpose_4`.
        let (left, right) = unsafe { (quads(from, from_step), quads(from.add(4 * from_step), from_step)) };
        for i in 0..4 {
            // SAFETY: as above.
            unsafe {
                let to = to.add(i * to_step);
                _mm256_storeu_ps(to, _mm256_permute2f128_ps::<0x20>(left[i], right[i]));
                _mm256_storeu_ps(to.add(4 * to_step), _mm256_permute2f128_ps::<0x31>(left[i], right[i]));
            }
        }
    }

    /// Transposes eight rows and four columns.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn four(from: *const f32, from_step: usize, to: *mut f32, to_step: usize) {
        // SAFETY: as for `transpose_4`.
        let quads = unsafe { quads(from, from_step) };
        for (i, quad) in quads.into_iter().enumerate() {
            // SAFETY: as above.
            unsafe {
                let to = to.add(i * to_step);
                _mm_storeu_ps(to, _mm256_castps256_ps128(quad));
                _mm_storeu_ps(to.add(4 * to_step), _mm256_extractf128_ps::<1>(quad));
            }
        }
    }

    /// Returns the elements of four columns of each row of eight; a vector has those of a row and of the
    /// fourth after it.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn quads(from: *const f32, from_step: usize) -> [std::arch::x86_64::__m256; 4] {
        let mut x = [_mm256_setzero_ps(); 4];
        for (i, x) in x.iter_mut().enumerate() {
            // SAFETY: as for `transpose_4`.
            *x = unsafe { _mm256_loadu_ps(from.add(i * from_step)) };
        }
        let low = |i: usize| _mm256_castps_pd(_mm256_unpacklo_ps(x[i], x[i + 1]));
        let high = |i: usize| _mm256_castps_pd(_mm256_unpackhi_ps(x[i], x[i + 1]));
        let [low, high] = [[low(0), low(2)], [high(0), high(2)]];
        [
            _mm256_castpd_ps(_mm256_unpacklo_pd(low[0], low[1])),
            _mm256_castpd_ps(_mm256_unpackhi_pd(low[0], low[1])),
            _mm256_castpd_ps(_mm256_unpacklo_pd(high[0], high[1])),
            _mm256_castpd_ps(_mm256_unpackhi_pd(high[0], high[1])),
        ]
    }

    /// Transposes elements of 8 bytes.
    ///
    /// # Safety
    ///
    /// As for [`transpose_4`], but half as many rows are enough.
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn transpose_8(
        from: *const f64,
        from_step: usize,
        to: *mut f64,
        to_step: usize,
        rows: usize,
        columns: usize,
    ) {
        const SIDE: usize = 4;
        let starts = |n: usize| (0..n.div_ceil(SIDE)).map(move |i| (i * SIDE).min(n - SIDE));
        for c in starts(columns) {
            for r in starts(rows) {
                let mut x = [_mm256_setzero_pd(); SIDE];
                for (i, x) in x.iter_mut().enumerate() {
                    // SAFETY: `r + 3` is a row and `c + 3` a column.
                    *x = unsafe { _mm256_loadu_pd(from.add((c + i) * from_step + r)) };
                }
                let low = [_mm256_unpacklo_pd(x[0], x[1]), _mm256_unpacklo_pd(x[2], x[3])];
                let high = [_mm256_unpackhi_pd(x[0], x[1]), _mm256_unpackhi_pd(x[2], x[3])];
                let lines = [
                    _mm256_permute2f128_pd::<0x20>(low[0], low[1]),
                    _mm256_permute2f128_pd::<0x20>(high[0], high[1]),
                    _mm256_permute2f128_pd::<0x31>(low[0], low[1]),
                    _mm256_permute2f128_pd::<0x31>(high[0], high[1]),
                ];
                for (i, line) in lines.into_iter().enumerate() {
                    // SAFETY: as above.
                    unsafe { _mm256_storeu_pd(to.add((r + i) * to_step + c), line) };
                }
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
        for (rows, columns) in [
            (0, 3),
            (1, 1),
            (8, 8),
            (7, 9),
            (8, 31),
            (13, 8),
            (32, 32),
            (19, 25),
            (9, 4),
            (40, 12),
            (17, 6),
            (30, 13),
            (4, 5),
            (3, 4),
        ] {
            check(rows, columns, 0.0, |i| i as f32 + 1.0);
            check(rows, columns, 0u16, |i| i as u16 + 1);
            check(rows, columns, 0i64, |i| i as i64 + 1);
        }
    }
}
