// Written by fx from a graph; it is yours to change.

use fx::prelude::*;

/// `main`, written by fx from a graph of 9 nodes.
#[derive(Module)]
pub struct Main {}

impl Main {
    /// Takes the members from a graph module, or from weights.
    pub fn new(_members: &fx::Members<'_>) -> Result<Self> {
        Ok(Main {})
    }
}

#[fx::forward]
impl Main {
    /// Runs the graph.
    pub fn forward(&self, x: &Tensor, y: Dim, z: (Dim, Tensor)) -> (Tensor, Tensor, Tensor) {
        // tests/it/generated.rs:247
        let narrow = x.narrow(0, y.clone(), &z.0 + 1);
        // tests/it/generated.rs:248
        let mul = &narrow * &z.1;
        let select = x.select(0, y.clone());
        let zeros = fx::zeros((z.0.clone(), 2));
        (mul, select, zeros)
    }
}
