// Written by fx from a graph; it is yours to change.

use fx::prelude::*;

/// `Stack`, written by fx from a graph of 55 nodes.
#[derive(Module)]
pub struct Stack {
    #[module(rename = "blocks.0")]
    pub blocks_0: Block,
    #[module(rename = "blocks.1")]
    pub blocks_1: Block,
    #[module(rename = "blocks.2")]
    pub blocks_2: Block,
}

impl Stack {
    /// Takes the members from a graph module, or from weights.
    pub fn new(members: &fx::Members<'_>) -> Result<Self> {
        Ok(Stack {
            blocks_0: Block::new(&members.at("blocks.0"))?,
            blocks_1: Block::new(&members.at("blocks.1"))?,
            blocks_2: Block::new(&members.at("blocks.2"))?,
        })
    }
}

#[fx::forward]
impl Stack {
    /// Runs the graph.
    pub fn forward(&self, x: &Tensor, y: &Tensor) -> Tensor {
        let (add_1, reshape_3) = self.blocks_0.call(x, y);
        let (add_3, reshape_7) = self.blocks_1.call(&add_1, &reshape_3);
        let (add_5, reshape_11) = self.blocks_2.call(&add_3, &reshape_7);
        // tests/it/generated.rs:163
        &add_5 - &reshape_11
    }
}

/// `Block`, first called as `blocks.0`.
#[derive(Module)]
pub struct Block {
    pub norm: nn::LayerNorm,
    pub shift: Tensor,
    pub query: nn::Linear,
    pub key: nn::Linear,
}

impl Block {
    /// Takes the members from a graph module, or from weights.
    pub fn new(members: &fx::Members<'_>) -> Result<Self> {
        Ok(Block {
            norm: members.module("norm")?,
            shift: members.constant("shift")?,
            query: members.module("query")?,
            key: members.module("key")?,
        })
    }
}

#[fx::forward]
impl Block {
    /// Runs the graph.
    pub fn forward(&self, x: &Tensor, y: &Tensor) -> (Tensor, Tensor) {
        // tests/it/generated.rs:139
        let norm = self.norm.call(x);
        let add = &norm + &self.shift;
        // tests/it/generated.rs:140
        let query = self.query.call(&add);
        let key = self.key.call(y);
        // tests/it/generated.rs:142
        let batch = x.dim(0);
        let length = x.dim(1);
        let reshape = query.reshape((batch.clone(), length.clone(), 2, -1));
        let transpose = reshape.transpose(1, 2);
        // tests/it/generated.rs:143
        let (getitem, _) = transpose.max_dim(-1, false);
        // tests/it/generated.rs:145
        let sum = getitem.sum([1], false);
        let unsqueeze = sum.unsqueeze(-1);
        let add_1 = x + &unsqueeze;
        // tests/it/generated.rs:142
        let reshape_1 = key.reshape((batch.clone(), length.clone(), 2, -1));
        let transpose_1 = reshape_1.transpose(1, 2);
        // tests/it/generated.rs:146
        let reshape_2 = transpose_1.reshape((&batch * &length, -1));
        let reshape_3 = reshape_2.reshape((batch.clone(), length.clone(), 4));
        (add_1, reshape_3)
    }
}
