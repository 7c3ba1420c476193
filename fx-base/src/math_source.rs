//! The text of [`crate::math`], which code generation pastes into a module of its own.

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

#[cfg(test)]
mod tests;
