//! Conversions for which loops of plain Rust become poor vector code.

use half::f16;
use half::slice::HalfFloatSliceExt;

use crate::{Filled, UninitSlice};

/// Conversion of a float to an integer: towards zero, NaN to 0, and to the nearest bound what is out of
/// range, as `as` does.
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

/// Converts 16-bit floats to f32, exactly; NaN becomes quiet.
///
/// # Panics
///
/// When the lengths differ.
pub fn f16_to_f32<'a>(from: &[f16], to: UninitSlice<'a, f32>) -> Filled<'a> {
    assert_eq!(from.len(), to.len(), "a conversion is as long as its source");
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx512f") {
        let mut to = to;
        // SAFETY: the feature was found just now, and the lengths are equal.
        unsafe { x86::f16_to_f32(from.len(), from.as_ptr().cast(), to.as_mut_ptr()) };
        // SAFETY: all elements were written.
        return unsafe { to.filled() };
    }
    to.cleared(|to| from.convert_to_f32_slice(to))
}

/// Rounds f32 to 16-bit floats, to nearest even.
///
/// # Panics
///
/// When the lengths differ.
pub fn f32_to_f16<'a>(from: &[f32], to: UninitSlice<'a, f16>) -> Filled<'a> {
    assert_eq!(from.len(), to.len(), "a conversion is as long as its source");
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx512f") {
        let mut to = to;
        // SAFETY: the feature was found just now, and the lengths are equal. An `f16` is laid out as its bits.
        unsafe { x86::f32_to_f16(from.len(), from.as_ptr(), to.as_mut_ptr().cast()) };
        // SAFETY: all elements were written.
        return unsafe { to.filled() };
    }
    to.cleared(|to| to.convert_from_f32_slice(from))
}

/// An operation on two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arithmetic {
    /// The sum.
    Add,
    /// The difference.
    Sub,
    /// The product.
    Mul,
    /// The quotient.
    Div,
}

/// Arithmetic of 16-bit floats on machines where that is faster than conversions of whole blocks.
#[derive(Clone, Copy)]
pub struct HalfArithmetic(Proof);

/// That the machine has the instructions.
#[cfg(target_arch = "x86_64")]
type Proof = ();
#[cfg(not(target_arch = "x86_64"))]
type Proof = std::convert::Infallible;

