//! [`simd!`]: functions as they are, for machines whose features are known when they are compiled.

use super::tile::{First, PORTABLE, Place, Rows, Tile, portable};

/// Writes a function.
macro_rules! simd {
    (
        $(#[$meta:meta])*
        $vis:vis fn $name:ident $(<$($t:ident: $bound:path),+>)? ($($arg:ident: $ty:ty),* $(,)?) $body:block
    ) => {
        $(#[$meta])*
        #[allow(clippy::too_many_arguments, reason = "the sizes of a kernel are its arguments")]
        $vis fn $name $(<$($t: $bound),+>)? ($($arg: $ty),*) $body
    };
}
pub(crate) use simd;

/// Returns how many elements the row of a tile has.
pub const fn width<T>() -> usize {
    32 / size_of::<T>()
}

/// Returns how many rows tiles have, the tallest first.
pub const fn heights() -> &'static [usize] {
    PORTABLE
}

/// Elements of tiles.
pub trait Tiled: Copy {
    /// Returns `self * b + c`.
    fn multiply_add(self, b: Self, c: Self) -> Self;

    /// Multiplies and writes the tile.
    fn multiply<R: Rows>(tile: Tile<'_, Self, R>, first: First<'_, Self>, out: Place<'_, Self>);
}

macro_rules! tiled {
    ($($t:ty, $width:literal;)*) => {$(
        impl Tiled for $t {
            #[inline(always)]
            fn multiply_add(self, b: $t, c: $t) -> $t {
                self * b + c
            }

            fn multiply<R: Rows>(tile: Tile<'_, $t, R>, first: First<'_, $t>, out: Place<'_, $t>) {
                portable::<$t, R, $width, { $width / 2 }>(tile, first, out);
            }
        }
    )*};
}

tiled! {
    f32, 8;
    f64, 4;
}
