// Written by fx from a graph; it is yours to change.

use fx::prelude::*;

/// `main`, written by fx from a graph of 14 nodes.
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
    pub fn forward(&self, x: &Tensor, y: &Tensor) -> Tensor {
        let relu = y.relu();
        let fork = fx::fork_with(
            |[x, relu]: [Tensor; 2]| {
                let fork = fx::fork_with(|[x]: [Tensor; 1]| x.exp(), [x.clone()]);
                let mul = &x * &relu;
                let add = &mul + 1;
                let wait: Tensor = fork.wait();
                [add, wait]
            },
            [x.clone(), relu.clone()],
        );
        let fork_1 = fx::fork_with(|(): ()| fx::ones([3]), ());
        let sin = x.sin();
        let [getitem, getitem_1]: [Tensor; 2] = fork.wait();
        let mul = &getitem * &sin;
        let add = &mul + &getitem_1;
        let wait_1: Tensor = fork_1.wait();
        &add + &wait_1
    }
}
