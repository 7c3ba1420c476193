//! TorchScript for fx, without libtorch.
//!
//! [`ast`] is the syntax of texts, [`source`] their places, [`types`] the type language.
//! [`ir`] is a program with types and regions, [`value`] what it computes with.
//! [`archive`] reads the members of an archive, whose data [`pickle`] reads and writes.

pub mod archive;
pub mod ast;
pub mod ir;
pub mod pickle;
pub mod source;
pub mod types;
pub mod value;
