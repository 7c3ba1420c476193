//! The text of [`crate::math`], which code generation pastes into a module of its own.

/// The source of `fx_core::math`; it stands alone inside `mod math { ... }`.
pub const SOURCE: &str = include_str!("math.rs");

#[cfg(test)]
mod tests;
