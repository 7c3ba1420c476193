// Written by fx from a graph; it is yours to change.

use fx::prelude::*;

/// `Updates`, written by fx from a graph of 9 nodes.
#[derive(Module)]
pub struct Updates {
    pub first: Running,
    pub last: Running,
}

impl Updates {
    /// Takes the members from a graph module, or from weights.
    pub fn new(members: &fx::Members<'_>) -> Result<Self> {
        Ok(Updates {
            first: Running::new(&members.at("first"))?,
            last: Running::new(&members.at("last"))?,
        })
    }
}

#[fx::forward]
impl Updates {
    /// Runs the graph.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let add = self.first.call(x)?;
        let mul = &add * 2;
        self.last.call(&mul)
    }
}

/// `Running`, first called as `first`.
#[derive(Module)]
pub struct Running {
    pub total: Buffer,
}

impl Running {
    /// Takes the members from a graph module, or from weights.
    pub fn new(members: &fx::Members<'_>) -> Result<Self> {
        Ok(Running {
            total: members.buffer("total")?,
        })
    }
}

#[fx::forward]
impl Running {
    /// Runs the graph.
    pub fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let total = self.total.get();
        let add = &total + x;
        self.total.set(&add)?;
        Ok(add)
    }
}
