//! Tiles in the vectors of x86: AVX-512 and AVX2.

use std::arch::x86_64::{
    __m128i, __m256, __m256d, __m256i, __m512, __m512d, __m512i, _mm_loadu_si128, _mm256_add_epi32,
    _mm256_add_epi64, _mm256_add_pd, _mm256_add_ps, _mm256_castpd_ps, _mm256_castps_pd, _mm256_cmpgt_epi32,
    _mm256_cmpgt_epi64, _mm256_cvtepu32_epi64, _mm256_fmadd_pd, _mm256_fmadd_ps, _mm256_loadu_pd,
    _mm256_loadu_ps, _mm256_loadu_si256, _mm256_maskload_pd, _mm256_maskload_ps, _mm256_maskstore_pd,
    _mm256_maskstore_ps, _mm256_max_pd, _mm256_max_ps, _mm256_min_pd, _mm256_min_ps, _mm256_mul_pd,
    _mm256_mul_ps, _mm256_or_si256, _mm256_permutevar8x32_ps, _mm256_set1_epi32, _mm256_set1_epi64x,
    _mm256_set1_pd, _mm256_set1_ps, _mm256_setr_epi32, _mm256_setr_epi64x, _mm256_setzero_pd,
    _mm256_setzero_ps, _mm256_slli_epi64, _mm256_storeu_pd, _mm256_storeu_ps, _mm512_add_epi32,
    _mm512_add_epi64, _mm512_add_pd, _mm512_add_ps, _mm512_cvtepu32_epi64, _mm512_fmadd_pd, _mm512_fmadd_ps,
    _mm512_loadu_pd, _mm512_loadu_ps, _mm512_loadu_si512, _mm512_mask_storeu_pd, _mm512_mask_storeu_ps,
    _mm512_maskz_loadu_pd, _mm512_maskz_loadu_ps, _mm512_max_pd, _mm512_max_ps, _mm512_min_pd, _mm512_min_ps,
    _mm512_mul_pd, _mm512_mul_ps, _mm512_permutexvar_pd, _mm512_permutexvar_ps, _mm512_set1_epi32,
    _mm512_set1_epi64, _mm512_set1_pd, _mm512_set1_ps, _mm512_setzero_pd, _mm512_setzero_ps,
    _mm512_storeu_pd, _mm512_storeu_ps,
};

use fx_simd::{opaque, prefetch_line_later};

use super::{Dots, MOST_LANES, MOST_ROWS, Operands, Spread, Taps, Tile, Windows};

/// Defines loads and stores of the first elements of a vector, fewer than it has.
macro_rules! some {
    ($($load:ident, $store:ident: $t:ty, $vector:ty, $features:literal, |$x:ident, $n:ident, $v:ident| $loaded:expr, $stored:expr;)*) => {$(
        /// # Safety
        ///
        /// The elements can be read.
        #[target_feature(enable = $features)]
        unsafe fn $load($x: *const $t, $n: usize) -> $vector {
            // SAFETY: the caller's promise; others than the first elements are not touched.
            unsafe { $loaded }
        }

        /// # Safety
        ///
        /// The elements can be written.
        #[target_feature(enable = $features)]
        unsafe fn $store($x: *mut $t, $n: usize, $v: $vector) {
            // SAFETY: as above.
            unsafe { $stored }
        }
    )*};
}

some! {
    load_some_512_ps, store_some_512_ps: f32, __m512, "avx512f", |x, n, v|
        _mm512_maskz_loadu_ps((1 << n) - 1, x), _mm512_mask_storeu_ps(x, (1 << n) - 1, v);
    load_some_512_pd, store_some_512_pd: f64, __m512d, "avx512f", |x, n, v|
        _mm512_maskz_loadu_pd((1 << n) - 1, x), _mm512_mask_storeu_pd(x, (1 << n) - 1, v);
    load_some_256_ps, store_some_256_ps: f32, __m256, "avx2,fma", |x, n, v|
        _mm256_maskload_ps(x, first_of_8(n)), _mm256_maskstore_ps(x, first_of_8(n), v);
    load_some_256_pd, store_some_256_pd: f64, __m256d, "avx2,fma", |x, n, v|
        _mm256_maskload_pd(x, first_of_4(n)), _mm256_maskstore_pd(x, first_of_4(n), v);
}

/// Returns the mask of the first elements of eight.
#[target_feature(enable = "avx2")]
fn first_of_8(n: usize) -> __m256i {
    _mm256_cmpgt_epi32(_mm256_set1_epi32(n as i32), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7))
}

/// Returns the mask of the first elements of four.
#[target_feature(enable = "avx2")]
fn first_of_4(n: usize) -> __m256i {
    _mm256_cmpgt_epi64(_mm256_set1_epi64x(n as i64), _mm256_setr_epi64x(0, 1, 2, 3))
}

