//! [`MultiheadAttention`].

use fx_core::{DType, Parameter, Tensor, err};
use fx_macros::{Module, forward};

use super::init;
use super::linear::Linear;
use crate::ops::attention::scaled_dot_product_attention;
use crate::ops::linalg::{linear, matmul};
use crate::ops::normalization::softmax;
use crate::ops::reduce::mean;
use crate::ops::view::{narrow, permute, reshape, transpose, where_};

/// Attention of several heads, each over its part of the channels.
///
/// [`forward`](Self::forward) gives the output; [`with_weights`](Self::with_weights) also the attention
/// weights, averaged over the heads. In PyTorch `forward` gives both.
#[derive(Module)]
#[module(leaf, no_load, repr = "Self::repr")]
pub struct MultiheadAttention {
    /// The projections of query, key and value, one below the other: `[3 * embed_dim, embed_dim]`.
    pub in_proj_weight: Parameter,
    /// `[3 * embed_dim]`.
    pub in_proj_bias: Option<Parameter>,
    /// The projection of the heads' results.
    pub out_proj: Linear,
    /// Whether the batch is the first axis, before the sequence.
    #[module(skip)]
    pub batch_first: bool,
    #[module(skip)]
    embed_dim: usize,
    #[module(skip)]
    num_heads: usize,
}

impl MultiheadAttention {
    /// Makes a layer of `num_heads` heads, which must divide `embed_dim`, for inputs `[length, batch, embed_dim]`.
    pub fn new(embed_dim: usize, num_heads: usize) -> Self {
        let mut out_proj = Linear::new(embed_dim, embed_dim);
        out_proj.bias = Some(init::zeros(&[embed_dim]));
        let rows = embed_dim.saturating_mul(3);
        let in_proj_weight = if num_heads != 0 && embed_dim.is_multiple_of(num_heads) {
            init::xavier_uniform(rows, embed_dim)
        } else {
            Tensor::failed(err!(Shape, "{num_heads} heads do not divide {embed_dim} channels")).into()
        };
        MultiheadAttention {
            in_proj_weight,
            in_proj_bias: Some(init::zeros(&[rows])),
            out_proj,
            batch_first: false,
            embed_dim,
            num_heads,
        }
    }

    /// Sets whether inputs are `[batch, length, embed_dim]`.
    #[must_use]
    pub fn batch_first(self, batch_first: bool) -> Self {
        MultiheadAttention { batch_first, ..self }
    }

    /// Removes the biases.
    #[must_use]
    pub fn without_bias(self) -> Self {
        let out_proj = Linear { bias: None, ..self.out_proj };
        MultiheadAttention { in_proj_bias: None, out_proj, ..self }
    }

    fn repr(&self) -> String {
        format!(
            "embed_dim={}, num_heads={}, batch_first={}",
            self.embed_dim, self.num_heads, self.batch_first
        )
    }

    /// Projects an input with part `part` of the stacked projections: `[batch, heads, length, channels]`.
    fn heads(&self, x: &Tensor, part: usize) -> Tensor {
        let rows = |stacked: &Parameter| narrow(stacked, 0, part * self.embed_dim, self.embed_dim);
        let x = linear(x, rows(&self.in_proj_weight), self.in_proj_bias.as_ref().map(rows));
        let channels = self.embed_dim.checked_div(self.num_heads).unwrap_or(0);
        let heads = reshape(&x, (x.dim(0), x.dim(1), self.num_heads, channels));
        permute(&heads, if self.batch_first { [0, 2, 1, 3] } else { [1, 2, 0, 3] })
    }

    /// Returns the mask as a bias of the scores of `[batch, heads, query, key]`.
    fn added(&self, mask: &Tensor) -> Tensor {
        let ty = match mask.ty() {
            Ok(ty) => ty,
            Err(error) => return Tensor::failed(error),
        };
        let mask = match ty.rank() {
            3 => reshape(mask, (-1, self.num_heads, mask.dim(1), mask.dim(2))),
            _ => mask.clone(),
        };
        if ty.dtype == DType::Bool { where_(&mask, f64::NEG_INFINITY, 0.0) } else { mask }
    }

    /// Projects the heads' results `[batch, heads, length, channels]`.
    fn output(&self, heads: &Tensor) -> Tensor {
        let x = permute(heads, if self.batch_first { [0, 2, 1, 3] } else { [2, 0, 1, 3] });
        let x = reshape(&x, (x.dim(0), x.dim(1), self.embed_dim));
        linear(&x, &self.out_proj.weight, &self.out_proj.bias)
    }

    /// Returns the output as `forward` does, and the weights `[batch, query, key]`, averaged over the heads.
    pub fn with_weights(
        &self,
        query: &Tensor,
        key: &Tensor,
        value: &Tensor,
        attn_mask: Option<&Tensor>,
    ) -> (Tensor, Tensor) {
        let (q, k, v) = (self.heads(query, 0), self.heads(key, 1), self.heads(value, 2));
        let channels = self.embed_dim.checked_div(self.num_heads).unwrap_or(0);
        let scores = matmul(q * (channels as f64).sqrt().recip(), transpose(&k, -2, -1));
        let scores = match attn_mask {
            Some(mask) => scores + self.added(mask),
            None => scores,
        };
        let weights = softmax(&scores, -1);
        (self.output(&matmul(&weights, &v)), mean(&weights, 1, false))
    }
}

#[forward]
impl MultiheadAttention {
    /// Lets each query attend to the keys, and returns the mix of values, shaped as the queries.
    ///
    /// The mask broadcasts to `[batch, heads, query, key]`, or is `[batch * heads, query, key]`; where a bool
    /// mask is true, the key is hidden; a float mask is added to the scores.
    #[track_caller]
    pub fn forward(
        &self,
        query: &Tensor,
        key: &Tensor,
        value: &Tensor,
        attn_mask: Option<&Tensor>,
    ) -> Tensor {
        let mask = attn_mask.map(|mask| self.added(mask));
        let (q, k, v) = (self.heads(query, 0), self.heads(key, 1), self.heads(value, 2));
        self.output(&scaled_dot_product_attention(&q, &k, &v, mask, 0.0, false))
    }
}
