// Written by fx from a graph; it is yours to change.

use fx::prelude::*;

/// `Counter`, written by fx from a graph of 17 nodes.
#[derive(Module)]
pub struct Counter {
    pub seen: Buffer,
    pub limit: Tensor,
    pub norm: BatchNorm1d,
}

impl Counter {
    /// Takes the members from a graph module, or from weights.
    pub fn new(members: &fx::Members<'_>) -> Result<Self> {
        Ok(Counter {
            seen: members.buffer("seen")?,
            limit: members.constant("limit")?,
            norm: BatchNorm1d::new(&members.at("norm"))?,
        })
    }
}

#[fx::forward]
impl Counter {
    /// Runs the graph.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let seen = self.seen.get();
        let sum = x.sum((), false);
        let add = &seen + &sum;
        let minimum = add.minimum(&self.limit);
        self.seen.set(&minimum)?;
        let batch_norm = self.norm.call(x);
        let add_1 = &batch_norm + &seen;
        let isfinite = add_1.isfinite();
        let all = isfinite.all((), false);
        let _check = fx::ops::check(&all, "all is finite");
        Ok(add_1)
    }
}

/// `BatchNorm1d`, first called as `norm`.
#[derive(Module)]
pub struct BatchNorm1d {
    pub running_mean: Buffer,
    pub running_var: Buffer,
    pub weight: Parameter,
    pub bias: Parameter,
}

impl BatchNorm1d {
    /// Takes the members from a graph module, or from weights.
    pub fn new(members: &fx::Members<'_>) -> Result<Self> {
        Ok(BatchNorm1d {
            running_mean: members.buffer("running_mean")?,
            running_var: members.buffer("running_var")?,
            weight: members.parameter("weight")?,
            bias: members.parameter("bias")?,
        })
    }
}

#[fx::forward]
impl BatchNorm1d {
    /// Runs the graph.
    pub fn forward(&self, x: &Tensor) -> Tensor {
        let running_mean = self.running_mean.get();
        let running_var = self.running_var.get();
        fx::call!(fx::batch_norm(
            x,
            &running_mean,
            &running_var,
            weight = &self.weight,
            bias = &self.bias,
        ))
    }
}
