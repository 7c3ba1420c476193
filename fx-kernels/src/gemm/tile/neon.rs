//! Tiles in the vectors of NEON.

use std::arch::aarch64::{
    float32x4x2_t, float64x2x2_t, uint8x16x2_t, vaddq_f32, vaddq_f64, vaddq_u8, vbslq_f32, vbslq_f64,
    vcgtq_f32, vcgtq_f64, vcltq_f32, vcltq_f64, vdupq_n_f32, vdupq_n_f64, vdupq_n_u8, vfmaq_f32, vfmaq_f64,
    vld1q_f32, vld1q_f64, vld1q_u8, vmulq_f32, vmulq_f64, vqtbl2q_u8, vreinterpretq_f32_u8,
    vreinterpretq_f64_u8, vreinterpretq_u8_f32, vreinterpretq_u8_f64, vst1q_f32, vst1q_f64,
};

use fx_simd::{opaque, prefetch_line_later};

use super::{Dots, MOST_LANES, MOST_ROWS, Operands, Spread, Taps, Tile, Windows};

/// Defines what vectors of two registers do, of `lanes` elements each.
macro_rules! vectors {
    ($t:ty, $lanes:literal, $two:ident, [$dup:ident, $ld:ident, $st:ident, $vfma:ident, $vmul:ident, $vadd:ident, $less:ident, $greater:ident, $choose:ident, $bytes:ident, $of_bytes:ident];
        $zero:ident, $load:ident, $store:ident, $load_some:ident, $store_some:ident, $set1:ident, $fma:ident, $mul:ident, $add:ident, $min:ident, $max:ident, $places:ident, $next_places:ident, $permute:ident) => {
        #[inline]
        #[target_feature(enable = "neon")]
        fn $zero() -> $two {
            $set1(0.0)
        }

        /// # Safety
        ///
        /// The elements can be read.
        #[inline]
        #[target_feature(enable = "neon")]
        unsafe fn $load(x: *const $t) -> $two {
            // SAFETY: the caller's promise.
            unsafe { $two($ld(x), $ld(x.add($lanes))) }
        }

        /// # Safety
        ///
        /// The elements can be written.
        #[inline]
        #[target_feature(enable = "neon")]
        unsafe fn $store(x: *mut $t, v: $two) {
            // SAFETY: the caller's promise.
            unsafe {
                $st(x, v.0);
                $st(x.add($lanes), v.1);
            }
        }

        /// # Safety
        ///
        /// The first elements can be read.
        #[target_feature(enable = "neon")]
        unsafe fn $load_some(x: *const $t, n: usize) -> $two {
            let mut all = [0.0; 2 * $lanes];
            // SAFETY: the caller's promise; there are no more than in a vector.
            unsafe {
                all.as_mut_ptr().copy_from_nonoverlapping(x, n);
                $load(all.as_ptr())
            }
        }

        /// # Safety
        ///
        /// The first elements can be written.
        #[target_feature(enable = "neon")]
        unsafe fn $store_some(x: *mut $t, n: usize, v: $two) {
            let mut all = [0.0; 2 * $lanes];
            // SAFETY: the caller's promise; there are no more than in a vector.
            unsafe {
                $store(all.as_mut_ptr(), v);
                x.copy_from_nonoverlapping(all.as_ptr(), n);
            }
        }

        #[inline]
        #[target_feature(enable = "neon")]
        fn $set1(x: $t) -> $two {
            $two($dup(x), $dup(x))
        }

        #[inline]
        #[target_feature(enable = "neon")]
        fn $fma(x: $two, y: $two, sum: $two) -> $two {
            $two($vfma(sum.0, x.0, y.0), $vfma(sum.1, x.1, y.1))
        }

        #[inline]
        #[target_feature(enable = "neon")]
        fn $mul(x: $two, y: $two) -> $two {
            $two($vmul(x.0, y.0), $vmul(x.1, y.1))
        }

        #[inline]
        #[target_feature(enable = "neon")]
        fn $add(x: $two, y: $two) -> $two {
            $two($vadd(x.0, y.0), $vadd(x.1, y.1))
        }

        /// Returns the second operand if one is NaN, or both are zeros.
        #[inline]
        #[target_feature(enable = "neon")]
        fn $min(x: $two, y: $two) -> $two {
            $two($choose($less(x.0, y.0), x.0, y.0), $choose($less(x.1, y.1), x.1, y.1))
        }

        /// As the least.
        #[inline]
        #[target_feature(enable = "neon")]
        fn $max(x: $two, y: $two) -> $two {
            $two($choose($greater(x.0, y.0), x.0, y.0), $choose($greater(x.1, y.1), x.1, y.1))
        }

        /// Returns the places of elements, of all their bytes.
        #[target_feature(enable = "neon")]
        fn $places(numbers: &[u32; MOST_LANES]) -> uint8x16x2_t {
            const SIZE: usize = size_of::<$t>();
            let bytes: [u8; 32] =
                std::array::from_fn(|i| (numbers[i / SIZE] as usize * SIZE + i % SIZE) as u8);
            // SAFETY: there are as many bytes.
            unsafe { uint8x16x2_t(vld1q_u8(bytes.as_ptr()), vld1q_u8(bytes.as_ptr().add(16))) }
        }

        /// Returns the places of the next elements.
        #[inline]
        #[target_feature(enable = "neon")]
        fn $next_places(at: uint8x16x2_t) -> uint8x16x2_t {
            let one = vdupq_n_u8(size_of::<$t>() as u8);
            uint8x16x2_t(vaddq_u8(at.0, one), vaddq_u8(at.1, one))
        }

        /// Returns the elements at these places.
        #[inline]
        #[target_feature(enable = "neon")]
        fn $permute(x: $two, at: uint8x16x2_t) -> $two {
            let x = uint8x16x2_t($bytes(x.0), $bytes(x.1));
            $two($of_bytes(vqtbl2q_u8(x, at.0)), $of_bytes(vqtbl2q_u8(x, at.1)))
        }
    };
}

vectors! {
    f32, 4, float32x4x2_t, [vdupq_n_f32, vld1q_f32, vst1q_f32, vfmaq_f32, vmulq_f32, vaddq_f32, vcltq_f32, vcgtq_f32, vbslq_f32, vreinterpretq_u8_f32, vreinterpretq_f32_u8];
    zero_s, load_s, store_s, load_some_s, store_some_s, set1_s, fma_s, mul_s, add_s, min_s, max_s, places_s, next_s, permute_s
}
vectors! {
    f64, 2, float64x2x2_t, [vdupq_n_f64, vld1q_f64, vst1q_f64, vfmaq_f64, vmulq_f64, vaddq_f64, vcltq_f64, vcgtq_f64, vbslq_f64, vreinterpretq_u8_f64, vreinterpretq_f64_u8];
    zero_d, load_d, store_d, load_some_d, store_some_d, set1_d, fma_d, mul_d, add_d, min_d, max_d, places_d, next_d, permute_d
}

// 24 of the 32 registers have sums.
tiles! {
    F32: f32, "neon", 8, [1 2 3 4 5 6], [1 2],
        zero_s, load_s, store_s, load_some_s, store_some_s, set1_s, fma_s, mul_s, add_s, min_s, max_s, [places_s, next_s, permute_s];
    F64: f64, "neon", 4, [1 2 3 4 5 6], [1 2],
        zero_d, load_d, store_d, load_some_d, store_some_d, set1_d, fma_d, mul_d, add_d, min_d, max_d, [places_d, next_d, permute_d];
}
