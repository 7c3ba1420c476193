//! [`simd!`]: functions that use the vectors of the machine that they run on.

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

/// Writes a function that calls `$body` with tiles for the machine: so many rows and columns, and whether it
/// can multiply and add at once.
macro_rules! tiled {
    (
        $(#[$meta:meta])*
        $vis:vis fn $name:ident <$($t:ident: $bound:path),+> ($($arg:ident: $ty:ty),* $(,)?) = $body:ident
    ) => {
        $(#[$meta])*
        #[allow(clippy::too_many_arguments, reason = "the sizes of a kernel are its arguments")]
        $vis fn $name<$($t: $bound),+>($($arg: $ty),*) {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f")]
                fn avx512<$($t: $bound),+>($($arg: $ty),*) {
                    $body::<$($t,)+ 12, 32, true>($($arg),*);
                }
                #[target_feature(enable = "avx2,fma")]
                fn avx2<$($t: $bound),+>($($arg: $ty),*) {
                    $body::<$($t,)+ 6, 16, true>($($arg),*);
                }
                if std::arch::is_x86_feature_detected!("avx512f") {
                    // SAFETY: the processor has what the function needs.
                    return unsafe { avx512($($arg),*) };
                }
                if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma") {
                    // SAFETY: the processor has what the function needs.
                    return unsafe { avx2($($arg),*) };
                }
            }
            $body::<$($t,)+ 4, 8, { cfg!(target_arch = "aarch64") }>($($arg),*);
        }
    };
}
pub(crate) use tiled;