impl HalfArithmetic {
    /// Returns it on a machine that has it.
    pub fn detect() -> Option<HalfArithmetic> {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx512f") {
            return Some(HalfArithmetic(()));
        }
        None
    }

    /// Computes pairs in f32 and rounds the results, to nearest even.
    ///
    /// # Panics
    ///
    /// When the lengths differ.
    pub fn pairs<'a>(self, op: Arithmetic, x: &[f16], y: &[f16], to: UninitSlice<'a, f16>) -> Filled<'a> {
        assert!(x.len() == to.len() && y.len() == to.len(), "a result is as long as its operands");
        #[cfg(target_arch = "x86_64")]
        {
            let mut to = to;
            // SAFETY: the feature was found when this was made, and the lengths are equal. An `f16` is laid
            // out as its bits.
            unsafe {
                x86::f16_pairs(op, x.len(), x.as_ptr().cast(), y.as_ptr().cast(), to.as_mut_ptr().cast());
            }
            // SAFETY: all elements were written.
            unsafe { to.filled() }
        }
        #[cfg(not(target_arch = "x86_64"))]
        match (op, self.0) {}
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{
        __m512, _MM_FROUND_TO_NEAREST_INT, _mm256_loadu_si256, _mm256_storeu_si256, _mm512_add_ps,
        _mm512_cvtph_ps, _mm512_cvtps_ph, _mm512_div_ps, _mm512_loadu_ps, _mm512_mul_ps, _mm512_storeu_ps,
        _mm512_sub_ps,
    };

    use super::Arithmetic;

    const LANES: usize = 16;

    /// # Safety
    ///
    /// There are `len` elements on all sides.
    #[target_feature(enable = "avx512f")]
    pub(super) unsafe fn f16_pairs(op: Arithmetic, len: usize, x: *const u16, y: *const u16, to: *mut u16) {
        match op {
            // SAFETY: the caller's promise.
            Arithmetic::Add => unsafe { pairs(len, x, y, to, |x, y| _mm512_add_ps(x, y)) },
            // SAFETY: the caller's promise.
            Arithmetic::Sub => unsafe { pairs(len, x, y, to, |x, y| _mm512_sub_ps(x, y)) },
            // SAFETY: the caller's promise.
            Arithmetic::Mul => unsafe { pairs(len, x, y, to, |x, y| _mm512_mul_ps(x, y)) },
            // SAFETY: the caller's promise.
            Arithmetic::Div => unsafe { pairs(len, x, y, to, |x, y| _mm512_div_ps(x, y)) },
        }
    }

    /// # Safety
    ///
    /// There are `len` elements on all sides.
    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn pairs(
        len: usize,
        x: *const u16,
        y: *const u16,
        to: *mut u16,
        op: impl Fn(__m512, __m512) -> __m512,
    ) {
        let whole = len / LANES * LANES;
        // SAFETY: blocks of 16 elements lie before the end; the rest goes through buffers of 16.
        unsafe {
            let block = |x: *const u16, y: *const u16, to: *mut u16| {
                let x = _mm512_cvtph_ps(_mm256_loadu_si256(x.cast()));
                let y = _mm512_cvtph_ps(_mm256_loadu_si256(y.cast()));
                let bits = _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(op(x, y));
                _mm256_storeu_si256(to.cast(), bits);
            };
            for at in (0..whole).step_by(LANES) {
                block(x.add(at), y.add(at), to.add(at));
            }
            if whole < len {
                let [mut a, mut b, mut out] = [[0u16; LANES]; 3];
                a.as_mut_ptr().copy_from_nonoverlapping(x.add(whole), len - whole);
                b.as_mut_ptr().copy_from_nonoverlapping(y.add(whole), len - whole);
                block(a.as_ptr(), b.as_ptr(), out.as_mut_ptr());
                to.add(whole).copy_from_nonoverlapping(out.as_ptr(), len - whole);
            }
        }
    }

    /// # Safety
    ///
    /// There are `len` elements on both sides.
    #[target_feature(enable = "avx512f")]
    pub(super) unsafe fn f16_to_f32(len: usize, from: *const u16, to: *mut f32) {
        let whole = len / LANES * LANES;
        // SAFETY: blocks of 16 elements lie before the end; the rest goes through buffers of 16.
        unsafe {
            for at in (0..whole).step_by(LANES) {
                _mm512_storeu_ps(to.add(at), _mm512_cvtph_ps(_mm256_loadu_si256(from.add(at).cast())));
            }
            if whole < len {
                let (mut bits, mut floats) = ([0u16; LANES], [0.0f32; LANES]);
                bits.as_mut_ptr().copy_from_nonoverlapping(from.add(whole), len - whole);
                _mm512_storeu_ps(
                    floats.as_mut_ptr(),
                    _mm512_cvtph_ps(_mm256_loadu_si256(bits.as_ptr().cast())),
                );
                to.add(whole).copy_from_nonoverlapping(floats.as_ptr(), len - whole);
            }
        }
    }

    /// # Safety
    ///
    /// There are `len` elements on both sides.
    #[target_feature(enable = "avx512f")]
    pub(super) unsafe fn f32_to_f16(len: usize, from: *const f32, to: *mut u16) {
        let whole = len / LANES * LANES;
        // SAFETY: as above.
        unsafe {
            for at in (0..whole).step_by(LANES) {
                let bits = _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(_mm512_loadu_ps(from.add(at)));
                _mm256_storeu_si256(to.add(at).cast(), bits);
            }
            if whole < len {
                let (mut bits, mut floats) = ([0u16; LANES], [0.0f32; LANES]);
                floats.as_mut_ptr().copy_from_nonoverlapping(from.add(whole), len - whole);
                let packed = _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(_mm512_loadu_ps(floats.as_ptr()));
                _mm256_storeu_si256(bits.as_mut_ptr().cast(), packed);
                to.add(whole).copy_from_nonoverlapping(bits.as_ptr(), len - whole);
            }
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
    fn pairs_of_half_floats_are_computed_in_f32() {
        use Arithmetic::{Add, Div, Mul, Sub};
        let x: Vec<f16> = (0..=u16::MAX).step_by(37).map(f16::from_bits).collect();
        let y: Vec<f16> = (0..=u16::MAX).step_by(41).map(f16::from_bits).cycle().take(x.len()).collect();
        let Some(arithmetic) = HalfArithmetic::detect() else { return };
        for op in [Add, Sub, Mul, Div] {
            let mut out = vec![f16::ZERO; x.len()];
            arithmetic.pairs(op, &x, &y, UninitSlice::over(&mut out));
            for ((x, y), out) in x.iter().zip(&y).zip(out) {
                let (x, y) = (x.to_f32(), y.to_f32());
                let exact = match op {
                    Add => x + y,
                    Sub => x - y,
                    Mul => x * y,
                    Div => x / y,
                };
                let want = f16::from_f32(exact);
                assert!(
                    out.to_bits() == want.to_bits() || out.is_nan() && want.is_nan(),
                    "{op:?} of {x} and {y}"
                );
            }
        }
    }

    #[test]
    fn every_half_float_comes_back() {
        let halves: Vec<f16> = (0..=u16::MAX).chain([1, 2, 3]).map(f16::from_bits).collect();
        let (mut floats, mut back) = (vec![0.0; halves.len()], vec![f16::ZERO; halves.len()]);
        f16_to_f32(&halves, UninitSlice::over(&mut floats));
        f32_to_f16(&floats, UninitSlice::over(&mut back));
        for ((half, back), float) in halves.iter().zip(&back).zip(&floats) {
            assert_eq!(float.is_nan(), half.is_nan());
            let bits = half.to_bits();
            assert_eq!(back.to_bits(), if half.is_nan() { bits | 0x200 } else { bits });
        }
        assert_eq!([floats[0x3c00], floats[0xc000], floats[0x7bff]], [1.0, -2.0, 65504.0]);
    }
}
