//! Floats as integers, as Rust's `as` converts them: towards zero, NaN as 0, saturating.
//!
//! Compilers turn `as` into one conversion after the other. These are straight-line code that becomes vector code.

/// Adding 1.5 * 2^52 to an integer leaves it in the low bits.
const IN_LOW_BITS: f64 = 6_755_399_441_055_744.0;
const IN_LOW_BITS32: f32 = 12_582_912.0;

/// Returns the integer part within bounds, and 0 for NaN.
macro_rules! bounded {
    ($x:expr, $low:expr, $high:expr) => {{
        let x = if $x == $x { $x } else { 0.0 };
        let x = if x < $low { $low } else { x };
        (if x > $high { $high } else { x }).trunc()
    }};
}

macro_rules! narrow {
    ($($name:ident: $from:ty => $to:ty, $magic:ident;)*) => {$(
        #[inline(always)]
        #[allow(clippy::eq_op, reason = "NaN differs from itself")]
        pub(super) fn $name(x: $from) -> $to {
            (bounded!(x, <$from>::from(<$to>::MIN), <$from>::from(<$to>::MAX)) + $magic).to_bits() as $to
        }
    )*};
}
narrow! {
    f32_to_u8: f32 => u8, IN_LOW_BITS32;
    f32_to_i8: f32 => i8, IN_LOW_BITS32;
    f64_to_u8: f64 => u8, IN_LOW_BITS;
    f64_to_i8: f64 => i8, IN_LOW_BITS;
    f64_to_i32: f64 => i32, IN_LOW_BITS;
}

#[inline(always)]
pub(super) fn f32_to_i32(x: f32) -> i32 {
    f64_to_i32(f64::from(x))
}

/// Shifts the mantissa by the exponent.
macro_rules! shifted {
    ($x:expr, $bits:ty, $mantissa:literal, $bias:literal) => {{
        let bits = $x.to_bits();
        let exponent = (bits << 1 >> ($mantissa + 1)) as i64 - ($bias + $mantissa);
        let fraction: $bits = (1 << $mantissa) - 1;
        let mantissa = u64::from(bits & fraction) | 1 << $mantissa;
        let left = if exponent > 0 { exponent } else { 0 } as u64;
        let right = if exponent < -63 { 63 } else { -exponent } as u64;
        let magnitude = if exponent < 0 { mantissa >> (right & 63) } else { mantissa << (left & 63) } as i64;
        let is_negative = bits >> (<$bits>::BITS - 1) == 1;
        let value = if is_negative { magnitude.wrapping_neg() } else { magnitude };
        let bound = if is_negative { i64::MIN } else { i64::MAX };
        let value = if exponent > 62 - $mantissa { bound } else { value };
        if $x.is_nan() { 0 } else { value }
    }};
}

#[inline(always)]
pub(super) fn f32_to_i64(x: f32) -> i64 {
    shifted!(x, u32, 23, 127)
}

#[inline(always)]
pub(super) fn f64_to_i64(x: f64) -> i64 {
    shifted!(x, u64, 52, 1023)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conversions_are_those_of_as() {
        let edges =
            [0.0, -0.0, 0.9, -0.9, 127.5, 128.0, -128.9, -129.0, 255.9, 256.0, 2147483647.0, 2147483648.0];
        let edges = edges.iter().chain(&[9.2e18, 9.3e18, -9.223372036854775808e18, f64::NAN, f64::INFINITY]);
        let swept = (0..=u64::MAX).step_by(9_007_199_254_740_997).map(f64::from_bits);
        let small = (-40_000..40_000).map(|i| f64::from(i) * 0.173);
        for x in edges.flat_map(|&x| [x, -x]).chain(swept).chain(small) {
            assert_eq!(f64_to_u8(x), x as u8, "{x:e}");
            assert_eq!(f64_to_i8(x), x as i8, "{x:e}");
            assert_eq!(f64_to_i32(x), x as i32, "{x:e}");
            assert_eq!(f64_to_i64(x), x as i64, "{x:e}");
        }
        for x in
            (0..=u32::MAX).step_by(4099).map(f32::from_bits).chain([9.223372e18, -9.223372e18, 2147483648.0])
        {
            assert_eq!(f32_to_u8(x), x as u8, "{x:e}");
            assert_eq!(f32_to_i8(x), x as i8, "{x:e}");
            assert_eq!(f32_to_i32(x), x as i32, "{x:e}");
            assert_eq!(f32_to_i64(x), x as i64, "{x:e}");
        }
    }
}
