//! all-MiniLM-L6-v2: a BERT encoder that maps sentences to vectors whose angle tells how alike they are.

use fx::nn::{Embedding, LayerNorm, Linear};
use fx::prelude::*;
use fx::weights::{Load, Weights};

const HEADS: i64 = 12;
/// What the norms add to the variance; files do not hold it.
const EPS: f64 = 1e-12;

/// The encoder. Weights determine its shape, but not `EPS`; so `load` sets that.
#[derive(Module)]
pub struct MiniLm {
    embeddings: Embeddings,
    #[module(rename = "encoder.layer")]
    layers: Vec<Layer>,
}

impl MiniLm {
    /// Makes the encoder with the trained weights.
    pub fn load(weights: &Weights) -> Result<Self> {
        let mut model = <Self as Load>::load(weights)?;
        model.embeddings.norm.eps = EPS;
        for layer in &mut model.layers {
            layer.attention.output.norm.eps = EPS;
            layer.output.norm.eps = EPS;
        }
        Ok(model)
    }
}

#[fx::forward]
impl MiniLm {
    /// Maps tokens `[batch, length]`, with a mask that is 0 where a sentence has ended, to the vectors of the
    /// tokens `[batch, length, 384]` and of the sentences `[batch, 384]`.
    pub fn forward(
        &self,
        input_ids: &Tensor,
        attention_mask: &Tensor,
        token_type_ids: &Tensor,
    ) -> (Tensor, Tensor) {
        let visible = attention_mask.ne(0).unsqueeze(1).unsqueeze(1);
        let mut x = self.embeddings.call(input_ids, token_type_ids);
        for layer in &self.layers {
            x = layer.call(&x, &visible);
        }
        let weights = attention_mask.to(DType::F32).unsqueeze(-1);
        let mean = (&x * &weights).sum(1, false) / weights.sum(1, false);
        (x, mean.normalize(2.0, 1))
    }
}

/// What a token means, by itself, by its place and by its sentence.
#[derive(Module)]
struct Embeddings {
    word_embeddings: Embedding,
    position_embeddings: Embedding,
    token_type_embeddings: Embedding,
    #[module(rename = "LayerNorm")]
    norm: LayerNorm,
}

#[fx::forward]
impl Embeddings {
    fn forward(&self, input_ids: &Tensor, token_type_ids: &Tensor) -> Tensor {
        let positions = fx::arange(0, input_ids.dim(1), 1);
        let x = self.word_embeddings.call(input_ids) + self.token_type_embeddings.call(token_type_ids);
        self.norm.call(&(x + self.position_embeddings.call(&positions)))
    }
}

#[derive(Module)]
struct Layer {
    attention: Attention,
    #[module(rename = "intermediate.dense")]
    intermediate: Linear,
    output: Output,
}

#[fx::forward]
impl Layer {
    fn forward(&self, x: &Tensor, visible: &Tensor) -> Tensor {
        let x = self.attention.call(x, visible);
        self.output.call(&self.intermediate.call(&x).gelu(), &x)
    }
}

#[derive(Module)]
struct Attention {
    #[module(rename = "self.query")]
    query: Linear,
    #[module(rename = "self.key")]
    key: Linear,
    #[module(rename = "self.value")]
    value: Linear,
    output: Output,
}

#[fx::forward]
impl Attention {
    fn forward(&self, x: &Tensor, visible: &Tensor) -> Tensor {
        let heads = |linear: &Linear| linear.call(x).unflatten(-1, [HEADS, -1]).transpose(1, 2);
        let (q, k, v) = (heads(&self.query), heads(&self.key), heads(&self.value));
        let mixed = fx::scaled_dot_product_attention(&q, &k, &v, Some(visible), 0.0, false);
        self.output.call(&mixed.transpose(1, 2).flatten(2, 3), x)
    }
}

/// A projection, beside the residual, with the norm after it.
#[derive(Module)]
struct Output {
    dense: Linear,
    #[module(rename = "LayerNorm")]
    norm: LayerNorm,
}

#[fx::forward]
impl Output {
    fn forward(&self, x: &Tensor, residual: &Tensor) -> Tensor {
        self.norm.call(&(self.dense.call(x) + residual))
    }
}
