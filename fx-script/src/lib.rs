//! TorchScript for fx, without libtorch.
//!
//! [`parse`] reads texts as the syntax tree of [`ast`], [`mod@print`] writes it as canonical text. [`source`] has
//! the places in texts, [`types`] the type language, [`schema`] the operators with their overloads. [`emit`]
//! turns trees into [`ir`], a program with types and regions; [`vm`] runs it on the values of [`value`], and
//! [`host`] has the operators on numbers, text and containers. [`archive`] reads the members of an archive, whose
//! data [`pickle`] reads and writes; [`load`] makes a program of both. [`fuzz`] makes random programs, and
//! [`logging`](fx_core::logging) shows what each stage makes of a program.

pub mod archive;
pub mod ast;
pub mod emit;
pub mod fuzz;
pub mod host;
pub mod ir;
mod lex;
pub mod load;
pub mod parse;
pub mod pickle;
pub mod print;
pub mod schema;
pub mod source;
pub mod types;
pub mod value;
pub mod vm;
