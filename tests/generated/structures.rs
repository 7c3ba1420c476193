// Written by fx from a graph; it is yours to change.

use fx::prelude::*;

#[derive(Clone, Debug, Tree)]
pub struct MainY {
    pub mean: Tensor,
    pub parts: [Tensor; 2],
}

#[derive(Clone, Debug, Tree)]
pub struct MainOutput {
    pub mean: Tensor,
    pub parts: [Tensor; 2],
}

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
    pub fn forward(
        &self,
        x: (Tensor, [Tensor; 2]),
        y: MainY,
    ) -> (MainOutput, Tensor, i64, Option<Tensor>) {
        let split = x.0.split(2, 0);
        let cat = fx::cat([&split[0], &split[1]], 0);
        let mean = cat.mean((), false);
        let add = &mean + &y.mean;
        let add_1 = &split[0] + &x.1[1];
        (
            MainOutput {
                mean: add,
                parts: [add_1, x.1[0].clone()],
            },
            y.parts[1].clone(),
            3,
            None,
        )
    }
}
