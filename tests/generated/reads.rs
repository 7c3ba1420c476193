// Written by fx from a graph; it is yours to change.

use fx::prelude::*;

/// `Reads`, written by fx from a graph of 9 nodes.
#[derive(Module)]
pub struct Reads {
    pub state: Buffer,
    pub other: Buffer,
    pub part: Part,
}

impl Reads {
    /// Takes the members from a graph module, or from weights.
    pub fn new(members: &fx::Members<'_>) -> Result<Self> {
        Ok(Reads {
            state: members.buffer("state")?,
            other: members.buffer("other")?,
            part: Part::new(&members.at("part"))?,
        })
    }
}

#[fx::forward]
impl Reads {
    /// Runs the graph.
    pub fn forward(&self, x: &Tensor) -> Result<(Tensor, Tensor, Tensor)> {
        let old = self.state.get();
        let sum = &old + x;
        let still = self.state.get();
        self.state.set(&sum)?;
        let inside = self.other.get();
        self.other.set(x)?;
        let y = self.part.call(&inside, &still);
        Ok((old, still, y))
    }
}

/// `Part`, first called as `part`.
#[derive(Module)]
pub struct Part {}

impl Part {
    /// Takes the members from a graph module, or from weights.
    pub fn new(_members: &fx::Members<'_>) -> Result<Self> {
        Ok(Part {})
    }
}

#[fx::forward]
impl Part {
    /// Runs the graph.
    pub fn forward(&self, x: &Tensor, y: &Tensor) -> Tensor {
        x * y
    }
}
