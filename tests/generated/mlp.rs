// Written by fx from a graph; it is yours to change.

use fx::prelude::*;

/// `Mlp`, written by fx from a graph of 8 nodes.
#[derive(Module)]
pub struct Mlp {
    pub fc1: nn::Linear,
    pub fc2: nn::Linear,
    pub scale: Parameter,
}

impl Mlp {
    /// Takes the members from a graph module, or from weights.
    pub fn new(members: &fx::Members<'_>) -> Result<Self> {
        Ok(Mlp {
            fc1: members.module("fc1")?,
            fc2: members.module("fc2")?,
            scale: members.parameter("scale")?,
        })
    }
}

#[fx::forward]
impl Mlp {
    /// Runs the graph.
    pub fn forward(&self, x: &Tensor) -> Tensor {
        let fc1 = self.fc1.call(x);
        let relu = fc1.relu();
        let fc2 = self.fc2.call(&relu);
        let softmax = fx::softmax(&fc2, -1);
        &softmax * &self.scale
    }
}
