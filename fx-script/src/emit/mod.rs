//! The emitter: syntax trees to typed SSA ([`crate::ir`]).
//!
//! [`Unit`] holds the definitions of a program. An [`function::Emitter`] writes one function: `statement` has
//! statements, `control` branches and loops with the exits from them, `expr` expressions, `call` calls, `index`
//! subscripts, `iterate` what a `for` runs over, `refine` what a condition tells about types.
//!
//! Early exits become flags, as in the code of archives: `return`, `break` and `continue` set hidden variables, and
//! what follows a statement that may exit is emitted under a test of them.

mod call;
mod control;
mod expr;
mod function;
mod index;
mod iterate;
mod names;
mod refine;
mod statement;
mod unit;

#[cfg(test)]
mod tests;

pub use self::unit::{Signature, Unit};
