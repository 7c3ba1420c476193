//! The texts of [`math`](crate::math) and of the modules of kernels beside it, which code generation pastes into
//! modules of their own.

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

/// The source of [`detection`](crate::detection); it stands alone in a module beside `math` and `sampling`.
pub const DETECTION: &str = include_str!("detection.rs");

/// The source of [`fractional`](crate::fractional); it stands alone in a module beside `math`.
pub const FRACTIONAL: &str = include_str!("fractional.rs");

/// The source of [`margin`](crate::margin); it stands alone in a module beside `math`.
pub const MARGIN: &str = include_str!("margin.rs");

/// The source of [`sampling`](crate::sampling); it stands alone in a module beside `math` and `resampling`.
pub const SAMPLING: &str = include_str!("sampling.rs");

#[cfg(test)]
mod tests;
