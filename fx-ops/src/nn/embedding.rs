//! [`Embedding`].

use fx_core::{Array, Parameter, Tensor};
use fx_macros::{Module, forward};

use super::init;
use crate::ops::embedding::embedding;

/// A table of vectors: each integer of the input becomes the row that it numbers. Weights determine it.
#[derive(Module)]
#[module(leaf, repr = "Self::repr")]
pub struct Embedding {
    /// `[num_embeddings, embedding_dim]`.
    pub weight: Parameter,
}

impl Embedding {
    /// Makes a table with rows of the standard normal distribution.
    pub fn new(num_embeddings: usize, embedding_dim: usize) -> Self {
        Embedding { weight: init::normal(&[num_embeddings, embedding_dim]) }
    }

    /// Makes a table whose row `index` is zero, as that of padding is.
    pub fn padded(num_embeddings: usize, embedding_dim: usize, index: usize) -> Self {
        let mut table = Embedding::new(num_embeddings, embedding_dim);
        let row =
            (index.saturating_mul(embedding_dim), index.saturating_add(1).saturating_mul(embedding_dim));
        let zeroed = table.weight.array().and_then(|array| {
            let mut data = array.to_vec::<f32>()?;
            match data.get_mut(row.0..row.1) {
                Some(row) => row.fill(0.0),
                None => fx_core::bail!(
                    Index,
                    "the padding index {index} is out of range for {num_embeddings} embeddings"
                ),
            }
            Array::from_vec(data, array.shape())
        });
        table.weight.set(Tensor::from(zeroed));
        table
    }

    fn repr(&self) -> String {
        format!("{}, {}", init::size(&self.weight, 0), init::size(&self.weight, 1))
    }
}

#[forward]
impl Embedding {
    /// Looks integers of any shape up; the result has one more axis, of size `embedding_dim`.
    #[track_caller]
    pub fn forward(&self, indices: &Tensor) -> Tensor {
        embedding(indices, &self.weight)
    }
}
