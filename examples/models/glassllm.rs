//! A small language model as Llama is built: root-mean-square norms, rotary positions, grouped-query
//! attention, SwiGLU.
//!
//! One forward reads a prompt and continues from a cache alike: the cache is an argument and a result, and
//! its length, like that of the input, is a symbol of the traced graph. Matrices are `[in, out]`.

use fx::prelude::*;

/// The number of layers.
pub const LAYERS: usize = 4;
const WIDTH: i64 = 128;
/// The number of heads of keys and values.
pub const KV_HEADS: usize = 2;
/// The size of a head.
pub const HEAD: usize = 32;

/// The keys and values of the past tokens in one layer: `[batch, 2, past, 32]`.
pub type Cache = (Tensor, Tensor);

/// Returns the cache before the first token.
pub fn no_past() -> Vec<Cache> {
    let empty = Tensor::from_vec::<f32>(Vec::new(), &[1, KV_HEADS, 0, HEAD]);
    vec![(empty.clone(), empty); LAYERS]
}

/// The model; make it with `GlassLlm::load(&weights)`.
#[derive(Module)]
pub struct GlassLlm {
    #[module(rename = "E")]
    embedding: Parameter,
    blocks: Vec<Block>,
    #[module(rename = "norm_f")]
    norm: Norm,
}

#[fx::forward]
impl GlassLlm {
    /// Gives each next token a score: tokens `[batch, length]` become `[batch, length, 1024]`; also the
    /// longer cache.
    pub fn forward(&self, tokens: &Tensor, past: &[Cache]) -> (Tensor, Vec<Cache>) {
        let start = past.first().map_or(Dim::new(0), |(keys, _)| keys.dim(2));
        let positions = Positions::new(start, tokens.dim(1));
        let mut x = fx::embedding(tokens, &self.embedding);
        let mut present = Vec::new();
        for (block, past) in self.blocks.iter().zip(past) {
            let (y, cache) = block.call(&x, &positions, past);
            x = y;
            present.push(cache);
        }
        (fx::linear(self.norm.call(&x), &self.embedding, ()), present)
    }
}

/// Continues a prompt by `n` tokens, each the most likely one: the loop is part of the graph.
#[fx::script]
pub fn greedy(model: &GlassLlm, prompt: &Tensor, n: &Tensor) -> Tensor {
    let (scores, mut past): (Tensor, Vec<Cache>) = model.forward(&prompt.unsqueeze(0), &no_past());
    let mut token = scores.select(1, -1).argmax(-1, true);
    let mut written = token.clone();
    for _ in 1..n {
        let (scores, present) = model.forward(&token, &past);
        token = scores.select(1, -1).argmax(-1, true);
        past = present;
        written = fx::cat([&written, &token], 1);
    }
    written.flatten(0, 1)
}

/// What depends on the positions of the tokens only.
#[derive(Tree)]
pub struct Positions {
    cos: Tensor,
    sin: Tensor,
    /// Which keys each query may see: those not after it.
    visible: Tensor,
}

impl Positions {
    fn new(start: Dim, length: Dim) -> Self {
        let end = &start + length;
        let queries = fx::arange(start, end.clone(), 1).unsqueeze(-1);
        let frequencies: Vec<f32> =
            (0..HEAD / 2).map(|i| 10_000f32.powf(-2.0 * i as f32 / HEAD as f32)).collect();
        let angles = &queries * Tensor::from_vec(frequencies, &[HEAD / 2]);
        Positions { cos: angles.cos(), sin: angles.sin(), visible: fx::arange(0, end, 1).le(queries) }
    }

    /// Turns each adjacent pair of `x` by the angle of its position.
    fn rotate(&self, x: &Tensor) -> Tensor {
        let pairs = x.unflatten(-1, [-1, 2]);
        let (a, b) = (pairs.select(-1, 0), pairs.select(-1, 1));
        let turned = [&a * &self.cos - &b * &self.sin, &a * &self.sin + &b * &self.cos];
        fx::stack(turned, -1).flatten(-2, -1)
    }
}

/// Attention and a feed-forward network, each beside the residual.
#[derive(Module)]
pub struct Block {
    norm1: Norm,
    attn: Attention,
    norm2: Norm,
    ffn: FeedForward,
}

#[fx::forward]
impl Block {
    fn forward(&self, x: &Tensor, positions: &Positions, past: &Cache) -> (Tensor, Cache) {
        let (mixed, cache) = self.attn.call(&self.norm1.call(x), positions, past);
        let x = x + mixed;
        (&x + self.ffn.call(&self.norm2.call(&x)), cache)
    }
}

/// Four heads of queries share two heads of keys and values.
#[derive(Module)]
pub struct Attention {
    #[module(rename = "W_Q")]
    q: Parameter,
    #[module(rename = "W_K")]
    k: Parameter,
    #[module(rename = "W_V")]
    v: Parameter,
    #[module(rename = "W_O")]
    o: Parameter,
}

#[fx::forward]
impl Attention {
    fn forward(&self, x: &Tensor, positions: &Positions, past: &Cache) -> (Tensor, Cache) {
        let heads = |weight: &Parameter| x.matmul(weight).unflatten(-1, [-1, HEAD as i64]).transpose(1, 2);
        let q = positions.rotate(&heads(&self.q));
        let k = fx::cat([&past.0, &positions.rotate(&heads(&self.k))], 2);
        let v = fx::cat([&past.1, &heads(&self.v)], 2);

        // Each head of keys and values serves the queries of two heads beside one another.
        let mixed: Tensor =
            fx::call!(fx::scaled_dot_product_attention(q, &k, &v, &positions.visible, enable_gqa = true));
        let joined = mixed.transpose(1, 2).flatten(2, 3);
        (joined.matmul(&self.o), (k, v))
    }
}

/// SwiGLU: one projection decides how much of the other passes.
#[derive(Module)]
pub struct FeedForward {
    #[module(rename = "W1")]
    gate: Parameter,
    #[module(rename = "W3")]
    up: Parameter,
    #[module(rename = "W2")]
    down: Parameter,
}

#[fx::forward]
impl FeedForward {
    fn forward(&self, x: &Tensor) -> Tensor {
        (x.matmul(&self.gate).silu() * x.matmul(&self.up)).matmul(&self.down)
    }
}

/// The root-mean-square norm.
#[derive(Module)]
pub struct Norm {
    gamma: Parameter,
}

#[fx::forward]
impl Norm {
    fn forward(&self, x: &Tensor) -> Tensor {
        fx::rms_norm(x, [WIDTH], &self.gamma, 1e-6)
    }
}
