//! TorchScript for fx, without libtorch.
//!
//! [`archive`] reads the members of an archive, whose data [`pickle`] reads and writes.

pub mod archive;
pub mod pickle;
