//! [`Identity`].

use fx_core::Tensor;
use fx_macros::{Module, forward};

/// Returns its input: stands where a layer was left out.
#[derive(Module, Debug, Default)]
#[module(leaf)]
pub struct Identity;

#[forward]
impl Identity {
    /// Returns `x`.
    #[track_caller]
    pub fn forward(&self, x: &Tensor) -> Tensor {
        x.clone()
    }
}
