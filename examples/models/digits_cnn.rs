//! A small convolutional network that reads handwritten digits of 8 x 8 pixels.

use fx::nn::{BatchNorm2d, Conv2d, Linear, MaxPool2d};
use fx::prelude::*;
use fx::weights::Weights;

/// The network. Its fields are named as the weights are: `conv1.weight`, `bn1.running_mean`, ...
#[derive(Module)]
pub struct DigitsCnn {
    conv1: Conv2d,
    bn1: BatchNorm2d,
    conv2: Conv2d,
    bn2: BatchNorm2d,
    pool: MaxPool2d,
    fc: Linear,
}

impl DigitsCnn {
    /// Makes the network with the trained weights.
    pub fn load(weights: &Weights) -> Result<Self> {
        let mut model = DigitsCnn {
            conv1: Conv2d::new(1, 16, 3).padding(1),
            bn1: BatchNorm2d::new(16),
            conv2: Conv2d::new(16, 32, 3).padding(1),
            bn2: BatchNorm2d::new(32),
            pool: MaxPool2d::new(2),
            fc: Linear::new(32 * 4 * 4, 10),
        };
        model.load_state_dict(weights)?;
        Ok(model)
    }
}

#[fx::forward]
impl DigitsCnn {
    /// Gives each digit a score: `[batch, 1, 8, 8]` with pixels from 0 to 1 becomes `[batch, 10]`.
    pub fn forward(&self, image: &Tensor) -> Tensor {
        let x = self.bn1.call(&self.conv1.call(image)).relu();
        let x = self.bn2.call(&self.conv2.call(&x)).relu();
        self.fc.call(&self.pool.call(&x).flatten(1, -1))
    }
}
