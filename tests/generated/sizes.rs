// Written by fx from a graph; it is yours to change.

use fx::prelude::*;

/// `sizes`, written by fx from a graph of 6 nodes.
#[derive(Module)]
pub struct Sizes {}

impl Sizes {
    /// Takes the members from a graph module, or from weights.
    pub fn new(_members: &fx::Members<'_>) -> Result<Self> {
        Ok(Sizes {})
    }
}

#[fx::forward]
impl Sizes {
    /// Runs the graph.
    pub fn forward(&self, x: &Tensor) -> (Tensor, Tensor, Tensor, Tensor) {
        let n = x.dim(0);
        let y = fx::narrow(x, 0, 0, Dim::new(2).min(&n));
        let z = fx::narrow(x, 0, 0, Dim::new(1).max(&(&n / 2)));
        let u = fx::narrow(x, 0, 0, Dim::new(i64::MAX).min(&n));
        let v = fx::narrow(x, 0, 0, n.min(&((&n * 2) + -4)));
        (y, z, u, v)
    }
}
