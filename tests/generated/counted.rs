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
    pub fn forward(&self, x: &Tensor, y: &Tensor) -> (Tensor, Tensor, Tensor) {
        let abs = x.abs();
        let sum = abs.sum((), false);
        let [getitem]: [Tensor; 1] = fx::for_loop(
            3,
            |arg0, [arg1]: [Tensor; 1]| {
                let add = &arg0 + 1;
                let mul = &arg1 * &add;
                let add_1 = &mul + &sum;
                [add_1]
            },
            [x.clone()],
        );
        let zeros_like = y.zeros_like();
        let [getitem_1, getitem_2]: [Tensor; 2] = fx::for_loop(
            y,
            |_, [arg1, arg2]: [Tensor; 2]| {
                let sin = arg1.sin();
                let add = &sin + x;
                let add_1 = &arg2 + 1;
                [add, add_1]
            },
            [getitem.clone(), zeros_like.clone()],
        );
        let zeros_like_1 = y.zeros_like();
        let [getitem_3]: [Tensor; 1] = fx::for_loop(
            y,
            |arg0, [arg1]: [Tensor; 1]| {
                let add = &arg1 + &arg0;
                [add]
            },
            [zeros_like_1.clone()],
        );
        (getitem_1, getitem_2, getitem_3)
    }
}
