//! TorchScript for fx, without libtorch.
//!
//! [`pickle`] reads and writes the data of archives.

pub mod pickle;
