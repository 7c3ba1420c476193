//! The innermost loops of matrix products, in the vectors of the machine: a tile of the result stays in registers.
//!
//! Each element of a tile is one chain of fused multiply-adds over `k`, in order, so that neither the size of a tile nor the
//! vectors that it is made of change a bit.

use super::Strides;

/// Loops for one element type.
pub struct Tile<T: 'static> {
    /// The rows of a full tile.
    pub(crate) rows: usize,
    /// The columns of a tile.
    pub(crate) cols: usize,
    run: unsafe fn(rows: usize, cols: usize, k: usize, &Operands<T>),
}

/// The operands of a tile: `c = alpha * a @ b + beta * c`, where the columns of `b` lie one beside the other.
pub(crate) struct Operands<T> {
    pub(crate) a: *const T,
    pub(crate) a_strides: Strides,
    pub(crate) b: *const T,
    pub(crate) b_stride: usize,
    pub(crate) alpha: T,
    pub(crate) beta: T,
    pub(crate) c: *mut T,
    pub(crate) c_strides: Strides,
}

impl<T> Tile<T> {
    /// Computes a tile of `rows` rows and `cols` columns, no more than a full one has. If `beta` is zero, `c` is not read.
    ///
    /// # Safety
    ///
    /// This tile was given by [`tile_f32`] or [`tile_f64`]. For `k` steps, `a` must be readable at the rows of the tile and `b`
    /// at the columns of a full one, and `c` writable at the rows and columns of the tile, by nobody else.
    pub(crate) unsafe fn run(&self, rows: usize, cols: usize, k: usize, operands: &Operands<T>) {
        debug_assert!((1..=self.rows).contains(&rows) && (1..=self.cols).contains(&cols));
        // SAFETY: the caller's promise, and the features were found when the tile was given.
        unsafe { (self.run)(rows, cols, k, operands) }
    }
}

/// Returns the loops for f32, if this machine has vectors that they are written for.
pub(crate) fn tile_f32() -> Option<&'static Tile<f32>> {
    #[cfg(target_arch = "x86_64")]
    {
        if std::arch::is_x86_feature_detected!("avx512f") {
            return Some(&x86::F32_AVX512);
        }
        if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma") {
            return Some(&x86::F32_AVX2);
        }
    }
    None
}

