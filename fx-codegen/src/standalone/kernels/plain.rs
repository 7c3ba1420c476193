//! [`simd!`]: functions as they are, for machines whose features are known when they are compiled.

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
            $body::<$($t,)+ 4, 8, { cfg!(target_arch = "aarch64") }>($($arg),*);
        }
    };
}
pub(crate) use tiled;
