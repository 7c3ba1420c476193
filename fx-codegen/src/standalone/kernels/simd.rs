//! [`simd!`]: functions that use the vectors of the machine that they run on; and tiles of matrix products.

use super::tile::{First, PORTABLE, Place, Rows, Tile, portable};

/// Writes a function that is compiled for any processor and for one with AVX2, and chooses when it is called.
macro_rules! simd {
    (
        $(#[$meta:meta])*
        $vis:vis fn $name:ident $(<$($t:ident: $bound:path),+>)? ($($arg:ident: $ty:ty),* $(,)?) $body:block
    ) => {
        $(#[$meta])*
        #[allow(clippy::too_many_arguments, reason = "the sizes of a kernel are its arguments")]
        $vis fn $name $(<$($t: $bound),+>)? ($($arg: $ty),*) {
            #[inline(always)]
            fn any $(<$($t: $bound),+>)? ($($arg: $ty),*) $body

            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2,fma")]
                fn avx2 $(<$($t: $bound),+>)? ($($arg: $ty),*) {
                    any($($arg),*)
                }
                if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma") {
                    // SAFETY: the processor has what the function needs.
                    return unsafe { avx2($($arg),*) };
                }
            }
            any($($arg),*)
        }
    };
}
pub(crate) use simd;

/// The vectors of the machine.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Vectors {
    #[cfg(target_arch = "x86_64")]
    Avx512,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    Any,
}

impl Vectors {
    fn here() -> Vectors {
        #[cfg(target_arch = "x86_64")]
        {
            if std::arch::is_x86_feature_detected!("avx512f") {
                return Vectors::Avx512;
            }
            if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma") {
                return Vectors::Avx2;
            }
        }
        Vectors::Any
    }
}

/// Returns how many elements the row of a tile has: two vectors of the machine.
pub fn width<T>() -> usize {
    match Vectors::here() {
        #[cfg(target_arch = "x86_64")]
        Vectors::Avx512 => 128 / size_of::<T>(),
        #[cfg(target_arch = "x86_64")]
        Vectors::Avx2 => 64 / size_of::<T>(),
        Vectors::Any => 32 / size_of::<T>(),
    }
}

/// Returns how many rows tiles have, the tallest first.
pub fn heights() -> &'static [usize] {
    match Vectors::here() {
        #[cfg(target_arch = "x86_64")]
        Vectors::Avx512 => &[12, 8, 4, 2, 1],
        #[cfg(target_arch = "x86_64")]
        Vectors::Avx2 => &[6, 4, 2, 1],
        Vectors::Any => PORTABLE,
    }
}

/// Elements of tiles.
pub trait Tiled: Copy {
    /// Returns `self * b + c`, rounded once where every machine can.
    fn multiply_add(self, b: Self, c: Self) -> Self;

