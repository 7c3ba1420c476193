//! 16-bit floats: kept in 16 bits, computed in `f32`.

use core::cmp::Ordering;

macro_rules! half {
    ($(#[$meta:meta])* $name:ident, $infinity:literal, $from:ident, $to:ident) => {
        $(#[$meta])*
        #[allow(non_camel_case_types)]
        #[derive(Clone, Copy, Default)]
        #[repr(transparent)]
        pub struct $name(u16);

        impl $name {
            /// Zero.
            pub const ZERO: $name = $name(0);
            /// Infinity.
            pub const INFINITY: $name = $name($infinity);
            /// Minus infinity.
            pub const NEG_INFINITY: $name = $name($infinity | 0x8000);

            /// Takes the bits of a number.
            pub const fn from_bits(bits: u16) -> $name {
                $name(bits)
            }

            /// Returns the bits.
            pub const fn to_bits(self) -> u16 {
                self.0
            }

            /// Reads a number, the least significant byte first.
            pub const fn from_le_bytes(bytes: [u8; 2]) -> $name {
                $name(u16::from_le_bytes(bytes))
            }

            /// Rounds to the nearest number, of two equally near ones to the even one.
            #[inline(always)]
            pub fn from_f32(x: f32) -> $name {
                $name($from(x))
            }

            /// Returns the number, exactly.
            #[inline(always)]
            pub fn to_f32(self) -> f32 {
                $to(self.0)
            }
        }

        impl PartialEq for $name {
            fn eq(&self, other: &$name) -> bool {
                self.to_f32() == other.to_f32()
            }
        }

        impl PartialOrd for $name {
            fn partial_cmp(&self, other: &$name) -> Option<Ordering> {
                self.to_f32().partial_cmp(&other.to_f32())
            }
        }

        impl core::fmt::Debug for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                self.to_f32().fmt(f)
            }
        }

        impl From<$name> for f32 {
            fn from(x: $name) -> f32 {
                x.to_f32()
            }
        }

        impl From<$name> for f64 {
            fn from(x: $name) -> f64 {
                f64::from(x.to_f32())
            }
        }
    };
}

half! {
    /// The half precision of IEEE 754: 5 bits of exponent, 10 of fraction.
    f16, 0x7c00, f16_of, f32_of_f16
}
half! {
    /// The upper half of an `f32`: 8 bits of exponent, 7 of fraction.
    bf16, 0x7f80, bf16_of, f32_of_bf16
}

#[inline(always)]
fn f16_of(x: f32) -> u16 {
    let bits = x.to_bits();
    let (sign, size) = ((bits >> 16) as u16 & 0x8000, bits & 0x7fff_ffff);
    let half = if size > 0x7f80_0000 {
        // NaN keeps the first bits of its payload and stays quiet.
        0x7e00 | (size >> 13) as u16 & 0x3ff
    } else if size >= 0x4780_0000 {
        0x7c00
    } else if size >= 0x3880_0000 {
        ((size + 0xfff + (size >> 13 & 1) - 0x3800_0000) >> 13) as u16
    } else {
        // Added to 0.5, whose last place is the least subnormal number, it is rounded as it should be.
        (f32::to_bits(f32::from_bits(size) + 0.5) - 0x3f00_0000) as u16
    };
    sign | half
}

#[inline(always)]
fn f32_of_f16(bits: u16) -> f32 {
    let (sign, size) = (u32::from(bits & 0x8000) << 16, u32::from(bits & 0x7fff));
    let single = match size {
        0x7c00.. => 0x7f80_0000 | size << 13,
        0x400.. => (size << 13) + (112 << 23),
        _ => f32::to_bits(size as f32 * (1.0 / 16_777_216.0)),
    };
    f32::from_bits(sign | single)
}

#[inline(always)]
fn bf16_of(x: f32) -> u16 {
    let bits = x.to_bits();
    if x != x { (bits >> 16) as u16 | 0x40 } else { ((bits + 0x7fff + (bits >> 16 & 1)) >> 16) as u16 }
}

#[inline(always)]
fn f32_of_bf16(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}
