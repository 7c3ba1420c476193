//! Programs of fx as programs of other systems.

mod torchscript;

pub use self::torchscript::{ToTorchScript, TorchScript};
