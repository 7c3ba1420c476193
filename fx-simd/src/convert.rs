//! Conversions for which loops of plain Rust become poor vector code.

/// Conversion of a float to an integer: towards zero, NaN to 0, and to the nearest bound what is out of range, as `as` does.
///
/// Unlike `as`, it becomes short vector code.
pub trait Truncate<I> {
    /// Converts one value.
    fn truncate(self) -> I;
}

macro_rules! truncate {
    ($($float:ty => $($int:ty),*;)*) => {
        $($(impl Truncate<$int> for $float {
            #[inline(always)]
            fn truncate(self) -> $int {
                // Both bounds are exact: the least integer and the one above the greatest are powers of two.
                const LEAST: $float = <$int>::MIN as $float;
                const ABOVE: $float = (<$int>::MAX / 2 + 1) as $float * 2.0;
                let inside = (LEAST..ABOVE).contains(&self);
                // SAFETY: the number lies within the bounds, or is 0.
                let x: $int = unsafe { (if inside { self } else { 0.0 }).to_int_unchecked() };
                let x = if self >= ABOVE { <$int>::MAX } else { x };
                if self < LEAST { <$int>::MIN } else { x }
            }
        })*)*
    };
}
truncate! {
    f32 => i32, i64;
    f64 => i32, i64;
}

macro_rules! truncate_narrow {
    ($($float:ty => $($int:ty),*;)*) => {
        $($(impl Truncate<$int> for $float {
            #[inline(always)]
            fn truncate(self) -> $int {
                let x: i32 = self.truncate();
                x.clamp(<$int>::MIN as i32, <$int>::MAX as i32) as $int
            }
        })*)*
    };
}
truncate_narrow! {
    f32 => u8, i8;
    f64 => u8, i8;
}

/// Converts the bits of 16-bit floats to f32, exactly; NaN becomes quiet. Returns whether this machine has instructions for it.
///
/// # Panics
///
/// When the lengths differ.
pub fn f16_to_f32(from: &[u16], to: &mut [f32]) -> bool {
    assert_eq!(from.len(), to.len(), "a conversion is as long as its source");
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx512f") {
        // SAFETY: the feature was found just now.
        unsafe { x86::f16_to_f32(from, to) };
        return true;
    }
    false
}

/// Rounds f32 to the bits of 16-bit floats, to nearest even. Returns whether this machine has instructions for it.
///
/// # Panics
///
/// When the lengths differ.
pub fn f32_to_f16(from: &[f32], to: &mut [u16]) -> bool {
    assert_eq!(from.len(), to.len(), "a conversion is as long as its source");
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx512f") {
        // SAFETY: the feature was found just now.
        unsafe { x86::f32_to_f16(from, to) };
        return true;
    }
    false
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{
        _MM_FROUND_TO_NEAREST_INT, _mm256_loadu_si256, _mm256_storeu_si256, _mm512_cvtph_ps, _mm512_cvtps_ph,
        _mm512_loadu_ps, _mm512_storeu_ps,
    };

    const LANES: usize = 16;

    #[target_feature(enable = "avx512f")]
    pub(super) fn f16_to_f32(from: &[u16], to: &mut [f32]) {
        let (blocks, rest) = from.as_chunks::<LANES>();
        let (to_blocks, to_rest) = to.as_chunks_mut::<LANES>();
        for (from, to) in blocks.iter().zip(to_blocks) {
            // SAFETY: both blocks have 16 elements.
            unsafe {
                _mm512_storeu_ps(to.as_mut_ptr(), _mm512_cvtph_ps(_mm256_loadu_si256(from.as_ptr().cast())))
            };
        }
        if !rest.is_empty() {
            let (mut bits, mut floats) = ([0; LANES], [0.0; LANES]);
            bits[..rest.len()].copy_from_slice(rest);
            f16_to_f32(&bits, &mut floats);
            to_rest.copy_from_slice(&floats[..rest.len()]);
        }
    }

    #[target_feature(enable = "avx512f")]
    pub(super) fn f32_to_f16(from: &[f32], to: &mut [u16]) {
        let (blocks, rest) = from.as_chunks::<LANES>();
        let (to_blocks, to_rest) = to.as_chunks_mut::<LANES>();
        for (from, to) in blocks.iter().zip(to_blocks) {
            // SAFETY: both blocks have 16 elements.
            unsafe {
                let bits = _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(_mm512_loadu_ps(from.as_ptr()));
                _mm256_storeu_si256(to.as_mut_ptr().cast(), bits);
            }
        }
        if !rest.is_empty() {
            let (mut bits, mut floats) = ([0; LANES], [0.0; LANES]);
            floats[..rest.len()].copy_from_slice(rest);
            f32_to_f16(&floats, &mut bits);
            to_rest.copy_from_slice(&bits[..rest.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truncation_is_that_of_the_language() {
        let powers =
            (0..140).flat_map(|e| [2f64.powi(e), 2f64.powi(e) - 1.0, 2f64.powi(e) + 1.0, 1.5 * 2f64.powi(e)]);
        let plain = [0.0, -0.0, 0.5, 0.99, f64::NAN, f64::INFINITY, 1e300];
        for x in powers.chain(plain).flat_map(|x| [x, -x]) {
            let f = x as f32;
            assert_eq!(Truncate::<i32>::truncate(f), f as i32, "{f}");
            assert_eq!(Truncate::<i64>::truncate(f), f as i64, "{f}");
            assert_eq!(Truncate::<u8>::truncate(f), f as u8, "{f}");
            assert_eq!(Truncate::<i8>::truncate(f), f as i8, "{f}");
            assert_eq!(Truncate::<i32>::truncate(x), x as i32, "{x}");
            assert_eq!(Truncate::<i64>::truncate(x), x as i64, "{x}");
            assert_eq!(Truncate::<u8>::truncate(x), x as u8, "{x}");
            assert_eq!(Truncate::<i8>::truncate(x), x as i8, "{x}");
        }
    }

    #[test]
    fn every_half_float_comes_back() {
        let bits: Vec<u16> = (0..=u16::MAX).chain([1, 2, 3]).collect();
        let (mut floats, mut back) = (vec![0.0; bits.len()], vec![0; bits.len()]);
        if !f16_to_f32(&bits, &mut floats) || !f32_to_f16(&floats, &mut back) {
            return;
        }
        for ((&bits, &back), &float) in bits.iter().zip(&back).zip(&floats) {
            let is_nan = bits & 0x7fff > 0x7c00;
            assert_eq!(float.is_nan(), is_nan);
            assert_eq!(back, if is_nan { bits | 0x200 } else { bits });
        }
        assert_eq!([floats[0x3c00], floats[0xc000], floats[0x7bff]], [1.0, -2.0, 65504.0]);
    }
}
