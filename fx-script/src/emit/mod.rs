//! The emitter: syntax trees to typed SSA ([`crate::ir`]).
//!
//! [`Unit`] holds the definitions of a program. `function` writes one: `statement` has statements, `control`
//! branches and loops with the exits from them, `expr` expressions, `call`, `builtin` and `operator` calls,
//! `upgrades` operators of older versions, `attribute` attributes, `index` subscripts, `iterate` what a `for`
//! runs over, `refine` what a condition tells about types. `global` has imports and constants of a text, `infer`
//! the attributes that constructors assign, `decorators` what decorators change, `listing` types as text.
//!
//! Early exits become flags, as in the code of archives: `return`, `break` and `continue` set hidden variables.
//! What follows a statement that may exit is emitted under a test of them, or in the branch that goes on.

mod attribute;
mod builtin;
mod call;
mod control;
mod decorators;
mod expr;
mod function;
mod global;
mod index;
mod infer;
mod iterate;
mod listing;
mod names;
mod operator;
mod refine;
mod sort;
mod statement;
mod unit;
mod upgrades;

pub(crate) use self::attribute::numbered;
pub(crate) use self::global::{Constant as GlobalConstant, Global, constant as global_constant};
pub(crate) use self::unit::scope_of;
pub use self::unit::{Signature, Unit, UnknownOperators};
