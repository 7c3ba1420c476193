// Written by fx from a graph; it is yours to change.

use fx::prelude::*;

/// `main`, written by fx from a graph of 12 nodes.
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
        // tests/it/generated.rs:245
        let abs = x.abs();
        let sum = abs.sum((), false);
        // tests/it/generated.rs:246
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
        // tests/it/generated.rs:250
        let zeros_like = y.zeros_like();
        // tests/it/generated.rs:247
        let [getitem, getitem_1]: [Tensor; 2] = fx::while_loop(
            |[arg0, _arg1]: &[Tensor; 2]| {
                // tests/it/generated.rs:248
                arg0.lt(y)
            },
            |[arg0, arg1]: [Tensor; 2]| {
                // tests/it/generated.rs:249
                let add = &arg0 + 1;
                let mul = &arg1 * 2;
                let add_1 = &mul + &sum;
                [add, add_1]
            },
            [zeros_like.clone(), cond.clone()],
        );
        (getitem, getitem_1)
    }
}
