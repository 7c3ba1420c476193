// Written by fx from a graph; it is yours to change.

use fx::prelude::*;

/// `children`, written by fx from a graph of 7 nodes.
#[derive(Module)]
pub struct Children {
    pub inner: Main,
    pub other: Main,
    pub mix: Box<dyn Forward>,
}

impl Children {
    /// Takes the members from a graph module, or from weights.
    pub fn new(members: &fx::Members<'_>) -> Result<Self> {
        Ok(Children {
            inner: Main::new(&members.child("inner")?)?,
            other: Main::new(&members.child("other")?)?,
            mix: members.any_module("mix")?,
        })
    }
}

#[fx::forward]
impl Children {
    /// Runs the graph.
    pub fn forward(&self, x: &Tensor) -> Tensor {
        let (first, _) = self.inner.call(x, x);
        let (_, second) = self.other.call(&first, x);
        self.mix.call(&second)
    }
}

/// `main`, written by fx from a graph of 5 nodes.
#[derive(Module)]
#[module(leaf)]
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
        let mul = x * y;
        let sub = x - y;
        (mul, sub)
    }
}