/// Defines permutations: places of elements, those of the next elements, and the elements of a vector there.
macro_rules! permutations {
    ($($places:ident, $next:ident, $permute:ident: $index:ty, $vector:ty, $features:literal,
        |$numbers:ident| $made:expr, |$old:ident| $new:expr, |$x:ident, $at:ident| $permuted:expr;)*) => {$(
        #[target_feature(enable = $features)]
        fn $places($numbers: &[u32; MOST_LANES]) -> $index {
            let $numbers = $numbers.as_ptr();
            // SAFETY: no more numbers are read than there are.
            unsafe { $made }
        }

        #[target_feature(enable = $features)]
        fn $next($old: $index) -> $index {
            $new
        }

        #[target_feature(enable = $features)]
        fn $permute($x: $vector, $at: $index) -> $vector {
            $permuted
        }
    )*};
}

permutations! {
    places_512_ps, next_512_ps, permute_512_ps: __m512i, __m512, "avx512f",
        |numbers| _mm512_loadu_si512(numbers.cast()), |at| _mm512_add_epi32(at, _mm512_set1_epi32(1)), |x, at| _mm512_permutexvar_ps(at, x);
    places_512_pd, next_512_pd, permute_512_pd: __m512i, __m512d, "avx512f",
        |numbers| _mm512_cvtepu32_epi64(_mm256_loadu_si256(numbers.cast::<__m256i>())), |at| _mm512_add_epi64(at, _mm512_set1_epi64(1)),
        |x, at| _mm512_permutexvar_pd(at, x);
    places_256_ps, next_256_ps, permute_256_ps: __m256i, __m256, "avx2,fma",
        |numbers| _mm256_loadu_si256(numbers.cast::<__m256i>()), |at| _mm256_add_epi32(at, _mm256_set1_epi32(1)),
        |x, at| _mm256_permutevar8x32_ps(x, at);
    places_256_pd, next_256_pd, permute_256_pd: __m256i, __m256d, "avx2,fma",
        |numbers| halves(_mm256_cvtepu32_epi64(_mm_loadu_si128(numbers.cast::<__m128i>()))), |at| _mm256_add_epi32(at, _mm256_set1_epi32(2)),
        |x, at| _mm256_castps_pd(_mm256_permutevar8x32_ps(_mm256_castpd_ps(x), at));
}

/// Returns the places of both halves of elements.
#[target_feature(enable = "avx2")]
fn halves(places: __m256i) -> __m256i {
    let first = _mm256_add_epi64(places, places);
    let second = _mm256_add_epi64(first, _mm256_set1_epi64x(1));
    _mm256_or_si256(first, _mm256_slli_epi64::<32>(second))
}

tiles! {
    F32_AVX512: f32, "avx512f", 16, [1 2 3 4 5 6 7 8 9 10 11 12], [1 2 3 4],
        _mm512_setzero_ps, _mm512_loadu_ps, _mm512_storeu_ps, load_some_512_ps, store_some_512_ps, _mm512_set1_ps, _mm512_fmadd_ps, _mm512_mul_ps, _mm512_add_ps,
        _mm512_min_ps, _mm512_max_ps,
        [places_512_ps, next_512_ps, permute_512_ps];
    F64_AVX512: f64, "avx512f", 8, [1 2 3 4 5 6 7 8 9 10 11 12], [1 2 3 4],
        _mm512_setzero_pd, _mm512_loadu_pd, _mm512_storeu_pd, load_some_512_pd, store_some_512_pd, _mm512_set1_pd, _mm512_fmadd_pd, _mm512_mul_pd, _mm512_add_pd,
        _mm512_min_pd, _mm512_max_pd,
        [places_512_pd, next_512_pd, permute_512_pd];
    F32_AVX2: f32, "avx2,fma", 8, [1 2 3 4 5 6], [1 2],
        _mm256_setzero_ps, _mm256_loadu_ps, _mm256_storeu_ps, load_some_256_ps, store_some_256_ps, _mm256_set1_ps, _mm256_fmadd_ps, _mm256_mul_ps, _mm256_add_ps,
        _mm256_min_ps, _mm256_max_ps,
        [places_256_ps, next_256_ps, permute_256_ps];
    F64_AVX2: f64, "avx2,fma", 4, [1 2 3 4 5 6], [1 2],
        _mm256_setzero_pd, _mm256_loadu_pd, _mm256_storeu_pd, load_some_256_pd, store_some_256_pd, _mm256_set1_pd, _mm256_fmadd_pd, _mm256_mul_pd, _mm256_add_pd,
        _mm256_min_pd, _mm256_max_pd,
        [places_256_pd, next_256_pd, permute_256_pd];
}
