//! [`EmbeddingBag`].

use fx_core::{Parameter, Tensor, call};
use fx_macros::{Module, forward};

use super::init;
use crate::ops::embedding::embedding_bag;

/// A table of vectors of which each bag of integers takes the mean, sum or maximum, without making the
/// vectors between.
///
/// Weights alone do not make it, because they do not hold the mode.
#[derive(Module)]
#[module(leaf, no_load, repr = "Self::repr")]
pub struct EmbeddingBag {
    /// `[num_embeddings, embedding_dim]`.
    pub weight: Parameter,
    /// What becomes of a bag: `"mean"`, `"sum"` or `"max"`.
    #[module(skip)]
    pub mode: String,
    /// Whether the last offset is the end of the last bag.
    #[module(skip)]
    pub include_last_offset: bool,
}

impl EmbeddingBag {
    /// Makes a table with rows of the standard normal distribution, that takes means.
    pub fn new(num_embeddings: usize, embedding_dim: usize) -> Self {
        EmbeddingBag {
            weight: init::normal(&[num_embeddings, embedding_dim]),
            mode: "mean".to_owned(),
            include_last_offset: false,
        }
    }

    /// Sets what becomes of a bag: `"mean"`, `"sum"` or `"max"`; another word is an error of the call.
    #[must_use]
    pub fn mode(self, mode: &str) -> Self {
        EmbeddingBag { mode: mode.to_owned(), ..self }
    }

    /// Sets whether the last offset is the end of the last bag.
    #[must_use]
    pub fn include_last_offset(self, include_last_offset: bool) -> Self {
        EmbeddingBag { include_last_offset, ..self }
    }

    fn repr(&self) -> String {
        let [rows, columns] = [0, 1].map(|axis| init::size(&self.weight, axis));
        format!("{rows}, {columns}, mode={:?}", self.mode)
    }
}

#[forward]
impl EmbeddingBag {
    /// Takes bags `[bags, n]` of integers, or `[n]` with the positions at which bags begin; the result is
    /// `[bags, embedding_dim]`.
    #[track_caller]
    pub fn forward(&self, indices: &Tensor, offsets: Option<Tensor>) -> Tensor {
        call!(embedding_bag(
            indices,
            &self.weight,
            offsets,
            mode = self.mode.as_str(),
            include_last_offset = self.include_last_offset
        ))
    }
}
