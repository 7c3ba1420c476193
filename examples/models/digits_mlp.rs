//! The same digits with three linear layers. Weights determine all of it, so that it needs no constructor.

use fx::nn::Linear;
use fx::prelude::*;

/// The network; make it with `DigitsMlp::load(&weights)`.
#[derive(Module)]
pub struct DigitsMlp {
    fc1: Linear,
    fc2: Linear,
    fc3: Linear,
}

#[fx::forward]
impl DigitsMlp {
    /// Gives each digit a score: `[batch, 64]` with pixels from 0 to 1 becomes `[batch, 10]`.
    pub fn forward(&self, pixels: &Tensor) -> Tensor {
        let x = self.fc1.call(pixels).relu();
        let x = self.fc2.call(&x).relu();
        self.fc3.call(&x)
    }
}