    /// Multiplies and writes the tile.
    fn multiply<R: Rows>(tile: Tile<'_, Self, R>, first: First<'_, Self>, out: Place<'_, Self>);
}

/// Writes the loop over the terms of a tile in vectors of the machine.
#[cfg(target_arch = "x86_64")]
macro_rules! tile {
    ($name:ident: $t:ty, $features:literal, $lanes:literal, $zero:ident, $load:ident, $store:ident, $splat:ident, $fused:ident, $add:ident) => {
        /// # Safety
        ///
        /// The processor has the features.
        #[target_feature(enable = $features)]
        pub(super) unsafe fn $name<R: Rows, const MR: usize, const VECTORS: usize, const CHAINS: usize>(
            tile: Tile<'_, $t, R>,
            first: First<'_, $t>,
            out: Place<'_, $t>,
        ) {
            use std::arch::x86_64::{$add, $fused, $load, $splat, $store, $zero};
            let Tile { a, step, terms, b, mut rows, .. } = tile;
            let width = VECTORS * $lanes;
            // The last rows begin there.
            let [a_row, out_row] = [step, out.step].map(|step| step.saturating_mul(MR - 1));
            assert!(
                a.len() >= a_row.saturating_add(terms) && out.data.len() >= out_row.saturating_add(width)
            );
            let (mut chains, a, out_at) =
                ([[[$zero(); VECTORS]; MR]; CHAINS], a.as_ptr(), out.data.as_mut_ptr());
            match first {
                First::Zero => {}
                First::Columns(first) => {
                    assert!(first.len() >= width);
                    for sums in &mut chains[0] {
                        for (v, sum) in sums.iter_mut().enumerate() {
                            // SAFETY: there is an element for each column.
                            *sum = unsafe { $load(first.as_ptr().add(v * $lanes)) };
                        }
                    }
                }
                First::Rows(first) => {
                    assert!(first.len() >= MR);
                    for (sums, &first) in chains[0].iter_mut().zip(first) {
                        *sums = [$splat(first); VECTORS];
                    }
                }
                First::Sums => {
                    for (i, sums) in chains[0].iter_mut().enumerate() {
                        for (v, sum) in sums.iter_mut().enumerate() {
                            // SAFETY: `out` has room for the tile.
                            *sum = unsafe { $load(out_at.add(i * out.step + v * $lanes)) };
                        }
                    }
                }
            }
            let mut p = 0;
            'terms: while p < terms {
                for sums in &mut chains {
                    let at = rows.next();
                    if p == terms || at.checked_add(VECTORS * $lanes).is_none_or(|end| end > b.len()) {
                        break 'terms;
                    }
                    // SAFETY: the row of `b` was checked now, those of `a` before.
                    unsafe {
                        let b = b.as_ptr().add(at);
                        let mut vectors = [$zero(); VECTORS];
                        for (v, vector) in vectors.iter_mut().enumerate() {
                            *vector = $load(b.add(v * $lanes));
                        }
                        for (i, sums) in sums.iter_mut().enumerate() {
                            let a = $splat(*a.add(i * step + p));
                            for (sum, vector) in sums.iter_mut().zip(vectors) {
                                *sum = $fused(a, vector, *sum);
                            }
                        }
                    }
                    p += 1;
                }
            }
            let mut sums = chains[0];
            for others in &chains[1..] {
                for (sums, others) in sums.iter_mut().zip(others) {
                    for (sum, other) in sums.iter_mut().zip(others) {
                        *sum = $add(*sum, *other);
                    }
                }
            }
            for (i, sums) in sums.into_iter().enumerate() {
                for (v, sum) in sums.into_iter().enumerate() {
                    // SAFETY: `out` has room for the tile.
                    unsafe { $store(out_at.add(i * out.step + v * $lanes), sum) };
                }
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
tile!(avx512_f32: f32, "avx512f", 16, _mm512_setzero_ps, _mm512_loadu_ps, _mm512_storeu_ps, _mm512_set1_ps, _mm512_fmadd_ps, _mm512_add_ps);
#[cfg(target_arch = "x86_64")]
tile!(avx512_f64: f64, "avx512f", 8, _mm512_setzero_pd, _mm512_loadu_pd, _mm512_storeu_pd, _mm512_set1_pd, _mm512_fmadd_pd, _mm512_add_pd);
#[cfg(target_arch = "x86_64")]
tile!(avx2_f32: f32, "avx2,fma", 8, _mm256_setzero_ps, _mm256_loadu_ps, _mm256_storeu_ps, _mm256_set1_ps, _mm256_fmadd_ps, _mm256_add_ps);
#[cfg(target_arch = "x86_64")]
tile!(avx2_f64: f64, "avx2,fma", 4, _mm256_setzero_pd, _mm256_loadu_pd, _mm256_storeu_pd, _mm256_set1_pd, _mm256_fmadd_pd, _mm256_add_pd);

/// Runs the loop of a tile whose height is one of these or 1.
#[cfg(target_arch = "x86_64")]
macro_rules! run {
    ($tile:ident, $first:ident, $out:ident, $function:ident $($height:literal)*) => {
        // SAFETY: the processor has the features.
        unsafe {
            match ($tile.height, $tile.is_half) {
                _ if $tile.is_alone && $tile.is_half => $function::<R, 1, 1, 4>($tile, $first, $out),
                _ if $tile.is_alone => $function::<R, 1, 2, 4>($tile, $first, $out),
                $(($height, false) => $function::<R, $height, 2, 1>($tile, $first, $out),)*
                $(($height, true) => $function::<R, $height, 1, 1>($tile, $first, $out),)*
                (_, false) => $function::<R, 1, 2, 1>($tile, $first, $out),
                (_, true) => $function::<R, 1, 1, 1>($tile, $first, $out),
            }
        }
    };
}

macro_rules! tiled {
    ($($t:ty, $avx512:ident, $avx2:ident, $width:literal;)*) => {$(
        impl Tiled for $t {
            #[inline(always)]
            fn multiply_add(self, b: $t, c: $t) -> $t {
                if cfg!(target_arch = "aarch64") { self.mul_add(b, c) } else { self * b + c }
            }

            fn multiply<R: Rows>(tile: Tile<'_, $t, R>, first: First<'_, $t>, out: Place<'_, $t>) {
                match Vectors::here() {
                    #[cfg(target_arch = "x86_64")]
                    Vectors::Avx512 => run!(tile, first, out, $avx512 12 8 4 2),
                    #[cfg(target_arch = "x86_64")]
                    Vectors::Avx2 => run!(tile, first, out, $avx2 6 4 2),
                    Vectors::Any => portable::<$t, R, $width, { $width / 2 }>(tile, first, out),
                }
            }
        }
    )*};
}

tiled! {
    f32, avx512_f32, avx2_f32, 8;
    f64, avx512_f64, avx2_f64, 4;
}
