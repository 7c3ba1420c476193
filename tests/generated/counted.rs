// Written by fx from a graph; it is yours to change.

use fx::prelude::*;

/// `main`, written by fx from a graph of 15 nodes.
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
    pub fn forward(&self, x: &Tensor, y: &Tensor) -> (Tensor, Tensor) {
        let abs = x.abs();
        let sum = abs.sum((), false);
        let split = x.split(2, 0);
        let sum_1 = x.sum((), false);
        let gt = sum_1.gt(0);
        let cond: Tensor = fx::cond(
            &gt,
            |[arg0, captured0]: [Tensor; 2]| {
                let relu = arg0.relu();
                &relu / &captured0
            },
            |[arg0, _captured0]: [Tensor; 2]| &arg0 - 1,
            [x.clone(), sum.clone()],
        );
        let zeros_like = y.zeros_like();
        let [getitem_2, getitem_3]: [Tensor; 2] = fx::while_loop(
            |[arg0, _arg1]: &[Tensor; 2]| arg0.lt(y),
            |[arg0, arg1]: [Tensor; 2]| {
                let split_1 = arg1.split(1, 0);
                let add = &arg0 + 1;
                let mul = &arg1 * 2;
                let mul_1 = &split_1[2] * &split[1];
                let add_1 = &mul + &mul_1;
                let add_2 = &add_1 + &sum;
                [add, add_2]
            },
            [zeros_like.clone(), cond.clone()],
        );
        (getitem_2, getitem_3)
    }
}