/// Returns the loops for f64, if this machine has vectors that they are written for.
pub(crate) fn tile_f64() -> Option<&'static Tile<f64>> {
    #[cfg(target_arch = "x86_64")]
    {
        if std::arch::is_x86_feature_detected!("avx512f") {
            return Some(&x86::F64_AVX512);
        }
        if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma") {
            return Some(&x86::F64_AVX2);
        }
    }
    None
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{
        _mm256_add_pd, _mm256_add_ps, _mm256_fmadd_pd, _mm256_fmadd_ps, _mm256_loadu_pd, _mm256_loadu_ps,
        _mm256_mul_pd, _mm256_mul_ps, _mm256_set1_pd, _mm256_set1_ps, _mm256_setzero_pd, _mm256_setzero_ps,
        _mm256_storeu_pd, _mm256_storeu_ps, _mm512_add_pd, _mm512_add_ps, _mm512_fmadd_pd, _mm512_fmadd_ps,
        _mm512_loadu_pd, _mm512_loadu_ps, _mm512_mul_pd, _mm512_mul_ps, _mm512_set1_pd, _mm512_set1_ps,
        _mm512_setzero_pd, _mm512_setzero_ps, _mm512_storeu_pd, _mm512_storeu_ps,
    };

    use super::{Operands, Tile};

    macro_rules! tiles {
        ($($name:ident: $t:ty, $features:literal, $lanes:literal, [$($rows:literal)*],
            $zero:ident, $load:ident, $store:ident, $set1:ident, $fma:ident, $mul:ident, $add:ident;)*) => {$(
            pub(super) static $name: Tile<$t> = {
                const VECTORS: usize = 2;
                const LANES: usize = $lanes;
                const COLS: usize = VECTORS * LANES;

                #[target_feature(enable = $features)]
                unsafe fn tile<const ROWS: usize>(cols: usize, k: usize, operands: &Operands<$t>) {
                    let &Operands { a, a_strides: (rsa, csa), b, b_stride, alpha, beta, c, c_strides: (rsc, csc) } =
                        operands;
                    // SAFETY: the caller promises the rows and columns of `a`, `b` and `c` that are touched here. Pointers
                    // that leave them after the last step are not read.
                    unsafe {
                        let mut sums = [[$zero(); VECTORS]; ROWS];
                        let (mut a, mut b) = (a, b);
                        for _ in 0..k {
                            let mut y = [$zero(); VECTORS];
                            for j in 0..VECTORS {
                                y[j] = $load(b.wrapping_add(j * LANES));
                            }
                            for i in 0..ROWS {
                                let x = $set1(*a.wrapping_add(i * rsa));
                                for j in 0..VECTORS {
                                    sums[i][j] = $fma(x, y[j], sums[i][j]);
                                }
                            }
                            a = a.wrapping_add(csa);
                            b = b.wrapping_add(b_stride);
                        }
                        let scale = $set1(alpha);
                        if cols == COLS && csc == 1 {
                            for i in 0..ROWS {
                                let c = c.wrapping_add(i * rsc);
                                for j in 0..VECTORS {
                                    let mut sum = $mul(scale, sums[i][j]);
                                    if beta != 0.0 {
                                        sum = $add(sum, $mul($set1(beta), $load(c.wrapping_add(j * LANES))));
                                    }
                                    $store(c.wrapping_add(j * LANES), sum);
                                }
                            }
                            return;
                        }
                        for i in 0..ROWS {
                            let mut row = [0.0; COLS];
                            for j in 0..VECTORS {
                                $store(row.as_mut_ptr().add(j * LANES), $mul(scale, sums[i][j]));
                            }
                            for (j, &sum) in row[..cols].iter().enumerate() {
                                let c = c.wrapping_add(i * rsc + j * csc);
                                *c = if beta == 0.0 { sum } else { sum + beta * *c };
                            }
                        }
                    }
                }

                unsafe fn run(rows: usize, cols: usize, k: usize, operands: &Operands<$t>) {
                    // SAFETY: the caller's promise.
                    unsafe {
                        match rows {
                            $($rows => tile::<$rows>(cols, k, operands),)*
                            _ => unreachable!("a tile has no more rows than a full one"),
                        }
                    }
                }

                const ROWS: usize = [$($rows),*].len();
                Tile { rows: ROWS, cols: COLS, run }
            };
        )*};
    }

    tiles! {
        F32_AVX512: f32, "avx512f", 16, [1 2 3 4 5 6 7 8 9 10 11 12],
            _mm512_setzero_ps, _mm512_loadu_ps, _mm512_storeu_ps, _mm512_set1_ps, _mm512_fmadd_ps, _mm512_mul_ps, _mm512_add_ps;
        F64_AVX512: f64, "avx512f", 8, [1 2 3 4 5 6 7 8 9 10 11 12],
            _mm512_setzero_pd, _mm512_loadu_pd, _mm512_storeu_pd, _mm512_set1_pd, _mm512_fmadd_pd, _mm512_mul_pd, _mm512_add_pd;
        F32_AVX2: f32, "avx2,fma", 8, [1 2 3 4 5 6],
            _mm256_setzero_ps, _mm256_loadu_ps, _mm256_storeu_ps, _mm256_set1_ps, _mm256_fmadd_ps, _mm256_mul_ps, _mm256_add_ps;
        F64_AVX2: f64, "avx2,fma", 4, [1 2 3 4 5 6],
            _mm256_setzero_pd, _mm256_loadu_pd, _mm256_storeu_pd, _mm256_set1_pd, _mm256_fmadd_pd, _mm256_mul_pd, _mm256_add_pd;
    }
}
