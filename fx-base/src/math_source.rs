//! The texts of [`math`](crate::math), [`row`](crate::row), [`select`](crate::select), [`philox`](crate::philox),
//! [`resampling`](crate::resampling) and [`sampling`](crate::sampling), which code generation pastes into modules
//! of their own.

/// The source of [`math`](crate::math) and, behind it, [`special`](crate::special); it stands alone inside `mod
/// math { ... }`.
pub const SOURCE: &str = concat!(
    include_str!("math/real.rs"),
    include_str!("math/parts.rs"),
    include_str!("math/elementary.rs"),
    include_str!("math/single.rs"),
    include_str!("math/double.rs"),
    "\n",
    include_str!("special/gamma.rs"),
    include_str!("special/bessel.rs"),
    include_str!("special/polynomials.rs"),
);

/// The source of [`row`](crate::row); it stands alone in a module beside `math`.
pub const ROW: &str = include_str!("row.rs");

/// The source of [`resampling`](crate::resampling); it stands alone in a module beside `math`.
pub const RESAMPLING: &str = include_str!("resampling.rs");

/// The source of [`select`](crate::select); it stands alone.
pub const SELECT: &str = include_str!("select.rs");

/// The source of [`philox`](crate::philox); it stands alone in a module beside `math`.
pub const PHILOX: &str = include_str!("philox.rs");

/// The source of [`sampling`](crate::sampling); it stands alone in a module beside `math` and `resampling`.
pub const SAMPLING: &str = include_str!("sampling.rs");

#[cfg(test)]
mod tests;
